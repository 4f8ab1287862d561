"""The operations of trials: command lines with their inputs and expected outputs.

Plain Python computes the expected outputs, not the program. If that is impossible (the shares of a partition, a trace in another
format), an undisturbed run gives them, and a check verifies that run.
"""

import array
import collections
import dataclasses
import gzip
import json
import sys
import typing

MIB = 1 << 20
BUDGET = "32M"  # the least budget of a sort
# Sizes of an input. The large one does not fit in the budget.
SIZES = {"none": 0, "few": 800, "small": 160_000, "large": 26 * MIB}


# ---- inputs


def numbers(rng, size):
    return rng.randbytes(size // 16 * 16)


def records(rng, size):
    return rng.randbytes(size // 100 * 100)


def lines(rng, size):
    """Lines of digits and letters, of different lengths, some repeated."""
    text = rng.randbytes(size // 2).hex().encode()
    out, at = [], 0
    steps = [5 + rng.randrange(100) for _ in range(997)]
    while at < len(text):
        step = steps[len(out) % len(steps)]
        out.append(text[at:at + step])
        at += step
    return b"".join(line + b"\n" for line in out)


def words(rng, size):
    """Lines of a small vocabulary."""
    return b"".join(b"word-%d\n" % rng.randrange(5000) for _ in range(size // 10))


def rows(rng, size):
    """A CSV with a name, sometimes quoted, and a price; the row's number makes each row unique."""
    return b"name,price,number\n" + b"".join(
        b'"a, %d",%d,%d\n' % (rng.randrange(1000), rng.randrange(10_000), number) if number % 3 else
        b"b%d,%d,%d\n" % (rng.randrange(1000), rng.randrange(10_000), number) for number in range(size // 18))


def objects(rng, size):
    """JSON lines with two members, one in an object."""
    return b"".join(b'{"user":{"id":%d},"number":%d}\n' % (rng.randrange(10_000), number) for number in range(size // 32))


def table(rng, size):
    return b"price,number\n" + b"".join(b"%d,%d\n" % (rng.randrange(10_000), number) for number in range(size // 10))


def requests(rng, size):
    """A log of file accesses by fio."""
    log = ["fio version 3 iolog"]
    for number in range(size // 40 + 1):
        log.append(f"{number * 3} /d/{number % 7} {('read', 'write')[number % 3 == 0]} {rng.randrange(1 << 20)} {1 + rng.randrange(5000)}")
    return "\n".join(log).encode() + b"\n"


def in_order(make):
    """Sorts the numbers or lines of `make`."""
    return lambda rng, size: sorted_numbers(make(rng, size)) if make is numbers else sorted_lines(make(rng, size))


def packed(make):
    return lambda rng, size: gzip.compress(make(rng, size), 1, mtime=0)


ORDERED_NUMBERS, ORDERED_LINES, PACKED_LINES = in_order(numbers), in_order(lines), packed(lines)


# ---- expected outputs


def sorted_numbers(data):
    values = array.array("Q", data)
    if sys.byteorder == "big":
        values.byteswap()
    out = array.array("Q", sorted(values))
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()


def items(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


def lines_of(data):
    return data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n") if data else []


def text(found):
    return b"".join(line + b"\n" for line in found)


def sorted_lines(data):
    return text(sorted(lines_of(data)))


def sorted_rows(data):
    header, *body = lines_of(data)
    if not body:
        return data
    def key(row):
        name, price, number = row.rsplit(b",", 2)
        return -int(price), name.strip(b'"'), int(number)
    return header + b"\n" + text(sorted(body, key=key))


def sorted_objects(data):
    return text(sorted(lines_of(data), key=lambda line: (-json.loads(line)["user"]["id"], line)))


def sorted_table(data):
    """The header, then the sorted rows, with unchanged fields."""
    header, *body = lines_of(data)
    return text([header]) + text(sorted(body, key=lambda row: tuple(map(int, row.split(b",")))))


def counted(data):
    counts = collections.Counter(lines_of(data))
    return text(b"%d\t%s" % (count, line) for line, count in sorted(counts.items()))


def places(pattern, data):
    found, at = [], data.find(pattern)
    while at >= 0:
        found.append(b"%d" % at)
        at = data.find(pattern, at + len(pattern))
    return text(found)


CHANGED = bytes(((byte ^ 0x5a) + 1) % 256 for byte in range(256))
CELLS = 1 << 18


def table_of_cells(data):
    """The table of two writers. A cell has the number of the last word that leads to it."""
    words, cells = array.array("Q", data), array.array("Q", bytes(16 * CELLS))
    for writer, own in enumerate((words[:len(words) // 2], words[len(words) // 2:])):
        for number, word in enumerate(own, 1):
            cells[writer * CELLS + word % CELLS] = number
    return cells.tobytes()


# ---- operations


@dataclasses.dataclass(frozen=True)
class Operation:
    name: str
    words: tuple  # may contain {in0}, {in1}, {out}, {temp} and {temp2}
    inputs: tuple  # the generator of each
    expected: typing.Callable | None  # computed from the inputs' bytes; None: an undisturbed run gives it
    # Whether the outputs of an undisturbed run can be right, if `expected` is None.
    can_be: typing.Callable = lambda inputs, outputs: True
    sizes: tuple = ("none", "few", "small", "large")
    outputs: tuple = ("out",)  # names in the folder of outputs; () is standard output
    also: tuple = ()  # further outputs, which are not compared
    from_stdin: bool = False
    in_place: bool = False  # the output replaces input 0
    resumes: bool = False
    compares: bool = True  # False: the output differs each time
    error_codes: tuple = (2,)
    quiet_codes: tuple = ()  # those of them without a message
    needs: tuple = ("clone3", "clone")  # calls that it cannot do without
    environment: tuple = ()
    alone: bool = False  # no second run at the same time
    python: bool = False  # the words are a Python program
    streams: bool = False  # the words are for torture_streams
    processes: bool = False  # each of several processes may be struck
    memory: str = "1024M"  # its memory, if there is no -S

    @property
    def budget(self):
        """The bytes of its memory budget, if the words have one."""
        told = self.words[self.words.index("-S") + 1] if "-S" in self.words else self.memory
        return int(told.removesuffix("M")) * MIB

    def expects(self, inputs):
        return None if self.expected is None else self.expected(*inputs)


def sort(name, make, expected, *more, **options):
    return Operation(f"sort-{name}", ("sort", "{in0}", *more, "-S", BUDGET, "-T", "{temp}", "-o", "{out}"), (make,), expected, **options)


def same_lines(inputs, outputs):
    return sorted(lines_of(inputs[0])) == sorted(line for data in outputs for line in lines_of(data))


def through(kind, expected=lambda data: data.translate(CHANGED), memory="16M", **options):
    """An operation of streams.cc."""
    return Operation(kind if kind == "snapshots" else f"stream-{kind}", (kind, "{in0}", "{out}"), (numbers,), expected, streams=True,
                     memory=memory, **options)


NUMBERS = ("--format", "u64")
PARTS = tuple(f"part-{i}" for i in range(5))
# Calls of Python's start are not counted: they end at a call that at_call knows. Errors are printed as by the program.
FROM = 11  # F_GETSIG, which is not used otherwise
PYTHON = f"""
import fcntl, os, sys
import penstock.ray
fcntl.fcntl(0, {FROM})
code = 0
try:
    {{}}
except Exception as error:
    print("penstock: " + " ".join(str(error).split() or [repr(error)]), file=sys.stderr, flush=True)
    code = 2
os._exit(code)
"""

# Jobs without a cluster. A job whose driver was lost is resumed.
RAY_OUTPUTS = tuple(f"part-0000{i}" for i in range(3))
RAY = """try:
        penstock.ray.resume(os.path.dirname(r'{out}'), address='local', tasks_per_node=2)
    except FileNotFoundError:
        penstock.ray.sort(r'{in0}', r'{out}', format='u64', memory_per_task='128M', parts=3, group_size='8M', temp=r'{temp}',
                          address='local', tasks_per_node=2)"""

ALL = [
    sort("u64", numbers, sorted_numbers, *NUMBERS),
    sort("u64-threads", numbers, sorted_numbers, *NUMBERS, environment=(("PENSTOCK_IO", "threads"),)),
    sort("u64-down", numbers, lambda data: b"".join(reversed(items(sorted_numbers(data), 8))), *NUMBERS, "-r"),
    sort("kv64", numbers, lambda data: b"".join(sorted(items(data, 16), key=lambda item: item[7::-1])), "--format", "kv64", "-s"),
    sort("record", records, lambda data: b"".join(sorted(items(data, 100), key=lambda item: item[:10])), "--format", "record", "-s"),
    sort("lines", lines, sorted_lines),
    sort("lines-packed", PACKED_LINES, lambda data: sorted_lines(gzip.decompress(data)), "--compress-temporaries", "always"),
    sort("unique", words, lambda data: text(sorted(set(lines_of(data)))), "-u"),
    sort("csv", rows, sorted_rows, "--csv", "--header", "--key", "price:n:r", "--key", "name", "--key", "number:n",
         sizes=("few", "small", "large")),
    sort("jsonl", objects, sorted_objects, "--jsonl", "--key", ".user.id:desc", sizes=("few", "small")),
    sort("top", numbers, lambda data: sorted_numbers(data)[:8000], *NUMBERS, "--top", "1000"),
    sort("two-folders", numbers, sorted_numbers, *NUMBERS, "-T", "{temp2}"),
    sort("in-place", numbers, sorted_numbers, *NUMBERS, in_place=True),
    sort("resume", numbers, sorted_numbers, *NUMBERS, "--resume", resumes=True, sizes=("small", "large")),
    sort("resume-lines", lines, sorted_lines, "--resume", "-T", "{temp2}", resumes=True, sizes=("small", "large")),
    Operation("sort-pipe", ("sort", "-S", BUDGET, "-T", "{temp}", *NUMBERS), (numbers,), sorted_numbers, outputs=(), from_stdin=True),
    Operation("sort-merge", ("sort", "-m", "{in0}", "{in1}", "-S", BUDGET, "-T", "{temp}", "-o", "{out}"),
              (ORDERED_LINES, ORDERED_LINES), lambda a, b: text(sorted(lines_of(a) + lines_of(b))), sizes=("none", "few", "small")),
    Operation("merge", ("merge", "{in0}", "{in1}", *NUMBERS, "-S", "64M", "-T", "{temp}", "-o", "{out}"),
              (ORDERED_NUMBERS, ORDERED_NUMBERS), lambda a, b: sorted_numbers(a + b)),
    Operation("partition", ("partition", "{in0}", "--parts", "5", "-S", "64M", "-T", "{temp}", "-o", "{out}"), (lines,), None, same_lines,
              outputs=PARTS),
    Operation("group", ("group", "--count", "--sorted", "{in0}", "-S", "64M", "-T", "{temp}", "-o", "{out}"), (words,), counted),
    Operation("join", ("join", "{in0}", "{in1}", "-S", "64M", "-T", "{temp}", "-o", "{out}"), (ORDERED_LINES, ORDERED_LINES), None,
              sizes=("none", "few", "small")),
    Operation("cat", ("cat", "{in0}", "{in1}"), (PACKED_LINES, words), lambda a, b: gzip.decompress(a) + b, outputs=(), error_codes=(1, 2),
              sizes=("none", "few", "small")),
    Operation("cat-file", ("cat", "{in0}", "{in1}", "-o", "{out}"), (PACKED_LINES, words), lambda a, b: gzip.decompress(a) + b,
              error_codes=(1, 2), sizes=("none", "few", "small")),
    Operation("find", ("find", "77", "{in0}"), (lines,), lambda data: places(b"77", data), outputs=(), sizes=("few", "small", "large"),
              error_codes=(1, 2), quiet_codes=(1,)),
    Operation("convert", ("convert", "{in0}", "-q", "--format", "trace", "-o", "{out}"), (requests,), None, sizes=("few", "small"),
              error_codes=(1, 2)),
    Operation("replay", ("replay", "{in0}", "--on", "{temp}", "--json"), (requests,), None, outputs=(), compares=False, sizes=("few",),
              error_codes=(1, 2), needs=("clone3", "clone", "direct")),
    Operation("gen", ("gen", *NUMBERS, "--count", "300000", "--seed", "7", "-o", "{out}"), (), None, sizes=("few",), needs=()),
    Operation("python-sort", (PYTHON.format("penstock.sort_file(r'{in0}', r'{out}', format='u64', memory='64M', temp=r'{temp}')"),),
              (numbers,), sorted_numbers, sizes=("few", "small", "large"), python=True),
    Operation("python-table", (PYTHON.format("penstock.sort_table(r'{in0}', r'{out}', by=['price', 'number'], memory='128M', types={{'price': 'int64', 'number': 'int64'}}, "
                                             "temp=r'{temp}', format='csv', output_format='csv')"),),
              (table,), sorted_table, sizes=("few", "small"), python=True),
    Operation("python-ray", (PYTHON.format(RAY),), (numbers,), None, lambda inputs, outputs: sorted_numbers(inputs[0]) == b"".join(outputs),
              sizes=("few", "small", "large"), outputs=RAY_OUTPUTS, also=("_manifest.json",), alone=True, python=True),
    through("threads"),
    through("guard"),
    through("processes", processes=True, needs=("clone3", "clone", "memfd_create")),
    through("snapshots", table_of_cells, "64M", processes=True, needs=("clone3", "clone", "memfd_create", "pidfd_open")),
]
