#!/usr/bin/env python3
"""penstock join beside GNU join, and of CSV beside Python: gnu_join_test.py PENSTOCK [TEST...].

PENSTOCK_TEST_SEED selects other cases, PENSTOCK_CASES more.
"""

import csv
import io
import json
import os
import random
import subprocess

import end_to_end
from end_to_end import SEED, random_cases, run, skip_without_gnu

SANITIZED = "ASAN_OPTIONS" in os.environ
MEMORY = "1G" if SANITIZED else "32M"
CASES = int(os.environ.get("PENSTOCK_CASES", 60 if SANITIZED else end_to_end.trials(600)))
C_LOCALE = dict(os.environ, LC_ALL="C")
WORDS = ["", "a", "b", "ab", "Ab", "aB", "B", "1", "2", "10", "x y", "\xe4", "\x01", "-", "long" * 9]


def random_line(rng, separator):
    fields = [rng.choice(WORDS) for _ in range(rng.randrange(5))]
    line = separator.join(fields) if rng.random() < 0.8 else " " + rng.choice([" ", "\t"]).join(fields) + "  "
    if rng.random() < 0.01:
        line += "y" * rng.randrange(20000)
    return line.encode("latin-1")


def random_options(rng):
    """Random options, the separator of fields, and each side's field."""
    separator = rng.choice([None, None, ",", ":", "\t", "x", " "])
    options = [] if separator is None else rng.choice([["-t", separator], ["-t" + separator]])
    left, right = rng.choice([(1, 1), (1, 1), (2, 1), (1, 3), (2, 2)])
    if left == right and rng.random() < 0.5:
        options += ["-j", str(left)] if left > 1 or rng.random() < 0.5 else []
    else:
        options += ["-1", str(left), f"-2{right}"]
    options += rng.choice([[], [], ["-a1"], ["-a", "2"], ["-a1", "-a2"], ["-v1"], ["-v", "2"], ["-v1", "-v2"], ["-a1", "-v2"]])
    options += rng.choice([[], [], ["-e", "EMPTY"]])
    options += rng.choice([[], [], ["-o", "auto"], ["-o", "0,1.2,2.2"], ["-o", "2.1 1.1,0"], ["-o", "1.9", "-o", "2.1"], ["-o0"]])
    options += rng.choice([[], [], [], ["-i"]]) + rng.choice([[], [], [], ["--header"]]) + rng.choice([[], [], [], [], ["-z"]])
    return options, separator, left, right


class BesideGnuJoin(end_to_end.Case):
    def setUp(self):
        super().setUp()
        skip_without_gnu("join")

    def compare(self, options, ours, theirs, stdin=None):
        want = subprocess.run(["join", *options, *theirs], capture_output=True, env=C_LOCALE, input=stdin)
        got = run("join", "-S", MEMORY, "-T", self.folder, *options, *ours, code=want.returncode, stdin=stdin or b"")
        told = f"join {options} {ours}\n{want.stderr[-300:]}\n{got.stderr[-300:]}"
        if got.stdout != want.stdout:
            at = len(os.path.commonprefix([got.stdout, want.stdout]))
            self.fail(f"{told}\nat byte {at}\nours   {got.stdout[max(0, at - 60):at + 60]}\n"
                      f"theirs {want.stdout[max(0, at - 60):at + 60]}")

    @random_cases(CASES)
    def test_random_options_and_lines(self):
        rng = self.random
        options, separator, left, right = random_options(rng)
        end = b"\0" if "-z" in options else b"\n"
        ours, theirs = [], []
        for name, field in (("left", left), ("right", right)):
            lines = [random_line(rng, separator or " ") for _ in range(rng.choice([0, 1, 3, 10, 60]))]
            if rng.random() < 0.03:
                lines += [(separator or " ").join(["same"] * 4).encode()] * 2500
            blank = "b" if separator is None else ""
            order = ["sort", "-s", f"-k{blank and f'{field}b,{field}' or f'{field},{field}'}"]
            order += ["-t", separator] if separator else []
            order += ["-f"] if "-i" in options else []
            if blank and "-i" in options:
                order[2] += "f"
            order += ["-z"] if "-z" in options else []
            head = lines[:1] if "--header" in options else []
            body = subprocess.run(order, input=b"".join(line + end for line in lines[len(head):]), capture_output=True, env=C_LOCALE)
            sorted_path = self.write(name + ".sorted", b"".join(line + end for line in head) + body.stdout)
            whole = end.join(lines) + (b"" if lines and lines[-1] and rng.random() < 0.3 else end if lines else b"")
            theirs.append(str(sorted_path))
            ours.append(str(self.write(name, whole) if rng.random() < 0.7 else sorted_path))
        stdin = None
        if rng.random() < 0.2:  # one from a pipe
            side = rng.randrange(2)
            with open(ours[side], "rb") as file:
                stdin = file.read()
            with open(theirs[side], "rb") as file:
                if ours[side] == theirs[side] or file.read() == stdin:
                    ours[side] = theirs[side] = "-"
                else:
                    stdin = None
        self.compare(options, ours, theirs, stdin)

    def test_whole_lines_are_fields(self):
        self.write("a", b"a b\nc\n")
        self.write("b", b"c\na b\n")
        self.write("b.sorted", b"a b\nc\n")
        self.compare(["-t", ""], [self.folder / "a", self.folder / "b"], [self.folder / "a", self.folder / "b.sorted"])

    def test_more_than_memory(self):
        rng = random.Random(SEED)
        sides = []
        for name in ("left", "right"):
            lines = [f"{rng.randrange(400_000)} {name} {'z' * rng.randrange(100)}".encode() for _ in range(600_000)]
            lines += [b"7 " + b"q" * 3000] * (3000 if name == "right" else 3)  # too many to hold, so that the left lines are held
            rng.shuffle(lines)
            path = self.write(name, b"\n".join(lines) + b"\n")
            ordered = self.folder / (name + ".sorted")
            subprocess.run(["sort", "-s", "-k1b,1", "-o", ordered, path], env=C_LOCALE, check=True)
            sides.append((str(path), str(ordered)))
        # If a key has too many right lines, the left ones vary fastest: the same lines in another order.
        want = subprocess.run(["join", "-a1", *[side[1] for side in sides]], capture_output=True, env=C_LOCALE).stdout
        out = self.folder / "out"
        for ours in ([side[0] for side in sides], [sides[0][1], sides[1][0]]):
            told = json.loads(run("join", "-S", MEMORY, "-T", self.folder, "-a1", *ours, "-o", out, "--json").stdout)
            got = out.read_bytes()
            self.assertTrue(sorted(got.splitlines()) == sorted(want.splitlines()), "other lines")
            self.assertEqual(told["items"], want.count(b"\n"))
            self.assertEqual(told["sorted_inputs"], sum(not path.endswith("sorted") for path in ours))
            if not SANITIZED:
                self.assertLessEqual(told["peak_rss_bytes"], 32 << 20)
        self.assertEqual([path.name for path in self.folder.iterdir() if "penstock" in path.name], [])

    def test_refusals(self):
        a, b = self.write("a", b"b\na\n"), self.write("b", b"a\nb\n")
        self.assertIn(b"line 2: not in order", run("join", "--check-order", a, b, code=2).stderr)
        for words in (["-1", "x"], ["-1", "0"], ["-a", "3"], ["-o", "1.x"], ["-t", "ab"], ["--header=2"], ["-o", "x", "-o", "y"],
                      ["--format", "u64", "-a1"], ["--csv", "--key", "name"], ["-o", "auto", "-o", "1.1"],
                      ["--csv", "-1", "1", "-2", "1", "-2", "2"]):
            self.assertIn(b"(try:", run("join", *words, a, b, code=2).stderr, words)
        # The output may be an input.
        run("join", a, b, "-o", a)
        self.assertEqual(a.read_bytes(), b"a\nb\n")


