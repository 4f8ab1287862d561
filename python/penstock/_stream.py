"""Data larger than memory as an array, or in chunks."""

from __future__ import annotations

import faulthandler
import functools
import io
import os
import re
import socket
import stat
import warnings
from types import TracebackType
from typing import Any, Iterator, TypeAlias, Union

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import _penstock
from ._errors import Error
from ._files import size_bytes
from ._memory import AsArray

Openable: TypeAlias = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", int, io.FileIO, io.BufferedReader, socket.socket]


class Stream(AsArray):
    """A stream of open(). Only one thread at a time may use it, and its arrays."""

    def __init__(self, native: _penstock.Stream, dtype: DTypeLike | None, name: str) -> None:
        self._dtype = None if dtype is None else np.dtype(dtype)
        if self._dtype is not None and (self._dtype.hasobject or self._dtype.itemsize == 0):
            raise TypeError(f"data cannot be read as {self._dtype}")
        self._name = name
        self._process = os.getpid()
        self._native = native

    @property
    def name(self) -> str:
        return self._name

    @property
    def closed(self) -> bool:
        return self._native.closed

    def _check(self) -> None:
        if self._native.closed:
            raise ValueError("the stream is closed")
        if os.getpid() != self._process:
            raise RuntimeError("a stream is its process's own: open the file in the child")

    def _check_length(self) -> None:
        self._check()
        if not self._native.has_length:
            raise TypeError(f"the length of {self._name} is not known: use chunks() or lines()")
        _penstock.serve_faults()

    def __len__(self) -> int:
        """The number of items of `array`."""
        self._check_length()
        return self._native.length_bytes // (self._dtype.itemsize if self._dtype else 1)

    @property
    def array(self) -> NDArray[Any]:
        """The whole file as a read-only array of the dtype, or of bytes (uint8) without one. Pages that are not in use take no memory.
        Best read from front to back; reading back more than a block or two reads again from the disk."""
        self._check_length()
        dtype = self._dtype or np.dtype(np.uint8)
        if self._native.length_bytes % dtype.itemsize:
            raise ValueError(f"{self._name} has {self._native.length_bytes} bytes, no whole number of {dtype}, which take {dtype.itemsize}")
        if self._native.length_bytes == 0:
            return np.empty(0, dtype)
        return np.frombuffer(self._native, dtype)  # type: ignore[call-overload,no-any-return]

    @property
    def buffer(self) -> memoryview:
        """All bytes of a file, like `array`."""
        self._check_length()
        return memoryview(self._native)  # type: ignore[arg-type]

    def chunks(self, size: int | str = "8M", *, overlap: int = 0) -> Iterator[Any]:
        """Yields the rest in pieces of `size` bytes: arrays of the dtype, or bytes without one, which the caller owns.

        Each piece begins with the last `overlap` items (or bytes) of the one before. Other threads run while this waits.
        """
        itemsize = self._dtype.itemsize if self._dtype else 1
        items = size_bytes(size) // itemsize
        if not 0 <= overlap < items:
            raise ValueError(f"chunks of {size} have {items} items, of which {overlap} cannot overlap")
        return self._bytes_chunks(items, overlap) if self._dtype is None else self._array_chunks(items, overlap, self._dtype)

    def _bytes_chunks(self, size: int, overlap: int) -> Iterator[bytes]:
        kept = b""
        while True:
            self._check()
            new = self._native.read(size - len(kept))
            if not new:
                return
            chunk = kept + new if kept else new
            del new
            yield chunk
            kept = chunk[len(chunk) - overlap:] if overlap else b""

    def _array_chunks(self, items: int, overlap: int, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
        kept = np.empty(0, dtype)
        while True:
            self._check()
            chunk = np.empty(items, dtype)
            chunk[: len(kept)] = kept
            got, rest = divmod(self._native.read_into(chunk[len(kept):].view(np.uint8)), dtype.itemsize)
            if rest:
                raise ValueError(f"{self._name} is no whole number of {dtype}, which take {dtype.itemsize} bytes: {rest} are left at the end")
            if not got:
                return
            chunk = chunk[: len(kept) + got]
            kept = chunk[len(chunk) - overlap:].copy() if overlap else kept[:0]
            yield chunk

    def lines(self) -> Iterator[bytes]:
        """Yields the rest line by line, each with its newline, like Python's files."""
        if self._dtype is not None:
            raise TypeError(f"lines are bytes: open the file without dtype={self._dtype}")
        begun: list[bytes] = []
        for chunk in self._bytes_chunks(1 << 20, 0):
            first, *others = chunk.split(b"\n")
            begun.append(first)
            if others:
                yield b"".join(begun) + b"\n"
                for line in others[:-1]:
                    yield line + b"\n"
                begun = [others[-1]]
        if last := b"".join(begun):
            yield last

    def finditer(self, pattern: bytes | re.Pattern[bytes], *, longest: int | str = "64K") -> Iterator[tuple[int, re.Match[bytes]]]:
        """Finds the matches of a regular expression in the rest, as re.finditer() finds them in all the bytes at once.

        Yields each match's offset in the stream, from the present position, and the match, whose own positions are within a piece. A
        match must be shorter than `longest` bytes, lookahead and lookbehind included. Other threads run while this waits.
        """
        if self._dtype is not None:
            raise TypeError(f"patterns are of bytes: open the file without dtype={self._dtype}")
        wanted = re.compile(pattern)
        behind = size_bytes(longest)
        if behind < 1:
            raise ValueError("matches are 1 byte long at least")
        return self._matches(wanted, behind)

    def _matches(self, wanted: re.Pattern[bytes], behind: int) -> Iterator[tuple[int, re.Match[bytes]]]:
        piece = b""
        offset = 0  # offset of the piece
        at = 0  # position in it from which the search continues; a pattern may look back at the bytes before
        while True:
            self._check()
            new = self._native.read(max(1 << 20, 2 * behind))
            kept = max(0, at - behind)
            piece = piece[kept:] + new
            offset += kept
            at -= kept
            # A match that begins before `limit` is complete, and no other match can begin before it.
            limit = max(at, len(piece) - behind) if new else len(piece) + 1
            for match in wanted.finditer(piece, at):
                if match.start() >= limit:
                    break
                at = match.end()
                yield offset + match.start(), match
            if not new:
                return
            at = max(at, limit)

    def close(self) -> None:
        """Closes the stream, and raises the first error of reading `array` or `buffer`. BufferError while arrays or views of it live."""
        native = self._native
        if native.closed or os.getpid() != self._process:
            return
        try:
            native.check_status()
        except Error:
            try:
                native.close()
            except BufferError:
                pass  # it is closed with the last view
            raise
        native.close()

    def __enter__(self) -> Stream:
        self._check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except BufferError:
            if error is None:
                raise  # otherwise its traceback keeps the views alive

    def __del__(self) -> None:
        native = getattr(self, "_native", None)
        if native is None or native.closed or os.getpid() != self._process:
            return
        try:
            native.check_status()
        except Error as error:
            warnings.warn(f"data were read as zeros: {error}", RuntimeWarning, source=self)

    def __repr__(self) -> str:
        of = f" of {self._dtype}" if self._dtype is not None else ""
        return f"<penstock.Stream {self._name!r}{of}{', closed' if self.closed else ''}>"


def _name_of(descriptor: int, name: object) -> str:
    """Returns the path that a file was opened by, if it still is the same file."""
    try:
        if isinstance(name, (str, bytes)) and os.path.samestat(os.stat(name), os.fstat(descriptor)):
            return os.fsdecode(name)
    except OSError:
        pass
    return f"/proc/self/fd/{descriptor}"


@functools.cache
def _stay_in_front_of_faulthandler() -> None:
    """Makes faulthandler's handler, if it is enabled later, come after the library's: it takes the fault of a stream for a crash, and
    ends the process."""
    enable = faulthandler.enable

    @functools.wraps(enable)
    def enable_behind(*arguments: Any, **options: Any) -> None:
        enable(*arguments, **options)
        _penstock.serve_faults()

    faulthandler.enable = enable_behind


def open(source: Openable, dtype: DTypeLike | None = None, *, memory: int | str = "16M", decompress: bool = True) -> Stream:
    """Opens a path, a descriptor, a file opened by open(path, "rb"), or a socket.

    A plain file has `.array` and `.buffer`; all sources have `.chunks()` and `.lines()`. gzip, zstd, lz4, xz, lzip and bzip2 are
    decompressed. Descriptors, files and sockets stay the caller's own, and are read from their position. `memory` is for reading ahead,
    and for the bytes kept behind.
    """
    _stay_in_front_of_faulthandler()
    memory_bytes = size_bytes(memory)
    head = b""
    begin = 0
    descriptor = -1
    if isinstance(source, (str, bytes, os.PathLike)):
        path = os.fspath(source)
        name = os.fsdecode(path)
        plain = stat.S_ISREG(os.stat(path).st_mode)
    else:
        if isinstance(source, bool) or not (isinstance(source, int) or type(source) in (io.FileIO, io.BufferedReader, socket.socket)):
            what = f"{type(source).__module__}.{type(source).__qualname__}"
            raise TypeError(f"cannot open {what}: give a path, a descriptor, a socket, or a file from open(path, 'rb')")
        if isinstance(source, io.BufferedReader) and type(source.raw) is not io.FileIO:
            raise TypeError(f"cannot open a reader of {type(source.raw).__name__}: its bytes are Python's; give a path or a descriptor")
        descriptor = source if isinstance(source, int) else source.fileno()
        plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
        name = _name_of(descriptor, getattr(source, "name", None))
        path = name
        if plain:
            begin = source.tell() if isinstance(source, io.BufferedReader) else os.lseek(descriptor, 0, os.SEEK_CUR)
        elif isinstance(source, io.BufferedReader):
            head = source.peek()  # the bytes that it has read already; it waits for the first ones
            if head:
                source.read(len(head))
    encoded = os.fsencode(path)
    if plain and (begin or not decompress or not _penstock.is_compressed(encoded)):
        native = _penstock.open_file(encoded, begin, memory_bytes)
    elif plain or isinstance(source, (str, bytes, os.PathLike)):
        native = _penstock.open_path(encoded, memory_bytes, decompress)
    else:
        native = _penstock.open_descriptor(descriptor, name, head, memory_bytes, decompress)
    return Stream(native, dtype, name)
