"""Sorts and partitions of NumPy arrays, which are converted to the types that the extension sorts."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import _penstock
from ._files import set_options, threads_of, whole

# Added to a datetime64 as an unsigned number: keeps the order, and moves NaT, the least number, behind all others.
_NAT_LAST = np.uint64(2**63 - 1)


def _options(threads: int, descending: bool = False, stable: bool = False) -> _penstock.SortOptions:
    return _penstock.SortOptions(threads_of(threads), bool(descending), bool(stable))


def check_no_mask(a: Any) -> Any:
    """Returns the argument. Raises for a masked array, because masked values would become visible."""
    if isinstance(a, np.ma.MaskedArray):
        raise TypeError("penstock takes no masked arrays: give a.compressed(), or a.filled() with what the masked items are to be")
    return a


class AsArray:
    """Objects that NumPy converts to their `array`."""

    def __array__(self: Any, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        a: NDArray[Any] = self.array
        if copy is False and dtype is not None and np.dtype(dtype) != a.dtype:
            raise ValueError(f"{a.dtype} becomes {np.dtype(dtype)} by a copy alone")
        return a.astype(a.dtype if dtype is None else dtype, copy=bool(copy))

    def __len__(self: Any) -> int:
        return len(self.array)


def _refuse(dtype: np.dtype[Any]) -> TypeError:
    if dtype.byteorder == ">":
        return TypeError(f"penstock sorts numbers in the machine's byte order, not {dtype}: use a.astype(a.dtype.newbyteorder('='))")
    if dtype.kind == "c":
        return TypeError(f"penstock does not sort {dtype}: complex numbers have no order of their own; sort by a.real or abs(a) with argsort()")
    if dtype.kind == "O":
        return TypeError("penstock does not sort arrays of objects: make them numbers or strings of a fixed length with a.astype()")
    if dtype.kind == "f":
        return TypeError(f"penstock does not sort {dtype}: use a.astype(numpy.float64)")
    return TypeError(f"penstock does not sort {dtype}: sort the part that decides as numbers, with argsort()")


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Returns whether the extension sorts the items themselves, or numbers of the same order."""
    if dtype.byteorder == ">" and dtype.itemsize > 1:
        raise _refuse(dtype)
    if dtype.kind in "biumMf" and dtype.itemsize in (1, 2, 4, 8):
        return True
    if dtype.kind in "SUV":
        return False
    raise _refuse(dtype)


def _encode(a: NDArray[Any], *, in_place: bool) -> NDArray[Any]:
    """Returns numbers in the order of `a` for the extension to sort; `a` itself if possible or requested."""
    if a.dtype.kind == "b":
        return a.view(np.uint8)
    if a.dtype.kind in "mM":
        bits = a.view(np.uint64)
        return np.add(bits, _NAT_LAST, out=bits if in_place else None)
    if a.dtype == np.float16:
        return a.astype(np.float32)
    return a


def _decode(encoded: NDArray[Any], a: NDArray[Any]) -> None:
    """Writes the numbers of _encode(), in their new order, back to `a`."""
    if a.dtype.kind in "mM":
        np.subtract(encoded, _NAT_LAST, out=a.view(np.uint64))
    elif a.dtype == np.float16:
        a[...] = encoded


def _with_same_bits(keys: NDArray[Any]) -> NDArray[Any]:
    """Returns a copy in which equal floats have the same bits: -0 and 0, all NaNs."""
    with np.errstate(invalid="ignore"):
        result: NDArray[Any] = keys + keys.dtype.type(0)
    result[np.isnan(result)] = np.nan
    return result


