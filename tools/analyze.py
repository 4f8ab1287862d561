#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy, including clang's static analyser. Any finding is an error.

    tools/analyze.py [PATH...]    files or folders; without any the library and the program

It takes some ten seconds a file, so only ./check full runs it. Tests, benches and other folders are checked only if named.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/analysis"
LOOKED_AT = ("src", "cli")
# Tests, and the programs under test, which are wrong on purpose.
LEFT_OUT = re.compile(r"_test\.cc$|/target/")
HEADERS = f"^{re.escape(str(ROOT))}/(src|include|cli|generate|papers|bench|test|fuzz|examples|python)/"


def configure():
    """Lists the compiled files, and writes their commands for clang-tidy: each file by itself, without sanitizers or precompiled headers."""
    subprocess.run(["cmake", "--preset", "asan-ubsan", "-B", BUILD, "-DPENSTOCK_SANITIZE=", "-DPENSTOCK_UNITY=0", "-DPENSTOCK_BENCH=ON",
                    "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    files = {pathlib.Path(each["file"]) for each in json.loads((BUILD / "compile_commands.json").read_text())}
    return sorted(path for path in files if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build"))


def is_looked_at(path, named):
    if named:
        return any(path.is_relative_to(name) for name in named)
    return path.relative_to(ROOT).parts[0] in LOOKED_AT and not LEFT_OUT.search(str(path))


def look_at(path):
    """The output of clang-tidy if it found something or failed."""
    done = subprocess.run(["clang-tidy-19", "-p", BUILD, "--quiet", f"--header-filter={HEADERS}", path], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return "" if done.returncode == 0 else done.stdout or done.stderr


def main():
    if not shutil.which("clang-tidy-19"):
        raise SystemExit("analyze: clang-tidy-19 is missing: apt-get install clang-tidy-19")
    named = [pathlib.Path(word).resolve() for word in sys.argv[1:]]
    files = [path for path in configure() if is_looked_at(path, named)]
    if not files:
        raise SystemExit(f"analyze: nothing is compiled in {' '.join(sys.argv[1:])}")
    found = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as workers:
        for text in filter(None, workers.map(look_at, files)):
            found += 1
            print(text, end="", flush=True)
    print(f"{len(files)} files; something was found in {found}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
