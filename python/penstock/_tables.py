"""Tables larger than memory: Arrow's record batches, and files of them, sorted, merged and partitioned as rows of the library."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import stat
import tempfile
import threading
from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeAlias

import numpy as np

from . import _csv, _penstock
from ._arrow import Columns, batch_bytes, cast_batch, has_order, pieces, plain
from ._arrow import pyarrow as _pyarrow
from ._errors import Unsorted, Unsupported, failure
from ._files import Path, Progress, Report, _Bar, _list, _path, _sort_options, report_of, run, set_options, size_bytes, whole
from ._written import Written, opened

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-not-found,import-untyped,unused-ignore]

By: TypeAlias = "str | tuple[str, ...]"

MiB = 1 << 20
LEAST = 128 * MiB  # memory of a call
PARTS_MAX = 1 << 16


class _Budget:
    """The division of a call's memory. Arrow gets 64 MiB for its readers and writers beside a batch's, and a fifth of the memory, 1 GiB
    at most, for batches that are read and written. The rest is the native operation's budget."""

    def __init__(self, memory: int | str) -> None:
        total = size_bytes(memory)
        if total < LEAST:
            raise ValueError(f"tables need a memory of 128M or more, not {memory}")
        arrow = min(total // 5, 1024 * MiB)
        self.native = total - arrow - 64 * MiB
        # On each side, two batches wait and one is made, and making one takes more.
        self.batch = arrow // 20
        # One group is gathered and one is written, in Arrow's form, and encoded.
        self.group = arrow // 6
        # pyarrow reads up to 32 blocks of CSV ahead.
        self.csv_block = max(MiB, arrow // 64)
        # A thread that encodes Parquet has memory of its own, of which Arrow's allocator keeps 16 MiB more than necessary.
        self.writes_aside = total >= 160 * MiB


class _Pool:
    """A context in which Arrow's memory is the C library's, which returns freed memory: Arrow's usual pool keeps many times the size of
    a batch. Thread safety: any threads; the pool is the process's, and the old one is restored when the last thread leaves the context."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: Any = None

    def __enter__(self) -> None:
        pa = _pyarrow()
        with self._lock:
            if self._users == 0:
                self._before = pa.default_memory_pool()
                pa.set_memory_pool(pa.system_memory_pool())
            self._users += 1

    def __exit__(self, *what: object) -> None:
        pa = _pyarrow()
        with self._lock:
            self._users -= 1
            if self._users == 0:
                pa.set_memory_pool(self._before)


_pool = _Pool()


class _Capsules:
    """A batch that is not yet one of pyarrow's."""

    def __init__(self, schema: pa.Schema, array: object) -> None:
        self._both = (schema.__arrow_c_schema__(), array)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._both


# ---- Inputs.


@dataclasses.dataclass(frozen=True)
class _Reads:
    """Options for reading CSV, and the separator for writing it."""

    separator: str | None = None
    types: Mapping[str, Any] | None = None

    def refuse(self, what: str) -> None:
        if self.types is not None:
            raise ValueError(f"types= is for CSV, not for {what}")


NO_READS = _Reads()
_PATHS = (str, bytes, os.PathLike)


class _Input:
    """Batches of a table: its schema, and an iterator."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], budget: _Budget, columns: Columns | None = None) -> None:
        self.schema = schema
        self.columns = columns or Columns(schema)
        self._batches = batches
        self._budget = budget

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            # Plain values are a copy: not more than a batch of them at a time.
            for piece in pieces(batch, self._budget.batch):
                if piece.num_rows:
                    yield self.columns.to_plain(piece)


def _format(path: Path, given: str | None, writes: bool = False) -> str:
    if given is not None:
        if given not in ("parquet", "ipc", "csv"):
            raise ValueError(f"format must be 'parquet', 'ipc' or 'csv', not {given!r}")
        return given
    name, end = os.path.splitext(os.fsdecode(_path(path)).lower())
    if end in _csv.COMPRESSED and name.endswith(".csv"):
        if writes:
            raise ValueError(f"{path!r}: tables are not written compressed as a whole: give the name of a .csv, and compress it")
        end = ".csv"
    found = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc", ".csv": "csv"}.get(end)
    if found is None:
        raise ValueError(f"{path!r} does not end as a table's name does (.parquet, .arrow, .csv): say format=")
    return found


def _parquet(name: Any) -> Any:
    """Opens a file that is read page by page instead of row group by row group."""
    return _pyarrow("parquet").ParquetFile(name, buffer_size=256 << 10, pre_buffer=False)


def _parquet_batches(file: Any, budget: _Budget, groups: Iterable[int] | None = None, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yields batches of the given row groups and columns, by default all. The rows of a batch are limited by the widest rows so far,
    because a reader cannot change its pace within a row group. Columns are decoded one after another: several at a time take memory for
    each, and the sort keeps the other processors busy."""
    rows = 65536

    def look(batch: pa.RecordBatch) -> None:
        nonlocal rows
        rows = max(1, min(rows, budget.batch * batch.num_rows // max(1, batch.nbytes)))

    groups = range(file.num_row_groups) if groups is None else list(groups)
    for batch in file.iter_batches(batch_size=256, row_groups=groups[:1], columns=columns, use_threads=False):
        look(batch)
        break
    for group in groups:
        for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=columns, use_threads=False):
            look(batch)
            yield batch


def _name(path: Any) -> Any:
    """Returns a path for pyarrow, or the open Python file."""
    return path if hasattr(path, "read") or hasattr(path, "write") else os.fsdecode(_path(path))


def _open_file(path: Any, kind: str, budget: _Budget, reads: _Reads = NO_READS) -> _Input:
    pa = _pyarrow()
    name = _name(path)
    if isinstance(name, str):
        os.stat(name)  # raises Python's own error if it does not exist
    if kind != "csv":
        reads.refuse(f"{name!r}, which is no CSV")
    if kind == "parquet":
        file = _parquet(name)
        return _Input(file.schema_arrow, _parquet_batches(file, budget), budget)
    if kind == "csv":
        schema, batches = _csv.open_columns(name, reads.separator, reads.types, budget.csv_block)
        return _Input(schema, batches, budget)
    source = pa.memory_map(name) if isinstance(name, str) else pa.PythonFile(name, "r")
    try:
        opened = pa.ipc.open_file(source)
        return _Input(opened.schema, (opened.get_batch(i) for i in range(opened.num_record_batches)), budget)
    except pa.ArrowInvalid:
        source.seek(0)
        stream = pa.ipc.open_stream(source)
        return _Input(stream.schema, iter(stream), budget)


def _open(data: Any, budget: _Budget, format: str | None, reads: _Reads) -> _Input:
    """Opens a path, or any object with an Arrow stream."""
    if isinstance(data, _PATHS):
        return _open_file(data, _format(data, format), budget, reads)
    reads.refuse("a table that is no file")
    if not hasattr(data, "__arrow_c_stream__"):
        raise TypeError(f"{type(data).__name__} is no table: give a path, or what has __arrow_c_stream__, such as tables and readers of "
                        "pyarrow, polars, DuckDB and pandas")
    pa = _pyarrow()
    # (pyarrow's own readers are used directly, so that their exceptions are not converted to Arrow errors.)
    try:
        reader = data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid as error:  # a type that pyarrow does not know, such as 128-bit integers of polars
        raise failure(Unsupported, f"take this table: {error}", type(data).__name__, "the table with its columns cast to other types") from None
    return _Input(reader.schema, iter(reader), budget)


def _open_all(data: Any, budget: _Budget, format: str | None, reads: _Reads) -> list[_Input]:
    with _pool:  # readers keep the pool that they begin with
        inputs = [_open(each, budget, format, reads) for each in (data if isinstance(data, (list, tuple)) else [data])]
    if not inputs:
        raise ValueError("there is no table")
    for other in inputs[1:]:
        if not other.schema.equals(inputs[0].schema):
            raise ValueError(f"the tables differ in their columns:\n{inputs[0].schema}\nand\n{other.schema}")
        other.columns = inputs[0].columns
    return inputs


def _texts(data: Any, format: str | None, kind: str) -> list[Any]:
    """Returns the inputs if they are CSV files like the output, so that rows stay text."""
    paths = data if isinstance(data, (list, tuple)) else [data]
    is_text = kind == "csv" and all(isinstance(path, _PATHS) and _format(path, format) == "csv" for path in paths)
    return list(paths) if is_text else []


# ---- Options.


def _keys(by: str | Iterable[By], nulls: str | None, schema: pa.Schema) -> list[tuple[int, bool, bool]]:
    """Returns for each key its column, whether it is descending, and whether nulls are first."""
    if nulls not in (None, "first", "last"):
        raise ValueError(f"nulls must be 'first' or 'last', not {nulls!r}")
    keys = []
    for name, descending, first in _csv.keys_of(by):
        found = schema.get_all_field_indices(name)
        if len(found) != 1:
            raise ValueError(f"there {'is no column' if not found else 'are several columns'} {name!r}; columns are {', '.join(schema.names)}")
        keys.append((found[0], descending, nulls == "first" if first is None else first))
    return keys


def _rows(schema: pa.Schema, keys: Sequence[tuple[int, bool, bool]], budget: _Budget, batch_rows: int = 65536) -> _penstock.Rows:
    return _penstock.Rows(schema.__arrow_c_schema__(), list(keys), _penstock.BatchLimits(batch_rows, budget.batch))


def _files(budget: _Budget, temp: Any, inputs: Sequence[bytes] = (), output: bytes = b"-") -> _penstock.FilesOptions:
    files = _penstock.FilesOptions()
    files.set_paths(list(inputs), output, [_path(path) for path in _list(temp)])
    files.items.name = "rows"
    files.memory_bytes = budget.native
    return files


class Batches:
    """Record batches in order, one by one, which can be iterated once.

    It can be a `with` block, and is an Arrow stream for polars, DuckDB and pyarrow. `report` has the run's statistics after the last
    batch.
    """

    def __init__(self, run: _penstock.RowRun, inputs: Sequence[_Input], columns: Columns, bar: _Bar, reads_first: bool = False) -> None:
        self._bar = bar
        self._reads_first = reads_first  # no batch comes before all inputs are read
        self._run: _penstock.RowRun | None = run
        self._readers = [iter(each) for each in inputs]
        self._columns = columns
        self.schema = columns.schema
        self.report: Report | None = None

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> pa.RecordBatch:
        with _pool:
            return self._next()

    def _next(self) -> pa.RecordBatch:
        run = self._run
        if run is None:
            raise StopIteration
        try:
            while True:
                told = run.next(self._bar.tell)
                if told is None:
                    self.report = report_of(run.report)
                    break
                if isinstance(told, int):
                    batch = next(self._readers[told], None)
                    run.feed(told, None if batch is None else batch.__arrow_c_array__()[1])
                    del batch
                    continue
                if self._reads_first and self._readers:  # all inputs are read
                    self._readers = []
                    _pyarrow().default_memory_pool().release_unused()
                return self._columns.from_plain(_pyarrow().record_batch(_Capsules(self._columns.plain, told)))
        except BaseException:
            self.close()
            raise
        self.close()
        raise StopIteration

    def close(self) -> None:
        """Ends the run at any point."""
        if self._run is not None:
            self._run.cancel()
            self._run = None
            self._readers = []
            self._bar.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError("record batches are no array: take a column of each, as by batch.column(0).to_numpy(), or a table of them, top_table()")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return _pyarrow().RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)


def _run(start: Callable[[_penstock.Rows, int], _penstock.RowRun], inputs: Sequence[_Input], by: Any, nulls: str | None, budget: _Budget,
         batch_rows: int = 65536, progress: Progress = None, reads_first: bool = True) -> Batches:
    first = inputs[0]
    rows = _rows(first.columns.plain, _keys(by, nulls, first.schema), budget, batch_rows)
    return Batches(start(rows, len(inputs)), inputs, first.columns, _Bar(progress), reads_first)


# ---- Bounds of ranges, from a random sample.

PLACES_PER_PART = 256  # rows of a sample: sizes of parts then have a standard deviation of a 16th of their mean
UNITS_PER_PART, UNITS_MIN = 4, 64  # row groups and files that a sample reads
KEY_BYTES = 1024  # mean memory of a row of a sample
HEAD_BYTES = 8  # head of a row of the library
NO_KEY = HEAD_BYTES.to_bytes(4, "little") + bytes(4)


def place_by_chance(place: int, places: int, total: int, chance: Any) -> int:
    """Returns a random position of [0, total), in the given one of `places` equal stretches."""
    return min(total - 1, int((place + chance.random()) * total / places))


def units_by_chance(rows: Sequence[int], parts: int, first: int, last: int, places: int, chance: Any) -> Counter[int]:
    """Chooses which units to read, and how many rows of each, for positions [first, last) of a sample of all rows. `rows` has the rows
    of each unit. If there are many units, one stands for its neighbours."""
    ends = list(accumulate(rows))
    step = max(1, len(rows) // max(UNITS_MIN, UNITS_PER_PART * parts))
    found = (bisect_right(ends, place_by_chance(place, places, ends[-1], chance)) for place in range(first, last))
    return Counter(unit - unit % step for unit in found)


class KeyReader:
    """Reads random rows of tables: only the columns of the key, converted to rows of the library without a payload."""

    def __init__(self, schema: pa.Schema, by: str | Iterable[By], nulls: str | None, budget: _Budget) -> None:
        self.names = list(dict.fromkeys(schema.names[column] for column, _, _ in _keys(by, nulls, schema)))
        self._columns = Columns(_pyarrow().schema([schema.field(name) for name in self.names]))
        self._rows = _rows(self._columns.plain, _keys(by, nulls, self._columns.schema), budget)
        self._budget = budget

    def take(self, batches: Iterator[pa.RecordBatch], count: int, chance: np.random.Generator) -> list[tuple[int, bytes]]:
        """Returns `count` rows with their numbers, each row with equal chance: every row draws a number, and those with the least are
        kept. If keys are long, fewer rows are returned."""
        kept: list[tuple[float, int, bytes]] = []
        before, size, room, limit = 0, 0, count * KEY_BYTES, 1.0
        for batch in _Input(self._columns.schema, (each.select(self.names) for each in batches), self._budget, self._columns):
            draws = chance.random(batch.num_rows)
            here = np.flatnonzero(draws < limit)
            if len(here) > count:
                here = here[np.argpartition(draws[here], count)[:count]]
            keys = _penstock.keys_of_rows(self._rows, batch.take(_pyarrow().array(here)).__arrow_c_array__()[1])
            kept += zip(draws[here].tolist(), (before + here).tolist(), keys)
            before, size = before + batch.num_rows, size + sum(map(len, keys))
            if len(kept) >= 2 * count or size > room:
                if size > room:
                    count = max(1, min(count, len(kept)) // 2)
                kept = sorted(kept)[:count]
                limit, size = kept[-1][0], sum(len(key) for _, _, key in kept)
        return [(number, key) for _, number, key in sorted(kept)[:count]]


def _bounds(data: Any, parts: int, by: str | Iterable[By], nulls: str | None, budget: _Budget, format: str | None, reads: _Reads) -> bytes | None:
    """Returns keys, each the first of a part. None for pipes and streams, which can only be read once."""
    units: list[tuple[Any, int | None, int]] = []  # a table, its row group (None: all), and its rows, or a file's size
    reader = None
    for table in data if isinstance(data, (list, tuple)) else [data]:
        is_path = isinstance(table, _PATHS)
        if not (stat.S_ISREG(os.stat(table).st_mode) if is_path else isinstance(table, _pyarrow().Table)):
            return None
        reader = reader or KeyReader(_open(table, budget, format, reads).schema, by, nulls, budget)
        if is_path and _format(table, format) == "parquet":
            told = _parquet(_name(table)).metadata
            units += [(table, group, told.row_group(group).num_rows) for group in range(told.num_row_groups)]
        else:
            units.append((table, None, max(1, os.stat(table).st_size >> 5) if is_path else len(table)))
    assert reader is not None
    rows = [count for _, _, count in units]
    places = min(PLACES_PER_PART * parts, sum(rows), budget.native // KEY_BYTES)
    chance = np.random.default_rng(0)
    keys: list[bytes] = []
    for unit, count in units_by_chance(rows, parts, 0, places, places, chance).items():
        table, group, _ = units[unit]
        batches = _open(table, budget, format, reads)._batches if group is None else _parquet_batches(_parquet(_name(table)), budget, [group], reader.names)
        keys += (key for _, key in reader.take(batches, count, chance))
    keys.sort(key=lambda row: row[HEAD_BYTES:])
    return b"".join(keys[part * len(keys) // parts] if keys else NO_KEY for part in range(1, parts))


# ---- Outputs.


def _groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema, budget: _Budget, row_group: int) -> Iterator[pa.Table]:
    """Yields tables of `row_group` rows, or fewer if their plain values would not fit the memory: the writer makes them of differing
    dictionaries."""
    held: list[Any] = []
    rows = size = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, row_group - rows)
            batch = batch.slice(part.num_rows)
            held.append(part)
            rows += part.num_rows
            size += batch_bytes(part)
            if rows >= row_group or size >= budget.group:
                yield _with_one_dictionary(_pyarrow().Table.from_batches(held, schema))
                held, rows, size = [], 0, 0
    if held:
        yield _with_one_dictionary(_pyarrow().Table.from_batches(held, schema))


def _with_one_dictionary(table: pa.Table) -> pa.Table:
    """Unifies the dictionaries of a column's chunks, if the index type allows, so that the file has a dictionary instead of plain
    values."""
    pa = _pyarrow()
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return table.unify_dictionaries()
    return table


class _Here(concurrent.futures.Executor):
    """Runs submitted work at once, in this thread."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **more: Any) -> concurrent.futures.Future[Any]:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        done.set_result(function(*arguments, **more))
        return done


def _write_parquet(name: Any, batches: Iterator[pa.RecordBatch], schema: pa.Schema, budget: _Budget, row_group: int, options: dict[str, Any]) -> None:
    """Writes a group in another thread while the next one is gathered, if there is memory for it."""
    groups = _groups(batches, schema, budget, row_group)
    first = next(groups, _pyarrow().Table.from_batches([], schema))
    aside = concurrent.futures.ThreadPoolExecutor(1) if budget.writes_aside else _Here()
    with _parquet_writer(name, first, options) as writer, aside:
        written = aside.submit(writer.write_table, first, row_group_size=row_group)
        del first
        for group in groups:
            written.result()
            written = aside.submit(writer.write_table, group, row_group_size=row_group)
            del group
        written.result()


def _parquet_writer(name: Any, first: pa.Table, options: dict[str, Any]) -> Any:
    """Opens a writer without dictionaries for columns whose values hardly repeat in the first rows, where they would cost time and
    space."""
    parquet = _pyarrow("parquet")
    if not options.keys() & {"use_dictionary", "column_encoding", "use_byte_stream_split"}:
        sample = first.slice(0, 65536)
        single = {field.name for i, field in enumerate(sample.schema) if _hardly_repeats(sample.column(i))}
        # Nested columns have paths, which a file of the schema lists.
        with _pyarrow().BufferOutputStream() as empty:
            parquet.ParquetWriter(empty, first.schema, **options).close()
            leaves = parquet.ParquetFile(empty.getvalue()).schema
        paths = (leaves.column(i).path for i in range(len(leaves)))
        options = options | {"use_dictionary": [path for path in paths if path not in single]}
    return parquet.ParquetWriter(name, first.schema, **options)


def _hardly_repeats(column: pa.ChunkedArray) -> bool:
    types = _pyarrow().types
    kind = column.type
    if not (types.is_primitive(kind) or types.is_decimal(kind) or types.is_binary(kind) or types.is_string(kind) or types.is_large_string(kind)):
        return False
    return bool(2 * _pyarrow().compute.count_distinct(column).as_py() > len(column))


def _write(name: Any, kind: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema, budget: _Budget, row_group: int,
           options: dict[str, Any]) -> None:
    pa = _pyarrow()
    with opened(name) as file:
        if kind == "parquet":
            _write_parquet(file, batches, schema, budget, row_group, options)
            return
        # An Arrow file has one dictionary per column, but each batch here has its own, except ordered categories. CSV has none.
        schema = pa.schema([field.with_type(plain(field.type)) if pa.types.is_dictionary(field.type) and not (kind == "ipc" and has_order(field.type))
                            else field for field in schema], metadata=schema.metadata)
        if kind == "csv":
            # For nested types the writer raises that it cannot write them.
            writer = _pyarrow("csv").CSVWriter(file, schema, **options)
        else:
            writer = pa.ipc.new_file(file, schema, **options)
        with writer:
            for batch in batches:
                writer.write_batch(cast_batch(batch, schema))


# ---- The public functions.


def sort_batches(data: Any, *, by: str | Iterable[By], nulls: str | None = None, memory: int | str = "1G", threads: int = 2,
                 top: int | None = None, batch_rows: int = 65536, temp: Path | Iterable[Path] = (), format: str | None = None,
                 separator: str | None = None, types: Mapping[str, Any] | None = None, progress: Progress = None) -> Batches:
    """Sorts tables, and returns the rows batch by batch, each of at most `batch_rows` rows.

    Rows with equal keys keep their order. Columns of CSV are strings, or of the types that `types` has for their names.
    """
    return _sort_batches(data, by, nulls, memory, threads, top, batch_rows, temp, format, _Reads(separator, types), progress)


def _sort_batches(data: Any, by: Any, nulls: str | None, memory: int | str, threads: int, top: int | None, batch_rows: int, temp: Any,
                  format: str | None, reads: _Reads, progress: Progress) -> Batches:
    budget = _Budget(memory)
    own = _sort_options(threads=threads, stable=True, top=top)
    batch_rows = whole("batch_rows=", batch_rows)
    if batch_rows < 1:
        raise ValueError(f"a batch has at least one row, not {batch_rows}")
    inputs = _open_all(data, budget, format, reads)
    return _run(lambda rows, sources: _penstock.sort_rows(_files(budget, temp), own, rows, sources), inputs, by, nulls, budget, batch_rows,
                progress)


def sort_table(data: Any, output: Path, *, by: str | Iterable[By], nulls: str | None = None, memory: int | str = "1G", threads: int = 2,
               top: int | None = None, row_group: int | None = None, temp: Path | Iterable[Path] = (), format: str | None = None,
               output_format: str | None = None, separator: str | None = None, types: Mapping[str, Any] | None = None,
               progress: Progress = None, **options: Any) -> Report:
    """Sorts tables into a file, which may be an input.

    The file gets its name when it is complete. `row_group` is the number of rows in a group of Parquet, if a sixth of Arrow's share of
    the memory holds so many. `options` are those of pyarrow's writer.

    From CSV to CSV rows keep every byte, and keys are text, or numbers if `types` says so ({"id": "int64"}). In other outputs columns of
    CSV are strings, or of the types in `types`. `separator` is between fields of CSV.
    """
    kind = _format(output, output_format, writes=True)
    if paths := _texts(data, format, kind):
        files = _text_files(paths, output, by, nulls, memory, temp, _Reads(separator, types), row_group, options)
        return run(_penstock.sort_files, files, _sort_options(threads=threads, stable=True, top=top), _Bar(progress))
    row_group, options = _writer_options(kind, row_group, separator, options)
    batches = _sort_batches(data, by, nulls, memory, threads, top, 65536, temp, format, _Reads(separator, types), progress)
    return _write_all(batches, output, kind, _Budget(memory), row_group, options)


def _writer_options(kind: str, row_group: int | None, separator: str | None, options: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    _csv.refuse_reading_words(options)
    if row_group is not None and whole("row_group=", row_group) < 1:
        raise ValueError(f"a row group has at least one row, not {row_group}")
    if row_group is not None and kind != "parquet":
        raise ValueError("row_group= is for Parquet")
    if kind == "csv" and _csv.check_separator(separator) is not None:
        options = {"write_options": _pyarrow("csv").WriteOptions(delimiter=separator)} | options
    return row_group or 1 << 20, options


def check_no_writer(options: dict[str, Any]) -> None:
    _csv.refuse_reading_words(options)
    if options:
        raise TypeError(f"{next(iter(options))!r} is for a writer of tables: rows of CSV are written as they were read")


def _text_files(inputs: Sequence[Any], output: Path, by: Any, nulls: str | None, memory: int | str, temp: Any, reads: _Reads,
                row_group: int | None, options: dict[str, Any]) -> _penstock.FilesOptions:
    """Sorts rows of CSV as text."""
    check_no_writer(options)
    _writer_options("csv", row_group, None, {})
    files = _penstock.FilesOptions()
    files.set_paths([_path(path) for path in inputs], _path(output), [_path(path) for path in _list(temp)])
    _csv.set_items(files.items, _csv.words_of_keys(by, nulls, reads.types), reads.separator)
    files.memory_bytes = size_bytes(memory)
    return files


def _write_all(batches: Batches, output: Path, kind: str, budget: _Budget, row_group: int, options: dict[str, Any]) -> Report:
    with batches, _pool, Written() as written:
        _write(written.begin(output), kind, iter(batches), batches.schema, budget, row_group, options)
    assert batches.report is not None
    return batches.report


def merge_tables(inputs: Sequence[Any], output: Path, *, by: str | Iterable[By], nulls: str | None = None, memory: int | str = "1G",
                 row_group: int | None = None, temp: Path | Iterable[Path] = (), format: str | None = None, output_format: str | None = None,
                 separator: str | None = None, types: Mapping[str, Any] | None = None, **options: Any) -> Report:
    """Merges tables that are sorted by `by` already.

    Among equal keys, rows of earlier tables come first. CSV is handled as in sort_table().
    """
    kind = _format(output, output_format, writes=True)
    reads = _Reads(separator, types)
    own = _penstock.MergeFilesOptions()
    own.stable = True
    if paths := _texts(inputs, format, kind):
        return run(_penstock.merge_files, _text_files(paths, output, by, nulls, memory, temp, reads, row_group, options), own, _Bar(None))
    row_group, options = _writer_options(kind, row_group, separator, options)
    budget = _Budget(memory)
    # Each table gets its share.
    tables = _open_all(inputs, _shared(budget, len(inputs)), format, reads)
    batches = _run(lambda rows, sources: _penstock.merge_rows(_files(budget, temp), own, rows, sources), tables, by, nulls, budget, reads_first=False)
    try:
        return _write_all(batches, output, kind, budget, row_group, options)
    except Unsorted as error:
        # The library's error names a pipe.
        error.message = f"cannot merge: a table is not sorted by {by!r} (try: sort_table)"
        raise


def _shared(budget: _Budget, tables: int) -> _Budget:
    shared = _Budget(LEAST)
    shared.batch = max(64 << 10, budget.batch // max(1, tables))
    return shared


def partition_table(data: Any, output: str | os.PathLike[str], *, by: str | Iterable[By], parts: int, how: str = "hash",
                    nulls: str | None = None, memory: int | str = "1G", row_group: int | None = None, temp: Path | Iterable[Path] = (),
                    format: str | None = None, output_format: str | None = None, separator: str | None = None,
                    types: Mapping[str, Any] | None = None, **options: Any) -> list[str]:
    """Distributes rows to `parts` files, and returns their names.

    `output` is the files' name with {} for the part's number. `how` is "hash" of the key, which brings equal keys together, or "range",
    which puts the parts in order. Within a part rows keep their order. CSV is handled as in sort_table(); the numbers of its parts have
    leading zeros.
    """
    if how not in ("hash", "range"):
        raise ValueError(f"how must be 'hash' or 'range', not {how!r}")
    output = os.fsdecode(output)
    if "{}" not in output:
        raise ValueError(f"{output!r} has no {{}} for the number of a part")
    kind = _format(output, output_format, writes=True)
    reads = _Reads(separator, types)
    own = _penstock.PartitionFilesOptions()
    set_options(own, by=how, parts=parts)
    if paths := _texts(data, format, kind):
        files = _text_files(paths, output, by, nulls, memory, temp, reads, row_group, options)
        return [part.file for part in run(_penstock.partition_files, files, own, _Bar(None)).parts]
    row_group, options = _writer_options(kind, row_group, separator, options)
    budget = _Budget(memory)
    inputs = _open_all(data, budget, format, reads)
    columns = inputs[0].columns
    temps = _list(temp)
    with tempfile.TemporaryDirectory(prefix=".penstock-", dir=os.fsdecode(_path(temps[0])) if temps else os.path.dirname(output) or ".") as folder:
        def to_rows(name: str, options: _penstock.PartitionFilesOptions) -> Report:
            files = _files(budget, temp, output=os.fsencode(os.path.join(folder, name)))
            with _run(lambda made, sources: _penstock.partition_rows(files, options, made, sources), inputs, by, nulls, budget) as parted:
                for _ in parted:
                    pass
            assert parted.report is not None
            return parted.report

        with _pool:
            bounds = _bounds(data, own.parts, by, nulls, budget, format, reads) if how == "range" and 1 <= own.parts <= PARTS_MAX else None
        if bounds is not None:
            with open(os.path.join(folder, "bounds"), "wb") as file:
                file.write(bounds)
            own.set_bounds_path(os.fsencode(file.name))
        if bounds is not None or how == "hash":
            report = to_rows("{}", own)
        else:  # a stream is written to the disk to be sampled
            one = _penstock.PartitionFilesOptions()
            one.by, one.parts = "hash", 1
            everything = to_rows("all-{}", one).parts[0].file
            files = _files(budget, temp, [os.fsencode(everything)], os.fsencode(os.path.join(folder, "{}")))
            report = run(_penstock.partition_files, files, own, _Bar(None))
            os.unlink(everything)
        made = _rows(columns.plain, _keys(by, nulls, columns.schema), budget)
        names = []
        with Written() as written:
            for number, part in enumerate(report.parts):
                names.append(output.replace("{}", str(number)))
                rows = _penstock.read_rows(_files(budget, (), [os.fsencode(part.file)]), made)
                with Batches(rows, [], columns, _Bar(None)) as batches:
                    _write(written.begin(names[-1]), kind, batches, columns.schema, budget, row_group, options)
                os.unlink(part.file)
    return names


def top_table(data: Any, count: int, *, by: str | Iterable[By], nulls: str | None = None, memory: int | str = "1G",
              temp: Path | Iterable[Path] = (), format: str | None = None, separator: str | None = None,
              types: Mapping[str, Any] | None = None) -> pa.Table:
    """Returns the first `count` rows of tables in order, as a pyarrow table. Columns of CSV are strings, or of the types in `types`."""
    if whole("count=", count) < 0:
        raise ValueError(f"count= cannot be {count}")
    with _sort_batches(data, by, nulls, memory, 2, count, 65536, temp, format, _Reads(separator, types), None) as batches:
        return _pyarrow().Table.from_batches(list(batches), batches.schema)
