#!/usr/bin/env python3
"""The demonstration of ./run without arguments: generates a file several times larger than the sort's memory, sorts it,
checks the output against the input, and prints the plan beside the measurements. Leaves a page with the requests (if this
machine allows tracing) and the plan. Removes everything else, also after an error or Ctrl-C.

Usage: demo.py PENSTOCK [FOLDER]: the program, and the folder of the files (default: the working tree's build/): the
page is run-report.html, the others are in a new folder that is removed.
"""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

MIB = 1 << 20
GIB = 1 << 30
# Sizes of file and budget, largest first: the first that fits on the disk is used.
SCALES = ((2 * GIB, 256 * MIB), (1 * GIB, 128 * MIB), (512 * MIB, 64 * MIB))
# Input, temporaries and output, with some room to spare.
SPACE_FACTOR = 3.5


def choose_scale(folder):
    free = shutil.disk_usage(folder).free
    for file_bytes, budget_bytes in SCALES:
        if free >= SPACE_FACTOR * file_bytes:
            return file_bytes, budget_bytes
    raise SystemExit(f"run: {folder}: {free / GIB:.1f} GiB are free, {SPACE_FACTOR * SCALES[-1][0] / GIB:.1f} are needed")


def penstock(program, *arguments, good=(0,)):
    """Runs the program, which prints its own errors. Returns its output as JSON, or None."""
    with subprocess.Popen([program, *map(str, arguments)], stdout=subprocess.PIPE, text=True) as child:
        try:
            output = child.communicate()[0]
        except BaseException:
            child.terminate()
            child.wait()
            raise
    if child.returncode not in good:
        raise SystemExit(f"run: penstock {arguments[0]} ended with exit code {child.returncode}")
    return json.loads(output) if output else None


def show_plan(stats):
    predicted = stats["predicted"]
    rows = [("", "plan", "measured")]
    for what, field, show in (
        ("seconds", "seconds", lambda v: f"{v:.1f}"),
        ("passes", "passes", str),
        ("seeks", "seeks", str),
        ("MiB read", "bytes_read", lambda v: f"{v / MIB:.0f}"),
        ("MiB written", "bytes_written", lambda v: f"{v / MIB:.0f}"),
    ):
        plan = show(predicted[field]) if predicted.get(field) is not None else "-"
        rows.append((what, plan, show(stats[field])))
    for what, plan, measured in rows:
        print(f"  {what:<14}{plan:>12}{measured:>12}")
    peak, budget = stats["peak_rss_bytes"], stats["budget_bytes"]
    print(f"  peak memory {peak / MIB:.0f} MiB, budget {budget / MIB:.0f} MiB")
    if peak > budget:
        raise SystemExit("run: the sort used more memory than its budget")


def can_trace(program):
    """Whether tracing is allowed here: some containers forbid it."""
    probe = subprocess.run([program, "trace", "-q", "-o", "/dev/null", "--", "true"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    return probe.returncode == 0


def make_page(program, folder, stats, trace, page):
    """Makes the page of a sort: its plan beside the measurements, and its requests if there is a trace."""
    statistics = folder / "sort.json"
    statistics.write_text(json.dumps(stats))
    words = ["--stats", statistics, "-o", page]
    if trace:
        words += [trace, "--under", f"{folder}/"]
    penstock(program, "report", *words)
    print(f"  a page of it, to open in a browser: {page}")


def demonstrate(program, folder, page):
    file_bytes, budget_bytes = choose_scale(folder)
    unsorted, output = folder / "input.u64", folder / "sorted.u64"

    print(f"generating {file_bytes // MIB} MiB of uniform 64-bit numbers", flush=True)
    penstock(program, "gen", "--format", "u64", "--dist", "uniform", "--count", file_bytes // 8, "-o", unsorted)
    before = penstock(program, "check", unsorted, "--format", "u64", "--json", good=(0, 1))

    print(f"sorting them with {budget_bytes // MIB} MiB of memory", flush=True)
    sort = ["sort", unsorted, "-o", output, "--format", "u64", "-S", f"{budget_bytes}b", "-T", folder, "--json"]
    trace = folder / "sort.trace" if can_trace(program) else None
    if trace:
        sort = ["trace", "-q", "-o", trace, "--", program, *sort]
    stats = penstock(program, *sort)
    after = penstock(program, "check", output, "--format", "u64", "--json", good=(0, 1))
    show_plan(stats)

    if not after["sorted"]:
        raise SystemExit("run: the output is not sorted")
    for field in ("count", "checksum"):
        if before[field] != after[field]:
            raise SystemExit(f"run: {field} of input and output differ: {before[field]}, {after[field]}")
    print(f"  sorted, {after['count']} numbers, checksum {after['checksum']} as the input's")
    print("verified")
    make_page(program, folder, stats, trace, page)


def main():
    program = sys.argv[1]
    parent = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent / "build")
    parent.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="demo-", dir=parent) as folder:
        try:
            demonstrate(program, pathlib.Path(folder).resolve(), parent / "run-report.html")
        except KeyboardInterrupt:
            sys.exit(130)


if __name__ == "__main__":
    main()
