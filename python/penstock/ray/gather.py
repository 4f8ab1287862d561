"""Stage 2: sorts the slices of one part (slices.py) natively, and writes the part under a hidden name."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from typing import Any, Iterator

from .. import _penstock
from .._files import _sort_options, group_options
from . import storage, tables, worker
from .job import Job
from .slices import Here, add_slices
from .worker import NodeFull, SlicesLost

# A group reserves so many addresses for sequential inputs of unknown length that one process has none left for a second group.
_group_lock = threading.Lock()


@contextlib.contextmanager
def _sent(path: str) -> Iterator[str]:
    """Returns the name of a pipe, from which the native operation's output is sent to an object store."""
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


def _operation(job: Job, files: _penstock.FilesOptions) -> dict[str, Any]:
    if job.operation == "sort":
        return json.loads(_penstock.sort_checked(files, _sort_options(threads=1, stable=True), worker.go_on, str))  # type: ignore[no-any-return]
    if job.operation == "partition":
        return json.loads(_penstock.pass_checked(files, worker.go_on, str))  # type: ignore[no-any-return]
    with _group_lock:
        return {"run": json.loads(_penstock.group_files(files, group_options(job.aggregates), worker.go_on, str))}


def gather(job: Job, part: int, attempt: str, slices: list[Here]) -> dict[str, Any]:
    """Writes one part of the output, complete and on the disk, under a unique name."""
    worker.reach(job, f"gather-{part}", attempt)
    for file in slices:  # before an object is begun
        if file.node == worker.node_name() and not os.path.exists(file.path):
            raise SlicesLost(file.node, [file.path], "it is not there")
    folder = worker.root_for(job, 0, part)
    path = job.hidden_path(part, attempt)
    try:
        if job.table is not None:
            told = tables.write_part(job, part, path, slices, folder)
        else:
            with contextlib.nullcontext(path) if storage.is_local(path) else _sent(path) as output:
                files = job.files(output, job.native_bytes, [folder])
                feed = add_slices(job, files, slices, job.header)
                told = worker.with_fed(files, feed, lambda: _operation(job, files))
        worker.reach(job, f"gather-{part}-written", attempt)
        return _told(job, part, path, told)
    except BaseException as error:
        if storage.is_local(path):
            storage.remove(path)
        if worker.is_full(error):
            full = str(getattr(error, "subject", "") or getattr(error, "filename", "") or folder)
            where = folder if worker.lies_in(full, [folder]) or not os.path.isabs(full) else os.path.dirname(full) or "."
            raise NodeFull(worker.node_name(), where, sum(size for file in slices for _, size in file.stretches),
                           worker.free_bytes(where) if os.path.isdir(where) else 0) from error
        if _is_missing(error, slices):
            raise SlicesLost(worker.node_name(), [str(getattr(error, "subject", ""))], str(error)) from error
        raise


def _is_missing(error: BaseException, slices: list[Here]) -> bool:
    subject = str(getattr(error, "subject", ""))
    return any(file.path == subject for file in slices)


def _told(job: Job, part: int, path: str, told: dict[str, Any]) -> dict[str, Any]:
    run, check = told["run"], told.get("check")
    return {"path": path, "bytes": storage.look(path).bytes, "seconds": run.get("seconds", 0), "peak_bytes": run.get("peak_bytes", 0),
            "spilled_bytes": run.get("spilled_bytes", 0), "rss_bytes": worker.rss_bytes(),
            "items": run.get("items", 0) if check is None else check["count"],
            "groups": run.get("groups"),
            "checksum": "" if check is None else check["checksum"],
            "first": "" if check is None else check["first"],
            "last": "" if check is None else check["last"],
            "unsorted": job.operation == "sort" and check is not None and not check["sorted"]}
