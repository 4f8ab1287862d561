"""A memory cgroup for a test, of the kernel's first or second kind, below the one that the test is in."""

import contextlib
import itertools
import os
import pathlib
import time

_numbers = itertools.count()


@contextlib.contextmanager
def memory(bytes_max):
    """Yields the cgroup's folder: a process number written to its cgroup.procs (0: the writer) joins. Errors: OSError if none can be made."""
    for row in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = row.split(":", 2)
        if controllers == "memory":
            base, limit = pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        elif controllers == "" and pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
            base, limit = pathlib.Path("/sys/fs/cgroup" + path), "memory.max"
        else:
            continue
        folder = base / f"penstock-test-{os.getpid()}-{next(_numbers)}"
        folder.mkdir()
        try:
            (folder / limit).write_text(str(bytes_max))
            yield folder
        finally:
            _remove(folder)
        return
    raise OSError("the kernel has none here")


def _remove(folder):
    """Removes the cgroup when the kernel has released its processes."""
    for _ in range(200):
        try:
            return folder.rmdir()
        except OSError:
            time.sleep(0.005)
