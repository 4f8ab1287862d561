"""The base of the end-to-end tests: runs the program, has a folder and random numbers for each case, and writes a JUnit file like
GoogleTest's, if ctest's run asks for one."""

import contextlib
import functools
import os
import re
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.sax.saxutils

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 32)))


def trials(whole):
    """Number of random trials, as in src/base/trials.h: ./check runs a share of them, ./check full all."""
    return max(whole // int(os.environ.get("PENSTOCK_TRIALS", "1")), 1)


def with_seams(program):
    """The build of the program for tests, which obeys PENSTOCK_INJECT and PENSTOCK_EMULATE (test/support)."""
    found = pathlib.Path(program).resolve().parent.parent / "test/support/penstock"
    if not found.exists():
        raise AssertionError(f"{found} is missing: tools/build.sh PRESET penstock_with_seams")
    return str(found)


def skip_if_left_out(message):
    """Skips a test if a message says that this build leaves out the command or option that it needs."""
    if b"this build has no " in message:
        raise unittest.SkipTest(message.decode(errors="replace").strip())


@functools.cache
def is_gnu(program):
    return "GNU coreutils" in subprocess.run([program, "--version"], capture_output=True, text=True).stdout


def skip_without_gnu(program):
    if not is_gnu(program):
        raise unittest.SkipTest(f"GNU {program} is not installed")


last_run = {}  # the words and the input of run()'s last command


def run(*words, code=0, stdin=b"", program=None, skips=True, **options):
    """Runs the program of the command line, or another one, and checks its exit code, which may be one of several.
    A command that this build leaves out skips the test."""
    words = [word if isinstance(word, bytes) else str(word) for word in words]
    last_run.update(words=words, stdin=stdin)
    done = subprocess.run([os.path.abspath(program or sys.argv[1]), *words], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300, **options)
    if skips:
        skip_if_left_out(done.stderr)
    if done.returncode not in (code if isinstance(code, tuple) else (code,)):
        raise AssertionError(f"penstock {words}: exit code {done.returncode}, wanted {code}\n{done.stderr.decode(errors='replace')}")
    return done


def commands():
    """The commands that `penstock help` lists."""
    return re.findall(r"^  ([a-z]+) {3,}", run("help").stdout.decode(), re.MULTILINE)


def built(command):
    """Returns whether the program has the command: a build may leave out tracing and find."""
    return run(command, "--help", code=(0, 2), skips=False).returncode == 0


def written_bytes(pid):
    """Bytes that a process has written to disks so far."""
    return int(pathlib.Path(f"/proc/{pid}/io").read_text().split("write_bytes: ")[1].split()[0])


def on_a_disk():
    """A folder on a disk, so that written_bytes() counts writes; on a tmpfs it does not."""
    for folder in (tempfile.gettempdir(), "/var/tmp"):
        with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=folder) as file:
            before = written_bytes(os.getpid())
            file.write(bytes(1 << 16))
            file.flush()
            if written_bytes(os.getpid()) > before:
                return folder
    raise unittest.SkipTest("the system counts no writes to TMPDIR or /var/tmp: a tmpfs")


class Case(unittest.TestCase):
    """A test case with a folder, removed at its end, and random numbers that SEED repeats."""

    needs_a_disk = False  # the folder must be on a disk

    def setUp(self):
        self.random = random.Random(SEED)
        folder = tempfile.TemporaryDirectory(prefix="penstock-test-", dir=on_a_disk() if self.needs_a_disk else None)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path


def random_cases(count):
    """Makes a test of one random case: the test runs `count` of them. Its attribute `case` is the case (differential_test.py)."""
    def repeated(case):
        @functools.wraps(case)
        def test(self):
            for number in range(count):
                with self.subTest(case=number, seed=SEED):
                    case(self)
        test.case = case
        return test
    return repeated


def element(tag, message):
    """An element of a JUnit file: a failure, or a test that was skipped."""
    return f"<{tag} message={xml.sax.saxutils.quoteattr(message)}/>"


def write_report(name, bodies):
    """Writes the cases of a test, with an element or nothing for each, if ctest's run asks for them."""
    kind, _, folder = os.environ.get("GTEST_OUTPUT", "").partition(":")
    if kind == "xml" and folder:
        cases = (f'<testcase classname="cli" name="{case.removeprefix("__main__.")}">{body}</testcase>' for case, body in bodies.items())
        (pathlib.Path(folder) / f"{name}.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")


class JUnitResult(unittest.TextTestResult):
    """Keeps the result of each test for write_report()."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.bodies = {}

    def startTest(self, test):
        super().startTest(test)
        self.bodies[test.id()] = ""

    def keep(self, test, tag, message):
        self.bodies[test.id()] = element(tag, message)

    def addError(self, test, problem):
        super().addError(test, problem)
        self.keep(test, "failure", str(problem[1]))

    def addFailure(self, test, problem):
        super().addFailure(test, problem)
        self.keep(test, "failure", str(problem[1]))

    def addSubTest(self, test, subtest, problem):
        super().addSubTest(test, subtest, problem)
        if problem is not None:
            self.keep(test, "failure", f"{subtest._subDescription()}: {problem[1]}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        test = getattr(test, "test_case", test)
        if "failure" not in self.bodies[test.id()]:
            self.keep(test, "skipped", reason)



def wait_until_it_catches(child, number, seconds_max=60):
    """Waits until a program has installed its handler of a signal, or has ended: the time to start depends on the machine."""
    deadline = time.monotonic() + seconds_max
    while child.poll() is None:
        status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
        caught = int(status.split("SigCgt:")[1].split()[0], 16)
        if caught >> (number - 1) & 1:
            return
        assert time.monotonic() < deadline, f"signal {number} is never caught"
        time.sleep(0.005)


def wait_until_it_has_written(child, bytes_min, seconds_max=120):
    """Waits until a program has written `bytes_min` bytes to a folder of on_a_disk(), or has ended."""
    deadline = time.monotonic() + seconds_max
    while child.poll() is None and written_bytes(child.pid) < bytes_min:
        assert time.monotonic() < deadline, f"{bytes_min} bytes are never written"
        time.sleep(0.0005)


def main(name):
    """Runs the cases of the main module, or those named on the command line, and ends the program."""
    # A shell without job control ignores these signals in background programs, and programs inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    loader = unittest.defaultTestLoader
    module = sys.modules["__main__"]
    suite = loader.loadTestsFromNames(sys.argv[2:], module) if sys.argv[2:] else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(verbosity=2, resultclass=JUnitResult).run(suite)
    write_report(name, result.bodies)
    sys.exit(0 if result.wasSuccessful() else 1)
