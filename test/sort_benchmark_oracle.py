#!/usr/bin/env python3
"""The Sort Benchmark's records from their definition, in big integers, against the program: sort_benchmark_oracle.py PENSTOCK

`penstock gen` with random starts must give these bytes, and `penstock check` the sum of their CRC-32 by zlib.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import zlib

A = 0x2360ED051FC65DA44385DF649FCCF645
C = 0x4A696D47726179524950202020202001
WORD = 1 << 128
MASKS = [0] + [int(mask, 16) for mask in (
    "F0E8E4E2E1D8D4D2D1CC", "CAC9C6C5C3B8B4B2B1AC", "AAA9A6A5A39C9A999695", "938E8D8B87787472716C",
    "6A696665635C5A595655", "534E4D4B473C3A393635", "332E2D2B271E1D1B170F", "C8C4C2C1989492918CE0",
    "170F332E2D2B271E1D1B")]


def state(steps):
    """X after `steps` steps from 0: C * (A^steps - 1) / (A - 1), with the exact quotient reduced last."""
    return C * ((pow(A, steps, WORD * (A - 1)) - 1) // (A - 1)) % WORD


def binary(record):
    return b"".join(((state(record + 1 + j) >> 48) ^ MASKS[j]).to_bytes(10, "big") for j in range(10))


def base95(number, digits):
    return bytes(0x20 + number // 95 ** i % 95 for i in range(digits))


def ascii_record(record):
    x = state(record + 1)
    filler = "".join(digit * 4 for digit in f"{x % (1 << 52):013X}")
    return (base95(x >> 64, 8) + base95(x % (1 << 64), 2) + b"  " + f"{record:032X}".encode() + b"  " +
            filler.encode() + b"\r\n")


def compare(program, directory, start, count, ascii_kind):
    path = os.path.join(directory, "records")
    subprocess.run([program, "gen", "--format", "record", "--count", str(count), "--start", str(start), "-o", path] +
                   ["--ascii"] * ascii_kind, check=True)
    make = ascii_record if ascii_kind else binary
    expected = [make(record) for record in range(start, start + count)]
    with open(path, "rb") as file:
        assert file.read() == b"".join(expected), f"records from {start} differ, ascii {ascii_kind}"
    done = subprocess.run([program, "check", path, "--format", "record", "--json"], stdout=subprocess.PIPE)
    found = json.loads(done.stdout)
    keys = [record[:10] for record in expected]
    assert int(found["checksum"], 16) == sum(map(zlib.crc32, expected)), found
    assert found["count"] == count, found
    assert found["sorted"] == (keys == sorted(keys)) == (done.returncode == 0), found


def main():
    program = sys.argv[1]
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 32)))
    print("seed", seed)
    numbers = random.Random(seed)
    starts = [0, 1, (1 << 64) - 200] + [numbers.getrandbits(numbers.randrange(1, 64)) for _ in range(12)]
    with tempfile.TemporaryDirectory() as directory:
        for start in starts:
            for ascii_kind in (False, True):
                compare(program, directory, start, numbers.randrange(1, 150), ascii_kind)
    print("records and checksums as defined,", len(starts), "starts, binary and ASCII")


if __name__ == "__main__":
    main()
