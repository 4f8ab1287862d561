"""`python3 -m penstock sort TABLE... --by ts:desc,id -o FILE`, to which the program `penstock` hands tables, and what is for a cluster."""

import argparse
import json
import os
import signal
import sys
from types import FrameType
from typing import Any

from . import Error, _tables, sort_table
from ._arrow import pyarrow
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
        pyarrow(part)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    left = size_bytes(size) - taken
    if left < _tables.LEAST:
        least = -(-(taken + _tables.LEAST) // _tables.MiB)
        raise ValueError(f"-S {size}: Python and its libraries take {taken // _tables.MiB}M, and tables 128M or more (try: -S {least + 16}M)")
    return left


def sort_on_cluster(given: argparse.Namespace) -> None:
    from .ray import _calls

    if given.top is not None:
        raise ValueError("the first rows alone are not to be had of a cluster")
    common: dict[str, Any] = dict(memory_per_task=given.buffer_size or "2G", tasks_per_node=given.parallel, temp=given.temporary_directory or None)
    if given.by:
        _calls.sort(given.files, given.output, by=keys_of(given.by), **common)
    else:
        _calls.sort(given.files, given.output, _words=json.loads(given.items or "null"), **common)


class Stopped(KeyboardInterrupt):
    """By which signal."""


def stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def die(number: int) -> int:
    """As the program does it: it says so, and ends by that signal."""
    print(f"penstock sort: stopped by {signal.Signals(number).name}; the output is there only if it is complete", file=sys.stderr, flush=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("penstock", description="Sorts tables: files of Parquet, Arrow and CSV, by columns.", allow_abbrev=False)
    sort = parser.add_subparsers(required=True, metavar="sort").add_parser("sort", allow_abbrev=False)
    sort.add_argument("files", nargs="+", metavar="TABLE", help="x.parquet, x.arrow, x.csv")
    sort.add_argument("--by", action="append", default=[], metavar="COLUMN[:desc][:nulls-first][,...]")
    sort.add_argument("-o", "--output", required=True, metavar="FILE", help="x.parquet, x.arrow or x.csv; it may be an input")
    sort.add_argument("-S", "--buffer-size", metavar="SIZE", help="all the memory that the process may take (default 1G), or of a cluster each task (2G)")
    sort.add_argument("-T", "--temporary-directory", action="append", default=[], metavar="DIR")
    sort.add_argument("--parallel", type=int, metavar="N", help="threads (default 2), or of a cluster tasks of a node")
    sort.add_argument("--top", type=int, metavar="K", help="the first K rows alone")
    sort.add_argument("--engine", choices=["local", "ray"], default="local", help="ray: on a cluster, to a folder of parts")
    sort.add_argument("--items", help="of a cluster, what the items are, as JSON")
    given = parser.parse_args(arguments)
    # What is under way ends in order, and cleans up. What was ignored from the start (nohup) stays so.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        if given.engine == "ray":
            sort_on_cluster(given)
            return 0
        sort_table(given.files, given.output, by=keys_of(given.by), memory=left_of(given.buffer_size or "1G"), temp=given.temporary_directory,
                   threads=given.parallel or 2, top=given.top)
    except Stopped as stopped:
        return die(stopped.args[0])
    except (Error, OSError, ValueError, ImportError, TypeError, MemoryError) as error:
        print(f"penstock sort: {getattr(error, 'of_command', '') or error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
