#!/usr/bin/env python3
"""Runs the program while the system refuses a call: denied_calls_test.py PROGRAM DENIED_CALLS.so

Sandboxes, containers and old kernels refuse calls. strace lists the calls of each run; each is refused by itself, with ENOSYS, EPERM and
EINVAL, and so is each variant of calls that are several (madvise, fcntl, mmap, ...). A run then either ends with 0 and the right output, or
with an error and no output file, or with an error and a complete one that the system refused to sync. It never ends by a signal, always
ends, and its inputs stay.
"""

import concurrent.futures
import errno
import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import unittest

import end_to_end

PROGRAM, DENIED_CALLS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
del sys.argv[2]

# Calls that are never refused: a process cannot start or end without the first; glibc aborts without the second; faults need signals.
NEEDED = {"execve", "exit", "exit_group", "restart_syscall"} | {"brk", "futex", "rseq"} | {"rt_sigaction", "rt_sigreturn"}
# Calls with variants: the argument that selects the variant.
SEVERAL = {"fallocate": 1, "fcntl": 1, "ioctl": 1, "io_uring_register": 1, "madvise": 2, "mmap": 3, "mprotect": 2, "mremap": 3, "openat": 2,
           "prctl": 0}
NUMBERS = {"x86_64": {"fstatfs": 138, "linkat": 265, "madvise": 28, "memfd_create": 319, "mremap": 25, "statfs": 137},
           "aarch64": {"fstatfs": 44, "linkat": 37, "madvise": 233, "memfd_create": 279, "mremap": 216, "statfs": 43}}
ERRORS = (errno.ENOSYS, errno.EPERM, errno.EINVAL)
SECONDS = 120  # a run takes milliseconds
TESTED = 300   # number of refusals of each run, drawn by the seed
SLOW = 8       # a slower run has so many times fewer refusals

# The words of each run; the output is "out" in them, or standard output.
RUNS = {
    "sort": ["sort", "lines", "-o", "out"],
    "sort with temporaries": ["sort", "--format", "u64", "-S", "32M", "numbers", "-o", "out"],
    "sort of a compressed file": ["sort", "lines.gz", "-o", "out"],
    "group": ["group", "--key", "1", "--count", "lines", "-o", "out"],
    "merge": ["merge", "sorted", "more", "-o", "out"],
    "join": ["join", "sorted", "more"],
    "cat": ["cat", "lines.gz"],
    "find": ["find", "77", "lines"],
    "plan": ["plan", "-S", "32M", "--format", "u64", "numbers"],
}
if not end_to_end.built("find"):
    del RUNS["find"]


