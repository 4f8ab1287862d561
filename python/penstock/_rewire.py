"""Arrays whose pages are remapped: a vector that grows in place, and a table with snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import _penstock
from ._files import size_bytes, whole
from ._memory import AsArray, check_no_mask


def _dtype(dtype: DTypeLike) -> np.dtype[Any]:
    result = np.dtype(dtype)
    if result.hasobject or result.itemsize == 0:
        raise TypeError(f"memory of the library's own cannot hold {result}")
    return result


class Vector(AsArray):
    """Items of a dtype in memory that grows and never moves: arrays of it stay valid, and nothing is copied.

    `limit` is the most memory that it may take, by default the machine's.
    """

    def __init__(self, dtype: DTypeLike, items: ArrayLike = (), *, limit: int | str = 0, page: int | str = "2M") -> None:
        self.dtype = _dtype(dtype)
        self._native = _penstock.open_vector(size_bytes(limit), size_bytes(page))
        if not (isinstance(items, tuple) and not items):
            self.extend(items)

    def append(self, item: Any) -> None:
        """Appends one item."""
        self._native.append(np.array([item], self.dtype).view(np.uint8))

    def extend(self, items: ArrayLike) -> None:
        """Appends all items of a one-dimensional object, preferably many at a time."""
        array = np.ascontiguousarray(check_no_mask(items), self.dtype)
        if array.ndim != 1:
            raise ValueError(f"a vector has one dimension, not {array.ndim}")
        if len(array):
            self._native.append(array.view(np.uint8))

    def grow(self, length: int) -> None:
        """Grows to `length` items; new ones are zeros."""
        if whole("length", length) < len(self):
            raise ValueError(f"it has {len(self)} items already; arrays of them may be in use")
        self._native.grow(length * self.dtype.itemsize)

    def __len__(self) -> int:
        return self._native.size // self.dtype.itemsize

    @property
    def array(self) -> NDArray[Any]:
        """All present items."""
        return self._native.bytes().view(self.dtype) if len(self) else np.empty(0, self.dtype)

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value

    def __repr__(self) -> str:
        return f"<penstock.Vector of {len(self)} {self.dtype}>"


class Snapshot(AsArray):
    """The contents of a table at one moment, in the read-only `array`."""

    def __init__(self, native: _penstock.Snapshot, dtype: np.dtype[Any], length: int) -> None:
        self._native = native
        self.array: NDArray[Any] = _items(native.bytes(), dtype, length)

    @property
    def epoch(self) -> int:
        """The number of the snapshot among those of its table, from 1."""
        return self._native.epoch

    def __repr__(self) -> str:
        return f"<penstock.Snapshot {self.epoch} of {len(self)} {self.array.dtype}>"


class Table(AsArray):
    """`length` items of a dtype, zeros at first, in `array`, which any thread may write; and snapshots of it.

    Taking a snapshot copies nothing: the first write to each page after it copies that page. While a snapshot lives, the table takes up
    to twice its memory; `limit` is the most, by default the machine's.
    """

    def __init__(self, dtype: DTypeLike, length: int, *, limit: int | str = 0, page: int | str = "2M") -> None:
        items = _dtype(dtype)
        if whole("length", length) < 1:
            raise ValueError(f"a table has at least one item, not {length}")
        self._native = _penstock.open_table(length * items.itemsize, size_bytes(limit), size_bytes(page))
        self.array: NDArray[Any] = _items(self._native.bytes(), items, length)

    def snapshot(self) -> Snapshot:
        """Takes a snapshot of the present contents. Threads that write wait until it is taken, for a time that does not depend on the
        table's size."""
        return Snapshot(self._native.snapshot(), self.array.dtype, len(self))

    def __repr__(self) -> str:
        return f"<penstock.Table of {len(self)} {self.array.dtype}>"


def _items(memory: NDArray[np.uint8], dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    return memory[: length * dtype.itemsize].view(dtype)
