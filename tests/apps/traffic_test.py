#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What real runs send, beside what `check` says by formula.

usage: traffic_test.py TROUPE [unittest arguments]
"""
import json
import subprocess

import cluster_test
from cluster_test import ClusterTest, combinations

# 203,530 parameters; nobody evaluates before the end. A worker is never behind, so gossip skips no peer.
JOB = """
name = "traffic"
seed = 3
[data]
source = "digits"
train_samples = 1280
test_samples = 100
batch = 16
[model]
layers = ["flatten", "linear 256 relu", "linear 10"]
[optimizer]
lr = 0.01
[evaluate]
every_samples = 1000000000
[cluster]
workers = 4
"""
# Of two nodes the second has all workers; of three the others two each; both nodes have a shard and two workers.
PLACEMENTS = {
    "one node of workers": ["--nodes", "2"],
    "two": ["--nodes", "3", "--set", "cluster.shards=2"],
    "colocated": ["--nodes", "2", "--set", "cluster.placement=colocated", "--set", "cluster.shards=2"],
}
# One worker a node: who waits with whom makes no difference, and every peer is on another node.
APART = {"apart": ["--nodes", "5"], "two a node": ["--nodes", "3"], "apart, colocated": ["--nodes", "4", "--set", "cluster.placement=colocated"]}


class TrafficTest(ClusterTest):
    def expected(self, arguments):
        done = subprocess.run([cluster_test.TROUPE, "check", self.path("job.toml", JOB), "--json", *self.as_sets(arguments)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["network"]

    @staticmethod
    def as_sets(arguments):
        """`check` has no --nodes."""
        out = list(arguments)
        if "--nodes" in out:
            at = out.index("--nodes")
            out[at:at + 2] = ["--set", f"cluster.nodes={out[at + 1]}"]
        return out

    def expect_what_check_says(self, protocol, placement, steps, *more):
        arguments = [*{**PLACEMENTS, **APART}[placement], "--set", f"protocol.name={protocol}", "--set", f"stop.steps={steps}", *more]
        said = self.expected(arguments)
        ran = self.run_job(*arguments, job=JOB)
        rounds = ran["gradients"] / 4
        wanted = said["start_bytes"] + rounds * said["round_bytes"] + said["evaluation_bytes"]
        print(f"{protocol} {' '.join(more)}, {placement}: {ran['bytes_sent']} bytes sent, {wanted:.0f} by formula")
        self.assertLessEqual(abs(ran["bytes_sent"] - wanted), 0.01 * wanted, (said, ran))
        for kind in ("push", "params", "peers"):
            self.assertLessEqual(abs(ran[f"bytes_{kind}"] - rounds * said[f"{kind}_bytes"]),
                                 0.01 * wanted + said["start_bytes"] + said["evaluation_bytes"], kind)
        ran["bytes_a_round"] = (ran["bytes_sent"] - said["start_bytes"] - said["evaluation_bytes"]) / rounds
        return ran


class Bytes(TrafficTest):
    def test_rounds(self):
        for protocol, placement in combinations(("sync", "local", "adacomm"), PLACEMENTS):
            with self.subTest(protocol, placement=placement):
                self.expect_what_check_says(protocol, placement, 20)

    def test_a_round_with_aggregators(self):
        for fan_in, placement in combinations((2, "node"), PLACEMENTS):
            with self.subTest(fan_in=fan_in, placement=placement):
                self.expect_what_check_says("sync", placement, 20, "--set", f"protocol.fan_in={fan_in}")

    def expect_fewer_bits(self, way):
        """What is said of each codec, and how many times fewer `push` or `params` are at least."""
        for (codec, least), placement in combinations((("fp16", 1.99), ("int8", 3.9), ("int4", 7.5), ("onebit", 28)), PLACEMENTS):
            with self.subTest(codec=codec, placement=placement):
                encoded = ["--set", f"codec.{way}={codec}"]
                self.expect_what_check_says("sync", placement, 20, *encoded)
                plain, few = (self.expected([*PLACEMENTS[placement], "--set", "stop.steps=20", *sets])[f"{way}_bytes"] for sets in ([], encoded))
                self.assertGreater(plain / few, least if placement == "one node of workers" else 0.99 * least, "heads, of two shards twice")

    def test_pushes_in_fewer_bits(self):
        self.expect_fewer_bits("push")
        self.expect_what_check_says("sync", "two", 20, "--set", "codec.push=int8", "--set", "protocol.fan_in=2")

    def test_parameters_in_fewer_bits(self):
        self.expect_fewer_bits("params")
        self.expect_what_check_says("sync", "two", 20, "--set", "codec.push=onebit", "--set", "codec.params=int8", "--set", "protocol.fan_in=node")

    def test_pushes_as_factors(self):
        """Of the first matrix 16 (784 + 256) floats for 784 x 256, and of each half of it, in two shards, 16 (392 + 256)."""
        for placement in PLACEMENTS:
            with self.subTest(placement):
                said = self.expected([*PLACEMENTS[placement], "--set", "stop.steps=20", "--set", "codec.push=factors"])
                self.expect_what_check_says("sync", placement, 20, "--set", "codec.push=factors")
                if placement == "one node of workers":
                    rest = 4 * (256 + 256 * 10 + 16)  # two biases and the second matrix, which is small
                    self.assertAlmostEqual(said["push_bytes"] / (4 * (4 * 16 * (784 + 256) + rest)), 1, delta=0.01)
        self.expect_what_check_says("sync", "two", 20, "--set", "codec.push=factors", "--set", "protocol.fan_in=2")
        self.expect_what_check_says("async", "one node of workers", 400, "--set", "codec.push=factors")

    def test_answers_in_fewer_bits(self):
        self.expect_what_check_says("async", "one node of workers", 400, "--set", "codec.push=int4")

    def test_backups_of_shards(self):
        self.expect_what_check_says("sync", "two", 20, "--set", "cluster.replicas=2")

    def test_rounds_for_those_that_wait(self):
        for protocol in ("backup", "deadline", "coded", "admm", "auto"):
            with self.subTest(protocol):
                self.expect_what_check_says(protocol, "apart", 300)

    def test_pushes_that_are_answered_alone(self):
        for protocol in ("async", "dc-async", "ssp", "easgd"):
            with self.subTest(protocol):
                self.expect_what_check_says(protocol, "one node of workers", 400)

    def test_gossip(self):
        self.expect_what_check_says("gossip", "apart, colocated", 200, "--set", "inject.step_ms=20")

    def test_allreduce(self):
        for algorithm in ("direct", "ring", "halving", "tree", "broadcast"):
            with self.subTest(algorithm):
                self.expect_what_check_says("allreduce", "apart", 60, "--set", f"protocol.algorithm={algorithm}")
        for algorithm, codec in ("direct", "none"), ("ring", "none"), ("direct", "int8"):
            with self.subTest("in partitions", algorithm=algorithm, codec=codec):
                self.expect_what_check_says("allreduce", "apart", 60, "--set", f"protocol.algorithm={algorithm}", "--set", "exchange.partition_kib=16",
                                            "--set", f"codec.push={codec}")
        self.expect_what_check_says("allreduce", "two a node", 60, "--set", "protocol.algorithm=direct", "--set", "codec.push=int4")
        factors = [f"protocol.{each}" for each in ("algorithm=broadcast", "group=1")] + ["codec.push=factors"]
        self.expect_what_check_says("allreduce", "two a node", 60, *(word for each in factors for word in ("--set", each)))
        fragments = [f"protocol.{each}" for each in ("steps=4", "fragments=4", "outer=nesterov")]
        self.expect_what_check_says("allreduce", "apart", 60, *(word for each in fragments for word in ("--set", each)))
        # Of two workers on each of two nodes one sends for both: half of what four would.
        nodes, each = (self.expect_what_check_says("allreduce", "two a node", 60, "--set", "protocol.algorithm=direct", *more)["bytes_peers"]
                       for more in ([], ["--set", "protocol.group=1"]))
        self.assertAlmostEqual(nodes / each, 0.5, delta=0.005)

    def test_eight_workers_of_one_process(self):
        """Once a node: 9 of 16 of what it would be worker by worker, and 1 of 8 with an aggregator there."""
        arguments = ["--nodes", "2", "--set", "cluster.workers=8", "--set", "stop.steps=20"]
        plain = self.run_job(*arguments, job=JOB)
        model = 4 * 203536  # padded to 16 floats
        each = 2 * 8 * 20 * model
        self.assertAlmostEqual(plain["bytes_sent"] / each, 9 / 16, delta=0.01 * 9 / 16)
        node = self.run_job(*arguments, "--set", "protocol.fan_in=node", job=JOB)
        self.assertAlmostEqual(node["bytes_sent"] / each, 1 / 8, delta=0.01 / 8)
        self.assertEqual(self.expected(arguments)["lessened_by"]["key"], "protocol.fan_in")


class Exchange(TrafficTest):
    def test_parts_of_another_size_cost_their_frames(self):
        for protocol, placement in (("sync", "two"), ("gossip", "apart, colocated")):
            with self.subTest(protocol):
                small = self.expect_what_check_says(protocol, placement, 20, "--set", "exchange.partition_kib=16", "--set", "inject.step_ms=20")
                plain = self.expect_what_check_says(protocol, placement, 20, "--set", "inject.step_ms=20")
                self.assertGreater(small["bytes_a_round"], plain["bytes_a_round"])

    def test_no_bit_depends_on_how_tensors_travel(self):
        digests = {self.run_job(*PLACEMENTS["two"], "--set", "stop.steps=20", *sets, job=JOB)["weights_digest"]
                   for sets in ([], ["--set", "exchange.partition_kib=16"], ["--set", "exchange.partition_kib=16", "--set", "exchange.order=ready"],
                                ["--set", "exchange.overlap=false"])}
        self.assertEqual(len(digests), 1, digests)

    def test_sizes_that_are_tried_change_no_bit(self):
        """Each try is another plan; in an allreduce the round under way is computed anew."""
        for protocol, *sets in (("sync",), ("sync", "cluster.shards=2", "codec.push=int8"), ("sync", "cluster.nodes=4", "cluster.replicas=2"),
                                ("sync", "cluster.workers=4", "protocol.fan_in=2", "codec.params=int8"),
                                ("allreduce", "protocol.algorithm=direct"),
                                ("allreduce", "protocol.algorithm=broadcast", "protocol.group=1", "codec.push=int4")):
            with self.subTest(protocol, sets=sets):
                log = self.path("log.jsonl")
                arguments = ["--nodes", "2"] if "cluster.nodes=4" not in sets else []
                arguments += ["--set", f"protocol.name={protocol}", "--set", "stop.steps=60", *(word for each in sets for word in ("--set", each))]
                tried = self.run_job(*arguments, "--set", "exchange.partition_kib=auto", "--log", log, job=JOB)
                self.assertEqual(tried["weights_digest"], self.run_job(*arguments, job=JOB)["weights_digest"])
                with open(log, encoding="utf-8") as lines:
                    said = [found for line in lines if (found := cluster_test.re.search(r"partition_kib = (\d+): .*; (tries|keeps) (\d+)", line))]
                self.assertGreaterEqual(len(said), 3, said)
                self.assertEqual([found[1] for found in said[1:]], [found[3] for found in said[:-1]], "what is tried is measured next")
                self.assertEqual((said[0][1], said[0][3]), ("1024", "2048"))
                self.assertEqual(tried["partition_kib"], int(said[-1][3]))
                if said[-1][2] == "keeps":
                    self.assertEqual(sum(found[2] == "keeps" for found in said), 1)


class Overlap(TrafficTest):
    def test_a_push_that_waits_for_its_backward_hides_nothing(self):
        ran = self.run_job("--nodes", "2", "--set", "stop.steps=20", "--set", "exchange.overlap=false", "--set", "exchange.partition_kib=64", job=JOB)
        self.assertEqual(ran["overlap"], 0)

    def test_pushes_that_leave_during_backward_are_partly_hidden(self):
        """Partitions of this model: the last layers' leave first."""
        wide = JOB.replace("linear 256 relu", "linear 512 relu\", \"linear 2048 relu\", \"linear 512 relu")
        ran = self.run_job("--nodes", "2", "--set", "stop.steps=20", job=wide)
        self.assertGreater(ran["overlap"], 0)
        self.assertLess(ran["overlap"], 1)

    def test_a_job_without_pushes_has_none(self):
        ran = self.run_job("--set", "protocol.name=gossip", "--set", "stop.steps=8", job=JOB)
        self.assertIsNone(ran["overlap"])
        self.assertEqual((ran["bytes_push"], ran["bytes_params"], ran["bytes_peers"]), (0, 0, 0))


if __name__ == "__main__":
    cluster_test.main()
