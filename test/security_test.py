"""Checks SECURITY.md's promises about the sources, and that the tests that it names exist.

Usage: security_test.py ROOT
"""

import pathlib
import re
import sys

import end_to_end
import named_tests

ROOT = pathlib.Path(sys.argv[1]).resolve()


def sources(folders, patterns):
    files = [path for folder in folders for pattern in patterns for path in (ROOT / folder).rglob(pattern)]
    return [path for path in files if not re.search(r"_test\.|/target/|/tests/|fixture", str(path.relative_to(ROOT)))]


def found(files, pattern):
    return [f"{path.relative_to(ROOT)}: {line.strip()}" for path in files for line in path.read_text().splitlines()
            if re.search(pattern, re.sub(r"\s*(//|#).*", "", line))]


SHELLS = r"(?<![\w.:>])(std::|::)?(system|popen|wordexp)\(\S|shell=True|os\.system\(|os\.popen\("
PICKLES = r"\b(pickle|cloudpickle|dill|marshal|shelve|joblib)\b|allow_pickle=True|(?<![\w.])(eval|exec)\("


class Security(end_to_end.Case):
    def test_named_tests_exist(self):
        named_tests.check(self, ROOT, "SECURITY.md")

    def test_no_shell_is_called(self):
        self.assertTrue(all(re.search(SHELLS, line) for line in ("  std::system(x);", "popen(x, 1)", "run(x, shell=True)")))
        files = sources(("src", "cli", "include", "python/penstock"), ("*.cc", "*.h", "*.py"))
        self.assertGreater(len(files), 300)
        self.assertEqual(found(files, SHELLS), [])
        # Only programs that the user names (replay --run) are started by a shell: names are quoted, or are the script's arguments.
        self.assertEqual(sorted(line.partition(":")[0] for line in found(files, r'"sh", "-c"')),
                         ["cli/trace/compare.cc", "cli/trace/compare_programs.cc"])

    def test_nothing_of_others_is_unpickled(self):
        self.assertTrue(all(re.search(PICKLES, line) for line in ("import pickle", "np.load(x, allow_pickle=True)", "  eval(text)")))
        files = sources(("python/penstock",), ("*.py",))
        self.assertGreater(len(files), 15)
        self.assertEqual(found(files, PICKLES), [])


if __name__ == "__main__":
    end_to_end.main("security")
