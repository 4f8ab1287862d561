"""Sorts and partitions of arrays, against NumPy's."""

import gc
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import penstock

NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "M8[ns]", "m8[s]"]
TEXTS = ["S1", "S5", "U3"]
STRUCTURES = [[("a", "<i4"), ("b", "<f8")], [("name", "S3"), ("t", "<M8[s]"), ("x", "<f2")], [("only", "<u8")]]

dtypes = st.sampled_from(NUMBERS + TEXTS)


def few(dtype):
    """Items of which many are equal, or any items."""
    return hnp.from_dtype(np.dtype(dtype)) | st.sampled_from(list(np.zeros(2, dtype))) if np.dtype(dtype).names is None else None


@st.composite
def arrays(draw, dtype=dtypes, dims=3):
    """Arrays of any shape, and with any strides."""
    dtype = np.dtype(draw(dtype))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=dims, min_side=0, max_side=9))
    a = draw(hnp.arrays(dtype, shape, elements=few(dtype), fill=st.nothing()))
    for i in range(a.ndim):
        if draw(st.booleans()):
            a = a[(slice(None),) * i + (slice(None, None, draw(st.sampled_from([-1, 2, -2]))),)]
    return a.T if draw(st.booleans()) else a


def same(a, b):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


@given(arrays(), st.integers(-3, 2), st.sampled_from([1, 3]))
def test_sort_is_numpys(a, axis, threads):
    if not -a.ndim <= axis < a.ndim:
        with pytest.raises(np.exceptions.AxisError):
            penstock.sort(a, axis=axis)
        return
    expected = np.sort(a, axis=axis)
    assert penstock.sort(a, axis=axis, threads=threads) is None
    same(a, expected)


@given(arrays(), st.booleans())
def test_argsort_gives_the_order(a, descending):
    axis = a.ndim - 1
    places = penstock.argsort(a, descending=descending)
    assert places.dtype == np.intp and places.shape == a.shape
    expected = np.sort(a, axis=axis)
    same(np.take_along_axis(a, places, axis), expected[..., ::-1] if descending else expected)


@given(hnp.arrays(st.sampled_from(["u1", "i4", "u8", "S2"]), st.integers(0, 60), fill=st.nothing()))
def test_argsort_is_stable(a):
    same(penstock.argsort(a), np.argsort(a, kind="stable"))


@given(arrays(), st.data())
def test_top_k_is_the_front_of_the_order(a, data):
    axis = data.draw(st.integers(0, a.ndim - 1))
    k = data.draw(st.integers(0, a.shape[axis]))
    before = a.copy()
    same(penstock.top_k(a, k, axis=axis), np.take(np.sort(a, axis=axis), range(k), axis=axis))
    greatest = np.flip(np.sort(a, axis=axis), axis)
    same(penstock.top_k(a, k, axis=axis, descending=True), np.take(greatest, range(k), axis=axis))
    same(a, before)


@given(st.data())
def test_structures_are_sorted_field_by_field(data):
    dtype = np.dtype(data.draw(st.sampled_from(STRUCTURES)))
    a = data.draw(hnp.arrays(dtype, st.integers(0, 30), fill=st.nothing()))
    a = np.where(np.isin(np.arange(len(a)), [3, 7, 8]), a[:1], a) if len(a) else a  # some structures are equal
    if any(dtype[name].kind in "fM" for name in dtype.names):
        # NumPy's own order of structures is undefined for NaN: use the order of their fields.
        expected = a[np.lexsort([a[name] for name in reversed(dtype.names)])]
    else:
        expected = np.sort(a)
    last = dtype.names[-1]
    by_last = a[np.argsort(a[last], kind="stable")]
    b = a.copy()
    penstock.sort(b)
    for name in dtype.names:
        same(b[name], expected[name])
    b = a.copy()
    penstock.sort(b, order=last, stable=True)
    for name in dtype.names:
        same(b[name], by_last[name])


