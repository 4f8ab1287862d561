"""The driver: places tasks, repeats failed ones, and checks the result.

It knows two kinds of work. A group is done while its slices are on a node that lives; a part is done when its hidden file is
written. Parts wait until all groups are done. The slices on a lost node are lost with it: these groups are work again, but
only for the parts that are not done. So no stage ends: the loop in _work() starts missing work until there is none.

Invariants
- From its journal on an output belongs to one job, and a job to the driver that began last. A driver that no longer has the job
  removes nothing.
- An attempt has a number of its own, and so have its files: a late one overwrites nothing. The first that ends counts;
  a later attempt of a group must have the same sums, or an input has changed.
- A part counts if its items and its checksum are those that were distributed to it. In the end all are compared with the input's.
- No part has its name before all are done. However a job ends early, its tasks are ended, and its files removed from every node."""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Callable

from .._errors import Corrupt, Error, OutOfSpace
from . import gather, sample, storage, tasks, worker
from .engine import Cluster, Node, Outcome, ThisMachine
from .job import Job
from .journal import Journal, Sliced, in_folder
from .manifest import NAME, Manifest, Part
from .slices import Here
from .worker import InputChanged, NodeFull, SlicesLost, Stopped

Tell = Callable[[str, int, int], object]

FAILURES_MAX = 4  # lost processes and unreadable files of one task; lost nodes do not count
LOOK_SECONDS = 0.5  # between polls of the nodes
NODES_SECONDS = 120.0  # longest wait for a node
STRAGGLER_SECONDS = 5.0  # shorter tasks are not stragglers
STOP_SECONDS = 15.0
OWNER_SECONDS = 10.0  # between checks that the job still is this driver's
MODULUS = 1 << 128
PEAKS = ("peak_bytes", "spilled_bytes", "rss_bytes")


class TaskLost(Error, RuntimeError):
    """A task's process was killed repeatedly, or all nodes are lost."""


class TakenOver(Error, RuntimeError):
    """Another driver has continued the job with resume(), or has ended it."""


@dataclass
class Running:
    kind: str  # "distribute", "gather"
    number: int
    attempt: str
    node: str
    begin: float