def _key_bytes(a: NDArray[Any], order: Sequence[str] | None = None) -> NDArray[np.uint8]:
    """Returns for each item of `a`, which has one dimension, bytes that compare as the items do."""
    dtype = a.dtype
    if dtype.names is not None:
        fields = [dtype.names[0]] if order is None and len(dtype.names) == 1 else list(order or dtype.names)
        unknown = [name for name in fields if name not in dtype.names]
        if unknown:
            raise ValueError(f"no field {unknown[0]!r} in {dtype}")
        if len(set(fields)) < len(fields):
            raise ValueError(f"duplicate fields in {fields}")
        return np.concatenate([_key_bytes(np.ascontiguousarray(a[name])) for name in fields], axis=1)
    if order is not None:
        raise ValueError(f"order= is for dtypes with fields, not {dtype}")
    if dtype.subdtype is not None or dtype.kind == "V" or dtype.hasobject:
        raise _refuse(dtype)
    if dtype.kind == "S":
        return np.ascontiguousarray(a).view(np.uint8).reshape(len(a), dtype.itemsize)
    if dtype.kind == "U":
        keys = a.view(np.uint32)
    else:
        _is_number(dtype)
        keys = _encode(np.ascontiguousarray(a), in_place=False)
        bits = np.dtype(f"u{keys.itemsize}")
        sign = bits.type(1 << (8 * keys.itemsize - 1))
        if keys.dtype.kind == "f":
            keys = _with_same_bits(keys)
            keys = np.where(keys.view(bits) & sign, ~keys.view(bits), keys.view(bits) | sign)
        elif keys.dtype.kind == "i":
            keys = keys.view(bits) ^ sign
    return keys.astype(keys.dtype.newbyteorder(">")).view(np.uint8).reshape(len(a), -1)


def _sorted_records(keys: NDArray[np.uint8], payload: NDArray[np.uint8], options: _penstock.SortOptions) -> NDArray[np.uint8]:
    """Returns the rows of `payload` in the order of those of `keys`."""
    records = np.concatenate([keys, payload], axis=1)
    _penstock.sort_records(records, keys.shape[1], options)
    return np.ascontiguousarray(records[:, keys.shape[1]:])


def _rows(a: NDArray[Any], axis: int) -> NDArray[Any]:
    """Returns `a` as rows along an axis in contiguous memory: a view, or a copy if there is none."""
    moved = np.moveaxis(a, axis, -1)
    return np.ascontiguousarray(moved).reshape(-1, moved.shape[-1]) if moved.size else moved.reshape(0, 0)


def _axis_of(a: NDArray[Any], axis: int | None) -> int:
    if axis is None:
        raise TypeError("axis=None makes a copy: sort a.ravel()")
    np.moveaxis(a, axis, axis)  # raises AxisError; NumPy 1 has no public function that only checks
    return axis % a.ndim


def sort(a: NDArray[Any], *, axis: int = -1, values: NDArray[Any] | None = None, order: str | Sequence[str] | None = None,
         threads: int = 1, descending: bool = False, stable: bool = False) -> None:
    """Sorts an array in place, along an axis. NaN and NaT come last, with `descending` first.

    `values`, a one-dimensional array as long as `a`, is reordered like `a`. `order` names the fields of a structured dtype to sort by,
    by default all. Arrays that are not contiguous along the axis are sorted in a copy.
    """
    if not isinstance(check_no_mask(a), np.ndarray):
        raise TypeError(f"sort() needs a NumPy array, which it sorts in place, not {type(a).__name__}")
    options = _options(threads, descending, stable)
    if not a.flags.writeable:
        raise ValueError("the array is read-only: sort a copy of it")
    if values is not None:
        _sort_pairs(a, values, order, threads, descending, stable)
        return
    axis = _axis_of(a, axis)
    names = [order] if isinstance(order, str) else order
    number = _is_number(a.dtype)
    if number and names is not None:
        raise ValueError(f"order= is for dtypes with fields, not {a.dtype}")
    if a.size == 0:
        return
    rows = _rows(a, axis)
    if number:
        encoded = _encode(rows, in_place=True)
        try:
            _penstock.sort(encoded, options)
        finally:
            _decode(encoded, rows)
    else:
        for row in rows:
            _sort_records(row, names, options)
    if not np.may_share_memory(rows, a):  # a copy
        np.moveaxis(a, axis, -1)[...] = rows.reshape(np.moveaxis(a, axis, -1).shape)


