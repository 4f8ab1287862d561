"""Tables by columns: batches of Arrow become rows of the library (the format `rows`) for distribution, and batches again when gathered.

A piece is some row groups of a file of Parquet, or a whole file of another kind; a position counts rows."""

from __future__ import annotations

import json
import os
from typing import Any, Iterator, Sequence

import numpy as np

from .. import _penstock
from .._files import Report, _Bar, _sort_options
from .. import _csv
from .._arrow import Columns, has_order
from .._errors import Unsupported, failure
from .._tables import (Batches, _Budget, _Input, _Reads, _files, _format, _keys, _open_file, _parquet, _parquet_batches, _pool,
                       _rows, _write, _writer_options, check_no_writer, KeyReader, units_by_chance)
from . import storage, worker
from .job import Group, Input, Job, MiB, Piece
from .slices import Here, add_slices

SUFFIXES = {"parquet": ".parquet", "ipc": ".arrow", "csv": ".csv"}


def table_of(paths: list[str], by: Any, nulls: str | None, output_format: str | None, row_group: int | None,
             options: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Returns the tables of a job and the remaining options; None if rows of CSV go as text, which the options then describe."""
    kind = options.pop("format", None)
    kinds = {_format(path, kind) for path in paths}
    if len(kinds) != 1:
        raise ValueError(f"the inputs are of several kinds ({', '.join(sorted(kinds))}): say format=")
    [found] = kinds
    if output_format is not None and output_format not in SUFFIXES:
        raise ValueError(f"output_format must be one of {', '.join(SUFFIXES)}, not {output_format!r}")
    reads = _Reads(options.pop("separator", None), options.pop("types", None))
    kept = {name: options.pop(name) for name in list(options) if name != "_faults"}
    made = output_format or found
    is_text = found == made == "csv"
    if is_text:
        check_no_writer(kept)
    row_group, kept = _writer_options(made, row_group, reads.separator, kept)
    if is_text:
        keys = _csv.words_of_keys(by, nulls, reads.types)
        return None, options | {"csv": True, "header": True, "key": keys, "separator": reads.separator}
    if found != "csv":
        reads.refuse(f"{found}, which is no CSV")
    # A job is JSON, so types are words.
    types = {name: str(kind) for name, kind in _csv.types_of(reads.types).items()}
    _csv.types_of(types)
    return {"format": found, "by": [[one] if isinstance(one, str) else list(one) for one in ([by] if isinstance(by, str) else by)],
            "nulls": nulls or "last", "output_format": made, "row_group": row_group, "separator": reads.separator, "types": types,
            "options": kept}, options


def _open_table(path: str, table: dict[str, Any], budget: _Budget) -> _Input:
    return _open_file(storage.to_read(path), table["format"], budget, _Reads(table["separator"], table["types"] or None))


def native_bytes(memory: int) -> int:
    """Returns the part of a task's memory that is not for batches."""
    return _Budget(memory).native


def groups_of(inputs: list[Input], table: dict[str, Any], group_bytes: int, memory: int) -> tuple[list[Group], int]:
    """Returns the groups, and the bytes of all of them, decompressed, as far as the files tell."""
    groups: list[Group] = []
    pieces: list[Piece] = []
    size = rows = total = 0
    first = None
    for number, each in enumerate(inputs):
        opened = _open_table(each.path, table, _Budget(128 * MiB))
        if first is None:
            first = opened.schema
            _keys([tuple(key) for key in table["by"]], table["nulls"], first)
            _refuse_orders(first)
        elif not opened.schema.equals(first):
            raise ValueError(f"the tables differ in their columns:\n{first}\nand, of {each.path},\n{opened.schema}")
        parts: list[tuple[Piece, int, int]] = []
        if table["format"] == "parquet":
            told = _parquet(storage.to_read(each.path)).metadata
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


def _refuse_orders(schema: Any) -> None:
    """Refuses ordered categories, because each task would see different ones."""
    for field in schema:
        if has_order(field.type):
            raise failure(Unsupported, "order categories on a cluster", field.name, "their text or their numbers as a column")


def _columns(job: Job) -> Columns:
    assert job.table is not None
    return _open_table(job.inputs[0].path, job.table, _Budget(128 * MiB)).columns


def _by(job: Job) -> list[tuple[str, ...]]:
    assert job.table is not None
    return [tuple(key) for key in job.table["by"]]


def _batches(job: Job, pieces: Sequence[Piece], budget: _Budget, names: list[str] | None = None) -> Iterator[Any]:
    """Yields batches of pieces; of Parquet only the named columns."""
    assert job.table is not None
    for piece in pieces:
        path = job.inputs[piece.input].path
        if job.table["format"] == "parquet":
            yield from _parquet_batches(_parquet(storage.to_read(path)), budget, range(piece.begin, piece.end), names)
        else:
            yield from _open_table(path, job.table, budget)._batches


def _parts_of_run(job: Job, temp: str, output: str) -> tuple[Columns, _Budget, _penstock.FilesOptions, _penstock.Rows]:
    assert job.table is not None
    columns, budget = _columns(job), _Budget(job.native_bytes)
    rows = _rows(columns.plain, _keys(_by(job), job.table["nulls"], columns.schema), budget)
    return columns, budget, _files(budget, [temp], output=os.fsencode(output)), rows


def slice_group(job: Job, group: int, path: str, options: _penstock.SliceFilesOptions) -> dict[str, Any]:
    with _pool:
        columns, budget, files, rows = _parts_of_run(job, os.path.dirname(path), path)
        source = _Input(columns.schema, _batches(job, job.groups[group].pieces, budget), budget, columns)
        with Batches(_penstock.slice_rows(files, options, rows, 1), [source], columns, _Bar(worker.go_on), True) as run:
            for _ in run:
                pass
    report = run.report
    assert isinstance(report, Report)
    return report.to_dict()


# ---- The sample.


def take_sample(job: Job, first: int, last: int, places: int) -> list[tuple[bytes, int, int]]:
    """Samples positions [first, last) of `places` equal stretches of all rows."""
    assert job.table is not None
    is_parquet = job.table["format"] == "parquet"
    # The units to read, each with its group's number: row groups, or whole files, whose bytes count as rows.
    units = [(number, Piece(piece.input, at, at + 1) if is_parquet else piece) for number, group in enumerate(job.groups) for piece in group.pieces
             for at in range(piece.begin, piece.end or piece.begin + 1)]
    rows = [job.inputs[piece.input].rows[piece.begin] if is_parquet else max(1, job.inputs[piece.input].bytes >> 5) for _, piece in units]
    chance = np.random.default_rng(first)
    found: list[tuple[bytes, int, int]] = []
    with _pool:
        budget = _Budget(128 * MiB)
        reader = KeyReader(_columns(job).schema, _by(job), job.table["nulls"], budget)
        for unit, count in units_by_chance(rows, job.parts, first, last, places, chance).items():
            number, piece = units[unit]
            before = sum(rows[other] for other in range(unit) if units[other][0] == number) if is_parquet else 0
            found += [(key, number, before + row) for row, key in reader.take(_batches(job, [piece], budget, reader.names), count, chance)]
            worker.go_on()
    return found


# ---- Parts.


def write_part(job: Job, part: int, path: str, slices: list[Here], temp: str) -> dict[str, Any]:
    with _pool:
        columns, budget, files, rows = _parts_of_run(job, temp, "-")
        files.decompress = False
        feed = add_slices(job, files, slices, b"")
        return worker.with_fed(files, feed, lambda: _write_rows(job, path, files, rows, columns, budget))


def _write_rows(job: Job, path: str, files: _penstock.FilesOptions, rows: _penstock.Rows, columns: Columns, budget: _Budget) -> dict[str, Any]:
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

    run = _penstock.sort_rows_checked(files, _sort_options(threads=1, stable=True), rows, 0)
    with Batches(run, [], columns, _Bar(worker.go_on), True) as batches, storage.to_write(path) as to:
        _write(to, job.table["output_format"], seen(iter(batches)), columns.schema, budget, job.table["row_group"], job.table["options"])
    report = batches.report
    assert isinstance(report, Report)
    told = report.to_dict()
    told["check"]["first"], told["check"]["last"] = ends or ("", "")
    return told
