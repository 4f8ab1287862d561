#!/usr/bin/env python3
"""Measures the branches of each layer that its own tests take, and the lines of each parser that its fuzz target reaches.

    tools/coverage.py [LAYER...]            all layers, or the named ones
    tools/coverage.py --parsers [SECONDS]   each target except sort_fuzz, by default for a minute

Builds the tests of the layers (in build/coverage), or the fuzz targets (in build/coverage-fuzz), with clang's coverage, runs them,
and prints a table. For a layer it has the number of branches (if, &&, ?:, loops, cases), and how many of them its tests took; a branch
counts once for all instances of a template. For a parser it has its lines, and how many of them its target reached.
Needs Debian's llvm-19 in addition to the packages of ./check.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import layer_list

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/coverage"
FOLDERS = layer_list.folders()
FLAGS = "-O1 -fprofile-instr-generate -fcoverage-mapping"

# The files of each fuzz target that read untrusted data (and write them, if one file does both).
PARSERS = {
    "keys": ("src/items/format.cc", "src/items/fields.cc", "src/items/keys/field_order.cc", "src/items/keys/text/key_words.cc",
             "src/items/keys/text/key_place.cc", "src/items/keys/text/key_bytes.cc", "src/items/keys/text/text_order.cc"),
    "rows": ("src/items/rows.cc",),
    "words": ("cli/common/size.cc", "cli/sort/gnu_options.cc", "cli/sort/sort_words.cc", "src/interfaces/api/profile_json.cc",
              "src/io/emulation.cc"),
    "source": ("src/files/source/decompress.cc", "src/files/source/gzip.cc", "src/files/source/bzip2.cc", "src/files/source/lz4.cc", "src/files/source/xz.cc",
               "src/files/source/zstd.cc"),
    "journal": ("src/files/sort/resume/journal.cc", "src/files/sort/resume/resume_journal.cc"),
    "trace": ("src/trace/format/format.cc", "src/trace/follow/convert.cc", "src/trace/follow/descriptors.cc"),
    "import": ("src/trace/import/import.cc", "src/trace/import/import_iolog.cc", "src/trace/import/import_strace.cc",
               "src/trace/import/log_source.cc", "src/trace/import/strace_changes.cc",
               "src/trace/import/strace_files.cc", "src/trace/import/strace_head.cc", "src/trace/import/strace_line.cc"),
}


def output_of(*words):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True).stdout


def configure(folder, *options):
    subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_FLAGS_DEBUG={FLAGS}",
                    "-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19", "-DPENSTOCK_UNITY=12", "-DPENSTOCK_BENCH=OFF",
                    "-DPENSTOCK_PYTHON=OFF", *options,
                    *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else [])],
                   stdout=subprocess.DEVNULL, check=True)


def build(layers):
    configure(BUILD, "-DPENSTOCK_TEST_OPTIMIZATION=-O0")
    programs = {layer: [test["name"] for test in tests(BUILD) if re.fullmatch(rf"{layer}_\w+_test", test["name"])] for layer in layers}
    subprocess.run(["cmake", "--build", BUILD, "--target", *sum(programs.values(), [])], stdout=subprocess.DEVNULL, check=True)
    commands = {test["name"]: test.get("command") for test in tests(BUILD)}  # commands are known after the build
    return {layer: [commands[name] for name in names] for layer, names in programs.items()}


def tests(folder):
    return json.loads(output_of("ctest", "--test-dir", folder, "--show-only=json-v1"))["tests"]


def files_of(profile, raw, programs):
    """The coverage of each file of the programs by clang's tools, from the raw profiles `raw`."""
    output_of("llvm-profdata-19", "merge", "-o", profile, *raw)
    objects = sum((["-object", program] for program in programs), [])[1:]
    return json.loads(output_of("llvm-cov-19", "export", "-summary-only", "-instr-profile", profile, *objects))["data"][0]["files"]


def reached(folder, target, command, seconds):
    """The lines of the parser, the number that its target reached, and the number of inputs."""
    for old in folder.glob(f"{target}-*.profraw"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as scratch:
        done = subprocess.run([*command, "-runs=-1", f"-max_total_time={seconds}", "-print_final_stats=1"], cwd=scratch,
                              env=dict(os.environ, LLVM_PROFILE_FILE=str(folder / f"{target}-%4m.profraw")),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode != 0:
        raise SystemExit(f"coverage: {target}_fuzz failed\n{done.stderr[-2000:]}")
    inputs = int(re.search(r"number_of_executed_units: *(\d+)", done.stderr).group(1))
    files = files_of(folder / f"{target}.profile", folder.glob(f"{target}-*.profraw"), command[:1])
    lines = [file["summary"]["lines"] for file in files if file["filename"] in {str(ROOT / name) for name in PARSERS[target]}]
    return sum(each["count"] for each in lines), sum(each["covered"] for each in lines), inputs


def print_parsers(seconds):
    folder = BUILD.with_name("coverage-fuzz")
    configure(folder, "-DPENSTOCK_FUZZ=ON")
    subprocess.run(["cmake", "--build", folder, "--target", *(f"{target}_fuzz" for target in PARSERS)], stdout=subprocess.DEVNULL,
                   check=True)
    # The commands of ctest, with dictionaries and examples.
    commands = {test["name"]: test.get("command") for test in tests(folder)}
    print("| target | inputs | lines of the parser | reached | |\n|---|---|---|---|---|")
    for target in PARSERS:
        count, covered, inputs = reached(folder, target, commands[f"{target}_fuzz"], seconds)
        print(f"| `{target}_fuzz` | {inputs:,} | {count} | {covered} | {100 * covered / count:.0f} % |", flush=True)


def taken(layer, commands):
    """The branches of the layer, and how many its tests took."""
    profile = BUILD / f"{layer}.profile"
    for old in BUILD.glob(f"{layer}-*.profraw"):
        old.unlink()
    # Each process adds to one of four files.
    environment = dict(os.environ, LLVM_PROFILE_FILE=str(BUILD / f"{layer}-%4m.profraw"), PENSTOCK_TRIALS="4")
    for command in commands:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            print(f"coverage: {pathlib.Path(command[0]).name} failed\n{done.stdout.decode(errors='replace')[-2000:]}", file=sys.stderr)
    files = files_of(profile, BUILD.glob(f"{layer}-*.profraw"), [command[0] for command in commands])
    ours = [file["summary"]["branches"] for file in files if file["filename"].startswith(f"{ROOT}/{FOLDERS[layer]}/")
            and not re.search(r"_(test|fixture|suite)\.(cc|h)$|/target/", file["filename"])]
    return sum(branches["count"] for branches in ours), sum(branches["covered"] for branches in ours)


def main():
    missing = [tool for tool in ("clang++-19", "llvm-profdata-19", "llvm-cov-19") if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"coverage: {', '.join(missing)} missing: apt-get install clang-19 llvm-19")
    if sys.argv[1:2] == ["--parsers"]:
        return print_parsers(int(sys.argv[2]) if len(sys.argv) > 2 else 60)
    layers = sys.argv[1:] or list(FOLDERS)
    print("| layer | branches | taken | |\n|---|---|---|---|")
    for layer, commands in build(layers).items():
        if commands:
            count, covered = taken(layer, commands)
            print(f"| {layer} | {count} | {covered} | {100 * covered / max(count, 1):.0f} % |", flush=True)


if __name__ == "__main__":
    main()
