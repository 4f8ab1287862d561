#!/usr/bin/env python3
"""The help from end to end: help_test.py PENSTOCK [TEST...].

Its lines fit a terminal, it has every option, its examples run, and words of other programs are answered with ours.
"""

import contextlib
import fcntl
import gzip
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest

import end_to_end
from end_to_end import commands, run

PROGRAM = pathlib.Path(sys.argv[1]).resolve()


def shown(command, option="--help-all"):
    return run(*([command] if command else []), option).stdout.decode()


def squeezed(text):
    return re.sub(r"\s+", " ", text)


def examples_of(command):
    """The command lines below "Examples:"."""
    found = re.search(r"^Examples:\n((?:  .*\n)+)", shown(command, "--help"), re.MULTILINE)
    return re.findall(r"^  (?! )(.*)$", found[1], re.MULTILINE) if found else []


class Help(end_to_end.Case):
    def test_lines_fit_80_columns(self):
        for command in ["", *commands()]:
            for option in ("--help", "--help-all"):
                for line in shown(command, option).splitlines():
                    self.assertLessEqual(len(line), 80, (command, option, line))

    def test_lines_fit_a_narrower_terminal(self):
        for columns, wanted in ((60, 60), (70, 70), (40, 60), (200, 80)):
            ours, its = pty.openpty()
            fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
            child = subprocess.Popen([PROGRAM, "group", "--help-all"], stdout=its, stdin=subprocess.DEVNULL)
            os.close(its)
            text = b""
            with contextlib.suppress(OSError):  # the terminal's end
                while piece := os.read(ours, 4096):
                    text += piece
            os.close(ours)
            self.assertEqual(child.wait(timeout=60), 0)
            # Examples are command lines, and are not wrapped.
            lines = [line for line in text.decode().splitlines() if not line.startswith("  penstock ")]
            self.assertLessEqual(max(map(len, lines)), wanted)
            self.assertGreater(max(map(len, lines)), wanted - 10)

    def test_help_all_has_each_option_and_cuts_no_word(self):
        for command in commands():
            text = squeezed(shown(command))
            completed = run("help", "--completion", "fish").stdout.decode()
            for option in re.findall(rf"__fish_seen_subcommand_from {command}' -(?:s (?P<s>\S+)|l (?P<l>\S+))", completed):
                name = f"-{option[0]}" if option[0] else f"--{option[1]}"
                self.assertRegex(text, rf"(?<![\w-]){re.escape(name)}(?![\w-])", command)
            page = run("help", "--man", command).stdout.decode()
            section = page.split(".SH OPTIONS\n")[1].split(".SH EXIT STATUS")[0]
            helps = re.findall(r"^\.TP\n.*\n(.*)$", section, re.MULTILINE)
            self.assertTrue(helps)
            for one in helps:
                plain = one.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\").removeprefix("\\&")
                self.assertIn(squeezed(plain).split(": ")[-1].strip(), text, command)

    def test_the_help_is_a_part_of_all_and_says_where_the_rest_is(self):
        for command in commands():
            part, whole = shown(command, "--help"), shown(command)
            more = f"\nMore options: penstock {command} --help-all\n"
            names = [set(re.findall(r"^ {2,6}(-[^ ,\[]+)", text, re.MULTILINE)) for text in (part, whole)]
            self.assertLessEqual(names[0], names[1])
            self.assertEqual(more in part, len(names[1] - names[0]) > 1, command)
            self.assertNotIn(more, whole)
            self.assertIn("Exit codes: ", part)
            self.assertEqual(run("help", command).stdout.decode(), part)
        self.assertLess(len(shown("sort", "--help")), 0.7 * len(shown("sort")))

    def test_h_alone_is_the_help_where_it_would_wait_for_a_terminal(self):
        ours, its = pty.openpty()
        done = subprocess.run([PROGRAM, "sort", "-h"], stdin=its, stdout=subprocess.PIPE, timeout=60)
        os.close(ours)
        os.close(its)
        self.assertEqual(done.stdout, run("sort", "--help").stdout)
        self.assertEqual(run("sort", "-h", stdin=b"2K\n9\n").stdout, b"9\n2K\n")

    def test_usage_says_which_words_are_required(self):
        for command, wanted in (("sort", "[FILE]..."), ("disk", "DIR"), ("check", "[FILE]"), ("replay", "TRACE"), ("find", "[PATTERN FILE...]")):
            self.assertEqual(shown(command).splitlines()[0], f"Usage: penstock {command} [OPTION]... {wanted}")

    def test_values_are_shown(self):
        for part in ("--header[=N]", "--memory-pool NAME[:SIZE]", "--locale[=NAME]", "--compressed[=FORMAT]", "--check[=HOW]"):
            self.assertIn(part, shown("sort"))

    def test_words_are_read_once(self):
        for command in ["", *commands()]:
            self.assertIsNone(re.search(r"\b(behind|beside|tells?|stands?)\b", shown(command)), command)


