#!/usr/bin/env python3
"""Which branches of each layer its own tests take.

    tools/coverage.py [LAYER...]     all layers, unless some are named

Builds the tests of the layers with clang's coverage, in build/coverage, runs those of each layer, and prints a table: how many ways out
of conditions (if, &&, ?:, loops, cases) the layer has, and how many of them its tests took. A way out counts once, however many
instances a template has. Needs Debian's llvm-19 beside what ./check needs.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/coverage"
FLAGS = "-O1 -fprofile-instr-generate -fcoverage-mapping"


def output_of(*words):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True).stdout


def build(layers):
    subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_FLAGS_DEBUG={FLAGS}",
                    "-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19", "-DPENSTOCK_UNITY=12", "-DPENSTOCK_BENCH=OFF",
                    "-DPENSTOCK_PYTHON=OFF", "-DPENSTOCK_TEST_OPTIMIZATION=-O0",
                    *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else [])],
                   stdout=subprocess.DEVNULL, check=True)
    programs = {layer: [test["name"] for test in tests() if re.fullmatch(rf"{layer}_\w+_test", test["name"])] for layer in layers}
    subprocess.run(["cmake", "--build", BUILD, "--target", *sum(programs.values(), [])], stdout=subprocess.DEVNULL, check=True)
    commands = {test["name"]: test.get("command") for test in tests()}  # known once they are built
    return {layer: [commands[name] for name in names] for layer, names in programs.items()}


def tests():
    return json.loads(output_of("ctest", "--test-dir", BUILD, "--show-only=json-v1"))["tests"]


def taken(layer, commands):
    """Ways out of conditions in the layer, and how many its tests took."""
    profile = BUILD / f"{layer}.profile"
    for old in BUILD.glob(f"{layer}-*.profraw"):
        old.unlink()
    # Each process adds to one of four files.
    environment = dict(os.environ, LLVM_PROFILE_FILE=str(BUILD / f"{layer}-%4m.profraw"), PENSTOCK_TRIALS="4")
    for command in commands:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            print(f"coverage: {pathlib.Path(command[0]).name} failed\n{done.stdout.decode(errors='replace')[-2000:]}", file=sys.stderr)
    output_of("llvm-profdata-19", "merge", "-o", profile, *BUILD.glob(f"{layer}-*.profraw"))
    objects = sum((["-object", command[0]] for command in commands), [])[1:]
    files = json.loads(output_of("llvm-cov-19", "export", "-summary-only", "-instr-profile", profile, *objects))["data"][0]["files"]
    ours = [file["summary"]["branches"] for file in files if file["filename"].startswith(f"{ROOT}/src/{layer}/")
            and not re.search(r"_(test|fixture|suite)\.(cc|h)$|/target/", file["filename"])]
    return sum(branches["count"] for branches in ours), sum(branches["covered"] for branches in ours)


def main():
    missing = [tool for tool in ("clang++-19", "llvm-profdata-19", "llvm-cov-19") if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"coverage: {', '.join(missing)} missing: apt-get install clang-19 llvm-19")
    layers = sys.argv[1:] or re.findall(r"^\| `src/(\w+)/`", (ROOT / "src/README.md").read_text(), re.M)
    print("| layer | branches | taken | |\n|---|---|---|---|")
    for layer, commands in build(layers).items():
        if commands:
            count, covered = taken(layer, commands)
            print(f"| {layer} | {count} | {covered} | {100 * covered / max(count, 1):.0f} % |", flush=True)


if __name__ == "__main__":
    main()
