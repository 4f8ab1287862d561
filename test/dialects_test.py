#!/usr/bin/env python3
"""Dialects of CSV beside Python's csv: dialects_test.py PENSTOCK [TEST...]. Prints its seed; PENSTOCK_TEST_SEED repeats a run."""

import collections
import csv
import gzip
import io
import itertools
import json
import os

import end_to_end
from end_to_end import SEED, random_cases, run

SANITIZED = "ASAN_OPTIONS" in os.environ
SMALL_MEMORY = "1G" if SANITIZED else "40M"
CASES = 40 if SANITIZED else end_to_end.trials(240)


class Dialect:
    def __init__(self, separator=",", quote='"', escape=None, lenient=False):
        self.separator, self.quote, self.escape, self.lenient = separator, quote, escape, lenient
        self.words = ["--csv", "-t", separator] if separator != "\t" else ["--tsv"]
        self.words += ["--quote", quote or "none"] if quote != '"' else []
        self.words += ["--escape", escape] if escape else []
        self.words += ["--lenient"] if lenient else []

    def read(self, text):
        """All rows as Python reads them."""
        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=self.separator, quotechar=self.quote, escapechar=self.escape,
                               strict=not self.lenient, quoting=quoting))

    def fields(self, row):
        """The fields of a row without its end; None if that is none, by itself and in front of another."""
        try:
            rows = self.read(row + "\nz\n")
            return rows[0] if rows[1:] == [["z"]] and rows[0] and rows[0] != [""] and self.read(row) == rows[:1] else None
        except csv.Error:
            return None

    def follows_rules(self, row):
        """Python passes over quotes inside a field without quotes."""
        return not self.quote or self.lenient or Dialect(self.separator, self.quote, self.escape, True).stray(row) is None

    def stray(self, row):
        """The place of the first stray quote, or of text behind quotes."""
        at, state = 0, "start"
        while at < len(row):
            c, where = row[at], at
            at += 1
            if c == self.escape and state != "closed":
                at += 1
                state = "plain" if state == "start" else state
            elif state == "quoted":
                state = "closed" if c == self.quote else state
            elif state == "closed" and c == self.quote:
                state = "quoted"
            elif c == self.separator:
                state = "start"
            elif state == "start" and c == self.quote:
                state = "quoted"
            elif state == "closed" or c == self.quote:
                return where
            else:
                state = "plain"
        return None


