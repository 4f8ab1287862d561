"""The faults of a trial, and the outcomes that they allow.

A fault is a word: KIND or KIND=DETAIL, followed by @CALL:NUMBER if it strikes at a system call; NUMBER+ means from that call on. Each
kind allows outcomes: SAME, as without a fault; FAILS, an error with a message; ENDS, death by a signal. Several faults allow the union
of their outcomes.
"""

import collections
import contextlib
import dataclasses
import errno
import os
import pathlib
import random
import resource
import shutil
import signal
import socket

MIB = 1 << 20
NOBODY = 65534
SECTOR = 4096
SAME, FAILS, MUST_FAIL, ENDS = "same", "fails", "must fail", "ends"
MAY_FAIL = {SAME, FAILS}

# Errors that the system may return for a call.
NO_DESCRIPTOR, NO_MEMORY, NO_SPACE, BROKEN, REFUSED = "EMFILE", "ENOMEM", "ENOSPC", "EIO", "EPERM"
ERRORS = {
    "openat": [NO_DESCRIPTOR, "EACCES", BROKEN], "direct": ["EINVAL", NO_DESCRIPTOR], "unnamed": ["EOPNOTSUPP", NO_SPACE],
    "open": [NO_DESCRIPTOR, "EACCES"], "close": [BROKEN],
    "fcntl": [NO_MEMORY], "read": [BROKEN, "EINTR"], "pread64": [BROKEN, "EINTR"], "write": [NO_SPACE, BROKEN, "EINTR"],
    "pwrite64": [NO_SPACE, BROKEN, "EINTR"], "lseek": [BROKEN], "ftruncate": [NO_SPACE, BROKEN],
    "fallocate": [NO_SPACE, "EOPNOTSUPP"], "fstat": [BROKEN], "newfstatat": [BROKEN, "EACCES"],
    "stat": [BROKEN], "lstat": [BROKEN], "statx": [BROKEN, "ENOSYS"], "statfs": [BROKEN], "fstatfs": [BROKEN],
    "fsync": [BROKEN], "fdatasync": [BROKEN, NO_SPACE], "sync_file_range": [BROKEN], "fadvise64": [BROKEN],
    "flock": ["ENOLCK"], "linkat": [BROKEN, "ENOENT"], "link": [BROKEN], "rename": [BROKEN, NO_SPACE],
    "renameat": [BROKEN], "renameat2": [BROKEN, "EINVAL"], "unlink": [BROKEN], "unlinkat": [BROKEN],
    "getdents64": [BROKEN], "readlink": ["EACCES"], "readlinkat": ["EACCES"], "access": ["EACCES"],
    "faccessat": ["EACCES"], "faccessat2": ["EACCES"], "chmod": [REFUSED], "fchmod": [REFUSED],
    "fchown": [REFUSED], "mkdir": [NO_SPACE], "mkdirat": [NO_SPACE], "rmdir": [BROKEN], "ioctl": [NO_MEMORY, BROKEN],
    "mmap": [NO_MEMORY], "munmap": [NO_MEMORY], "mprotect": [NO_MEMORY], "mremap": [NO_MEMORY],
    "madvise": ["EAGAIN", NO_MEMORY], "brk": [NO_MEMORY], "memfd_create": [NO_DESCRIPTOR, NO_MEMORY],
    "userfaultfd": [REFUSED], "io_uring_setup": [REFUSED, NO_MEMORY],
    "io_uring_enter": [NO_MEMORY, BROKEN, "EACCES", "EINTR"], "clone3": ["EAGAIN"], "clone": ["EAGAIN"],
    "eventfd2": [NO_DESCRIPTOR], "pipe2": [NO_DESCRIPTOR], "timerfd_create": [NO_DESCRIPTOR],
    "timerfd_settime": [NO_MEMORY], "poll": [NO_MEMORY, "EINTR"], "ppoll": [NO_MEMORY, "EINTR"], "getrandom": [REFUSED, "ENOSYS"],
    "prlimit64": [REFUSED], "sched_getaffinity": [REFUSED], "copy_file_range": [BROKEN], "splice": [BROKEN],
    "pidfd_open": [NO_DESCRIPTOR], "sigaltstack": [NO_MEMORY], "setitimer": [REFUSED],
}
# Calls that may fail from some number on.
FROM_THEN_ON = {"openat", "pwrite64", "brk", "mprotect", "madvise", "io_uring_setup", "io_uring_enter", "clone3", "userfaultfd"}
# Features that a system may lack or refuse; the program does without.
DISPENSABLE = ("io_uring_setup", "userfaultfd", "memfd_create", "pidfd_open", "direct", "unnamed", "fallocate", "fadvise64", "statx",
               "copy_file_range", "splice", "sched_getaffinity", "getrandom")
