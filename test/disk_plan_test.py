#!/usr/bin/env python3
"""penstock disk and penstock plan from end to end: disk_plan_test.py PENSTOCK [TEST...].

No test depends on the speed of the disk: an emulated one is slow enough for any machine.

Writes a JUnit file where GoogleTest programs write theirs (GTEST_OUTPUT=xml:FOLDER/), so that ./check counts every case.
"""

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
import unittest

import end_to_end

PROGRAM = os.path.abspath(sys.argv[1])
MIB = 1 << 20
GIB = 1 << 30
ARRAY = 3.55e9
ARRAY_DELAY = 9e-3


def run(*words, code=0, environment=None, **options):
    """Runs the program, or the one that obeys an environment for tests, and checks its exit code."""
    program = end_to_end.with_seams(PROGRAM) if environment else PROGRAM
    done = subprocess.run([program, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300, env=dict(os.environ, **(environment or {})), **options)
    if done.returncode != code:
        raise AssertionError(f"penstock {words}: exit code {done.returncode}, wanted {code}\n"
                             f"{done.stderr.decode(errors='replace')}")
    return done


def plan(*words):
    return json.loads(run("plan", *words, "--json").stdout)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-disk-plan-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fails(self, *words, told, **options):
        done = run(*words, code=2, **options)
        text = done.stderr.decode(errors="replace")
        if "past the page cache" in text and told != "a directory on a disk":
            self.skipTest(f"files in {self.folder} go through the page cache")
        self.assertTrue(text.startswith(f"penstock {words[0]}:"), text)
        for part in told if isinstance(told, tuple) else (told,):
            self.assertIn(part, text)
        self.assertEqual(done.stdout, b"")


class Disk(Case):
    def disk(self, *words, **options):
        try:
            return run("disk", self.folder, "--quick", *words, **options)
        except AssertionError as problem:
            if "past the page cache" in str(problem):
                self.skipTest(f"files in {self.folder} go through the page cache")
            raise

    def test_the_delay_and_the_speeds_of_an_emulated_disk_are_found(self):
        # A busy machine makes the emulated disk slower than its profile: one undisturbed run is enough.
        for times_left in (4, 3, 2, 1, 0):
            try:
                return self.find_the_emulated_disk()
            except AssertionError:
                if times_left == 0:
                    raise

    def find_the_emulated_disk(self):
        profile = self.folder / "profile.json"
        done = self.disk("--size", "64M", "-o", profile, "--json",
                         environment={"PENSTOCK_EMULATE": "read=5e8,write=4e8,switch=0.004"})
        found = json.loads(done.stdout)
        self.assertEqual(found, json.loads(profile.read_text()))
        self.assertIn("emulated", found["emulated"])
        self.assertAlmostEqual(found["read_bytes_per_s"] / 5e8, 1, delta=0.15)
        self.assertAlmostEqual(found["write_bytes_per_s"] / 4e8, 1, delta=0.15)
        measured = found["measurement"]
        together = measured["delay_of_all"]
        self.assertTrue(together["told_from_zero"])
        self.assertAlmostEqual(together["seconds"] / 0.004, 1, delta=0.15)
        self.assertLessEqual(together["low_seconds"], together["seconds"])
        self.assertLessEqual(together["seconds"], together["high_seconds"])
        self.assertEqual(len(measured["shapes"]), 4)
        self.assertEqual(len(measured["zones"]), 4)
        for check in measured["checks"]:
            self.assertAlmostEqual(check["predicted_bytes_per_s"] / check["measured_bytes_per_s"], 1, delta=0.2)
        # A plan accepts the profile, and names it.
        planned = plan("--size", "1G", "-S", "64M", "--device", profile)
        self.assertEqual(planned["device"]["emulated"], found["emulated"])
        self.assertIn("EMULATED", run("plan", "--size", "1G", "-S", "64M", "--device", profile).stdout.decode())

    def test_the_table_tells_what_was_measured(self):
        text = self.disk("--size", "64M").stdout.decode()
        # No disk is as fast as memory.
        speeds = re.findall(r"^(?:zone \d|all) +([\d.]+) +([\d.]+)", text, re.MULTILINE)
        self.assertEqual(len(speeds), 5, text)
        self.assertLess(max(float(speed) for pair in speeds for speed in pair), 300, text)
        for part in ("GB/s", "zone 1", "zone 4", "switch delay", "is not 0", "check:"):
            self.assertIn(part, text)
        for line in text.splitlines():
            if str(self.folder) not in line:
                self.assertLessEqual(len(line), 80, line)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_examples_of_the_help_run(self):
        examples = re.findall(r"^  penstock disk \.(.*)$", run("disk", "--help").stdout.decode(), re.MULTILINE)
        self.assertEqual(len(examples), 2)
        for example in examples:
            self.disk("--size", "64M", *example.replace("--quick", "").split(), cwd=self.folder)
        self.assertTrue((self.folder / "profile.json").exists())

    def test_signals_end_it_with_nothing_left(self):
        profile = self.folder / "profile.json"
        for stop in (signal.SIGINT, signal.SIGTERM):
            # The emulated disk is slow enough for the signal to come in time.
            child = subprocess.Popen([end_to_end.with_seams(PROGRAM), "disk", self.folder, "--size", "64M", "--quick", "-o", profile],
                                     stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                                     env=dict(os.environ, PENSTOCK_EMULATE="read=2e7,write=2e7,switch=0.01"))
            end_to_end.wait_until_it_catches(child, stop)
            time.sleep(0.3)
            child.send_signal(stop)
            _, text = child.communicate(timeout=60)
            if child.returncode == 2:
                self.skipTest(text.decode())
            self.assertEqual(child.returncode, -stop)
            self.assertIn(b"nothing was saved", text)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_cannot_be_measured_is_refused(self):
        self.fails("disk", self.folder / "missing", told="No such file")
        self.fails("disk", self.folder, "--size", "1M", told="--size")
        self.fails("disk", self.folder, "--size", "0", told="cannot use this size")
        self.fails("disk", self.folder, "--size", "4000000T", told="free")
        self.fails("disk", self.folder, "--size", "64M", "--quick", "-o", self.folder / "no" / "x.json",
                   told="create a file")
        if os.path.exists("/dev/shm") and shutil.disk_usage("/dev/shm").free > 256 * MIB:
            self.fails("disk", "/dev/shm", "--size", "64M", "--quick", told="a directory on a disk")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_errors_of_the_disk_end_it(self):
        for error in ("EIO@write:40", "EIO@read:10"):
            self.fails("disk", self.folder, "--quick", "--size", "64M", told="Input/output error",
                       environment={"PENSTOCK_INJECT": f"seed=1,error={error}"})
        self.assertEqual(list(self.folder.iterdir()), [])


class Plan(Case):
    def test_the_papers_example_of_a_merge(self):
        planned = plan("--size", "64T", "--inputs", "8000", "--outputs", "1", "-S", "8G", "--device", "array24")
        self.assertEqual(planned["search"], "coarse")
        self.assertEqual(len(planned["phases"]), 2)
        fan_ins = [phase["fan_in"] for phase in planned["phases"]]
        self.assertGreaterEqual(fan_ins[0] * fan_ins[1], 8000)
        self.assertLess(sum(fan_ins), 190)
        others = {other["name"]: other for other in planned["alternatives"]}
        self.assertEqual(others["k = 2"]["passes"], 13)
        self.assertGreater(others["k = 2"]["over_best"], 4)
        self.assertEqual(others["k = n"]["passes"], 1)
        self.assertGreater(others["k = n"]["over_best"], 3)

    def test_a_sort_that_does_not_exist_is_reckoned_by_equation_1(self):
        planned = plan("--size", "1024G", "-S", "2G", "--device", "array24")
        self.assertIsNone(planned["sort"])
        self.assertEqual(planned["outputs"], 512)
        *distributions, last = planned["phases"]
        self.assertEqual(len(distributions), 2)  # table I of the paper
        self.assertEqual(last["phase"], "sort the buckets")
        for phase in planned["phases"]:
            self.assertEqual(phase["bytes_read"], 1024 * GIB)
            self.assertEqual(phase["bytes_written"], 1024 * GIB)
            seconds = (phase["bytes_read"] + phase["bytes_written"]) / ARRAY + phase["switches"] * ARRAY_DELAY
            self.assertAlmostEqual(phase["seconds"] / seconds, 1, places=6)
            self.assertLessEqual(phase["input_memory_bytes"] + phase["output_memory_bytes"], 2 * GIB)
        self.assertAlmostEqual(planned["seconds"], sum(phase["seconds"] for phase in planned["phases"]), places=3)
        for other in planned["alternatives"]:
            self.assertGreaterEqual(other["over_best"], 1 - 1e-9)

    def test_without_a_delay_one_pass_is_best(self):
        profile = self.folder / "flat.json"
        profile.write_text(json.dumps({"kind": "penstock device profile", "version": 1, "read_bytes_per_s": 2e9,
                                       "write_bytes_per_s": 1e9, "switch_seconds": 0}))
        planned = plan("--size", "100G", "-S", "1G", "--device", profile)
        self.assertEqual(len(planned["phases"]), 2)
        self.assertAlmostEqual(planned["seconds"], 2 * 100 * GIB * (1 / 2e9 + 1 / 1e9), places=3)
        self.assertEqual(planned["device"]["name"], str(profile))

    def test_inputs_that_fit_in_memory_take_one_pass(self):
        planned = plan("--size", "1G", "-S", "2G", "--device", "nvme")
        self.assertEqual([phase["phase"] for phase in planned["phases"]], ["sort in memory"])
        self.assertEqual(planned["alternatives"], [])

    def test_bowties_of_any_shape(self):
        for inputs, outputs in ((3, 100), (0, 16), (16, 0), (1, 1), (7, 1)):
            planned = plan("--size", "1T", "--inputs", inputs, "--outputs", outputs, "-S", "4G", "--device", "hdd")
            self.assertEqual((planned["inputs"], planned["outputs"]), (inputs, outputs))
            self.assertGreater(planned["seconds"], 0)
            self.assertGreaterEqual(len(planned["phases"]), 1)

    def test_files_are_planned_as_the_sort_plans_them(self):
        path = self.folder / "in.u64"
        run("gen", "--format", "u64", "--count", 128 * MIB // 8, "-o", path)
        words = (path, "--format", "u64", "-S", "48M", "-T", self.folder)
        planned = plan(*words, "--device", "array24")
        self.assertEqual(planned["sort"]["method"], "distribute")
        self.assertEqual(planned["bytes"], 128 * MIB)
        self.assertEqual(planned["memory_bytes"], 48 * MIB)
        self.assertGreaterEqual(planned["outputs"], 3)
        self.assertTrue(planned["device"]["delay_known"])
        self.assertTrue(any(phase["notes"] for phase in planned["phases"]))
        done = json.loads(run("sort", *words, "--device", "array24", "-o", self.folder / "out.u64", "--json").stdout)
        self.assertEqual(done["predicted"]["method"], planned["sort"]["method"])
        self.assertEqual(done["predicted"]["long_runs"], planned["sort"]["long_runs"])
        # Two processes differ slightly in memory, above all under a sanitizer.
        buckets = planned["sort"]["buckets"]
        self.assertAlmostEqual(done["predicted"]["buckets"], buckets, delta=2 + buckets / 5)

        # Without a device the disk of the temporaries is measured.
        planned = plan(*words)
        self.assertFalse(planned["device"]["delay_known"])
        self.assertGreater(planned["device"]["read_bytes_per_s"], 0)
        text = run("plan", *words).stdout.decode()
        for part in ("distribute", "together", "of temporaries", "with another budget" if planned["sort"]["alternatives"] else "time"):
            self.assertIn(part, text)
        self.assertNotIn("schedule", text)
        self.assertIn("penstock disk measures it", " ".join(run("plan", *words, "--verbose").stdout.decode().split()))

        small = plan(path, "--format", "u64", "-S", "2G", "--device", "hdd")
        self.assertEqual(small["sort"]["method"], "in_memory")
        self.assertEqual(len(small["phases"]), 1)
        merged = plan(path, path, path, "--format", "u64", "-m", "-S", "64M", "--device", "hdd")
        self.assertEqual(merged["sort"]["method"], "merge")
        self.assertEqual(merged["phases"][-1]["phase"], "merge")
        self.assertEqual({entry.name for entry in self.folder.iterdir()}, {"in.u64", "out.u64"})

    def test_an_empty_file_needs_no_plan(self):
        path = self.folder / "empty"
        path.write_bytes(b"")
        self.assertIn("nothing to do", run("plan", path, "--device", "hdd").stdout.decode())
        self.assertEqual(plan(path, "--device", "hdd")["phases"], [])

    def test_what_cannot_be_planned_is_refused(self):
        size = ("--size", "4G")
        self.fails("plan", told="a FILE, or --size")
        self.fails("plan", "-", told="cannot plan for standard input")
        self.fails("plan", self.folder / "missing", told="No such file")
        self.fails("plan", *size, "--device", "tape", told=("tape", "array24"))
        self.fails("plan", *size, "--device", "hdd", "-u", told="-u")
        self.fails("plan", *size, "--device", "hdd", "-T", "/tmp", told="-T: cannot take this option")
        self.fails("plan", *size, "--device", "hdd", "FILE", told="one of the two")
        self.fails("plan", *size, "--device", "hdd", "--inputs", "0", "--outputs", "0", told="nothing to nothing")
        self.fails("plan", *size, "--device", "hdd", "-S", "100K", "--inputs", "5", told="at least")
        self.fails("plan", "--inputs", "4", told="--size")
        self.fails("plan", "--size", "1x", "--device", "hdd", told="cannot read this as a size")
        done = run("plan", *size, "--device", "hdd", "--debug", code=2)
        self.assertIn(b"--debug", done.stderr)

    def test_bad_profiles_are_refused_with_what_is_wrong(self):
        good = {"kind": "penstock device profile", "version": 1, "read_bytes_per_s": 1e9, "write_bytes_per_s": 1e9,
                "switch_seconds": 0.001}
        for change, told in (({"kind": "x"}, "it is none"), ({"version": 9}, "version 9"),
                             ({"read_bytes_per_s": -1}, "must be positive"), ({"read_bytes_per_s": 3.5e13}, "below memory's"), ({"switch_seconds": "1"}, "neither"),
                             ({"write_bytes_per_s": None}, "no number")):
            path = self.folder / "bad.json"
            path.write_text(json.dumps({**good, **change}))
            self.fails("plan", "--size", "4G", "--device", path, told=(told, "bad.json"))
        path.write_text(json.dumps(good)[:40])
        self.fails("plan", "--size", "4G", "--device", path, told="it is none")
        self.fails("plan", "--size", "4G", "--device", self.folder, told="directory")
        self.fails("plan", "--size", "4G", "--device", self.folder / "none.json", told="No such file")


if __name__ == "__main__":
    end_to_end.main("disk_plan_end_to_end")
