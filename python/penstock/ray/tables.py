"""Tables by columns: batches of Arrow become rows of the library (the format `rows`) where they are distributed, and batches again where
they are gathered. A piece is some row groups of a file of Parquet, or a whole file of another kind; a position counts rows."""

from __future__ import annotations

import json
import os
import random
import struct
import tempfile
from bisect import bisect_right
from itertools import accumulate
from typing import Any, Iterator, Sequence

from .. import _penstock
from .._files import Report, _Bar
from .._tables import Batches, _Budget, _Input, _format, _keys, _open_file, _parquet_batches, _pool, _pyarrow, _rows, _write
from . import gather, storage, tasks
from .job import Group, Input, Job, MiB, Piece

SUFFIXES = {"parquet": ".parquet", "ipc": ".arrow", "csv": ".csv"}
SAMPLED_MAX = 4  # row groups that are looked at, of those of a part


def table_of(paths: list[str], by: Any, nulls: str, output_format: str | None, row_group: int,
             options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a job has to know of its tables, and the options that are not theirs."""
    kind = options.pop("format", None)
    kinds = {_format(path, kind) for path in paths}
    if len(kinds) != 1:
        raise ValueError(f"the inputs are of several kinds ({', '.join(sorted(kinds))}): say format=")
    if row_group < 1:
        raise ValueError(f"a row group has at least one row, not {row_group}")
    [found] = kinds
    if output_format is not None and output_format not in SUFFIXES:
        raise ValueError(f"output_format must be one of {', '.join(SUFFIXES)}, not {output_format!r}")
    keys = [[one] if isinstance(one, str) else list(one) for one in ([by] if isinstance(by, str) else by)]
    kept = {name: options.pop(name) for name in list(options) if name != "_faults"}
    return {"format": found, "by": keys, "nulls": nulls, "output_format": output_format or found, "row_group": row_group,
            "options": kept}, options


def native_bytes(memory: int) -> int:
    """Of a task's memory, what is not for batches."""
    return _Budget(memory).native


def _parquet(path: str) -> Any:
    return _pyarrow("parquet").ParquetFile(storage.to_read(path), buffer_size=256 << 10, pre_buffer=False)


def groups_of(inputs: list[Input], table: dict[str, Any], group_bytes: int, memory: int) -> tuple[list[Group], int]:
    """And the bytes of all of them, decompressed, as far as the files tell."""
    groups: list[Group] = []
    pieces: list[Piece] = []
    size = rows = total = 0
    first = None
    for number, each in enumerate(inputs):
        opened = _open_file(storage.to_read(each.path), table["format"], _Budget(128 * MiB))
        if first is None:
            first = opened.schema
            _keys([tuple(key) for key in table["by"]], table["nulls"], first)
        elif not opened.schema.equals(first):
            raise ValueError(f"the tables differ in their columns:\n{first}\nand, of {each.path},\n{opened.schema}")
        parts: list[tuple[Piece, int, int]] = []
        if table["format"] == "parquet":
            told = _parquet(each.path).metadata
            for at in range(told.num_row_groups):
                parts.append((Piece(number, at, at + 1), told.row_group(at).total_byte_size, told.row_group(at).num_rows))
        else:
            parts.append((Piece(number, 0, 0), each.bytes, 0))
        each.rows = [count for _, _, count in parts]
        for piece, bytes_, count in parts:
            if pieces and pieces[-1].input == number and pieces[-1].end == piece.begin and piece.end:
                pieces[-1].end = piece.end
            else:
                pieces.append(piece)
            size, rows, total = size + bytes_, rows + count, total + bytes_
            if size >= group_bytes:
                groups.append(Group(pieces, size, rows))
                pieces, size, rows = [], 0, 0
    if pieces:
        groups.append(Group(pieces, size, rows))
    return groups, total


def _schema(job: Job) -> tuple[Any, Any]:
    assert job.table is not None
    opened = _open_file(storage.to_read(job.inputs[0].path), job.table["format"], _Budget(128 * MiB))
    return opened.schema, opened.plain


def _by(job: Job) -> list[tuple[str, ...]]:
    assert job.table is not None
    return [tuple(key) for key in job.table["by"]]


def _batches(job: Job, pieces: Sequence[Piece], budget: _Budget) -> Iterator[Any]:
    assert job.table is not None
    for piece in pieces:
        path = job.inputs[piece.input].path
        if job.table["format"] == "parquet":
            file = _parquet(path)
            yield from _parquet_batches(file, budget, range(piece.begin, piece.end))
        else:
            yield from _open_file(storage.to_read(path), job.table["format"], budget)._batches


def _slice(job: Job, batches: Iterator[Any], schema: Any, plain: Any, budget: _Budget, path: str, temp: str,
           options: _penstock.SliceFilesOptions) -> dict[str, Any]:
    assert job.table is not None
    files = _penstock.FilesOptions()
    files.set_paths([], os.fsencode(path), [os.fsencode(temp)])
    files.items.name = "rows"
    files.memory_bytes = budget.native
    rows = _rows(plain, _keys(_by(job), job.table["nulls"], schema), budget)
    source = _Input(schema, batches, budget)
    with Batches(_penstock.slice_rows(files, options, rows, 1), [source], schema, plain, _Bar(tasks.go_on), True) as run:
        for _ in run:
            pass
    report = run.report
    assert isinstance(report, Report)
    return report.to_dict()


def slice_group(job: Job, group: int, path: str, options: _penstock.SliceFilesOptions) -> dict[str, Any]:
    with _pool:
        budget = _Budget(job.native_bytes)
        return _slice(job, _batches(job, job.groups[group].pieces, budget), *_schema(job), budget, path, os.path.dirname(path), options)


# ---- The sample: rows by chance, of which the columns of the key alone are read, and made rows of the library without a payload.


def take_sample(job: Job, first: int, last: int, places: int) -> list[tuple[bytes, int, int]]:
    with _pool:
        return _take_sample(job, first, last, places)


def _take_sample(job: Job, first: int, last: int, places: int) -> list[tuple[bytes, int, int]]:
    """Places [first, last) of so many stretches of all rows."""
    assert job.table is not None
    pa = _pyarrow()
    schema, plain = _schema(job)
    names = [key[0] for key in _by(job)]
    columns = [schema.get_field_index(name) for name in dict.fromkeys(names)]
    schema, plain = (pa.schema([each.field(at) for at in columns]) for each in (schema, plain))
    chance = random.Random(first)
    # Units that are read: row groups, or whole files. Group, rows before it there, where it is, and how many rows.
    units = [(number, piece, at) for number, group in enumerate(job.groups) for piece in group.pieces
             for at in range(piece.begin, piece.end or piece.begin + 1)]
    if job.table["format"] == "parquet":
        rows = [job.inputs[piece.input].rows[at] for _, piece, at in units]
    else:
        rows = [max(1, job.inputs[piece.input].bytes >> 5) for _, piece, _ in units]  # bytes stand for rows
    ends = list(accumulate(rows))
    step = max(1, len(units) // max(64, SAMPLED_MAX * job.parts))
    wanted: dict[int, list[float]] = {}
    for place in range(first, last):
        row = min(ends[-1] - 1, int((place + chance.random()) * ends[-1] / places))
        unit = bisect_right(ends, row)
        within = (row - (ends[unit] - rows[unit])) / max(1, rows[unit])
        wanted.setdefault(unit - unit % step, []).append(within)
    found: list[tuple[bytes, int, int]] = []
    for unit, shares in wanted.items():
        number, piece, at = units[unit]
        path = job.inputs[piece.input].path
        if job.table["format"] == "parquet":
            table = _parquet(path).read_row_group(at, columns=list(dict.fromkeys(names)), use_threads=False)
        else:
            opened = _open_file(storage.to_read(path), job.table["format"], _Budget(128 * MiB))
            table = pa.Table.from_batches(opened._batches, opened.schema)
        table = table.select(schema.names)
        if not table.num_rows:
            continue
        places_here = sorted({int(share * table.num_rows) for share in shares})
        before = sum(rows[other] for other in range(unit) if units[other][0] == number) if job.table["format"] == "parquet" else 0
        keys = _encode(job, table.take(pa.array(places_here)).combine_chunks(), schema, plain)
        found += [(key, number, before + place) for key, place in zip(keys, places_here)]
        tasks.go_on()
    return found


def _encode(job: Job, table: Any, schema: Any, plain: Any) -> list[bytes]:
    """Each row as the library has it, its key alone: what a cut is."""
    budget = _Budget(128 * MiB)
    options = _penstock.SliceFilesOptions()
    options.parts = 1
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = os.path.join(folder, "keys")
        _slice(job, iter(table.to_batches()), schema, plain, budget, path, folder, options)
        with open(path, "rb") as file:
            data = file.read()
    keys, at = [], 0
    while at < len(data):
        row_bytes, key_bytes = struct.unpack_from("<II", data, at)
        keys.append(struct.pack("<II", 8 + key_bytes, key_bytes) + data[at + 8:at + 8 + key_bytes])
        at += row_bytes
    return keys


# ---- Parts.


def write_part(job: Job, part: int, path: str, slices: list[gather.Here], temp: str) -> dict[str, Any]:
    assert job.table is not None
    with _pool:
        schema, plain = _schema(job)
        budget = _Budget(job.native_bytes)
        files = _penstock.FilesOptions()
        files.set_paths([], b"-", [os.fsencode(temp)])
        files.items.name = "rows"
        files.memory_bytes, files.decompress = budget.native, False
        rows = _rows(plain, _keys(_by(job), job.table["nulls"], schema), budget)
        feed = gather._add_slices(job, files, slices, b"")
        return tasks.with_fed(files, feed, lambda: _write_rows(job, path, files, rows, schema, plain, budget))


def _write_rows(job: Job, path: str, files: _penstock.FilesOptions, rows: _penstock.Rows, schema: Any, plain: Any, budget: _Budget) -> dict[str, Any]:
    assert job.table is not None
    ends: list[str] = []
    names = list(dict.fromkeys(key[0] for key in _by(job)))

    def key_of(row: Any) -> str:
        return json.dumps(list(row.select(names).to_pylist()[0].values()), default=str)

    def seen(batches: Iterator[Any]) -> Iterator[Any]:
        last = None
        for batch in batches:
            if batch.num_rows:
                if last is None:
                    ends.append(key_of(batch.slice(0, 1)))
                last = batch.slice(batch.num_rows - 1)
            yield batch
        if last is not None:
            ends.append(key_of(last))

    run = _penstock.sort_rows_checked(files, gather._sort_options(), rows)
    with Batches(run, [], schema, plain, _Bar(tasks.go_on), True) as batches, storage.to_write(path) as to:
        _write(to, job.table["output_format"], seen(iter(batches)), schema, budget, job.table["row_group"], job.table["options"])
    report = batches.report
    assert isinstance(report, Report)
    told = report.to_dict()
    told["check"]["first"], told["check"]["last"] = ends or ("", "")
    return told
