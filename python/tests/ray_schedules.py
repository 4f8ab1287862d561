#!/usr/bin/env python3
"""Random schedules of faults from a seed, on a cluster of three nodes: ray_schedules.py [COUNT [SEED]].

The output is checked by its manifest and by reading, and nothing may be left on any disk. Inputs and outputs of every third schedule are
in S3, if its server is installed. A schedule chooses: the kind of input; workers that are killed at any point of a task; disks that are
full for a task, and one that really is (a small file system on a loop device, if root may mount one); a node that is lost with its disk,
in either stage, and comes back; a driver that is killed, and another that continues."""

import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

import penstock.ray
from penstock.ray import sample, storage
from ray_nodes import MEMORY, Nodes, check_numbers, largest, write_numbers
from ray_store import Store

COUNT = 1 << 20  # 8 MiB of numbers
PARTS = 9
GROUPS = 8


def numbers_of(kind, rng):
    return {"uniform": lambda: rng.integers(0, 2**64, COUNT, dtype="u8"), "zipf": lambda: rng.zipf(1.2, COUNT).astype("u8"),
            "equal": lambda: np.full(COUNT, 7, "u8"), "sorted": lambda: np.arange(COUNT, dtype="u8"),
            "empty": lambda: np.zeros(0, "u8")}[kind]()


def faults_of(chance):
    points = [f"distribute-{group}{where}" for group in range(GROUPS) for where in ("", "-index")]
    points += [f"gather-{part}{where}" for part in range(PARTS) for where in ("", "-written")]
    return {f"{point}@0.{chance.randrange(2)}": chance.choice(["kill", "kill", "full"]) for point in chance.sample(points, chance.randrange(5))}


DRIVER = """
import ray, sys, penstock.ray
ray.init(address=sys.argv[1], log_to_driver=False)
penstock.ray.sort(sys.argv[2], sys.argv[3], format="u64", parts=9, group_size="1M", memory_per_task="400M", _faults={sys.argv[4]: "hang"})
"""


def parts_done(out):
    return sum(name.startswith("part-") and name.endswith(".json") for journal in storage.names(out) if journal.startswith(".penstock-")
               for name in storage.names(storage.join(out, journal)))


def in_spite_of_a_lost_driver(nodes, pattern, out, chance):
    """Kills the driver when some parts are done, and resumes the job."""
    wanted = chance.randrange(1, 6)
    point = f"gather-{chance.randrange(PARTS)}@0.0"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, nodes.cluster.address, pattern, out, point], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while parts_done(out) < wanted and driver.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    lost = any(name.startswith(".penstock-") for name in storage.names(out))
    return penstock.ray.resume(out) if lost else penstock.ray.Manifest.load(out)


def run(nodes, store, folder, seed):
    chance = random.Random(seed)
    kind = "empty" if seed % 10 == 0 else chance.choice(["uniform", "zipf", "equal", "sorted"])
    numbers = numbers_of(kind, np.random.default_rng(seed))
    pattern, out, check = write_numbers(folder / "in", numbers), str(folder / "out"), check_numbers
    in_store = store is not None and seed % 3 == 0
    if in_store:
        s3 = store.bucket(f"seed-{seed}")
        s3.put(str(folder / "in"), f"seed-{seed}/in", recursive=True)
        pattern, out, check = f"s3://seed-{seed}/in/*.u64", f"s3://seed-{seed}/out", store.check_numbers
    sample.PLACES_PER_PART = 8 if in_store else 256  # the test server is slow
    what = chance.choice(["faults", "faults", "node", "node", "driver"]) if len(numbers) else "faults"
    begin = time.monotonic()
    lost = []
    if what == "driver":
        manifest = in_spite_of_a_lost_driver(nodes, pattern, out, chance)
    else:
        stage, share, victim = chance.choice(["distribute", "gather"]), chance.random(), chance.randrange(nodes.count)

        def tell(phase, done, total):
            if what == "node" and not lost and phase == stage and done >= total * share:
                lost.append(victim)
                nodes.lose(victim)

        manifest = penstock.ray.sort(pattern, out, format="u64", parts=PARTS, group_size="1M", memory_per_task=MEMORY,
                                     progress=tell, _faults=faults_of(chance))
    check(manifest, numbers)
    assert in_store or not len(numbers) or largest(manifest) < 1.25, largest(manifest)
    for number in lost:
        nodes.replace(number)
    assert nodes.left() == [], nodes.left()
    attempts = {name: manifest.stages[name]["attempts"] for name in ("distribute", "gather")}
    print(f"{seed:4} {kind:8} {what:7} {'s3' if in_store else 'folder':6} {attempts} {time.monotonic() - begin:.1f} s", flush=True)


def on_a_small_disk(nodes, folder):
    """Uses a file system of 16 MiB as one node's disk, which has no room for a group beside the spare space."""
    image = folder / "disk.img"
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    mounted = subprocess.run(["mkfs.ext4", "-q", image], capture_output=True).returncode == 0
    mounted = mounted and subprocess.run(["mount", "-o", "loop", image, nodes.root(0)], capture_output=True).returncode == 0
    if not mounted:
        print("skipped: a small disk, which root alone may mount")
        return
    try:
        numbers = numbers_of("uniform", np.random.default_rng(1))
        manifest = penstock.ray.sort(write_numbers(folder / "in", numbers), folder / "out", format="u64", parts=PARTS, group_size="1M",
                                     memory_per_task=MEMORY)
        check_numbers(manifest, numbers)
        assert manifest.stages["distribute"]["attempts"] > manifest.stages["distribute"]["tasks"]
        print("     a small disk", manifest.stages["distribute"])
    finally:
        subprocess.run(["umount", nodes.root(0)], check=True)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    store = Store.start()  # before the nodes, which inherit its address
    print(f"{count} schedules from seed {seed}" + ("" if store else "; skipped: S3, for s3fs and moto are not installed"))
    nodes = Nodes()
    try:
        for number in [None, *range(seed, seed + count)]:
            with tempfile.TemporaryDirectory(prefix="penstock-schedules-") as folder:
                if number is None:
                    on_a_small_disk(nodes, pathlib.Path(folder))
                else:
                    run(nodes, store, pathlib.Path(folder), number)
    finally:
        nodes.close()
        if store:
            store.stop()


if __name__ == "__main__":
    main()
