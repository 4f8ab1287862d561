#!/usr/bin/env python3
"""Sorting CSV beside Python's csv module: csv_test.py PENSTOCK [TEST...]. Prints its seed; PENSTOCK_TEST_SEED repeats a run."""

import csv
import decimal
import gzip
import io
import json
import os
import random
import subprocess
import sys
import time
import unittest

import end_to_end
from end_to_end import SEED, random_cases, run

SANITIZED = "ASAN_OPTIONS" in os.environ
SMALL_MEMORY = "1G" if SANITIZED else "40M"
CASES = 40 if SANITIZED else end_to_end.trials(160)


def rows_of(data, delimiter=","):
    """The raw rows of the data, and their fields."""
    text = data.decode("latin-1")
    lines = io.StringIO(text, newline="")
    taken = []

    def feed():
        for line in lines:
            taken.append(line)
            yield line

    rows = []
    for fields in csv.reader(feed(), delimiter=delimiter, strict=True):
        rows.append(("".join(taken), fields))
        taken.clear()
    return rows


class Csv(end_to_end.Case):
    def value(self):
        rng = self.random
        return rng.choice([str(rng.randrange(-50, 50)), "", "a,b", 'say "hi"', "two\nlines", "x" * rng.randrange(20), "é",
                           "\r\n", " pad ", str(rng.randrange(10**30)), "Abc", "aBC"])

    def table(self, rows, delimiter, end, header=False):
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=delimiter, lineterminator=end,
                            quoting=self.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        if header:
            writer.writerow(["name", "price, net", "city", "2"])
        for _ in range(rows):
            writer.writerow([self.value(), str(self.random.randrange(-1000, 1000)), self.value(), self.value()])
        return text.getvalue().encode("latin-1")

    @random_cases(CASES)
    def test_keys_are_columns(self):
        orders = (  # words, key of the fields
            (["--key", "2:n"], lambda f: (int(f[1]),)),
            (["--key", "2:n:r", "--key", "3"], lambda f: (-int(f[1]), f[2].encode("latin-1"))),
            (["--key", "1:f", "--key", "2:nr"], lambda f: (f[0].encode("latin-1").upper(), -int(f[1]))),
            (["--key", "4"], lambda f: (f[3].encode("latin-1"),)),
        )
        words, key = self.random.choice(orders)
        delimiter, kind = self.random.choice([(",", ["--csv"]), ("\t", ["--tsv"]), (";", ["--csv", "-t", ";"])])
        data = self.table(self.random.choice([0, 1, 5, 300]), delimiter, self.random.choice(["\n", "\r\n"]))
        with self.subTest(words=words, kind=kind):
            rows = rows_of(data, delimiter)
            way = self.random.choice(["file", "pipe", "merge", "top"])
            whole = sorted(rows, key=lambda row: (key(row[1]), row[0].encode("latin-1")))
            wanted = "".join(row for row, _ in whole)
            words = [*kind, *words, "-S", SMALL_MEMORY]
            if way == "pipe":
                got = run("sort", *words, stdin=data).stdout
            elif way == "merge":
                parts = []
                for part in range(2):
                    some = "".join(row for row, _ in rows[part::2]).encode("latin-1")
                    parts.append(self.write(f"part{part}", run("sort", *words, stdin=some).stdout))
                got = run("merge", *words, *parts).stdout
            elif way == "top":
                count = self.random.randrange(len(rows) + 2)
                wanted = "".join(row for row, _ in whole[:count])
                got = run("sort", *words, "--top", count, self.write("in", data)).stdout
            else:
                got = run("sort", *words, self.write("in", data)).stdout
            self.assertEqual(got.decode("latin-1"), wanted)
            out = self.write("out", got)
            run("sort", "-c", *words, out)
            run("check", *kind, *words[len(kind):-2], out)

    def test_unique_by_a_column(self):
        data = b'"a",1\nb,2\n"b",3\na,4\n'
        self.assertEqual(run("sort", "--csv", "--key", "1", "-u", stdin=data).stdout, b'"a",1\nb,2\n')
        self.assertEqual(run("sort", "--csv", "--key", "1:r", "-s", stdin=data).stdout, b'b,2\n"b",3\n"a",1\na,4\n')

    def test_a_header_stays_in_front(self):
        for end in ("\n", "\r\n"):
            a, b = (self.table(200, ",", end, header=True) for _ in range(2))
            rows = rows_of(a)
            header, body = rows[0], rows[1:]
            price = lambda row: (-int(row[1][1]), row[0].encode("latin-1"))
            words = ["--csv", "--header", "--key", "price, net:nr", "-S", SMALL_MEMORY]
            one = self.write("a", a)
            wanted = "".join(row for row, _ in [header, *sorted(body, key=price)])
            self.assertEqual(run("sort", *words, one).stdout.decode("latin-1"), wanted)
            self.assertEqual(run("sort", *words, stdin=a).stdout.decode("latin-1"), wanted)
            run("sort", "-c", *words, stdin=a, code=1)
            out = self.folder / "out"
            run("sort", *words, one, "-o", out)
            for command in (["sort", "-c"], ["check"]):
                run(*command, "--csv", "--header", "--key", "price, net:nr", out)
                run(*command, "--csv", "--header", "--key", "price, net:n", out, code=1)
            # Two files, one of them from a pipe, have one header.
            both = sorted([*body, *rows_of(b)[1:]], key=price)
            wanted = "".join(row for row, _ in [header, *both])
            self.assertEqual(run("sort", *words, one, "-", stdin=b).stdout.decode("latin-1"), wanted)
            self.assertEqual(run("sort", *words, "-", self.write("b", b), stdin=a).stdout.decode("latin-1"), wanted)
            # A column named 2 is found by its name, not as a number.
            named = sorted(body, key=lambda row: (row[1][3].encode("latin-1"), row[0].encode("latin-1")))
            got = run("sort", "--csv", "--header", "--key", "2", "-S", SMALL_MEMORY, one).stdout.decode("latin-1")
            self.assertEqual(got, "".join(row for row, _ in [header, *named]))
            for top in (0, 3, 10**6):
                got = run("sort", *words, "--top", top, one).stdout.decode("latin-1")
                self.assertEqual(got, "".join(row for row, _ in [header, *sorted(body, key=price)[:top]]))

    def test_a_header_is_no_longer_than_its_limit(self):
        limit = 4 << 20
        for command in (["sort"], ["merge"], ["sort", "-m"]):
            longest, longer = b"x" * limit, b"x" * (limit + 1)
            self.assertEqual(run(*command, "--header", self.write("in", longest)).stdout, longest + b"\n")
            self.assertIn(b"header", run(*command, "--header", self.write("in", longer), code=2).stderr)
            whole = longest[:-1] + b"\nb\na\n"
            done = run(*command, "--header", "-s", self.write("in", whole), code=0 if command == ["sort"] else 2)
            if command == ["sort"]:
                self.assertEqual(done.stdout, longest[:-1] + b"\na\nb\n")
        self.assertEqual(run("merge", "--header", "-", stdin=b"x" * limit).stdout, b"x" * limit + b"\n")
        run("merge", "--header", "-", stdin=b"x" * (limit + 1), code=2)
        run("check", "--header", self.write("in", b"x" * limit))
        run("check", "--header", self.write("in", b"x" * (limit + 1)), code=2)

    def random_text(self):
        alphabet = self.random.choice(['a"', ',"\n', "\r\n ;\t", "abcdefgh", '"', "é\u4e2d\U0001f600\"", "0123456789-."])
        return "".join(self.random.choice(alphabet) for _ in range(self.random.randrange(8)))

    @random_cases(CASES)
    def test_round_trip_of_whatever_the_csv_module_writes(self):
        """Any table that csv writes, in every style, is read by csv from our output as the same rows, in the order of one column."""
        columns = self.random.randrange(1, 6)
        delimiter, words = self.random.choice([(",", ["--csv"]), ("\t", ["--tsv"]), (";", ["--csv", "-t", ";"])])
        rows = [[self.random_text() for _ in range(columns)] for _ in range(self.random.choice([0, 1, 2, 40, 200]))]
        text = io.StringIO(newline="")
        end, quoting = self.random.choice(["\n", "\r\n"]), self.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
        if end == "\n":
            # csv then leaves carriage returns unquoted, and cannot read its own output.
            rows = [[value.replace("\r", "") for value in row] for row in rows]
        csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
        data = text.getvalue().encode()
        column = self.random.randrange(columns)
        reverse = self.random.choice([[], ["-r"]])
        with self.subTest(words=words, column=column, reverse=reverse, data=data):
            got = run("sort", *words, "-s", *reverse, "--key", str(column + 1), "-S", SMALL_MEMORY, stdin=data).stdout
            read = list(csv.reader(io.StringIO(got.decode(), newline=""), delimiter=delimiter, strict=True))
            wanted = sorted(rows, key=lambda row: row[column].encode(), reverse=bool(reverse))
            # A row of one empty unquoted field is an empty line, which csv reads as a row without fields.
            self.assertEqual([row or [""] for row in read], wanted)

    def test_headers_of_lines(self):
        data = b"title\n----\n3\n1\n2"
        self.assertEqual(run("sort", "--header=2", "-n", stdin=data).stdout, b"title\n----\n1\n2\n3\n")
        self.assertEqual(run("sort", "--header", "-r", self.write("in", data)).stdout, b"title\n3\n2\n1\n----\n")
        self.assertEqual(run("sort", "--header", stdin=b"").stdout, b"")
        self.assertEqual(run("sort", "--header", stdin=b"only").stdout, b"only\n")
        self.assertEqual(run("sort", "--header", self.write("in", b"only")).stdout, b"only\n")

    def stored(self, name, data):
        """Writes a file, compressed or not."""
        return self.write(name, self.random.choice([lambda plain: plain, gzip.compress])(data))

    def test_headers_of_many_files(self):
        price = lambda row: (int(row[1][1]), row[0].encode("latin-1"))
        words = ["--csv", "--header", "--key", "price, net:n", "-S", SMALL_MEMORY]
        header = b'name,"price, net",city,2\n'
        for case in range(CASES // 4):
            parts, rows = [], []
            for number in range(self.random.randrange(1, 6)):
                body = self.table(self.random.choice([0, 1, 50]), ",", "\n")
                some = sorted(rows_of(body), key=price)
                rows += some
                data = header + "".join(row for row, _ in some).encode("latin-1")
                parts.append((self.stored(f"part{number}", data), data))
            parts.insert(self.random.randrange(len(parts) + 1), (self.write("empty", b""), b""))
            files = [path for path, _ in parts]
            stdin = b""
            if self.random.random() < 0.5:
                number = self.random.randrange(len(files))
                files[number], stdin = "-", self.random.choice([lambda plain: plain, gzip.compress])(parts[number][1])
            wanted = header + "".join(row for row, _ in sorted(rows, key=price)).encode("latin-1")
            with self.subTest(case=case):
                for command in (["merge"], ["sort", "-m"]):
                    out = self.random.choice(["-", self.folder / "out"])
                    done = run(*command, *words, *files, "-o", out, stdin=stdin)
                    self.assertEqual(done.stdout if out == "-" else out.read_bytes(), wanted)
                by = ["--parts", 3] if "-" in files or self.random.random() < 0.5 else ["--parts", 3, "--by", "range"]
                if "range" in by:
                    files = [path for path in files if path.read_bytes()[:2] != gzip.compress(b"")[:2]]
                told = run("partition", *words, *by, "-o", self.folder / "deal-{}", *files, "--json", stdin=stdin)
                dealt = [(self.folder / f"deal-{number}").read_bytes() for number in range(3)]
                self.assertEqual([part["bytes"] for part in json.loads(told.stdout)["parts"]], [len(part) for part in dealt])
                any_rows = any(path == "-" or path.stat().st_size for path in files)
                self.assertEqual({part[:len(header)] for part in dealt}, {header if any_rows else b""})
                all_rows = sorted(row for part in dealt for row, _ in rows_of(part)[1:])
                if "range" not in by:
                    self.assertEqual(all_rows, sorted(row for row, _ in rows))

    def test_headers_that_differ_or_stand_alone(self):
        one, other = self.write("a", b"id,x\n1,2\n"), self.write("b", b"id,y\n1,2\n")
        for command in (["merge"], ["sort", "-m"], ["partition", "--parts", 2, "-o", self.folder / "part-{}"]):
            done = run(*command, "--csv", "--header", "--key", "id", one, other, code=2)
            self.assertIn(b"different headers", done.stderr)
            self.assertFalse((self.folder / "part-0").exists())
        self.assertEqual(run("merge", "--header", "-n", "-", self.write("c", b"id\n2\n"), stdin=b"id").stdout, b"id\n2\n")
        self.assertEqual(run("merge", "--header", "-", stdin=b"id").stdout, b"id\n")
        self.assertEqual(run("merge", "--header=2", self.write("d", b"a\nb\n1\n2")).stdout, b"a\nb\n1\n2\n")
        self.assertEqual(run("merge", "--header", self.write("e", b"")).stdout, b"")
        done = run("merge", "--csv", "--header", "--key", "id:n", self.write("f", b"id\n2\n1\n"), code=2)
        self.assertIn(b"row 3: not in order", done.stderr)
        for command in (["merge"], ["partition", "--parts", 2, "-o", self.folder / "part-{}"]):
            done = run(*command, "--csv", "--header", "--key", "id", self.write("g", b'id\n1\n2"\n'), code=2)
            self.assertIn(b"row 3: a quote inside a field that does not begin with one, at byte 6", done.stderr)

    def test_a_merge_of_several_passes_keeps_the_header_once(self):
        files = []
        for number in range(600):
            files.append(self.write(f"{number}", b"id\n" + b"".join(b"%d\n" % one for one in range(number, 2000, 600))))
        memory = SMALL_MEMORY if SANITIZED else "32M"
        told = json.loads(run("merge", "--header", "-n", *files, "-o", self.folder / "out", "-S", memory, "-T", self.folder,
                              "--json").stdout)
        self.assertEqual((self.folder / "out").read_bytes(), b"id\n" + b"".join(b"%d\n" % one for one in range(2000)))
        self.assertEqual((told["items"], told["bytes"]), (2000, (self.folder / "out").stat().st_size))
        if not SANITIZED:
            self.assertGreater(told["passes"], 1)

    @random_cases(CASES // 2)
    def test_groups_by_columns(self):
        end = self.random.choice(["\n", "\r\n"])
        rows = [[self.value(), str(self.random.randrange(5)), self.random.choice(["", "1", "-2.50", " +0.125", "1000000"])]
                for _ in range(self.random.choice([0, 1, 10, 200]))]
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=end, quoting=self.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])).writerows(
            [["na,me", "id", "x"], *rows])
        data = text.getvalue().encode("latin-1")
        stdin = self.random.random() < 0.5
        where = [] if stdin else [self.stored("in", data)]
        words = ["group", "--csv", "--header", "--key", "na,me", "-S", SMALL_MEMORY, *where]
        groups = {}
        for row in rows:
            groups.setdefault(row[0].encode("latin-1"), []).append(row)
        read = lambda done: [row for _, row in rows_of(done.stdout)]
        got = read(run(*words, "--count", "--sum", "--max", "--value", "x", "--value", "id", stdin=data if stdin else b""))
        self.assertEqual(got[0], ["na,me", "count", "sum_x", "max_x", "sum_id", "max_id"])
        wanted = []
        for name, some in sorted(groups.items()):
            x = [decimal.Decimal(row[2].strip()) for row in some if row[2]]
            ids = [int(row[1]) for row in some]
            wanted.append([name.decode("latin-1"), len(some), sum(x) if x else None, max(x) if x else None, sum(ids), max(ids)])
        number = lambda text: decimal.Decimal(text) if text else None
        self.assertEqual([[row[0], *map(number, row[1:])] for row in got[1:]], wanted)
        top = self.random.randrange(5)
        counted = sorted(groups.items(), key=lambda one: (-len(one[1]), one[0]))[:top]
        got = read(run(*words, "--count", "--top", top, stdin=data if stdin else b""))
        self.assertEqual(got[1:], [[name.decode("latin-1"), str(len(some))] for name, some in counted])
        got = read(run(*words, "--distinct", stdin=data if stdin else b""))
        self.assertEqual(got[1:], [some[0] for _, some in sorted(groups.items())])

    def test_groups_that_make_no_sense(self):
        data = b"a,b\n1,x\n"
        for words, hint in ((["--distinct"], b"--key COLUMN"), (["--key", "a"], b"--count"), (["--key", "a", "--sum"], b"--sum=COLUMN"),
                            (["--key", "a", "--count", "--value", "b"], b"--sum"), (["--key", "c", "--count"], b"one of a, b"),
                            (["--key", "a", "--sum", "--value", "b"], b"'x' as a number"),
                            (["--key", "a", "--sum", "--value", "c"], b"one of a, b")):
            self.assertIn(hint, run("group", "--csv", "--header", *words, stdin=data, code=2).stderr)
        done = run("group", "--csv", "--key", "1", "--sum", "--value", "2", stdin=b"a," + b"9" * 38 + b"\na,0.1\n", code=2)
        self.assertIn(b"more than 38 digits", done.stderr)

    def test_rows_that_break_the_rules(self):
        for data, row, byte in ((b'a,b\nc,"d\ne,f\n', 2, 6), (b'a,b"c\n', 1, 3), (b'a,b\n"c"d,e\n', 2, 7), (b'x\n"', 2, 2)):
            for words in ([], ["-u"], ["--top", "1"]):
                for stdin in (True, False):
                    out = self.folder / "out"
                    inputs = ["-"] if stdin else [self.write("in", data)]
                    done = run("sort", "--csv", "--key", "1", *words, *inputs, "-o", out, code=2, stdin=data)
                    self.assertRegex(done.stderr, b"row %d: .*, at byte %d " % (row, byte))
                    self.assertFalse(out.exists())
            self.assertIn(b"row %d" % row, run("sort", "-c", "--csv", "--key", "1", "-s", code=2, stdin=data).stderr)
            self.assertIn(b"row %d" % row, run("check", "--csv", "--key", "1", code=2, stdin=data).stderr)
            run("merge", "--csv", self.write("in", data), code=2)

    def test_each_command_names_file_row_and_byte(self):
        good = self.write("good", b"h,i\na,1\nb,2\n")
        bad = self.write("bad", b'h,i\na,1\nb,"2"x\n')
        for command in (["sort"], ["sort", "-u"], ["sort", "-m"], ["sort", "-c"], ["merge"], ["check"], ["group", "--count"],
                        ["join", "-1", "h", "-2", "h"], ["partition", "--by", "hash", "--parts", "2", "-o", self.folder / "p{}"]):
            files = [bad] if command[0] == "check" or "-c" in command else [good, bad]
            words = [] if command[0] == "join" else ["--key", "h"]
            with self.subTest(command):
                told = run(*command, "--csv", "--header", *words, *files, code=2).stderr
                self.assertIn(b"row 3: text after the quote that closes a field, at byte 13 ", told)
                self.assertIn(str(bad).encode(), told)

    @unittest.skipIf(SANITIZED, "a sanitizer's memory is its own")
    def test_a_check_keeps_nothing_behind_a_stray_quote(self):
        path = self.folder / "in"
        with path.open("wb") as file:
            file.write(b'a,b\nc,d"e\n')
            for _ in range(160):
                file.write(b"f,g\n" * (1 << 18))
        process = subprocess.Popen([os.path.abspath(sys.argv[1]), "check", "--csv", path], stderr=subprocess.PIPE)
        told = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 2)
        self.assertRegex(told, b"row 2: .*, at byte 7 ")
        # (The system's figure includes this process, up to the start of the other.)
        self.assertLess(usage.ru_maxrss, 100 << 10)

    def test_headers_that_break_the_rules(self):
        for data in (b'"a,b\n3,1\n1,2\n', b'a"x,b\n3,1\n1,2\n'):
            for words in ([], ["--key", "2"], ["--header=2"]):
                for command in (["sort"], ["sort", "-c"], ["check"]):
                    done = run(*command, "--csv", "--header", *words, self.write("in", data), code=2)
                    self.assertIn(b"header", done.stderr)
                    self.assertIn(str(self.folder / "in").encode(), done.stderr)
        # Rows and bytes are those of the file.
        done = run("sort", "--csv", "--header", "-k", "a", self.write("in", b'a,b\n1,x"y\n'), code=2)
        self.assertRegex(done.stderr, b"row 2: .*, at byte 7 ")
        done = run("sort", "-c", "--header", self.write("in", b"h\nb\na\n"), code=1)
        self.assertIn(b"in:3: disorder", done.stderr)
        # A byte order mark of UTF-8 is no part of a name.
        marked = b'\xef\xbb\xbf"id",price\n2,1\n1,3\n'
        self.assertEqual(run("sort", "--csv", "--header", "-k", "id:n", stdin=marked).stdout,
                         b'\xef\xbb\xbf"id",price\n1,3\n2,1\n')

    def test_many_inputs_that_come_in_order_have_one_header(self):
        names = [self.write(f"{i}.gz", gzip.compress(b"h\n%d\n" % (20 - i))) for i in range(12)]
        wanted = b"h\n" + b"".join(b"%d\n" % i for i in range(9, 21))
        self.assertEqual(run("sort", "--header", "-n", *names).stdout, wanted)
        names[10].write_bytes(gzip.compress(b"other\n7\n"))
        self.assertIn(b"different headers", run("sort", "--header", "-n", *names, code=2).stderr)

    def test_a_header_stays_in_front_in_any_order_of_more_than_memory(self):
        """Each order of the input is sorted in another way; each output is written in another way."""
        rows = [b"%07d,%s\n" % (i, b"x" * (i % 40)) for i in range(400_000)]
        swapped = rows[:]
        swapped[1000], swapped[300_000] = swapped[300_000], swapped[1000]
        for order, items in (("sorted", rows), ("in two stretches", rows[200_000:] + rows[:200_000]), ("nearly sorted", swapped),
                             ("reversed", rows[::-1]), ("random", self.random.sample(rows, len(rows)))):
            path = self.write("in", b"h,v\n" + b"".join(items))
            for words in ([], ["-o", self.folder / "out"], ["--keep", "last"], ["--select", "h,v"], ["--compressed=gzip"], ["-u"]):
                with self.subTest(order=order, words=words):
                    told = run("sort", "--key", "h", "-S", SMALL_MEMORY, *words, path).stdout
                    told = (self.folder / "out").read_bytes() if words[:1] == ["-o"] else gzip.decompress(told) if words == ["--compressed=gzip"] else told
                    self.assertTrue(told == b"h,v\n" + b"".join(rows), (len(told), told[:60]))

    def test_words_that_make_no_sense(self):
        for words in (["--csv", "--tsv"], ["--csv", "-z"], ["--csv", "--no-header", "--key", "price"], ["--csv", "--key", "0"],
                      ["--csv", "--key", "1:q"], ["--csv", "-t", '"'], ["--header=0"], ["--header=x"],
                      ["--format", "u64", "--csv"], ["--format", "record", "--header"]):
            self.assertIn(b"(try: ", run("sort", *words, code=2, stdin=b"").stderr)
        done = run("sort", "--csv", "--header", "--key", "cost", code=2, stdin=b"name,price\n")
        self.assertIn(b"one of name, price", done.stderr)

    @unittest.skipIf(SANITIZED, "quoted newlines in more than memory take a sanitizer minutes")
    def test_more_than_memory(self):
        rng = self.random
        values = ["plain", "two\nlines", 'say "hi", twice', "a,b\r\nc", ""]
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        rows = [[rng.randrange(10**9), rng.choice(values), rng.choice(values) * rng.randrange(6)] for _ in range(1_000_000)]
        writer.writerow(["id", "a", "b"])
        for row in rows:
            writer.writerow(row)
        source = self.write("in", text.getvalue().encode())
        out = self.folder / "out"
        for words in ([], ["--device", "hdd"], ["--resume"]):
            run("sort", "--csv", "--header", "--key", "id:n", "-S", "48M", "-T", self.folder, *words, source, "-o", out)
            with open(out, newline="") as file:
                reader = csv.reader(file, strict=True)
                self.assertEqual(next(reader), ["id", "a", "b"])
                ids = [int(row[0]) for row in reader]
            self.assertEqual(ids, sorted(row[0] for row in rows))
            run("sort", "-c", "--csv", "--header", "--key", "id:n", out)
            self.assertEqual(out.stat().st_size, source.stat().st_size)


