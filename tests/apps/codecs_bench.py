#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What pushes and parameters in fewer bits cost in accuracy on MNIST, and what they save at the socket. By hand: it takes a quarter of
an hour.

usage: codecs_bench.py TROUPE FOLDER [SEEDS]; FOLDER has MNIST's four files
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

JOB = """
name = "codecs"
[data]
source = "idx"
path = "{folder}"
batch = 64
[model]
layers = ["flatten", "linear 256 relu", "linear 10"]
[optimizer]
lr = 0.05
momentum = 0.9
[cluster]
nodes = 2
workers = 8
[evaluate]
every_s = 3600.0
[stop]
epochs = 5
"""
CODECS = {
    "none": [],
    "fp16": ["codec.push=fp16"],
    "int8": ["codec.push=int8"],
    "int4": ["codec.push=int4"],
    "int4, no feedback": ["codec.push=int4", "codec.error_feedback=false"],
    "onebit": ["codec.push=onebit"],
    "onebit, no feedback": ["codec.push=onebit", "codec.error_feedback=false"],
    "int8 both ways": ["codec.push=int8", "codec.params=int8"],
    "int4 both ways": ["codec.push=int4", "codec.params=int4"],
    "onebit both ways": ["codec.push=onebit", "codec.params=onebit"],
    "dgc, changed": ["codec.push=dgc", "codec.params=changed"],
    "topk, changed": ["codec.push=topk", "codec.params=changed"],
    "threshold, changed": ["codec.push=threshold", "codec.threshold=0.01", "codec.params=changed"],
}


def result_of(troupe, job, seed, sets):
    words = [word for one in sets for word in ("--set", one)]
    done = subprocess.run([troupe, "run", job, "--quiet", "--json", "--seed", str(seed), *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    troupe, folder, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3
    with tempfile.TemporaryDirectory() as scratch:
        job = pathlib.Path(scratch, "codecs.toml")
        job.write_text(JOB.format(folder=pathlib.Path(folder).absolute()), encoding="utf-8")
        plain = None
        for name, sets in CODECS.items():
            results = [result_of(troupe, str(job), seed, sets) for seed in range(1, seeds + 1)]
            pushed, answered = results[0]["bytes_push"], results[0]["bytes_params"]
            plain = plain or (pushed, answered)
            accuracies = [100 * each["test_accuracy"] for each in results]
            print(f"{name:20} {statistics.mean(accuracies):6.2f} % ({min(accuracies):.2f} to {max(accuracies):.2f}), "
                  f"{pushed / 1e6:7.1f} MB pushed, 1 / {plain[0] / pushed:.2f}, {answered / 1e6:7.1f} MB of parameters, 1 / {plain[1] / answered:.2f}, "
                  f"{statistics.mean(each['seconds'] for each in results):.1f} s", flush=True)


if __name__ == "__main__":
    main()
