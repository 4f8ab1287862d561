"""The tasks of stages 0 and 1, which run on nodes: sampling, and slicing a group. A driver (driver.py) chooses them and their nodes;
stage 2 is gather.py.

If a task raises, or its process is killed, it leaves at most files that no later attempt reads: their names have the attempt's number,
and the driver has them removed."""

from __future__ import annotations

import json
import os
from typing import Any, Iterator

import numpy as np

from .. import _penstock
from . import sample, storage, tables, worker
from .job import Job
from .journal import Sliced
from .worker import InputChanged, NodeFull


def take_sample(job: Job, first: int, last: int, places: int) -> list[tuple[bytes, int, int]]:
    if job.table is None:
        return sample.take(job, first, last, places)
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
    """Yields the bytes of a group in an object store."""
    for piece in job.groups[group].pieces:
        begin, end = sample.bounds_of(job, piece)
        last = b""
        for data in storage.chunks(job.inputs[piece.input].path, begin, end):
            yield data
            last = data
        if last and not sample.item_bytes(job.items) and not last.endswith(sample.line_end(job.items)):
            yield sample.line_end(job.items)


def add_inputs(job: Job, files: _penstock.FilesOptions, group: int) -> Iterator[bytes] | None:
    """Adds the group's bytes to `files` as sources, or returns the bytes to feed to one."""
    pieces = job.groups[group].pieces
    if not all(storage.is_local(job.inputs[piece.input].path) for piece in pieces):
        return _bytes_of(job, group)
    # One source for each input, because its last line may have no end.
    for piece in pieces:
        begin, end = sample.bounds_of(job, piece)
        path = os.fsencode(job.inputs[piece.input].path)
        if job.header and sample.header_of(os.fsdecode(path), job.inputs[piece.input].bytes, job.items) != job.header:
            raise ValueError(f"{os.fsdecode(path)} has another header than the first input")
        files.add_source(_penstock.stretches(job.header, [(path, begin, end - begin)]))
    return None


def sliced_of(told: dict[str, Any], path: str, wanted: list[bool]) -> Sliced:
    slices = np.array(told["slices"], "<i8").reshape(-1, 3)
    slices = slices[np.argsort(slices[:, 0], kind="stable")]
    parts = told["parts"]
    return Sliced(node=worker.node_name(), path=path, bytes=os.stat(path).st_size, slices=slices, items=[part["items"] for part in parts],
                  sizes=[part["bytes"] for part in parts], checksums=[part["checksum"] for part in parts], seconds=told["seconds"],
                  peak_bytes=told["peak_bytes"], rss_bytes=worker.rss_bytes(), missing=frozenset(part for part, is_wanted in enumerate(wanted) if not is_wanted))


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
    worker.reach(job, f"distribute-{group}", attempt)
    check_inputs(job, group)
    folder = worker.root_for(job, job.groups[group].bytes, group)
    path = os.path.join(folder, f"{group}-{attempt}.slices")
    try:
        if job.table is not None:
            told = tables.slice_group(job, group, path, slicing(job, group, wanted))
        else:
            files = job.files(path, job.native_bytes, [folder])
            feed = add_inputs(job, files, group)
            if feed is not None and job.header:
                feed = worker.behind(job.header, feed)
            told = json.loads(worker.with_fed(files, feed, lambda: _penstock.slice_files(files, slicing(job, group, wanted), worker.go_on, str)))
        worker.reach(job, f"distribute-{group}-index", attempt)
        check_inputs(job, group)
        return sliced_of(told, path, wanted)
    except BaseException as error:
        storage.remove(path)
        if worker.is_full(error):
            raise NodeFull(worker.node_name(), folder, job.groups[group].bytes, worker.free_bytes(folder)) from error
        raise
