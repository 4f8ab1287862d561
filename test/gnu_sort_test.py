#!/usr/bin/env python3
"""penstock sort beside GNU sort: gnu_sort_test.py PENSTOCK [TEST...]. The same bytes out for random options, lines and ways.

PENSTOCK_SEED and PENSTOCK_CASES ask for other cases, and for more: PENSTOCK_CASES=1000000 for a night.
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import end_to_end

PROGRAM = sys.argv[1]
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))
CASES = int(os.environ.get("PENSTOCK_CASES", "600"))
C_LOCALE = dict(os.environ, LC_ALL="C")

WORDS = ["", "", "a", "b", "ab", "Ab", "aB", "foo", "FOO", "foo-1", "foo-10", "foo-9", "foo.tar.gz", "foo-1.tar.gz", ".",
         "..", ".hid", "~", "a~", "JAN", "feb", "March", "dec", "may", "1", "2", "10", "-1", "-10", "+5", "007", "0", "-0",
         "1.5", "1.50", "1.05", "-.5", ".5", "5.", "1e3", "1E-3", "0x1F", "inf", "-inf", "1K", "1k", "2M", "1023", "3G",
         "-2K", "1Ki", "192.168.0.1", "192.168.0.10", "10.0.0.2", "2024-01-31", "\xe4", "\xff", "\x01", "\r", "x y",
         "12345678901234567890123", "12345678901234567890124", "0." + "0" * 30 + "1", "9" * 300]


def random_line(rng, separator, end):
    line = ""
    for _ in range(rng.randrange(5)):
        line += rng.choice(WORDS) + rng.choice([separator, separator, " ", "\t", "  "])
    if rng.random() < 0.01:
        line += "y" * rng.randrange(20000)
    return line.encode("latin-1").replace(end, b"")


def random_letters(rng, of_key):
    letters = rng.choice(["", "n", "g", "h", "M", "V", "n", "f", "d", "i"])
    letters += rng.choice(["", "", "", "b"]) + rng.choice(["", "", "r"]) + rng.choice(["", "", "", "f"])
    return rng.choice(["", letters]) if of_key else letters


def random_key(rng):
    key = str(rng.randrange(1, 5)) + rng.choice(["", "", f".{rng.randrange(1, 5)}"]) + random_letters(rng, True)
    if rng.random() < 0.7:
        key += f",{rng.randrange(1, 5)}" + rng.choice(["", "", f".{rng.randrange(5)}"]) + random_letters(rng, True)
    return key


def random_options(rng):
    options = []
    if rng.random() < 0.05:
        options += [f"+{rng.randrange(3)}{rng.choice(['', '.1', '.0'])}{random_letters(rng, True)}",
                    *rng.choice([[], [f"-{rng.randrange(1, 5)}{rng.choice(['', '.2', '.0'])}{random_letters(rng, True)}"]])]
    for _ in range(rng.randrange(4)):
        options += ["-k", random_key(rng)] if rng.random() < 0.5 else ["-k" + random_key(rng)]
    letters = random_letters(rng, False)
    if rng.random() < 0.5 and letters:
        options.append("-" + letters)
    separator = rng.choice([",", ":", " ", "\t", "x"])
    if rng.random() < 0.5:
        options += rng.choice([["-t", separator], ["-t" + separator]])
    options += rng.choice([[], [], [], ["-s"]]) + rng.choice([[], [], [], ["-u"]])
    end = b"\n"
    if rng.random() < 0.15:
        options.append("-z")
        end = b"\0"
    return options, separator, end


class BesideGnuSort(unittest.TestCase):
    def setUp(self):
        version = subprocess.run(["sort", "--version"], capture_output=True, text=True)
        if "GNU coreutils" not in version.stdout:
            self.skipTest("GNU sort is not installed")
        folder = tempfile.TemporaryDirectory(prefix="penstock-gnu-sort-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare(self, options, files, stdin=None, beside=()):
        theirs = subprocess.run(["sort", *options, *files], input=stdin, capture_output=True, env=C_LOCALE)
        ours = subprocess.run([PROGRAM, "sort", "-S", "48M", "-T", str(self.folder), *beside, *options, *files],
                              input=stdin, capture_output=True)
        told = f"sort {options} {files}\n{theirs.stderr[-300:]}\n{ours.stderr[-300:]}"
        self.assertEqual(ours.returncode, theirs.returncode, told)
        if ours.stdout != theirs.stdout:
            at = next((i for i, (a, b) in enumerate(zip(ours.stdout, theirs.stdout)) if a != b),
                      min(len(ours.stdout), len(theirs.stdout)))
            self.fail(f"{told}\nat byte {at}\nours   {ours.stdout[max(0, at - 60):at + 60]}\n"
                      f"theirs {theirs.stdout[max(0, at - 60):at + 60]}")

    def write(self, name, lines, end, whole):
        path = self.folder / name
        path.write_bytes(end.join(lines) + (end if whole and lines else b""))
        return str(path)

    def test_random_options_and_lines(self):
        for case in range(CASES):
            rng = random.Random(SEED * 1_000_003 + case)
            options, separator, end = random_options(rng)
            lines = [random_line(rng, separator, end) for _ in range(rng.choice([0, 1, 5, 40, 400]))]
            lines += rng.sample(lines, len(lines) // 5)
            rng.shuffle(lines)
            whole = rng.random() < 0.8
            way = rng.choice(["file", "file", "pipe", "files", "merge", "check"])
            with self.subTest(case=case, way=way):
                if way == "pipe":
                    self.compare(options, [], stdin=pathlib.Path(self.write("in", lines, end, whole)).read_bytes())
                elif way == "files":
                    half = len(lines) // 2
                    self.compare(options, [self.write("in1", lines[:half], end, True), self.write("in2", lines[half:], end, whole)])
                elif way in ("merge", "check"):
                    files = []
                    for part in range(2 if way == "merge" else 1):
                        name = self.write(f"in{part}", lines[part::2], end, whole)
                        if part == 0 or rng.random() < 0.9:
                            done = subprocess.run(["sort", *options, "-o", name, name], env=C_LOCALE, capture_output=True)
                            if done.returncode != 0:
                                break  # options that GNU sort refuses; so do we, see below
                        files.append(name)
                    if way == "check":
                        self.compare([*options, "-C"], [name])
                    elif len(files) == 2 and self.sorted(options, files):
                        self.compare([*options, "-m"], files)
                else:
                    self.compare(options, [self.write("in", lines, end, whole)])

    def sorted(self, options, files):
        return all(subprocess.run(["sort", *options, "-C", name], env=C_LOCALE, capture_output=True).returncode == 0
                   for name in files)

    def test_more_than_memory(self):
        rng = random.Random(SEED)
        lines = [f"{rng.randrange(10**rng.randrange(1, 12))}\t{rng.choice(WORDS)}\t{rng.randrange(1000)}.{rng.randrange(100)}\t"
                 f"{'z' * rng.randrange(60)}".encode("latin-1") for _ in range(900_000)]
        name = self.write("large", lines, b"\n", False)
        zeros = self.write("zeros", lines, b"\0", False)
        for options in (["-n"], ["-t\t", "-k3,3n", "-k1,1nr"], ["-k2,2V", "-s"], ["-t\t", "-k2,2", "-u"], ["-k2,2", "-s"],
                        ["-h", "-r"], ["-t\t", "-k3g", "-u"]):
            with self.subTest(options=options):
                self.compare(options, [name])
                # Long runs, by the executor.
                self.compare([*options, "-z"], [zeros], beside=["--parallel", "1", "--device", "hdd"])


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_SEED), {CASES} cases (PENSTOCK_CASES)")
    end_to_end.main("gnu_sort_end_to_end")
