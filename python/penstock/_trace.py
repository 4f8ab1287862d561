"""Traces of programs' file accesses, by the command `penstock`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Sequence


def _program() -> str:
    """Returns the command that came with the package, or else one on the path."""
    beside = os.path.join(sysconfig.get_path("scripts"), "penstock")
    found = beside if os.access(beside, os.X_OK) else shutil.which("penstock")
    if not found:
        raise FileNotFoundError("the command penstock is not there: `pip install .` brings it")
    return found


class Trace:
    """A recorded trace, in the file `path`."""

    def __init__(self, path: Path, returncode: int) -> None:
        self.path = path
        self.returncode = returncode  # the traced program's

    @property
    def summary(self) -> str:
        """Returns requests, bytes and seeks, in total and for each file."""
        return subprocess.run([_program(), "convert", os.fspath(self.path)], check=True, stdout=subprocess.PIPE, text=True).stdout

    def convert(self, output: str | os.PathLike[str]) -> None:
        """Writes x.csv, x.iolog (fio) or x.json (ui.perfetto.dev)."""
        subprocess.run([_program(), "convert", "-q", os.fspath(self.path), "-o", os.fspath(output)], check=True)

    def __repr__(self) -> str:
        return f"<penstock.Trace {str(self.path)!r}, exit code {self.returncode}>"


def trace(command: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str] = "run.trace", **options: Any) -> Trace:
    """Runs a command, and records the file accesses of it and its children. Options are those of subprocess.run()."""
    if isinstance(command, (str, bytes)) or not command:
        raise TypeError(f"a command is a list of its words, not {command!r}")
    path = Path(output)
    before = path.stat().st_mtime_ns if path.exists() else None
    done = subprocess.run([_program(), "trace", "-q", "-o", os.fspath(path), "--", *[os.fspath(word) for word in command]], **options)
    if not path.exists() or path.stat().st_mtime_ns == before:
        raise OSError(f"{command[0]!r} was not traced: penstock trace ended with exit code {done.returncode}")
    return Trace(path, done.returncode)
