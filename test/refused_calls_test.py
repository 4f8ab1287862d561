#!/usr/bin/env python3
"""Every call of the system fails once, and no command aborts, hangs, lies or leaves its temporaries:
refused_calls_test.py PENSTOCK FAIL_CALL [TEST...].

Each command is run once to count its calls by kind (fail_call.cc), and then once for each call, which fails with an error
that the system may give there. What has to come out: the right output and exit code 0, or exit code 2 (1 for what cat cannot read) with a message.

There are thousands of calls, so a run makes a sample of them fail, half of it from those that a command makes seldom. It
prints its seed; PENSTOCK_TEST_SEED repeats the choice. PENSTOCK_TEST_CALLS=all takes all of them (an hour),
PENSTOCK_TEST_CALLS=openat:3:24 one.
"""

import collections
import concurrent.futures
import errno
import hashlib
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import end_to_end

PROGRAM, FAIL_CALL = sys.argv[1:3]
del sys.argv[2]
MIB = 1 << 20
SANITIZED = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 32)))
CALLS = os.environ.get("PENSTOCK_TEST_CALLS", "")
BUDGET = "32M"
SECONDS_EACH = 2  # for the sample of a command
SECONDS_MAX = 120  # a run that takes longer hangs
CANNOT = 77

# What the system may answer.
NO_DESCRIPTOR, NO_MEMORY, NO_SPACE, BROKEN, REFUSED = errno.EMFILE, errno.ENOMEM, errno.ENOSPC, errno.EIO, errno.EPERM
ERRORS = {
    "openat": [NO_DESCRIPTOR, errno.EACCES, BROKEN], "open": [NO_DESCRIPTOR, errno.EACCES], "close": [BROKEN],
    "fcntl": [NO_MEMORY], "read": [BROKEN], "pread64": [BROKEN], "write": [NO_SPACE, BROKEN],
    "pwrite64": [NO_SPACE, BROKEN], "lseek": [BROKEN], "ftruncate": [NO_SPACE, BROKEN],
    "fallocate": [NO_SPACE, errno.EOPNOTSUPP], "fstat": [BROKEN], "newfstatat": [BROKEN, errno.EACCES],
    "stat": [BROKEN], "lstat": [BROKEN], "statx": [BROKEN, errno.ENOSYS], "statfs": [BROKEN], "fstatfs": [BROKEN],
    "fsync": [BROKEN], "fdatasync": [BROKEN, NO_SPACE], "sync_file_range": [BROKEN], "fadvise64": [BROKEN],
    "flock": [errno.ENOLCK], "linkat": [BROKEN, errno.ENOENT], "link": [BROKEN], "rename": [BROKEN, NO_SPACE],
    "renameat": [BROKEN], "renameat2": [BROKEN, errno.EINVAL], "unlink": [BROKEN], "unlinkat": [BROKEN],
    "getdents64": [BROKEN], "readlink": [errno.EACCES], "readlinkat": [errno.EACCES], "access": [errno.EACCES],
    "faccessat": [errno.EACCES], "faccessat2": [errno.EACCES], "chmod": [REFUSED], "fchmod": [REFUSED],
    "fchown": [REFUSED], "mkdir": [NO_SPACE], "mkdirat": [NO_SPACE], "rmdir": [BROKEN], "ioctl": [NO_MEMORY, BROKEN],
    "mmap": [NO_MEMORY], "munmap": [NO_MEMORY], "mprotect": [NO_MEMORY], "mremap": [NO_MEMORY],
    "madvise": [errno.EAGAIN, NO_MEMORY], "brk": [NO_MEMORY], "memfd_create": [NO_DESCRIPTOR, NO_MEMORY],
    "userfaultfd": [REFUSED], "io_uring_setup": [REFUSED, NO_MEMORY],
    "io_uring_enter": [NO_MEMORY, BROKEN, errno.EACCES], "clone3": [errno.EAGAIN], "clone": [errno.EAGAIN],
    "eventfd2": [NO_DESCRIPTOR], "pipe2": [NO_DESCRIPTOR], "timerfd_create": [NO_DESCRIPTOR],
    "timerfd_settime": [NO_MEMORY], "poll": [NO_MEMORY], "ppoll": [NO_MEMORY], "getrandom": [REFUSED, errno.ENOSYS],
    "prlimit64": [REFUSED], "sched_getaffinity": [REFUSED], "copy_file_range": [BROKEN], "splice": [BROKEN],
    "pidfd_open": [NO_DESCRIPTOR], "sigaltstack": [NO_MEMORY], "setitimer": [REFUSED],
}
# What may go on failing from some call on.
FROM_THEN_ON = {"openat", "pwrite64", "brk", "mprotect", "madvise", "io_uring_setup", "io_uring_enter", "clone3",
                "userfaultfd"}


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


