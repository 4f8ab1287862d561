"""One trial: its folder, the program with its faults, and the checks afterwards."""

import contextlib
import ctypes
import dataclasses
import hashlib
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import cgroup
import operations
from faults import ENDS, FAILS, MUST_FAIL, SAME, Cannot, Fault, rot

CANNOT = 77  # exit code of at_call
OLD = b"old"
LIBC = ctypes.CDLL(None, use_errno=True)
ABSENT, SPECIAL = "absent", "special"


def digest(path):
    if not path.exists():
        return ABSENT
    if not path.is_file():
        return SPECIAL
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def digest_of(data):
    return hashlib.blake2b(data).hexdigest()


@dataclasses.dataclass(frozen=True)
class Trial:
    operation: operations.Operation
    size: str
    faults: tuple = ()

    @staticmethod
    def parse(text):
        name, *words = text.split()
        name, _, size = name.partition("/")
        found = [operation for operation in operations.ALL if operation.name == name]
        if not found:
            raise ValueError(f"no operation {name}")
        return Trial(found[0], size or found[0].sizes[-1], tuple(map(Fault.parse, words)))

    def __str__(self):
        return " ".join([f"{self.operation.name}/{self.size}", *map(str, self.faults)])


@dataclasses.dataclass
class Result:
    ended: str  # "finished", "failed", "ended", "cannot"
    problem: str = ""
    seconds: float = 0
    reached: bool = True  # False: a fault found nothing to strike at


@dataclasses.dataclass
class Ended:
    code: int = 0
    message: str = ""
    counts: dict = dataclasses.field(default_factory=dict)
    left: bool = False
    hangs: bool = False


