"""Arrow's types in rows of the library: encoded values become plain ones, and are encoded again after the sort."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np
from numpy.typing import NDArray

from ._errors import Unsupported, failure

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-not-found,import-untyped,unused-ignore]


def pyarrow(part: str = "compute") -> Any:
    """Imports pyarrow and one of its modules, by default the one that is always needed."""
    try:
        module = importlib.import_module(f"pyarrow.{part}")
        return importlib.import_module("pyarrow") if part == "compute" else module
    except ImportError as error:
        raise ImportError("penstock's tables need pyarrow: pip install pyarrow") from error


# ---- Types.


def plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values behind dictionaries, runs and views of texts. There is none for unions."""
    pa = pyarrow()
    types = pa.types
    if types.is_union(kind):
        raise pa.ArrowNotImplementedError("unions")
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain(kind.value_type)
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), keys_sorted=kind.keys_sorted)
    for is_list, made in ((types.is_list, pa.list_), (types.is_large_list, pa.large_list), (types.is_list_view, pa.list_view),
                          (types.is_large_list_view, pa.large_list_view)):
        if is_list(kind):
            return made(_plain_field(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(i)) for i in range(kind.num_fields)])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    """The field of a nested type, with plain values."""
    pa = pyarrow()
    if pa.types.is_run_end_encoded(field.type):  # pyarrow cannot cast such values there
        raise pa.ArrowNotImplementedError("runs")
    return field.with_type(plain(field.type))


def has_order(kind: pa.DataType) -> bool:
    """Returns whether values are ordered categories."""
    return bool(pyarrow().types.is_dictionary(kind) and kind.ordered)


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Casts to another encoding of the same values. pyarrow has not all of these casts."""
    pa = pyarrow()
    types = pa.types
    if array.type == kind:
        return array
    if types.is_run_end_encoded(array.type):
        return cast(pa.compute.run_end_decode(array), kind)
    if types.is_run_end_encoded(kind):
        return pa.compute.run_end_encode(cast(array, kind.value_type), run_end_type=kind.run_end_type)
    if types.is_dictionary(array.type):
        return cast(cast(array.dictionary, plain(array.type)).take(array.indices), kind)
    if types.is_dictionary(kind):
        found = array.dictionary_encode()
        return pa.DictionaryArray.from_arrays(found.indices.cast(kind.index_type), cast(found.dictionary, kind.value_type), ordered=kind.ordered)
    for is_list, made in ((types.is_list, pa.ListArray), (types.is_large_list, pa.LargeListArray)):
        if len(array) and is_list(array.type) and is_list(kind) and _has_dictionary(array.type) != _has_dictionary(kind):
            return made.from_arrays(pa.compute.subtract(array.offsets, array.offsets[0]), cast(_values(array, array.values), kind.value_type),
                                    type=kind, mask=array.is_null() if array.null_count else None)
    return array.cast(kind)


def _has_dictionary(kind: pa.DataType) -> bool:
    types = pyarrow().types
    return bool(types.is_dictionary(kind) or ((types.is_list(kind) or types.is_large_list(kind)) and _has_dictionary(kind.value_type)))


def _values(array: pa.Array, child: pa.Array) -> pa.Array:
    """The values of a child that the lists of a slice refer to."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return child.slice(first, last - first)


# ---- Columns.


