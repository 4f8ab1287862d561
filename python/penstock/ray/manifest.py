"""The result of a job: its parts, and checksums to compare with the input's."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from . import storage

NAME = "_manifest.json"
VERSION = 1


@dataclass(frozen=True)
class Part:
    path: str
    items: int
    bytes: int
    checksum: str  # checksum of penstock.check(); for tables, of their rows
    first: str  # first key, for people; empty for groups and for parts without items
    last: str


@dataclass(frozen=True)
class Manifest:
    """The parts in order. Their checksums add up to `checksum`, modulo 2**128, which is the inputs' checksum."""

    path: str
    operation: str
    format: str
    items: int  # in the inputs
    bytes: int  # in the outputs
    checksum: str
    seconds: float
    parts: list[Part]
    stages: dict[str, Any]  # seconds, tasks, attempts, peaks of memory of each stage

    @property
    def paths(self) -> list[str]:
        """The paths of parts that are not empty."""
        return [part.path for part in self.parts if part.items]

    def save(self, hidden_in: str = "") -> None:
        """Saves the manifest atomically; `hidden_in` is the folder for the unfinished file."""
        storage.write(self.path, json.dumps({"version": VERSION, **asdict(self)}, indent=1).encode(), hidden_in)

    @classmethod
    def load(cls, path: str) -> Manifest:
        """Loads a manifest, given its name or the folder with the parts."""
        if not path.endswith(".json"):
            path = storage.join(path, NAME)
        told = json.loads(storage.read(path, 0, storage.look(path).bytes))
        if told.pop("version", None) != VERSION:
            raise ValueError(f"{path} is of another version of penstock")
        told["parts"] = [Part(**part) for part in told["parts"]]
        return cls(**{**told, "path": path})