class Place:
    """The folder of a trial and its files."""

    def __init__(self, stage, trial):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trial-", dir=stage.folder))
        self.stage, self.trial, operation = stage, trial, trial.operation
        self.user = None
        self.kept = set()  # names beside the outputs that are not of the run
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "GTEST_"))}
        self.environment |= dict(operation.environment)
        if operation.python:
            self.environment["PYTHONPATH"] = str(stage.package)
        self.closing = contextlib.ExitStack()
        self.over, self.threads = threading.Event(), []
        self.closing.callback(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("in", "out", "temp", "temp2"):
            (self.folder / name).mkdir()
        self.temporaries = [self.folder / "temp", self.folder / "temp2"]
        known = stage.inputs(operation, trial.size)
        self.own_inputs = operation.in_place or any(fault.changes_input or fault.kind == "input" for fault in trial.faults)
        if self.own_inputs:
            known = [pathlib.Path(shutil.copyfile(path, self.folder / "in" / path.name)) for path in known]
        self.inputs = known
        self.outputs = [known[0]] if operation.in_place else [self.folder / "out" / name for name in operation.outputs]
        self.words = {f"in{i}": str(path) for i, path in enumerate(known)}
        self.words |= {"temp": str(self.folder / "temp"), "temp2": str(self.folder / "temp2"), "out": str(
            self.folder / "out" / "part-{}" if len(operation.outputs) > 1 else self.outputs[0] if self.outputs else "-")}

    def prepare(self):
        for fault in self.trial.faults:
            if fault.kind == "disk":
                fault.what.prepare(fault, self, self.trial.operation)
        operation = self.trial.operation
        if len(operation.outputs) == 1 and not operation.in_place and not operation.resumes:
            self.outputs[0].write_bytes(OLD)
        for fault in self.trial.faults:
            if fault.kind != "disk" and fault.what.prepare:
                fault.what.prepare(fault, self, operation)
        if self.user is not None:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, self.user, self.user, follow_symlinks=False)
        self.stamps = [stamp(path) for path in self.inputs]
        self.before = [digest(path) for path in self.outputs]

    def command(self):
        operation = self.trial.operation
        words = [word.format(**self.words) for word in operation.words]
        if operation.python:
            return [str(self.stage.python), "-c", *words]
        program = self.stage.with_seams if "PENSTOCK_INJECT" in self.environment else self.stage.program
        return [str(self.stage.streams if operation.streams else program), *words]

    def mount(self, folder, size_bytes):
        if LIBC.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={size_bytes},mode=0777".encode()) != 0:
            raise Cannot(f"a small disk: {os.strerror(ctypes.get_errno())}")
        self.closing.callback(LIBC.umount2, bytes(folder), 2)

    def cgroup(self, bytes_max):
        try:
            return self.closing.enter_context(cgroup.memory(bytes_max))
        except OSError as error:
            raise Cannot(f"a memory cgroup: {error.strerror or error}") from error

    def read_fifo(self, path):
        """Reads a FIFO into another file until the trial ends."""
        end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        aside = self.folder / "read"

        def read():
            with aside.open("wb") as out:
                while True:
                    over = self.over.is_set()
                    select.select([end], [], [], 0.02)
                    try:
                        data = os.read(end, 1 << 16)
                    except BlockingIOError:
                        data = b""
                    out.write(data)
                    if not data:
                        if over:
                            break
                        self.over.wait(0.002)
            os.close(end)
        self.beside(read)
        self.outputs = [aside]

    def write_fifo(self, path, source):
        def write():
            end = -1
            while end < 0 and not self.over.wait(0.002):
                with contextlib.suppress(OSError):
                    end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            if end < 0:
                return
            data = memoryview(source.read_bytes())
            try:
                while data and not self.over.is_set():
                    if select.select([], [end], [], 0.02)[1]:
                        data = data[os.write(end, data[:1 << 16]):]
            except OSError:
                pass  # the reader has gone
            os.close(end)
        self.beside(write)

    def beside(self, work):
        thread = threading.Thread(target=work)
        thread.start()
        self.closing.callback(thread.join)
        self.closing.callback(self.over.set)
        self.threads.append(thread)

    def settle(self):
        """Waits until all readers and writers beside the program have ended."""
        self.over.set()
        for thread in self.threads:
            thread.join()

    def leftovers(self):
        wanted = {"in", "out", "temp", "temp2", "stdout", "stderr", "aside", "read"}
        found = [path.name for path in self.folder.iterdir() if path.name not in wanted]
        names = {path.name for path in self.outputs} | {path.name for path in self.inputs} | self.kept
        names |= {*self.trial.operation.outputs, *self.trial.operation.also}
        for folder, allowed in (("in", names), ("out", names), ("temp", ()), ("temp2", ())):
            if (self.folder / folder).is_dir():
                found += [f"{folder}/{path.name}" for path in (self.folder / folder).iterdir() if path.name not in allowed]
        return found


def stamp(path):
    try:
        status = path.lstat()
    except OSError as error:
        return error.errno
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


