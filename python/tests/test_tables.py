"""Tables: the order compared with pyarrow's sort, values of every type, files, budgets, and early ends of runs."""

import datetime
import decimal
import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock

# ---- Columns of every type.

numbers = {kind: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "int" else st.integers(0, (1 << bits) - 1)
           for sign in ("int", "uint") for bits in (8, 16, 32, 64) for kind in [getattr(pa, f"{sign}{bits}")()]}
near = {kind: values | st.integers(0, 2) for kind, values in numbers.items()}
texts = st.text(st.sampled_from("a\0\1\2bé\U0001f600"), max_size=5)
binaries = st.binary(max_size=5) | st.sampled_from([b"", b"\0", b"\0\0", b"\1", b"\xff", b"\xff\xff"])
floats = st.floats(width=16) | st.sampled_from([0.0, -0.0, float("nan"), float("-inf")])
when = st.integers(-(2**40), 2**40)
days = st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1))
KEYS = {
    **near,
    pa.bool_(): st.booleans(),
    pa.float16(): floats.map(np.float16),
    pa.float32(): floats,
    pa.float64(): floats | st.floats(),
    pa.decimal32(7, 2): st.integers(-(10**6), 10**6).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    pa.decimal64(15, 2): st.integers(-(10**6), 10**6).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    pa.decimal128(38, 3): st.integers(-(10**30), 10**30).map(lambda n: decimal.Decimal(n).scaleb(-3)),
    pa.decimal256(70, 3): st.integers(-(10**50), 10**50).map(lambda n: decimal.Decimal(n).scaleb(-3)),
    pa.string(): texts,
    pa.large_string(): texts,
    pa.string_view(): texts,
    pa.binary(): binaries,
    pa.large_binary(): binaries,
    pa.binary_view(): binaries,
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.date32(): days,
    pa.date64(): days,
    pa.time32("s"): st.times().map(lambda t: t.replace(microsecond=0)),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): when,
    pa.timestamp("ns", "Europe/Oslo"): when,
    pa.duration("ms"): when,
    pa.dictionary(pa.int32(), pa.string()): texts,
    pa.dictionary(pa.uint32(), pa.string_view()): texts,
    pa.dictionary(pa.int8(), pa.large_string(), ordered=True): texts,
    pa.dictionary(pa.int16(), pa.int64()): near[pa.int64()],
    pa.dictionary(pa.int8(), pa.float64()): floats,
    pa.dictionary(pa.int8(), pa.date32(), ordered=True): days,
    pa.dictionary(pa.uint8(), pa.decimal128(38, 3)): st.integers(-9, 9).map(decimal.Decimal),
    pa.dictionary(pa.int64(), pa.bool_()): st.booleans(),
    pa.null(): st.none(),
}
OTHERS = {
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(0, 9), max_size=4),
    pa.large_list(pa.string()): st.lists(st.none() | texts, max_size=4),
    pa.list_(pa.float32(), 2): st.lists(st.none() | st.integers(0, 9), min_size=2, max_size=2),
    pa.struct([("a", pa.int8()), ("b", pa.list_(pa.bool_()))]):
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.none() | st.lists(st.booleans(), max_size=9)}),
    pa.map_(pa.string(), pa.int64()): st.dictionaries(texts, st.none() | st.integers(0, 9), max_size=3).map(lambda d: list(d.items())),
    pa.list_view(pa.int16()): st.lists(st.integers(0, 9), max_size=4),
    pa.large_list_view(pa.string()): st.lists(texts, max_size=4),
    pa.list_(pa.dictionary(pa.int8(), pa.string())): st.lists(st.sampled_from(["x", "y"]), max_size=3),
    pa.month_day_nano_interval(): st.tuples(*[st.integers(0, 9)] * 3).map(pa.MonthDayNano),
}


def column(draw, kind, values, rows):
    drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
    if isinstance(kind, pa.DictionaryType):  # categories are in the order of drawing
        encoded = pa.array(drawn, kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary, ordered=kind.ordered)
    return pa.array(drawn, kind)


@st.composite
def tables(draw):
    """A table whose column `row` numbers the rows, with columns to sort by, cut into batches."""
    rows = draw(st.integers(0, 40))
    kinds = draw(st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=3))
    columns = {f"key {i}": column(draw, kind, KEYS[kind], rows) for i, kind in enumerate(kinds)}
    other = draw(st.sampled_from(list(OTHERS)))
    columns["other"] = column(draw, other, OTHERS[other], rows)
    columns["row"] = pa.array(range(rows), pa.int64())
    table = pa.table(columns)
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=3)))
    return pa.concat_tables([table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, rows])])


def plain_of(array):
    return array.cast(pa.string()) if array.type == pa.string_view() else array


