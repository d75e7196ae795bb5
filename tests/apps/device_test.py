#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every protocol on a GPU that is emulated: the CUDA backend's own code, on this machine's processor.

usage: device_test.py TROUPE LIBRARY [unittest arguments]. LIBRARY: libtroupe_cuda_emulated.so.
"""
import json
import os
import subprocess
import sys
import unittest
import unittest.mock

import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import ENDLESS, ClusterTest

JOB = """
name = "small"
seed = 7
[data]
source = "digits"
train_samples = 640
test_samples = 300
batch = 16
[model]
layers = ["flatten", "linear 48 relu", "linear 10"]
[optimizer]
lr = 0.1
[compute]
device = "cuda:0"
[cluster]
workers = 2
[stop]
epochs = 5
"""


def protocols():
    """Those that take a device: allreduce sums in host memory."""
    listed = subprocess.run([cluster_test.TROUPE, "protocols", "--json"], capture_output=True, text=True, check=True).stdout
    return [entry["name"] for entry in json.loads(listed)["protocols"] if entry["name"] != "allreduce"]


class DeviceTest(ClusterTest):
    def train(self, *sets, nodes=1, more=(), job=JOB):
        return self.run_job(*(word for one in sets for word in ("--set", one)), "--nodes", str(nodes), *more, job=job)

    def fail_of(self, *arguments, job=JOB):
        """What a run that fails says."""
        done = subprocess.run([cluster_test.TROUPE, "run", self.path("job.toml", job), "--quiet", *arguments],
                              capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr


class EveryProtocol(DeviceTest):
    """Each in the arrangement that its turn brings, all of them over all protocols; its accuracy is that of the CPU."""

    def test_learns_what_the_cpu_learns(self):
        arrangements = [("cpu", 3), ("cuda:0", 1), ("cuda:0", 3), ("cpu", 1)]
        for turn, protocol in enumerate(protocols()):
            shard, nodes = arrangements[turn % len(arrangements)]
            with self.subTest(protocol, shard=shard, nodes=nodes):
                # Long enough for each to settle: after 8 epochs the accuracy of admm still spreads over 0.11 from run to run.
                named = (f"protocol.name={protocol}", "cluster.shards=2", "stop.epochs=16")
                cpu = self.train(*named, "compute.device=cpu", nodes=nodes)
                gpu = self.train(*named, f"compute.shard_device={shard}", nodes=nodes)
                # Whose step comes first differs from run to run where nobody waits; to be better is no fault.
                self.assertGreater(gpu["test_accuracy"], cpu["test_accuracy"] - 0.06)
                self.assertGreaterEqual(gpu["samples"], 16 * 640)


class Repetition(DeviceTest):
    def test_sync_gives_the_same_bits_wherever_its_roles_are(self):
        digests = {self.train(f"compute.shard_device={shard}", f"cluster.shards={shards}", nodes=nodes)["weights_digest"]
                   for shard, shards, nodes in (("cuda:0", 1, 1), ("cuda:0", 1, 1), ("cuda:0", 2, 3), ("cuda:0", 1, 2))}
        self.assertEqual(len(digests), 1)

    def test_products_are_rounded_where_the_job_says_so(self):
        full, rounded, again = (self.train(f"compute.precision={precision}") for precision in ("fp32", "bf16", "bf16"))
        self.assertEqual(rounded["config"]["compute"]["precision"], "bf16")
        self.assertNotEqual(full["weights_digest"], rounded["weights_digest"])
        self.assertEqual(rounded["weights_digest"], again["weights_digest"])
        self.assertGreater(rounded["test_accuracy"], full["test_accuracy"] - 0.06)

    def test_a_tree_on_the_device(self):
        tree = ("cluster.workers=4", "protocol.fan_in=2", "compute.shard_device=cuda:0")
        self.assertEqual(self.train(*tree)["weights_digest"], self.train(*tree, nodes=3)["weights_digest"])

    def test_what_is_saved_is_where_the_next_run_starts(self):
        saved = self.path("weights.safetensors")
        first = self.train("compute.shard_device=cuda:0", more=("--save", saved))
        after = self.train("compute.shard_device=cuda:0", f"model.init={saved}", "stop.epochs=1", "optimizer.lr=1e-9")
        self.assertAlmostEqual(after["test_accuracy"], first["test_accuracy"], delta=0.01)

    def test_memory_stays_bounded(self):
        done = self.train("compute.shard_device=cuda:0", "stop.epochs=20", "evaluate.every_samples=3200", job=JOB)
        self.assertLessEqual(done["resident_bytes"], 1.05 * done["resident_bytes_first"] + (4 << 20))


class Failures(DeviceTest):
    def test_a_worker_that_dies_leaves_the_device_to_the_others(self):
        for protocol in ("backup", "async", "local"):
            with self.subTest(protocol):
                done = self.train(f"protocol.name={protocol}", "compute.shard_device=cuda:0", "inject.step_ms=20", nodes=1,
                                  more=("--fault", "crash=worker:1,at_s=0.3"))
                self.assertGreaterEqual(done["samples"], 5 * 640)

    def test_a_device_that_is_full_in_the_middle_ends_its_worker_alone(self):
        reason = r"its device cuda:1 failed: cuda:1 is out of memory: \d+ bytes asked for, \d+ in use by this queue, 0 free of \d+"
        # Nothing is asked of CUDA after the first steps, but for the first sum of parameters, after 40 steps of some ten kernels.
        taken = {"TROUPE_EMULATED_CUDA_DEVICES": "2", "TROUPE_EMULATED_CUDA_FULL": "1:200"}
        named = ("--set", "protocol.name=local", "--set", "protocol.steps=40")
        with unittest.mock.patch.dict(os.environ, taken):
            run = subprocess.run([cluster_test.TROUPE, "run", self.path("job.toml", JOB), "--json", *named, "--set", "compute.device=cuda"],
                                 capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertRegex(run.stderr, r"worker \d \(.*\) is lost: " + reason)
            self.assertRegex(run.stderr, r"it holds parameters and gradients of \d+ bytes each, and a workspace of \d+ bytes for \d+ rows")
            self.assertGreaterEqual(json.loads(run.stdout.splitlines()[-1])["samples"], 5 * 640)
            self.assertRegex(self.fail_of(*named, "--set", "compute.device=cuda:1"), reason)

    def test_traces_show_the_device(self):
        trace = self.path("trace.json")
        self.train("compute.shard_device=cuda:0", "stop.epochs=1", more=("--trace", trace))
        with open(trace, encoding="utf-8") as text:
            events = json.load(text)["traceEvents"]
        tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
        for track in ("kernels of worker 1", "copies to device of worker 1", "kernels of shard 0"):
            self.assertIn(track, tracks)
        names = {event["name"] for event in events if event.get("cat") == "device"}
        self.assertTrue({"upload", "gemm"} <= names, names)
        simulated = subprocess.run([cluster_test.TROUPE, "simulate", self.path("job.toml", JOB), "--calibrate", trace],
                                   capture_output=True, text=True, check=False)
        self.assertEqual(simulated.returncode, 0, simulated.stderr)


class Clusters(BootstrapTest):
    """Nodes whose cluster file lists devices; the machine has three."""

    def setUp(self):
        super().setUp()
        devices = unittest.mock.patch.dict(os.environ, {"TROUPE_EMULATED_CUDA_DEVICES": "3"})
        devices.start()
        self.addCleanup(devices.stop)
        with open(self.file, encoding="utf-8") as file:
            text = file.read()
        for node, listed in (("b", '["cpu"]'), ("c", '["cuda:1", "cuda:2"]'), ("d", '["cpu", "cuda:1"]')):
            text = text.replace(f'name = "{node}"', f'name = "{node}"\ndevices = {listed}')
        self.file = self.path("listed.toml", text)

    def workers_of(self, count, device):
        """Where an endless job with so many workers computes: by worker, node and device."""
        job = ENDLESS.replace("workers = 4", f"workers = {count}")
        run = self.submit("--set", f"compute.device={device}", job=job)
        self.wait_for_line(run, "^step ")
        shown = self.ask(*(f"show compute {worker}" for worker in range(count)))
        run.terminate()
        self.finish(run)
        return [(one["node"], one["fields"]["device"]) for one in shown]

    def test_workers_go_to_the_nodes_that_list_their_device_and_there_to_each_in_turn(self):
        self.cluster()
        self.assertEqual(self.workers_of(3, "cuda"), [("c", "cuda:1"), ("c", "cuda:2"), ("d", "cuda:1")])
        self.assertEqual(self.workers_of(2, "cuda:1"), [("c", "cuda:1"), ("d", "cuda:1")])
        self.assertEqual(self.workers_of(2, "cuda:2"), [("c", "cuda:2"), ("c", "cuda:2")])
        self.assertEqual(self.workers_of(3, "cpu"), [("b", "cpu"), ("b", "cpu"), ("d", "cpu")])

    def test_a_device_that_no_node_lists_is_refused_though_the_machine_has_it(self):
        self.cluster("a")
        reason = "no node of this cluster may hold workers on cuda:0"
        run = self.submit("--set", "compute.device=cuda:0")
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 1)
        self.assertIn(reason, err)
        checked = subprocess.run([cluster_test.TROUPE, "check", self.path("job.toml", cluster_test.JOB), "--cluster", self.file, "--set",
                                  "compute.device=cuda:0"], capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(checked.returncode, 2)
        self.assertIn(reason, checked.stderr)


if __name__ == "__main__":
    cluster_test.TROUPE = sys.argv[1]
    os.environ["TROUPE_CUDA_LIBRARY"] = sys.argv[2]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
