"""A memory cgroup for a test, of the kernel's first or second kind, below the one that the test is in."""

import contextlib
import itertools
import os
import pathlib
import time

_numbers = itertools.count()


@contextlib.contextmanager
def memory(bytes_max):
    """Its folder, to whose cgroup.procs a process is written (0: the one that writes). Errors: OSError, where none can be had."""
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
    """When the kernel has let go of its processes."""
    for _ in range(200):
        try:
            return folder.rmdir()
        except OSError:
            time.sleep(0.005)
