"""Operations on files larger than memory: arguments become the options of penstock/files.h, statistics become an object."""

from __future__ import annotations

import contextlib
import html
import json
import logging
import operator
import os
import re
import sys
from typing import Any, Callable, Iterable, Iterator, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import DTypeLike

from . import _penstock
from ._errors import in_python

Path: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes] | int"
Progress: TypeAlias = "Callable[[str, int, int], object] | bool | None"

_log = logging.getLogger("penstock")
# Rows of the table of options by the struct that has them.
ROWS: dict[str, list[dict[str, Any]]] = {}
for _row in _penstock.options():
    ROWS.setdefault(_row["owner"], []).append(_row)
_FORMATS = {"<u4": "u32", "<u8": "u64", "<i4": "i32", "<i8": "i64", "<f4": "f32", "<f8": "f64"}


class FileOptions(TypedDict, total=False):
    """The keyword options of all operations on files."""

    format: str  # "lines", "u32", "u64", "i32", "i64", "f32", "f64", "kv64", "record", "jsonl"
    record: int  # bytes of a record
    dtype: DTypeLike  # instead of format: a type of numbers, or the fields of a record
    key: str | Iterable[str]  # in the form of --key
    letters: str  # GNU sort's orders of lines: "n", "fd"; or a word: ":time"
    separator: str  # between fields
    csv: bool
    quote: str  # CSV: around fields; "none": quotes are text
    escape: str  # CSV: makes the next character text
    lenient: bool  # CSV: stray quotes are text
    header: int | bool  # lines in front of each file
    zero_terminated: bool
    locale: str  # order of text: a locale of the C library, "" for the environment's
    time_format: str  # the form of keys with :time, as in "%d/%m/%Y"; "": ISO 8601, or seconds since 1970
    number_format: str  # the form of keys with n, and of columns that are added up, as in "1,234.50"
    descending: bool
    seed: int  # for the order R
    memory: int | str  # "1G": the memory of this call
    temp: Path | Iterable[Path]  # folders for temporaries
    device: str  # the profile to plan with
    compressed: str  # output format: "gzip", "zstd" or "lz4"
    mechanism: str  # moves memory pages: "automatic", "mremap", "uffd_move", "shared"
    sync: bool  # the finished output is on the disk
    overwrite_device: bool
    decompress: bool
    encoding: str  # the encoding of text, which becomes UTF-8: "utf-16", "utf-16le", "utf-16be", "latin1", "windows-1252"
    bad_rows: str  # CSV: "skip", or the name of a file for blank and faulty rows
    progress: Progress  # True: a bar; or called as progress(phase, done_bytes, total_bytes), with 0 for an unknown total


class Report:
    """The statistics of a run: the object that --json prints. Its names are attributes: report.seconds, or report["seconds"]."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_told"][name]
        except KeyError:
            raise AttributeError(f"the report has no {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        return self._told[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._told)

    def __len__(self) -> int:
        return len(self._told)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._told]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and self._told == other._told

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics as plain dicts and lists."""
        def plain(value: Any) -> Any:
            return value.to_dict() if isinstance(value, Report) else [plain(one) for one in value] if isinstance(value, list) else value

        return {name: plain(value) for name, value in self._told.items()}

    def _plain(self) -> dict[str, Any]:
        return {name: value for name, value in self._told.items() if not isinstance(value, (Report, list))}

    def __repr__(self) -> str:
        return f"Report({', '.join(f'{name}={value!r}' for name, value in self._plain().items())})"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(_told(name, value))}</td></tr>"
                       for name, value in self._plain().items())
        return f"<table>{rows}</table>"


