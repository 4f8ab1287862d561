"""Files that Python writes, which have their names when they are complete."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from types import TracebackType

from ._files import Path, _path


class Written:
    """Files that get their names together, or none of them. Until then they have no names, so that whatever ends the process leaves
    nothing. Where the file system cannot do that, and in the moment in which a file is replaced, they have such names as the library's
    own temporaries have: locked while the process lives, and removed by whoever replaces the next file there."""

    def __init__(self) -> None:
        self._files: list[tuple[int, str, str]] = []  # descriptor, temporary name or "", name

    def begin(self, path: Path) -> str:
        """Where to write it."""
        given = os.fsdecode(_path(path))
        if os.path.exists(given) and not os.path.isfile(given):
            return given  # a pipe or a device is what it is
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
        with contextlib.suppress(OSError):  # not every file system has locks
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
    """With the owner and the mode of what it replaces. Who may not change the owner keeps his own."""
    with contextlib.suppress(FileNotFoundError):
        replaced = os.stat(name)
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(replaced.st_mode))


def _link(descriptor: int, name: str) -> None:
    os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor)  # with src_dir_fd it follows the link, which is all that it is for


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
