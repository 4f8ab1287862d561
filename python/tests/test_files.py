"""Operations on files: their outputs compared with NumPy and plain Python, their statistics, and early ends."""

import csv
import io
import json
import os
import re
import signal
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock._errors import exception, in_python


@pytest.fixture
def numbers(tmp_path):
    a = np.random.default_rng(1).integers(0, 2**63, 200_000).astype("<u8")
    a.tofile(tmp_path / "in.u64")
    return a


def test_sort_file(tmp_path, numbers):
    told = []
    report = penstock.sort_file(tmp_path / "in.u64", tmp_path / "out.u64", format="u64", memory="64M",
                                progress=lambda *now: told.append(now))
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out.u64", "<u8"), np.sort(numbers))
    assert report.items == len(numbers) and report["bytes"] == numbers.nbytes
    assert report.budget_bytes == 64 << 20 and report.predicted.input_bytes == numbers.nbytes
    assert "items=200000" in repr(report)
    assert report.to_dict()["predicted"]["input_bytes"] == numbers.nbytes
    assert "seconds" in list(report) and "seconds" in dir(report) and len(report) > 10
    with pytest.raises(AttributeError, match="nothing"):
        report.nothing
    assert all(isinstance(phase, str) and done <= total for phase, done, total in told if total)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=50), st.booleans(), st.sampled_from([None, 3]))
def test_sort_file_options(tmp_path_factory, values, descending, top):
    folder = tmp_path_factory.mktemp("sort")
    np.array(values, "<i4").tofile(folder / "in")
    penstock.sort_file(str(folder / "in"), os.fsencode(folder / "out"), dtype="<i4", descending=descending, top=top, unique=True,
                       memory=64 << 20, sync=False)
    assert np.fromfile(folder / "out", "<i4").tolist() == sorted(set(values), reverse=descending)[:top]


def test_structures_are_records(tmp_path):
    a = np.zeros(1000, [("id", "<u4"), ("x", "<f4"), ("name", "S3")])
    rng = np.random.default_rng(2)
    a["id"], a["x"], a["name"] = rng.integers(0, 9, 1000), rng.random(1000), rng.integers(97, 100, (1000, 3), "u1").view("S3")[:, 0]
    a.tofile(tmp_path / "in")
    penstock.sort_file(tmp_path / "in", tmp_path / "out", dtype=a.dtype)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out", a.dtype), np.sort(a))
    penstock.sort_file(tmp_path / "in", tmp_path / "out", dtype=a.dtype, key=["name:r", "id"], stable=True)
    expected = sorted(a.tolist(), key=lambda item: ([-c for c in item[2].ljust(3, b"\0")], item[0]))
    assert np.fromfile(tmp_path / "out", a.dtype).tolist() == expected


def test_paths_of_any_bytes_and_descriptors(tmp_path, numbers):
    name = os.fsencode(tmp_path) + b"/\xff\xfe"
    penstock.sort_file(tmp_path / "in.u64", name, format="u64")
    np.testing.assert_array_equal(np.fromfile(os.fsdecode(name), "<u8"), np.sort(numbers))
    with open(tmp_path / "in.u64", "rb") as file, open(tmp_path / "out", "wb") as out:
        penstock.sort_file(file.fileno(), out.fileno(), format="u64")
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out", "<u8"), np.sort(numbers))
    with pytest.raises(penstock.NotFound, match=r"\\xff"):
        penstock.check(name + b"x", format="u64")


def test_plan_writes_nothing(tmp_path, numbers):
    plan = penstock.plan(tmp_path / "in.u64", format="u64", memory="1G", device="hdd")
    assert plan.method == "in_memory" and plan.input_bytes == numbers.nbytes
    assert "in_memory" in repr(plan) and "<td>in_memory</td>" in plan._repr_html_() and "<td>1.526 MiB</td>" in plan._repr_html_()
    assert os.listdir(tmp_path) == ["in.u64"]