class DeniedCalls(end_to_end.Case):
    def setUp(self):
        super().setUp()
        if subprocess.run([PROGRAM, "--version"], env=self.environment("999999 38"), stdout=subprocess.DEVNULL).returncode == 77:
            self.skipTest("this system has no seccomp filters")
        numbers = [self.random.randrange(100000) for _ in range(4000)]
        lines = "".join(f"{number} {number % 7}\n" for number in numbers).encode()
        inputs = self.folder / "inputs"
        inputs.mkdir()
        (inputs / "lines").write_bytes(lines)
        (inputs / "lines.gz").write_bytes(gzip.compress(lines, 1))
        for name, share in (("sorted", numbers[:2000]), ("more", numbers[2000:])):
            (inputs / name).write_text("".join(sorted(f"{number} {name}\n" for number in set(share))))
        # More numbers than fit in memory, so that the run needs temporaries.
        (inputs / "numbers").write_bytes(self.random.randbytes(40 << 20))
        self.inputs = inputs

    def environment(self, denied):
        return os.environ | {"LC_ALL": "C", "LD_PRELOAD": DENIED_CALLS, "DENIED_CALL": denied}

    def new_folder(self, name):
        folder = self.folder / name
        folder.mkdir()
        for file in self.inputs.iterdir():
            os.link(file, folder / file.name)
        return folder

    def calls_of(self, words):
        """The calls that strace sees after the constructor: {(name, number, None or (argument, value))}."""
        folder, log = self.new_folder("traced"), self.folder / "calls"
        subprocess.run(["strace", "-f", "-n", "-e", "raw=" + ",".join(SEVERAL), "-E", f"LD_PRELOAD={DENIED_CALLS}", "-E",
                        "DENIED_CALL=999999 38", "-o", log, PROGRAM, *words], cwd=folder, check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, timeout=SECONDS)
        shutil.rmtree(folder)
        text = log.read_text(errors="replace")
        text = text[text.index("PR_SET_SECCOMP") if "PR_SET_SECCOMP" in text else text.index("prctl(0x16"):].partition("\n")[2]
        calls = set()
        for number, name, arguments in re.findall(r"^\d+ +\[ *(\d+)\] (\w+)\((.*)", text, re.MULTILINE):
            if name in NEEDED:
                continue
            calls.add((name, int(number), None))
            if name in SEVERAL:
                values = re.findall(r"(0x[0-9a-f]+|0)[,) ]", arguments)
                argument = SEVERAL[name]
                if argument < len(values):
                    calls.add((name, int(number), (argument, int(values[argument], 16) & 0xffffffff)))
        return sorted(calls, key=str)

    def result(self, folder, words, denied):
        """Returns the exit code, or the reason why there is none, and the output."""
        try:
            done = subprocess.run([PROGRAM, *words], cwd=folder, env=self.environment(denied), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return "no end", None, b""
        out = folder / "out"
        output = (out.read_bytes() if out.exists() else None) if "out" in words else done.stdout
        return done.returncode, output, done.stderr

    def fault_of(self, name, words, expected, call, error, number):
        folder = self.new_folder(f"{name} {number}")
        denied = f"{call[1]} {error}" + (f" {call[2][0]} {call[2][1]}" if call[2] else "")
        code, output, told = self.result(folder, words, denied)
        fault = None
        if code == "no end" or code < 0 or code > 125:
            fault = f"ended with {code}"
        elif code == 0 and output != expected and not (name == "plan" and output):
            fault = "ended with 0 and a wrong output"
        elif code != 0 and "out" in words and output not in (None, expected):
            fault = f"ended with {code} and left a part of the output"
        elif code == 0 and len(os.listdir(folder)) != len(os.listdir(self.inputs)) + ("out" in words) and "unlink" not in call[0]:
            fault = f"left {sorted(os.listdir(folder))}"
        shutil.rmtree(folder)
        return fault and f"{name}: {call[0]}{call[2] or ''} answers {errno.errorcode[error]} (DENIED_CALL='{denied}'): {fault}\n  " \
            + told.decode(errors="replace").strip()[-300:]

    def test_what_sandboxes_lack_changes_no_result(self):
        number = NUMBERS[platform.machine()]
        # gVisor has no madvise(MADV_WIPEONFORK), and no mremap() with MREMAP_DONTUNMAP.
        gvisor = [(number["madvise"], errno.EINVAL, 2, 18), (number["mremap"], errno.EINVAL, 3, 7)]
        refused = {"gVisor": gvisor, "links": [(number["linkat"], errno.EPERM)],
                   "free space": [(number[name], errno.ENOSYS) for name in ("statfs", "fstatfs")],
                   "mremap": [(number["mremap"], errno.ENOSYS, 3, 7), (number["mremap"], errno.ENOSYS, 3, 3)]}
        for name, calls in refused.items():
            denied = ";".join(" ".join(map(str, call)) for call in calls)
            for run, words in RUNS.items():
                with self.subTest(lacking=name, run=run):
                    results = []
                    for setting in ("999999 38", denied):
                        folder = self.new_folder("run")
                        results.append(self.result(folder, words, setting)[:2])
                        shutil.rmtree(folder)
                    self.assertEqual(results[1][0], 0)
                    if run != "plan":
                        self.assertEqual(results[0], results[1])
        told = {}
        for lacking, calls in (("gVisor", gvisor), ("all", [*gvisor, (number["memfd_create"], errno.ENOSYS)])):
            denied = ";".join(" ".join(map(str, call)) for call in calls)
            told[lacking] = subprocess.run([PROGRAM, "doctor"], env=self.environment(denied), capture_output=True, text=True)
        self.assertEqual(told["gVisor"].returncode, 0)
        self.assertRegex(told["gVisor"].stdout, "large blocks of a sort +shared: mremap does not work here")
        # (If userfaultfd is available, it is a further mechanism.)
        if "uffd_move: works" not in re.sub(" +", ": ", told["all"].stdout):
            self.assertEqual(told["all"].returncode, 1)
            self.assertIn("Penstock does not work here", told["all"].stdout)
            self.assertRegex(told["all"].stdout, "large blocks of a sort +none")

    def test_each_run_is_right_or_an_error(self):
        if shutil.which("strace") is None:
            self.skipTest("no strace, which lists the calls")
        before = {file.name: file.read_bytes() for file in self.inputs.iterdir()}
        faults, tried = [], 0
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)) + 1) as pool:
            for name, words in RUNS.items():
                folder = self.new_folder("right")
                code, expected, told = self.result(folder, words, "999999 38")
                self.assertEqual(code, 0, told)
                shutil.rmtree(folder)
                cases = [(call, error) for call in self.calls_of(words) for error in ERRORS]
                self.assertGreater(len(cases), 50, f"{name}: strace lists hardly a call")
                tested = end_to_end.trials(TESTED // (SLOW if "numbers" in words else 1))
                cases = self.random.sample(cases, min(len(cases), tested))
                tried += len(cases)
                faults += filter(None, pool.map(lambda case, name=name, words=words, expected=expected: self.fault_of(
                    name, words, expected, case[1][0], case[1][1], case[0]), enumerate(cases)))
        print(f"{tried} refused calls, seed {end_to_end.SEED}")
        self.assertEqual({file.name: file.read_bytes() for file in self.inputs.iterdir()}, before)
        self.assertFalse(faults, f"{len(faults)} of {tried}, seed {end_to_end.SEED}:\n" + "\n".join(faults))


if __name__ == "__main__":
    end_to_end.main("denied_calls")
