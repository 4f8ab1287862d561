#!/usr/bin/env python3
"""penstock join beside a plain model: kinds, several keys, two to five files of CSV, lines and JSON lines: join_test.py PENSTOCK [TEST...].

Prints its seed; PENSTOCK_TEST_SEED repeats a run.
"""

import collections
import csv
import decimal
import io
import itertools
import json
import os
import pathlib
import subprocess

import end_to_end
from end_to_end import SEED, random_cases, run, skip_without_gnu

SANITIZED = "ASAN_OPTIONS" in os.environ
MEMORY = "1G" if SANITIZED else "32M"
CASES = 40 if SANITIZED else end_to_end.trials(800)
KINDS = ("inner", "left", "right", "full", "semi", "anti", "-v1", "-v2", "-v1 -v2")
Row = collections.namedtuple("Row", "raw fields")  # bytes with their end, and the values


def rows_of_key(kind, groups):
    """The rows of one key, each with one item or None of each file, by the items of all files with the key."""
    has = [bool(group) for group in groups]
    wanted = {"inner": all(has), "left": has[0], "right": has[-1], "full": True, "semi": all(has), "anti": has[0] and not any(has[1:]),
              "-v1": has[0] and not all(has), "-v2": has[-1] and not all(has), "-v1 -v2": not all(has)}
    if not wanted[kind]:
        return []
    if kind in ("semi", "anti"):
        return [(item,) for item in groups[0]]
    return list(itertools.product(*(group or [None] for group in groups)))


def joined(kind, tables, keys_of, reverse=False):
    """The rows of a join in the order of their keys. keys_of(item, file): the key, which Python orders alike."""
    groups = collections.defaultdict(lambda: [[] for _ in tables])
    for number, table in enumerate(tables):
        for item in table:
            groups[keys_of(item, number)][number].append(item)
    return [row for key in sorted(groups, reverse=reverse) for row in rows_of_key(kind, groups[key])]


