#!/usr/bin/env python3
"""Runs the commands of README.md and of pages in docs/, and compares what they print: tutorial_test.py PENSTOCK CMAKE BUILD [TEST...].

A block of ```console has commands, each after "$ ", followed by its output on both streams. "..." stands for anything within a line; a
last line "[exit code N]" is its exit code, if not 0. Other blocks whose first line is a comment with the name of a file are that file,
and so is what a first command `cat FILE` prints. Programs are compiled with the files that BUILD installs.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import end_to_end

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE = re.compile(r"^```\w+\n(?://|#|/\*) (\w+\.\w+)(?: \*/)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = {"README.md", "docs/tutorial.md", "docs/tutorial-detective.md", "docs/tutorial-systems.md", "docs/troubleshooting.md", "docs/gnu-sort.md",
       "docs/numpy.md", "docs/recipes.md", "docs/faq.md", "docs/sort.md", "test/asked-for.md"}


def commands_of(page):
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


CMAKE, BUILD = sys.argv[2:4]
del sys.argv[2:4]  # the rest is as in other tests


class Tutorial(end_to_end.Case):
    needs_a_disk = True  # a page measures it

    def setUp(self):
        super().setUp()
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "penstock").symlink_to(os.path.abspath(sys.argv[1]))
        self.environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", LC_ALL="C")
        self.work = self.folder / "work"
        self.work.mkdir()

    def run_page(self, name, commands_min):
        self.assertIn(name, RUN)
        page = (ROOT / name).read_text()
        for path, text in FILE.findall(page):
            (self.work / path).write_text(text)
        commands = list(commands_of(page))
        self.assertGreaterEqual(len(commands), commands_min)
        shown = re.fullmatch(r"cat (\w+\.\w+)", commands[0][0])
        if shown:
            (self.work / shown[1]).write_text(commands[0][1])
        for command, wanted in commands:
            done = subprocess.run(["bash", "-c", command], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
            end_to_end.skip_if_left_out(done.stdout.encode())
            printed = done.stdout + (f"[exit code {done.returncode}]\n" if done.returncode != 0 else "")
            pattern = "".join(".*" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", wanted))
            self.assertTrue(re.fullmatch(pattern, printed), f"$ {command}\n{printed}\nwanted:\n{wanted}")

    def test_every_page_with_commands_is_run(self):
        pages = [ROOT / "README.md", ROOT / "test/asked-for.md", *sorted((ROOT / "docs").glob("*.md"))]
        self.assertEqual({str(page.relative_to(ROOT)) for page in pages if any(commands_of(page.read_text()))} - RUN, set())

    def test_readme(self):
        self.run_page("README.md", 3)

    def test_program_of_readme(self):
        """README.md shows a program of the page that compiles and runs it."""
        programs = FILE.findall((ROOT / "README.md").read_text())
        self.assertEqual(len(programs), 1)
        self.assertIn(programs[0], FILE.findall((ROOT / "docs/tutorial-systems.md").read_text()))

    def test_what_people_ask_for(self):
        self.run_page("test/asked-for.md", 45)

    def test_recipes(self):
        self.run_page("docs/recipes.md", 30)

    def test_questions(self):
        self.run_page("docs/faq.md", 3)

    def test_sorting(self):
        self.run_page("docs/sort.md", 2)

    def test_keys_that_make_a_file_csv(self):
        """Types each row of the table in docs/sort.md: a header stays in front, and is sorted with the rows where the table says so."""
        (self.work / "orders.csv").write_text("id,city,price\n1,Oslo,30\n2,Rome,-5\n3,Oslo,99\n")
        rows = re.findall(r"^\| (`-.*`.*?) \| ((?:CSV|lines)\b.*) \|$", (ROOT / "docs/sort.md").read_text(), re.MULTILINE)
        self.assertGreater(len(rows), 5)
        for typed, read_as in rows:
            in_front = not re.search(r"^lines|without a header", read_as)
            for words in re.findall(r"`([^`]+)`", typed):
                with self.subTest(words):
                    done = subprocess.run(["penstock", "sort", *words.split(), "orders.csv"], cwd=self.work, env=self.environment,
                                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                    self.assertEqual(done.stdout.startswith("id,city,price\n"), in_front)

    def test_files_larger_than_memory(self):
        self.run_page("docs/tutorial.md", 20)

    def test_detective(self):
        self.run_page("docs/tutorial-detective.md", 10)

    def test_messages(self):
        self.run_page("docs/troubleshooting.md", 8)

    def test_from_gnu_sort(self):
        self.run_page("docs/gnu-sort.md", 5)

    def install(self):
        if not (pathlib.Path(BUILD) / "libpenstock.a").exists():
            self.skipTest("this build installs nothing")
        tree = self.folder / "installed"
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", tree], check=True, stdout=subprocess.DEVNULL)
        self.environment.update(PKG_CONFIG_PATH=f"{tree}/lib/pkgconfig", LD_LIBRARY_PATH=f"{tree}/lib")

    def test_systems_programmer(self):
        self.install()
        self.run_page("docs/tutorial-systems.md", 10)

    def test_numpy(self):
        python = ROOT / "build/sphinx/bin/python3"
        if not python.exists():
            self.skipTest("no NumPy in build/sphinx (tools/setup.sh check)")
        (self.folder / "bin/python3").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
        (self.folder / "bin/python3").chmod(0o755)
        self.run_page("docs/numpy.md", 8)


if __name__ == "__main__":
    end_to_end.main("tutorial")
