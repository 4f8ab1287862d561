"""CSV. From CSV to CSV rows stay text and keep every byte; the operations on files sort them. Otherwise fields become columns: strings,
or other types on request."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from . import _penstock
from ._arrow import pyarrow
from ._errors import Corrupt, Error, OutOfMemory, failure
from ._stream import Stream
from ._stream import open as open_stream

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-not-found,import-untyped,unused-ignore]

HEADER_BYTES_MAX = 1 << 20
COMPRESSED = (*_penstock.compressed_suffixes(), ".zstd")
_READS = {"delimiter", "sep", "quotechar", "quote_char", "encoding", "dtype", "dtypes", "column_types", "schema", "na_values", "null_values",
          "read_options", "parse_options", "convert_options"}


def refuse_reading_words(options: Mapping[str, Any]) -> None:
    """Refuses options of other CSV readers before they reach a writer."""
    for name in options:
        if name in _READS:
            raise TypeError(f"{name}= is no option of a writer; of a reader of CSV there are separator= and types=")


# ---- Keys.

ORDERS = {"ascending": False, "asc": False, "descending": True, "desc": True}


def keys_of(by: Any) -> list[tuple[str, bool, bool | None]]:
    """Returns each key's column, whether it is descending, and whether nulls are first (None if the key does not say)."""
    keys = []
    for one in [by] if isinstance(by, str) else list(by):
        name, *words = [one] if isinstance(one, str) else one
        descending, first = False, None
        for word in words:
            if word in ORDERS:
                descending = ORDERS[word]
            elif word in ("nulls first", "nulls last"):
                first = word == "nulls first"
            else:
                raise ValueError(f"an order is 'ascending' or 'descending', and 'nulls first' or 'nulls last', not {word!r}")
        keys.append((name, descending, first))
    if not keys:
        raise ValueError("by= names no column")
    return keys


# ---- Rows as text.


def _letter(kind: Any) -> str:
    """Returns the letter of --key that compares text as values of a type; "" for text itself."""
    pa = pyarrow()
    types = pa.types
    if types.is_integer(kind) or types.is_decimal(kind):
        return "n"
    if types.is_floating(kind):
        return "g"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return ""
    raise ValueError(f"rows of CSV are ordered as text or numbers, not as {kind}: dates and times of ISO 8601 have their order as text; "
                     "a .parquet output takes every type")


def words_of_keys(by: Any, nulls: str | None, types: Mapping[str, Any] | None) -> list[str]:
    """Returns keys in the form of --key, as "price:n:r"."""
    asked = {name: _letter(kind) for name, kind in types_of(types).items()}
    keys = keys_of(by)
    if nulls is not None or any(first is not None for _, _, first in keys):
        raise ValueError("rows of CSV have no nulls: an empty field is empty text, which comes first; nulls= is for tables of other kinds")
    if unused := asked.keys() - {name for name, _, _ in keys}:
        raise ValueError(f"types= names {min(unused)!r}, which is no key of by=: from CSV to CSV fields stay as they are")
    return [":".join([name, *filter(None, [asked.get(name)]), *["r"] * descending]) for name, descending, _ in keys]


def set_items(items: _penstock.ItemFormat, keys: list[str], separator: str | None) -> None:
    items.name, items.csv, items.header_lines, items.keys = "lines", True, 1, keys
    items.separator = check_separator(separator)


# ---- Fields as columns.


def types_of(types: Mapping[str, Any] | None) -> dict[str, Any]:
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise TypeError(f"types= maps names of columns to types of Arrow, such as {{'id': 'int64'}}; it is no {type(types).__name__}")
    return {name: pyarrow().type_for_alias(kind) if isinstance(kind, str) else kind for name, kind in types.items()}


def check_separator(separator: str | None) -> str | None:
    if separator is not None and (not isinstance(separator, str) or len(separator.encode()) != 1):
        raise ValueError(f"separator= is one character of ASCII, not {separator!r}")
    return separator