# Parts of examples, and smaller ones with the same effect.
SMALLER = {"-S 2G": "-S 512M", "| man -l -": "| cat"}
TRACES = ("trace", "report", "convert", "replay", "compare")


class Examples(end_to_end.Case):
    def setUp(self):
        super().setUp()
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "penstock").symlink_to(PROGRAM)
        self.environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}")
        rows = "id,customer,price\n1,ann,12.5\n2,bob,5\n3,ann,30\n"
        lines = "b 1\nneedle 2\na ERROR 42\nb 1\n"
        for name, text in (("orders.csv", rows), ("customers.csv", "customer,city\nbob,Rome\nann,Oslo\n"), ("january.csv", rows),
                           ("february.csv", rows.replace("\n1,", "\n4,").replace("\n2,", "\n5,").replace("\n3,", "\n6,")),
                           ("big.txt", lines), ("table.txt", "x,10\ny,9\n"), ("sizes.txt", "10\n9\n100\n"), ("access.log", lines),
                           ("january.txt", "a\nneedle\n"), ("february.txt", "b\nneedle\n"), ("sorted.txt", "a\nb\n"),
                           ("left.txt", "a 1\nb 2\n"), ("right.txt", "b 3\n"), ("notes.csv", "customer,note\nann,new\n"),
                           ("strace.log", '7 1700000000.000001 openat(AT_FDCWD, "x", O_RDONLY) = 3</tmp/x> <0.000010>\n'
                                          '7 1700000000.000101 read(3</tmp/x>, ""..., 512) = 512 <0.000020>\n'
                                          "7 1700000000.000301 +++ exited with 0 +++\n")):
            self.write(name, text.encode())
        for name in ("names.txt.gz", "access.log.gz", "server.log.gz", "january.gz"):
            self.write(name, gzip.compress(lines.encode()))
        run("cat", "big.txt", "--compressed=zstd", "-o", "february.zst", cwd=self.folder)
        for name in ("keys.u64", "sorted.u64", "big.u64"):
            self.write(name, struct.pack("<3Q", 1, 2, 3))

    def make_traces(self):
        run("trace", "-q", "-o", "run.trace", "--", "cat", "big.txt", cwd=self.folder)
        for name in ("before", "after"):
            shutil.copy(self.folder / "run.trace", self.folder / f"{name}.trace")

    def shell(self, line):
        for large, small in SMALLER.items():
            line = line.replace(large, small)
        return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, timeout=300)

    def end_when_traced(self, child):
        """Ends a process once it has a tracer, or after ten seconds."""
        for _ in range(100):
            if "TracerPid:\t0\n" not in pathlib.Path(f"/proc/{child.pid}/status").read_text():
                break
            time.sleep(0.1)
        child.terminate()

    def check(self, command):
        lines = examples_of(command)
        self.assertTrue(lines, command)
        for line in lines:
            with self.subTest(line=line):
                if "-p 1234" in line:
                    child = subprocess.Popen(["sleep", "60"])
                    ending = threading.Thread(target=self.end_when_traced, args=(child,))
                    ending.start()
                    done = self.shell(line.replace("1234", str(child.pid)))
                    ending.join()
                    child.wait()
                else:
                    done = self.shell(line)
                end_to_end.skip_if_left_out(done.stderr)
                self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_examples_of_the_program(self):
        self.check("")

    def test_examples_of_sorts_and_files(self):
        self.write("profile.json", json.dumps({"kind": "penstock device profile", "version": 1, "read_bytes_per_s": 2e9,
                                               "write_bytes_per_s": 1e9, "switch_seconds": 0}).encode())
        for command in commands():
            # disk_plan_test has the examples of disk: they move gigabytes, and run while no other test does.
            if command not in (*TRACES, "disk"):
                self.check(command)

    def test_examples_of_traces(self):
        self.make_traces()
        for command in TRACES:
            self.check(command)


