"""Files as arrays, and sources in chunks: contents, ends, and other code in the process."""

import bz2
import gc
import gzip
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock

COUNT = 3 << 20  # 24 MiB, more than the memory of the streams here


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "numbers"
    np.arange(COUNT, dtype="<u8").tofile(path)
    return path


@pytest.fixture(scope="module")
def numbers():
    return np.arange(COUNT, dtype="<u8")


def fed(write_end, data):
    """Starts a thread that writes all of the data, and closes the pipe."""
    def feed():
        with open(write_end, "wb") as file:
            try:
                file.write(data)
            except BrokenPipeError:
                pass
    thread = threading.Thread(target=feed)
    thread.start()
    return thread


def test_a_file_is_an_array(path, numbers):
    with penstock.open(path, "<u8", memory="8M") as s:
        assert len(s) == COUNT and s.array.dtype == "<u8" and s.array.shape == (COUNT,)
        assert s.array.sum() == COUNT * (COUNT - 1) // 2
        np.testing.assert_array_equal(s.array, numbers)
        assert s.array[COUNT - 1] == COUNT - 1 and s.array[5] == 5  # back to the front
        np.testing.assert_array_equal(s.array[::-4096], numbers[::-4096])
        with pytest.raises(ValueError, match="read-only"):
            s.array[0] = 1
        assert "numbers" in repr(s)
    assert s.closed
    with pytest.raises(ValueError, match="closed"):
        s.array


def test_a_file_is_a_buffer(tmp_path):
    text = b"x" * 9_000_000 + b"needle" + b"y" * 9_000_000
    (tmp_path / "text").write_bytes(text)
    with penstock.open(tmp_path / "text", memory="8M") as s:
        found = re.search(rb"ne+dle", s.buffer)
        assert found.span() == (9_000_000, 9_000_006)
        del found
        assert bytes(s.buffer[:3]) == b"xxx" and s.buffer.readonly and s.buffer.nbytes == len(text)


def test_memory_is_flat(path):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    with penstock.open(path, "<u8", memory="4M") as s:
        s.array[: 1 << 17].sum()
        before = resident()
        s.array.sum()
        assert resident() - before < 8 << 20


@given(st.binary(max_size=40_000), st.integers(1, 5000), st.integers(0, 4999))
def test_chunks_are_all_bytes_in_order(tmp_path_factory, data, size, overlap):
    path = tmp_path_factory.mktemp("chunks") / "data"
    path.write_bytes(data)
    with penstock.open(path, memory="64K") as s:
        if overlap >= size:
            with pytest.raises(ValueError, match="overlap"):
                s.chunks(size, overlap=overlap)
            return
        chunks = list(s.chunks(size, overlap=overlap))
    assert all(len(chunk) == size for chunk in chunks[:-1])
    assert all(a[len(a) - overlap:] == b[:overlap] for a, b in zip(chunks, chunks[1:]))
    assert b"".join([chunk[overlap if i else 0:] for i, chunk in enumerate(chunks)]) == data


def test_chunks_of_numbers_are_the_callers(path, numbers):
    with penstock.open(path, "<u8", memory="4M") as s:
        chunks = list(s.chunks("3M", overlap=1))
    assert all(chunk.flags.writeable and chunk.nbytes <= 3 << 20 for chunk in chunks)
    np.testing.assert_array_equal(np.concatenate([chunks[0], *[chunk[1:] for chunk in chunks[1:]]]), numbers)


@given(st.lists(st.sampled_from([b"", b"a", b"\n", b"long" * 300_000, b"\r\n"]), max_size=12))
def test_lines_are_as_python_has_them(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(b"".join(parts))
    with penstock.open(path) as s, open(path, "rb") as file:
        assert list(s.lines()) == list(file)


@given(data=st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b"needle", b"\xff\x00"]), max_size=200).map(b"".join),
       pattern=st.sampled_from([rb"needle", rb"(a|b){2,5}", rb"a{0,50}", rb"(?<=a)b", rb"\bneedle\b", rb"^a", rb"(?m)^b|a$", rb"b(?=needle)", rb""]),
       head=st.integers(0, 3), longest=st.integers(1200, 3000))
def test_finditer_is_as_if_all_bytes_were_there(tmp_path_factory, data, pattern, head, longest):
    data = data * 40
    path = tmp_path_factory.getbasetemp() / "finditer"
    path.write_bytes(data)
    with open(path, "rb", buffering=0) as file:
        file.seek(head)
        data = data[head:]
        with penstock.open(file) as s:
            found = [(at, match.group(), match.groups()) for at, match in s.finditer(pattern, longest=longest)]
    assert found == [(match.start(), match.group(), match.groups()) for match in re.finditer(pattern, data)]