def _told(name: str, value: Any) -> str:
    if name == "bytes" or name.endswith("_bytes") or name.startswith("bytes_"):
        power = min(4, max(0, int(value).bit_length() - 1) // 10)
        return f"{value / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
    return f"{value:.3g} s" if name == "seconds" else str(value)


def size_bytes(size: int | str) -> int:
    """Converts a size to bytes: 4096, 64e6, "64M", "1.5G", "1GiB" (powers of 1024) or "1GB" (powers of 1000)."""
    if isinstance(size, (float, np.floating)) and float(size).is_integer():
        size = int(size)
    if not isinstance(size, str):
        return whole("a size", size)
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(?:([KMGT])(iB|B)?)?\s*", size, re.IGNORECASE)
    if not found:
        raise ValueError(f"no size: {size!r}; sizes are numbers of bytes, or such as '64M' and '1.5G'")
    number, unit, kind = found.groups()
    step = 1000 if (kind or "").upper() == "B" else 1024
    return int(float(number) * step ** (" KMGT".index(unit.upper()) if unit else 0))


def whole(name: str, value: Any) -> int:
    """Converts a whole number of any type, NumPy's too."""
    if not isinstance(value, (bool, np.bool_)):
        with contextlib.suppress(TypeError):
            return operator.index(value)
    raise TypeError(f"{name} is a whole number{', or such as ' + repr('64M') if name == 'a size' else ''}, not {value!r}")


def _words(name: str, words: Any) -> list[Any]:
    """Returns one word, several, or none as a list."""
    if words is not None and not hasattr(words, "__iter__"):
        raise TypeError(f"{name}= takes a word, or several, not {words!r}")
    return [] if words is None else [words] if isinstance(words, str) else list(words)


def threads_of(threads: Any) -> int:
    number = whole("threads=", threads)
    if number < 1:
        raise ValueError(f"threads must be at least 1, not {number}")
    return number


def set_options(options: Any, names: dict[str, str] = {}, **values: Any) -> None:
    """Sets attributes of an extension object, which refuses values of other types with its own messages. `names`: the callers' names of
    the attributes."""
    for name, value in values.items():
        said = names.get(name, name)
        number = hasattr(value, "__index__") and not isinstance(value, (bool, np.bool_))
        try:
            setattr(options, name, whole(said, value) if number else bool(value) if isinstance(value, np.bool_) else value)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, ValueError) and isinstance(value, str):
                raise ValueError(f"{said}={error}") from None
            found = re.search(r"arg: ([^,)]+)", str(error))
            wanted = found[1].strip() if found else "another value"
            if number and wanted.startswith("int"):
                raise ValueError(f"{said}= cannot be {value}") from None
            raise TypeError(f"{said}= takes {wanted}, not {value!r}") from None


def _notice(text: str) -> None:
    _log.info(in_python(text))


def _path(path: Path) -> bytes:
    if isinstance(path, (str, bytes, os.PathLike)):
        return os.fsencode(path)
    if hasattr(path, "read") or isinstance(path, np.ndarray):
        raise TypeError(f"{type(path).__module__}.{type(path).__name__} is no path: give the file's name, or the number of its descriptor")
    if isinstance(path, (bool, np.bool_)) or not hasattr(path, "__index__"):
        raise TypeError(f"a path is a name, or the number of a descriptor, not {path!r}")
    return b"/dev/fd/%d" % operator.index(path)


def _list(paths: Any) -> list[Any]:
    if isinstance(paths, np.ndarray) and paths.dtype.kind in "OSU":
        return paths.ravel().tolist()
    if isinstance(paths, (str, bytes, os.PathLike)) or hasattr(paths, "__index__") or hasattr(paths, "read") or not hasattr(paths, "__iter__"):
        return [paths]
    return list(paths)


def _items(items: _penstock.ItemFormat, options: dict[str, Any]) -> None:
    """Moves the options of the items' format from `options` to `items`."""
    keys = options.pop("key", None)
    set_options(items, {"keys": "key"}, keys=_words("key", keys))
    if "dtype" in options:
        if "format" in options:
            raise TypeError("give format= or dtype=, not both")
        dtype = np.dtype(options.pop("dtype"))
        if dtype.str in _FORMATS and not items.keys:
            items.name = _FORMATS[dtype.str]
        else:
            items.name = "record"
            items.dtype = str(dtype.descr) if dtype.names else dtype.str
            items.keys = items.keys or list(dtype.names or ["f0"])
    if isinstance(options.get("header"), bool):
        options["header"] = int(options["header"])
    _take(items, "ItemFormat", options)


def _take(native: Any, owner: str, options: dict[str, Any]) -> None:
    """Moves the options of one struct of the table from `options` to an object of the extension."""
    for row in ROWS[owner]:
        if row["python"] in options:
            set_options(native, {row["name"]: row["python"]}, **{row["name"]: options.pop(row["python"])})


def _options(inputs: Path | Iterable[Path], output: Path, options: dict[str, Any]) -> tuple[_penstock.FilesOptions, _Bar]:
    """Makes the extension's options of those of FileOptions. The caller has to close the bar."""
    left = dict(options)
    files = _penstock.FilesOptions()
    paths = [_path(path) for path in _list(inputs)]
    files.set_paths(paths, _path(output), [_path(path) for path in _list(left.pop("temp", []))])
    _items(files.items, left)
    set_options(files, {"memory_bytes": "memory"}, memory_bytes=size_bytes(left.pop("memory", "1G")))
    if "device" in left:
        if not isinstance(device := left.pop("device"), str):
            raise TypeError(f"device= is the name of a profile, not {device!r}")
        files.set_device(device)
    _take(files, "FilesOptions", left)
    bar = _Bar(left.pop("progress", None))
    if left:
        raise TypeError(f"no option {next(iter(left))!r}; options are {', '.join(FileOptions.__annotations__)}")
    return files, bar


