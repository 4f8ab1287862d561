#!/usr/bin/env python3
"""Runs the commands of pages in docs/ and compares what they print: tutorial_test.py PENSTOCK.

A block of ```console has commands, each behind "$ ", and behind each what it prints, on either stream. "..." stands for anything within
a line; a last line "[exit code N]" says how it ends, if not with 0.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import end_to_end

PAGES = pathlib.Path(__file__).resolve().parent.parent / "docs"


def commands_of(page):
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


class Tutorial(end_to_end.Case):
    def test_commands_print_what_the_page_says(self):
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "penstock").symlink_to(os.path.abspath(sys.argv[1]))
        work = self.folder / "work"
        work.mkdir()
        environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", LC_ALL="C")
        commands = list(commands_of((PAGES / "tutorial.md").read_text()))
        self.assertGreater(len(commands), 20)
        for command, wanted in commands:
            done = subprocess.run(["bash", "-c", command], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
            printed = done.stdout + (f"[exit code {done.returncode}]\n" if done.returncode != 0 else "")
            pattern = "".join(".*" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", wanted))
            self.assertTrue(re.fullmatch(pattern, printed), f"$ {command}\n{printed}\nwanted:\n{wanted}")


if __name__ == "__main__":
    end_to_end.main("tutorial")
