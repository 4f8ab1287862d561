#!/usr/bin/env python3
"""penstock sort beside the installed GNU sort: gnu_sort_test.py PENSTOCK CASES FORK_SERVER [TEST...]. The same bytes out.

CASES is gnu_sort_cases.cc, which makes random command lines and inputs, and reports differences. PENSTOCK_TEST_SEED selects other cases,
PENSTOCK_CASES more: 1000000 for a night; PENSTOCK_WHOLE=1 runs all of them in the whole program. Cases that differ are kept in PENSTOCK_KEEP,
if that is set.
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import end_to_end

PROGRAM, DRIVER, FORK_SERVER = (os.path.abspath(path) for path in sys.argv[1:4])
del sys.argv[2:4]
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
CASES = int(os.environ.get("PENSTOCK_CASES", end_to_end.trials(20000)))
WHOLE = int(os.environ.get("PENSTOCK_WHOLE", "20"))  # one in so many cases runs in the whole program
C_LOCALE = dict(os.environ, LC_ALL="C")
# Locales beside C and C.UTF-8: with and without separators of groups, with points or commas, with letters after z.
LOCALES = ("en_US", "de_DE", "sv_SE")
WORDS = ["", "a", "ab", "Ab", "foo-1", "foo-10", "foo.tar.gz", "JAN", "feb", "2", "10", "-1", "+5", "007", "0", "1.5", "1e3", "1K",
         "192.168.0.1", "\xe4", "\xff", "\r", "x y", "12345678901234567890123"]


def make_locales(folder, names=LOCALES):
    """Names of the locales to try, and the environment in which they are found."""
    have = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.lower().split()
    if all(f"{name}.utf8".lower() in have for name in names):
        return ["C", "C.UTF-8", *(f"{name}.UTF-8" for name in names)], {}
    made = ["C", "C.UTF-8"]
    for name in names if shutil.which("localedef") else ():
        done = subprocess.run(["localedef", "-i", name, "-f", "UTF-8", f"{folder}/{name}.UTF-8"], capture_output=True)
        if done.returncode in (0, 1):  # 1: with warnings
            made.append(f"{name}.UTF-8")
    return made, {"LOCPATH": str(folder)}


class BesideGnuSort(unittest.TestCase):
    def make_folder(self, parent=None):
        folder = tempfile.TemporaryDirectory(prefix="penstock-gnu-sort-", dir=parent)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def setUp(self):
        end_to_end.skip_without_gnu("sort")
        self.make_folder()

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
        locales, environment = make_locales(self.folder)
        if len(locales) < 5:
            print("skipped: the locales", *LOCALES, "cannot be made (try: apt-get install locales)")
        keep = os.environ.get("PENSTOCK_KEEP") or str(self.folder)
        theirs = shutil.which("sort")
        # Half of the cases run in C.
        done = subprocess.run([DRIVER, PROGRAM, theirs, FORK_SERVER, keep, str(SEED), "0", str(CASES), str(WHOLE), *["C"] * (len(locales) - 2), *locales],
                              env=dict(os.environ, TMPDIR=str(self.folder), **environment), capture_output=True, text=True, errors="replace")
        print(done.stdout[-300:])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def locale_to_try(self):
        locales, environment = make_locales(self.folder, ("sv_SE",))
        if len(locales) < 3:
            self.skipTest("the locale sv_SE.UTF-8 cannot be made (try: apt-get install locales)")
        return locales[-1], dict(os.environ, **environment)

    def test_a_locale_in_every_command(self):
        locale, environment = self.locale_to_try()
        theirs = dict(environment, LC_ALL=locale)

        def run(*words, env=environment, code=0, **more):
            done = subprocess.run([str(word) for word in words], capture_output=True, env=env, cwd=self.folder, **more)
            self.assertEqual(done.returncode, code, (words, done.stderr))
            return done.stdout

        rng = random.Random(SEED)
        letters = "a b A B \xe4 \xc4 z Z \xe5 \xf6 o - _ v w".split(" ")
        # The letters include invalid bytes, which are equal in the locale.
        lines = [b" ".join("".join(rng.choices(letters, k=rng.randrange(1, 4))).encode() for _ in range(2))
                 + rng.choice([b"", b"", b"\xff", b"\xc3"]) for _ in range(3000)]
        for part in range(2):
            self.write(f"in{part}", lines[part::2], b"\n", True)
        self.write("in", lines, b"\n", True)
        chosen = f"--locale={locale}"
        wanted = run("sort", "in", env=theirs)
        self.assertNotEqual(wanted, run("sort", "in", env=dict(environment, LC_ALL="C")))
        self.assertEqual(run(PROGRAM, "sort", chosen, "in"), wanted)
        self.assertEqual(run(PROGRAM, "sort", "--locale", "in", env=theirs), wanted)
        self.assertEqual(run(PROGRAM, "sort", "in", env=theirs), run("sort", "in", env=dict(environment, LC_ALL="C")))
        self.assertEqual(run(PROGRAM, "sort", chosen, "--top", 50, "in"), b"".join(wanted.splitlines(keepends=True)[:50]))
        self.assertEqual(run(PROGRAM, "sort", chosen, "-u", "-k2", "in"), run("sort", "-u", "-k2", "in", env=theirs))
        for part in range(2):
            run("sort", f"in{part}", "-o", f"sorted{part}", env=theirs)
        self.assertEqual(run(PROGRAM, "sort", "-m", chosen, "sorted0", "sorted1"), run("sort", "-m", "sorted0", "sorted1", env=theirs))
        run(PROGRAM, "merge", chosen, "sorted0", "sorted1", "-o", "merged")
        self.assertEqual(run(PROGRAM, "sort", chosen, "merged"), run("sort", "merged", env=theirs))
        run(PROGRAM, "check", chosen, "merged")
        run(PROGRAM, "check", "merged", code=1)
        run(PROGRAM, "partition", chosen, "in", "--by", "range", "--parts", 4, "-o", "part-{}")
        parts = sorted(self.folder.glob("part-*"))
        self.assertEqual(len(parts), 4)
        self.assertEqual(b"".join(run(PROGRAM, "sort", chosen, part) for part in parts), wanted)
        for part in range(2):
            run("sort", "-k1b,1", f"in{part}", "-o", f"keyed{part}", env=theirs)
        joined = run(PROGRAM, "join", chosen, "in0", "in1")
        self.assertEqual(sorted(joined.splitlines()), sorted(run("join", "keyed0", "keyed1", env=theirs).splitlines()))
        groups = run(PROGRAM, "group", "--count", "-k1,1", chosen, "in").splitlines()
        self.assertEqual(len(groups), len(run("sort", "-u", "-k1,1", "in", env=theirs).splitlines()))
        self.assertEqual(run(PROGRAM, "sort", "--locale=xx_NO.such", "in", code=2), b"")

    def test_a_resumed_sort_stays_in_its_locale(self):
        self.make_folder(end_to_end.on_a_disk())
        locale, environment = self.locale_to_try()
        rng = random.Random(SEED)
        lines = ["".join(rng.choices("abA\xe4\xe5z", k=20)).encode() + b"x" * 400 for _ in range(120_000)]
        name = self.write("large", lines, b"\n", True)
        words = [PROGRAM, "sort", name, "-o", str(self.folder / "out"), "-S", "33M", "-T", str(self.folder), "--resume"]
        child = subprocess.Popen([*words, f"--locale={locale}"], env=environment, stderr=subprocess.DEVNULL)
        end_to_end.wait_until_it_has_written(child, 1 << 24)
        child.kill()
        child.wait()
        self.assertFalse((self.folder / "out").exists())
        done = subprocess.run(words, env=environment, capture_output=True)
        self.assertNotIn(b"resuming", done.stderr)
        self.assertIn(done.returncode, (0, 2), done.stderr)
        again = subprocess.run([*words, f"--locale={locale}"], env=environment, capture_output=True)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(b"resuming", again.stderr)
        wanted = subprocess.run(["sort", name], env=dict(environment, LC_ALL=locale), capture_output=True).stdout
        self.assertTrue((self.folder / "out").read_bytes() == wanted)

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
                # The executor's long runs.
                self.compare([*options, "-z"], [zeros], beside=["--parallel", "1", "--device", "hdd"])


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED), {CASES} cases (PENSTOCK_CASES)")
    end_to_end.main("gnu_sort_end_to_end")
