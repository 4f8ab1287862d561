"""Stage 0: groups of inputs, and cuts between parts.

Cutting sorted keys of a sample at every n-th fails for frequent keys: a key of a tenth of all items makes one part of a tenth.
Here a sample is an item and its position, (key, group, position in the group), and cuts are such triples: no two items are
equal, so parts can be arbitrarily small, and the position is what orders equal keys.

Positions are spread evenly over the bytes of the input, one in each of `parts` times 256 stretches, at random within it. For lines it is
the line that contains the byte: so a part's share of the positions is its share of the bytes. With 256 positions a part the sizes of
parts have a standard deviation of a 16th of the mean; of 1000 parts the largest is then 1.2 times the mean."""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate
from typing import Any

from .. import _penstock
from .._tables import PLACES_PER_PART, place_by_chance
from . import storage
from .job import Cut, Group, Input, Job, MiB, Piece

PLACES_MAX = 1 << 21
ITEM_BYTES_MAX = 64 << 10  # longer ones are not cuts
AT_ONCE = 128  # requests at a time: an object store takes as long for many as for one
HEADER_BYTES_MAX = 4 * MiB


def _header_end(data: bytes, lines: int, end: bytes, csv: bool) -> int | None:
    at = 0
    for _ in range(lines):
        stop = data.find(end, at)
        while csv and stop >= 0 and data.count(b'"', at, stop) % 2:
            stop = data.find(end, stop + 1)
        if stop < 0:
            return None
        at = stop + 1
    return at


def header_of(path: str, size: int, words: dict[str, Any]) -> bytes:
    """Returns the header lines of a file."""
    if not words["header_lines"]:
        return b""
    data = storage.read(path, 0, min(size, HEADER_BYTES_MAX))
    end = _header_end(data, words["header_lines"], line_end(words), words["csv"])
    if end is None:
        if size > len(data):
            raise ValueError(f"{path}: the header does not end within {HEADER_BYTES_MAX >> 20} MiB")
        return data if data.endswith(line_end(words)) or not data else data + line_end(words)
    return data[:end]


def line_end(words: dict[str, Any]) -> bytes:
    return b"\0" if words["zero_terminated"] else b"\n"


_COMPRESSED = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\xfd7zXZ\x00", b"BZh")


def item_bytes(words: dict[str, Any]) -> int:
    """Returns the size of an item of fixed size; otherwise 0."""
    name = words["name"]
    if name in ("lines", "rows", "jsonl"):
        return 0
    if name == "record":
        if words["dtype"]:
            import numpy as np
            import ast
            text = words["dtype"]
            return int(np.dtype(ast.literal_eval(text) if text.startswith("[") else text).itemsize)
        return words["record_bytes"] or 100
    return {"u32": 4, "i32": 4, "f32": 4, "kv64": 16}.get(name, 8)


