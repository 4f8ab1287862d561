#!/usr/bin/env python3
"""`penstock sort --resume`, stopped and started again: resume_test.py PENSTOCK [TEST...]. (Kills at any call: torture/.)

Prints its seed; PENSTOCK_TEST_SEED repeats a run, except for its timing.
"""

import fcntl
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import end_to_end
from end_to_end import SEED

PROGRAM = sys.argv[1]
MIB = 1 << 20
SANITIZED = "ASAN_OPTIONS" in os.environ
# A sanitizer keeps freed memory, such as that of a sample.
MEMORY = "64M" if SANITIZED else "44M"
LARGE_BYTES = 96 * MIB


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


class Killed(end_to_end.Case):
    needs_a_disk = True

    def setUp(self):
        super().setUp()
        self.temporaries = self.folder / "temporaries"
        self.temporaries.mkdir()

    def run_program(self, *words, code=0, env=None):
        done = subprocess.run([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                              env=env)
        self.assertEqual(done.returncode, code, done.stderr.decode(errors="replace"))
        return done

    def sort_words(self, *more):
        return ["sort", self.folder / "in", "-o", self.folder / "out", "-S", MEMORY, "-T", self.temporaries, *more]

    def gen(self, format_name, item_bytes):
        self.run_program("gen", "--format", format_name, "--count", LARGE_BYTES // item_bytes, "-o", self.folder / "in",
                         "--seed", SEED)

    def run_until(self, words, written_bytes, number):
        """Runs the program until it has written so much, and sends it the signal. Returns False if it ended before that."""
        child = subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with child:
            end_to_end.wait_until_it_has_written(child, written_bytes)
            killed = child.poll() is None
            if killed:
                child.send_signal(number)
            self.messages = child.communicate(timeout=120)[1].decode(errors="replace")
            if not killed or child.returncode == 0:
                self.assertEqual(child.returncode, 0, self.messages)
                return False
            self.assertEqual(child.returncode, -number, self.messages)
        return True

    def assert_nothing_left(self):
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["in", "out", "temporaries"])
        self.assertEqual(list(self.temporaries.iterdir()), [])

    def wanted(self, *more):
        self.run_program(*self.sort_words(*more))
        found = digest(self.folder / "out")
        (self.folder / "out").unlink()
        return found

    def test_a_signal_says_how_to_go_on(self):
        self.gen("u64", 8)
        words = self.sort_words("--format", "u64", "--resume")
        wanted = self.wanted("--format", "u64")
        self.assertTrue(self.run_until(words, LARGE_BYTES + LARGE_BYTES // 2, signal.SIGINT))
        state, = self.temporaries.iterdir()
        self.assertIn(f"the finished part is kept in {state}: the same command goes on from there", self.messages)
        self.assertIn(f"rm -r '{state}' '{self.folder}/.{state.name}.part' gives it up", self.messages)
        self.assertIn("stopped by SIGINT", self.messages)
        stats = self.folder / "stats"
        done = self.run_program(*words, "--stats", stats)
        self.assertIn("resuming: ", done.stderr.decode())
        self.assertLess(json.loads(stats.read_text())["bytes_written"], LARGE_BYTES * 3 // 4)
        stats.unlink()
        self.assertEqual(digest(self.folder / "out"), wanted)
        self.assert_nothing_left()

    def test_states_in_two_directories_do_not_meet(self):
        self.gen("u64", 8)
        wanted = self.wanted("--format", "u64")
        others = self.folder / "others"
        others.mkdir()
        here = self.sort_words("--format", "u64", "--resume")
        there = [others if word == self.temporaries else word for word in here]
        for words in here, there:
            self.assertTrue(self.run_until(words, LARGE_BYTES + LARGE_BYTES // 2, signal.SIGKILL))
        self.assertIn("resuming: ", self.run_program(*here).stderr.decode())
        self.assertEqual(digest(self.folder / "out"), wanted)
        # The other sort has lost nothing.
        self.assertRegex(self.run_program(*there).stderr.decode(), "resuming: [1-9]")
        self.assertEqual(digest(self.folder / "out"), wanted)
        self.assertEqual(list(others.iterdir()), [])
        others.rmdir()
        self.assert_nothing_left()

    def test_a_run_that_is_refused_says_nothing_of_giving_up(self):
        self.gen("u64", 8)
        words = self.sort_words("--format", "u64", "--resume")
        self.assertTrue(self.run_until(words, LARGE_BYTES + LARGE_BYTES // 2, signal.SIGKILL))
        state, = self.temporaries.iterdir()
        with open(state / "journal", "rb") as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            told = self.run_program(*words, code=2).stderr.decode()
        self.assertIn("another process is sorting it", told)
        self.assertNotIn("rm -r", told)
        self.assertNotIn("goes on from there", told)

    @unittest.skipIf(SANITIZED, "a sanitizer's memory is in no budget")
    def test_with_less_memory_than_before_the_budget_is_kept(self):
        self.run_program("gen", "--format", "u64", "--dist", "zipf", "--count", 3 * LARGE_BYTES // 8, "-o", self.folder / "in",
                         "--seed", SEED)
        words = self.sort_words("--format", "u64", "--resume")
        words[words.index(MEMORY)] = "128M"
        self.assertTrue(self.run_until(words, 3 * LARGE_BYTES, signal.SIGKILL))
        words[words.index("128M")] = "32M"
        done = self.run_program(*words, "--json")
        self.assertIn("resuming: ", done.stderr.decode())
        stats = json.loads(done.stdout)
        self.assertLessEqual(stats["peak_rss_bytes"], stats["budget_bytes"])
        print(f"peak {stats['peak_rss_bytes'] / MIB:.1f} MiB of 32", file=sys.stderr)
        self.run_program("check", "--format", "u64", self.folder / "out")
        self.assert_nothing_left()

    def test_without_the_option_nothing_stays(self):
        self.gen("u64", 8)
        self.assertTrue(self.run_until(self.sort_words("--format", "u64"), LARGE_BYTES // 2, signal.SIGTERM))
        self.assertNotIn("kept", self.messages)
        self.assertEqual(list(self.temporaries.iterdir()), [])

    def test_a_full_disk_can_be_resumed(self):
        self.gen("u64", 8)
        words = self.sort_words("--format", "u64", "--resume")
        wanted = self.wanted("--format", "u64")
        for after in range(200, 3000, 200):
            inject = dict(os.environ, PENSTOCK_INJECT=f"seed=1,error=ENOSPC@write:{after}")
            done = subprocess.run([end_to_end.with_seams(PROGRAM), *map(str, words)], stderr=subprocess.PIPE, env=inject,
                                  timeout=300)
            self.assertEqual(done.returncode, 2)
            self.assertIn("No space left", done.stderr.decode())
            if b"kept in" in done.stderr.splitlines()[-2] + done.stderr.splitlines()[-1] and any(self.temporaries.iterdir()):
                break
        self.assertIn("resuming: ", self.run_program(*words).stderr.decode())
        self.assertEqual(digest(self.folder / "out"), wanted)
        self.assert_nothing_left()

    def test_pipes_are_refused(self):
        (self.folder / "in").write_bytes(bytes(80))
        for words in (["sort", "-", "-o", self.folder / "out", "--resume"], ["sort", self.folder / "in", "--resume"],
                      ["sort", "-m", self.folder / "in", "-o", self.folder / "out", "--resume"],
                      ["sort", "-c", self.folder / "in", "--resume"]):
            with self.subTest(words=words):
                self.assertIn("resume", self.run_program(*words, code=2).stderr.decode())


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)", file=sys.stderr)
    end_to_end.main("resume_end_to_end")
