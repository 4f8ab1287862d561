#!/usr/bin/env python3
"""Fails if files of one target have functions of one name in anonymous namespaces.

Builds compile many files of a target as one (PENSTOCK_UNITY). Such functions are overloads there, and a call with other
arguments than its own file's function takes, even by mistake, may choose the other file's. A name is fine in classes, in named
namespaces of different names, and in tests, which are targets of their own.

Before it looks at the tree, the check proves on made-up files that it can fail.
"""

import collections
import re
import subprocess
import sys

import layer_list

# Folders that are one target each; the longest that fits is a file's.
TARGETS = [folder for folder, _, _ in layer_list.read()] + ["cli", "generate", "python/native"]
ALONE = re.compile(r"_test\.cc$|/target/|^cli/main\.cc$|/no_\w+\.cc$")
# A function's definition or declaration at the beginning of a line: the type, then the name.
FUNCTION = re.compile(r"^(?!return\b|else\b|using\b|struct\b|class\b)[A-Za-z_][\w:<>,&* ]*?[\s&*](\w+)\((?!.*\)\s*;)", re.MULTILINE)
NAMESPACE = re.compile(r"^namespace (\S+) \{.*$|^namespace \{$|^\}  // namespace.*$", re.MULTILINE)


def functions(text):
    """(namespace, name) of each function in an anonymous namespace."""
    open_ones, begin = [], 0
    for match in [*NAMESPACE.finditer(text), None]:
        if open_ones and open_ones[-1] == "":
            part = text[begin:match.start() if match else len(text)]
            yield from (("::".join(filter(None, open_ones)), name) for name in FUNCTION.findall(part))
        if match is None:
            return
        if match[0].startswith("}"):
            del open_ones[-1:]
        else:
            open_ones.append(match[1] or "")
        begin = match.end()


def complaints(files):
    """Names that several of the files have; `files`: text by path."""
    found = collections.defaultdict(set)
    for path, text in files.items():
        target = max((each for each in TARGETS if path.startswith(each + "/")), key=len, default=None)
        if target and not ALONE.search(path):
            for where, name in functions(text):
                found[target, where, name].add(path)
    return [f"{name}() in {', '.join(sorted(paths))}" for (_, _, name), paths in sorted(found.items()) if len(paths) > 1]


def main():
    one = "namespace a {\nnamespace {\n\nint b::%s(int x,\n    int y) {\n}\nclass C {\n  int g() {}\n};\n\n}  // namespace\nint g() {}\n"
    texts = {path: one.replace("b::%s", name) for path, name in (("cli/a.cc", "f"), ("cli/b/c.cc", "f"), ("cli/d.cc", "h"), ("src/io/e.cc", "f"))}
    if complaints(texts) != ["f() in cli/a.cc, cli/b/c.cc"]:
        raise SystemExit(f"check_names: self-test: {complaints(texts)}")
    # The clone may belong to another user than the one who checks.
    listed = subprocess.run(["git", "-c", f"safe.directory={layer_list.ROOT}", "ls-files", "--cached", "--others", "--exclude-standard", "*.cc"],
                            cwd=layer_list.ROOT, check=True, capture_output=True, text=True).stdout.split()
    paths = [layer_list.ROOT / path for path in listed]
    found = complaints({path.relative_to(layer_list.ROOT).as_posix(): path.read_text() for path in paths if path.is_file()})
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
