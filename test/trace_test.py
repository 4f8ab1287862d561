#!/usr/bin/env python3
"""penstock trace and penstock convert from end to end: a JVM program, a static Go program, GNU sort and fio.

trace_test.py PENSTOCK [TEST...]. Cases that need missing programs are skipped.
"""

import csv
import gzip
import json
import os
import pathlib
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import end_to_end

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())

JAVA = """
import java.nio.*; import java.nio.channels.*; import java.nio.file.*;
public class Known {
  public static void main(String[] a) throws Exception {
    try (FileChannel c = FileChannel.open(Path.of("data"), StandardOpenOption.CREATE,
        StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      ByteBuffer b = ByteBuffer.allocateDirect(8192);
      for (int i = 0; i < 10; ++i) { b.clear(); c.write(b, i * 16384L); }
      for (int i = 9; i >= 0; --i) { b.clear(); c.read(b, i * 16384L); }
    }
  }
}
"""
GO = """
package main
import "os"
func main() {
  f, _ := os.Create("data")
  b := make([]byte, 8192)
  for i := 0; i < 10; i++ { f.WriteAt(b, int64(i)*16384) }
  for i := 9; i >= 0; i-- { f.ReadAt(b, int64(i)*16384) }
  f.Close()
  os.Exit(9)
}
"""
PYTHON = """
import os, subprocess, threading
def work(i):
    with open(f"made{i}", "wb") as file:
        for k in range(50):
            file.write(b"x" * 1000)
            file.flush()
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
for i in range(3):
    subprocess.run(["sh", "-c", f"echo hello > made-sub{i}; cat made-sub{i}"], stdout=subprocess.DEVNULL)
os.closerange(3, 1000)
work(9)
if os.fork() == 0:
    os.execve("/bin/sh", ["sh", "-c", "echo last > made-last"], {})
os.wait()
"""
KNOWN = [("write", 16384 * i, 8192) for i in range(10)] + [("read", 16384 * i, 8192) for i in range(9, -1, -1)]


# Two requests by io_submit() and one that is refused, by numbers of system calls of x86-64.
AIO = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 6
fd = os.open("made", os.O_RDWR | os.O_CREAT)
os.truncate(fd, 100000)
context = ctypes.c_ulong(0)
assert libc.syscall(206, 8, ctypes.addressof(context), 0, 0, 0) == 0
memory = ctypes.create_string_buffer(8192)
def block(operation, bytes, offset):
    return ctypes.create_string_buffer(struct.pack("<QIiHhIQQqQII", 0, 0, 0, operation, 0, fd, ctypes.addressof(memory), bytes, offset, 0, 0, 0))
blocks = [block(0, 4096, 8192), block(1, 1000, 500), block(0, 10, 20)]
pointers = (ctypes.c_void_p * 3)(*map(ctypes.addressof, blocks))
assert libc.syscall(209, context.value, 2, ctypes.addressof(pointers), 0, 0) == 2
events = ctypes.create_string_buffer(64)
assert libc.syscall(208, context.value, 2, 2, ctypes.addressof(events), 0) == 2
"""
# Children made by clone() and clone3() with CLONE_UNTRACED.
UNTRACED = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 6
untraced, chld = 0x00800000, 17
arguments = ctypes.create_string_buffer(struct.pack("<11Q", untraced, 0, 0, 0, chld, *[0] * 6))
for made in ("made-clone", "made-clone3"):
    child = libc.syscall(56, untraced | chld, 0, 0, 0, 0) if made == "made-clone" else libc.syscall(435, ctypes.addressof(arguments), 88, 0, 0, 0)
    if child == 0:
        with open(made, "wb") as file:
            file.write(b"x" * 100)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
"""

# execve() and clone3() with bad addresses: EFAULT.
BAD_ADDRESSES = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 4
arguments = (ctypes.c_char_p * 2)(b"true", None)
path = ctypes.c_char_p(b"/bin/true")
bad_strings = (ctypes.c_long * 3)(8, 8, 0)
for bad in (8, ctypes.addressof(bad_strings)):
    answer = libc.syscall(59, ctypes.cast(path, ctypes.c_void_p).value, ctypes.addressof(arguments), bad)
    assert (answer, ctypes.get_errno()) == (-1, 14), (bad, answer, ctypes.get_errno())
