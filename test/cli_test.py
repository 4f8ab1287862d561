#!/usr/bin/env python3
"""The program from end to end, against Python's own sort and GNU sort: cli_test.py PENSTOCK [TEST...].

Writes a JUnit file where GoogleTest programs write theirs (GTEST_OUTPUT=xml:FOLDER/), so that ./check counts every case.
"""

import array
import contextlib
import ctypes
import fcntl
import hashlib
import json
import math
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import end_to_end
from end_to_end import SEED, run

PROGRAM = sys.argv[1]
MIB = 1 << 20
# A sanitizer needs more memory and time.
SANITIZED = "ASAN_OPTIONS" in os.environ

NUMBERS = {"u32": "I", "u64": "Q", "i32": "i", "i64": "q", "f32": "f", "f64": "d"}
DISTRIBUTIONS = ("uniform", "sorted", "reverse", "all-equal", "almost-sorted", "rootdup", "twodup", "eightdup", "zipf",
                 "exponential", "bexp", "low-bits-only", "high-bit-zero", "one-bucket")

# A sort that needs temporaries: the file is several times larger than the memory, which is near the minimum.
LARGE_BYTES = 128 * MIB
SMALL_MIB = 48 if SANITIZED else 40
SMALL_MEMORY = f"{SMALL_MIB}M"


def check(path, format_name="u64", *more):
    report = run("check", path, "--format", format_name, *more, "--json", code=(0, 1))
    found = json.loads(report.stdout)
    assert found["sorted"] == (report.returncode == 0)
    return found


def numbers_of(data, format_name):
    numbers = array.array(NUMBERS[format_name])
    numbers.frombytes(data)
    return numbers


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def gnu_sort(*words, data):
    return subprocess.run(["sort", *words], input=data, stdout=subprocess.PIPE, check=True,
                          env=dict(os.environ, LC_ALL="C")).stdout


class Case(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.temporaries = self.folder / "temporaries"
        self.temporaries.mkdir()

    def gen(self, name, format_name, count, *more):
        path = self.folder / name
        run("gen", "--format", format_name, "--count", count, *more, "-o", path)
        return path

    def large(self):
        return self.gen("large.u64", "u64", LARGE_BYTES // 8, "--dist", "uniform", "--seed", "1")

    def large_words(self, path, output):
        return ["sort", path, "-o", output, "--format", "u64", "-S", SMALL_MEMORY, "-T", self.temporaries]

    def assert_same_content(self, one, other, format_name, *more):
        a, b = check(one, format_name, *more), check(other, format_name, *more)
        self.assertEqual((a["count"], a["checksum"]), (b["count"], b["checksum"]))
        self.assertTrue(b["sorted"])

    def assert_no_leftovers(self, *expected):
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), sorted(("temporaries", *expected)))
        self.assertEqual(list(self.temporaries.iterdir()), [])

    def assert_message(self, done, *parts):
        text = done.stderr.decode(errors="replace")
        self.assertTrue(text.startswith("penstock"), text)
        for part in parts:
            self.assertIn(part, text)


class Formats(Case):
    def test_numbers_of_every_distribution_sort_as_python_sorts_them(self):
        for format_name in NUMBERS:
            for distribution in DISTRIBUTIONS:
                with self.subTest(format=format_name, distribution=distribution):
                    path = self.gen("in", format_name, 20_011, "--dist", distribution, "--seed", SEED)
                    run("sort", path, "-o", self.folder / "out", "--format", format_name)
                    given = numbers_of(path.read_bytes(), format_name)
                    got = numbers_of((self.folder / "out").read_bytes(), format_name)
                    self.assertEqual(got.tolist(), sorted(given.tolist()))
                    report = check(self.folder / "out", format_name)
                    self.assertEqual(report["count"], 20_011)
                    self.assertEqual(report["duplicates"], 20_011 - len(set(given.tolist())))

    def test_floats_have_a_total_order_with_nans_last(self):
        special = [0.0, -0.0, math.inf, -math.inf, 5e-324, -5e-324, 1.5, -1.5]
        nans = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001]
        words = [struct.unpack("<Q", struct.pack("<d", value))[0] for value in special] + nans
        self.random.shuffle(words)
        path = self.write("in", struct.pack(f"<{len(words)}Q", *words))
        run("sort", path, "-o", self.folder / "out", "--format", "f64")
        data = (self.folder / "out").read_bytes()
        values = struct.unpack(f"<{len(words)}d", data)
        self.assertEqual([f"{value}" for value in values[:8]],
                         ["-inf", "-1.5", "-5e-324", "-0.0", "0.0", "5e-324", "1.5", "inf"])
        self.assertEqual(sorted(struct.unpack(f"<{len(words)}Q", data)), sorted(words))
        self.assertTrue(all(math.isnan(value) for value in values[8:]))

    def test_numbers_of_128_bits(self):
        for format_name, signed in (("u128", False), ("i128", True)):
            least = -(1 << 127) if signed else 0
            numbers = [least + self.random.randrange(1 << self.random.choice((16, 64, 65, 128))) for _ in range(10_007)]
            numbers += [least, least + (1 << 128) - 1, 0, numbers[0]]
            path = self.write("in", b"".join(number.to_bytes(16, "little", signed=signed) for number in numbers))
            for words, wanted in (([], sorted(numbers)), (["-r"], sorted(numbers, reverse=True)), (["-u"], sorted(set(numbers))),
                                  (["--top", 5], sorted(numbers)[:5])):
                with self.subTest(format=format_name, words=words):
                    out = self.folder / "out"
                    run("sort", path, "-o", out, "--format", format_name, *words)
                    got = out.read_bytes()
                    self.assertEqual([int.from_bytes(got[i:i + 16], "little", signed=signed) for i in range(0, len(got), 16)], wanted)
            # Sorts of parts of the input and a merge of two sorted halves give the same output.
            halves = [self.folder / f"half{i}" for i in range(2)]
            for half, some in zip(halves, (numbers[:5000], numbers[5000:])):
                half.write_bytes(b"".join(number.to_bytes(16, "little", signed=signed) for number in sorted(some)))
            run("merge", *halves, "-o", out, "--format", format_name)
            self.assertEqual(check(out, format_name)["count"], len(numbers))
            run("sort", "-c", out, "--format", format_name)

    def test_pairs_keep_key_and_value_together(self):
        pairs = [(self.random.randrange(1000), self.random.randrange(1 << 64)) for _ in range(10_007)]
        path = self.write("in", b"".join(struct.pack("<QQ", *pair) for pair in pairs))
        run("sort", path, "-o", self.folder / "out", "--format", "kv64", "-s")
        got = list(struct.iter_unpack("<QQ", (self.folder / "out").read_bytes()))
        self.assertEqual(got, sorted(pairs, key=lambda pair: pair[0]))

    def test_benchmark_records(self):
        for kind in ([], ["--ascii"]):
            path = self.gen("in", "record", 5_003, *kind)
            run("sort", path, "-o", self.folder / "out", "--format", "record")
            data = path.read_bytes()
            records = [data[i:i + 100] for i in range(0, len(data), 100)]
            self.assertEqual((self.folder / "out").read_bytes(), b"".join(sorted(records, key=lambda r: r[:10])))

    def test_benchmark_checksums(self):
        for kind, checksum in (([], "7a0e0d4868cd4"), (["--ascii"], "7a19cff467438")):
            path = self.gen("in", "record", 1_000_000, *kind)
            self.assertEqual(check(path, "record")["checksum"].lstrip("0"), checksum)

    def test_records_of_any_size_with_the_key_anywhere(self):
        for record_bytes, offset, length in ((1, 0, 1), (7, 3, 2), (24, 16, 8), (1000, 990, 10)):
            with self.subTest(record=record_bytes, key=f"{offset}:{length}"):
                items = [self.random.randbytes(record_bytes) for _ in range(2_003)]
                path = self.write("in", b"".join(items))
                run("sort", path, "-o", self.folder / "out", "--format", "record", "--record", record_bytes,
                    "--key", f"{offset}:{length}", "-s")
                wanted = sorted(items, key=lambda item: item[offset:offset + length])
                self.assertEqual((self.folder / "out").read_bytes(), b"".join(wanted))

    def test_odd_sizes(self):
        for format_name, data in (("u64", b"1234567"), ("kv64", b"x" * 24), ("record", b"x" * 101)):
            with self.subTest(format=format_name):
                done = run("sort", self.write("in", data), "-o", self.folder / "out", "--format", format_name, code=2)
                self.assert_message(done, "in")
                self.assertFalse((self.folder / "out").exists())

    def test_empty_inputs(self):
        for format_name in (*NUMBERS, "kv64", "record", "lines"):
            with self.subTest(format=format_name):
                run("sort", self.write("in", b""), "-o", self.folder / "out", "--format", format_name)
                self.assertEqual((self.folder / "out").read_bytes(), b"")


