"""The examples of the manual's pages, in order, as one program each."""

import os
import pathlib
import re

import pytest

SOURCE = pathlib.Path(os.environ.get("PENSTOCK_SOURCE", pathlib.Path(__file__).parents[2]))


@pytest.mark.parametrize("name", ["docs/python.md", "docs/ray.md", "docs/recipes.md"])
def test_the_page_runs(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    page = (SOURCE / name).read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    assert blocks
    names = {"__name__": "page"}
    for block in blocks:
        # Lines keep their numbers, so that an error shows its line.
        code = "\n" * page[: block.start(1)].count("\n") + block.group(1)
        exec(compile(code, name, "exec"), names)