class Columns:
    """The columns of a table and, in `plain`, their types in rows: encoded values become plain, and ordered categories become their
    numbers, which have the categories' order. The categories are those of the first batch, and have to be the same in all."""

    def __init__(self, schema: pa.Schema) -> None:
        pa = pyarrow()
        self.schema = schema
        self._categories: dict[int, Any] = {}  # by the column's number
        fields = []
        for field in schema:
            try:
                kind = field.type.index_type if has_order(field.type) else plain(field.type)
                if not has_order(field.type):
                    cast(cast(pa.nulls(1, field.type), kind), field.type)  # pyarrow lacks some casts
            except pa.ArrowNotImplementedError as error:
                raise failure(Unsupported, f"take values of the type {field.type}", field.name,
                              f"values of another type in {field.name!r}, or the table without it") from error
            fields.append(field.with_type(kind))
        self.plain = pa.schema(fields, metadata=schema.metadata)

    def to_plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.equals(self.plain):
            return batch
        arrays = [self._numbers(i, array) if has_order(array.type) else cast(array, self.plain.field(i).type)
                  for i, array in enumerate(batch.columns)]
        return pyarrow().record_batch(arrays, schema=self.plain)

    def from_plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.equals(self.schema):
            return batch
        arrays = [self._of_numbers(i, array) if has_order(field.type) else cast(array, field.type)
                  for i, (array, field) in enumerate(zip(batch.columns, self.schema))]
        return pyarrow().record_batch(arrays, schema=self.schema)

    def _numbers(self, i: int, array: pa.DictionaryArray) -> pa.Array:
        if array.null_count == len(array):  # all null: no categories
            return array.indices
        if not self._categories.setdefault(i, array.dictionary).equals(array.dictionary):
            raise failure(Unsupported, "order categories that differ from batch to batch", self.schema.field(i).name,
                          "the same categories in all, as by unify_dictionaries(); or their text")
        return array.indices

    def _of_numbers(self, i: int, array: pa.Array) -> pa.DictionaryArray:
        pa = pyarrow()
        categories = self._categories.get(i, pa.array([], self.schema.field(i).type.value_type))
        return pa.DictionaryArray.from_arrays(array, categories, ordered=True)


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    return pyarrow().record_batch([cast(array, field.type) for array, field in zip(batch.columns, schema)], schema=schema)


# ---- Sizes.


def plain_bytes(array: pa.Array) -> int:
    """Returns the bytes of an array when nothing of it is encoded. A dictionary may stand for any number of them."""
    types = pyarrow().types
    kind = array.type
    if types.is_dictionary(kind):
        return int(_lengths(array.dictionary)[array.indices.drop_null().to_numpy()].sum()) + 4 * len(array)
    if types.is_run_end_encoded(kind):
        pa = pyarrow()
        lengths = pa.array(_lengths(array.values))
        each = pa.RunEndEncodedArray.from_buffers(pa.run_end_encoded(kind.run_end_type, lengths.type), len(array), [None], offset=array.offset,
                                                  children=[array.run_ends, lengths])
        return (pa.compute.sum(pa.compute.run_end_decode(each)).as_py() or 0) + 4 * len(array)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return int(_lengths(array).sum()) + 4 * len(array)
    if kind == plain(kind) or not len(array):
        return int(array.nbytes)
    if types.is_map(kind):
        return plain_bytes(_values(array, array.keys)) + plain_bytes(_values(array, array.items)) + 4 * len(array)
    if types.is_struct(kind):
        return sum(plain_bytes(each) for each in array.flatten())
    return plain_bytes(array.flatten()) + 8 * len(array)  # a list of some kind


def batch_bytes(batch: pa.RecordBatch) -> int:
    return sum(plain_bytes(array) for array in batch.columns)


def _lengths(array: pa.Array) -> NDArray[np.int64]:
    """The bytes of each value."""
    pa = pyarrow()
    types = pa.types
    kind = array.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        # A view has 16 bytes, and begins with the length.
        views = np.frombuffer(array.buffers()[1] or b"", np.int32).reshape(-1, 4)
        return views[array.offset:array.offset + len(array), 0].astype(np.int64)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return np.asarray(pa.compute.binary_length(array).fill_null(0)).astype(np.int64)
    return np.full(len(array), -(-array.nbytes // max(1, len(array))))


def pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cuts a batch into pieces of at most `most_bytes` plain bytes, or of one row."""
    size = batch_bytes(batch)
    if batch.num_rows <= 1 or size <= most_bytes:
        yield batch
        return
    step = -(-batch.num_rows // min(batch.num_rows, -(-size // most_bytes)))
    for first in range(0, batch.num_rows, step):
        yield from pieces(batch.slice(first, step), most_bytes)