def groups_of(inputs: list[Input], words: dict[str, Any], group_bytes: int) -> list[Group]:
    """Cuts the inputs, in order, into groups of about `group_bytes` bytes. Files of CSV are not cut, because rows cannot be found from
    their middle."""
    size = item_bytes(words)
    whole = words["csv"]
    groups: list[Group] = []
    pieces: list[Piece] = []
    room = group_bytes
    for number, each in enumerate(inputs):
        if size and each.bytes % size:
            raise ValueError(f"{each.path}: its {each.bytes} bytes are no whole number of items of {size}")
        # Asking for each of many files of numbers would take long: the first file stands for the others.
        head = storage.read(each.path, 0, min(6, each.bytes)) if not size or number == 0 else b""
        if head == b"\x93NUMPY":
            raise ValueError(f"{each.path}: has a header of np.save() in front of its items: np.load(..., mmap_mode='r').tofile(...) writes them alone")
        if not size and head.startswith(_COMPRESSED):
            raise ValueError(f"{each.path} is compressed: decompress it before (penstock cat)")
        at = 0
        while at < each.bytes:
            end = each.bytes if whole else min(each.bytes, at + room)
            if size:
                end = min(each.bytes, max(size, end // size * size, at + size))
            pieces.append(Piece(number, at, end))
            room -= end - at
            at = end
            if room < max(size, 1):
                groups.append(Group(pieces, group_bytes - room))
                pieces, room = [], group_bytes
    if pieces:
        groups.append(Group(pieces, group_bytes - room))
    return groups


def first_line(path: str, size: int, offset: int, header: int, end: bytes) -> int:
    """Returns the first position at or behind `offset` at which a line begins."""
    if offset <= header:
        return min(header, size)
    at = offset - 1
    step = 64 << 10
    while at < size:
        data = storage.read(path, at, min(step, size - at))
        found = data.find(end)
        if found >= 0:
            return at + found + 1
        at += len(data)
        step = min(4 * MiB, 4 * step)
    return size


def bounds_of(job: Job, piece: Piece) -> tuple[int, int]:
    """Returns the byte range of a piece: whole items, without a header."""
    each = job.inputs[piece.input]
    if item_bytes(job.items):
        return piece.begin, piece.end
    header = len(job.header)
    if job.items["csv"]:
        return min(header, each.bytes), each.bytes
    end = line_end(job.items)
    return (first_line(each.path, each.bytes, piece.begin, header, end), first_line(each.path, each.bytes, piece.end, header, end))


def _line_at(data: bytes, at: int, begins: bool, ends: bool, end: bytes) -> tuple[int, bytes] | None:
    """Returns the line that contains data[at], and its begin; None if it is not whole in the data."""
    first = data.rfind(end, 0, at)
    if first < 0 and not begins:
        return None
    stop = data.find(end, at)
    if stop < 0:
        if not ends:
            return None
        stop = len(data)
    return first + 1, data[first + 1:stop] + end


def _items_at(job: Job, places: list[tuple[Input, int]]) -> list[tuple[int, bytes] | None]:
    """Returns the items that contain these bytes, and their begins; None for long lines."""
    size, end, header = item_bytes(job.items), line_end(job.items), len(job.header)
    if size:
        read = storage.read_many([(each.path, offset, size) for each, offset in places])
        return [(offset, data) for (_, offset), data in zip(places, read)]
    found: list[tuple[int, bytes] | None] = [None] * len(places)
    for reach in (2 << 10, ITEM_BYTES_MAX):
        todo = [at for at, line in enumerate(found) if line is None]
        begins = [max(header, places[at][1] - reach) for at in todo]
        read = storage.read_many([(places[at][0].path, begin, places[at][1] + reach - begin) for at, begin in zip(todo, begins)])
        for at, begin, data in zip(todo, begins, read):
            each, offset = places[at]
            line = _line_at(data, offset - begin, begin == header, begin + len(data) >= each.bytes, end)
            found[at] = (begin + line[0], line[1]) if line else None
    return found


def _offset_of(group: Group, position: int) -> tuple[Piece, int]:
    """Returns the piece of the group that contains a position, and the offset in its file."""
    for piece in group.pieces:
        if position < piece.end - piece.begin:
            return piece, piece.begin + position
        position -= piece.end - piece.begin
    raise AssertionError


def take(job: Job, first: int, last: int, places: int) -> list[tuple[bytes, int, int]]:
    """Samples positions [first, last) of `places`: items, their groups, and their positions there."""
    ends = list(accumulate(group.bytes for group in job.groups))
    size, header = item_bytes(job.items), len(job.header)
    chance = random.Random(first)
    found: list[tuple[bytes, int, int]] = []
    for batch in range(first, last, AT_ONCE):
        chosen: list[tuple[int, Piece, int]] = []
        for place in range(batch, min(last, batch + AT_ONCE)):
            at = place_by_chance(place, places, ends[-1], chance)
            number = bisect_right(ends, at)
            piece, offset = _offset_of(job.groups[number], at - (ends[number] - job.groups[number].bytes))
            if size:
                offset -= offset % size
            if offset >= header:
                chosen.append((number, piece, offset))
        items = _items_at(job, [(job.inputs[piece.input], offset) for _, piece, offset in chosen])
        for (number, piece, _), item in zip(chosen, items):
            if item is None or len(item[1]) > ITEM_BYTES_MAX:
                continue
            begin = item[0]
            if begin < piece.begin:  # it began in the piece before, and belongs to it
                number = _group_of(job, piece.input, begin, number)
                piece = next(one for one in job.groups[number].pieces if one.input == piece.input and one.begin <= begin < one.end)
            found.append((item[1], number, _before(job.groups[number], piece) + begin - piece.begin))
    return found


def _before(group: Group, piece: Piece) -> int:
    before = 0
    for each in group.pieces:
        if each is piece:
            break
        before += each.end - each.begin
    return before


def _group_of(job: Job, number: int, offset: int, near: int) -> int:
    while not any(piece.input == number and piece.begin <= offset < piece.end for piece in job.groups[near].pieces):
        first = job.groups[near].pieces[0]
        near += -1 if (first.input, first.begin) > (number, offset) else 1
    return near


def places_of(job: Job, parts: int) -> int:
    items = sum(group.rows or group.bytes for group in job.groups) // max(1, item_bytes(job.items))
    return max(1, min(PLACES_MAX, PLACES_PER_PART * parts, items))


def cuts_of(job: Job, samples: list[tuple[bytes, int, int]], parts: int, format: _penstock.ItemFormat, header: bytes) -> list[Cut]:
    """Returns cuts at equal distances in the ordered samples; fewer if there are not enough different samples."""
    samples = sorted(samples, key=lambda each: each[1:])
    order = _penstock.order_items(format, header, [item for item, _, _ in samples])
    cuts: list[Cut] = []
    for part in range(1, parts):
        at = part * len(order) // parts
        if not at:
            continue
        item, group, position = samples[order[at]]
        if not cuts or (cuts[-1].group, cuts[-1].position) != (group, position):
            cuts.append(Cut(item, group, position))
    return cuts
