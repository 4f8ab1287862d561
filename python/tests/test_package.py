"""The package as a whole: its names, its types, its build."""

import ast
import graphlib
import inspect
import os
import pathlib
import subprocess
import sys

import penstock

SOURCE = pathlib.Path(os.environ.get("PENSTOCK_SOURCE", pathlib.Path(__file__).parents[2]))


def test_all_names_exist_and_are_documented():
    for name in penstock.__all__:
        thing = getattr(penstock, name)
        assert thing.__doc__, name
        if inspect.isfunction(thing):
            signature = inspect.signature(thing)
            assert signature.return_annotation is not inspect.Signature.empty, name
            assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values()), name
    folder = pathlib.Path(penstock.__file__).parent
    assert (folder / "py.typed").exists() and "def sort(" in (folder / "_penstock.pyi").read_text()


def imports_of(path, name):
    """Returns the modules that a module imports anywhere, also in functions or for type checkers."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            parents = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join(parents + [node.module] * bool(node.module))
            yield from [base] * bool(node.module) + [f"{base}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_no_module_imports_one_that_imports_it():
    folder = pathlib.Path(penstock.__file__).parent
    modules = {".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in folder.rglob("*.py")}
    graph = {name: set(imports_of(path, name)) & modules.keys() - {name} for name, path in modules.items()}
    assert len(graph) > 20 and "penstock.ray.storage" in graph["penstock.ray.tables"]
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_version_is_that_of_the_program(program):
    told = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    assert told.split() == ["penstock", penstock.__version__]


def test_each_error_is_what_python_calls_it():
    from penstock._errors import _CLASSES, exception
    text = next((SOURCE / "include/penstock").glob("base.h")).read_text()
    codes = text.partition("enum class ErrorCode {")[2].partition("}")[0].split("\n")
    assert len([line for line in codes if line.strip()]) == len(_CLASSES)
    for code, kind in enumerate(_CLASSES):
        error = exception(code, "x: cannot do: No space left on device", "do", "x", 28, "try")
        assert type(error) is kind and isinstance(error, penstock.Error) and isinstance(error, (OSError, ValueError, MemoryError))
        assert str(error) == "x: cannot do: No space left on device" and error.errno == 28 and error.hint == "try"
    assert str(exception(8, "x: row 1: odd (try: -k 2)", "row 1: odd", "x", 0, "-k 2", is_fault=True)) == "x: row 1: odd (try: key=2)"


def test_other_interpreters_are_refused():
    program = """
try:
    import _interpreters as others
except ImportError:
    import _xxsubinterpreters as others
other = others.create()
told = others.run_string(other, "try:\\n import penstock\\nexcept ImportError as error:\\n print(error)")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "penstock works in the main interpreter of a process alone: use threads, or processes\n", done


def test_a_build_says_which_packages_are_missing(tmp_path):
    done = subprocess.run(["cmake", "-S", SOURCE, "-B", tmp_path, "-DCMAKE_IGNORE_PATH=/usr/include", "-DPENSTOCK_TESTS=OFF"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    told = " ".join(done.stdout.split())
    assert done.returncode != 0 and "apt install" in told, done.stdout
    assert all(package in told for package in ("liburing-dev", "libfmt-dev", "libcli11-dev", "liblzma-dev")), done.stdout
