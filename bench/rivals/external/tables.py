"""Rivals for the benches of csv.cc: DuckDB and polars do a job with tables.

tables.py duckdb|polars JOB INPUT OTHER_INPUT OUTPUT MEMORY_BYTES THREADS FOLDER

JOB is number, two-columns, quoted, group, join or jsonl; each knows the columns that csv.cc writes. Memory of 0 is no limit. Errors are
printed to stdout, with exit code 1.
"""

import os
import sys

INTEGERS = ("amount", "id")
SALES = ("name", "amount", "city", "note")
ORDERS = {"number": [("amount", False)], "quoted": [("amount", False)], "two-columns": [("city", False), ("amount", True)]}


def columns_of(job, other=False):
    if job == "join":
        return ("id", "city") if other else ("id", "name", "note")
    return ("id", "name", "note") if job == "jsonl" else ("name", "amount") if job == "group" else SALES


def with_duckdb(job, source, other, target, memory_bytes, threads, folder):
    import duckdb

    config = {"threads": threads, "temp_directory": folder, "preserve_insertion_order": False}
    if memory_bytes:
        config["memory_limit"] = f"{memory_bytes >> 20}MiB"

    def table(path, names):
        types = "{" + ", ".join(f"'{name}': '{'BIGINT' if name in INTEGERS else 'VARCHAR'}'" for name in names) + "}"
        if job == "jsonl":
            return f"read_json('{path}', format = 'newline_delimited', columns = {types})"
        return f"read_csv('{path}', header = true, auto_detect = false, delim = ',', quote = '\"', escape = '\"', columns = {types})"

    rows = table(source, columns_of(job))
    if job == "group":
        query = f"SELECT name, count(*) AS count, sum(amount)::BIGINT AS sum_amount FROM {rows} GROUP BY name"
    elif job == "join":
        query = f"SELECT id, name, note, city FROM {rows} one JOIN {table(other, columns_of(job, True))} other USING (id)"
    else:
        order = ", ".join(name + " DESC" * down for name, down in ORDERS.get(job, [("id", False)]))
        query = f"SELECT * FROM {rows} ORDER BY {order}"
    form = "FORMAT json" if job == "jsonl" else "FORMAT csv, HEADER true"
    duckdb.connect(config=config).execute(f"COPY ({query}) TO '{target}' ({form})")


def with_polars(job, source, other, target, memory_bytes, threads, folder):
    # polars reads these when the library is loaded (columns.py).
    os.environ.update({"POLARS_MAX_THREADS": str(threads), "POLARS_TEMP_DIR": folder, "POLARS_OOC_SPILL_DIR": folder})
    if memory_bytes:
        megabytes = str(memory_bytes // 1000000)
        os.environ.update({"POLARS_OOC_MEMORY_BUDGET_MB": megabytes, "POLARS_OVERRIDE_TOTAL_MEMORY_MB": megabytes})
    import polars

    def table(path, names):
        schema = {name: polars.Int64 if name in INTEGERS else polars.String for name in names}
        return polars.scan_ndjson(path, schema=schema) if job == "jsonl" else polars.scan_csv(path, schema=schema)

    rows = table(source, columns_of(job))
    if job == "group":
        rows = rows.group_by("name").agg(polars.len().alias("count"), polars.col("amount").sum().alias("sum_amount"))
    elif job == "join":
        rows = rows.join(table(other, columns_of(job, True)), on="id")
    else:
        names, down = zip(*ORDERS.get(job, [("id", False)]))
        rows = rows.sort(*names, descending=list(down))
    rows.sink_ndjson(target, engine="streaming") if job == "jsonl" else rows.sink_csv(target, engine="streaming")


def main(what, job, source, other, target, memory_bytes, threads, folder):
    {"duckdb": with_duckdb, "polars": with_polars}[what](job, source, other, target, int(memory_bytes), int(threads), folder)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as problem:
        print(f"{type(problem).__name__}: {problem}"[:300].replace("\n", " "))
        sys.exit(1)