def test_check(tmp_path, numbers):
    before = penstock.check(tmp_path / "in.u64", format="u64")
    assert not before.sorted and before["count"] == len(numbers)
    penstock.sort_file(tmp_path / "in.u64", tmp_path / "in.u64", format="u64")
    after = penstock.check(tmp_path / "in.u64", format="u64")
    assert after.sorted and after.checksum == before.checksum


def test_merge(tmp_path, numbers):
    paths = []
    for i, part in enumerate(np.array_split(numbers, 5)):
        paths.append(tmp_path / f"{i}")
        np.sort(part).tofile(paths[-1])
    report = penstock.merge(paths, tmp_path / "out", format="u64")
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out", "<u8"), np.sort(numbers))
    assert report.items == len(numbers)
    with pytest.raises(penstock.Unsorted) as caught:
        penstock.merge([tmp_path / "in.u64"] * 2, tmp_path / "out2", format="u64")
    assert isinstance(caught.value, ValueError) and "in.u64" in str(caught.value)
    assert not (tmp_path / "out2").exists()


def test_partition_files(tmp_path, numbers):
    report = penstock.partition_files(tmp_path / "in.u64", tmp_path / "part-{}", by="range", parts=4, format="u64")
    parts = [np.fromfile(part.file, "<u8") for part in report.parts]
    assert len(parts) == 4
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.sort(numbers))
    assert all(x.max() < y.min() for x, y in zip(parts, parts[1:]))
    with pytest.raises(ValueError, match="by must"):
        penstock.partition_files(tmp_path / "in.u64", tmp_path / "part-{}", by="size", format="u64")


def test_group(tmp_path):
    keys = np.random.default_rng(3).integers(0, 50, 10_000).astype("<u8")
    values = np.arange(10_000, dtype="<u8")
    np.column_stack([keys, values]).tofile(tmp_path / "in")
    penstock.group(tmp_path / "in", tmp_path / "out", format="kv64", count=True, sum=True, sorted=True)
    unique, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, values).astype("u8")
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out", "<u8").reshape(-1, 3), np.column_stack([unique, counts, sums]))
    penstock.group(tmp_path / "in", tmp_path / "max", format="record", record=16, key="0:8", max=True, value=(8, "<u8"), sorted=True)
    assert np.fromfile(tmp_path / "max", "<u8").reshape(-1, 2)[:, 1].max() == 9_999
    (tmp_path / "csv").write_text("city,price\na,1\nb,2\na,3\n")
    penstock.group(tmp_path / "csv", tmp_path / "sums", csv=True, header=True, key="city", sum=True, value="price")
    assert (tmp_path / "sums").read_text().splitlines()[1:] == ["a,4", "b,2"]
    report = penstock.group(tmp_path / "csv", tmp_path / "means", csv=True, header=True, results=["mean=price", "quantile=0.25:price"])
    assert (tmp_path / "means").read_text() == "mean_price,quantile_0.25_price\n2,1.5\n"
    assert report.empty_values == 0


def test_json_lines(tmp_path):
    (tmp_path / "in").write_text('{"id":10,"user":{"name":"b"}}\n{"id":9.5,"user":{"name":"a"}}\n{"id":1e0,"user":{"name":"b"}}\n')
    words = dict(format="jsonl", key=[".user.name", ".id:desc"])
    assert penstock.sort_file(tmp_path / "in", tmp_path / "out", **words).items == 3
    assert [json.loads(line)["id"] for line in (tmp_path / "out").read_text().splitlines()] == [9.5, 10, 1]
    assert penstock.check(tmp_path / "out", **words).sorted
    penstock.group(tmp_path / "in", tmp_path / "sums", format="jsonl", key="user.name", count=True, sum=True, value=".id")
    assert (tmp_path / "sums").read_text() == '{"user.name":"a","count":1,"sum_id":9.5}\n{"user.name":"b","count":2,"sum_id":11}\n'
    penstock.group(tmp_path / "in", tmp_path / "all", format="jsonl", results=["mean=.id", "last=user.name"])
    assert (tmp_path / "all").read_text() == '{"mean_id":6.8333333333333333,"last_user.name":"b"}\n'
    penstock.join(tmp_path / "in", tmp_path / "in", tmp_path / "pairs", on=".id", format="jsonl")
    assert [json.loads(line)["left"]["id"] for line in (tmp_path / "pairs").read_text().splitlines()] == [1, 9.5, 10]
    with pytest.raises(penstock.Corrupt, match="in: line 1, column 17: a key that is an object"):
        penstock.sort_file(tmp_path / "in", tmp_path / "out", format="jsonl", key=".user")