def _sort_records(row: NDArray[Any], order: Sequence[str] | None, options: _penstock.SortOptions) -> None:
    keys = _key_bytes(row, order)
    if row.dtype.itemsize == 0:
        return
    items = row.view(np.uint8).reshape(len(row), -1)
    if row.dtype.kind == "S":
        _penstock.sort_records(items, items.shape[1], options)
    else:
        items[...] = _sorted_records(keys, items, options)


def _sort_pairs(a: NDArray[Any], values: NDArray[Any], order: str | Sequence[str] | None, threads: int, descending: bool,
                stable: bool) -> None:
    if not isinstance(check_no_mask(values), np.ndarray):
        raise TypeError(f"values= is a NumPy array, which is sorted in place, not {type(values).__name__}")
    if a.ndim != 1 or values.ndim != 1 or len(a) != len(values):
        raise ValueError(f"values= is for arrays of one dimension, as long as each other, not {a.shape} and {values.shape}")
    if not values.flags.writeable:
        raise ValueError("the values are read-only: give a copy of them")
    if np.shares_memory(a, values):
        raise ValueError("keys and values are in the same memory")
    # Equal keys with different bits: -0 and 0, NaNs.
    mixed = a.dtype.kind == "f" and bool(np.isnan(a).any() or (stable and ((a == 0) & np.signbit(a)).any()))
    plain = not mixed and all(x.flags.c_contiguous and x.flags.aligned for x in (a, values)) and not values.dtype.hasobject
    if plain and order is None and _is_number(a.dtype) and a.itemsize in (4, 8) and a.itemsize == values.itemsize and len(a):
        encoded = _encode(a, in_place=True)
        try:
            _penstock.sort_pairs(encoded.reshape(1, -1), values.view(f"u{a.itemsize}").reshape(1, -1),
                                 _options(threads, descending, stable))
        finally:
            _decode(encoded, a)
        return
    places = argsort(a, order=order, threads=threads, descending=descending)
    a[...] = a[places]
    values[...] = values[places]


def argsort(a: NDArray[Any], *, axis: int | None = -1, order: str | Sequence[str] | None = None, threads: int = 1,
            descending: bool = False) -> NDArray[np.intp]:
    """Returns the indices that sort an array along an axis, or as a whole (None): a[argsort(a)] is sorted. Stable."""
    a = np.asanyarray(check_no_mask(a))
    options = _options(threads, descending, stable=True)
    if axis is None:
        a, axis = a.ravel(), -1
    axis = _axis_of(a, axis)
    names = [order] if isinstance(order, str) else order
    number = _is_number(a.dtype)
    if number and names is not None:
        raise ValueError(f"order= is for dtypes with fields, not {a.dtype}")
    shape = np.moveaxis(a, axis, -1).shape
    if a.size == 0:
        return np.empty(a.shape, np.intp)
    rows = _rows(a, axis)
    places = np.empty(rows.shape, np.uint64)
    if number:
        keys = _encode(rows, in_place=False)
        if keys.dtype.kind == "f":
            keys = _with_same_bits(keys)
        _penstock.argsort(keys, places, options)
    else:
        count = np.arange(rows.shape[1], dtype=np.uint64).view(np.uint8).reshape(-1, 8)
        for row, place in zip(rows, places):
            keys = _key_bytes(row, names)
            if keys.shape[1] == 0:
                place[:] = np.arange(len(place))
            else:
                place[:] = _sorted_records(keys, count, options).view(np.uint64)[:, 0]
    return np.moveaxis(places.view(np.int64).reshape(shape), -1, axis).astype(np.intp, copy=False)


