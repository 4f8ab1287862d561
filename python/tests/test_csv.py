"""CSV: rows that stay unchanged, from CSV to CSV; and columns of strings, or of given types, for other formats."""

import bz2
import gzip
import itertools
import lzma
import os
import pathlib
import random
import subprocess
import sys
import threading

import pytest

import penstock

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

LETTERS = random.Random(1)
# The header, the rows, and each row's key, the text of its first column.
FILES = {
    "values that a type would change": (b"zip,big,d\n", [
        b"00123,123456789012345678901,2020-01-02\n", b"00045,2,2020-01-01 00:00:00\n", b"1.10,1e3,NA\n", b",null,\n", b"0x1F,nan,1.0\n"]),
    "quotes": (b'k,"t"\n', [b'"b",1\n', b'a,"x\ny"\n', b'"c, d","say ""so"""\n', b'"",""\n', b'aa,\n']),
    "line ends of Windows": (b"k,v\r\n", [b"b,1\r\n", b"a,\r\n", b"c,\"x\r\ny\"\r\n"]),
    "Latin-1": (b"na\xefve,v\n", [b"\xe9,1\n", b"a\xff,2\n", b"z,\xfc\n"]),
    "a type that changes behind the first block": (b"k,v\n", [b"%d,x\n" % i for i in range(100_000)] + [b"1.5,y\n", b"AB-1,z\n"]),
    "a field of 3 MB": (b"k,v\n", [b"b,2\n", b"a," + b"v" * 3_000_000 + b"\n", b"c,\n"]),
    "one column, with empty lines": (b"k\n", [b"b\n", b"\n", b"a\n", b"\n"]),
    "no rows": (b"k,v\n", []),
}


def key_of(row):
    row = row.rstrip(b"\r\n") if row.strip() else b""
    return row[1:row.index(b'"', 1)] if row.startswith(b'"') else row.split(b",")[0]


def in_order(rows, **options):
    return b"".join(sorted(rows, key=key_of, **options))


def name_of(header):
    return header.rstrip(b"\r\n").split(b",")[0].decode("latin-1")


# (A merge and a partition refuse lines of more than 2 MiB.)
@pytest.mark.parametrize("name, how", [(name, how) for how in ("sort", "sort a part", "merge", "hash", "range") for name in FILES
                                       if "MB" not in name or how.startswith("sort")])
def test_rows_of_csv_keep_every_byte(tmp_path, name, how):
    header, rows = FILES[name]
    rows = LETTERS.sample(rows, len(rows))
    column = name_of(header) if header.isascii() else "1"
    (tmp_path / "in.csv").write_bytes(header + b"".join(rows))
    options = dict(by=column, memory="128M", temp=tmp_path)
    if how.startswith("sort"):
        top = 2 if how == "sort a part" else None
        report = penstock.sort_table(tmp_path / "in.csv", tmp_path / "out.csv", top=top, **options)
        assert report.items == len(rows[:top])
        assert (tmp_path / "out.csv").read_bytes() == header + b"".join(sorted(rows, key=key_of)[:top])
        penstock.sort_table([tmp_path / "in.csv"], os.fsencode(tmp_path / "in.csv"), **options | dict(by=[(column, "descending")]))
        assert (tmp_path / "in.csv").read_bytes() == header + in_order(rows, reverse=True)
    elif how == "merge":
        parts = [rows[::2], rows[1::2]]
        for i, part in enumerate(parts):
            (tmp_path / f"{i}.csv").write_bytes(header + in_order(part))
        penstock.merge_tables([tmp_path / "0.csv", tmp_path / "1.csv"], tmp_path / "out.csv", **options)
        assert (tmp_path / "out.csv").read_bytes() == header + in_order([*parts[0], *parts[1]])
        if len(rows) > 3 and not key_ties(rows):
            (tmp_path / "1.csv").write_bytes(header + b"".join(sorted(rows, key=key_of, reverse=True)))
            with pytest.raises(penstock.Unsorted, match="1.csv"):
                penstock.merge_tables([tmp_path / "0.csv", tmp_path / "1.csv"], tmp_path / "out2.csv", **options)
    else:
        names = penstock.partition_table(tmp_path / "in.csv", tmp_path / "part-{}.csv", parts=3, how=how, **options)
        found = [pathlib.Path(each).read_bytes() for each in names]
        assert len(names) == 3 and all(data.startswith(header) for data in found)
        held = [[row for row in rows if key_of(row) in keys]  # equal keys are in one part, and rows keep their order
                for keys in ({key_of(row) for row in rows_of(data[len(header):], rows)} for data in found)]
        assert [b"".join(each) for each in held] == [data[len(header):] for data in found] and sum(map(len, held)) == len(rows)
        if how == "range":
            assert all(max(map(key_of, a)) < min(map(key_of, b)) for a, b in itertools.pairwise(each for each in held if each))
    assert not [left for left in os.listdir(tmp_path) if left.startswith(".")]