class Lines(Case):
    def lines(self, count, end=b"\n"):
        def line():
            kind = self.random.randrange(4)
            if kind == 0:
                return b""
            if kind == 1:
                return self.random.choice((b"a", b"aa", b"aaa", b"b\0b", b"\xff"))
            if kind == 2:
                return b"the same long beginning of a line " + str(self.random.randrange(50)).encode()
            return self.random.randbytes(self.random.randrange(60)).replace(b"\n", b" ")
        return b"\n".join(line() for _ in range(count)) + end

    def test_options_mean_what_gnu_sort_means(self):
        for words in ([], ["-r"], ["-u"], ["-s"], ["-ru"], ["-rs"], ["--reverse", "--unique"]):
            for end in (b"\n", b""):
                with self.subTest(options=words, end=end):
                    data = self.lines(3_001, end)
                    path = self.write("in", data)
                    run("sort", *words, path, "-o", self.folder / "out")
                    self.assertEqual((self.folder / "out").read_bytes(), gnu_sort(*words, data=data))

    def test_merge(self):
        parts = [gnu_sort(data=self.lines(count)) for count in (1_000, 1, 777, 2_000)]
        paths = [self.write(f"in{i}", data) for i, data in enumerate(parts)]
        for words in ([], ["-u"]):
            run("sort", "-m", *words, *paths, "-o", self.folder / "out")
            self.assertEqual((self.folder / "out").read_bytes(), gnu_sort(*words, data=b"".join(parts)))

    @staticmethod
    def head(count, data):
        return b"".join(line + b"\n" for line in data.split(b"\n")[:-1][:count])

    def test_top_is_what_head_leaves(self):
        data = self.lines(3_001, end=b"")
        path = self.write("in", data)
        for words in ([], ["-r"], ["-u"], ["-ru"]):
            for count in (0, 1, 10, 2_999, 3_000, 3_001, 10**12):
                with self.subTest(options=words, count=count):
                    head = self.head(count, gnu_sort(*words, data=data))
                    self.assertEqual(run("sort", *words, "--top", count, path).stdout, head)
                    self.assertEqual(run("sort", *words, "--top", count, stdin=data).stdout, head)
        parts = [gnu_sort(data=self.lines(count)) for count in (1_000, 777)]
        paths = [self.write(f"in{i}", part) for i, part in enumerate(parts)]
        head = self.head(900, gnu_sort(data=b"".join(parts)))
        self.assertEqual(run("sort", "-m", "--top", "900", *paths).stdout, head)
        for count in ("-1", ""):
            run("sort", "--top", count, path, code=2)
        for count in ("1.5", "x", "1K", 2**64):
            message = run("sort", "--top", count, path, code=2).stderr.decode()
            self.assertIn(f"--top: cannot take {count} items (try: a whole number)", message)
        run("sort", "--top", 2**64 - 1, path)

    def test_several_inputs_and_one_of_them_twice(self):
        a, b = self.lines(500), self.lines(700, end=b"")
        paths = [self.write("a", a), self.write("b", b)]
        run("sort", paths[0], paths[1], paths[0], "-o", self.folder / "out")
        missing = b"" if b.endswith(b"\n") else b"\n"  # the last line may be empty
        self.assertEqual((self.folder / "out").read_bytes(), gnu_sort(data=a + b + missing + a))

    def test_standard_input_and_output(self):
        data = self.lines(2_000)
        for words in (["sort"], ["sort", "-"], ["sort", "-", "-o", "-"]):
            with self.subTest(words=words):
                self.assertEqual(run(*words, stdin=data).stdout, gnu_sort(data=data))

    def test_larger_than_memory(self):
        count = 400_000 if SANITIZED else 1_500_000
        path = self.gen("in", "lines", count)
        run("sort", path, "-o", self.folder / "out", "-S", SMALL_MEMORY, "-T", self.temporaries)
        subprocess.run(["sort", "-o", self.folder / "gnu", path], check=True, env=dict(os.environ, LC_ALL="C"))
        self.assertEqual(digest(self.folder / "out"), digest(self.folder / "gnu"))


