"""A project that takes Penstock by add_subdirectory() has all that its own files need to compile.

Configures such a project, and has the compiler look at its file; nothing of Penstock is built.
Usage: consumer_test.py PENSTOCK_SOURCE CMAKE GENERATOR COMPILER
"""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")


def main():
    source, cmake, generator, compiler = sys.argv[1:]
    consumer = pathlib.Path(source) / "test/consumer"
    with tempfile.TemporaryDirectory() as build:
        run(cmake, "-S", consumer, "-B", build, "-G", generator, f"-DPENSTOCK={source}",
            f"-DCMAKE_CXX_COMPILER={compiler}")
        commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
        own = [entry for entry in commands if entry["file"].endswith("consumer/main.cc")]
        assert len(own) == 1, own
        assert not any(entry["file"].endswith("_test.cc") for entry in commands), "tests are for whoever develops Penstock"
        run(*shlex.split(own[0]["command"]), "-fsyntax-only", cwd=own[0]["directory"])
    print("consumer: compiles")


main()