def key_ties(rows):
    return len(set(map(key_of, rows))) < len(rows)


def rows_of(data, rows):
    """Returns the rows in data, whose line ends may be in quotes."""
    known, begin, found = set(rows), 0, []
    for end in (at + 1 for at in range(len(data)) if data[at] == 10):
        if data[begin:end] in known:
            found.append(data[begin:end])
            begin = end
    assert begin == len(data)
    return found


def write(path, text):
    path.write_text(text)
    return path


def test_keys_of_rows_are_text_or_numbers_on_request(tmp_path):
    source = write(tmp_path / "in.csv", "n,x,d\n10,1e1,2020-01-02\n9,2,2019-01-01\n-1,0.5,2021-01-01\n9.50,-3e0,2020-01-01\n")

    def column(by, which, **options):
        penstock.sort_table(source, tmp_path / "out.csv", by=by, memory="128M", **options)
        lines = (tmp_path / "out.csv").read_text().splitlines()
        assert lines[0] == "n,x,d" and sorted(lines[1:]) == sorted(source.read_text().splitlines()[1:])
        return [line.split(",")[which] for line in lines[1:]]

    assert column("n", 0) == ["-1", "10", "9", "9.50"]
    for kind in ("int64", pa.decimal128(5, 2), pa.uint8()):
        assert column("n", 0, types={"n": kind}) == ["-1", "9", "9.50", "10"]
    assert column("n:n", 0) == ["-1", "9", "9.50", "10"]  # in the form of --key
    assert column([("n", "desc")], 0, types={"n": "int64"}) == ["10", "9.50", "9", "-1"]
    assert column("x", 1, types={"x": "double"}) == ["-3e0", "0.5", "2", "1e1"]
    assert column([("d", "descending"), "n"], 2, types={"d": "string"}) == ["2021-01-01", "2020-01-02", "2020-01-01", "2019-01-01"]
    assert column("2", 1, types=None) == ["-3e0", "0.5", "1e1", "2"]


@pytest.mark.parametrize("operation", ["sort_table", "merge_tables", "partition_table"])
def test_options_that_rows_of_csv_do_not_have_are_refused(tmp_path, operation):
    source = write(tmp_path / "in.csv", "a,b\n2,1\n1,2\n")
    more = dict(parts=2) if operation == "partition_table" else {}

    def call(**options):
        data = [source] if operation == "merge_tables" else source
        getattr(penstock, operation)(data, str(tmp_path / "out-{}.csv"), **dict(by="a", memory="128M") | more | options)

    for options, words in [
            (dict(nulls="first"), "no nulls"), (dict(by=[("a", "nulls last")]), "no nulls"), (dict(by=[("a", "up")]), "'up'"),
            (dict(by=[]), "names no column"), (dict(by="c"), "key='c'.*one of a, b"), (dict(types={"b": "int64"}), "'b', which is no key"),
            (dict(types={"a": "timestamp[s]"}), "ISO 8601"), (dict(types={"a": "float65"}), "float65"), (dict(types=["a"]), "types= maps names"),
            (dict(row_group=5), "row_group= is for Parquet"), (dict(compression="zstd"), "'compression' is for a writer"),
            (dict(write_options=None), "'write_options' is for a writer"), (dict(delimiter=";"), "delimiter= .*separator="),
            (dict(parse_options=None), "parse_options= .*types="), (dict(separator=";;"), "separator= is one character"),
            (dict(output_format="csv", format="csvx"), "format must be")]:
        with pytest.raises((ValueError, TypeError), match=words):
            call(**options)
    assert os.listdir(tmp_path) == ["in.csv"]


