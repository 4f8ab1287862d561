"""The public functions: arguments become a job, which a driver runs."""

from __future__ import annotations

import os
import secrets
from typing import Any

from .. import _penstock
from .._files import Progress, _Bar, _items, size_bytes, value_of
from .._tables import PARTS_MAX
from . import engine as engines
from . import journal, sample, storage, tables
from .driver import Driver, check_output_is_new
from .engine import Cluster, ThisMachine
from .job import Input, Job, MiB, PROCESS_BYTES, words_of
from .manifest import NAME, Manifest

PART_BYTES_MIN = 16 * MiB  # less does not pay for a task
GROUP_BYTES_MAX = 1024 * MiB
SUFFIXES = {"lines": ".txt", "record": ".bin"}


def _paths(inputs: Any) -> list[str]:
    return [os.fspath(path) for path in ([inputs] if isinstance(inputs, (str, os.PathLike)) else inputs)]


def _output_of(output: str | os.PathLike[str], suffix: str) -> str:
    """Returns the output's pattern, with a place for a part's number. A name without one is a folder."""
    name = os.fspath(output)
    if "{}" in storage.folder_of(name) or name.count("{}") > 1:
        raise ValueError(f"{name!r}: the number of a part is to stand once, in the name of the file")
    return name if "{}" in name else storage.join(name.rstrip("/") or "/", "part-{}" + suffix)