def order_by_arrow(table, by, nulls):
    """Sorts stably with pyarrow, with an explicit order of NaN and nulls, which pyarrow orders differently."""
    helpers, sort_keys = {}, []
    for i, one in enumerate(by):
        name, descending, first = one[0], "descending" in one, "nulls first" in one or (nulls == "first" and "nulls last" not in one)
        values = table[name].combine_chunks()
        kind = values.type
        if pa.types.is_dictionary(kind):
            values = values.indices if kind.ordered else plain_of(values.dictionary).take(values.indices)
        elif kind in (pa.string_view(), pa.binary_view()):
            values = values.cast(pa.string() if kind == pa.string_view() else pa.binary())
        elif kind == pa.float16():
            values = values.cast(pa.float32())
        elif pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
            values = values.cast(pa.decimal128(kind.precision, kind.scale))  # pyarrow 26 puts 0.00 before -0.01
        ranks = [(0 if first else 2) if not valid else 1 for valid in values.is_valid().to_pylist()]
        helpers[f"null {i}"] = pa.array(ranks, pa.int8())
        sort_keys.append((f"null {i}", "ascending"))
        if pa.types.is_floating(values.type):
            helpers[f"nan {i}"] = pc.fill_null(pc.is_nan(values), False).cast(pa.int8())
            sort_keys.append((f"nan {i}", "descending" if descending else "ascending"))
            values = pc.if_else(pc.is_nan(values), None, values)
        if not pa.types.is_null(kind):
            helpers[f"value {i}"] = values
            sort_keys.append((f"value {i}", "descending" if descending else "ascending"))
    return pc.sort_indices(pa.table(helpers), sort_keys=sort_keys)


def same(a, b):
    """Compares rows, NaN and -0 included."""
    assert a.schema.equals(b.schema, check_metadata=True)

    def rows(table):
        for i, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type) and field.type.unit == "ns":  # Python's own timestamps have no nanoseconds
                table = table.set_column(i, field.name, table[field.name].cast(pa.int64()))
        return table.to_pylist()

    assert repr(sorted(rows(a), key=lambda row: row["row"])) == repr(rows(b))


orders = st.tuples(st.sampled_from(["ascending", "descending"]), st.sampled_from(["nulls first", "nulls last"]))


@given(tables(), st.lists(orders, min_size=3, max_size=3), st.integers(1, 50))
def test_the_order_is_pyarrows(table, words, batch_rows):
    by = [(name, *words[i]) for i, name in enumerate(name for name in table.column_names if name.startswith("key"))]
    with penstock.sort_batches(table, by=by, memory="128M", batch_rows=batch_rows, threads=1) as batches:
        assert batches.schema.equals(table.schema)
        found = list(batches)
    assert all(0 < batch.num_rows <= batch_rows for batch in found)
    assert batches.report.items == table.num_rows
    found = pa.Table.from_batches(found, batches.schema)
    found.validate(full=True)
    assert found["row"].to_pylist() == order_by_arrow(table, by, "last").to_pylist()
    same(found, table)


def test_words_of_an_order():
    table = pa.table({"a": [2, None, 1], "b": [0, 1, 2]})

    def sorted_by(by, **options):
        return pa.Table.from_batches(list(penstock.sort_batches(table, by=by, memory="128M", **options)))["a"].to_pylist()

    assert sorted_by("a") == [1, 2, None] and sorted_by(["a"], nulls="first") == [None, 1, 2]
    assert sorted_by([("a", "desc")]) == [2, 1, None] and sorted_by([("a", "descending", "nulls first")]) == [None, 2, 1]
    assert sorted_by([("b", "descending"), "a"]) == [1, None, 2] and sorted_by("a", top=2) == [1, 2]
    assert sorted_by(["a", ("a", "descending"), "b"]) == [1, 2, None]  # a repeated column has no effect
    for by, said in [("c", "no column 'c'"), ([], "no column"), ([("a", "upwards")], "upwards")]:
        with pytest.raises(ValueError, match=said):
            sorted_by(by)
    with pytest.raises(ValueError, match="first"):
        sorted_by("a", nulls="middle")
    with pytest.raises(penstock.Unsupported, match="list"):
        penstock.sort_batches(pa.table({"list": [[1]]}), by="list", memory="128M")
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        penstock.sort_batches([1, 2], by="a")
    with pytest.raises(TypeError, match="batch.column"):
        np.asarray(penstock.sort_batches(table, by="a", memory="128M"))
    with pytest.raises(ValueError, match="128M"):
        penstock.sort_batches(table, by="a", memory="1M")


union = pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.string())])


@pytest.mark.parametrize("kind", [
    union, pa.sparse_union(list(union)), pa.list_(union), pa.struct([("x", union)]), pa.list_(pa.run_end_encoded(pa.int32(), pa.string())),
    pa.large_list_view(pa.string_view()), pa.dictionary(pa.int8(), pa.struct([("a", pa.int8())])), pa.opaque(pa.string_view(), "some", "one")], ids=str)
