#!/usr/bin/env python3
"""penstock replay and penstock compare from end to end: a replay under our own tracer, fio, programs side by side.

replay_test.py PENSTOCK [TEST...]. Cases that need missing programs or rights are skipped.
"""

import contextlib
import csv
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import end_to_end

SANITIZED = "ASAN_OPTIONS" in os.environ
if SANITIZED:
    # The search for leaks traces the program, which is impossible while we trace it.
    os.environ["ASAN_OPTIONS"] += ":detect_leaks=0"

# The sanitizer takes most of 64 MiB for itself.
MEMORY = "160M" if SANITIZED else "64M"
PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
TRACE = [PROGRAM, "trace", "-q", "--backend", "ptrace"]

# A program with a known pattern, in whole sectors: two files, reads and writes, two processes.
PATTERN = """
import os, random
random.seed(5)
a = os.open("a", os.O_RDWR | os.O_CREAT)
b = os.open("b", os.O_RDWR | os.O_CREAT)
os.pwrite(a, bytes(1 << 20), 0)
os.pwrite(b, bytes(1 << 20), 0)
for i in range(150):
    f = random.choice((a, b))
    n = 4096 * random.randint(1, 8)
    at = 4096 * random.randrange(240)
    os.pread(f, n, at) if random.random() < 0.6 else os.pwrite(f, bytes(n), at)
    if i == 100 and os.fork():
        os.wait()
        os._exit(0)
"""


def run(*words, cwd, code=0, environment=None, umask=-1):
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(environment or {})}, umask=umask)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
    return done


def open_files(process):
    names = []
    for link in pathlib.Path(f"/proc/{process}/fd").glob("*"):
        with contextlib.suppress(OSError):
            names.append(os.readlink(link))
    return names


def requests_of(folder, trace, under):
    run(PROGRAM, "convert", trace, "-o", "requests.csv", "-q", "--under", under, cwd=folder)
    with open(folder / "requests.csv", newline="") as file:
        return [(r["access"], r["file"], int(r["offset"]), int(r["bytes"])) for r in csv.DictReader(file)]


