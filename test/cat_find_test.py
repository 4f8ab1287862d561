#!/usr/bin/env python3
"""penstock cat and penstock find from end to end, against Python: cat_find_test.py PENSTOCK [TEST...].

Writes a JUnit file where GoogleTest programs write theirs (GTEST_OUTPUT=xml:FOLDER/), so that ./check counts every case.
"""

import gzip
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

import end_to_end
from end_to_end import SEED, run

PROGRAM = sys.argv[1]
MIB = 1 << 20
SANITIZED = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ
TINY_BLOCK = 4096


def compress_with(tool, data, *words):
    return subprocess.run([tool, "-c", *words], input=data, stdout=subprocess.PIPE, check=True).stdout


class Case(end_to_end.Case):
    def text(self, size):
        """Text of few letters and lines of very different lengths, so that there are many matches."""
        lines = []
        while size > 0:
            length = min(size, self.random.randrange(3000 if self.random.random() < 0.2 else 60) + 1)
            lines.append(bytes(self.random.choices(b"abc d", k=length - 1)) + b"\n")
            size -= length
        return b"".join(lines)

    def formats(self, data):
        """Yields the data compressed in every format that has a tool here, with the tool's name."""
        yield "plain", data
        yield "gzip", gzip.compress(data)
        for tool in ("zstd", "lz4"):
            if shutil.which(tool):
                yield tool, compress_with(tool, data, *(("-q", "-B4") if tool == "lz4" else ()))  # small blocks


class Descriptors(Case):
    def test_works_where_its_starter_has_blocked_all_signals(self):
        data = self.text(300_000)
        block_all = lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        found = run("find", "--count", "a", "-", stdin=data, preexec_fn=block_all)
        self.assertEqual(found.stdout, b"%d\n" % data.count(b"a"))

    def test_a_failed_write_is_an_error_and_no_crash(self):
        path = self.write("a", b"a" * 300_000)  # more than stdio's buffer
        with open("/dev/full", "wb") as full:
            for words in (("find", "a"), ("find", "--json", "a"), ("find", "-o", "a"), ("cat",)):
                with self.subTest(words):
                    done = subprocess.run([PROGRAM, *words, path], stdout=full, stderr=subprocess.PIPE)
                    end_to_end.skip_if_left_out(done.stderr)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(b"write", done.stderr)
            done = subprocess.run([PROGRAM, "find", "a", self.folder / "missing"], stdout=subprocess.PIPE, stderr=full)
            self.assertEqual(done.returncode, 2)

    def test_closed_descriptors_are_no_files_of_ours(self):
        path = self.write("a", b"foo")
        for closed, words in (("<&-", "cat"), (">&-", f"cat '{path}'"), (">&- 2>&-", f"find foo '{path}'")):
            with self.subTest(closed, words=words):
                done = subprocess.run(["sh", "-c", f"exec '{PROGRAM}' {words} {closed}"], stderr=subprocess.PIPE, timeout=60)
                self.assertIn(done.returncode, (1, 2), done.stderr)

    def test_many_small_files(self):
        names = [self.write(f"n{i}", b"foo %d\n" % i) for i in range(300)]
        self.assertEqual(run("find", "-c", "foo", *names).stdout.count(b":1\n"), 300)


