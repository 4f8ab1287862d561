"""What runs on the nodes. Each function here is one task; a driver (driver.py) says which, and where.

Whatever a task raises, or whenever its process is killed, it leaves files at most that no later attempt reads: their names
have the attempt's number, and the driver has them swept."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import tempfile
import threading
import time
from typing import Any, Callable, Iterator, TypeVar

import numpy as np

from .. import _penstock
from .._errors import Error, OutOfSpace
from . import sample, storage
from .job import Job, MiB
from .journal import Sliced

Told = TypeVar("Told")

# What a node keeps free, so that others can go on.
SPARE_BYTES = 16 * MiB

_local = threading.local()


class Stopped(Exception):
    """The job is over: where tasks are threads, this ends them."""


class InputChanged(Error, ValueError):
    """An input is not what it was when the job began."""


class SlicesLost(Exception):
    """Slices that this task needs are not there: on which node, which files (none: all), and why."""

    def __init__(self, node: str, paths: list[str], why: str) -> None:
        super().__init__(node, paths, why)
        self.node, self.paths, self.why = node, paths, why


class NodeFull(Exception):
    """A folder of a node has not enough room."""

    def __init__(self, node: str, folder: str, needed: int, free: int) -> None:
        super().__init__(node, folder, needed, free)
        self.node, self.folder, self.needed, self.free = node, folder, needed, free

    def __str__(self) -> str:
        return f"node {self.node}: {self.folder} has {self.free >> 20} MiB free, and {self.needed >> 20} MiB are needed"


def set_stop(stop: threading.Event | None, node: str) -> None:
    """Of this thread's task, where the driver runs tasks in threads of its own."""
    _local.stop, _local.node = stop, node


def node_name() -> str:
    node: str | None = getattr(_local, "node", None)
    if node is None:
        import ray

        node = str(ray.get_runtime_context().get_node_id())
    return node


def rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def go_on(*progress: object) -> None:
    stop = getattr(_local, "stop", None)
    if stop is not None and stop.is_set():
        raise Stopped


def reach(job: Job, point: str, attempt: str) -> None:
    """Where tests make something happen."""
    what = job.faults.get(f"{point}@{attempt.partition('-')[0]}")
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "hang":
        end = time.monotonic() + 60
        while time.monotonic() < end:
            go_on()
            time.sleep(0.05)
    elif what == "hang deaf":
        time.sleep(60)  # Ray's cancel does not interrupt it, as it does not a disk that hangs
    elif what == "full":
        raise OSError(errno.ENOSPC, "made full by a test", point)
    elif what is not None:
        raise OSError(errno.EIO, what, point)


# ---- The disks of a node.


def roots(job: Job) -> list[str]:
    """The job's folders on this node: below those that `temp` names, or $PENSTOCK_TEMP of the node (several, with : between them), or
    the system's own."""
    named = job.temp or [each for each in os.environ.get("PENSTOCK_TEMP", "").split(":") if each] or [tempfile.gettempdir()]
    return [os.path.join(each, job.hidden[1:]) for each in named]


def _free(folder: str) -> int:
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize


def root_for(job: Job, needed: int, number: int) -> str:
    """By turns among those that have room. Errors: NodeFull."""
    best: tuple[int, str] = (-1, "")
    for folder in (roots(job)[number % len(roots(job)):] + roots(job)[:number % len(roots(job))]):
        os.makedirs(folder, exist_ok=True)
        free = _free(folder)
        if free >= needed + SPARE_BYTES:
            return folder
        best = max(best, (free, folder))
    raise NodeFull(node_name(), best[1], needed, best[0])


def _is_full(error: BaseException) -> bool:
    return isinstance(error, OutOfSpace) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)


