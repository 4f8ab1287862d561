"""The table of a campaign, made of its log, or of the logs of several."""

import collections
import dataclasses
import pathlib
import re

OPERATIONS = {"sort": "sort", "merge": "merge, partition, group, join", "partition": "merge, partition, group, join",
              "group": "merge, partition, group, join", "join": "merge, partition, group, join", "cat": "cat, find, gen", "find": "cat, find, gen",
              "gen": "cat, find, gen", "convert": "convert, replay", "replay": "convert, replay", "python": "Python"}
FAULTS = (("calls refused", ("error",)), ("kill -9", ("kill",)), ("SIGTERM, SIGINT", ("term", "int")), ("stopped and gone on", ("stop",)),
          ("input changed, cut, grown, replaced, removed", ("truncate", "grow", "change", "replace", "remove")),
          ("folders removed", ("remove-folder",)), ("small disk", ("disk",)), ("errors of the disk, torn transfers", ("seam-error",)),
          ("short transfers, delays", ("seam",)), ("a bit of a temporary or journal flipped", ("flip", "rot")), ("a second run", ("twin",)),
          ("limits of the process", ("limit",)), ("memory cgroup", ("cgroup",)), ("the system lacks something", ("without", "container")),
          ("pipe, socket, link, device in the place of a file", ("output", "input")), ("none", ()))


@dataclasses.dataclass
class Row:
    seed: str
    trial: str
    ended: str
    seconds: float
    reached: bool
    problem: str

    def __str__(self):
        problem = self.problem.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", " ")
        return "\t".join((self.seed, self.trial, self.ended, f"{self.seconds:.2f}", "reached" if self.reached else "missed", problem or "ok"))

    @staticmethod
    def parse(line):
        seed, trial, ended, seconds, reached, problem = line.rstrip("\n").split("\t")
        return Row(seed, trial, ended, float(seconds), reached == "reached", "" if problem == "ok" else problem)


def rows_of(paths):
    for path in paths:
        with open(path) as file:
            yield from (Row.parse(line) for line in file if line.strip())


def kinds_of(trial):
    kinds = {word.partition("@")[0].partition("=")[0] for word in trial.split()[1:]}
    return [name for name, members in FAULTS if kinds & set(members)] or ["none"]


PLACE = re.compile(r"(<!-- campaign -->\n).*(<!-- end of campaign -->\n)", re.DOTALL)


def write(path, rows):
    """A file, or its place in a page."""
    text = "\n".join(markdown(rows)) + "\n"
    page = pathlib.Path(path).read_text() if pathlib.Path(path).is_file() else ""
    pathlib.Path(path).write_text(PLACE.sub(lambda place: f"{place[1]}\n{text}\n{place[2]}", page) if PLACE.search(page) else text)


def markdown(rows):
    columns = list(dict.fromkeys(OPERATIONS.values()))
    table = {name: collections.Counter() for name, _ in FAULTS}
    ends = {name: collections.Counter() for name, _ in FAULTS}
    count, seconds, problems, cannot = 0, 0.0, [], 0
    for row in rows:
        if row.ended == "cannot":
            cannot += 1
            continue
        count += 1
        seconds += row.seconds
        operation = OPERATIONS[row.trial.partition("/")[0].partition("-")[0]]
        for name in kinds_of(row.trial):
            table[name][operation] += 1
            ends[name]["missed" if not row.reached else row.ended] += 1
        if row.problem:
            problems.append(row)
    yield f"{count} trials in {seconds / 3600:.1f} hours of one core. A trial with two faults counts in two rows."
    yield ""
    yield "| fault | " + " | ".join(columns) + " | finished | ended with a message | ended by a signal | not met |"
    yield "|---" * (len(columns) + 5) + "|"
    for name, _ in FAULTS:
        if table[name]:
            told = [table[name][column] for column in columns] + [ends[name][end] for end in ("finished", "failed", "ended", "missed")]
            yield f"| {name} | " + " | ".join(str(number) for number in told) + " |"
    yield ""
    if cannot:
        yield f"{cannot} trials could not be had on this system."
    yield f"Wrong: {len(problems)}." if problems else "Nothing was wrong."
    for row in problems:
        yield f"- `{row.seed}` `{row.trial}`: {row.problem.partition(chr(92) + 'n')[0]}"