answer = libc.syscall(435, 8, 88, 0)
assert (answer, ctypes.get_errno()) == (-1, 14), (answer, ctypes.get_errno())
"""


def run(*words, cwd, code=0):
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, not {code}\n{done.stderr}"
    return done


def requests_of(folder, *options):
    run(PROGRAM, "convert", "run.trace", "-o", "run.csv", "-q", *options, cwd=folder)
    with open(folder / "run.csv", newline="") as file:
        return list(csv.DictReader(file))


def usable(backend):
    probe = [PROGRAM, "trace", "-q", "--backend", backend, "-o", "/dev/null", "true"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def runs(process):
    """Whether the process runs; a zombie does not."""
    stat = pathlib.Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


def check_known(folder, command, code, backends=("ptrace", "bpf")):
    for backend in filter(usable, backends):
        run(PROGRAM, "trace", "-q", "--backend", backend, *command, cwd=folder, code=code)
        found = requests_of(folder, "--under", f"{folder}/data")
        assert [(r["access"], int(r["offset"]), int(r["bytes"])) for r in found] == KNOWN, (backend, found)


class TraceTest(unittest.TestCase):
    def setUp(self):
        probe = subprocess.run([PROGRAM, "trace", "-q", "-o", "/dev/null", "true"], capture_output=True, text=True)
        if probe.returncode != 0 and "ptrace" in probe.stderr:
            self.skipTest("ptrace is not allowed here")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def test_trace_that_waits_for_a_daemon_can_be_ended(self):
        """The program ends and leaves a process that would run forever."""
        script = "sh -c 'trap \"\" HUP; echo $$ > daemon; while :; do echo x >> made; sleep 0.01; done' > /dev/null 2>&1 & exit 7"
        for backend, ending in [("ptrace", signal.SIGINT), ("ptrace", signal.SIGTERM), ("bpf", signal.SIGINT)]:
            with self.subTest(backend=backend, ending=ending.name):
                if not usable(backend):
                    self.skipTest(f"no {backend} here")
                for name in ("daemon", "made"):
                    (self.folder / name).unlink(missing_ok=True)
                tracing = subprocess.Popen([PROGRAM, "trace", "--backend", backend, "sh", "-c", script], cwd=self.folder,
                                           stderr=subprocess.PIPE, text=True)
                daemon = 0
                try:
                    self.assertTrue(select.select([tracing.stderr], [], [], 60)[0], "it says nothing of what it waits for")
                    self.assertIn("Ctrl-C ends the trace", tracing.stderr.readline())
                    # A second line proves that the write of the first one has ended.
                    made = self.folder / "made"
                    while not made.exists() or made.stat().st_size < len("x\nx\n"):
                        time.sleep(0.005)
                    daemon = int((self.folder / "daemon").read_text())
                    tracing.send_signal(ending)
                    tracing.communicate(timeout=60)
                    self.assertEqual(tracing.returncode, 7)
                    self.assertEqual(runs(daemon), backend == "bpf")
                finally:
                    tracing.kill()
                    tracing.wait()
                    if daemon and runs(daemon):
                        os.kill(daemon, signal.SIGKILL)
                self.assertTrue(any(r["file"].endswith("/made") for r in requests_of(self.folder)))

    def test_trace_on_standard_output_is_alone_there(self):
        script = "echo hello; echo made > made"
        for backend in filter(usable, ("ptrace", "bpf")):
            words = [PROGRAM, "trace", "-q", "--backend", backend, "-o"]
            for output in ("-", "/dev/stdout", "run.trace"):
                with self.subTest(backend=backend, output=output):
                    with open(self.folder / "run.trace", "wb") as file:
                        done = subprocess.run([*words, output, "sh", "-c", script], cwd=self.folder, stdout=file, stderr=subprocess.PIPE)
                    self.assertEqual((done.returncode, done.stderr), (0, b"hello\n"))
                    self.assertTrue(any(r["file"].endswith("/made") for r in requests_of(self.folder)))
            # Through a pipe, like strace -o "|...".
            tracing = subprocess.Popen([*words, "-", "sh", "-c", script], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            done = subprocess.run([PROGRAM, "convert", "-"], stdin=tracing.stdout, capture_output=True, text=True)
            tracing.stdout.close()
            self.assertEqual((tracing.wait(), done.returncode), (0, 0), done.stderr)
            self.assertIn("/made", done.stdout)
            # A trace to another place leaves the program's output alone.
            done = subprocess.run([*words, "other.trace", "sh", "-c", script], cwd=self.folder, capture_output=True)
            self.assertEqual((done.stdout, done.stderr), (b"hello\n", b""))

    def test_conversion_gives_its_output_whole_or_not_at_all(self):
        run(PROGRAM, "trace", "-q", "sh", "-c", "echo made > made", cwd=self.folder)
        before = requests_of(self.folder)
        self.assertTrue(before)
        trace = self.folder / "run.trace"
        with open(trace, "rb") as file:  # the output is the input
            done = subprocess.run([PROGRAM, "convert", "-", "-q", "-o", "run.trace"], cwd=self.folder, stdin=file, capture_output=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(requests_of(self.folder), before)
        run(PROGRAM, "convert", "run.trace", "-q", "-o", "run.trace", cwd=self.folder, code=2)
        self.assertEqual(requests_of(self.folder), before)
        # A trace damaged in the middle: the existing output stays.
        damaged = bytearray(trace.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        (self.folder / "damaged.trace").write_bytes(damaged)
        for name in ("old.csv", "old.json", "old.iolog", "old.trace"):
            (self.folder / name).write_text("old")
            run(PROGRAM, "convert", "damaged.trace", "-o", name, cwd=self.folder, code=2)
            self.assertEqual((self.folder / name).read_text(), "old")
        # A trace that was cut off is read as far as possible.
        (self.folder / "cut.trace").write_bytes(trace.read_bytes()[:-10])
        for name in ("old.csv", "old.trace"):
            run(PROGRAM, "convert", "cut.trace", "-o", name, cwd=self.folder, code=1)
            self.assertNotEqual((self.folder / name).read_bytes(), b"old")
        self.assertEqual(sorted(path.name for path in self.folder.glob("*.trace")),
                         ["cut.trace", "damaged.trace", "old.trace", "run.trace"])

    def test_names_do_not_act_on_the_terminal(self):
        name = "\x1b[2Ja\rb"
        commands = [["cat", name], ["find", "x", name], ["check", name, "--format", "u64"], ["convert", name], ["report", name],
                    ["replay", name, "--simulate", "hdd"], ["sort", name, "-o", "out"], ["trace", "-o", "t", name], ["merge", name, "-o", "out"],
                    [name], ["cat", f"--{name}"]]
        for words in commands:
            done = subprocess.run([PROGRAM, *words], cwd=self.folder, capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertNotRegex(done.stdout + done.stderr, "[\x1b\r]", words)
            self.assertIn(r"\x1b[2Ja\x0db", done.stderr, words)
        (self.folder / name).write_bytes(bytes(8))
        done = run(PROGRAM, "check", name, "--format", "u64", cwd=self.folder)
        self.assertIn(r"\x1b[2Ja", done.stdout)
        done = run(PROGRAM, "trace", "-o", name, "sh", "-c", f"echo > 'in {name}'", cwd=self.folder)
        self.assertNotIn("\x1b", done.stderr)
        self.assertIn(r"in \x1b[2Ja", done.stderr)

    @unittest.skipUnless(platform.machine() == "x86_64", "numbers of system calls of x86-64")
    def test_requests_of_aio_are_seen(self):
        done = run(PROGRAM, "trace", "--backend", "ptrace", sys.executable, "-c", AIO, cwd=self.folder)
        self.assertIn("2 requests of io_uring or AIO whose result was not seen", done.stderr)
        self.assertEqual([(r["access"], int(r["offset"]), int(r["bytes"])) for r in requests_of(self.folder) if r["file"].endswith("/made")],
                         [("read", 8192, 4096), ("write", 500, 1000)])

    @unittest.skipUnless(platform.machine() == "x86_64", "numbers of system calls of x86-64")
    def test_child_that_asks_for_no_tracer_works_and_is_seen(self):
        run(PROGRAM, "trace", "-q", "--backend", "ptrace", sys.executable, "-c", UNTRACED, cwd=self.folder)
        made = {pathlib.Path(r["file"]).name for r in requests_of(self.folder) if r["access"] == "write"}
        self.assertLessEqual({"made-clone", "made-clone3"}, made)

    def test_program_that_cannot_be_run_ends_as_with_env(self):
        (self.folder / "text").write_text("no program")
        for words, code in ((["./not-there"], 127), (["./text"], 126)):
            self.assertEqual(subprocess.run(["env", *words], cwd=self.folder, stderr=subprocess.DEVNULL).returncode, code)
            run(PROGRAM, "trace", "--backend", "ptrace", *words, cwd=self.folder, code=code)
        done = subprocess.Popen(["true"])
        done.wait()
        self.assertNotIn("attached", run(PROGRAM, "trace", "--backend", "ptrace", "-p", done.pid, cwd=self.folder, code=2).stderr)

    def test_compressed_traces_and_logs_are_read(self):
        run(PROGRAM, "trace", "-q", "sh", "-c", "echo made > made", cwd=self.folder)
        (self.folder / "log").write_text('1700000000.0 openat(AT_FDCWD, "/data", O_RDONLY) = 3\n1700000000.1 read(3, "x"..., 100) = 100\n')
        for name in ("run.trace", "log"):
            plain = self.folder / name
            (self.folder / f"{name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
            for command in (["convert"], ["replay", "--simulate", "hdd"]):
                self.assertEqual(run(PROGRAM, *command, f"{name}.gz", cwd=self.folder).stdout.replace(".gz", ""),
                                 run(PROGRAM, *command, name, cwd=self.folder).stdout)
            self.assertIn("requests", run(PROGRAM, "report", f"{name}.gz", cwd=self.folder).stdout)

    def test_report_without_a_request_says_under_what(self):
        run(PROGRAM, "trace", "-q", "sh", "-c", "echo made > made", cwd=self.folder)
        self.assertIn("--under mad: cannot find a request of files in run.trace whose path begins so",
                      run(PROGRAM, "report", "run.trace", "--under", "mad", cwd=self.folder, code=2).stderr)
        for relative in ("made", "./made", "."):  # names of a file and folders that exist
            self.assertIn("5 B", run(PROGRAM, "report", "run.trace", "--under", relative, cwd=self.folder).stdout)
            self.assertIn("1 write (5 B)", run(PROGRAM, "convert", "run.trace", "--under", relative, cwd=self.folder).stdout)
            self.assertIn("5 B", run(PROGRAM, "replay", "run.trace", "--under", relative, "--simulate", "hdd", cwd=self.folder).stdout)

    def test_seeks_are_the_same_in_summary_report_and_replay(self):
        script = ("import os\n"
                  "a, b = (os.open(n, os.O_RDWR | os.O_CREAT) for n in ('seek-a', 'seek-b'))\n"
                  "for i in range(40): os.write(a, bytes(512)); os.write(b, bytes(512)) if i % 4 == 0 else 0\n")
        run(PROGRAM, "trace", "-q", sys.executable, "-c", script, cwd=self.folder)
        under = ["--under", f"{self.folder}/"]
        summary = run(PROGRAM, "convert", "run.trace", *under, cwd=self.folder).stdout
        self.assertIn(" 21 seeks on one disk", summary)  # one to its beginning, and ten times there and back
        files = {line.split()[-1]: int(line.split()[-2]) for line in summary.splitlines() if "/seek-" in line}
        self.assertEqual(files, {f"{self.folder}/seek-a": 11, f"{self.folder}/seek-b": 10})
        report = run(PROGRAM, "report", "run.trace", *under, cwd=self.folder).stdout
        self.assertRegex(report, r"seeks +21\n")
        replay = run(PROGRAM, "replay", "run.trace", "--simulate", "hdd", *under, cwd=self.folder).stdout
        self.assertRegex(replay, r"\(21 in the trace\)")

    def test_logs_that_lack_something_say_what(self):
        lines = ['openat(AT_FDCWD, "data", O_RDONLY) = 3', 'read(3, "x"..., 100) = 100', "exit_group(0) = ?", "+++ exited with 0 +++"]
        (self.folder / "plain.strace").write_text("\n".join(lines) + "\n")
        timed = [f"{1700000000 + i}.000100 {line}" for i, line in enumerate(lines)]
        (self.folder / "timed.strace").write_text("\n".join(timed) + "\n")
        (self.folder / "no.trace").write_text("not a trace\n")
        for command in ("convert", "report"):
            self.assertIn("strace -f -ttt -T -yy -o", run(PROGRAM, command, "plain.strace", cwd=self.folder).stdout)
            self.assertNotIn("-ttt", run(PROGRAM, command, "timed.strace", cwd=self.folder).stdout)
        for command in (["convert"], ["report"], ["replay", "--simulate", "hdd"]):
            told = run(PROGRAM, *command, "no.trace", cwd=self.folder, code=2).stderr
            self.assertIn("penstock convert --from KIND", told)

    def test_java(self):
        folder = self.folder
        if not shutil.which("javac"):
            self.skipTest("no javac")
        (folder / "Known.java").write_text(JAVA)
        run("javac", "Known.java", cwd=folder)
        check_known(folder, ["java", "Known"], 0)

    def test_static_go(self):
        folder = self.folder
        go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
        if not go:
            self.skipTest("no go")
        (folder / "known.go").write_text(GO)
        run("env", "CGO_ENABLED=0", f"HOME={folder}", go, "build", "-o", "known", "known.go", cwd=folder)
        check_known(folder, ["./known"], 9)

    def test_bad_addresses_stay_the_kernels(self):
        folder = self.folder
        if platform.machine() != "x86_64":
            self.skipTest("the numbers of the calls are those of x86-64")
        (folder / "bad.py").write_text(BAD_ADDRESSES)
        for backend in filter(usable, ("ptrace", "bpf")):
            run(PROGRAM, "trace", "-q", "--backend", backend, sys.executable, "-S", "bad.py", cwd=folder)

    def test_bpf_sees_of_other_peoples_programs_what_ptrace_sees(self):
        if not usable("bpf"):
            self.skipTest("bpf cannot be used here")
        folder = self.folder
        (folder / "lines").write_text("".join(f"{(i * 7919) % 100003:06d} {'x' * 30}\n" for i in range(40000)))
        (folder / "hello.c").write_text("int main(void) { return 0; }\n")
        (folder / "work.py").write_text(PYTHON)
        commands = {
            "sort": ["env", "LC_ALL=C", "sort", "--parallel=2", "-S", "500K", "-T", ".", "-o", "made", "lines"],
            "bash": ["bash", "-c", "for i in 1 2 3 4; do (echo $i >> made; cat lines | head -$i >> made); done"],
            "gcc": ["gcc", "-pipe", "-o", "made", "hello.c"],
            "python3": [sys.executable, "-S", "work.py"],
        }
        for name, command in commands.items():
            if not shutil.which(command[0]) or not shutil.which(name):
                continue
            seen = {}
            for backend in ("ptrace", "bpf"):
                for left in folder.glob("made*"):
                    left.unlink()
                run(PROGRAM, "trace", "-q", "--backend", backend, *command, cwd=folder)
                requests = requests_of(folder, "--under", f"{folder}/")
                # (Temporary files have random names; processes run in parallel.)
                seen[backend] = sorted((r["access"], int(r["offset"]), int(r["bytes"])) for r in requests)
            assert seen["ptrace"] and seen["bpf"] == seen["ptrace"], (name, len(seen["ptrace"]), len(seen["bpf"]))

    def test_fio_replays_what_sort_did(self):
        folder = self.folder
        if not shutil.which("fio"):
            self.skipTest("no fio")
        lines = [f"{(i * 7919) % 100003:06d} {'x' * 90}\n" for i in range(20000)]
        (folder / "in.txt").write_text("".join(lines))
        run(PROGRAM, "trace", "-q", "env", "LC_ALL=C", "sort", "-S", "1M", "-T", ".", "-o", "out.txt", "in.txt", cwd=folder)
        assert (folder / "out.txt").read_text().splitlines() == sorted(l[:-1] for l in lines)
        ours = {"read": 0, "write": 0}
        for request in requests_of(folder, "--under", f"{folder}/"):
            ours[request["access"]] += int(request["bytes"])
        assert ours["read"] >= 2 * len("".join(lines)), ours
        run(PROGRAM, "convert", "run.trace", "-o", "run.iolog", "-q", "--under", f"{folder}/",
            "--files", "replay", cwd=folder)
        done = run("fio", "--name=replay", "--read_iolog=../run.iolog", "--ioengine=psync",
                   "--replay_no_stall=1", "--output-format=json", cwd=folder / "replay")
        job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
        assert job["read"]["io_bytes"] == ours["read"], (job["read"], ours)
        assert job["write"]["io_bytes"] == ours["write"], (job["write"], ours)
        run(PROGRAM, "convert", "run.trace", "-o", "run.json", "-q", cwd=folder)
        assert json.loads((folder / "run.json").read_text())["traceEvents"]

    def test_syncs_that_take_the_time_are_said_first(self):
        folder = self.folder
        program = ("import os\nf = os.open('slow.log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
                   "for i in range(100):\n    os.write(f, b'x' * 51)\n    os.fsync(f)\n"
                   "os.fsync(os.open('.', os.O_RDONLY))\nimport mmap\nm = mmap.mmap(-1, 4096)\nm.flush()\n")
        for backend in filter(usable, ("bpf", "ptrace")):
            done = run(PROGRAM, "trace", "--backend", backend, "-o", "x.trace", sys.executable, "-c", program, cwd=folder)
            # The last two are of a folder and of a mapping.
            assert re.search(r"sync +102 +[\d.]+", done.stderr), (backend, done.stderr)
        text = run(PROGRAM, "report", "x.trace", "--under", "slow.log", cwd=folder).stdout
        assert re.search(r"write +100 ", text) and re.search(r"sync +100 ", text), text
        assert "slow.log" in text, text
        page = run(PROGRAM, "report", "x.trace", "-o", "-", cwd=folder).stdout
        self.assertLess(page.index("What to do"), page.index("Where the time went"))
        self.assertLess(page.index("Where the time went"), page.index("Where requests went"))

    def test_names_that_were_not_found_are_said(self):
        program = ("import os\nos.chdir('/usr')\nfor i in range(300):\n    for name in ('/nonesuch/a', 'nonesuch/b'):\n"
                   "        try: os.open(name, os.O_RDONLY)\n        except OSError: pass\n    os.access('/nonesuch/c', os.R_OK)\n")
        for backend in filter(usable, ("ptrace", "bpf")):
            done = run(PROGRAM, "trace", "--backend", backend, "-o", "x.trace", sys.executable, "-c", program, cwd=self.folder)
            names = "Not found: /nonesuch/a (300), /usr/nonesuch/b (300), /nonesuch/c (300)"
            assert names in " ".join(done.stderr.split()), (backend, done.stderr)

    def test_options_behind_the_program_are_its_own(self):
        folder = self.folder
        done = run(PROGRAM, "trace", "echo", "-o", "x.trace", cwd=folder)
        assert "try: penstock trace -o x.trace -- echo ..." in done.stderr, done.stderr
        assert (folder / "run.trace").exists() and not (folder / "x.trace").exists()
        done = run(PROGRAM, "trace", "-o", "y.trace", "echo", "-o", "x.trace", cwd=folder)
        assert "try" not in done.stderr, done.stderr

    def test_a_process_that_is_not_there_is_refused_before_anything_is_said(self):
        for backend in ("auto", "ptrace"):
            done = run(PROGRAM, "trace", "--backend", backend, "-p", "999999999", cwd=self.folder, code=2)
            assert "cannot find this process" in done.stderr and "attached" not in done.stderr, done.stderr

    def test_backends(self):
        folder = self.folder
        done = run(PROGRAM, "trace", "-v", "-o", "x.trace", "true", cwd=folder)
        best = "bpf" if usable("bpf") else "ptrace"
        assert f"by {best}" in done.stderr, done.stderr
        # The reason why auto did not use bpf is printed with -v.
        assert ("(bpf: cannot" in done.stderr) == (best == "ptrace"), done.stderr
        done = run(PROGRAM, "trace", "--backend", "ptrace", "-o", "x.trace", "true", cwd=folder)
        assert "by ptrace" in done.stderr and "bpf" not in done.stderr, done.stderr
        assert "auto, ptrace" in run(PROGRAM, "trace", "--backend", "kprobes", "true", cwd=folder, code=2).stderr
        if not usable("bpf"):
            self.skipTest("bpf cannot be used here")
        # A too small ring is reported; a larger one helps.
        (folder / "data").write_bytes(bytes(4 << 20))
        dd = ["dd", "if=data", "of=/dev/null", "bs=512"]
        done = run(PROGRAM, "trace", "--backend", "bpf", "--ring", "4K", *dd, cwd=folder)
        assert "events lost" in done.stderr, done.stderr
        done = run(PROGRAM, "trace", "--backend", "bpf", "--ring", "64M", *dd, cwd=folder)
        assert "events lost" not in done.stderr, done.stderr
        assert "size" in run(PROGRAM, "trace", "--ring", "x", "true", cwd=folder, code=2).stderr

    def test_a_word_that_is_misspelt_does_not_cost_a_trace(self):
        folder = self.folder
        run(PROGRAM, "trace", "-q", "true", cwd=folder)
        before = (folder / "run.trace").read_bytes()
        run(PROGRAM, "trace", "-q", "nonesuch", cwd=folder, code=127)
        assert (folder / "run.trace").read_bytes() == before
        assert [p.name for p in folder.iterdir()] == ["run.trace"]

    def test_a_trace_without_a_name_leaves_the_one_before(self):
        folder = self.folder
        for word in ("one", "two", "three"):
            done = run(PROGRAM, "trace", "echo", word, cwd=folder)
            assert ("run.trace.old" in done.stderr) == (word != "one"), done.stderr
        commands = {p.name: word for p in folder.iterdir() for word in ("one", "two", "three") if f"echo {word}".encode() in p.read_bytes()}
        assert commands == {"run.trace": "three", "run.trace.old": "two"}, commands
        run(PROGRAM, "trace", "-q", "-o", "run.trace", "echo", "four", cwd=folder)  # named: replaced
        assert b"echo two" in (folder / "run.trace.old").read_bytes()

    def test_where_a_trace_goes(self):
        folder = self.folder
        os.mkfifo(folder / "pipe")
        with subprocess.Popen(["cat", "pipe"], cwd=folder, stdout=subprocess.PIPE) as reader:
            done = subprocess.run([PROGRAM, "trace", "-o", "pipe", "true"], cwd=folder, capture_output=True,
                                  timeout=60)
            assert done.returncode == 0 and reader.stdout.read().startswith(b"PENTRACE"), done.stderr
        assert run(PROGRAM, "trace", "-o", "/dev/null", "true", cwd=folder).stderr == ""
        # "-" is standard output, even if a file has that name.
        (folder / "-").write_text("mine")
        done = subprocess.run([PROGRAM, "trace", "-o", "-", "true"], cwd=folder, capture_output=True)
        assert done.returncode == 0 and done.stdout.startswith(b"PENTRACE"), done.stderr
        assert sorted(p.name for p in folder.iterdir()) == ["-", "pipe"]
        assert (folder / "-").read_text() == "mine"

    def test_command_line(self):
        folder = self.folder
        assert "-o run.trace -- PROGRAM" in run(PROGRAM, "trace", cwd=folder, code=2).stderr
        assert "nonesuch" in run(PROGRAM, "trace", "nonesuch", cwd=folder, code=127).stderr
        done = run(PROGRAM, "trace", "-o", "x.trace", "sh", "-c", "exec 3<x.trace; exit 4", cwd=folder, code=4)
        assert "requests" in done.stderr
        run(PROGRAM, "trace", "-q", "--", "sh", "-c", "kill -9 $$", cwd=folder, code=137)
        run(PROGRAM, "convert", "/dev/null", cwd=folder, code=2)
        run(PROGRAM, "convert", "x.trace", "-o", "x.unknown", cwd=folder, code=2)
        whole = (folder / "x.trace").read_bytes()
        (folder / "cut.trace").write_bytes(whole[:-10])
        assert "cut off" in run(PROGRAM, "convert", "cut.trace", cwd=folder, code=1).stdout
        (folder / "bad.trace").write_bytes(whole[:200] + b"xxxx" + whole[204:])
        assert "damaged" in run(PROGRAM, "convert", "bad.trace", cwd=folder, code=2).stderr
        # The program's output streams are not mixed with ours.
        done = run(PROGRAM, "trace", "-q", "-o", "y.trace", "sh", "-c", "echo told >&2", cwd=folder)
        assert done.stderr == "told\n"


if __name__ == "__main__":
    end_to_end.main("trace_end_to_end")
