#!/usr/bin/env python3
"""Runs the commands of the tutorials in docs/ and compares what they print: tutorial_test.py PENSTOCK CMAKE BUILD [TEST...].

A block of ```console has commands, each after "$ ", followed by its output on both streams. "..." stands for anything within a line; a
last line "[exit code N]" is its exit code, if not 0. Other blocks whose first line is a comment with the name of a file are that file.
Programs are compiled with the files that BUILD installs.
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


CMAKE, BUILD = sys.argv[2:4]
del sys.argv[2:4]  # the rest is as in other tests


class Tutorial(end_to_end.Case):
    def setUp(self):
        super().setUp()
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "penstock").symlink_to(os.path.abspath(sys.argv[1]))
        self.environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", LC_ALL="C")
        self.work = self.folder / "work"
        self.work.mkdir()

    def run_page(self, name, commands_min):
        page = (PAGES / name).read_text()
        for path, text in re.findall(r"^```\w+\n(?://|#|/\*) (\w+\.\w+)(?: \*/)?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
            (self.work / path).write_text(text)
        commands = list(commands_of(page))
        self.assertGreaterEqual(len(commands), commands_min)
        for command, wanted in commands:
            done = subprocess.run(["bash", "-c", command], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
            end_to_end.skip_if_left_out(done.stdout.encode())
            printed = done.stdout + (f"[exit code {done.returncode}]\n" if done.returncode != 0 else "")
            pattern = "".join(".*" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", wanted))
            self.assertTrue(re.fullmatch(pattern, printed), f"$ {command}\n{printed}\nwanted:\n{wanted}")

    def test_files_larger_than_memory(self):
        self.run_page("tutorial.md", 20)

    def test_detective(self):
        self.run_page("tutorial-detective.md", 10)

    def test_messages(self):
        self.run_page("troubleshooting.md", 8)

    def test_from_gnu_sort(self):
        self.run_page("gnu-sort.md", 5)

    def install(self):
        if not (pathlib.Path(BUILD) / "libpenstock.a").exists():
            self.skipTest("this build installs nothing")
        tree = self.folder / "installed"
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", tree], check=True, stdout=subprocess.DEVNULL)
        self.environment.update(PKG_CONFIG_PATH=f"{tree}/lib/pkgconfig", LD_LIBRARY_PATH=f"{tree}/lib")

    def test_systems_programmer(self):
        self.install()
        self.run_page("tutorial-systems.md", 10)

    def test_numpy(self):
        python = PAGES.parent / "build/sphinx/bin/python3"
        if not python.exists():
            self.skipTest("no NumPy in build/sphinx (tools/setup.sh check)")
        (self.folder / "bin/python3").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
        (self.folder / "bin/python3").chmod(0o755)
        self.run_page("numpy.md", 8)


if __name__ == "__main__":
    end_to_end.main("tutorial")