class ReplayTest(unittest.TestCase):
    def setUp(self):
        probe = subprocess.run([*TRACE, "-o", "/dev/null", "true"], capture_output=True, text=True)
        if probe.returncode != 0 and "ptrace" in probe.stderr:
            self.skipTest("ptrace is not allowed here")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        (self.folder / "data").mkdir()
        (self.folder / "disk").mkdir()

    def trace_pattern(self):
        run(*TRACE, "-o", "../run.trace", sys.executable, "-c", PATTERN, cwd=self.folder / "data")
        return requests_of(self.folder, "run.trace", f"{self.folder}/data/")

    def on_disk(self, *more, code=0):
        """Replays run.trace in disk/; skips the test if the page cache cannot be avoided."""
        words = [PROGRAM, "replay", "run.trace", "--on", "disk", "--under", f"{self.folder}/data/", "--json", *more]
        done = subprocess.run([str(w) for w in words], cwd=self.folder, capture_output=True, text=True)
        if done.returncode == 2 and "past the page cache" in done.stderr:
            self.skipTest("no direct I/O in the temporary directory")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def check_round_trip(self, *more, caching=()):
        asked = self.trace_pattern()
        assert len(asked) == 152, len(asked)
        known = self.on_disk("--serial", "--no-fill", *caching, *more)
        places = {f["path"]: f for f in known["files"]}
        run(*TRACE, "-o", "again.trace", PROGRAM, "replay", "run.trace", "--on", "disk", "--serial",
            "--pace", "fast", "--no-fill", "--under", f"{self.folder}/data/", *caching, *more, cwd=self.folder)
        again = requests_of(self.folder, "again.trace", f"{self.folder}/disk/")
        assert len({file for _, file, _, _ in again}) == 1, "one region"
        expected = [(access, places[file]["region_offset"] + offset - places[file]["file_offset"], size)
                    for access, file, offset, size in asked]
        found = [(access, offset, size) for access, _, offset, size in again]
        assert found == expected, next((i, f, e) for i, (f, e) in enumerate(zip(found, expected)) if f != e)
        assert known["seeks"] == known["trace_seeks"]

    def test_a_replay_under_our_own_tracer_is_the_same_sequence(self):
        self.check_round_trip()

    def test_and_with_only_the_room_that_is_touched(self):
        self.check_round_trip("--room", "touched")

    def test_and_through_the_page_cache(self):
        self.check_round_trip(caching=["--buffered"])

    def test_a_buffered_replay_makes_the_same_unaligned_calls(self):
        folder = self.folder
        (folder / "data/in.txt").write_text("".join(f"{random.random()}\n" for _ in range(30000)))
        run(*TRACE, "-o", "../run.trace", "env", "LC_ALL=C", "sort", "-S", "300K", "-T", ".", "-o",
            "out.txt", "in.txt", cwd=folder / "data")
        asked = requests_of(folder, "run.trace", f"{folder}/data/")
        run(*TRACE, "-o", "again.trace", PROGRAM, "replay", "run.trace", "--on", "disk", "--serial",
            "--buffered", "--no-fill", "--under", f"{folder}/data/", cwd=folder)
        again = requests_of(folder, "again.trace", f"{folder}/disk/")
        assert [(a, n) for a, _, _, n in asked] == [(a, n) for a, _, _, n in again]

    def test_fio_moves_what_we_move(self):
        folder = self.folder
        if not shutil.which("fio"):
            self.skipTest("no fio")
        self.trace_pattern()
        ours = self.on_disk("--serial")
        run(PROGRAM, "convert", "run.trace", "-o", "run.iolog", "-q", "--under", f"{folder}/data/", "--files", "fio",
            cwd=folder)
        done = run("fio", "--name=replay", "--read_iolog=../run.iolog", "--ioengine=psync", "--replay_no_stall=1",
                   "--output-format=json", cwd=folder / "fio")
        job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
        assert job["read"]["io_bytes"] == ours["read_bytes"], (job["read"], ours)
        assert job["write"]["io_bytes"] == ours["written_bytes"], (job["write"], ours)

    def test_syncs_stand_in_their_place_or_are_left_out(self):
        program = ("import os\n"
                   "f = os.open('log', os.O_RDWR | os.O_CREAT)\n"
                   "for i in range(20):\n"
                   "    os.write(f, bytes(100))\n"
                   "    (os.fsync if i % 2 else os.fdatasync)(f)\n")
        run(*TRACE, "-o", "synced.trace", "--", sys.executable, "-c", program, cwd=self.folder)
        for where in (("--on", self.folder), ("--simulate", "hdd")):
            def replayed(*words):
                done = run(PROGRAM, "replay", "synced.trace", "--under", f"{self.folder}/", "--serial", *where, *words,
                           "--json", cwd=self.folder)
                return json.loads(done.stdout)
            synced, without = replayed(), replayed("--no-sync")
            self.assertEqual((synced["syncs"], without["syncs"]), (20, 0))
            self.assertEqual((synced["requests"], without["requests"]), (20, 20))
            # The last sector is written once more after each sync.
            self.assertEqual((synced["moved_written_bytes"], without["moved_written_bytes"]), (20 * 4096, 4096))
            self.assertGreater(synced["sync_seconds"], 0)
            self.assertTrue(any("20 syncs of the trace are not replayed" in note for note in without["notes"]))
            self.assertFalse(any("sync" in note for note in synced["notes"]))
            self.assertIn("1 sync of the trace is not replayed: nothing of its file is, or it is before the first "
                          "request or in another part.", replayed("--requests", "0..19")["notes"])
        self.assertAlmostEqual(synced["sync_seconds"], 20 * 0.012, places=3)
        shown = run(PROGRAM, "replay", "synced.trace", "--under", f"{self.folder}/", "--simulate", "hdd", cwd=self.folder)
        self.assertIn("20 syncs, 12.0 ms each", shown.stdout)

    def test_simulated_and_emulated(self):
        self.trace_pattern()
        simulated = json.loads(run(PROGRAM, "replay", "run.trace", "--simulate", "hdd", "--under",
                                   f"{self.folder}/data/", "--json", cwd=self.folder).stdout)
        assert simulated["simulated"] and simulated["seconds"] > 0.5, simulated
        device = "read=1e9,write=1e9,switch=0.001"
        emulated = self.on_disk("--emulate", device, "--serial")
        assert emulated["seeks"] == simulated["seeks"], (emulated, simulated)
        least = emulated["seeks"] * 0.001 + (emulated["moved_read_bytes"] + emulated["moved_written_bytes"]) / 1e9
        assert abs(emulated["emulated_busy_seconds"] - least) < 1e-6, emulated
        assert emulated["seconds"] > 0.99 * least, emulated
        by_environment = json.loads(run(end_to_end.with_seams(PROGRAM), "replay", "run.trace", "--on", "disk", "--serial", "--under",
                                        f"{self.folder}/data/", "--json", cwd=self.folder,
                                        environment={"PENSTOCK_EMULATE": device}).stdout)
        assert "emulated" in by_environment["device"], by_environment

    def test_command_line(self):
        folder = self.folder
        self.trace_pattern()

        def refused(*words):
            return run(PROGRAM, "replay", *words, cwd=folder, code=2).stderr

        assert "--on . for this one" in refused("run.trace")
        assert "two places" in refused("run.trace", "--on", "disk", "--simulate", "hdd")
        assert "nonesuch" in refused("run.trace", "--simulate", "nonesuch")
        assert "no block device" in refused("run.trace", "--on", "disk", "--overwrite-device")
        assert "--serial and --ahead" in refused("run.trace", "--on", "disk", "--serial", "--ahead", "3")
        assert "1 to 64" in refused("run.trace", "--on", "disk", "--ahead", "65")
        assert "FROM..TO" in refused("run.trace", "--simulate", "hdd", "--requests", "7")
        assert "no request" in refused("run.trace", "--simulate", "hdd", "--under", "/nonesuch")
        assert "No such file" in refused("none.trace", "--simulate", "hdd")
        assert "--join" in refused("run.trace", "--simulate", "hdd", "--join", "--pace", "original")
        whole = (folder / "run.trace").read_bytes()
        (folder / "cut.trace").write_bytes(whole[:-10])
        done = run(PROGRAM, "replay", "cut.trace", "--simulate", "hdd", cwd=folder, code=1)
        assert "cut off" in done.stdout
        (folder / "bad.trace").write_bytes(whole[:200] + b"xxxx" + whole[204:])
        run(PROGRAM, "replay", "bad.trace", "--simulate", "hdd", cwd=folder, code=2)
        text = run(PROGRAM, "replay", "run.trace", "--simulate", "hdd", "--requests", "..10", cwd=folder).stdout
        assert "10 requests" in text and "seeks" in text, text

    def test_reads_in_flight_do_not_disturb_each_other_on_a_file_system_with_checksums(self):
        """A file system with checksums verifies the memory of a direct read: another read's bytes there are an I/O error."""
        folder = self.folder

        def system(*words):
            try:
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)
            except FileNotFoundError as error:
                self.skipTest(str(error))
            if done.returncode != 0:
                self.skipTest(f"{words[0]}: {done.stderr.strip()}")

        with open(folder / "image", "wb") as image:
            image.truncate(200 << 20)
        system("mkfs.btrfs", "-q", "image")
        system("mount", "-o", "loop", "image", "disk")
        self.addCleanup(subprocess.run, ["umount", folder / "disk"], check=True)
        places = random.Random(1)
        with open(folder / "log", "w") as log:
            log.write('1 1700000000.0 openat(AT_FDCWD, "/f", O_RDONLY) = 3</f> <0.00001>\n')
            for i in range(2000):
                log.write(f'1 {1700000001 + i / 1000:.6f} pread64(3</f>, ""..., 65536, {places.randrange(128) << 16}) '
                          '= 65536 <0.00001>\n')
        for environment in ({}, {"PENSTOCK_IO": "threads"}):
            with self.subTest(**environment):
                run(PROGRAM, "replay", "log", "--on", "disk", "--ahead", "16", cwd=folder, environment=environment)

    def test_a_file_too_large_for_the_disk_is_an_error_before_anything_is_written(self):
        folder = self.folder
        code = ("import os; f = os.open('big', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1 << 43); "
                "os.pread(f, 4096, 1 << 42); os.pread(f, 4096, 5 << 20)")
        run(*TRACE, "-o", "../run.trace", sys.executable, "-c", code, cwd=folder / "data")
        under = ["--under", f"{folder}/data/"]
        told = run(PROGRAM, "replay", "run.trace", "--on", "disk", *under, cwd=folder, code=2).stderr
        assert "files, 4194" in told and " MiB are free" in told and "--room touched" in told and "--requests" in told, told
        assert not list((folder / "disk").iterdir())
        run(PROGRAM, "replay", "run.trace", "--simulate", "hdd", *under, cwd=folder)

    def test_ctrl_c_ends_it_and_leaves_nothing(self):
        folder = self.folder
        code = ("import os, time; f = os.open('a', os.O_RDWR | os.O_CREAT); os.pwrite(f, bytes(4096), 0); "
                "time.sleep(1.2); os.pwrite(f, bytes(4096), 0)")
        run(*TRACE, "-o", "../run.trace", sys.executable, "-c", code, cwd=folder / "data")
        child = subprocess.Popen([PROGRAM, "replay", "run.trace", "--on", "disk", "--buffered", "--pace", "original",
                                  "--under", f"{folder}/data/"], cwd=folder, stderr=subprocess.PIPE, text=True)
        # When the region exists, the handlers are installed.
        end = time.monotonic() + 30
        while not any(name.startswith(f"{folder}/disk/") for name in open_files(child.pid)):
            assert child.poll() is None and time.monotonic() < end, "the region was never opened"
            time.sleep(0.005)
        child.send_signal(signal.SIGINT)
        told = child.communicate(timeout=30)[1]
        assert child.returncode == -signal.SIGINT, (child.returncode, told)
        assert "the region is gone" in told, told
        assert not list((folder / "disk").iterdir())

    def test_a_trace_in_a_pipe_is_refused(self):
        os.mkfifo(self.folder / "pipe")
        told = run(PROGRAM, "replay", "pipe", "--simulate", "hdd", cwd=self.folder, code=2).stderr
        assert "twice" in told and "keep the trace in a file" in told, told

    def test_programs_side_by_side(self):
        folder = self.folder
        (folder / "in.txt").write_text("".join(f"{random.random()}{'x' * 60}\n" for _ in range(60000)))
        words = ["compare", "--input", "in.txt", "--memory", MEMORY, "--work", "data", "--simulate", "hdd",
                 "gnu-sort", "penstock", "stxxl", "--run", "copy=cat {input} > {output}",
                 "--run", "silent=wc {input}", "--run", "broken=echo it hurts; exit 3", "--traces", "kept", "--report", "page.html"]
        table = run(PROGRAM, *words, cwd=folder, code=1)
        lines = table.stdout.splitlines()
        row = {line.split()[0]: line for line in lines if line.strip()}
        assert "it sorts lines" not in table.stdout
        assert "note: silent: it wrote nothing to {output}" in " ".join(table.stdout.split()), table.stdout
        assert "note: copy" not in table.stdout, table.stdout
        assert "--format u64" in " ".join(table.stdout.split()) and "it hurts" in row["broken"], table.stdout
        for name in ("gnu-sort", "penstock", "copy"):
            assert " x " in row[name], table.stdout
        assert not list((folder / "data").iterdir())
        assert len(list((folder / "kept").iterdir())) == 5, "one for each that ran"
        page = (folder / "page.html").read_text()
        assert "gnu-sort" in page and "penstock" in page
        found = {p["program"]: p for p in json.loads(
            run(PROGRAM, *words, "--json", cwd=folder, code=1).stdout)["programs"]}
        assert abs(found["copy"]["passes"] - 1) < 0.001, found["copy"]
        assert found["copy"]["seeks"] >= 2 and found["gnu-sort"]["passes"] >= 1, found
        assert found["broken"]["problem"].startswith("it ended with exit code 3"), found["broken"]
        assert "limited_by" in found["penstock"]

    @unittest.skipIf(SANITIZED, "the sanitizer has most of so little memory")
    def test_our_sort_seeks_as_often_as_it_said(self):
        folder = self.folder
        for kind, count in (("u64", 8_000_000), ("lines", 1_300_000)):
            run(PROGRAM, "gen", "--format", kind, "--count", count, "-o", "in.data", cwd=folder)
            found = json.loads(run(PROGRAM, "compare", "--input", "in.data", "--format", kind, "--memory", "32M", "--work", "data",
                                   "--simulate", "hdd", "--json", "penstock", cwd=folder).stdout)["programs"][0]
            said = json.loads(run(PROGRAM, "plan", "in.data", "--format", kind, "-S", "32M", "--device", "hdd", "-T", "data",
                                  "-o", "out.data", "--json", cwd=folder).stdout)["sort"]
            # A trace also shows partial sectors, which are separate requests.
            assert found["seeks"] <= 1.3 * said["seeks"] + 8, (kind, found["seeks"], said["seeks"])

    def test_a_signal_stops_the_whole_comparison(self):
        folder = self.folder
        (folder / "in.txt").write_text("b\na\n")
        # Both reactions of the program to the signal: the first dies, the second exits with 0.
        for kind, program in ((signal.SIGTERM, "touch ready; exec sleep 60"),
                              (signal.SIGHUP, "trap 'exit 0' HUP; touch ready; while :; do sleep 0.05; done")):
            ready = folder / "ready"
            ready.unlink(missing_ok=True)
            child = subprocess.Popen([PROGRAM, "compare", "--input", "in.txt", "--memory", "64M", "--work", "data",
                                      "--simulate", "hdd", "--limit", "own", "--run", f"one={program}",
                                      "--run", "two=cp {input} {output}"],
                                     cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            end = time.monotonic() + 30
            while not ready.exists():
                assert child.poll() is None and time.monotonic() < end, "the program never ran"
                time.sleep(0.005)
            child.send_signal(kind)
            out, told = child.communicate(timeout=30)
            assert child.returncode == -kind, (child.returncode, told)
            assert f"stopped by {kind.name}; its files are gone" in told and not out, (out, told)
            assert "two" not in told, told
            assert not list((folder / "data").iterdir())

    def test_sorted_copies_are_nobody_elses_business(self):
        folder = self.folder
        (folder / "in.txt").write_text("b\na\n")
        look = 'cp {input} {output}; d=$(dirname {output}); stat -c "%a %n" {output} "$d/.." {tmp} >> ' + str(folder / "seen")
        for _ in range(2):
            run(PROGRAM, "compare", "--input", "in.txt", "--memory", "64M", "--work", "data", "--simulate", "hdd",
                "--run", "copy=" + look, cwd=folder, umask=0)
        lines = [line.split() for line in (folder / "seen").read_text().splitlines()]
        names = {name.split("/data/")[1].split("/")[0] for _, name in lines}
        works = {line[0] for line in lines if line[1].endswith("/..")}
        assert works == {"700"}, lines
        assert {line[0] for line in lines if line[1].endswith("/output")} == {"600"}, lines
        assert len(names) == 2 and "penstock-compare-1" not in names, names
        assert not list((folder / "data").iterdir())

    def test_a_program_of_ones_own_takes_one_word(self):
        folder = self.folder
        (folder / "in.txt").write_text("b\na\n")
        done = run(PROGRAM, "compare", "--input", "in.txt", "--memory", "64M", "--work", "data", "--simulate", "hdd",
                   "--run", "copy=cp {input} {output}", "gnu-sort", "--json", cwd=folder)
        assert {p["program"] for p in json.loads(done.stdout)["programs"]} == {"copy", "gnu-sort"}, done.stdout

    def test_rooms_follow_what_was_written_and_are_told_first(self):
        folder = self.folder
        (folder / "in.txt").write_text("b\na\n" * 5000)
        reserves = (f"{sys.executable} -c 'import os, shutil, sys; shutil.copyfile(*sys.argv[1:]); "
                    "f = os.open(sys.argv[2], os.O_RDWR); os.ftruncate(f, 3 << 40); os.ftruncate(f, 20000)' {input} {output}")
        done = subprocess.run([PROGRAM, "compare", "--input", "in.txt", "--memory", "64M", "--work", "data", "--on", "disk",
                               "--run", "ahead=" + reserves], cwd=folder, capture_output=True, text=True, timeout=60)
        if "past the page cache" in done.stderr:
            self.skipTest("no direct I/O in the temporary directory")
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert re.search(r"the replay takes \d+\.\d KiB on \S*disk, of [\d.]+ .iB that are free", done.stderr), done.stderr
        assert "region of 44.0 KiB" in done.stdout, done.stdout

    def test_programs_under_comparison_have_their_signals(self):
        folder = self.folder
        (folder / "in.txt").write_text("b\na\n")
        run(PROGRAM, "compare", "--input", "in.txt", "--memory", "64M", "--work", "data", "--simulate", "hdd",
            "--run", "ignored=grep SigIgn /proc/self/status > " + str(folder / "ignored") + "; cp {input} {output}",
            cwd=folder)
        ignored = int((folder / "ignored").read_text().split()[1], 16)
        assert not ignored >> (signal.SIGPIPE - 1) & 1, hex(ignored)
        assert not ignored >> (signal.SIGXFSZ - 1) & 1, hex(ignored)

    @unittest.skipIf(SANITIZED, "the sanitizer reserves more address space than the test allows")
    def test_a_program_that_says_a_lot_costs_little(self):
        folder = self.folder
        (folder / "in.txt").write_text("b\na\n")
        code = "import sys; sys.stdout.write('x' * (64 << 20) + 'the end'); sys.exit(3)"
        words = [PROGRAM, "compare", "--input", "in.txt", "--memory", "64M", "--work", "data", "--simulate", "hdd",
                 "--run", f"loud={sys.executable} -c \"{code}\""]
        done = subprocess.run(["sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh", *words], cwd=folder,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "the end" in " ".join(done.stdout.split()), (done.returncode, done.stdout, done.stderr)

    def test_comparisons_that_make_no_sense(self):
        folder = self.folder
        (folder / "in.txt").write_text("b\na\n")
        (folder / "empty").write_text("")

        def refused(*words):
            return run(PROGRAM, "compare", *words, cwd=folder, code=2).stderr

        given = ["--input", "in.txt", "--memory", "64M", "--simulate", "hdd"]
        assert "gnu-sort" in refused(*given)
        assert "nonesuch" in refused(*given, "nonesuch")
        assert "--run" in refused(*given, "--run", "x")
        assert "empty" in refused("--input", "empty", "--memory", "64M", "--simulate", "hdd", "gnu-sort")
        assert "No such file" in refused("--input", "none", "--memory", "64M", "--simulate", "hdd", "gnu-sort")


if __name__ == "__main__":
    end_to_end.main("replay_end_to_end")
