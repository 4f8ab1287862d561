"""Sorts and partitions of files on a cluster of Ray, or on this machine.

    import penstock.ray
    penstock.ray.sort("/shared/in/*.u64", "/shared/out/", format="u64", memory_per_task="2G")

Ray's own Dataset.sort holds the input as objects in the nodes' shared memory, makes one object for every
pair of an input block and an output block, and sorts again after the exchange. Here Ray carries only control and 16 MiB objects;
bytes move as large slices between the nodes' disks:

    sample      cuts (key, group, position), from 256 positions for every part
    distribute  a task per group of inputs: reads once, cuts natively, writes one file of slices on the node's own disk, returns an index
    gather      a task per part: sorts its slices natively, in the order of groups, and writes the part under a hidden name
    publish     all parts get their names, then the manifest

Two reads, two writes, one hop over the network. The native operation itself keeps to the budget of every task.

| file | what it is |
|---|---|
| job.py | the job; journal.py keeps it, manifest.py is its result |
| sample.py | groups, positions, cuts |
| tasks.py, gather.py | the tasks on nodes: samples and slices of groups; parts |
| slices.py, worker.py | slices from all nodes; cancellation, folders and feeds of every task |
| tables.py | Parquet, Arrow and CSV by columns, as rows of the library |
| engine.py | Ray, or threads of this process |
| driver.py | placement of tasks, and repetition of failed ones |
| model.py | a job's duration, without a cluster |
| storage.py | folders, and file systems of fsspec |

docs/ray.md describes failures and their consequences."""

from __future__ import annotations

from ._calls import from_dataset, group, partition, resume, sort, to_dataset
from .driver import TakenOver, TaskLost
from .manifest import Manifest, Part
from .model import Plan, plan
from .worker import InputChanged

__all__ = ["InputChanged", "Manifest", "Part", "Plan", "TakenOver", "TaskLost", "from_dataset", "group", "partition", "plan", "resume", "sort", "to_dataset"]
