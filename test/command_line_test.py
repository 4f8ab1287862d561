#!/usr/bin/env python3
"""The command line from end to end: command_line_test.py PENSTOCK [TEST...].

Words arrive as they were typed, each option of sort and plan is obeyed or refused in each of their modes, data that are
not lines are refused, and the message about a mistake names the right words.
"""

import concurrent.futures
import os
import pathlib
import re
import struct
import subprocess
import sys
import unittest

import end_to_end
from end_to_end import run

PROGRAM = sys.argv[1]


class Words(end_to_end.Case):
    """The cases of cli/words_test.cc, tested from outside."""

    def sort_program(self):
        link = self.folder / "bin" / "sort"
        link.parent.mkdir(exist_ok=True)
        if not link.exists():
            link.symlink_to(pathlib.Path(PROGRAM).absolute())
        return link

    def test_names_of_files_in_brackets(self):
        for name in ("[notes]", "[]", "[a,b]", "a,b", '"q"', "%s"):
            self.write(name, name.encode() + b"\n")
        for name in ("notes", "a", "b", "q"):
            self.write(name, b"WRONG\n")
        for name in ("[notes]", "[]", "[a,b]", "a,b", '"q"', "%s"):
            wanted = name.encode() + b"\n"
            for words in (["sort", name], ["sort", "-m", name], ["merge", name], ["cat", name], ["cat", "--", name],
                          ["group", "--format", "uniq", name], ["uniq", name], ["join", name, name]):
                out = run(*words, cwd=self.folder, stdin=b"STDIN\n").stdout
                self.assertEqual(out.split()[-1] + b"\n", wanted, words)
            under_its_name = subprocess.run([self.sort_program(), "--", name], cwd=self.folder, capture_output=True)
            self.assertEqual(under_its_name.stdout, wanted)

    def test_expressions_and_traced_programs(self):
        path = self.write("in", b"same 10\nxyz\naaa\n")
        for pattern, wanted in (("[^a]", b"1:same 10\n2:xyz\n"), ("[0-9]", b"1:same 10\n"), ("[xy]", b"2:xyz\n"),
                                ("[[:digit:]]", b"1:same 10\n")):
            self.assertEqual(run("find", "-n", "-P", pattern, path).stdout, wanted)
            self.assertEqual(run("find", "-n", "-e", pattern, path).stdout, wanted)
        log = self.write("log", b"no ERROR\n[ERROR]\n")
        self.assertEqual(run("find", "-n", "[ERROR]", log).stdout, b"2:[ERROR]\n")
        done = run("trace", "--backend", "ptrace", "-q", "-o", self.folder / "t", "--", "printf", "%s|", "[1,2]", "[]", "-n", "[ab]",
                   code=(0, 2))
        if done.returncode == 2:
            self.skipTest(done.stderr.decode())
        self.assertEqual(done.stdout, b"[1,2]|[]|-n|[ab]|")

    def test_a_number_behind_a_dash_is_no_file(self):
        path = self.write("in", b"b\na\n")
        self.write("-3", b"x\n")
        self.assertIn(b"no option -3", run("sort", path, "-3", code=2).stderr)
        self.assertIn(b"-n3: -n takes no value (try: -n -k3)", run("sort", "-n3", path, code=2).stderr)
        self.assertEqual(run("sort", "--", "-3", cwd=self.folder).stdout, b"x\n")

    def test_a_report_replaces_only_a_report(self):
        data = self.write("orders.csv", b"b\na\n")
        out = self.folder / "out"
        for option, example in (("--stats", "run.json"), ("--report", "run.html")):
            for other in (data, self.write("mine.json", b'{"mine": 1}\n'), self.write("mine.html", b"<html></html>\n")):
                with self.subTest(option=option, other=other):
                    before = other.read_bytes()
                    done = run("sort", option, other, stdin=b"", code=2)
                    said = f"{option} {other}: cannot overwrite a file that is no report (try: {option} {example} {other})"
                    if option == "--report" and other.suffix == ".html":
                        said = f"--report {other}: cannot replace a file that is no page of penstock (try: another name)"
                    self.assertIn(said, done.stderr.decode())
                    self.assertEqual(other.read_bytes(), before)
            for _ in range(2):
                run("sort", option, self.write("empty", b"") if option == "--stats" else self.folder / "page", data, "-o", out)
                run("sort", option, self.folder / ("empty" if option == "--stats" else "page"), data, "-o", out)

    def test_an_option_that_took_the_file_for_its_value_says_so(self):
        path = self.write("orders.csv", b"id,price\n1,2\n")
        for command, options in (("sort", ["--key", "--format", "--compress-program", "--sort"]), ("plan", ["--key", "--format"]),
                                 ("check", ["--key", "--format"]), ("merge", ["--key", "--format"]), ("group", ["--key", "--value", "--format"]),
                                 ("join", ["--key", "-1", "-2", "-j"])):
            for option in options:
                with self.subTest(command=command, option=option):
                    told = run(command, option, path, code=2).stderr.decode()
                    self.assertIn(f"penstock {command}: {option} {path}: its value is a file, and no other is named (try: {option} ", told)
                    if option == "--key":
                        self.assertNotIn("its value", run(command, option, path, path, code=(0, 1, 2)).stderr.decode())
        self.assertEqual(run("sort", "--format", "lines", stdin=b"b\na\n", cwd=self.write("lines", b"").parent).stdout, b"a\nb\n")
        self.assertEqual(run("--compress-program", path, program=self.sort_program(), stdin=b"b\na\n").stdout, b"a\nb\n")

    def test_a_keyboard_that_is_read_is_told(self):
        for words in (["sort"], ["group", "--count"], ["check"], ["merge", "-"]):
            keyboard, stdin = os.openpty()
            with self.subTest(words=words), subprocess.Popen([PROGRAM, *words], stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
                os.close(stdin)
                self.assertEqual(child.stderr.readline().decode(),
                                 f"penstock {words[0]}: reading standard input, the keyboard (Ctrl-D ends it)\n")
                os.write(keyboard, b"\x04")
                self.assertIn(child.wait(100), (0, 1))
            os.close(keyboard)

    def test_a_device_option_needs_a_device(self):
        path = self.write("lines", b"b\na\n")
        for words in (["sort", path], ["merge", path], ["cat", path], ["gen", "--count", "2"], ["group", "--count", path]):
            for output in (self.folder / "out", "-"):
                with self.subTest(words=words, output=output):
                    self.assertIn(b"cannot overwrite what is no block device (try: the same without --overwrite-device)",
                                  run(*words, "--overwrite-device", "-o", output, code=2).stderr)
        self.assertEqual(len(run("gen", "--count", "2", "-o", "-").stdout.splitlines()), 2)

    def test_a_wrong_variable_is_an_error(self):
        path = self.write("lines", b"b\na\n")
        for command in (["sort", path], ["doctor"], ["--version"]):
            told = run(*command, code=2, env=dict(os.environ, PENSTOCK_CPU="foo")).stderr.decode()
            self.assertIn("PENSTOCK_CPU=foo: cannot use instructions of this name (try: portable, avx2 or avx512)", told)
        for value in ("", "portable", "avx2", "avx512"):
            self.assertEqual(run("sort", path, env=dict(os.environ, PENSTOCK_CPU=value)).stdout, b"a\nb\n")


class SharedFiles(end_to_end.Case):
    """No command writes two outputs to one file, nor over an input, unless the output takes its name when it is complete."""

    # The words of each command with an output. A new one needs a row.
    REPLACE = {"sort": "sort IN -o OUT", "merge": "merge IN -o OUT", "group": "group --count IN -o OUT", "uniq": "uniq IN -o OUT",
               "join": "join IN IN -o OUT", "head": "head IN -o OUT", "sample": "sample -n 9 IN -o OUT", "shuf": "shuf IN -o OUT",
               "cat": "cat IN -o OUT"}
    REFUSE = {"convert": "convert IN --format csv -o OUT", "report": "report IN -o OUT", "trace": "trace -q -o OUT -- cat IN",
              "split": "split -l 1 IN -o OUT", "partition": "partition --parts 2 IN -o OUT"}
    OTHERS = {"gen", "disk", "plan", "find"}  # no files are read, or none is written
    LOG = b"fio version 2 iolog\n/data add\n/data open\n/data read 0 4096\n/data close\n"

    def names_of(self, name, data):
        """Names of one new file."""
        path = self.write(name, data)
        (self.folder / f"link-{name}").symlink_to(name)
        (self.folder / f"hard-{name}").hardlink_to(path)
        return [name, f"./{name}", f"folder/../{name}", str(path), f"link-{name}", f"hard-{name}"]

    def setUp(self):
        super().setUp()
        (self.folder / "folder").mkdir()

    def test_each_command_with_an_output_is_tested(self):
        with_output = {command for command in end_to_end.commands() if re.search(r"(?m)^ +-o\b", run(command, "--help").stdout.decode())}
        self.assertFalse(with_output - set(self.REPLACE) - set(self.REFUSE) - self.OTHERS)

    def test_an_output_that_is_an_input_is_complete_or_refused(self):
        for command, line in {**self.REPLACE, **self.REFUSE}.items():
            if not end_to_end.built(command):
                continue
            parts = command in ("split", "partition")
            names = self.names_of("in-1", b"a\nb\n" if command not in ("convert", "report") else self.LOG)
            before = (self.folder / "in-1").read_bytes()
            for name in names:
                with self.subTest(command=command, name=name):
                    words = [{"IN": "in-1", "OUT": name.removesuffix("1") + "{}" if parts else name}.get(word, word) for word in line.split()]
                    refuses = command in self.REFUSE
                    done = run(*words, cwd=self.folder, code=2 if refuses else 0)
                    after = (self.folder / "in-1").read_bytes()
                    if refuses:
                        self.assertIn(b"cannot write over an input (try: another name for ", done.stderr)
                        self.assertEqual(after, before)
                    elif command != "group":
                        self.assertEqual(sorted(after.splitlines()), [b"a", b"b"])
                    self.write("in-1", before)
            for link in ("link-in-1", "hard-in-1"):
                (self.folder / link).unlink()

    def test_two_outputs_are_not_one_file(self):
        table = self.write("table.csv", b"id,name\n1,b\n2,a\n")
        sort = ["-o", "--stats", "--bad-rows", *(["--report"] if end_to_end.built("report") else [])]
        for command, words, options in (("sort", [], sort), ("uniq", [], ["-o", "--bad-rows"]), ("merge", [], ["-o", "--bad-rows"]),
                                        ("group", ["--count"], ["-o", "--bad-rows"]), ("join", [table], ["-o", "--output", "--bad-rows"])):
            for one in options:
                for other in options:
                    for path in ("out.html", "./out.html", "folder/../out.html"):
                        if one == other or {one, other} == {"-o", "--output"}:
                            continue
                        with self.subTest(command=command, one=one, other=other, path=path):
                            done = run(command, "--csv", "--header", "--key", "id", *words, table, one, "out.html", other, path,
                                       cwd=self.folder, code=2)
                            self.assertRegex(done.stderr.decode(), r"cannot write both \S+ and \S+ to it \(try: another name for one of them\)")
                            self.assertFalse((self.folder / "out.html").exists())
        self.assertIn(b"cannot write both", run("sort", table, "--stats", "-", code=2).stderr)
        self.assertIn(b"cannot write both", run("partition", "--csv", "--key", "1", "--parts", "2", table, "-o", "part-{}", "--bad-rows", "./part-00001",
                                                cwd=self.folder, code=2).stderr)
        for path in ("/dev/null", "other"):
            run("sort", table, "-o", "/dev/null", "--stats", path, "--key", "id", cwd=self.folder)
            run("sort", "--csv", table, "-o", "/dev/null", "--bad-rows", path, "--key", "id", cwd=self.folder)

    def test_inputs_by_other_options_are_inputs_too(self):
        lines = self.write("in", b"b\na\n")
        names = self.write("names", os.fsencode(lines) + b"\0")
        seed = self.write("seed", b"0123456789abcdef" * 4)
        for words in (["--files0-from", names, "--stats", names], ["-R", "--random-source", seed, lines, "--stats", seed],
                      ["--files0-from", names, "--stats", lines]):
            with self.subTest(words=words):
                before = [path.read_bytes() for path in (lines, names, seed)]
                self.assertIn(b"cannot write over an input", run("sort", *words, "-o", self.folder / "out", code=2).stderr)
                self.assertEqual([path.read_bytes() for path in (lines, names, seed)], before)

    def test_files_of_descriptors_and_links_are_known(self):
        """An input or output is the file that a descriptor or a link leads to: none is written over."""
        table = b"id,n\n3,a\n\n1,b\n"
        commands = (["sort"], ["sort", "--top", "1"], ["merge"], ["group", "--count"], ["uniq"], ["check"], ["partition", "--parts", "2", "-o", self.folder / "part-{}"])
        for words in commands:
            for given in ([], ["-"]):
                with self.subTest(words=words, given=given):
                    path = self.write("in.csv", table)
                    with open(path, "rb") as file:
                        done = subprocess.run([PROGRAM, *map(str, words), "--csv", "--header", "--key", "id", "--bad-rows", path, *given], stdin=file, capture_output=True)
                    self.assertEqual(done.returncode, 2)
                    self.assertIn(b"cannot write over an input", done.stderr)
                    self.assertEqual(path.read_bytes(), table)
        kept = self.write("kept", b"keep\n")
        for words in (["--bad-rows", kept], ["--stats", kept], *([["--report", kept]] if end_to_end.built("report") else [])):
            with self.subTest(words=words), open(kept, "ab") as file:
                done = subprocess.run([PROGRAM, "sort", "--csv", "--header", "--key", "id", self.write("in.csv", table), *words], stdout=file, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 2)
                self.assertIn(b"cannot write both", done.stderr)
                self.assertEqual(kept.read_bytes(), b"keep\n")
        lines = b"2\n1\n"
        part = self.write("p-1", lines)
        link = self.folder / "link"
        link.symlink_to(part)
        other = self.write("other", b"1\n2\n3\n")
        partition = ["partition", "-k1,1", "--parts", "2", "-o", self.folder / "p-{}"]
        for words in ([*partition, link], [*partition, "--by", "range", "--bounds", part, other], [*partition, "-"]):
            with self.subTest(words=words), open(part, "rb") as file:
                done = subprocess.run([PROGRAM, *map(str, words)], stdin=file, capture_output=True)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(b"cannot write over an input", done.stderr)
                self.assertEqual(part.read_bytes(), lines)


ORDER = "sort merge check debug plan plan_merge ray"
FILES = "sort merge check debug plan plan_merge"
# The options of sort and plan: the modes that obey each, and words that use it.
OPTIONS = {
    "FILE": (None, []),
    "--output": ("sort merge plan plan_merge by ray ray_by", ["-o", "OUT"]),
    "--format": ("sort merge check plan plan_merge ray", ["--format", "u32"]),
    "--jsonl": ("sort merge check plan plan_merge ray", ["--jsonl"]),
    "--record": ("sort merge check plan plan_merge ray", ["--format", "record", "--record", "2", "--key", "0:2"]),
    "--dtype": ("sort merge check plan plan_merge ray", ["--format", "record", "--dtype", "<u2"]),
    "--field-separator": (ORDER, ["-t", ","]),
    "--csv": ("sort merge check plan plan_merge ray", ["--csv"]),
    "--quote": ("sort merge check plan plan_merge ray", ["--csv", "--quote", "'"]),
    "--escape": ("sort merge check plan plan_merge ray", ["--csv", "--escape", "^"]),
    "--lenient": ("sort merge check plan plan_merge ray", ["--csv", "--lenient"]),
    "--bad-rows": ("sort merge check plan plan_merge", ["--csv", "--bad-rows", "skip"]),
    "--tsv": ("sort merge check plan plan_merge ray", ["--tsv"]),
    "--jsonl": ("sort merge check plan plan_merge ray", ["--jsonl"]),
    "--header": ("sort merge check plan plan_merge ray", ["--header"]),
    "--no-header": ("sort merge check plan plan_merge", ["--no-header"]),
    "--locale": (FILES, ["--locale=C"]),
    "--time-format": (FILES, ["--time-format=%Y"]),
    "--number-format": (FILES, ["--number-format=1,234.50"]),
    "--zero-terminated": (ORDER, ["-z"]),
    "--key": (ORDER, ["-k", "2"]),
    "--numeric-sort": (ORDER, ["-n"]),
    "--general-numeric-sort": (ORDER, ["-g"]),
    "--human-numeric-sort": (FILES, ["-h"]),
    "--month-sort": (FILES, ["-M"]),
    "--version-sort": (FILES, ["-V"]),
    "--random-sort": (FILES, ["-R"]),
    "--sort": (ORDER, ["--sort=numeric"]),
    "--ignore-leading-blanks": (ORDER, ["-b"]),
    "--dictionary-order": (ORDER, ["-d"]),
    "--ignore-case": (ORDER, ["-f"]),
    "--ignore-nonprinting": (FILES, ["-i"]),
    "--reverse": (ORDER, ["-r"]),
    "--unique": (FILES, ["-u"]),
    "--keep": ("sort merge plan plan_merge", ["--keep", "last"]),
    "--stable": (FILES + " ray", ["-s"]),
    "--merge": ("sort merge debug plan plan_merge", ["-m"]),
    "--top": ("sort merge debug plan plan_merge by", ["--top", "1"]),
    "--buffer-size": ("sort merge check debug plan plan_merge size by ray ray_by", ["-S", "2G"]),
    "--temporary-directory": ("sort merge debug plan plan_merge by ray ray_by", ["-T", "."]),
    "--parallel": ("sort debug plan by ray ray_by", ["--parallel", "3"]),
    "--files0-from": (FILES, ["--files0-from", "NAMES"]),
    "--random-source": (FILES, ["-R", "--random-source", "NAMES"]),
    "--batch-size": ("sort debug plan", ["--batch-size", "4"]),
    "--compress-program": ("sort debug plan", ["--compress-program", "gzip"]),
    "--device": ("sort merge debug plan plan_merge size", ["--device", "hdd"]),
    "--compress-temporaries": ("sort debug plan", ["--compress-temporaries", "always"]),
    "--pool": ("sort debug plan", ["--pool", "shared"]),
    "--memory-pool": ("sort merge debug", ["--memory-pool", "none"]),
    "--no-decompress": (FILES, ["--no-decompress"]),
    "--encoding": (FILES, ["--encoding", "latin1"]),
    "--compressed": ("sort merge", ["--compressed=gzip"]),
    "--overwrite-device": ("sort merge", ["--overwrite-device"]),
    "--no-sync": ("sort merge", ["--no-sync"]),
    "--progress": ("sort merge debug", ["--progress=always"]),
    "--quiet": ("sort merge check debug", ["--quiet"]),
    "--check": ("sort check", ["-c"]),
    "-C": ("sort", ["-C"]),
    "--resume": ("sort plan", ["--resume"]),
    "--verify": ("sort", ["--verify"]),
    "--columns": ("sort merge", ["--columns", "same"]),
    "--select": ("sort merge", ["--select", "1"]),
    "--stats": ("sort merge debug", ["--stats", "STATS"]),
    "--report": ("sort merge debug", ["--report", "PAGE.html"]),
    "--debug": ("sort merge debug", ["--debug"]),
    "--json": ("sort merge plan plan_merge size", ["--json"]),
    "--by": ("by ray ray_by", ["--by", "b"]),
    "--engine": ("sort by ray ray_by", ["--engine", "local"]),
    "--size": ("size", ["--size", "9T"]),
    "--inputs": ("size", ["--inputs", "3"]),
    "--outputs": ("size", ["--outputs", "3"]),
    "--verbose": ("plan plan_merge size", ["--verbose"]),
    "--help": (None, []),
    "--help-all": (None, []),
}
MODES = {
    "sort": ["sort", "IN"],
    "merge": ["sort", "-m", "IN"],
    "check": ["sort", "-c", "IN"],
    "debug": ["sort", "--debug", "IN"],
    "by": ["sort", "--by", "a", "t.csv", "-o", "OUT.csv"],
    "ray": ["sort", "--engine", "ray", "IN", "-o", "OUT"],
    "ray_by": ["sort", "--engine", "ray", "--by", "a", "t.csv", "-o", "OUT"],
    "plan": ["plan", "IN"],
    "plan_merge": ["plan", "-m", "IN"],
    "size": ["plan", "--size", "8T", "-S", "2G", "--device", "array24"],
}
# Options that choose another mode, and the modes in which they do.
CHOOSERS = {"--check": ("sort", "merge", "debug"), "-C": ("sort", "check", "merge", "debug"), "--debug": ("sort", "merge"),
            "--merge": ("sort", "debug", "plan"), "--by": ("sort", "merge", "debug", "check"), "--size": ("plan", "plan_merge"),
            "--engine": ("sort", "check", "merge", "debug"), "--inputs": ("plan", "plan_merge"), "--outputs": ("plan", "plan_merge")}


class Modes(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.write("IN", b"b 2\na 1\n")
        self.write("t.csv", b"a,b\n1,2\n")
        self.write("NAMES", b"IN\0" * 8)
        # A stand-in for the Python package, which prints its arguments.
        python = self.folder / "bin" / "python3"
        python.parent.mkdir()
        python.write_text("#!/bin/sh\nshift 2\nprintf '%s\\n' \"$@\"\n")
        python.chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{python.parent}:{os.environ['PATH']}")

    def done(self, *words):
        return run(*words, code=(0, 1, 2), cwd=self.folder, env=self.environment, stdin=b"")

    def options_of(self, command):
        shown = run(command, "--help-all").stdout.decode()
        return set(re.findall(r"^  (?:-\w, +| {4})?(--[a-z0-9-]+|-\w)\b", shown, re.MULTILINE))

    def test_every_option_in_every_mode(self):
        cases = []
        for command in ("sort", "plan"):
            options = self.options_of(command)
            self.assertGreater(len(options), 40)
            self.assertEqual(options - set(OPTIONS), set(), "options that this test does not know")
            for mode, words in MODES.items():
                if words[0] == command:
                    cases += [(mode, option) for option in sorted(options) if OPTIONS[option][0] is not None]

        def refused(case):
            mode, option = case
            words = [word for word in MODES[mode] if not (option == "--files0-from" and word == "IN")]
            return self.done(*words, *OPTIONS[option][1])

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for (mode, option), done in zip(cases, pool.map(refused, cases)):
                if mode in CHOOSERS.get(option, ()):
                    continue
                message = done.stderr.decode()
                obeyed = mode in OPTIONS[option][0].split()
                with self.subTest(mode=mode, option=option):
                    self.assertEqual("cannot take this option" not in message, obeyed, message)
                    self.assertTrue(obeyed or done.returncode == 2)
        self.assertGreater(len(cases), 450)

    def test_an_order_that_a_sort_makes_is_the_order_that_a_check_wants(self):
        """An obeyed option has an effect: the output differs, and only a check with the same option finds it in order."""
        for words, data in ((["-r"], b"a\nb\n"), (["-n"], b"10\n9\n"), (["-g"], b"1e3\n9e1\n"), (["-h"], b"1K\n5\n"),
                            (["-M"], b"APR\nMAR\n"), (["-V"], b"a10\na9\n"), (["--sort=numeric"], b"10\n9\n"), (["-f"], b"B\na\n"),
                            (["-d"], b"(b\na\n"), (["-i"], b"\1b\na\n"), (["-b"], b" b\na\n"), (["-k2"], b"a 2\nb 1\n"),
                            (["-t,", "-k2"], b"a,2\nb,1\n"), (["-t,", "-k2", "-s", "-k2"], b"a,2\nb,1\n"),
                            (["--csv", "--key", "2:n"], b'"1",10\n2,9\n'), (["--tsv", "--key", "2:n"], b"1\t10\n2\t9\n"),
                            (["--format", "u32"], struct.pack("<2I", 1, 256)), (["--format", "record", "--dtype", "<u2"], struct.pack("<4H", 2, 256, 1, 3)),
                            (["--format", "record", "--record", "2", "--key", "1:1"], b"abba")):
            with self.subTest(words=words):
                self.write("IN", data)
                out = self.folder / "OUT"
                self.assertEqual(self.done("sort", *words, "IN", "-o", "OUT").returncode, 0)
                self.assertEqual(self.done("sort", "-c", *words, "OUT").returncode, 0)
                plain = words[:2] if words[0] == "-t," else []
                if words[0] in ("--csv", "--tsv", "-b"):
                    continue
                if words[0].startswith("--format") or words[0] == "--dtype":
                    self.assertNotEqual(self.done("sort", "IN").stdout, out.read_bytes())
                else:
                    self.assertEqual(self.done("sort", "-C", *(plain[:1]), "OUT").returncode, 1, out.read_bytes())

    def test_plans_of_a_size_and_the_package_get_what_they_take(self):
        plain = self.done(*MODES["size"]).stdout
        for words in (["-S", "3G"], ["--device", "hdd"], ["--inputs", "3"], ["--outputs", "3"], ["--json"], ["--size", "9T"]):
            given = [word for word in MODES["size"]]
            if words[0] in given:
                given[given.index(words[0]) + 1] = words[1]
            else:
                given += words
            self.assertNotEqual(self.done(*given).stdout, plain, words)
        for mode in ("by", "ray", "ray_by"):
            plain = self.done(*MODES[mode]).stdout
            self.assertIn(b"--output=OUT", plain)
            for option, (modes, words) in OPTIONS.items():
                if modes is None or mode not in modes.split() or option in ("--output", "--engine", "--by"):
                    continue
                if (mode, option) == ("ray", "--stable"):
                    continue  # a cluster's sort always is
                self.assertNotEqual(self.done(*MODES[mode], *words).stdout, plain, (mode, option))

    def test_a_message_names_what_to_leave_out(self):
        for words, parts in ((["sort", "--by", "a", "--csv", "t.csv", "-o", "OUT.csv"], ["--by: cannot take this option with --csv", "--key a in place of --by"]),
                             (["plan", "--size", "8T", "-S", "2G", "--device", "array24", "--csv"], ["--csv: cannot take this option with --size"]),
                             (["sort", "-c", "IN", "--pool", "shared"], ["--pool: cannot take this option with -c"])):
            done = self.done(*words)
            self.assertEqual(done.returncode, 2)
            for part in parts:
                self.assertIn(part, done.stderr.decode())

    def test_under_the_name_sort_options_of_gnu_sort_stay_without_effect(self):
        link = self.folder / "bin" / "sort"
        link.symlink_to(pathlib.Path(PROGRAM).absolute())
        self.write("IN", b"a\nb\n")
        for words in (["-c", "-S", "1M", "-T", "/nope", "--parallel=2", "-m", "--batch-size", "3", "--compress-program", "x"],
                      ["-m", "--parallel=2", "--compress-program", "x"], ["-T", "/nope"], ["-o", "x.gz"]):
            done = subprocess.run([link, *words, "IN"], cwd=self.folder, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, b""), words)
        for words in (["-c", "--resume"], ["-c", "-o", "x"], ["-c", "--pool", "shared"]):
            self.assertEqual(subprocess.run([link, *words, "IN"], cwd=self.folder, capture_output=True).returncode, 2, words)


BINARIES = {
    "x.parquet": (b"PAR1" + bytes(20) + b"\1\0\0\0PAR1", "penstock sort --by"),
    "x.arrow": (b"ARROW1\0\0" + bytes(20), "--by"),
    "x.zip": (b"PK\x03\x04" + bytes(20), "unzip -p"),
    "x.npy": (b"\x93NUMPY\x01\0" + bytes(20), "--format"),
    "x.db": (b"SQLite format 3\0" + bytes(20), "sqlite3"),
    "x.so": (b"\x7fELF\2\1\1\0" + bytes(20), "--no-decompress"),
    "x.lzma": (b"\x5d\0\0\x80\0" + b"\xff" * 8 + bytes(20), "xz --format=lzma"),
    "x.lz4": (b"\x02\x21\x4c\x18" + bytes(20), "lz4 -dc"),
    "x.Z": (b"\x1f\x9d\x90" + bytes(20), "gzip -dc"),
}


class Binaries(end_to_end.Case):
    def test_data_that_are_no_lines_are_refused_and_the_way_is_named(self):
        for name, (data, way) in BINARIES.items():
            path = self.write(name, data)
            for words in (["sort"], ["sort", "--csv"], ["sort", "-c"], ["sort", "-m"], ["merge"], ["group", "--count", "-k1"], ["check"],
                          ["partition", "--parts", "2", "-o", self.folder / "part-{}"], ["plan"]):
                with self.subTest(name=name, words=words):
                    done = run(*words, path, code=2)
                    self.assertIn(way, done.stderr.decode())
                    self.assertIn("data as lines of text", done.stderr.decode())
                    self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
                    self.assertEqual(done.stdout, b"")
            with self.subTest(name=name):
                self.assertEqual(run("join", path, path, code=2).stdout, b"")
                with open(path, "rb") as stdin:
                    for words in (["sort"], ["sort", "--format", "u64"])[:1 + name.endswith(".npy")]:
                        done = subprocess.run([PROGRAM, *words], stdin=stdin, capture_output=True)
                        self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
                # --no-decompress or a format overrides the check; the header of np.save() is no item of any format.
                self.assertEqual(run("sort", "--no-decompress", path).stdout, data + b"\n")
                as_bytes = ["--format", "record", "--record", "1", "--key", "0:1", *["--no-decompress"] * name.endswith(".npy")]
                self.assertEqual(len(run("sort", *as_bytes, path).stdout), len(data))
                link = self.folder / "sort"
                if not link.exists():
                    link.symlink_to(pathlib.Path(PROGRAM).absolute())
                under_its_name = subprocess.run([link, path], capture_output=True)
                self.assertEqual((under_its_name.returncode, under_its_name.stdout, under_its_name.stderr), (0, data + b"\n", b""))
                # A pipe has no end to look at: text that begins as Parquet does stays text.
                data += b"\x15" * data.startswith(b"PAR1")
                for words in (["sort"], ["merge"], ["group", "--count"], ["check"]):
                    done = run(*words, stdin=data, code=2)
                    self.assertIn("data as lines of text", done.stderr.decode())
                    self.assertEqual(done.stdout, b"")
        text = b"PAR1 is a region\nPK\n"
        self.assertEqual(run("sort", self.write("text", text)).stdout, text)
        self.assertEqual(run("sort", stdin=text).stdout, text)

    def test_nuls_in_lines_cause_a_notice(self):
        path = self.write("in", b"b\0\na\n")
        for words in (["sort"], ["sort", "-m", "-r"], ["merge", "-r"], ["group", "--count", "-k1"], ["check", "-r"]):
            done = run(*words, path)
            self.assertEqual(done.stderr.decode().count("but contains NUL bytes"), 1, words)
        for words in (["sort", "-z"], ["sort", "--quiet"], ["sort", "--format", "record", "--record", "5", "--key", "0:1"]):
            self.assertEqual(run(*words, path).stderr, b"", words)

    def test_an_encoding_that_is_not_read_is_named_once(self):
        for encoding in ("UTF-16", "UTF-16LE", "UTF-32"):
            path = self.write("in", "id,a\n2,x\n1,y\n".encode(encoding))
            hint = "iconv -f UTF-32 -t UTF-8 " if encoding == "UTF-32" else f"(try: --encoding {encoding})"
            for words in (["sort", "--csv", "--header", "--key", "id"], ["group", "--csv", "--header", "--key", "1", "--count"]):
                told = run(*words, path, code=2).stderr.decode()
                self.assertEqual((told.count("\n"), told.count(hint)), (1, 1), told)
            told = run("sort", path).stderr.decode()
            self.assertEqual((told.count("\n"), told.count(hint)), (1, 1), told)

    def test_a_name_of_compressed_data_without_compression_is_told(self):
        path = self.write("in", b"b\na\n")
        for command in (["sort"], ["merge", "-r"], ["cat"]):
            for end in ("gz", "zst", "lz4", "xz", "bz2"):
                out = self.folder / f"out.{end}"
                told = run(*command, path, "-o", out).stderr.decode()
                self.assertIn("is written uncompressed (try: -Z", told)
            self.assertEqual(run(*command, path, "-Z", "-o", self.folder / "z.gz").stderr, b"")
        self.assertEqual(run("sort", "--quiet", path, "-o", self.folder / "out.gz").stderr, b"")

    def test_a_folder_for_temporaries_is_looked_at_for_small_inputs(self):
        path = self.write("in", b"b\na\n")
        for command in (["sort"], ["merge", "-r"], ["group", "--count", "-k1"], ["join", path]):
            told = run(*command, path, "-T", self.folder / "nope", code=2).stderr.decode()
            self.assertIn("nope: cannot use this directory", told)
        self.assertIn("this directory", run("sort", path, "-T", path, code=2).stderr.decode())


class Mistakes(end_to_end.Case):
    def test_a_mistake_is_answered_with_what_works(self):
        path = self.write("in", b"b\t2\na\t1\n")
        for words, parts in ((["sort", "-t", "\\t", path], ["-t $'\\t'", "--tsv"]),
                             (["sort", "-t", "::", path], ["one byte"]),
                             (["sort", "--tmp", "x", path], ["no option --tmp (did you mean --temporary-directory?)"]),
                             (["sort", "--jobs", "2", path], ["did you mean --parallel?"]),
                             (["sort", "--locale", "en_US.UTF-8", path], ["--locale=en_US.UTF-8"]),
                             (["sort", "--header", "2", path], ["--header=2"]),
                             (["sort", "-Z", "zstd", path], ["--compressed=zstd"]),
                             (["sort", "-Z=zstd", path], ["--compressed=zstd"]),
                             (["find", "-e", "a", "-e", "b", path], ["-e 'this|that'"]),
                             (["sort", "-o", "x", "-o", "y", path], ["-o: given more than once"])):
            with self.subTest(words=words):
                told = run(*words, code=2, cwd=self.folder).stderr.decode()
                for part in parts:
                    self.assertIn(part, told)
        self.assertEqual(run("sort", "-k9", path).stdout, b"a\t1\nb\t2\n")

    def test_a_long_line_is_limited_by_memory_alone(self):
        long = self.write("long", b"a " + b"x" * (5 << 20) + b"\n")
        for words in (["merge", long, long], ["sort", "-m", long, long], ["join", long, long], ["group", "--count", "-k1", long],
                      ["partition", "--parts", "2", long, "-o", self.folder / "part-{}"]):
            with self.subTest(words=words[:1]):
                run(*words, "-S", "512M")


if __name__ == "__main__":
    end_to_end.main("command_line_end_to_end")