@pytest.mark.parametrize("end, compress", [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress),
                                           ("zst", lambda data: pa.compress(data, "zstd", asbytes=True))])
def test_compressed_csv_is_read_by_its_name(tmp_path, end, compress):
    source = tmp_path / f"in.csv.{end}"
    source.write_bytes(compress(b"k,v\n02,b\n01,a\n"))
    penstock.sort_table(source, tmp_path / "out.csv", by="k", memory="128M")
    assert (tmp_path / "out.csv").read_bytes() == b"k,v\n01,a\n02,b\n"
    penstock.sort_table(source, tmp_path / "out.parquet", by="k", memory="128M")
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {"k": ["01", "02"], "v": ["a", "b"]}
    with pytest.raises(ValueError, match="not written compressed"):
        penstock.sort_table(source, tmp_path / f"out.csv.{end}", by="k", memory="128M")


def test_a_separator_is_that_of_what_is_read_and_written(tmp_path):
    source = write(tmp_path / "in.csv", "k;v\n2;a,b\n1;c\n")
    penstock.sort_table(source, tmp_path / "out.csv", by="k", separator=";", memory="128M")
    assert (tmp_path / "out.csv").read_text() == "k;v\n1;c\n2;a,b\n"
    penstock.sort_table(source, tmp_path / "out.parquet", by="k", separator=";", memory="128M")
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {"k": ["1", "2"], "v": ["c", "a,b"]}
    penstock.sort_table(tmp_path / "out.parquet", tmp_path / "back.csv", by="k", separator=";", memory="128M")
    assert (tmp_path / "back.csv").read_text() == '"k";"v"\n"1";"c"\n"2";"a,b"\n'


# ---- Columns.


@pytest.mark.parametrize("name", FILES)
def test_columns_of_csv_are_strings(tmp_path, name):
    header, rows = FILES[name]
    (tmp_path / "in.csv").write_bytes(header + b"".join(rows))
    if name == "Latin-1":
        with pytest.raises(penstock.Corrupt, match="header, which is not UTF-8"):
            penstock.top_table(tmp_path / "in.csv", 3, by="v", memory="128M")
        (tmp_path / "in.csv").write_bytes(b"k,v\n" + b"".join(rows))
        with pytest.raises(penstock.Corrupt, match="types={name: 'binary'}"):
            penstock.top_table(tmp_path / "in.csv", 3, by="k", memory="128M")
        assert penstock.top_table(tmp_path / "in.csv", 2, by="k", types={"k": "binary", "v": "binary"},
                                  memory="128M").to_pydict() == {"k": [b"a\xff", b"z"], "v": [b"2", b"\xfc"]}
        return
    memory = "1G" if "3 MB" in name else "128M"
    found = penstock.top_table(tmp_path / "in.csv", 10**6, by=name_of(header), memory=memory)
    assert set(found.schema.types) == {pa.string()} and found.column(0).null_count == 0
    assert found.column(0).to_pylist() == sorted(key_of(row).decode() for row in rows)
    if name == "quotes":
        assert found["t"].to_pylist() == ["", "x\ny", "", "1", 'say "so"']
    with penstock.sort_batches(tmp_path / "in.csv", by=name_of(header), memory=memory) as batches:
        assert pa.Table.from_batches(list(batches), batches.schema).equals(found)


