"""Slices of one part, from all nodes, as inputs of a native operation.

They are fed in the order of groups, so that a stable sort keeps the order of the input. If all of them are on this node
the operation reads their files itself. Others come through fetch(), small tasks that are pinned to the slices' node: each
returns one object of neighbouring slices, `object_bytes` at most, and `objects` of them are in flight at once; the next one
is requested when one was fed. So a gather has that many objects in the stores, whatever the size of the part."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from typing import Any, Iterator

import numpy as np

from .. import _penstock
from . import worker
from .job import Job
from .worker import SlicesLost

FETCH_ATTEMPTS = 3
FETCH_MEMORY = 64 << 20  # memory of a Ray process for one object, beside the object


@dataclass
class Here:
    """Slices of one part in one file, in order."""

    node: str
    path: str
    stretches: list[tuple[int, int]]  # offset, bytes


def fetch(job: Job, pieces: list[tuple[str, int, int]]) -> np.ndarray[Any, Any]:
    """Reads neighbouring slices of this node, given as path, offset and bytes, into one object."""
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
            raise SlicesLost(worker.node_name(), [path], str(error)) from error
    return whole


def _objects(job: Job, slices: list[Here]) -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
    """Yields neighbours on one node, as many as fill an object."""
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

    here = worker.node_name()
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
            # The node is lost, with its slices.
            raise SlicesLost(node, [], f"{type(error).__name__}: the node does not answer") from error
    raise AssertionError


def add_slices(job: Job, files: _penstock.FilesOptions, slices: list[Here], header: bytes) -> Iterator[Any] | None:
    here = worker.node_name()
    if all(file.node == here for file in slices):
        files.add_source(_penstock.stretches(header, [(os.fsencode(file.path), offset, size) for file in slices
                                                      for offset, size in file.stretches]))
        return None
    feed = _from_nodes(job, slices)
    return worker.behind(header, feed) if header else feed