@given(st.data(), st.sampled_from(["u4", "i4", "f4", "u8", "i8", "f8", "M8[ns]", "i2", "S3"]), st.sampled_from(["u4", "f8", "i1", "U2"]))
def test_values_go_with_their_keys(data, key, value):
    keys = data.draw(hnp.arrays(key, st.integers(0, 50), fill=st.nothing()))
    values = np.arange(len(keys)).astype(value)
    pairs = {(k.tobytes(), v.tobytes()) for k, v in zip(keys, values)}
    expected = np.sort(keys)
    penstock.sort(keys, values=values)
    same(keys, expected)
    got = {(k.tobytes(), v.tobytes()) for k, v in zip(keys, values)}
    assert got == pairs


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", [("x", "f4")]])
def test_floats_that_are_equal_keep_their_order(dtype):
    """NaNs of both signs and payloads, and zeros of both signs, are in the order of NumPy's stable sort."""
    rng = np.random.default_rng(5)
    kind = np.dtype("f4" if isinstance(dtype, list) else dtype)
    floats = rng.choice(np.array([1.0, -1.0, 0.0, -0.0, np.nan, -np.nan], kind), 999)
    floats.view(f"u{kind.itemsize}")[np.isnan(floats)] += rng.integers(0, 2, np.isnan(floats).sum()).astype(f"u{kind.itemsize}")
    a = floats.view(dtype)
    expected = np.argsort(floats, kind="stable")
    same(penstock.argsort(a), expected)
    falling = penstock.argsort(a, descending=True)
    same(falling, np.concatenate([np.flatnonzero(np.isnan(floats)), *(np.flatnonzero(floats == x) for x in (1, 0, -1))]))
    bits = floats.view(f"u{kind.itemsize}")
    for values in (np.arange(999).astype(f"i{kind.itemsize}"), np.arange(999)):
        keys, places = a.copy(), values.copy()
        penstock.sort(keys, values=places, stable=True)
        same(places, values[expected])
        same(keys.view(bits.dtype), bits[expected])  # no bit of a key changes


def test_stable_pairs_keep_the_order_of_equal_keys():
    keys = np.random.default_rng(1).integers(-5, 5, 10_000)
    values = np.arange(10_000)
    expected = np.argsort(keys, kind="stable")
    penstock.sort(keys, values=values, stable=True)
    same(values, expected)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_large_arrays_and_threads(dtype):
    rng = np.random.default_rng(2)
    a = rng.integers(0, 256, 300_000 * np.dtype(dtype).itemsize, np.uint8).view("u1" if dtype == "?" else dtype)
    a = (a & 1).astype("?") if dtype == "?" else a
    for descending in (False, True):
        b = a.copy()
        penstock.sort(b, threads=2, descending=descending)
        same(b, np.sort(a)[::-1] if descending else np.sort(a))


def test_nothing_beside_the_items_is_written():
    a = np.arange(30, 0, -1)
    penstock.sort(a[10:20])
    same(a, np.concatenate([np.arange(30, 20, -1), np.arange(11, 21), np.arange(10, 0, -1)]))
    before = a.copy()
    penstock.sort(a[::3])
    same(a[::3], np.sort(before[::3]))
    same(a[1::3], before[1::3])
    same(a[2::3], before[2::3])


@given(hnp.arrays(st.sampled_from(["u4", "u8"]), st.integers(0, 300), fill=st.nothing()), st.integers(0, 6), st.sampled_from([1, 2]))
def test_partition_by_bits(a, bits, threads):
    for by, bucket in (("low", a & a.dtype.type(2**bits - 1)), ("high", (a >> (8 * a.itemsize - bits)) if bits else a * 0)):
        parts = penstock.partition(a, bits=bits, by=by, stable=True, threads=threads)
        assert len(parts) == 2**bits
        for i, part in enumerate(parts):
            same(part, a[bucket == i])


@given(hnp.arrays("u8", st.integers(0, 300), fill=st.nothing()), st.lists(st.integers(0, 2**64 - 1), max_size=8))
def test_partition_by_bounds(a, bounds):
    bounds = sorted(bounds)
    parts = penstock.partition(a, bounds=bounds, stable=True)
    bucket = np.searchsorted(np.array(bounds, "u8"), a, side="right")
    assert len(parts) == len(bounds) + 1
    for i, part in enumerate(parts):
        same(part, a[bucket == i])


def test_partition_by_hash_and_range():
    a = np.random.default_rng(3).integers(0, 10_000, 50_000)
    parts = penstock.partition(a, bits=4, by="hash")
    same(np.sort(np.concatenate(parts)), np.sort(a))
    owners = {}
    for i, part in enumerate(parts):
        assert part.dtype == a.dtype
        assert all(owners.setdefault(key, i) == i for key in np.unique(part))
    parts = penstock.partition(a.view("u8"), by="range", first=0, last=9_999, buckets=10)
    assert len(parts) == 10 and [len(p) > 0 for p in parts] == [True] * 10
    assert all(x.max() < y.min() for x, y in zip(parts, parts[1:]))
    assert len(parts[2:4]) == 2 and (parts[-1] == parts[9]).all()
    with pytest.raises(IndexError):
        parts[10]
    last = parts[9]
    expected = last.copy()
    del parts
    gc.collect()
    same(last, expected)