def test_types_of_columns_are_on_request(tmp_path):
    source = write(tmp_path / "in.csv", "n,t,x\n10,2020-01-02,1.5\n9,,\n,2020-01-01,nan\n")
    types = {"n": pa.int16(), "t": "timestamp[s]", "x": "double"}
    found = penstock.top_table(source, 3, by="n", types=types, memory="128M")
    assert found.schema.types == [pa.int16(), pa.timestamp("s"), pa.float64()] and found["n"].to_pylist() == [9, 10, None]
    assert str(found["x"].to_pylist()) == "[None, 1.5, nan]"
    for options, words in [(dict(types={"m": "int64"}), "column 'm'; columns are n, t, x"), (dict(types={"t": "int64"}), "in.csv.*another type in types=")]:
        with pytest.raises(ValueError, match=words):
            penstock.sort_table(source, tmp_path / "out.parquet", by="n", memory="128M", **options)
    write(tmp_path / "late.csv", "a\n" + "".join(f"{i}\n" for i in range(400_000)) + "1.5\n")
    with pytest.raises(penstock.Corrupt, match="late.csv: .*1.5.*another type"):
        penstock.sort_table(tmp_path / "late.csv", tmp_path / "out.parquet", by="a", types={"a": "int64"}, memory="128M")
    with pytest.raises(ValueError, match="types= is for CSV"):
        penstock.sort_table(pa.table({"a": [1]}), tmp_path / "out.parquet", by="a", types={"a": "int64"}, memory="128M")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match="types= is for CSV"):
        penstock.top_table(tmp_path / "in.parquet", 1, by="a", types={"a": "int64"}, memory="128M")


@pytest.mark.parametrize("text, words", [("", "it has no header"), ("a,b\n1,2,3\n", "as many fields"), ("a,b\n1\n", "as many fields"),
                                         ("a\n" + "x" * (20 << 20) + "\n", "a larger memory"), ("x" * (3 << 20), "end of its header")])
def test_broken_tables_are_refused(tmp_path, text, words):
    write(tmp_path / "in.csv", text)
    with pytest.raises((penstock.Corrupt, penstock.OutOfMemory), match=f"in.csv: cannot .*{words}"):
        penstock.sort_table(tmp_path / "in.csv", tmp_path / "out.parquet", by="a", memory="128M")
    assert os.listdir(tmp_path) == ["in.csv"]


def test_csv_from_a_pipe(tmp_path):
    for name in ("out.csv", "out.parquet"):
        os.mkfifo(tmp_path / "in.csv")
        writer = threading.Thread(target=lambda: (tmp_path / "in.csv").write_text("k,v\n" + "02,b\n" * 50_000 + "01,a\n"))
        writer.start()
        penstock.sort_table(tmp_path / "in.csv", tmp_path / name, by="k", memory="128M")
        writer.join()
        os.unlink(tmp_path / "in.csv")
    assert (tmp_path / "out.csv").read_text() == "k,v\n01,a\n" + "02,b\n" * 50_000
    assert pq.read_table(tmp_path / "out.parquet")["k"].to_pylist() == ["01"] + ["02"] * 50_000


def test_the_command_keeps_every_byte(tmp_path, program):
    header, rows = FILES["values that a type would change"]
    (tmp_path / "in.csv").write_bytes(header + b"".join(rows))
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]

    def sort(*words):
        return subprocess.run([program, "sort", "in.csv", "-o", "out.csv", "-S", "300M", *words], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PATH": path})

    assert sort("--by", "zip").stderr == "" and (tmp_path / "out.csv").read_bytes() == header + in_order(rows)
    assert sort("--by", "zip:n:desc").stderr == ""
    assert [line.split(b",")[0] for line in (tmp_path / "out.csv").read_bytes().splitlines()] == [b"zip", b"00123", b"00045", b"1.10", b"", b"0x1F"]
    done = sort("--by", "zap")
    assert done.returncode == 2 and done.stderr.startswith("penstock sort: --key zap: cannot find this column")