Point = collections.namedtuple("Point", "call number error ending")  # the ending: "", or ":on"


class Command:
    """A command line with what it leaves. Its words may hold {out} and {temp}; {in} is the folder of the inputs."""

    def __init__(self, words, to_stdout=False, resumes=False, environment=None, error_codes=(2,)):
        self.words = words
        self.error_codes = error_codes
        self.to_stdout = to_stdout
        self.resumes = resumes
        self.environment = {**os.environ, **(environment or {})}


@unittest.skipIf(SANITIZED, "a sanitizer makes calls of its own, and ends the program where these fail")
class RefusedCalls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="penstock-refused-calls-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.inputs = cls.folder / "in"
        cls.inputs.mkdir()
        cls.make_inputs()
        print(f"PENSTOCK_TEST_SEED={SEED}", file=sys.stderr)

    @classmethod
    def make_inputs(cls):
        def program(*words):
            subprocess.run([PROGRAM, *map(str, words)], check=True, stdout=subprocess.DEVNULL)

        for name, count in (("large", 36 * MIB // 8), ("small", 20000), ("other", 30000)):
            program("gen", "--format", "u64", "--count", count, "--seed", SEED, "-o", cls.inputs / name)
        for name in ("small", "other"):
            program("sort", cls.inputs / name, "--format", "u64", "-o", cls.inputs / f"{name}.sorted")
        program("gen", "--format", "lines", "--count", 500000, "--seed", SEED, "-o", cls.inputs / "lines")
        subprocess.run(["gzip", "-k", str(cls.inputs / "small")], check=True)

    # ---- one run

    def run_once(self, command, place, mode):
        """Runs it in a folder of its own. The exit code, the message, and the digest of the output."""
        temporaries = place / "temp"
        temporaries.mkdir(parents=True, exist_ok=True)
        out = place / "out"
        fields = {"in": self.inputs, "out": out, "temp": temporaries}
        words = [FAIL_CALL, *mode, PROGRAM, *(word.format(**fields) for word in command.words)]
        with open(out if command.to_stdout else os.devnull, "wb") as stdout:
            try:
                done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                                      timeout=SECONDS_MAX, env=command.environment)
            except subprocess.TimeoutExpired:
                return "hangs", "", None
        return done.returncode, done.stderr.decode(errors="replace"), digest(out) if out.exists() else None

    def fresh(self):
        place = self.folder / f"run-{threading.get_ident()}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def count(self, command):
        place = self.fresh()
        code, message, expected = self.run_once(command, place, ["count", str(place / "counts")])
        if code == CANNOT:
            self.skipTest("fail_call: " + message.strip())
        self.assertEqual(code, 0, message)
        counts = {name: int(number) for name, number in
                  (line.split() for line in (place / "counts").read_text().splitlines())}
        self.assertIn("fcntl", counts, "the program no longer looks at its standard streams first")
        return counts, expected

    def what_is_wrong(self, command, point, expected):
        """None, or what should not have come of it."""
        place = self.fresh()
        out = place / "out"
        out.write_bytes(b"old")
        old = digest(out)
        code, message, found = self.run_once(command, place, ["{}:{}:{}{}".format(*point)])
        if code == 0:
            if found != expected:
                return f"exit code 0 and a wrong output\n{message}"
        elif code == 128 + signal.SIGABRT and point.call == "munmap" and not message:
            return None  # the C library's own, which does not get rid of a thread's stack
        elif code not in command.error_codes:
            return f"exit code {code}\n{message}"
        elif not message.startswith("penstock"):
            return f"exit code {code} without a message of ours\n{message}"
        elif not command.to_stdout and found not in (old, expected):
            return f"an output that is neither the old nor the new one\n{message}"
        if command.resumes and code == 2:
            code, message, found = self.run_once(command, place, ["close:1000000000:5"])
            if code != 0 or found != expected:
                return f"not resumed: exit code {code}\n{message}"
        left = [path.name for path in place.iterdir() if path.name not in ("out", "temp")]
        left += [path.name for path in (place / "temp").iterdir()]
        # Who may not remove a file has to leave it.
        if left and point.call not in ("unlink", "unlinkat", "rmdir"):
            return f"left {left}\n{message}"
        return None

    # ---- all of a command

    def points(self, counts):
        all_points = [Point(call, number, error, ending) for call, count in counts.items() if call in ERRORS
                      for number in range(1, count + 1) for error in ERRORS[call]
                      for ending in ("", *([":on"] if call in FROM_THEN_ON else []))]
        if CALLS == "all":
            return all_points
        if CALLS:
            call, number, error, *ending = CALLS.split(":")
            return [Point(call, int(number), int(error), ":on" if ending else "")]
        rng = random.Random(SEED)
        rng.shuffle(all_points)
        # In turn one of any, and one of the rarest kinds of which fewest have been taken.
        by_kind = collections.defaultdict(list)
        for point in all_points:
            by_kind[point.call].append(point)
        kinds = list(by_kind)
        rng.shuffle(kinds)
        chosen = []
        for round_number in range(max(map(len, by_kind.values()), default=0)):
            for kind in kinds:
                if round_number < len(by_kind[kind]):
                    chosen.append(by_kind[kind][round_number])
                    chosen.append(all_points[len(chosen) % len(all_points)])
        return list(dict.fromkeys(chosen))

    def check_all(self, command):
        counts, expected = self.count(command)
        deadline = time.monotonic() + SECONDS_EACH
        points = self.points(counts)

        def look(point):
            if not CALLS and time.monotonic() > deadline:
                return None
            return point, self.what_is_wrong(command, point, expected)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            looked_at = [found for found in pool.map(look, points) if found]
        self.assertTrue(looked_at)
        print(f"{self.id()}: {len(looked_at)} of {len(points)}", file=sys.stderr)
        wrong = [f"{'{}:{}:{}{}'.format(*point)} ({errno.errorcode[point.error]}): {problem}"
                 for point, problem in looked_at if problem]
        self.assertEqual(wrong, [], f"seed {SEED}\n" + "\n".join(wrong))

    def test_sort_of_numbers(self):
        self.check_all(Command(["sort", "{in}/large", "--format", "u64", "-S", BUDGET, "-T", "{temp}", "-o", "{out}"]))

    def test_sort_of_numbers_by_threads(self):
        self.check_all(Command(["sort", "{in}/large", "--format", "u64", "-S", BUDGET, "-T", "{temp}", "-o", "{out}"],
                               environment={"PENSTOCK_IO": "threads"}))

    def test_small_sort(self):
        self.check_all(Command(["sort", "{in}/small", "--format", "u64", "-o", "{out}"]))

    def test_sort_of_lines(self):
        self.check_all(Command(["sort", "{in}/lines", "-S", BUDGET, "-T", "{temp}", "-o", "{out}"]))

    def test_resumed_sort(self):
        self.check_all(Command(["sort", "{in}/large", "--format", "u64", "-S", BUDGET, "-T", "{temp}", "-o", "{out}",
                                "--resume"], resumes=True))

    def test_no_threads(self):
        place = self.fresh()
        for code, *words in ((1, "check", "{in}/large", "--format", "u64"), (0, "cat", "{in}/large"),
                             (0, "gen", "--format", "u64", "--count", "1000000", "-o", "{out}"),
                             (2, "sort", "{in}/large", "--format", "u64", "-S", BUDGET, "-T", "{temp}", "-o", "{out}")):
            with self.subTest(words=words):
                (place / "out").unlink(missing_ok=True)
                found, message, _ = self.run_once(Command(words), place, [f"clone3:1:{errno.EAGAIN}:on"])
                if found == CANNOT:
                    self.skipTest("fail_call: " + message.strip())
                self.assertEqual(found, code, message)
                self.assertEqual("start a thread" in message, code == 2, message)

    def test_little_memory(self):
        rng = random.Random(SEED)
        words = ["sort", str(self.inputs / "large"), "--format", "u64", "-S", BUDGET, "-T", str(self.folder), "-o",
                 str(self.folder / "sorted")]
        for mib in [19.5, *(rng.uniform(2, 60) for _ in range(10))]:
            limits = (int(mib * MIB),) * 2
            done = subprocess.run([PROGRAM, *words], capture_output=True, timeout=SECONDS_MAX,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limits))
            message = done.stderr.decode(errors="replace")
            with self.subTest(mib=mib):
                self.assertIn(done.returncode, (0, 2), message)
                self.assertTrue(done.returncode == 0 or message.startswith("penstock"), message)

    def test_merge(self):
        self.check_all(Command(["merge", "{in}/small.sorted", "{in}/other.sorted", "--format", "u64", "-o", "{out}"]))

    def test_cat(self):
        self.check_all(Command(["cat", "{in}/small.gz", "{in}/other"], to_stdout=True, error_codes=(1, 2)))


if __name__ == "__main__":
    end_to_end.main("refused_calls_end_to_end")
