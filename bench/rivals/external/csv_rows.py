"""Rivals for the bench text: DuckDB and polars sort rows of CSV without a header by their second column as a number, and among equals by
the first, third and fourth.

csv_rows.py duckdb|polars INPUT OUTPUT MEMORY_BYTES THREADS FOLDER

Errors are printed to stdout, with exit code 1.
"""

import os
import sys

COLUMNS = ("a", "number", "b", "c")


def sort_with_duckdb(source, target, memory_bytes, threads, folder):
    import duckdb

    connection = duckdb.connect(config={
        "memory_limit": f"{memory_bytes >> 20}MiB", "threads": threads, "temp_directory": folder, "preserve_insertion_order": False})
    columns = ", ".join(f"'{name}': '{'BIGINT' if name == 'number' else 'VARCHAR'}'" for name in COLUMNS)
    connection.execute(
        f"COPY (SELECT * FROM read_csv('{source}', header = false, auto_detect = false, delim = ',', quote = '\"', escape = '\"', "
        f"columns = {{{columns}}}) ORDER BY number, a, b, c) TO '{target}' (FORMAT csv, HEADER false)")


def sort_with_polars(source, target, memory_bytes, threads, folder):
    # polars reads these when the library is loaded (columns.py).
    os.environ.update({
        "POLARS_MAX_THREADS": str(threads), "POLARS_TEMP_DIR": folder, "POLARS_OOC_SPILL_DIR": folder,
        "POLARS_OOC_MEMORY_BUDGET_MB": str(memory_bytes // 1000000), "POLARS_OVERRIDE_TOTAL_MEMORY_MB": str(memory_bytes // 1000000)})
    import polars

    schema = {name: polars.Int64 if name == "number" else polars.String for name in COLUMNS}
    rows = polars.scan_csv(source, has_header=False, schema=schema)
    rows.sort("number", "a", "b", "c").sink_csv(target, include_header=False, engine="streaming")


def main(what, source, target, memory_bytes, threads, folder):
    {"duckdb": sort_with_duckdb, "polars": sort_with_polars}[what](source, target, int(memory_bytes), int(threads), folder)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as problem:
        print(f"{type(problem).__name__}: {problem}"[:300].replace("\n", " "))
        sys.exit(1)
