#!/usr/bin/env python3
"""Runs the tests of the package, as pytest does, and reports each case to ./check. Arguments are pytest's."""

import os
import pathlib
import sys

import pytest

arguments = ["-q", "-W", "error", "-p", "no:cacheprovider", "--rootdir", str(pathlib.Path(__file__).parent)]
folder = os.environ.get("GTEST_OUTPUT", "").removeprefix("xml:")
if folder:
    arguments += ["--junitxml", folder + "python.xml"]
sys.exit(pytest.main([*arguments, *(sys.argv[1:] or [str(pathlib.Path(__file__).parent)])]))