class _Bar:
    """The progress bar or callback of `progress`."""

    def __init__(self, progress: Progress) -> None:
        if not (callable(progress) or progress is None or isinstance(progress, (bool, np.bool_))):
            raise TypeError(f"progress= is True, or is called with phase, bytes done and bytes in all; it is no {progress!r}")
        self.tell: Callable[[str, int, int], object] | None = progress if callable(progress) else None
        self._bar: Any = None
        self._width = 0
        if progress is True:
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped]
                self._bar = tqdm(unit="B", unit_scale=True, unit_divisor=1024)
                self.tell = self._tell_bar
            except ImportError:
                self.tell = self._tell_line

    def _tell_bar(self, phase: str, done: int, total: int) -> None:
        self._bar.total = total or None
        self._bar.set_description(phase, refresh=False)
        self._bar.update(done - self._bar.n)

    def _tell_line(self, phase: str, done: int, total: int) -> None:
        share = f" {100 * done // total} %" if total else ""
        line = f"{phase}{share}, {done / 2**20:.0f} MiB"
        print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(line)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._width:
            print(file=sys.stderr)


def report_of(text: str) -> Report:
    report: Report = json.loads(text, object_hook=Report)
    return report


def run(operation: Callable[..., str], files: _penstock.FilesOptions, own: Any, bar: _Bar) -> Report:
    try:
        return report_of(operation(files, own, bar.tell, _notice))
    finally:
        bar.close()


def _run(operation: Callable[..., str], inputs: Path | Iterable[Path], output: Path, own: Any, options: dict[str, Any]) -> Report:
    files, bar = _options(inputs, output, options)
    return run(operation, files, own, bar)


def _sort_options(**values: Any) -> _penstock.SortFilesOptions:
    own = _penstock.SortFilesOptions()
    set_options(own, **values)
    return own


def sort_file(inputs: Path | Iterable[Path], output: Path, *, threads: int = 2, stable: bool = False, unique: bool = False,
              keep: str = "first", top: int | None = None, resume: bool = False, compression: str = "auto", verify: bool = False,
              **options: Unpack[FileOptions]) -> Report:
    """Sorts files into one, within `memory`.

    The output may be an input, and appears when it is complete. With `resume`, finished work stays on the disk if the run ends early,
    and a run with the same options continues it. `compression` of temporaries is "auto" (if it pays), "never" or "always". `verify`
    reads the output back before it appears. `keep` chooses among items with equal keys: "first" (if `unique`), "last", "none" or
    "repeated" (all of them, and nothing else).
    """
    own = _sort_options(threads=threads, stable=stable, unique=unique, keep=keep, top=top, resume=resume, compression=compression,
                        verify=verify)
    return _run(_penstock.sort_files, inputs, output, own, dict(options))


def plan(inputs: Path | Iterable[Path], output: Path = "-", *, threads: int = 2, stable: bool = False, unique: bool = False,
         keep: str = "first", top: int | None = None, resume: bool = False, compression: str = "auto", verify: bool = False,
         **options: Unpack[FileOptions]) -> Report:
    """Plans a run of sort_file(): method, passes, bytes, seeks, seconds of the disk. It samples the inputs and probes the disk."""
    own = _sort_options(threads=threads, stable=stable, unique=unique, keep=keep, top=top, resume=resume, compression=compression,
                        verify=verify)
    return _run(_penstock.plan_sort_files, inputs, output, own, dict(options))


def check(path: Path, *, threads: int = 2, **options: Unpack[FileOptions]) -> Report:
    """Checks whether a file is sorted, and counts its items and duplicates. Its checksum does not depend on the items' order."""
    return _run(_penstock.check_file, path, "-", threads_of(threads), dict(options))


def merge(inputs: Path | Iterable[Path], output: Path, *, unique: bool = False, keep: str = "first", stable: bool = False,
          **options: Unpack[FileOptions]) -> Report:
    """Merges any number of sorted files."""
    own = _penstock.MergeFilesOptions()
    set_options(own, unique=unique, keep=keep, stable=stable)
    return _run(_penstock.merge_files, inputs, output, own, dict(options))


