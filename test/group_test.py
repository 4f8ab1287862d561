#!/usr/bin/env python3
"""Results of columns beside Python's statistics, fractions and decimal: group_test.py PENSTOCK [TEST...]. Prints its seed;
PENSTOCK_TEST_SEED repeats a run."""

import csv
import decimal
import io
import itertools
import json
import math
import os
import statistics
from fractions import Fraction

import end_to_end
from end_to_end import SEED, random_cases, run

SANITIZED = "ASAN_OPTIONS" in os.environ
SMALL_MEMORY = "1G" if SANITIZED else "32M"
CASES = 20 if SANITIZED else end_to_end.trials(80)
decimal.getcontext().prec = 400


def text_of(number, places):
    """A whole number with its last digits behind the point."""
    digits = str(abs(number)).rjust(places + 1, "0")
    return "-" * (number < 0) + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def shortened(number, places, least):
    while places > least and number % 10 == 0:
        number, places = number // 10, places - 1
    return text_of(number, places)


def quotient(value, places):
    """A fraction as a result shows it: exact if that has at most 38 digits, or else 17 of them, and no fewer places than the numbers."""
    for more in range(places, places + 39):
        digits = value * 10**more
        if digits.denominator == 1 and len(str(abs(digits.numerator))) <= 38:
            return shortened(digits.numerator, more, places)
    more = places
    while abs(value) * 10**more < 10**16:
        more += 1
    return shortened(round(value * 10**more), more, places)  # half to even


def root(value, places):
    exact = (decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)).sqrt()
    more = places
    while exact and exact * 10**more < 10**16:
        more += 1
    return shortened(int((exact * 10**more).to_integral_value(decimal.ROUND_HALF_EVEN)), more, places)


def quantile(numbers, fraction):
    at = (len(numbers) - 1) * fraction
    rank = math.floor(at)
    following = numbers[min(rank + 1, len(numbers) - 1)]
    return numbers[rank] + (at - rank) * (following - numbers[rank])


def results_of(words, texts):
    """The results of a column's fields: words such as "mean", "quantile=0.9"."""
    found = [text for text in texts if text.strip(" \t")]
    for word in words:
        if word in ("first", "last"):
            yield found[0 if word == "first" else -1] if found else ""
            continue
        if word == "count-distinct":
            yield str(len(set(found)))
            continue
        decimals = [decimal.Decimal(text.strip()) for text in found]
        places = max((-one.as_tuple().exponent for one in decimals), default=0)
        numbers = sorted(map(Fraction, decimals))
        if not numbers or word == "stddev" and len(numbers) < 2:
            yield ""
        elif word == "sum":
            yield text_of(int(sum(numbers) * 10**places), places)
        elif word in ("min", "max"):
            yield f"{min(decimals) if word == 'min' else max(decimals):f}"
        elif word == "mean":
            yield quotient(statistics.mean(numbers), places)
        elif word == "stddev":
            yield root(statistics.variance(numbers), places)
        elif word == "median":
            yield quotient(statistics.median(numbers), places)
        else:
            yield quotient(quantile(numbers, Fraction(word.partition("=")[2])), places)


def word_of(word, column):
    """A word of the command line for a result of a column."""
    return [f"--{word}={column}"] if "=" not in word else ["--quantile", f"{word.partition('=')[2]}:{column}"]


WORDS = ("sum", "min", "max", "mean", "first", "last", "count-distinct", "stddev", "median", "quantile=0.9", "quantile=0", "quantile=1",
         "quantile=0.333333333333333333")


