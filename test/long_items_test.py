#!/usr/bin/env python3
"""Lines, rows and JSON lines of many MiB in the commands over files, beside a plain model: long_items_test.py PENSTOCK [TEST...]. Prints its
seed; PENSTOCK_TEST_SEED repeats a run."""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys

import end_to_end
from end_to_end import run

PROGRAM = os.path.abspath(sys.argv[1])

MIB = 1 << 20
SANITIZED = "ASAN_OPTIONS" in os.environ
ROUNDS = end_to_end.trials(16)
FORMATS = {"lines": [], "csv": ["--csv", "--header"], "jsonl": ["--jsonl"]}


@end_to_end.unittest.skipIf(SANITIZED, "a sanitizer has memory of its own")
class LongItems(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"

    def item(self, form, key, side, size):
        """An item of about `size` bytes; a long one has text that differs from byte to byte."""
        unit = b"%07d%s" % (self.random.randrange(10**7), b"\n,;" if form == "csv" else b" . ")
        text = (unit * (size // len(unit) + 1))[:max(size, 1)]
        if form == "csv":
            return b'%08d,%s,"%s"\n' % (key, side, text)
        if form == "jsonl":
            return b'{"id":"%08d","side":"%s","text":"%s"}\n' % (key, side, text)
        return b"%08d %s %s\n" % (key, side, text)

    def sorted_items(self, form, side, longest, keys=None):
        """Pairs of key and item in order, each key once; some are long, and more than one of them in a row."""
        rng = self.random
        keys = sorted(keys or rng.sample(range(10**6), rng.randrange(20, 300)))
        first, count = rng.randrange(len(keys) - 2), rng.choice([1, 1, 2])
        last = {len(keys) - 1} if rng.random() < 0.3 else set()
        long = {first + i for i in range(count)} | last
        return [(key, self.item(form, key, side, rng.randrange(3 * MIB, longest) if i in long else rng.randrange(40)))
                for i, key in enumerate(keys)]

    def head(self, form):
        return b"id,side,text\n" if form == "csv" else b""

    def files(self, form, sides, may_pipe=True):
        """The words that name the inputs, and standard input: a file each, compressed at times, one of them a pipe."""
        names, stdin = [], b""
        for number, items in enumerate(sides):
            text = self.head(form) + b"".join(item for _, item in items)
            if form == "lines" and self.random.random() < 0.2:
                text = text[:-1]
            way = self.random.choice(["file", "file", "gzip", "pipe"])
            if way == "pipe" and may_pipe and "-" not in names:
                names.append("-")
                stdin = text
            elif way == "gzip":
                names.append(self.write(f"in{number}.gz", gzip.compress(text, 1)))
            else:
                names.append(self.write(f"in{number}", text))
        return names, stdin

    def go(self, *words, stdin, **options):
        stats = json.loads(run(*words, "--json", stdin=stdin, **options).stdout)
        self.assertLessEqual(stats["peak_rss_bytes"], stats["budget_bytes"], words)

    def assertSame(self, have, wanted):
        self.assertTrue(have == wanted, f"{len(have)} bytes that are not the {len(wanted)} wanted")

    def test_merge(self):
        for _ in range(ROUNDS):
            form = self.random.choice(list(FORMATS))
            count = self.random.randrange(1, 5)
            sides = [self.sorted_items(form, b"%d" % i, longest=(12 if count < 2 else 32 // (count + 2)) * MIB) for i in range(count)]
            names, stdin = self.files(form, sides)
            keys = [] if form == "lines" else ["--key", "id"]
            with self.subTest(form=form, names=[str(name) for name in names]):
                self.go("merge", *FORMATS[form], *keys, *names, "-o", self.out, "-S", "64M", stdin=stdin)
                merged = sorted((key, side, item) for side, items in enumerate(sides) for key, item in items)
                self.assertSame(self.out.read_bytes(), self.head(form) + b"".join(item for _, _, item in merged))

    def test_one_long_line_among_two_files(self):
        for long in (0, 1):
            sides = [[(i, self.item("lines", i, b"0", 16 * MIB if i == 50 and side == long else 9)) for i in range(side, 100, 2)]
                     for side in (0, 1)]
            names, stdin = self.files("lines", sides)
            self.go("merge", *names, "-o", self.out, "-S", "64M", stdin=stdin)
            self.assertSame(self.out.read_bytes(), b"".join(item for _, item in sorted(sides[0] + sides[1])))

    def test_partition(self):
        for _ in range(ROUNDS):
            form = self.random.choice(list(FORMATS))
            sides = [self.sorted_items(form, b"%d" % i, longest=16 * MIB) for i in range(self.random.randrange(1, 4))]
            names, stdin = self.files(form, sides)
            parts = self.random.randrange(1, 9)
            keys = [] if form == "lines" else ["--key", "id"]
            with self.subTest(form=form, names=[str(name) for name in names], parts=parts):
                self.go("partition", *FORMATS[form], *keys, *names, "--parts", parts, "-o", self.folder / "part-{}", "-S", "64M", stdin=stdin)
                found = [(self.folder / f"part-{part}").read_bytes() for part in range(parts)]
                self.assertEqual(sum(map(len, found)),
                                 parts * len(self.head(form)) + sum(len(item) for items in sides for _, item in items))
                at = [len(self.head(form))] * parts
                for items in sides:
                    for _, item in items:  # an item is the next one of a part
                        part = next((p for p in range(parts) if found[p].startswith(item, at[p])), None)
                        self.assertIsNotNone(part, item[:20])
                        at[part] += len(item)

    def test_join(self):
        for _ in range(ROUNDS):
            form = self.random.choice(["csv", "jsonl"])
            keys = self.random.sample(range(10**6), 100)
            sides = [self.sorted_items(form, side, 9 * MIB, self.random.sample(keys, 60)) for side in (b"l", b"r")]
            # A key that both sides have is held on one of them.
            right = {key: item for key, item in sides[1]}
            both = {key for key, item in sides[0] if len(item) > MIB} & {key for key, item in right.items() if len(item) > MIB}
            sides = [[pair for pair in items if pair[0] not in both] for items in sides]
            names, stdin = self.files(form, sides, may_pipe=False)
            right = {key: item for key, item in sides[1]}
            pairs = [(left, right[key]) for key, left in sides[0] if key in right]
            with self.subTest(form=form, names=[str(name) for name in names]):
                self.go("join", *FORMATS[form], "--key", "id", *names, "--output", self.out, "-S", "64M", stdin=stdin)
                if form == "csv":
                    wanted = [b"id,side,text,side,text\n"]
                    wanted += [left[:-1] + b"," + right.split(b",", 1)[1] for left, right in pairs]
                else:
                    wanted = [b'{"left":%s,"right":%s}\n' % (left[:-1], right[:-1]) for left, right in pairs]
                self.assertSame(self.out.read_bytes(), b"".join(wanted))

    def test_group_and_uniq(self):
        for _ in range(ROUNDS):
            form = self.random.choice(["csv", "lines"])
            sides = [self.sorted_items(form, b"%d" % i, longest=12 * MIB) for i in range(self.random.randrange(1, 3))]
            if form == "lines":
                sides.append(self.random.sample(sides[0], len(sides[0])))
            names, stdin = self.files(form, sides)
            items = [pair for side in sides for pair in side]
            with self.subTest(form=form, names=[str(name) for name in names]):
                if form == "csv":
                    self.go("group", *FORMATS[form], "--key", "side", "--count", "--sorted", *names, "-o", self.out, "-S", "256M", stdin=stdin)
                    rows = self.out.read_bytes().splitlines()[1:]
                    self.assertEqual(rows, [b"%d,%d" % (number, len(side)) for number, side in enumerate(sides)])
                else:
                    self.go("uniq", "--in-order", *names, "-o", self.out, "-S", "256M", stdin=stdin)
                    self.assertSame(self.out.read_bytes(), b"".join(dict.fromkeys(item for _, item in items)))

    def test_checks(self):
        form = self.random.choice(list(FORMATS))
        items = self.sorted_items(form, b"0", longest=12 * MIB)
        for order in (items, items[::-1]):
            names, _ = self.files(form, [order], may_pipe=False)
            keys = [] if form == "lines" else ["--key", "id"]
            in_order = order is items
            checked = json.loads(run("check", *FORMATS[form], *keys, *names, "--json", code=0 if in_order else 1).stdout)
            self.assertEqual((checked["count"], checked["sorted"]), (len(items), in_order))
            run("sort", "-c", *FORMATS[form], *keys, *names, "-S", "64M", code=0 if in_order else 1)

    def test_too_long_an_item_names_its_place_and_the_memory_that_is_enough(self):
        for form, noun in (("lines", "line"), ("csv", "row"), ("jsonl", "line")):
            keys = [] if form == "lines" else ["--key", "id"]
            items = [(i, self.item(form, i, b"0", {5: 2 * MIB, 7: 60 * MIB}.get(i, 9))) for i in range(9)]
            text = self.head(form) + b"".join(item for _, item in items)
            long = self.write("long", text)
            other = self.write("other", self.head(form) + self.item(form, 3, b"1", 9))
            line = text.index(items[7][1])
            number = text.count(b"\n", 0, line) + 1
            for words in (["merge", *keys, other, long, "-o", self.out], ["partition", *keys, other, long, "--parts", "3", "-o", self.folder / "p-{}"]):
                said = run(*words, *FORMATS[form], "-S", "64M", code=2).stderr.decode()
                match = re.search(rf"{re.escape(str(long))}: cannot read a {noun} of more than (\d+) bytes: line (\d+) has (\d+) \(try: -S (\d+)M\)", said)
                self.assertIsNotNone(match, said)
                self.assertGreaterEqual(int(match[1]), 2 * MIB)
                self.assertEqual((int(match[2]), int(match[3])), (number, len(items[7][1])))
                self.assertFalse(self.out.exists())
                run(*words, *FORMATS[form], "-S", f"{match[4]}M")
                self.out.unlink(missing_ok=True)

    def test_a_merge_of_long_lines_at_once_ends_with_its_output_or_a_message(self):
        """Inputs whose long lines do not fit in memory together: the window of one becomes smaller while it is searched."""
        for count, memory in ((4, 46), (4, 48), (4, 56), (2, 32), (9, 64)):
            line = b"b," + b"x" * (60_000_000 // count) + b"\n"
            behind = b"c,2\n" * self.random.choice([1, 10**6])
            path = self.write("long", b"a,1\n" + line + behind)
            words = ["merge", *self.random.choice([[], ["--csv", "--key", "1"]]), *[path] * count, "-o", self.out]
            said = run(*words, "-S", f"{memory}M", code=2).stderr.decode()
            match = re.search(rf"cannot read a (?:line|row) of more than \d+ bytes: line 2 has {len(line)} \(try: -S (\d+)M\)", said)
            with self.subTest(count=count, memory=memory, said=said):
                run(*words, "-S", f"{match[1]}M")
                self.assertTrue(self.out.read_bytes() == b"a,1\n" * count + line * count + behind * count)
                # Twice as much as is needed, at most.
                run(*words, "-S", f"{int(match[1]) * 4 // 9}M", code=2)

    def test_a_long_line_of_a_group_is_named(self):
        line = b"b " + b"x" * self.random.randrange(5_000_000, 16_000_000) + b"\n"
        path = self.write("long", b"a 1\n" + line + b"c 2\n" + line)
        for words in (["uniq"], ["uniq", "--in-order"], ["group", "--count"], ["group", "--distinct", "-k1,1"]):
            with self.subTest(words=words, size=len(line)):
                done = run(*words, path, "-S", "48M", "-o", self.out, code=(0, 2))
                if done.returncode == 2:
                    match = re.search(rf"long: cannot read a line of more than \d+ bytes: line 2 has {len(line)} \(try: -S (\d+)M\)", done.stderr.decode())
                    self.assertIsNotNone(match, done.stderr)
                    run(*words, path, "-S", f"{match[1]}M", "-o", self.out)


if __name__ == "__main__":
    end_to_end.main("long_items_end_to_end")
