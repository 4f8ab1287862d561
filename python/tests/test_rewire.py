"""Vectors and tables, compared with plain arrays."""

import gc
import gzip
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock


@given(st.sampled_from(["f8", "i2", "S3", [("a", "u4"), ("b", "f4")]]), st.lists(st.integers(0, 3000), max_size=8))
def test_a_vector_is_what_was_added(dtype, lengths):
    rng = np.random.default_rng(1)
    vector = penstock.Vector(dtype, limit="8M", page="4K")
    expected = np.empty(0, dtype)
    views = []
    for i, length in enumerate(lengths):
        if i % 3 == 2:
            vector.grow(len(vector) + length)
            new = np.zeros(length, dtype)
        else:
            new = rng.integers(1, 100, length * np.dtype(dtype).itemsize, "u1").view(dtype)
            vector.extend(new)
        expected = np.concatenate([expected, new])
        views.append((vector.array, expected))
        assert len(vector) == len(expected)
    for view, then in views:  # nothing has moved
        assert view.tobytes() == then.tobytes()


def test_vector_items():
    vector = penstock.Vector("i4", [1, 2])
    vector.append(3)
    vector[0] = 7
    assert vector.array.tolist() == [7, 2, 3] and vector[-1] == 3 and "3 int32" in repr(vector)
    array = vector.array
    del vector
    gc.collect()
    assert array.tolist() == [7, 2, 3]
    full = penstock.Vector("u8", limit="64K", page="4K")
    with pytest.raises(MemoryError):
        full.extend(np.zeros(10_000, "u8"))
    with pytest.raises(ValueError, match="already"):
        penstock.Vector("u8", [1, 2]).grow(1)
    with pytest.raises(TypeError, match="object"):
        penstock.Vector(object)
    with pytest.raises(ValueError, match="one dimension"):
        penstock.Vector("u8", [[1]])


@given(st.lists(st.tuples(st.integers(0, 9_999), st.integers(0, 2**63)) | st.none(), max_size=40))
def test_snapshots_stay_as_they_were(writes):
    table = penstock.Table("u8", 10_000, limit="4M", page="4K")
    plain = np.zeros(10_000, "u8")
    taken = []
    for write in writes:
        if write is None:
            taken.append((table.snapshot(), plain.copy()))
            taken = taken[-3:]
        else:
            place, value = write
            table.array[place] = plain[place] = value
    np.testing.assert_array_equal(table.array, plain)
    for snapshot, then in taken:
        np.testing.assert_array_equal(snapshot.array, then)
    epochs = [snapshot.epoch for snapshot, _ in taken]
    assert epochs == sorted(epochs)


def test_a_snapshot_outlives_its_table_and_cannot_be_written():
    table = penstock.Table("f4", 5)
    table.array[:] = 1
    snapshot = table.snapshot()
    table.array[:] = 2
    array = snapshot.array
    del table, snapshot
    gc.collect()
    assert array.tolist() == [1] * 5
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 3
    with pytest.raises(ValueError, match="at least one"):
        penstock.Table("f4", 0)


def test_threads_write_while_snapshots_are_taken():
    table = penstock.Table("u8", 1 << 16, limit="16M", page="4K")
    over = threading.Event()

    def write():
        # Writes front to back, so that a snapshot shows the front of a round.
        round = 0
        while not over.is_set():
            round += 1
            table.array[:] = round

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(20):
        seen = table.snapshot().array
        assert int(seen[0]) - int(seen[-1]) in (0, 1) and (np.diff(seen.astype("i8")) <= 0).all()
    over.set()
    writer.join()


def test_numpy_sees_the_items(tmp_path):
    np.arange(9, dtype="<u8").tofile(tmp_path / "in")
    table = penstock.Table("u8", 9)
    table.array[:] = range(9)
    with penstock.open(tmp_path / "in", "<u8") as stream:
        for each in (table, table.snapshot(), penstock.Vector("u8", range(9)), stream):
            array = np.asarray(each)
            assert array.dtype == np.dtype("u8") and array.tolist() == list(range(9)) and np.shares_memory(array, each.array)
            assert np.sum(each) == 36 and np.asarray(each, "f4").dtype == np.dtype("f4")
            assert not np.shares_memory(np.array(each, copy=True), each.array)
            with pytest.raises(ValueError, match="copy"):
                np.array(each, "f4", copy=False)
            del array
    with open(tmp_path / "in.gz", "wb") as file:
        file.write(gzip.compress(b"text"))
    with penstock.open(tmp_path / "in.gz") as stream, pytest.raises(TypeError, match="length"):
        np.asarray(stream)
