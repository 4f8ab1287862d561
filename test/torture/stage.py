"""The resources that all trials of a campaign share: the program, the inputs, results of undisturbed runs, memory cgroups."""

import dataclasses
import itertools
import os
import pathlib
import random
import shutil
import tempfile
import threading

import end_to_end
import operations
import trial as trials


@dataclasses.dataclass
class Known:
    """The right outputs of an operation."""
    digests: list = dataclasses.field(default_factory=list)
    lengths: list = dataclasses.field(default_factory=list)
    paths: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Undisturbed:
    """A run without faults: its number of calls of each kind, and its error."""
    counts: dict
    problem: str


class Stage:
    def __init__(self, program, at_call, python="", package="", deadline_s=120, with_seams=None):
        """`with_seams`: the program that obeys PENSTOCK_INJECT, if it is not the one in the build folder of `program`."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-torture-"))
        self.folder.chmod(0o755)  # for runs without root's rights
        streams = pathlib.Path(at_call).with_name("torture_streams")
        self.program, self.at_call, self.streams = (self.copied(path) for path in (program, at_call, streams))
        self.with_seams = self.copied(with_seams or end_to_end.with_seams(program), "with-seams")
        self.python, self.package = python, package and os.path.abspath(package)  # each trial has its own folder
        self.deadline_s = deadline_s
        self.lock = threading.Lock()
        self.locks, self.made, self.outputs, self.runs, self.reasons = {}, {}, {}, {}, {}
        self.numbers = itertools.count()

    def copied(self, path, folder="."):
        """Copies the program to where everybody may read it, under its own name, which the program checks."""
        (self.folder / folder).mkdir(exist_ok=True)
        copy = shutil.copy(path, self.folder / folder)
        os.chmod(copy, 0o755)
        return pathlib.Path(copy)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def cannot(self, reason):
        with self.lock:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def once(self, table, key, make):
        """Returns table[key]; the first caller makes it."""
        with self.lock:
            lock = self.locks.setdefault((id(table), key), threading.Lock())
        with lock:
            if key not in table:
                table[key] = make()
            return table[key]

    def inputs(self, operation, size):
        """The inputs of an operation, shared by all operations with the same generators."""
        def make(kind, number):
            path = self.folder / f"input-{next(self.numbers)}" / f"in{number}"
            path.parent.mkdir()
            path.write_bytes(kind(random.Random(f"{size} {number}"), operations.SIZES[size]))
            return path
        return [self.once(self.made, (kind, number, size), lambda: make(kind, number)) for number, kind in enumerate(operation.inputs)]

    def known(self, operation, size):
        """The right outputs; without digests, until a run has given them, if plain Python cannot compute them."""
        def make():
            known = Known()
            right = operation.expects([path.read_bytes() for path in self.inputs(operation, size)])
            if right is not None:
                self.keep(known, [right])
            return known
        return self.once(self.outputs, (operation.expected or operation.name, operation.inputs, size), make)

    def keep(self, known, contents):
        folder = self.folder / f"known-{next(self.numbers)}"
        folder.mkdir()
        for number, data in enumerate(contents):
            known.paths.append(folder / str(number))
            known.paths[-1].write_bytes(data)
            known.digests.append(trials.digest_of(data))
            known.lengths.append(len(data))

    def undisturbed(self, operation, size):
        def make():
            known = self.known(operation, size)
            place = trials.Place(self, trials.Trial(operation, size))
            with place.closing:
                place.prepare()
                run = trials.Run(place, [])
                ended = run.go("count")
                problem = ""
                if not known.digests:
                    paths = place.outputs or [place.folder / "stdout"]
                    contents = [path.read_bytes() if path.exists() else b"" for path in paths]
                    self.keep(known, contents)
                    if operation.compares and not operation.can_be([path.read_bytes() for path in place.inputs], contents):
                        problem = "exit code 0 and a wrong output"
                return Undisturbed(ended.counts, trials.Judge(place, run, ended, []).problem() or problem)
        return self.once(self.runs, (operation.name, size), make)
