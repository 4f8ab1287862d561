#!/usr/bin/env python3
"""Random cases of all commands beside other programs: GNU sort, uniq, join and split, Python's csv, json and statistics, and SQL.

    differential_test.py PENSTOCK [--cases N] [--seed S] [--kinds NAME,...] [--first I] [--jobs N] [--duckdb]

A case is the command lines and inputs of one random draw. Those of GNU sort are made by gnu_sort_cases.cc, all others by the tests that
repeat them (random_cases of end_to_end.py). Case I of a kind and a seed is always the same. A kind that differs is reported with its smallest
case, the files of that, and the command that repeats it. Draws are kept as a list of numbers, and a case becomes smaller by leaving out some
of them, as long as it still differs.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import csv
import io
import itertools
import os
import pathlib
import random
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from fractions import Fraction

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("penstock")
parser.add_argument("--cases", type=int, default=20_000, help="number of cases of all kinds")
parser.add_argument("--seed", type=int, default=int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 32))))
parser.add_argument("--kinds", help="names of kinds, with commas between them")
parser.add_argument("--first", type=int, default=0, help="number of the first case of each kind")
parser.add_argument("--jobs", type=int, default=1, help="processes at once")
parser.add_argument("--duckdb", action="store_true", help="SQL of DuckDB, instead of SQLite's")
OPTIONS = parser.parse_args()
TESTS = pathlib.Path(OPTIONS.penstock).resolve().parent.parent / "test"
# The modules of the cases read these at their import; gnu_sort_test.py removes the last two.
sys.argv = [sys.argv[0], OPTIONS.penstock, str(TESTS / "gnu_sort_cases"), str(TESTS / "libfork_server.so")]
os.environ["PENSTOCK_TEST_SEED"] = str(OPTIONS.seed)

import csv_test  # noqa: E402
import dialects_test  # noqa: E402
import draw_test  # noqa: E402
import duplicates_test  # noqa: E402
import end_to_end  # noqa: E402
import gnu_join_test  # noqa: E402
import gnu_sort_test  # noqa: E402
import group_test  # noqa: E402
import join_test  # noqa: E402
import jsonl_test  # noqa: E402
from end_to_end import random_cases, run  # noqa: E402

CHUNK = 250  # cases that one process runs in turn
SHRINKS_MAX = 1500


def connect():
    if OPTIONS.duckdb:
        import duckdb
        return duckdb.connect()
    return sqlite3.connect(":memory:")


class BesideSql(end_to_end.Case):
    """Groups and joins of CSV beside a database."""

    def setUp(self):
        super().setUp()
        self.database = connect()
        self.addCleanup(self.database.close)

    def table(self, name, columns, types):
        """A random table, in the database and as a file. An empty number is NULL there."""
        rng = self.random
        keys = rng.choice([2, 5, 100])
        texts = ["", "a", "A", "b,c", 'say "hi"', "two\nlines", "é", "10", "9", " "]
        value = {"key": lambda: rng.choice(texts) + str(rng.randrange(keys)), "id": lambda: rng.randrange(-keys, keys),
                 "text": lambda: rng.choice(texts), "number": lambda: rng.choice([None, rng.randrange(-9, 9), rng.randrange(-10**12, 10**12)])}
        rows = [[value[kind]() for kind in types] for _ in range(rng.choice([0, 1, 3, 20, 200]))]
        self.database.execute(f"DROP TABLE IF EXISTS {name}")
        told = ", ".join(f"{column} {'BIGINT' if kind in ('id', 'number') else 'VARCHAR'}" for column, kind in zip(columns, types))
        self.database.execute(f"CREATE TABLE {name} ({told})")
        if rows:
            self.database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=rng.choice(["\n", "\r\n"]), quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])).writerows([columns, *rows])
        return self.write(name + ".csv", text.getvalue().encode())

    def query(self, sql):
        return self.database.execute(sql).fetchall()

    def read(self, words):
        return list(csv.reader(io.StringIO(run(*words).stdout.decode(), newline=""), strict=True))

    RESULTS = {"sum": "sum({})", "min": "min({})", "max": "max({})", "mean": "avg({})", "count-distinct": "count(DISTINCT {})"}

    @random_cases(1)
    def test_groups(self):
        rng = self.random
        path = self.table("t", ["k", "i", "n", "m"], ["key", "id", "number", "number"])
        keys = rng.choice([["k"], ["k"], ["i"], ["k", "i"], ["i", "k"], []])
        results = [(rng.choice(list(self.RESULTS)), rng.choice("nm")) for _ in range(rng.randrange(5))]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        chosen = [*keys, "count(*)", *(self.RESULTS[word].format(column) for word, column in results)]
        wanted = self.query(f"SELECT {', '.join(chosen)} FROM t{by}")
        spelt = [word for key in keys for word in ("--key", key + (":n" if key == "i" else ""))]
        got = self.read(["group", "--csv", "--header", *spelt, "--count", *(word for one in results for word in (f"--{one[0]}", one[1])), path])[1:]
        kinds = [*("text" if key == "k" else "number" for key in keys), "number", *(word for word, _ in results)]

        def plain(row):
            return tuple(field if kind == "text" else None if field in ("", None) else
                         f"{float(Fraction(field)):.12g}" if kind == "mean" else int(field) for kind, field in zip(kinds, row))

        self.assertEqual(collections.Counter(map(plain, got)), collections.Counter(map(plain, wanted)))

    @random_cases(1)
    def test_joins(self):
        rng = self.random
        files = rng.choice([2, 2, 2, 3])
        keys = rng.choice([["k"], ["k"], ["i"], ["k", "i"]])
        names = [f"t{number}" for number in range(files)]
        own = [[f"v{number}{i}" for i in range(rng.randrange(3))] for number in range(files)]
        columns = [[*keys, *those] for those in own]
        paths = [self.table(name, some, [*("key" if key == "k" else "id" for key in keys), *["text"] * (len(some) - len(keys))])
                 for name, some in zip(names, columns)]
        kind = rng.choice(["inner", "left", "full", "semi", "anti", *["right"] * (files == 2)])
        using = f"USING ({', '.join(keys)})"
        if kind in ("semi", "anti"):
            # A row of all files is wanted by a semijoin, and a row of none by the other.
            exists = [f"EXISTS (SELECT 1 FROM {name} WHERE {' AND '.join(f'{name}.{key} = t0.{key}' for key in keys)})" for name in names[1:]]
            where = " AND ".join(("NOT " if kind == "anti" else "") + one for one in exists)
            sql = f"SELECT {', '.join(columns[0])} FROM t0 WHERE {where}"
        else:
            sql = f"SELECT {', '.join([*keys, *itertools.chain(*own)])} FROM t0 " + " ".join(f"{kind.upper()} JOIN {name} {using}" for name in names[1:])
        wanted = self.query(sql)
        spelt = [word for key in keys for word in ("--key", key + (":n" if key == "i" else ""))]
        got = self.read(["join", *([] if kind == "inner" else ["--" + kind]), "--csv", "--header", *spelt, *paths])[1:]
        text = lambda row: tuple("" if field is None else str(field) for field in row)
        self.assertEqual(collections.Counter(map(tuple, got)), collections.Counter(map(text, wanted)))


# The kinds: test, and its share of the cases, more for one that is cheap and covers many options.
KINDS = {
    "sort-gnu": (None, 60),
    "uniq-gnu": (duplicates_test.Uniq.test_random_options_beside_sort_and_uniq, 6),
    "uniq-in-order": (duplicates_test.Uniq.test_the_order_of_the_input, 1),
    "join-gnu": (gnu_join_test.BesideGnuJoin.test_random_options_and_lines, 6),
    "join-gnu-chain": (join_test.Joins.test_beside_a_chain_of_gnu_join, 1),
    "split-gnu": (draw_test.Draws.test_split_of_lines_is_that_of_gnu, 1),
    "split-tables": (draw_test.Draws.test_split_of_tables, 1),
    "shuf": (draw_test.Draws.test_shuffle_has_each_item_once, 2),
    "sample": (draw_test.Draws.test_sample_is_a_part_in_order, 1),
    "head": (draw_test.Draws.test_head, 1),
    "csv-sort": (csv_test.Csv.test_keys_are_columns, 2),
    "csv-round-trip": (csv_test.Csv.test_round_trip_of_whatever_the_csv_module_writes, 5),
    "csv-group": (csv_test.Csv.test_groups_by_columns, 1),
    "dialect-sort": (dialects_test.Dialects.test_rows_sort_by_their_columns, 1),
    "json-sort": (jsonl_test.Jsonl.test_keys_are_members, 1),
    "json-group": (jsonl_test.Jsonl.test_groups_are_objects, 1),
    "json-join": (jsonl_test.Jsonl.test_pairs_are_objects_of_both, 1),
    "group-statistics": (group_test.Group.test_rows_beside_python, 1),
    "group-sql": (BesideSql.test_groups, 4),
    "join-csv": (join_test.Joins.test_rows_of_csv, 1),
    "join-sql": (BesideSql.test_joins, 2),
}


class TooMany(Exception):
    """A draw far past the given ones: a generator that waits for a number other than 0."""


class Draws(random.Random):
    """Random numbers of a seed, or given ones followed by zeros. `taken` has those that were drawn."""

    def __init__(self, seed):
        super().__init__(seed)
        self.given = None
        self.taken = []

    def getrandbits(self, bits):
        if self.given is None:
            number = super().getrandbits(bits)
        else:
            number = self.given[len(self.taken)] & ((1 << bits) - 1) if len(self.taken) < len(self.given) else 0
            if len(self.taken) > len(self.given) + 10_000:
                raise TooMany
        self.taken.append(number)
        return number

    def random(self):
        return 1 - (self.getrandbits(53) + 1) * 2.0**-53  # the option of a probability is left out at 0


class Runner:
    """Runs cases of one kind in one folder."""

    def __init__(self, name):
        self.name = name
        method = KINDS[name][0]
        module, owner = sys.modules[method.__module__], method.__qualname__.split(".")[0]
        self.test = getattr(module, owner)()
        self.method = method.case
        self.test.setUp()

    def close(self):
        self.test.doCleanups()

    def run(self, number, given=None):
        """Runs a case; returns the error, if there is one, and the numbers that were drawn."""
        for path in self.test.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        draws = self.test.random = Draws(f"{OPTIONS.seed} {self.name} {number}")
        draws.given = given
        try:
            self.method(self.test)
        except unittest.SkipTest:
            raise
        except Exception as error:
            return error, draws.taken
        return None, draws.taken

    def shrink(self, number):
        """The fewest and smallest draws found that make a case fail as this one does."""
        error, best = self.run(number)
        tries = 0
        size = len(best)
        while size > 0:
            at = 0
            while at < len(best) and tries < SHRINKS_MAX:
                for less in (best[:at] + best[at + size:], best[:at] + [0] * len(best[at:at + size]) + best[at + size:]):
                    if less == best:
                        continue
                    tries += 1
                    found, taken = self.run(number, less)
                    if type(found) is type(error) and (len(taken), taken) < (len(best), best):
                        best = taken
                        break
                else:
                    at += size
            size //= 2
        return best


def run_python(name, first, count):
    """Runs cases of a kind until one fails. Returns the number of cases, and the failing one with its size or a reason to skip."""
    with contextlib.ExitStack() as ends:
        try:
            runner = Runner(name)
            ends.callback(runner.close)
            for number in range(first, first + count):
                error, taken = runner.run(number)
                if error is not None:
                    return number - first + 1, (len(taken), number), None
        except unittest.SkipTest as skip:
            return 0, None, str(skip)
    return count, None, None


def show_python(name, number):
    """Shows the smallest form of a case that fails, and keeps its files."""
    with contextlib.closing(Runner(name)) as runner:
        error, _ = runner.run(number, runner.shrink(number))
        kept = pathlib.Path(tempfile.mkdtemp(prefix=f"penstock-differential-{name}-{number}-"))
        shutil.copytree(runner.test.folder, kept, dirs_exist_ok=True)
        words, stdin = end_to_end.last_run["words"], end_to_end.last_run["stdin"]
        (kept / "stdin").write_bytes(stdin)
        shown = shlex.join(map(os.fsdecode, words)).replace(str(runner.test.folder), str(kept))
        print(f"{error}\nits last command: penstock {shown} < {kept}/stdin")


def run_sort(name, first, count):
    """Runs cases of GNU sort; one in 5 runs the whole program, the others its command line and its keys (gnu_sort_cases.cc)."""
    try:
        end_to_end.skip_without_gnu("sort")
        for path in (gnu_sort_test.DRIVER, gnu_sort_test.FORK_SERVER):
            if not os.path.exists(path):
                raise unittest.SkipTest(f"{path} is missing (try: tools/build.sh PRESET gnu_sort_cases fork_server)")
    except unittest.SkipTest as skip:
        return 0, None, str(skip)
    with tempfile.TemporaryDirectory(prefix="penstock-differential-") as folder:
        keep = tempfile.mkdtemp(prefix="penstock-differential-sort-")
        locales, environment = gnu_sort_test.make_locales(folder)
        done = subprocess.run([gnu_sort_test.DRIVER, gnu_sort_test.PROGRAM, shutil.which("sort"), gnu_sort_test.FORK_SERVER, keep, str(OPTIONS.seed), str(first), str(count), "5",
                               *["C"] * (len(locales) - 2), *locales], env=dict(os.environ, TMPDIR=folder, **environment), capture_output=True)
        shutil.rmtree(f"{keep}/case", ignore_errors=True)
        if done.returncode == 0:
            os.rmdir(keep)
            return count, None, None
    sizes = [(sum(file.stat().st_size for file in case.iterdir()), int(case.name)) for case in pathlib.Path(keep).iterdir()]
    print(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), sep="", flush=True)
    return count, min(sizes, default=(0, first)), None


def run_chunk(chunk):
    return (run_sort if chunk[0] == "sort-gnu" else run_python)(*chunk)


def chunks():
    """Parts of the work: kind, first case, number of cases."""
    names = OPTIONS.kinds.split(",") if OPTIONS.kinds else list(KINDS)
    for name in names:
        if name not in KINDS:
            parser.error(f"--kinds {name}: no such kind (try: {', '.join(KINDS)})")
    shares = sum(KINDS[name][1] for name in names)
    counts = {name: OPTIONS.cases * KINDS[name][1] // shares for name in names}
    counts[names[0]] += OPTIONS.cases - sum(counts.values())
    for name, count in counts.items():
        step = 5000 if name == "sort-gnu" else CHUNK
        for first in range(0, count, step):
            yield name, OPTIONS.first + first, min(step, count - first)


def main():
    work = sorted(chunks(), key=lambda chunk: chunk[1])
    print(f"seed {OPTIONS.seed} (PENSTOCK_TEST_SEED), {OPTIONS.cases} cases", flush=True)
    begin = time.monotonic()
    ran, failed, skipped = collections.Counter(), {}, {}
    with concurrent.futures.ProcessPoolExecutor(OPTIONS.jobs) as pool:
        for (name, _, _), (count, failure, skip) in zip(work, pool.map(run_chunk, work)):
            ran[name] += count
            if skip:
                skipped[name] = skip
            if failure:
                failed[name] = min(failure, failed.get(name, failure))
            if ran.total() * 10 // OPTIONS.cases != (ran.total() - count) * 10 // OPTIONS.cases:
                print(f"{ran.total()} cases in {time.monotonic() - begin:.0f} s, {len(failed)} kinds differ", flush=True)
    seconds = time.monotonic() - begin
    for name, count in ran.items():
        print(f"{count:8} {name}" + (f", skipped: {skipped[name]}" if name in skipped else ""))
    print(f"{ran.total():8} cases in {seconds:.1f} s, {ran.total() / seconds:.0f} a second")
    bodies = {}
    for name, count in ran.items():
        problem = f"case {failed[name][1]} of seed {OPTIONS.seed} differs" if name in failed else ""
        bodies[f"{name}, {count} cases"] = end_to_end.element("failure", problem) if problem else \
            end_to_end.element("skipped", skipped[name]) if name in skipped else ""
    end_to_end.write_report("differential", bodies)
    for name, (_, number) in failed.items():
        print(f"\n{name}: case {number} of seed {OPTIONS.seed} differs")
        if name != "sort-gnu":
            show_python(name, number)
        print(f"repeat it: {sys.argv[0]} {OPTIONS.penstock} --seed {OPTIONS.seed} --kinds {name} --first {number} --cases 1", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
