"""The notebooks of the manual: the cells of each run in order, as one program, and a cell's last value is displayed as in a notebook."""

import ast
import json
import os
import pathlib

import pytest

SOURCE = pathlib.Path(os.environ.get("PENSTOCK_SOURCE", pathlib.Path(__file__).parents[2]))
NOTEBOOKS = sorted((SOURCE / "docs/notebooks").glob("*.ipynb"))


def run(code, name, names):
    """Returns the value of the last line, if it is an expression."""
    tree = ast.parse(code, name)
    shown = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    return eval(compile(ast.Expression(shown.value), name, "eval"), names) if shown else None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4
    names = {"__name__": "__main__"}
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(codes) >= 3 and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in codes)
    for number, cell in enumerate(codes, 1):
        shown = run("".join(cell["source"]), f"{path.name}, cell {number}", names)
        html = getattr(shown, "_repr_html_", None)
        assert (html() if html else repr(shown))


def test_they_are_in_the_manual():
    contents = (SOURCE / "docs/README.md").read_text()
    assert len(NOTEBOOKS) == 5 and all(f"(notebooks/{path.name})" in contents for path in NOTEBOOKS)
