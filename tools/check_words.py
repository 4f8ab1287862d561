#!/usr/bin/env python3
"""Fails on a comment, a test's name, a page or a help text that does not begin with what it is about.

A comment begins with a noun or a verb: "Safety factor on a bucket's estimated size." instead of "Of the sample's
estimate of a bucket." The openers below leave the subject out, and such a comment has to be read twice. Checked are:
  1. comments of C++, C, Rust, Go, JavaScript, CSS, Python, shell and CMake, and Python's docstrings: the first sentence of each
     paragraph and of each comment behind code, by the list FIRST; every further sentence by the list LATER;
  2. names of tests, by the list IN_NAMES;
  3. sentences of the Markdown pages, by the list LATER; questions and headings may begin as they like. Pages for users
     are also searched for HABITS: turns of phrase that read as translated ("is no number", "in the mean", "whoever");
  4. help of the command line (options, footers, options.def) and of Python's, as comments are.

A line that quotes such an opener on purpose ends with "(words: quoted)". `--count` prints a line per folder.

Before it looks at the tree, the check proves on made-up texts that it can fail.
"""

import ast
import collections
import io
import pathlib
import re
import subprocess
import sys
import tokenize

FIRST = re.compile(r"(?:(?:of|what|who|whom|whose|whoever|whatever|where|wherever|as|with|told|one (?:who|whose|that|which)|the naive way)\b"
                   r"|nothing:|the same(?=\s*(?:[.,:;]|$|(?:for|of|as|but|with|without|and|in|between|to|where|if)\b)))", re.IGNORECASE)
LATER = re.compile(r"(?:Of|What|Who|Whom|Whose|Whoever|Whatever|Where|Wherever|Nothing:)(?=[\s,:])")
IN_NAMES = re.compile(r"^(?:That|Of|What|Who|Whose|Whoever|Where|With|As)(?=[A-Z])")
# Pages of users, and what is not said there. (Text in `code` is quoted, and not searched.)
USER_PAGE = re.compile(r"(?:README|SECURITY|CONTRIBUTING)\.md$|docs/[\w-]+\.md$")
HABITS = re.compile(r"(?<!\bthere )\b(?:is|are|was|were) no (?:numbers?|errors?|files?|CSV|JSON|UTF-8|text|headers?|orders?|reports?|rows?|names?|columns?)\b"
                    r"|\bin the mean\b|\bwho(?:m)?ever\b|\bfor want of\b|\bof (?:its|their) own\b|, neither(?=[.;)]|$)"
                    r"|\bstands? (?:in(?! for\b)|on|at|behind|beside|above|below|there)\b|\bwhat (?:is|was) [^,.;:]+ (?:is|was)\b", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z])")
NO_TEXT = re.compile(r"^\W*$|^(?:NOLINT|clang-format|Test labels:|noqa|type:|pragma|REQUIRES:|shellcheck|SPDX)")
QUOTED = "(words: quoted)"

TREE = ("include", "src", "generate", "papers", "cli", "bench", "test", "fuzz", "examples", "python", "bindings", "tools",
        "packaging", "docs", "run", "check", ".ci", ".github")
