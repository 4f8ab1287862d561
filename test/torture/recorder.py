"""Records the file system calls of a run, in order, for power cuts (power_cut.py).

at_call holds each call that changes or syncs a file or a folder; the recorder reads its file and bytes meanwhile. io_uring is
refused, so that all writes are calls. A call is recorded when it begins: a write in progress when a sync begins counts as done before
it. At the end the recording's image is compared with the files.
"""

import contextlib
import dataclasses
import errno
import os
import re
import stat
import typing

from trial import Run

FOLDER = -1  # in place of a file's number
OPENS = ("direct", "unnamed", "openat", "open")
HELD = (*OPENS, "write", "pwrite64", "ftruncate", "fallocate", "fsync", "fdatasync", "syncfs", "link", "linkat", "rename", "renameat",
        "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "copy_file_range", "splice")
HERE = -100  # AT_FDCWD
REMOVES_FOLDER = 0x200  # AT_REMOVEDIR
PUNCHES = 2  # FALLOC_FL_PUNCH_HOLE


@dataclasses.dataclass
class Step:
    """A step. Files are identified by their inode numbers, names by their paths within the trial's folder."""
    kind: str  # write, size, grow, punch, sync, link, unlink, move, folder, sync-folder, sync-all
    file: int = 0
    path: str = ""  # the name that changes; for a synced file its name, if it has one
    to: str = ""
    at: int = 0
    size: int = 0
    data: bytes = b""

    def __str__(self):
        of = {"write": f"{len(self.data)} bytes at {self.at}", "size": self.size, "grow": self.size, "punch": f"{self.size} at {self.at}"}
        return " ".join(str(word) for word in (self.kind, self.path or f"file {self.file}", self.to, of.get(self.kind, "")) if word != "")

    @property
    def names(self):
        """The folders that the step changes."""
        if self.kind in ("link", "unlink", "folder"):
            return {os.path.dirname(self.path)}
        return {os.path.dirname(self.path), os.path.dirname(self.to)} if self.kind == "move" else set()


@dataclasses.dataclass
class Recording:
    names: dict  # {path: file, or FOLDER} before the run
    files: dict  # {file: bytes} before the run
    steps: list = dataclasses.field(default_factory=list)
    problem: str = ""  # the error of the recording
    keeps: dict = dataclasses.field(default_factory=dict)  # {file: a private path}


class Recorder(Run):
    """A recorded run without faults. If a later run identifies a file by its inode, `keep` is a folder for one more name of each file."""

    roots: typing.ClassVar = ("in", "out", "temp", "temp2")

    def __init__(self, place, keep=None):
        super().__init__(place, [])
        self.root, self.keep = os.path.realpath(place.folder), keep
        self.held_open = {}  # {file: a descriptor}, so that no other file gets its inode number
        self.unknown = []  # steps that name a file that does not exist yet
        self.recording = self.look()

    def look(self):
        names, files = {}, {}
        for root in self.roots:
            for folder, _, inside in os.walk(os.path.join(self.root, root)):
                names[self.within(folder)] = FOLDER
                for name in inside:
                    path = os.path.join(folder, name)
                    number = names[self.within(path)] = os.lstat(path).st_ino
                    with open(path, "rb") as file:
                        files[number] = file.read()
        return Recording(names, files)

    def record(self):
        with contextlib.closing(self):
            ended = self.go(*(f"{call}:1+:ask" for call in HELD), f"io_uring_setup:1+:{errno.EPERM}")
            self.find_files()
            return ended, self.recording

    def close(self):
        for descriptor in self.held_open.values():
            os.close(descriptor)

    def within(self, path):
        """The path within the trial's folder; "" for others, and for files that do not matter."""
        path = os.path.relpath(path, self.root)
        return path if path.partition("/")[0] in self.roots else ""

    # ---- arguments of calls

    def text(self, pid, address):
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            found = b""
            while b"\0" not in found and len(found) < 4096:
                found += os.pread(memory.fileno(), 4096 - (address + len(found)) % 4096, address + len(found))
        return os.fsdecode(found.partition(b"\0")[0])

    def bytes_of(self, pid, address, size):
        found = bytearray()
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            while len(found) < size:
                found += os.pread(memory.fileno(), size - len(found), address + len(found))
        return bytes(found)

    def path(self, pid, folder, address):
        folder = (folder & 0xffffffff) - (folder >> 31 & 1) * (1 << 32)
        base = os.readlink(f"/proc/{pid}/cwd" if folder == HERE else f"/proc/{pid}/fd/{folder}")
        path = os.path.join(base, self.text(pid, address))
        return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))

    def file(self, pid, descriptor):
        """The file's number, and its path if it has one; (0, "") for files outside of the trial."""
        link = f"/proc/{pid}/fd/{descriptor}"
        name = os.readlink(link)
        path = self.within(name.removesuffix(" (deleted)")) if name.startswith("/") else ""
        if not path:
            if name.startswith(os.path.dirname(self.root)) and stat.S_ISREG(os.stat(link).st_mode) and os.path.dirname(name) != self.root:
                self.recording.problem = f"{name} is written"
            return 0, ""
        number = os.stat(link).st_ino
        if number not in self.held_open:
            self.held_open[number] = os.open(link, os.O_PATH)
        return number, "" if name.endswith(" (deleted)") else path

    def find_files(self):
        """Finds the files of names that were about to be created."""
        for step in list(self.unknown):
            path = os.path.join(self.root, step.path)
            with contextlib.suppress(FileNotFoundError):
                step.file = os.lstat(path).st_ino
                self.unknown.remove(step)
                if self.keep and step.file not in self.recording.keeps:
                    kept = os.path.join(self.keep, str(step.file))
                    os.link(path, kept)
                    self.recording.keeps[step.file] = kept

    # ---- calls

    def held(self, fault, pid, call, arguments):
        self.find_files()
        kind = call.rstrip("0123456789").removesuffix("at") if call.startswith(("link", "rename", "unlink", "mkdir")) else call
        getattr(self, f"on_{'open' if call in OPENS else kind}")(pid, call, arguments)

    def add(self, kind, *where, **what):
        if not where or all(where):
            self.recording.steps.append(Step(kind, **what))
            return self.recording.steps[-1]
        return None

    def on_open(self, pid, call, arguments):
        folder, address, flags = (HERE, *arguments[:2]) if call == "open" else arguments[:3]
        if not flags & (os.O_CREAT | os.O_TRUNC) or call == "unnamed":
            return
        whole = self.path(pid, folder, address)
        path = self.within(whole)
        if flags & os.O_CREAT and not os.path.lexists(whole):
            step = self.add("link", path, path=path)
            if step:
                self.unknown.append(step)
        elif flags & os.O_TRUNC:
            self.add("size", path, file=os.stat(whole).st_ino, path=path)

    def on_write(self, pid, call, arguments):
        number, _ = self.file(pid, arguments[0])
        if number:
            with open(f"/proc/{pid}/fdinfo/{arguments[0]}") as about:
                at = int(about.readline().split()[1])
            self.add("write", file=number, at=at, data=self.bytes_of(pid, *arguments[1:3]))

    def on_pwrite64(self, pid, call, arguments):
        number, _ = self.file(pid, arguments[0])
        if number:
            self.add("write", file=number, at=arguments[3], data=self.bytes_of(pid, *arguments[1:3]))

    def on_ftruncate(self, pid, call, arguments):
        number, _ = self.file(pid, arguments[0])
        self.add("size", number, file=number, size=arguments[1])

    def on_fallocate(self, pid, call, arguments):
        number, _ = self.file(pid, arguments[0])
        if arguments[1] & PUNCHES:
            self.add("punch", number, file=number, at=arguments[2], size=arguments[3])
        else:
            self.add("grow", number, file=number, size=arguments[2] + arguments[3])

    def on_fsync(self, pid, call, arguments):
        link = f"/proc/{pid}/fd/{arguments[0]}"
        if stat.S_ISDIR(os.stat(link).st_mode):
            path = self.within(os.readlink(link))
            self.add("sync-folder", path, path=path)
        else:
            number, path = self.file(pid, arguments[0])
            self.add("sync", number, file=number, path=path)

    on_fdatasync = on_fsync

    def on_syncfs(self, pid, call, arguments):
        self.add("sync-all")

    def on_link(self, pid, call, arguments):
        folder, address, to_folder, to = (HERE, arguments[0], HERE, arguments[1]) if call == "link" else arguments[:4]
        descriptor = re.fullmatch(r"/proc/self/fd/(\d+)", self.text(pid, address))
        path = self.path(pid, to_folder, to)
        if os.path.lexists(path):
            return  # the call will fail
        number = self.file(pid, descriptor[1])[0] if descriptor else os.lstat(self.path(pid, folder, address)).st_ino
        if self.within(path) and number:
            step = self.add("link", file=number, path=self.within(path))
            if self.keep:
                self.unknown.append(step)

    def on_rename(self, pid, call, arguments):
        words = (HERE, arguments[0], HERE, arguments[1]) if call == "rename" else arguments[:4]
        path, to = self.within(self.path(pid, *words[:2])), self.within(self.path(pid, *words[2:]))
        self.add("move", path, to, path=path, to=to)

    def on_unlink(self, pid, call, arguments):
        folder, address, flags = (HERE, arguments[0], 0) if call == "unlink" else arguments[:3]
        whole = self.path(pid, folder, address)
        if os.path.lexists(whole) and (flags & REMOVES_FOLDER or not os.path.isdir(whole)):
            self.add("unlink", self.within(whole), path=self.within(whole))

    def on_rmdir(self, pid, call, arguments):
        self.on_unlink(pid, "unlinkat", [HERE, arguments[0], REMOVES_FOLDER])

    def on_mkdir(self, pid, call, arguments):
        whole = self.path(pid, *((HERE, arguments[0]) if call == "mkdir" else arguments[:2]))
        if not os.path.lexists(whole):
            self.add("folder", self.within(whole), path=self.within(whole))

    def on_copy_file_range(self, pid, call, arguments):
        if self.file(pid, arguments[2])[0]:
            self.recording.problem = f"{call} is not recorded"

    on_splice = on_copy_file_range
