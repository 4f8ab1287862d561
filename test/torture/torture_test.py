#!/usr/bin/env python3
"""Tests of the campaign of faults: torture_test.py PENSTOCK AT_CALL [TEST...].

Short runs a share of it, the same each time, Long half an hour with new seeds, both for `./check full`; Broken proves that the
campaign can fail: programs that lie, leave something behind, hang or write in place are found. PENSTOCK_TEST_SEED selects the
trials.
"""

import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import end_to_end

PROGRAM, AT_CALL = map(os.path.abspath, sys.argv[1:3])
del sys.argv[2]
ROOT = HERE.parent.parent
PYTHON = ROOT / "build/python/bin/python"
PACKAGE = pathlib.Path(PROGRAM).resolve().parent.parent / "python"
SANITIZED = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ


def torture(program, *words):
    return subprocess.run([HERE / "penstock-torture", program, "--at-call", AT_CALL, *map(str, words)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


@unittest.skipIf(SANITIZED, "a sanitizer makes calls of its own, and ends the program where these fail")
class Campaign(end_to_end.Case):
    has_package = any(PACKAGE.glob("penstock/_penstock*.so"))

    def campaign(self, *words):
        package = ["--python", PYTHON, "--package", PACKAGE] if self.has_package else []
        done = torture(PROGRAM, "--wrong-max", 3, *package, *words)
        sys.stderr.write(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout)
        for line in done.stdout.splitlines():
            if line.startswith("skipped: "):
                with self.subTest(line):
                    self.skipTest(line)


class Short(Campaign):
    def test_a_share_of_the_campaign(self):
        """Runs the same trials each time, unless PENSTOCK_TEST_SEED is set: Long and the command run new ones."""
        seed = os.environ.get("PENSTOCK_TEST_SEED", "1")
        self.campaign("--seed", seed, "--runs", 300, "--operation", "s[nt]*", "--operation", "sort-[lrt]*", "--operation", "[cfmp]*")


# Trials that failed once, or that represent many.
KNOWN = (
    "cat-file/few int@rename:1",
    "convert/few kill@rename:1",
    "convert/few int@rename:1",
    "convert/small truncate@read:1",
    "find/large error=EIO@write:1",
    "find/large error=EINTR@write:88",
    "find/large error=ENOMEM@mprotect:16",
    "find/large error=ENOMEM@mprotect:17+",
    "sort-resume-lines/large error=ENOMEM@fcntl:9 rot=temporary:5820 container",
    "python-ray/few int@getdents64:15",
    "python-ray/few kill@rmdir:2",
    "python-table/small kill@linkat:2",
    "replay/few truncate@fcntl:3",
    "sort-lines-packed/few error=ENOMEM@mremap:2",
    "sort-pipe/large limit=data:14197943@fcntl:1",
    "sort-pipe/small error=EINTR@write:1 int@fadvise64:1",
    "sort-record/few kill@linkat:2",
    "sort-record/large seam=seed=1,short=0.3,delay=0.05:300",
    "sort-record/large limit=fsize:10485760@fcntl:1",
    "sort-record/large kill@io_uring_enter:20",
    "sort-record/large seam-error=seed=1,error=ENOSPC%write:10",
    "sort-record/large seam-error=seed=1,short=0.3,error=EIO%read:30",
    "sort-resume/large kill@fdatasync:2 kill@io_uring_enter:30 kill@fdatasync:2 rot=temporary:100",
    "sort-record/large container",
    "sort-record/small cgroup=33554432@fcntl:1",
    "sort-record/large cgroup=38797312@fcntl:1",
    "gen/few error=EAGAIN@clone3:1+",
    "stream-threads/few error=ENOMEM@ioctl:24",
    "stream-threads/large truncate@mmap:9",
    "sort-merge/small truncate@readlink:2",
    "cat-file/small limit=fsize:65536@fcntl:1",
    "stream-processes/few error=EINTR@read:3",
    "stream-processes/none error=EINTR@pread64:1",
    "stream-processes/large kill@mmap:20",
    "snapshots/few int@linkat:2",
    "snapshots/large kill@mmap:20",
)


class Known(Campaign):
    def test_trials_that_went_wrong_once(self):
        trials = [trial for trial in KNOWN if self.has_package or not trial.startswith("python")]
        self.campaign(*(word for trial in trials for word in ("--replay", trial)))
        if len(trials) < len(KNOWN):
            self.skipTest("trials of Python, whose package is not built")


class Long(Campaign):
    def test_new_seeds(self):
        self.campaign("--seed", end_to_end.SEED, "--seconds", 1500)

    def test_every_call_of_a_small_sort(self):
        self.campaign("--every", "--operation", "sort-u64", "--size", "few", "--fault", "error", "--fault", "kill", "--seconds", 900)


# Scripts of broken programs around the real one, with its input $in, its output $out and its folder of temporaries $temp.
BROKEN = {
    "drops a byte": ("real; code=$?; [ $code = 0 ] && truncate -s -1 $out; exit $code", "wrong output"),
    "leaves a temporary": ("real; code=$?; touch $temp/left; exit $code", "left ['temp/left']"),
    "leaves a process": ("real; code=$?; sleep 1000 & exit $code", "a process is left"),
    "hangs": ("real; sleep 1000", "hangs"),
    "writes nothing": ("exit 0", "wrong output"),
    "says nothing": ("real 2>/dev/null", "without a message"),
    "changes its input": ("real; code=$?; touch $in; exit $code", "the input is not as it was"),
    "writes in place": ("head -c 100 /dev/zero >$out; real", "neither the old nor the new"),
    "goes on where it cannot": ("real; code=$?; [ $code = 2 ] && exit 0; exit $code", "wrong output"),
    "is killed": ("real; code=$?; [ $code = 2 ] && kill -9 $$; exit $code", "ended by signal 9"),
}


@unittest.skipIf(SANITIZED, "a sanitizer makes calls of its own, and ends the program where these fail")
class Broken(end_to_end.Case):
    """Each broken program is found within a few trials."""

    def campaign(self, script, deadline=30):
        program = self.folder / "penstock"
        script = script.replace("real", f'{end_to_end.with_seams(PROGRAM)} "$@"')
        program.write_text(f'#!/bin/sh\nin=$2 words="$*"; out=${{words##* -o }} temp=${{words##* -T }}; temp=${{temp%% *}}\n{script}\n')
        program.chmod(0o755)
        return torture(program, "--with-seams", program, "--seed", end_to_end.SEED, "--operation", "sort-record", "--fault", "error", "--fault", "seam-error",
                       "--size", "few", "--runs", 60, "--wrong-max", 1, "--deadline", deadline)

    def test_the_real_program_passes(self):
        done = self.campaign("real")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_broken_programs_are_found(self):
        for name, (script, problem) in BROKEN.items():
            with self.subTest(name):
                done = self.campaign(script, deadline=3 if name == "hangs" else 30)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(problem, done.stdout)


if __name__ == "__main__":
    print(f"seed {end_to_end.SEED} (PENSTOCK_TEST_SEED)", file=sys.stderr)
    end_to_end.main("torture_end_to_end")
