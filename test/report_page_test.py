"""The page of `penstock report`, opened in a real browser (report_page_test.mjs).

report_page_test.py PENSTOCK TRACES NODE_MODULES FOLDER: TRACES makes traces, PENSTOCK makes pages of them. Without node,
playwright-core and Chromium the cases are skipped, visibly. With "none" for NODE_MODULES there are no such cases.
FOLDER keeps the pages and their screenshots.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import end_to_end

PENSTOCK, TRACES, MODULES, FOLDER = sys.argv[1:5]
HERE = pathlib.Path(__file__).resolve().parent
CASES = ("no_error_and_no_request", "plots_are_not_blank", "keys_zoom_and_move", "mouse_zooms_and_tells", "syncs_are_seen",
         "large_traces_reach_single_requests", "narrow_screens", "dark_mode", "headings_are_in_order", "labels_of_phases_are_whole",
         "tables_without_a_script", "tables_sort_and_show_files", "hostile_names_are_text", "traces_side_by_side", "many_files_have_names", "a_sort_is_read_in_seconds")
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

STAGES = ("reading_bytes", "waiting_bytes", "sorting_bytes", "writing_bytes")
STATS = {
    "version": 1, "method": "distribute", "seconds": 12.5, "passes": 2, "seeks": 900, "bytes_read": 1 << 31,
    "bytes_written": 1 << 31, "temp_bytes": 1 << 30, "peak_rss_bytes": 250 << 20, "budget_bytes": 256 << 20, "items": 1 << 28, "bytes": 1 << 31,
    "run_bytes": (1 << 32) / 900,
    "phase_seconds": {"sort": 4.5, "sorters at work": 6.0, "sorters wait for reads": 7.0},
    "phases": [{"phase": "sample", "seconds": 0.1, "bytes_read": 1 << 22, "seeks": 60},
               {"phase": "distribute", "seconds": 5.0, "bytes_read": 1 << 31, "bytes_written": 1 << 31, "seeks": 300},
               {"phase": "sort", "seconds": 7.3, "bytes_read": 1 << 31, "bytes_written": 1 << 31, "seeks": 540}],
    "predicted": {"fewer_passes_memory_bytes": 2600 << 20,
                  "device": {"name": "disk", "source": "a short look", "switch_seconds": 0.004},
                  "phases": [{"phase": "sample", "seconds": 0.1}, {"phase": "distribute", "seconds": 3.9},
                             {"phase": "sort", "seconds": 7.0}],
                  "seconds": 11.0, "passes": 2, "seeks": 880, "bytes_read": 1 << 31, "bytes_written": 1 << 31,
                  "temp_bytes": 1 << 30, "memory_bytes": 256 << 20, "why": "it is larger than memory"},
    "occupancy": {"memory_bytes": 1 << 28, "start_seconds": 5, "bin_seconds": 0.25,
                  **{stage: [(i * k) % 11 * 6e6 for i in range(30)] for k, stage in enumerate(STAGES, 1)},
                  "buckets_seen": 32, "buckets": [[i << 26, 1 << 26] + [5 + i * 0.2 + k * 0.3 for k in range(5)]
                                                  for i in range(32)]},
    "staircases": [{"title": "outputs", "measured_bytes": [64 - i for i in range(64)],
                    "predicted_bytes": [63.5 - i for i in range(64)]}],
}


def run(*words, codes=(0,), **options):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode not in codes:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done


class Pages(unittest.TestCase):
    """Tests without a browser."""

    folder = None

    @classmethod
    def setUpClass(cls):
        if Pages.folder:
            return
        Pages.folder = pathlib.Path(FOLDER)
        shutil.rmtree(Pages.folder, ignore_errors=True)
        Pages.folder.mkdir(parents=True)
        for kind, requests in (("sort", 20_000), ("random", 400_000), ("many", 20_000), ("hostile", 500), ("empty", 0)):
            run(TRACES, "sort" if kind == "empty" else kind, requests, Pages.path(f"{kind}.trace"))
            run(PENSTOCK, "report", Pages.path(f"{kind}.trace"), "-o", Pages.path(f"{kind}.html"))
        run(PENSTOCK, "report", Pages.path("sort.trace"), Pages.path("random.trace"), "-o", Pages.path("both.html"))
        Pages.path("stats.json").write_text(json.dumps(STATS))
        run(PENSTOCK, "report", "--stats", Pages.path("stats.json"), "-o", Pages.path("stats.html"))
        run(PENSTOCK, "report", Pages.path("sort.trace"), "--stats", Pages.path("stats.json"), "-o", Pages.path("trace-and-sort.html"))

    @classmethod
    def path(cls, name):
        return pathlib.Path(FOLDER) / name

    def test_pages_are_smaller_than_their_limit(self):
        for page in self.folder.glob("*.html"):
            self.assertLess(page.stat().st_size, 5_000_000, page.name)

    def test_the_same_trace_makes_the_same_page(self):
        again = run(PENSTOCK, "report", self.path("sort.trace"), "-o", "-").stdout
        self.assertEqual(again, self.path("sort.html").read_bytes())

    def test_a_part_of_a_trace(self):
        page = run(PENSTOCK, "report", self.path("random.trace"), "--requests", "1000..2000", "-o", "-").stdout
        self.assertIn(b"requests 1,000 to 1,999 of 400,000", page)

    def test_the_terminal_version_is_plain_text(self):
        for locale, characters in (("C.UTF-8", "█"), ("C", "#")):
            text = run(PENSTOCK, "report", self.path("hostile.trace"), self.path("sort.trace"), "--width", "100",
                       env=dict(os.environ, LC_ALL=locale)).stdout.decode()
            self.assertNotIn("\x1b", text)
            self.assertIn(characters, text)
            self.assertIn("/data/in.bin", text)
            self.assertTrue(locale == "C.UTF-8" or text.isascii())

    def test_a_sort_is_shown_on_the_terminal_too(self):
        text = run(PENSTOCK, "report", self.path("sort.trace"), "--stats", self.path("stats.json"),
                   env=dict(os.environ, LC_ALL="C")).stdout.decode()
        for shown in ("it is larger than memory", "What held the memory", "32 buckets", "How full the buckets were"):
            self.assertIn(shown, text)
        self.assertTrue(text.isascii())

    def test_statistics_of_a_stranger_make_a_page_or_an_error(self):
        path = self.path("strange.json")
        huge = {"memory_bytes": 1e300, "start_seconds": -1, "bin_seconds": 1e300, "reading_bytes": [1e300, -5, None, "x"],
                "buckets": [[1e300] * 7, [5, -1, 3, 2, 1, 0, 9], [1], 7, [None] * 7], "buckets_seen": -3}
        for occupancy in (huge, 7, {"buckets": 3}, {"reading_bytes": [1]}, {"bin_seconds": 1, "reading_bytes": [0]}):
            for staircases in ([{"title": 7, "measured_bytes": ["x", -1, 1e300]}, 5, {}], "no"):
                path.write_text(json.dumps({"version": 1, "occupancy": occupancy, "staircases": staircases}))
                page = run(PENSTOCK, "report", "--stats", path, "-o", "-").stdout
                for word in (b"nan", b"inf ", b"-inf"):
                    self.assertNotIn(word, page.split(b"<main>")[1].split(b"<script>")[0])
                run(PENSTOCK, "report", "--stats", path)

    # Written by hand, because json.dumps() is recursive, too.
    def test_statistics_of_many_levels_need_no_stack(self):
        path = self.path("deep.json")
        deep = "[" * 100_000 + "]" * 100_000
        for field in ('"phases":@', '"phases":[@]', '"phase_seconds":{"a":@}', '"staircases":@', '"staircases":[@]',
                      '"staircases":[{"title":@,"measured_bytes":@,"streams":@}]', '"predicted":@', '"predicted":{"a":@}',
                      '"predicted":{"phases":@}', '"occupancy":@', '"occupancy":{"start_seconds":@}',
                      '"occupancy":{"reading_bytes":[@]}', '"occupancy":{"buckets":[@]}',
                      '"occupancy":{"buckets":[[@,@,@,@,@,@,@]]}', '"items":@', '"method":@'):
            path.write_text('{"version":1,' + field.replace("@", deep) + "}")
            run(PENSTOCK, "report", "--stats", path, "-o", "-")
            run(PENSTOCK, "report", "--stats", path)
        path.write_text('{"version":' + deep + "}")
        run(PENSTOCK, "report", "--stats", path, codes=(2,))
        path.unlink()

    def test_the_page_of_a_sort_names_the_machine(self):
        lines, page = self.path("lines"), self.path("machine.html")
        lines.write_bytes(b"b\na\n")
        run(PENSTOCK, "sort", lines, "-o", self.path("sorted"), "--report", page)
        self.assertRegex(page.read_text(), rf'<p class="about">[^<]+, [0-9]+ cores? for this process, [0-9.]+ [A-Z]iB of memory, Linux {re.escape(os.uname().release)}</p>')

    def test_many_sorts_share_a_page(self):
        strange = self.path("many.json")
        strange.write_text(json.dumps({**STATS, "phases": [{"phase": f"<phase {i}>", "seconds": i + 1} for i in range(1000)],
                                       "phase_seconds": {f"<thread {i}>": i for i in range(1000)},
                                       "staircases": STATS["staircases"] * 100}))
        for path, count in ((self.path("stats.json"), 200), (strange, 40)):
            page = run(PENSTOCK, "report", *["--stats", path] * count, "-o", "-").stdout
            self.assertLess(len(page), 5_000_000)
            self.assertEqual(page.count(b'<article class="sort">'), count)
        self.assertEqual(page.count(b'<th scope="row">&lt;phase 63&gt;'), 40)
        self.assertEqual(page.count(b"&lt;phase 64&gt;"), 0)

    def test_a_trace_in_a_pipe_is_refused(self):
        pipe = self.path("pipe.trace")
        os.mkfifo(pipe)
        self.addCleanup(os.remove, pipe)
        self.assertIn(b"keep the trace in a file", run(PENSTOCK, "report", pipe, codes=(2,)).stderr)

    def test_what_cannot_be_shown_is_refused(self):
        trace = self.path("sort.trace")
        broken = self.path("broken.trace")
        broken.write_bytes(b"no trace at all")
        stats = self.path("bad.json")
        stats.write_text("{")
        for words in (["report"], ["report", "/does/not/exist"], ["report", broken], ["report", "-"],
                      ["report", trace, "--requests", "5"], ["report", trace, "--requests", "9..3"],
                      ["report", trace, "--requests", "99999999.."], ["report", trace, "--width", "5"],
                      ["report", "--stats", stats, "-o", self.path("no.html")],
                      ["report", "--stats", self.path("none.json"), "-o", self.path("no.html")],
                      ["report", trace, "-o", "/does/not/exist/page.html"]):
            done = run(PENSTOCK, *words, codes=(2,))
            self.assertRegex(done.stderr.decode(), r"^penstock report: ")
        self.assertFalse(self.path("no.html").exists())

    def test_a_page_takes_the_place_of_a_page_alone(self):
        trace = self.path("sort.trace")
        for name, before in (("page.htm", b""), ("page", b""), ("table.html", b"a,b"), ("table.csv", b"a,b"), ("new.pdf", None)):
            page = self.path(name)
            if before is not None:
                page.write_bytes(before)
            refused = before or before is None
            done = run(PENSTOCK, "report", trace, "-o", page, codes=(2 if refused else 0,))
            if refused:
                self.assertIn(f"{name}: cannot ".encode(), done.stderr)
                self.assertEqual(page.read_bytes() if page.exists() else None, before)
            else:
                run(PENSTOCK, "report", trace, "-o", page)  # again, over the page
                page.unlink()

    def test_a_trace_that_was_cut_off_is_shown_and_told(self):
        whole = self.path("sort.trace").read_bytes()
        cut = self.path("cut.trace")
        cut.write_bytes(whole[:len(whole) - 10])
        done = run(PENSTOCK, "report", cut, "-o", self.path("cut.html"), codes=(1,))
        self.assertIn(b"cut off", self.path("cut.html").read_bytes())
        self.assertEqual(done.stdout, b"")


class InABrowser(unittest.TestCase):
    found = None
    why_not = None

    @classmethod
    def setUpClass(cls):
        Pages.setUpClass()
        node = shutil.which("node")
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        playwright = pathlib.Path(MODULES).resolve() / "node_modules" / "playwright-core"
        if node is None:
            cls.why_not = "node is not installed"
        elif browser is None:
            cls.why_not = "no Chromium is installed"
        elif subprocess.run([browser, "--version"], capture_output=True, timeout=60).returncode != 0:
            cls.why_not = f"{browser} cannot be started"
        elif not playwright.is_dir():
            cls.why_not = f"playwright-core is not in {MODULES} (tools/setup.sh check fetches it)"
        else:
            done = run(node, HERE / "report_page_test.mjs", playwright, browser, FOLDER, timeout=500)
            cls.found = json.loads(done.stdout)


def case(name):
    def test(self):
        if self.why_not:
            self.skipTest(self.why_not)
        self.assertIn(name, self.found)
        self.assertIsNone(self.found[name])
    return test


for name in CASES:
    setattr(InABrowser, f"test_{name}", case(name))

if MODULES == "none":
    del InABrowser

if __name__ == "__main__":
    sys.argv[1:] = sys.argv[1:2] + sys.argv[5:]
    end_to_end.main("report_page")
