#!/usr/bin/env python3
"""Tests of ./run and ./check: tools_test.py ROOT [TEST...]. Runs copies of the scripts, with stand-ins for the programs that they call."""

import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
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

    def build_in_steps(self, seconds):
        """A build that stops for some seconds after its third step."""
        self.stand_in(self.programs / "cmake", f'[ "$1" = --build ] || exit 0; echo "[3/7] Building CXX"; sleep {seconds}; echo "[7/7] Linking"')
        return [str(self.root / "tools/build.sh"), "dev"]

    def test_a_build_shows_its_steps_from_time_to_time(self):
        done = subprocess.run(self.build_in_steps(2), env=self.environment | {"PENSTOCK_PROGRESS_PERIOD": "1"}, timeout=60, capture_output=True, text=True)
        self.assertRegex(done.stderr, r"^build: the first time takes minutes.*\n(build: [37] of 7 steps, 0:[0-9]+\n)+$")
        self.assertEqual(done.stdout, "")
        self.assertEqual((self.root / "build/dev/build.log").read_text(), "[3/7] Building CXX\n[7/7] Linking\n")

    def test_a_terminal_has_one_line_that_is_gone_at_the_end(self):
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
        subprocess.run(self.build_in_steps(2), env=self.environment, timeout=60, stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        shown = os.read(leader, 1 << 16).decode()
        os.close(leader)
        self.assertIn("\rbuild: 3 of 7 steps\x1b[K", shown.replace("\r\n", "\n"), "cut to 19 columns")
        self.assertTrue(shown.endswith("\r\x1b[K"), shown)

    def test_without_apt_setup_says_what_to_install(self):
        for program in ("bash", "dirname"):
            self.stand_in(self.programs / program, f'exec {shutil.which(program)} "$@"')
        self.environment["PATH"] = str(self.programs)
        done = self.run_tool("setup.sh", "run")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertRegex(done.stdout, r"^setup: no apt-get here\. Install .*: g\+\+ cmake .*\nsetup: then: cmake --preset release && .*\n$")

    def test_packages_are_installed_with_one_line(self):
        self.stand_in(self.programs / "dpkg-query", "exit 1")
        self.stand_in(self.programs / "sudo", 'exec "$@"')
        self.stand_in(self.programs / "apt-get", 'echo "Unpacking much"; echo "pmstatus:g++-12:45.5:Unpacking g++-12 (amd64)"; sleep 2')
        self.environment["PENSTOCK_PROGRESS_PERIOD"] = "1"
        done = self.run_tool("setup.sh", "run")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"^setup: installing g\+\+ .*\n(setup: 45 %, Unpacking g\+\+-12 \(amd64\), 0:[0-9]+\n)+$")

    def test_packages_that_cannot_be_installed_end_the_setup(self):
        self.stand_in(self.programs / "dpkg-query", "exit 1")
        self.stand_in(self.programs / "sudo", 'exec "$@"')
        self.stand_in(self.programs / "apt-get", 'echo "E: no such package"; exit 100')
        done = self.run_tool("setup.sh", "run")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("E: no such package\n", done.stdout)
        self.assertRegex(done.stdout, r"\nsetup: these packages could not be installed: g\+\+ cmake ")

    def test_missing_packages_are_named_at_once_before_a_compiler_runs(self):
        nothing = ["-DCMAKE_MAKE_PROGRAM=true", "-DCMAKE_FIND_ROOT_PATH=/nonexistent", *(f"-DCMAKE_FIND_ROOT_PATH_MODE_{kind}=ONLY" for kind in ("INCLUDE", "PROGRAM"))]
        # pip's configuration, for a Python without its headers.
        words = ["cmake", "-S", ROOT, "-B", self.root / "build", "-DPENSTOCK_TESTS=OFF", "-DSKBUILD=2", "-DPython_INCLUDE_DIR=/nonexistent"]
        environment = {name: value for name, value in os.environ.items() if name != "CXX"}
        done = subprocess.run([*words, *nothing], env=environment, timeout=60, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        [line] = re.findall(r"^ *apt install (.*)$", done.stderr, re.MULTILINE)
        listed = re.search(r"build_packages=\(([^)]*)\)", (ROOT / "tools/setup.sh").read_text()).group(1).split()
        tools = {"cmake", "ninja-build", "ccache", "git", "python3"}
        self.assertEqual(set(line.split()), set(listed) - tools | {"python3-dev"})
        self.assertNotIn("compiler", done.stdout + done.stderr)

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
