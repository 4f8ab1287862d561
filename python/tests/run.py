#!/usr/bin/env python3
"""Runs the tests of the package, like pytest, and reports each case to ./check. Arguments are pytest's."""

import os
import pathlib
import sys

import pytest

here = str(pathlib.Path(__file__).parent)
# A test that hangs prints its stack.
arguments = ["-q", "-W", "error", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=100", "--rootdir", here]
folder = os.environ.get("GTEST_OUTPUT", "").removeprefix("xml:")
if folder:
    name = "python_ray" if sys.argv[1:] == [os.path.join(here, "test_ray.py")] else "python"
    arguments += ["--junitxml", f"{folder}{name}.xml"]
paths = [] if any(os.path.exists(word.partition("::")[0]) for word in sys.argv[1:]) else [here]
sys.exit(pytest.main([*arguments, *sys.argv[1:], *paths]))