fields = st.text(st.sampled_from("ab,;\t\"\n 1é\U0001f600"), max_size=4)


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(fields, min_size=width, max_size=width), max_size=30)),
       st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]), st.data())
def test_csv_is_sorted_as_the_rows_are(tmp_path_factory, rows, delimiter, end, data):
    """Rows that the csv module writes, each in another style, are read from our output as the same rows in order."""
    text = io.StringIO(newline="")
    for row in rows:
        quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
        csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerow(row)
    column = data.draw(st.integers(0, len(rows[0]) - 1)) if rows else 0
    descending = data.draw(st.booleans())
    folder = tmp_path_factory.getbasetemp()
    (folder / "in.csv").write_text(text.getvalue(), newline="")
    penstock.sort_file(folder / "in.csv", folder / "out.csv", csv=True, separator=delimiter, key=str(column + 1), stable=True,
                       descending=descending, memory="64M", sync=False)
    with open(folder / "out.csv", newline="") as file:
        found = list(csv.reader(file, delimiter=delimiter, strict=True))
    assert found == sorted(rows, key=lambda row: row[column].encode(), reverse=descending)


def test_join(tmp_path):
    (tmp_path / "left").write_text("id,x\n2,b\n1,a\n")
    (tmp_path / "right").write_text("key,y\n3,C\n1,A\n")
    arguments = dict(left_on="id", right_on="key", csv=True, header=True)

    def joined(**more):
        penstock.join(tmp_path / "left", tmp_path / "right", tmp_path / "out", **arguments, **more)
        return (tmp_path / "out").read_text().splitlines()[1:]

    assert joined() == ["1,a,A"]
    assert joined(how="left_anti") == ["2,b,"]
    assert joined(how="semi") == ["1,a"] and joined(how="anti") == ["2,b"]
    assert joined(how="outer", columns="auto", empty="-") == ["1,a,A", "2,b,-", "3,-,C"]
    three = [tmp_path / name for name in ("left", "right", "right")]
    penstock.join(three[0], three[1:], tmp_path / "out", how="left", **arguments)
    assert (tmp_path / "out").read_text() == "id,x,y,y\n1,a,A,A\n2,b,,\n"
    for side, pairs in (("l", [[1, 10], [2, 20]]), ("r", [[2, 200], [3, 300]])):
        np.array(pairs, "<u8").tofile(tmp_path / side)
    penstock.join(tmp_path / "l", tmp_path / "r", tmp_path / "both", format="kv64")
    assert np.fromfile(tmp_path / "both", "<u8").tolist() == [2, 20, 200]
    with pytest.raises(TypeError, match="for lines"):
        penstock.join(tmp_path / "l", tmp_path / "r", tmp_path / "both", format="kv64", how="outer")


def test_errors(tmp_path, numbers):
    with pytest.raises(penstock.NotFound) as caught:
        penstock.sort_file(tmp_path / "missing", tmp_path / "out", format="u64")
    assert isinstance(caught.value, FileNotFoundError) and caught.value.errno == 2 and caught.value.filename.endswith("missing")
    with pytest.raises(penstock.InvalidArgument, match="format"):
        penstock.sort_file(tmp_path / "in.u64", tmp_path / "out", format="u65")
    with pytest.raises(penstock.Error):
        penstock.sort_file(tmp_path / "in.u64", tmp_path / "out", format="u64", memory="1M")
    (tmp_path / "odd").write_bytes(b"123")
    with pytest.raises(penstock.Corrupt):
        penstock.sort_file(tmp_path / "odd", tmp_path / "out", format="u64")
    with pytest.raises(TypeError, match="no option 'memroy'"):
        penstock.sort_file(tmp_path / "in.u64", tmp_path / "out", format="u64", memroy="1G")
    with pytest.raises(TypeError, match="not both"):
        penstock.sort_file(tmp_path / "in.u64", tmp_path / "out", format="u64", dtype="u8")
    with pytest.raises(ValueError, match="no size"):
        penstock.sort_file(tmp_path / "in.u64", tmp_path / "out", format="u64", memory="much")
    assert not (tmp_path / "out").exists()


