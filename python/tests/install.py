#!/usr/bin/env python3
"""Runs `pip install .` in a clean virtual environment, and tries the wheels of a release: install.py SOURCE TOOLS.

TOOLS has the build's packages, so that no other version is fetched. The installed package has to work without the source tree, and includes the
program. tools/wheels.py makes the release's wheels; that for CPython 3.12 and later is tried with each such version that is here."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

source, tools = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(source / "tools"))
sys.dont_write_bytecode = True
import wheels  # noqa: E402


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, text=True, **options)


def output(*words, **options):
    return run(*words, stdout=subprocess.PIPE, **options).stdout


SORT = """
import numpy, pathlib, penstock
a = numpy.arange(1000, dtype="u8")[::-1].copy()
penstock.sort(a)
assert (a == numpy.arange(1000)).all()
folder = pathlib.Path(penstock.__file__).parent
assert (folder / "py.typed").exists()
print(penstock.__file__)
"""
# Loads the extension without NumPy, which is pinned for one version of CPython.
LOAD = """
import importlib.util, pathlib, sys, sysconfig
[path] = pathlib.Path(sysconfig.get_path("platlib"), "penstock").glob("_penstock*.so")
spec = importlib.util.spec_from_file_location("penstock._penstock", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.version)
"""


def listed_numpy(folder):
    lines = (source / "tools/python.txt").read_text().split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("numpy=="))
    end = next(i for i in range(start + 1, len(lines)) if not lines[i].startswith(" "))
    (folder / "numpy.txt").write_text("\n".join(lines[start:end]))
    return folder / "numpy.txt"


def try_wheel(folder, wheel):
    """Installs the wheel where only NumPy is, and sorts."""
    clean = folder / f"clean {wheel.parent.name}"
    venv.create(clean, with_pip=True)
    run(clean / "bin/pip", "install", "-q", "--require-hashes", "--only-binary", ":all:", "-r", listed_numpy(folder))
    run(clean / "bin/pip", "install", "-q", "--no-deps", wheel)
    installed = output(clean / "bin/python", "-c", SORT, cwd=folder)
    assert str(folder) in installed, installed
    assert "0.1.0" in output(clean / "bin/penstock", "--version", cwd=folder)
    # The C++ library is inside: the only shared libraries are the system's and, in pip's own wheel, the codecs'.
    [extension] = (clean / "lib").rglob("_penstock*.so")
    needed = output("readelf", "-d", extension)
    assert "libstdc++" not in needed and "libgcc_s" not in needed, needed
    return needed


def load(folder, python, wheel):
    """Installs the wheel for a version of CPython, and loads the extension."""
    clean = folder / pathlib.Path(python).parent.parent.name
    run(python, "-m", "venv", clean)
    run(clean / "bin/pip", "install", "-q", "--no-deps", wheel)
    assert "0.1.0" in output(clean / "bin/python", "-c", LOAD, cwd=folder)
    assert "0.1.0" in output(clean / "bin/penstock", "--version", cwd=folder)


with tempfile.TemporaryDirectory(prefix="penstock-python-") as folder:
    folder = pathlib.Path(folder)
    environment = dict(os.environ)
    if shutil.which("ccache"):
        environment["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    run(tools / "bin/pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder / "pip", source, env=environment)
    [built] = (folder / "pip").iterdir()
    print(built.name, built.stat().st_size)
    try_wheel(folder, built)

    run(sys.executable, source / "tools/wheels.py", folder / "release")
    for wheel in sorted((folder / "release").iterdir()):
        print(wheel.name, wheel.stat().st_size)
        assert "-manylinux_2_" in wheel.name, wheel.name
        if f"-cp{sys.version_info[0]}{sys.version_info[1]}-cp" in wheel.name:
            assert "libzstd" not in try_wheel(folder, wheel)
        elif "-abi3-" in wheel.name:
            for version in wheels.BUILT_BY["3.12"]:
                python = wheels.find_python(version)
                print(f"CPython {version}: {python or 'not here, and not tried'}")
                if python:
                    load(folder, python, wheel)
print("ok")
