#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Pushes in fewer bits: the same weights wherever the roles are, and in the simulator.

usage: codecs_test.py TROUPE [unittest arguments]
"""
import json
import subprocess
import sys
import unittest

import cluster_test
from cluster_test import ClusterTest

# Three shards that no number of blocks divides evenly.
JOB = """
name = "encoded"
seed = 7
[data]
source = "digits"
train_samples = 600
test_samples = 100
batch = 16
[model]
layers = ["flatten", "linear 32 relu", "dropout 0.3", "linear 10"]
[optimizer]
lr = 0.05
momentum = 0.9
[cluster]
workers = 4
[evaluate]
every_s = 3600.0
[stop]
steps = 30
"""
CODECS = ("fp16", "bf16", "int8", "int4", "onebit")
PLACEMENTS = {
    "one process": [],
    "two": ["--nodes", "2"],
    "three shards": ["--nodes", "4", "--set", "cluster.shards=3"],
    "colocated": ["--nodes", "3", "--set", "cluster.placement=colocated", "--set", "cluster.shards=2"],
}


class CodecsTest(ClusterTest):
    def encoded(self, codec, *arguments, job=JOB):
        return self.run_job("--set", f"codec.push={codec}", *arguments, job=job)

    def simulated(self, *arguments, job=JOB):
        done = subprocess.run([cluster_test.TROUPE, "simulate", self.path("job.toml", job), "--json", *arguments], capture_output=True,
                              text=True, timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def assert_one(self, digests):
        self.assertEqual(len(set(digests.values())), 1, digests)


class Weights(CodecsTest):
    def test_placement_does_not_change_them(self):
        plain = self.run_job(job=JOB)["weights_digest"]
        found = {plain}
        for codec in CODECS:
            with self.subTest(codec):
                digests = {name: self.encoded(codec, *placement)["weights_digest"] for name, placement in PLACEMENTS.items()}
                self.assert_one(digests)
                found.add(digests["two"])
        self.assertEqual(len(found), 1 + len(CODECS), "each codec rounds in its own way")

    def test_nor_where_a_worker_steps_by_itself_or_sums_travel(self):
        for sets in (["--set", "protocol.name=local", "--set", "protocol.steps=3"], ["--set", "protocol.fan_in=2"],
                     ["--set", "optimizer.clip_norm=0.5"], ["--set", "cluster.replicas=2", "--set", "cluster.nodes=4"]):
            with self.subTest(" ".join(sets)):
                self.assert_one({name: self.encoded("onebit", *sets, *PLACEMENTS[name])["weights_digest"]
                                 for name in ("two", "three shards", "colocated")})

    def test_every_protocol_that_takes_a_codec_learns(self):
        for protocol in ("backup", "deadline", "async", "dc-async", "ssp", "adacomm", "easgd", "admm", "auto"):
            codec = "int8" if protocol in ("easgd", "admm") else "onebit"
            auto = ["--set", 'protocol.candidates=["sync", "local"]'] if protocol == "auto" else []
            with self.subTest(protocol):
                result = self.encoded(codec, "--nodes", "2", "--set", f"protocol.name={protocol}", "--set", "stop.steps=300", *auto)
                self.assertGreater(result["test_accuracy"], 0.2, result)

    def test_feedback_is_a_choice(self):
        with_it, without, int8 = (self.encoded(codec, *sets)["weights_digest"] for codec, sets in (
            ("onebit", []), ("onebit", ["--set", "codec.error_feedback=false"]), ("int8", ["--set", "codec.error_feedback=true"])))
        self.assertNotEqual(with_it, without)
        self.assertNotEqual(int8, self.encoded("int8")["weights_digest"])


class Simulated(CodecsTest):
    def test_a_simulation_computes_what_a_run_does(self):
        for codec in ("none", *CODECS):
            for shards in (1, 3):
                with self.subTest(codec, shards=shards):
                    sets = ["--set", f"codec.push={codec}", "--set", f"cluster.shards={shards}"]
                    ran, simulated = self.run_job(*sets, "--nodes", "2", job=JOB), self.simulated(*sets)
                    for key in ("steps", "train_loss", "test_loss"):
                        self.assertEqual(ran[key], simulated[key], key)

    def test_an_emulated_link_takes_the_bytes_of_the_codes(self):
        """15 rounds of four pushes to one shard at 40 Mbit/s; parameters come back as they were."""
        link = ["--set", "inject.link.mbit=40", "--set", "inject.step_ms=1", "--set", "stop.steps=15"]
        for codec in ("none", "onebit"):
            ran, simulated = self.encoded(codec, *link), self.simulated("--set", f"codec.push={codec}", *link)
            self.assertAlmostEqual(ran["seconds"] / simulated["virtual_seconds"], 1, delta=0.1)
        model, rounds = 4 * 25456, 15
        plain, few = self.simulated(*link), self.simulated("--set", "codec.push=onebit", *link)
        self.assertAlmostEqual((plain["bytes_sent"] - few["bytes_sent"]) / (rounds * 4 * model * (1 - 1 / 28.44)), 1, delta=0.01)


if __name__ == "__main__":
    cluster_test.TROUPE = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
