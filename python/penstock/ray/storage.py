"""Storage of inputs, outputs and journals: folders that all nodes see, or file systems of fsspec (s3://, gs://, memory://).

A file appears under its name when it is complete. In a folder it is renamed; an object store shows only complete objects anyway."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
from dataclasses import dataclass
from typing import Any, Iterator

from .. import _written

# Size of a request. S3 allows 10,000 for an object; fsspec holds two.
UPLOAD_BYTES = 16 << 20


@dataclass(frozen=True)
class Found:
    path: str
    bytes: int
    identity: str  # differs if the file was changed or replaced


def is_local(path: str) -> bool:
    return "://" not in path


def absolute(path: str) -> str:
    return os.path.abspath(path) if is_local(path) else path


def _remote(path: str) -> tuple[Any, str]:
    try:
        import fsspec  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise ImportError(f"{path} needs fsspec: pip install fsspec, and what it needs for {path.partition(':')[0]}") from error
    # Without the cache, because the files may have changed.
    fs, name = fsspec.core.url_to_fs(path, use_listings_cache=False)
    return fs, str(name)


def look(path: str) -> Found:
    """Returns a file's size and identity. Errors: FileNotFoundError, IsADirectoryError."""
    if is_local(path):
        told = os.stat(path)
        return Found(path, told.st_size, f"{told.st_size}-{told.st_mtime_ns}-{told.st_ino}")
    fs, name = _remote(path)
    info = fs.info(name)
    if info["type"] == "directory":
        raise IsADirectoryError(f"{path} is a folder: name its files ({join(path, '*')})")
    return Found(path, int(info["size"]), f"{info['size']}-{hashlib.sha256(repr(info).encode()).hexdigest()[:16]}")


def expand(patterns: list[str]) -> list[Found]:
    """Expands names and patterns, whose files are in the order of names. A name must exist; hidden files do not match."""
    found: list[Found] = []
    for pattern in patterns:
        if not any(letter in pattern for letter in "*?["):
            found.append(look(pattern))
        elif is_local(pattern):
            found += [look(name) for name in sorted(glob.glob(pattern)) if os.path.isfile(name)]
        else:
            fs, name = _remote(pattern)
            scheme = pattern.partition("://")[0]
            found += [look(f"{scheme}://{each.lstrip('/') if scheme != 'file' else each}")
                      for each, info in sorted(fs.glob(name, detail=True).items()) if info["type"] == "file"]
    return found


def read(path: str, offset: int, size: int) -> bytes:
    """Returns up to `size` bytes, fewer at the file's end. REQUIRES: in a store, the first byte exists."""
    if not size:
        return b""
    if is_local(path):
        with open(path, "rb") as file:
            return os.pread(file.fileno(), size, offset)
    fs, name = _remote(path)
    return bytes(fs.cat_file(name, start=offset, end=offset + size))


def read_many(pieces: list[tuple[str, int, int]]) -> list[bytes]:
    """Reads pieces given as path, offset and bytes, like read(); from a store all at once."""
    if len({path.partition("://")[0] for path, _, _ in pieces if not is_local(path)}) != 1 or any(is_local(path) for path, _, _ in pieces):
        return [read(*piece) for piece in pieces]
    fs = _remote(pieces[0][0])[0]
    names = {path: _remote(path)[1] for path in {path for path, _, _ in pieces}}
    return list(fs.cat_ranges([names[path] for path, _, _ in pieces], [offset for _, offset, _ in pieces],
                              [offset + size for _, offset, size in pieces], on_error="raise"))


def chunks(path: str, begin: int, end: int, step: int = 16 << 20) -> Iterator[bytes]:
    for offset in range(begin, end, step):
        data = read(path, offset, min(step, end - offset))
        if len(data) != min(step, end - offset):
            raise OSError(f"{path} has become shorter while it was read")
        yield data


def write(path: str, data: bytes, hidden_in: str = "") -> None:
    """Writes a small file, atomically and durably. The remains of a killed process are in the folder `hidden_in`, or in the file's own."""
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
    sync(folder)  # makes the name durable


def to_read(path: str) -> Any:
    """Returns an input for pyarrow: the name of a file, or an open one."""
    if is_local(path):
        return path
    fs, name = _remote(path)
    return fs.open(name, "rb", block_size=4 << 20)


@contextlib.contextmanager
def to_write(path: str) -> Iterator[Any]:
    """Opens an output for pyarrow, like to_read(). It is durable, or in the store, when the block ends; if that fails, a store has
    nothing."""
    if is_local(path):
        yield path
        sync(path)
        return
    fs, name = _remote(path)
    file = fs.open(name, "wb", block_size=UPLOAD_BYTES)
    try:
        yield file
        file.close()
    except BaseException:
        with contextlib.suppress(Exception):  # the error that made it fail is raised
            file.discard()
        with contextlib.suppress(AttributeError):
            file.closed = True  # otherwise the garbage collector closes it, and half of an object appears
        raise


def end_uploads(paths: list[str]) -> None:
    """Aborts uploads that killed processes had begun there: S3 keeps them, unseen, and charges for them. Without the permission to list
    uploads they stay."""
    fs, first = _remote(paths[0])
    if not hasattr(fs, "abort_mpu"):  # only s3fs has it
        return
    bucket = fs.split_path(first)[0]
    keys = {fs.split_path(fs._strip_protocol(path))[1] for path in paths}
    with contextlib.suppress(OSError):
        marks: dict[str, str] = {}
        while True:
            told = fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=os.path.commonprefix(sorted(keys)), **marks)
            for upload in told.get("Uploads", ()):
                if upload["Key"] in keys:
                    with contextlib.suppress(FileNotFoundError):
                        fs.abort_mpu(bucket, upload["Key"], upload["UploadId"])
            if not told.get("IsTruncated"):
                return
            marks = {"KeyMarker": told["NextKeyMarker"], "UploadIdMarker": told["NextUploadIdMarker"]}


def make_folder(path: str) -> None:
    """Makes a folder. Object stores have none; some other file systems of fsspec do."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)
    else:
        fs, name = _remote(path)
        fs.makedirs(name, exist_ok=True)


def names(folder: str) -> list[str]:
    """Returns the names of the files and folders in a folder; none if it does not exist."""
    if is_local(folder):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(os.listdir(folder))
        return []
    fs, name = _remote(folder)
    with contextlib.suppress(FileNotFoundError):
        return sorted({str(each).rstrip("/").rpartition("/")[2] for each in fs.ls(name, detail=False)})
    return []


def remove(path: str) -> None:
    """Removes a file or a folder, if it exists."""
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
    """Brings a file or a folder to the disk."""
    if is_local(path):
        _written.sync(path or ".")


def join(folder: str, name: str) -> str:
    return folder.rstrip("/") + "/" + name if folder else name


def folder_of(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
