"""A model of a job's duration, which needs no cluster.

Every stage uses four resources of every node: its processors, its disks, its network and the storage of inputs and outputs. Tasks
overlap their uses, so a stage lasts as long as its busiest resource; the disks' two directions share one limit. To that
come a fixed cost (the sample, tasks, names), the cost of every further node to all others (contention, a share of the time for
each), and stragglers: node times are taken as normal with a relative spread, and a stage waits for the largest of them.

Sources of the figures: processor seconds of a gigabyte are measured (KINDS); contention and spread come from published runs (RUNS), by
fit(): the two runs with one load and different numbers of nodes give the contention, the repeated runs the spread, and
the geometric mean over the runs with at most 20 nodes the scale of a machine. table() compares the fit with all of RUNS."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from typing import Any

from .._files import size_bytes

GB = 1e9


@dataclass(frozen=True)
class Machine:
    """A node. Rates are bytes a second; `storage` is each node's rate to inputs and outputs (None: its own disks)."""

    processors: int
    read_bytes_per_s: float
    write_bytes_per_s: float
    network_bytes_per_s: float
    storage_bytes_per_s: float | None = None
    scale: float = 1.0  # factor by which a published system is slower than its machine

    def disk_seconds(self, read: float, written: float) -> float:
        return read / self.read_bytes_per_s + written / self.write_bytes_per_s


@dataclass(frozen=True)
class Costs:
    """Processor seconds for a gigabyte in each stage; fixed seconds of every job; contention and spread."""

    distribute: float
    gather: float
    fixed: float = 2.0
    contention: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True)
class Stage:
    name: str
    seconds: float
    uses: dict[str, float]  # seconds that each resource would take alone

    @property
    def longest(self) -> str:
        return max(self.uses, key=lambda name: self.uses[name])


@dataclass(frozen=True)
class Plan:
    nodes: int
    parts: int
    stages: list[Stage]
    seconds: float
    seconds_low: float  # without stragglers
    seconds_high: float  # exceeded by one run of ten
    disk_bytes: float  # for slices, on each node
    network_bytes: float  # in total

    def __str__(self) -> str:
        lines = [f"{self.nodes} nodes, {self.parts} parts: {self.seconds:.0f} s ({self.seconds_low:.0f} to {self.seconds_high:.0f}); on the "
                 f"disks of a node {self.disk_bytes / GB:.1f} GB, over the network {self.network_bytes / GB:.1f} GB"]
        lines += [f"  {stage.name}: {stage.seconds:.0f} s, of which {stage.longest} {stage.uses[stage.longest]:.0f}" for stage in self.stages]
        return "\n".join(lines)


def largest_of(nodes: int, chance: float = 0.5) -> float:
    """Returns the quantile of the largest of `nodes` normal numbers; with the default, it is exceeded half of the time."""
    return max(0.0, statistics.NormalDist().inv_cdf(chance ** (1 / nodes))) if nodes > 1 else 0.0


def stages_of(machine: Machine, nodes: int, size: float, costs: Costs) -> list[Stage]:
    """Returns the stages without the contention of nodes."""
    share = size / nodes
    own = machine.storage_bytes_per_s is None
    storage = 0.0 if machine.storage_bytes_per_s is None else share / machine.storage_bytes_per_s
    sent = share * (nodes - 1) / nodes
    distribute = {"processors": share / GB * costs.distribute / machine.processors,
                  "disks": machine.disk_seconds(share if own else 0, share), "storage": storage, "network": 0.0}
    gather = {"processors": share / GB * costs.gather / machine.processors,
              "disks": machine.disk_seconds(share, share if own else 0), "storage": storage, "network": sent / machine.network_bytes_per_s}
    return [Stage(name, max(uses.values()) * machine.scale, uses) for name, uses in (("distribute", distribute), ("gather", gather))]


def estimate(machine: Machine, nodes: int, size: float, costs: Costs, parts: int = 0) -> Plan:
    stages = stages_of(machine, nodes, size, costs)
    crowd = 1 + costs.contention * (nodes - 1)

    def with_stragglers(chance: float) -> float:
        return costs.fixed + sum(stage.seconds for stage in stages) * crowd * (1 + costs.spread * largest_of(nodes, chance))

    own = machine.storage_bytes_per_s is None
    return Plan(nodes, parts, stages, with_stragglers(0.5), costs.fixed + sum(stage.seconds for stage in stages) * crowd, with_stragglers(0.9),
                size / nodes * (2 if own else 1), size * (nodes - 1) / nodes)


# ---- Published runs.


@dataclass(frozen=True)
class Run:
    system: str
    machine: str
    terabytes: float
    nodes: int
    seconds: tuple[float, ...]  # one for each repetition
    contention: bool = True  # in Ray's control plane


