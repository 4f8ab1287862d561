"""Rivals for the bench external-sort: DuckDB and polars sort a Parquet file of one column of u64.

columns.py pack INPUT.u64 OUTPUT.parquet             the numbers in their fastest form: plain, not compressed
columns.py duckdb|polars INPUT OUTPUT MEMORY_BYTES THREADS FOLDER SECONDS_MAX
columns.py unpack INPUT.parquet OUTPUT.u64

Errors are printed to stdout, with exit code 1. SIGALRM ends a sort after SECONDS_MAX.
"""

import os
import signal
import sys

MIB = 1 << 20
ROWS_AT_ONCE = 1 << 20


def pack(source, target):
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([pyarrow.field("k", pyarrow.uint64(), nullable=False)])
    with open(source, "rb") as numbers, pyarrow.parquet.ParquetWriter(
            target, schema, compression="none", use_dictionary=False, write_statistics=False) as parquet:
        while piece := numbers.read(8 * ROWS_AT_ONCE):
            column = pyarrow.Array.from_buffers(pyarrow.uint64(), len(piece) // 8, [None, pyarrow.py_buffer(piece)])
            parquet.write_table(pyarrow.Table.from_arrays([column], schema=schema))


def unpack(source, target):
    import pyarrow.parquet

    with open(target, "wb") as numbers:
        # Not by row groups: one may be the whole file.
        parquet = pyarrow.parquet.ParquetFile(source, pre_buffer=False, buffer_size=4 * MIB)
        for batch in parquet.iter_batches(ROWS_AT_ONCE):
            column = batch.column(0)
            begin = 8 * column.offset
            numbers.write(column.buffers()[1][begin:begin + 8 * len(column)])


def sort_with_duckdb(source, target, memory_bytes, threads, folder):
    import duckdb

    connection = duckdb.connect(config={
        "memory_limit": f"{memory_bytes // MIB}MiB", "threads": threads, "temp_directory": folder,
        "preserve_insertion_order": False})
    connection.execute(f"COPY (SELECT k FROM read_parquet('{source}') ORDER BY k) TO '{target}' "
                       "(FORMAT parquet, COMPRESSION uncompressed)")


def sort_with_polars(source, target, memory_bytes, threads, folder):
    # polars reads these when the library is loaded. The names for a budget have changed with its versions; these are of 2.1.
    os.environ.update({
        "POLARS_MAX_THREADS": str(threads), "POLARS_TEMP_DIR": folder, "POLARS_OOC_SPILL_DIR": folder,
        "POLARS_OOC_MEMORY_BUDGET_MB": str(memory_bytes // 1000000),
        "POLARS_OVERRIDE_TOTAL_MEMORY_MB": str(memory_bytes // 1000000)})
    import polars

    polars.scan_parquet(source).sort("k").sink_parquet(target, compression="uncompressed", engine="streaming")


def main(what, source, target, *more):
    if what in ("pack", "unpack"):
        {"pack": pack, "unpack": unpack}[what](source, target)
        return
    memory_bytes, threads, folder, seconds_max = int(more[0]), int(more[1]), more[2], int(more[3])
    signal.alarm(seconds_max)
    {"duckdb": sort_with_duckdb, "polars": sort_with_polars}[what](source, target, memory_bytes, threads, folder)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as problem:
        print(f"{type(problem).__name__}: {problem}"[:300].replace("\n", " "))
        sys.exit(1)
