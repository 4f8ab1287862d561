"""Nodes of a Ray cluster on this machine, for tests: a head without processors, and others with a disk each, which is a folder."""

import contextlib
import os
import pathlib
import shutil
import signal
import tempfile

import numpy as np

# Ray neither asks for permission nor sends statistics.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
MEMORY = "400M"  # for a task


def children(parent):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, rest = stat.parent.name, stat.read_text().rpartition(")")[2].split()
            if int(rest[1]) == parent:
                found.append(int(pid))
    return found


class Nodes:
    def __init__(self, count=3, cpus=1):
        import ray
        from ray.cluster_utils import Cluster

        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pr-"))  # a short path, because names of sockets are limited
        # The folder for the address of a started cluster: it must exist, and no one else's cluster may use it.
        os.environ["RAY_TMPDIR"] = str(self.folder)
        self.count, self.cpus = count, cpus
        self.cluster = Cluster(initialize_head=True, head_node_args=dict(
            num_cpus=0, object_store_memory=80 << 20, include_dashboard=False, temp_dir=str(self.folder / "ray"),
            # Connections to a killed node are refused at once; a node on a slow machine must stay alive.
            _system_config=dict(health_check_initial_delay_ms=0, health_check_period_ms=500, health_check_timeout_ms=30_000,
                                health_check_failure_threshold=3)))
        self.nodes = [self.add(number) for number in range(count)]
        ray.init(address=self.cluster.address, log_to_driver=False)

    def root(self, number):
        return self.folder / f"root{number}"

    def add(self, number):
        self.root(number).mkdir(exist_ok=True)
        return self.cluster.add_node(num_cpus=self.cpus, memory=1 << 30, object_store_memory=512 << 20,
                                     env_vars={"PENSTOCK_TEMP": str(self.root(number))})

    def lose(self, number):
        """Kills a node with all its processes, and removes its disk."""
        [raylet] = self.nodes[number].all_processes["raylet"]
        workers = children(raylet.process.pid)
        for process in [raylet.process.pid, *workers]:
            os.kill(process, signal.SIGKILL)
        self.cluster.remove_node(self.nodes[number], allow_graceful=False)
        shutil.rmtree(self.root(number))

    def replace(self, number):
        self.nodes[number] = self.add(number)

    def left(self):
        """Returns the files on the disks."""
        return [str(path) for number in range(self.count) if self.root(number).exists() for path in self.root(number).rglob("*")]

    def close(self):
        import ray

        ray.shutdown()
        for node in [*self.cluster.worker_nodes, self.cluster.head_node]:
            self.cluster.remove_node(node, allow_graceful=False)
        del os.environ["RAY_TMPDIR"]
        shutil.rmtree(self.folder)


def write_numbers(folder, numbers, files=3):
    folder.mkdir(exist_ok=True)
    for i, part in enumerate(np.array_split(numbers, files)):
        part.tofile(folder / f"{i}.u64")
    return str(folder / "*.u64")


def check_numbers(manifest, numbers):
    """Checks the parts by the manifest, and by reading them."""
    read = [np.fromfile(part.path, "<u8") for part in manifest.parts]
    assert np.array_equal(np.concatenate(read), np.sort(numbers))
    assert manifest.items == len(numbers)
    assert sum(int(part.checksum, 16) for part in manifest.parts) % 2**128 == int(manifest.checksum, 16)
    for part, data in zip(manifest.parts, read):
        assert (part.items, part.bytes) == (len(data), data.nbytes)
        if len(data):
            assert (part.first, part.last) == (str(data[0]), str(data[-1]))
    check_folder(manifest)


def check_folder(manifest):
    """Checks that the folder contains nothing else."""
    folder = pathlib.Path(manifest.path).parent
    assert sorted(os.listdir(folder)) == sorted([pathlib.Path(part.path).name for part in manifest.parts] + ["_manifest.json"])


def largest(manifest):
    """Returns the largest part relative to the mean."""
    sizes = [part.bytes for part in manifest.parts]
    return max(sizes) * len(sizes) / sum(sizes)
