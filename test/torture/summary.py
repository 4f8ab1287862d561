"""Makes the tables of a campaign from its log, or from several logs."""

import collections
import dataclasses
import pathlib
import re

OPERATIONS = {name: column for column, names in (("sort", "sort"), ("merge, partition, group, join",) * 2, ("cat, find, gen",) * 2,
                                                 ("convert, replay",) * 2, ("streams, snapshots", "stream, snapshots"),
                                                 ("Python", "python")) for name in names.split(", ")}
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


def write(path, rows):
    """Writes a file, or replaces the tables of a page for which there are rows."""
    page = pathlib.Path(path).read_text() if pathlib.Path(path).is_file() else ""
    texts = []
    for name, some, table in (("campaign", [row for row in rows if row.seed != "-"], drawn),
                              ("power cuts", [row for row in rows if CUT in row.trial], cuts),
                              ("every call", [row for row in rows if row.seed == "-" and CUT not in row.trial], every)):
        if some:
            text = "\n".join(table(some)) + "\n"
            place = re.compile(rf"(<!-- {name} -->\n).*(<!-- end of {name} -->\n)", re.DOTALL)
            page, found = place.subn(lambda place, text=text: f"{place[1]}\n{text}\n{place[2]}", page)
            texts += [] if found else [text]
    pathlib.Path(path).write_text("\n".join(texts) if texts else page)


def wrong(rows):
    problems = [row for row in rows if row.problem]
    yield f"Wrong: {len(problems)}." if problems else "Nothing was wrong."
    for row in problems:
        yield f"- `{row.seed}` `{row.trial}`: {row.problem.partition(chr(92) + 'n')[0]}"


def of_operations(rows):
    """The rows as (operation, sizes, rows), by operation."""
    found = {}
    for row in rows:
        if row.ended != "cannot":
            operation, _, size = row.trial.partition(" ")[0].partition("/")
            sizes, some = found.setdefault(operation, (set(), []))
            sizes.add(size)
            some.append(row)
    for operation, (sizes, some) in sorted(found.items()):
        yield operation, ", ".join(sorted(sizes, key=("none", "few", "small", "large").index)), some


def every(rows):
    """The table of a campaign of every call."""
    yield "| operation | input | calls, killed at each | calls refused, with each error | wrong |"
    yield "|---" * 5 + "|"
    for operation, size, some in of_operations(rows):
        reached = collections.Counter(row.trial.split()[1].partition("=")[0].partition("@")[0] for row in some if row.reached)
        yield f"| {operation} | {size} | {reached['kill']} | {reached['error']} | {sum(bool(row.problem) for row in some)} |"
    yield ""
    yield from wrong(rows)


CUT = " power-cut="


def cuts(rows):
    """The table of power cuts. At each point only images count that no earlier point had."""
    yield "| operation | input | images, names in order | beyond that, in any order | wrong |"
    yield "|---" * 5 + "|"
    for operation, size, some in of_operations(rows):
        told = [row.trial.partition(CUT)[2].split(":") for row in some]
        models = collections.Counter(model for _, model, *_ in told)
        yield f"| {operation} | {size} | {models['ordered']} | {models['any']} | {sum(bool(row.problem) for row in some)} |"
    yield ""
    yield f"{len(rows)} images."
    yield from wrong(rows)


def drawn(rows):
    columns = list(dict.fromkeys(OPERATIONS.values()))
    table = {name: collections.Counter() for name, _ in FAULTS}
    ends = {name: collections.Counter() for name, _ in FAULTS}
    count, seconds, cannot = 0, 0.0, 0
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
    yield from wrong(rows)
