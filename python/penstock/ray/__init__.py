"""Sorts and partitions of files on a cluster of Ray, or on this machine.

    import penstock.ray
    penstock.ray.sort("/shared/in/*.u64", "/shared/out/", format="u64", memory_per_task="2G")

The naive way, which Ray's own Dataset.sort goes, holds the input as objects in the nodes' shared memory, makes one object for every
pair of an input block and an output block, and sorts again what comes together. Here Ray carries control and 16 MiB objects alone;
bytes move as large slices between the nodes' disks:

    sample      cuts (key, group, position), from 256 places for every part
    distribute  a task per group of inputs: read once, cut natively, one file of slices on the node's own disk, an index returned
    gather      a task per part: its slices, in the order of groups, into the native sort, out under a hidden name
    publish     all parts get their names, then the manifest

Two reads, two writes, one hop over the network. The budget of every task is kept by the native operation itself.

| file | what it is |
|---|---|
| job.py | what a job is; journal.py keeps it, manifest.py is what is left of it |
| sample.py | groups, places, cuts |
| tasks.py, gather.py | what runs on nodes: samples and slices of groups; parts |
| slices.py, worker.py | slices from all nodes; an end, folders and feeds of every task |
| tables.py | the same for Parquet, Arrow and CSV by columns, as rows of the library |
| engine.py | Ray, or threads of this process |
| driver.py | which task runs where, and what is done again |
| model.py | what a job will take, without a cluster |
| storage.py | folders, and what fsspec knows |

docs/ray.md tells what fails and what happens then."""

from __future__ import annotations

from ._calls import from_dataset, group, partition, resume, sort, to_dataset
from .driver import TakenOver, TaskLost
from .manifest import Manifest, Part
from .model import Plan, plan
from .worker import InputChanged

__all__ = ["InputChanged", "Manifest", "Part", "Plan", "TakenOver", "TaskLost", "from_dataset", "group", "partition", "plan", "resume", "sort", "to_dataset"]