class StartUp(Case):
    """Scripts start thousands of sorts of a few lines."""

    def traced(self, *words):
        """The lines of strace of a sort of two lines, after those of the loader."""
        if SANITIZED or not shutil.which("strace"):
            self.skipTest("no strace, or a sanitizer's own threads")
        if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
            self.skipTest("strace may not trace here")
        lines, log = self.write("in", b"b\na\n"), self.folder / "log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        done = subprocess.run(["strace", "-f", "-o", log, PROGRAM, "sort", lines, *words], check=True, env=environment, stdout=subprocess.PIPE)
        self.assertEqual((self.folder / "out").read_bytes() if words else done.stdout, b"a\nb\n")
        text = log.read_text()
        return text[text.index("RLIMIT_NOFILE"):].splitlines()

    def test_a_sort_of_two_lines_sets_up_nothing(self):
        """It sets up no ring and no thread, and does not probe the kernel, whether it writes a file or a pipe."""
        for words in (["-o", self.folder / "out"], []):
            with self.subTest(words=words):
                called = {found[1] for line in self.traced(*words) if (found := re.match(r"\d+ +(\w+)\(", line))}
                self.assertIn("pread64", called)
                self.assertEqual(called & {"io_uring_setup", "clone3", "clone", "userfaultfd", "memfd_create"}, set())

    def test_a_sort_of_two_lines_asks_the_system_once(self):
        lines = self.traced()
        opened = [found[1] for line in lines if (found := re.search(r'openat\(\w+, "([^"]*)"', line))]
        of_system = [path for path in opened if path.startswith(("/sys/", "/proc/")) and not path.startswith(("/proc/self/fd/", "/proc/self/status"))]
        # The group's name is looked up for its memory and for its processors.
        of_system = [path for path in of_system if path != "/proc/self/cgroup"]
        self.assertIn("/proc/meminfo", of_system)
        self.assertEqual(sorted(of_system), sorted(set(of_system)))
        self.assertLessEqual(opened.count("/proc/self/status"), 3)
        self.assertNotIn(os.environ.get("TMPDIR", "/tmp"), opened, "no temporary is made, and none looked for")
        self.assertLess(len(lines), 200)


class Checks(Case):
    def test_exit_codes_and_where_order_breaks(self):
        good, bad = self.write("good", b"a\nb\nb\nc\n"), self.write("bad", b"a\nc\nb\nd\n")
        for words in (["-c"], ["-C"], ["--check"], ["--check=quiet"], ["--check=silent"], ["--check=diagnose-first"]):
            with self.subTest(words=words):
                self.assertEqual(run("sort", *words, good).stderr, b"")
                done = run("sort", *words, bad, code=1)
                quiet = words[0] in ("-C", "--check=quiet", "--check=silent")
                self.assertEqual(done.stderr.decode(), "" if quiet else f"penstock sort: {bad}:3: disorder: b\n")
        run("sort", "-c", "-u", good, code=1)
        run("sort", "-c", "-r", good, code=1)
        run("sort", "-c", "-r", self.write("down", b"c\nb\na\n"))
        run("sort", "-c", self.folder / "missing", code=2)

    def test_numbers(self):
        path = self.gen("sorted", "u64", 10_000, "--dist", "sorted")
        run("sort", "-c", "--format", "u64", path)
        run("sort", "-c", "--format", "u64", self.gen("in", "u64", 10_000), code=1)

    def test_duplicates_are_counted_only_in_sorted_files(self):
        """In unsorted files, equal items need not be neighbors."""
        bad = self.write("bad", b"b\na\nb\nb\n")
        told = json.loads(run("check", bad, "--json", code=1).stdout)
        self.assertEqual((told["sorted"], told["first_unsorted"], told["duplicates"]), (False, 1, None))
        self.assertEqual((told["memory_scope"], told["peak_bytes"] > 1 << 20), ("process", True))
        text = run("check", bad, code=1).stdout.decode()
        self.assertIn("; 4 items, duplicates are counted in sorted files only, checksum", text)
        self.assertIn("; 4 items, 2 duplicates, checksum", run("check", self.write("good", b"a\nb\nb\nb\n")).stdout.decode())

    def test_misuse(self):
        good = self.write("good", b"a\n")
        run("sort", "-c", good, "--json", code=2)
        run("sort", "-c", good, "--stats", self.folder / "stats", code=2)
        run("sort", "-c", good, good, code=2)
        run("sort", "-c", good, "-o", self.folder / "out", code=2)
        run("sort", "-c", "-C", good, code=2)
        run("sort", "-c", "--top", "1", good, code=2)
        run("sort", "-c", "--device", "hdd", good, code=2)
        run("sort", "--check=never", good, code=2)