def top_k(a: NDArray[Any], k: int, *, axis: int | None = -1, threads: int = 1, descending: bool = False) -> NDArray[Any]:
    """Returns the k least items in order, along an axis, or of the whole array (None). With `descending` the k greatest, of which NaN
    and NaT are the greatest."""
    a = np.asanyarray(check_no_mask(a))
    options = _options(threads, descending)
    if axis is None:
        a, axis = a.ravel(), -1
    axis = _axis_of(a, axis)
    if not 0 <= whole("k", k) <= a.shape[axis]:
        raise ValueError(f"k must be between 0 and {a.shape[axis]}, the items along the axis, not {k}")
    moved = np.moveaxis(a, axis, -1)
    shape = (*moved.shape[:-1], k)
    if not _is_number(a.dtype):
        first = np.take(moved, range(k), axis=-1)  # for its type and shape
        places = np.moveaxis(argsort(a, axis=axis, threads=threads, descending=descending), axis, -1)
        first[...] = np.take_along_axis(moved, places[..., :k], -1)
        return np.moveaxis(first, -1, axis)
    result = np.empty(shape, a.dtype)
    if result.size:
        encoded = _encode(_rows(a, axis), in_place=False)
        first = np.empty((len(encoded), k), encoded.dtype)
        _penstock.top_k(encoded, first, options)
        rows = result.reshape(-1, k)
        if encoded.dtype != a.dtype and a.dtype.kind != "b":
            _decode(first, rows)
        else:
            rows[...] = first.view(a.dtype)
    return np.moveaxis(result, -1, axis)


class Partitions(Sequence[NDArray[Any]]):
    """The buckets of a partition, an array each, in memory of their own."""

    def __init__(self, buckets: _penstock.Buckets, dtype: np.dtype[Any]) -> None:
        self._buckets = buckets
        self._dtype = dtype

    def __len__(self) -> int:
        return len(self._buckets)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        return np.asarray(self._buckets.bucket(index)).view(self._dtype)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<penstock.Partitions: {len(self)} buckets of {self._dtype}>"


def partition(a: NDArray[Any], *, bits: int = 8, by: str = "low", seed: int = 0, bounds: Sequence[int] | None = None,
              first: int = 0, last: int | None = None, buckets: int = 256, threads: int = 1, stable: bool = False) -> Partitions:
    """Copies the items of an array to buckets.

    `by` selects the bucket: the `bits` "low" or "high" bits of an item, or of its "hash" (of `seed`); the "range", one of `buckets`
    equal parts of [first, last]. Or sorted `bounds` do: bucket i holds bounds[i - 1] <= item < bounds[i]. Items are unsigned numbers of
    32 or 64 bits; "low" and "hash" take signed ones, too.
    """
    a = np.asarray(check_no_mask(a))
    _is_number(a.dtype)
    if a.ndim != 1:
        raise ValueError(f"partition() takes arrays of one dimension, not {a.ndim}: use a.ravel()")
    if by not in ("low", "high", "hash", "range"):
        raise ValueError(f"by must be 'low', 'high', 'hash' or 'range', not {by!r}")
    by = "bounds" if bounds is not None else by
    kinds = "iu" if by in ("low", "hash") else "u"
    if a.dtype.kind not in kinds or a.itemsize not in (4, 8):
        raise TypeError(f"penstock partitions unsigned numbers of 32 or 64 bits by {by!r}, not {a.dtype}: use a.view() or a.astype()")
    rule = _penstock.By()
    splitters = [] if bounds is None else [whole("a bound", bound) for bound in bounds]
    if splitters != sorted(splitters):
        raise ValueError("bounds must be sorted")
    if splitters and not 0 <= splitters[0] <= splitters[-1] < 2**64:
        raise ValueError(f"bounds are unsigned numbers of 64 bits, not {splitters[0] if splitters[0] < 0 else splitters[-1]}")
    set_options(rule, by=by, bits=bits, seed=seed, first=first, buckets=buckets, splitters=splitters,
                last=2 ** (8 * a.itemsize) - 1 if last is None else last)
    items = np.ascontiguousarray(a).view(f"u{a.itemsize}").reshape(1, -1)
    return Partitions(_penstock.partition(items, rule, threads_of(threads), bool(stable)), a.dtype)
