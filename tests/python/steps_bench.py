#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""troupe.steps beside PyTorch alone, and beside DistributedDataParallel over Gloo: samples a second of one MLP, in turns.

usage: steps_bench.py BUILD_DIR [--times N] [--batches N]    (by hand; needs torch)

Prints the median of each, and those of the ratios of a turn. A process computes on one thread; batches are of 128 rows a process; the first ten do not count.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import common

SETUP = """
import json, os, sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(1)
BATCH, BATCHES, PROCESSES = 128, int(sys.argv[1]), int(sys.argv[2])
x, y = torch.randn(20000, 784), torch.randint(10, (20000,))
net = torch.nn.Sequential(torch.nn.Linear(784, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
loss_of = torch.nn.functional.cross_entropy
"""
BARE = SETUP + """
def train(model, first):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    order = torch.Generator().manual_seed(first)
    for i in range(BATCHES + 10):
        if i == 10:
            began = time.perf_counter()
        rows = torch.randint(20000, (BATCH,), generator=order)
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return PROCESSES * BATCH * BATCHES / (time.perf_counter() - began)
"""
TORCH = BARE + "print(train(net, 1))\n"
DDP = BARE + """
rank = int(os.environ.get("RANK", "0"))
if rank == 0:
    import subprocess
    others = [subprocess.Popen([sys.executable, *sys.argv], env=os.environ | {"RANK": str(i)}, stdout=subprocess.DEVNULL)
              for i in range(1, PROCESSES)]
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=rank, world_size=PROCESSES)
print(train(torch.nn.parallel.DistributedDataParallel(net), 1 + rank))
"""
TROUPE = SETUP + """
import troupe
loop = troupe.steps(net, samples=19936, test=64, batch=BATCH, nodes=PROCESSES, optimizer=troupe.sgd(0.01, momentum=0.9),
                    epochs=(BATCHES + 11) * BATCH * PROCESSES / 19936,
                    set={"evaluate.train_samples": 64, "evaluate.every_samples": 10**9})
began = []  # each step
for step in loop:
    if step.training:
        began.append(time.perf_counter())
    step.backward(loss_of(net(x[step.rows]), y[step.rows]))
print(PROCESSES * BATCH * (len(began) - 11) / (began[-1] - began[10]))
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    common.BUILD = pathlib.Path(given.build).resolve()
    python = common.python_with("torch")
    if python is None:
        sys.exit("no Python here has torch")
    import tempfile  # pylint: disable=import-outside-toplevel
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(given.times):
            for name, script, processes in (("PyTorch, 1 process", TORCH, 1), ("troupe.steps, 1 process", TROUPE, 1),
                                            ("DDP over Gloo, 2 processes", DDP, 2), ("troupe.steps, 2 processes", TROUPE, 2)):
                path = pathlib.Path(folder, "bench.py")
                path.write_text(script, encoding="utf-8")
                done = subprocess.run([python, path, str(given.batches), str(processes), f"{folder}/meet{turn}"], capture_output=True, text=True,
                                      env=common.environment() | {"OPENBLAS_NUM_THREADS": "1"}, check=False)
                if done.returncode != 0:
                    sys.exit(f"{name}: {done.stderr}")
                found.setdefault(name, []).append(float(done.stdout.split()[-1]))
    medians = {name: statistics.median(all_of) for name, all_of in found.items()}
    one, ours_of_one, two, ours_of_two = found.values()

    def ratio(ours, theirs):  # of neighbours in time: the machine may be busy with something else
        return statistics.median(a / b for a, b in zip(ours, theirs))

    if given.json:
        print(json.dumps(medians | {"ratio_one": ratio(ours_of_one, one), "ratio_two": ratio(ours_of_two, two), "load": os.getloadavg()[0]}))
        return
    for name, median in medians.items():
        print(f"{name:28} {median:8.0f} samples/s")
    print(f"one process: {ratio(ours_of_one, one):.2f} of PyTorch; two: {ratio(ours_of_two, two):.2f} of DDP; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
