"""The memory of a run without options, its last line on a terminal, and the headline of a plan: defaults_test.py PENSTOCK [TEST...]."""

import contextlib
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import unittest

import cgroup
import end_to_end
from end_to_end import run

PROGRAM = os.path.abspath(sys.argv[1])
MIB = 1 << 20
SANITIZED = "ASAN_OPTIONS" in os.environ
GIB = 1 << 30
SUMMARY = re.compile(r"[\d.]+ [KMG]?i?B, [\d,]+ (\w+) in [\d.]+ \S+, [\d.]+ MiB of memory, (no temporaries|[\d.]+ [KMG]?i?B of temporaries) *\r?\n$")


def environment(**more):
    """The environment without the variables of Penstock, and with others."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")} | more


class Case(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.input = self.write("in", b"b 1\na 2\n")
        self.sorted = self.write("sorted", b"a 2\nb 1\n")

    def budget(self, *words, prefix=(), **variables):
        """The memory that a sort of two lines may use."""
        command = [*prefix, PROGRAM, "sort", self.input, "-o", self.folder / "out", "--json", *words]
        done = subprocess.run(command, capture_output=True, env=environment(**variables), check=True)
        return json.loads(done.stdout)["budget_bytes"]


class Memory(Case):
    def test_it_is_half_of_what_is_available(self):
        usable = json.loads(run("doctor", "--json").stdout)["system"]["usable_bytes"]
        # Other programs take memory and return it meanwhile.
        self.assertGreater(self.budget(), usable * 0.3)
        self.assertLess(self.budget(), usable * 0.7)

    @unittest.skipIf(SANITIZED, "a sanitizer needs memory of its own")
    def test_it_is_half_of_what_a_cgroup_leaves_and_32_mib_at_least(self):
        for limit, least, most in ((512 * MIB, 128 * MIB, 256 * MIB), (48 * MIB, 32 * MIB, 32 * MIB)):
            try:
                group = self.enterContext(cgroup.memory(limit))
            except OSError as problem:
                self.skipTest(f"no cgroup: {problem}")
            join = ("sh", "-c", f'echo 0 >"{group}/cgroup.procs" && exec "$@"', "sh")
            budget = self.budget(prefix=join)
            self.assertGreaterEqual(budget, least)
            self.assertLessEqual(budget, most)

    @unittest.skipIf(SANITIZED, "a sanitizer needs addresses of its own")
    def test_it_is_a_part_of_the_addresses(self):
        self.assertLess(self.budget(prefix=("sh", "-c", f'ulimit -v {GIB >> 10} && exec "$@"', "sh")), GIB // 2)

    def test_the_environment_sets_it_for_all_commands(self):
        self.assertEqual(self.budget(PENSTOCK_MEMORY="96M"), 96 * MIB)
        self.assertEqual(self.budget("-S", "64M", PENSTOCK_MEMORY="96M"), 64 * MIB)
        self.assertEqual(self.budget("-S", "64M", PENSTOCK_MEMORY="nonsense"), 64 * MIB)
        self.assertGreater(self.budget(PENSTOCK_MEMORY=""), 0)
        variable = {"env": environment(PENSTOCK_MEMORY="96M")}
        out = self.folder / "out"
        for words in (["merge", self.sorted], ["group", "--count", self.input], ["join", self.sorted, self.sorted],
                      ["partition", "--parts", "2", self.input]):
            name = self.folder / "part-{}" if words[0] == "partition" else out
            with self.subTest(command=words[0]):
                told = json.loads(run(*words, "--output", name, "--json", **variable).stdout)
                self.assertEqual(told.get("budget_bytes", told.get("stats", {}).get("budget_bytes")), 96 * MIB)
        for words in (["plan", self.input], ["plan", "--size", "1G"]):
            self.assertEqual(json.loads(run(*words, "--json", **variable).stdout)["memory_bytes"], 96 * MIB)

    def test_a_bad_variable_is_named(self):
        for value, told in (("2X", "cannot read this as a size"), ("16M", "at least 32M"), ("-1", "cannot read this as a size")):
            with self.subTest(value=value):
                message = run("sort", self.input, code=2, env=environment(PENSTOCK_MEMORY=value)).stderr.decode()
                self.assertIn(f"PENSTOCK_MEMORY={value}", message)
                self.assertIn(told, message)
        message = run("sort", self.input, env=environment(PENSTOCK_MEMORY="900T")).stderr.decode()
        self.assertIn("PENSTOCK_MEMORY=900T: taken as", message)

    def test_under_the_name_sort_any_variable_is_enough(self):
        (self.folder / "sort").symlink_to(PROGRAM)
        done = run(self.input, program=self.folder / "sort", env=environment(PENSTOCK_MEMORY="1M"))
        self.assertEqual((done.stdout, done.stderr), (b"a 2\nb 1\n", b""))

    def test_runs_of_a_pool_take_a_fixed_size(self):
        pool = f"test-defaults-{os.getpid()}"
        self.addCleanup(pathlib.Path(f"/dev/shm/penstock-{os.geteuid()}-{pool}").unlink, missing_ok=True)
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.assertLessEqual(self.budget("--memory-pool", f"{pool}:2G"), GIB)
        if machine >= 2 * GIB:
            self.assertGreater(self.budget("--memory-pool", f"{pool}:2G"), GIB // 2)


class Summary(Case):
    def on_terminal(self, *words, program=PROGRAM, stdout=subprocess.DEVNULL):
        """Returns the text of a command on a terminal, its stderr."""
        leader, follower = pty.openpty()
        child = subprocess.Popen([program, *map(str, words)], stderr=follower, stdout=stdout, env=environment(TERM="xterm"))
        os.close(follower)
        text = b""
        with contextlib.suppress(OSError):  # the terminal vanishes with the child
            while select.select([leader], [], [], 120)[0] and (piece := os.read(leader, 4096)):
                text += piece
        os.close(leader)
        self.assertEqual(child.wait(timeout=60), 0)
        return text.decode()

    def test_the_length_of_records_that_no_word_says_is_told(self):
        records = self.write("records", bytes(400))
        for words, told in (([], "records of 100 bytes, in the order of the first 10 (try: --record BYTES"),
                            (["--key", "0:4"], "records of 100 bytes (try: --record BYTES"), (["--record", "50"], None),
                            (["--dtype", "[('a', 'S50')]", "--key", "a"], None), (["--quiet"], None)):
            for command in (["sort"], ["merge"], ["plan"]):
                if command == ["plan"] and words == ["--quiet"] or command == ["merge"] and "--dtype" in words:
                    continue
                with self.subTest(command=command, words=words):
                    text = self.on_terminal(*command, "--format", "record", *words, records, *([] if command == ["plan"] else ["-o", self.folder / "out"]))
                    self.assertEqual("records of 100 bytes" in text, told is not None)
                    self.assertIn(told or "", text)

    def test_it_ends_each_command_that_writes_a_file(self):
        table = self.write("in.csv", b"id,price\n1,30\n2,20\n")
        numbers = self.write("in.u64", bytes(32))
        for words, noun, items in ((["sort", self.input], "lines", 2),
                                   (["sort", "--csv", "--header", "--key", "price:n", table], "rows", None),
                                   (["sort", "--format", "u64", numbers], "items", 4),
                                   (["sort", "-m", self.sorted, self.sorted], "lines", 4),
                                   (["merge", self.sorted], "lines", 2),
                                   (["group", "--count", self.input], "groups", 2),
                                   (["join", self.sorted, self.sorted], "lines", 2)):
            with self.subTest(words=words):
                text = self.on_terminal(*words, "--output", self.folder / "out")
                self.assertRegex(text, SUMMARY)
                self.assertEqual(SUMMARY.search(text)[1], noun)
                self.assertIn(f"penstock {words[0]}: ", text)
                if items is not None:
                    self.assertIn(f", {items} {noun} in ", text)
        self.assertRegex(self.on_terminal("partition", "--parts", "2", self.input, "-o", self.folder / "part-{}"), r", 2 lines in ")

    def test_it_names_temporaries(self):
        path = self.folder / "large"
        run("gen", "--format", "u64", "--count", 12 * MIB, "-o", path)
        text = self.on_terminal("sort", "--format", "u64", path, "-o", self.folder / "out", "-S", "48M")
        self.assertRegex(text, r"96\.0 MiB, 12,582,912 items in .* of temporaries *\r\n$")

    def test_it_is_not_where_nobody_asked_for_it(self):
        out = self.folder / "out"
        (self.folder / "sort").symlink_to(PROGRAM)
        for words in (["sort", self.input, "-o", out, "--quiet"], ["sort", self.input, "-o", out, "--progress=never"], ["sort", self.input]):
            self.assertNotRegex(self.on_terminal(*words), SUMMARY, words)
        self.assertEqual(self.on_terminal(self.input, "-o", out, program=self.folder / "sort"), "")
        self.assertEqual(run("sort", self.input, "-o", out).stderr, b"")
        with open(self.folder / "redirected", "wb") as file:
            self.assertRegex(self.on_terminal("sort", self.input, stdout=file), SUMMARY)


class Plan(Case):
    def test_it_names_disk_memory_time_and_the_reason_of_its_passes(self):
        path = self.folder / "large"
        run("gen", "--format", "u64", "--count", 12 * MIB, "-o", path)
        words = ["plan", "--format", "u64", path, "-T", self.folder]
        text = run(*words, "-S", "48M").stdout.decode()
        self.assertRegex(text, r"\n  passes: the input does not fit in memory, its buckets do")
        self.assertRegex(text, rf"\n  disk: [\d.]+ MiB of temporaries in {re.escape(str(self.folder))}, and 96\.0 MiB of output\n")
        self.assertRegex(text, r"\n  memory: at most 48\.0 MiB\n  time: [\d.]+ s")
        planned = json.loads(run(*words, "-S", "48M", "--json").stdout)["sort"]
        self.assertEqual(planned["fewer_passes_memory_bytes"] > 0, "; -S " in text)
        text = run(*words, "-S", "2G").stdout.decode()
        self.assertIn("1 pass, 1 bucket\n", text)
        self.assertIn("\n  disk: no temporaries, and 96.0 MiB of output\n", text)
        self.assertNotIn("passes:", text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80, line)

    @unittest.skipIf(SANITIZED, "a sanitizer needs memory of its own")
    def test_a_small_input_needs_little_memory(self):
        for format, data in (("lines", b"b\na\n"), ("lines", b"\n" * MIB), ("lines", b"%d\n" % 7 * MIB), ("u64", bytes(MIB)), ("record", bytes(100 * 1024))):
            path = self.write("small", data)
            words = ["--format", format, path, "-S", "1G"]
            number, unit = re.search(r"\n  memory: at most ([\d.]+) (\w+)\n", run("plan", *words).stdout.decode()).groups()
            planned = float(number) * {"MiB": MIB, "GiB": GIB}[unit]
            self.assertLess(planned, GIB // 8)
            told = json.loads(run("sort", *words, "-o", self.folder / "out", "--json").stdout)
            self.assertLessEqual(told["peak_rss_bytes"], planned * 1.01, (format, len(data)))

    def test_a_size_has_the_least_memory_of_a_sort(self):
        self.assertIn(b"-S: cannot sort within 1 MiB (try: at least 32M)", run("plan", "--size", "10G", "-S", "1M", code=2).stderr)

    def test_a_size_needs_no_device(self):
        text = run("plan", "--size", "100G", "-S", "1G").stdout.decode()
        self.assertTrue(text.startswith("sort: 100 GiB with 1.00 GiB of memory\n  passes: 2, because the input does not fit in memory"), text)
        self.assertRegex(text, r"\n  disk: 100 GiB of temporaries, and 100 GiB of output\n  time: at least [\d.]+ s on \S+, the processor's share not counted\n")
        self.assertIn("(a usual disk: --device takes another", text)
        self.assertIn("disk: no temporaries", run("plan", "--size", "1G", "-S", "2G").stdout.decode())
        text = run("plan", "--size", "8T", "-S", "2G", "--device", "array24").stdout.decode()
        self.assertIn("\n  passes: 3, because the buckets of a first split do not fit in memory\n", text)
        for line in text.splitlines()[:4]:
            self.assertLessEqual(len(line), 80, line)


if __name__ == "__main__":
    end_to_end.main("defaults_end_to_end")
