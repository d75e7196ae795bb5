#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every protocol on real clusters of processes: who equals whom, stragglers, links, deaths, what is reported.

usage: protocols_test.py TROUPE [unittest arguments]
"""
import array
import json
import re
import struct

import cluster_test
from cluster_test import ClusterTest

# Every worker gives each of its steps whole: 1,280 samples are 20 global batches of 64.
JOB = """
name = "small"
seed = 7
[data]
source = "digits"
train_samples = 1280
test_samples = 300
batch = 16
[model]
layers = ["flatten", "linear 48 relu", "linear 10"]
[optimizer]
lr = 0.1
[cluster]
workers = 4
[stop]
epochs = 4
"""
TIMED = JOB + "[inject]\nstep_ms = 20\n"


def numbers(path):
    """All parameters of a safetensors file, in the order of the file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        out = array.array("f", file.read())
    assert sum(1 for name in header if name != "__metadata__") == 4
    return out


class ProtocolTest(ClusterTest):
    def run_protocol(self, protocol, *arguments, job=JOB, **parameters):
        sets = [f"protocol.name={protocol}", *(f"protocol.{key}={value}" for key, value in parameters.items())]
        return self.run_job(*(word for one in sets for word in ("--set", one)), *arguments, job=job)

    def weights(self, protocol, *arguments, **parameters):
        path = self.path(f"{protocol}.safetensors")
        result = self.run_protocol(protocol, "--save", path, *arguments, **parameters)
        return result, numbers(path)


class Equalities(ProtocolTest):
    """Protocols that are synchronous SGD in other words. Steps take 20 ms, so that nobody is late by accident."""

    def test_backup_of_all_is_sync_bit_for_bit(self):
        sync = self.run_protocol("sync")
        for nodes in ("1", "3"):
            backup = self.run_protocol("backup", "--nodes", nodes, quorum=4)
            self.assertEqual(backup["weights_digest"], sync["weights_digest"])
            self.assertEqual(backup["discarded"], 0)

    def test_codes_and_single_local_steps_are_sync_but_for_rounding(self):
        _, sync = self.weights("sync")
        for protocol, parameters in (("coded", {"stragglers": 1}), ("coded", {"stragglers": 2}),
                                     ("coded", {"stragglers": 1, "scheme": "cyclic"}), ("local", {"steps": 1})):
            with self.subTest(protocol, **parameters):
                result, other = self.weights(protocol, "--nodes", "2", "--set", "cluster.shards=2", **parameters)
                self.assertEqual(result["steps"], 80)
                self.assertEqual(result["samples"], 4 * 1280)
                largest = max(abs(x) for x in sync)
                worst = max(abs(a - b) for a, b in zip(sync, other))
                self.assertLessEqual(worst, 1e-5 * largest)

    def test_a_tree_sums_codes_and_quorums_too(self):
        _, sync = self.weights("sync")
        for protocol, parameters in (("coded", {"stragglers": 1}), ("backup", {"quorum": 4})):
            with self.subTest(protocol):
                _, other = self.weights(protocol, "--nodes", "3", fan_in=2, **parameters)
                self.assertLessEqual(max(abs(a - b) for a, b in zip(sync, other)), 1e-5 * max(abs(x) for x in sync))


class Dropout(ProtocolTest):
    LAYERS = ("--set", 'model.layers=["flatten", "linear 48 relu", "dropout 0.5", "linear 10"]')
    CYCLIC = ("--set", "cluster.workers=5", "--set", "stop.steps=1", *LAYERS)

    def test_a_coded_step_is_the_same_whoever_straggles(self):
        found = [self.weights("coded", *self.CYCLIC, "--straggler", f"worker={worker},factor=40", job=TIMED, scheme="cyclic")
                 for worker in range(5)]
        largest = max(abs(x) for x in found[0][1])
        for result, weights in found:
            self.assertEqual(result["steps"], 1)
            self.assertLessEqual(max(abs(a - b) for a, b in zip(found[0][1], weights)), 1e-6 * largest)

    def test_a_simulated_coded_step_is_the_same_whoever_straggles(self):
        sets = ("--set", "protocol.name=coded", "--set", "protocol.scheme=cyclic", *self.CYCLIC)
        losses = [json.loads(cluster_test.subprocess.run(
            [cluster_test.TROUPE, "simulate", self.path("job.toml", TIMED), "--json", *sets, "--straggler", f"worker={worker},factor=40"],
            capture_output=True, text=True, check=True).stdout)["train_loss"] for worker in range(5)]
        for loss in losses:
            self.assertAlmostEqual(loss, losses[0], places=6)

    def test_masks_are_the_rows_however_many_workers_share_a_batch(self):
        _, two = self.weights("sync", *self.LAYERS, "--set", "cluster.workers=2", "--set", "data.batch=32", "--set", "stop.steps=2")
        _, four = self.weights("sync", *self.LAYERS, "--set", "cluster.workers=4", "--set", "data.batch=16", "--set", "stop.steps=2")
        self.assertLessEqual(max(abs(a - b) for a, b in zip(two, four)), 1e-5 * max(abs(x) for x in two))


