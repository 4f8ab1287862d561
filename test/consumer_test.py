"""A project that includes Penstock by FetchContent (or add_subdirectory(), which that calls) can compile its own files.

Configures such a project and compiles its file, without building Penstock. With "build" after its arguments Penstock is built
and the project run, which takes minutes.
Usage: consumer_test.py PENSTOCK_SOURCE CMAKE GENERATOR COMPILER [build]
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
    return done.stdout


def main():
    source, cmake, generator, compiler = sys.argv[1:5]
    consumer = pathlib.Path(source) / "test/consumer"
    with tempfile.TemporaryDirectory() as build:
        run(cmake, "-S", consumer, "-B", build, "-G", generator, f"-DPENSTOCK={source}",
            f"-DCMAKE_CXX_COMPILER={compiler}")
        commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
        own = [entry for entry in commands if entry["file"].endswith("consumer/main.cc")]
        assert len(own) == 1, own
        assert not any(entry["file"].endswith("_test.cc") for entry in commands), "tests are for whoever develops Penstock"
        assert not any("/cli/" in entry["file"] for entry in commands), "the program is for whoever installs Penstock"
        if sys.argv[5:] == ["build"]:
            run(cmake, "--build", build, "--target", "consumer")
            (pathlib.Path(build) / "in").write_text("b\nc\na\n")
            told = run(f"{build}/consumer", f"{build}/in", f"{build}/out")
            assert told.strip() == "streamed, 3 lines sorted", told
            print("consumer: built and run")
            return
        run(*shlex.split(own[0]["command"]), "-fsyntax-only", cwd=own[0]["directory"])
    print("consumer: compiles")


main()