class Run:
    """One run of the program, with its faults."""

    def __init__(self, place, struck):
        self.place, self.faults = place, struck
        self.signals = {}  # {signal sent: whether the program caught it}
        self.stopped = []
        self.twins, self.twin_problem, self.twin_messages = [], "", ""
        self.reached = set()

    def go(self, *more_rules):
        place, stage = self.place, self.place.stage
        rules, asking = list(more_rules), {}  # rules of the faults, by number
        if place.trial.operation.python:
            rules.append(f"from={operations.FROM}")
        for fault in self.faults:
            for rule in fault.rules():
                if rule.endswith(":ask"):
                    asking[sum(":" in word for word in rules)] = fault
                rules.append(rule)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with (ours, theirs, open(place.folder / "stdout", "wb") as out, open(place.folder / "stderr", "wb") as err,
              self.standard_input() as given):
            words = [str(stage.at_call), str(theirs.fileno()), ",".join(rules) or "fcntl:1000000000:1", *place.command()]
            process = subprocess.Popen(words, stdin=given, stdout=out, stderr=err, pass_fds=[theirs.fileno()], start_new_session=True,
                                       env=place.environment, user=place.user, group=place.user,
                                       extra_groups=None if place.user is None else [], cwd=place.folder)
            theirs.close()
            ended = self.follow(process, ours, asking)
        ended.message = (place.folder / "stderr").read_bytes().decode(errors="replace")
        self.end_twins()
        if process.returncode == CANNOT and not ended.hangs:
            raise Cannot(f"to stand between a program and the system: {ended.message.strip()}")
        return ended

    def standard_input(self):
        if self.place.trial.operation.from_stdin:
            return open(self.place.inputs[0], "rb")
        return open(os.devnull, "rb")

    def follow(self, process, control, asking):
        ended, deadline = Ended(), time.monotonic() + self.place.stage.deadline_s
        broken = None
        while True:
            if not select.select([control], [], [], max(0, deadline - time.monotonic()))[0]:
                ended.hangs = True
                break
            packet = control.recv(1 << 16).decode()
            if not packet:
                break
            if packet.startswith("ask "):
                _, rule, pid, call, *arguments = packet.split()
                try:
                    self.held(asking.get(int(rule)), int(pid), call, [int(word) for word in arguments])
                except (FileNotFoundError, ProcessLookupError):
                    pass  # its target has gone
                except OSError as error:
                    broken = Cannot(f"{call}: {error}")
                except Cannot as error:
                    broken = error
                with contextlib.suppress(OSError):
                    control.send(b".")
                self.go_on()
                continue
            for line in packet.splitlines():
                name, *values = line.split()
                if name == "call":
                    ended.counts[values[0]] = int(values[1])
                elif name == "left":
                    ended.left = int(values[0]) != 0
                elif name == "ended":
                    ended.code = int(values[0])
        with contextlib.suppress(ProcessLookupError):
            if ended.hangs or ended.left:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if broken:
            raise broken
        return ended

    def held(self, fault, pid, call, arguments):
        """Acts while a thread waits in a call."""
        self.reached.add(fault)
        fault.what.act(fault, self, pid)

    def go_on(self):
        """Continues a stopped program when all of it has stopped or ended."""
        for pid in self.stopped:
            with contextlib.suppress(OSError):
                deadline = time.monotonic() + 5
                stat = pathlib.Path(f"/proc/{pid}/stat")
                while stat.read_text().rpartition(")")[2].split()[0] not in "TZX" and time.monotonic() < deadline:
                    time.sleep(0.0005)
                os.kill(pid, signal.SIGCONT)
        self.stopped.clear()

    def start_twin(self):
        messages = open(self.place.folder / "in" / ".twin", "w+b")
        os.unlink(messages.name)
        given = self.standard_input()
        with given:
            self.twins.append((subprocess.Popen(self.place.command(), stdin=given, stdout=subprocess.DEVNULL, stderr=messages,
                                                env=self.place.environment, start_new_session=True), messages))

    def end_twins(self):
        """Ends twin runs, and checks that their ends are allowed."""
        for process, messages in self.twins:
            try:
                process.wait(self.place.stage.deadline_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self.twin_problem = "the second run hangs"
            with messages:
                messages.seek(0)
                told = messages.read().decode(errors="replace")
            self.twin_messages += told
            operation = self.place.trial.operation
            if process.returncode in (0, *operation.quiet_codes):
                continue
            if process.returncode not in operation.error_codes or not is_message(told):
                self.twin_problem = f"the second run ends with {process.returncode}: {told}"
        self.twins.clear()


def is_message(text):
    """Whether the text has the form of messages in the manual, penstock COMMAND: MESSAGE. A line of Arrow's allocator may precede it."""
    rows = [row for row in text.splitlines() if not row.startswith("<jemalloc>: ")]
    return bool(rows) and all(row.startswith("penstock") for row in rows) and re.match(r"penstock( [a-z]+)?: \S", rows[-1]) is not None


class Judge:
    """Checks after a run. Each check returns an error, or ""."""

    def __init__(self, place, run, ended, struck):
        self.place, self.run, self.ended, self.struck = place, run, ended, struck
        self.operation = place.trial.operation
        self.known = place.stage.known(self.operation, place.trial.size)

    def problem(self, again=False):
        looks = (self.end, self.output, self.left) if again else (self.end, self.input, self.output, self.left)
        return next((found for found in (look() for look in looks) if found), "")

    def has(self, *kinds):
        return any(fault.kind in kinds for fault in self.struck)

    def end(self):
        ended, run = self.ended, self.run
        told = f"\n{ended.message}"
        allowed = {SAME}.union(*(fault.outcomes(self.operation) for fault in self.struck))
        if ended.hangs:
            return "hangs" + told
        if ended.left:
            return "a process is left" + told
        if run.twin_problem:
            return run.twin_problem
        if ended.code == 0:
            if MUST_FAIL in allowed:
                return "exit code 0 where it cannot do what it was told"
            if ended.message and not is_message(ended.message):
                return f"exit code 0, and a message that is not ours{told}"
            return ""
        if ended.code < 0:
            number = -ended.code
            if number == signal.SIGABRT and self.has("error") and any(f.call == "munmap" for f in self.struck) and not ended.message:
                return ""  # a message of the C library, which cannot free a thread's stack
            if number == signal.SIGXFSZ and self.has("limit") and self.operation.name == "find":
                return ""  # this command has nothing to clean up
            if ENDS not in allowed or number not in run.signals:
                return f"ended by signal {number}{told}"
            told_nothing_on = self.operation.python or any(
                fault.call == "write" and fault.detail != "EINTR" for fault in self.struck)
            if run.signals[number] and not told_nothing_on and f"stopped by {signal.Signals(number).name}" not in ended.message:
                return f"ended by signal {number} without a word{told}"
            return ""
        if ended.code not in self.operation.error_codes:
            return f"exit code {ended.code}{told}"
        if not allowed & {FAILS, MUST_FAIL}:
            return f"exit code {ended.code} where nothing was in its way{told}"
        if ended.code not in self.operation.quiet_codes and not is_message(ended.message):
            return f"exit code {ended.code} without a message of ours{told}"
        return ""

    def input(self):
        if self.operation.in_place or any(fault.changes_input or fault.kind == "input" for fault in self.struck):
            return ""
        return "the input is not as it was" if [stamp(path) for path in self.place.inputs] != self.place.stamps else ""

    def output(self):
        goes_nowhere = any(fault.kind == "output" and fault.detail in ("null", "full", "socket", "folder") for fault in self.struck)
        if not self.operation.compares or goes_nowhere:
            return ""
        place, ended = self.place, self.ended
        if not self.operation.outputs or place.outputs == [place.folder / "read"]:
            return self.stream_output(place.outputs[0] if place.outputs else place.folder / "stdout")
        found = [digest(path) for path in place.outputs]
        if found == self.known.digests:
            return ""
        if ended.code != 0:
            old_or_new = all(now in (old, new) for now, old, new in zip(found, place.before, self.known.digests))
            if old_or_new or not place.outputs[0].parent.is_dir():
                return ""
            if any(fault.changes_input for fault in self.struck):
                return ""  # it is, or results from, the input that the fault changed
            return "an output that is neither the old nor the new one"
        if self.has("remove-folder") and not place.outputs[0].exists():
            return ""  # its folder was removed after it was finished
        return self.of_changed_input(found) or ""

    def of_changed_input(self, found):
        wrong = "exit code 0 and a wrong output"
        changes = [fault.kind for fault in self.struck if fault.changes_input]
        if not changes:
            return wrong
        if self.operation.in_place:
            return ""  # it replaced its input
        try:
            now = self.operation.expects([path.read_bytes() for path in self.place.inputs])
        except (OSError, ValueError, IndexError):
            return wrong if changes == ["remove"] else ""
        if now is None or found == [digest_of(now)]:
            return ""
        # Data read before and after a change are mixed, and cannot be checked.
        lengths = {self.known.lengths[0], len(now)}
        if "change" in changes or ("replace" not in changes and self.place.outputs[0].stat().st_size in lengths):
            return ""
        return f"{wrong} (the input: {changes})"

    def stream_output(self, path):
        if self.ended.code == 0:
            if digest(path) == self.known.digests[0]:
                return ""
            return self.of_changed_input([digest(path)]) if self.place.outputs else self.changed_stream(path)
        if self.ended.code == 1 or self.has("truncate", "grow", "change", "replace"):
            return ""
        with path.open("rb") as ours, self.known.paths[0].open("rb") as wanted:
            for piece in iter(lambda: ours.read(1 << 20), b""):
                if piece != wanted.read(len(piece)):
                    return "a stream that does not begin as the whole output"
        return ""

    def changed_stream(self, path):
        return "" if any(fault.changes_input for fault in self.struck) else "exit code 0 and a wrong output"

    def left(self):
        found = self.place.leftovers()
        if left_to_the_next(self.operation, self.run, self.ended):
            return ""
        told = self.ended.message + self.run.twin_messages
        found = [name for name in found if not (".new-" in name and name.rpartition("/")[2] in told)]
        if self.has("error") and "still there" in told:
            found = [name for name in found if name not in told]
        if found and any(fault.call in ("unlink", "unlinkat", "rmdir", "getdents64") for fault in self.struck if fault.kind == "error"):
            return ""  # files that cannot be listed or removed have to be left
        return f"left {found}\n{self.ended.message}" if found else ""


def left_to_the_next(operation, run, ended):
    """Leftovers that are allowed because the run was ended at once, or is to be resumed."""
    uncaught = not all(run.signals.values()) if operation.processes else ended.code < 0 and not run.signals.get(-ended.code, False)
    return uncaught or (operation.resumes and ended.code != 0)


def run_trial(stage, trial):
    """Runs the trial with its faults, and again without them if the run is to be resumed or could not clean up."""
    start = time.monotonic()
    result = Result("cannot")
    try:
        before = stage.undisturbed(trial.operation, trial.size)
        if before.problem:
            return Result("failed", f"undisturbed: {before.problem}", time.monotonic() - start)
        place = Place(stage, trial)
        with place.closing:
            place.prepare()
            result = attempt(place, trial)
    except Cannot as error:
        result = Result("cannot", "")
        stage.cannot(str(error))
    result.seconds = time.monotonic() - start
    return result


def attempt(place, trial):
    operation = trial.operation
    standing = [fault for fault in trial.faults if not fault.call and fault.kind != "rot"]
    striking = [fault for fault in trial.faults if fault not in standing]
    # A run that is resumed meets its faults one by one.
    rounds = [[fault] for fault in striking] if operation.resumes and striking else [striking]
    struck, missed = standing, []
    for meets in rounds:
        struck = struck + meets
        missed += [fault for fault in meets if fault.kind == "rot" and not rot(fault, place)]
        run = Run(place, standing + meets)
        ended = run.go()
        missed += [fault for fault in meets if fault.call and fault not in run.reached and ended.counts.get(fault.call, 0) < fault.number]
        place.settle()
        problem = Judge(place, run, ended, struck).problem()
        if problem or ended.code == 0:
            break
    result = Result("finished" if ended.code == 0 else "ended" if ended.code < 0 else "failed", problem,
                    reached=len(missed) < max(1, len(trial.faults)) and not any(fault.kind == "rot" for fault in missed))
    persistent = any(fault.changes_input or fault.kind in ("remove-folder", "disk", "limit", "output", "input") for fault in struck)
    if problem or persistent or not left_to_the_next(operation, run, ended):
        return result
    place.environment.pop("PENSTOCK_INJECT", None)
    run = Run(place, [])
    ended = run.go()
    if ended.code == 2 and any(fault.kind in ("flip", "rot") for fault in struck):
        return result  # an error each time, until the file is removed, as the manual says
    problem = Judge(place, run, ended, []).problem(again=True)
    if problem:
        result.problem = f"run again: {problem}"
    return result