class Driver:
    def __init__(self, job: Job, engine: ThisMachine | Cluster, tell: Tell | None) -> None:
        self.job, self.engine = job, engine
        self._tell = tell or (lambda *_: None)
        self.journal = Journal(job)
        self._begin = time.monotonic()
        self._nodes: dict[str, Node] = {}
        self._looked = 0.0
        self._shared: Any = job
        self._running: dict[Any, Running] = {}
        self._groups: dict[int, Sliced] = {}
        self._sums: dict[int, tuple[list[int], list[int], list[str]]] = {}
        self._parts: dict[int, dict[str, Any]] = {}
        self._items = [0] * job.parts  # distributed to each part
        self._checksums = [0] * job.parts
        self._attempts: dict[tuple[str, int], int] = defaultdict(int)
        self._failures: dict[tuple[str, int], int] = defaultdict(int)
        self._full: dict[tuple[str, int], dict[str, NodeFull]] = defaultdict(dict)
        self._seconds: dict[str, list[float]] = {"distribute": [], "gather": []}
        self._stage_seconds: dict[str, float] = {}
        self._peaks: dict[str, int] = defaultdict(int)

    # ---- Nodes.

    def nodes(self) -> list[Node]:
        if time.monotonic() - self._looked > LOOK_SECONDS or not self._nodes:
            self._look_at_nodes()
        return list(self._nodes.values())

    def _look_at_nodes(self) -> None:
        self._nodes = {node.id: node for node in self.engine.nodes()}
        self._looked = time.monotonic()
        for group, sliced in list(self._groups.items()):
            if sliced.node not in self._nodes:
                del self._groups[group]

    def _need_nodes(self) -> list[Node]:
        end = time.monotonic() + NODES_SECONDS
        while not self.nodes():
            if time.monotonic() > end:
                raise TaskLost(f"no node is there with {self.job.memory >> 20} MiB of memory and a processor for tasks")
            time.sleep(LOOK_SECONDS)
        return self.nodes()

    # ---- Simple tasks: each on any node, or each on its own node.

    def map(self, function: Callable[..., Any], arguments: list[tuple[Any, ...]], shared: Any) -> list[Any]:
        """Returns the values of function(shared, *each), run on any free slots."""
        todo = list(range(len(arguments)))
        values: dict[int, Any] = {}
        running: dict[Any, tuple[int, str]] = {}
        failures = 0
        try:
            while len(values) < len(arguments):
                used: dict[str, int] = defaultdict(int)
                for _, on in running.values():
                    used[on] += 1
                for node in self._need_nodes():
                    while todo and used[node.id] < node.slots:
                        at = todo.pop()
                        used[node.id] += 1
                        running[self.engine.start(function, (shared, *arguments[at]), node.id, 1, self.job.memory)] = at, node.id
                for handle in self.engine.wait(list(running), LOOK_SECONDS) if running else []:
                    at, _ = running.pop(handle)
                    outcome = self.engine.outcome(handle)
                    if outcome.lost and failures < FAILURES_MAX * len(arguments):
                        failures += 1
                        todo.append(at)
                    elif outcome.error is not None:
                        raise outcome.error
                    else:
                        values[at] = outcome.value
        except BaseException:
            for handle in running:
                self.engine.cancel(handle, True)
            raise
        return [values[at] for at in range(len(arguments))]

    def on_each_node(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Returns the values of function(job) on every node that answers."""
        handles = {self.engine.start(function, (self._shared,), node.id, 0, 0): node.id for node in self.engine.nodes()}
        found = {}
        end = time.monotonic() + NODES_SECONDS
        while handles and time.monotonic() < end:
            for handle in self.engine.wait(list(handles), LOOK_SECONDS):
                node, outcome = handles.pop(handle), self.engine.outcome(handle)
                if outcome.error is None:
                    found[node] = outcome.value
        return found

    # ---- A job's run.

    def choose_cuts(self, parts: int) -> None:
        job = self.job
        self._tell("sample", 0, 0)
        begin = time.monotonic()
        places = sample.places_of(job, parts)
        chunk = max(1024, -(-places // max(1, sum(node.slots for node in self._need_nodes()))))
        chunks = [(first, min(places, first + chunk), places) for first in range(0, places, chunk)]
        samples = [each for chunk in self.map(tasks.take_sample, chunks, self.engine.share(job)) for each in chunk]
        job.cuts = sample.cuts_of(job, samples, parts, job.format(), job.header)
        job.parts = len(job.cuts) + 1
        self._items, self._checksums = [0] * job.parts, [0] * job.parts
        self._stage_seconds["sample"] = time.monotonic() - begin

    def go(self, resumed: bool = False) -> Manifest:
        self._shared = self.engine.share(self.job)
        self._claim(resumed)
        try:
            if resumed:
                self._take_over()
            self._work()
            manifest = self._publish()
        except BaseException as error:
            if not self._stop() and isinstance(error, Exception):
                message = f"another driver goes on with the job of {self.job.journal}, or has ended it"
                raise TakenOver(message) from (None if isinstance(error, TakenOver) else error)
            raise
        try:
            self._sweep()
        except BaseException:  # Ctrl-C
            self._sweep()
            raise
        return manifest

    def _claim(self, resumed: bool) -> None:
        """Makes the journal visible to other drivers. At most one of two jobs that begin at the same time continues. (A driver that was lost
        before it had done anything may not have checked.)"""
        try:
            self.journal.begin(resumed)
            if not resumed or self.journal.is_empty():
                check_output_is_new(self.job.output, self.job.hidden)
        except BaseException:
            if not resumed:
                storage.remove(self.job.journal)
            raise

    def _is_owner(self) -> bool:
        return not self.journal.is_closed() and not self.journal.is_taken_over()

    def _check_owner(self) -> None:
        if not self._is_owner():
            raise TakenOver  # reported by go()

    def _look_for_other_drivers(self) -> None:
        """Checks as often as the storage allows; publishing requires it."""
        with contextlib.suppress(OSError):
            self._check_owner()

    def _take_over(self) -> None:
        for number in range(len(self.job.groups)):
            tasks.check_inputs(self.job, number)
        groups, parts = self.journal.read()
        there = self.on_each_node(worker.look)
        for group, sliced in groups.items():
            self._count(group, sliced)
            for node, files in there.items():
                if files.get(sliced.path) == sliced.bytes:
                    sliced.node = node
                    self._groups[group] = sliced
        for part, told in parts.items():
            # The part may have its own name already, if the driver was lost while it published.
            for path in (told["path"], self.job.part_path(part)):
                with contextlib.suppress(FileNotFoundError):
                    if storage.look(path).bytes == told["bytes"]:
                        self._parts[part] = dict(told, path=path)

    def _missing_groups(self) -> list[int]:
        undone = {part for part in range(self.job.parts) if part not in self._parts}
        return [group for group in range(len(self.job.groups))
                if group not in self._groups or not self._groups[group].missing.isdisjoint(undone)]

    def _work(self) -> None:
        began: dict[str, float] = {}
        total = sum(group.bytes for group in self.job.groups)
        looked = time.monotonic()
        while len(self._parts) < self.job.parts:
            self._need_nodes()
            if time.monotonic() - looked > OWNER_SECONDS:
                looked = time.monotonic()
                self._look_for_other_drivers()
            missing = self._missing_groups()
            kind, todo = ("distribute", missing) if missing else ("gather", [part for part in range(self.job.parts) if part not in self._parts])
            began.setdefault(kind, time.monotonic())
            self._stage_seconds[kind] = time.monotonic() - began[kind]
            every = len(self.job.groups) if missing else self.job.parts
            self._tell(kind, total * (every - len(todo)) // max(1, every), total)
            self._hand_out(kind, todo)
            for handle in self.engine.wait(list(self._running), LOOK_SECONDS) if self._running else []:
                running = self._running.pop(handle, None)
                if running is not None:
                    self._take(running, self.engine.outcome(handle))
            self._stage_seconds[kind] = time.monotonic() - began[kind]
        for handle in list(self._running):
            self._forget(handle)

    # ---- Placement of tasks.

    def _hand_out(self, kind: str, todo: list[int]) -> None:
        nodes = self.nodes()
        used: dict[str, int] = defaultdict(int)
        on: dict[int, list[Running]] = defaultdict(list)
        for running in self._running.values():
            used[running.node] += 1
            if running.kind == kind:
                on[running.number].append(running)
        waiting = [number for number in todo if not on[number]]
        every = len(self.job.groups) if kind == "distribute" else self.job.parts
        for place, node in enumerate(nodes):
            while used[node.id] < node.slots and waiting:
                # Neighbours stay together, so that their slices come from one node. Others are taken from the end.
                fits = [number for number in waiting if node.id not in self._full[kind, number]]
                if not fits:
                    break
                own = next((number for number in fits if number * len(nodes) // every == place), fits[-1])
                waiting.remove(own)
                self._start(kind, own, node.id)
                used[node.id] += 1
        for number in waiting:
            if all(node.id in self._full[kind, number] for node in nodes):
                self._raise_full(list(self._full[kind, number].values()))
        if not waiting:
            self._run_twice(kind, every, nodes, used, on)

    def _run_twice(self, kind: str, every: int, nodes: list[Node], used: dict[str, int], on: dict[int, list[Running]]) -> None:
        """Starts second attempts of the last tasks, if they take longer than the others did. The first attempt that ends wins."""
        slow = [number for number, running in on.items() if len(running) == 1]
        if not self._seconds[kind] or len(slow) > max(1, every // 20):
            return
        least = max(STRAGGLER_SECONDS, 1.5 * statistics.median(self._seconds[kind]))
        for number in slow:
            [running] = on[number]
            if time.monotonic() - running.begin < least:
                continue
            for node in nodes:
                if node.id != running.node and used[node.id] < node.slots and node.id not in self._full[kind, number]:
                    self._start(kind, number, node.id)
                    used[node.id] += 1
                    break

    def _start(self, kind: str, number: int, node: str) -> None:
        attempt = f"{self.journal.run}.{self._attempts[kind, number]}-{self.journal.mark}"
        self._attempts[kind, number] += 1
        function: Callable[..., Any]
        if kind == "distribute":
            function, last = tasks.distribute, [part not in self._parts for part in range(self.job.parts)]
        else:
            function, last = gather.gather, self._slices_of(number)
        handle = self.engine.start(function, (self._shared, number, attempt, last), node, 1, self.job.memory)
        self._running[handle] = Running(kind, number, attempt, node, time.monotonic())

    def _slices_of(self, part: int) -> list[Any]:
        found = []
        for group in range(len(self.job.groups)):
            stretches = self._groups[group].of_part(part)
            if stretches:
                found.append(Here(self._groups[group].node, self._groups[group].path, stretches))
        return found

    def _forget(self, handle: Any) -> None:
        self.engine.cancel(handle, False)

    # ---- Outcomes of tasks.

    def _take(self, running: Running, outcome: Outcome) -> None:
        kind, number = running.kind, running.number
        done = number in (self._groups if kind == "distribute" else self._parts)
        if outcome.error is not None:
            if not done:
                self._take_failure(running, outcome)
            return
        if done and not (kind == "distribute" and number in self._missing_groups()):
            return
        self._seconds[kind].append(time.monotonic() - running.begin)
        if kind == "distribute":
            self._take_group(number, outcome.value)
        else:
            self._take_part(number, outcome.value)
        for handle, other in self._running.items():
            if (other.kind, other.number) == (kind, number):
                self._forget(handle)

    def _take_group(self, group: int, sliced: Sliced) -> None:
        self._count(group, sliced)
        self._groups[group] = sliced
        self._see_peaks({"peak_bytes": sliced.peak_bytes, "rss_bytes": sliced.rss_bytes})
        self.journal.add_group(group, sliced)

    def _count(self, group: int, sliced: Sliced) -> None:
        if group in self._sums:
            if self._sums[group] != sliced.sums:
                names = ", ".join(sorted({self.job.inputs[piece.input].path for piece in self.job.groups[group].pieces}))
                raise InputChanged(f"what is read of {names} is not what was read before")
            return
        self._sums[group] = sliced.sums
        for part, (items, checksum) in enumerate(zip(sliced.items, sliced.checksums)):
            self._items[part] += items
            self._checksums[part] = (self._checksums[part] + int(checksum, 16)) % MODULUS

    def _take_part(self, part: int, told: dict[str, Any]) -> None:
        sums = self.job.operation != "group"
        if told["items"] != self._items[part] or (sums and int(told["checksum"], 16) != self._checksums[part]) or told["unsorted"]:
            raise Corrupt(f"{told['path']}: part {part} has {told['items']} items whose checksum is {told['checksum']}, and not the "
                          f"{self._items[part]} with {self._checksums[part]:x} that were distributed to it, or they are not in order: run it again, "
                          "and if it happens again, test the memory of the machines")
        self._parts[part] = told
        self._see_peaks(told)
        self.journal.add_part(part, told)

    def _see_peaks(self, told: dict[str, Any]) -> None:
        """Keeps the peaks over all tasks: a native operation's account, temporaries of a sort, resident memory of the process."""
        for name in PEAKS:
            self._peaks[name] = max(self._peaks[name], told.get(name, 0))

    def _take_failure(self, running: Running, outcome: Outcome) -> None:
        error = outcome.error
        assert error is not None
        key = running.kind, running.number
        if outcome.lost == "node" or isinstance(error, SlicesLost):
            self._look_at_nodes()
        if isinstance(error, NodeFull):
            self._full[key][running.node] = error
            return
        if isinstance(error, SlicesLost):
            self._look_for_other_drivers()  # other drivers' ends would remove them
            gone = [group for group, sliced in self._groups.items()
                    if sliced.path in error.paths and (sliced.node == error.node or error.node == running.node)]
            for group in gone:
                del self._groups[group]
            if gone or error.node not in self._nodes:
                return
        elif outcome.lost == "node" and running.node not in self._nodes:
            return
        elif not outcome.lost and not isinstance(error, Stopped) and (isinstance(error, (InputChanged, ValueError, ImportError, TypeError, MemoryError))
                                                                      or not isinstance(error, OSError)):
            raise error
        self._failures[key] += 1
        if self._failures[key] >= FAILURES_MAX:
            if isinstance(error, Exception) and not outcome.lost:
                raise error
            raise TaskLost(f"{running.kind} {running.number} was lost {FAILURES_MAX} times, the last time on node {running.node}: {error}") from error

    def _raise_full(self, errors: list[NodeFull]) -> None:
        error = OutOfSpace(28, "No space left on device", errors[-1].folder)
        error.message = "no node has room: " + "; ".join(str(each) for each in errors)
        raise error

    # ---- The end.

    def _publish(self) -> Manifest:
        job = self.job
        self._check_owner()
        tell = [self._parts[part] for part in range(job.parts)]
        total = sum(self._checksums) % MODULUS
        if job.operation != "group" and sum(int(each["checksum"], 16) for each in tell) % MODULUS != total:
            raise Corrupt("the checksums of all parts are not those of the input")
        parts, named = [], []
        try:
            for part, told in enumerate(tell):
                path = job.part_path(part)
                named.append(path)
                if told["path"] != path:
                    try:
                        os.replace(told["path"], path)
                    except FileNotFoundError:  # the driver before this one was still alive, and published it
                        if storage.look(path).bytes != told["bytes"]:
                            raise
                parts.append(Part(path, told["items"] if told["groups"] is None else told["groups"], told["bytes"], told["checksum"],
                                  told["first"], told["last"]))
            storage.sync(job.folder)
            stages: dict[str, Any] = {
                kind: {"seconds": round(self._stage_seconds.get(kind, 0), 3), "tasks": len(self._seconds.get(kind, ())),
                       "attempts": sum(count for (each, _), count in self._attempts.items() if each == kind)}
                for kind in ("sample", "distribute", "gather")}
            stages |= {name: self._peaks[name] for name in PEAKS}
            manifest = Manifest(storage.join(job.folder, NAME), job.operation, job.table["format"] if job.table else job.items["name"],
                                sum(self._items), sum(part.bytes for part in parts), f"{total:x}",
                                round(time.monotonic() - self._begin, 3), parts, stages)
            manifest.save(job.journal)
            self._tell("gather", sum(group.bytes for group in job.groups), sum(group.bytes for group in job.groups))
        except BaseException:
            with contextlib.suppress(OSError):  # cannot be checked or removed: the error that ended the job counts
                if self._is_owner():
                    for path in [storage.join(job.folder, NAME), *named]:  # no manifest without its parts
                        storage.remove(path)
            raise
        return manifest

    def _stop(self) -> bool:
        """Ends all tasks and removes all files, if the job still is this driver's, and returns whether it is, as far as that can be
        checked."""
        for handle in self._running:
            self.engine.cancel(handle, False)
        self._wait_for_tasks()
        try:
            is_closed = self.journal.is_closed()
            is_owner = not is_closed and not self.journal.is_taken_over()
        except OSError:
            return True
        if is_owner and not storage.is_local(self.job.output):
            for part in range(self.job.parts):
                storage.remove(self.job.part_path(part))
        if is_owner or is_closed:  # files that these tasks left after the other driver's sweep
            self._sweep(is_owner)
        return is_owner

    def _wait_for_tasks(self) -> None:
        """Waits for cancelled tasks. One that does not react, because its disk hangs, is killed, and soon no longer waited for; a thread
        must be waited for."""
        for force, seconds in (False, STOP_SECONDS), (True, STOP_SECONDS / 3):
            for handle in self._running if force else ():
                self.engine.cancel(handle, True)
            end = time.monotonic() + seconds
            while self._running and (time.monotonic() < end or not self.engine.can_kill):
                for handle in self.engine.wait(list(self._running), LOOK_SECONDS):
                    self.engine.outcome(handle)
                    del self._running[handle]
        self._running.clear()

    def _sweep(self, ends_uploads: bool = True) -> None:
        self._wait_for_tasks()  # tasks that lost against another attempt
        self.on_each_node(worker.sweep)
        if ends_uploads and not storage.is_local(self.job.output):
            storage.end_uploads([self.job.part_path(part) for part in range(self.job.parts)])
        self.journal.close()
        for name in storage.names(self.job.folder):
            if name.startswith(self.job.hidden):
                storage.remove(storage.join(self.job.folder, name))


def check_output_is_new(output: str, own: str = "") -> None:
    """Checks that there is no part of another job, and no open journal but `own`, which is resumed. Errors: FileExistsError."""
    folder, last = storage.folder_of(output), output.rpartition("/")[2]
    others = [name for name, is_open in in_folder(folder) if is_open and name != own]  # closed before listed: it has published
    pattern = re.compile(re.escape(last).replace(re.escape("{}"), r"\d+") + "$")
    found = [name for name in storage.names(folder) if pattern.match(name) or name == NAME]
    if found:
        raise FileExistsError(f"{storage.join(folder, found[0])} is there already: give another folder, or remove what is in this one")
    if others:
        raise FileExistsError(f"{storage.join(folder, others[0])} is of a job that has not ended: wait for it; if its driver was lost, resume() goes on "
                              "with it, or remove it")
