#!/usr/bin/env python3
"""Runs the randomized stress tests for some time, an hour by default, with new seeds in each round, and beside them one process
with all operations of the library, whose memory, mappings, descriptors and threads must not grow (test/soak_test.cc).

  ./check soak [--seconds 3600] [--first SEED]

It stops at the first failure, and prints the seed that repeats it. The last line has the number of rounds that passed.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/dev"
TRIALS = 400

# Test programs, their cases that take seeds from the environment, and the number of seeds per round.
PROGRAMS = [
    (BUILD / "test/test_stream_stress_test", "*", TRIALS),
    (BUILD / "src/memory/stream/stream_process_stream_test", "*BlocksReleasedBeforeADeathAreRight*", TRIALS // 4),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600, help="how long to go on")
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000, help="the first seed")
    options = parser.parse_args()

    one_process = subprocess.Popen([BUILD / "test/test_soak_test"],
                                   env=dict(os.environ, PENSTOCK_SOAK_SECONDS=str(options.seconds)))
    end = time.monotonic() + options.seconds
    seed, rounds = options.first, 0
    while time.monotonic() < end:
        for program, cases, trials in PROGRAMS:
            environment = dict(os.environ, PENSTOCK_STRESS_FIRST=str(seed), PENSTOCK_STRESS_TRIALS=str(trials))
            done = subprocess.run([program, f"--gtest_filter={cases}"], env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace")
            if done.returncode != 0:
                print(done.stdout)
                one_process.kill()
                print(f"soak: {program.name} failed after {rounds} rounds; the first seed of this round was {seed}")
                return 1
        rounds += 1
        seed += TRIALS
        print(f"soak: round {rounds}, seeds up to {seed}, {max(0, end - time.monotonic()):.0f} s left", flush=True)
        if one_process.poll():
            break
    print(f"soak: {rounds} rounds of {TRIALS} schedules of each kind and {TRIALS // 4} killed processes passed")
    return 1 if one_process.wait() else 0


if __name__ == "__main__":
    sys.exit(main())