WITHOUT = {"direct": errno.EINVAL, "unnamed": errno.EOPNOTSUPP, "fallocate": errno.EOPNOTSUPP, "statx": errno.ENOSYS}
# Calls that a container's usual policy refuses.
CONTAINER = ("io_uring_setup", "io_uring_enter", "userfaultfd")


class Cannot(Exception):
    """This system cannot produce the fault."""


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    detail: str = ""
    call: str = ""
    number: int = 0
    on: bool = False

    @staticmethod
    def parse(word):
        word, at, place = word.partition("@")
        kind, _, detail = word.partition("=")
        if kind not in KINDS:
            raise ValueError(f"no fault {kind}")
        if not at:
            return Fault(kind, detail)
        call, _, number = place.partition(":")
        return Fault(kind, detail, call, int(number.rstrip("+")), number.endswith("+"))

    def __str__(self):
        word = self.kind + (f"={self.detail}" if self.detail else "")
        return word + (f"@{self.call}:{self.number}{'+' * self.on}" if self.call else "")

    @property
    def what(self):
        return KINDS[self.kind]

    def outcomes(self, operation):
        if self.kind == "error" and self.detail == "EINTR":
            return {SAME}
        if self.kind == "error" and self.call in ("clone3", "clone") and self.call not in operation.needs:
            return {SAME}
        if operation.processes and self.kind in ("kill", "term", "int"):
            return {SAME, FAILS, ENDS}  # another process may be the one that ends
        if self.kind == "without" and self.detail in operation.needs:
            return MAY_FAIL
        return self.what.outcomes(self, operation) if callable(self.what.outcomes) else self.what.outcomes

    def rules(self):
        """The rules for at_call."""
        if self.kind == "error":
            return [f"{self.call}:{self.number}{'+' * self.on}:{getattr(errno, self.detail)}"]
        if self.kind in ("without", "container"):
            refused = CONTAINER if self.kind == "container" else [self.detail]
            return [f"{call}:1+:{WITHOUT.get(call, errno.EPERM)}" for call in refused]
        return [f"{self.call}:{self.number}:ask"] if self.call else []

    @property
    def changes_input(self):
        return self.kind in ("truncate", "grow", "change", "replace", "remove")


# ---- actions while the program waits in a call: `run` is the run, `pid` the waiting thread


def send(number):
    def act(fault, run, pid):
        caught = pathlib.Path(f"/proc/{pid}/status").read_text().split("SigCgt:")[1].split()[0]
        run.signals[number] = bool(int(caught, 16) >> (number - 1) & 1)
        os.kill(pid, number)
    return act


