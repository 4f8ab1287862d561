#!/usr/bin/env python3
"""Times, addresses, versions and numbers as people write them, beside Python: values_test.py PENSTOCK [TEST...]. Prints its seed;
PENSTOCK_TEST_SEED repeats a run."""

import collections
import contextlib
import csv
import datetime
import decimal
import functools
import gzip
import io
import ipaddress
import json
import os
import re
import statistics

import end_to_end
from end_to_end import SEED, run

SANITIZED = "ASAN_OPTIONS" in os.environ
SMALL_MEMORY = "1G" if SANITIZED else "40M"
CASES = 40 if SANITIZED else end_to_end.trials(200)
UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


# For each order a value as Python has it; ValueError for text that is none.


def microseconds(time):
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def time_of(text):
    text = text.strip(" ")
    if re.fullmatch(r"[0-9]{8}", text):
        with contextlib.suppress(ValueError):
            return microseconds(datetime.datetime.strptime(text, "%Y%m%d"))
    if re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,6})?", text):
        sign = -1 if text.startswith("-") else 1
        whole, _, fraction = text.lstrip("-").partition(".")
        return sign * (int(whole) * 10**6 + int(fraction.ljust(6, "0")))
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ValueError
    return microseconds(datetime.datetime.fromisoformat(text))


def time_by_format(form, text):
    return microseconds(datetime.datetime.strptime(text.strip(" "), form))


def address_of(text):
    text = text.strip(" ")
    address = ipaddress.ip_address(text.partition("/")[0])
    network = ipaddress.ip_network(text, strict=False)
    return (address.version, int(address), network.prefixlen)


def natural_of(text):
    return tuple((ord("0"), len(digits := part.lstrip("0")), digits) if part.isdigit() else (ord(part), 0, "")
                 for part in re.findall(r"[0-9]+|.", text))


