"""Checks the tests that a page names in the last column of a table, as `FILE` NAME, NAME; `FILE` NAME: each row has one, and all exist."""

import re


def tests_of(path):
    """The names of the tests in a file."""
    text = path.read_text()
    if path.suffix == ".py":
        return set(re.findall(r"^\s*def (test\w*)\(", text, re.MULTILINE))
    return set(re.findall(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*\w+,\s*(\w+)\)", text, re.MULTILINE))


def named_tests(text):
    """The tests of each row of the table, as (file, name)."""
    lines = text.splitlines()
    rows = [line.split("|")[-2] for line, below in zip(lines, lines[1:] + [""])
            if line.startswith("| ") and not below.startswith("|---")]
    return [[(path, name) for path, names in re.findall(r"`([^`]+)` ([^;]+)", row) for name in re.split(r",\s*", names.strip())]
            for row in rows]


def check(case, root, page):
    rows = named_tests((root / page).read_text())
    case.assertGreater(len(rows), 10)
    for row in rows:
        case.assertTrue(row, "a line without a test")
        for path, name in row:
            case.assertIn(name, tests_of(root / path), path)
