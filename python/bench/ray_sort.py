#!/usr/bin/env python3
"""Compares penstock.ray with Ray's Dataset.sort, and with penstock on one machine: ray_sort.py [tables] [lines] [--quick] [--bytes 4G]
[--runs N] [--contender WORD]... [--folder .] [--costs]

`penstock-bench ray` runs it. Every contender has a process of its own, two processors, and half of the input's size as memory: for
penstock.ray two tasks with half of that each; for Dataset.sort an object store of that size, and the memory of its workers, which
nothing limits; for one machine the budget. Ray and its workers are started before the time is taken. Peaks are the sum of all
processes' proportional shares of physical memory (Pss), polled four times a second.

tables  Parquet to Parquet, not compressed, by a column of random numbers, with a second column of text. Dataset.sort by pull and by
        push shuffle; the faster one counts.
lines   Text to text. Easier for Dataset.sort: it writes Parquet, because it has no writer of lines.

--contender  Only contenders whose names contain the word ("penstock.ray", "push"), for runs of a few minutes at a time. Each run is
        reported on the standard error when it ends; divide the medians of contenders that do not run together.
--costs  Instead, the processor seconds of a gigabyte (10^9 bytes) in each stage, for penstock/ray/model.py: of numbers, lines and
        tables, by one task at a time in this process.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

MIB = 1 << 20
FILES = 8
PROCESSORS = 2


def tell(**line):
    print(json.dumps(line), flush=True)


# ---- Inputs.


def words(rng, count):
    digits = np.frombuffer(b"0123456789abcdef", "u1")
    return digits[rng.integers(0, 16, (count, 96), "u1")]


def write_tables(folder, size):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    rows = size // FILES // 104
    for number in range(FILES):
        with pq.ParquetWriter(folder / f"{number}.parquet", pa.schema([("key", pa.int64()), ("text", pa.string())]), compression="none",
                              use_dictionary=False) as writer:
            for first in range(0, rows, 1 << 17):
                count = min(1 << 17, rows - first)
                text = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(np.arange(0, 96 * count + 1, 96, "i4")),
                                                                  pa.py_buffer(words(rng, count).tobytes())])
                writer.write_table(pa.table({"key": rng.integers(0, 2**62, count), "text": text}))


def write_lines(folder, size):
    rng = np.random.default_rng(2)
    rows = size // FILES // 97
    for number in range(FILES):
        with open(folder / f"{number}.txt", "wb") as file:
            for first in range(0, rows, 1 << 17):
                block = np.full((min(1 << 17, rows - first), 97), ord("\n"), "u1")
                block[:, :96] = words(rng, len(block))
                file.write(block.tobytes())


# ---- Contenders: each sorts folder/in into folder/out within the given memory.


def inputs(folder):
    return [str(path) for path in sorted((folder / "in").iterdir())]


def start_ray(folder, memory):
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=PROCESSORS, object_store_memory=max(80 * MIB, memory), include_dashboard=False, log_to_driver=False,
             _temp_dir=tempfile.mkdtemp(prefix="pr-"))

    @ray.remote(num_cpus=1)
    def begin():
        import pyarrow  # noqa: F401
        time.sleep(0.5)

    ray.get([begin.remote() for _ in range(PROCESSORS)])


def by_penstock_ray(kind, folder, memory):
    import penstock.ray

    start_ray(folder, 512 * MIB)
    yield
    more = dict(by="key", compression="none") if kind == "tables" else {}
    manifest = penstock.ray.sort(inputs(folder), folder / "out", memory_per_task=memory // PROCESSORS, temp=str(folder), **more)
    print(manifest.stages, file=sys.stderr)


def by_dataset(kind, folder, memory, strategy):
    import ray
    from ray.data.context import DataContext, ShuffleStrategy

    # Without aiohttp, threads of Ray that import it at the same time find half of a module.
    sys.modules["fsspec.implementations.http"] = None
    start_ray(folder, memory)
    context = DataContext.get_current()
    context.shuffle_strategy = ShuffleStrategy[strategy]
    context.enable_progress_bars = False
    yield
    data = ray.data.read_parquet(inputs(folder)) if kind == "tables" else ray.data.read_text(inputs(folder))
    data.sort("key" if kind == "tables" else "text").write_parquet(str(folder / "out"), compression="none")


def by_penstock(kind, folder, memory):
    import penstock

    yield
    if kind == "tables":
        (folder / "out").mkdir()
        penstock.sort_table(inputs(folder), folder / "out/all.parquet", by="key", memory=memory, threads=PROCESSORS, temp=folder,
                            compression="none")
    else:
        (folder / "out").mkdir()
        penstock.sort_file(inputs(folder), folder / "out/all.txt", memory=memory, threads=PROCESSORS, temp=folder)


CONTENDERS = {
    "penstock.ray": by_penstock_ray,
    "Dataset.sort, pull": lambda *given: by_dataset(*given, "SORT_SHUFFLE_PULL_BASED"),
    "Dataset.sort, push": lambda *given: by_dataset(*given, "SORT_SHUFFLE_PUSH_BASED"),
    "penstock, one machine": by_penstock,
}


def work(name, kind, folder, memory):
    steps = CONTENDERS[name](kind, folder, memory)
    next(steps)
    begin = time.perf_counter()
    for _ in steps:
        pass
    print("seconds", time.perf_counter() - begin, flush=True)


# ---- Measurements.


def processes_of(parent):
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass
    found, last = {parent}, 0
    while len(found) != last:
        last = len(found)
        found |= {process for process, of in parents.items() if of in found}
    return found


def memory_of(processes):
    total = 0
    for process in processes:
        try:
            text = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0) << 10
    return total


def measure(name, kind, folder, memory):
    """Returns the seconds and the peak, or an error."""
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
            [sys.executable, __file__, "--work", name, kind, folder, str(memory)], stdout=subprocess.PIPE, stderr=said, text=True) as child:
        peak, over = 0, threading.Event()

        def look():
            nonlocal peak
            while not over.wait(0.25):
                peak = max(peak, memory_of(processes_of(child.pid)))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            output = child.communicate(timeout=1800)[0]
        finally:
            over.set()
            thread.join()
            if child.poll() is None:
                child.kill()
        said.seek(0)
        errors = said.read().strip().splitlines()
    told = [line for line in output.splitlines() if line.startswith("seconds ")]
    for line in errors:
        if line.startswith("{'sample'"):
            print(f"{name}, {kind}: {line}", file=sys.stderr)
    if child.returncode or not told:
        return None, peak, errors[-1][:200] if errors else f"exit code {child.returncode}"
    return float(told[-1].split()[1]), peak, ""


# ---- Processor seconds.


def write_numbers(folder, size):
    rng = np.random.default_rng(3)
    for number in range(FILES):
        rng.integers(0, 2**64, size // FILES // 8, "u8").tofile(folder / f"{number}.u64")


def tell_costs(kind, folder, memory):
    import penstock.ray

    size = sum(os.path.getsize(path) for path in inputs(folder)) / 1e9
    began = {}
    more = {"tables": dict(by="key", compression="none"), "numbers": dict(format="u64"), "lines": {}}[kind]
    penstock.ray.sort(inputs(folder), folder / "out", address="local", tasks_per_node=1, memory_per_task=memory, temp=str(folder),
                      progress=lambda phase, *_: began.setdefault(phase, time.process_time()), **more)
    for stage, seconds in (("distribute", began["gather"] - began["distribute"]), ("gather", time.process_time() - began["gather"])):
        tell(what=f"{kind}: processor seconds of a gigabyte, {stage}", unit="s", samples=[seconds / size])


def main():
    if sys.argv[1:2] == ["--work"]:
        name, kind, folder, memory = sys.argv[2:]
        return work(name, kind, pathlib.Path(folder), int(memory))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="tables, lines")
    parser.add_argument("--bytes", default="4G")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--contender", action="append", default=[], metavar="WORD")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--costs", action="store_true")
    given = parser.parse_args()
    size = 64 * MIB if given.quick else int(given.bytes.rstrip("GM")) << {"G": 30, "M": 20}[given.bytes[-1]]
    memory = max(size // 2, 800 * MIB)
    contenders = [name for name in CONTENDERS if not given.contender or any(word in name for word in given.contender)]
    writers = {"tables": write_tables, "lines": write_lines} | ({"numbers": write_numbers} if given.costs else {})
    for kind in [each for each in given.kinds if each != "ray"] or writers:
        seconds = {name: [] for name in contenders}
        peaks = {name: [] for name in contenders}
        with tempfile.TemporaryDirectory(prefix="ray-bench-", dir=given.folder) as scratch:
            folder = pathlib.Path(scratch).resolve()
            (folder / "in").mkdir()
            writers[kind](folder / "in", size)
            if given.costs:
                tell_costs(kind, folder, memory)
                continue
            os.sync()
            for _ in range(given.runs):
                for name in contenders:
                    took, peak, problem = measure(name, kind, folder, memory)
                    print(f"{kind}: {name}: {problem or f'{took:.1f} s'}, {peak >> 20} MiB at the peak", file=sys.stderr, flush=True)
                    shutil.rmtree(folder / "out", ignore_errors=True)
                    if took is None:
                        tell(what=f"{kind}: {name}: {problem}", unit="", samples=[0])
                        continue
                    seconds[name].append(took)
                    peaks[name].append(peak)
        for name in contenders:
            if seconds[name]:
                tell(what=f"{kind}: {name}", unit="s", samples=seconds[name])
                tell(what=f"{kind}: {name}, peak of all processes", unit="B", samples=peaks[name])
        middle = {name: statistics.median(took) for name, took in seconds.items() if took}
        ours = middle.get("penstock.ray")
        rivals = [took for name, took in middle.items() if name.startswith("Dataset")]
        if ours and rivals:
            tell(ratio=f"vs_dataset_sort_{kind}", value=min(rivals) / ours)
        if ours and "penstock, one machine" in middle:
            tell(ratio=f"vs_one_machine_{kind}", value=middle["penstock, one machine"] / ours)
    return None


if __name__ == "__main__":
    main()