def _lies_in(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def sweep(job: Job) -> None:
    """Nothing of the job is left on this node."""
    for folder in roots(job):
        storage.remove(folder)


def look(job: Job) -> dict[str, int]:
    """Files with slices, and their bytes."""
    found = {}
    for folder in roots(job):
        for name in storage.names(folder):
            if name.endswith(".slices"):
                path = os.path.join(folder, name)
                found[path] = os.stat(path).st_size
    return found


def take_sample(job: Job, first: int, last: int, places: int) -> list[tuple[bytes, int, int]]:
    if job.table is None:
        return sample.take(job, first, last, places)
    from . import tables

    return tables.take_sample(job, first, last, places)


# ---- Stage 1.


def check_inputs(job: Job, group: int) -> None:
    for number in {piece.input for piece in job.groups[group].pieces}:
        before = job.inputs[number]
        try:
            now = storage.look(before.path).identity
        except FileNotFoundError:
            now = "gone"
        if now != before.identity:
            error = InputChanged(f"{before.path} has changed since the job began")
            error.subject = before.path
            raise error


def _bytes_of(job: Job, group: int) -> Iterator[bytes]:
    """Of a group that lies in an object store."""
    for piece in job.groups[group].pieces:
        begin, end = sample.bounds_of(job, piece)
        last = b""
        for data in storage.chunks(job.inputs[piece.input].path, begin, end):
            yield data
            last = data
        if last and not sample.item_bytes(job.items) and not last.endswith(sample.line_end(job.items)):
            yield sample.line_end(job.items)


def add_inputs(job: Job, files: _penstock.FilesOptions, group: int) -> Iterator[bytes] | None:
    """The group's bytes as sources of `files`; or what is to be fed to one."""
    pieces = job.groups[group].pieces
    if not all(storage.is_local(job.inputs[piece.input].path) for piece in pieces):
        return _bytes_of(job, group)
    # One for each input, whose last line may have no end.
    for piece in pieces:
        begin, end = sample.bounds_of(job, piece)
        path = os.fsencode(job.inputs[piece.input].path)
        if job.header and sample.header_of(os.fsdecode(path), job.inputs[piece.input].bytes, job.items) != job.header:
            raise ValueError(f"{os.fsdecode(path)} has another header than the first input")
        files.add_source(_penstock.stretches(job.header, [(path, begin, end - begin)]))
    return None


def with_fed(files: _penstock.FilesOptions, feed: Iterator[Any] | None, operation: Callable[[], Told]) -> Told:
    """operation(), in a thread of its own while this one feeds it. Whatever this one meets, Ray's cancel too, ends it before the task ends."""
    if feed is None:
        return operation()
    source = _penstock.FedSource()
    files.add_source(source)
    outcome: list[Any] = []
    stop, node = getattr(_local, "stop", None) or threading.Event(), node_name()

    def work() -> None:
        set_stop(stop, node)
        try:
            outcome.append(operation())
        except BaseException as error:  # noqa: BLE001 - it is raised where the operation is waited for
            outcome.append(error)
            source.cancel()

    thread = threading.Thread(target=work)
    try:
        thread.start()
        for data in feed:
            go_on()
            if not source.feed(data):
                break
        source.end()
        while thread.is_alive():  # so that a signal is seen
            thread.join(0.05)
    except BaseException:
        stop.set()
        source.cancel()
        if thread.is_alive():
            thread.join()
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]  # type: ignore[no-any-return]


def sliced_of(told: dict[str, Any], node: str, path: str, wanted: list[bool]) -> Sliced:
    slices = np.array(told["slices"], "<i8").reshape(-1, 3)
    slices = slices[np.argsort(slices[:, 0], kind="stable")]
    parts = told["parts"]
    return Sliced(node=node, path=path, bytes=os.stat(path).st_size, slices=slices, items=[part["items"] for part in parts],
                  sizes=[part["bytes"] for part in parts], checksums=[part["checksum"] for part in parts], seconds=told["seconds"],
                  peak_bytes=told["peak_bytes"], rss_bytes=rss_bytes(), missing=frozenset(part for part, is_wanted in enumerate(wanted) if not is_wanted))


def slicing(job: Job, group: int, wanted: list[bool]) -> _penstock.SliceFilesOptions:
    options = _penstock.SliceFilesOptions()
    options.wanted = wanted
    if job.operation == "sort":
        for cut in job.cuts:
            options.add_cut(cut.item, cut.within(group))
    else:
        options.parts = job.parts
    return options


def distribute(job: Job, group: int, attempt: str, wanted: list[bool]) -> Sliced:
    """Cuts the items of a group into slices, in one file on this node."""
    reach(job, f"distribute-{group}", attempt)
    check_inputs(job, group)
    folder = root_for(job, job.groups[group].bytes, group)
    path = os.path.join(folder, f"{group}-{attempt}.slices")
    try:
        if job.table is not None:
            from . import tables

            told = tables.slice_group(job, group, path, slicing(job, group, wanted))
        else:
            files = job.files(path, job.native_bytes, [folder])
            feed = add_inputs(job, files, group)
            if feed is not None and job.header:
                feed = _behind(job.header, feed)
            told = json.loads(with_fed(files, feed, lambda: _penstock.slice_files(files, slicing(job, group, wanted), go_on, str)))
        reach(job, f"distribute-{group}-index", attempt)
        check_inputs(job, group)
        return sliced_of(told, node_name(), path, wanted)
    except BaseException as error:
        storage.remove(path)
        if _is_full(error):
            raise NodeFull(node_name(), folder, job.groups[group].bytes, _free(folder)) from error
        raise


def _behind(head: bytes, rest: Iterator[Any]) -> Iterator[Any]:
    yield head
    yield from rest