def partition_files(inputs: Path | Iterable[Path], output: Path, *, by: str = "hash", parts: int = 0, bounds: Path | None = None,
                    checksums: bool = False, **options: Unpack[FileOptions]) -> Report:
    """Distributes items to files, by "hash" or "range" of the key, or its first "bits". `output` is the files' name, with {} for the
    part's number."""
    own = _penstock.PartitionFilesOptions()
    if by not in ("range", "hash", "bits"):
        raise ValueError(f"by must be 'range', 'hash' or 'bits', not {by!r}")
    set_options(own, by=by, parts=parts, checksums=checksums)
    if bounds is not None:
        own.set_bounds_path(_path(bounds))
    return _run(_penstock.partition_files, inputs, output, own, dict(options))


def value_of(value: Any) -> dict[str, Any]:
    """Returns the value that a group aggregates, as options for JSON."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], int):
        dtype = np.dtype(value[1])
        if dtype.kind not in "iu":
            raise TypeError(f"values are whole numbers, not {dtype}")
        return {"field": [value[0], dtype.itemsize, dtype.kind == "i", dtype.byteorder == ">"]}
    return {"columns": [str(column) for column in _words("value", value)]}


def group_options(values: dict[str, Any]) -> _penstock.GroupFilesOptions:
    own = _penstock.GroupFilesOptions()
    set_options(own, **{name: value for name, value in values.items() if name != "field"})
    if "field" in values:
        own.set_value(*values["field"])
    return own


def group(inputs: Path | Iterable[Path], output: Path, *, count: bool = False, sum: bool = False, min: bool = False,
          max: bool = False, distinct: bool = False, value: tuple[int, DTypeLike] | str | Iterable[str] | None = None,
          results: str | Iterable[str] | None = None, sorted: bool = False, in_order: bool = False, top: int | None = None,
          threads: int = 2, **options: Unpack[FileOptions]) -> Report:
    """Writes one result for each key.

    sum, min and max are of `value`: (offset, dtype) in records; a field's name or number, or several, in text. Default: the value of
    kv64, or the number itself. `results` are of single columns, in the words of the command line: "mean=price", "quantile=0.9:price".
    """
    own = group_options({"count": count, "sum": sum, "min": min, "max": max, "distinct": distinct, "sorted": sorted, "in_order": in_order,
                         "top": top, "threads": threads, "results": _words("results", results), **value_of(value)})
    return _run(_penstock.group_files, inputs, output, own, dict(options))


# Whether pairs are written, lines of each side without a match, and lines of the first side as they are.
_JOINS = {"inner": (True, False, False, False), "left": (True, True, False, False), "right": (True, False, True, False),
          "outer": (True, True, True, False), "left_anti": (False, True, False, False), "right_anti": (False, False, True, False),
          "semi": (True, False, False, True), "anti": (False, True, False, True)}


def join(left: Path, right: Path | Iterable[Path], output: Path, *, on: str | Iterable[str] | None = None,
         left_on: str | Iterable[str] | None = None, right_on: str | Iterable[str] | None = None, how: str = "inner",
         columns: str = "", empty: str = "", ignore_case: bool = False, right_record: int | None = None,
         right_key: str | None = None, **options: Unpack[FileOptions]) -> Report:
    """Joins two files, or, if `right` is a list, more.

    Lines, rows of CSV, and JSON lines (format="jsonl") are joined in any order by fields: `on` (default: "1", the first one), or `left_on` and `right_on`; `how` is
    "inner", "left", "right", "outer", "left_anti" or "right_anti" or, for lines of `left` as they are, "semi" or "anti"; `columns` lists the fields to write, as in join -o. With format= or
    dtype= two sorted files of numbers or records are joined by their keys.
    """
    if ("format" in options and options["format"] != "jsonl") or "dtype" in options:
        if on is not None or left_on is not None or right_on is not None or how != "inner" or columns or empty or ignore_case:
            raise TypeError("on, left_on, right_on, how, columns, empty and ignore_case are for lines, CSV and JSON lines")
        files = _penstock.JoinFilesOptions()
        set_options(files, {"right_record_bytes": "right_record"}, right_record_bytes=right_record, right_key=right_key)
        return _run(_penstock.join_files, [left, *_list(right)], output, files, dict(options))
    if how not in _JOINS:
        raise ValueError(f"how must be one of {', '.join(_JOINS)}, not {how!r}")
    lines = _penstock.JoinLinesOptions()
    sides = [on if side is None else side for side in (left_on, right_on)]
    left_keys, right_keys = (_words("on", "1" if side is None else side) for side in sides)
    set_options(lines, {"left_keys": "on", "right_keys": "on"}, left_keys=left_keys, right_keys=right_keys)
    lines.pairs, lines.left_alone, lines.right_alone, lines.first_only = _JOINS[how]
    set_options(lines, {"list": "columns"}, list=columns, empty=empty, ignore_case=ignore_case)
    return _run(_penstock.join_lines, [left, *_list(right)], output, lines, dict(options))
