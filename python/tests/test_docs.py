"""The examples of the manual's page, in the order in which they stand, as one program."""

import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ.get("PENSTOCK_SOURCE", pathlib.Path(__file__).parents[2]))


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (SOURCE / "docs/python.md").read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    assert len(blocks) >= 2
    names = {"__name__": "page"}
    for block in blocks:
        # Lines keep their numbers, so that an error tells where it stands.
        code = "\n" * page[: block.start(1)].count("\n") + block.group(1)
        exec(compile(code, "docs/python.md", "exec"), names)
