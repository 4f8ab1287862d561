"""Tests of --memory-pool, a budget that runs share, first come, first served: memory_pool_test.py PENSTOCK [TEST...]."""

import array
import contextlib
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import sys
import termios
import time

import end_to_end

PROGRAM = os.path.abspath(sys.argv[1])
MIB = 1 << 20
# A sanitizer needs memory of its own.
SMALL = 1024 if "ASAN_OPTIONS" in os.environ else 48


class Pool(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.name = f"test-{os.getpid()}"
        self.file = pathlib.Path(f"/dev/shm/penstock-{os.geteuid()}-{self.name}")
        self.addCleanup(self.file.unlink, missing_ok=True)

    def start(self, name, size=f":{SMALL}M", memory=f"{SMALL}M"):
        """Starts a sort of a pipe, which ends when the pipe is closed."""
        run = subprocess.Popen([PROGRAM, "sort", "-o", self.folder / name, "-S", memory, "--memory-pool", self.name + size],
                               stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, run)
        with contextlib.suppress(BrokenPipeError):  # a refused run may have ended
            run.stdin.write(b"b\na\n")
            run.stdin.flush()
        return run

    def end(self, run):
        run.kill()
        run.wait()
        with contextlib.suppress(BrokenPipeError):
            run.stdin.close()
        run.stderr.close()

    def wait(self, what):
        deadline = time.monotonic() + 60
        while not what():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def has_read(self, run):
        """Whether the run has its memory and reads."""
        waiting = array.array("i", [0])
        fcntl.ioctl(run.stdin, termios.FIONREAD, waiting)
        return waiting[0] == 0

    def waits(self, run):
        self.assertIn(f"waits for {SMALL} MiB of the memory pool {self.name}".encode(), run.stderr.readline())
        self.assertFalse(self.has_read(run))

    def assert_sorts(self, run, name):
        run.stdin.close()
        self.assertEqual(run.wait(60), 0)
        self.assertEqual((self.folder / name).read_bytes(), b"a\nb\n")

    def refused(self, says, **options):
        run = self.start("refused", **options)
        self.assertEqual(run.wait(60), 2)
        self.assertIn(says, run.stderr.read().decode())

    def test_first_come_first_served_and_death_makes_room(self):
        first = self.start("first")
        self.wait(lambda: self.has_read(first))
        second = self.start("second")
        self.waits(second)
        third = self.start("third", size="")
        self.waits(third)
        first.kill()
        self.wait(lambda: self.has_read(second))
        self.assertFalse(self.has_read(third))
        self.assert_sorts(second, "second")
        self.wait(lambda: self.has_read(third))
        self.assert_sorts(third, "third")

    def test_a_run_that_waits_can_be_stopped_and_leaves_its_place(self):
        first = self.start("first")
        self.wait(lambda: self.has_read(first))
        second = self.start("second")
        self.waits(second)
        third = self.start("third")
        self.waits(third)
        second.send_signal(signal.SIGINT)
        self.assertEqual(second.wait(60), -signal.SIGINT)
        self.assert_sorts(first, "first")
        self.wait(lambda: self.has_read(third))
        self.assert_sorts(third, "third")

    def test_bad_pools_are_refused(self):
        self.refused(f"cannot take {SMALL} MiB of {SMALL - 1} MiB (try: a smaller -S)", size=f":{SMALL - 1}M")
        self.refused("cannot find the size of this pool", size="")
        first = self.start("first")
        self.wait(lambda: self.has_read(first))
        self.refused(f"cannot share {2 * SMALL} MiB: the running processes share {SMALL} MiB", size=f":{2 * SMALL}M")
        self.assert_sorts(first, "first")
        self.name = "../x"
        self.refused("letters, digits, . _ and -")

    def test_a_link_or_a_file_of_others_is_refused(self):
        target = self.write("target", b"mine")
        self.file.unlink(missing_ok=True)
        self.file.symlink_to(target)
        self.refused("cannot open")
        self.file.unlink()
        self.file.touch(0o600)
        self.file.chmod(0o666)
        self.refused("not this user's alone")
        self.assertEqual(target.read_bytes(), b"mine")

    def test_64_sorts_at_once(self):
        # Four runs work. Waiting runs have only the program's own memory, less than a quarter of a run's budget.
        numbers = array.array("Q", range(16 * MIB // 8))
        source = self.write("numbers", b"".join(numbers[first::97].tobytes() for first in range(96, -1, -1)))
        runs = [subprocess.Popen([PROGRAM, "sort", source, "-o", self.folder / f"out{number}", "--format", "u64", "-S", f"{SMALL}M",
                                  "--no-sync", "--memory-pool", f"{self.name}:{4 * SMALL}M"], stderr=subprocess.DEVNULL)
                for number in range(64)]
        largest = 0
        most_at_once = 0
        large = set()
        while any(run.poll() is None for run in runs):
            # Runs are examined one after the other; those that are large in two rounds in a row were large at the same time.
            before, large = large, set()
            for run in runs:
                taken = self.taken_bytes(run)
                largest = max(largest, taken)
                if taken >= SMALL * MIB // 4:
                    large.add(run)
            most_at_once = max(most_at_once, len(large & before))
            time.sleep(0.005)
        self.assertEqual([run.returncode for run in runs], [0] * 64)
        self.assertLessEqual(largest, SMALL * MIB)
        self.assertLessEqual(most_at_once, 4)
        if "ASAN_OPTIONS" not in os.environ:  # a sanitizer's quarter is more than all of the input
            self.assertGreaterEqual(most_at_once, 1)
        expected = numbers.tobytes()
        for number in range(64):
            self.assertTrue((self.folder / f"out{number}").read_bytes() == expected)

    def taken_bytes(self, run):
        try:
            status = pathlib.Path(f"/proc/{run.pid}/status").read_text()
        except OSError:
            return 0
        return sum(int(kib) << 10 for kib in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", status, re.MULTILINE))


if __name__ == "__main__":
    end_to_end.main("memory_pool")