class Dialects(end_to_end.Case):
    def dialect(self):
        rng = self.random
        while True:
            separator, quote, escape = rng.choice([",", ";", "\t", "|"]), rng.choice(['"', "'", "|", None]), rng.choice([None, None, "\\", "^"])
            if separator != quote:
                return Dialect(separator, quote, escape, rng.random() < 0.5)

    def field(self, dialect):
        """A field as it is written: mostly as a program writes it, otherwise any text."""
        rng = self.random
        text = "".join(rng.choice(["a", "B", " ", "\n", '"', "'", "\\", "^", ",", ";", "|", "\t", "é", "x" * 9, "10", "-2"]) for _ in range(rng.randrange(4)))
        if rng.random() < 0.2:
            return text
        special = {dialect.separator, "\n", dialect.quote, dialect.escape} - {None}
        quoted = dialect.quote and (rng.random() < 0.3 or not dialect.escape and special & set(text))
        written = ""
        for c in text:
            if c == dialect.escape or dialect.escape and c in special and (not quoted or rng.random() < 0.5):
                written += dialect.escape
            elif quoted and c == dialect.quote:
                written += c
            written += c
        return f"{dialect.quote}{written}{dialect.quote}" if quoted else written

    def row(self, dialect, columns=None):
        """A row without its end, and its fields."""
        while True:
            row = dialect.separator.join(self.field(dialect) for _ in range(columns or self.random.randrange(1, 5)))
            fields = dialect.fields(row)
            if fields and dialect.follows_rules(row) and (columns or len(fields)) == len(fields):
                return row, fields

    def rows(self, dialect, columns=None):
        return [self.row(dialect, columns() if callable(columns) else columns) for _ in range(self.random.choice([1, 5, 60, 300]))]

    def bytes_of(self, rows, end=b"\n"):
        return b"".join(row.encode() + end for row, _ in rows)

    @random_cases(CASES)
    def test_rows_sort_by_their_columns(self):
        dialect = self.dialect()
        columns = self.random.randrange(1, 4)
        rows = self.rows(dialect, lambda: columns + self.random.choice([0, 0, 1]))
        end = self.random.choice([b"\n", b"\n", b"\r\n"])
        data = self.bytes_of(rows, end)
        if self.random.random() < 0.3:
            data = data[:-1]  # the last row gets its end
        column, back = self.random.randrange(columns), self.random.random() < 0.3
        key = lambda one: (one[1][column] if column < len(one[1]) else "").encode()
        plain = sorted(rows, key=lambda one: one[0].encode() + end[:-1])
        wanted = sorted(plain, key=key, reverse=back)
        words = [*dialect.words, "--key", f"{column + 1}{':desc' if back else ''}", "-S", SMALL_MEMORY]
        stable = sorted(rows, key=key, reverse=back)
        way = self.random.choice(["file", "pipe", "merge", "top", "unique", "partition", "distinct"])
        with self.subTest(words=words, way=way, data=data):
            if way == "file":
                got = run("sort", *words, self.write("in", data)).stdout
            elif way == "pipe":
                got = run("sort", *words, stdin=data).stdout
            elif way == "merge":
                parts = [self.write(f"part{part}", run("sort", *words, stdin=self.bytes_of(rows[part::2], end)).stdout) for part in range(2)]
                got = run(*self.random.choice([["merge"], ["sort", "-m"]]), *words, *parts).stdout
            elif way == "top":
                count = self.random.randrange(len(rows) + 2)
                wanted = wanted[:count]
                got = run("sort", *words, "--top", count, self.write("in", data)).stdout
            elif way == "partition":
                run("partition", *words, "--by", "range", "--parts", 3, "-o", self.folder / "range-{}", self.write("in", data))
                parts = sorted(self.folder.glob("range-*"))
                got = b"".join(run("sort", *words, part).stdout for part in parts)
                for part in parts:
                    part.unlink()
            else:
                wanted = [one for i, one in enumerate(stable) if i == 0 or key(one) != key(stable[i - 1])]
                command = ["sort", "-u"] if way == "unique" else ["group", "--distinct"]
                got = run(*command, *words, self.write("in", data)).stdout
            expected = self.bytes_of(wanted, end)
            # A last row without an end gets that of a line, or of the first row.
            self.assertEqual(got if data.endswith(b"\n") else got.replace(b"\r\n", b"\n"),
                             expected if data.endswith(b"\n") else expected.replace(b"\r\n", b"\n"))
            if data.endswith(b"\n"):
                out = self.write("out", got)
                run("sort", "-c", *words, *(["-s"] if way in ("unique", "distinct") else []), out)
                if way not in ("unique", "distinct"):
                    self.assertEqual(json.loads(run("check", *words[:-2], "--json", out).stdout)["count"], len(wanted))
                run("plan", *words, out)

    @random_cases(CASES // 2 + 1)
    def test_groups_are_written_in_the_dialect(self):
        dialect = self.dialect()
        rows = self.rows(dialect, columns=3)
        keys = self.random.choice([[1], [2], [1, 3]])
        counts = collections.Counter(tuple(fields[key - 1] for key in keys) for _, fields in rows)
        words = [*dialect.words, *(word for key in keys for word in ("--key", key)), "-S", SMALL_MEMORY]
        with self.subTest(words=words, rows=rows):
            got = dialect.read(run("group", "--count", *words, self.write("in", self.bytes_of(rows))).stdout.decode())
            self.assertEqual({tuple(row[:-1]): int(row[-1]) for row in got}, dict(counts))
            self.assertEqual(len(got), len(counts))

    @random_cases(CASES // 2 + 1)
    def test_joins_find_equal_values(self):
        dialect = self.dialect()
        sides = [self.rows(dialect, columns=2)[:40] for _ in range(2)]
        words = [*dialect.words, "--key", 1, *self.random.choice([[], ["-a", 1]]), "-S", SMALL_MEMORY]
        wanted = [[*left, right[1]] for _, left in sides[0] for _, right in sides[1] if left[0] == right[0]]
        if "-a" in words:
            rights = {right[0] for _, right in sides[1]}
            wanted += [[*left, ""] for _, left in sides[0] if left[0] not in rights]
        with self.subTest(words=words, sides=sides):
            files = [self.write(name, self.bytes_of(rows)) for name, rows in zip("ab", sides)]
            self.assertEqual(sorted(dialect.read(run("join", *words, *files).stdout.decode())), sorted(wanted))

    def test_columns_have_names(self):
        cases = ((["--quote", "'"], "'a id',b\n'2,5',x\n'it''s',y\n", "a id", ["it's", "2,5"]),
                 (["--quote", "none"], 'id,5" pipe\n2,x\n"1,y\n', "id", ["2", '"1']),
                 (["--escape", "\\"], 'id,b\n"say \\"so\\"",x\na\\,b,y\n', "id", ['say "so"', "a,b"]),
                 (["--lenient"], 'id,b\n5" pipe,x\n"a"b,y\n', "id", ["ab", '5" pipe']))
        for words, text, name, keys in cases:
            for declared in (["--csv", "--header"], []):
                path = self.write("orders.csv", text.encode())
                got = run("group", *declared, *words, "--key", f"{name}:r", "--count", path).stdout.decode()
                dialect = Dialect(quote={"'": "'", "none": None}.get(words[1] if len(words) > 1 else "", '"'),
                                  escape="\\" if "--escape" in words else None, lenient="--lenient" in words)
                self.assertEqual(dialect.read(got), [[name, "count"], *([key, "1"] for key in sorted(keys, reverse=True))])

    def test_strict_dialects_refuse_strays(self):
        for case in range(CASES // 2 + 1):
            dialect = Dialect(",", self.random.choice(['"', "'"]), self.random.choice([None, "\\"]))
            rows = self.rows(dialect)
            q = dialect.quote
            bad, byte = self.random.choice([(f"a,b{q}c", 3), (f"{q}a{q}b,c", 3), (f"a{q}", 1)])
            at = self.random.randrange(len(rows))
            rows.insert(at, (bad, None))
            path = self.write("in", self.bytes_of(rows))
            for command in (["sort"], ["sort", "-m"], ["merge"], ["sort", "--top", 3], ["group", "--count"], ["partition", "--parts", 2], ["check"]):
                with self.subTest(case=case, command=command, words=dialect.words):
                    writes = ["-o", self.folder / ("out{}" if command[0] == "partition" else "out")] if command[0] != "check" else []
                    done = run(*command, *dialect.words, "--key", 1, *writes, path, code=2)
                    if command[0] != "merge" and command[-1] != "-m":  # another row may be out of order first
                        self.assertIn(b"row %d" % (at + 1), done.stderr)
                    self.assertEqual([one.name for one in self.folder.iterdir()], ["in"])

    def test_an_end_must_not_be_escaped(self):
        for bad in ("a\\", "b\na\\\r\nc\n", '"a\\"\n'):
            done = run("sort", "--csv", "--escape", "\\", "--key", 1, stdin=bad.encode(), code=2)
            self.assertRegex(done.stderr, b"escape character that nothing follows|quote that nothing closes")

    def test_more_rows_than_memory(self):
        rng = self.random
        count = 20000 if SANITIZED else 300000
        for dialect, text in ((Dialect(escape="\\"), lambda n: f'"{n:09} \\"\n\\\\",{"x" * rng.randrange(200)}'),
                              (Dialect("\t", None, "\\"), lambda n: f'{n:09}\\\t"\\\n\t{"x" * rng.randrange(200)}'),
                              (Dialect("\t", None), lambda n: f'{n:09}"\t{"x" * rng.randrange(200)}'),
                              (Dialect(quote="'", lenient=True), lambda n: f"'{n:09}'b\"'\t,{'x' * rng.randrange(200)}")):
            numbers = [rng.randrange(10**9) for _ in range(count)]
            rows = [text(number) for number in numbers]
            path = self.write("in", "".join(row + "\n" for row in rows).encode())
            stats = self.folder / "stats"
            got = run("sort", *dialect.words, "--key", 1, "-S", "1G" if SANITIZED else "32M", "-T", self.folder, "--stats", stats, path).stdout
            self.assertTrue(got == "".join(row + "\n" for _, row in sorted(zip(numbers, rows))).encode(), dialect.words)
            top = run("sort", *dialect.words, "--key", 1, "--top", count // 2, "-S", "1G" if SANITIZED else "32M", "-T", self.folder, path).stdout
            self.assertTrue(got.startswith(top) and top.count(b"x\n") <= count // 2 and len(dialect.read(top.decode())) == count // 2, dialect.words)
            if not SANITIZED:
                self.assertGreater(json.loads(stats.read_text())["temp_bytes"], 0)
            groups = run("group", *dialect.words, "--key", 1, "--count", "-S", "1G" if SANITIZED else "32M", "-T", self.folder, path).stdout
            self.assertEqual(len(dialect.read(groups.decode())), len(set(numbers)))

    def test_words_that_make_no_dialect(self):
        for words in (["--quote", ","], ["--escape", ","], ["--quote", "ab"], ["--escape", "ab"], ["--quote", "\n"]):
            run("sort", "--csv", *words, "--key", 1, stdin=b"a\n", code=2)
        path = self.write("in", b"a,1\n")
        run("join", "--csv", "--quote", "none", "-e", "x,y", path, path, code=2)
        for words in (["--quote", "'"], ["--escape", "\\"], ["--lenient"]):
            run("sort", *words, stdin=b"a\n", code=2)
            run("sort", "--format", "u64", *words, stdin=b"", code=2)
        self.assertEqual(run("sort", "--csv", "--escape", "\\", "--key", 1, stdin=b"b\\\n\na\\\n").stdout, b"a\\\n\nb\\\n\n")
        self.assertEqual(run("sort", "--csv", "--escape", '"', "--key", 1, stdin=b'"b""",1\na,2\n').stdout, b'a,2\n"b""",1\n')


class BadRows(end_to_end.Case):
    def parts(self, text, dialect, columns=0, even=False):
        """The good rows and the bad ones of a text, with their ends; and the numbers of rows with other than `columns` fields."""
        good, bad, uneven = [], [], []
        at = number = 0
        while at < len(text):
            number += 1
            end, state, fields, at_row = None, "start", 1, at
            while at < len(text):
                c = text[at]
                if c == dialect.escape and state != "closed":
                    at += 1
                    state = "plain" if state == "start" else state
                elif state == "quoted":
                    state = "closed" if c == dialect.quote else state
                elif c == dialect.quote and state in ("start", "closed"):
                    state = "quoted"
                elif c == "\n":
                    end = at + 1
                    break
                elif c == dialect.separator:
                    state, fields = "start", fields + 1
                elif state == "closed" or c == dialect.quote:
                    break
                else:
                    state = "plain"
                at += 1
            if end is None and at == len(text) and state != "quoted":
                end = at
            row = text[at_row:end] if end else None
            columns = columns or (fields if row and row != "\n" else 0) or next((line.count(",") + 1 for line in text[at_row:].split("\n") if line), 1)
            if not row or row == "\n" and columns > 1 or even and fields != columns:
                line = text.find("\n", at_row) + 1 or len(text)
                bad.append(text[at_row:line].removesuffix("\n") + "\n")
                at = line
                continue
            at = end
            good.append(row.removesuffix("\n") + "\n" if end == len(text) and not dialect.escape else row)
            if fields != columns:
                uneven.append(number)
        return good, bad, uneven

    def text(self, dialect, rows):
        rng = self.random
        pieces = ["a,b", "B,2", "10,c", '"x,y",z', '"say ""so""",1', '"two\nlines",2', "c,-1"] * 3 + ["", 'a"b,c', '"a"b,c', '5" pipe,x', '"open,1', "a,b,c", "one"]
        pieces = [piece.replace('"', dialect.quote) for piece in pieces] + ([f"a{dialect.escape}\nb,1", f'"a{dialect.escape}"",2'] if dialect.escape else [])
        return "".join(rng.choice(pieces) + "\n" for _ in range(rows))

    def test_the_rest_is_as_if_they_were_not_there(self):
        for case in range(CASES):
            rng = self.random
            dialect = Dialect(quote=rng.choice(['"', '"', "'"]), escape=rng.choice([None, None, "\\"]))
            text = "k,v\n" + self.text(dialect, rng.choice([0, 3, 40, 400]))
            good, bad, uneven = self.parts(text, dialect)
            out = self.folder / "bad"
            to_file = rng.random() < 0.7
            words = [*dialect.words, "--header", "--key", "k", "-S", rng.choice(["32M", "1G"])] if not SANITIZED else [*dialect.words, "--header", "--key", "k"]
            command = rng.choice([["sort"], ["sort", "--parallel", 1], ["sort", "-u"], ["sort", "--top", 5], ["group", "--count"], ["group", "--distinct"], ["partition", "--parts", 2], ["join"]])
            name = rng.choice(["in", "in.gz"])
            path = self.write(name, gzip.compress(text.encode()) if name == "in.gz" else text.encode())
            clean = self.write("clean", "".join(good).encode())
            other = [self.write("other", b"k,w\na,1\nB,2\n")] if command[0] == "join" else []
            if other:
                words += ["-o", "auto"]
            into = ["-o", self.folder / "part{}"] if command[0] == "partition" else []
            with self.subTest(case=case, command=command, words=words, text=text):
                pipe = name == "in" and command[0] != "join" and rng.random() < 0.3
                got = run(*command, *words, *into, "--bad-rows", out if to_file else "skip", "-" if pipe else path, *other, stdin=text.encode() if pipe else b"")
                parts = [part.read_bytes() for part in sorted(self.folder.glob("part*"))]
                wanted = run(*command, *words, *into, clean, *other)
                self.assertEqual(got.stdout, wanted.stdout)
                self.assertEqual(parts, [part.read_bytes() for part in sorted(self.folder.glob("part*"))])
                if to_file:
                    self.assertEqual(out.read_text(), "".join(bad))
                    out.unlink()
                told = [line for line in got.stderr.decode().splitlines() if " left out" in line]
                self.assertEqual([int(line.split(": ")[1].split()[0]) for line in told], [len(bad)] if bad else [])
                told = [line for line in got.stderr.decode().splitlines() if "more or fewer" in line]
                self.assertEqual(len(told), 1 if uneven else 0, got.stderr)
                if uneven:
                    self.assertRegex(told[0], rf": row {uneven[0]}\b.*; {len(uneven)} rows? (has|have) more or fewer$")

    def test_rows_fit_a_header_that_was_recognized(self):
        path = self.write("in.csv", b'k,v\n2,a\n1\n\n3,"x\n1,b,c\n0,y"\n0,z\n')
        got = run("sort", "--key", "k", "--bad-rows", "skip", path)
        self.assertEqual(got.stdout, b'k,v\n0,z\n2,a\n3,"x\n1,b,c\n0,y"\n')
        self.assertIn(b"2 bad rows are left out, the first in ", got.stderr)
        self.assertIn(b"row 3: 1 column, and the header has 2", got.stderr)

    def test_blank_rows_of_one_column_are_rows(self):
        self.assertEqual(run("sort", "--csv", "--key", 1, "--bad-rows", "skip", stdin=b"\nb\n\r\na\n").stdout, b"\n\r\na\nb\n")
        self.assertEqual(run("sort", "--csv", "--key", 1, "--bad-rows", "skip", stdin=b"\n\nb,1\n\r\na,2").stdout, b"a,2\nb,1\n")
        self.assertEqual(run("sort", "--csv", "--key", 1, "--bad-rows", "skip", stdin=b"\n\n").stdout, b"\n\n")
        self.assertEqual(run("sort", "--csv", "--key", 1, "--bad-rows", "skip", stdin=b"").stdout, b"")

    def test_merges_leave_them_out(self):
        files = [self.write(name, data) for name, data in (("a", b'a,1\nx"y,2\nc,3\n'), ("b", b'\n\n"b",1\n'))]
        for command in (["merge"], ["sort", "-m"], ["sort"]):
            out = self.folder / "bad"
            got = run(*command, "--csv", "--key", 1, "--bad-rows", out, *files)
            self.assertEqual(got.stdout, b'a,1\n"b",1\nc,3\n')
            self.assertEqual(out.read_bytes(), b'x"y,2\n\n\n')
            self.assertIn(b"3 bad rows are left out", got.stderr)
            self.assertIn(b"the first in " + str(files[0]).encode() + b": row 2: a quote inside", got.stderr)

    def test_a_file_of_bad_rows_has_the_order_of_the_inputs(self):
        rng = self.random
        for command in (["merge"], ["sort"], ["sort", "-m"], ["join"], ["join", "--check-order"], ["group", "--count"], ["partition", "--parts", 2, "-o", self.folder / "part{}"]):
            texts, bad = [], []
            for number in range(rng.choice([2, 3, 4])):
                good = [b"%05d,%d\n" % (i, number) for i in range(rng.choice([2, 2000]))]
                if command in (["sort"], ["join"]) and rng.random() < 0.7:
                    rng.shuffle(good)
                # Some are longer than the part of them that waits in memory.
                kinds = [b"\n", b'5"x,%d\n' % number, b'"5"%s,1\n' % (b"x" * rng.choice([9, 900, 30000]))]
                bad.append([rng.choice(kinds) for _ in range(rng.choice([0, 3, 300]))])
                places = sorted(rng.randrange(1, len(good) + 1) for _ in bad[-1])
                for place, row in reversed([*zip(places, bad[-1])]):
                    good.insert(place, row)
                texts.append(b"".join(good))
            paths = [self.write(f"in{number}", text) for number, text in enumerate(texts)]
            pipe = rng.randrange(len(paths)) if rng.random() < 0.5 else None
            words = [path if number != pipe else "-" for number, path in enumerate(paths)]
            threads = ["--parallel", rng.choice([1, 3])] if command == ["sort"] else []
            out = self.folder / "bad"
            with self.subTest(command=command, pipe=pipe, seed=SEED):
                run(*command, *threads, "--csv", "--key", 1, "-S", rng.choice(["64M", "256M"]) if not SANITIZED else "1G", "-T", self.folder, "--bad-rows", out, *words,
                    stdin=b"" if pipe is None else texts[pipe])
                self.assertTrue(out.read_bytes() == b"".join(itertools.chain(*bad)))

    def test_bad_rows_of_many_inputs_wait_in_blocks(self):
        bad = [[b'"x"%d%s,%d\n' % (number, b"y" * self.random.randrange(300), i) for i in range(self.random.choice([1, 60]))] for number in range(90)]
        paths = [self.write(f"in{number:02}", b"1,2\n" + b"".join(rows)) for number, rows in enumerate(bad)]
        for command in (["sort"], ["merge"], ["group", "--count"]):
            out = self.folder / "bad"
            with self.subTest(command=command, seed=SEED):
                run(*command, "--csv", "--key", 1, "-S", "64M" if not SANITIZED else "1G", "-T", self.folder, "--bad-rows", out, *paths)
                self.assertTrue(out.read_bytes() == b"".join(itertools.chain(*bad)))

    def test_a_quote_that_is_not_closed_takes_no_more_than_its_line(self):
        rows = b"".join(b"%07d,%s\n" % (i, b"x" * 90) for i in self.random.sample(range(10**6), 30000))
        words = ["sort", "--csv", "--key", 1, "--bad-rows", "skip"]
        got = run(*words, stdin=rows + b'1,"open\n' + rows[:49_500])
        self.assertEqual(got.stdout, b"".join(sorted((rows + rows[:49_500]).splitlines(True))))
        self.assertIn(b"1 bad row is left out, the first in standard input: row 30001: a quote that nothing closes", got.stderr)

    def test_a_row_may_be_as_long_as_the_memory_allows(self):
        # A sixteenth: of 64 MiB, 4 MiB.
        words = ["sort", "--csv", "--key", 1, "--bad-rows", "skip", "-S", "64M"]
        rows = b"".join(b"%07d,%s\n" % (i, b"x" * 90) for i in range(30000))
        long = b'1,"' + rows + b'"\n'
        self.assertEqual(run(*words, stdin=b"0,a\n" + long + b'b"c,1\n').stdout, b"0,a\n" + long)
        # Quotes may be meant as text, or the end of a field may be too far away.
        for text in (b'0,a\n1,"open\n' + rows * 2, b"0,a\n" + b"x" * (5 << 20) + b"\n"):
            hint = b"--quote none or --lenient, if quotes are text; or " if b'"' in text else b""
            for name in ("-", self.write("in", text)):
                told = run(*words, name, stdin=text if name == "-" else b"", code=2).stderr
                self.assertIn(b"cannot read row 2 of more than 4194304 bytes (try: " + hint + b"a larger -S", told)
                self.assertIn(b"standard input" if name == "-" else name.name.encode(), told)

    def test_a_check_leaves_them_out(self):
        good = [b"%d,x\n" % i for i in sorted(self.random.sample(range(100, 1000), 50))]
        bad = [b"\n", b'5"x,1\n', b'"5"x,1\n']
        mixed = list(good)
        for row in bad:
            mixed.insert(self.random.randrange(1, len(mixed) + 1), row)
        path, out = self.write("in", b"".join(mixed)), self.folder / "bad"
        words = ["check", "--csv", "--key", "1", "--json"]
        wanted = json.loads(run(*words, self.write("good", b"".join(good))).stdout)
        for word in ("skip", out):
            got = run(*words, "--bad-rows", word, path)
            found = json.loads(got.stdout)
            self.assertEqual({name: found[name] for name in ("sorted", "count", "duplicates", "checksum")},
                             {name: wanted[name] for name in ("sorted", "count", "duplicates", "checksum")})
            self.assertIn(b"3 bad rows are left out", got.stderr)
        self.assertEqual(sorted(out.read_bytes().splitlines(True)), sorted(bad))
        self.assertIn(b"row", run(*words, path, code=2).stderr)
        path.write_bytes(b"".join([*mixed, b"0,x\n"]))
        told = run("check", "--csv", "--key", "1", "--bad-rows", "skip", path, code=1).stdout
        self.assertIn(b"not sorted: row 51 of those that are not left out belongs before", told)
        # The check of GNU sort stops at the first row that is not in order, and counts all that are left out.
        out.unlink()
        for name in ("-", path):
            got = run("sort", "-c", "--csv", "--key", "1", "--bad-rows", out, name, stdin=path.read_bytes(), code=1)
            self.assertIn(b": disorder: row 51 of those that are not left out: 0,x\n", got.stderr)
            self.assertIn(b"3 bad rows are left out", got.stderr)
            self.assertEqual(sorted(out.read_bytes().splitlines(True)), sorted(bad))
            self.assertEqual(run("sort", "-C", "--csv", "--key", "1", "--bad-rows", "skip", name, stdin=path.read_bytes(), code=1).stderr, b"")
        self.assertEqual(run("sort", "-c", "-q", "--csv", "--key", "1", "--bad-rows", "skip", stdin=b"".join(mixed)).stderr, b"")
        out.unlink()
        for words in (["plan"], ["plan", "-m"]):
            run(*words, "--csv", "--key", "1", "--bad-rows", out, path)
            self.assertFalse(out.exists())
            self.assertIn(b"--csv or --tsv", run(*words, "--bad-rows", "skip", path, code=2).stderr)
        self.assertIn(b"--csv or --tsv", run("sort", "-c", "--bad-rows", "skip", path, code=2).stderr)
        self.assertEqual(run("check", "-q", "--csv", "--key", "1", "--bad-rows", "skip", path, code=1).stderr, b"")
        self.assertIn(b"--csv or --tsv", run("check", "--bad-rows", "skip", path, code=2).stderr)

    def test_bad_rows_replace_no_other_file(self):
        data = self.write("in.csv", b'id,v\n3,c\n2,x"y\n1,a\n')
        (self.folder / "link").symlink_to("out")
        for bad, words in (("./out", ["sort", "-o", "out"]), (self.folder / "out", ["sort", "-o", "out"]), ("out", ["sort", "-o", "link"]),
                           ("./in.csv", ["sort"]), ("part-0.csv", ["partition", "--parts", "2", "-o", "part-{}.csv"]),
                           ("s", ["sort", "--stats", "./s", "-o", "out"]), ("s", ["sort", "--report", "./s", "-o", "out"])):
            with self.subTest(bad=bad, words=words):
                done = run(*words, "--csv", "--header", "--key", "id", "--bad-rows", bad, "in.csv", code=2, cwd=self.folder)
                self.assertIn(b"another ", done.stderr)
                self.assertEqual({path.name for path in self.folder.iterdir()}, {"in.csv", "link"})
        self.assertEqual(run("sort", "--stats", "./out", "-o", "out", data, code=2, cwd=self.folder).stdout, b"")

    def test_more_rows_than_memory(self):
        rng = self.random
        rows = [b"%d,%s\n" % (rng.randrange(10**9), b"x" * rng.randrange(300)) for _ in range(20000 if SANITIZED else 300000)]
        bad = [b'"%d"x,1\n' % rng.randrange(10**9) for _ in range(len(rows) // 10)]
        mixed = rows + bad
        rng.shuffle(mixed)
        out, kept = self.folder / "out", self.folder / "bad"
        for threads in (1, 3):
            run("sort", "--csv", "--key", 1, "-S", "1G" if SANITIZED else "32M", "-T", self.folder, "--parallel", threads, "--bad-rows", kept, "-o", out, self.write("in", b"".join(mixed)))
            self.assertTrue(out.read_bytes() == b"".join(sorted(rows, key=lambda row: (row.split(b",")[0], row))))
            self.assertTrue(kept.read_bytes() == b"".join(row for row in mixed if b'"' in row))

    def test_nothing_appears_after_an_error(self):
        path = self.write("in", b'a,1\nx"y,2\n')
        out = self.folder / "out"
        for words in (["--key", "3", "--bad-rows", self.folder / "bad", path], ["--key", "1", "--bad-rows", out, path], ["--key", "1", "--bad-rows", path, path],
                      ["--key", "1", "--bad-rows", self.folder / "no" / "bad", path], ["--key", "1", "--bad-rows", self.folder / "bad", path, self.folder / "missing"]):
            run("sort", "--csv", *words, "-o", out, code=2)
            self.assertEqual([one.name for one in self.folder.iterdir()], ["in"])
            self.assertEqual(path.read_bytes(), b'a,1\nx"y,2\n')
        run("sort", "--bad-rows", "skip", path, code=2)
        self.assertIn(b"--bad-rows --resume", run("sort", "--csv", "--key", 1, "--bad-rows", "skip", "--resume", path, "-o", out, code=2).stderr)
        self.assertIn(b"row 2", run("sort", "--csv", "--key", 1, "--bad-rows", "fail", path, code=2).stderr)


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("dialects_end_to_end")
