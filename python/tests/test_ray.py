"""penstock.ray in threads of this process, and on a cluster of three nodes on this machine."""

import contextlib
import dataclasses
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

import penstock
import penstock.ray
import penstock.ray.driver
from ray_nodes import MEMORY, Nodes, check_folder, check_numbers, largest, write_numbers
from ray_store import Store

# Ray's own warnings.
pytestmark = pytest.mark.filterwarnings("default")

RNG = np.random.default_rng(22)
COUNT = 1 << 20
NUMBERS = {
    "uniform": RNG.integers(0, 2**64, COUNT, dtype="u8"),
    "zipf": RNG.zipf(1.2, COUNT).astype("u8"),
    "equal": np.full(COUNT, 7, "u8"),
    "sorted": np.arange(COUNT, dtype="u8"),
    "reversed": np.arange(COUNT, dtype="u8")[::-1].copy(),
}
LOCAL = dict(address="local", memory_per_task="256M")
SMALL = dict(format="u64", parts=9, group_size="1M")


@pytest.fixture(autouse=True)
def disk(tmp_path, monkeypatch):
    """The disk of this machine as a node; nothing may stay on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    monkeypatch.setenv("PENSTOCK_TEMP", str(folder))
    yield folder
    assert not list(folder.iterdir())


# ---- In threads.


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_sorted_into_parts_of_like_sizes(tmp_path, kind):
    manifest = penstock.ray.sort(write_numbers(tmp_path / "in", NUMBERS[kind]), tmp_path / "out", **SMALL, **LOCAL)
    check_numbers(manifest, NUMBERS[kind])
    assert len(manifest.parts) == 9 and largest(manifest) < 1.25
    assert manifest.stages["peak_bytes"] < 256 << 20
    again = penstock.ray.Manifest.load(str(tmp_path / "out"))
    assert again == manifest


def test_an_empty_input_has_one_empty_part(tmp_path):
    (tmp_path / "in").write_bytes(b"")
    manifest = penstock.ray.sort(tmp_path / "in", tmp_path / "out", format="u64", **LOCAL)
    assert [part.bytes for part in manifest.parts] == [0]


def test_records_of_equal_keys_keep_their_order_across_parts(tmp_path):
    records = np.zeros(100_000, [("key", "S2"), ("place", "<u8")])
    records["key"] = RNG.choice([b"aa", b"ab", b"b"], len(records), p=[0.8, 0.1, 0.1])
    records["place"] = np.arange(len(records))
    for i, part in enumerate(np.array_split(records, 4)):
        part.tofile(tmp_path / f"{i}.bin")
    manifest = penstock.ray.sort(tmp_path / "?.bin", tmp_path / "out", format="record", record=10, key="0:2", parts=6, group_size="128K",
                                 **LOCAL)
    out = np.concatenate([np.fromfile(part.path, records.dtype) for part in manifest.parts])
    assert (out == records[np.argsort(records["key"], kind="stable")]).all()
    assert largest(manifest) < 1.25


def words(count):
    made = [b"%x" % number for number in RNG.integers(0, 2**30, count)]
    return [b" ".join(made[at:at + size]) for at, size in zip(RNG.integers(0, count - 12, count), RNG.integers(0, 12, count))]


def test_lines_of_any_length(tmp_path):
    lines = words(60_000)
    lines[30_000] = b"q" * 9_000_000
    (tmp_path / "a").write_bytes(b"\n".join(lines[:20_000]))  # without a last newline
    (tmp_path / "b").write_bytes(b"\n".join(lines[20_000:]) + b"\n")
    manifest = penstock.ray.sort([tmp_path / "a", tmp_path / "b"], tmp_path / "out", parts=5, group_size="500K", **LOCAL)
    assert b"".join(pathlib.Path(path).read_bytes() for path in manifest.paths) == b"\n".join(sorted(lines)) + b"\n"


def test_rows_of_csv_by_a_column_have_their_header_in_every_part(tmp_path):
    header = b"name,price\n"
    rows = b"".join(b'"n ""%d""%s",%d\n' % (i, b"\n" if i % 50 == 0 else b"", price) for i, price in enumerate(RNG.integers(0, 1000, 40_000)))
    (tmp_path / "in.csv").write_bytes(header + rows)
    keys = dict(csv=True, header=True, key="price:n:r")
    manifest = penstock.ray.sort(tmp_path / "in.csv", tmp_path / "out", parts=5, **keys, **LOCAL)
    penstock.sort_file(tmp_path / "in.csv", tmp_path / "one.csv", stable=True, **keys)
    read = [pathlib.Path(path).read_bytes() for path in manifest.paths]
    assert len(read) == 5 and all(data.startswith(header) for data in read)
    assert header + b"".join(data[len(header):] for data in read) == (tmp_path / "one.csv").read_bytes()


def test_partition_is_that_of_one_machine(tmp_path):
    (tmp_path / "in").write_bytes(b"\n".join(words(30_000)) + b"\n")
    manifest = penstock.ray.partition(tmp_path / "in", tmp_path / "out/p-{}.txt", parts=4, group_size="100K", **LOCAL)
    one = penstock.partition_files(tmp_path / "in", tmp_path / "p-{}", parts=4)
    for here, there in zip(manifest.parts, one.parts):
        assert pathlib.Path(here.path).read_bytes() == pathlib.Path(there.file).read_bytes()
    check_folder(manifest)


def test_group_counts_every_key_once(tmp_path):
    numbers = NUMBERS["zipf"][:200_000] % 1000
    manifest = penstock.ray.group(write_numbers(tmp_path / "in", numbers), tmp_path / "out", format="u64", count=True, parts=3,
                                  group_size="256K", **LOCAL)
    out = np.concatenate([np.fromfile(part.path, "<u8").reshape(-1, 2) for part in manifest.parts])
    keys, counts = np.unique(numbers, return_counts=True)
    assert (out[np.argsort(out[:, 0])] == np.stack([keys, counts.astype("u8")], 1)).all()
    assert manifest.items == len(numbers) and sum(part.items for part in manifest.parts) == len(keys)


def tables(tmp_path, rows=30_000):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (tmp_path / "in").mkdir()
    for i in range(3):
        pq.write_table(pa.table({"ts": pa.array(RNG.integers(0, 100, rows), mask=RNG.random(rows) < 0.01),
                                 "id": [f"id{number}" for number in RNG.integers(0, 1000, rows)],
                                 "place": np.arange(rows) + i * rows}), tmp_path / f"in/{i}.parquet", row_group_size=5000)
    by = [("ts", "descending"), "id"]
    penstock.sort_table([tmp_path / f"in/{i}.parquet" for i in range(3)], tmp_path / "one.parquet", by=by)
    return pq, pa, by


def test_tables_of_csv_keep_every_byte(tmp_path):
    header = b"zip,n\n"
    rows = [b"0012%d,%d.50\n" % (i % 7, i) for i in range(3000)]
    (tmp_path / "in.csv").write_bytes(header + b"".join(rows))
    options = dict(by=[("n", "descending")], types={"n": "double"})
    manifest = penstock.ray.sort(tmp_path / "in.csv", tmp_path / "out", parts=3, **options, **LOCAL)
    read = [pathlib.Path(part.path).read_bytes() for part in manifest.parts]
    assert all(data.startswith(header) for data in read) and b"".join(data[len(header):] for data in read) == b"".join(rows[::-1])
    with pytest.raises(ValueError, match="nulls"):
        penstock.ray.sort(tmp_path / "in.csv", tmp_path / "out2", nulls="last", **options, **LOCAL)


@pytest.mark.parametrize("options", [dict(dtype="<i8"), {}])
def test_files_of_np_save_are_refused(tmp_path, options):
    np.save(tmp_path / "x.npy", np.arange(16)[::-1])
    with pytest.raises(ValueError, match="header of np.save"):
        penstock.ray.sort(tmp_path / "x.npy", tmp_path / "out", **options, **LOCAL)


def test_categories_in_order_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq
    pq.write_table(pa.table({"c": pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), ["low", "high"], ordered=True)}), tmp_path / "in.parquet")
    with pytest.raises(penstock.Unsupported, match="c: cannot order categories on a cluster"):
        penstock.ray.sort(tmp_path / "in.parquet", tmp_path / "out", by="c", **LOCAL)


def test_tables_are_sorted_as_on_one_machine(tmp_path):
    pq, pa, by = tables(tmp_path)
    manifest = penstock.ray.sort(tmp_path / "in/*.parquet", tmp_path / "out", by=by, parts=7, group_size="100K", compression="zstd", **LOCAL)
    assert pa.concat_tables([pq.read_table(part.path) for part in manifest.parts]).equals(pq.read_table(tmp_path / "one.parquet"))
    assert len(manifest.parts) == 7 and largest(manifest) < 1.25
    check_folder(manifest)


def test_object_stores_by_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    data = NUMBERS["uniform"][:200_000]
    store.pipe_file("/bucket/a.u64", data[:70_000].tobytes())
    store.pipe_file("/bucket/b.u64", data[70_000:].tobytes())
    manifest = penstock.ray.sort("memory://bucket/*.u64", "memory://bucket/out", **SMALL, **LOCAL)
    out = np.concatenate([np.frombuffer(store.cat_file(part.path.partition("://")[2]), "<u8") for part in manifest.parts])
    assert np.array_equal(out, np.sort(data)) and largest(manifest) < 1.25
    assert len(store.ls("/bucket/out", detail=False)) == len(manifest.parts) + 1
    store.rm("/bucket", recursive=True)


def test_parts_of_another_job_are_not_mixed_with_these(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/part-00012.u64").write_bytes(b"")
    with pytest.raises(FileExistsError, match="part-00012"):
        penstock.ray.sort(write_numbers(tmp_path / "in", NUMBERS["equal"]), tmp_path / "out", **SMALL, **LOCAL)


@pytest.mark.parametrize("output", ["folder", "memory://shared/out"])
def test_two_jobs_do_not_write_to_one_output(tmp_path, output):
    """Two cases: a job that starts while another runs, and one that looked before the other began."""
    if output == "folder":
        output = str(tmp_path / "out")
    else:
        pytest.importorskip("fsspec")
    pattern = write_numbers(tmp_path / "in", NUMBERS["zipf"])

    def sort(**more):
        return penstock.ray.sort(pattern, output, **SMALL, **LOCAL, **more)

    refused, manifests = [], []

    def tell_first(phase, done, total):
        if phase == "distribute" and not refused:
            with pytest.raises(FileExistsError, match="not ended") as error:
                sort()
            refused.append(error)

    def tell_second(phase, done, total):
        if phase == "sample":
            manifests.append(sort(progress=tell_first))

    with pytest.raises(FileExistsError, match="is there already"):
        sort(progress=tell_second)
    [manifest] = manifests
    names = sorted(part.path.rpartition("/")[2] for part in manifest.parts)
    assert refused and penstock.ray.storage.names(output) == sorted(["_manifest.json", *names])
    assert sum(penstock.ray.storage.look(part.path).bytes for part in manifest.parts) == NUMBERS["zipf"].nbytes
    penstock.ray.storage.remove(output)


@pytest.mark.parametrize("point", ["distribute-2-index", "gather-3"])
def test_an_input_or_disk_that_fails_again_and_again_ends_the_job(tmp_path, point):
    faults = {f"{point}@0.{attempt}": "broken" for attempt in range(9)}
    with pytest.raises(OSError, match="broken"):
        penstock.ray.sort(write_numbers(tmp_path / "in", NUMBERS["zipf"]), tmp_path / "out", _faults=faults, **SMALL, **LOCAL)
    assert not list((tmp_path / "out").iterdir())


def test_a_full_disk_is_named(tmp_path, disk):
    with pytest.raises(penstock.OutOfSpace, match=f"this machine: {disk}.* MiB free"):
        penstock.ray.sort(write_numbers(tmp_path / "in", NUMBERS["zipf"]), tmp_path / "out", _faults={"distribute-2-index@0.0": "full"},
                          **SMALL, **LOCAL)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("output", ["folder", "memory://raises/out"])
@pytest.mark.parametrize("phase, last", [("distribute", False), ("gather", False), ("gather", True)])
def test_an_exception_of_progress_leaves_nothing(tmp_path, output, phase, last):
    if output == "folder":
        output = str(tmp_path / "out")
    else:
        pytest.importorskip("fsspec")

    def tell(now, done, total):
        if now == phase and done and (done == total or not last):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        penstock.ray.sort(write_numbers(tmp_path / "in", NUMBERS["zipf"]), output, progress=tell, **SMALL, **LOCAL)
    assert penstock.ray.storage.names(output) == []


def test_a_manifest_whose_name_is_not_on_the_disk_leaves_nothing(tmp_path, monkeypatch):
    def sync(path, real=penstock.ray.storage.sync):
        if os.path.exists(os.path.join(path, "_manifest.json")):
            raise OSError(errno.EIO, "broken", path)
        real(path)

    monkeypatch.setattr(penstock.ray.storage, "sync", sync)
    with pytest.raises(OSError, match="broken"):
        penstock.ray.sort(write_numbers(tmp_path / "in", NUMBERS["zipf"]), tmp_path / "out", **SMALL, **LOCAL)
    assert not list((tmp_path / "out").iterdir())


def test_a_task_that_is_cancelled_behind_the_last_byte_ends_its_operation(monkeypatch):
    """Ray interrupts the thread that fed the operation, and now waits for it."""
    monkeypatch.setattr(penstock.ray.worker, "_local", threading.local())
    penstock.ray.worker.set_stop(None, "a node of Ray")
    ended, end = [], time.monotonic() + 10

    def operation():
        os.kill(os.getpid(), signal.SIGINT)
        try:
            while time.monotonic() < end:
                penstock.ray.worker.go_on()
                time.sleep(0.01)
        except BaseException as error:
            ended.append(type(error))
            raise

    with pytest.raises(KeyboardInterrupt):
        penstock.ray.worker.with_fed(penstock._penstock.FilesOptions(), iter(()), operation)
    assert ended == [penstock.ray.worker.Stopped]


def test_an_input_that_changes_is_noticed(tmp_path):
    pattern = write_numbers(tmp_path / "in", NUMBERS["uniform"])

    def tell(phase, done, total):
        if phase == "distribute" and done:
            with open(tmp_path / "in/2.u64", "r+b") as file:
                file.write(b"another ")

    with pytest.raises(penstock.ray.InputChanged, match=r"in/2\.u64"):
        penstock.ray.sort(pattern, tmp_path / "out", progress=tell, tasks_per_node=1, **SMALL, **LOCAL)
    assert not list((tmp_path / "out").iterdir())


def test_a_job_whose_driver_was_killed_goes_on(tmp_path):
    pattern = write_numbers(tmp_path / "in", NUMBERS["uniform"])
    program = "import penstock.ray, sys; penstock.ray.sort(*sys.argv[1:], _faults={'gather-3@0.0': 'hang'}, " \
              f"**{SMALL!r}, **{LOCAL!r})"
    driver = subprocess.Popen([sys.executable, "-c", program, pattern, str(tmp_path / "out")])
    try:
        while len(list((tmp_path / "out").glob(".penstock-*/part-*.json"))) < 4:
            assert driver.poll() is None
            time.sleep(0.02)
    finally:
        driver.kill()
        driver.wait()
    [journal] = (tmp_path / "out").glob(".penstock-*/job.json")
    assert journal.exists()
    manifest = penstock.ray.resume(tmp_path / "out", address="local")
    check_numbers(manifest, NUMBERS["uniform"])
    assert manifest.stages["distribute"]["attempts"] == 0 and manifest.stages["gather"]["attempts"] <= 5


def test_a_job_that_was_finished_is_left_as_it_is(tmp_path):
    """The job is left as it is, except for files that its driver could not remove."""
    pattern = write_numbers(tmp_path / "in", NUMBERS["zipf"])
    manifest = penstock.ray.sort(pattern, tmp_path / "out", **SMALL, **LOCAL)
    (tmp_path / "out/.penstock-0123456789ab").mkdir()
    (tmp_path / "out/.penstock-0123456789ab/run-0").touch()
    assert penstock.ray.resume(tmp_path / "out", address="local") == manifest
    check_numbers(manifest, NUMBERS["zipf"])  # also checks that there are no other files


def test_a_driver_killed_before_its_manifest_has_a_name_leaves_nothing_hidden(tmp_path):
    program = """if True:
        import os, penstock.ray, sys
        def replace(hidden, name, real=os.replace):
            if name.endswith("_manifest.json"):
                assert os.path.exists(hidden)
                os.kill(os.getpid(), 9)
            real(hidden, name)
        os.replace = replace
        """ + f"penstock.ray.sort(*sys.argv[1:], **{SMALL!r}, **{LOCAL!r})"
    pattern = write_numbers(tmp_path / "in", NUMBERS["zipf"])
    assert subprocess.run([sys.executable, "-c", program, pattern, str(tmp_path / "out")]).returncode == -signal.SIGKILL
    manifest = penstock.ray.resume(tmp_path / "out", address="local")
    check_numbers(manifest, NUMBERS["zipf"])  # also checks that there are no other files
    assert manifest.stages["gather"]["attempts"] == 0


def test_the_model_predicts_the_large_runs_from_the_small_ones():
    from penstock.ray import model

    rows = model.table()
    large = [row for row in rows if row["machine"] == "i4i.4xlarge" and row["nodes"] == 40]
    assert len(large) == 3 and not any(row["fitted"] for row in large)
    assert all(abs(row["error"]) < 0.1 for row in large), large
    page = pathlib.Path(os.environ.get("PENSTOCK_SOURCE", pathlib.Path(__file__).parents[2]), "docs/ray.md").read_text()
    for row in rows:
        line = next(line for line in page.splitlines() if line.startswith(f"| {row['system']}, {row['machine']} | {row['terabytes']:g} | {row['nodes']} "))
        assert line.split("|")[4:6] == [f" {row['seconds']:.0f} ", f" {row['predicted']:.0f} "], line


def test_a_plan_is_longer_for_more_and_on_fewer_nodes():
    def seconds(*size_and_nodes):
        return penstock.ray.plan(*size_and_nodes, processors=8).seconds

    assert seconds("1T", 10) < seconds("2T", 10) and seconds("1T", 20) < seconds("1T", 10)
    assert penstock.ray.plan("1T", 1, processors=8).network_bytes == 0


# ---- From and to a store over a network.


@pytest.fixture(scope="module")
def server():
    """Starts the server before the cluster, whose workers inherit its address."""
    made = Store.start()
    yield made
    if made:
        made.stop()


@pytest.fixture
def store(server, monkeypatch):
    if not server:
        pytest.skip("s3fs and moto, a server of S3, are not installed")
    server.refused.clear()
    monkeypatch.setattr(penstock.ray.sample, "PLACES_PER_PART", 8)  # the test server is slow
    return server


def test_s3_has_parts_that_are_whole_whatever_upload_is_refused_once(store, monkeypatch):
    # Two requests for a part, and one each to begin and end it.
    monkeypatch.setattr(penstock.ray.storage, "UPLOAD_BYTES", 5 << 20)
    s3, numbers = store.bucket("refused"), NUMBERS["uniform"]
    for i, part in enumerate([*np.array_split(numbers, 3), numbers[:0]]):
        s3.pipe_file(f"refused/in/{i}.u64", part.tobytes())
    s3.pipe_file("refused/in/folder/other.u64", b"in a folder")
    for number, request in enumerate(["POST part-00000.u64?uploads", "PUT part-00000.u64?partNumber=2", "POST part-00000.u64?uploadId"]):
        store.refused.append(request)
        manifest = penstock.ray.sort("s3://refused/in/*", f"s3://refused/{number}/out", format="u64", parts=1, group_size="1M", **LOCAL)
        assert store.refused == [] and manifest.stages["gather"]["attempts"] == 2
        store.check_numbers(manifest, numbers)
    store.refused.append("PUT part-00003.u64")
    manifest = penstock.ray.sort("s3://refused/in/*", "s3://refused/small/out", **SMALL, **LOCAL)
    assert store.refused == [] and manifest.stages["gather"]["attempts"] == 10
    store.check_numbers(manifest, numbers)


def test_a_failed_job_leaves_nothing_in_s3(store):
    s3, numbers = store.bucket("fails"), NUMBERS["zipf"]
    s3.pipe_file("fails/in.u64", numbers.tobytes())
    store.refused += ["PUT part-00004.u64"] * 9
    with pytest.raises(PermissionError, match="refused by a test"):
        penstock.ray.sort("s3://fails/in.u64", "s3://fails/out", **SMALL, **LOCAL)
    assert len(store.refused) == 9 - 4 and store.lies_in("fails") == ["fails/in.u64"]
    with pytest.raises(IsADirectoryError, match=r"s3://fails/\*"):
        penstock.ray.sort("s3://fails", "s3://fails/out", **SMALL, **LOCAL)


@pytest.mark.parametrize("what", ["gone", "changed"])
def test_an_object_that_vanishes_or_changes_is_noticed(store, what):
    s3 = store.bucket(what)
    for i, part in enumerate(np.array_split(NUMBERS["uniform"], 3)):
        s3.pipe_file(f"{what}/in/{i}.u64", part.tobytes())

    def tell(phase, done, total):
        if phase == "distribute" and done:
            s3.rm(f"{what}/in/2.u64") if what == "gone" else s3.pipe_file(f"{what}/in/2.u64", s3.cat_file(f"{what}/in/1.u64"))

    with pytest.raises(penstock.ray.InputChanged, match=r"in/2\.u64"):
        penstock.ray.sort(f"s3://{what}/in/*.u64", f"s3://{what}/out", progress=tell, tasks_per_node=1, **SMALL, **LOCAL)
    assert store.lies_in(what) == [f"{what}/in/{i}.u64" for i in range(3 if what == "changed" else 2)]


def test_a_driver_that_was_killed_while_it_sent_leaves_no_upload_in_s3(store, tmp_path):
    s3, numbers = store.bucket("killed"), NUMBERS["uniform"]
    s3.pipe_file("killed/in.u64", numbers.tobytes())
    program = "import penstock.ray, sys; penstock.ray.storage.UPLOAD_BYTES = 5 << 20; " \
              f"penstock.ray.sort(*sys.argv[1:], format='u64', parts=1, group_size='1M', **{LOCAL!r})"
    held = store.hold("PUT part-00000.u64?partNumber=2")
    driver = subprocess.Popen([sys.executable, "-c", program, "s3://killed/in.u64", "s3://killed/out"])
    try:
        while not held.reached.wait(0.1):
            assert driver.poll() is None
    finally:
        driver.kill()
        driver.wait()
        held.over.set()
    assert [upload["Key"] for upload in s3.list_multipart_uploads("killed")] == ["out/part-00000.u64"]
    manifest = penstock.ray.resume("s3://killed/out", address="local")
    store.check_numbers(manifest, numbers)
    assert manifest.stages["distribute"]["attempts"] == 0 and manifest.stages["gather"]["attempts"] == 1


def test_a_machine_of_many_processors_has_addresses_for_each_of_its_tasks(tmp_path):
    manifest = penstock.ray.sort(write_numbers(tmp_path / "in", NUMBERS["uniform"]), tmp_path / "out", tasks_per_node=16,
                                 **SMALL | {"parts": 32}, **LOCAL)
    check_numbers(manifest, NUMBERS["uniform"])


def test_the_later_of_two_drivers_has_the_job(tmp_path):
    job = types.SimpleNamespace(folder=str(tmp_path), journal=str(tmp_path / ".penstock-0123456789ab"), to_json=lambda: b"{}")
    first, second, third, late = (penstock.ray.driver.Journal(job) for _ in range(4))
    first.begin(resumed=False)
    assert not first.is_taken_over() and not first.is_closed()
    second.begin(resumed=True)
    assert first.is_taken_over() and not second.is_taken_over()
    (tmp_path / ".penstock-0123456789ab/run-1").unlink()  # the run before takes its number at the same time
    third.begin(resumed=True)
    assert (second.run, third.run) == (1, 1) and second.mark != third.mark
    assert second.is_taken_over() and not third.is_taken_over()
    third.close()
    penstock.ray.storage.remove(job.journal)
    late.begin(resumed=True)
    assert late.is_closed()


def test_a_driver_lost_before_it_looked_for_others_takes_nothing_from_them(tmp_path, monkeypatch):
    def copy_and_check(output, own="", check=penstock.ray.driver.check_output_is_new):
        if own:
            shutil.copytree(tmp_path / "out" / own, tmp_path / "lost" / own)
        check(output, own)

    monkeypatch.setattr(penstock.ray.driver, "check_output_is_new", copy_and_check)
    manifest = penstock.ray.sort(write_numbers(tmp_path / "in", NUMBERS["zipf"]), tmp_path / "out", **SMALL, **LOCAL)
    monkeypatch.undo()
    [journal] = (tmp_path / "lost").iterdir()
    journal = pathlib.Path(shutil.move(journal, tmp_path / "out"))
    with pytest.raises(FileExistsError, match="is there already"):
        penstock.ray.resume(tmp_path / "out", address="local")
    shutil.rmtree(journal)
    check_numbers(manifest, NUMBERS["zipf"])


@pytest.mark.parametrize("output", ["folder", "memory", "s3"])
@pytest.mark.parametrize("outlives", [True, False])
def test_a_driver_that_lives_is_taken_over(tmp_path, monkeypatch, request, output, outlives):
    """The driver notices while the other one works, or when that has ended; its finished work counts, and it removes nothing."""
    bucket = f"taken-{outlives}".lower()
    if output == "s3":
        request.getfixturevalue("store").bucket(bucket)
    elif output == "memory":
        pytest.importorskip("fsspec")
    output = str(tmp_path / "out") if output == "folder" else f"{output}://{bucket}/out"
    monkeypatch.setattr(penstock.ray.driver, "OWNER_SECONDS", 600 if outlives else 0)
    pattern = write_numbers(tmp_path / "in", NUMBERS["uniform"])
    half, over = threading.Event(), threading.Event()
    raised = []

    def tell_first(phase, done, total):
        if phase == "gather" and done > total // 2:
            half.set()
            if outlives:
                over.wait(600)

    def first():
        try:
            faults = {} if outlives else {"gather-8@0.0": "hang"}  # for a minute
            penstock.ray.sort(pattern, output, progress=tell_first, _faults=faults, **SMALL, **LOCAL)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=first)

    def tell_second(phase, done, total):
        if not outlives:
            thread.join(600)
            assert raised

    thread.start()
    try:
        assert half.wait(600)
        manifest = penstock.ray.resume(output, address="local", progress=tell_second)
    finally:
        over.set()
        thread.join()
    assert [type(error) for error in raised] == [penstock.ray.TakenOver] and ".penstock-" in str(raised[0])
    assert manifest.stages["distribute"]["attempts"] == 0 and manifest.stages["gather"]["attempts"] < 9
    names = sorted(part.path.rpartition("/")[2] for part in manifest.parts)
    assert penstock.ray.storage.names(output) == sorted(["_manifest.json", *names])
    parts = [b"".join(penstock.ray.storage.chunks(part.path, 0, part.bytes)) for part in manifest.parts]
    assert np.array_equal(np.frombuffer(b"".join(parts), "<u8"), np.sort(NUMBERS["uniform"]))
    penstock.ray.storage.remove(output)


def test_partition_in_s3_is_that_of_one_machine(store, tmp_path):
    s3 = store.bucket("lines")
    (tmp_path / "in").write_bytes(b"\n".join(words(30_000)) + b"\n")
    s3.put_file(tmp_path / "in", "lines/in")
    s3.touch("lines/empty")
    manifest = penstock.ray.partition(["s3://lines/empty", "s3://lines/in"], "s3://lines/out/p-{}.txt", parts=4, group_size="100K", **LOCAL)
    one = penstock.partition_files(tmp_path / "in", tmp_path / "p-{}", parts=4)
    for here, there in zip(manifest.parts, one.parts):
        assert s3.cat_file(here.path) == pathlib.Path(there.file).read_bytes()
    store.check_folder(manifest)


@pytest.mark.parametrize("kind", ["parquet", "ipc", "csv"])
def test_tables_in_s3(store, tmp_path, kind):
    s3 = store.bucket(kind)
    pq, pa, by = tables(tmp_path)
    end = {"parquet": ".parquet", "ipc": ".arrow", "csv": ".csv"}[kind]
    for i in range(3):
        penstock.sort_table(tmp_path / f"in/{i}.parquet", tmp_path / f"{i}{end}", by="place", **dict(row_group=5000) if kind == "parquet" else {})
        s3.put_file(tmp_path / f"{i}{end}", f"{kind}/in/{i}{end}")
    store.refused.append(f"PUT part-00001{'.parquet' if kind == 'csv' else end}")
    typed = dict(types={"ts": "int64", "place": "int64"}, output_format="parquet") if kind == "csv" else {}
    manifest = penstock.ray.sort(f"s3://{kind}/in/*{end}", f"s3://{kind}/out", by=by, parts=5, group_size="200K", **typed, **LOCAL)
    assert store.refused == [] and manifest.stages["gather"]["attempts"] == manifest.stages["gather"]["tasks"] + 1
    s3.get(f"{kind}/out", str(tmp_path / "out"), recursive=True)
    found = [batch for part in manifest.paths
             for batch in penstock.sort_batches(tmp_path / "out" / os.path.basename(part), by=[*by, "place"])]
    assert pa.Table.from_batches(found).equals(pq.read_table(tmp_path / "one.parquet")) and len(manifest.paths) > 2
    store.check_folder(manifest)


# ---- On a cluster.


@pytest.fixture(scope="module")
def nodes(server):
    pytest.importorskip("ray")
    made = Nodes()
    yield made
    made.close()


def clustered(nodes, tmp_path, numbers, **more):
    manifest = penstock.ray.sort(write_numbers(tmp_path / "in", numbers), tmp_path / "out", memory_per_task=MEMORY, **{**SMALL, **more})
    check_numbers(manifest, numbers)
    assert nodes.left() == []
    return manifest


def test_killed_workers_and_a_full_disk_cost_attempts(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(penstock.ray.driver, "STRAGGLER_SECONDS", 600)  # no attempt is repeated because the machine is busy
    manifest = clustered(nodes, tmp_path, NUMBERS["zipf"],
                         _faults={"distribute-3-index@0.0": "kill", "gather-2@0.0": "kill", "gather-4-written@0.0": "kill",
                                  "distribute-5@0.0": "full"})
    assert largest(manifest) < 1.25
    assert manifest.stages["distribute"]["attempts"] == manifest.stages["distribute"]["tasks"] + 2
    assert manifest.stages["gather"]["attempts"] == manifest.stages["gather"]["tasks"] + 2
    assert 0 < manifest.stages["rss_bytes"] < 400 << 20


@pytest.mark.parametrize("stage", ["distribute", "gather"])
def test_a_lost_node_has_its_groups_done_again(nodes, tmp_path, stage):
    lost = []

    def tell(phase, done, total):
        if phase == stage and done >= total // 4 and not lost:
            lost.append(phase)
            nodes.lose(1)

    try:
        manifest = clustered(nodes, tmp_path, NUMBERS["uniform"], progress=tell)
        assert lost and manifest.stages["distribute"]["attempts"] > 8
    finally:
        nodes.replace(1)


@pytest.mark.parametrize("point", ["distribute-3", "gather-5"])
def test_the_second_copy_of_a_slow_task_wins(nodes, tmp_path, monkeypatch, point):
    monkeypatch.setattr(penstock.ray.driver, "STRAGGLER_SECONDS", 0.5)
    manifest = clustered(nodes, tmp_path, NUMBERS["uniform"], _faults={f"{point}@0.0": "hang"})  # for a minute
    told = manifest.stages[point.partition("-")[0]]
    assert told["attempts"] == told["tasks"] + 1 and manifest.seconds < 60


def test_ctrl_c_leaves_nothing_on_any_node(nodes, tmp_path):
    def interrupt():
        while not list((tmp_path / "out").glob(".penstock-*/part-*.json")):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        clustered(nodes, tmp_path, NUMBERS["uniform"], _faults={"gather-3@0.0": "hang"})
    thread.join()
    assert nodes.left() == [] and not list((tmp_path / "out").iterdir())


def test_tables_on_a_cluster(nodes, tmp_path):
    pq, pa, by = tables(tmp_path)
    manifest = penstock.ray.sort(tmp_path / "in/*.parquet", tmp_path / "out", by=by, parts=4, group_size="200K", memory_per_task=MEMORY)
    assert pa.concat_tables([pq.read_table(part.path) for part in manifest.parts]).equals(pq.read_table(tmp_path / "one.parquet"))
    assert nodes.left() == []


def test_s3_on_a_cluster(nodes, store, monkeypatch):
    monkeypatch.setattr(penstock.ray.driver, "STRAGGLER_SECONDS", 600)
    s3, numbers = store.bucket("numbers"), NUMBERS["uniform"]
    for i, part in enumerate(np.array_split(numbers, 3)):
        s3.pipe_file(f"numbers/in/{i}.u64", part.tobytes())
    manifest = penstock.ray.sort("s3://numbers/in/*.u64", "s3://numbers/out", memory_per_task=MEMORY, **SMALL,
                                 _faults={"distribute-3-index@0.0": "kill", "gather-2@0.0": "kill", "gather-4-written@0.0": "kill"})
    store.check_numbers(manifest, numbers)
    told = manifest.stages
    assert told["distribute"]["attempts"] == told["distribute"]["tasks"] + 1 and told["gather"]["attempts"] == told["gather"]["tasks"] + 2
    assert nodes.left() == [] and 0 < told["rss_bytes"] < 400 << 20


def test_datasets_of_ray(nodes, tmp_path):
    pq, pa, by = tables(tmp_path)
    import ray.data

    def places(dataset, folder):
        inputs = penstock.ray.from_dataset(dataset, tmp_path / folder)
        return inputs, pa.concat_tables([pq.read_table(path) for path in inputs])["place"].to_pylist()

    # Ray mixes the row groups of files that it reads at once, even with preserve_order.
    files = [str(tmp_path / f"in/{i}.parquet") for i in range(3)]
    assert sorted(places(ray.data.read_parquet(files), "read")[1]) == list(range(90_000))
    blocks = [table.slice(start, 5000) for table in map(pq.read_table, files) for start in range(0, table.num_rows, 5000)]
    inputs, written = places(ray.data.from_arrow(blocks), "written")
    assert written == list(range(90_000))
    manifest = penstock.ray.sort(inputs, tmp_path / "out", by=by, parts=4, group_size="200K", memory_per_task=MEMORY)
    back = pa.concat_tables(ray.get(penstock.ray.to_dataset(manifest).to_arrow_refs()))
    assert back.equals(pq.read_table(tmp_path / "one.parquet"))
    with pytest.raises(ValueError, match="u64"):
        penstock.ray.to_dataset(dataclasses.replace(manifest, format="u64"))


def test_the_command_sorts_on_a_cluster(nodes, tmp_path, program):
    def sort(*words):
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        done = subprocess.run([program, "sort", "-S", MEMORY, *words], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PATH": path, "RAY_ADDRESS": nodes.cluster.address})
        assert nodes.left() == []
        return done.returncode, done.stdout, done.stderr

    numbers = RNG.integers(0, 2**64, 5 << 20, dtype="u8")
    write_numbers(tmp_path / "in", numbers)
    assert sort("--engine", "ray", "--format", "u64", "in/0.u64", "in/1.u64", "in/2.u64", "-o", "out") == (0, "", "")
    manifest = penstock.ray.Manifest.load(str(tmp_path / "out"))
    assert len(manifest.parts) > 1
    assert np.array_equal(np.concatenate([np.fromfile(path, "<u8") for path in manifest.paths]), np.sort(numbers))
    (tmp_path / "in.txt").write_bytes(b"\n".join(words(20_000)) + b"\n")
    assert sort("--engine", "ray", "-k2,2", "in.txt", "-o", "lines") == (0, "", "")
    assert sort("--stable", "-k2,2", "in.txt", "-o", "one.txt") == (0, "", "")
    assert (tmp_path / "lines/part-00000.txt").read_bytes() == (tmp_path / "one.txt").read_bytes()
    code, _, said = sort("--engine", "ray", "--format", "u64", "in/0.u64", "-o", "out")
    assert code == 2 and "is there already" in said


def test_the_job_for_kubernetes_runs_on_a_cluster(nodes, tmp_path):
    import yaml

    pq, pa, by = tables(tmp_path)
    source = pathlib.Path(os.environ.get("PENSTOCK_SOURCE", pathlib.Path(__file__).parents[2]))
    for i in range(3):
        os.rename(tmp_path / f"in/{i}.parquet", tmp_path / f"in-{i}.parquet")
    spec = yaml.safe_load((source / "examples/ray/job.yaml").read_text())["spec"]
    entry = spec["entrypoint"].replace("/shared", str(tmp_path)).replace("-S 3G", f"-S {MEMORY}")
    assert entry.startswith("python -m penstock ") and entry.count(str(tmp_path)) == 2 and MEMORY in entry
    subprocess.run(f"{sys.executable} {entry.removeprefix('python ')}", shell=True, check=True,
                   env={**os.environ, "RAY_ADDRESS": nodes.cluster.address})
    manifest = penstock.ray.Manifest.load(str(tmp_path / "sorted"))
    assert pa.concat_tables([pq.read_table(path) for path in manifest.paths]).equals(pq.read_table(tmp_path / "one.parquet"))
    assert nodes.left() == []


# This test is the last one, because workers that it kills are started again meanwhile.
@pytest.mark.parametrize("killed", [True, False])
def test_a_task_that_hears_nothing_holds_up_neither_an_end_nor_a_stop(nodes, tmp_path, monkeypatch, killed):
    """It is killed, and abandoned if even that does not end it, like a process whose disk hangs."""
    monkeypatch.setattr(penstock.ray.driver, "STRAGGLER_SECONDS", 0.5 if killed else 600)
    monkeypatch.setattr(penstock.ray.driver, "STOP_SECONDS", 1)
    cluster, spared, looks = penstock.ray.engine.Cluster, [], []

    def cancel(self, handle, force, real=cluster.cancel):
        real(self, handle, force) if killed or not force else spared.append(handle)

    def tell(phase, done, total):
        looks.extend((tmp_path / "out").glob(".penstock-*-part-00005-0.0-*") if done > total * 7 // 8 else ())
        if not killed and len(looks) == 2:  # the last task, hanging since the first poll
            raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "cancel", cancel)
    begin = time.monotonic()
    with contextlib.nullcontext() if killed else pytest.raises(KeyboardInterrupt):
        clustered(nodes, tmp_path, NUMBERS["uniform"], progress=tell, _faults={"gather-5-written@0.0": "hang deaf"})  # for a minute
    assert time.monotonic() - begin < 50 and nodes.left() == []
    assert killed or not list((tmp_path / "out").iterdir())
    for handle in spared:
        sys.modules["ray"].cancel(handle, force=True)
