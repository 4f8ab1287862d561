"""Tracing by the command, which the developers' build has in a folder of its own."""

import os
import subprocess
import sys

import pytest

import penstock


@pytest.fixture(autouse=True)
def find_the_program(monkeypatch, program):
    monkeypatch.setenv("PATH", os.path.dirname(program) + os.pathsep + os.environ["PATH"])
    if subprocess.run([program, "trace", "--help"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this build has no tracing")


def test_trace(tmp_path):
    (tmp_path / "data").write_bytes(bytes(100_000))
    program = f"f = open({str(tmp_path / 'data')!r}, 'rb'); f.seek(50_000); f.read(1000); raise SystemExit(3)"
    trace = penstock.trace([sys.executable, "-c", program], tmp_path / "run.trace")
    assert trace.returncode == 3 and "run.trace" in repr(trace)
    assert "seeks" in trace.summary
    trace.convert(tmp_path / "run.csv")
    assert str(tmp_path / "data") in (tmp_path / "run.csv").read_text()


def test_errors_of_trace(tmp_path):
    with pytest.raises(OSError, match="was not traced"):
        penstock.trace([str(tmp_path / "missing")], tmp_path / "run.trace", stderr=-3)
    with pytest.raises(TypeError, match="list"):
        penstock.trace("ls", tmp_path / "run.trace")
