#!/usr/bin/env python3
"""The parts of ./check; a part that fails does not keep the others from running.

Each build has its purpose:
  check       quick to compile: many files at once, and optimized only in loops over items. It runs the end-to-end tests, the
              examples, and the tests of modules. Plain ./check is this build, without tests with the label `ci`.
  asan-ubsan  the tests of the library, under the address and undefined-behaviour sanitizers (`check.py sanitizers`).
  tsan        the tests that run threads against each other, under the thread sanitizer (`check.py threads`).
  package     the users' build, with each file compiled by itself: some tests of the program.
  slim        only in `check.py full`: the tests of ./check in a build without tracing, report pages and penstock find.
Continuous integration (`check.py ci`) runs ./check first, then its further parts one by one: tests with the label `ci`, tests
without rights, the sanitizers, and tests of the users' build. Its time is limited: no part begins after PART_BEGINS_MAX_S, and
END_MAX_S ends the running one. The last lines name the parts that ran and those that did not; `./check full` runs all. In
`check` most layers are less optimized than in the users' build. `check.py full` uses `dev` in its place: every test in each
build, all benches, more seeds, and clang-tidy with the static analyser. It leaves nothing out to save time.

While the tests of one build run, the next one is built on the idle processors: many tests wait for disks, children or
each other, and some run alone. The build has low priority (nice), so that it hardly disturbs them.

A test is counted where it reports itself: each GoogleTest case, and each case of the end-to-end test, both of which write
JUnit files; a ctest test that writes none (a bench, the demonstration) counts as one.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Limits of `check.py ci`, in seconds from its start. Continuous integration has 90 minutes, packages and clone included.
PART_BEGINS_MAX_S = 60 * 60
END_MAX_S = 78 * 60

NOBODY = 65534

# The environment that makes random tests short enough; ./check full runs them in full.
SHORTER = {"PENSTOCK_TRIALS": "8"}

# Converts the addresses in a sanitizer's report to source lines; Debian installs it beside clang-19, not in the PATH.
SYMBOLIZER = "/usr/lib/llvm-19/bin/llvm-symbolizer"

SANITIZER_ENVIRONMENT = {
    "ASAN_SYMBOLIZER_PATH": SYMBOLIZER,
    "TSAN_SYMBOLIZER_PATH": SYMBOLIZER,
    # The library serves faults itself and passes others on; the sanitizer must allow it.
    "ASAN_OPTIONS": "allow_user_segv_handler=1:detect_stack_use_after_return=0:quarantine_size_mb=16",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # A PullStream's producer runs inside the handler, at a point where allocation is safe.
    "TSAN_OPTIONS": "allow_user_segv_handler=1:halt_on_error=1:report_signal_unsafe=0",
}


class Tally:
    """Counts of passed, failed and skipped tests, with reasons, over all parts."""

    def __init__(self):
        self.passed = 0
        self.failed = []
        self.skipped = []

    def add(self, name, failure=None, skip=None):
        if failure is not None:
            self.failed.append((name, failure))
        elif skip is not None:
            self.skipped.append((name, skip))
        else:
            self.passed += 1

    def print(self):
        for name, reason in self.skipped:
            print(f"skipped: {name}: {reason}")
        for name, reason in self.failed:
            print(f"failed: {name}: {reason}")
        print(f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped")


class OutOfTime(Exception):
    """The time of all parts is over: the running part is left unfinished."""


def end_group(process):
    """Ends a session leader with all processes of its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_until(deadline, words, **options):
    """subprocess.run() with the output as text, until a time of time.monotonic(); then OutOfTime, with all processes ended."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True, **options)
    try:
        output, _ = process.communicate(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise OutOfTime from None
    finally:
        if process.returncode is None:
            end_group(process)
    return subprocess.CompletedProcess(words, process.returncode, output)


def command(tally, name, *words, quiet=False, deadline=None):
    """Runs a command as one test; returns whether it succeeded. Its output is printed, with `quiet` only if it fails."""
    start = time.monotonic()
    done = run_until(deadline, words, cwd=ROOT, env=dict(os.environ, **SHORTER))
    print(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'}, {time.monotonic() - start:.0f} s", flush=True)
    if done.stdout and not (quiet and done.returncode == 0):
        print(done.stdout, end="", flush=True)
    tally.add(name, failure=None if done.returncode == 0 else f"exit code {done.returncode}")
    return done.returncode == 0


class Build:
    """A build in the background, until it is waited for. It counts as one test."""

    def __init__(self, preset, targets=()):
        self.preset = preset
        self.start = time.monotonic()
        self.output = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(["nice", "-n", "19", "tools/build.sh", preset, *targets], cwd=ROOT,
                                        stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
                                        start_new_session=True)

    def stop(self):
        """Ends the build, finished or not; it then does not count as a test."""
        if self.process.poll() is None:
            end_group(self.process)
        self.output.close()

    def wait(self, tally, deadline=None):
        """Waits for the build, prints its output, and returns whether it succeeded."""
        try:
            good = self.process.wait(None if deadline is None else max(0.0, deadline - time.monotonic())) == 0
        except subprocess.TimeoutExpired:
            self.stop()
            raise OutOfTime from None
        self.seconds = time.monotonic() - self.start
        print(f"build {self.preset}: {'ok' if good else 'FAILED'}, {self.seconds:.0f} s", flush=True)
        self.output.seek(0)
        print(self.output.read(), end="", flush=True)
        self.output.close()
        tally.add(f"build {self.preset}", failure=None if good else f"exit code {self.process.returncode}")
        return good


def one_line(text):
    return " ".join(text.replace(f"{ROOT}/", "").split())


def count_cases(tally, preset, path):
    """Counts the cases of one JUnit file; returns how many of them failed."""
    failures = 0
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = f"{preset}: {case.get('classname')}.{case.get('name')}"
        failure, skip = case.find("failure"), case.find("skipped")
        if failure is not None:
            failures += 1
            tally.add(name, failure=one_line(failure.get("message", ""))[:300])
        elif skip is not None or case.get("result") == "skipped":
            tally.add(name, skip=one_line(skip.get("message", "")) if skip is not None else "no reason given")
        elif case.get("status") == "notrun":
            tally.add(name, skip="disabled")
        else:
            tally.add(name)
    return failures


def last_words(output):
    """The sanitizer's summary, or else the last line, of a program that ended outside its cases."""
    lines = [line for line in output.splitlines() if line.strip()] or ["no output"]
    return one_line(next((line for line in reversed(lines) if line.startswith("SUMMARY:")), lines[-1]))[:300]


