#!/usr/bin/env python3
"""Compressed inputs and pipes in every command that reads items, against plain Python: compressed_test.py PENSTOCK [TEST...].

Each input is cut into items, stored in one of the formats or in several of them one after the other, and read as a file or through
a pipe. Prints its seed; PENSTOCK_TEST_SEED repeats a run.
"""

import array
import bz2
import gzip
import itertools
import json
import lzma
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import threading
import zlib

import end_to_end
from end_to_end import SEED

PROGRAM = os.path.abspath(sys.argv[1])
MIB = 1 << 20
SANITIZED = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ
# A sanitizer needs memory of its own.
SMALL_MEMORY = "1G" if SANITIZED else "48M"
ROUNDS = 3 if SANITIZED else end_to_end.trials(12)


def tool(name, *words):
    return lambda data: subprocess.run([name, "-q", "-c", *words], input=data, stdout=subprocess.PIPE, check=True).stdout


def lzip(data):
    """Compresses the data to a member as lzip writes it, with a window of 1 MiB."""
    packed = lzma.compress(data, lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA1, "preset": 1, "dict_size": MIB}])
    return b"LZIP\1\x14" + packed + struct.pack("<IQQ", zlib.crc32(data), len(data), len(packed) + 26)


FORMATS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lambda data: lzma.compress(data, preset=1), "lzip": lzip}
FORMATS.update({name: tool(name, *words) for name, words in (("zstd", ("-3",)), ("lz4", ("-B4",))) if shutil.which(name)})


def u64s(count, rng):
    return [struct.pack("<Q", rng.randrange(1 << 64) >> rng.choice((0, 40))) for _ in range(count)]


def many_u64s(rng):
    """Sorted numbers of 32 MB."""
    numbers = array.array("Q", rng.randbytes(32_000_000))
    return numbers.tobytes(), array.array("Q", sorted(numbers)).tobytes()


def lines(count, rng):
    return [b"%d %s\n" % (rng.randrange(10**6), b"x" * rng.randrange(40)) for _ in range(count)]


def records(count, rng):
    return [rng.randbytes(2) + b"%018d" % rng.randrange(10**9) for _ in range(count)]


# Kinds of items: a generator, the words that name the format, and the sort key.
KINDS = {
    "u64": (u64s, ["--format", "u64"], lambda item: struct.unpack("<Q", item)[0]),
    "lines": (lines, [], lambda item: item.removesuffix(b"\n")),
    "records": (records, ["--format", "record", "--record", "20", "--key", "0:10"], lambda item: item[:10]),
}


def check_code(done, words, code):
    if done.returncode != code:
        raise AssertionError(f"penstock {' '.join(map(str, words))}: exit code {done.returncode}, wanted {code}\n"
                             f"{done.stderr.decode(errors='replace')}")
    return done


def memory_words(words, memory, folder):
    """The budget and the folder for temporaries, for commands that take them."""
    checks = words[0] == "check" or "-c" in words
    return ([] if words[0] == "check" else ["-S", memory]) + ([] if checks else ["-T", str(folder)])


class Case(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.names = 0

    def write(self, data):
        self.names += 1
        path = self.folder / f"in{self.names}"
        path.write_bytes(data)
        return path

    def stored(self, data):
        """Stores the data in one format, in several after each other, or uncompressed."""
        way = self.random.random()
        if way < 0.25:
            return data
        if way < 0.6:
            return self.random.choice(list(FORMATS.values()))(data)
        cuts = sorted(self.random.randrange(len(data) + 1) for _ in range(self.random.randrange(1, 4)))
        parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)])]
        return b"".join(self.random.choice(list(FORMATS.values()))(part) for part in parts)

    def run_with(self, words, inputs, code=0, memory=SMALL_MEMORY):
        """Runs the program on inputs, each of which is a file or comes through a pipe."""
        names, feeders, ends = [], [], []
        for data in inputs:
            if self.random.random() < 0.6:
                names.append(self.write(data))
                continue
            read, write = os.pipe()
            names.append(f"/dev/fd/{read}")
            ends.append(read)

            def feed(to=write, text=data):
                try:
                    with os.fdopen(to, "wb") as pipe:
                        pipe.write(text)
                except BrokenPipeError:
                    pass
            feeders.append(threading.Thread(target=feed))
        words = [*words, *memory_words(words, memory, self.folder), *names]
        process = subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=ends)
        for end in ends:
            os.close(end)
        for feeder in feeders:
            feeder.start()
        out, err = process.communicate(timeout=300)
        for feeder in feeders:
            feeder.join()
        return check_code(subprocess.CompletedProcess(words, process.returncode, out, err), words, code)

    def inputs(self, make, count_max):
        """Lists of items, and the stored inputs. The last line may lack its newline."""
        lists = [make(self.random.randrange(count_max), self.random) for _ in range(self.random.randrange(1, 5))]
        return lists, [self.stored(b"".join(items)) for items in lists]


