#!/usr/bin/env python3
"""Tests of ./run and ./check: tools_test.py ROOT [TEST...]. Runs copies of the scripts, with stand-ins for the programs that they call."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import end_to_end

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import check  # noqa: E402


def is_alive(stat):
    """Whether a process runs, by its file in /proc. A zombie does not."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Tools(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-tools-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "tools", self.root / "tools")
        self.programs = self.root / "programs"
        self.programs.mkdir()
        self.told = self.root / "told"
        self.environment = dict(os.environ, PATH=f"{self.programs}:{os.environ['PATH']}", TOLD=str(self.told))

    def stand_in(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run_tool(self, *words):
        return subprocess.run([str(self.root / "tools" / words[0]), *words[1:]], env=self.environment, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_two_builds_of_one_folder_take_turns(self):
        # Each creates a folder, and fails if the other one, at the same time, has it.
        self.stand_in(self.programs / "cmake", 'mkdir "$TOLD" || exit 1; sleep 0.05; rmdir "$TOLD"')
        words = [str(self.root / "tools/build.sh"), "dev"]
        builds = [subprocess.Popen(words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                  for _ in range(4)]
        for build in builds:
            output, _ = build.communicate(timeout=60)
            self.assertEqual(build.returncode, 0, output)

    def test_files_that_the_docs_name_exist(self):
        texts = [path for path in ROOT.rglob("*.md") if "build" not in path.relative_to(ROOT).parts]
        names = [(text, name) for text in texts if text.name != "CHANGELOG.md"
                 for name in re.findall(r"`((?:src|cli|include|generate|papers|bench|test|tools|docs|examples|fuzz)/[\w/.-]+\.\w+)`",
                                        text.read_text())]
        self.assertGreater(len(names), 50)
        missing = [f"{text.relative_to(ROOT)} names {name}" for text, name in names if not (ROOT / name).exists()]
        self.assertEqual(missing, [])

    def install(self, what):
        self.stand_in(self.programs / "dpkg-query", "printf installed")
        pip = 'echo "pip $*" >>"$TOLD"'
        self.stand_in(self.root / "pip", pip)
        self.stand_in(self.programs / "python3", f'mkdir -p "$3/bin"; cp "{self.root}/pip" "$3/bin/pip"')
        self.stand_in(self.programs / "npm", 'echo "npm $*" >>"$TOLD"')
        done = self.run_tool("setup.sh", what)
        self.assertEqual(done.returncode, 0, done.stdout)
        return self.told.read_text() if self.told.exists() else ""

    def test_packages_from_pypi_have_hashes(self):
        told = self.install("bench")
        self.assertIn("--require-hashes", told)
        self.assertIn("--only-binary :all:", told)  # a source package would run its own script
        packages = [line for line in (ROOT / "tools/rivals.txt").read_text().splitlines() if "==" in line]
        self.assertTrue(packages)
        self.assertTrue(all(line.endswith("\\") for line in packages), "each goes on with its hashes")
        self.assertEqual(self.install("bench"), told, "what is there is not installed again")

    def test_packages_from_npm_have_hashes_and_run_nothing(self):
        told = self.install("check")
        self.assertIn("npm ci", told)
        self.assertIn("--ignore-scripts", told)
        self.assertIn('"integrity": "sha512-', (ROOT / "tools/npm/package-lock.json").read_text())

    def test_a_user_without_rights_cannot_touch_what_root_copied(self):
        if os.geteuid() != 0:
            self.skipTest("only root runs tests as somebody else")
        os.chmod(self.root, 0o755)
        build = self.root / "build/dev"
        program = build / "test/test_stream_stress_test"
        self.stand_in(program, 'if touch "$0.mine" 2>/dev/null; then exit 1; fi; touch "$TMPDIR/mine" && test -x "$0"')
        tally = check.Tally()
        check.run_unprivileged(tally, check.Clock(), [program])
        self.assertEqual(tally.failed, [])

    def part(self, name, then):
        """A part of ./check without a build, which runs the command `then`, a list of words."""
        return check.Part(name, "check", None, None,
                          lambda tally, clock, deadline: check.command(tally, name, *then, quiet=True, deadline=deadline))

    def test_no_part_begins_too_late(self):
        tally, clock = check.Tally(), check.Clock()
        parts = [self.part(name, ["true"]) for name in ("gate", "first", "second")]
        left = check.run_parts(parts, tally, clock, part_begins_max_s=0, end_max_s=600, always=1)
        self.assertEqual(left, ["first", "second"])
        self.assertEqual((tally.passed, tally.failed), (1, []))

    def test_a_part_ends_with_the_time_and_so_do_its_processes(self):
        sleeper = self.root / "sleeper"
        # The shell writes its child's number; both wait for a pipe without a writer.
        script = f"cat {self.root}/pipe & echo $! >{sleeper}.new; mv {sleeper}.new {sleeper}; wait"
        os.mkfifo(self.root / "pipe")
        seconds = 1
        while not sleeper.exists():  # a busy machine takes longer to start it
            tally, clock = check.Tally(), check.Clock()
            parts = [self.part("quick", ["true"]), self.part("endless", ["sh", "-c", script]), self.part("late", ["true"])]
            left = check.run_parts(parts, tally, clock, part_begins_max_s=seconds, end_max_s=seconds, always=2)
            self.assertEqual(left, ["endless", "late"])
            self.assertEqual((tally.passed, tally.failed), (1, []))
            seconds *= 2
            self.assertLess(seconds, 100)
        # A killed process takes a moment to end; it is no child of ours, so we cannot wait for it.
        process = pathlib.Path(f"/proc/{int(sleeper.read_text())}/stat")
        deadline = time.monotonic() + 60
        while is_alive(process) and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertFalse(is_alive(process))

    def test_a_build_that_is_not_waited_for_is_ended(self):
        builds = []

        class Build:
            def __init__(self, preset, targets):
                self.seconds, self.stopped = 0, False
                builds.append(self)

            def wait(self, tally, deadline):
                return True

            def stop(self):
                self.stopped = True

        real, check.Build = check.Build, Build
        self.addCleanup(setattr, check, "Build", real)
        parts = [check.Part("first", "check", ("a",)),
                 check.Part("second", "check", ("b",), None, lambda tally, clock, deadline: setattr(clock, "start", 0))]
        left = check.run_parts([*parts, check.Part("third", "check", ("c",))], check.Tally(), check.Clock(),
                               part_begins_max_s=60, end_max_s=600, always=1)
        self.assertEqual(left, ["third"])
        self.assertEqual([build.stopped for build in builds], [False, False, True])


if __name__ == "__main__":
    end_to_end.main("tools")
