#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Prints what each kernel takes of a multiprocessor (registers, shared memory, stack, spills), and fails where one spills.
import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent


def usage(nvcc, architecture, source):
    """The compiler's own report on one file's kernels: (name, registers, shared bytes, stack bytes, spilled bytes)."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([nvcc, "-cubin", f"-arch={architecture}", "-O3", "-std=c++20", "--expt-relaxed-constexpr", "-fmad=false",
                               "--resource-usage", f"-I{HERE.parents[1]}", str(source), "-o", os.path.join(folder, "out.cubin")],
                              capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    rows = []
    for part in done.stderr.split("Compiling entry function '")[1:]:
        def number(pattern):
            found = re.search(pattern, part)
            return int(found.group(1)) if found else 0
        rows.append((part.split("'")[0], number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), number(r"(\d+) bytes stack"),
                     number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")))
    return rows


def readable(names):
    """Demangled, without what all of them share."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True).stdout
    text = re.sub(r"\(anonymous namespace\)::|troupe::kernels::(cuda::)?|_GLOBAL__N__\w+::|void (?=\w)", "", text)
    return [re.sub(r"\(.*", "", re.sub(r"\(int\)|\(bool\)|\((unary_op|binary_op|activation)\)", r"\1", line)) for line in text.splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--architecture", default="sm_90")
    options = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda source: usage(options.nvcc, options.architecture, source), sorted(HERE.glob("*.cu")))
    rows = [row for file_rows in found for row in file_rows]
    print(f"{'registers':>9}  {'shared':>6}  {'stack':>5}  {'spills':>6}  kernel ({options.architecture})")
    for name, (_, registers, shared, stack, spills) in sorted(zip(readable([row[0] for row in rows]), rows)):
        print(f"{registers:9}  {shared:6}  {stack:5}  {spills:6}  {name}")
    spilling = [row for row in rows if row[4] > 0]
    if spilling or not rows:
        sys.exit(f"{len(spilling)} of {len(rows)} kernels spill registers")
    print(f"{len(rows)} kernels, none spills")


if __name__ == "__main__":
    main()