C_LIKE = {".h", ".cc", ".c", ".hpp", ".def", ".js", ".css", ".rs", ".go"}
C_TOKEN = re.compile(r'R"(?P<tag>\w*)\((?s:.*?)\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*(?s:.*?)\*/')
TEST_NAME = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P|RC_GTEST_PROP)\(\s*\w+,\s*(?:DISABLED_)?(\w+)", re.MULTILINE)
HELP = re.compile(r'(?:add_option|add_flag|add_subcommand)\([^;]*?,\s*"((?:[^"\\]|\\.)*)"')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
FOOTER = re.compile(r"\.footer\(((?:[^;]|;(?!\n))*?)\);")
PYTHON_HELP = re.compile(r'\bhelp=f?"((?:[^"\\]|\\.)*)"')
BEFORE_TEXT = "-*( \t"


def openers(paragraph):
    """The openers of a paragraph's sentences that leave the subject out."""
    for index, sentence in enumerate(SENTENCE_END.split(paragraph.strip(BEFORE_TEXT))):
        if NO_TEXT.match(sentence) or sentence.rstrip().endswith("?"):
            continue
        if (FIRST if index == 0 else LATER).match(sentence):
            yield sentence


def blocks(lines):
    """Paragraphs of comments from (line number, indent, text), where consecutive whole-line comments are one block."""
    paragraph, start, last = [], 0, None
    for number, column, text in lines:
        if paragraph and (last is None or number != last[0] + 1 or column != last[1] or not text.strip()):
            yield start, " ".join(paragraph)
            paragraph = []
        if text.strip():
            if not paragraph:
                start = number
            paragraph.append(text.strip())
        last = (number, column)
    if paragraph:
        yield start, " ".join(paragraph)


def c_comments(text):
    whole, behind = [], []
    number, position = 1, 0
    for match in C_TOKEN.finditer(text):
        found = match.group(0)
        number += text.count("\n", position, match.start())
        position = match.start()
        if not found.startswith(("//", "/*")):
            continue
        begin = text.rfind("\n", 0, match.start()) + 1
        alone = not text[begin:match.start()].strip()
        column = match.start() - begin
        if found.startswith("//"):
            (whole if alone else behind).append((number, column, found.lstrip("/").removeprefix("!").strip()))
        else:
            for offset, line in enumerate(found[2:-2].splitlines()):
                (whole if alone else behind).append((number + offset, column, line.strip().lstrip("*").strip()))
    return whole, behind


def hash_comments(text):
    whole, behind = [], []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"^(\s*)#(?!!)\s?(.*)$", line)
        if match:
            whole.append((number, len(match.group(1)), match.group(2)))
        else:
            for match in re.finditer(r"\S\s+#\s", line):
                before = line[:match.start() + 1]
                if before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
                    behind.append((number, 0, line[match.end():]))
                    break
    return whole, behind


