#!/usr/bin/env python3
"""Fails if a layer includes one that it does not use, or does the work of another one.

src/layers.txt lists the layers and what each uses; `check_includes.py --picture` draws it with the number of includes along
each arrow. Checked are:
  1. a file of a layer includes only its own layer, the layers that it uses, and those that they use; the list runs bottom-up;
     src/README.md has a row for each;
  2. no layer includes folders above the layers (the programs, papers/, generate/); only benches include papers/, the published
     methods that the product does not use; only the program, benches and tests include generate/, inputs for sorts. (Tests in
     test/ are not checked.)
  3. the libraries of the programs (command line, JSON) are not included under src/ or include/, except JSON in src/interfaces/api;
  4. only os/ and io/ make system calls on memory, signals and files. Tests and benches may make any;
  5. only base/thread.h starts threads, and sets their signal masks;
  6. only tests and benches include test/support/.

Before it looks at the tree, the check proves on made-up files that it can fail.
"""

import collections
import pathlib
import re
import sys
import tempfile

import layer_list

# The folders above the layers, each with the ones that it may include.
ABOVE = {"cli": ("generate",), "bench": ("papers", "generate"), "papers": (), "generate": ()}
PROGRAM_LIBRARIES = re.compile(r"(CLI/|nlohmann/)")
SYSTEM_LAYERS = ("src/os", "src/io")
SYSTEM_HEADERS = {
    "sys/mman.h", "fcntl.h", "sys/ioctl.h", "sys/syscall.h", "sys/file.h", "sys/uio.h",
    "linux/userfaultfd.h", "liburing.h",
}
# Names that none of our functions has are found with or without "::"; the others only as "::open(".
SYSTEM_CALL = re.compile(
    r"(?<![\w.>:])(?:::)?(mmap|mmap64|munmap|mremap|mprotect|madvise|process_madvise|mlock|memfd_create|sigaction|"
    r"sigaltstack|sigprocmask|pthread_sigmask|pread|pwrite|preadv|pwritev|ftruncate|fallocate|posix_fallocate|"
    r"openat|mkstemp|ioctl|syscall|fdatasync|fopen)\s*\("
    r"|(?<![\w>])::(open|read|write|close|rename|unlink|signal|kill|raise)\s*\("
)

# A thread object with work, or a call that makes a thread.
THREAD_START = re.compile(r"std::j?thread\b[^;&>*]*?[({]\s*\[|pthread_create\s*\(")

# Exceptions: (file, or folder with its "/"; call or header): reason.
ALLOWED = {
    ("src/base/check.cc", "write"): "a broken invariant is reported from signal handlers, below os/",
    ("src/base/signal_mask.cc", "pthread_sigmask"): "a thread inherits its mask from the one that starts it",
    ("src/memory/stream/recovery.cc", "write"): "the message of a process that stops inside a signal handler",
    ("src/memory/fault/", "sigaction"): "which handler stands in front, and whom it chains to, is what the dispatcher is",
    ("src/memory/fault/", "pthread_sigmask"): "a chained handler runs under the mask that it was installed with",
    ("src/memory/fault/registry.cc", "syscall"): "a fault that is nobody's is sent once more, as the kernel made it",
    ("src/memory/fault/registry.cc", "sys/syscall.h"): "the same",
    ("src/memory/stream/system_calls.cc", "read"): "system calls on a stream's pointer are what it is for",
    ("src/memory/stream/system_calls.cc", "write"): "the same",
    ("cli/common/stop_signals.cc", "sigaction"): "the program's own answer to SIGINT and SIGTERM, which is no layer's business",
}


def allowed(name, what):
    return any((place, what) in ALLOWED for place in (name, name.rpartition("/")[0] + "/"))


