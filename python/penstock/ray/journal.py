"""The journal of a job: a folder beside its output, from which another driver continues when the first one is lost.

    out/.penstock-NAME/job.json            the job (job.py), written when its cuts are chosen
    out/.penstock-NAME/run-R               one for each driver, with its mark; attempts are "R.N-mark", so that no two have one name
    out/.penstock-NAME/group-G.json        the place of group G's slices; the last version counts
    out/.penstock-NAME/part-P.json         the description of part P, and its hidden name

Every file is written whole, and read only by drivers. Nodes and storage tell a driver whether the slices and the hidden files
themselves still exist."""

from __future__ import annotations

import base64
import json
import re
import secrets
import zlib
from dataclasses import dataclass
from typing import Any, Iterator

import numpy as np

from . import storage
from .job import Job


@dataclass
class Sliced:
    """The slices of one group: a file on a node."""

    node: str
    path: str
    bytes: int
    slices: np.ndarray[Any, Any]  # part, offset, bytes of each; sorted by part
    items: list[int]  # in each part
    sizes: list[int]
    checksums: list[str]
    seconds: float = 0
    peak_bytes: int = 0
    rss_bytes: int = 0  # peak of the process since its start
    missing: frozenset[int] = frozenset()  # parts that were finished before, and are not in the file

    def of_part(self, part: int) -> list[tuple[int, int]]:
        low, high = np.searchsorted(self.slices[:, 0], [part, part + 1])
        return [(int(offset), int(size)) for _, offset, size in self.slices[low:high]]

    @property
    def sums(self) -> tuple[list[int], list[int], list[str]]:
        """Returns the sums, which are the same for every attempt unless an input has changed."""
        return self.items, self.sizes, self.checksums


class Journal:
    def __init__(self, job: Job) -> None:
        self._job = job
        self.run = 0
        self.mark = secrets.token_hex(4)

    def _write(self, name: str, told: dict[str, Any]) -> None:
        storage.write(storage.join(self._job.journal, name), json.dumps(told).encode())

    def begin(self, resumed: bool) -> None:
        """Gives this driver's run the next number. If two take the same one at once, the job is the later one's."""
        storage.make_folder(self._job.journal)
        storage.sync(self._job.folder)  # makes the name durable
        runs = [int(name[4:]) for name in storage.names(self._job.journal) if name.startswith("run-")]
        self.run = max(runs, default=-1) + 1
        self._write(f"run-{self.run}", {"mark": self.mark})
        if not resumed:  # a journal that was closed meanwhile stays closed
            storage.write(storage.join(self._job.journal, "job.json"), self._job.to_json())

    def _read(self, name: str) -> dict[str, Any]:
        path = storage.join(self._job.journal, name)
        told: dict[str, Any] = json.loads(storage.read(path, 0, storage.look(path).bytes))
        return told

    def add_group(self, group: int, sliced: Sliced) -> None:
        told = dict(vars(sliced), missing=sorted(sliced.missing),
                    slices=base64.b64encode(zlib.compress(sliced.slices.astype("<i8").tobytes(), 1)).decode())
        self._write(f"group-{group}.json", told)

    def add_part(self, part: int, told: dict[str, Any]) -> None:
        self._write(f"part-{part}.json", told)

    def _done(self) -> Iterator[tuple[str, str, str]]:
        """Yields the names of the entries, with "group" or "part", and the number."""
        for name in storage.names(self._job.journal):
            kind, _, number = name.removesuffix(".json").partition("-")
            if kind in ("group", "part") and name.endswith(".json"):
                yield name, kind, number

    def is_empty(self) -> bool:
        return not any(self._done())

    def read(self) -> tuple[dict[int, Sliced], dict[int, dict[str, Any]]]:
        groups: dict[int, Sliced] = {}
        parts: dict[int, dict[str, Any]] = {}
        for name, kind, number in self._done():
            told = self._read(name)
            if kind == "part":
                parts[int(number)] = told
            else:
                data = zlib.decompress(base64.b64decode(told.pop("slices")))
                groups[int(number)] = Sliced(slices=np.frombuffer(data, "<i8").reshape(-1, 3),
                                             **dict(told, missing=frozenset(told["missing"])))
        return groups, parts

    def _has(self, name: str) -> bool:
        try:
            storage.look(storage.join(self._job.journal, name))
        except FileNotFoundError:
            return False
        return True

    def is_taken_over(self) -> bool:
        """Returns whether a later driver has the job."""
        return self._has(f"run-{self.run + 1}") or self._read(f"run-{self.run}")["mark"] != self.mark

    def is_closed(self) -> bool:
        """Returns whether a driver has ended the job."""
        return not self._has("job.json")

    def close(self) -> None:
        """Marks the job as ended: nothing can be resumed, and its files may be removed in any order."""
        storage.remove(storage.join(self._job.journal, "job.json"))


def in_folder(folder: str) -> Iterator[tuple[str, bool]]:
    """Yields the names of journals, and whether each is of a job that has begun and not ended."""
    for name in storage.names(folder):
        if re.fullmatch(r"\.penstock-[0-9a-f]{12}", name):
            yield name, "job.json" in storage.names(storage.join(folder, name))


def find(path: str) -> str:
    """Returns the journal at `path`, or the only one of the folder that a job writes to. Removes a journal without job.json, left by a
    driver that was lost before its job began or after its end."""
    if "job.json" in storage.names(path):
        return path
    found = []
    for name, is_open in in_folder(path):
        if is_open:
            found.append(name)
        else:
            storage.remove(storage.join(path, name))
    if len(found) != 1:
        raise FileNotFoundError(f"{path} has {'no journal' if not found else 'several journals: name one of ' + ', '.join(found)}")
    return storage.join(path, found[0])


def load(path: str) -> Job:
    path = storage.join(find(path), "job.json")
    return Job.from_json(storage.read(path, 0, storage.look(path).bytes))
