"""Common parts of all tasks on nodes: cancellation, points at which tests inject faults, folders, feeds of native operations."""

from __future__ import annotations

import errno
import os
import resource
import signal
import tempfile
import threading
import time
from typing import Any, Callable, Iterator, TypeVar

from .. import _penstock
from .._errors import Error, OutOfSpace
from . import storage
from .job import Job, MiB

Told = TypeVar("Told")

# Space that stays free on a node, for other programs.
SPARE_BYTES = 16 * MiB

_local = threading.local()


class Stopped(Exception):
    """The job is over: ends tasks that are threads."""


class InputChanged(Error, ValueError):
    """An input has changed since the job began."""


class SlicesLost(Exception):
    """Slices that this task needs are missing: the node, the files (empty: all), and the reason."""

    def __init__(self, node: str, paths: list[str], why: str) -> None:
        super().__init__(node, paths, why)
        self.node, self.paths, self.why = node, paths, why


class NodeFull(Exception):
    """A folder of a node has too little room."""

    def __init__(self, node: str, folder: str, needed: int, free: int) -> None:
        super().__init__(node, folder, needed, free)
        self.node, self.folder, self.needed, self.free = node, folder, needed, free

    def __str__(self) -> str:
        return f"node {self.node}: {self.folder} has {self.free >> 20} MiB free, and {self.needed >> 20} MiB are needed"


def set_stop(stop: threading.Event | None, node: str) -> None:
    """Sets the stop event of this thread's task, if the driver runs tasks in threads."""
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
    """Runs the fault that a test has set for this point."""
    what = job.faults.get(f"{point}@{attempt.partition('-')[0]}")
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "hang":
        end = time.monotonic() + 60
        while time.monotonic() < end:
            go_on()
            time.sleep(0.05)
    elif what == "hang deaf":
        time.sleep(60)  # Ray's cancel does not interrupt it, as with a disk that hangs
    elif what == "full":
        raise OSError(errno.ENOSPC, "made full by a test", point)
    elif what is not None:
        raise OSError(errno.EIO, what, point)


# ---- The disks of a node.


def roots(job: Job) -> list[str]:
    """Returns the job's folders on this node: below those of `temp`, or of $PENSTOCK_TEMP on the node (separated by :), or the system's
    own."""
    named = job.temp or [each for each in os.environ.get("PENSTOCK_TEMP", "").split(":") if each] or [tempfile.gettempdir()]
    return [os.path.join(each, job.hidden[1:]) for each in named]


def free_bytes(folder: str) -> int:
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize


def root_for(job: Job, needed: int, number: int) -> str:
    """Chooses folders in turn among those with enough room. Errors: NodeFull."""
    best: tuple[int, str] = (-1, "")
    for folder in (roots(job)[number % len(roots(job)):] + roots(job)[:number % len(roots(job))]):
        os.makedirs(folder, exist_ok=True)
        free = free_bytes(folder)
        if free >= needed + SPARE_BYTES:
            return folder
        best = max(best, (free, folder))
    raise NodeFull(node_name(), best[1], needed, best[0])


def is_full(error: BaseException) -> bool:
    return isinstance(error, OutOfSpace) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)


def lies_in(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def sweep(job: Job) -> None:
    """Removes all files of the job from this node."""
    for folder in roots(job):
        storage.remove(folder)


def look(job: Job) -> dict[str, int]:
    """Returns the files with slices, and their bytes."""
    found = {}
    for folder in roots(job):
        for name in storage.names(folder):
            if name.endswith(".slices"):
                path = os.path.join(folder, name)
                found[path] = os.stat(path).st_size
    return found


# ---- Feeds.


def behind(head: bytes, rest: Iterator[Any]) -> Iterator[Any]:
    yield head
    yield from rest


def with_fed(files: _penstock.FilesOptions, feed: Iterator[Any] | None, operation: Callable[[], Told]) -> Told:
    """Runs operation() in a thread of its own while this one feeds it. Any exception in this thread, Ray's cancel included, ends the
    operation before the task ends."""
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
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits for the operation
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
        while thread.is_alive():  # wakes up for signals
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
