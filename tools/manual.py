#!/usr/bin/env python3
"""Builds the manual: manual.py PENSTOCK FOLDER. Its first page is FOLDER/html/index.html.

The pages are docs/*.md and docs/notebooks/*.ipynb; README.md is the first page, and docs/README.md the table of contents. The references are generated: of the
command line from the output of `penstock help`, and of C++ and C from the comments of the public headers (Doxygen reads them, Breathe brings them into the pages).
Any warning, also about a broken link, is an error.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / "build/sphinx"  # packages of tools/manual.txt, installed by tools/setup.sh
SOURCE_FILES = r"(?:src|cli|include|generate|papers|bench|test|tools|examples|fuzz|bindings|packaging)/"


def run(*words, **options):
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"manual: {' '.join(map(str, words))}\n{done.stdout}")
    return done.stdout


def escaped(text):
    """Escapes a comment for Doxygen without Markdown: everything except `code` is text."""
    text = re.sub(r"[\\@<>&#%]", lambda match: "\\" + match[0], text)
    return re.sub(r"`([^`]*)`", r"<tt>\1</tt>", text)


def documentation(lines):
    """Converts comment lines for Doxygen: removes their marks, and makes indented lines code."""
    code, before = False, ""
    for line in lines:
        starts = line.startswith("  ") and not line.lstrip().startswith("- ") and (not before.strip() or before.rstrip().endswith(":"))
        is_code = (code and (line.startswith("  ") or not line.strip())) or starts
        if is_code != code:
            yield "\\code{.cpp}" if is_code else "\\endcode"
            code = is_code
        yield line[2:] if code else escaped(line.strip())
        before = line
    if code:
        yield "\\endcode"


def doxygen_comments(header):
    """Marks a header's comments for Doxygen: those before a declaration, and those behind one. Omits our namespace's
    name, internal namespaces and private members."""
    # C comments become C++ comments.
    text = re.sub(r"/\*(.*?)\*/", lambda match: "\n".join(
        "// " + re.sub(r"^ *\*? ?", "", line) if index else "//" + line
        for index, line in enumerate(match[1].rstrip().split("\n"))), header, flags=re.DOTALL)
    lines, out, index, first = text.split("\n"), [], 0, True
    while index < len(lines):
        end = index
        while end < len(lines) and lines[end].lstrip().startswith("//"):
            end += 1
        if end == index:
            match = re.fullmatch(r"(\s*[^\s/].*?)\s*// (.*)", lines[index])
            if match and not match[1].lstrip().startswith("#"):
                remark = [match[2]]
                # The comment may continue below, further to the right than any declaration.
                while index + 1 < len(lines) and re.match(r"\s{16,}//", lines[index + 1]):
                    index += 1
                    remark.append(lines[index].strip()[2:])
                out.append(f"{match[1]}  ///< {escaped(' '.join(part.strip() for part in remark))}")
            else:
                out.append(lines[index])
            index += 1
            continue
        block = [line.strip()[2:].removeprefix(" ") for line in lines[index:end]]
        block = [line for line in block if not line.startswith(("clang-format", "NOLINT"))]
        if first:  # the header's own comment
            out += ["/// \\file"] + [f"/// {line}" for line in documentation(block)] + [""]
        elif end < len(lines) and lines[end].strip() and not block[0].startswith("----"):
            out += [f"/// {line}" for line in documentation(block)]
        first = False
        index = end
    text = re.sub(r"^( *) private:\n.*?^\1\};", r"\1};", "\n".join(out), flags=re.DOTALL | re.MULTILINE)
    # The namespace of a version is not part of names.
    text = re.sub(r"^inline namespace v\w+ .*$|^\}  ///< namespace v\d\w*$", "", text, flags=re.MULTILINE)
    # The end of a long namespace has its name; functions also end with "}".
    for end in (r"^\}  ///< namespace \2$", r"^\}"):
        text = re.sub(r"^(inline )?namespace (?!penstock)(\w+) \{(?:(?!^namespace ).)*?" + end, "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^namespace penstock::(\w+) \{", r"namespace \1 {", text, flags=re.MULTILINE)
    return re.sub(r"^namespace penstock \{|^\}  // namespace penstock$", "", text, flags=re.MULTILINE)


def reference_of_headers(folder, source):
    """Pages of the C++ and the C interface: a part for each header."""
    headers = sorted((ROOT / "include/penstock").glob("*.h"))
    marked = folder / "headers/penstock"
    marked.mkdir(parents=True)
    for header in headers:
        (marked / header.name).write_text(doxygen_comments(header.read_text()))
    settings = f"""
        INPUT={folder}/headers
        STRIP_FROM_PATH={folder}/headers
        OUTPUT_DIRECTORY={folder}
        GENERATE_XML=YES
        GENERATE_HTML=NO
        GENERATE_LATEX=NO
        XML_PROGRAMLISTING=NO
        MARKDOWN_SUPPORT=NO
        AUTOLINK_SUPPORT=NO
        RECURSIVE=YES
        EXTRACT_ALL=YES
        MACRO_EXPANSION=YES
        PREDEFINED=PENSTOCK_API=
        EXCLUDE_SYMBOLS=penstock::internal* penstock::*::internal* penstock::detail*
        HIDE_UNDOC_MEMBERS=NO
        QUIET=YES
        WARN_IF_UNDOCUMENTED=NO
        WARN_AS_ERROR=FAIL_ON_WARNINGS
        """
    run("doxygen", "-", input=settings)

    def parts(headers):
        return "\n".join(f"## {header.stem}.h\n\n```cpp\n#include <penstock/{header.name}>\n```\n\n```{{doxygenfile}} {header.name}\n```\n"
                         for header in headers)

    c = ROOT / "include/penstock/penstock.h"
    (source / "cpp.md").write_text("# The C++ interface, header by header\n\nAll of it is in the namespace `penstock`, and in "
                                   "`<penstock/penstock.hpp>`.\n\n" + parts(header for header in headers if header != c))
    (source / "c.md").write_text("# The C interface\n\n" + parts([c]))


def markdown(text):
    """A sentence of the help: options and quoted words are code, and everything else is text."""
    code = r"(?<![\w-])(--?[A-Za-z][\w-]*(?:=\w+)?|'[^']+'(?!\w)|\"[^\"]+\")"
    return "".join(f"`{part}`" if index % 2 else re.sub(r"([\\`*_{}\[\]<>$|~#@])", r"\\\1", part)
                   for index, part in enumerate(re.split(code, text)))


# Command lines break where the page is narrow.
WRAPPED = "```{raw} html\n<style>.highlight pre { white-space: pre-wrap; overflow-wrap: anywhere }</style>\n```"


def page_of_command(name, text):
    """A page of the output of `penstock COMMAND --help-all`, with an anchor for each option."""
    blocks = text.rstrip("\n").split("\n\n")
    usage, sentence = blocks[:2]
    out = [f"# {name}", markdown(sentence.replace("\n", " ")), f"```text\n{usage.removeprefix('Usage: ')}\n```", f"```{{program}} {name}\n```", WRAPPED]
    for block in blocks[2:]:
        heading, _, entries = block.partition("\n")
        if heading == "Examples:":
            out.append("## Examples")
            for command, effect in re.findall(r"^  (\S.*)\n((?: {6}.*\n?)+)", entries, re.MULTILINE):
                effect = " ".join(effect.split())
                out.append(f"{effect[0].upper()}{markdown(effect[1:])}:\n\n```sh\n{command}\n```")
        elif block.startswith("  ") or heading.endswith(":"):
            out.append(f"## {heading[:-1] if heading.endswith(':') else 'Arguments'}")
            # A name, and its help: after blanks, or in the next lines.
            for names, told in re.findall(r"^ {2,6}(\S.*?)(?: {2,}|\n {20,})(\S.*(?:\n {20,}.*)*)", block, re.MULTILINE):
                told = markdown(" ".join(told.split()))
                out.append(f"```{{option}} {names}\n{told}\n```" if names.startswith("-") else f"`{names}`: {told}")
        else:
            out.append(markdown(block.replace("\n", " ")))
    return "\n\n".join(out) + "\n"


def reference_of_commands(penstock, source):
    """The output of `penstock help`, and a page for each command."""
    text = run(penstock, "help")
    commands = re.findall(r"^  ([a-z]+) {3,}", text, re.MULTILINE)
    for command in commands:
        if command != "help":
            (source / f"command-{command}.md").write_text(page_of_command(f"penstock {command}", run(penstock, command, "--help-all")))
    linked = re.sub(r"^`([a-z]+)`:", lambda name: f"[penstock {name[1]}](command-{name[1]}.md):" if name[1] != "help" else name[0],
                    page_of_command("penstock", text), flags=re.MULTILINE)
    pages = "\n".join(f"command-{command}" for command in commands if command != "help")
    (source / "commands.md").write_text(linked.replace("# penstock\n", "# The command line\n", 1) +
                                        f"\n```{{toctree}}\n:hidden:\n:titlesonly:\n\n{pages}\n```\n")


def contents():
    """The parts of docs/README.md, each with its pages."""
    trees = []
    for part in re.split(r"^## ", without_ways_out((ROOT / "docs/README.md").read_text()), flags=re.MULTILINE)[1:]:
        caption, _, rest = part.partition("\n")
        pages = re.findall(r"^- \[[^]]*\]\(([\w-]+)\.md\)", rest, re.MULTILINE)
        if caption == "Reference":
            pages = ["commands", "cpp", "c", *pages, "changes"]
        trees.append(f"```{{toctree}}\n:hidden:\n:titlesonly:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n")
    return "\n" + "\n".join(trees)


def without_ways_out(text):
    """A page of the manual: links to pages of docs/ stay, those to other files of the tree become their names."""
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", text)
    text = re.sub(r"\]\(notebooks/([\w-]+)\.ipynb\)", r"](notebook-\1.md)", text)
    text = text.replace("(README.md)", "(index.md)").replace("(../CHANGELOG.md)", "(changes.md)").replace("(CHANGELOG.md)", "(changes.md)")
    return re.sub(r"\[[^]]*\]\((?:\.\./)?(" + SOURCE_FILES + r"[^)]*|LICENSE)\)", r"`\1`", text)


def page_of_notebook(path):
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"])
        parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
    parts.insert(1, f"A notebook: `{path.relative_to(ROOT)}`.")
    return "\n\n".join(parts) + "\n"


def main():
    penstock, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    for name in ("headers", "xml", "source", "html"):
        shutil.rmtree(folder / name, ignore_errors=True)
    source = folder / "source"
    source.mkdir(parents=True)
    shutil.copytree(ROOT / "docs/pictures", source / "pictures")
    for page in (ROOT / "docs").glob("*.md"):
        if page.name != "README.md":
            (source / page.name).write_text(without_ways_out(page.read_text()))
    for notebook in (ROOT / "docs/notebooks").glob("*.ipynb"):
        (source / f"notebook-{notebook.stem}.md").write_text(page_of_notebook(notebook))
    first = re.sub(r"^## More\n.*?(?=^## )", "", (ROOT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    (source / "index.md").write_text(without_ways_out(first) + contents())
    (source / "changes.md").write_text(without_ways_out((ROOT / "CHANGELOG.md").read_text()))
    reference_of_commands(penstock, source)
    reference_of_headers(folder, source)
    run(TOOLS / "bin/python3", "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", "-c", ROOT / "docs", "-d", folder / "doctrees",
        "-D", f"breathe_projects.penstock={folder}/xml", source, folder / "html")


if __name__ == "__main__":
    main()
