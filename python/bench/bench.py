#!/usr/bin/env python3
"""Compares the package with NumPy, DuckDB and polars: bench.py sum|arrays|files|tables [--quick] [--runs N] [--folder .]

`penstock-bench python` runs all four parts. Each prints lines of JSON: {"what", "unit", "samples"} for measurements, {"ratio",
"value"} of medians (1.0 is equal, more means that penstock is faster), and {"hash"} of results. Contenders take turns; their
results are compared. penstock is found by PYTHONPATH, as build/release/python; DuckDB and polars are those of build/rivals.

sum     s.array.sum() of a file of u64, compared with numpy.memmap: with nothing of the file in the page cache, and with all of it. Cold,
        memmap leaves the file in the page cache, and penstock keeps 16 MiB. Cached, the job is the same: both map it.
arrays  sort() and argsort() of u64 in memory that was touched before, one thread each. "best" is the fastest of NumPy's kinds
        (heapsort is never that). Harder for penstock: its argsort() is stable, and NumPy's default is not.
files   A file of u64 four times larger than the memory, two threads, each contender in a process of its own, from its start to its
        end. Easier for penstock: it reads and writes plain numbers, they Parquet (not compressed, which they read fastest), and
        nothing here enforces their memory limit. Harder for penstock: its output is on the disk when it ends.
tables  Parquet in a memory cgroup: see tables.py.
"""

import argparse
import filecmp
import json
import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import tables

import penstock

COLUMNS = tables.SOURCE / "bench/rivals/external/columns.py"
RIVALS = {"DuckDB": "duckdb", "polars": "polars"}
MIB = 1 << 20


def tell(**line):
    print(json.dumps(line), flush=True)


def tell_seconds(what, samples):
    tell(what=what, unit="s", samples=samples)


def tell_problem(what, problem):
    tell(what=f"{what}: {problem}", unit="", samples=[0])


