"""What came out of a job: its parts, and what holds them against the input."""

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
    checksum: str  # as penstock.check() tells it; of tables of their rows
    first: str  # keys, for people; of groups and of parts without items empty
    last: str


@dataclass(frozen=True)
class Manifest:
    """Parts in order. Their checksums add up to `checksum`, modulo 2**128, which is that of the inputs."""

    path: str
    operation: str
    format: str
    items: int  # of the inputs
    bytes: int  # of the outputs
    checksum: str
    seconds: float
    parts: list[Part]
    stages: dict[str, Any]  # seconds, tasks, attempts, peaks of memory of each stage

    @property
    def paths(self) -> list[str]:
        """Of the parts that hold anything."""
        return [part.path for part in self.parts if part.items]

    def save(self, hidden_in: str = "") -> None:
        """Whole or not at all; until it is, in the folder `hidden_in`."""
        storage.write(self.path, json.dumps({"version": VERSION, **asdict(self)}, indent=1).encode(), hidden_in)

    @classmethod
    def load(cls, path: str) -> Manifest:
        """By its name, or that of the folder with the parts."""
        if not path.endswith(".json"):
            path = storage.join(path, NAME)
        told = json.loads(storage.read(path, 0, storage.look(path).bytes))
        if told.pop("version", None) != VERSION:
            raise ValueError(f"{path} is of another version of penstock")
        told["parts"] = [Part(**part) for part in told["parts"]]
        return cls(**{**told, "path": path})
