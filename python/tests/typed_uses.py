"""Not run: uses of the package's public names for type checkers (check_types.py)."""

from pathlib import Path
from typing import Any, Iterator, assert_type
import re

import numpy as np
import pyarrow as pa  # type: ignore[import-not-found,import-untyped,unused-ignore]
from numpy.typing import NDArray

import penstock

a: NDArray[np.uint64] = np.arange(10, dtype=np.uint64)
penstock.sort(a, axis=0, values=a.copy(), threads=2, descending=True, stable=True)
penstock.sort(np.zeros(3, "S4"), order=["x"])
assert_type(penstock.argsort(a, axis=None), NDArray[np.intp])
assert_type(penstock.top_k(a, 3), NDArray[Any])
parts = penstock.partition(a, bits=2, by="high")
assert_type(parts, penstock.Partitions)
assert_type(len(parts), int)
assert_type([part.sum() for part in parts][0], Any)

report = penstock.sort_file(Path("in"), b"out", dtype="<u8", memory="1G", temp=["/a", b"/b"], progress=True, resume=True)
assert_type(report, penstock.Report)
assert_type(report.to_dict(), dict[str, Any])
assert_type(penstock.plan(["a", Path("b")], format="record", record=100, key=["0:8", "8:2"]), penstock.Report)
assert_type(penstock.check(0, format="u64"), penstock.Report)
penstock.merge(["a", "b"], "out", progress=lambda phase, done, total: print(phase.upper(), done + total))
penstock.partition_files("in", "part-{}", by="hash", parts=4, csv=True, separator=";", header=True)
penstock.group("in", "out", count=True, value=(8, "<u8"))
penstock.join("left", "right", "out", on=["id"], how="left")
penstock.join("left", ["right", Path("other")], "out", how="semi")
options: penstock.FileOptions = {"format": "u64", "memory": 1 << 30}
penstock.sort_file("in", "out", **options)

with penstock.open("in", "<u8", memory="16M") as s:
    assert_type(s, penstock.Stream)
    assert_type(s.array, NDArray[Any])
    assert_type(s.buffer, memoryview)
    assert_type(s.lines(), Iterator[bytes])
    assert_type(s.finditer(rb"x"), Iterator[tuple[int, re.Match[bytes]]])
    for chunk in s.chunks("1M", overlap=1):
        chunk.sum()
with open("in", "rb") as file:
    penstock.open(file).close()

table = pa.table({"a": [1]})
assert_type(penstock.sort_table(table, "out.parquet", by=["a", ("b", "descending")]), penstock.Report)
for batch in penstock.sort_batches(["x.parquet"], by="a", batch_rows=10):
    batch.num_rows
assert_type(penstock.merge_tables([table], "out.arrow", by="a"), penstock.Report)
assert_type(penstock.partition_table(table, "part-{}.csv", by="a", parts=2), list[str])
penstock.top_table(table, 3, by="a").num_rows

v = penstock.Vector("f8", [1.0])
v.extend(np.ones(3))
assert_type(v.array, NDArray[Any])
t = penstock.Table(np.int64, 10)
assert_type(t.snapshot(), penstock.Snapshot)
assert_type(t.snapshot().array, NDArray[Any])
assert_type(penstock.trace(["true"]).returncode, int)

try:
    penstock.check("x")
except penstock.Corrupt as error:
    value_error: ValueError = error
    assert_type(error.hint, str)
except penstock.OutOfSpace as error:
    os_error: OSError = error

# Errors have to be found: an ignored line without an error is an error.
penstock.sort([3, 1])  # type: ignore[arg-type]
penstock.sort_file("in")  # type: ignore[call-arg]
penstock.sort_file("in", "out", memroy="1G")  # type: ignore[call-arg]
penstock.argsort(a, threads="2")  # type: ignore[arg-type]