def test_types_that_rows_cannot_hold(kind):
    with pytest.raises(penstock.Unsupported, match="x: cannot take values of .*type.*without"):
        penstock.sort_batches(pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int8()), ("x", kind)]), []), by="n", memory="128M")


def test_types_that_stand_for_others():
    def extended(kind, *values):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))

    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), ["a", "b"])
    table = pa.table({
        "n": [3, 1, 2], "runs": pc.run_end_encode(pa.array(["b", "b", None])),
        "short runs": pc.run_end_encode(pa.array([1, None, 2]), run_end_type=pa.int16()),
        "uuid": extended(pa.uuid(), b"b" * 16, None, b"a" * 16), "json": extended(pa.json_(), "1", None, "{}"),
        "bool": extended(pa.bool8(), 1, None, 0), "opaque": extended(pa.opaque(pa.binary(), "some", "one"), b"1", None, b"2"),
        "tensor": extended(pa.fixed_shape_tensor(pa.float32(), [2]), [1, 2], None, [3, 4]),
        "uuids": pa.array([[b"b" * 16], None, []], pa.list_(pa.binary(16))).cast(pa.list_(pa.uuid())),
        "views": pa.array([["a"], None, ["x" * 20]], pa.list_(pa.string_view())),
        "in a structure": pa.StructArray.from_arrays([dictionary], ["d"]), "nothing": pa.array([[], None, []], pa.list_(pa.int16(), 0)),
        "none": pa.array([{}, None, {}], pa.struct([]))})
    found = pa.Table.from_batches(list(penstock.sort_batches(table, by="n", memory="128M")))
    found.validate(full=True)
    assert found.schema.equals(table.schema)
    assert found.to_pylist() == [table.to_pylist()[i] for i in (1, 2, 0)]


def test_dictionaries_that_differ_from_batch_to_batch():
    chunks = [pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), words) for words in (["b", "a"], ["c", "a"])]
    table = pa.table({"d": pa.chunked_array(chunks)})
    found = pa.Table.from_batches(list(penstock.sort_batches(table, by="d", memory="128M")))
    assert found.schema == table.schema and found["d"].to_pylist() == ["a", "a", "b", "c"]


def categories(words, values, ordered=True, index=pa.int8()):
    return pa.DictionaryArray.from_arrays(pa.array([words.index(value) if value else None for value in values], index), words, ordered=ordered)


@pytest.mark.parametrize("end", [".parquet", ".arrow"])
@pytest.mark.parametrize("operation", ["sort", "merge", "hash", "range", "top", "batches"])
def test_ordered_categories_have_their_order_in_every_operation(tmp_path, operation, end):
    words = ["low", "mid", "high", "never"]
    values = ["high", None, "low", "mid"] * 5 + ["low"]
    table = pa.table({"c": categories(words, values), "n": range(21)})
    expected = pa.concat_tables([table.take([i for i in range(21) if values[i] == word]) for word in ("low", "mid", "high", None)])
    expected = expected.combine_chunks()
    output, options = tmp_path / f"out{end}", dict(by="c", memory="128M")

    def read(path):
        found = pq.read_table(path) if end == ".parquet" else pa.ipc.open_file(path).read_all()
        found.validate(full=True)
        return found

    if operation == "sort":
        pq.write_table(table, tmp_path / "in.parquet", row_group_size=4)
        penstock.sort_table(tmp_path / "in.parquet", output, **options)
        penstock.sort_table([output, output], output, top=21, **options)
        found = read(output).take(list(range(0, 12, 2)))
        expected = expected.slice(0, 6)
    elif operation == "merge":
        penstock.merge_tables([expected.slice(0, 11), expected.slice(11)], output, **options)
        found = read(output)
    elif operation in ("hash", "range"):
        names = penstock.partition_table(table, tmp_path / f"part-{{}}{end}", parts=2, how=operation, **options)
        found = pa.concat_tables([read(name) for name in names])
        if operation == "range":
            ranks = [max(found.slice(0, read(names[0]).num_rows)["c"].combine_chunks().indices.to_pylist(), key=lambda i: 9 if i is None else i)]
            assert [9 if i is None else i for i in read(names[1])["c"].combine_chunks().indices.to_pylist()] >= ranks
        penstock.sort_table(found.sort_by("n"), output, **options)
        found = read(output)
    elif operation == "top":
        found, expected = penstock.top_table(table, 9, **options), expected.slice(0, 9)
    else:
        found = pa.Table.from_batches(list(penstock.sort_batches(table, batch_rows=4, **options)))
    assert found.schema.equals(table.schema) and found["c"].chunk(0).dictionary.to_pylist() == words
    assert found["c"].to_pylist() == expected["c"].to_pylist() and (operation == "sort" or found["n"].to_pylist() == expected["n"].to_pylist())