def stop(fault, run, pid):
    """Stops the program; it is continued once all of it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    run.stopped.append(pid)


def change(fault, run, pid):
    path = run.place.inputs[0]
    size = path.stat().st_size
    rng = random.Random(str(fault))
    if fault.kind == "truncate":
        os.truncate(path, int(size * rng.choice((0, rng.random(), 0.999))))
    elif fault.kind == "grow":
        with path.open("ab") as file:
            file.write(rng.randbytes(rng.choice((1, 4096, 300_000))))
    elif fault.kind == "change":
        with path.open("r+b") as file:
            for _ in range(8):
                file.seek(rng.randrange(size + 1) // 16 * 16)
                file.write(rng.randbytes(16))
            file.truncate(size)
    elif fault.kind == "replace":
        new = path.with_name("new")
        new.write_bytes(path.read_bytes()[::-1])
        new.rename(path)
    else:
        path.unlink()


def remove_folder(fault, run, pid):
    shutil.rmtree(run.place.folder / fault.detail)


LIMITS = {"as": resource.RLIMIT_AS, "data": resource.RLIMIT_DATA, "nofile": resource.RLIMIT_NOFILE, "fsize": resource.RLIMIT_FSIZE,
          "nproc": resource.RLIMIT_NPROC, "stack": resource.RLIMIT_STACK, "memlock": resource.RLIMIT_MEMLOCK}


def limit(fault, run, pid):
    name, _, value = fault.detail.partition(":")
    resource.prlimit(pid, LIMITS[name], (int(value), int(value)))


def memory_cgroup(fault, run, pid):
    """Moves the program into a memory cgroup. Earlier memory, mostly pages of its code, stays outside."""
    folder = run.place.cgroup(int(fault.detail))
    (folder / "cgroup.procs").write_text(str(pid))


def flip(fault, run, pid):
    """Flips a bit of an open temporary, with or without a name."""
    rng = random.Random(str(fault))
    found = []
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(link)
            if target.startswith(tuple(f"{folder}/" for folder in run.place.temporaries)) and link.is_file() and link.stat().st_size > 0:
                found.append(link)
    if not found:
        return
    link = rng.choice(sorted(found))
    with link.open("r+b", buffering=0) as file:
        at = rng.randrange(link.stat().st_size)
        byte = os.pread(file.fileno(), 1, at)
        if byte:
            os.pwrite(file.fileno(), bytes([byte[0] ^ 1 << rng.randrange(8)]), at)


def rot(fault, place):
    """Flips a bit in a sector of a resumed sort's journal or temporaries. Returns whether there is such a sector."""
    name, _, sector = fault.detail.partition(":")
    kept = sorted(path for folder in place.temporaries for path in folder.rglob("*")
                  if path.is_file() and (path.name == "journal") == (name == "journal"))
    at = int(sector) * SECTOR
    for path in kept:
        size = -(-path.stat().st_size // SECTOR) * SECTOR
        if at < size:
            with path.open("r+b", buffering=0) as file:
                rng = random.Random(str(fault))
                at += rng.randrange(min(SECTOR, path.stat().st_size - at))
                byte = os.pread(file.fileno(), 1, at)[0]
                os.pwrite(file.fileno(), bytes([byte ^ 1 << rng.randrange(8)]), at)
            return True
        at -= size
    return False


def twin(fault, run, pid):
    """Starts a second run of the same command: to its end while the first waits, or in parallel."""
    run.start_twin()
    if fault.detail == "before":
        run.end_twins()


# ---- faults that exist before the program starts


def standing_output(fault, place, operation):
    out = place.outputs[0]
    out.unlink(missing_ok=True)
    if fault.detail in ("link", "dangling"):
        if fault.detail == "link":
            (out.parent / "target").write_bytes(b"old")
        out.symlink_to("target")
        place.kept.add("target")
    elif fault.detail == "hard-link":
        (out.parent / "target").write_bytes(b"old")
        os.link(out.parent / "target", out)
        place.kept.add("target")
    elif fault.detail == "fifo":
        os.mkfifo(out)
        place.read_fifo(out)
    elif fault.detail == "socket":
        bind(out)
    elif fault.detail == "folder":
        out.mkdir()
    elif fault.detail == "full":
        place.words["out"] = "/dev/full"
    elif fault.detail == "null":
        place.words["out"] = "/dev/null"


def standing_input(fault, place, operation):
    path = place.inputs[0]
    aside = place.folder / "aside"
    if fault.detail in ("link", "hard-link", "fifo"):
        path.rename(aside)
    else:
        path.unlink()
    if fault.detail == "link":
        path.symlink_to(aside)
    elif fault.detail == "hard-link":
        os.link(aside, path)
    elif fault.detail == "fifo":
        os.mkfifo(path)
        place.write_fifo(path, aside)
    elif fault.detail == "socket":
        bind(path)
    elif fault.detail == "folder":
        path.mkdir()


def bind(path):
    with socket.socket(socket.AF_UNIX) as end:
        folder = os.open(path.parent, os.O_PATH)
        try:
            end.bind(f"/proc/self/fd/{folder}/{path.name}")  # the path itself may be too long
        finally:
            os.close(folder)


def small_disk(fault, place, operation):
    where, _, size = fault.detail.partition(":")
    place.mount(place.folder / where, int(size))


def seam(fault, place, operation):
    before = place.environment.get("PENSTOCK_INJECT", "")
    place.environment["PENSTOCK_INJECT"] = f"{before},{fault.detail}" if before else fault.detail


def without_rights(fault, place, operation):
    if os.geteuid() != 0:
        raise Cannot("another user: this is not root")
    if operation.python:
        raise Cannot("Python as another user: its folder may be root's alone")
    place.user = NOBODY


# ---- kinds


Kind = collections.namedtuple("Kind", "outcomes draw act prepare", defaults=(None, None))


def at_any_call(rng, operation, counts):
    call = rng.choice(sorted(counts))
    return call, 1 + int(rng.random() * counts[call])


def refused_call(rng, operation, counts):
    call = rng.choice(sorted(set(counts) & set(ERRORS)))
    number = 1 + int(rng.random() * counts[call])
    error = rng.choice(ERRORS[call])
    # (A call that a signal interrupts is repeated. One that is always interrupted would hang, and no system does that.)
    return Fault("error", error, call, number, error != "EINTR" and call in FROM_THEN_ON and rng.random() < 0.3)


def at_a_call(kind, *details):
    def draw(rng, operation, counts):
        if kind in ("truncate", "grow", "change", "replace", "remove") and (operation.from_stdin or not operation.inputs):
            return None
        if kind == "twin" and operation.alone:
            return None
        return Fault(kind, rng.choice(details) if details else "", *at_any_call(rng, operation, counts))
    return draw


def drawn_lack(rng, operation, counts):
    return Fault("without", rng.choice(DISPENSABLE))


def drawn_container(rng, operation, counts):
    return None if operation.python else Fault("container")


def of_output(rng, operation, counts):
    if operation.in_place or len(operation.outputs) != 1 or operation.resumes or operation.python:
        return None
    return Fault("output", rng.choice(("link", "dangling", "hard-link", "fifo", "socket", "folder", "full", "null")))


def of_input(rng, operation, counts):
    if not operation.inputs or operation.from_stdin or operation.in_place or operation.resumes or operation.python:
        return None
    return Fault("input", rng.choice(("link", "hard-link", "fifo", "socket", "folder")))


def drawn_limit(rng, operation, counts):
    name, value = rng.choice((("as", rng.randrange(10 * MIB, 400 * MIB)), ("data", rng.randrange(2 * MIB, 60 * MIB)),
                              ("nofile", rng.randrange(3, 40)), ("fsize", rng.choice((1 << 16, 10 * MIB, 30 * MIB))),
                              ("nproc", rng.randrange(0, 3)), ("stack", 1 << 16), ("memlock", 0)))
    return Fault("limit", f"{name}:{value}", "fcntl", 1)


def drawn_cgroup(rng, operation, counts):
    if operation.python or not operation.inputs:
        return None
    budget = operation.budget
    return Fault("cgroup", str(budget + rng.choice((0, MIB, 4 * MIB, 16 * MIB))), "fcntl", 1)


def drawn_seam(rng, operation, counts):
    if operation.python:
        return None
    seed = rng.randrange(1 << 16)
    return Fault("seam", rng.choice((f"seed={seed},short=0.3", f"seed={seed},delay=0.05:300", f"seed={seed},short=0.2,delay=0.05:300")))


def drawn_seam_error(rng, operation, counts):
    if operation.python:
        return None
    what = rng.choice(("read", "write", "sync", "close", "rename"))
    error = f"error={rng.choice(('EIO', 'ENOSPC'))}%{what}:{int(2 ** rng.uniform(0, 10)) - 1}"
    torn = f",short={rng.choice((0.2, 0.5))}" if rng.random() < 0.5 else ""
    return Fault("seam-error", f"seed={rng.randrange(1 << 16)}{torn},{error}")


def drawn_rot(rng, operation, counts):
    if not operation.resumes:
        return None
    return Fault("rot", rng.choice((f"journal:{rng.randrange(3)}", f"temporary:{rng.randrange(6000)}")))


def drawn_folder(rng, operation, counts):
    return Fault("remove-folder", rng.choice(("temp", "out")), *at_any_call(rng, operation, counts))


def drawn_disk(rng, operation, counts):
    return Fault("disk", f"{rng.choice(('temp', 'out'))}:{rng.choice((1, 4, 16, 30, 40)) * MIB}")


def drawn_signal(kind):
    return lambda rng, operation, counts: Fault(kind, "", *at_any_call(rng, operation, counts))


def output_outcomes(fault, operation):
    # A full device takes no bytes.
    return {MUST_FAIL} if fault.detail in ("socket", "folder") else MAY_FAIL if fault.detail == "full" else {SAME}


def input_outcomes(fault, operation):
    return {MUST_FAIL} if fault.detail in ("socket", "folder") else {SAME} if fault.detail != "fifo" else {SAME, FAILS}


def cgroup_outcomes(fault, operation):
    """Nine tenths of the cgroup are used, and the least budget has to fit in them."""
    return {SAME} if int(fault.detail) * 9 // 10 >= operation.budget else MAY_FAIL


def limit_outcomes(fault, operation):
    return {SAME} if fault.detail.startswith(("memlock", "stack")) else {SAME, FAILS}


def prepare_seam_error(fault, place, operation):
    seam(Fault("seam", fault.detail.replace("%", "@")), place, operation)


KINDS = {
    "error": Kind(MAY_FAIL, refused_call),
    "kill": Kind({SAME, ENDS}, drawn_signal("kill"), send(signal.SIGKILL)),
    "term": Kind({SAME, ENDS}, drawn_signal("term"), send(signal.SIGTERM)),
    "int": Kind({SAME, ENDS}, drawn_signal("int"), send(signal.SIGINT)),
    "stop": Kind({SAME}, drawn_signal("stop"), stop),
    "truncate": Kind(MAY_FAIL, at_a_call("truncate"), change),
    "grow": Kind(MAY_FAIL, at_a_call("grow"), change),
    "change": Kind(MAY_FAIL, at_a_call("change"), change),
    "replace": Kind(MAY_FAIL, at_a_call("replace"), change),
    "remove": Kind(MAY_FAIL, at_a_call("remove"), change),
    "remove-folder": Kind(MAY_FAIL, drawn_folder, remove_folder),
    "flip": Kind(MAY_FAIL, at_a_call("flip"), flip),
    "rot": Kind(MAY_FAIL, drawn_rot),
    "twin": Kind(MAY_FAIL, at_a_call("twin", "before", "beside"), twin),
    "limit": Kind(limit_outcomes, drawn_limit, limit),
    "cgroup": Kind(cgroup_outcomes, drawn_cgroup, memory_cgroup),
    "without": Kind({SAME}, drawn_lack),
    "container": Kind({SAME}, drawn_container, None, without_rights),
    "output": Kind(output_outcomes, of_output, None, standing_output),
    "input": Kind(input_outcomes, of_input, None, standing_input),
    "disk": Kind(MAY_FAIL, drawn_disk, None, small_disk),
    "seam": Kind({SAME}, drawn_seam, None, seam),
    "seam-error": Kind(MAY_FAIL, drawn_seam_error, None, prepare_seam_error),
}


CHANGES = {"truncate", "grow", "change", "replace", "remove"}
# Pairs of kinds that exclude each other: one needs a file that the other replaces, or that another user owns.
CLASHES = ({"input", *CHANGES}, {"input", "twin"}, {"container", "twin"}, {"output", "twin", "disk", "remove-folder"},
           {"disk", "cgroup"})  # a small disk is memory, of that cgroup


# Kinds that last: a run and its continuations have at most one.
STANDING = {"disk", "cgroup", *CHANGES}


def clash(fault, other):
    return fault.kind == other.kind or any({fault.kind, other.kind} <= kinds for kinds in (*CLASHES, CHANGES))


def draw(rng, operation, counts, kinds):
    """Draws one or two faults of different kinds; for a run that is resumed, one for each run. (First the kind of call is drawn, then its
    number, so that rare calls are hit as often as frequent ones.)"""
    found = []
    for _ in range(rng.randint(1, 4) if operation.resumes else 1 if rng.random() < 0.7 else 2):
        while True:
            fault = KINDS[rng.choice(kinds)].draw(rng, operation, counts)
            if fault is None or operation.python and fault.call == "fcntl":  # this call marks the beginning of the count
                continue
            if operation.resumes and fault.kind not in STANDING or not any(clash(fault, other) for other in found):
                break
        found.append(fault)
    return tuple(found)