def _object_limits(nodes: list[engines.Node]) -> tuple[int, int]:
    """Returns the bytes of an object and how many are in flight to a gather, so that they fit in a quarter of the smallest store: an
    eighth for sent objects, an eighth for received ones."""
    rooms = [node.store_bytes // 8 // node.slots for node in nodes if node.store_bytes is not None]
    room = min(rooms, default=4 * 16 * MiB)
    if room < MiB:
        raise ValueError("the object store of a node is too small: it has to have 8 MiB for every task (object_store_memory of ray.init())")
    size = min(16 * MiB, room)
    return size, max(1, min(4, room // size))


def _inputs_of(inputs: Any) -> list[Input]:
    found = storage.expand(_paths(inputs))
    if not found:
        raise FileNotFoundError(f"no file is named {inputs!r}")
    return [Input(each.path, each.bytes, each.identity) for each in found]


def _make(operation: str, inputs: Any, output: Any, engine: ThisMachine | Cluster, *, parts: int | None, memory: int, group_size: Any,
          temp: Any, options: dict[str, Any], aggregates: dict[str, Any], table: dict[str, Any] | None, faults: dict[str, str]) -> Job:
    words = options.pop("_words", None)
    if words is None:
        files = _penstock.FilesOptions()
        _items(files.items, options)
        words = words_of(files.items)
    if options:
        raise TypeError(f"no option {next(iter(options))!r}")
    process = PROCESS_BYTES if isinstance(engine, Cluster) else 32 * MiB
    if memory < process + 96 * MiB:
        raise ValueError(f"a task needs {(process + 96 * MiB) >> 20} MiB or more, not memory_per_task={memory >> 20}M")
    if isinstance(engine, Cluster):
        # Workers have working directories of their own.
        inputs, output = [storage.absolute(path) for path in _paths(inputs)], storage.absolute(os.fspath(output))
    found = _inputs_of(inputs)
    nodes = engine.nodes()
    if not nodes:
        raise ValueError("the cluster has no node with a processor and memory_per_task of memory for tasks")
    slots = sum(node.slots for node in nodes)
    total = sum(each.bytes for each in found)
    step = size_bytes(group_size) if group_size is not None else min(GROUP_BYTES_MAX, max(32 * MiB, -(-total // (4 * slots))))
    if table is not None:
        groups, total = tables.groups_of(found, table, step, memory - process)
        words = dict(words, name="rows")
        header = b""
    else:
        header = sample.header_of(found[0].path, found[0].bytes, words)
        groups = sample.groups_of(found, words, step)
    if parts is None:
        # Half of the memory for the largest part, which is 1.25 times the mean. An eighth, if slices are a megabyte even then: the sort
        # sees all of such a part before it decides anything, and memory that one task has used is at hand for the next.
        native = memory - process if table is None else tables.native_bytes(memory - process)
        parts = max(1, -(-total * 5 // (2 * native)), min(total * 8 // native, native // (4 * MiB)), min(slots, total // PART_BYTES_MIN))
    if not 1 <= parts <= PARTS_MAX:
        raise ValueError(f"parts are 1 to 65536, not {parts}: give tasks more memory, or fewer parts")
    size, objects = _object_limits(nodes)
    if table is not None:
        suffix = tables.SUFFIXES[table["output_format"]]
    else:
        suffix = ".csv" if words["csv"] else SUFFIXES.get(words["name"], f".{words['name']}")
    name = _output_of(output, suffix)
    check_output_is_new(name)
    temps = [] if temp is None else [os.path.abspath(path) for path in _paths(temp)]
    storage.make_folder(storage.folder_of(name))
    return Job(name=secrets.token_hex(6), operation=operation, output=name, items=words, inputs=found, groups=groups, parts=parts,
               memory=memory, process=process, temp=temps, header=header, table=table, aggregates=aggregates, object_bytes=size,
               objects=objects, faults=faults)


def _run(operation: str, inputs: Any, output: Any, *, parts: int | None, memory_per_task: int | str, tasks_per_node: int | None,
         group_size: int | str | None, temp: Any, address: str | None, progress: Progress, options: dict[str, Any],
         aggregates: dict[str, Any] | None = None, table: dict[str, Any] | None = None) -> Manifest:
    faults = options.pop("_faults", {})
    memory = size_bytes(memory_per_task)
    engine = engines.choose(address, tasks_per_node, memory)
    bar = _Bar(progress)
    try:
        job = _make(operation, inputs, output, engine, parts=parts, memory=memory, group_size=group_size, temp=temp, options=options,
                    aggregates=aggregates or {}, table=table, faults=faults)
        driver = Driver(job, engine, bar.tell)
        if operation == "sort" and job.parts > 1 and job.groups:
            driver.choose_cuts(job.parts)
        elif operation == "sort":
            driver.job.parts = 1
        return driver.go()
    finally:
        bar.close()
        engine.close()


def sort(inputs: Any, output: str | os.PathLike[str], *, by: Any = None, nulls: str | None = None, parts: int | None = None,
         memory_per_task: int | str = "2G", tasks_per_node: int | None = None, group_size: int | str | None = None, temp: Any = None,
         address: str | None = None, progress: Progress = None, output_format: str | None = None, row_group: int | None = None,
         **options: Any) -> Manifest:
    """Sorts files into parts, whose numbers are in order.

    Equal items keep the order of the inputs. With `by` the inputs are tables, as in sort_table(); without it they are items of `format`,
    `dtype`, `key` and the like."""
    table = None
    if by is not None:
        table, options = tables.table_of(_paths(inputs), by, nulls, output_format, row_group, options)
    return _run("sort", inputs, output, parts=parts, memory_per_task=memory_per_task, tasks_per_node=tasks_per_node, group_size=group_size,
                temp=temp, address=address, progress=progress, options=options, table=table)


def partition(inputs: Any, output: str | os.PathLike[str], *, by: str = "hash", parts: int, memory_per_task: int | str = "2G",
              tasks_per_node: int | None = None, group_size: int | str | None = None, temp: Any = None, address: str | None = None,
              progress: Progress = None, **options: Any) -> Manifest:
    """Distributes items to parts by the hash of their key, as partition_files() does.

    Within a part items keep their order. (`by="range"` would be sort().)"""
    if by != "hash":
        raise ValueError(f"by is 'hash', not {by!r}: parts in order are what sort() makes")
    return _run("partition", inputs, output, parts=parts, memory_per_task=memory_per_task, tasks_per_node=tasks_per_node,
                group_size=group_size, temp=temp, address=address, progress=progress, options=options)


def group(inputs: Any, output: str | os.PathLike[str], *, count: bool = False, sum: bool = False, min: bool = False, max: bool = False,
          distinct: bool = False, value: Any = None, sorted: bool = False, parts: int | None = None, memory_per_task: int | str = "2G",
          tasks_per_node: int | None = None, group_size: int | str | None = None, temp: Any = None, address: str | None = None,
          progress: Progress = None, **options: Any) -> Manifest:
    """Writes one result for each key, as penstock.group() does, in parts by the hash of the key; `sorted` applies within each part."""
    aggregates = {"count": count, "sum": sum, "min": min, "max": max, "distinct": distinct, "sorted": sorted, **value_of(value)}
    return _run("group", inputs, output, parts=parts, memory_per_task=memory_per_task, tasks_per_node=tasks_per_node, group_size=group_size,
                temp=temp, address=address, progress=progress, options=options, aggregates=aggregates)


def resume(path: str | os.PathLike[str], *, tasks_per_node: int | None = None, address: str | None = None,
           progress: Progress = None) -> Manifest:
    """Continues a job whose driver was lost, given the folder that it writes to, or its journal in there.

    Finished work, and slices that still are on the nodes, are not redone. A finished job is left as it is. A driver that still runs
    raises TakenOver."""
    try:
        job = journal.load(os.fspath(path))
    except FileNotFoundError:
        if NAME in storage.names(os.fspath(path)):
            return Manifest.load(os.fspath(path))
        raise
    engine = engines.choose(address, tasks_per_node, job.memory)
    bar = _Bar(progress)
    try:
        return Driver(job, engine, bar.tell).go(resumed=True)
    finally:
        bar.close()
        engine.close()


def to_dataset(manifest: Manifest) -> Any:
    """Returns the parts of tables, in their order, as a ray.data.Dataset."""
    import ray

    reader = {"parquet": ray.data.read_parquet, "csv": ray.data.read_csv}.get(manifest.format)
    if reader is None:
        raise ValueError(f"Ray's datasets are made of tables, not of {manifest.format}")
    dataset = reader(manifest.paths)
    dataset.context.execution_options.preserve_order = True
    return dataset


def from_dataset(dataset: Any, folder: str | os.PathLike[str]) -> list[str]:
    """Writes a ray.data.Dataset to a folder as Parquet, and returns the names of its files, in the dataset's order: inputs of sort()."""
    name = os.fspath(folder)
    before = set(storage.names(name))
    options = dataset.context.execution_options
    ordered, options.preserve_order = options.preserve_order, True
    try:
        dataset.write_parquet(name if not storage.is_local(name) else os.path.abspath(name))
    finally:
        options.preserve_order = ordered
    return [storage.join(name, each) for each in storage.names(name) if each not in before and each.endswith(".parquet")]