RUNS = [
    *[Run("CloudSort, object store", "i4i.4xlarge", terabytes, nodes, seconds) for terabytes, nodes, seconds in (
        (2, 10, (402,)), (8, 10, (1550,)), (4, 20, (418,)), (10, 20, (1266,)), (8, 40, (456, 460)), (40, 40, (2187, 2243)), (100, 40, (5378,)))],
    *[Run("CloudSort, own disks", "i4i.2xlarge", terabytes, nodes, (seconds,)) for terabytes, nodes, seconds in (
        (1, 10, 361), (10, 100, 607), (50, 100, 3089))],
    Run("Conley et al.", "i2.8xlarge", 100, 296, (915,), contention=False),
    Run("Ray, shuffle alone", "50 machines", 90, 50, (7976,)),
]

# Network rates as published; for disks and storage the usual rates of such machines, which the scale corrects if there is a run to fit it.
MACHINES = {
    "i4i.4xlarge": Machine(16, 2.0e9, 1.6e9, 25e9 / 8, 25e9 / 8),
    "i4i.2xlarge": Machine(8, 1.4e9, 0.9e9, 12e9 / 8),
    "i2.8xlarge": Machine(32, 1.75e9, 1.4e9, 10e9 / 8),
    "50 machines": Machine(32, 2.8e9, 1.4e9, 10e9 / 8),
}
FITTED_NODES = 20  # only runs with at most this many are fitted
OTHERS = Costs(distribute=4.0, gather=8.0, fixed=15.0)  # for other systems


def _mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def fit() -> tuple[Costs, dict[str, float]]:
    """Fits contention and spread, and the scale of each machine with runs to fit."""
    by_load: dict[tuple[str, float], list[Run]] = {}
    for run in RUNS:
        by_load.setdefault((run.machine, run.terabytes / run.nodes), []).append(run)
    contention = 0.0
    for same in by_load.values():
        small = sorted((run for run in same if run.nodes <= FITTED_NODES), key=lambda run: run.nodes)
        if len(small) > 1:
            few, many = small[0], small[-1]
            growth = _mean(list(many.seconds)) / _mean(list(few.seconds))
            contention = max(0.0, (growth - 1) / ((many.nodes - 1) - growth * (few.nodes - 1)))
    spread = max(statistics.pstdev(run.seconds) / statistics.fmean(run.seconds) for run in RUNS)
    costs = Costs(OTHERS.distribute, OTHERS.gather, OTHERS.fixed, contention, spread)
    scales = {}
    for name, machine in MACHINES.items():
        ratios = [(_mean(list(run.seconds)) - costs.fixed) / (estimate(machine, run.nodes, run.terabytes * 1e12, costs).seconds - costs.fixed)
                  for run in RUNS if run.machine == name and run.nodes <= FITTED_NODES]
        if ratios:
            scales[name] = _mean(ratios)
    return costs, scales


def table() -> list[dict[str, Any]]:
    """Compares every published run with the model: the error, and whether the run was fitted."""
    costs, scales = fit()
    rows = []
    for run in RUNS:
        machine = MACHINES[run.machine]
        machine = replace(machine, scale=scales.get(run.machine, 1.0))
        plan = estimate(machine, run.nodes, run.terabytes * 1e12, costs if run.contention else replace(costs, contention=0.0))
        taken = statistics.fmean(run.seconds)
        rows.append({"system": run.system, "machine": run.machine, "terabytes": run.terabytes, "nodes": run.nodes, "seconds": taken,
                     "predicted": plan.seconds, "low": plan.seconds_low, "high": plan.seconds_high,
                     "error": plan.seconds / taken - 1, "fitted": run.machine in scales and run.nodes <= FITTED_NODES})
    return rows


# ---- Measured costs.

# Processor seconds of a gigabyte: of 8-byte numbers, of lines of 97 bytes, of tables of Parquet with rows of 104 bytes. Measured by
# python/bench/ray_sort.py --costs --bytes 512M, once, on a machine that others used, too; Ray's work to carry objects is not in them.
KINDS = {"numbers": Costs(2.9, 3.7), "lines": Costs(1.5, 3.8), "tables": Costs(3.0, 5.2)}


def plan(size: int | str, nodes: int, *, kind: str = "numbers", processors: int, disk_read: int | str = "2GB", disk_write: int | str = "2GB",
         network: int | str = "1.25GB", storage: int | str | None = None, memory_per_task: int | str = "2G") -> Plan:
    """Estimates a sort() of `size` bytes on `nodes` nodes.

    `kind` of input: "numbers", "lines", "tables". Rates are bytes a second for each node; `storage` is the rate of shared storage (an
    object store, a file server), or None: inputs and outputs are on disks of the nodes. Contention and stragglers are those of published
    runs."""
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not {kind!r}")
    if nodes < 1 or processors < 1:
        raise ValueError("there is at least one node, with one processor")
    fitted, _ = fit()
    own = KINDS[kind]
    machine = Machine(processors, size_bytes(disk_read), size_bytes(disk_write), size_bytes(network),
                      None if storage is None else size_bytes(storage))
    total = size_bytes(size)
    parts = max(1, -(-total * 5 // (2 * size_bytes(memory_per_task))))
    return estimate(machine, nodes, total, Costs(own.distribute, own.gather, own.fixed, fitted.contention, fitted.spread), parts)
