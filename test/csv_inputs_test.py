#!/usr/bin/env python3
"""Every command over every kind of CSV that programs write, beside a model in Python: csv_inputs_test.py PENSTOCK [TEST...]."""

import csv
import gzip
import io
import itertools

import end_to_end
from end_to_end import SEED, run

MARK = b"\xef\xbb\xbf"
HEADER = b"id,v,w\n"
# Equal keys with and without quotes, quoted separators, line ends and quotes; in the order of the first column.
ROWS = [b'1,x,p\n', b'"1","a,b",q\n', b'2,"two\nlines",r\n', b'2,"say ""hi""",\n', b'"3",,s\n', b'5,"",t\n', b'7,y,"u"\n']
ORDER = [3, 0, 6, 1, 5, 2, 4]  # order of the rows in the unsorted file
OTHER = b"id,z\n1,one\n3,three\n5,five\n8,eight\n"


def crlf(data):
    """Replaces line ends outside of quotes by CRLF."""
    return b'"'.join(piece if i % 2 else piece.replace(b"\n", b"\r\n") for i, piece in enumerate(data.split(b'"')))


def quoted_names(header):
    return b",".join(b'"%s"' % name for name in header.rstrip(b"\n").split(b",")) + b"\n"


# Kinds of files: changes of the header and the rows.
KINDS = {
    "plain": lambda head, rows: head + rows,
    "mark": lambda head, rows: MARK + head + rows,
    "mark, quoted names": lambda head, rows: MARK + (quoted_names(head) if head else b"") + rows,
    "CRLF": lambda head, rows: crlf(head + rows),
    "mark, CRLF": lambda head, rows: MARK + crlf(head + rows),
    "no last line end": lambda head, rows: (head + rows)[:-1],
    "short rows": lambda head, rows: head + rows.replace(b'5,"",t\n', b"5\n").replace(b'7,y,"u"', b"7,y"),
    "empty fields too many": lambda head, rows: head + rows.replace(b"1,x,p\n", b'1,x,p,,""\n'),
    "blank lines": lambda head, rows: head + b"\n" + rows,
}
REFUSED = {
    "carriage returns": (lambda head, rows: (head + rows).replace(b"\n", b"\r"), b"carriage returns alone", b"tr "),
    "UTF-16 LE": (lambda head, rows: b"\xff\xfe" + (head + rows).decode().encode("utf-16-le"), b"UTF-16", b"--encoding UTF-16)"),
    "UTF-16 BE": (lambda head, rows: b"\xfe\xff" + (head + rows).decode().encode("utf-16-be"), b"UTF-16", b"--encoding UTF-16)"),
    "UTF-16 LE without a mark": (lambda head, rows: (head + rows).decode().encode("utf-16-le"), b"UTF-16LE", b"--encoding UTF-16LE)"),
    "UTF-16 BE without a mark": (lambda head, rows: (head + rows).decode().encode("utf-16-be"), b"UTF-16BE", b"--encoding UTF-16BE)"),
}
LONG = lambda head, rows: head + rows.replace(b"3\",,s\n", b"3\",,s,more\n")


class Table:
    """The parts of a file: its mark, its header, its rows as they are written and as fields, and its line end."""

    def __init__(self, data, has_header):
        self.mark = MARK if data.startswith(MARK) else b""
        lines = io.StringIO(data[len(self.mark):].decode(), newline="")
        taken = []
        self.rows = []
        for fields in csv.reader((taken.append(line) or line for line in lines), strict=True):
            self.rows.append(("".join(taken).encode(), fields or [""]))
            taken.clear()
        self.end = b"\r\n" if self.rows[0][0].endswith(b"\r\n") else b"\n"
        # The last row may lack its end.
        raw, fields = self.rows[-1]
        if not raw.endswith(b"\n"):
            self.rows[-1] = (raw + self.end, fields)
        self.header = self.rows.pop(0) if has_header else None
        self.head = self.mark + (self.header[0] if has_header else b"")
        self.rows.sort(key=lambda row: row[1][0].encode())
        self.sorted = b"".join(raw for raw, _ in self.rows)


def values(data):
    """The fields of all rows, without the mark."""
    return [fields or [""] for fields in csv.reader(io.StringIO(data.removeprefix(MARK).decode(), newline=""), strict=True)]


