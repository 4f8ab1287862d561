"""Files that Python writes: past the page cache, and with names that they get when they are complete."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import mmap
import os
import re
import secrets
import stat
from types import TracebackType
from typing import Any, Iterator

from ._files import Path, _path

BLOCK_BYTES = 1 << 20


class _Direct(io.RawIOBase):
    """A file that is written block by block past the page cache. Written through the cache, it would touch as much memory as it has
    bytes; if a host reclaims idle memory, that takes three times as long as the disk."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._block = mmap.mmap(-1, BLOCK_BYTES)  # aligned, as direct I/O requires
        self._filled = self._written = 0
        self._set_direct(True)

    def _set_direct(self, on: bool) -> None:
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        with contextlib.suppress(OSError):  # some file systems cannot
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        with memoryview(data) as given, given.cast("B") as rest:
            at = 0
            while at < len(rest):
                now = min(len(rest) - at, BLOCK_BYTES - self._filled)
                self._block[self._filled:self._filled + now] = rest[at:at + now]
                at, self._filled = at + now, self._filled + now
                if self._filled == BLOCK_BYTES:
                    self._put()
            self._written += at
            return at

    def _put(self) -> None:
        size, self._filled = self._filled, 0
        with memoryview(self._block) as block:
            at = 0
            while at < size:
                at += os.write(self._descriptor, block[at:size])

    def close(self) -> None:
        """Writes the rest, which is less than a block."""
        if self.closed:
            return
        super().close()
        try:
            self._set_direct(False)
            self._put()
        finally:
            os.close(self._descriptor)

    def give_up(self) -> None:
        self._filled = 0
        self.close()


@contextlib.contextmanager
def opened(name: Any) -> Iterator[Any]:
    """Opens a file for pyarrow to write to. Pipes, devices and open files are returned unchanged."""
    if not isinstance(name, str) or (os.path.exists(name) and not os.path.isfile(name)):
        yield name
        return
    file = _Direct(name)
    try:
        yield file
    except BaseException:
        file.give_up()
        raise
    file.close()


class Written:
    """Files that get their names when all are complete, one after the other: a crash or an error between two leaves the first ones under
    their names, each of them whole, and nothing of the others.

    Until then they have no names, so that nothing is left however the process ends. If the file system cannot do that, and during the
    moment in which a file is replaced, they have names like the library's own temporaries: locked while the process lives, and removed
    by the next process that replaces a file there.
    """

    def __init__(self) -> None:
        self._files: list[tuple[int, str, str]] = []  # descriptor, temporary name or "", name

    def begin(self, path: Path) -> str:
        """Returns the path to write to."""
        given = os.fsdecode(_path(path))
        if os.path.exists(given) and not os.path.isfile(given):
            return given  # a pipe or a device has no temporary
        name = os.path.realpath(given)
        hidden = ""
        try:
            descriptor = os.open(os.path.dirname(name), os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
            hidden = _temporary_name(name)
            descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._files.append((descriptor, hidden, name))
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return hidden or f"/proc/self/fd/{descriptor}"

    def __enter__(self) -> Written:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                self._publish()
        finally:
            for descriptor, hidden, _ in self._files:
                with contextlib.suppress(FileNotFoundError):
                    if hidden:
                        os.unlink(hidden)
                os.close(descriptor)

    def _publish(self) -> None:
        for descriptor, _, name in self._files:
            _be_as(descriptor, name)
            os.fsync(descriptor)
        for number, (descriptor, hidden, name) in enumerate(self._files):
            if not hidden:
                try:
                    _link(descriptor, name)
                    continue
                except FileExistsError:
                    hidden = _temporary_name(name)
                    self._files[number] = descriptor, hidden, name
                    _link(descriptor, hidden)
            os.replace(hidden, name)
        for folder in {os.path.dirname(name) for _, hidden, name in self._files if hidden}:
            _remove_stale(folder)
        for folder in {os.path.dirname(name) for _, _, name in self._files}:
            sync(folder)


def _temporary_name(name: str) -> str:
    return os.path.join(os.path.dirname(name), f".penstock-{os.getpid()}-{secrets.token_hex(8)}.tmp")


def _be_as(descriptor: int, name: str) -> None:
    """Copies the owner and the mode of the replaced file. Without the permission to change the owner, the file keeps this user's."""
    with contextlib.suppress(FileNotFoundError):
        replaced = os.stat(name)
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(replaced.st_mode))


def _link(descriptor: int, name: str) -> None:
    os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor)  # src_dir_fd makes it follow the link


def _remove_stale(folder: str) -> None:
    for entry in os.scandir(folder):
        if re.fullmatch(r"\.penstock-\d+-[0-9a-f]{16}\.tmp", entry.name) and entry.is_file(follow_symlinks=False):
            with contextlib.suppress(OSError), open(entry.path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(entry.path)


def sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
