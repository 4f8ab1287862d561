"""`python3 -m penstock sort TABLE... --by ts:desc,id -o FILE`, the command that the program `penstock` runs for tables and clusters."""

import argparse
import os
import signal
import sys
from types import FrameType
from typing import Any

from . import Error, _files, _tables, sort_table
from ._arrow import pyarrow
from ._files import size_bytes
from ._penstock import CLUSTER, CLUSTER_TABLES, TABLES

ROWS = [row for owner in ("ItemFormat", "FilesOptions", "SortFilesOptions") for row in _files.ROWS[owner]]
MODES = {TABLES: "of tables", CLUSTER: "on a cluster", CLUSTER_TABLES: "of tables on a cluster"}

WORDS = {"asc": "ascending", "desc": "descending", "r": "descending", "nulls-first": "nulls first", "nulls-last": "nulls last"}


def keys_of(words: list[str]) -> list[tuple[str, ...]]:
    """Parses "ts:desc,id" into keys for sort_table(). A name may contain colons."""
    keys = []
    for one in ",".join(words).split(","):
        name, orders = one, list[str]()
        while ":" in name and name.rpartition(":")[2] in WORDS:
            name, _, word = name.rpartition(":")
            orders.insert(0, WORDS[word])
        keys.append((name, *orders))
    return keys


def left_of(size: int) -> int:
    """Returns the memory left for a call of the memory that the process may have: Python and the libraries are resident, too."""
    for part in ("compute", "parquet", "csv"):
        pyarrow(part)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if size - taken < _tables.LEAST:
        least = -(-(taken + _tables.LEAST) // _tables.MiB)
        raise ValueError(f"-S {size}: Python and its libraries take {taken // _tables.MiB}M, and tables 128M or more (try: -S {least + 16}M)")
    return size - taken


def names_of(row: dict[str, Any]) -> list[str]:
    """Returns an option's names: its words, or its name if it has none."""
    return str(row["words"] or f"--{row['name']}").split(",")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the table that any sort by the package has. Missing ones are None."""
    kinds: dict[str, dict[str, Any]] = {"bool": dict(action="store_const", const=True), "list": dict(action="append"), "int": dict(type=size_bytes),
                                        "byte": dict(type=lambda text: text or "\0"), "str": {}}  # (a NUL ends a word)
    for row in ROWS:
        if row["words"] == "FILE":
            parser.add_argument(row["name"], nargs="+", metavar="FILE")
        elif row["scope"] & (TABLES | CLUSTER | CLUSTER_TABLES):
            parser.add_argument(*names_of(row), dest=row["name"], required=row["name"] == "output",
                                help=row["help"].replace("%", "%%"), **kinds[row["kind"]])


def sort(given: argparse.Namespace) -> None:
    keys = keys_of(given.by) if given.by else None
    mode = TABLES if given.engine == "local" else CLUSTER_TABLES if keys else CLUSTER
    said = {row["name"]: value for row in ROWS if (value := getattr(given, row["name"], None)) is not None}
    for row in ROWS:
        if row["name"] in said and not row["scope"] & mode:
            name = next(name for name in names_of(row) if name.startswith("--"))
            raise ValueError(f"{name}: a sort {MODES[mode]} does not take this option")
    values: dict[str, Any] = {row["name"]: row.get("default") for row in ROWS} | said
    if mode == TABLES:
        sort_table(given.inputs, given.output, by=keys or (), memory=left_of(values["memory_bytes"]), temp=values["temp_directories"],
                   threads=values["threads"], top=values["top"])
        return
    from .ray import _calls

    items: dict[str, Any] = {} if keys else {"_words": {row["name"]: values[row["name"]] for row in _files.ROWS["ItemFormat"]}}
    _calls.sort(given.inputs, given.output, by=keys, memory_per_task=said.get("memory_bytes", "2G"), tasks_per_node=said.get("threads"),
                temp=said.get("temp_directories"), **items)


class Stopped(KeyboardInterrupt):
    """Raised by a signal, whose number is the argument."""


def stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def die(number: int) -> int:
    """Ends like the program: prints a message, and dies of the signal."""
    print(f"penstock sort: stopped by {signal.Signals(number).name}; the output is there only if it is complete", file=sys.stderr, flush=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("penstock", description="Sorts tables (files of Parquet, Arrow and CSV) by columns, and files on a cluster.", allow_abbrev=False)
    command = parser.add_subparsers(required=True, metavar="sort").add_parser("sort", allow_abbrev=False)
    command.add_argument("--by", action="append", default=[], metavar="COLUMN[:desc][:nulls-first][,...]")
    command.add_argument("--engine", choices=["local", "ray"], default="local", help="ray: on a cluster, to a folder of parts")
    add_options(command)
    given = parser.parse_args(arguments)
    # A signal ends a run in order, with cleanup. A signal that was ignored from the start (nohup) stays ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        sort(given)
    except Stopped as stopped:
        return die(stopped.args[0])
    except (Error, OSError, ValueError, ImportError, TypeError, MemoryError) as error:
        print(f"penstock sort: {getattr(error, 'of_command', '') or error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