@unittest.skipUnless("PENSTOCK_LARGE" in os.environ, "a gigabyte: ./check full, or PENSTOCK_LARGE=1")
class Large(end_to_end.Case):
    def test_a_gigabyte_with_ends_of_lines_in_quotes_within_64_mib(self):
        rng = self.random
        source, out, told = self.folder / "in", self.folder / "out", self.folder / "told"
        texts = ['"two\nlines"', '"say ""hi"",\r\ntwice"', "plain", '""', '"a,b"']
        with source.open("w", newline="") as file:
            while file.tell() < 10**9:
                file.write("".join(f"{rng.randrange(10**9)},{texts[i % 5]},{i},{texts[rng.randrange(5)]}\n" for i in range(100_000)))
        begin = time.monotonic()
        run("sort", "--csv", "--key", "1:n", "-S", "64M", "-T", self.folder, "--stats", told, source, "-o", out)
        seconds = time.monotonic() - begin
        checks = [json.loads(run("check", "--csv", "--key", "1:n", "--json", file, code=(0, 1)).stdout) for file in (source, out)]
        self.assertEqual([check["sorted"] for check in checks], [False, True])
        self.assertEqual(checks[0]["checksum"], checks[1]["checksum"])
        self.assertEqual(checks[0]["count"], checks[1]["count"])
        peak = json.loads(told.read_text())["peak_rss_bytes"]
        print(f"{source.stat().st_size / 1e9:.2f} GB in {seconds:.1f} s, peak {peak / 2**20:.1f} MiB")
        self.assertLessEqual(peak, 64 << 20)


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("csv_large" if "PENSTOCK_LARGE" in os.environ else "csv_end_to_end")
