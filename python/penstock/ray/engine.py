"""Engines, which run tasks: a cluster of Ray, or threads of this process, with the same interface.

A task is a function of tasks.py or gather.py. The `outcome` of one that has ended is its value, or its exception, or the loss of its process
("worker") or its node ("node"). An engine repeats nothing: the driver decides."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Sequence

from . import worker

Handle = Any
SENT_SECONDS = 0.3  # by then Ray has sent the task, or it waits for a worker


@dataclass(frozen=True)
class Node:
    id: str
    slots: int  # simultaneous tasks
    store_bytes: int | None = None  # size of Ray's object store


@dataclass
class Outcome:
    value: Any = None
    error: BaseException | None = None
    lost: str = ""  # "worker", "node"


class ThisMachine:
    """Runs tasks in threads, which suffice because the native operations need no GIL."""

    name = "this machine"
    can_kill = False  # whether a task that does not react to cancel() can be killed

    def __init__(self, slots: int | None) -> None:
        slots = slots or len(os.sched_getaffinity(0))
        self._node = Node("this machine", slots)
        # Two more threads for small tasks beside those in slots.
        self._pool = concurrent.futures.ThreadPoolExecutor(slots + 2, "penstock")
        self._stops: dict[Handle, threading.Event] = {}

    def nodes(self) -> list[Node]:
        return [self._node]

    def share(self, value: Any) -> Any:
        return value

    def start(self, function: Callable[..., Any], arguments: Sequence[Any], node: str, cpus: int, memory: int) -> Handle:
        stop = threading.Event()

        def work() -> Any:
            worker.set_stop(stop, self._node.id)
            return function(*arguments)

        handle = self._pool.submit(work)
        self._stops[handle] = stop
        return handle

    def wait(self, handles: list[Handle], seconds: float) -> list[Handle]:
        return list(concurrent.futures.wait(handles, seconds, concurrent.futures.FIRST_COMPLETED).done)

    def outcome(self, handle: Handle) -> Outcome:
        self._stops.pop(handle, None)
        if handle.cancelled():
            return Outcome(error=worker.Stopped())
        error = handle.exception()
        return Outcome(error=error) if error is not None else Outcome(handle.result())

    def cancel(self, handle: Handle, force: bool) -> None:
        handle.cancel()
        if handle in self._stops:
            self._stops[handle].set()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


class Cluster:
    """A cluster of Ray. Ray never retries tasks, and runs them on the given node or not at all."""

    name = "ray"
    can_kill = True

    def __init__(self, slots: int | None, memory: int, address: str | None) -> None:
        import ray

        self._ray = ray
        self._slots, self._memory = slots, memory
        self._functions: dict[Callable[..., Any], Any] = {}
        self._started = 0.0  # time of the last start
        self._shares: dict[str, float] = {}  # share of a processor that a task on each node has
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            ray.init(address=address or "auto", log_to_driver=False, logging_level=logging.WARNING)

    def nodes(self) -> list[Node]:
        found = []
        for told in self._ray.nodes():  # type: ignore[no-untyped-call]
            resources = told["Resources"]
            if not told["Alive"] or not resources.get("CPU"):
                continue
            slots = min(self._slots or int(resources["CPU"]), int(resources.get("memory", 0)) // self._memory)
            if slots:
                # Rounded down to Ray's resolution.
                self._shares[told["NodeID"]] = min(1.0, int(1000 * resources["CPU"] / slots) / 1000)
                found.append(Node(told["NodeID"], slots, int(resources.get("object_store_memory", 0))))
        return found

    def share(self, value: Any) -> Any:
        return self._ray.put(value)

    def start(self, function: Callable[..., Any], arguments: Sequence[Any], node: str, cpus: int, memory: int) -> Handle:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if function not in self._functions:
            self._functions[function] = self._ray.remote(max_retries=0)(function)
        self._started = time.monotonic()
        return self._functions[function].options(
            num_cpus=cpus * self._shares.get(node, 1), memory=memory or None, name=f"penstock {function.__name__}",
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(*arguments)

    def wait(self, handles: list[Handle], seconds: float) -> list[Handle]:
        done, _ = self._ray.wait(handles, num_returns=1, timeout=seconds)
        if done and len(handles) > 1:
            done, _ = self._ray.wait(handles, num_returns=len(handles), timeout=0)
        return list(done)

    def outcome(self, handle: Handle) -> Outcome:
        from ray import exceptions

        try:
            return Outcome(self._ray.get(handle))
        except exceptions.TaskCancelledError as error:
            return Outcome(error=error)
        except exceptions.RayTaskError as error:
            return Outcome(error=error.cause if isinstance(getattr(error, "cause", None), BaseException) else error)
        except (exceptions.WorkerCrashedError, exceptions.OutOfMemoryError) as error:
            return Outcome(error=error, lost="worker")
        except exceptions.RayError as error:
            return Outcome(error=error, lost="node")

    def cancel(self, handle: Handle, force: bool) -> None:
        # A task that is cancelled before Ray has sent it is forgotten. It may be sent all the same, and when it is done Ray ends the driver
        # ("Tried to complete task that was not pending").
        time.sleep(max(0.0, self._started + SENT_SECONDS - time.monotonic()))
        self._ray.cancel(handle, force=force, recursive=True)

    def close(self) -> None:
        if self._connected_here:
            self._ray.shutdown()


def choose(address: str | None, slots: int | None, memory: int) -> ThisMachine | Cluster:
    """Returns a cluster if `address` or $RAY_ADDRESS names one, or if ray.init() was called; otherwise this machine. Errors:
    ImportError."""
    if address == "local":
        return ThisMachine(slots)
    try:
        import ray
    except ImportError as error:
        if address or os.environ.get("RAY_ADDRESS"):
            raise ImportError("a cluster needs Ray: pip install 'penstock[ray]'") from error
        return ThisMachine(slots)
    if address or ray.is_initialized() or os.environ.get("RAY_ADDRESS"):
        return Cluster(slots, memory, address)
    return ThisMachine(slots)
