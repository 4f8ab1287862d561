#!/usr/bin/env python3
"""Makes the wheels of a release: wheels.py FOLDER [VERSION...]. One is for CPython 3.11, one for 3.12 and all later versions (the stable ABI).

Their libraries are built in, as in the preset static, and their tag is auditwheel's, the oldest glibc on which they run. The packages of
build/python build them (tools/setup.sh check), with the Pythons that are on this machine: in the PATH, or pyenv's. VERSION (3.11 or 3.12) makes
this wheel alone. A wheel for which there is no Python with its headers is named and left out.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "build/python"
# The Pythons that can build each wheel.
BUILT_BY = {"3.11": ["3.11"], "3.12": ["3.12", "3.13", "3.14"]}
BUILD = "import json, sys; from scikit_build_core.build import build_wheel; print(build_wheel(sys.argv[1], json.loads(sys.argv[2])))"


def find_python(version):
    """A Python of this version that can build extensions, or None."""
    found = [shutil.which(f"python{version}"), *sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))]
    test = ("import os, sys, sysconfig; sys.exit('%d.%d' % sys.version_info[:2] != sys.argv[1] or "
            "not os.path.exists(sysconfig.get_path('include') + '/Python.h'))")
    for python in filter(None, found):
        if subprocess.run([python, "-c", test, version], stderr=subprocess.DEVNULL).returncode == 0:
            return str(python)
    return None


def make(python, version, folder):
    """Builds a wheel, and puts it into the folder with its tag."""
    [site] = PACKAGES.glob("lib/python3.*/site-packages")
    environment = dict(os.environ, PYTHONPATH=str(site), PATH=f"{PACKAGES / 'bin'}:{os.environ['PATH']}", CXXFLAGS=" ".join(
        (f"-ffile-prefix-map={ROOT}=.", "-D_FORTIFY_SOURCE=3", "-fstack-protector-strong", os.environ.get("CXXFLAGS", ""))))
    if shutil.which("ccache"):
        environment["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    # One folder for all versions: only the extension differs.
    build = ROOT / "build/wheel"
    build.mkdir(parents=True, exist_ok=True)
    (build / "CMakeCache.txt").unlink(missing_ok=True)
    settings = {"build-dir": str(build), "cmake.define.PENSTOCK_STATIC": "ON"}
    with tempfile.TemporaryDirectory(prefix="penstock-wheel-") as made:
        with open(build / "build.log", "w+") as log:
            if subprocess.run([python, "-c", BUILD, made, json.dumps(settings)], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                              stdout=log, stderr=subprocess.STDOUT).returncode != 0:
                log.seek(0)
                sys.exit(log.read() + f"wheels: the wheel for CPython {version} could not be built")
        [wheel] = pathlib.Path(made).glob("*.whl")
        tagged = subprocess.run([PACKAGES / "bin/python", "-m", "auditwheel", "repair", "-w", folder, wheel], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if tagged.returncode != 0:
            sys.exit(tagged.stdout + f"wheels: auditwheel refuses {wheel.name}")


def main():
    folder = pathlib.Path(sys.argv[1])
    if not (PACKAGES / "installed").exists():
        sys.exit("wheels: the packages that build them are missing: tools/setup.sh bench installs them")
    for version in sys.argv[2:] or BUILT_BY:
        python = next(filter(None, map(find_python, BUILT_BY[version])), None)
        if python:
            make(python, version, folder)
        else:
            print(f"wheels: no Python {' or '.join(BUILT_BY[version])} with its headers is here: the wheel for CPython {version}"
                  f"{' and later' if version == '3.12' else ''} is left out", file=sys.stderr)


if __name__ == "__main__":
    main()