class EveryProtocol(ProtocolTest):
    def test_learns_on_three_processes_and_two_shards(self):
        listed = json.loads(cluster_test.subprocess.run([cluster_test.TROUPE, "protocols", "--json"], capture_output=True,
                                                        text=True, check=True).stdout)
        for protocol in [entry["name"] for entry in listed["protocols"]]:
            with self.subTest(protocol):
                shards = [] if protocol == "allreduce" else ["--set", "cluster.shards=2"]  # it has none
                learned = self.run_protocol(protocol, "--nodes", "3", *shards, "--set", "stop.epochs=8")
                self.assertGreaterEqual(learned["test_accuracy"], 0.75)
                self.assertGreaterEqual(learned["samples"], 8 * 1280)

    def test_survives_the_death_of_a_worker(self):
        for protocol in ("backup", "async", "ssp", "local", "easgd", "coded", "admm", "dc-async", "deadline", "gossip", "allreduce"):
            with self.subTest(protocol):
                done = self.run_protocol(protocol, "--nodes", "3", "--fault", "crash=worker:1,at_s=0.5", job=TIMED)
                self.assertGreaterEqual(done["samples"], 4 * 1280)


class Times(ProtocolTest):
    """Emulated time: ratios of it, never seconds."""

    def test_a_straggler_costs_sync_its_factor_and_backup_nothing(self):
        slow = ["--straggler", "worker=1,factor=5", "--nodes", "2"]
        sync = self.run_protocol("sync", *slow, job=TIMED)
        # Of three, because a moment without a processor is a good part of such a short run.
        backup = sorted((self.run_protocol("backup", *slow, job=TIMED) for _ in range(3)), key=lambda run: run["seconds"])[1]
        self.assertGreater(backup["steps"] / backup["seconds"], 2.5 * sync["steps"] / sync["seconds"], (backup, sync))
        self.assertGreater(backup["discarded"], 5, backup)

    def test_auto_says_why_it_leaves_sync(self):
        log = self.path("log.jsonl")
        self.run_protocol("auto", "--straggler", "worker=1,factor=5", "--log", log, job=TIMED)
        with open(log, encoding="utf-8") as lines:
            chosen, why = re.search(r"auto: sync -> (backup|coded); (.*)\"", lines.read()).groups()
        took = {name: float(ms) for name, ms in re.findall(r"(\w+) ([\d.]+) ms", why)}
        self.assertEqual(set(took), {"sync", "backup", "coded"}, why)
        self.assertEqual(took[chosen], min(took.values()), why)

    def test_a_slow_link_costs_a_round_its_transmissions(self):
        # 39,760 floats a set, 4 workers: 4 * 159,040 bytes at 200 Mbit/s are 25.4 ms, towards the shard and from it. After the last
        # round nobody is sent anything.
        linked = self.run_protocol("sync", "--link", "mbit=200", "--set", "stop.steps=10", job=TIMED)
        self.assertGreater(linked["seconds"], 10 * (0.020 + 0.025) + 9 * 0.025)

    def test_staleness_is_counted_push_by_push(self):
        done = self.run_protocol("async", "--set", "data.train_samples=5120", job=TIMED)
        histogram = {versions: pushes for versions, pushes in done["staleness_histogram"]}
        self.assertEqual(sum(histogram.values()), done["steps"])
        self.assertAlmostEqual(sum(v * p for v, p in histogram.items()) / done["steps"], done["staleness_mean"], places=9)
        self.assertAlmostEqual(done["staleness_mean"], 3, delta=0.5)  # n - 1 at equal speeds
        bounded = self.run_protocol("ssp", "--straggler", "worker=1,factor=3", bound=1, job=TIMED)
        self.assertLessEqual(bounded["staleness_max"], 3 * (1 + 2))

    def test_adacomm_says_what_it_decided_by(self):
        log = self.path("log.jsonl")
        done = self.run_protocol("adacomm", "--log", log, "--set", "stop.epochs=8", job=TIMED, initial_steps=16, interval_s=0.4)
        self.assertLess(done["communication_period"], 16)
        with open(log, encoding="utf-8") as lines:
            decided = [cluster_test.re.search(r"loss (\S+) of (\S+), learning rate .*: communication period (\d+) -> (\d+)", line)
                       for line in lines if "adacomm" in line]
        self.assertTrue(decided)
        for found in decided:
            loss, first, before, after = float(found[1]), float(found[2]), int(found[3]), int(found[4])
            wanted = max(1, -int(-(loss / first) ** 0.5 * 16 // 1))
            self.assertEqual(after, wanted if wanted < before else (before + 1) // 2)


class Objectives(ProtocolTest):
    """ADMM beside a reference solver: FISTA (Beck & Teboulle 2009) on softmax regression with an l1 term."""

    L1, CLASSES, FEATURES, SAMPLES = 0.02, 3, 6, 240

    def data(self):
        """Columns of mean 0 and deviation 1, so that scaling leaves them as they are."""
        import random
        draw = random.Random(5)
        centres = [[draw.gauss(0, 1) for _ in range(self.FEATURES)] for _ in range(self.CLASSES)]
        labels = [i % self.CLASSES for i in range(self.SAMPLES)]
        columns = []
        for k in range(self.FEATURES):
            column = [centres[label][k] + draw.gauss(0, 1.5) for label in labels]
            mean = sum(column) / len(column)
            deviation = (sum((x - mean) ** 2 for x in column) / len(column)) ** 0.5
            columns.append([(x - mean) / deviation for x in column])
        return list(zip(*columns)), labels

    def gradient(self, w, rows, labels):
        """Mean loss and its gradient; w has a row of weights a feature, and the biases last."""
        import math
        loss, slope = 0.0, [[0.0] * self.CLASSES for _ in w]
        for x, label in zip(rows, labels):
            x = (*x, 1.0)
            logits = [sum(x[k] * w[k][c] for k in range(len(w))) for c in range(self.CLASSES)]
            top = max(logits)
            scale = sum(math.exp(z - top) for z in logits)
            loss += math.log(scale) + top - logits[label]
            for c in range(self.CLASSES):
                off = math.exp(logits[c] - top) / scale - (c == label)
                for k, value in enumerate(x):
                    slope[k][c] += off * value / len(rows)
        return loss / len(rows), slope

    def objective(self, w, rows, labels):
        return self.gradient(w, rows, labels)[0] + self.L1 * sum(abs(value) for row in w for value in row)

    def solve(self, rows, labels, rounds=400, rate=0.5):
        w = v = [[0.0] * self.CLASSES for _ in range(self.FEATURES + 1)]
        t = 1.0
        for _ in range(rounds):
            _, slope = self.gradient(v, rows, labels)
            stepped = [[a - rate * b for a, b in zip(*pair)] for pair in zip(v, slope)]
            new = [[max(abs(x) - rate * self.L1, 0) * (1 if x > 0 else -1) for x in row] for row in stepped]
            t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
            v = [[a + (t - 1) / t_new * (a - b) for a, b in zip(*pair)] for pair in zip(new, w)]
            w, t = new, t_new
        return w

    def test_admm_comes_within_one_percent_of_the_reference(self):
        rows, labels = self.data()
        text = "".join(",".join(f"{x:.7g}" for x in row) + f",{label}\n" for row, label in zip(rows, labels))
        data = self.path("data.csv", text)
        job = (f'[data]\nsource = "csv"\npath = "{data}"\ntest_path = "{data}"\nbatch = 60\n[model]\nlayers = ["linear 3"]\n'
               "[optimizer]\nlr = 0.5\n[cluster]\nworkers = 4\n[stop]\nsteps = 1000\n")
        best = self.objective(self.solve(rows, labels), rows, labels)
        # Rounds of one worker, of which one is ten times slower, make as many steps with a quarter of the work.
        slowest = ["--set", "inject.step_ms=1", "--straggler", "worker=1,factor=10"]
        for barrier, slow in ((4, ["--set", "stop.steps=80"]), (1, ["--set", "stop.steps=400", *slowest])):
            with self.subTest(barrier=barrier):
                path = self.path("admm.safetensors")
                self.run_protocol("admm", "--nodes", "2", "--save", path, *slow, job=job, rho=0.3, l1=self.L1, barrier=barrier, steps=10)
                with open(path, "rb") as file:
                    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
                    bits = file.read()
                found = {}
                for name, entry in header.items():
                    if name != "__metadata__":
                        begin, end = entry["data_offsets"]
                        found[len(entry["shape"])] = (entry["shape"], array.array("f", bits[begin:end]))
                shape, values = found[2]
                at = (lambda k, c: values[k * self.CLASSES + c]) if shape[0] == self.FEATURES else (lambda k, c: values[c * self.FEATURES + k])
                w = [[at(k, c) for c in range(self.CLASSES)] for k in range(self.FEATURES)] + [list(found[1][1])]
                reached = self.objective(w, rows, labels)
                self.assertGreaterEqual(reached, best - 1e-6)
                self.assertLessEqual(reached, 1.01 * best)
                self.assertGreater(sum(value == 0 for row in w for value in row), 0)


if __name__ == "__main__":
    cluster_test.main()
