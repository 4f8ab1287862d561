"""Runs a program with an empty folder as its argument, and fails if it leaves anything there."""

import pathlib
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    code = subprocess.run([*sys.argv[1:], folder]).returncode
    left = [path.name for path in pathlib.Path(folder).iterdir()]
sys.exit(code or (f"left behind: {left}" if left else 0))