class CsvInputs(end_to_end.Case):
    def inputs(self, kinds):
        """Each kind, with a header and without, sorted and not, from a file and from a pipe."""
        for (name, make), has_header, is_sorted, piped in itertools.product(kinds.items(), *[(True, False)] * 3):
            make, *wanted = make if isinstance(make, tuple) else (make,)
            rows = ROWS if is_sorted else [ROWS[i] for i in ORDER]
            data = make(HEADER if has_header else b"", b"".join(rows))
            words = ["--csv", *(["--header"] if has_header else [])]
            self.where = "-" if piped else self.write("in", data)
            self.stdin = data if piped else b""
            yield self.subTest(name, header=has_header, sorted=is_sorted, piped=piped), name, words, data, is_sorted, wanted

    def penstock(self, *words, code=0):
        return run(*words, self.where, stdin=self.stdin, code=code)

    def test_each_command_reads_each_kind(self):
        for case, name, words, data, is_sorted, _ in self.inputs(KINDS):
            with case:
                table = Table(data, "--header" in words)
                key = ["--key", "id" if table.header else "1"]
                whole = table.head + table.sorted
                self.assertEqual(self.penstock("sort", "-s", *words, *key).stdout, whole)
                for command in (["merge", "-s"], ["sort", "-m", "-s"]):
                    done = self.penstock(*command, *words, *key, code=0 if is_sorted else 2)
                    if is_sorted:
                        self.assertEqual(done.stdout, whole)
                for command in (["check"], ["sort", "-c", "-s"]):
                    self.penstock(*command, *words, *key, code=0 if is_sorted else 1)
                # Groups: the values of keys, or the first row of each.
                groups = [(value, list(rows)) for value, rows in itertools.groupby(table.rows, lambda row: row[1][0])]
                counted = self.penstock("group", "--count", *words, *key).stdout
                self.assertEqual(counted.startswith(MARK), bool(table.mark))
                self.assertEqual(values(counted), ([["id", "count"]] if table.header else []) +
                                 [[value, str(len(rows))] for value, rows in groups])
                self.assertEqual({line[-2:] == b"\r\n" for line in counted.splitlines(True)}, {table.end == b"\r\n"})
                self.assertEqual(self.penstock("group", "--distinct", *words, *key).stdout,
                                 table.head + b"".join(rows[0][0] for _, rows in groups))
                self.penstock("partition", "--parts", 2, "-o", self.folder / "part{}", *words, *key)
                parts = [(self.folder / f"part{i}").read_bytes() for i in range(2)]
                for part in parts:
                    self.assertTrue(part.startswith(table.head))
                dealt = sorted(row for part in parts for row in Table(b"x\n" + part[len(table.head):], True).rows)
                self.assertEqual(dealt, sorted(table.rows))

    def test_a_join_keeps_columns(self):
        for case, name, words, data, _, _ in self.inputs(KINDS):
            with case:
                table = Table(data, "--header" in words)
                if not table.header and name == "blank lines":
                    continue  # the first row says that there is one column
                other = Table(OTHER, True)
                right = self.write("right", OTHER if table.header else OTHER.split(b"\n", 1)[1])
                key = "id" if table.header else "1"
                first = table.header[1] if table.header else values(data)[0]
                padded = lambda row: (row + [""] * 5)[:len(first)]
                wanted = [["id", "v", "w", "z"]] if table.header else []
                keys = sorted({row[1][0] for row in table.rows + other.rows}, key=str.encode)
                for one in keys:
                    lefts = [row for _, row in table.rows if row[0] == one]
                    rights = [row for _, row in other.rows if row[0] == one]
                    for left in lefts or [[one]]:
                        for match in rights or [[one]]:
                            wanted.append(padded(left) + (match + [""])[1:2])
                done = run("join", *words, "-1", key, "-2", key, "-a1", "-a2", self.where, right, stdin=self.stdin,
                           code=0)
                self.assertEqual(values(done.stdout), wanted)
                self.assertEqual(done.stdout.startswith(MARK), bool(table.mark))
                # Every row ends as the first one does, also unpaired rows of the right file.
                if b'"two\n' not in done.stdout:
                    self.assertEqual({line[-2:] == b"\r\n" for line in done.stdout.splitlines(True)}, {table.end == b"\r\n"})
                # The other way round: short rows at the right.
                done = run("join", *words, "-1", key, "-2", key, "-a1", "-a2", right, self.where, stdin=self.stdin)
                self.assertEqual({len(row) for row in values(done.stdout)}, {len(first) + 1})
                self.assertFalse(done.stdout.startswith(MARK))

    def test_a_join_refuses_values_that_stand_in_no_column(self):
        for case, _, words, data, _, _ in self.inputs({"long rows": LONG}):
            with case:
                right = self.write("right", OTHER if "--header" in words else OTHER.split(b"\n", 1)[1])
                key = "id" if "--header" in words else "1"
                done = run("join", *words, "-1", key, "-2", key, self.where, right, stdin=self.stdin, code=2)
                self.assertIn(b"more than the 3 columns", done.stderr)
                row = next(i for i, line in enumerate(values(data)) if len(line) > 3) + 1
                line = data[:data.index(b',more')].count(b"\n") + 1
                place = b"row %d" % row + b" (line %d)" % line * (line != row)
                self.assertIn(b"'\"3\",,s,more'" if self.where == "-" else b"%s: %s: values in more than" % (
                    str(self.where).encode(), place), done.stderr)
                listed = run("join", *words, "-1", key, "-2", key, "-o", "0,1.3", self.where, right, stdin=self.stdin).stdout
                self.assertIn(["3", "s"], values(listed))

    def test_bad_rows_are_refused(self):
        for case, _, words, _, _, (problem, hint) in self.inputs(REFUSED):
            with case:
                right = self.write("right", OTHER)
                for command in (["sort"], ["sort", "-u"], ["sort", "-m"], ["sort", "-c"], ["merge"], ["check"], ["group", "--count"],
                                ["group", "--distinct"], ["partition", "--parts", 2, "-o", self.folder / "part{}"], ["join", right]):
                    key = ["-1", "1", "-2", "1"] if command[0] == "join" else ["--key", "1"]
                    done = self.penstock(*command, *words, *key, code=2)
                    for text in (problem, hint, b"standard input: " if self.where == "-" else str(self.where).encode()):
                        self.assertIn(text, done.stderr)
                    self.assertEqual(done.stdout, b"")

    def test_headers_are_the_same_by_their_names(self):
        one = self.write("one", HEADER + ROWS[0])
        for other in (crlf(HEADER + ROWS[-1]), quoted_names(HEADER) + ROWS[-1], MARK + HEADER + ROWS[-1]):
            two = self.write("two", other)
            for words in (["sort"], ["sort", "-m"], ["merge"]):
                done = run(*words, "--csv", "--header", "--key", "id", one, two)
                self.assertEqual(values(done.stdout), values(HEADER + ROWS[0] + ROWS[-1]))
                done = run(*words, "--csv", "--header", "--key", "id", two, "-", stdin=HEADER + ROWS[0])
                self.assertTrue(done.stdout.startswith(other[:len(other) - len(ROWS[-1]) - (other[-2:] == b"\r\n")]))
        two = self.write("two", b"id,w,v\n1,2,3\n")
        for words in (["sort"], ["sort", "-m"], ["merge"], ["group", "--count"], ["partition", "--parts", 2, "-o", self.folder / "p{}"]):
            done = run(*words, "--csv", "--header", "--key", "id", one, two, code=2)
            self.assertIn(b"%s: " % str(two).encode(), done.stderr)
            self.assertIn(b"column 2 is 'w', and in %s 'v'" % str(one).encode(), done.stderr)

    def test_one_rule_of_places(self):
        path = self.write("in", b'id,v\n2,"a\nb"\n10,x\n1,c\n')
        words = ["--csv", "--header", "--key", "id:n", path]
        self.assertIn(b":5: disorder: row 4", run("sort", "-c", *words, code=1).stderr)
        self.assertIn(b"row 4 (line 5) belongs before", run("check", *words, code=1).stdout)
        self.assertIn(b"row 4 (line 5): not in order", run("merge", *words, code=2).stderr)
        self.assertIn(b"row 4 (line 5): not in order",
                      run("join", "--csv", "--header", "--check-order", "-1", "id:n", "-2", "id:n", path, path, code=2).stderr)
        for text in (b"abc", b"1e-05", b"NaN", b"$5"):
            path = self.write("in", b'id,v\n"2\n",7\n1,' + text + b"\n")
            done = run("group", "--csv", "--header", "--key", "id", "--sum", "--value", "v", path, code=2)
            self.assertIn(b"in: row 3 (line 4), column v: '%s' is no number of up to 38 digits" % text, done.stderr)
        path = self.write("in", b'id,v\n"2\n",7\n1,"x"y\n')
        right = self.write("right", OTHER)
        for command in (["sort"], ["sort", "-m"], ["sort", "-c"], ["merge"], ["check"], ["group", "--count"],
                        ["partition", "--parts", 2, "-o", self.folder / "part{}"], ["join", right]):
            key = ["-1", "id", "-2", "id"] if command[0] == "join" else ["--key", "id"]
            done = run(*command, "--csv", "--header", *key, path, code=2)
            self.assertIn(b"in: row 3 (line 4): text after the quote that closes a field, at byte 17", done.stderr)

    def test_keys_that_name_no_column(self):
        path = self.write("in", b"id,id,Name\n1,2,3\n")
        for key, hint in (("9", b"find column 9: the header has 3"), ("id:n", b"(try: the column's number, as in --csv --header --key 1 or 2)"),
                          ("3,3n", b"(try: --key 3:n)"), ("Name,n", b"(try: --key Name:n)"), ("1,3", b"(try: --key 1 --key 3)"), ("Name,9", b"find column 9: the header has 3")):
            self.assertIn(hint, run("sort", "--csv", "--header", "--key", key, path, code=2).stderr)
        self.assertIn(b"find column 9: the header has 3",
                      run("group", "--csv", "--header", "--key", "1", "--sum", "--value", "9", path, code=2).stderr)
        for side in (["-1", "9", "-2", "1"], ["-1", "1", "-2", "1", "-o", "0,1.9"]):
            self.assertIn(b"find column 9: the header has 3", run("join", "--csv", "--header", *side, path, path, code=2).stderr)
        # The hint for stray quotes names options that work.
        stray = self.write("stray", b'size,name\n5" pipe,b\n3",a\n')
        done = run("sort", "--csv", "--header", "--key", "1", stray, code=2)
        self.assertIn(b"(try: --quote none, if quotes are text; ", done.stderr)
        self.assertEqual(run("sort", "--csv", "--header", "--quote", "none", "--key", "1", stray).stdout, b'size,name\n3",a\n5" pipe,b\n')

    def test_a_header_behind_inputs_without_anything(self):
        empty = [self.write(f"empty{i}.gz", gzip.compress(b"")) for i in range(9)]
        full = [self.write(f"full{i}.gz", gzip.compress(rows)) for i, rows in enumerate((b"k,v\n2,x\n", b"k,v\n1,y\n"))]
        for inputs in (empty + full, empty[:8] + full, [full[0], *empty, full[1]]):
            self.assertEqual(run("sort", "--csv", "--header", "--key", "k", *inputs).stdout, b"k,v\n1,y\n2,x\n")
        self.assertEqual(run("sort", "--csv", "--header", "--key", "1", *empty).stdout, b"")

    def test_a_first_row_that_is_long_or_not_there(self):
        long = b"b," + b"x" * (5 << 20)
        right = self.write("right", b"a,7\nb,8\n")
        for rows, wanted in ((long + b"\na,1,,,\n", b"a,1,7\n"), (long + b",1,2,3\na,1\n", b"a,1,,,,7\n")):
            path = self.write("in", rows)
            for where, stdin in ((path, b""), ("-", rows)):
                done = run("join", "--csv", "-1", "1", "-2", "1", where, right, stdin=stdin)
                self.assertTrue(done.stdout.startswith(wanted), done.stdout[:40])
        path = self.write("in", long + b"\r\na,1\r\n")
        counted = [run("group", "--csv", "--key", "1", "--count", *inputs).stdout
                   for inputs in ([path], [self.write("mark", MARK), self.write("crlf", b"b,2\r\na,1\r\n")])]
        self.assertEqual([one.removeprefix(MARK) for one in counted], [b"a,1\r\nb,1\r\n"] * 2)

    def test_lists_and_names_of_outputs(self):
        left = self.write("a", b'id,full name,"x,y",say ""\n1,A,B,C\n'.replace(b'say ""', b'"say ""hi"""'))
        right = self.write("b", b"id,city\n1,Oslo\n")
        words = ["join", "--csv", "--header", "-1", "id", "-2", "id", left, right]
        for listed, wanted in (('0,1."full name"', b"id,full name\n1,A\n"), ('1."x,y" 2.city', b'"x,y",city\nB,Oslo\n'),
                               ('"1.full name",0', b"full name,id\nA,1\n"), ('1."say ""hi"""', b'"say ""hi"""\nC\n')):
            self.assertEqual(run(*words, "-o", listed).stdout, wanted)
        for word in ("3.1", "0,1.full name", "1", "12", "1.id,v", "0,1.a,b", "id", ",", "1.", '0,1."id', '1."id"x', "a,b"):
            self.assertIn(b"-o " + word.encode(), run(*words, "-o", word, code=2, cwd=self.folder).stderr)
            self.assertFalse((self.folder / word).exists())
        for given in (["-o", "./1.csv"], ["-o", "./a,b"], ["-o", "out.csv"], ["-o", "2024-01.csv"], ["--output", "1.id,v"],
                      ["-o", str(self.folder / "x,y")]):
            run(*words, *given, cwd=self.folder)
            self.assertEqual((self.folder / given[1]).read_bytes().count(b"\n"), 2)

    def test_empty_fields_are_filled(self):
        left = self.write("a", b'id,v\n1,""\n2,\n3\n"",x\n')
        right = self.write("b", b"id,w\n1,y\n2,z\n3,\n4,q\n")
        words = ["join", "--csv", "--header", "-1", "id", "-2", "id", "-a1", "-a2", left, right]
        self.assertEqual(run(*words, "-e", "NA").stdout, b"id,v,w\nNA,x,NA\n1,NA,y\n2,NA,z\n3,NA,NA\n4,NA,q\n")
        self.assertEqual(run(*words).stdout, b'id,v,w\n"",x,\n1,"",y\n2,,z\n3,,\n4,,q\n')


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("csv_inputs")