class _Rest(io.RawIOBase):
    """The bytes of a file whose first ones were read already."""

    def __init__(self, head: bytes, parts: Iterator[bytes]) -> None:
        super().__init__()
        self._ready = memoryview(head)
        self._parts = parts

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        if not self._ready:
            self._ready = memoryview(next(self._parts, b""))
        size = min(len(into), len(self._ready))
        into[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


def _parts(source: Any) -> Iterator[bytes]:
    """Yields the bytes of a path, decompressed, or of an open Python file."""
    if hasattr(source, "read"):
        file = source
    elif stat.S_ISREG(os.stat(source).st_mode) and not _penstock.is_compressed(os.fsencode(source)):
        file = open(source, "rb", buffering=0)
    else:
        file = open_stream(source, memory="4M")
    with contextlib.nullcontext() if file is source else file:
        yield from file.chunks("1M") if isinstance(file, Stream) else iter(lambda: file.read(1 << 20), b"")


def _row_bytes(text: bytes) -> int:
    """Returns the size of the first row, which ends at a line end behind an even number of quotes; 0 if it does not end."""
    end = quotes = 0
    while (at := text.find(b"\n", end) + 1) > 0:
        quotes += text.count(b'"', end, at)
        end = at
        if quotes % 2 == 0:
            return end
    return 0


def open_columns(source: Any, separator: str | None, types: Mapping[str, Any] | None, block_bytes: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Reads CSV as columns of strings, or of the given types. An empty field is an empty string, or a null of other types."""
    pa, csv = pyarrow(), pyarrow("csv")
    name = str(getattr(source, "name", source))
    parts = _parts(source)
    head = b""
    for part in parts:
        head += part
        if _row_bytes(head):
            break
        if len(head) > HEADER_BYTES_MAX:
            raise failure(Corrupt, "find the end of its header", name)
    asked = types_of(types)
    parse = {"delimiter": check_separator(separator) or ",", "newlines_in_values": True}

    def failed(error: Exception) -> Exception:
        text = str(error)
        kind: type[Error]
        kind, attempted, hint = Corrupt, f"read it as CSV: {text}", "rows with as many fields as the header; an output of CSV keeps any rows"
        if isinstance(error, UnicodeDecodeError):
            attempted, hint = "read its header, which is not UTF-8", "a header in UTF-8; an output of CSV keeps any bytes"
        elif "straddl" in text:
            kind, attempted, hint = OutOfMemory, f"read a row of more than {block_bytes} bytes", "a larger memory="
        elif "UTF8" in text:
            hint = "types={name: 'binary'} for columns that are not UTF-8"
        elif "conversion error" in text:
            hint = "another type in types=; without one the fields are strings"
        return failure(kind, attempted, name, hint)

    try:
        if not head.strip(b"\xef\xbb\xbf\r\n"):
            raise pa.ArrowInvalid("it has no header")
        row = head[:_row_bytes(head) or len(head)]
        names = csv.read_csv(pa.py_buffer(row), csv.ReadOptions(block_size=2 * HEADER_BYTES_MAX), csv.ParseOptions(**parse)).schema.names
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise failed(error) from None
    if unknown := [each for each in asked if each not in names]:
        raise ValueError(f"types= names a column {unknown[0]!r}; columns are {', '.join(names)}")
    try:
        reader = csv.open_csv(
            pa.PythonFile(io.BufferedReader(_Rest(head, parts)), "r"), csv.ReadOptions(block_size=block_bytes),
            csv.ParseOptions(**parse, ignore_empty_lines=len(names) > 1),  # an empty line is a row of one empty field
            csv.ConvertOptions(column_types={each: asked.get(each, pa.string()) for each in names}, null_values=[""], strings_can_be_null=False))
    except pa.ArrowInvalid as error:
        raise failed(error) from None

    def batches() -> Iterator[Any]:
        try:
            yield from reader
        except pa.ArrowInvalid as error:
            raise failed(error) from None

    return reader.schema, batches()
