"""`python3 -m penstock sort TABLE... --by ts:desc,id -o FILE`, to which the program `penstock` hands tables."""

import argparse
import os
import sys

from . import Error, _tables, sort_table
from ._files import size_bytes

WORDS = {"asc": "ascending", "desc": "descending", "nulls-first": "nulls first", "nulls-last": "nulls last"}


def keys_of(words: list[str]) -> list[tuple[str, ...]]:
    """Of "ts:desc,id" the keys as sort_table() has them. A name may hold colons of its own."""
    keys = []
    for one in ",".join(words).split(","):
        name, orders = one, list[str]()
        while ":" in name and name.rpartition(":")[2] in WORDS:
            name, _, word = name.rpartition(":")
            orders.insert(0, WORDS[word])
        keys.append((name, *orders))
    return keys


def left_of(size: str) -> int:
    """Of the memory that the process may have, what it leaves for a call: Python and the libraries are resident, too."""
    for part in ("compute", "parquet", "csv"):
        _tables._pyarrow(part)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    left = size_bytes(size) - taken
    if left < _tables.LEAST:
        least = -(-(taken + _tables.LEAST) // _tables.MiB)
        raise ValueError(f"-S {size}: Python and its libraries take {taken // _tables.MiB}M, and tables 128M or more (try: -S {least + 16}M)")
    return left


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("penstock", description="Sorts tables: files of Parquet, Arrow and CSV, by columns.", allow_abbrev=False)
    sort = parser.add_subparsers(required=True, metavar="sort").add_parser("sort", allow_abbrev=False)
    sort.add_argument("files", nargs="+", metavar="TABLE", help="x.parquet, x.arrow, x.csv")
    sort.add_argument("--by", action="append", required=True, metavar="COLUMN[:desc][:nulls-first][,...]")
    sort.add_argument("-o", "--output", required=True, metavar="FILE", help="x.parquet, x.arrow or x.csv; it may be an input")
    sort.add_argument("-S", "--buffer-size", default="1G", metavar="SIZE", help="all the memory that the process may take (default 1G)")
    sort.add_argument("-T", "--temporary-directory", action="append", default=[], metavar="DIR")
    sort.add_argument("--parallel", type=int, default=2, metavar="N")
    sort.add_argument("--top", type=int, metavar="K", help="the first K rows alone")
    given = parser.parse_args(arguments)
    try:
        sort_table(given.files, given.output, by=keys_of(given.by), memory=left_of(given.buffer_size), temp=given.temporary_directory,
                   threads=given.parallel, top=given.top)
    except KeyboardInterrupt:
        raise
    except (Error, OSError, ValueError, ImportError, TypeError, MemoryError) as error:
        print(f"penstock sort: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