def tell_ratio(name, theirs, ours):
    tell(ratio=name, value=statistics.median(theirs) / statistics.median(ours))


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def touch_machine(size):
    """Touches the machine's memory: in a virtual machine the host serves the first touch, which takes many times longer than later ones."""
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    mmap.mmap(-1, max(MIB, min(size, free // 4 * 3)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def write_numbers(path, count):
    rng = np.random.default_rng(1)
    with open(path, "wb") as file:
        for first in range(0, count, MIB):
            rng.integers(0, 2**64, min(MIB, count - first), "u8").tofile(file)
        file.flush()
        os.fsync(file.fileno())


# ---- The sum of a file.


def drop_cache(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fill_cache(path):
    with open(path, "rb", buffering=0) as file:
        piece = bytearray(MIB)
        while file.readinto(piece):
            pass


def sum_of_stream(path):
    with penstock.open(path, "<u8") as s:
        return int(s.array.sum())


def sum_of_memmap(path):
    return int(np.memmap(path, "<u8", "r").sum())


def run_sum(folder, quick, runs):
    path = folder / "numbers.u64"
    for name, prepare, size in (("cold", drop_cache, 2048 * MIB), ("cached", fill_cache, 1024 * MIB)):
        write_numbers(path, (16 * MIB if quick else size) // 8)
        contenders = {"s.array.sum()": sum_of_stream, "numpy.memmap": sum_of_memmap}
        seconds = {who: [] for who in contenders}
        sums = set()
        for _ in range(runs or 5):
            for who, work in contenders.items():
                prepare(path)
                seconds[who].append(timed(lambda: sums.add(work(path))))
        [total] = sums
        tell(hash=total)
        for who in contenders:
            tell_seconds(f"sum of {path.stat().st_size >> 20} MiB, {name}, {who}", seconds[who])
        tell_ratio(f"sum_vs_memmap_{name}", seconds["numpy.memmap"], seconds["s.array.sum()"])
    path.unlink()


# ---- Arrays in memory.


def run_arrays(folder, quick, runs):
    numbers = np.random.default_rng(1).integers(0, 2**64, 1 << (16 if quick else 25), "u8")
    a = numbers.copy()
    contenders = {"penstock": (lambda: penstock.sort(a), lambda: penstock.argsort(a)),
                  "NumPy": (lambda: a.sort(), lambda: a.argsort()),
                  "NumPy, stable": (lambda: a.sort(kind="stable"), lambda: a.argsort(kind="stable"))}
    expected = np.sort(numbers)
    for number, name in enumerate(("sort", "argsort")):
        seconds = {who: [] for who in contenders}
        for _ in range(runs or 3):
            for who, works in contenders.items():
                np.copyto(a, numbers)
                places = []
                seconds[who].append(timed(lambda: places.append(works[number]())))
                assert np.array_equal(a if name == "sort" else a[places[0]], expected), f"{name} of {who} is wrong"
        for who in contenders:
            tell_seconds(f"{name} of {len(a)} u64, {who}", seconds[who])
        tell_ratio(f"{name}_vs_numpy", seconds["NumPy"], seconds["penstock"])
        best = min(("NumPy", "NumPy, stable"), key=lambda who: statistics.median(seconds[who]))
        tell_ratio(f"{name}_vs_numpy_best", seconds[best], seconds["penstock"])
    tell(hash=int(np.bitwise_xor.reduce(expected[::1009])))


# ---- Files of numbers.


def run_files(folder, quick, runs):
    source, packed = folder / "numbers.u64", folder / "numbers.parquet"
    memory = (64 if quick else 256) * MIB
    size = (16 if quick else 1024) * MIB
    outputs = {who: folder / f"sorted-{who}" for who in ("penstock", *RIVALS)}
    write_numbers(source, size // 8)
    commands = {"penstock": [sys.executable, __file__, "--sort-file", source, outputs["penstock"], str(memory), folder]}
    if not tables.RIVALS.exists():
        for who in RIVALS:
            tell_problem(f"sort of a file, {who}", "not installed (tools/setup.sh bench)")
    else:
        subprocess.run([tables.RIVALS, COLUMNS, "pack", source, packed], check=True)
        commands |= {who: [tables.RIVALS, COLUMNS, word, packed, outputs[who], str(memory), "2", folder, "120"] for who, word in RIVALS.items()}
    seconds = {who: [] for who in commands}
    failed = {}
    for turn in range(runs or 3):
        for who, words in commands.items():
            if who in failed:
                continue
            touch_machine(memory + 3 * size)
            start = time.perf_counter()
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
            seconds[who].append(time.perf_counter() - start)
            if done.returncode != 0:
                failed[who] = done.stdout.strip() or f"ended with {done.returncode} after {seconds[who][-1]:.0f} s"
                continue
            if turn == 0 and who == "penstock":
                checked = penstock.check(outputs[who], format="u64")
                assert checked.sorted and checked.count == size // 8
                tell(hash=int(checked.checksum, 16) % 2**64)
            elif turn == 0:
                unpacked = folder / "unpacked.u64"
                subprocess.run([tables.RIVALS, COLUMNS, "unpack", outputs[who], unpacked], check=True)
                if not filecmp.cmp(unpacked, outputs["penstock"], shallow=False):
                    failed[who] = "its output is another one's"
                unpacked.unlink()
            if who != "penstock":
                outputs[who].unlink()
    for who in commands:
        if who in failed:
            tell_problem(f"sort of a file, {who}", failed[who])
            continue
        tell_seconds(f"sort of a file of {size >> 20} MiB with {memory >> 20} MiB, {who}", seconds[who])
        if who != "penstock" and "penstock" not in failed:
            tell_ratio(f"sort_file_vs_{RIVALS[who]}", seconds[who], seconds["penstock"])
    assert "penstock" not in failed, failed
    for path in (source, packed, *outputs.values()):
        path.unlink(missing_ok=True)


# ---- Tables.


def run_tables(folder, quick, runs):
    source = folder / "table.parquet"
    memory, size = (256, 16) if quick else (512, 512)
    tables.generate(source, size * MIB)
    contenders = [who for who in tables.CONTENDERS if who == "penstock" or tables.RIVALS.exists()]
    rows = {who: [] for who in contenders}
    failed = {} if len(rows) > 1 else {who: "not installed (tools/setup.sh bench)" for who in tables.CONTENDERS if who != "penstock"}
    for _ in range(runs or 3):
        for who in contenders:
            if who in failed:
                continue
            touch_machine((memory + 3 * size) * MIB)
            try:
                row = tables.measure(who, source, folder, memory * MIB)
            except OSError as error:
                return tell_problem("tables", f"no memory cgroup can be made: {error}")
            if row["failed"]:
                failed[who] = row["failed"]
            rows[who].append(row)
    source.unlink()
    what = f"sort of a table of {size} MiB with {memory} MiB"
    ours = [row["seconds"] for row in rows["penstock"]]
    for who in contenders:
        if who not in failed:
            samples = [row["seconds"] for row in rows[who]]
            tell_seconds(f"{what}, {who}", samples)
            tell(what=f"{what}, {who}, peak", unit="MiB", samples=[row["peak_bytes"] / MIB for row in rows[who]])
            if who != "penstock" and "penstock" not in failed:
                tell_ratio(f"table_vs_{who}", samples, ours)
    for who, problem in failed.items():
        tell_problem(f"{what}, {who}", problem)
    return None


PARTS = {"sum": run_sum, "arrays": run_arrays, "files": run_files, "tables": run_tables}


def main():
    if sys.argv[1:2] == ["--sort-file"]:
        source, target, memory, folder = sys.argv[2:]
        penstock.sort_file(source, target, format="u64", memory=int(memory), threads=2, temp=folder)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--quick", action="store_true", help="little of everything, once: the figures mean nothing")
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--folder", default=".")
    given = parser.parse_args()
    PARTS[given.part](pathlib.Path(given.folder).resolve(), given.quick, given.runs or (1 if given.quick else 0))


if __name__ == "__main__":
    main()
