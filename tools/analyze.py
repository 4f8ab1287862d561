#!/usr/bin/env python3
"""clang-tidy with the checks of .clang-tidy, clang's static analyser among them. What it finds is an error.

    tools/analyze.py [PATH...]    files or folders; without any the library and the program

It takes some ten seconds a file, so only ./check full has it. Tests, benches and others are looked at where they are named.
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
# Tests, and the programs that they look at, which do wrong by intent.
LEFT_OUT = re.compile(r"_test\.cc$|/target/")
HEADERS = f"^{re.escape(str(ROOT))}/(src|include|cli|generate|papers|bench|test|fuzz|examples|python)/"


def configure():
    """The files that are compiled. How, is written down for clang-tidy: each alone, without sanitizers or compiled headers."""
    subprocess.run(["cmake", "--preset", "asan-ubsan", "-B", BUILD, "-DPENSTOCK_SANITIZE=", "-DPENSTOCK_UNITY=0", "-DPENSTOCK_BENCH=ON",
                    "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    files = {pathlib.Path(each["file"]) for each in json.loads((BUILD / "compile_commands.json").read_text())}
    return sorted(path for path in files if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build"))


def is_looked_at(path, named):
    if named:
        return any(path.is_relative_to(name) for name in named)
    return path.relative_to(ROOT).parts[0] in LOOKED_AT and not LEFT_OUT.search(str(path))


def look_at(path):
    """What clang-tidy says where it found something, or could not look."""
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