class Cat(Case):
    def test_files_of_all_formats_make_one_text(self):
        texts = [self.random.randbytes(size) for size in (0, 1, 4096, 3 * MIB, 5 * MIB + 7)]
        words, wanted = [], b""
        for number, text in enumerate(texts):
            for name, data in self.formats(text):
                words.append(self.write(f"{number}.{name}", data))
                wanted += text
        self.assertEqual(run("cat", *words).stdout, wanted)
        output = self.folder / "out"
        run("cat", *words, "-o", output)
        self.assertEqual(output.read_bytes(), wanted)

    def test_standard_input(self):
        text = self.text(3 * MIB)
        for name, data in self.formats(text):
            with self.subTest(name):
                path = self.write(name, data)
                self.assertEqual(run("cat", stdin=data).stdout, text)
                self.assertEqual(run("cat", path, "-", stdin=data).stdout, text + text)
                with open(path, "rb") as file:
                    done = subprocess.run([PROGRAM, "cat"], stdin=file, stdout=subprocess.PIPE, check=True)
                    self.assertEqual(done.stdout, text)
                if name == "plain":
                    with open(path, "rb") as file:
                        os.lseek(file.fileno(), 1000, os.SEEK_SET)
                        done = subprocess.run([PROGRAM, "cat"], stdin=file, stdout=subprocess.PIPE, check=True)
                        self.assertEqual(done.stdout, text[1000:])

    def test_plain_does_not_decompress(self):
        data = gzip.compress(b"text")
        self.assertEqual(run("cat", "--no-decompress", stdin=data).stdout, data)

    def test_a_slow_writer_and_a_socket(self):
        text = self.text(200_000)
        ours, theirs = socket.socketpair()

        def feed():
            data = gzip.compress(text)
            for at in range(0, len(data), 10_000):
                ours.sendall(data[at:at + 10_000])
                time.sleep(0.005)
            ours.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=feed)
        with ours, theirs:
            thread.start()
            done = subprocess.run([PROGRAM, "cat"], stdin=theirs, stdout=subprocess.PIPE, check=True, timeout=60)
            thread.join()
        self.assertEqual(done.stdout, text)

    def test_a_missing_file_is_named_and_the_others_are_written(self):
        a, b = self.write("a", b"AAA"), self.write("b", b"BBB")
        done = run("cat", a, self.folder / "missing", b, code=1)
        self.assertEqual(done.stdout, b"AAABBB")
        self.assertIn(b"missing: cannot open", done.stderr)
        output = self.write("out", b"as it was")
        run("cat", a, self.folder / "missing", b, "-o", output, code=1)
        self.assertEqual(output.read_bytes(), b"as it was")

    def test_damaged_input_is_written_as_far_as_it_goes(self):
        text = self.text(3 * MIB)
        for name, data in self.formats(text):
            if name == "plain":
                continue
            with self.subTest(name):
                path = self.write(name, data[:-len(data) // 3])
                done = run("cat", path, self.write("b", b"BBB"), code=1)
                self.assertTrue(done.stdout.endswith(b"BBB"))
                self.assertTrue(text.startswith(done.stdout[:-3]))
                self.assertGreater(len(done.stdout), len(text) // 3)
                self.assertIn(str(path).encode(), done.stderr)
                self.assertIn(f"offset {path.stat().st_size}".encode(), done.stderr)
                garbage = run("cat", self.write("garbage", data + b"garbage"), code=1)
                self.assertEqual(garbage.stdout, text)
                self.assertIn(f"offset {len(data)}".encode(), garbage.stderr)

    def test_a_reader_that_has_enough_ends_it_quietly(self):
        path = self.write("a", self.text(8 * MIB))
        for options in ({}, {"preexec_fn": lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)}):
            with subprocess.Popen([PROGRAM, "cat", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as cat:
                cat.stdout.read(10)
                cat.stdout.close()
                self.assertEqual(cat.stderr.read(), b"")
                self.assertIn(cat.wait(timeout=60), (-signal.SIGPIPE, 128 + signal.SIGPIPE))

    def test_errors_of_the_output_and_of_the_options(self):
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, "cat", self.write("a", b"A")], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 2)
                self.assertIn(b"No space left", done.stderr)
        # A limit on file sizes is an error, too: its signal does not end the program.
        words = [PROGRAM, "cat", self.write("large", b"x" * 300_000)]
        for more in (["-o", self.folder / "out"], []):
            with open(self.folder / "limited", "wb") as limited:
                done = subprocess.run(words + more, stdout=limited, stderr=subprocess.PIPE,
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)))
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"File too large (try: a larger limit (ulimit -f)", done.stderr)
        self.assertFalse((self.folder / "out").exists())
        run("cat", "--nonsense", code=2)
        run("cat", "-o", self.folder / "no" / "such", code=2)

    def test_a_pipe_with_a_name_is_opened_once(self):
        """The writer opens the pipe only once: a second open() would wait forever, or lose data written meanwhile."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for text in [b"ten bytes\n"] * 8 + [self.random.randbytes(5 * MIB)]:
            for words, code, wanted in ((["cat"], 0, text), (["find", "-c", "ten"], 0 if b"ten" in text else 1,
                                                             b"%d\n" % text.count(b"ten"))):
                writer = threading.Thread(target=self.write, args=("pipe", text), daemon=True)
                writer.start()
                done = subprocess.run([PROGRAM, *words, pipe], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
                end_to_end.skip_if_left_out(done.stderr)
                self.assertEqual((done.returncode, done.stderr), (code, b""))
                self.assertTrue(done.stdout == wanted, f"{words}: {len(done.stdout)} bytes of {len(wanted)}")
                writer.join()

    def test_proc_files_that_say_they_are_empty(self):
        self.assertEqual(run("cat", "/proc/version").stdout, pathlib.Path("/proc/version").read_bytes())

    @unittest.skipIf(SANITIZED, "a sanitizer needs memory of its own")
    def test_memory_is_flat(self):
        peaks = []
        for size in (32 * MIB, 256 * MIB):
            path = self.folder / "large"
            with open(path, "wb") as file:
                file.truncate(size)
            packed = self.write("large.gz", gzip.compress(bytes(size), 1))
            peaks.append([self.peak_bytes("cat", source, size) for source in (path, packed)])
        for before, after in zip(*peaks):
            self.assertLess(after, 48 * MIB, peaks)
            self.assertLess(after, before + 8 * MIB, peaks)

    def peak_bytes(self, command, path, size):
        """The peak while the program waits to write the last of its output (the kernel's figure at the end would
        count what this process held when it forked)."""
        with subprocess.Popen([PROGRAM, command, path], stdout=subprocess.PIPE) as cat:
            left = size - MIB
            while left > 0:
                left -= len(cat.stdout.read(min(left, MIB)))
            status = pathlib.Path(f"/proc/{cat.pid}/status").read_text()
            cat.stdout.read()
        self.assertEqual(cat.returncode, 0)
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


EXPRESSIONS = ["a+b", r"(?<=ab)c", r"\bab\b", r"^a.*b", "a*", r"(a|b)+c", r"(?<!a)b(?!c)", r"(?s)a.{100,200}b",
               r"[^\n]{50,}?a", r"(a+)(b+)\1", r"(?i)ABC", r"\w+", r"c\n+a", r"d.*?d", r"b(?=.*a)"]


class Find(Case):
    def offsets(self, *words, code=0, stdin=b""):
        return [int(line) for line in run("find", *words, code=code, stdin=stdin).stdout.split()]

    def check(self, words, data, wanted):
        """Checks for the same matches in a file, a pipe and compressed files, with tiny blocks."""
        code = 0 if wanted else 1
        words = (*words, "--block", str(TINY_BLOCK), "--window", "32K")
        for name, stored in self.formats(data):
            path = self.write(f"data.{name}", stored)
            self.assertEqual(self.offsets(*words, path, code=code), wanted, f"{words} in a file, {name}")
        self.assertEqual(self.offsets(*words, stdin=data, code=code), wanted, f"{words} in a pipe")

    def test_a_string_planted_across_every_boundary_is_found(self):
        for length in (1, 2, 7, 300, 9000):
            with self.subTest(length=length, seed=SEED):
                data = bytearray(self.text(60_000))
                needle = bytes(self.random.choices(b"ab", k=length - 1)) + b"b"
                for edge in range(TINY_BLOCK, len(data), TINY_BLOCK):
                    at = edge - self.random.randrange(length + 1)
                    if at >= 0 and at + length <= len(data):
                        data[at:at + length] = needle
                wanted, at = [], 0
                while (at := data.find(needle, at)) >= 0:
                    wanted.append(at)
                    at += length
                self.check((needle.decode(),), bytes(data), wanted)

    def test_expressions_find_what_python_finds(self):
        data = self.text(40_000).removesuffix(b"\n")
        for expression in EXPRESSIONS:
            with self.subTest(expression, seed=SEED):
                # Python wants the flags in front; multiline is our default.
                wanted = [match.start() for match in re.finditer(expression.encode(), data, re.MULTILINE)]
                self.check(("-P", expression), data, wanted)
                self.assertEqual(self.offsets("-e", expression, stdin=data, code=0 if wanted else 1), wanted)

    def test_matches_are_printed_in_each_form(self):
        a, b, c = self.write("a", b"one two one"), self.write("b", b"none"), self.write("c", b"nothing")
        self.assertEqual(run("find", "one", a).stdout, b"0\n8\n")
        self.assertEqual(run("find", "one", a, b, c).stdout, f"{a}:0\n{a}:8\n{b}:1\n".encode())
        self.assertEqual(run("find", "-c", "one", a, b, c).stdout, f"{a}:2\n{b}:1\n{c}:0\n".encode())
        self.assertEqual(run("find", "-c", "one", stdin=b"one").stdout, b"1\n")
        self.assertEqual(run("find", "-P", "-o", "o.e", a).stdout, b"0:one\n8:one\n")
        self.assertEqual(run("find", "--", "-x", stdin=b"a-x").stdout, b"1\n")
        self.assertEqual(run("find", "-F", "o.e", a, code=1).stdout, b"")
        found = json.loads(run("find", "--json", "one", a, b).stdout)
        self.assertEqual(found, {"version": 1, "pattern": "one", "count": 3, "files": [
            {"file": str(a), "matches": [{"offset": 0, "bytes": 3}, {"offset": 8, "bytes": 3}], "count": 2},
            {"file": str(b), "matches": [{"offset": 1, "bytes": 3}], "count": 1}]})
        found = json.loads(run("find", "--json", "-c", "one", a, self.folder / "missing", code=2).stdout)
        self.assertEqual([file["count"] for file in found["files"]], [2, 0])
        self.assertIn("missing", found["files"][1]["error"])

    def test_lines_as_grep_prints_them(self):
        words = ["ab", "a", "b", "aB", "x", "foo.", "Foo", "", " ", "foo"]
        patterns = [("-F", "ab"), ("-F", "foo."), ("-F", "."), ("-P", "^a"), ("-P", "b$"), ("-P", "a|$"), ("-P", "[^x]b"),
                    ("-P", "\\Aa"), ("-P", "(?<=a)b"), ("-P", "o+"), ("-P", "a\\z"), ("-P", "x*"), ("-P", "\\S\\s[^b]*"), ("-P", "b[\\s\\S]*o"), ("-P", "a(?!\\W)"),
                    ("-P", "(?s)a.*o"), ("-P", "^$"), ("-P", "\\bfoo\\W?$")]
        for case in range(20 if SANITIZED else 150):
            kind, pattern = self.random.choice(patterns)
            letters = [*self.random.choice([[], ["-i"]]), *self.random.choice([[], [], ["-o"], ["-c"], ["-l"]])]
            # grep's time for empty matches goes with the square of the line: 3 MB take it half a minute.
            long_bytes = 30_000 if pattern == "x*" and "-o" in letters else 3_000_000
            files = []
            for number in range(self.random.randrange(1, 4)):
                lines = [" ".join(self.random.choices(words, k=self.random.randrange(4))) for _ in range(self.random.randrange(60))]
                if self.random.random() < 0.1:
                    lines.append("y" * long_bytes + "ab")
                data = "\n".join(lines).encode() + self.random.choice([b"", b"\n"] if lines and lines[-1] else [b"\n"])
                files.append(self.write(f"file{number}", data if lines else b""))
            numbers = self.random.choice([["-n"], ["--lines"]])
            # A window of the longest line has blocks of that size.
            window = self.random.choice([[], ["--window", str(1 + max(len(line) for file in files for line in file.read_bytes().split(b"\n")))]])
            with self.subTest(case=case, letters=letters, pattern=pattern, window=window):
                theirs = subprocess.run(["grep", "-a", kind, *letters, *(["-n"] if numbers == ["-n"] else []), "--", pattern, *files],
                                        capture_output=True, env=dict(os.environ, LC_ALL="C"))
                ours = run("find", kind, *letters, *numbers, *window, "--", pattern, *files, code=(0, 1))
                self.assertEqual((ours.stdout == theirs.stdout, ours.returncode), (True, theirs.returncode))
                if len(files) == 1:
                    packed = self.write("packed", gzip.compress(files[0].read_bytes()))
                    if "-l" not in letters:
                        ours = run("find", kind, *letters, *numbers, "--", pattern, packed, code=(0, 1))
                        self.assertTrue(ours.stdout == theirs.stdout)

    def test_lines_need_their_window(self):
        data = b"ab\n" + b"y" * 100_000 + b"ab\nab\n"
        done = run("find", "-n", "--window", "64K", "ab", stdin=data, code=2)
        self.assertEqual(done.stdout, b"1:ab\n")
        self.assertIn(b"line of more than 65536 bytes", done.stderr)
        self.assertEqual(run("find", "-n", "-c", "--window", "128K", "ab", stdin=data).stdout, b"3\n")
        for words in (["-n", "--json", "a"], ["-l", "--json", "a"], ["-n", "a\nb"]):
            self.assertIn(b"(try:", run("find", *words, code=2).stderr)
        a = self.write("a", b"xAb")
        self.assertEqual(run("find", "-i", "aB", a).stdout, b"1\n")
        self.assertEqual(run("find", "-i", "\\Eb", self.write("b", b"\\eB")).stdout, b"0\n")
        self.assertEqual(run("find", "-l", "Ab", a, self.folder / "b").stdout, f"{a}\n".encode())
        self.assertEqual(run("find", "-l", "-i", "b", stdin=b"B").stdout, b"(standard input)\n")

    def test_long_matches_are_printed_whole(self):
        data = b"x" + self.random.choice(b"ab").to_bytes(1, "big") * 100_000 + b"y"
        for words in ((self.write("a", data),), ()):
            done = run("find", "-P", "-o", "(?s)x(?:.{1000}){100}y", "--block", str(TINY_BLOCK), "--window", "128K", *words,
                       stdin=data)
            self.assertEqual(done.stdout, b"0:" + data + b"\n")

    def test_exit_codes_and_errors(self):
        a = self.write("a", b"text")
        run("find", "text", a)
        run("find", "nothing", a, code=1)
        done = run("find", "text", a, self.folder / "missing", code=2)
        self.assertIn(b"missing: cannot open", done.stderr)
        self.assertEqual(done.stdout, f"{a}:0\n".encode())
        for words in (("",), ("-P", "a(b"), (), ("-F", "-P", "a"), ("-c", "-o", "a"), ("--window", "x", "a")):
            run("find", *words, code=2)
        for words, is_told in ((("t[a-z]t",), True), (("-n", "t[a-z]t"), True), (("-c", "a+"), True), (("-F", "t[a-z]t"), False), (("-P", "t[a-z]a"), False),
                               (("none",), False), (("a.b",), False), (("[",), False), ((r"C:\dir",), False)):
            with self.subTest(words):
                self.assertEqual(b"was searched for as a string (try: -P" in run("find", *words, a, code=1).stderr, is_told)
        broken = run("find", "-P", "a(b", code=2)
        self.assertIn(b"at character", broken.stderr)

    def test_a_candidate_that_is_too_long_for_a_pipe_is_an_error_and_none_in_a_file(self):
        data = b"x" + b"a" * 500_000 + b"y"
        words = ("-P", "x[^x]*y", "--block", str(TINY_BLOCK), "--window", "64K")
        done = run("find", *words, stdin=data, code=2)
        self.assertIn(b"offset 0", done.stderr)
        self.assertIn(b"--window", done.stderr)
        self.assertEqual(self.offsets(*words, self.write("a", data)), [0])

    def test_greedy_expressions_go_back_across_blocks(self):
        data = b"a" * 300_000 + b"b" + b"a" * 10_000  # after b each a is tried in vain, to the end
        path = self.write("a", data)
        for expression in ("a.*b", ".*b", "(?s).*b(?=a)", "b.*c|b"):
            wanted = [match.start() for match in re.finditer(expression.encode(), data)]
            self.assertEqual(self.offsets("-P", expression, "--block", str(TINY_BLOCK), path), wanted)

    def test_matches_in_front_of_damage_are_printed(self):
        data = self.text(500_000)
        packed = self.write("a.gz", gzip.compress(data)[:-20])
        done = run("find", "ab", packed, code=2)
        offsets = [int(line) for line in done.stdout.split()]
        wanted = [match.start() for match in re.finditer(b"ab", data)]
        self.assertEqual(offsets, wanted[:len(offsets)])
        self.assertGreater(len(offsets), len(wanted) * 9 // 10)
        self.assertIn(b"the file ends at offset", done.stderr)

    def test_a_failing_disk_is_an_error(self):
        data = self.text(1_000_000)
        path = self.write("a", data)
        environment = dict(os.environ, PENSTOCK_INJECT="seed=1,error=EIO@read:20")
        done = run("find", "ab", "--block", str(TINY_BLOCK), path, code=2, program=end_to_end.with_seams(PROGRAM), env=environment)
        self.assertIn(b"Input/output error", done.stderr)
        offsets = [int(line) for line in done.stdout.split()]
        self.assertEqual(offsets, [match.start() for match in re.finditer(b"ab", data)][:len(offsets)])


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("cat_find_end_to_end")