def test_ordered_categories_that_differ_are_refused():
    chunks = [categories(words, words) for words in (["a", "b"], ["b", "a"])]
    with pytest.raises(penstock.Unsupported, match="c: cannot order categories that differ from batch to batch .try: .*unify_dictionaries"):
        penstock.top_table(pa.table({"c": pa.chunked_array(chunks)}), 2, by="c", memory="128M")
    # A batch of nulls has no categories of its own.
    chunks = [pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], pa.string()), ordered=True), *chunks[1:]]
    found = penstock.top_table(pa.table({"c": pa.chunked_array(chunks)}), 3, by="c", memory="128M")["c"]
    assert found.to_pylist() == ["b", "a", None] and found.chunk(0).dictionary.to_pylist() == ["b", "a"]
    # Unordered categories are plain values.
    unordered = pa.table({"c": pa.chunked_array([categories(words, words, ordered=False) for words in (["a", "b"], ["b", "a"])])})
    assert penstock.top_table(unordered, 4, by="c", memory="128M")["c"].to_pylist() == ["a", "a", "b", "b"]
    assert penstock.top_table(pa.table({"c": categories(["b", "a"], ["a", "b"])}), 4, by="c", memory="128M")["c"].to_pylist() == ["b", "a"]


@pytest.mark.parametrize("kind, values", [
    (pa.list_(pa.dictionary(pa.int8(), pa.int64())), [[3, 1], None, []]),
    (pa.large_list(pa.dictionary(pa.uint32(), pa.string_view())), [["b"], ["a", None], None]),
    (pa.list_(pa.list_(pa.dictionary(pa.int16(), pa.date32()))), [[[datetime.date(2020, 1, 1)]], [None, []], None])])
def test_lists_of_dictionaries(kind, values):
    from penstock._arrow import cast, plain
    column = cast(pa.array(values, plain(kind)), kind)
    assert column.type == kind and column.to_pylist() == values and column.slice(1).to_pylist() == values[1:]
    table = pa.table({"n": [3, 1, 2], "x": column})
    found = penstock.top_table(table.slice(0), 3, by="n", memory="128M")
    assert found.schema == table.schema and found["x"].to_pylist() == [values[i] for i in (1, 2, 0)]


def test_a_type_that_pyarrow_does_not_know_is_refused():
    polars = pytest.importorskip("polars")
    with pytest.raises(penstock.Unsupported, match="cannot take this table: .*cast to other types"):
        penstock.sort_batches(polars.DataFrame({"a": polars.Series([1], dtype=polars.Int128)}), by="a", memory="128M")


def test_sizes_of_encoded_values_are_those_of_plain_ones():
    from penstock._arrow import batch_bytes, pieces
    words = pa.array(["a" * 1000, "b"])
    indices = pa.array([0, 1, None, 0] * 100, pa.int32())
    dictionary = pa.DictionaryArray.from_arrays(indices, words)
    plain = pa.record_batch({"x": words.take(indices)})
    runs = pc.run_end_encode(words.take(indices))
    views = pa.array(words.take(indices).to_pylist(), pa.string_view())
    lists = pa.ListArray.from_arrays(list(range(0, 401, 4)), dictionary)
    for column in (dictionary, runs, views, lists, dictionary.slice(8), pa.StructArray.from_arrays([dictionary], ["d"]), runs.slice(3)):
        batch = pa.record_batch({"x": column})
        share = len(column) / (100 if column is lists else 400)
        assert 0.95 < batch_bytes(batch) / (share * batch_bytes(plain)) < 1.1, column.type
        cut = list(pieces(batch, 20_000))
        assert pa.Table.from_batches(cut).equals(pa.Table.from_batches([batch])) and len(cut) >= 9
        assert all(batch_bytes(piece) <= 20_000 for piece in cut)


# ---- More than memory.


def wide(rows, seed):
    rng = np.random.default_rng(seed)
    keys = rng.zipf(1.3, rows).clip(max=1 << 40)
    return pa.table({"zipf": pa.array(keys, mask=keys % 7 == 0), "name": pa.array([f"name {n % 5003:x}" * 3 for n in keys]),
                     "x": pa.array(rng.random(rows)), "text": pa.array(["t" * int(n) for n in rng.integers(0, 200, rows)])})


class Producer:
    """An object with only an Arrow stream."""

    def __init__(self, *tables):
        self.schema = tables[0].schema
        self.batches = (batch for table in tables for batch in table.to_batches(max_chunksize=10_000))

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.RecordBatchReader.from_batches(self.schema, self.batches).__arrow_c_stream__(requested_schema)


BY = ["name", ("zipf", "descending", "nulls first")]


def test_a_table_larger_than_memory_is_spilled(tmp_path):
    table = wide(500_000, 1)
    with penstock.sort_batches(Producer(table), by=BY, memory="128M", temp=tmp_path) as batches:
        found = pa.Table.from_batches(list(batches))
    assert batches.report.spilled_bytes > 10 << 20 and batches.report.peak_bytes <= batches.report.budget_bytes
    assert found.equals(table.take(order_by_arrow(table, [("name",), BY[1]], "last")))
    assert os.listdir(tmp_path) == []


