#!/usr/bin/env python3
"""Duplicates beside GNU sort and uniq and models in Python: duplicates_test.py PENSTOCK [TEST...]. Prints its seed;
PENSTOCK_TEST_SEED repeats a run."""

import collections
import csv
import gzip
import io
import json
import os
import subprocess

import end_to_end
from end_to_end import SEED, random_cases, run

SANITIZED = "ASAN_OPTIONS" in os.environ
SMALL_MEMORY = "1G" if SANITIZED else "32M"
CASES = 10 if SANITIZED else end_to_end.trials(160)
KEEPS = ("first", "last", "none", "repeated")


def kept(items, key, keep):
    """The items that --keep leaves of sorted ones."""
    groups = collections.defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    chosen = []
    for group in groups.values():
        if keep == "repeated":
            chosen += group if len(group) > 1 else []
        elif keep != "none" or len(group) == 1:
            chosen.append(group[-1 if keep == "last" else 0])
    return chosen


def gnu(command, data):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


class Keep(end_to_end.Case):
    def parts(self, items):
        """Cuts items into up to three runs."""
        cuts = sorted(self.random.randrange(len(items) + 1) for _ in range(self.random.randrange(3)))
        return [items[a:b] for a, b in zip([0, *cuts], [*cuts, len(items)])]

    def inputs(self, parts, head=b""):
        paths = []
        for number, part in enumerate(parts):
            data = head + b"".join(part)
            name = f"in{number}"
            if self.random.random() < 0.2:
                data, name = gzip.compress(data), name + ".gz"
            paths.append(self.write(name, data))
        return paths

    def compare(self, parts, words, key, order, head=b"", name=""):
        """Runs sort, sort -m and merge of the parts with every --keep; `order` is the key of the sort."""
        items = [item for part in parts for item in part]
        inputs = self.inputs(parts, head)
        runs = [sorted(part, key=order) for part in parts]
        merged = [self.write(f"run{number}", head + b"".join(run)) for number, run in enumerate(runs)]
        for keep in KEEPS:
            threads = self.random.choice([1, 4])
            wanted = head + b"".join(kept(sorted(items, key=order), key, keep))
            commands = [(["sort", "--parallel", threads, "--keep", keep], inputs), (["sort", "-m", "--keep", keep], merged),
                        (["merge", "--keep", keep], merged)]
            if keep == "first":
                commands += [(["sort", "--parallel", threads, "-u"], inputs), (["merge", "-u"], merged)]
            for command, paths in commands:
                with self.subTest(name, seed=SEED, command=command):
                    self.assertEqual(run(*command, *words, *paths).stdout, wanted)
            top = self.random.randrange(1, 6)
            first = head + b"".join(kept(sorted(items, key=order), key, keep)[:top])
            with self.subTest(name, seed=SEED, keep=keep, top=top):
                self.assertEqual(run("sort", "--keep", keep, "--top", top, *words, *inputs).stdout, first)

    def test_lines(self):
        for case in range(CASES // 4):
            names = [f"{self.random.choice('abcd')}{self.random.choice(['', 'x' * 30])}" for _ in range(self.random.randrange(1, 6))]
            lines = [f"{self.random.choice(names)} {number}\n".encode() for number in range(self.random.randrange(40))]
            field = lambda line: line.split()[0]
            self.compare(self.parts(lines), ["-s", "-k1,1"], field, field, name=f"case {case}")
            whole = [line.split()[0] + b"\n" for line in lines]
            self.compare(self.parts(whole), [], lambda line: line, lambda line: line, name=f"whole, case {case}")
            self.compare(self.parts([line.replace(b"\n", b"\0") for line in lines]), ["-z", "-k1,1"], field, field, name=f"-z, case {case}")

    def test_numbers_as_text(self):
        for case in range(CASES // 8):
            lines = [f"{self.random.choice(['1', '01', '1.0', '2', '2.00', '-3'])},{number}\n".encode() for number in range(self.random.randrange(30))]
            value = lambda line: float(line.split(b",")[0])
            self.compare(self.parts(lines), ["-t,", "-k1,1n"], value, value, name=f"case {case}")
            self.compare(self.parts(lines), ["-t,", "-k1,1nr"], value, lambda line: -value(line), name=f"-r, case {case}")

    def test_csv_and_json_lines(self):
        for case in range(CASES // 8):
            names = ["a", "b,c", 'say "hi"', "two\nlines", ""][: self.random.randrange(1, 6)]
            rows = []
            for number in range(self.random.randrange(30)):
                text = io.StringIO()
                csv.writer(text, lineterminator="\n").writerow([self.random.choice(names), number])
                rows.append(text.getvalue().encode())
            column = lambda row: next(csv.reader(io.StringIO(row.decode(), newline="")))[0]
            self.compare(self.parts(rows), ["--csv", "--header", "--key", "name"], column, lambda row: column(row).encode(), b"name,n\n", f"case {case}")
            lines = [(json.dumps({"n": number, "k": self.random.choice(["x", "y", 'q"'])}) + "\n").encode() for number in range(self.random.randrange(30))]
            member = lambda line: json.loads(line)["k"]
            self.compare(self.parts(lines), ["--jsonl", "--key", ".k"], member, member, name=f"JSON, case {case}")

    def test_records_and_pairs(self):
        for case in range(CASES // 8):
            count = self.random.randrange(40)
            records = [bytes([self.random.randrange(4), self.random.randrange(2), number]) for number in range(count)]
            self.compare(self.parts(records), ["--format", "record", "--record", 3, "--key", "0:2"], lambda item: item[:2], lambda item: item[:2], name=f"case {case}")
            pairs = [self.random.choice([1, 2, 1 << 40, 7]).to_bytes(8, "little") + number.to_bytes(8, "little") for number in range(count)]
            number = lambda item: int.from_bytes(item[:8], "little")
            self.compare(self.parts(pairs), ["--format", "kv64"], number, number, name=f"pairs, case {case}")
            self.compare(self.parts([pair[:8] for pair in pairs]), ["--format", "u64"], number, number, name=f"u64, case {case}")

    def test_more_than_memory(self):
        count = 4_000 if SANITIZED else 1_200_000
        keys = [f"{self.random.randrange(count // 2):032}" for _ in range(count)]
        lines = [f"{key},{number}\n" for number, key in enumerate(keys)]
        path = self.write("in", "".join(["key,n\n", *lines]).encode())
        ordered = sorted(lines, key=lambda line: line[:32])
        for keep in KEEPS:
            for threads in (1, 4):
                with self.subTest(seed=SEED, keep=keep, threads=threads):
                    run("sort", "--csv", "--header", "--key", "key", "--keep", keep, "-S", SMALL_MEMORY, "--parallel", threads, path, "-o",
                        self.folder / "out", "--stats", self.folder / "stats")
                    wanted = kept(ordered, lambda line: line[:32], keep)
                    self.assertEqual((self.folder / "out").read_bytes(), "".join(["key,n\n", *wanted]).encode())
                    stats = json.loads((self.folder / "stats").read_text())
                    self.assertEqual((stats["items"], stats["bytes"]), (len(wanted), (self.folder / "out").stat().st_size))
                    if not SANITIZED:
                        self.assertGreater(stats["temp_bytes"], 0)
                        self.assertLessEqual(stats["peak_rss_bytes"], stats["budget_bytes"])
        run("sort", "-t,", "-k1,1", "-u", "-S", SMALL_MEMORY, path, "-o", self.folder / "out")
        self.assertEqual((self.folder / "out").read_text(), "".join([*kept(ordered, lambda line: line[:32], "first"), "key,n\n"]))

    def test_long_lines_and_a_file_in_place(self):
        lines = [self.random.choice("ab") * self.random.choice([3, 3_000_000]) + f" {number}\n" for number in range(9)]
        path = self.write("in", "".join(lines).encode())
        ordered = sorted(lines, key=lambda line: line.split()[0])
        for keep in KEEPS:
            with self.subTest(seed=SEED, keep=keep):
                wanted = "".join(kept(ordered, lambda line: line.split()[0], keep)).encode()
                self.assertEqual(run("sort", "-k1,1", "--keep", keep, path).stdout, wanted)
                copy = self.write("copy", path.read_bytes())
                run("sort", "-k1,1", "--keep", keep, copy, "-o", copy)
                self.assertEqual(copy.read_bytes(), wanted)
                run("sort", "-k1,1", "--keep", keep, path, "-o", self.folder / "out.gz", "-Z")
                self.assertEqual(gzip.decompress((self.folder / "out.gz").read_bytes()), wanted)

    def test_an_unsorted_file_is_not_merged(self):
        path = self.write("in", b"b\na\n")
        for keep in KEEPS:
            self.assertIn(b"not in order", run("merge", "--keep", keep, path, "-o", self.folder / "out", code=2).stderr)
            self.assertFalse((self.folder / "out").exists())

    def test_inputs_without_items(self):
        for data, words in ((b"", []), (b"a,b\n", ["--csv", "--header", "--key", "a"]), (b"a,b", ["--csv", "--header", "--key", "a"]),
                            (b"\xef\xbb\xbfa,b\n", ["--csv", "--header", "--key", "a"])):
            path = self.write("in", data)
            for keep in KEEPS:
                with self.subTest(data=data, keep=keep):
                    self.assertEqual(run("sort", "--keep", keep, *words, path).stdout, run("sort", *words, path).stdout)


class Uniq(end_to_end.Case):
    def options(self):
        """Random options of uniq, and those of GNU sort that bring equal lines together."""
        rng = self.random
        words, fields, characters = [], 0, 0
        if rng.random() < 0.3:
            fields = rng.randrange(4)
            words += ["-f", str(fields)]
        if rng.random() < 0.3:
            characters = rng.randrange(5)
            words += ["-s", str(characters)]
        width = rng.randrange(6) if rng.random() < 0.3 else None
        if width is not None:
            words += ["-w", str(width)]
        key = f"-k{fields + 1}.{characters + 1}"
        if width == 0:
            key = f"-k{fields + 2},{fields + 1}.1"
        elif width is not None:
            key += f",{fields + 1}.{characters + width}"
        order = ["-s", key]
        if rng.random() < 0.3:
            words.append("-i")
            order.append("-f")
        if rng.random() < 0.3:
            words.append("-z")
            order.append("-z")
        words += rng.choice([[], [], ["-c"], ["-d"], ["-u"], ["-D"], ["-c", "-d"], ["-c", "-u"], ["-d", "-D"]])
        return words, order

    def text(self, words):
        rng = self.random
        end = "\0" if "-z" in words else "\n"
        alphabet = rng.choice(["ab", "aAbB", "a \t", "aB 1"])
        lines = ["".join(rng.choice(alphabet) for _ in range(rng.randrange(8))) for _ in range(rng.randrange(60))]
        text = "".join(line + end for line in lines)
        return (text if rng.random() < 0.8 else text.removesuffix(end)).encode()

    @random_cases(CASES)
    def test_random_options_beside_sort_and_uniq(self):
        words, order = self.options()
        data = self.text(words)
        wanted = gnu(["uniq", *words], gnu(["sort", *order], data))
        with self.subTest(words=words, data=data):
            cut = self.random.randrange(len(data) + 1)
            end = b"\0" if "-z" in words else b"\n"
            cut = data.find(end, cut) + 1
            paths = [self.write("in1", data[:cut]), self.write("in2", data[cut:])]
            self.assertEqual(run("uniq", *words, *paths).stdout, wanted)
            self.assertEqual(run("uniq", *words, stdin=data).stdout, wanted)

    @random_cases(CASES)
    def test_the_order_of_the_input(self):
        words, _ = self.options()
        words = [word for word in words if word != "-D"]
        data = self.text(words)
        end = b"\0" if "-z" in words else b"\n"
        lines = data.removesuffix(end).split(end) if data else []
        rows = [row.removesuffix(end) for row in run("uniq", *[word for word in words if word not in ("-c", "-d", "-u")], stdin=data).stdout.split(end)]
        with self.subTest(words=words, data=data):
            got = run("uniq", *words, "--in-order", stdin=data).stdout
            found = got.removesuffix(end).split(end) if got else []
            self.assertEqual(sorted(found), sorted(other for other in run("uniq", *words, stdin=data).stdout.split(end)[:-1]))
            shown = [row[8:] for row in found] if "-c" in words else found
            places = [lines.index(row) for row in shown]
            self.assertEqual(places, sorted(places))
            self.assertLessEqual(len(shown), len(rows))

    def test_more_than_memory(self):
        count = 4_000 if SANITIZED else 2_000_000
        lines = [b"%032d" % self.random.randrange(count // 2) + self.random.choice([b"", b"x"]) + b"\n" for _ in range(count)]
        if not SANITIZED:
            lines += [b"%d" % (number % 7) + b" frequent\n" for number in range(100_000)]
        path = self.write("in", b"".join(lines))
        counts = collections.Counter(lines)
        ordered = sorted(counts)
        for words in ([], ["-d"], ["-u"], ["-c"], ["-D"]):
            keeps = {"-d": lambda line: counts[line] > 1, "-u": lambda line: counts[line] == 1}.get(words[0] if words else "", lambda line: True)
            shown = (lambda line: b"%7d " % counts[line] + line) if words == ["-c"] else lambda line: line
            for threads in (1, 4):
                with self.subTest(seed=SEED, words=words, threads=threads):
                    run("uniq", *words, "-S", SMALL_MEMORY, "--parallel", threads, path, "-o", self.folder / "out")
                    wanted = [line * counts[line] for line in ordered if counts[line] > 1] if words == ["-D"] else [shown(line) for line in ordered if keeps(line)]
                    self.assertTrue((self.folder / "out").read_bytes() == b"".join(wanted))
            if words == ["-D"]:
                continue
            with self.subTest(seed=SEED, words=words, order="of the input"):
                done = run("uniq", *words, "--in-order", "-S", SMALL_MEMORY, path, "-o", self.folder / "out", "--json")
                self.assertTrue((self.folder / "out").read_bytes() == b"".join(shown(line) for line in counts if keeps(line)))
                stats = json.loads(done.stdout)
                self.assertEqual(stats["groups"], sum(map(keeps, counts)))
                if not SANITIZED:
                    self.assertGreater(stats["temp_bytes"], 0)
                    self.assertLessEqual(stats["peak_rss_bytes"], stats["budget_bytes"])

    def test_first_rows_of_keys_in_the_order_of_the_input(self):
        count = 3_000 if SANITIZED else 600_000
        for distinct, memory in ((50, "1G"), (count // 2, SMALL_MEMORY)):
            rows = [f"{self.random.randrange(distinct)},{number:040}\n" for number in range(count)]
            path = self.write("in.csv", "".join(["id,n\n", *rows]).encode())
            wanted = kept(rows, lambda row: row.split(",")[0], "first")
            with self.subTest(seed=SEED, distinct=distinct):
                for words in (["uniq", "--in-order"], ["group", "--distinct", "--in-order"]):
                    got = run(*words, "--key", "id", "-S", memory, path).stdout.decode()
                    self.assertTrue(got == "".join(["id,n\n", *wanted]))
                counts = collections.Counter(row.split(",")[0] for row in rows)
                got = run("group", "--count", "--in-order", "--key", "id", "-S", memory, path).stdout.decode()
                self.assertTrue(got == "id,count\n" + "".join(f"{key},{number}\n" for key, number in counts.items()))
            lines = [json.dumps({"k": self.random.randrange(distinct), "n": number}) + "\n" for number in range(count)]
            path = self.write("in.jsonl", "".join(lines).encode())
            with self.subTest(seed=SEED, distinct=distinct, format="JSON lines"):
                got = run("uniq", "--in-order", "--jsonl", "--key", ".k", "-S", memory, path).stdout.decode()
                self.assertTrue(got == "".join(kept(lines, lambda line: json.loads(line)["k"], "first")))


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("duplicates_end_to_end")
