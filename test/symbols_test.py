"""Checks the symbols of the libraries, and the contents that they must not have.

1. The shared library exports exactly the functions of penstock/penstock.h, listed in src/interfaces/c/symbols.txt.
2. No weak symbol that other objects could define comes from an object that was compiled for newer processors. The linker
   keeps one of several weak definitions: if it kept such an object's, the program would die on an older processor.
3. The shared library stays in a process that closes it, because its signal handlers do.
4. Nothing of the shared library and the program can be written and then executed (hardening.py).
5. Neither obeys environment variables for tests: it does not contain their names (test/support).

Usage: symbols_test.py NM READELF SHARED_LIBRARY PROGRAM SYMBOLS HEADER BUILD_FOLDER
"""

import json
import pathlib
import re
import subprocess
import sys

import hardening


def symbols(nm, *arguments):
    """The symbols as (name, type)."""
    done = subprocess.run([nm, "-P", *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True)
    return [tuple(line.split()[:2]) for line in done.stdout.splitlines() if len(line.split()) >= 2]


def without_version(name):
    return name.partition("@")[0]


def check_exports(nm, library, listed, header):
    shown = {without_version(name) for name, kind in symbols(nm, "-D", "--defined-only", library) if kind != "A"}
    frozen = set(listed.read_text().split())
    declared = set(re.findall(r"^PENSTOCK_API [^;]*?\b(penstock_\w+)\(", header.read_text(), re.MULTILINE | re.DOTALL))
    assert declared, "no function was found in the header"
    assert shown == frozen, (f"{library} shows {sorted(shown - frozen)} that {listed} has not, "
                             f"and lacks {sorted(frozen - shown)}: what was shown once is shown for ever")
    assert declared == frozen, f"declared and frozen differ in {sorted(declared ^ frozen)}"


# Namespaces of objects for newer processors: no other object defines symbols in them.
OWN = re.compile(r"(4avx2|6avx512)")


def weak_strangers(names):
    return [name for name, kind in names if kind in "WVu" and not OWN.search(name)]


def check_weak(nm, build):
    # The check can fail.
    assert weak_strangers([("_ZN8penstock4sortEv", "W"), ("_ZN8penstock6avx5124sortEv", "W"), ("f", "T")]) == \
        ["_ZN8penstock4sortEv"]
    looked_at = 0
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if not re.search(r" -mavx", entry["command"]) or "/src/" not in entry["file"]:
            continue
        target = pathlib.Path(entry["directory"]) / re.search(r" -o (\S+)", entry["command"]).group(1)
        if not target.exists():
            continue
        looked_at += 1
        found = weak_strangers(symbols(nm, "--defined-only", target))
        assert not found, f"{target}: weak symbols that others may define, too: {found}"
    assert looked_at >= 5, f"{looked_at} objects for newer processors in {build}"
    return looked_at


def check_stays(library):
    program = ("import _ctypes, ctypes, sys\n"
               "library = ctypes.CDLL(sys.argv[1])\n"
               "assert library.penstock_install_handlers() == 0\n"
               "_ctypes.dlclose(library._handle)\n"
               "assert sys.argv[1] in open('/proc/self/maps').read(), 'handlers without code'\n")
    subprocess.run([sys.executable, "-c", program, library.resolve()], check=True)


def check_words(file):
    data = file.read_bytes()
    assert b"PENSTOCK_IO" in data, f"{file}: the word that it does have is not found"
    for word in (b"PENSTOCK_INJECT", b"PENSTOCK_EMULATE"):
        assert word not in data, f"{file} has {word.decode()}, which is for tests"


def main():
    nm, readelf, library, program, listed, header, build = sys.argv[1:]
    check_exports(nm, pathlib.Path(library), pathlib.Path(listed), pathlib.Path(header))
    check_stays(pathlib.Path(library))
    for file in (library, program):
        hardening.check(readelf, file)
        check_words(pathlib.Path(file))
    objects = check_weak(nm, pathlib.Path(build))
    print(f"symbols: as frozen; {objects} objects for newer processors have no weak symbol of others")


main()
