#!/usr/bin/env python3
"""penstock convert reads logs of strace and fio, and writes CSV that other people's libraries read.

trace_formats_test.py PENSTOCK ENVIRONMENT [TEST...]: ENVIRONMENT is a virtual environment with pyarrow (build/python).
Cases that need missing programs are skipped. """

import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import end_to_end

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
PYTHON = pathlib.Path(sys.argv.pop(2)).resolve() / "bin" / "python3"

# Several processes, appends, a descriptor that is inherited, names that change.
SCRIPT = """
head -c 300000 {0}/in >{0}/a
tail -c +100001 {0}/in >>{0}/a
(dd bs=4096 count=3; dd bs=1000 count=2) <{0}/in >{0}/b 2>/dev/null
mv {0}/b {0}/c
dd if=/dev/zero of={0}/c bs=512 seek=7 count=2 conv=notrunc 2>/dev/null
rm {0}/a
cat {0}/c >{0}/a
LC_ALL=C sort --parallel=1 -S 200K -T {0} -o {0}/sorted {0}/in
"""

# Compares the Parquet file that the manual's command makes of the CSV with Python's reading of that CSV.
COMPARE = """
import csv, pyarrow.csv, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.csv.read_csv("run.csv"), "run.parquet")
rows = list(csv.DictReader(open("run.csv", newline="")))
table = pyarrow.parquet.read_table("run.parquet")
assert [{name: str(value) for name, value in row.items()} for row in table.to_pylist()] == rows
print(table.num_rows)
"""


def run(*words, cwd, code=0, **options):
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, **options)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, not {code}\n{done.stderr}"
    return done


class TraceFormatsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def requests_of(self, trace, under=None):
        """The requests without process and time; temporary files only by their folder."""
        under = f"{self.folder}/" if under is None else under
        run(PROGRAM, "convert", trace, "-o", "x.csv", "-q", "--under", under, cwd=self.folder)
        with open(self.folder / "x.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        names = ("in", "a", "b", "c", "sorted")
        name = lambda path: path if pathlib.Path(path).name in names else "temporary"
        return [(r["access"], name(r["file"]), int(r["offset"]), int(r["bytes"])) for r in rows]

    def strace(self, *options):
        if not shutil.which("strace"):
            self.skipTest("no strace")
        probe = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True)
        if probe.returncode != 0:
            self.skipTest("ptrace is not allowed here")
        (self.folder / "in").write_bytes(b"".join(b"%06d %s\n" % (i * 7919 % 10007, b"x" * 40) for i in range(10007)))
        run("strace", "-f", "-o", "log", *options, "sh", "-c", SCRIPT.format(self.folder), cwd=self.folder)

    def test_strace_tells_what_our_own_trace_tells(self):
        self.strace("-ttt", "-T", "-yy")
        found = self.requests_of("log")
        run(PROGRAM, "trace", "-q", "-o", "ours", "--backend", "ptrace", "sh", "-c", SCRIPT.format(self.folder),
            cwd=self.folder)
        assert found == self.requests_of("ours"), "a log of strace -yy"
        assert len(found) > 100
        for options in ([], ["-ttt"], ["-tt", "-y"], ["-r", "-T"]):
            self.strace(*options)
            assert found == self.requests_of("log"), options

    def test_log_is_a_trace_for_all(self):
        self.strace("-ttt", "-T", "-yy")
        folder = self.folder
        found = self.requests_of("log")
        run(PROGRAM, "convert", "log", "-q", "-o", "log.trace", cwd=folder)
        assert self.requests_of("log.trace") == found
        with open(folder / "log", "rb") as log:
            run(PROGRAM, "convert", "-", "-q", "-o", "piped.trace", cwd=folder, stdin=log)
        assert (folder / "piped.trace").read_bytes() == (folder / "log.trace").read_bytes()
        assert "requests" in run(PROGRAM, "report", "log", cwd=folder).stdout
        run(PROGRAM, "report", "log", "log.trace", "-o", "page.html", cwd=folder)
        assert "sh -c" in (folder / "page.html").read_text()
        assert "--under" in run(PROGRAM, "convert", "log", "-o", "x.trace", "--under", "/", cwd=folder, code=2).stderr
        assert "line 1 " in run(PROGRAM, "convert", "log", "--from", "iolog", cwd=folder, code=2).stderr
        assert "strace" in run(PROGRAM, "convert", "log", "--from", "x", cwd=folder, code=2).stderr
        # A page or a conversion never replaces a trace.
        before = (folder / "log").read_bytes()
        assert "over" in run(PROGRAM, "report", "log", "-o", "log", cwd=folder, code=2).stderr
        assert (folder / "log").read_bytes() == before
        shutil.copy(folder / "log", folder / "itself")
        run(PROGRAM, "convert", "log", "--format", "csv", "-q", "-o", "log.csv", cwd=folder)
        assert "over" in run(PROGRAM, "convert", "itself", "--format", "csv", "-q", "-o", "./itself", cwd=folder, code=2).stderr
        assert (folder / "itself").read_bytes() == before
        # No option is ignored.
        assert "--format" in run(PROGRAM, "convert", "log", "--format", "csv", cwd=folder, code=2).stderr
        text = (folder / "log").read_text()
        (folder / "cut").write_text(text[:len(text) // 2].rstrip("\n"))
        assert "cut off within line" in " ".join(run(PROGRAM, "convert", "cut", cwd=folder, code=1).stdout.split())
        run(PROGRAM, "convert", "cut", "-q", "-o", "cut.trace", cwd=folder, code=1)
        assert "cut off" in " ".join(run(PROGRAM, "convert", "cut.trace", cwd=folder, code=1).stdout.split())

    def test_a_signal_ends_what_waits_for_a_pipe(self):
        """Waits for a writer to open the pipe, for data, and for a reader."""
        folder = self.folder
        os.mkfifo(folder / "pipe")
        self.strace("-ttt", "-T", "-yy")
        long = folder / "long"
        long.write_bytes((folder / "log").read_bytes() * (1 + (4 << 20) // (folder / "log").stat().st_size))
        for words, opens in ((["pipe", "-o", "out.csv"], None), (["pipe", "-o", "out.csv"], os.O_RDWR),
                             (["long", "--from", "strace", "-o", "pipe", "--format", "csv"], os.O_RDWR)):
            end = None if opens is None else os.open(folder / "pipe", opens)
            child = subprocess.Popen([PROGRAM, "convert", *words], cwd=folder, stderr=subprocess.PIPE, text=True)
            end_to_end.wait_until_it_catches(child, signal.SIGTERM)
            child.send_signal(signal.SIGTERM)
            message = child.communicate(timeout=60)[1]
            assert child.returncode == -signal.SIGTERM and "convert: stopped by SIGTERM; " in message, (words, child.returncode, message)
            assert not (folder / "out.csv").exists()
            if end is not None:
                os.close(end)

    def test_fio(self):
        if not shutil.which("fio"):
            self.skipTest("no fio")
        folder = self.folder
        done = run("fio", "--name=x", "--filename=a:b", "--size=256k", "--rw=randrw", "--bs=4k", "--fsync=7",
                   "--write_iolog=log", "--output-format=json", cwd=folder)
        job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
        found = self.requests_of("log", under="")
        for access in ("read", "write"):
            total = sum(r[3] for r in found if r[0] == access)
            assert total == job[access]["io_bytes"], (access, total, job[access]["io_bytes"])
        run(PROGRAM, "convert", "log", "-q", "-o", "again.iolog", cwd=folder)
        again = self.requests_of("again.iolog", under="")
        assert [(r[0], *r[2:]) for r in again] == [(r[0], *r[2:]) for r in found]
        (folder / "old").write_text("fio version 2 iolog\na add\na open\na read 0 4096\na wait 500 0\na write 0 512\n")
        assert self.requests_of("old", under="") == [("read", "a", 0, 4096), ("write", "a", 0, 512)]

    def test_csv_becomes_parquet(self):
        if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import pyarrow"], capture_output=True).returncode != 0:
            self.skipTest("no pyarrow: tools/setup.sh check installs it")
        lines = ["fio version 3 iolog"]
        for i in range(10_000):
            name = f"/d/\N{LATIN SMALL LETTER E WITH ACUTE}{i * 7 % 11}"
            lines.append(f"{i * 3} {name} {('read', 'write')[i % 3 == 0]} {i * 1009 % 1000003} {1 + i % 5000}")
        (self.folder / "many").write_text("\n".join(lines) + "\n")
        run(PROGRAM, "convert", "many", "-q", "-o", "run.csv", cwd=self.folder)
        done = run(PYTHON, "-c", COMPARE, cwd=self.folder)
        assert int(done.stdout) == 10_000

    def test_arrow_names_csv(self):
        (self.folder / "log").write_text("fio version 3 iolog\n1 /a read 0 512\n")
        for words in (["x.arrow"], ["x", "--format", "arrow"]):
            done = run(PROGRAM, "convert", "log", "-o", *words, cwd=self.folder, code=2)
            assert "arrow" in done.stderr and "csv" in done.stderr, done.stderr
        assert sorted(path.name for path in self.folder.iterdir()) == ["log"]


if __name__ == "__main__":
    end_to_end.main("trace_formats_end_to_end")