class Clock:
    """Times of the parts, and of the tests of a build."""

    def __init__(self):
        self.start = time.monotonic()
        self.parts = []
        self.tests = []

    def part(self, name, seconds):
        self.parts.append((name, seconds))

    def print(self):
        print("seconds, by part (a build runs beside the tests of the one before it)")
        for name, seconds in self.parts:
            print(f"{seconds:7.0f}  {name}")
        print(f"{time.monotonic() - self.start:7.0f}  all of it")
        print("seconds, by test: the slowest of each build")
        for preset in dict.fromkeys(preset for preset, _, _ in self.tests):
            slowest = sorted((t for t in self.tests if t[0] == preset), key=lambda t: -t[2])[:8]
            print(f"  {preset}: " + ", ".join(f"{name} {seconds:.0f}" for _, name, seconds in slowest))


def run_tests(tally, preset, selection=(), environment={}, clock=None, deadline=None):
    """Runs the tests that ctest finds by the words of `selection`."""
    clock = clock or Clock()
    build = ROOT / "build" / preset
    results = build / "results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    summary = build / "ctest.xml"
    summary.unlink(missing_ok=True)
    # Many tests of modules wait for a disk or for each other. Some of the others measure time, so only two of them run at once.
    jobs = "-j3" if preset in ("asan-ubsan", "tsan") or "^unit$" in selection else "-j2"
    words = ["ctest", "--test-dir", build, jobs, "--output-on-failure", "--no-tests=error", "--output-junit", summary]
    words += selection
    start = time.monotonic()
    environment = dict(os.environ, **environment, GTEST_OUTPUT=f"xml:{results}/", GTEST_COLOR="no")
    if preset in ("asan-ubsan", "tsan"):
        environment |= SANITIZER_ENVIRONMENT
    try:
        done = run_until(deadline, words, env=environment)
    except OutOfTime:
        # A test program writes its report at its end, so each report is complete.
        for cases in sorted(results.glob("*.xml")):
            count_cases(tally, preset, cases)
        raise
    print(f"test {preset}: {'ok' if done.returncode == 0 else 'FAILED'}, {time.monotonic() - start:.0f} s", flush=True)
    clock.part(f"test {preset}", time.monotonic() - start)
    if done.returncode != 0:
        print(done.stdout, end="", flush=True)
    if not summary.exists():
        tally.add(f"{preset}: ctest", failure=f"exit code {done.returncode}, no report")
        return
    for test in xml.etree.ElementTree.parse(summary).iter("testcase"):
        name, good = test.get("name"), test.get("status") == "run"
        clock.tests.append((preset, name, float(test.get("time"))))
        cases = results / f"{name}.xml"
        failures = count_cases(tally, preset, cases) if cases.exists() else 0
        if not good and failures == 0:
            # The program crashed, timed out, or a sanitizer reported: no case has this failure.
            tally.add(f"{preset}: {name}", failure=last_words(test.findtext("system-out", "")))
        elif not cases.exists():
            tally.add(f"{preset}: {name}")