# ---- Files.


@pytest.fixture
def orders_file(tmp_path):
    table = wide(5000, 2).replace_schema_metadata({"made by": "a test"})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=1500)
    return table


def test_sort_table(tmp_path, orders_file):
    report = penstock.sort_table(tmp_path / "in.parquet", tmp_path / "out.parquet", by=BY, memory="128M", row_group=2000, compression="zstd")
    found = pq.ParquetFile(tmp_path / "out.parquet")
    assert found.schema_arrow.equals(pq.read_schema(tmp_path / "in.parquet"), check_metadata=True)
    assert [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)] == [2000, 2000, 1000]
    assert found.metadata.row_group(0).column(0).compression == "ZSTD"
    expected = orders_file.take(order_by_arrow(orders_file, [("name",), BY[1]], "last"))
    assert found.read().equals(expected) and report.items == 5000
    # Sort a file onto itself; to other formats and back.
    penstock.sort_table(str(tmp_path / "in.parquet"), tmp_path / "in.parquet", by=BY, memory="128M")
    assert pq.read_table(tmp_path / "in.parquet").equals(expected)
    penstock.sort_table(tmp_path / "in.parquet", tmp_path / "out.arrow", by="x", memory="128M")
    assert pa.ipc.open_file(tmp_path / "out.arrow").read_all().equals(expected.take(pc.sort_indices(expected["x"])))
    penstock.sort_table(tmp_path / "out.arrow", tmp_path / "out.csv", by="x", memory="128M")
    penstock.sort_table([tmp_path / "out.csv"], tmp_path / "again.feather", by=BY, memory="128M")
    assert pa.ipc.open_file(tmp_path / "again.feather").read_all()["name"].equals(expected["name"])
    assert sorted(os.listdir(tmp_path)) == ["again.feather", "in.parquet", "out.arrow", "out.csv", "out.parquet"]


def test_dictionaries_stay_dictionaries(tmp_path):
    table = pa.table({"d": pa.array(["b", "a", None, "b"]).dictionary_encode(), "n": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "in.parquet")
    penstock.sort_table(tmp_path / "in.parquet", tmp_path / "out.parquet", by="d", memory="128M")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.field("d").type == table.schema.field("d").type and found["d"].to_pylist() == ["a", "b", "b", None]
    penstock.sort_table(tmp_path / "in.parquet", tmp_path / "out.arrow", by="d", memory="128M")
    assert pa.ipc.open_file(tmp_path / "out.arrow").read_all()["d"].type == pa.string()


def test_values_that_hardly_repeat_get_no_dictionary(tmp_path):
    table = pa.table({"once": range(1000), "often": ["a", "b"] * 500, "nested": [[i] for i in range(1000)]})

    def dictionaries(**options):
        penstock.sort_table(table, tmp_path / "out.parquet", by="once", memory="128M", **options)
        group = pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0)
        return [group.column(i).has_dictionary_page for i in range(3)]

    assert dictionaries() == [False, True, True] and dictionaries(use_dictionary=True) == [True, True, True]


def test_empty_tables(tmp_path):
    table = pa.table({"a": pa.array([], pa.int32()), "b": pa.array([], pa.list_(pa.string()))})
    penstock.sort_table(table, tmp_path / "out.parquet", by="a", memory="128M")
    assert pq.read_table(tmp_path / "out.parquet").equals(table)
    assert penstock.top_table(table, 3, by="a", memory="128M").equals(table)


def test_merge_tables(tmp_path):
    tables = [wide(3000, seed) for seed in (3, 4, 5)]
    in_order = [table.take(order_by_arrow(table, [("name",), BY[1]], "last")) for table in tables]
    pq.write_table(in_order[0], tmp_path / "0.parquet")
    penstock.merge_tables([tmp_path / "0.parquet", Producer(in_order[1]), in_order[2]], tmp_path / "out.parquet", by=BY, memory="128M")
    everything = pa.concat_tables(in_order)
    assert pq.read_table(tmp_path / "out.parquet").equals(everything.take(order_by_arrow(everything, [("name",), BY[1]], "last")))
    # Sorted together, rows of earlier tables come first.
    found = pa.Table.from_batches(list(penstock.sort_batches([Producer(table) for table in tables], by=BY, memory="128M")))
    everything = pa.concat_tables(tables)
    assert found.equals(everything.take(order_by_arrow(everything, [("name",), BY[1]], "last")))
    with pytest.raises(penstock.Unsorted, match="not sorted by"):
        penstock.merge_tables([in_order[0], tables[1]], tmp_path / "out2.parquet", by=BY, memory="128M")
    with pytest.raises(ValueError, match="differ"):
        penstock.merge_tables([tables[0], tables[1].drop("x")], tmp_path / "out2.parquet", by=BY, memory="128M")
    assert sorted(os.listdir(tmp_path)) == ["0.parquet", "out.parquet"]