@pytest.mark.parametrize("a, hint", [
    (np.zeros(3, ">i4"), "newbyteorder"),
    (np.zeros(3, "c16"), "real"),
    (np.zeros(3, object), "astype"),
    (np.zeros(3, np.longdouble), "float64"),
    (np.zeros(3, [("x", "c8")]), "real"),
    (np.zeros(3, [("x", ">u2")]), "newbyteorder"),
    (np.zeros(3, "V4"), "argsort"),
])
def test_an_error_of_an_unsortable_array_has_a_hint(a, hint):
    for call in (lambda: penstock.sort(a), lambda: penstock.argsort(a), lambda: penstock.top_k(a, 1)):
        with pytest.raises(TypeError, match=hint):
            call()


def test_bad_arguments():
    with pytest.raises(TypeError, match="list"):
        penstock.sort([3, 1, 2])
    frozen = np.arange(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        penstock.sort(frozen)
    with pytest.raises(ValueError, match="threads"):
        penstock.sort(np.arange(3), threads=0)
    with pytest.raises(ValueError, match="as long"):
        penstock.sort(np.arange(3), values=np.arange(4))
    a = np.arange(6)
    with pytest.raises(ValueError, match="same memory"):
        penstock.sort(a[:4], values=a[2:])
    with pytest.raises(ValueError, match="k must"):
        penstock.top_k(np.arange(3), 4)
    with pytest.raises(ValueError, match="no field"):
        penstock.sort(np.zeros(3, [("x", "u4")]), order="y")
    with pytest.raises(ValueError, match="order="):
        penstock.sort(np.zeros(3), order="y")
    with pytest.raises(TypeError, match="unsigned"):
        penstock.partition(np.zeros(3))
    with pytest.raises(ValueError, match="sorted"):
        penstock.partition(np.zeros(3, "u8"), bounds=[2, 1])
    with pytest.raises(penstock.InvalidArgument) as caught:
        penstock.partition(np.zeros(3, "u8"), bits=60)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, penstock.Error)


MASKED = np.ma.array([3, 1, 2, 9, 0], mask=[0, 0, 1, 0, 0], dtype="u8")


@pytest.mark.parametrize("call", [
    lambda a: penstock.sort(a), lambda a: penstock.argsort(a), lambda a: penstock.top_k(a, 2), lambda a: penstock.partition(a),
    lambda a: penstock.sort(np.arange(5), values=a), lambda a: penstock.sort(a, values=np.arange(5)), lambda a: penstock.Vector("u8", a)])
def test_masked_arrays_are_refused(call):
    a = MASKED.copy()
    with pytest.raises(TypeError, match="no masked arrays.*filled"):
        call(a)
    assert a.tolist() == MASKED.tolist() and a.data.tolist() == MASKED.data.tolist()


@pytest.mark.parametrize("call, words", [
    (lambda a: penstock.sort(a, threads="auto"), "threads= is a whole number, not 'auto'"),
    (lambda a: penstock.sort(a, threads=2.5), "threads= is a whole number, not 2.5"),
    (lambda a: penstock.sort(a, values=[1, 2, 3]), "values= is a NumPy array.*not list"),
    (lambda a: penstock.top_k(a, "k"), "k is a whole number, not 'k'"),
    (lambda a: penstock.partition(a, bounds=[-1]), "bounds are unsigned numbers of 64 bits, not -1"),
    (lambda a: penstock.partition(a, bounds=["a"]), "a bound is a whole number, not 'a'"),
    (lambda a: penstock.partition(a, bits=-1), "bits= cannot be -1"),
    (lambda a: penstock.partition(a, by="range", buckets="many"), "buckets= takes int, not 'many'")])
def test_arguments_of_other_types(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(np.arange(3, dtype="u8"))


def test_the_gil_is_free_while_a_sort_works():
    a = np.random.default_rng(4).integers(0, 2**63, 4_000_000)
    ticks, over = [], threading.Event()

    def count():
        while not over.is_set():
            ticks.append(1)
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    before = len(ticks)
    penstock.sort(a)
    during = len(ticks) - before
    over.set()
    counter.join()
    # If the GIL were held, the counter would stop, except for the present tick.
    assert during > 5
    assert (np.diff(a) >= 0).all()