def run_unprivileged(tally, clock, programs, deadline=None):
    """Runs test programs as the user nobody, two at a time, from copies: the working tree need not be readable to everybody."""
    if os.geteuid() != 0:
        tally.add("unprivileged", skip="all tests ran without privileges: this is not root")
        return
    start = time.monotonic()
    failures = 0
    # Root copies to its own folder: in a world-writable one, another user could plant a link.
    with tempfile.TemporaryDirectory(prefix="penstock-check-") as programs_folder, \
            tempfile.TemporaryDirectory(prefix="penstock-check-nobody-") as folder:
        os.chmod(programs_folder, 0o755)
        os.chown(folder, NOBODY, NOBODY)

        def run(program):
            if not program.exists():
                return program, program, None
            copy = pathlib.Path(shutil.copy(program, programs_folder))
            copy.chmod(0o755)
            results = pathlib.Path(folder) / f"{program.name}.xml"
            environment = dict(os.environ, **SHORTER, TMPDIR=folder, TEST_TMPDIR=folder, HOME=folder,
                               GTEST_OUTPUT=f"xml:{results}", GTEST_COLOR="no")
            done = run_until(deadline, [copy], cwd=folder, env=environment, user=NOBODY, group=NOBODY, extra_groups=[])
            return program, results, done

        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as two:
            for program, results, done in two.map(run, programs):
                if done is None:
                    failures += 1
                    tally.add(f"unprivileged: {program.name}", failure="was not built")
                    continue
                failed = count_cases(tally, "unprivileged", results) if results.exists() else 0
                if done.returncode != 0:
                    failures += 1
                    print(done.stdout, end="", flush=True)
                    if failed == 0:
                        tally.add(f"unprivileged: {program.name}",
                                  failure=f"exit code {done.returncode}: {last_words(done.stdout)}")
    print(f"test unprivileged: {'ok' if failures == 0 else 'FAILED'}, {time.monotonic() - start:.0f} s", flush=True)
    clock.part("test unprivileged", time.monotonic() - start)


def look_at_text(tally):
    command(tally, "include directions", "tools/check_includes.py")
    command(tally, "names", "tools/check_names.py")
    command(tally, "words", "tools/check_words.py")
    command(tally, "format", "tools/format.sh", "--check")
    if not (ROOT / "build/python/installed").exists():
        tally.add("python", skip="what builds the Python package could not be installed (tools/setup.sh check)")