class Joins(end_to_end.Case):
    def kind(self, files):
        kind = self.random.choice(KINDS)
        while (kind == "right" or kind.startswith("-v")) and files > 2:
            kind = self.random.choice(KINDS)
        return kind, [] if kind == "inner" else kind.split() if kind.startswith("-v") else ["--" + kind]

    def text(self):
        return self.random.choice(["", "a", "b", "ab", "B", "x y", "é", "a,b", 'q"q', "two\nlines", "10", "9", "-"])

    def row_of(self, fields, end):
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=end, quoting=self.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL])).writerow(fields)
        return text.getvalue().encode()

    def run_join(self, *words, inputs):
        """The output: of files, which are joined by a table; it is the same if one of them is a pipe, which is sorted."""
        words = [*words, "-S", MEMORY, "-T", self.folder]
        done = run("join", *words, *inputs)
        place = self.random.randrange(len(inputs))
        sorts = run("join", *words, *inputs[:place], "-", *inputs[place + 1:], stdin=pathlib.Path(inputs[place]).read_bytes())
        self.assertEqual(done.stdout, sorts.stdout)
        self.assertEqual([path.name for path in self.folder.iterdir() if "penstock" in path.name], [])
        return done.stdout

    def inputs(self, datas):
        return [self.write(f"in{number}", data) for number, data in enumerate(datas)]

    @random_cases(CASES)
    def test_rows_of_csv(self):
        rng = self.random
        files, keys = rng.choice([2, 2, 2, 3, 4, 5]), rng.choice([1, 1, 2, 3])
        kind, words = self.kind(files)
        numeric = [rng.random() < 0.3 for _ in range(keys)]
        end = rng.choice(["\n", "\r\n"])
        headers, tables, key_places = [], [], []
        for number in range(files):
            names = [f"k{i}" for i in range(keys)] + [f"v{number}{i}" for i in range(rng.randrange(3))]
            rng.shuffle(names)
            headers.append(names)
            key_places.append([names.index(f"k{i}") for i in range(keys)])
            table = []
            for _ in range(rng.choice([0, 1, 4, 12, 30])):
                fields = [self.text() for _ in names]
                for i, place in enumerate(key_places[-1]):
                    fields[place] = rng.choice(["1", "2", "10", "1.0", "02"] if numeric[i] else ["", "a", "b", "B", "é", 'q"q'])
                if len(fields) == 1 and not fields[0]:
                    fields[0] = "a"  # a blank row is another thing
                table.append(Row(self.row_of(fields, end), fields))
            tables.append(table)
        datas = [self.row_of(header, end) + b"".join(row.raw for row in table) for header, table in zip(headers, tables)]
        # A last row may lack its end.
        datas = [data.removesuffix(end.encode()) if table and rng.random() < 0.2 else data for data, table in zip(datas, tables)]
        if files == 2 and rng.random() < 0.3:  # other names on the right
            datas[1] = datas[1].replace(b"k", b"r", keys)
            named = [["-1", f"k{i}"] for i in range(keys)], [["-2", f"r{i}"] for i in range(keys)]
            named = [[*left[:1], left[1] + ":n" * numeric[i], *right[:1], right[1] + ":n" * numeric[i]] for i, (left, right) in enumerate(zip(*named))]
        else:
            named = [["--key", f"k{i}" + ":n" * numeric[i]] for i in range(keys)]

        def key_of(row, number):
            values = (row.fields[place] for place in key_places[number])
            return tuple(decimal.Decimal(value) if numeric[i] else value.encode() for i, value in enumerate(values))

        rows = joined(kind, tables, key_of)
        with self.subTest(kind=kind, datas=datas, named=named):
            got = self.run_join(*words, "--csv", "--header", *itertools.chain(*named), inputs=self.inputs(datas))
            if kind in ("semi", "anti"):
                self.assertEqual(got, self.row_of_bytes(datas[0], headers[0], end) + b"".join(row[0].raw for row in rows))
                return
            others = [[place for place in range(len(header)) if place not in places] for header, places in zip(headers, key_places)]
            wanted = [[f"k{i}" for i in range(keys)] + [header[place] for header, those in zip(headers, others) for place in those]]
            for row in rows:
                first = next(number for number, item in enumerate(row) if item)
                values = [row[first].fields[place] for place in key_places[first]]
                for item, places in zip(row, others):
                    values += [item.fields[place] if item else "" for place in places]
                wanted.append(values)
            self.assertEqual(list(csv.reader(io.StringIO(got.decode(), newline=""), strict=True)), wanted)
            self.assertEqual(got.count(b"\r\n"), got.count(b"\n") - got.count(b"two\nlines") if end == "\r\n" else 0)

    def row_of_bytes(self, data, header, end):
        """The header as it is in the file."""
        first = data.splitlines()[0]
        self.assertEqual(next(csv.reader([first.decode()])), header)
        return first + end.encode()

    @random_cases(CASES)
    def test_lines(self):
        rng = self.random
        files, keys = rng.choice([2, 2, 3, 4]), rng.choice([1, 1, 2])
        kind, words = self.kind(files)
        places = [rng.sample(range(3), keys) for _ in range(2)]
        places = [places[0], *[places[1]] * (files - 1)]
        widths = [3 + rng.randrange(2) for _ in range(files)]
        tables = [[[rng.choice(["", "a", "b", "ab", "A", "a b"]) for _ in range(width)] for _ in range(rng.choice([0, 1, 5, 20]))] for width in widths]
        reverse = rng.random() < 0.2
        for number, table in enumerate(tables):
            if rng.random() < 0.3:
                table.sort(key=lambda fields: [fields[place].encode() for place in places[number]])
        data = [b"".join(",".join(fields).encode() + b"\n" for fields in table) for table in tables]
        rows = joined(kind, tables, lambda fields, number: tuple(fields[place].encode() for place in places[number]), reverse)
        wanted = b""
        for row in rows:
            first = next(number for number, item in enumerate(row) if item)
            values = [row[first][place] for place in places[first]]
            for number, item in enumerate(row):
                # Lines without a partner have no fields for it, but in a join of many files, where other fields follow.
                missing = [""] * (widths[number] if files > 2 and tables[number] else 0)
                own = item or missing
                values += [value for place, value in enumerate(own) if place not in places[number]]
            wanted += ",".join(row[0] if kind in ("semi", "anti") else values).encode() + b"\n"
        named = [word for left, right in zip(*places[:2]) for word in ("-1", left + 1, "-2", right + 1)]
        with self.subTest(kind=kind, data=data, named=named):
            self.assertEqual(self.run_join(*words, *["-r"] * reverse, "-t", ",", *named, inputs=self.inputs(data)), wanted)

    @random_cases(CASES)
    def test_json_lines(self):
        rng = self.random
        files = rng.choice([2, 2, 3, 4])
        kind, words = self.kind(files)
        tables = []
        for _ in range(files):
            ids = [(rng.choice(['"a"', '"b"', '"\\u0061"', '"c"']), rng.randrange(3)) for _ in range(rng.choice([0, 1, 5, 20]))]
            tables.append([Row(b'%s{"x":{"id": %s},"n":%d,"v":%d}%s\n' % (rng.choice([b"", b" "]), text.encode(), number, rng.randrange(9), rng.choice([b"", b" "])),
                               (json.loads(text), number)) for text, number in ids])
        rows = joined(kind, tables, lambda row, _: row.fields)
        names = ("left", "right") if files == 2 else "12345"
        wanted = b""
        for row in rows:
            both = [b'"%s":%s' % (name.encode(), item.raw.strip()) for name, item in zip(names, row) if item]
            wanted += row[0].raw if kind in ("semi", "anti") else b"{" + b",".join(both) + b"}\n"
        data = [b"".join(row.raw for row in table) for table in tables]
        with self.subTest(kind=kind, data=data):
            self.assertEqual(self.run_join(*words, "--jsonl", "--key", ".x.id", "--key", ".n", inputs=self.inputs(data)), wanted)

    def test_lists_of_fields(self):
        data = [b"k,a\n1,x\n1,y\n2,z\n", b"k,b\n1,p\n3,q\n", b'k,"c, d"\n1,r\n1,s\n']
        for words, wanted in ((["-o", '3."c, d",0,1.a', "--full", "-e", "?"], b'"c, d",k,a\nr,1,x\ns,1,x\nr,1,y\ns,1,y\n?,2,z\n?,3,?\n'),
                              (["-o", "1.a", "--semi"], b"a\nx\ny\n"), (["-o", "1.a,0", "--anti"], b"a,k\nz,2\n"),
                              (["-o", "3.2,2.1"], b'"c, d",k\nr,1\ns,1\nr,1\ns,1\n')):
            self.assertEqual(self.run_join("--csv", "--header", "--key", "k", *words, inputs=self.inputs(data)), wanted, words)

    def test_more_than_memory_and_pipes(self):
        rng = self.random
        count = 20_000 if SANITIZED else 250_000
        tables = []
        for number in range(3):
            lines = [b"%d,%d,%s" % (rng.randrange(count), number, b"z" * rng.randrange(150)) for _ in range(count)]
            # Too many of one key to hold, in one file alone.
            lines += [b"7,%d,%s" % (number, b"q" * 3000)] * (3000 if number == 1 and not SANITIZED else 2)
            rng.shuffle(lines)
            tables.append(lines)
        data = [b"".join(line + b"\n" for line in table) for table in tables]
        paths = self.inputs(data)
        for kind in ("inner", "left", "full", "semi", "anti"):
            words = [] if kind == "inner" else ["--" + kind]
            rows = joined(kind, tables, lambda line, _: line.partition(b",")[0])
            wanted = []
            for row in rows:
                key = next(item for item in row if item).partition(b",")[0]
                wanted.append(row[0] if kind in ("semi", "anti") else b",".join([key, *[item.partition(b",")[2] if item else b"," for item in row]]))
            out = self.folder / "out"
            told = json.loads(run("join", *words, "-t", ",", *paths[:2], "-", "-o", out, "--json", "-S", MEMORY, "-T", self.folder, stdin=data[2]).stdout)
            self.assertTrue(sorted(out.read_bytes().splitlines()) == sorted(wanted), kind)
            self.assertEqual((told["items"], told["sorted_inputs"]), (len(wanted), 3))
            if not SANITIZED:
                self.assertLessEqual(told["peak_rss_bytes"], 32 << 20)

    def test_files_that_just_fit_in_a_table_or_do_not(self):
        rng = self.random
        ways = set()
        shares = [0.02, 3, *[rng.uniform(0.2, 1.5) for _ in range(1 if SANITIZED else 4)], None]
        for share in shares:
            # The first lines of None are long, so that the table is full before the rest was read.
            count = int((share or 2.5) * 100_000)
            tables = []
            for number in range(2):
                lines = [b"%d,%d,%s" % (rng.randrange(count), number, b"z" * rng.randrange(40 if share else 2)) for _ in range(count)]
                if share is None:
                    lines = [b"x%d,%s" % (i, b"q" * 2000) for i in range(100)] + lines
                tables.append(lines)
            kind = rng.choice(["inner", "left", "full", "anti"])
            rows = joined(kind, tables, lambda line, _: line.partition(b",")[0])
            wanted = []
            for row in rows:
                key = next(item for item in row if item).partition(b",")[0]
                wanted.append(row[0] if kind == "anti" else b",".join([key, *[item.partition(b",")[2] for item in row if item]]))
            out = self.folder / "out"
            with self.subTest(share=share, kind=kind, seed=SEED):
                told = json.loads(run("join", *[[], ["--" + kind]][kind != "inner"], "-t", ",", *self.inputs([b"".join(line + b"\n" for line in table) for table in tables]),
                                      "-o", out, "--json", "-S", "32M" if not SANITIZED else MEMORY, "-T", self.folder).stdout)
                self.assertTrue(out.read_bytes() == b"".join(row + b"\n" for row in wanted))
                self.assertEqual((told["items"], told["sorted_inputs"]), (len(wanted), 2))
                ways.add(told["temp_bytes"] > 0)
                if not SANITIZED:
                    self.assertLessEqual(told["peak_rss_bytes"], 32 << 20)
        self.assertEqual(ways, {False} if SANITIZED else {False, True})

    def test_a_large_file_beside_a_small_one(self):
        # Rows without a partner take no memory, as long as the first ones show that most have none.
        rng = self.random
        count = 40_000 if SANITIZED else 400_000
        keys = rng.sample(range(10**6), 1000)
        for kind, share, fits in (("inner", 0.01, True), ("semi", 0.01, True), ("left", 0.01, True), ("inner", 1, False), ("left", 1, False), ("anti", 0.01, False)):
            small = [b"%d,s" % key for key in keys]
            large = [b"%d,%s" % (rng.choice(keys) if rng.random() < share else 10**6 + i, b"z" * 70) for i in range(count)]
            # The first file of a left join is the one whose rows are all kept.
            tables = [small, large] if kind == "left" else [large, small]
            rows = joined(kind, tables, lambda line, _: line.partition(b",")[0])
            wanted = [row[0] if kind in ("semi", "anti") else b",".join([row[0], *[item.partition(b",")[2] for item in row[1:] if item]]) for row in rows]
            out = self.folder / "out"
            with self.subTest(share=share, kind=kind, seed=SEED):
                told = json.loads(run("join", *[[], ["--" + kind]][kind != "inner"], "-t", ",", *self.inputs([b"".join(line + b"\n" for line in table) for table in tables]),
                                      "-o", out, "--json", "-S", "32M" if not SANITIZED else MEMORY, "-T", self.folder).stdout)
                self.assertTrue(out.read_bytes() == b"".join(row + b"\n" for row in wanted))
                if not SANITIZED:
                    self.assertEqual(told["temp_bytes"] == 0, fits)
                    self.assertLessEqual(told["peak_rss_bytes"], 32 << 20)

    def test_many_files_fit_or_are_refused(self):
        paths = [self.write(f"in{number}", b"k v%d\n" % number) for number in range(200)]
        done = run("join", *paths, "-S", "32M", code=2)
        self.assertIn(b"cannot join 200 files within 32 MiB (try: at least ", done.stderr)
        memory = done.stderr.split(b"at least ")[1].split(b"M)")[0]
        for count, megabytes in ((70, b"32"), (200, memory)):
            told = json.loads(run("join", *paths[:count], "-S", megabytes + b"M", "-T", self.folder, "-o", self.folder / "out", "--json").stdout)
            self.assertEqual((self.folder / "out").read_bytes(), b"k " + b" ".join(b"v%d" % number for number in range(count)) + b"\n")
            if not SANITIZED:
                self.assertLessEqual(told["peak_rss_bytes"], int(megabytes) << 20)

    @random_cases(CASES // 4 + 1)
    def test_beside_a_chain_of_gnu_join(self):
        skip_without_gnu("join")
        files = self.random.choice([3, 4, 5])
        paths = []
        for number in range(files):
            lines = sorted(b"%s %d%d\n" % (self.random.choice([b"a", b"b", b"c", b"dd"]), number, i) for i in range(self.random.choice([1, 3, 9])))
            paths.append(self.write(f"in{number}", b"".join(lines)))
        words = self.random.choice([[], ["-a1", "-e", "-", "-o", "auto"], ["-a1", "-a2", "-e", "-", "-o", "auto"]])
        chain = paths[0].read_bytes()
        for path in paths[1:]:
            chain = subprocess.run(["join", *words, "-", path], input=chain, capture_output=True, check=True, env=dict(os.environ, LC_ALL="C")).stdout
        kinds = {0: [], 5: ["--left"], 6: ["--full"]}[len(words)]
        with self.subTest(words=words):
            got = self.run_join(*kinds, *words[-4:], inputs=paths)
            self.assertEqual(sorted(got.splitlines()), sorted(chain.splitlines()))

    def test_refusals(self):
        one, other = self.write("a", b"k,a\n1,2\n"), self.write("b", b"k,b\n1,3\n")
        table = ["--csv", "--header", "--key", "k"]
        for words, says in ((["--left", "--semi"], b"in two ways"), (["-a1", "--anti"], b"in two ways"), (["--semi", "-o", "2.b"], b"-o 2.b"),
                            (["--anti", "-o", "auto"], b"as they are"), (["--semi", "-e", "x"], b"as they are"), (["-o", "3.b"], b"list of fields")):
            done = run("join", *table, *words, one, other, code=2)
            self.assertIn(says, done.stderr)
            self.assertIn(b"(try: ", done.stderr)
            self.assertEqual(done.stdout, b"")
        for words in (["-1", "k:n", "-2", "k"], ["-1", "k:n", "-2", "k:n:desc"], ["-1", "k:f", "-2", "k", "--semi"]):
            self.assertIn(b"different ways", run("join", *words, one, other, code=2).stderr, words)
        self.assertIn(b"more keys on one side", run("join", "-1", "k,a", "-2", "k", "--semi", one, other, code=2).stderr)
        self.assertIn(b"--format u64", run("join", "--semi", "--format", "u64", one, other, code=2).stderr)
        for words, says in ((["--right"], b"three files"), (["-a", "2"], b"three files"), (["-v", "1"], b"three files"), (["-o", "4.b"], b"list of fields")):
            done = run("join", *table, *words, one, other, other, code=2)
            self.assertIn(says.replace(b"three", b"3"), done.stderr)
            self.assertIn(b"(try: ", done.stderr)


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("join_end_to_end")