@pytest.mark.parametrize("how", ["hash", "range"])
def test_partition_table(tmp_path, orders_file, how):
    names = penstock.partition_table(tmp_path / "in.parquet", str(tmp_path / "part-{}.parquet"), by="name", parts=4, how=how, memory="128M")
    parts = [pq.read_table(name) for name in names]
    assert len(parts) == 4 and sorted(os.listdir(tmp_path)) == ["in.parquet", *(f"part-{i}.parquet" for i in range(4))]
    assert pa.concat_tables(parts).sort_by("x").equals(orders_file.sort_by("x"))
    keys = [set(part["name"].to_pylist()) for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys))
    if how == "range":
        assert all(max(a) < min(b) for a, b in zip(keys, keys[1:]) if a and b)
    places = {x: i for i, x in enumerate(orders_file["x"].to_pylist())}
    assert all(rows == sorted(rows) for rows in ([places[x] for x in part["x"].to_pylist()] for part in parts))


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "table", "list", "stream"])
def test_ranges_have_equal_sizes_and_rows_are_distributed_once(tmp_path, monkeypatch, kind):
    table = pa.table({"k": np.random.default_rng(2).permutation(100_000) + 100_000, "v": np.arange(100_000)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=500)
    pa.csv.write_csv(table, tmp_path / "in.csv")
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table, 3_000)
    halves = [table.slice(0, 30_000), table.slice(30_000)]
    data = {"table": table, "list": halves, "stream": pa.RecordBatchReader.from_batches(table.schema, table.to_batches(7_000))}.get(kind, tmp_path / f"in.{kind}")
    if kind != "stream":
        monkeypatch.setattr(penstock._penstock, "partition_files", None)  # partition_files() would mean that rows are written to be sampled
    names = penstock.partition_table(data, tmp_path / "part-{}.parquet", by=[("k", "descending")], parts=5, how="range", memory="128M",
                                     types={"k": "int64", "v": "int64"} if kind == "csv" else None)
    parts = [pq.read_table(name) for name in names]
    assert max(part.num_rows for part in parts) < 1.3 * table.num_rows / 5
    assert pa.concat_tables([part.sort_by([("k", "descending")]) for part in parts]).equals(table.sort_by([("k", "descending")]))
    assert all(part["v"].to_pylist() == sorted(part["v"].to_pylist()) for part in parts)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_ranges_of_fewer_rows_than_parts_and_of_long_keys(tmp_path, rows):
    table = pa.table({"k": ["x" * 200_000 + str(i) for i in range(rows)]}, schema=pa.schema({"k": pa.string()}))
    pq.write_table(table, tmp_path / "in.parquet")
    for parts in (1, 4):
        names = penstock.partition_table(tmp_path / "in.parquet", tmp_path / "part-{}.parquet", by="k", parts=parts, how="range", memory="128M")
        assert len(names) == parts and pa.concat_tables([pq.read_table(name) for name in names]).equals(table)


def test_top_table(orders_file):
    found = penstock.top_table(orders_file, 10, by=BY, memory="128M")
    assert found.equals(orders_file.take(order_by_arrow(orders_file, [("name",), BY[1]], "last")[:10]))


# ---- How runs end.


def test_a_reader_that_raises_ends_the_run(tmp_path):
    def batches():
        yield from wide(1000, 6).to_batches()
        raise RuntimeError("enough")

    reader = pa.RecordBatchReader.from_batches(wide(1, 6).schema, batches())
    with pytest.raises(RuntimeError, match="enough"):
        penstock.sort_table(reader, tmp_path / "out.parquet", by=BY, memory="128M", temp=tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    table = pa.table({"a": [2, 1], "nested": [[1], [2]]})
    with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError)):
        penstock.sort_table(table, tmp_path / "out.csv", by="a", memory="128M", temp=tmp_path)
    with pytest.raises(FileNotFoundError):
        penstock.sort_table(table, tmp_path / "missing/out.parquet", by="a", memory="128M", temp=tmp_path)
    with pytest.raises(FileNotFoundError):
        penstock.sort_table(tmp_path / "missing.parquet", tmp_path / "out.parquet", by="a", memory="128M")
    with pytest.raises(ValueError, match="format="):
        penstock.sort_table(table, tmp_path / "out.xls", by="a", memory="128M")
    assert os.listdir(tmp_path) == []


def test_a_refused_name_among_files_written_together_leaves_those_before_it(tmp_path):
    with pytest.raises(IsADirectoryError), penstock._written.Written() as written:
        for name in "abc":
            with open(written.begin(tmp_path / name), "w") as file:
                file.write(name)
        os.mkdir(tmp_path / "b")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"] and (tmp_path / "a").read_text() == "a" and os.listdir(tmp_path / "b") == []


