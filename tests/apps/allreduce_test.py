#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Workers without a shard, one of whom dies, stops, and comes back in the middle of a sum: no round is lost, none counts twice.

What is left must have made, bit for bit, the versions that as many workers make one after another of whom none is lost: with `direct`
those of `sync`, or of `local` with local steps; by an order of sums of its own, those of one process.

usage: allreduce_test.py TROUPE [unittest arguments]
"""
import json
import os
import shutil
import signal
import subprocess

import cluster_test
from cluster_test import JOB, THOROUGH
from respawn_test import RespawnTest

BATCH, WORKERS, STEPS = 16, 4, 240
ALL, OTHERS = WORKERS * BATCH, (WORKERS - 1) * BATCH  # samples of a step
LAST = f"node-{WORKERS - 1}"
FIRST_OF_TWO = f"node-{WORKERS - 2}"
ALGORITHMS = ("direct", "ring", "halving", "tree", "broadcast")
IN_PARTITIONS = ("--set", "exchange.partition_kib=16")  # ten of this model's gradient

# One epoch, so that each batch is whole. Of every other step an evaluation tells the samples.
SLOW = JOB.replace("train_samples = 1200", f"train_samples = {ALL * STEPS}").replace("test_samples = 300", "test_samples = 50")
SLOW = SLOW.replace("epochs = 2", f"steps = {STEPS}").replace("[stop]", f"[evaluate]\nevery_samples = {2 * ALL}\ntrain_samples = 50\n[stop]")


def by(algorithm):
    """Each worker in a group of its own, as on a host of its own."""
    return "--set", "protocol.name=allreduce", "--set", f"protocol.algorithm={algorithm}", "--set", "protocol.group=1"


def some(*few):
    """These of the algorithms, for each takes some seconds; all of them where the tests are to be thorough."""
    return ALGORITHMS if THOROUGH else few


class AllreduceTest(RespawnTest):
    def reduce(self, algorithm, *arguments):
        """A run of four processes, of which the last three have the workers. Without groups, if none are given: so bits are those of a shard."""
        self.log = self.path("log.jsonl")
        return self.begin(*by(algorithm), "--log", self.log, *arguments, job=SLOW, nodes=WORKERS)

    def stretches(self, result, local_steps=1):
        """By how many workers the versions were made, and up to which: all, all but one, all again."""
        whole, one = ALL * local_steps, BATCH * local_steps
        missing, rest = divmod(whole * result["steps"] - result["samples"], one)
        self.assertEqual(rest, 0, "a step is over whole batches")
        with open(self.log, encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        for line in lines:
            if line["kind"] == "evaluation" and (without := whole * line["step"] - line["samples"]) > 0:
                first = line["step"] - without // one
                return (WORKERS, first), (WORKERS - 1, first + missing), (WORKERS, result["steps"])
        return self.fail("no evaluation tells of a step without one worker")

    def expect_weights(self, algorithm, result, *stretches, shard="sync", more=()):
        """Those of so many workers up to a step, then of others: by a shard that adds as `direct` does, or in one process that none leaves."""
        like = ("--set", f"protocol.name={shard}") if algorithm in ("direct", "broadcast") else by(algorithm)
        came_from = []
        for number, (workers, until) in enumerate(stretches):
            kept = self.path(f"{algorithm}-{number}")
            shutil.rmtree(kept, ignore_errors=True)  # of another subtest
            made = self.run_job(*like, *more, "--set", f"cluster.workers={workers}", "--set", f"stop.steps={until}",
                                "--set", f"checkpoint.dir={kept}", *came_from, job=SLOW)
            came_from = ["--resume", os.path.join(kept, f"step-{until}")]
        self.assertEqual(result["weights_digest"], made["weights_digest"], f"{algorithm} as by {stretches}")


class Deaths(AllreduceTest):
    def test_the_others_go_on(self):
        for algorithm, *more in (*zip(some("direct", "ring")), ("tree", "--set", "protocol.group=2"), ("direct", *IN_PARTITIONS)):
            with self.subTest(algorithm, more=more):
                self.pids = set()
                run = self.reduce(algorithm, "--set", "cluster.respawn=false", *more)
                os.kill(self.child(run, FIRST_OF_TWO if "protocol.group=2" in more else LAST), signal.SIGKILL)
                result, err = self.end_of(run)
                self.assertEqual((result["steps"], result["restarts"]), (STEPS, 0), err)
                whole = result["gradients"] - (WORKERS - 1) * STEPS  # a step has a gradient of everyone who is there
                self.assertTrue(0 < whole < STEPS, err)
                self.expect_weights(algorithm, result, (WORKERS, whole), (WORKERS - 1, STEPS), more=more)

    def test_who_is_started_anew_is_given_everything_by_a_peer(self):
        for algorithm in some("direct", "tree"):
            with self.subTest(algorithm):
                self.pids = set()
                run = self.reduce(algorithm)
                self.kill(run, LAST)
                self.wait_for_line(run, f"node {LAST} is back")
                result, err = self.end_of(run)
                self.assertEqual((result["steps"], result["restarts"]), (STEPS, 1), err)
                self.expect_weights(algorithm, result, *self.stretches(result))


class Groups(AllreduceTest):
    def digest(self, nodes, *more):
        made = self.run_job("--nodes", str(nodes), *more, "--set", "protocol.name=allreduce")
        self.assertAlmostEqual(made["train_loss"], self.sync["train_loss"], places=4)
        return made["weights_digest"]

    def test_one_digest_wherever_the_workers_are(self):
        self.sync = self.run_job()
        for algorithm in some("direct", "ring", "broadcast"):
            with self.subTest(algorithm):
                by = "--set", f"protocol.algorithm={algorithm}"
                pairs, alone = (self.digest(1, *by, "--set", f"protocol.group={size}") for size in (2, 1))
                self.assertNotEqual(pairs, alone, "they add in another order")
                for nodes in (2, 3, 5):
                    self.assertEqual(self.digest(nodes, *by, "--set", "protocol.group=2"), pairs, f"{nodes} nodes")
                self.assertEqual(self.digest(3, *by), pairs, "a node has two")
                for nodes in (1, 2, 5):
                    self.assertEqual(self.digest(nodes, *by), alone, f"{nodes} nodes: one has all, or each has one")
                if algorithm in ("direct", "broadcast"):
                    self.assertEqual(alone, self.sync["weights_digest"])

    def test_over_an_emulated_link_each_worker_is_a_host_of_its_own(self):
        link = "--set", "inject.link.latency_ms=0.1"
        self.sync = self.run_job()
        self.assertEqual(self.digest(3, *link), self.sync["weights_digest"])


class Partitions(AllreduceTest):
    def test_one_digest_whenever_sums_are_made(self):
        sync = self.run_job()["weights_digest"]
        for algorithm in some("direct", "ring"):
            with self.subTest(algorithm):
                by = ("--set", "protocol.name=allreduce", "--set", f"protocol.algorithm={algorithm}", "--set", "protocol.group=1", *IN_PARTITIONS)
                digests = {self.run_job("--nodes", nodes, *by, *more)["weights_digest"]
                           for nodes, *more in (("1",), ("2",), ("5",), ("5", "--set", "exchange.overlap=false"), ("2", "--set", "exchange.order=ready"))}
                self.assertEqual(len(digests), 1)
                if algorithm in ("direct", "broadcast"):
                    self.assertEqual(digests, {sync})

    def test_an_optimizer_that_needs_all_of_a_gradient_has_it(self):
        for optimizer in (("optimizer.clip_norm=0.5",), ("optimizer.name=lars", "optimizer.lr=2", "optimizer.trust=0.02"),
                          ("optimizer.name=adamw", "optimizer.momentum=", "optimizer.lr=0.01")):
            with self.subTest(optimizer):
                how = [word for each in optimizer for word in ("--set", each)]
                sync = self.run_job(*how)
                reduced = self.run_job("--nodes", "3", *how, "--set", "protocol.name=allreduce", "--set", "protocol.group=1", *IN_PARTITIONS)
                self.assertEqual(reduced["weights_digest"], sync["weights_digest"])
                self.assertEqual(self.simulated(*how, "--set", "protocol.name=allreduce", *IN_PARTITIONS)["train_loss"], sync["train_loss"])

    def simulated(self, *arguments):
        done = subprocess.run([cluster_test.TROUPE, "simulate", self.path("job.toml"), "--json", "--set", "inject.step_ms=10", *arguments],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


class LocalSteps(AllreduceTest):
    # Without momentum of the steps: a round that is left half done would leave it.
    STEPS = ("--set", "protocol.steps=3", "--set", "protocol.outer=nesterov", "--set", "protocol.outer_lr=0.3",
             "--set", "protocol.outer_momentum=0.5", "--set", "optimizer.momentum=0.0")

    def test_direct_makes_the_bits_of_local_on_any_number_of_processes(self):
        momenta = ("average",), ("momentum",), ("nesterov", "--set", "protocol.outer_lr=0.5")
        for outer, *more in momenta:
            sets = ["--set", "protocol.steps=3", "--set", f"protocol.outer={outer}", *more]
            expected = self.run_job("--set", "protocol.name=local", *sets)
            for nodes in ("1", "3"):
                for algorithm in ("direct", "ring"):
                    with self.subTest(outer=outer, nodes=nodes, algorithm=algorithm):
                        made = self.run_job("--set", "protocol.name=allreduce", "--set", f"protocol.algorithm={algorithm}", *sets,
                                            "--set", "protocol.group=1", "--nodes", nodes)
                        self.assertEqual((made["steps"], made["samples"]), (expected["steps"], expected["samples"]))
                        if algorithm == "direct":
                            self.assertEqual(made["weights_digest"], expected["weights_digest"])
                        self.assertAlmostEqual(made["train_loss"], expected["train_loss"], places=4)

    def test_the_others_go_on(self):
        for algorithm in some("tree"):
            with self.subTest(algorithm):
                self.pids = set()
                run = self.reduce(algorithm, *self.STEPS, "--set", "inject.step_ms=7", "--set", "cluster.respawn=false")
                os.kill(self.child(run, LAST), signal.SIGKILL)
                result, err = self.end_of(run)
                whole = result["gradients"] - (WORKERS - 1) * STEPS
                self.assertTrue(0 < whole < STEPS, err)
                self.expect_weights(algorithm, result, (WORKERS, whole), (WORKERS - 1, STEPS), shard="local", more=self.STEPS)

    def test_who_is_started_anew_is_given_everything_by_a_peer(self):
        one_epoch = ("--set", f"data.train_samples={3 * ALL * STEPS}")
        for algorithm in some("direct"):
            with self.subTest(algorithm):
                self.pids = set()
                run = self.reduce(algorithm, *self.STEPS, *one_epoch, "--set", "inject.step_ms=7")
                self.kill(run, LAST)
                self.wait_for_line(run, f"node {LAST} is back")
                result, err = self.end_of(run)
                self.assertEqual((result["steps"], result["restarts"]), (STEPS, 1), err)
                self.expect_weights(algorithm, result, *self.stretches(result, 3), shard="local", more=(*self.STEPS, *one_epoch))


class Fragments(AllreduceTest):
    LATE = ("--set", "protocol.name=allreduce", "--set", "protocol.group=1", "--set", "protocol.steps=4", "--set", "protocol.fragments=2",
            "--set", "protocol.outer=nesterov", "--set", "protocol.overlap_steps=1")

    def test_one_digest_however_late_a_sum_is(self):
        for algorithm in some("direct", "ring"):
            with self.subTest(algorithm):
                digests = set()
                for nodes, more in ((1, []), (3, []), (3, ["--set", "inject.step_ms=3"]), (5, ["--set", "inject.link.latency_ms=2"])):
                    made = self.run_job("--nodes", str(nodes), *self.LATE, "--set", f"protocol.algorithm={algorithm}", *more)
                    digests.add(made["weights_digest"])
                self.assertEqual(len(digests), 1)
                self.assertLess(made["train_loss"], 1)
                late = self.run_job("--nodes", "3", *self.LATE, "--set", f"protocol.algorithm={algorithm}", "--set", "protocol.merge=0.25")
                self.assertNotIn(late["weights_digest"], digests)

    def test_what_is_summed_meanwhile_is_hidden(self):
        link = "--set", "inject.step_ms=20", "--set", "inject.link.latency_ms=5"
        late = self.run_job("--nodes", "3", *self.LATE, *link)
        plain = self.run_job("--nodes", "3", *self.LATE, "--set", "protocol.overlap_steps=0", *link)
        self.assertGreater(late["overlap"], 0.5)
        self.assertLess(plain["overlap"], 0.1)

    def test_the_others_go_on_and_who_comes_back_is_given_everything(self):
        for algorithm in some("ring"):
            with self.subTest(algorithm):
                self.pids = set()
                slow = "--set", "optimizer.lr=0.01"  # at 0.05 what is summed late may leave a loss of 0.8 for a while
                run = self.reduce(algorithm, *self.LATE, *slow, "--set", "inject.step_ms=7")
                self.kill(run, LAST)
                self.wait_for_line(run, f"node {LAST} is back")
                result, err = self.end_of(run)
                self.assertEqual((result["steps"], result["restarts"]), (STEPS, 1), err)
                self.assertLess(result["train_loss"], 0.5, err)


class Silence(AllreduceTest):
    def test_nobody_waits_for_who_is_stopped_and_it_comes_back(self):
        for algorithm in some("direct", "halving"):
            with self.subTest(algorithm):
                self.pids = set()
                run = self.reduce(algorithm)
                pid = self.child(run, LAST)
                os.kill(pid, signal.SIGSTOP)
                try:
                    self.wait_for_line(run, rf"worker 3 \({LAST}\) is lost: node {LAST} is silent for")
                    for _ in range(2):  # the first may have been under way
                        self.wait_for_line(run, "evaluated")
                finally:
                    os.kill(pid, signal.SIGCONT)
                self.wait_for_line(run, f"node {LAST} is back")
                result, err = self.end_of(run)
                self.assertEqual((result["steps"], result["restarts"]), (STEPS, 1), err)
                self.expect_weights(algorithm, result, *self.stretches(result))


if __name__ == "__main__":
    cluster_test.main()