class Words(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.path = self.write("in", b"a;1\nb;3\nc;2\n")

    def test_short_forms(self):
        plain = run("--version").stdout
        for words in (["-V"], ["version"]):
            self.assertEqual(run(*words).stdout, plain)
        self.assertIn(b'"compiler"', run("version", "--json").stdout)
        for words, same in ((["--threads", "1"], ["--parallel", "1"]), (["--memory", "512M"], ["-S", "512M"]), (["--desc"], ["-r"]),
                            (["--delimiter", ";", "-k2"], ["-t", ";", "-k2"]), (["-q", "-S", "900T"], ["--quiet", "-S", "900T"])):
            ours, theirs = run("sort", *words, self.path), run("sort", *same, self.path)
            self.assertEqual((ours.stdout, ours.stderr), (theirs.stdout, theirs.stderr), words)
        self.assertEqual(run("sort", "-V", self.write("v", b"v10\nv9\n")).stdout, b"v9\nv10\n")
        for command in ("merge", "join", "group", "partition"):
            for name in ("--memory", "--delimiter", "--quiet"):
                self.assertIn(name, shown(command))

    def test_under_the_name_sort_letters_are_those_of_gnu_sort(self):
        link = self.folder / "sort"
        link.symlink_to(PROGRAM)
        versions = self.write("v", b"v10\nv9\n")
        self.assertEqual(subprocess.run([link, "-V", versions], capture_output=True).stdout, b"v9\nv10\n")
        done = subprocess.run([link, "--help"], capture_output=True, text=True)
        self.assertNotIn("penstock sort --", done.stdout.split("Exit codes")[0])
        self.assertIn("More options: sort --help-all\n", done.stdout)

    def test_commands_of_other_programs_lead_to_ours(self):
        for word in ("tail", "shuffle", "count", "wc", "top", "distinct", "grep", "search", "generate"):
            told = run(word, "x", code=2).stderr.decode()
            found = re.fullmatch(rf"penstock: no command {word} \(try: (penstock .*)\)\n", told)
            self.assertTrue(found, told)
            line = found[1].replace("REGEXP", "a").replace("--key COLUMN", "-k 1").replace("TEXT", "a")
            line = line.replace("FILE", "out" if word == "generate" else "in").replace("penstock", str(PROGRAM), 1)
            done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder, capture_output=True)
            end_to_end.skip_if_left_out(done.stderr)
            self.assertEqual(done.returncode, 0, (line, done.stderr))
        self.assertIn("(did you mean merge?)", run("mrge", code=2).stderr.decode())

    def test_options_of_other_programs_lead_to_ours(self):
        for command, option, ours in (("sort", "--tmp", "--temporary-directory"), ("sort", "--mem", "--memory"), ("sort", "--jobs", "--parallel"),
                                      ("sort", "--sep", "--delimiter"), ("sort", "--limit", "--top"), ("sort", "--column", "--key"),
                                      ("group", "--avg", "--mean"), ("join", "--outer", "--full"),
                                      ("join", "--on", "--key"), ("sort", "--gzip", "--compressed=gzip")):
            told = run(command, option, "x", self.path, code=2).stderr.decode()
            self.assertIn(f"no option {option} (did you mean {ours}?)", told)
            for name in re.findall(r"--?[\w-]+", ours):
                self.assertIn(name, shown(command))
        # A command without our option has no such suggestion.
        self.assertNotIn("--full", run("sort", "--outer", self.path, code=2).stderr.decode())


class Completions(end_to_end.Case):
    def completed(self, *words):
        script = run("help", "--completion", "bash").stdout.decode()
        quoted = " ".join(f"'{word}'" for word in words)
        done = subprocess.run(["bash", "-c", f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _penstock; echo \"${{COMPREPLY[@]}}\""],
                              cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.split()

    def test_values_are_offered_instead_of_files(self):
        self.write("u-file", b"")
        self.assertEqual(self.completed("penstock", "sort", "--format", "u"), ["u32", "u64", "u128"])
        self.assertEqual(self.completed("penstock", "sort", "--format", "=", "u"), ["u32", "u64", "u128"])
        self.assertEqual(self.completed("penstock", "partition", "--by", "h"), ["hash"])
        self.assertEqual(self.completed("penstock", "sort", "--compressed", "=", ""), ["gzip", "zstd", "lz4"])
        # A flag's optional value follows "=", and the next word is a file.
        self.assertEqual(self.completed("penstock", "sort", "--compressed", "u"), ["u-file"])
        for words in (("sort", "--device"), ("replay", "--simulate")):
            self.assertLess({"nvme", "u-file"}, set(self.completed("penstock", *words, "")))
        for words in (("sort", "--key"), ("sort", "--parallel"), ("find", "-e")):
            self.assertEqual(self.completed("penstock", *words, "u"), [])

    def test_clauses_have_both_parentheses(self):
        for shell in ("zsh", "fish"):
            for line in run("help", "--completion", shell).stdout.decode().splitlines():
                for clause in re.findall(r"(?<!\\)\[(.*?)(?<!\\)\]:|-d '(.*)'$", line):
                    text = "".join(clause)
                    self.assertEqual(text.count("("), text.count(")"), line)


class Reports(end_to_end.Case):
    def test_lines_fit_80_columns(self):
        for words in (["doctor"], ["doctor", "-T", self.folder / "missing"],
                      ["plan", "--verbose", "--size", "8T", "-S", "2G", "--device", "array24"],
                      ["plan", "--verbose", "--size", "64T", "--inputs", "8000", "-S", "8G", "--device", "hdd"],
                      ["plan", "--verbose", "--size", "1T", "--inputs", "3", "--outputs", "100", "-S", "4G", "--device", "array24"]):
            for line in run(*words).stdout.decode().splitlines():
                if str(self.folder) not in line:
                    self.assertLessEqual(len(line), 80, (words, line))


if __name__ == "__main__":
    end_to_end.main("help_end_to_end")
