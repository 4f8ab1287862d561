"""The definition of one job: decided once, the same for every task, and kept in the journal."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from .. import _files, _penstock
from . import storage

MiB = 1 << 20
VERSION = 2

# The part of memory_per_task that a process of Ray takes before it works, with Arrow and objects in flight.
PROCESS_BYTES = 160 * MiB


@dataclass
class Input:
    path: str
    bytes: int
    identity: str
    rows: list[int] = field(default_factory=list)  # rows of each piece, for tables


@dataclass
class Piece:
    """Bytes [begin, end) of an input; for lines, those that begin there. For tables row groups, or the whole table if both are 0."""

    input: int
    begin: int
    end: int


@dataclass
class Group:
    """The work of one distributing task. `bytes` is the sum over the pieces, `rows` counts rows of tables."""

    pieces: list[Piece]
    bytes: int
    rows: int = 0


@dataclass
class Cut:
    """The beginning of a part: the first item that is not before (item, group, position)."""

    item: bytes
    group: int
    position: int

    def within(self, group: int) -> int:
        """Returns the position for items of `group`: all or none of them are behind an item of another group."""
        return 0 if self.group < group else (1 << 64) - 1 if self.group > group else self.position


@dataclass
class Job:
    name: str
    operation: str  # "sort", "partition", "group"
    output: str  # has {} for the part's number
    items: dict[str, Any]  # the words of an ItemFormat
    inputs: list[Input]
    groups: list[Group]
    parts: int
    memory: int
    process: int  # the part of `memory` that is not for native operations
    temp: list[str]
    header: bytes = b""
    table: dict[str, Any] | None = None  # format, by, nulls, output_format, row_group, options
    aggregates: dict[str, Any] = field(default_factory=dict)  # for "group"
    cuts: list[Cut] = field(default_factory=list)
    object_bytes: int = 16 * MiB
    objects: int = 4  # objects in flight for a gather
    faults: dict[str, str] = field(default_factory=dict)  # for tests: faults at points of tasks (worker.reach)

    @property
    def folder(self) -> str:
        return storage.folder_of(self.output)

    @property
    def hidden(self) -> str:
        """The prefix of all names that this job gives to unfinished files."""
        return f".penstock-{self.name}"

    @property
    def journal(self) -> str:
        return storage.join(self.folder, self.hidden)

    @property
    def native_bytes(self) -> int:
        return self.memory - self.process

    def part_path(self, part: int) -> str:
        return self.output.replace("{}", f"{part:05}")

    def hidden_path(self, part: int, attempt: str) -> str:
        """Returns the name of a part before it is published. In an object store that is its own name: an object appears only when it is
        complete."""
        if not storage.is_local(self.output):
            return self.part_path(part)
        return storage.join(self.folder, f"{self.hidden}-part-{part:05}-{attempt}")

    def format(self) -> _penstock.ItemFormat:
        made = _penstock.FilesOptions().items
        for name, value in self.items.items():
            setattr(made, name, value)
        return made

    def files(self, output: str, memory: int, temp: list[str]) -> _penstock.FilesOptions:
        files = _penstock.FilesOptions()
        files.set_paths([], output.encode(errors="surrogateescape"), [each.encode(errors="surrogateescape") for each in temp])
        files.items = self.format()
        files.memory_bytes = memory
        files.decompress = False
        return files

    def to_json(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}, default=lambda data: {"base64": base64.b64encode(data).decode()}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Job:
        told = json.loads(text, object_hook=lambda each: base64.b64decode(each["base64"]) if each.keys() == {"base64"} else each)
        if told.pop("version", None) != VERSION:
            raise ValueError("the journal is of another version of penstock: resume it with that")
        job = cls(**told)
        job.inputs = [Input(**each) for each in told["inputs"]]
        job.groups = [Group([Piece(**piece) for piece in each["pieces"]], each["bytes"], each["rows"]) for each in told["groups"]]
        job.cuts = [Cut(**each) for each in told["cuts"]]
        return job


def words_of(items: _penstock.ItemFormat) -> dict[str, Any]:
    """Returns the words of an ItemFormat by their names in the table of options."""
    return {row["name"]: getattr(items, row["name"]) for row in _files.ROWS["ItemFormat"]}