def semver_of(text):
    # The expression that semver.org suggests.
    found = re.fullmatch(r"v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
                         r"(?:-((?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
                         r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?", text.strip(" "))
    if not found:
        raise ValueError
    release = tuple(int(found[part]) for part in (1, 2, 3))
    identifiers = [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in (found[4] or "").split(".")]
    return (*release, tuple(identifiers) if found[4] else ((2, 0, ""),))


def hex_of(text):
    if not re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", text.strip(" ")):
        raise ValueError
    return int(text, 16)


def rank(value_of, text):
    """A value with a rank, by which Python orders as we do: text that is none comes first, by its bytes."""
    try:
        return (1, value_of(text))
    except ValueError:
        return (0, text.encode())


class Values(end_to_end.Case):
    def pick(self, *choices):
        return self.random.choice(choices)

    # Texts of each order, and a few that are none.

    def time(self):
        rng = self.random
        if rng.random() < 0.3:
            return self.pick("-", "") + str(rng.randrange(self.pick(3, 10**9))) + self.pick("", "", ".5", f".{rng.randrange(10**6):06}")
        if rng.random() < 0.2:
            return self.pick("", "n/a", "2024-02-30", "2024-01-01T25:00:00", "2024-01-01x", "yesterday", "2024-01-01T00:00:00+24:00", "12:00")
        date = f"{self.pick(1, 1969, 1970, 2024, 9998):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 30):02}"
        if rng.random() < 0.2:
            return date
        clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}" + self.pick("", f":{rng.randrange(60):02}", f":59{self.pick('.', ',')}{rng.randrange(10**6):06}")
        zone = self.pick("", "", "Z", f"{self.pick('+', '-')}{rng.randrange(24):02}{self.pick('', ':')}{rng.randrange(60):02}")
        return date + self.pick("T", " ") + clock + zone

    def time_in(self, form):
        if self.random.random() < 0.2:
            return self.pick("", "31/02/2024", "1/2/24", "x", "2024-01-01", "45")
        time = EPOCH + datetime.timedelta(seconds=self.random.randrange(10**10), microseconds=self.random.randrange(10**6))
        time = time.astimezone(datetime.timezone(datetime.timedelta(minutes=self.random.randrange(-700, 700))))
        return time.strftime(form)

    def address(self):
        rng = self.random
        if rng.random() < 0.15:
            return self.pick("", "localhost", "1.2.3", "1.2.3.256", "::g", "1.2.3.4/33", "1:2:3:4:5:6:7:8:9", "010.1.1.1", "1.2.3.4:80")
        if rng.random() < 0.5:
            text, bits = ".".join(str(self.pick(0, 9, 10, 255, rng.randrange(256))) for _ in range(4)), 32
        else:
            address = ipaddress.IPv6Address(rng.getrandbits(128) & rng.getrandbits(128) & self.pick(0xffff, (1 << 128) - 1, 0xffff << 64))
            text, bits = self.pick(str(address), address.exploded, address.exploded.upper()), 128
        return text + self.pick("", "", f"/{rng.randrange(bits + 1)}")

    def natural(self):
        return "".join(self.pick("a", "B", " ", "-", ".", ":", "/", "img", str(self.random.randrange(120)), "007", str(10**30 + self.random.randrange(3)))
                       for _ in range(self.random.randrange(5)))

    def semver(self):
        rng = self.random
        number = lambda: str(self.pick(0, 1, 9, 10, 10**25))
        text = self.pick("", "", "v") + ".".join(number() for _ in range(self.pick(3, 3, 3, 3, 2, 4)))
        if rng.random() < 0.5:
            text += "-" + ".".join(self.pick("alpha", "beta", "rc-1", "1a", "-", "0", "01", number()) for _ in range(rng.randrange(1, 4)))
        return text + self.pick("", "", "+build.01", "+")

    def hex(self):
        if self.random.random() < 0.1:
            return self.pick("", "0x", "g", "-1", "0x0x")
        text = f"{self.random.getrandbits(self.pick(1, 8, 64, 1000)):x}"
        return self.pick("", "0x", "0X0") + self.pick(text, text.upper())

    def order(self):
        """The word of an order, its options, a maker of texts, and the order of Python."""
        form = self.pick("%d/%m/%Y %H:%M:%S", "%Y%m%dT%H%M%S%z", "%b %d %Y, %I:%M:%S.%f %p %z", "%A %d.%m.%Y")
        return self.pick(("time", [], self.time, time_of), ("ip", [], self.address, address_of), ("natural", [], self.natural, natural_of),
                         ("semver", [], self.semver, semver_of), ("hex", [], self.hex, hex_of),
                         ("time", ["--time-format", form], lambda: self.time_in(form), functools.partial(time_by_format, form)))

    def test_values_are_in_order(self):
        for case in range(CASES):
            word, options, make, value_of = self.order()
            desc = self.pick(False, True)
            form = self.pick("lines", "csv", "jsonl", "whole")
            key = {"lines": "2,2:", "csv": "key:", "jsonl": ".key:", "whole": ""}[form] + word + (":desc" if desc else "")
            words = {"lines": ["-t", "|", "-k", key], "csv": ["--csv", "--header", "--key", key], "jsonl": ["--jsonl", "--key", key],
                     "whole": [f"--sort={word}", *(["-r"] if desc else [])]}[form] + options + ["-S", SMALL_MEMORY, "-q"]
            write = {"lines": lambda number, text: f"{number}|{text}|x", "csv": lambda number, text: f'{number},"{text}"',
                     "jsonl": lambda number, text: json.dumps({"n": number, "key": text}), "whole": lambda number, text: text}[form]
            head = ["n,key\n"] if form == "csv" else []
            rows = []
            for number in range(self.pick(0, 1, 7, 300)):
                text = make()
                rows.append((rank(value_of, text), write(number % 5, text) + "\n"))
            stable = sorted(rows, key=lambda row: row[0], reverse=desc)
            whole = sorted(sorted(rows, key=lambda row: row[1][:-1].encode(), reverse=form == "whole" and desc), key=lambda row: row[0], reverse=desc)
            firsts = [row for i, row in enumerate(stable) if i == 0 or row[0] != stable[i - 1][0]]
            path = self.write("in", "".join(head + [line for _, line in rows]).encode())
            way = self.pick("file", "pipe", "stable", "unique", "top", "merge", "partition", "group")
            with self.subTest(case=case, words=words, way=way):
                wanted = whole
                if way == "pipe":
                    got = run("sort", *words, stdin=path.read_bytes()).stdout
                elif way == "stable":
                    got, wanted = run("sort", "-s", *words, path).stdout, stable
                elif way == "unique":
                    got, wanted = run("sort", "-u", *words, path).stdout, firsts
                elif way == "top":
                    count = self.random.randrange(1, 9)
                    got, wanted = run("sort", "--top", count, *words, path).stdout, whole[:count]
                elif way == "merge":
                    parts = [self.write(f"part{part}", run("sort", *words, stdin="".join(head + [line for _, line in rows[part::2]]).encode()).stdout)
                             for part in range(2)]
                    got = run("merge", *words, *parts).stdout
                elif way == "partition" and "-r" not in words:
                    run("partition", *words, "--by", "range", "--parts", 3, "-o", self.folder / "range-{}", path)
                    parts = sorted(self.folder.glob("range-*"))
                    got = "".join(head).encode() + b"".join(run("sort", *words, part).stdout.removeprefix("".join(head).encode()) for part in parts)
                    for part in parts:
                        part.unlink()
                elif way == "group" and form != "lines" and form != "whole":
                    got, wanted = run("group", "--distinct", *words, path).stdout, firsts
                else:
                    got = run("sort", *words, path).stdout
                self.assertEqual(got.decode(), "".join(head + [line for _, line in wanted]))
                run("sort", "-c", *words, *(["-s"] if way in ("stable", "unique", "group") else []), self.write("out", got))

    def test_joins_by_values(self):
        for case in range(CASES // 4 + 1):
            word, options, make, value_of = self.order()
            sides = [[(make(), number) for number in range(self.pick(0, 5, 60))] for _ in range(2)]
            groups = collections.defaultdict(list)
            for text, number in sides[1]:
                groups[rank(value_of, text)].append(number)
            wanted = [f"{number} {other}" for text, number in sides[0] for other in groups[rank(value_of, text)]]
            files = [self.write(name, ("key,n\n" + "".join(f'"{text}",{number}\n' for text, number in side)).encode()) for name, side in zip("ab", sides)]
            with self.subTest(case=case, word=word):
                got = run("join", "--csv", "--header", "--key", f"key:{word}", "-o", "1.n,2.n", *options, "-S", SMALL_MEMORY, *files).stdout.decode()
                self.assertEqual(sorted(got.replace(",", " ").splitlines()[1:]), sorted(wanted))

    def test_more_than_memory(self):
        count = 20000 if SANITIZED else 400000
        rng = self.random
        pad = "x" * 90
        for word, make, value_of in (("time", lambda: f"2024-{rng.randrange(1, 13):02}-01T00:00:{rng.randrange(60):02}.{rng.randrange(10**6):06}+{rng.randrange(24):02}:00", time_of),
                                     ("ip", lambda: str(ipaddress.IPv4Address(rng.getrandbits(32))), address_of)):
            rows = [(make(), f"{number}{pad}") for number in range(count)]
            wanted = sorted((rank(value_of, text), f"{text},{rest}\n") for text, rest in rows)
            stats = self.folder / "stats"
            got = run("sort", "--csv", "--header", "--key", f"t:{word}", "-S", "1G" if SANITIZED else "32M", "-T", self.folder, "--stats", stats,
                      stdin=("t,rest\n" + "".join(f"{text},{rest}\n" for text, rest in rows)).encode()).stdout
            self.assertTrue(got.decode() == "t,rest\n" + "".join(line for _, line in wanted), word)
            if not SANITIZED:
                self.assertGreater(json.loads(stats.read_text())["temp_bytes"], 0)

    def test_text_that_is_no_value_causes_a_notice(self):
        data = b"t,ip\n2024-01-01,1.2.3.4\nsoon,::1\n,\n1/2/2024,1.2.3\n"
        path = self.write("in.csv", data)
        says = lambda *words: run("sort", *words, path).stderr.decode()
        self.assertIn("row 3, column t: 'soon' is no time and comes first; 2 rows have such a value", says("--key", "t:time"))
        self.assertIn("row 5, column ip: '1.2.3' is no address and comes last", says("--key", "ip:ip:desc"))
        self.assertEqual(says("-q", "--key", "t:time"), "")
        self.assertEqual(says("--key", "t:natural"), "")
        lines = run("sort", "-k1,1:ip", stdin=b"1.2.3.4 a\nhost b\n")
        self.assertIn(b"line 2, field 1: 'host' is no address and comes first", lines.stderr)

    # Texts, and whether :n reads them; written as values of JSON.
    NUMBERS = [("12", True), ("-3.50", True), ("", True), (" 7 ", True), (".5", True), ("1.", True), ("0", True),
               ("n/a", False), ("$30", False), ("5x", False), ("-", False), (".", False), ("1 2", False)]
    TIMES = [("2024-01-02", True), ("", True), (" ", True), ("12", True), ("soon", False), ("1/2/2024", False)]

    def odd_table(self, form, rows, share):
        """The bytes of a table in order, and the numbers of the rows whose value is odd; the second member is the order's word."""
        word = self.pick("n", "n", "time")
        values = self.NUMBERS if word == "n" else self.TIMES
        good, odd = [text for text, reads in values if reads], [text for text, reads in values if not reads]
        return word, [self.random.choice(odd if self.random.random() < share else good) for _ in range(rows)], set(odd)

    def table_bytes(self, form, texts):
        if form == "jsonl":
            return "".join(json.dumps({"k": number, "v": text}) + "\n" for number, text in enumerate(texts)).encode()
        return ("k,v\n" + "".join(f'{number},"{text}"\n' if self.random.random() < 0.3 else f"{number},{text}\n"
                                  for number, text in enumerate(texts))).encode()

    def check_odd(self, done, names, tables, form, odd, hint=""):
        """Checks the notice at the end of a run over files of these names and texts."""
        counts = [(name, number + (1 if form == "jsonl" else 2)) for name, texts in zip(names, tables) for number, text in enumerate(texts) if text in odd]
        said = [line for line in done.stderr.decode().splitlines() if "such a value" in line]
        if not counts:
            return self.assertEqual(said, [], hint)
        self.assertEqual(len(said), 1, (hint, done.stderr))
        name, row = counts[0]
        noun, place = ("line", "member .v") if form == "jsonl" else ("row", "column v")
        text = dict(zip(names, tables))[name][row - (1 if form == "jsonl" else 2)]
        self.assertIn(f": {name}: {noun} {row}, {place}: '{text}' is ", said[0], hint)
        self.assertIn(f"; {len(counts):,} {noun}{'' if len(counts) == 1 else 's'} ha{'s' if len(counts) == 1 else 've'} such a value (try: ", said[0], hint)

    def test_odd_values_are_counted_over_all_inputs(self):
        for case in range(max(CASES // 4, 4)):
            form = self.pick("csv", "jsonl")
            share = self.pick(0, 0.01, 0.3, 1)
            word, first, odd = self.odd_table(form, self.pick(0, 1, 30, 3000), share)
            values = self.NUMBERS if word == "n" else self.TIMES
            second = [self.random.choice(values)[0] for _ in range(self.pick(0, 5, 500))]
            name = lambda column: f".{column}" if form == "jsonl" else column
            common = ["--jsonl"] if form == "jsonl" else ["--csv", "--header"]
            common += ["--parallel", str(self.pick(1, 2, 3))]
            gz = self.pick("", ".gz")
            names = ["a." + form + gz, "b." + form + gz]
            for file, texts in zip(names, (first, second)):
                data = self.table_bytes(form, texts)
                self.write(file, gzip.compress(data) if gz else data)
            key = f"{name('v')}:{word}"
            with self.subTest(case=case, form=form, word=word, names=names):
                for words in ([], ["-u"], ["--top", "3"], ["-s", "--desc"], ["--keep", "last"]):
                    done = run("sort", *common, "--key", key, *words, *names, "-o", "out", cwd=self.folder)
                    self.check_odd(done, names, (first, second), form, odd, words)
                done = run("group", *common, "--key", key, "--count", *self.pick([], ["--sorted"], ["--in-order"]), *names, "-o", "out", cwd=self.folder)
                self.check_odd(done, names, (first, second), form, odd, "group")
                done = run("uniq", *common, "--key", key, *self.pick([], ["-d"], ["-D"], ["--in-order"]), *names, "-o", "out", cwd=self.folder)
                self.check_odd(done, names, (first, second), form, odd, "uniq")
                # The input of merge is sorted; so is that of a sort which reads a pipe.
                sorted_names = []
                for file in names:
                    sorted_names.append("sorted-" + file.removesuffix(".gz"))
                    run("sort", "-q", *common, "--key", key, file, "-o", sorted_names[-1], cwd=self.folder)
                tables = [self.texts_of(form, self.folder / file) for file in sorted_names]
                merging = [word for word in common if word != "--parallel" and not word.isdigit()]
                done = run("merge", *merging, "--key", key, *sorted_names, "-o", "out", cwd=self.folder)
                self.check_odd(done, sorted_names, tables, form, odd, "merge")
                done = run("sort", *common, "--key", key, *sorted_names, "-o", "out", cwd=self.folder)
                self.check_odd(done, sorted_names, tables, form, odd, "sorted")
                data = self.table_bytes(form, first)
                done = run("sort", *common, "--key", key, "-o", "out", stdin=data, cwd=self.folder)
                self.check_odd(done, ["standard input"], [first], form, odd, "pipe")
                for files, texts in ((names, (first, second)), (sorted_names, tables), ([names[0], sorted_names[1]], (first, tables[1]))):
                    done = run("join", *merging, "--key", key, "--full", *files, "-o", "out", cwd=self.folder)
                    self.check_odd(done, files, texts, form, odd, "join")
                self.assertNotIn(b"such a value", run("sort", "-q", *common, "--key", key, *names, "-o", "out", cwd=self.folder).stderr)

    def test_a_short_run_has_one_notice(self):
        path = self.write("t.csv", b"id,v\n1,2\n2,n/a\n3,4\n")
        for words in (["sort"], ["uniq"], ["uniq", "-D"], ["uniq", "--in-order"], ["group", "--count"], ["join", path]):
            with self.subTest(words=words):
                said = run(*words, "--csv", "--header", "--key", "v:n", path).stderr
                self.assertEqual(said.count(b"'n/a' is no number"), 1, said)

    def texts_of(self, form, path):
        if form == "jsonl":
            return [json.loads(line)["v"] for line in path.read_text().splitlines()]
        with path.open(newline="") as file:
            return [row["v"] for row in csv.DictReader(file)]

    def test_odd_values_of_many_files_and_more_than_memory(self):
        rng = self.random
        rows = 20000 if SANITIZED else 400000
        texts = [rng.choice(("n/a", "x")) if rng.random() < 0.001 else str(rng.randrange(10**6)) for _ in range(rows)]
        self.write("big.csv", ("v,pad\n" + "".join(f"{text},{'x' * 90}\n" for text in texts)).encode())
        for words in ([], ["--top", str(rows // 2)]):
            done = run("sort", "--csv", "--header", "--key", "v:n", "-S", "1G" if SANITIZED else "32M", *words, "big.csv", "-o", "out.csv", cwd=self.folder)
            self.check_odd(done, ["big.csv"], [texts], "csv", {"n/a", "x"}, words)
            said = done.stderr.decode().splitlines()
            early = any(text in ("n/a", "x") for text in texts[:1000])
            self.assertEqual(len([line for line in said if "is no number" in line]), 2 if early else len(said), said)
        names = [f"{number}.csv" for number in range(300)]
        tables = [sorted(("n/a", "5", "7")[:rng.randrange(4)]) for _ in names]
        tables = [[text for text in ("n/a", "5", "7") if text in table] for table in tables]
        for name, table in zip(names, tables):
            self.write(name, ("v\n" + "".join(text + "\n" for text in table)).encode())
        done = run("merge", "--csv", "--header", "--key", "v:n", "-S", "1G" if SANITIZED else "32M", *names, "-o", "out.csv", cwd=self.folder)
        self.check_odd(done, names, tables, "csv", {"n/a"}, "merge")

    def uneven_table(self, dialect, columns, rows, share):
        """The bytes of a table with a header of so many columns, and other numbers of fields in a share of the rows."""
        names = [f"c{number}" for number in range(columns)]
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator=self.pick("\n", "\r\n"), **dialect)
        writer.writerow(names)
        for _ in range(rows):
            if self.random.random() < 0.02:
                text.write("\n")  # counts as no row
                continue
            fields = self.random.randrange(1, 40) if self.random.random() < share else columns
            writer.writerow([self.pick("a", "b", "c") + str(self.random.randrange(rows)),
                             *(self.pick("", "x", "a,b", "a\tb", 'say "so"', "it's", "two\nlines", "y" * self.random.randrange(30)) for _ in range(fields - 1))])
        return text.getvalue().encode()

    def check_uneven(self, done, files, dialect, hint):
        """Checks the notice at the end of a run about rows of other lengths than the header's."""
        found = []
        for name, data in files:
            rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True, **dialect))
            found += [(name, number, len(row), len(rows[0])) for number, row in enumerate(rows, 1) if row and len(row) != len(rows[0])]
        said = [line for line in done.stderr.decode().splitlines() if "more or fewer" in line]
        wanted = []
        if found:
            name, number, have, columns = found[0]
            rows = f"{len(found):,} row" + (" has" if len(found) == 1 else "s have")
            wanted = [f"{name}: row {number}: {have} column{'' if have == 1 else 's'}, and the header has {columns}; {rows} more or fewer"]
        said = [re.sub(r" \(line [0-9]+\)", "", line.split(": ", 1)[1]) for line in said]  # --bad-rows knows the line
        self.assertEqual(said, wanted, (hint, done.stderr))

    def test_rows_of_other_lengths_are_counted_over_all_inputs(self):
        kinds = [(["--csv"], {}), (["--tsv"], {"delimiter": "\t"}), (["--csv", "--quote", "'"], {"quotechar": "'"}), (["--csv", "--lenient"], {}),
                 (["--csv", "--escape", "\\"], {"escapechar": "\\"}), (["--csv", "--quote", "none", "--escape", "\\"], {"quoting": csv.QUOTE_NONE, "escapechar": "\\"})]
        for case in range(max(CASES // 4, 4)):
            words, dialect = self.pick(*kinds)
            words, key = [*words, "--header"], self.pick(["--key", "1"], ["--key", "c0:desc"])
            columns, gz = self.pick(1, 2, 3, 20), self.pick("", ".gz")
            share = self.pick(0, 0.01, 0.3, 1)
            files = [(name + gz, self.uneven_table(dialect, columns, self.pick(0, 1, 30, 3000), share)) for name in ("a", "b")]
            for name, data in files:
                self.write(name, gzip.compress(data) if gz else data)
            names = [name for name, _ in files]
            one, sorted_files = files[:1], []
            for name, _ in files:
                run("sort", "-q", *words, *key, name, "-o", "sorted-" + name, cwd=self.folder)
                sorted_files.append(("sorted-" + name, (self.folder / ("sorted-" + name)).read_bytes()))
            sorted_names = [name for name, _ in sorted_files]
            threads = ["--parallel", str(self.pick(1, 2, 3))]
            commands = [(["sort", *key, *threads, *more, "-o", "out", *names], files)
                        for more in ([], ["-u"], ["--top", "3"], ["-s"], ["--keep", "last"], ["--bad-rows", "skip"], ["--columns", "same"])]
            commands += [(["sort", *threads, "-o", "out", *names], files), (["sort", *key, "-o", "out", *sorted_names], sorted_files),
                         (["sort", "-m", *key, "-o", "out", *sorted_names], sorted_files), (["merge", *key, "-o", "out", *sorted_names], sorted_files)]
            commands += [(["group", *key, "--count", *threads, *more, "-o", "out", *names], files) for more in ([], ["--sorted"], ["--in-order"])]
            commands.append((["group", *key, "--count", *threads, "-o", "out", names[0], names[0]], one + one))
            commands += [(["uniq", *key, "-o", "out", *names], files), (["join", *key[:1], "1", "--full", "-o", "auto", *names], files),
                         (["join", *key[:1], "1", "--full", "-o", "auto", names[0], sorted_names[1]], [files[0], sorted_files[1]])]
            commands += [(["partition", *key, "--parts", "3", *more, "-o", "part-{}", names[0]], one) for more in ([], [] if gz else ["--by", "range"])]
            commands += [(["head", "-n", "99999", *names], files), (["sample", "-n", "5", *names], files), (["shuf", *names], files), (["check", *key, sorted_names[0]], sorted_files[:1]),
                         (["split", "--lines", "1000", *names, "-o", "split-{}"], files)]
            for command, wanted in commands:
                with self.subTest(case=case, command=command, words=words, columns=columns, share=share):
                    done = run(command[0], *words, *command[1:], cwd=self.folder)
                    self.check_uneven(done, wanted, dialect, command)
            with self.subTest(case=case, words=words, columns=columns):
                done = run("sort", *words, *key, "-o", "out", stdin=files[0][1], cwd=self.folder)
                self.check_uneven(done, [("standard input", files[0][1])], dialect, "pipe")
                self.assertNotIn(b"more or fewer", run("sort", "-q", *words, *key, *names, "-o", "out", cwd=self.folder).stderr)

    def test_rows_of_other_lengths_of_many_files_and_more_than_memory(self):
        rows = 20000 if SANITIZED else 400000
        data = ("v,pad\n" + "".join(f"{self.random.randrange(10**6)},{'x' * 90}{',' if self.random.random() < 0.001 else ''}\n" for _ in range(rows))).encode()
        self.write("big.csv", data)
        words = ["--csv", "--header", "-S", "1G" if SANITIZED else "32M", "-o", "out.csv"]
        for more in (["--key", "v:n"], [], ["--key", "v:n", "--top", str(rows // 2)], ["--key", "v", "--parallel", "1"], ["--key", "v", "--device", "hdd"]):
            self.check_uneven(run("sort", *words, *more, "big.csv", cwd=self.folder), [("big.csv", data)], {}, more)
        for more in (["--count", "--key", "v"], ["--count", "--key", "v", "--sorted"]):
            self.check_uneven(run("group", *words, *more, "big.csv", cwd=self.folder), [("big.csv", data)], {}, more)
        files = [(f"{number}.csv", b"v,w\n" + b"".join(sorted((b"1,2\n", b"2\n", b"2,3,4\n")[: self.random.randrange(4)]))) for number in range(300)]
        for name, text in files:
            self.write(name, text)
        self.check_uneven(run("merge", *words, "--key", "v", *(name for name, _ in files), cwd=self.folder), files, {}, "merge")

    def number(self, group, point):
        """A number as people write it, and its value; None for text that is none."""
        rng = self.random
        if rng.random() < 0.15:
            return self.pick(("", None), ("n/a", None), ("NaN", None), (f"1{group}2", None), (f"1{group}2345{point}0", None), ("1 2 3", None), ("--1", None), ("5x", None))
        digits = str(rng.randrange(10 ** self.pick(1, 3, 4, 8, 15)))
        fraction = self.pick("", "", "5", "50", f"{rng.randrange(10**4):04}")
        exponent = self.pick(0, 0, 0, -5, 3)
        value = decimal.Decimal(f"{digits}.{fraction or 0}e{exponent}")
        whole = f"{int(digits):,}".replace(",", group) if rng.random() < 0.7 else digits
        text = whole + (point + fraction if fraction else self.pick("", "", point)) + (self.pick("e", "E") + self.pick("", "+" if exponent > 0 else "") + str(exponent)
                                                                                 if exponent else "")
        if not exponent and rng.random() < 0.2:
            text, value = text + self.pick("%", " %"), value / 100
        sign = self.pick("-", "+", "", "", "()")
        money = self.pick("", "", "", "$", "€", "£ ")
        text = self.pick(money + sign + text if sign != "()" else money + text, sign + money + text if sign != "()" else money + text)
        return (f"({text})" if sign == "()" else text), (-value if sign in ("-", "()") else value)

    def test_numbers_of_a_format(self):
        for case in range(CASES):
            example, group, point = self.pick(("1,234.50", ",", "."), ("1.234,50", ".", ","), ("1'234.50", "'", "."), ("1 234,5", " ", ","))
            jsonl, desc = self.pick(False, True), self.pick(False, True)
            rows = []
            for number in range(self.pick(0, 1, 9, 300)):
                text, value = self.number(group, point)
                if jsonl and self.random.random() < 0.3:
                    value = decimal.Decimal(self.random.randrange(-10**6, 10**6)) / 1000
                    rows.append(((1, value), f'{{"k":{number % 3},"v":{value}}}\n', value))
                    continue
                line = json.dumps({"k": number % 3, "v": text}) + "\n" if jsonl else f'{number % 3},"{text}"\n'
                rows.append(((0, text.encode()) if value is None else (1, value), line, value if value is not None or text not in ("", "NaN") else "none"))
            form = ["--jsonl"] if jsonl else ["--csv", "--header"]
            head = "" if jsonl else "k,v\n"
            name = lambda column: f".{column}" if jsonl else column
            path = self.write("in", (head + "".join(line for _, line, _ in rows)).encode())
            common = [*form, "--number-format", example, "-S", SMALL_MEMORY, "-q"]
            with self.subTest(case=case, words=common):
                wanted = sorted(sorted(rows, key=lambda row: row[1].encode()), key=lambda row: row[0], reverse=desc)
                got = run("sort", *common, "--key", name("v") + ":n" + (":desc" if desc else ""), path).stdout.decode()
                self.assertEqual(got, head + "".join(line for _, line, _ in wanted))
                bad = any(value is None for _, _, value in rows)
                done = run("group", *common, "--key", name("k"), "--sum", name("v"), "--median", name("v"), path, code=2 if bad else 0)
                if bad:
                    self.assertIn(b"is no number", done.stderr)
                rows = [row for row in rows if row[2] is not None]
                path = self.write("good", (head + "".join(line for _, line, _ in rows)).encode())
                got = run("group", *common, "--key", name("k"), "--sum", name("v"), "--median", name("v"), path).stdout.decode()
                groups = collections.defaultdict(list)
                for _, line, value in rows:
                    key = json.loads(line)["k"] if jsonl else int(line[0])
                    groups[key] += [] if value == "none" else [value]
                found = {one["k"]: one for one in (json.loads(line, parse_float=decimal.Decimal, parse_int=decimal.Decimal) for line in got.splitlines())} if jsonl else {
                    int(one["k"]): one for one in csv.DictReader(io.StringIO(got))}
                self.assertEqual(sorted(found), sorted(groups))
                for key, values in groups.items():
                    self.assertEqual(decimal.Decimal(found[key]["sum_v"] or 0), sum(values))
                    if values:
                        self.assertAlmostEqual(decimal.Decimal(str(found[key]["median_v"])), statistics.median(values), delta=decimal.Decimal("1e-6"))

    def test_forms_without_a_key_that_has_them_are_refused(self):
        path = self.write("in.csv", b"t,v\n1,2\n")
        for words in (["sort", "--key", "t"], ["sort", "--key", "v:n"], ["sort"], ["merge", "--key", "t:ip"], ["group", "--key", "t", "--count"], ["join", "--key", "t", path]):
            self.assertIn(b"--time-format %d: cannot read times without a key of times (try: --key COLUMN:time)", run(*words, path, "--time-format", "%d", code=2).stderr)
        for words in (["sort", "--key", "t"], ["sort", "--key", "t:time"], ["sort"], ["merge", "--key", "t:desc"], ["group", "--key", "t", "--count"], ["join", "--key", "t", path]):
            self.assertIn(b"--number-format 1,234.5: cannot read numbers without a key of numbers (try: --key COLUMN:n)",
                          run(*words, path, "--number-format", "1,234.5", code=2).stderr)
        for words in (["sort", "--key", "v:n"], ["sort", "-n"], ["sort", "-k1,1nr"], ["sort", "--key", "t,v:nr"], ["group", "--key", "t", "--sum", "v"], ["join", "--key", "v:n", path],
                      ["group", "--count", "--key", "v:n"], ["merge", "--key", "v:desc:n"]):
            run(*words, path, "--number-format", "1,234.5")
        for words in (["sort", "--key", "t:time"], ["sort", "--sort", "time"], ["sort", "-k1,1:time"], ["join", "--key", "t:time", path], ["group", "--count", "--key", "t:time:desc"]):
            run(*words, path, "--time-format", "%d")

    def test_formats_that_are_none(self):
        for form in ("%q", "%", "no part", "%I", "%Z"):
            self.assertIn(b"--time-format", run("sort", "-k1,1:time", "--time-format", form, code=2).stderr)
        for example in ("1", "1234", "1,234", "12.345", "1;234.5", "1,23.5", "1.234.5", "x", "1,234."):
            self.assertIn(b"--number-format", run("sort", "-n", "--number-format", example, code=2).stderr)
        run("sort", "--format", "u64", "--time-format", "%Y", code=2)


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("values_end_to_end")
