#!/usr/bin/env python3
"""The manual: manual_test.py PENSTOCK [TEST...]. It builds without a warning, its links have targets, it is short, its words are spelled correctly."""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import end_to_end
from end_to_end import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


class Manual(end_to_end.Case):
    def test_it_builds_without_a_warning(self):
        if not shutil.which("doxygen") or not (ROOT / "build/sphinx/installed").exists():
            self.skipTest("no Doxygen, or no Sphinx in build/sphinx (tools/setup.sh check)")
        done = subprocess.run([sys.executable, ROOT / "tools/manual.py", sys.argv[1], self.folder], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        index = (self.folder / "html/index.html").read_text()
        for page in [*(ROOT / "docs").glob("*.md")]:
            if page.name != "README.md":
                self.assertIn(f'href="{page.stem}.html"', index, "docs/README.md has every page")
        for notebook in (ROOT / "docs/notebooks").glob("*.ipynb"):
            self.assertIn(f'href="notebook-{notebook.stem}.html"', index)
        reference = (self.folder / "html/cpp.html").read_text()
        for header in (ROOT / "include/penstock").glob("*.h"):
            if header.name != "penstock.h":
                self.assertIn(f"penstock/{header.name}", reference)
        functions = (ROOT / "src/interfaces/c/symbols.txt").read_text().split()
        reference = (self.folder / "html/c.html").read_text()
        self.assertEqual([name for name in functions if f'id="c.{name}"' not in reference], [])
        commands = end_to_end.commands()
        index = (self.folder / "html/commands.html").read_text()
        for command in commands[:-1]:
            self.assertIn(f'href="command-{command}.html"', index)
            page = (self.folder / f"html/command-{command}.html").read_text()
            for option in re.findall(r"^ {2,6}(-[^ ,\[\n]+)", run(command, "--help-all").stdout.decode(), re.MULTILINE):
                self.assertIn(f'id="cmdoption-penstock-{command}-{option.lstrip("-")}"', page)

    def test_links_lead_somewhere(self):
        """Checks links of the pages to files of the tree and to headings; web addresses must be https."""
        links = [(page, link) for page in PAGES
                 for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE))]
        self.assertGreater(len(links), 40)
        for page, link in links:
            with self.subTest(page=page.name, link=link):
                if re.match(r"\w+:", link):
                    self.assertRegex(link, r"^https://[\w.-]+(/\S*)?$")
                    continue
                name, _, anchor = link.partition("#")
                target = page.parent / name if name else page
                self.assertTrue(target.exists())
                if anchor:
                    headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
                    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
                    self.assertIn(anchor, anchors)

    def test_every_page_is_in_the_table_of_contents(self):
        contents = (ROOT / "docs/README.md").read_text()
        self.assertEqual([page.name for page in PAGES[2:] if page.name != "README.md" and f"({page.name})" not in contents], [])

    def test_it_is_short(self):
        words = {page.name: len(page.read_text().split()) for page in PAGES if page.parent.name == "docs"}
        self.assertLess(sum(words.values()), 35_000, f"longest first: {sorted(words.items(), key=lambda item: -item[1])}")

    def test_spelling(self):
        if not shutil.which("codespell"):
            self.skipTest("no codespell")
        done = subprocess.run(["codespell", "--ignore-words", ROOT / "docs/spelling.txt", *PAGES, ROOT / "include", ROOT / "examples",
                               ROOT / "cli"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    end_to_end.main("manual")