def without_comments(text):
    """The code with comments blanked and strings emptied, line numbers kept."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/'

    def blank(match):
        found = match.group(0)
        return '""' if found[0] == '"' else re.sub(r"[^\n]", " ", found)

    return re.sub(pattern, blank, text, flags=re.DOTALL)


PUBLIC = "include/penstock"


def read_layers(root):
    """Folder → the folders that it may include: itself, the public headers, and what it uses, directly or not."""
    folders, reach = {}, {PUBLIC: {PUBLIC}}
    for folder, name, uses in layer_list.read(root):
        for used in uses:
            if used not in folders:
                raise SystemExit(f"check_includes: src/layers.txt: {name} uses {used}, which is not above it")
        folders[name] = folder
        reach[folder] = {PUBLIC, folder}.union(*(reach[folders[used]] for used in uses))
    return reach


def layer_of(path, layers):
    """The innermost layer with this path, given from the root on; None if it lies in none."""
    return max((layer for layer in layers if path.startswith(layer + "/")), key=len, default=None)


def layer_of_include(included, layers):
    first = included.split("/")[0]
    if first == "penstock":
        return PUBLIC
    return first if first in ABOVE else layer_of("src/" + included, layers)


def check_file(root, path, layers):
    name = path.relative_to(root).as_posix()
    layer = layer_of(name, layers)
    program = name.split("/")[0]
    text = path.read_text()
    code = without_comments(text)

    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not match:
            continue
        quoted, included = match.group(1) == '"', match.group(2)
        if quoted and "/" not in included and layer == PUBLIC:
            continue  # a file in the same folder
        if quoted and included.startswith("test/support/") and (is_test(name) or program == "bench"):
            continue
        if quoted and included.startswith("generate/") and is_test(name):
            continue
        if quoted or included.startswith("penstock/"):
            target = layer_of_include(included, layers)
            if layer is None:
                # The programs use the layers, but never each other.
                if target in ABOVE and target not in (program, *ABOVE.get(program, ())):
                    yield f"{name}:{number}: {program} includes {included}"
            elif target not in layers:
                yield f"{name}:{number}: {included} is in no layer of src/layers.txt"
            elif target not in layers[layer]:
                yield f"{name}:{number}: {layer} includes {included}, which it does not use"
        elif (program not in ("cli", "bench") and PROGRAM_LIBRARIES.match(included)
              and not (layer == "src/interfaces/api" and included.startswith("nlohmann/"))):
            yield f"{name}:{number}: <{included}> belongs to the programs, not under src/"
        elif (included in SYSTEM_HEADERS and not may_call_system(name)
              and not allowed(name, included)):
            yield f"{name}:{number}: <{included}> belongs to os/ and io/"

    if layer is not None and not is_test(name) and name != "src/base/thread.h":
        for number, line in enumerate(code.splitlines(), 1):
            if THREAD_START.search(line):
                yield f"{name}:{number}: a thread that start_thread() does not start"
            if "thread_local" in line and "constinit" not in line:
                yield f"{name}:{number}: a thread_local that is not constinit: base/thread_object.h"

    if may_call_system(name):
        return
    for number, line in enumerate(code.splitlines(), 1):
        for match in SYSTEM_CALL.finditer(line):
            call = match.group(1) or match.group(2)
            if not allowed(name, call):
                yield f"{name}:{number}: {call}() belongs to os/ and io/"


def is_test(name):
    return name.startswith("src/trace/capture/target/") or name.endswith(("_test.cc", "_suite.h", "_fixture.h"))


def may_call_system(name):
    # Traces are of other processes' system calls: the platform files use ptrace, /proc and seccomp;
    # files without the ending use their results. target/ is a program under test.
    watches = name.startswith("src/trace/") and name.endswith("_linux.cc")
    return watches or name.startswith((*SYSTEM_LAYERS, "bench/")) or is_test(name)


def sources(root):
    for folder in ("include", "src", *ABOVE):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path


def check_tree(root):
    layers = read_layers(root)
    complaints = []
    for path in sources(root):
        complaints += check_file(root, path, layers)
        name = path.relative_to(root).as_posix()
        if name.startswith("src/") and layer_of(name, layers) is None:
            complaints.append(f"{name}: is in no layer of src/layers.txt")
    page = (root / "src/README.md").read_text()
    complaints += [f"src/README.md: has no row for {layer}" for layer in layers if f"| `{layer.removeprefix('src/')}/` |" not in page]
    return complaints


def print_picture(root):
    """One row per layer, from the top: its includes of other layers, and how many."""
    layers = read_layers(root)
    arrows = {layer: collections.Counter() for layer in layers}
    for path in sources(root):
        layer = layer_of(path.relative_to(root).as_posix(), layers)
        if layer is None or is_test(path.name):
            continue
        for included in re.findall(r'^\s*#\s*include\s*["<]([^">]+/[^">]+)', path.read_text(), re.MULTILINE):
            target = layer_of_include(included, layers)
            if target in layers and target != layer:
                arrows[layer][target] += 1
    height = list(layers)
    for layer in reversed(height):
        down = ", ".join(f"{target.removeprefix('src/')} {count}" for target, count in arrows[layer].most_common())
        print(f"{layer.removeprefix('src/'):18} -> {down or 'nothing'}")
    up = sum(count for layer in layers for target, count in arrows[layer].items() if height.index(target) > height.index(layer))
    print(f"{sum(map(len, arrows.values()))} arrows down, {up} up")


def self_test():
    cases = {
        '#include "sorting/sort/radix.h"\n': "does not use",
        '#include "memory/fault/registry.h"\n': "does not use",
        '#include "cli/common/command.h"\n': "in no layer",
        '#include "papers/radix_sort.h"\n': "in no layer",
        '#include "test/support/injection.h"\n': "in no layer",
        "#include <nlohmann/json.hpp>\n": "belongs to the programs",
        "#include <sys/mman.h>\n": "belongs to os/ and io/",
        "void f() { ::open(p, 0); }\n": "open() belongs",
        "int x = mmap(a, b);\n": "mmap() belongs",
        "std::jthread worker([&] { work(); });\n": "start_thread()",
        "worker_ = std::thread{[this] { work(); }};\n": "start_thread()",
        "thread_local std::string room;\n": "base/thread_object.h",
        "constinit thread_local ThreadObject<std::string> room;\n": None,
        "std::jthread worker; auto started = start_thread(worker, [] {});\n": None,
        '// mmap(a)\nauto s = "mmap(b)"; auto p = Pool::open(o); q->read(b); pool.mmap(c);\n': None,
        '#include "base/check.h"\n#include "memory/pool/pool.h"\n#include <vector>\n': None,
    }
    rows = "base base\nos os base\nio io os\nmemory/pool pool os\nmemory/fault fault os\nsorting/sort sort pool fault\n"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src/memory/pool").mkdir(parents=True)
        (root / "src/layers.txt").write_text(rows)
        layers = read_layers(root)
        path = root / "src/memory/pool/pool.cc"
        for text, wanted in cases.items():
            path.write_text(text)
            found = list(check_file(root, path, layers))
            good = not found if wanted is None else len(found) == 1 and wanted in found[0]
            if not good:
                raise SystemExit(f"check_includes: self-test: {text!r} gave {found}, wanted {wanted}")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    self_test()
    if sys.argv[1:] == ["--picture"]:
        print_picture(root)
        return 0
    complaints = check_tree(root)
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
