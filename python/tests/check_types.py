#!/usr/bin/env python3
"""Runs mypy --strict and pyright on the package with its stub, and on typed_uses.py: check_types.py PACKAGES SOURCE.

PACKAGES is the folder that contains penstock. Without pyright (npm's, in build/node: tools/setup.sh check) it prints so, and goes on."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

packages, source = (pathlib.Path(word).resolve() for word in sys.argv[1:])
uses = source / "python/tests/typed_uses.py"
pyright = source / "build/node/node_modules/pyright/index.js"


def check(*words):
    done = subprocess.run([str(word) for word in words], cwd=packages, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, end="", flush=True)
    return done.returncode == 0


with tempfile.TemporaryDirectory(prefix="penstock-types-") as folder:
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file", source / "pyproject.toml", "--cache-dir", folder]
    good = [check(*mypy, "-p", "penstock"), check(*mypy, "--warn-unused-ignores", uses)]
    if pyright.exists():
        settings = pathlib.Path(folder) / "pyrightconfig.json"
        # pyright accepts no absolute paths.
        near = [os.path.relpath(path, folder) for path in (packages, packages / "penstock", uses)]
        settings.write_text(json.dumps({"extraPaths": near[:1], "include": near[1:]}))
        good.append(check("node", pyright, "--pythonpath", sys.executable, "-p", settings))
    else:
        print("pyright is not there: tools/setup.sh check")
sys.exit(0 if all(good) else 1)
