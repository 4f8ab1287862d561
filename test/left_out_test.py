#!/usr/bin/env python3
"""A build that leaves components out (PENSTOCK_TRACE=OFF, PENSTOCK_FIND=OFF) says so: left_out_test.py PENSTOCK [TEST...]."""

import unittest

import end_to_end
from end_to_end import built, run

COMMANDS = ("trace", "convert", "replay", "report", "compare", "find")


class LeftOut(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.left_out = [command for command in COMMANDS if not built(command)]
        self.assertNotEqual(self.left_out, [])

    def refused(self, *words):
        done = run(*words, code=2, skips=False)
        self.assertEqual(done.stdout, b"")
        self.assertIn(b"this build has no ", done.stderr)
        self.assertIn(b"=ON", done.stderr)

    def test_commands_say_so_whatever_follows(self):
        for command in self.left_out:
            for words in ([], ["--help"], ["-o", "x", "--", "ls", "-l"], ["sort", command, "-3"]):
                with self.subTest(command=command, words=words):
                    self.refused(command, *words)

    def test_the_help_does_not_list_them(self):
        for words in (["--help"], ["help"], ["help", "--man"], ["help", "--completion", "bash"]):
            text = run(*words).stdout.decode()
            for command in self.left_out:
                self.assertNotRegex(text, rf"(?m)^ +{command} ")
            self.assertNotIn("did you mean", run(command + "x", code=2).stderr.decode())

    @unittest.skipIf(built("report"), "this build has report pages")
    def test_a_sort_refuses_a_page_before_it_begins(self):
        lines = self.write("lines", b"b\na\n")
        self.refused("sort", lines, "-o", self.folder / "sorted", "--report", self.folder / "page.html")
        for words in (["sort", "--help-all"], ["help", "--man", "sort"]):
            self.assertNotIn(b"--report", run(*words).stdout)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["lines"])


if __name__ == "__main__":
    end_to_end.main("left_out")