def test_batches_may_be_left_at_any_time(tmp_path, threads_left):
    table = wide(20_000, 7)

    def leave(takes):
        batches = penstock.sort_batches(table, by=BY, memory="128M", temp=tmp_path, batch_rows=100)
        for _ in range(takes):
            assert next(batches).num_rows == 100
        batches.close()
        assert list(batches) == []

    leave(3)  # starts threads that the process keeps, as Arrow's
    threads, tasks = threading.active_count(), len(os.listdir("/proc/self/task"))
    for takes in (0, 1, 3):
        leave(takes)
    assert threading.active_count() == threads and threads_left(tasks) == 0 and os.listdir(tmp_path) == []


def test_ctrl_c_ends_a_run(tmp_path):
    table = wide(100, 8)
    started = threading.Event()

    def endless():
        while True:
            yield table.to_batches()[0]
            started.set()

    def press():
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        penstock.sort_table(pa.RecordBatchReader.from_batches(table.schema, endless()), tmp_path / "out.parquet", by=BY, memory="128M", temp=tmp_path)
    presser.join()
    assert os.listdir(tmp_path) == []


# Runs `penstock sort`, and sends itself a signal as soon as the given function of _written has returned.
STOPPED = """
import functools, os, signal, sys
from penstock import _written
from penstock.__main__ import main

os.chdir(sys.argv[1])

def and_stop(function):
    @functools.wraps(function)
    def called(*arguments):
        result = function(*arguments)
        os.kill(os.getpid(), int(sys.argv[3]))
        return result
    return called

holder = _written.Written if sys.argv[2] == "begin" else _written
setattr(holder, sys.argv[2], and_stop(getattr(holder, sys.argv[2])))
sys.exit(main(["sort", "in.csv", "--by", "id", "-o", "out.arrow", "-S", "300M", "-T", "."]))
"""


def test_a_signal_leaves_nothing(tmp_path):
    (tmp_path / "in.csv").write_text("id\n2\n1\n")
    (tmp_path / "out.arrow").write_text("old")

    def run(*words):
        return subprocess.run([sys.executable, "-c", STOPPED, tmp_path, *map(str, words)], stderr=subprocess.PIPE, text=True)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for place in ("begin", "_link"):
            done = run(place, int(number))
            assert done.returncode == -number
            assert done.stderr.endswith(f"penstock sort: stopped by {number.name}; the output is there only if it is complete\n")
            assert sorted(os.listdir(tmp_path)) == ["in.csv", "out.arrow"] and (tmp_path / "out.arrow").read_text() == "old"
    assert run("begin", int(signal.SIGKILL)).returncode == -signal.SIGKILL
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "out.arrow"]
    # While a file is replaced, the new one has a temporary name, which the next run removes.
    assert run("_link", int(signal.SIGKILL)).returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 3
    penstock.sort_table(tmp_path / "in.csv", tmp_path / "out.arrow", by="id", memory="128M", temp=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "out.arrow"] and pa.ipc.open_file(tmp_path / "out.arrow").read_all().to_pydict() == {"id": ["1", "2"]}


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5_000_001])
def test_a_file_past_the_page_cache_has_all_that_was_written(tmp_path, size):
    from penstock import _written

    data, at = np.random.default_rng(size).bytes(size), 0
    with _written.opened(str(tmp_path / "out")) as file:
        for step in itertools.cycle((1, 4096, 1_500_000)):
            at += file.write(data[at:at + step])
            assert file.tell() == at
            if at == size:
                break
    assert (tmp_path / "out").read_bytes() == data
    with pytest.raises(KeyError), _written.opened(str(tmp_path / "out")) as file:
        file.write(b"is not written")
        raise KeyError
    assert (tmp_path / "out").read_bytes() == b"" and file.closed


def test_an_output_that_is_no_file_stays_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "out.csv")
    reader = threading.Thread(target=lambda: read.append((tmp_path / "out.csv").read_text()))
    read = []
    reader.start()
    penstock.sort_table(pa.table({"id": [2, 1]}), tmp_path / "out.csv", by="id", memory="128M", temp=tmp_path)
    reader.join()
    assert read == ['"id"\n1\n2\n'] and (tmp_path / "out.csv").is_fifo()


def test_an_output_may_be_a_pipe_by_its_descriptor(tmp_path):
    reads, writes = os.pipe()
    with os.fdopen(reads) as pipe:
        os.symlink(f"/dev/fd/{writes}", tmp_path / "out.csv")
        penstock.sort_table(pa.table({"id": [2, 1]}), tmp_path / "out.csv", by="id", memory="128M", temp=tmp_path)
        os.close(writes)
        assert pipe.read() == '"id"\n1\n2\n'


def test_an_output_has_the_mode_of_what_it_replaces(tmp_path):
    output = tmp_path / "out.csv"
    for mode in (0o600, 0o664):
        output.touch()
        output.chmod(mode)
        penstock.sort_table(pa.table({"id": [2, 1]}), output, by="id", memory="128M", temp=tmp_path)
        assert stat.S_IMODE(output.stat().st_mode) == mode and output.read_text() == '"id"\n1\n2\n'


