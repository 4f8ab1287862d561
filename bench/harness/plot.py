#!/usr/bin/python3
"""Draws the report of a bench:

    ./run bench rewire-shuffle --json | bench/harness/plot.py rewire-shuffle.png

Rows named "SERIES, x = N" become a line for each series, on logarithmic axes; rows named "GROUP: WHAT" become bars, a
panel for each unit and a colour for each WHAT; all others a bar each. Whiskers span the samples. Needs matplotlib.
"""

import json
import re
import sys

LINE = re.compile(r"(?P<series>.*), x = (?P<x>[0-9.]+)$")


def group_by(items, key):
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def spread(row):
    """How far the samples reach below and above the value."""
    samples = row.get("samples") or [row["value"]]
    return max(0.0, row["value"] - min(samples)), max(0.0, max(samples) - row["value"])


def draw_lines(axes, rows, unit):
    for series, points in group_by(rows, lambda row: LINE.match(row["what"])["series"]).items():
        points.sort(key=lambda row: float(LINE.match(row["what"])["x"]))
        below, above = zip(*map(spread, points))
        axes.errorbar([float(LINE.match(row["what"])["x"]) for row in points], [row["value"] for row in points],
                      yerr=[below, above], marker="o", markersize=4, capsize=2, label=series)
    axes.set(xscale="log", yscale="log", xlabel="x", ylabel=unit)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)


def draw_bars(axes, rows, unit):
    def parts(row):
        group, colon, what = row["what"].rpartition(": ")
        return (group, what) if colon else (row["what"], "")

    groups = list(group_by(rows, lambda row: parts(row)[0]))
    kinds = list(group_by(rows, lambda row: parts(row)[1]))
    height = 0.8 / len(kinds)
    for index, kind in enumerate(kinds):
        mine = [row for row in rows if parts(row)[1] == kind]
        below, above = zip(*map(spread, mine))
        axes.barh([groups.index(parts(row)[0]) + index * height for row in mine], [row["value"] for row in mine], height,
                  xerr=[below, above], error_kw={"elinewidth": 0.8}, label=kind)
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(groups))], groups, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    values = [row["value"] for row in rows if row["value"] > 0]
    if values and max(values) > 50 * min(values):
        axes.set_xscale("log")
    if any(kinds):
        axes.legend(fontsize=7)
    return len(groups) * len(kinds)


def main():
    if len(sys.argv) != 2 or not sys.argv[1].endswith((".png", ".svg", ".pdf")):
        sys.exit("use: ./run bench NAME --json | bench/harness/plot.py FILE.png")
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        sys.exit("bench/harness/plot.py: matplotlib is missing (try: apt-get install python3-matplotlib)")
    report = json.load(sys.stdin)
    panels = []
    for unit, rows in group_by(report["rows"], lambda row: row["unit"]).items():
        for is_line, mine in group_by(rows, lambda row: LINE.match(row["what"]) is not None).items():
            panels.append((unit, is_line, mine))
    heights = [4.0 if is_line else 0.8 + 0.16 * len(rows) for _, is_line, rows in panels]
    figure, axes = pyplot.subplots(len(panels), 1, squeeze=False, figsize=(9, 0.6 + sum(heights)),
                                   gridspec_kw={"height_ratios": heights}, layout="constrained")
    for (unit, is_line, rows), place in zip(panels, axes[:, 0]):
        (draw_lines if is_line else draw_bars)(place, rows, unit)
    figure.suptitle(report["bench"])
    figure.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    main()
