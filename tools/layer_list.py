"""Reads src/layers.txt, the list of the layers."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read(root=ROOT):
    """Returns (folder, name, the names of the layers that it uses) for each layer, bottom-up. Folders begin with src/."""
    rows = []
    for line in (root / "src/layers.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            folder, name, *uses = line.split("|")[0].split()
            rows.append((f"src/{folder}", name, uses))
    return rows


def folders(root=ROOT):
    """Returns the folder of each layer by its name."""
    return {name: folder for folder, name, _ in read(root)}
