#!/usr/bin/env python3
"""A bench that is ended leaves nothing on the disk: bench_ends_test.py PENSTOCK-BENCH [TEST...]."""

import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import end_to_end

PROGRAM = sys.argv[1]
BENCH = ["file-io", "--quick"]


class BenchEnds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench-ends-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self):
        """Starts a bench and waits until it has written something."""
        child = subprocess.Popen([PROGRAM, *BENCH, "-T", self.folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        deadline = time.monotonic() + 120
        while not list(self.folder.glob(f"penstock-bench-{child.pid}/*")):
            self.assertIsNone(child.poll(), "it ended before it wrote a file")
            self.assertLess(time.monotonic(), deadline, "it never wrote a file")
            time.sleep(0.001)
        return child

    def test_a_signal_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            child = self.start()
            child.send_signal(number)
            self.assertEqual(child.wait(timeout=120), 128 + number)
            self.assertEqual(list(self.folder.rglob("*")), [])

    def test_the_next_run_removes_leftovers_of_a_killed_one(self):
        child = self.start()
        child.kill()
        child.wait(timeout=120)
        left = list(self.folder.iterdir())
        self.assertEqual(len(left), 1)
        # The bench's child may still be ending.
        for _ in range(10):
            other = self.start()
            other.terminate()
            other.wait(timeout=120)
            if not left[0].exists():
                return
        self.fail(f"{left[0]} stays")

    def test_a_second_bench_leaves_the_files_of_a_running_one(self):
        first = self.start()
        mine = next(self.folder.iterdir())
        first.send_signal(signal.SIGSTOP)
        second = self.start()
        self.assertTrue(mine.exists())
        second.terminate()
        second.wait(timeout=120)
        self.assertEqual(list(self.folder.iterdir()), [mine])
        first.terminate()
        first.send_signal(signal.SIGCONT)
        first.wait(timeout=120)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    end_to_end.main("bench_ends")
