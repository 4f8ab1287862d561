#!/usr/bin/env python3
"""merge, partition, group and join from end to end, against plain Python: files_test.py PENSTOCK [TEST...].

Prints its seed; PENSTOCK_TEST_SEED repeats a run.
"""

import collections
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import threading
import time

import end_to_end
from end_to_end import SEED, run

PROGRAM = os.path.abspath(sys.argv[1])
MIB = 1 << 20
SANITIZED = "ASAN_OPTIONS" in os.environ
# A sanitizer needs memory of its own.
SMALL_MEMORY = "1G" if SANITIZED else "40M"


def pairs_of(data):
    return list(struct.iter_unpack("<QQ", data))


def mix64(x):
    mask = (1 << 64) - 1
    x = (x + 0x9e3779b97f4a7c15) & mask
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9 & mask
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb & mask
    return x ^ (x >> 31)


def part_of(key, parts):
    """The part of a key by --by hash, computed as docs/files.md says."""
    h = 0
    for at in range(0, len(key), 8):
        h = mix64(h ^ int.from_bytes(key[at:at + 8].ljust(8, b"\0"), "little"))
    return (mix64(h ^ len(key)) >> 32) * parts >> 32


class Case(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.temporaries = self.folder / "temporaries"
        self.temporaries.mkdir()

    def lines(self, count, keys=10**9):
        return [b"%d\n" % self.random.randrange(keys) for _ in range(count)]

    def assert_only(self, *names):
        self.assertEqual(sorted(path.name for path in self.folder.rglob("*") if path.is_file()), sorted(names))


class Keys(Case):
    """Every command takes the same keys."""

    def test_keys_of_text(self):
        def fields():
            return b"%s\t%d\t%s\n" % (self.random.choice([b"x", b"Y", b"z", b""]), self.random.randrange(300) - 100,
                                      b"w" * self.random.randrange(20))
        lines = [fields() for _ in range(20000)]
        keys = ["-t", "\t", "-k2,2nr", "-k1,1f"]
        in_order = sorted(lines, key=lambda line: (-int(line.split(b"\t")[1]), line.split(b"\t")[0].upper(), line))
        halves = []
        for part in range(2):
            name = self.folder / f"half{part}"
            run("sort", *keys, "-S", SMALL_MEMORY, "-o", name, "-", stdin=b"".join(lines[part::2]))
            self.assertIn(b": sorted; 10000 items", run("check", *keys, name).stdout)
            run("check", "-t", "\t", "-k2,2n", name, code=1)
            halves.append(name)
        self.assertEqual(run("merge", *keys, *halves, "-S", SMALL_MEMORY).stdout, b"".join(in_order))
        bounds = self.write("bounds", b"\t100\t\nx\t0\t\n")
        for by in (["hash", "--parts", "5"], ["range", "--bounds", bounds], ["range", "--parts", "3"]):
            source = halves if by[0] == "hash" else [self.write("in", b"".join(lines))]
            done = run("partition", *keys, "--by", *by, *source, "-o", self.folder / "part{}", "--json", "-S", SMALL_MEMORY)
            parts = [pathlib.Path(part["file"]).read_bytes().splitlines(True) for part in json.loads(done.stdout)["parts"]]
            self.assertEqual(sorted(sum(parts, [])), sorted(lines))
            of = [{(int(line.split(b"\t")[1]), line.split(b"\t")[0].upper()) for line in part} for part in parts]
            self.assertEqual(sum(map(len, of)), len(set.union(*of)), "a key in two parts")
            if by[0] == "range":
                for less, more in zip(of, of[1:]):
                    self.assertLess(max((-number, text) for number, text in less), min((-number, text) for number, text in more))

    def test_fields_of_records(self):
        layout = struct.Struct("<IfhxxQ")
        records = [layout.pack(self.random.randrange(50), self.random.choice([0.5, -2.0, 1e30, float("-inf")]),
                               self.random.randrange(-3, 3), self.random.randrange(1 << 64)) for _ in range(20000)]
        dtype = "[('id','<u4'),('x','<f4'),('s','<i2'),('','|V2'),('q','<u8')]"
        for keys, key in (
                (["--dtype", dtype, "--key", "x:r", "--key", "s", "--key", "q"], lambda r: (-r[1], r[2], r[3])),
                (["--record", "20", "--key", "8:2:i16:r", "--key", "4:4:f32", "--key", "12:8:>u8"],
                 lambda r: (-r[2], r[1], int.from_bytes(r[3].to_bytes(8, "little"), "big")))):
            keys = ["--format", "record", *keys]
            in_order = b"".join(sorted(records, key=lambda record: key(layout.unpack(record))))
            out = self.folder / "out"
            run("sort", *keys, self.write("in", b"".join(records)), "-o", out, "-S", SMALL_MEMORY)
            self.assertTrue(out.read_bytes() == in_order)
            self.assertIn(b": sorted; 20000 items", run("check", *keys, out).stdout)
            run("check", *keys, self.folder / "in", code=1)
            run("sort", "-r", *keys, self.folder / "in", "-o", out, "-S", SMALL_MEMORY)
            self.assertIn(b": sorted; 20000 items", run("check", "-r", *keys, out).stdout)

    def test_keys_that_make_no_sense(self):
        for words in (["--format", "u64", "--key", "0:4"], ["--format", "record", "-n"], ["--dtype", "<u8"],
                      ["--format", "record", "--dtype", "<u3"], ["--format", "record", "--dtype", "<u4", "--record", "8"],
                      ["-k0"], ["--format", "record", "--key", "0:4:q"]):
            for command in ("sort", "merge", "check", "partition"):
                where = ["-o", self.folder / "part{}"] if command == "partition" else []
                done = run(command, *words, *where, self.write("in", b""), code=2)
                self.assertIn(b"(try: ", done.stderr)
        run("group", "-k0", "--count", self.folder / "in", code=2)


class Merge(Case):
    def test_files_and_standard_input(self):
        a, b, c = (sorted(self.lines(n)) for n in (3000, 1, 500))
        done = run("merge", self.write("a", b"".join(a)), self.write("b", b"".join(b)), "-", "-S", SMALL_MEMORY,
                   stdin=b"".join(c))
        self.assertEqual(done.stdout, b"".join(sorted(a + b + c)))

    def test_unique_and_descending(self):
        a, b = (sorted(self.lines(1000, 700), reverse=True) for _ in range(2))
        out = self.folder / "out"
        run("merge", "-r", "-u", self.write("a", b"".join(a)), self.write("b", b"".join(b)), "-o", out, "-S", SMALL_MEMORY)
        self.assertEqual(out.read_bytes(), b"".join(sorted(set(a + b), reverse=True)))

    def test_many_files(self):
        names, everything = [], []
        for i in range(600):
            lines = sorted(self.lines(self.random.randrange(4)))
            names.append(self.write(f"in{i}", b"".join(lines)))
            everything += lines
        out = self.folder / "out"
        told = json.loads(run("merge", *names, "-o", out, "-S", SMALL_MEMORY, "--json", "-T", self.temporaries).stdout)
        self.assertEqual(out.read_bytes(), b"".join(sorted(everything)))
        self.assertEqual(told["bytes"], out.stat().st_size)
        # The disk was not given.
        self.assertGreater(told["predicted_seconds"], 0)
        self.assertTrue(told["device"]["assumed"])
        told = json.loads(run("merge", *names, "-o", out, "-S", SMALL_MEMORY, "--json", "-T", self.temporaries, "--device", "hdd").stdout)
        self.assertFalse(told["device"]["assumed"])

    def test_disorder_names_file_and_item(self):
        self.write("a", b"a\nb\n")
        bad = self.write("bad", b"a\nc\nb\n")
        done = run("merge", self.folder / "a", bad, "-o", self.folder / "out", "-S", SMALL_MEMORY, code=2)
        self.assertIn(str(bad), done.stderr.decode())
        self.assertIn("line 3", done.stderr.decode())
        self.assert_only("a", "bad")

    def test_missing_and_truncated_inputs_are_errors(self):
        self.write("a", b"12345678123")
        self.assertIn(b"none", run("merge", self.folder / "none", "-S", SMALL_MEMORY, code=2).stderr)
        self.assertIn(b"11 bytes", run("merge", "--format", "u64", self.folder / "a", "-S", SMALL_MEMORY, code=2).stderr)
        self.assertIn(b"-S", run("merge", self.folder / "a", "-S", "1M", code=2).stderr)
        self.assert_only("a")


class Partition(Case):
    def test_hash_as_documented_and_manifest(self):
        lines = self.lines(20000, 5000)
        source = self.write("in", b"".join(lines))
        told = json.loads(run("partition", source, "-o", self.folder / "part-{}", "--parts", 30, "-S", SMALL_MEMORY,
                              "--json").stdout)
        expected = [b"".join(line for line in lines if part_of(line[:-1], 30) == j) for j in range(30)]
        for j, part in enumerate(told["parts"]):
            self.assertEqual(part["file"], str(self.folder / f"part-{j:02}"))
            self.assertEqual(pathlib.Path(part["file"]).read_bytes(), expected[j])
            self.assertEqual(part["items"], expected[j].count(b"\n"))
            self.assertEqual(part["bytes"], len(expected[j]))
            checked = json.loads(subprocess.run([PROGRAM, "check", part["file"], "--json"], capture_output=True).stdout)
            self.assertEqual(part["checksum"], checked["checksum"])

    def test_ranges_of_equal_sizes(self):
        numbers = [self.random.randrange(-2**63, 2**63) for _ in range(50000)]
        source = self.write("in", struct.pack(f"<{len(numbers)}q", *numbers))
        told = json.loads(run("partition", source, "-o", self.folder / "p{}.bin", "--by", "range", "--parts", 8, "-S",
                              SMALL_MEMORY, "--format", "i64", "--json").stdout)
        found, last = [], -2**63
        for part in told["parts"]:
            data = pathlib.Path(part["file"]).read_bytes()
            values = struct.unpack(f"<{len(data) // 8}q", data)
            self.assertTrue(4000 < len(values) < 9000, len(values))
            if part["from"] is not None:
                self.assertGreaterEqual(min(values), int(part["from"]))
            self.assertGreaterEqual(min(values), last)
            last = max(values)
            found += values
        self.assertEqual(sorted(found), sorted(numbers))

    def test_misuse(self):
        source = self.write("in", b"a\n")
        for words, hint in ((("-o", "part", "--parts", 2), b"{}"), (("-o", "p{}", "--parts", 0), b"--parts"),
                            (("-o", "p{}", "--by", "bits", "--parts", 3), b"power of two"),
                            (("-o", "p{}", "--by", "dice", "--parts", 3), b"range, hash or bits"),
                            (("-o", "p{}", "--bounds", source, "--parts", 3), b"--by range"), (("--parts", 2), b"-o is missing")):
            self.assertIn(hint, run("partition", source, *words, "-S", SMALL_MEMORY, code=2, cwd=self.folder).stderr)
        self.assertIn(b"pipe", run("partition", "-", "-o", "p{}", "--by", "range", "--parts", 3, "-S", SMALL_MEMORY, code=2,
                                   stdin=b"a\n", cwd=self.folder).stderr)
        self.assert_only("in")


class Group(Case):
    def test_sum_of_pairs_and_a_giant_key(self):
        pairs = [(7 if i % 3 else self.random.randrange(200), i) for i in range(30000)]
        source = self.write("in", b"".join(struct.pack("<QQ", *pair) for pair in pairs))
        out = self.folder / "out"
        told = json.loads(run("group", source, "-o", out, "--format", "kv64", "--sum", "--sorted", "-S", SMALL_MEMORY,
                              "--json").stdout)
        sums = collections.Counter()
        for key, value in pairs:
            sums[key] += value
        self.assertEqual(pairs_of(out.read_bytes()), sorted(sums.items()))
        self.assertEqual((told["items"], told["groups"]), (len(pairs), len(sums)))

    def test_count_of_lines_from_a_pipe(self):
        lines = self.lines(5000, 300)
        done = run("group", "--count", "--sorted", "-S", SMALL_MEMORY, stdin=b"".join(lines)[:-1])
        counts = collections.Counter(lines)
        self.assertEqual(done.stdout, b"".join(b"%d\t%s" % (counts[line], line) for line in sorted(counts)))

    def test_signed_big_endian_fields_of_records(self):
        records = [struct.pack(">3sh", b"k%02d" % self.random.randrange(20), self.random.randrange(-9999, 9999))
                   for _ in range(2000)]
        source = self.write("in", b"".join(records))
        out = self.folder / "out"
        run("group", source, "-o", out, "--format", "record", "--record", 5, "--key", "0:3", "--value", "3:2", "--signed",
            "--big-endian", "--count", "--sum", "--min", "--max", "--sorted", "-S", SMALL_MEMORY)
        values = collections.defaultdict(list)
        for record in records:
            key, value = struct.unpack(">3sh", record)
            values[key].append(value)
        expected = b"".join(struct.pack("<3sQqqq", key, len(of), sum(of), min(of), max(of))
                            for key, of in sorted(values.items()))
        self.assertEqual(out.read_bytes(), expected)

    def test_more_groups_than_memory(self):
        count = 1_500_000
        source = self.folder / "in"
        run("gen", "--format", "kv64", "--count", count, "--seed", 3, "-o", source)
        out = self.folder / "out"
        told = json.loads(run("group", source, "-o", out, "--format", "kv64", "--count", "--sorted", "-S",
                              "40M" if not SANITIZED else SMALL_MEMORY, "-T", self.temporaries, "--json").stdout)
        if not SANITIZED:
            self.assertGreater(told["buckets"], 1)
            self.assertLessEqual(told["peak_rss_bytes"], 40 * MIB)
        counted = pairs_of(out.read_bytes())
        self.assertEqual(sum(number for _, number in counted), count)
        keys = [key for key, _ in counted]
        self.assertEqual(keys, sorted(set(keys)))
        self.assert_only("in", "out")

    def test_groups_that_are_longer_than_their_lines(self):
        """A key that is repeated makes a group longer than its line. The run ends with the result or an error."""
        source = self.folder / "in"
        source.write_text("".join(f"{i % 7}{'abcdefgh'[i % 8] * 200_000}\n" for i in range(300)))
        keys = ["-k1,1"] * 5
        right = run("group", *keys[:1], "--count", "-S", SMALL_MEMORY if SANITIZED else "256M", source).stdout
        self.assertEqual(len(right.splitlines()), 56)
        for words in (keys, keys[:2], [*keys, "--top", "99"], [*keys[:1], "--top", "99"]):
            with self.subTest(words=words):
                done = run("group", *words, "--count", "-S", SMALL_MEMORY if SANITIZED else "64M", source, code=(0, 2))
                if done.returncode == 2:
                    self.assertRegex(done.stderr, b"(try: .*larger -S)")
                    self.assertEqual(done.stdout, b"")
                    self.assertGreater(len(words), 1)
                else:
                    self.assertEqual(len(done.stdout.splitlines()), 56)
        self.assert_only("in")

    def test_the_most_frequent(self):
        lines = self.lines(5000, 300) + [b"most\n"] * 99 + [b"second\n"] * 98
        counts = sorted(collections.Counter(lines).items(), key=lambda one: (-one[1], one[0]))
        source = self.write("in", b"".join(lines))
        for top in (0, 1, 2, 100, 10**6):
            done = run("group", "--count", "--top", top, "-S", SMALL_MEMORY, source)
            self.assertEqual(done.stdout, b"".join(b"%d\t%s" % (count, line) for line, count in counts[:top]))
            done = run("group", "--format", "uniq", "--top", top, "-S", SMALL_MEMORY, source)
            self.assertEqual(done.stdout, b"".join(b"%7d %s" % (count, line) for line, count in counts[:top]))
        done = run("group", "--format", "uniq", "--sorted", "-S", SMALL_MEMORY, source)
        self.assertEqual(done.stdout, subprocess.run(["uniq", "-c"], input=b"".join(sorted(lines)), capture_output=True).stdout)
        # More numbers than fit in memory.
        keys = [self.random.randrange(10**6) for _ in range(1_500_000)] + [7] * 50 + [8] * 50 + [5] * 70
        source = self.write("in", struct.pack(f"<{len(keys)}Q", *keys))
        out = self.folder / "out"
        run("group", "--format", "u64", "--count", "--top", 1000, source, "-o", out, "-S", SMALL_MEMORY)
        wanted = sorted(collections.Counter(keys).items(), key=lambda one: (-one[1], one[0]))[:1000]
        self.assertEqual(pairs_of(out.read_bytes()), wanted)
        words = ["group", "--format", "u64", "--count", "--top", 10**6, source, "-o", self.folder / "none"]
        if not SANITIZED:
            self.assertIn(b"hold the first", run(*words, "-S", "32M", code=2).stderr)

    def test_keys_of_lines(self):
        lines = [b"%d,%s,%d\n" % (i, self.random.choice([b"a", b"A", b"b", b"", b"c d"]), self.random.randrange(9)) for i in range(3000)]
        source = self.write("in", b"".join(lines))
        keys = [line.split(b",")[1] for line in lines]
        counts = collections.Counter(keys)
        done = run("group", "-t,", "-k2,2", "--count", source, "-S", SMALL_MEMORY)
        self.assertEqual(done.stdout, b"".join(b"%d,%s\n" % (counts[key], key) for key in sorted(counts)))
        firsts = {}
        for line, key in zip(lines, keys):
            firsts.setdefault(key.upper(), (line, key))
        done = run("group", "-t,", "-k2,2f", "--distinct", source, "-S", SMALL_MEMORY)
        self.assertEqual(done.stdout, b"".join(firsts[key][0] for key in sorted(firsts)))
        upper = collections.Counter(key.upper() for key in keys)
        done = run("group", "-t,", "-k2,2f", "--format", "uniq", "--top", 2, source, "-S", SMALL_MEMORY)
        self.assertEqual(done.stdout, b"".join(b"%7d %s\n" % (count, firsts[key][1]) for key, count in
                                               sorted(upper.items(), key=lambda one: (-one[1], one[0]))[:2]))
        done = run("group", "-t,", "-k2,2", "--sum", "--min", "--value", 3, source, "-S", SMALL_MEMORY)
        values = {key: [int(line.split(b",")[2]) for line, of in zip(lines, keys) if of == key] for key in counts}
        self.assertEqual(done.stdout, b"".join(b"%s,%d,%d\n" % (key, sum(some), min(some)) for key, some in sorted(values.items())))
        done = run("group", "-z", "--count", stdin=b"a\0b\nb\0a\0")
        self.assertEqual(done.stdout, b"2\ta\0" b"1\tb\nb\0")
        self.assertEqual(run("group", "--header", "--count", stdin=b"title\nb\na\nb\n").stdout, b"title\n1\ta\n2\tb\n")
        self.assertEqual(run("group", "-n", "--count", stdin=b"10\n9\n9.0\n").stdout, b"2\t9\n1\t10\n")
        run("group", "-t,", "-k2,2", "--distinct", source, "-o", source)  # the output may be an input
        self.assertEqual(source.read_bytes(), run("group", "-t,", "-k2,2", "--distinct", stdin=b"".join(lines)).stdout)

    def test_keys_of_lines_that_are_more_than_memory(self):
        rows = [(self.random.randrange(200_000), self.random.randrange(-500, 500)) for _ in range(1_200_000)]
        source = self.write("in", b"".join(b"%d %d %s\n" % (*row, b"x" * 40) for row in rows))
        sums = collections.Counter()
        for key, value in rows:
            sums[b"%d" % key] += value
        told = json.loads(run("group", "-k1,1", "--sum", "--value", 2, source, "-o", self.folder / "out", "-S",
                              "32M" if not SANITIZED else SMALL_MEMORY, "-T", self.temporaries, "--json").stdout)
        self.assertTrue((self.folder / "out").read_bytes() == b"".join(b"%s\t%d\n" % (key, sums[key]) for key in sorted(sums)))
        self.assertEqual((told["items"], told["groups"]), (len(rows), len(sums)))
        if not SANITIZED:
            self.assertLessEqual(told["peak_rss_bytes"], 32 * MIB)
        self.assert_only("in", "out")

    def test_overflow_names_the_key(self):
        source = self.write("in", struct.pack("<QQQQ", 4711, 2**64 - 1, 4711, 1))
        done = run("group", source, "-o", self.folder / "out", "--format", "kv64", "--sum", "-S", SMALL_MEMORY, code=2)
        self.assertIn(b"4711", done.stderr)
        self.assert_only("in")

    def test_misuse(self):
        for words, hint in (((), b"--count"), (("--sum",), b"--sum=COLUMN"), (("--count", "--distinct"), b"alone"),
                            (("--count", "--value", "0:4"), b"--sum"), (("--sum", "--signed"), b"--sum=COLUMN"),
                            (("--sum", "--value", "x"), b"column"),
                            (("--format", "u64", "--sum", "--value", "x"), b"OFFSET:LENGTH"), (("--distinct", "--top", 3), b"--count"),
                            (("--count", "--sorted", "--top", 3), b"--sorted")):
            self.assertIn(hint, run("group", *words, "-S", SMALL_MEMORY, code=2, stdin=b"a\n").stderr)

    def test_a_full_disk_and_a_signal_leave_nothing(self):
        source = self.folder / "in"
        run("gen", "--format", "kv64", "--count", 1_500_000, "-o", source)
        words = ["group", source, "-o", self.folder / "out", "--format", "kv64", "--count", "-S", SMALL_MEMORY, "-T",
                 self.temporaries]
        done = run(*words, code=2, program=end_to_end.with_seams(PROGRAM),
                   env=dict(os.environ, PENSTOCK_INJECT="seed=1,error=ENOSPC@write:5"))
        self.assertIn(b"space", done.stderr)
        self.assert_only("in")
        process = subprocess.Popen([PROGRAM, "group", "--count", "-o", str(self.folder / "out")], stdin=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdin.write(b"a\nb\n")
        process.stdin.flush()
        end_to_end.wait_until_it_catches(process, signal.SIGTERM)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdin.close()
        process.stderr.close()
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assert_only("in")


class InputsWithoutASize(Case):
    def commands(self, path, lines):
        """Commands that read these lines from a path, and their outputs."""
        counts = collections.Counter(lines)
        yield ["sort", path], b"".join(sorted(lines))
        yield ["sort", "--top", 1, path], min(lines)
        yield ["group", "--count", "--sorted", path], b"".join(b"%d\t%s" % (counts[line], line) for line in sorted(counts))
        if end_to_end.built("find"):
            yield ["find", "-c", "a", path], b"%d\n" % b"".join(lines).count(b"a")
        if lines == sorted(lines):
            yield ["merge", path, self.write("other", b"")], b"".join(lines)
            if len(counts) == len(lines):
                yield ["join", "--format", "lines", path, self.write("same", b"".join(lines))], b"".join(lines)

    def read_by_all(self, path, lines, before=lambda: None):
        for words, wanted in self.commands(path, lines):
            with self.subTest(words):
                before()
                memory = [] if words[0] == "find" else ["-S", SMALL_MEMORY]
                self.assertEqual(run(*words, *memory, code=int(wanted == b"0\n")).stdout, wanted)
        before()
        checked = json.loads(run("check", path, "--json", code=int(lines != sorted(lines))).stdout)
        self.assertEqual(checked["count"], len(lines))
        before()
        run("sort", "-c", path, code=int(lines != sorted(lines)))
        before()
        run("partition", path, "-o", self.folder / "part-{}", "--parts", 2, "-S", SMALL_MEMORY)
        parts = b"".join((self.folder / f"part-{j}").read_bytes() for j in (0, 1))
        self.assertEqual(sorted(parts.splitlines()), sorted(b"".join(lines).splitlines()))

    def test_files_that_the_system_makes_up(self):
        """Files of /proc report a size of 0, files of /sys a page."""
        places = ["/proc/filesystems", "/proc/version", "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
                  "/sys/class/net/lo/mtu"]
        found = [path for path in places if os.path.exists(path) and os.stat(path).st_size in (0, 4096)]
        if not any(path.startswith("/proc") for path in found):
            self.skipTest("this system has no /proc")
        for path in found:
            with self.subTest(path):
                with open(path, "rb") as file:
                    lines = file.readlines()
                self.assertTrue(lines)
                self.read_by_all(path, lines)
                with open(path, "rb") as file:
                    done = subprocess.run([PROGRAM, "sort", "-S", SMALL_MEMORY], stdin=file, capture_output=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (0, b"".join(sorted(lines))))

    def test_a_file_without_bytes_is_empty(self):
        path = self.write("empty", b"")
        self.assertEqual(run("sort", path, path, path, "-S", SMALL_MEMORY).stdout, b"")
        self.assertEqual(json.loads(run("check", path, "--json").stdout)["count"], 0)

    def test_pipes_with_names(self):
        """The writer opens each pipe only once."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        lines = sorted(set(self.lines(9_000)))
        writers = []

        def write():
            for writer in writers:
                writer.join(60)
                self.assertFalse(writer.is_alive())
            writers[:] = [threading.Thread(target=self.write, args=("pipe", b"".join(lines)), daemon=True)]
            writers[0].start()

        self.read_by_all(pipe, lines, write)


class Join(Case):
    def test_disorder_is_an_error_also_behind_the_last_pair(self):
        def numbers(name, *values):
            return self.write(name, struct.pack(f"<{len(values)}Q", *values))

        down, up, one, none = numbers("down", 5, 3, 1), numbers("up", 1, 3, 5), numbers("one", 1), numbers("none")
        for words in ((one, down), (down, one), (none, down), (down, none), (numbers("far", 9), down)):
            with self.subTest(words):
                done = run("join", *words, "--format", "u64", "-o", self.folder / "out", "-S", SMALL_MEMORY, code=2)
                self.assertIn(f"{down}: item 2: not in order (3)".encode(), done.stderr)
                self.assertFalse((self.folder / "out").exists())
        run("join", none, down, "-r", "--format", "u64", "-S", SMALL_MEMORY)
        self.assertEqual(run("join", up, one, "--format", "u64", "-S", SMALL_MEMORY).stdout, one.read_bytes())

    def test_product_of_equal_keys(self):
        left, right = (sorted((self.random.randrange(300), i) for i in range(n)) for n in (900, 500))
        paths = [self.write(name, b"".join(struct.pack("<QQ", *pair) for pair in pairs))
                 for name, pairs in (("l", left), ("r", right))]
        out = self.folder / "out"
        told = json.loads(run("join", *paths, "-o", out, "--format", "kv64", "-S", SMALL_MEMORY, "--json").stdout)
        expected = [(key, a, b) for key, a in left for other, b in right if other == key]
        self.assertEqual(list(struct.iter_unpack("<QQQ", out.read_bytes())), expected)
        self.assertEqual(told["items"], len(expected))

    def test_records_of_two_sizes(self):
        left, right = self.write("l", b"aa1bb2bb3"), self.write("r", b"xbbycc")
        done = run("join", left, right, "--format", "record", "--record", 3, "--key", "0:2", "--right-key", "1:2", "-S",
                   SMALL_MEMORY)
        self.assertEqual(done.stdout, b"bb2xbb3x")

    def test_misuse(self):
        self.assertIn(b"two files", run("join", self.write("a", b""), "-S", SMALL_MEMORY, code=2).stderr)


if __name__ == "__main__":
    print(f"seed {SEED}")
    end_to_end.main("files_end_to_end")