class CommandLine(Case):
    def test_options_of_gnu_sort_that_are_not_its_own(self):
        path = self.write("in", b"b 2\na 3\nc 1\n")
        names = self.write("names", str(path).encode() + b"\0" + str(path).encode())
        for words, wanted in ((["--batch-size=2", path], b"a 3\nb 2\nc 1\n"), (["--compress-program", "gzip", path], b"a 3\nb 2\nc 1\n"),
                              (["--files0-from", names, "-u"], b"a 3\nb 2\nc 1\n"), (["+1", path], b"c 1\nb 2\na 3\n"),
                              (["+0.0", "-1", path], b"a 3\nb 2\nc 1\n"), (["--rev", "--key=2", path], b"a 3\nb 2\nc 1\n"),
                              (["--numeric", "--key", "2", "--uni", path], b"c 1\nb 2\na 3\n")):
            with self.subTest(words=words):
                self.assertEqual(run("sort", *words).stdout, wanted)
        self.assertEqual(run("sort", "--files0-from=-", stdin=bytes(names.read_bytes())).stdout, b"a 3\na 3\nb 2\nb 2\nc 1\nc 1\n")
        planned = [json.loads(run("plan", "--json", "--device", "hdd", *words).stdout)["sort"]["input_bytes"]
                   for words in (["--files0-from", names], [path, path])]
        self.assertEqual(planned, [24, 24])
        self.assertIn(b"cannot plan for standard input", run("plan", "--files0-from", self.write("standard", b"-\0"), code=2).stderr)
        lines = self.write("lines", b"".join(b"%d\n" % i for i in range(1000)))
        orders = [run("sort", "-R", f"--random-source={source}", lines).stdout for source in (PROGRAM, PROGRAM, lines)]
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])
        # The last letter of a word takes the next word, even if it looks like an option.
        run("sort", "-ro", "+5", path, cwd=self.folder)
        self.assertEqual((self.folder / "+5").read_bytes(), b"c 1\nb 2\na 3\n")
        empty = self.write("empty", b"")
        for words in (["--random-source=x"], [f"--random-source={empty}"], ["--files0-from=x"], [f"--files0-from={empty}"],
                      [f"--files0-from={names}", path], ["--key=", path], ["--compress-temporaries=", path], ["--batch-size=1"], ["--batch-size=x"], ["--debug", "-c"], ["--debug", "-o", path], ["--ra"]):
            with self.subTest(words=words):
                self.assert_message(run("sort", *words, "-o", self.folder / "out", code=2))
        self.assertFalse((self.folder / "out").exists())

    def test_keys_of_lines_that_make_no_sense_are_refused(self):
        path = self.write("in", b"b\na\n")
        for words in (["-k", "0"], ["-k", "x"], ["-k", "1.0"], ["-k1,0"], ["-k1,2x"], ["-k1nM"], ["-nM"], ["-dn"], ["-t", "ab"],
                      ["-t", ""], ["-t"], ["-k"], ["--sort=wrong"], ["--format", "u64", "-n"], ["--format", "record", "-k1"],
                      ["--format", "kv64", "-z"]):
            with self.subTest(words=words):
                self.assert_message(run("sort", *words, path, "-o", self.folder / "out", code=2))
        self.assertFalse((self.folder / "out").exists())

    def test_random_order_keeps_equal_keys_together(self):
        lines = [b"%d %d\n" % (i % 50, i) for i in range(2000)]
        path = self.write("in", b"".join(lines))
        done = [run("sort", "-R", "-k1,1", path).stdout for _ in range(2)]
        self.assertNotEqual(done[0], done[1])
        for out in done:
            keys = [line.split()[0] for line in out.splitlines()]
            self.assertEqual(sum(a != b for a, b in zip(keys, keys[1:])), 49)
            self.assertEqual(sorted(out.splitlines(True)), sorted(lines))

    def test_impossible_requests_end_with_exit_code_2(self):
        path = self.write("in", b"b\na\n")
        for words in (["--wrong"], ["-S", "nothing"], ["-S", "1X"], ["--format", "u65"], ["--parallel", "0"],
                      ["--parallel", "x"], ["--json"], ["--format", "record", "--record", "8", "--key", "4:5"],
                      ["--format", "record", "--record", "0"], ["--pool", "none"], ["-S", "64K"], ["-o", ""], [""]):
            with self.subTest(words=words):
                self.assert_message(run("sort", path, *words, code=2))
        run(code=2)
        run("wrong", code=2)

    def test_options_that_would_change_nothing_are_refused(self):
        path = self.write("in", b"b\na\n")
        for words in (["sort", path, "--record", "2"],
                      ["sort", path, "--format", "u32", "--key", "0:4"], ["check", path, "--key", "0:1"],
                      ["gen", "--format", "u64", "--count", "1", "--record", "8", "-o", self.folder / "out"],
                      ["gen", "--format", "record", "--count", "1", "--key", "5:5", "-o", self.folder / "out"]):
            with self.subTest(words=words):
                self.assert_message(run(*words, code=2), "--", "try:")
        self.assertFalse((self.folder / "out").exists())

    def test_files_that_cannot_be_used(self):
        path = self.write("in", b"b\na\n")
        self.assert_message(run("sort", self.folder / "missing", code=2), "missing", "No such file")
        self.assert_message(run("sort", self.folder, code=2), str(self.folder))
        self.assert_message(run("sort", path, "-o", self.folder / "none" / "out", code=2), "none")
        self.assert_message(run("sort", path, "-o", self.folder, code=2), str(self.folder))

    def test_version_and_help(self):
        self.assertIn(b"penstock 0.", run("--version").stdout)
        for words in (["--help"], ["help"]):
            self.assertIn(b"sort", run(*words).stdout)
        for words in (["sort", "--help"], ["help", "sort"]):
            self.assertIn(b"--buffer-size", run(*words).stdout)
        run("help", "wrong", code=2)

    def test_doctor(self):
        report = json.loads(run("doctor", "--json").stdout)
        self.assertIn("version", report)
        for section, fact in (("system", "kernel"), ("system", "cgroup_bytes_max"), ("limits", "max_map_count"),
                              ("limits", "overcommit_memory"), ("limits", "unprivileged_userfaultfd"),
                              ("huge_pages", "anonymous"), ("mechanisms", "uffd_move"), ("files", "io_uring"),
                              ("files", "direct")):
            self.assertIn(fact, report[section])
        for choice in ("cpu", "sort_pool", "small_block_pool", "pipe_pool", "engine"):
            self.assertTrue(report["chosen"][choice]["choice"] and report["chosen"][choice]["why"], choice)
        self.assertIsInstance(report["advice"], list)
        text = run("doctor").stdout.decode()
        self.assertIn("io_uring", text)
        # Labels and values stand in two columns, with a blank between them.
        lines = [line for line in text[:text.index("To go faster")].splitlines() if line.startswith("  ")]
        self.assertTrue(any(all(line[i - 1] == " " != line[i] for line in lines)
                            for i in range(3, min(map(len, lines)))), text)
        missing = json.loads(run("doctor", "--json", "-T", self.folder / "missing").stdout)
        self.assertIsNone(missing["files"]["free_bytes"])
        self.assertIn("choose a folder that can be used: -T DIR", missing["advice"])
        forced = json.loads(run("doctor", "--json", env=dict(os.environ, PENSTOCK_IO="threads")).stdout)
        self.assertEqual(forced["chosen"]["engine"]["choice"], "threads")

    def test_output_that_cannot_be_written_is_an_error(self):
        for words in (["sort", self.write("in", b"b\na\n")], ["doctor"], ["--help"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE)
            self.assertEqual((words[0], done.returncode), (words[0], 2))

    def test_a_reader_that_goes_away_ends_the_sort_as_it_ends_other_filters(self):
        path = self.gen("in", "u64", 4_000_000)
        with subprocess.Popen([PROGRAM, "sort", path, "--format", "u64"], stdout=subprocess.PIPE) as child:
            child.stdout.read(8)
            child.stdout.close()
            self.assertEqual(child.wait(timeout=60), -signal.SIGPIPE)


class Manual(Case):
    """Help, manual pages and completions come from the same texts."""

    def commands(self):
        return end_to_end.commands()

    def test_every_option_of_the_help_is_in_the_manual_and_is_completed(self):
        self.assertIn("sort", self.commands())
        completions = {shell: run("help", "--completion", shell).stdout.decode() for shell in ("bash", "zsh", "fish")}
        for command in self.commands():
            shown = run(command, "--help-all").stdout.decode() if command != "help" else ""
            page = run("help", "--man", command).stdout.decode().replace("\\-", "-")
            for option in re.findall(r"^  (?:-\w, |    )?(--[a-z0-9-]+)", shown, re.MULTILINE):
                self.assertIn(f"\\fB{option}\\fR", page, command)
                self.assertIn(option, completions["bash"])
                self.assertIn(option, completions["zsh"])
                self.assertIn(f" -l {option[2:]} ", completions["fish"])

    def test_pages_are_good_manual_pages(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff here")
        run("help", "--write", self.folder / "share")
        pages = sorted((self.folder / "share/man/man1").iterdir())
        self.assertEqual(len(pages), len(self.commands()))  # one for each command except help, and the program's own
        for page in pages:
            done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, b""), page)
            self.assertIn(page.stem.encode(), done.stdout)

    def test_shells_complete(self):
        run("help", "--write", self.folder / "share")
        for words, wanted in (("so", "sort"), ("sort --para", "--parallel"), ("merge --buf", "--buffer-size"),
                              ("replay --pace o", "original"), ("help par", "partition")):
            with self.subTest(words=words):
                script = f"""source {self.folder}/share/bash-completion/completions/penstock
                             COMP_WORDS=(penstock {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _penstock; echo "${{COMPREPLY[@]}}" """
                done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
                self.assertEqual((done.stdout.split(), done.stderr), ([wanted.encode()], b""))
        for shell, name in (("zsh", "zsh/site-functions/_penstock"), ("fish", "fish/vendor_completions.d/penstock.fish")):
            if shutil.which(shell):
                subprocess.run([shell, "-n", self.folder / "share" / name], check=True)

    def test_typing_errors_suggest_the_right_word(self):
        for words, parts in ((["srt", "x"], ["no command srt (did you mean sort?)"]),
                             (["sort", "--formt", "u64", "x"], ["penstock sort: no option --formt (did you mean --format?)"]),
                             (["sort", "--bufer-size=1G", "x"], ["no option --bufer-size (did you mean --buffer-size?)"]),
                             (["sort", "--zzzzzzzzzz", "x"], ["no option --zzzzzzzzzz\n"]),
                             (["sort", "--parallel", "some", "x"], ["--parallel some: cannot read this value (try: a whole number, such as 2)"]),
                             (["sort", "x", "--parallel"], ["--parallel: a value is missing"]),
                             (["gen", "--count", "5"], ["penstock gen: -o is missing (try: -o items.bin)"])):
            with self.subTest(words=words):
                self.assert_message(run(*words, code=2), *parts)

    def test_files_may_be_named_as_commands_are(self):
        for name in ("find", "cat", "help", "sort"):
            self.write(name, b"b\n" + name.encode() + b"\n")
        self.assertEqual(run("sort", "find", "cat", "help", cwd=self.folder).stdout, b"b\nb\nb\ncat\nfind\nhelp\n")
        self.assertEqual(run("cat", "find", "sort", "cat", cwd=self.folder).stdout, b"b\nfind\nb\nsort\nb\ncat\n")

    def test_more_memory_than_the_machine_has_causes_a_notice(self):
        path = self.write("in", b"b\na\n")
        done = run("sort", "-S", "900T", path)
        self.assertEqual(done.stdout, b"a\nb\n")
        self.assert_message(done, "-S 900T", "GiB")
        self.assertEqual(run("sort", "--quiet", "-S", "900T", path).stderr, b"")

    def test_progress_is_shown_where_it_is_asked_for(self):
        path = self.write("in", struct.pack("<3Q", 3, 1, 2))
        for words in ([], ["--progress=never"], ["--progress=always"]):
            self.assertIn("but contains NUL bytes (try: --format u64", run("sort", *words, path).stderr.decode())
        for words in (["--progress", "always", "--format", "u64"], ["--progress=always", "--quiet"],
                      ["--progress=always", "-z"]):
            self.assertEqual(run("sort", *words, path).stderr, b"", words)
        run("sort", "--progress=often", path, code=2)

    def test_version_as_json(self):
        told = json.loads(run("--version", "--json").stdout)
        self.assertRegex(told["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn(told["instructions"], ("portable", "avx2", "avx512"))


class OutputsThatAreOpen(Case):
    """Outputs to -o /dev/stdout, to -o >(command), which a shell names /dev/fd/63, and to -o PIPE."""

    def commands(self):
        """Commands that take -o, and their outputs."""
        a, b = self.write("a", b"x\nb\n"), self.write("b", b"b\nc\n")
        sorted_a = self.write("sorted", b"b\nx\n")
        yield ["sort", a, b], b"b\nb\nc\nx\n"
        yield ["sort", "--top", "2", a, b], b"b\nb\n"
        yield ["merge", sorted_a, b], b"b\nb\nc\nx\n"
        yield ["sort", "-m", sorted_a, b], b"b\nb\nc\nx\n"
        yield ["group", "--count", "--sorted", a], b"1\tb\n1\tx\n"
        yield ["join", sorted_a, b], b"b\n"
        yield ["cat", a, b], b"x\nb\nb\nc\n"
        yield ["gen", "--format", "u64", "--dist", "all-equal", "--count", "4096"], None

    def run_to(self, words, output, **options):
        done = subprocess.run([PROGRAM, *map(str, words), "-o", str(output)], stderr=subprocess.PIPE, timeout=60, **options)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout

    def wanted(self, words, wanted):
        return run(*words, "-o", "-").stdout if wanted is None else wanted

    def test_pipes(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for words, wanted in self.commands():
            wanted = self.wanted(words, wanted)
            with self.subTest(words):
                self.assertEqual(self.run_to(words, "/dev/stdout", stdout=subprocess.PIPE), wanted)
                self.assertEqual(self.run_to(words, "/proc/self/fd/1", stdout=subprocess.PIPE), wanted)
                from_program, end = os.pipe()
                with open(from_program, "rb") as reader:
                    self.run_to(words, f"/dev/fd/{end}", pass_fds=[end])
                    os.close(end)
                    self.assertEqual(reader.read(), wanted)
                with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
                    self.run_to(words, pipe)
                    self.assertEqual(reader.stdout.read(), wanted)
        self.assertTrue(pipe.is_fifo())

    def test_a_file_is_written_on_where_it_stands(self):
        """An open file is written at its position, as by the shell's >file and >>file: not from its start, and not replaced."""
        for mode in ("wb", "ab"):
            for words, wanted in self.commands():
                wanted = self.wanted(words, wanted)
                path = self.write("out", b"before\n" if mode == "ab" else b"")
                with self.subTest(words, mode=mode), open(path, mode, buffering=0) as output:
                    if mode == "wb":
                        output.write(b"before\n")
                    self.run_to(words, "/dev/stdout", stdout=output)
                    self.run_to(words, f"/dev/fd/{output.fileno()}", pass_fds=[output.fileno()])
                    self.assertEqual(os.fstat(output.fileno()).st_ino, path.stat().st_ino)
                    self.assertEqual(path.read_bytes(), b"before\n" + wanted + wanted)

    def test_bad_outputs_fail_at_once(self):
        path = self.write("in", b"b\na\n")
        with open(path, "rb") as only_read:
            done = run("sort", path, "-o", f"/dev/fd/{only_read.fileno()}", code=2, pass_fds=[only_read.fileno()])
        self.assert_message(done, "/dev/fd/", "Bad file descriptor")
        self.assert_message(run("sort", path, "-o", "/dev/fd/987", code=2), "/dev/fd/987", "Bad file descriptor")
        self.assert_message(run("sort", path, "-o", "/dev/stdout", "--json", code=2), "--json")
        self.assert_message(run("merge", path, "-o", "/dev/stdout", "--json", code=2), "--json")
        self.assertEqual(path.read_bytes(), b"b\na\n")


class LargerThanMemory(Case):
    def test_statistics_tell_the_plan_and_what_happened(self):
        path, output, stats_path = self.large(), self.folder / "out", self.folder / "stats.json"
        printed = run(*self.large_words(path, output), "--parallel", "2", "--json", "--stats", stats_path).stdout
        stats = json.loads(printed)
        self.assertEqual(stats, json.loads(stats_path.read_text()))
        self.assert_same_content(path, output, "u64")
        self.assert_no_leftovers("large.u64", "out", "stats.json")

        self.assertEqual(stats["version"], 2)
        self.assertEqual(stats["items"], LARGE_BYTES // 8)
        self.assertEqual(stats["bytes"], LARGE_BYTES)
        self.assertEqual(stats["budget_bytes"], SMALL_MIB * MIB)
        self.assertGreater(stats["seconds"], 0)
        self.assertGreaterEqual(stats["passes"], 2)
        for field in ("bytes_read", "bytes_written"):
            self.assertGreaterEqual(stats[field], 2 * LARGE_BYTES - stats["kept_bytes"], field)
        self.assertLess(stats["kept_bytes"], SMALL_MIB * MIB)
        for field in ("seconds", "passes", "seeks", "bytes_read", "bytes_written", "temp_bytes", "memory_bytes", "method"):
            self.assertIn(field, stats["predicted"])
        self.assertIsInstance(stats["seeks"], int)
        self.assertGreater(stats["peak_rss_bytes"], 0)
        if not SANITIZED:
            self.assertLessEqual(stats["peak_rss_bytes"], stats["budget_bytes"])

    def test_phases_have_their_prediction_beside_them(self):
        path, output, page = self.large(), self.folder / "out", self.folder / "page.html"
        for device in ([], ["--device", "hdd"]):
            with self.subTest(device=device):
                words = [*self.large_words(path, output), *device]
                stats = json.loads(run(*words, "--json", "--report", page).stdout)
                predicted = stats["predicted"]
                done = {phase["phase"]: phase for phase in stats["phases"]}
                for phase in predicted["phases"]:
                    self.assertIn(phase["phase"], done)
                    self.assertIsNotNone(phase["seconds"])
                for total in (stats, predicted):
                    for field in ("bytes_read", "bytes_written", "seeks"):
                        self.assertEqual(total[field], sum(phase[field] for phase in total["phases"]))
                self.assertGreater(predicted["seconds"], 0)
                self.assertEqual(predicted["device"]["assumed"], not device)
                self.assertEqual(predicted["long_runs"], bool(device))
                self.assertIsNone(stats["emulated"])
                shown = page.read_bytes()
                self.assertIn(b'<th scope="row">distribute</th>', shown)
                # The sorted buckets and, if the executor distributed, its staircase.
                self.assertIn(b"What held the memory", shown)
                self.assertEqual(b"How full the buckets were" in shown, bool(device))
                buckets = stats["occupancy"]
                self.assertEqual(len(buckets["buckets"][0]), len(buckets["bucket_columns"]))
                self.assertEqual(sum(row[1] for row in buckets["buckets"]), LARGE_BYTES)
                for field in ("reading_bytes", "waiting_bytes", "sorting_bytes", "writing_bytes"):
                    self.assertLessEqual(max(buckets[field]), buckets["memory_bytes"])
                for stairs in stats.get("staircases", []):
                    self.assertEqual(len(stairs["measured_bytes"]), stairs["streams"])
                    self.assertEqual(len(stairs["predicted_bytes"]), stairs["streams"])
                self.assert_same_content(path, output, "u64")
                planned = json.loads(run("plan", *words[1:], "--json").stdout)["sort"]
                for field in ("method", "long_runs", "passes"):
                    self.assertEqual(planned[field], predicted[field], field)

    def test_the_output_may_be_the_input(self):
        path = self.large()
        before = check(path)
        run(*self.large_words(path, path))
        after = check(path)
        self.assertTrue(after["sorted"])
        self.assertEqual((after["count"], after["checksum"]), (before["count"], before["checksum"]))
        self.assert_no_leftovers("large.u64")

    def test_pipes_on_both_sides(self):
        path, output = self.large(), self.folder / "out"
        with open(path, "rb") as given, open(output, "wb") as got:
            source = subprocess.Popen(["cat"], stdin=given, stdout=subprocess.PIPE)
            sort = subprocess.Popen([PROGRAM, "sort", "-", "--format", "u64", "-S", SMALL_MEMORY, "-T", self.temporaries],
                                    stdin=source.stdout, stdout=subprocess.PIPE)
            sink = subprocess.Popen(["cat"], stdin=sort.stdout, stdout=got)
            for end in (source.stdout, sort.stdout):
                end.close()
            self.assertEqual([child.wait(timeout=300) for child in (source, sort, sink)], [0, 0, 0])
        self.assert_same_content(path, output, "u64")

    def test_every_pool_and_both_engines(self):
        path, output = self.large(), self.folder / "out"
        for pool in ("mremap", "uffd_move", "shared"):
            for engine in ("io_uring", "threads"):
                with self.subTest(pool=pool, engine=engine):
                    done = subprocess.run([PROGRAM, *map(str, self.large_words(path, output)), "--pool", pool, "--json"],
                                          env=dict(os.environ, PENSTOCK_IO=engine), capture_output=True, timeout=300)
                    if done.returncode != 0 and (b"UFFD" in done.stderr or b"userfault" in done.stderr):
                        self.skipTest(done.stderr.decode())
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(json.loads(done.stdout)["pool"], pool)
                    self.assert_same_content(path, output, "u64")

    def test_a_folder_for_temporaries_that_is_not_there(self):
        path = self.large()
        done = run("sort", path, "-o", self.folder / "out", "--format", "u64", "-S", SMALL_MEMORY, "-T",
                   self.folder / "missing", code=2)
        self.assert_message(done, "missing: cannot use this directory: No such file or directory (try: create it first)")
        done = run("sort", path, "-o", self.folder / "missing" / "out", "--format", "u64", "-S", SMALL_MEMORY, code=2)
        self.assert_message(done, "missing: cannot use this directory: No such file or directory (try: create it first)")
        self.assert_no_leftovers("large.u64")

    def test_skewed_and_equal_keys(self):
        for distribution in ("all-equal", "zipf", "low-bits-only", "one-bucket"):
            with self.subTest(distribution=distribution):
                path = self.gen("in", "u64", LARGE_BYTES // 16, "--dist", distribution)
                run(*self.large_words(path, self.folder / "out"))
                self.assert_same_content(path, self.folder / "out", "u64")


class Interrupted(Case):
    """Checks the leftovers of runs that are stopped or fail."""

    needs_a_disk = True

    def start(self, path, output, **options):
        child = subprocess.Popen([PROGRAM, *map(str, self.large_words(path, output))], stderr=subprocess.PIPE, **options)
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        # The sort is in the middle when it has written about half of the data.
        end_to_end.wait_until_it_has_written(child, LARGE_BYTES // 2)
        self.assertIsNone(child.poll(), "the sort ended before it could be interrupted")
        return child

    def test_a_signal_ends_it_in_order(self):
        path = self.large()
        before = digest(path)
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                child = self.start(path, self.folder / "out")
                child.send_signal(number)
                message = child.communicate(timeout=60)[1].decode()
                self.assertEqual(child.returncode, -number)
                self.assertIn(f"stopped by {number.name}", message)
                self.assert_no_leftovers("large.u64")
                self.assertEqual(digest(path), before)

    def test_a_signal_leaves_an_input_whole_that_is_the_output_too(self):
        path = self.large()
        before = digest(path)
        child = self.start(path, path)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, -signal.SIGTERM)
        self.assert_no_leftovers("large.u64")
        self.assertEqual(digest(path), before)

    def stop_while_it_waits(self, child):
        """Sends SIGINT to a run that waits for a pipe; it must not take the seconds that orderly work may take."""
        end_to_end.wait_until_it_catches(child, signal.SIGINT)
        time.sleep(0.5)  # by now it waits; even if not, it prints the same message
        self.assertIsNone(child.poll())
        child.send_signal(signal.SIGINT)
        start = time.monotonic()
        child.wait(timeout=20)
        self.assertLess(time.monotonic() - start, 4)
        self.assertEqual(child.returncode, -signal.SIGINT)
        return child.stderr.read().decode()

    def test_a_signal_while_waiting_for_standard_input(self):
        for engine in ("io_uring", "threads"):
            with self.subTest(engine=engine):
                child = subprocess.Popen([PROGRAM, "sort", "-", "-o", self.folder / "out"], stdin=subprocess.PIPE,
                                         stderr=subprocess.PIPE, env=dict(os.environ, PENSTOCK_IO=engine))
                with child:
                    child.stdin.write(b"line\n")
                    child.stdin.flush()
                    self.assertIn("stopped by SIGINT; the input is untouched, no output was written",
                                  self.stop_while_it_waits(child))
                self.assert_no_leftovers()

    def test_a_signal_while_nobody_reads_standard_output(self):
        path = self.large()
        for words in (["sort", path, "--format", "u64"],
                      ["gen", "--format", "u64", "--count", 10_000_000, "-o", "-"]):
            with self.subTest(words=words):
                child = subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                with child:
                    child.stdout.read(8)
                    self.assertIn("stopped by SIGINT", self.stop_while_it_waits(child))

    def test_a_signal_ends_gen_in_order(self):
        words = ["gen", "--format", "u64", "--count", "2e7", "-o", self.folder / "out"]
        child = subprocess.Popen([end_to_end.with_seams(PROGRAM), *words], stderr=subprocess.PIPE,
                                 env=dict(os.environ, PENSTOCK_INJECT="seed=1,delay=1:1000000"))
        with child:
            end_to_end.wait_until_it_catches(child, signal.SIGTERM)
            child.send_signal(signal.SIGTERM)
            message = child.communicate(timeout=60)[1].decode()
        self.assertEqual(child.returncode, -signal.SIGTERM)
        self.assertEqual(message, "penstock gen: stopped by SIGTERM; no output was written\n")
        self.assert_no_leftovers()



class CoreDumps(Case):
    SECRET = b"what nobody may see in a core dump"

    def core_of_a_sort(self, **environment):
        """The core dump of a sort that is ended by SIGQUIT after it has read the secret."""
        for old in self.folder.glob("core*"):
            old.unlink()
        sort = subprocess.Popen([os.path.abspath(PROGRAM), "sort", "-o", "out"], cwd=self.folder, stdin=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=dict(os.environ, **environment), preexec_fn=lambda: resource.setrlimit(
                                    resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)))
        try:
            sort.stdin.write((self.SECRET + b"\n") * 1000)
            sort.stdin.flush()
            deadline = time.monotonic() + 60
            waiting = array.array("i", [1])
            while waiting[0] > 0:
                self.assertLess(time.monotonic(), deadline)
                fcntl.ioctl(sort.stdin, termios.FIONREAD, waiting)
                time.sleep(0.005)
            sort.send_signal(signal.SIGQUIT)
            sort.wait(60)
        finally:
            sort.kill()
            sort.communicate()
        self.assertEqual(sort.returncode, -signal.SIGQUIT)
        cores = list(self.folder.glob("core*"))
        if len(cores) != 1:
            self.skipTest(f"no core dump: core_pattern is {pathlib.Path('/proc/sys/kernel/core_pattern').read_text().strip()}")
        return cores[0].read_bytes()

    @unittest.skipIf(SANITIZED, "a sanitizer's shadow is dumped for minutes")
    def test_core_dumps_without_memory(self):
        if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
            self.skipTest("core dumps are limited (ulimit -H -c)")
        self.assertGreaterEqual(self.core_of_a_sort().count(self.SECRET[:8]), 1000)
        core = self.core_of_a_sort(PENSTOCK_CORE_DUMPS="without-memory")
        self.assertTrue(core.startswith(b"\x7fELF"))
        # 1000 lines with the secret were in memory; registers have 64 bytes each.
        self.assertLess(core.count(self.SECRET[:8]), 32)
        done = run("sort", "/dev/null", code=2, env=dict(os.environ, PENSTOCK_CORE_DUMPS="none"))
        self.assertIn(b"PENSTOCK_CORE_DUMPS=none: cannot dump cores in this way (try: without-memory)", done.stderr)


class FullDisk(Case):
    def mount(self, size_bytes):
        """Mounts a small file system; skips the test visibly if that is not allowed."""
        place = self.folder / "small"
        place.mkdir()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"tmpfs", bytes(place), b"tmpfs", 0, f"size={size_bytes}".encode()) != 0:
            self.skipTest(f"cannot mount a small file system: {os.strerror(ctypes.get_errno())}")
        self.addCleanup(lambda: libc.umount2(bytes(place), 2))
        return place

    def test_too_little_space_is_told_before_anything_is_written(self):
        place, path = self.mount(64 * MIB), self.large()
        for words in (["-o", self.folder / "out", "-T", place], ["-o", place / "out", "-T", self.temporaries]):
            with self.subTest(words=words):
                done = run("sort", path, "--format", "u64", "-S", SMALL_MEMORY, *words, code=2)
                self.assert_message(done, str(place))
                self.assertEqual(list(place.iterdir()), [])
                self.assert_no_leftovers("large.u64", "small")

    def test_compressible_temporaries_need_less_room(self):
        place, path = self.mount(64 * MIB), self.gen("numbers", "u64", 16 * MIB, "--dist", "rootdup")
        words = ["sort", path, "--format", "u64", "-S", SMALL_MEMORY, "-T", place, "-o", self.folder / "out", "--device", "sata-ssd"]
        self.assert_message(run(*words, code=2), str(place), "or --compress-temporaries always")
        run(*words, "--compress-temporaries", "always")
        run("check", "--format", "u64", self.folder / "out")

    def test_a_disk_that_fills_up_meanwhile_ends_it_in_order(self):
        # The size of a pipe is not known, so the space cannot be checked before.
        place, path = self.mount(64 * MIB), self.large()
        for words in (["-o", self.folder / "out", "-T", place], ["-o", place / "out", "-T", self.temporaries]):
            with self.subTest(words=words):
                with open(path, "rb") as given:
                    source = subprocess.Popen(["cat"], stdin=given, stdout=subprocess.PIPE)
                    with source, source.stdout:
                        done = subprocess.run([PROGRAM, "sort", "-", "--format", "u64", "-S", SMALL_MEMORY,
                                               *map(str, words)], stdin=source.stdout, capture_output=True, timeout=300)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assert_message(done, "No space left")
                self.assertEqual(list(place.iterdir()), [])
                self.assert_no_leftovers("large.u64", "small")



class Progress(Case):
    def on_terminal(self, path, **environment):
        """The output of a sort to a terminal on stderr."""
        leader, follower = pty.openpty()
        words = map(str, self.large_words(path, self.folder / "out"))
        child = subprocess.Popen([end_to_end.with_seams(PROGRAM), *words], stderr=follower,
                                 env=dict(os.environ, PENSTOCK_INJECT="seed=1,delay=0.5:20000", **environment))
        os.close(follower)
        text = b""
        with contextlib.suppress(OSError):  # the terminal vanishes with the child
            while select.select([leader], [], [], 120)[0]:
                piece = os.read(leader, 4096)
                if not piece:
                    break
                text += piece
        os.close(leader)
        self.assertEqual(child.wait(timeout=60), 0)
        return text

    def test_on_a_terminal_it_is_one_line_without_escape_codes(self):
        path = self.large()
        for environment in ({"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}):
            text = self.on_terminal(path, **environment)
            self.assertIn(b" %", text)
            self.assertIn(b"GiB", text)
            self.assertNotIn(b"\x1b", text)
            # The input's size, not that of all reads and writes; then the summary, on a line of its own.
            self.assertIn(b" of 0.1 GiB", text)
            self.assertEqual(text.count(b"\n"), 1)
            self.assertRegex(text, rb"\rpenstock sort: 128 MiB, 16,777,216 items in [^\n]+\r\n$")
        self.assertNotIn(b"\x1b", self.on_terminal(path, TERM="dumb"))
        self.assertEqual(run(*self.large_words(path, self.folder / "out")).stderr, b"")


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("cli_end_to_end")
