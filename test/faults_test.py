#!/usr/bin/env python3
"""Inputs that were once misread, each with its command and its right result: faults_test.py PENSTOCK [TEST...].
test/faults/README.md describes the files of a case."""

import csv
import io
import os
import pathlib
import shutil
import subprocess
import sys

import end_to_end

CASES = pathlib.Path(__file__).resolve().parent / "faults"


class Faults(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        (self.programs / "penstock").symlink_to(os.path.abspath(sys.argv[1]))

    def run_case(self, case):
        copy = shutil.copytree(case, self.folder / "case")

        def has(name):
            return (case / name).read_bytes().decode() if (case / name).exists() else None

        environment = dict(os.environ, PATH=f"{self.programs}:{os.environ['PATH']}", LC_ALL="C")
        done = subprocess.run(["sh", "-c", has("cmd")], cwd=copy, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        end_to_end.skip_if_left_out(done.stderr)
        errors = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, int(has("code") or 0), errors)
        for fragment in (has("says") or "").splitlines():
            self.assertIn(fragment, errors)
        if (rows := has("rows")) is not None:
            output = io.StringIO(done.stdout.decode(), newline="")
            self.assertEqual(list(csv.reader(output, delimiter=has("separator") or ",")),
                             list(csv.reader(io.StringIO(rows, newline=""))))
        else:
            self.assertEqual(done.stdout, (case / "want").read_bytes(), errors)


def test_of(case):
    return lambda self: self.run_case(case)


for folder in sorted(path for path in CASES.iterdir() if path.is_dir()):
    setattr(Faults, "test_" + folder.name.replace("-", "_"), test_of(folder))


if __name__ == "__main__":
    end_to_end.main("faults")