def test_finditer_over_pieces(tmp_path):
    text = b"".join(b"%d needle %d\n" % (i, i) for i in range(200_000))  # 3.6 MB, read in pieces of 1 MiB
    with gzip.open(tmp_path / "text.gz", "wb", compresslevel=1) as file:
        file.write(text)
    with penstock.open(tmp_path / "text.gz") as s:
        found = list(s.finditer(rb"(?m)^(\d+) needle \1$", longest=100))
    assert [int(match.group(1)) for _, match in found] == list(range(200_000))
    assert all(text.startswith(match.group(), at) for at, match in found)
    with penstock.open(tmp_path / "text.gz", "u1") as s, pytest.raises(TypeError, match="bytes"):
        next(s.finditer(rb"x"))
    with penstock.open(tmp_path / "text.gz") as s, pytest.raises(ValueError):
        s.finditer(rb"x", longest=0)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_compressed_files(tmp_path, compress, numbers):
    part = numbers[: COUNT // 64]
    (tmp_path / "packed").write_bytes(compress(part.tobytes()))
    with penstock.open(tmp_path / "packed", "<u8") as s:
        with pytest.raises(TypeError, match="chunks"):
            s.array
        np.testing.assert_array_equal(np.concatenate(list(s.chunks("100K"))), part)
    with penstock.open(tmp_path / "packed", decompress=False) as s:
        assert bytes(s.buffer) == (tmp_path / "packed").read_bytes()
    broken = (tmp_path / "packed").read_bytes()[:-9]
    (tmp_path / "broken").write_bytes(broken)
    with penstock.open(tmp_path / "broken") as s:
        with pytest.raises(penstock.Corrupt, match="broken"):
            list(s.chunks())


def test_pipes_sockets_and_files_from_where_they_stand(path, numbers):
    data = numbers.tobytes()
    reader, writer = os.pipe()
    feeding = fed(writer, data)
    with penstock.open(reader, "<u8", memory="8M") as s:
        os.close(reader)  # the stream has a descriptor of its own
        np.testing.assert_array_equal(np.concatenate(list(s.chunks("5M"))), numbers)
    feeding.join()

    reader, writer = os.pipe()
    feeding = fed(writer, data)
    with open(reader, "rb") as file:
        assert file.read(16) == data[:16]  # although it has read ahead
        with penstock.open(file, "<u8") as s:
            np.testing.assert_array_equal(np.concatenate(list(s.chunks())), numbers[2:])
    feeding.join()

    for timeout in (None, 30):
        ours, theirs = socket.socketpair()
        feeding = fed(theirs.detach(), data)
        ours.settimeout(timeout)
        with ours, penstock.open(ours, "<u8") as s:
            np.testing.assert_array_equal(np.concatenate(list(s.chunks())), numbers)
        feeding.join()

    with open(path, "rb") as file:
        file.read(24)
        with penstock.open(file, "<u8") as s:
            np.testing.assert_array_equal(s.array[:5], numbers[3:8])
            assert len(s) == COUNT - 3
        assert file.tell() == 24
    with open(path, "rb", buffering=0) as file:
        file.seek(8)
        with penstock.open(file.fileno(), "<u8") as s:
            assert s.array[0] == 1


def test_errors_of_open(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"abc"))
    with gzip.open(tmp_path / "x.gz") as packed, pytest.raises(TypeError, match="gzip.GzipFile"):
        penstock.open(packed)
    with pytest.raises(TypeError, match="BytesIO"):
        penstock.open(io.BytesIO(b"abc"))
    with open(tmp_path / "x.gz") as text, pytest.raises(TypeError, match="'rb'"):
        penstock.open(text)
    with pytest.raises(FileNotFoundError):
        penstock.open(tmp_path / "missing")
    with pytest.raises(TypeError, match="object"):
        penstock.open(tmp_path / "x.gz", object)
    (tmp_path / "odd").write_bytes(b"12345")
    with penstock.open(tmp_path / "odd", "<u4") as s:
        with pytest.raises(ValueError, match="whole number"):
            s.array
        with pytest.raises(ValueError, match="1 are left"):
            list(s.chunks())
    (tmp_path / "empty").write_bytes(b"")
    with penstock.open(tmp_path / "empty", "<u4") as s:
        assert len(s.array) == 0 and list(s.chunks()) == [] and s.buffer.nbytes == 0


def test_close_with_views_alive(path):
    s = penstock.open(path, "<u8")
    a = s.array
    with pytest.raises(BufferError, match="in use"):
        s.close()
    assert a[7] == 7  # it lives on
    with pytest.raises(BufferError):
        with s:
            pass
    with pytest.raises(RuntimeError, match="mine"):  # the exception that the caller has to see
        with s:
            raise RuntimeError("mine")
    del a
    gc.collect()
    s.close()
    s.close()
    assert s.closed


