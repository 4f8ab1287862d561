#!/usr/bin/env python3
"""Sorts Parquet within a memory cgroup, compared with DuckDB, polars and DataFusion: tables.py [--bytes 4G] [--memory 512M] [--folder .]

Rows of a few hundred bytes: a key of Zipf's law with nulls, texts, numbers. Each contender is a process in a cgroup of 1.25 times the
budget, with that budget as its own limit, two threads, and the same folder for temporaries. It sorts by (name, zipf descending) and
writes Parquet with the same compression. The result is which contenders ended, in how many seconds, and the largest memory that the
kernel counted; with --json as an object. The others are those of build/rivals (tools/setup.sh bench), pyarrow that of build/python
(tools/setup.sh check); penstock is found by PYTHONPATH, as build/dev/python.

Easier for the others: they may put equal keys in any order, penstock keeps theirs. Easier for penstock: its output need not fit the
vectors of a query engine. The page cache counts to a cgroup, and the kernel releases it when the cgroup is full.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).parents[2]
PYTHON = SOURCE / "build/python/bin/python"
RIVALS = SOURCE / "build/rivals/bin/python"
# Version 2 of cgroups, or version 1.
V2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
GROUPS = pathlib.Path("/sys/fs/cgroup" if V2 else "/sys/fs/cgroup/memory")
LIMIT, PEAK, KILLED = ("memory.max", "memory.peak", "memory.events") if V2 else (
    "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control")


def size_of(text):
    return int(float(text[:-1]) * 1024 ** (" KMG".index(text[-1]))) if text[-1] in "KMG" else int(text)


def generate(path, size):
    """Writes batches of rows until the file has `size` bytes."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    rows = 200_000
    writer = None
    while not path.exists() or writer is None or os.path.getsize(path) < size:
        keys = rng.zipf(1.2, rows).clip(max=1 << 40)
        noise = rng.integers(0, 1 << 62, (4, rows))
        table = pa.table({
            "zipf": pa.array(keys, pa.int64(), mask=noise[0] % 10 == 0), "name": pa.array([f"customer {n:x}" for n in (noise[1] % 1_000_000)]),
            "when": pa.array(noise[2] % 10**15, pa.timestamp("us")), "price": pa.array(rng.random(rows)),
            "text": pa.array([f"{a:x} {b:x} {c:x} " * 3 for a, b, c in zip(*noise[1:])], mask=noise[3] % 5 == 0)})
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=rows)
    writer.close()


def sort_with_penstock(source, target, memory, folder):
    import penstock

    penstock.sort_table(source, target, by=["name", ("zipf", "descending")], memory=memory, threads=2, temp=folder)


def sort_with_duckdb(source, target, memory, folder):
    import duckdb

    connection = duckdb.connect(config={
        "memory_limit": f"{memory >> 20}MiB", "threads": 2, "temp_directory": folder, "preserve_insertion_order": False})
    connection.execute(f"COPY (FROM read_parquet('{source}') ORDER BY name, zipf DESC NULLS LAST) TO '{target}' (FORMAT parquet)")


def sort_with_polars(source, target, memory, folder):
    # polars reads these when the library is loaded.
    os.environ.update({
        "POLARS_MAX_THREADS": "2", "POLARS_TEMP_DIR": folder, "POLARS_OOC_SPILL_DIR": folder,
        "POLARS_OOC_MEMORY_BUDGET_MB": str(memory // 1000000), "POLARS_OVERRIDE_TOTAL_MEMORY_MB": str(memory // 1000000)})
    import polars

    polars.scan_parquet(source).sort("name", "zipf", descending=[False, True], nulls_last=True).sink_parquet(
        target, compression="snappy", engine="streaming")


def sort_with_datafusion(source, target, memory, folder):
    from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

    context = SessionContext(SessionConfig().with_target_partitions(2),
                             RuntimeEnvBuilder().with_disk_manager_specified(folder).with_fair_spill_pool(memory))
    context.register_parquet("input", source)
    context.sql("SELECT * FROM input ORDER BY name NULLS LAST, zipf DESC NULLS LAST").write_parquet(target, compression="snappy")


CONTENDERS = {"penstock": sort_with_penstock, "duckdb": sort_with_duckdb, "polars": sort_with_polars, "datafusion": sort_with_datafusion}


def measure(name, source, folder, memory):
    """Runs a contender in a child, in a cgroup of its own."""
    target = folder / f"{name}.parquet"
    group = GROUPS / f"penstock-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / LIMIT).write_text(str(memory * 5 // 4))
        python = PYTHON if name == "penstock" else RIVALS
        started = time.monotonic()
        done = subprocess.run(
            ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", python, __file__, "--work", name, source, target, str(memory), folder],
            capture_output=True, text=True, timeout=3600)
        seconds = time.monotonic() - started
        peak = int((group / PEAK).read_text())
        killed = "oom_kill 0" not in (group / KILLED).read_text()
    finally:
        group.rmdir()
    said = "killed: out of memory" if killed else done.stderr.strip().splitlines()[-1][:200] if done.returncode else ""
    row = {"who": name, "seconds": round(seconds, 2), "peak_bytes": peak, "failed": said or None, "bytes": os.path.getsize(target) if not said else 0}
    target.unlink(missing_ok=True)
    return row


def main():
    if sys.argv[1:2] == ["--work"]:
        name, source, target, memory, folder = sys.argv[2:]
        return CONTENDERS[name](source, target, int(memory), folder)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", default="4G")
    parser.add_argument("--memory", default="512M")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    folder = pathlib.Path(given.folder).resolve()
    source = folder / "tables-bench.parquet"
    try:
        generate(source, size_of(given.bytes))
        rows = [measure(name, source, folder, size_of(given.memory)) for name in CONTENDERS]
    finally:
        source.unlink(missing_ok=True)
    ours = rows[0]["seconds"]
    ratios = {f"table_vs_{row['who']}": round(row["seconds"] / ours, 2) for row in rows[1:] if not row["failed"] and not rows[0]["failed"]}
    if given.json:
        print(json.dumps({"bench": "python-tables", "rows": rows, "ratios": ratios}))
        return None
    for row in rows:
        print(f"{row['who']:10} {row['seconds']:8.1f} s  peak {row['peak_bytes'] >> 20:6} MiB  {row['failed'] or 'done'}")
    print(ratios)
    return None


if __name__ == "__main__":
    main()
