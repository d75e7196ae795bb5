#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# What a CUDA build costs whom it does not serve: start_cost.py TROUPE_WITHOUT TROUPE_WITH. Start time and highest resident size of the
# same run on the CPU by both programs, in turns; medians and their ratio. The wanted ratio is at most 1.02.
import os
import pathlib
import statistics
import subprocess
import sys
import time

JOB = pathlib.Path(__file__).resolve().parents[2] / "config/quickstart.toml"
SMALL = ["--nodes", "1", "--quiet", "--set", "data.train_samples=2000", "--set", "data.test_samples=200", "--set", "stop.epochs=1"]


def seconds_and_bytes(*command):
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))} failed")
    return time.perf_counter() - begin, used.ru_maxrss * 1024


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: start_cost.py TROUPE_WITHOUT TROUPE_WITH")
    starts, sizes = ({program: [] for program in sys.argv[1:]} for _ in range(2))
    for _ in range(31):
        for program in starts:
            starts[program].append(seconds_and_bytes(program, "version")[0])
    for _ in range(5):
        for program in sizes:
            sizes[program].append(seconds_and_bytes(program, "run", JOB, *SMALL)[1])
    for what, found, unit in ("start", starts, 1e-3), ("resident size of a CPU run", sizes, 1e6):
        without, with_cuda = (statistics.median(found[program]) for program in sys.argv[1:])
        print(f"{what}: {without / unit:.1f} {'ms' if unit < 1 else 'MB'} without CUDA, {with_cuda / unit:.1f} with, ratio {with_cuda / without:.3f}")


if __name__ == "__main__":
    main()