class AgainstAModel(Case):
    def test_sort(self):
        for round_number in range(ROUNDS):
            for kind, (make, words, key) in KINDS.items():
                with self.subTest(kind=kind, round=round_number):
                    lists, inputs = self.inputs(make, 60_000)
                    wanted = sorted((item for items in lists for item in items), key=key)
                    done = self.run_with(["sort", "-s", *words], inputs)
                    self.assertTrue(done.stdout == b"".join(wanted))
                    done = self.run_with(["sort", "-s", "--top", "100", *words], inputs)
                    self.assertTrue(done.stdout == b"".join(wanted[:100]))

    def test_sort_of_more_than_memory(self):
        if SANITIZED:
            self.skipTest("takes memory that a sanitizer has")
        data, wanted = many_u64s(self.random)
        cut = 8 * self.random.randrange(len(data) // 8)
        inputs = [self.stored(part) for part in (data[:cut], data[cut:], b"", b"")]
        statistics = self.folder / "statistics.json"
        # The program and its decoders take up to 20 MiB of the 42.
        done = self.run_with(["sort", "--format", "u64", "--stats", statistics], inputs, memory="42M")
        self.assertTrue(done.stdout == wanted)
        # The first pass reads the inputs, the second the temporaries.
        self.assertGreaterEqual(json.loads(statistics.read_text())["passes"], 2)

    def test_lines_without_a_last_newline(self):
        for compress in FORMATS.values():
            done = self.run_with(["sort"], [compress(b"b\na"), b"d\nc", compress(b"e")])
            self.assertEqual(done.stdout, b"a\nb\nc\nd\ne\n")

    def test_merge_and_check(self):
        for round_number in range(ROUNDS):
            for kind, (make, words, key) in KINDS.items():
                with self.subTest(kind=kind, round=round_number):
                    lists = [sorted(make(self.random.randrange(1, 20_000), self.random), key=key)
                             for _ in range(self.random.randrange(1, 7))]
                    inputs = [self.stored(b"".join(items)) for items in lists]
                    wanted = b"".join(sorted((item for items in lists for item in items), key=key))
                    self.assertTrue(self.run_with(["merge", *words], inputs).stdout == wanted)
                    self.assertTrue(self.run_with(["sort", "-m", *words], inputs).stdout == wanted)
                    self.run_with(["sort", "-c", *words], inputs[:1])
                    told = self.run_with(["check", "--json", *words], inputs[:1]).stdout
                    self.assertEqual(json.loads(told)["count"], len(lists[0]))
                    disorder = [*lists[0], lists[0][0] if len(lists[0]) > 1 and key(lists[0][0]) < key(lists[0][-1]) else None]
                    if disorder[-1] is not None:
                        data = self.stored(b"".join(disorder))
                        self.run_with(["sort", "-c", *words], [data], code=1)
                        self.run_with(["check", *words], [data], code=1)
                        told = self.run_with(["merge", *words], [data], code=2).stderr
                        self.assertTrue(b"not in order" in told or b"not sorted" in told, told)

    def test_many_files_are_merged(self):
        lists = [sorted(lines(200, self.random)) for _ in range(150)]
        inputs = [self.stored(b"".join(items)) for items in lists]
        for memory in (SMALL_MEMORY, "300M"):
            done = self.run_with(["merge"], inputs, memory=memory)
            self.assertTrue(done.stdout == b"".join(sorted(line for items in lists for line in items)))

    def test_group_join_and_partition(self):
        for round_number in range(ROUNDS):
            with self.subTest(round=round_number):
                lists = [[b"%d\n" % self.random.randrange(3000) for _ in range(self.random.randrange(40_000))]
                         for _ in range(self.random.randrange(1, 5))]
                inputs = [self.stored(b"".join(items)) for items in lists]
                counts = {}
                for items in lists:
                    for item in items:
                        counts[item[:-1]] = counts.get(item[:-1], 0) + 1
                done = self.run_with(["group", "--count", "--sorted"], inputs)
                self.assertTrue(done.stdout == b"".join(b"%d\t%s\n" % (counts[k], k) for k in sorted(counts)))

                left, right = (sorted(set(lines(3000, self.random))) for _ in range(2))
                right = sorted({*right, *self.random.sample(left, min(500, len(left)))})
                whole = self.random.choice([["--format", "lines"], ["-t", ""]])
                done = self.run_with(["join", *whole], [self.stored(b"".join(left)), self.stored(b"".join(right))])
                self.assertTrue(done.stdout == b"".join(sorted({*left} & {*right})))

                pattern = self.folder / "part-{}"
                self.run_with(["partition", "--by", "hash", "--parts", "3", "-o", pattern], inputs)
                parts = [(self.folder / f"part-{i}").read_bytes().splitlines() for i in range(3)]
                self.assertEqual(sorted(line for part in parts for line in part),
                                 sorted(item[:-1] for items in lists for item in items))
                for i, part in enumerate(parts):
                    self.assertTrue(all(not {*part} & {*other} for other in parts[:i]))


class WhatIsDamaged(Case):
    def commands(self):
        yield ["sort", "-o", self.folder / "out"]
        yield ["sort", "-m", "-o", self.folder / "out"]
        yield ["merge", "-o", self.folder / "out"]
        yield ["group", "--count", "-o", self.folder / "out"]
        yield ["partition", "--by", "hash", "--parts", "2", "-o", self.folder / "out-{}"]
        yield ["check"]
        yield ["sort", "-c"]

    def test_it_is_an_error_that_names_the_place_and_leaves_nothing(self):
        text = b"".join(sorted(lines(100_000, self.random)))
        for name, compress in FORMATS.items():
            whole = compress(text)
            cut = whole[:self.random.randrange(len(whole) // 2, len(whole))]
            at = self.random.randrange(len(whole) // 3, len(whole) // 2)
            wrong = whole[:at] + bytes(b ^ 0xff for b in whole[at:at + 40]) + whole[at + 40:]
            behind = b"".join(b"z" + line for line in text.splitlines(True))
            second = compress(behind)[:len(cut)]
            for what, data in (("cut", cut), ("wrong", wrong), ("second", compress(b"") + whole + second), ("garbage", whole + b"garbage")):
                path = self.write(data)
                for words in self.commands():
                    with self.subTest(name, what=what, words=words):
                        command = [PROGRAM, *map(str, words), *memory_words(words, SMALL_MEMORY, self.folder),
                                   path]
                        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
                        message = done.stderr.decode(errors="replace")
                        self.assertIn(str(path), message)
                        # Damaged data may be reported as disorder, or as too long a line, before their checksum is read.
                        self.assertIn(done.returncode, (1, 2) if what == "wrong" and words[1:2] == ["-c"] else (2,), message)
                        if what != "wrong":
                            self.assertIn("offset", message)
                        self.assertEqual([p.name for p in self.folder.iterdir() if not p.name.startswith("in")], [])

    def test_a_window_that_memory_has_no_room_for_is_refused(self):
        data = lzma.compress(lines(10, self.random)[0], preset=9)
        path = self.write(data)
        done = subprocess.run([PROGRAM, "sort", "-S", "64M", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"-S", done.stderr)
        if not SANITIZED:
            done = subprocess.run([PROGRAM, "sort", "-S", "1G", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)


@end_to_end.unittest.skipIf(SANITIZED, "a sanitizer has memory of its own")
class LeastMemory(Case):
    """Filters, decoders and decompressors in each command with the least memory: it ends right, or names a memory with which it does."""

    FILTERS = {"bad rows": ["--bad-rows", "bad"], "columns": ["--columns", "same"], "encoding": ["--encoding", "UTF-16"]}
    FORMATS = {"plain": bytes, "gzip": gzip.compress, "xz": lzma.compress}
    COMMANDS = ((["sort", "--key", "id"], "bad rows, columns, encoding"), (["sort", "-u", "--top", "20", "--key", "id"], "bad rows, columns, encoding"),
                (["merge", "--key", "id"], "bad rows, columns, encoding"), (["group", "--count", "--key", "id"], "bad rows, columns, encoding"),
                (["group", "--sum", "n", "--sorted", "--key", "id"], "bad rows, columns, encoding"),
                (["group", "--distinct", "--in-order", "--key", "id"], "bad rows, columns, encoding"),
                (["uniq", "-D", "--key", "id"], "bad rows, encoding"), (["partition", "--parts", "40", "-o", "part-{}", "--key", "id"], "bad rows, encoding"),
                (["join", "--full", "--key", "id"], "bad rows, encoding"), (["join", "--key", "city"], "bad rows, encoding"),
                (["head"], "encoding"), (["sample", "-n", "9999"], "encoding"), (["shuf"], "encoding"), (["split", "-l", "500", "-o", "part-{}"], "encoding"))

    def tables(self, filters, compress):
        names = []
        for number in range(2):
            order = [2, 1, 0] if number == 1 and "columns" in filters else [0, 1, 2]
            rows = [["id", "n", "city"], *([f"{2 * i + number * (i % 3 == 0):05}", str(i % 7), f"Orléans {i}"] for i in range(900))]
            lines = [",".join(row[i] for i in order) + "\n" for row in rows]
            if "bad rows" in filters:
                lines.insert(9, '7,"x"y,z\n')
            names.append(self.write(compress("".join(lines).encode("utf-16" if "encoding" in filters else "utf-8"))))
        return names

    def result(self, words, memory, tables, code=0):
        """The lines of all outputs in order, or those of a message."""
        for part in self.folder.glob("part-*"):
            part.unlink()
        done = end_to_end.run(*words, "--csv", "--header", "-S", memory, *tables, cwd=self.folder, code=code)
        parts = b"".join(path.read_bytes() for path in self.folder.glob("part-*"))
        return done.returncode, done.stderr.decode(), sorted((done.stdout + parts).splitlines())

    def check(self, words, tables, wanted):
        code, said, have = self.result(words, "32M", tables, code=(0, 2))
        if code == 2:
            memory = re.search(r"\(try: (?:at least |-S )(\d+M)\b", said)
            self.assertIsNotNone(memory, said)
            _, _, have = self.result(words, memory[1], tables)
        self.assertEqual(have, wanted)

    def test_of_filters_and_formats(self):
        for command, filters in self.COMMANDS:
            _, _, wanted = self.result(command, "256M", self.tables([], bytes))
            filters = filters.split(", ")
            for count in range(len(filters) + 1):
                for some in itertools.combinations(filters, count):
                    words = command + [word for name in some for word in self.FILTERS[name]]
                    for form, compress in self.FORMATS.items():
                        with self.subTest(words=words, form=form):
                            self.check(words, self.tables(some, compress), wanted)

    def test_of_large_windows(self):
        windows = [lambda data: lzma.compress(data, preset=9)]
        if "zstd" in FORMATS:
            windows.append(tool("zstd", "-3", "--long=26"))
        for command, _ in self.COMMANDS[::3]:
            for compress in windows:
                with self.subTest(words=command):
                    self.check(command, self.tables([], compress), self.result(command, "256M", self.tables([], bytes))[2])


class Disturbed(Case):
    COMMANDS = (["sort"], ["sort", "-m"], ["merge"], ["group", "--count", "--sorted"], ["check"], ["sort", "-c"])

    def run_disturbed(self, words, data, injection):
        command = [end_to_end.with_seams(PROGRAM), *words, *memory_words(words, SMALL_MEMORY, self.folder), "-"]
        return subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                              env=dict(os.environ, PENSTOCK_INJECT=injection))

    def test_short_and_slow_reads_change_nothing(self):
        text = b"".join(sorted(lines(30_000, self.random)))
        for words in self.COMMANDS:
            with self.subTest(words):
                data = self.stored(text)
                wanted, disturbed = (self.run_disturbed(words, data, f"seed={SEED}{more}")
                                     for more in ("", ",short=0.4,delay=0.05:300"))
                self.assertEqual((disturbed.returncode, disturbed.stdout), (wanted.returncode, wanted.stdout))
                self.assertEqual(wanted.returncode, 0, wanted.stderr)

    def test_an_error_of_a_pipe_is_told_with_its_name(self):
        text = b"".join(sorted(lines(100_000, self.random)))
        for words in self.COMMANDS:
            with self.subTest(words):
                done = self.run_disturbed(words, text, "error=EIO@read:3")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(b": standard input: cannot read at offset", done.stderr)
                self.assertIn(b"Input/output error", done.stderr)


class Words(Case):
    def sort(self, *words, code=0, data=b""):
        done = subprocess.run([PROGRAM, "sort", *map(str, words)], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=60)
        return check_code(done, words, code)

    def test_no_decompress_means_the_bytes(self):
        data = gzip.compress(b"a\n")
        path = self.write(data)
        for words in ((path,), ("-",)):
            done = self.sort("--no-decompress", *words, data=data)
            self.assertEqual(sorted(done.stdout.split(b"\n")), sorted((data + b"\n").split(b"\n"))[-len(done.stdout.split(b"\n")):])
        done = subprocess.run([PROGRAM, "check", "--no-decompress", "--json", path], stdout=subprocess.PIPE)
        self.assertEqual(json.loads(done.stdout)["count"], (data + b"\n").rstrip(b"\n").count(b"\n") + 1)

    def test_numbers_that_begin_like_a_frame_are_no_frame_or_an_error_that_says_what_to_do(self):
        # Magic numbers with impossible headers: these are numbers.
        for head in (b"\x1f\x8b\x08\xff", b"\x28\xb5\x2f\xfd\x08", b"\x04\x22\x4d\x18\x00\x00", b"BZh9\x00\x00\x00\x00"):
            numbers = [head.ljust(8, b"\1"), *u64s(100, self.random)]
            path = self.write(b"".join(numbers))
            self.assertEqual(self.sort("--format", "u64", path).stdout, b"".join(sorted(numbers, key=KINDS["u64"][2])))
        # A magic number with a possible header.
        numbers = [b"\x1f\x8b\x08\x00\0\0\0\0", *u64s(100, self.random)]
        path = self.write(b"".join(numbers))
        self.assertIn(b"--no-decompress", self.sort("--format", "u64", path, code=2).stderr)
        self.assertEqual(self.sort("--format", "u64", "--no-decompress", path).stdout,
                         b"".join(sorted(numbers, key=KINDS["u64"][2])))

    def test_an_output_that_is_the_input(self):
        path = self.write(gzip.compress(b"b\na\n"))
        self.sort(path, "-o", path)
        self.assertEqual(path.read_bytes(), b"a\nb\n")

    def test_standard_input_from_a_file(self):
        path = self.write(gzip.compress(b"b\na\n"))
        with path.open("rb") as file:
            done = subprocess.run([PROGRAM, "sort"], stdin=file, stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(done.stdout, b"a\nb\n")

    def test_compressed_empty_data_are_empty(self):
        for compress in FORMATS.values():
            path = self.write(compress(b""))
            self.assertEqual(self.sort(path).stdout, b"")
            self.assertEqual(self.sort(path, self.write(b"a\n")).stdout, b"a\n")

    def test_resume_refuses_it(self):
        path = self.write(gzip.compress(b"b\na\n"))
        self.assertIn(b"compressed", self.sort("--resume", path, "-o", self.folder / "out", code=2).stderr)

    def test_plan_refuses_an_unknown_length(self):
        path = self.write(gzip.compress(b"".join(lines(20_000, self.random)) * (1 if SANITIZED else 100), 1))
        done = subprocess.run([PROGRAM, "plan", path, "-S", SMALL_MEMORY], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not SANITIZED:
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"unknown length", done.stderr)


class Outputs(Case):
    """Outputs of -Z can be read by Python and the formats' own programs."""

    READERS = {".gz": gzip.decompress}
    READERS.update({end: tool(name, "-d") for end, name in ((".zst", "zstd"), (".lz4", "lz4")) if shutil.which(name)})
    NAMES = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}

    def left(self):
        return sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("in"))

    def test_each_command_writes_what_it_writes_plain(self):
        texts = [sorted(lines(self.random.randrange(1, 30_000), self.random)) for _ in range(2)]
        files = [self.write(b"".join(text)) for text in texts]
        memory = ["-S", SMALL_MEMORY, "-T", self.folder]
        for words in (["sort", "-r", *memory], ["sort", "-u", *memory], ["sort", "--top", "100", *memory], ["sort", "-m", *memory],
                      ["merge", *memory], ["group", "--count", "--sorted", *memory], ["join", "-t", "", *memory], ["cat"]):
            plain = end_to_end.run(*words, *files).stdout
            for end, read in self.READERS.items():
                with self.subTest(words, end=end):
                    output = self.folder / f"out{end}"
                    end_to_end.run(*words, "-Z", "-o", output, *files)
                    self.assertTrue(read(output.read_bytes()) == plain)
                    output.unlink()
                    piped = end_to_end.run(*words, f"--compressed={self.NAMES[end]}", *files).stdout
                    self.assertTrue(read(piped) == plain)
        self.assertEqual(self.left(), [])

    def test_more_than_memory_within_memory(self):
        if SANITIZED:
            self.skipTest("takes memory that a sanitizer has")
        data, wanted = many_u64s(self.random)
        path = self.write(data)
        for end, read in self.READERS.items():
            output, statistics = self.folder / f"out{end}", self.folder / "statistics.json"
            end_to_end.run("sort", "--format", "u64", "-S", "40M", "-Z", "-o", output, "--stats", statistics, path)
            self.assertTrue(read(output.read_bytes()) == wanted)
            told = json.loads(statistics.read_text())
            self.assertLessEqual(told["peak_rss_bytes"], 40 * MIB)
            self.assertGreaterEqual(told["passes"], 2)

    def test_nothing_is_an_empty_frame(self):
        for end, read in self.READERS.items():
            output = self.folder / f"out{end}"
            end_to_end.run("sort", "-Z", "-o", output, self.write(b""))
            self.assertEqual(read(output.read_bytes()), b"")
            self.assertGreater(output.stat().st_size, 0)

    def test_the_output_may_be_the_input(self):
        path = self.folder / "in.gz"
        path.write_bytes(gzip.compress(b"b\na\n"))
        end_to_end.run("sort", "-Z", path, "-o", path)
        self.assertEqual(gzip.decompress(path.read_bytes()), b"a\nb\n")

    def test_a_name_alone_does_not_compress(self):
        output = self.folder / "out.gz"
        end_to_end.run("sort", self.write(b"b\na\n"), "-o", output)
        self.assertEqual(output.read_bytes(), b"a\nb\n")

    def test_impossible_compression_is_refused(self):
        path = self.write(b"b\na\n")
        for words, hint in ((["sort", "-Z", path], b"--compressed=gzip"), (["sort", "-Z", "-o", self.folder / "out.txt", path], b".zst"),
                            (["sort", "--compressed=xz", path], b"gzip, zstd or lz4"), (["sort", "-c", "-Z", path], b"without -Z"),
                            (["sort", "--resume", "-Z", "-o", self.folder / "out.gz", path], b"penstock cat"),
                            (["partition", "--by", "hash", "--parts", "2", "-Z", "-o", self.folder / "p{}", path], b"-Z")):
            with self.subTest(words):
                self.assertIn(hint, end_to_end.run(*words, code=2).stderr)
        self.assertEqual(self.left(), [])

    def test_a_full_disk_and_a_bad_input_leave_no_output(self):
        path = self.write(os.urandom(1 << 20).hex().encode() + b"\n")
        self.assertIn(b"No space left", end_to_end.run("sort", "--compressed=gzip", "-o", "/dev/full", path, code=2).stderr)
        output = self.folder / "out.gz"
        end_to_end.run("sort", "--format", "u64", "-Z", "-o", output, self.write(b"123"), code=2)
        before = output.parent / "in.before"
        before.write_bytes(b"old")
        end_to_end.run("sort", "--compressed=zstd", "-o", before, self.folder / "in.none", code=2)
        self.assertEqual(before.read_bytes(), b"old")
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    print(f"seed {SEED}")
    end_to_end.main("compressed_end_to_end")