# The growth of the process by a call, in MiB; for the command, all of its resident memory.
PEAK = """
import os, sys
import pyarrow as pa, pyarrow.parquet, pyarrow.csv
import penstock
from penstock.__main__ import main

def resident(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) << 10

os.chdir(sys.argv[1])
table = dict(by="name", memory="128M", temp=".")
before = resident("VmRSS") if "main" not in sys.argv[2] else 0
open("/proc/self/clear_refs", "w").write("5")
eval(sys.argv[2])
print((resident("VmHWM") - before) >> 20)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    table = wide(600_000, 9)
    pq.write_table(table, folder / "in.parquet", row_group_size=table.num_rows)
    pq.write_table(table.sort_by("name"), folder / "sorted.parquet", row_group_size=table.num_rows)
    words = pa.DictionaryArray.from_arrays(pa.array(np.arange(150_000) % 2, pa.int32()), ["a" * 1000, "b" * 1000])
    for name, values in (("words", words), ("runs", pc.run_end_encode(words.cast(pa.string()).sort()))):
        repeated = pa.table({"name": np.random.default_rng(1).integers(0, 1 << 60, len(words)), "d": values})
        with pa.ipc.new_file(folder / f"{name}.arrow", repeated.schema) as writer:
            writer.write_table(repeated)
    repeated = repeated.set_column(1, "d", words.cast(pa.string()))
    pyarrow.csv.write_csv(repeated, folder / "words.csv")
    np.random.default_rng(1).integers(0, 2**63, 8 << 20, dtype="u8").tofile(folder / "in.u64")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("call, most", [
    ('penstock.sort_table("in.parquet", "out.parquet", **table)', 128),
    ('penstock.merge_tables(["sorted.parquet"] * 3, "out.parquet", **table)', 128),
    ('penstock.partition_table("in.parquet", "hash-{}.parquet", parts=4, **table)', 128),
    ('penstock.partition_table("in.parquet", "range-{}.parquet", parts=4, how="range", **table)', 128),
    ('penstock.top_table("in.parquet", 1000, **table)', 128),
    ('penstock.sort_table("words.arrow", "out.parquet", **table)', 128),
    ('penstock.sort_table("runs.arrow", "out.arrow", **table)', 128),
    ('[None for _ in penstock.sort_batches("words.arrow", **table)]', 128),
    ('penstock.sort_table("words.csv", "out.parquet", types={"name": "int64"}, **table)', 128),
    ('penstock.sort_file("in.u64", "out.u64", format="u64", memory="33M", temp=".", progress=True)', 33),
    ('main(["sort", "in.parquet", "--by", "name", "-o", "out.parquet", "-S", "224M", "-T", "."])', 224)])
def test_budgets_cover_arrow_and_python(large, call, most):
    done = subprocess.run([sys.executable, "-c", PEAK, large, call], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) <= most, done.stdout


def test_without_pyarrow(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        penstock.sort_table(tmp_path / "in.parquet", tmp_path / "out.parquet", by="a")


def test_other_libraries_take_and_give_batches():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [3, 1, 2], "b": ["x", "y", None]})
    found = polars.DataFrame(penstock.sort_batches(frame, by="a", memory="128M"))
    assert found.equals(frame.sort("a"))


def test_the_command_sorts_tables(tmp_path, orders_file, program):
    def sort(*words, **environment):
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        return subprocess.run([program, "sort", *words], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PATH": path, **environment})

    done = sort("in.parquet", "--by", "name,zipf:desc:nulls-first", "-o", "out.parquet", "-S", "256M", "-T", ".")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    expected = orders_file.take(order_by_arrow(orders_file, [("name",), BY[1]], "last"))
    assert pq.read_table(tmp_path / "out.parquet").equals(expected)
    done = sort("in.parquet", "--by", "x", "--by", "name", "-o", "top.arrow", "-S", "256M", "--top", "3")
    assert done.returncode == 0 and pa.ipc.open_file(tmp_path / "top.arrow").read_all().equals(orders_file.sort_by("x")[:3])
    for words, said in [(["-u"], "-u: "), (["--key", "1"], "--key"), ([], "pipe"), (["-o", "x.parquet", "-S", "128M"], "try: -S ")]:
        done = sort("in.parquet", "--by", "nothing", *words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = sort("in.parquet", "--by", "name", "-o", "x.parquet", PYTHONPATH="")
    assert done.returncode == 2 and "pip install" in done.stderr, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["in.parquet", "out.parquet", "top.arrow"]


def test_columns_on_the_command_line():
    from penstock.__main__ import keys_of
    assert keys_of(["ts:desc,id", "a:b:nulls-first"]) == [("ts", "descending"), ("id",), ("a:b", "nulls first")]
    assert keys_of(["ts:r,id:asc"]) == [("ts", "descending"), ("id", "ascending")]
