"""The text of report, convert, replay and compare fits a terminal of 80 columns, and no line ends with a blank.

trace_text_test.py PENSTOCK TRACES: TRACES makes synthetic traces (report_page_traces.cc).
"""

import os
import subprocess
import sys

import end_to_end
from end_to_end import run

COLUMNS = 80
TRACES = sys.argv.pop(2)

# Has a line of most notes: calls that failed, pipes, mappings, syncs, names that are not there, jumps.
PROGRAM = """
import mmap, os
f = os.open("a-file-with-a-name-that-takes-most-of-a-line-of-a-terminal-by-itself.bin", os.O_RDWR | os.O_CREAT)
for i in range(400):
    os.pwrite(f, bytes(513 + i), i * 7919 % 1000 * 777)
    if i % 8 == 0:
        os.fsync(f)
with mmap.mmap(f, 4096) as there:
    there[0]
for i in range(120):
    try:
        os.open(f"not/here-{i % 3}", os.O_RDONLY)
    except OSError:
        pass
r, w = os.pipe()
os.write(w, b"x")
os.read(r, 1)
"""

STRACE = """\
100 1700000000.000001 openat(AT_FDCWD</home/user/some/folder>, "/data/a/b/c/in.bin", O_RDONLY) = 3</data/a/b/c/in.bin> <0.000100>
100 1700000000.010001 io_uring_setup(8, {flags=IORING_SETUP_SQPOLL}) = 4 <0.000100>
100 openat(AT_FDCWD, "x", O_RDONLY) = 5
100 1700000000.020001 read(3</data/a/b/c/in.bin>, "x", 4096) = 4096 <0.000300>
100 1700000000.030001 read(9, "x", 4096) = 4096 <0.000300>
100 1700000000.040001 fsync(3</data/a/b/c/in.bin>) = 0 <0.100300>
"""


def misfits(text):
    """Returns the lines that are too wide, unless a path alone makes them so, or that end with a blank."""
    wide = [line for line in text.splitlines() if len(line) > COLUMNS
            and not any("/" in word and len(word) > COLUMNS // 2 for word in line.split())]
    return wide + [line for line in text.splitlines() if line != line.rstrip()]


class TraceText(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.traces = []
        for kind, requests in (("sort", 20_000), ("random", 50_000), ("many", 20_000), ("hostile", 500)):
            path = self.folder / f"{kind}.trace"
            subprocess.run([TRACES, kind, str(requests), path], check=True)
            self.traces.append(path)
        self.small = [self.write("theirs.strace", STRACE.encode())]
        whole = self.traces[1].read_bytes()
        self.traces.append(self.write("cut.trace", whole[:len(whole) * 2 // 3]))
        (self.folder / "program.py").write_text(PROGRAM)
        seen = subprocess.run([os.path.abspath(sys.argv[1]), "trace", "--backend", "ptrace", "-o", "own.trace", sys.executable,
                               "program.py"], cwd=self.folder, capture_output=True)
        if seen.returncode == 0:
            self.small.append(self.folder / "own.trace")
        self.traces += self.small

    def check(self, *words, code=(0, 1)):
        for locale in ("C", "C.UTF-8"):
            with self.subTest(words=words, locale=locale):
                done = run(*words, code=code, cwd=self.folder, env={**os.environ, "LC_ALL": locale})
                text = (done.stdout + done.stderr).decode()
                self.assertNotEqual(text, "")
                self.assertEqual(misfits(text), [])

    def test_lines_of_reports_and_conversions(self):
        for trace in self.traces:
            self.check("report", trace)
            self.check("convert", trace)
            self.check("convert", trace, "-o", "requests.csv")

    def test_lines_of_replays(self):
        for trace in self.traces:
            self.check("replay", trace, "--simulate", "hdd")
            self.check("replay", trace, "--simulate", "array24", "--join")
            self.check("replay", trace, "--simulate", "array24", "--pace", "original", "--no-sync")
        for trace in self.small:
            self.check("replay", trace, "--on", ".", "--no-fill")
            self.check("replay", trace, "--on", ".", "--emulate", "read=1e9,write=1e9,switch=0", "--ahead", "3")

    def test_lines_of_comparisons(self):
        (self.folder / "in.txt").write_text("".join(f"{self.random.random()} {'x' * 60}\n" for _ in range(20_000)))
        words = ["compare", "--input", "in.txt", "--memory", "160M", "--work", ".", "--simulate", "hdd",
                 "--run", "copy=cat {input} > {output}", "--run", "a-program-with-a-long-name=cat {input} {input} > {output}",
                 "--run", "broken=echo " + "it hurts in many words, " * 6 + "; exit 3"]
        if run(*words, code=(0, 1, 2), cwd=self.folder).returncode == 2:
            self.skipTest("ptrace is not allowed here")
        self.check(*words)
        self.check(*words, "--phases", "gnu-sort")


if __name__ == "__main__":
    end_to_end.main("trace_text_end_to_end")
