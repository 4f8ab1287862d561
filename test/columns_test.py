#!/usr/bin/env python3
"""Tables with other columns (--columns) and outputs of some columns (--select), beside Python's csv: columns_test.py PENSTOCK [TEST...]."""

import csv
import gzip
import io
import os
import subprocess
import sys

import end_to_end
from end_to_end import SEED, run

SANITIZED = "ASAN_OPTIONS" in os.environ
MEMORY = "1G" if SANITIZED else "40M"
CASES = 20 if SANITIZED else end_to_end.trials(120)
MARK = b"\xef\xbb\xbf"
NAMES = ["id", "city", "the price", "a,b", 'say "x"', "é", "note", "7"]


def text_of(rows, rng, end="\n"):
    """Rows as text, with quotes around some of the fields that need none."""
    def field(text):
        needs = any(c in text for c in ',"\r\n')
        return '"' + text.replace('"', '""') + '"' if needs or rng.random() < 0.2 else text
    return "".join(",".join(field(text) for text in row) + end for row in rows).encode()


def rows_of(data):
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True))


class Columns(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"

    def refused(self, *words, says):
        self.assertIn(says, run(*words, code=2).stderr.decode())

    def value(self):
        return self.random.choice(["", "x", "Rome", "a,b", 'q"q', "two\nlines", "-1.5", "é" * 3, "long " * 50])

    def table(self, names, ids):
        """A file's names and rows; some rows lack fields at their end."""
        rows = []
        for key in ids:
            row = [str(key) if name == "id" else self.value() for name in names]
            while self.random.random() < 0.1 and len(row) > names.index("id") + 1:
                row.pop()
            rows.append(row)
        return names, rows

    def write_table(self, name, table):
        names, rows = table
        data = text_of([names, *rows], self.random, self.random.choice(["\n", "\n", "\r\n"]))
        data = self.random.choice([b"", b"", MARK]) + data
        if self.random.random() < 0.2:
            data = data.rstrip(b"\r\n")
        kind = self.random.randrange(4)
        return self.write(name + (".gz" if kind == 0 else ""), gzip.compress(data) if kind == 0 else data)

    def tables(self, names_of):
        ids = list(range(self.random.choice([3, 30, 3000])))
        self.random.shuffle(ids)
        count = self.random.randrange(1, 5)
        return [self.table(names_of(), ids[i::count]) for i in range(count)]

    def check_against(self, tables, names, command, words, select=()):
        """Compares an output with the rows of all tables, in the order of their ids."""
        rows = []
        for own, table in tables:
            for row in table:
                fields = dict(zip(own, row + [""] * len(own)))
                rows.append([fields.get(name, "") for name in names])
        rows.sort(key=lambda row: int(row[names.index("id")]))
        wanted = [names, *rows]
        if select:
            wanted = [[row[names.index(name)] for name in select] for row in wanted]
        if command == "merge":
            for _, table in tables:
                table.sort(key=lambda row: int(row[_.index("id")]))
        paths = [self.write_table(f"in{i}", table) for i, table in enumerate(tables)]
        stdin = b""
        if self.random.random() < 0.3:
            place = self.random.randrange(len(paths))
            stdin = paths[place].read_bytes()
            paths[place] = "-"
        to_file = self.random.random() < 0.5
        output = ["-o", self.out] if to_file else []
        done = run(command, "--csv", "--header", "--key", "id:n", *words, "-S", MEMORY, *paths, *output, stdin=stdin)
        data = self.out.read_bytes() if to_file else done.stdout
        # Rows of equal headers stay as they are.
        have = [row + [""] * (len(wanted[0]) - len(row)) for row in rows_of(data)]
        if have != wanted:
            place = next((i for i, (one, other) in enumerate(zip(have, wanted)) if one != other), min(len(have), len(wanted)))
            self.fail(f"row {place} of {len(have)} is {have[place:place + 2]}, and should be {wanted[place:place + 2]} of {len(wanted)}")

    def test_files_of_other_columns(self):
        for case in range(CASES):
            all_names = self.random.sample(NAMES[1:], self.random.randrange(len(NAMES)))
            with self.subTest(case=case, seed=SEED):
                def some():
                    names = ["id", *(name for name in all_names if self.random.random() < 0.7)]
                    self.random.shuffle(names)
                    return names
                tables = self.tables(some)
                names = list(dict.fromkeys(name for own, _ in tables for name in own))
                self.check_against(tables, names, self.random.choice(["sort", "merge"]), ["--columns", "union"])

    def test_columns_in_another_order_and_some_of_them(self):
        for case in range(CASES):
            names = self.random.sample(NAMES, self.random.randrange(1, len(NAMES)))
            names = names if "id" in names else ["id", *names]
            with self.subTest(case=case, seed=SEED):
                tables = self.tables(lambda: self.random.sample(names, len(names)))
                select = self.random.choices(names, k=self.random.randrange(4))
                words = ["--columns", "same"]
                if select and self.random.random() < 0.5:
                    words += ["--select", ",".join(select)]
                else:
                    words += [word for name in select for word in ("--select", name)]
                self.check_against(tables, tables[0][0], self.random.choice(["sort", "merge"]), words, select)

    def test_groups_of_files_of_other_columns(self):
        first = self.write("a.csv", b"id,city\n1,Rome\n2,Oslo\n")
        second = self.write("b.csv", b"price,city\n7,Oslo\n8,\n")
        done = run("group", "--key", "city", "--count", "--sum", "price", "--columns", "union", first, second)
        self.assertEqual(done.stdout, b"city,count,sum_price\n,1,8\nOslo,2,7\nRome,1,\n")

    def test_more_than_memory(self):
        rng = self.random
        names = ["id", "city", "note"]
        tables = [self.table(self.random.sample(names, 3), range(i, 60_000, 2)) for i in range(2)]
        for _, rows in tables:
            for row in rows:
                row[0] += "x" * 700 if row[0].isalpha() else ""
            rng.shuffle(rows)
        with self.subTest(seed=SEED):
            self.check_against(tables, tables[0][0], "sort", ["--columns", "same", "--no-sync"])

    def test_an_input_may_be_the_output(self):
        first, second = self.write("a.csv", b"id,v\n2,b\n"), self.write("b.csv", b"v,id\na,1\n")
        run("sort", "--key", "id:n", "--columns", "same", first, second, "-o", first)
        self.assertEqual(first.read_bytes(), b"id,v\n1,a\n2,b\n")
        run("sort", "--key", "id:n", "--select", "v", first, "-o", first)
        self.assertEqual(first.read_bytes(), b"v\na\nb\n")
        with open(second, "r+b") as file:
            done = subprocess.run([sys.argv[1], "sort", "--key", "id:n", "--columns", "same", first, second], stdout=file, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(second.read_bytes(), b"v,id\na,1\n")

    def test_inputs_without_rows(self):
        nothing, header, rows = self.write("nothing", b""), self.write("header.csv", b"v,id"), self.write("rows.csv", b"id,v\n2,b\n1,a\n")
        words = ["--csv", "--header", "--key", "id:n", "--columns", "same"]
        self.assertEqual(run("sort", *words, nothing, header, rows).stdout, b"v,id\na,1\nb,2\n")
        self.assertEqual(run("sort", *words, nothing, nothing).stdout, b"")
        self.assertEqual(run("sort", "--csv", "--header", "--select", "id", nothing).stdout, b"")

    def test_mistakes(self):
        good, twice = self.write("good.csv", b"id,v\n1,a\n"), self.write("twice.csv", b"v,id,v\nx,2,y\n")
        for data, words, says in (
            (b"v,id,v\nx,2,y\n", ["--columns", "union"], "two are named 'v'"),
            (b"id\n2\n", ["--columns", "same"], "cannot find the column 'v' (try: --columns union)"),
            (b"w,v,id\n,,2\n", ["--columns", "same"], "cannot find the column 'w' in "),
            (b"v,id\na,2\nb,3,c\n", ["--columns", "same"], "row 3: 3 columns, and the header has 2"),
            (b'v,id\na,2\n"b,3\n', ["--columns", "same"], "row 3: a quote that nothing closes"),
            (b"v,id\na,2\n" + b"b" * 9_000_000 + b",3\n", ["--columns", "same"], "cannot read row 3 of more than"),
            (b"id,v\n1,a\n", ["--columns", "equals"], "(try: equal, same or union)"),
            (b"id,v\n1,a\n", ["--select", "w"], "cannot find this column"),
            (b"id,v\n1,a\n", ["--select", "3"], "column 3"),
        ):
            other = self.write("other.csv", data)
            with self.subTest(words=words, says=says):
                self.refused("sort", "--csv", "--header", "--key", "id:n", *words, "-S", "1G" if SANITIZED else "32M", good, other, "-o", self.out, says=says)
                self.assertFalse(self.out.exists())
        for option in ("--resume", "--verify"):
            self.refused("sort", "--csv", "--header", "--key", "id", "--columns", "same", option, good, "-o", self.out, says=f"{option}: cannot do that with columns")
        self.refused("sort", "--columns", "same", twice, says="--csv --header")
        self.refused("sort", "--csv", "--select", "1", twice, says="--csv --header")


if __name__ == "__main__":
    end_to_end.main("columns")