class JoinOfCsv(end_to_end.Case):
    def table(self, header, rows):
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator=self.random.choice(["\n", "\r\n"]),
                            quoting=self.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        writer.writerows([header, *rows])
        return text.getvalue().encode()

    def value(self):
        return self.random.choice(["", "a,b", 'say "hi"', "two\nlines", "plain", "é"]) + str(self.random.randrange(3))

    def read(self, data):
        return list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))

    def test_keys_are_columns_by_name(self):
        for _ in range(10 if SANITIZED else 60):
            left = [[self.value(), str(self.random.randrange(8)), self.value()] for _ in range(self.random.randrange(30))]
            right = [[str(self.random.randrange(8)), self.value()] for _ in range(self.random.randrange(30))]
            one = self.write("left.csv", self.table(["name", "id", "city, town"], left))
            other = self.write("right.csv", self.table(["user", "amount"], right))
            words = ["--csv", "--header", "-1", "id", "-2", "user", "-S", MEMORY]
            pairs = [[b[0], a[0], a[2], b[1]] for a in left for b in right if a[1] == b[0]]
            alone = [[a[1], a[0], a[2], ""] for a in left if a[1] not in {b[0] for b in right}]
            others = [[b[0], "", "", b[1]] for b in right if b[0] not in {a[1] for a in left}]
            key = lambda row: row[0]
            for more, rows in (([], pairs), (["-a1"], pairs + alone), (["-a1", "-a2"], pairs + alone + others), (["-v1"], alone)):
                got = self.read(run("join", *words, *more, one, other).stdout)
                self.assertEqual(got, [["id", "name", "city, town", "amount"], *sorted(rows, key=key)])
            got = self.read(run("join", *words, "-o", "2.amount,0,1.name", "-a1", "-e", "none, of it", one, "-",
                                stdin=other.read_bytes()).stdout)
            self.assertEqual(got[0], ["amount", "id", "name"])
            filled = lambda text: text if text else "none, of it"
            self.assertEqual(sorted(got[1:]), sorted([filled(row[3]), row[0], filled(row[1])] for row in pairs + alone))

    def test_several_keys_and_numbers(self):
        one = self.write("a.csv", b"k,n,x\nb,1.0,p\na,10,q\na,9,r\n")
        other = self.write("b.csv", b"y,n,k\ns,9.00,a\nt,1,b\nu,10,z\n")
        self.assertEqual(run("join", "--csv", "--header", "--key", "k", "--key", "n:n", one, other).stdout,
                         b"k,n,x,y\na,9,r,s\nb,1.0,p,t\n")

    def test_faults(self):
        good = self.write("a.csv", b"id,x\n1,2\n")
        for data, text in ((b'id,x\n1,"2\n', b"row 2"), (b"other\n1\n", b"column"), (b"id,id\n1,1\n", b"same name")):
            done = run("join", "--csv", "--header", "--key", "id", good, self.write("b.csv", data), code=2)
            self.assertIn(text, done.stderr)
        # An empty side pairs with nothing.
        done = run("join", "--csv", "--header", "--key", "id", "-a1", good, self.write("b.csv", b""))
        self.assertEqual(done.stdout, b"id,x\n1,2\n")
        mark = self.write("b.csv", b"\xef\xbb\xbfid,y\n1,3\n")
        self.assertEqual(run("join", "--csv", "--header", "--key", "id", mark, good).stdout, b"\xef\xbb\xbfid,y,x\n1,3,2\n")


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED), {CASES} cases (PENSTOCK_CASES)")
    end_to_end.main("gnu_join_end_to_end")