def unprivileged_programs(preset):
    """The programs of the tests with the label nobody, from the build."""
    told = subprocess.run(["ctest", "--test-dir", ROOT / "build" / preset, "--show-only=json-v1", "-L", "^nobody$"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    # A test that was not built has no command: its bare name is reported as missing.
    return [pathlib.Path(test.get("command", [test["name"]])[0]) for test in json.loads(told)["tests"]]


class Part(typing.NamedTuple):
    """A build and its tests."""

    name: str
    preset: str
    targets: tuple | None = ()  # None: built by an earlier part
    selection: tuple | None = None  # ctest's options to select tests; None: no tests
    then: typing.Callable | None = None  # further tests: then(tally, clock, deadline)


def unprivileged(preset):
    return lambda tally, clock, deadline: run_unprivileged(tally, clock, unprivileged_programs(preset), deadline)


def test_package(tally, clock, deadline):
    """Tests the users' build of the program."""
    program = ROOT / "build/package/cli/penstock"
    for test in ("cli_test.py", "files_test.py"):
        command(tally, f"{test} of what users get", sys.executable, ROOT / "test" / test, program, quiet=True, deadline=deadline)


def under_sanitizer(name, preset):
    """Two parts, so that a slow machine may run one: the layers below the sorts, and the others."""
    return [Part(f"{name}, {which} layers", preset, (f"{name}_{which}_tests",), ("-L", f"^{name}-{which}$"))
            for which in ("lower", "other")]


def parts_by_word():
    """The parts of each word of the command line, in order. tools/layer.cmake describes the labels."""
    check = [Part("end to end", "check", ("end_to_end",), ("-LE", "^(full|ci|unit)$")),
             Part("modules", "check", ("unit_tests",), ("-L", "^unit$"))]
    sanitizers = under_sanitizer("sanitizers", "asan-ubsan")
    threads = under_sanitizer("threads", "tsan")
    further = [Part("label ci", "check", ("ci_tests",), ("-L", "^ci$")),
               Part("without rights", "check", None, None, unprivileged("check")),
               threads[0], sanitizers[0],
               Part("what users get", "package", ("all", "penstock_with_seams"), None, test_package),
               sanitizers[1], threads[1]]
    full = [Part("everything", "dev", (), (), unprivileged("dev")), Part("sanitizers", "asan-ubsan", (), ()),
            Part("threads", "tsan", ("threads_full_tests",), ("-L", "^threads-full$")),
            Part("without tracing and find", "slim", ("end_to_end", "unit_tests"), ("-LE", "^(full|ci)$")),
            Part("static analysis", "dev", None, None,
                 lambda tally, clock, deadline: command(tally, "static analysis", "tools/analyze.py"))]
    return {"": check, "sanitizers": sanitizers, "threads": threads, "ci": [*check, *further], "full": full}


def run_part(part, build, start_next, tally, clock, environment, deadline):
    """Waits for a part's build, begins the next one, and runs the part's tests."""
    if build is not None:
        if not build.wait(tally, deadline):
            start_next()
            return
        clock.part(f"build {part.preset}", build.seconds)
    start_next()
    if part.selection is not None:
        run_tests(tally, part.preset, part.selection, environment, clock, deadline)
    if part.then is not None:
        start = time.monotonic()
        part.then(tally, clock, deadline)
        clock.part(part.name, time.monotonic() - start)


def run_parts(parts, tally, clock, environment={}, part_begins_max_s=None, end_max_s=None, always=0):
    """Runs the parts in turn; returns the names of those that did not run to their end. The first `always` begin at any time."""
    deadline = None if end_max_s is None else clock.start + end_max_s
    left = []
    builds = {}

    def may_begin(i):
        return i < always or part_begins_max_s is None or time.monotonic() - clock.start < part_begins_max_s

    def start_build(i):
        if i < len(parts) and i not in builds and parts[i].targets is not None and may_begin(i):
            builds[i] = Build(parts[i].preset, parts[i].targets)

    try:
        for i, part in enumerate(parts):
            if not may_begin(i):
                left.append(part.name)
                continue
            start_build(i)
            try:
                run_part(part, builds.pop(i, None), lambda: start_build(i + 1), tally, clock, environment, deadline)
            except OutOfTime:
                print(f"{part.name}: not finished in time", flush=True)
                left.append(part.name)
    finally:
        for build in builds.values():
            build.stop()
    return left


def main():
    # Makes SIGTERM end the builds and tests, too: each leads its own session.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    asked_for = " ".join(sys.argv[1:])
    by_word = parts_by_word()
    if asked_for not in by_word:
        sys.exit(f"check: {asked_for}: one of {', '.join(filter(None, by_word))}, soak, or nothing")
    clock = Clock()
    tally = Tally()
    parts = by_word[asked_for]
    limits = {}
    if asked_for == "ci":
        limits = {"part_begins_max_s": PART_BEGINS_MAX_S, "end_max_s": END_MAX_S, "always": len(by_word[""])}
    if parts[0].preset in ("check", "dev"):
        look_at_text(tally)
    left = run_parts(parts, tally, clock, {} if asked_for == "full" else SHORTER, **limits)
    clock.print()
    ran = [part.name for part in parts if part.name not in left]
    print(f"parts that ran: {'; '.join(ran)}")
    if asked_for == "ci":
        print(f"parts left for ./check full: {'; '.join(left) or 'none'}")
    for name in left:
        if name in [part.name for part in by_word[""]]:
            tally.add(name, failure="not finished in time")
    tally.print()
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
