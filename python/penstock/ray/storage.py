"""Where inputs, outputs and journals lie: in folders that all nodes see, or where fsspec leads (s3://, gs://, memory://).

A file appears under its name when it is complete. In a folder it is renamed; an object store shows nothing else anyhow."""

from __future__ import annotations

import contextlib
import glob
import os
from dataclasses import dataclass
from typing import Any, Iterator

from .._tables import _sync


@dataclass(frozen=True)
class Found:
    path: str
    bytes: int
    identity: str  # another one: the file was changed, or replaced


def is_local(path: str) -> bool:
    return "://" not in path


def absolute(path: str) -> str:
    return os.path.abspath(path) if is_local(path) else path


def _remote(path: str) -> tuple[Any, str]:
    try:
        import fsspec  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise ImportError(f"{path} needs fsspec: pip install fsspec, and what it needs for {path.partition(':')[0]}") from error
    fs, name = fsspec.core.url_to_fs(path)
    return fs, str(name)


def look(path: str) -> Found:
    """Errors: FileNotFoundError."""
    if is_local(path):
        told = os.stat(path)
        return Found(path, told.st_size, f"{told.st_size}-{told.st_mtime_ns}-{told.st_ino}")
    fs, name = _remote(path)
    info = fs.info(name)
    return Found(path, int(info["size"]), f"{info['size']}-{fs.ukey(name)}")


def expand(patterns: list[str]) -> list[Found]:
    """Files by their names, patterns in the order of names. What is no pattern has to be there; hidden files are not found."""
    found: list[Found] = []
    for pattern in patterns:
        if not any(letter in pattern for letter in "*?["):
            found.append(look(pattern))
        elif is_local(pattern):
            found += [look(name) for name in sorted(glob.glob(pattern)) if os.path.isfile(name)]
        else:
            fs, name = _remote(pattern)
            scheme = pattern.partition("://")[0]
            found += [look(f"{scheme}://{each.lstrip('/') if scheme != 'file' else each}") for each in sorted(fs.glob(name))]
    return found


def read(path: str, offset: int, size: int) -> bytes:
    """As many bytes as are there."""
    if is_local(path):
        with open(path, "rb") as file:
            return os.pread(file.fileno(), size, offset)
    fs, name = _remote(path)
    return bytes(fs.cat_file(name, start=offset, end=offset + size))


def chunks(path: str, begin: int, end: int, step: int = 16 << 20) -> Iterator[bytes]:
    for offset in range(begin, end, step):
        data = read(path, offset, min(step, end - offset))
        if len(data) != min(step, end - offset):
            raise OSError(f"{path} has become shorter while it was read")
        yield data


def write(path: str, data: bytes, hidden_in: str = "") -> None:
    """A small file, whole or not at all, and on the disk. What a killed process leaves lies in the folder `hidden_in`, or in its own."""
    if not is_local(path):
        fs, name = _remote(path)
        fs.pipe_file(name, data)
        return
    folder, last = os.path.split(path)
    hidden = os.path.join(hidden_in or folder, f".{last}.{os.getpid()}.part")
    with open(hidden, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(hidden, path)
    sync(folder)  # its name, too


def to_read(path: str) -> Any:
    """What pyarrow opens: the name of a file, or one that is open."""
    if is_local(path):
        return path
    fs, name = _remote(path)
    return fs.open(name, "rb", block_size=4 << 20)


def open_to_write(path: str) -> Any:
    if is_local(path):
        return open(path, "wb")
    fs, name = _remote(path)
    return fs.open(name, "wb")


def discard(file: Any) -> None:
    """Of what open_to_write() gave: it is not closed, so that no half of an object appears."""
    if hasattr(file, "discard"):
        file.discard()


@contextlib.contextmanager
def to_write(path: str) -> Iterator[Any]:
    """What pyarrow writes to, as to_read(). It is on the disk, or in the store, when the block ends."""
    if is_local(path):
        yield path
        sync(path)
        return
    file = open_to_write(path)
    try:
        yield file
    except BaseException:
        discard(file)
        raise
    file.close()


def make_folder(path: str) -> None:
    """Object stores have none; of what else fsspec knows some have."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)
    else:
        fs, name = _remote(path)
        fs.makedirs(name, exist_ok=True)


def names(folder: str) -> list[str]:
    """Of the files and folders in it; none where it is not there."""
    if is_local(folder):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(os.listdir(folder))
        return []
    fs, name = _remote(folder)
    with contextlib.suppress(FileNotFoundError):
        return sorted({str(each).rstrip("/").rpartition("/")[2] for each in fs.ls(name, detail=False, refresh=True)})
    return []


def remove(path: str) -> None:
    """A file or a folder; nothing is wrong where it is not there."""
    with contextlib.suppress(FileNotFoundError):
        if not is_local(path):
            fs, name = _remote(path)
            fs.rm(name, recursive=True)
        elif os.path.isdir(path):
            for name in os.listdir(path):
                remove(os.path.join(path, name))
            os.rmdir(path)
        else:
            os.unlink(path)


def sync(path: str) -> None:
    """A file or a folder."""
    if is_local(path):
        _sync(path or ".")


def join(folder: str, name: str) -> str:
    return folder.rstrip("/") + "/" + name if folder else name


def folder_of(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
