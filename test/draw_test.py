#!/usr/bin/env python3
"""head, sample, shuf and split beside GNU's and a plain model: draw_test.py PENSTOCK [TEST...]. Prints its seed; PENSTOCK_TEST_SEED repeats
a run."""

import bz2
import collections
import gzip
import os
import re
import signal
import subprocess
import sys
import time

import end_to_end
from end_to_end import random_cases, run

PROGRAM = os.path.abspath(sys.argv[1])
SANITIZED = "ASAN_OPTIONS" in os.environ
SMALL_MEMORY = "1G" if SANITIZED else "32M"
CASES = 20 if SANITIZED else end_to_end.trials(160)


def rows_of(text):
    """The rows of CSV as they stand in the text, each with its end."""
    rows, begin, quoted = [], 0, False
    for at, byte in enumerate(text):
        quoted ^= byte == ord('"')
        if byte == ord("\n") and not quoted:
            rows.append(text[begin:at + 1])
            begin = at + 1
    return rows + ([text[begin:] + b"\n"] if begin < len(text) else [])


def chi_square_bound(degrees):
    """A value of chi-square that a right program exceeds once in some millions of seeds."""
    return degrees + 5.5 * (2 * degrees) ** 0.5 + 20


class Draws(end_to_end.Case):
    def lines(self, count=None):
        rng = self.random
        count = rng.choice([0, 1, 2, 7, 60, 900]) if count is None else count
        return [rng.choice([b"", b"a", b"b" * rng.randrange(300), b"%d" % rng.randrange(10**9), bytes([rng.choice(b"\xff\0 \r")])]) + b"\n"
                for _ in range(count)]

    def table(self, count=None):
        rng = self.random
        count = rng.choice([0, 1, 2, 7, 60, 900]) if count is None else count
        fields = ["a", "", "x" * rng.randrange(90), '"q\n""q"""', '"l,\r\n,l"', "7"]
        return [f"{i},{rng.choice(fields)},{rng.choice(fields)}\n".encode() for i in range(count)]

    def inputs(self, items, header=b""):
        """The items in one file or several, some compressed, or by standard input: the words and the input."""
        rng = self.random
        cuts = sorted(rng.randrange(len(items) + 1) for _ in range(rng.randrange(3)))
        parts = [items[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(items)])]
        texts = [header + b"".join(part) for part in parts]
        if parts[-1] and parts[-1][-1] != b"\n" and rng.random() < 0.3:  # an empty line without its end is none
            texts[-1] = texts[-1].removesuffix(b"\n")
        if len(texts) == 1 and rng.random() < 0.4:
            return ["-"] * rng.randrange(2), rng.choice([bytes, gzip.compress])(texts[0])
        return [self.write(f"in{i}", rng.choice([bytes, bytes, gzip.compress, bz2.compress])(text)) for i, text in enumerate(texts)], b""

    def any_items(self):
        """Items of some format, their header, and the words for them."""
        rng = self.random
        kind = rng.randrange(5)
        if kind == 0:
            return self.table(), b"id,a,b\n", ["--csv", "--header"]
        if kind == 1:
            return self.table(), b"", ["--csv"]
        if kind == 2:
            return [rng.randbytes(8) for _ in range(rng.choice([0, 1, 5, 300]))], b"", ["--format", "u64"]
        if kind == 3:
            return [b'{"id":%d}\n' % i for i in range(rng.choice([0, 1, 5, 300]))], b"", ["--jsonl"]
        return self.lines(), b"", []

    def any_input(self):
        """Items, their header, the words of the command line for them, and the standard input."""
        items, header, words = self.any_items()
        paths, stdin = self.inputs(items, header) if words[:1] != ["--format"] else ([self.write("in", b"".join(items))], b"")
        return items, header, [*words, *paths], stdin

    @random_cases(CASES)
    def test_head(self):
        items, header, words, stdin = self.any_input()
        count = self.random.choice([0, 1, 2, 6, 59, 900, 10**12])
        with self.subTest(words=words, count=count):
            self.assertEqual(run("head", "-n", count, *words, stdin=stdin).stdout, header + b"".join(items[:count]))

    def test_head_shows_ten_items(self):
        self.assertEqual(run("head", self.write("in", b"".join(b"%d\n" % i for i in range(20)))).stdout, b"".join(b"%d\n" % i for i in range(10)))

    def test_head_ends_before_its_input(self):
        """It needs no more of a pipe than the first items, and ends the pipe's writer."""
        for words, sent, wanted in ((["-n", "2"], b"a\nb\nc", b"a\nb\n"), (["-n", "1", "--csv", "--header"], b'h\n"x\ny"\n', b'h\n"x\ny"\n')):
            child = subprocess.Popen([PROGRAM, "head", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            child.stdin.write(sent)
            child.stdin.flush()
            self.assertEqual(child.stdout.read(), wanted)
            self.assertEqual(child.wait(60), 0)
            child.stdin.close()
            child.stdout.close()
        begin = time.monotonic()
        self.assertEqual(subprocess.run(["bash", "-c", f"yes | '{PROGRAM}' head -n 3"], capture_output=True, timeout=60).stdout, b"y\n" * 3)
        self.assertLess(time.monotonic() - begin, 50)
        # A bad row after the last one is not looked at.
        self.assertEqual(run("head", "-n", 1, "--csv", self.write("in", b'a\n"b"x\n')).stdout, b"a\n")

    @random_cases(CASES)
    def test_sample_is_a_part_in_order(self):
        items, header, words, stdin = self.any_input()
        count, seed = self.random.choice([0, 1, 2, 7, 59, 10**12]), self.random.choice([0, 1, 2**64 - 1])
        with self.subTest(words=words, count=count):
            told = run("sample", "-n", count, "--seed", seed, *words, stdin=stdin).stdout
            self.assertTrue(told.startswith(header))
            told = told[len(header):]
            left = iter(items)
            taken = 0
            while told:
                item = next(left)  # fails if something is not of the input
                if told.startswith(item):
                    told = told[len(item):]
                    taken += 1
            self.assertGreaterEqual(min(count, len(items)), taken)

    def test_sample_has_as_many_items_as_asked_for(self):
        numbers = [b"%d\n" % i for i in range(3000)]
        path = self.write("in", b"".join(numbers))
        for count in (1, 2, 500, 2999, 3000, 3001):
            told = run("sample", "-n", count, path).stdout.splitlines(True)
            self.assertEqual(len(told), min(count, 3000))
            self.assertEqual(told, sorted(set(told), key=int))
            self.assertLessEqual(set(told), set(numbers))

    def test_sample_is_uniform(self):
        """Each item is drawn about as often as any other, and each pair: 1500 seeds, which are always the same."""
        seeds, of, count = (200 if SANITIZED else 1500), 12, 4
        path = self.write("in", b"".join(b"%d\n" % i for i in range(of)))
        items, pairs = collections.Counter(), collections.Counter()
        for seed in range(seeds):
            drawn = [int(line) for line in run("sample", "-n", count, "--seed", seed, path).stdout.split()]
            items.update(drawn)
            pairs.update((a, b) for a in drawn for b in drawn if a < b)
        wanted = seeds * count / of
        # An item is drawn or not: the variance is that of sampling without putting back.
        distance = sum((items[i] - wanted) ** 2 / wanted for i in range(of)) * (of - 1) / (of - count)
        self.assertLess(distance, chi_square_bound(of - 1))
        self.assertGreater(distance, 0.5)  # chance does not make all equal
        wanted = seeds * (count * (count - 1)) / (of * (of - 1))
        distance = sum((pairs[a, b] - wanted) ** 2 / wanted for b in range(of) for a in range(b))
        self.assertLess(distance, chi_square_bound(of * (of - 1) // 2 - 1))

    def test_a_large_sample_takes_from_all_parts_of_the_input(self):
        of, count, parts = 200_000, 20_000, 40
        path = self.write("in", b"".join(b"%d\n" % i for i in range(of)))
        drawn = [int(line) for line in run("sample", "-n", count, "--seed", 5, path).stdout.split()]
        self.assertEqual(len(set(drawn)), count)
        found = collections.Counter(number * parts // of for number in drawn)
        distance = sum((found[i] - count / parts) ** 2 / (count / parts) for i in range(parts))
        self.assertLess(distance, chi_square_bound(parts - 1))

    @random_cases(CASES)
    def test_shuffle_has_each_item_once(self):
        items, header, words, stdin = self.any_input()
        with self.subTest(words=words):
            count = self.random.choice([None, None, 0, 1, 5, 10**12])
            seed = self.random.randrange(2**64)
            own = [*words, "--seed", seed, *([] if count is None else ["-n", count])]
            told = run("shuf", *own, stdin=stdin).stdout
            self.assertTrue(told.startswith(header))
            body = told[len(header):]
            found = [body[i:i + 8] for i in range(0, len(body), 8)] if "u64" in words else rows_of(body) if "--csv" in words else body.splitlines(True) \
                if "--jsonl" in words else [line + b"\n" for line in body.split(b"\n")[:-1]]
            there, here = collections.Counter(items), collections.Counter(found)
            if count is None:
                self.assertEqual(here, there)
            else:
                self.assertEqual(len(found), min(count, len(items)))
                self.assertLessEqual(here, there)
            self.assertEqual(run("shuf", *own, "-S", "1G", "--parallel", 1, stdin=stdin).stdout, told)

    def test_shuffle_is_uniform(self):
        """All 24 orders of 4 lines, two of which are equal, come about as often: with seeds that are always the same."""
        seeds = 200 if SANITIZED else 1200
        path = self.write("in", b"a\nb\nc\nc\n")
        found = collections.Counter(run("shuf", "--seed", seed, path).stdout for seed in range(seeds))
        self.assertEqual(len(found), 12)
        wanted = seeds / 12
        distance = sum((times - wanted) ** 2 / wanted for times in found.values())
        self.assertLess(distance, chi_square_bound(11))
        self.assertGreater(distance, 0.5)

    def test_neither_memory_nor_threads_change_the_order(self):
        lines = [b"%d %s\n" % (i, b"x" * self.random.randrange(90)) for i in range(1_200_000)]
        path = self.write("in", b"".join(lines))
        outputs = []
        for words in (["-S", SMALL_MEMORY, "--parallel", 1], ["-S", SMALL_MEMORY, "--parallel", 2], ["-S", "1G"]):
            out = self.folder / "out"
            run("shuf", "--seed", 9, *words, path, "-o", out)
            outputs.append(out.read_bytes())
        self.assertEqual(outputs[1:], outputs[:1] * 2)
        found = [int(line.split(None, 1)[0]) for line in outputs[0].splitlines()]
        self.assertEqual(sorted(found), list(range(len(lines))))
        # A line is about a third of the lines from its place in the input.
        self.assertAlmostEqual(sum(abs(i - place) for i, place in enumerate(found)) / len(lines) ** 2, 1 / 3, delta=0.01)
        drawn = [run("sample", "--seed", 9, "-n", 1000, "-S", memory, path).stdout for memory in (SMALL_MEMORY, "1G")]
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(run("shuf", "-n", 1000, "--seed", 9, "-S", SMALL_MEMORY, path).stdout, b"".join(outputs[0].splitlines(True)[:1000]))

    def test_memory_is_kept(self):
        if SANITIZED:
            self.skipTest("a sanitizer takes memory of its own")
        path = self.write("in", b"".join(b"%d %s\n" % (i, b"y" * (i % 150)) for i in range(1_500_000)))
        for words in (["shuf", path], ["shuf", "-n", 500_000, path], ["sample", "-n", 60_000, path], ["head", "-n", 1_000_000, path],
                      ["split", "-l", 100_000, path]):
            with self.subTest(words=words):
                out = self.folder / ("part-{}" if words[0] == "split" else "out")
                told = run(*words, "-S", SMALL_MEMORY, "--progress=always", "-o", out).stderr.decode()
                self.assertLessEqual(float(re.findall(r"([\d.]+) MiB of memory", told)[-1]), 32)
        told = run("sample", "-n", 1_000_000, "-S", SMALL_MEMORY, path, "-o", self.folder / "new", code=2).stderr.decode()
        self.assertRegex(told, r"-n 1000000: cannot hold a sample of more than .* \(try: a larger -S")
        self.assertFalse((self.folder / "new").exists())

    def gnu_split(self, words, text):
        folder = self.folder / "gnu"
        folder.mkdir(exist_ok=True)
        subprocess.run(["split", *map(str, words), "-", "x"], cwd=folder, input=text, check=True, env={**os.environ, "LC_ALL": "C"})
        parts = [path.read_bytes() for path in sorted(folder.iterdir())]
        for path in folder.iterdir():
            path.unlink()
        return parts

    def parts(self, *words, stdin=b""):
        folder = self.folder / "ours"
        folder.mkdir(exist_ok=True)
        run("split", *words, "-o", folder / "p{}", stdin=stdin)
        names = sorted(folder.iterdir())
        self.assertEqual([path.name for path in names], [f"p{i:05}" for i in range(len(names))])
        parts = [path.read_bytes() for path in names]
        for path in names:
            path.unlink()
        return parts

    @random_cases(CASES)
    def test_split_of_lines_is_that_of_gnu(self):
        lines = self.lines()
        text = b"".join(lines)
        size = self.random.choice([301, 302, 600, 4096, 10**6])
        for words in (["-l", self.random.choice([1, 2, 7, 10**12]) if len(lines) < 300 else 100], ["-C", size]):
            with self.subTest(words=words):
                self.assertEqual(self.parts(*words, stdin=text), self.gnu_split(words, text))

    def test_parts_of_an_earlier_run_are_named(self):
        path = self.write("in", b"".join(b"%d\n" % i for i in range(9)))
        folder = f"{self.folder}/"

        def left(*words, pattern="p{}"):
            told = run(*words, "-o", folder + pattern, path).stderr.decode()
            return re.sub("^.*?: |, which has .: an earlier run left|\n$", "", told.replace(folder, ""))

        for name in ("p99999", "p000001", "p00008x", "p-1", "p"):
            self.write(name, b"")
        self.assertEqual(left("split", "-l", 1), "")
        for _ in range(2):
            self.assertEqual(left("split", "-l", 2), "p00005 to p00008 are no part of this output them")
        # Other digits, and gaps.
        self.assertEqual(left("partition", "--parts", 3), "p00000 to p00008 are no part of this output them")
        self.assertEqual(left("split", "-l", 9), "p0 to p00008 are no part of this output them")
        for number in ("0", "1", "2", "00001", "00003", "00004", "00005", "00006", "00007"):
            (self.folder / f"p{number}").unlink()
        self.assertEqual(left("split", "-l", 9), "p00002 to p00008 are no part of this output them")
        self.assertEqual(left("split", "-l", 3), "p00008 is no part of this output it")
        self.assertEqual((self.folder / "p00008").read_bytes(), b"8\n")
        # The number is in the name of a folder.
        for name in ("d00000", "d00001", "d7"):
            (self.folder / name).mkdir()
        self.assertEqual(left("split", "-l", 5, pattern="d{}/x"), "")
        self.assertEqual(left("split", "-l", 9, pattern="d{}/x"), "d00001/x is no part of this output it")

    @random_cases(CASES)
    def test_split_of_tables(self):
        items, header, words, stdin = self.any_input()
        with self.subTest(words=words):
            count = self.random.choice([1, 2, 7, 10**12]) if len(items) < 400 else 50
            wanted = [header + b"".join(items[i:i + count]) for i in range(0, len(items), count)]
            if "u64" not in words or items:
                self.assertEqual(self.parts("-l", count, *words, stdin=stdin), wanted or [header] * bool(header))
            size = self.random.choice([200, 1000, 10**6])
            wanted = []
            for item in items:
                if not wanted or len(wanted[-1]) + len(item) > size and len(wanted[-1]) > len(header):
                    wanted.append(header)
                wanted[-1] += item
            self.assertEqual(self.parts("--bytes", size, *words, stdin=stdin), wanted or [header] * bool(header))

    def test_a_header_is_that_of_all_inputs(self):
        a, b = self.write("a", b"id,n\n1,x\n"), self.write("b", b"id,m\n2,y\n")
        for words in (["head", "-n", 9], ["sample", "-n", 9], ["shuf"], ["split", "-l", 9, "-o", self.folder / "part-{}"]):
            with self.subTest(words=words):
                told = run(*words, "--csv", "--header", a, b, code=2).stderr.decode()
                self.assertIn("different headers: column 2 is 'm'", told)
        self.assertEqual(run("sample", "-n", 9, "--csv", "--header", a, a).stdout, b"id,n\n1,x\n1,x\n")
        mark = self.write("mark", b"\xef\xbb\xbfid,n\n1,x\n")
        for words in (["head"], ["sample", "-n", 9], ["shuf"]):
            self.assertEqual(run(*words, "--csv", "--header", mark, a).stdout, b"\xef\xbb\xbfid,n\n1,x\n1,x\n")

    def test_bad_items_are_errors_with_their_place(self):
        bad = self.write("bad", b'id,n\n1,x\n2,"y\n3,z\n')
        for words in (["head", "-n", 9], ["sample", "-n", 1], ["shuf"], ["split", "-l", 9, "-o", self.folder / "part-{}"]):
            with self.subTest(words=words):
                told = run(*words, "--csv", "--header", bad, code=2).stderr.decode()
                self.assertIn("bad: row 3: a quote that nothing closes", told)
                told = run(*words, "--csv", "--header", stdin=bad.read_bytes(), code=2).stderr.decode()
                self.assertIn("row 3: a quote that nothing closes", told)
                told = run(*words, "--format", "u64", self.write("odd", bytes(9)), code=0 if words[2:] == [1] and words[0] == "head" else 2).stderr.decode()
                self.assertIn("cannot read", told)
                told = run(*words, self.folder / "nope", code=2).stderr.decode()
                self.assertIn("nope", told)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["bad", "odd"])

    def test_outputs(self):
        text = b"".join(b"%d\n" % i for i in range(1000))
        path = self.write("in", text)
        for words in (["head", "-n", 1000], ["sample", "-n", 1000], ["shuf"]):
            run(*words, path, "-Z", "-o", self.folder / "out.gz")
            told = gzip.decompress((self.folder / "out.gz").read_bytes())
            self.assertEqual(sorted(told.splitlines(True), key=int), text.splitlines(True))
            same = self.write("same", text)
            run(*words, same, "-o", same)
            self.assertEqual(sorted(same.read_bytes().splitlines(True), key=int), text.splitlines(True))
            zeros = self.write("zeros", text.replace(b"\n", b"\0"))
            self.assertEqual(sorted(run(*words, "-z", zeros).stdout.split(b"\0")[:-1], key=int), text.split())
        self.assertNotEqual(run("shuf", path).stdout, run("shuf", path).stdout)
        self.assertNotEqual(run("sample", "-n", 100, path).stdout, run("sample", "-n", 100, path).stdout)

    def test_a_signal_ends_the_wait_for_a_pipe(self):
        for words in (["head", "-n", 5], ["sample", "-n", 5], ["shuf"], ["split", "-l", 5]):
            for sent in (b"", b"a\nb\n"):
                with self.subTest(words=words, sent=sent):
                    child = subprocess.Popen([PROGRAM, *map(str, words), "-o", self.folder / "out-{}"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
                    child.stdin.write(sent)
                    child.stdin.flush()
                    end_to_end.wait_until_it_catches(child, signal.SIGTERM)
                    child.send_signal(signal.SIGTERM)
                    self.assertEqual(child.wait(60), -signal.SIGTERM)
                    child.stdin.close()
                    child.stderr.close()
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_reader_that_has_enough_ends_the_program(self):
        path = self.write("in", b"some line\n" * 400_000)
        for words in (["head", "-n", 400_000], ["sample", "-n", 300_000], ["shuf"]):
            done = subprocess.run(["bash", "-c", 'penstock=$1; shift; "$penstock" "$@" | head -n 1; exit ${PIPESTATUS[0]}', "-", PROGRAM, *map(str, words), path],
                                  capture_output=True, timeout=300)
            self.assertEqual((done.stdout, done.stderr, done.returncode), (b"some line\n", b"", 128 + signal.SIGPIPE), words)

    def test_mistakes(self):
        path = self.write("in", b"a\nb\n")
        for words, part in ((["head", "-n", "-1", path], "whole number"), (["sample", path], "-n"), (["sample", "-n", "x", path], "whole number"),
                            (["shuf", "-r", path], "cannot draw an item twice"), (["shuf", "-e", "a"], "printf"), (["shuf", "-i", "1-9"], "seq"),
                            (["split", path, "-o", "p{}"], "--lines"), (["split", "-n", "l/2", path, "-o", "p{}"], "partition"),
                            (["split", "-b", "1K", path, "-o", "p{}"], "-C"), (["shuf", "--random-source", path, path], "--seed"), (["split", "-l", "1", "-C", "1K", path, "-o", "p{}"], "cannot limit both"),
                            (["split", "-l", "0", path, "-o", "p{}"], "0 items"), (["split", "-l", "1", path, "-o", "p"], "{}"),
                            (["split", "-l", "1", path], "part-{}"), (["shuf", "-S", "1M", path], "at least"), (["sample", "-n", "1", "-S", "1M", path], "at least"),
                            (["split", "-C", "x", path, "-o", "p{}"], "-C x"), (["split", "-l", "1", "-o", "p{}", self.write("many", b"\n" * 65_537)], "larger parts")):
            with self.subTest(words=words):
                told = run(*words, code=2, cwd=self.folder).stderr.decode()
                self.assertIn(part, told)
                self.assertIn("(try: ", told)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["in", "many"])


if __name__ == "__main__":
    end_to_end.main("draw_end_to_end")