@pytest.mark.parametrize("what", ["array", "chunk"])
def test_dlpack(path, numbers, what):
    s = penstock.open(path, "<u8", memory="8M")
    ours = s.array if what == "array" else next(s.chunks("1M"))
    theirs = np.from_dlpack(ours)
    assert np.shares_memory(ours, theirs)
    if what == "array":
        # Read-only arrays are exported as such, or not at all.
        assert not theirs.flags.writeable
        with pytest.raises(BufferError, match="readonly"):
            ours.__dlpack__()
        capsule = ours.__dlpack__(max_version=(1, 0))
        del ours, theirs
        gc.collect()
        with pytest.raises(BufferError, match="in use"):
            s.close()
        del capsule
        theirs = np.from_dlpack(s.array)
        with pytest.raises(BufferError, match="in use"):
            s.close()
        np.testing.assert_array_equal(theirs, numbers)
        del theirs
        gc.collect()
        s.close()
    else:
        s.close()  # the caller owns a chunk
        theirs[0] = 9
        assert ours[0] == 9 and (theirs[1:] == numbers[1 : len(theirs)]).all()


def test_errors_read_as_zeros_and_are_raised_at_the_end(tmp_path, numbers):
    path = tmp_path / "shrinks"
    numbers.tofile(path)
    with pytest.raises(penstock.Error, match="shrinks"):
        with penstock.open(path, "<u8", memory="4M") as s:
            a = s.array
            assert a[0] == 0 and a[1] == 1
            os.truncate(path, 8 << 20)
            assert a[-1] == 0  # zeros after an error
            reached = True
            del a
    assert reached
    numbers.tofile(path)
    s = penstock.open(path, "<u8", memory="4M")
    os.truncate(path, 8 << 20)
    assert s.array[-1] == 0
    with pytest.warns(RuntimeWarning, match="zeros"):
        del s
        gc.collect()


def test_ctrl_c_ends_the_wait_for_a_pipe():
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    with penstock.open(reader) as s:
        presser = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            presser.start()
            next(s.chunks())
        presser.join()
    os.close(reader)
    os.close(writer)


def test_many_streams_leave_nothing(path, threads_left):
    def state():
        gc.collect()
        with open("/proc/self/maps") as maps:
            return len(os.listdir("/proc/self/fd")), len(maps.readlines())

    def once():
        with penstock.open(path, "<u8", memory="1M") as s:
            assert s.array[1] == 1
        reader, writer = os.pipe()
        os.write(writer, b"abc")
        with penstock.open(reader, memory="1M"):
            pass  # nobody reads or closes it
        os.close(reader)
        os.close(writer)

    for _ in range(5):
        once()
    tasks = len(os.listdir("/proc/self/task"))
    fds, maps = state()
    for _ in range(100):
        once()
    now = state()
    assert threads_left(tasks) == 0 and now[0] == fds and now[1] <= maps + 8


def run(program, *arguments):
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("when", ["before", "after", "middle"])
def test_faulthandler(path, when):
    done = run("""
import faulthandler, sys, penstock
path, when = sys.argv[1:]
if when == "before": faulthandler.enable()
with penstock.open(path, "<u8", memory="4M") as s:
    if when == "after": faulthandler.enable()
    total = 0
    a = s.array
    for i in range(0, len(s), 1 << 18):
        total += int(a[i:i + (1 << 18)].sum())
        if when == "middle" and i == 4 << 18: faulthandler.enable()
    del a
assert total == len(range(3 << 20)) * ((3 << 20) - 1) // 2
print("good")
""", path, when)
    assert (done.returncode, done.stdout, done.stderr) == (0, "good\n", "")
    done = run("import faulthandler, penstock; faulthandler.enable(); s = penstock.open(__import__('sys').argv[1]); s.array[0]; faulthandler._sigsegv()", path)
    assert done.returncode == -signal.SIGSEGV and "Fatal Python error: Segmentation fault" in done.stderr


def test_fork(path):
    done = run("""
import os, sys, penstock
s = penstock.open(sys.argv[1], "<u8", memory="4M")
assert s.array[3] == 3
reader, writer = os.pipe()
p = penstock.open(reader)
for how in ("exit", "close", "use", "new"):
    child = os.fork()
    if child == 0:
        if how == "close":
            s.close()
            p.close()
        elif how == "use":
            try:
                s.array
            except RuntimeError as error:
                assert "process" in str(error)
            else:
                os._exit(3)
        elif how == "new":
            with penstock.open(sys.argv[1], "<u8") as mine:
                assert mine.array[99] == 99
        sys.exit(0)  # with all that an interpreter does at its end
    assert os.waitpid(child, 0)[1] == 0, how
assert s.array[100] == 100  # the parent's goes on
s.close()
print("good")
""", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "good\n", "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(tmp_path, path, method):
    program = tmp_path / "program.py"
    program.write_text("""
import multiprocessing, sys
import numpy, penstock

def work(path):
    with penstock.open(path, "<u8", memory="4M") as s:
        a = s.array[:1000][::-1].copy()
    penstock.sort(a, threads=2)
    return int(a[3])

if __name__ == "__main__":
    assert work(sys.argv[1]) == 3
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        assert pool.map(work, [sys.argv[1]] * 4) == [3] * 4
    print("good")
""")
    done = subprocess.run([sys.executable, program, path, method], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "good\n", "")
