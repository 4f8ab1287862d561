import math
import os
import pathlib
import random
import sys
import time

import pytest
from hypothesis import settings

# Like trials() of src/base/trials.h: PENSTOCK_TRIALS=4 runs a quarter. The examples are the same each time.
settings.register_profile("gate", max_examples=100 // int(os.environ.get("PENSTOCK_TRIALS", "1")), deadline=None, derandomize=True, database=None)
settings.load_profile("gate")


@pytest.fixture(scope="session")
def program():
    """Returns the command of the developers' build, or the one that was installed with the package."""
    path = pathlib.Path(os.environ.get("PENSTOCK_PROGRAM") or os.path.dirname(sys.executable), "penstock")
    if not path.exists():
        pytest.skip("there is no program penstock in the folder of Python, nor in that of PENSTOCK_PROGRAM")
    return str(path.resolve())


@pytest.fixture
def threads_left():
    """A function that returns how many threads more than `before` the process has; 0 if they end within seconds. A joined thread stays in /proc a
    moment longer."""

    def left(before):
        end = time.monotonic() + 10
        while (more := len(os.listdir("/proc/self/task")) - before) > 0 and time.monotonic() < end:
            time.sleep(0.01)
        return max(more, 0)

    return left


def pytest_collection_modifyitems(items):
    """Keeps a part of the cases of tests with thousands of them, and random ones of the tests on a cluster, which take seconds each."""
    trials = int(os.environ.get("PENSTOCK_TRIALS", "1"))
    one_in = 1 if trials == 1 else 4 * trials
    cases = {}
    for item in items:
        cases.setdefault(item.originalname, []).append(item)
    on_a_cluster = [item for item in items if "nodes" in item.fixturenames]
    left_out = set(random.sample(on_a_cluster, len(on_a_cluster) - math.ceil(len(on_a_cluster) / max(trials / 2, 1))))
    items[:] = [item for item in items
                if item not in left_out
                and (len(cases[item.originalname]) < 200 or cases[item.originalname].index(item) % one_in == 0)]