def python_comments(text):
    whole, behind, strings = [], [], []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
                alone = not token.line[: token.start[1]].strip()
                (whole if alone else behind).append((token.start[0], token.start[1], token.string.lstrip("#").strip()))
        tree = ast.parse(text)
    except (tokenize.TokenError, SyntaxError):
        return hash_comments(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[0] if node.body else None
            if isinstance(body, ast.Expr) and isinstance(body.value, ast.Constant) and isinstance(body.value.value, str):
                strings += [(body.lineno + i, 0, line.strip()) for i, line in enumerate(body.value.value.splitlines())]
                strings.append((body.end_lineno + 1000000, 0, ""))
    return whole, behind, strings


def markdown_sentences(text):
    fenced, paragraph, start = False, [], 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith(("```", ":::")):
            fenced = not fenced if line.lstrip().startswith("```") else fenced
            line = ""
        elif fenced:
            continue
        item = re.match(r"^\s*(?:[-*]|\d+\.)\s+(.*)$", line)
        if paragraph and (not line.strip() or item or line.startswith(("#", "|", ">"))):
            yield start, " ".join(paragraph)
            paragraph = []
        if line.startswith("#") or not line.strip() or set(line.strip()) <= set("|-: "):
            continue
        if line.startswith("|"):
            for cell in line.strip("|").split("|"):
                yield number, cell.strip()
            continue
        if not paragraph:
            start = number
        paragraph.append((item.group(1) if item else line).strip())


def help_of(name, text):
    """The help texts of a file of the command line, and of the table of options."""
    if name.endswith(".def"):
        found = [(match.start(), "".join(STRING.findall(match.group(0)))) for match in re.finditer(rf"(?:{STRING.pattern}\s*)+", text)]
    elif name.startswith("cli/"):
        found = [(match.start(), match.group(1)) for match in HELP.finditer(text)]
        found += [(match.start(), line) for match in FOOTER.finditer(text)
                  for line in "".join(STRING.findall(match.group(1))).split("\\n")]
    else:
        found = []
    return [(text.count("\n", 0, position) + 1, help_text) for position, help_text in found]


def complaints_of(name, text):
    suffix = pathlib.PurePath(name).suffix
    lines = text.splitlines()

    def keep(number):
        return not (0 < number <= len(lines)) or QUOTED not in lines[number - 1]

    if suffix == ".md":
        for number, paragraph in markdown_sentences(text):
            if not keep(number):
                continue
            for sentence in SENTENCE_END.split(re.sub(r"[*_`]+", "", paragraph)):
                if LATER.match(sentence) and not sentence.rstrip().endswith("?"):
                    yield number, sentence
            if USER_PAGE.match(name):
                for habit in HABITS.finditer(re.sub(r"`[^`]*`", "`", paragraph)):
                    yield number, f"habit: {habit.group(0)}"
        return
    if suffix in C_LIKE:
        groups = c_comments(text)
        for match in TEST_NAME.finditer(text):
            if IN_NAMES.match(match.group(1)):
                yield text.count("\n", 0, match.start()) + 1, "test " + match.group(1)
        for number, help_text in help_of(name, text):
            for sentence in openers(help_text):
                yield number, "help " + sentence
    elif suffix == ".py" or re.match("#!.*python", text):
        groups = python_comments(text)
        for match in PYTHON_HELP.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            for sentence in openers(match.group(1)) if keep(number) else ():
                yield number, "help " + sentence
    elif suffix in (".sh", ".cmake", ".yml") or name.endswith("CMakeLists.txt") or text.startswith("#!"):
        groups = hash_comments(text)
    else:
        return
    for group in (groups[0], *groups[2:]):
        for number, paragraph in blocks(group):
            if keep(number):
                for sentence in openers(paragraph):
                    yield number, sentence
    for number, _, comment in groups[1]:
        if keep(number):
            for sentence in openers(comment):
                yield number, sentence


def self_test():
    cases = {
        ("a.h", "// Of the sample's estimate.\nint a;\n"): 1,
        ("a.h", "// Safety factor.\n//\n// What was distributed.\nint a;\n"): 1,
        ("a.h", "// Safety factor. Whoever reads it waits.\nint a;\n"): 1,
        ("a.h", "int a;  // of lines\n"): 1,
        ("a.h", "// The naive way copies.\n"): 1,
        ("a.h", "// Sum of what\n// what was read.\nint a;\n"): 0,
        ("a.h", 'auto s = "// What is this";  // a string\n'): 0,
        ("a.h", "/* Who: */ int a;\n"): 1,
        ("a_test.cc", "TEST(Merge, ThatIsToldOfManyFiles) {\n"): 1,
        ("a_test.cc", "TEST(Merge, ReportsTheFile) {\n"): 0,
        ("cli/a.cc", 'command.add_option("--a", a, "of keys small letters are capitals");\n'): 1,
        ("cli/a.cc", 'command.footer("Sorts.\\nOf lines, the first.");\n'): 1,
        ("src/options.def", 'OPTION(a, "of keys small letters are capitals")\n'): 1,
        ("a.h", "// - Of lines, the count.\nint a;\n"): 1,
        ("a.h", "// The same page may be in several slots.\n// The same, for lines.\nint a;\n"): 0,
        ("a.h", "// The same, for lines.\nint a;\n"): 1,
        ("a.sh", 'echo "a # b"  # of lines\n'): 1,
        ("a.py", 'parser.add_argument("--a", help="of lines")\n'): 1,  # (words: quoted)
        ("a.py", '"""What it does."""\n'): 1,
        ("a.py", "# Whether it works.\n"): 0,
        ("a.sh", "# Where the build is.\n"): 1,
        ("a.md", "# What it is\n\nIt is good. What is there is kept.\n"): 1,
        ("a.md", "What is it?\n\n```\nOf course\n```\n"): 0,
        ("a.h", "// Of the sample. (words: quoted)\n"): 0,
        ("docs/a.md", "A header is no row. Lines have 47 bytes in the mean.\n"): 2,
        ("docs/a.md", "| an attacker | whoever can read it |\n| a size | of its own |\n"): 2,
        ("docs/a.md", "`$30 is no number`: if there is no header, it is no longer read. It stands for two.\n"): 0,
        ("README.md", "It stands behind a list for want of one; what is there is kept.\n"): 3,
        ("src/README.md", "It is no number.\n"): 0,
    }
    for (name, text), wanted in cases.items():
        found = list(complaints_of(name, text))
        if len(found) != wanted:
            raise SystemExit(f"check_words: self-test: {name}: {text!r} gave {found}, wanted {wanted}")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    self_test()
    count = "--count" in sys.argv
    wanted = [word for word in sys.argv[1:] if word != "--count"] or [*TREE, "*.md"]
    # The clone may belong to another user than the one who checks.
    listed = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "--cached", "--others", "--exclude-standard", *wanted],
                            cwd=root, check=True, capture_output=True, text=True).stdout.split("\n")
    folders, total = collections.Counter(), 0
    for name in sorted(set(filter(None, listed))):
        path = root / name
        if "third_party" in name or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, sentence in complaints_of(name, text):
            total += 1
            folders["/".join(name.split("/")[:2])] += 1
            if not count:
                print(f"{name}:{number}: {sentence[:100]}")
    if count:
        for folder, number in sorted(folders.items()):
            print(f"{number:6} {folder}")
        print(f"{total:6} in all")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