def test_sizes():
    from penstock._files import size_bytes
    assert [size_bytes(x) for x in (7, "7", "2K", "1.5M", "1GiB", "1GB", "3t")] == [7, 7, 2048, 3 << 19, 1 << 30, 10**9, 3 << 40]


def test_progress_bar(tmp_path, numbers, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)  # hides tqdm
    penstock.sort_file(tmp_path / "in.u64", tmp_path / "out", format="u64", progress=True)
    err = capsys.readouterr().err
    assert err == "" or "MiB" in err


@pytest.fixture
def endless(tmp_path):
    """A pipe that a thread writes to until its reader closes; `written` is set when the first bytes are read."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    written = threading.Event()

    def write():
        with open(path, "wb", buffering=0) as pipe:
            try:
                while True:
                    pipe.write(bytes(1 << 16))
                    written.set()
            except BrokenPipeError:
                pass

    writer = threading.Thread(target=write)
    writer.start()
    yield path, written
    if not written.is_set():
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    writer.join()


def test_ctrl_c_ends_a_run(tmp_path, endless):
    path, written = endless

    def press():
        written.wait()
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        penstock.sort_file(path, tmp_path / "out", format="u64", memory="64M", temp=tmp_path)
    presser.join()
    assert sorted(os.listdir(tmp_path)) == ["pipe"]


def test_an_exception_of_progress_ends_the_run(tmp_path, endless):
    path, _ = endless

    def progress(phase, done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        penstock.sort_file(path, tmp_path / "out", format="u64", memory="64M", temp=tmp_path, progress=progress)
    assert sorted(os.listdir(tmp_path)) == ["pipe"]


# ---- Invalid arguments, and their names in messages.


def said_by(call):
    with pytest.raises((TypeError, ValueError, OSError, MemoryError)) as caught:
        call()
    message = str(caught.value)
    assert "incompatible function arguments" not in message and not re.search(r"(?<![^ (])--?[A-Za-z]", message), message
    return message


CALLS = {
    "sort_file": (lambda **more: penstock.sort_file("in", "out", **more), ["threads", "stable", "unique", "top", "resume"]),
    "plan": (lambda **more: penstock.plan("in", "out", **more), ["threads", "stable", "unique", "top", "resume"]),
    "check": (lambda **more: penstock.check("in", **more), ["threads"]),
    "merge": (lambda **more: penstock.merge(["in"], "out", **more), ["unique", "stable"]),
    "partition_files": (lambda **more: penstock.partition_files("in", "p-{}", **more), ["parts", "checksums", "bounds"]),
    "group": (lambda **more: penstock.group("in", "out", **more), ["count", "sum", "min", "max", "distinct", "value", "results", "sorted", "top", "threads"]),
    "join": (lambda **more: penstock.join("in", "in", "out", **more), ["columns", "empty", "ignore_case"]),
    "join of records": (lambda **more: penstock.join("in", "in", "out", format="record", **more), ["right_record", "right_key"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_refused_by_its_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("b\na\n")
    call, own = CALLS[name]
    for option in [*own, *penstock.FileOptions.__annotations__]:
        if option == "dtype" or (option == "format" and name == "join of records"):
            continue
        for value in (object(), -1, 2.5):
            if (option, value) == ("header", 2.5) or (option in ("temp", "bounds", "value", "memory") and value == -1):
                continue
            message = said_by(lambda: call(**{option: value}))
            assert option in message or option in ("temp", "bounds", "memory"), (option, message)


def test_messages_of_the_library_name_parameters(tmp_path, numbers):
    u64 = str(tmp_path / "in.u64")
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    csv = str(tmp_path / "in.csv")
    for call, words in [
            (lambda: penstock.sort_file(u64, u64, format="u64", memory="1M"), "memory=: cannot sort within 1 MiB"),
            (lambda: penstock.sort_file(u64, u64, format="u64", threads=0), r"threads=: .*try: threads=2"),
            (lambda: penstock.sort_file(u64, u64, format="u64", key="1"), "key=.*format='record'"),
            (lambda: penstock.sort_file(u64, u64, format="u65"), "format='u65'"),
            (lambda: penstock.sort_file(u64, u64, record=5), "record=.*format='record'"),
            (lambda: penstock.sort_file(csv, csv, dtype="<u8", header=True), "header=True.*format='lines'"),
            (lambda: penstock.sort_file(csv, csv, csv=True, zero_terminated=True), "zero_terminated=True: .*csv=True without zero_terminated=True"),
            (lambda: penstock.sort_file(csv, csv, csv=True, header=True, key="c"), "key='c': cannot find this column .try: one of a, b"),
            (lambda: penstock.sort_file(csv, csv, csv=True, separator='"'), "separator="),
            (lambda: penstock.partition_files(u64, "p-{}", format="u64", parts=0), "parts=: cannot make 0 parts"),
            (lambda: penstock.partition_files(u64, "p", format="u64", parts=2), "output 'part-{}.bin'"),
            (lambda: penstock.group(csv, csv, csv=True, header=True, key="a", sum=True), "sum=True: .*value='COLUMN'"),
            (lambda: penstock.sort_file(u64, u64, format="u64", top=5, resume=True), "resume=True"),
            (lambda: penstock.merge([csv, csv], csv, csv=True, header=True, key="a:numeric"), "key='a:numeric': .*try: key='a:n'"),
            (lambda: penstock.sort_file(io.TextIOWrapper(io.BytesIO()), csv), "TextIOWrapper is no path: give the file's name"),
            (lambda: penstock.sort_file(numbers, csv), "ndarray is no path"),
            (lambda: penstock.sort_file(u64, u64, format="u64", memory=None), "a size is a whole number, or such as '64M', not None"),
            (lambda: penstock.sort_file(u64, u64, format="u64", progress="yes"), "progress= is True")]:
        assert re.search(words, message := said_by(call)), message
    np.testing.assert_array_equal(np.fromfile(u64, "<u8"), numbers)
    assert penstock.sort_file(np.array([u64, u64]), csv, format="u64").items == 2 * len(numbers)  # an array of names is names


def test_messages_keep_the_words_of_data_and_of_paths():
    told = exception(8, "in -u x: cannot read 'x -k 1 y' (try: -k price:n)", "read 'x -k 1 y'", "in -u x", 0, "-k price:n")
    assert str(told) == "in -u x: cannot read 'x -k 1 y' (try: key='price:n')"
    assert in_python("-t ' ' --header -k 2 in place of 'x'") == "separator=' ' header=True key=2 in place of 'x'"


@pytest.mark.parametrize("name", CALLS)
def test_files_of_np_save_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with open("in", "wb") as file:
        np.save(file, np.arange(10)[::-1])
    before = (tmp_path / "in").read_bytes()
    options = {} if name == "join of records" else {"format": "i64"}
    assert re.search("^in: cannot take the header of np.save.*np.load.FILE, mmap_mode='r'.*tofile.*decompress=False", said_by(lambda: CALLS[name][0](**options)))
    assert os.listdir() == ["in"] and (tmp_path / "in").read_bytes() == before


@pytest.mark.parametrize("memory", [np.int64(64 << 20), 64e6, np.float64(64e6), np.uint32(64 << 20), "64M"])
def test_sizes_are_numbers_of_any_type(tmp_path, numbers, memory):
    report = penstock.sort_file(tmp_path / "in.u64", tmp_path / "out.u64", format="u64", memory=memory, threads=np.int32(1), top=np.uint8(3))
    assert report.items == 3 and report.budget_bytes in (64 << 20, 64_000_000)
