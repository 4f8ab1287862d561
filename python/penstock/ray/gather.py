"""Stage 2: the slices of one part, from wherever they lie, into the native sort, and what comes out under a hidden name.

Slices are fed in the order of groups, so that the stable sort keeps the order of the input. Where all of them lie on this node
the sort reads their files itself. Others come through fetch(), small tasks that are pinned to the node that has them: each
returns one object of neighbouring slices, `object_bytes` at most, and `objects` of them are on their way at once; the next one
is asked for when one was fed. So a gather has that many objects in the stores, whatever the size of the part."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, Iterator

import numpy as np

from .. import _penstock
from . import storage, tasks
from .job import Job
from .tasks import NodeFull, SlicesLost

# Of what comes in order and has no known length a group reserves more addresses than one process has for two of them.
_group_lock = threading.Lock()
FETCH_ATTEMPTS = 3
FETCH_MEMORY = 64 << 20  # what a process of Ray takes for one object, beside the object


@dataclass
class Here:
    """Slices of one part in one file, in order."""

    node: str
    path: str
    stretches: list[tuple[int, int]]  # offset, bytes


def fetch(job: Job, pieces: list[tuple[str, int, int]]) -> np.ndarray[Any, Any]:
    """Path, offset and bytes of neighbouring slices on this node: one object."""
    whole = np.empty(sum(size for _, _, size in pieces), "u1")
    room = memoryview(whole.data)
    at = 0
    for path, offset, size in pieces:
        try:
            with open(path, "rb", buffering=0) as file:
                while size:
                    got = os.preadv(file.fileno(), [room[at:at + size]], offset)
                    if not got:
                        raise OSError("it is shorter than its index says")
                    at, offset, size = at + got, offset + got, size - got
        except OSError as error:
            raise SlicesLost(tasks.node_name(), [path], str(error)) from error
    return whole


def _objects(job: Job, slices: list[Here]) -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
    """Neighbours on one node, as many as fill an object."""
    node, pieces, room = "", list[tuple[str, int, int]](), job.object_bytes
    for file in slices:
        for offset, size in file.stretches:
            while size:
                if pieces and (node != file.node or not room):
                    yield node, pieces
                    pieces, room = [], job.object_bytes
                node = file.node
                now = min(size, room)
                pieces.append((file.path, offset, now))
                offset, size, room = offset + now, size - now, room - now
    if pieces:
        yield node, pieces


def _from_nodes(job: Job, slices: list[Here]) -> Iterator[Any]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = tasks.node_name()
    run = ray.remote(max_retries=0)(fetch)

    def begin(node: str, pieces: list[tuple[str, int, int]]) -> Any:
        if node == here:
            return None
        return run.options(num_cpus=0, memory=FETCH_MEMORY, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
                           name="penstock fetch").remote(job, pieces)

    waiting: deque[tuple[str, list[tuple[str, int, int]], Any]] = deque()
    todo = _objects(job, slices)
    try:
        while True:
            while len(waiting) < job.objects:
                following = next(todo, None)
                if following is None:
                    break
                waiting.append((*following, begin(*following)))
            if not waiting:
                return
            node, pieces, object = waiting.popleft()
            yield fetch(job, pieces) if object is None else _fetched(node, pieces, object, begin)
    finally:
        for _, _, object in waiting:
            if object is not None:
                ray.cancel(object, force=True)


def _fetched(node: str, pieces: list[tuple[str, int, int]], object: Any, begin: Any) -> Any:
    import ray
    from ray.exceptions import OutOfMemoryError, RayError, RayTaskError, WorkerCrashedError

    for attempt in range(FETCH_ATTEMPTS):
        try:
            return ray.get(object)
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, SlicesLost) else error
        except (WorkerCrashedError, OutOfMemoryError) as error:
            if attempt + 1 == FETCH_ATTEMPTS:
                raise SlicesLost(node, [path for path, _, _ in pieces], str(error)) from error
            object = begin(node, pieces)
        except RayError as error:
            # The node has gone, and what it held.
            raise SlicesLost(node, [], f"{type(error).__name__}: the node does not answer") from error
    raise AssertionError


def _add_slices(job: Job, files: _penstock.FilesOptions, slices: list[Here], header: bytes) -> Iterator[Any] | None:
    here = tasks.node_name()
    if all(file.node == here for file in slices):
        files.add_source(_penstock.stretches(header, [(os.fsencode(file.path), offset, size) for file in slices
                                                      for offset, size in file.stretches]))
        return None
    feed = _from_nodes(job, slices)
    return tasks._behind(header, feed) if header else feed


@contextlib.contextmanager
def _sent(path: str) -> Iterator[str]:
    """The name of a pipe: what a native operation writes there goes to an object store."""
    with storage.to_write(path) as file:
        reader, writer = os.pipe()
        failed: list[BaseException] = []

        def send() -> None:
            while data := os.read(reader, 1 << 20):
                try:
                    if not failed:
                        file.write(data)
                except BaseException as error:  # noqa: BLE001 - it is raised below, when the operation has ended
                    failed.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield f"/dev/fd/{writer}"
        finally:
            os.close(writer)
            thread.join()
            os.close(reader)
        if failed:
            raise failed[0]


def _sort_options() -> _penstock.SortFilesOptions:
    options = _penstock.SortFilesOptions()
    options.threads, options.stable = 1, True
    return options


def _operation(job: Job, files: _penstock.FilesOptions) -> dict[str, Any]:
    if job.operation == "sort":
        return json.loads(_penstock.sort_checked(files, _sort_options(), tasks.go_on, str))  # type: ignore[no-any-return]
    if job.operation == "partition":
        return json.loads(_penstock.pass_checked(files, tasks.go_on, str))  # type: ignore[no-any-return]
    with _group_lock:
        return {"run": json.loads(_penstock.group_files(files, group_options(job.aggregates), tasks.go_on, str))}


def group_options(aggregates: dict[str, Any]) -> _penstock.GroupFilesOptions:
    options = _penstock.GroupFilesOptions()
    for name in ("count", "sum", "min", "max", "distinct"):
        setattr(options, name, aggregates.get(name, False))
    if aggregates.get("field"):
        options.set_value(*aggregates["field"])
    options.columns = aggregates.get("columns", [])
    options.sorted = aggregates.get("sorted", False)
    return options


def gather(job: Job, part: int, attempt: str, slices: list[Here]) -> dict[str, Any]:
    """One part of the output, complete and on the disk, under a name that nobody else uses."""
    tasks.reach(job, f"gather-{part}", attempt)
    for file in slices:  # before an object is begun
        if file.node == tasks.node_name() and not os.path.exists(file.path):
            raise SlicesLost(file.node, [file.path], "it is not there")
    folder = tasks.root_for(job, 0, part)
    path = job.hidden_path(part, attempt)
    try:
        if job.table is not None:
            from . import tables

            told = tables.write_part(job, part, path, slices, folder)
        else:
            with contextlib.nullcontext(path) if storage.is_local(path) else _sent(path) as output:
                files = job.files(output, job.native_bytes, [folder])
                feed = _add_slices(job, files, slices, job.header)
                told = tasks.with_fed(files, feed, lambda: _operation(job, files))
        tasks.reach(job, f"gather-{part}-written", attempt)
        return _told(job, part, path, told)
    except BaseException as error:
        if storage.is_local(path):
            storage.remove(path)
        if tasks._is_full(error):
            full = str(getattr(error, "subject", "") or getattr(error, "filename", "") or folder)
            where = folder if tasks._lies_in(full, [folder]) or not os.path.isabs(full) else os.path.dirname(full) or "."
            raise NodeFull(tasks.node_name(), where, sum(size for file in slices for _, size in file.stretches),
                           tasks._free(where) if os.path.isdir(where) else 0) from error
        if _is_missing(error, slices):
            raise SlicesLost(tasks.node_name(), [str(getattr(error, "subject", ""))], str(error)) from error
        raise


def _is_missing(error: BaseException, slices: list[Here]) -> bool:
    subject = str(getattr(error, "subject", ""))
    return any(file.path == subject for file in slices)


def _told(job: Job, part: int, path: str, told: dict[str, Any]) -> dict[str, Any]:
    run, check = told["run"], told.get("check")
    return {"path": path, "bytes": storage.look(path).bytes, "seconds": run.get("seconds", 0), "peak_bytes": run.get("peak_bytes", 0),
            "spilled_bytes": run.get("spilled_bytes", 0), "rss_bytes": tasks.rss_bytes(),
            "items": run.get("items", 0) if check is None else check["count"],
            "groups": run.get("groups"),
            "checksum": "" if check is None else check["checksum"],
            "first": "" if check is None else check["first"],
            "last": "" if check is None else check["last"],
            "unsorted": job.operation == "sort" and check is not None and not check["sorted"]}