class Group(end_to_end.Case):
    def number(self, digits=12):
        rng = self.random
        whole = rng.choice([rng.randrange(10), rng.randrange(10**digits)])
        text = text_of(rng.choice([1, -1]) * whole, rng.choice([0, 0, 1, 2, 5]))
        return rng.choice([text, text, text, "", " ", "0", " " + text])

    def text(self):
        return self.random.choice(["a", "b", "a,b", 'say "hi"', "two\nlines", "", "x" * self.random.randrange(60), "1", "1.0", "\x01"])

    def check(self, rows, keys, words, got, name=""):
        """Compares the rows of a result with the model: the key's fields, the count, then the results of columns."""
        groups = {}
        for row in rows:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
        if not keys:
            groups.setdefault((), [])
        wanted = []
        for key, some in groups.items():
            results = [*itertools.chain(*([*results_of([word], [row[column] for row in some])] for word, column in words))]
            wanted.append([*key, str(len(some)), *results])
        # A minimum may be any of equal numbers.
        number = lambda text: decimal.Decimal(text) if text else None
        same = {len(keys) + 1 + i for i, (word, _) in enumerate(words) if word in ("min", "max")}
        plain = lambda row: [number(field) if i in same else field for i, field in enumerate(row)]
        self.assertEqual(sorted(map(repr, map(plain, got))), sorted(map(repr, map(plain, wanted))), name)

    def words(self, columns):
        return [(self.random.choice(WORDS), self.random.choice(columns)) for _ in range(self.random.randrange(1, 6))]

    @random_cases(CASES)
    def test_rows_beside_python(self):
        header = ["key", "other", "n,m", "text"]
        some = self.random.choice([1, 3, 1000])
        rows = [[self.text() + str(self.random.randrange(some)), str(self.random.randrange(3)), self.number(), self.text()]
                for _ in range(self.random.choice([0, 1, 2, 40, 400]))]
        words = [(word, 3) if word in ("first", "last", "count-distinct") else (word, 2) for word, _ in self.words([2])]
        keys, spelt = self.random.choice([((0,), ["--key", "key"]), ((1,), ["--key", "other:n"]), ((), []), ((0, 1), ["--key", "key", "--key", "2"]),
                                          ((1, 0), ["--key", "other:n:desc", "--key", "key"])])
        data = io.StringIO(newline="")
        csv.writer(data, lineterminator=self.random.choice(["\n", "\r\n"])).writerows([header, *rows])
        path = self.write("in.csv", data.getvalue().encode())
        told = [*itertools.chain(*(word_of(word, header[column]) for word, column in words))]
        with self.subTest(words=told, keys=spelt):
            line = ["group", "--csv", "--header", *spelt, "--count", *told, "-S", SMALL_MEMORY]
            done = run(*line, path)
            got = [*csv.reader(io.StringIO(done.stdout.decode(), newline=""))]
            names = [f"{word.replace('=', '_').replace('-', '_')}_{header[column]}" for word, column in words]
            self.assertEqual(got[0], [header[key] for key in keys] + ["count", *names])
            self.check(rows, keys, words, got[1:])
            # Groups come in the order of a sort, whatever results there are.
            if keys:
                plain = run("group", "--csv", "--header", *spelt, "--count", path).stdout.decode()
                self.assertEqual([row[:len(keys) + 1] for row in got], [*csv.reader(io.StringIO(plain, newline=""))])
                top = self.random.randrange(4)
                most = [*csv.reader(io.StringIO(run(*line, "--top", top, path).stdout.decode(), newline=""))]
                first = sorted(got[1:], key=lambda row: -int(row[len(keys)]))[:top]
                self.assertEqual(most[1:], first)

    @random_cases(CASES // 2)
    def test_lines_beside_python(self):
        rows = [[self.random.choice("abc"), self.number().strip() or "0", str(self.random.randrange(5))]
                for _ in range(self.random.choice([1, 2, 300]))]
        words = self.words([1, 2])
        keys, spelt = self.random.choice([((0,), ["-k1,1"]), ((), []), ((2,), ["-k3,3n"])])
        path = self.write("in", "".join(";".join(row) + "\n" for row in rows).encode())
        with self.subTest(words=words, keys=spelt):
            told = [*itertools.chain(*(word_of(word, column + 1) for word, column in words))]
            got = [line.split(";") for line in run("group", "-t;", *spelt, "--count", *told, path).stdout.decode().splitlines()]
            # A line has its count first.
            self.check(rows, keys, words, [[*row[1:1 + len(keys)], row[0], *row[1 + len(keys):]] for row in got])

    @random_cases(CASES)
    def test_json_lines_beside_python(self):
        keys = ["1", "1.0", '"1"', '"a"', '"\\u0061"', "null", None]
        numbers = ["5", "-1.25", '"7.5"', "1e2", "12E-1", "0.0", '""', "null", None]
        values = ['"a"', '"\\u0061"', '"b"', "1", "1.0", '"1"', "true", "false", '" "', '[1, 2]', '{"x":1}', "null", None]
        number = lambda text: ("number", text)
        read = lambda written: json.loads(written, parse_int=number, parse_float=number, object_pairs_hook=list)
        plain = lambda value: ("number", decimal.Decimal(value[1])) if isinstance(value, tuple) else repr(value)
        text = lambda value: "" if value is None else f"{decimal.Decimal(value[1]):f}" if isinstance(value, tuple) else str(value)
        rows = [(self.random.choice(keys), self.random.choice(numbers), self.random.choice(values))
                for _ in range(self.random.choice([1, 2, 40, 400]))]
        data = "".join("{%s}\n" % ", ".join(f'"{name}": {one}' for name, one in zip("knv", row) if one is not None) for row in rows)
        words = [(word, "v" if word in ("first", "last", "count-distinct") else "n") for word, _ in self.words([1])]
        keyed = self.random.random() < 0.7
        groups = {}
        for row in rows:
            key = "missing" if row[0] is None else plain(read(row[0]))
            groups.setdefault(key if keyed else None, []).append(row)
        wanted = []
        for some in groups.values():
            one = [some[0][0] and read(some[0][0])] if keyed else []
            one.append(number(str(len(some))))
            for word, column in words:
                found = [read(row["knv".index(column)] or "null") for row in some]
                if column == "n":
                    result = next(results_of([word], map(text, found)))
                    one.append(number(result) if result else None)
                    continue
                found = [value for value in found if value is not None and value != " "]
                one.append(number(str(len(set(map(plain, found))))) if word == "count-distinct" else
                           None if not found else found[0 if word == "first" else -1])
            wanted.append(one)
        told = [*itertools.chain(*(word_of(word, "." + column) for word, column in words))]
        with self.subTest(words=told, keyed=keyed):
            line = ["group", "--jsonl", *["--key", ".k"][:2 * keyed], "--count", *told, "-S", SMALL_MEMORY]
            names = ["count", *(f"{word.replace('=', '_').replace('-', '_')}_{column}" for word, column in words)]
            got = []
            for pairs in map(read, run(*line, stdin=data.encode()).stdout.decode().splitlines()):
                self.assertEqual([name for name, _ in pairs if name != "k"], names)
                values_of = [dict(pairs).get("k")] if keyed else []
                got.append(values_of + [value for name, value in pairs if name != "k"])
            same = {keyed + 1 + i for i, (word, _) in enumerate(words) if word in ("min", "max")}
            shown = lambda one: repr([plain(field) if i in same else field for i, field in enumerate(one)])
            self.assertEqual(sorted(map(shown, got)), sorted(map(shown, wanted)))

    def test_results_that_do_not_fit_in_memory(self):
        count = 20_000 if SANITIZED else 200_000
        for few in (True, False):
            rows = [[f"k{self.random.randrange(3 if few else count)}", str(self.random.randrange(10**9)), f"t{self.random.randrange(10**9)}" * 3]
                    for _ in range(count)]
            path = self.write("in.csv", "k,n,t\n".encode() + "".join(",".join(row) + "\n" for row in rows).encode())
            words = [("median", 1), ("count-distinct", 2), ("stddev", 1), ("last", 2), ("quantile=0.9", 1), ("mean", 1)]
            told = [*itertools.chain(*(word_of(word, "knt"[column]) for word, column in words))]
            line = ["group", "--key", "k", "--count", *told, path, "-o", self.folder / "out"]
            stats = json.loads(run(*line, "-S", SMALL_MEMORY, "--json").stdout)
            self.assertEqual((stats["items"], stats["empty_values"]), (count, 0))
            self.assertLessEqual(stats["peak_rss_bytes"], stats["budget_bytes"])
            if not SANITIZED:
                self.assertGreater(stats["buckets"], 1)
            got = (self.folder / "out").read_bytes()
            self.check(rows, (0,), words, [line.split(",") for line in got.decode().splitlines()[1:]])
            for threads in (1, 2):
                run(*line, "-S", "1G", "--parallel", threads)
                self.assertEqual((self.folder / "out").read_bytes(), got)

    def test_numbers_at_the_limits(self):
        most = "9" * 38
        tiny = "0." + "0" * 200 + "3"
        cases = (([most, most, most], "mean", most), ([most, "-" + most], "mean", "0"), ([most, most], "median", most),
                 ([most, "-" + most], "median", "0"), (["1", "2"], "mean", "1.5"), (["1", "1", "2"], "mean", "1.3333333333333333"),
                 (["-1", "-1", "-2"], "mean", "-1.3333333333333333"), (["1.50", "2.50"], "mean", "2.00"), ([tiny], "median", tiny),
                 (["2", "2.0", "2.00"], "count-distinct", "3"), ([tiny, tiny], "stddev", "0." + "0" * 201), (["5"], "stddev", ""),
                 (["1", "3"], "stddev", "1.4142135623730950"[:-1]), ([most, "-" + most], "stddev", str(root(Fraction(2 * int(most)**2), 0))),
                 (["0", "-0", "0.0"], "median", "0.0"), (["-12", "-12.0034"], "quantile=1", "-12.0000"), (["", " "], "median", ""),
                 (["", " "], "count-distinct", "0"), (["7", "", "9"], "first", "7"), (["7", "9", ""], "last", "9"), (["1", "2", "4"], "quantile=0.25", "1.5"))
        for texts, word, wanted in cases:
            with self.subTest(texts=texts, word=word):
                data = "".join(f'"{text}"\n' for text in texts).encode()
                self.assertEqual(run("group", "--csv", *word_of(word, 1), stdin=data).stdout.decode(), wanted + "\n")
                self.assertEqual([*results_of([word], texts)], [wanted])
        for word in ("mean", "median", "stddev", "sum"):
            done = run("group", "--csv", *word_of(word, 1), stdin=f"{most}\n0.1\n".encode(), code=2)
            self.assertIn(b"more than 38 digits", done.stderr)
        self.assertIn(b"more than 38 digits", run("group", "--csv", "--sum=1", stdin=f"{most}\n{most}\n{most}\n".encode(), code=2).stderr)

    def test_forms_of_the_command_line(self):
        path = self.write("orders.csv", b"id,customer,price\n1,7,3\n2,7,\n3,8,5\n")
        for words, wanted in ((["--sum", "price", "--mean", "price", "--max", "id"], "sum_price,mean_price,max_id\n8,4,3\n"),
                              (["--sum=price", "--max=3"], "sum_price,max_price\n8,5\n"),
                              (["--value", "price", "--max", "--sum"], "sum_price,max_price\n8,5\n"),
                              (["--value", "price", "--sum", "--mean", "--quantile", "0.5", "--last=id"], "sum_price,mean_price,quantile_0.5_price,last_id\n8,4,4,3\n"),
                              (["--sum", "--mean", "--value=price", "--value=id"], "sum_price,sum_id,mean_price,mean_id\n8,6,4,2\n"),
                              (["--count", "--count-distinct", "customer"], "count,count_distinct_customer\n3,2\n"),
                              (["--first=price", "--sum=price", "--first=price"], "first_price,sum_price,first_price\n3,8,3\n")):
            where = self.random.choice([["--csv", "--header"], []])
            self.assertEqual(run("group", *where, *words, path).stdout.decode(), wanted, words)
        stats = json.loads(run("group", "--mean=price", "--first=price", path, "-o", self.folder / "out", "--json").stdout)
        self.assertEqual(stats["empty_values"], 1)
        self.assertEqual(run("group", "--csv", "--header", "--count", "--mean=b", stdin=b"a,b\n").stdout, b"count,mean_b\n0,\n")
        self.assertEqual(run("group", "--csv", "--header", "--count-distinct=b", stdin=b"a,b\n").stdout, b"count_distinct_b\n0\n")
        self.assertEqual(run("group", "--csv", "--header", "--count", stdin=b"").stdout, b"")
        self.assertEqual(run("group", "--jsonl", "--count", "--mean=a", stdin=b"").stdout, b'{"count":0,"mean_a":null}\n')
        self.assertEqual(run("group", "--sum", "2", "--count", stdin=b"a 1\nb 2\n").stdout, b"2\t3\n")


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("group_end_to_end")
