#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs whose shards have backups: the same bits as without, and with shards, backups, aggregators and nodes that die.

usage: replicas_test.py TROUPE [unittest arguments]. What dies, and when, is drawn from TROUPE_TEST_SEED.
"""
import json
import math
import os
import random
import re
import signal
import subprocess
import time

import cluster_test
from cluster_test import SEED, ClusterTest, select_nothing

HANG_S = 60  # no run here takes a tenth of it
TRIES = 5    # to hit a run before its end

# Three workers' batches of 16 over 600 samples: an evaluation every 12 or 13 steps.
JOB = """
name = "replicated"
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
nodes = 3
workers = 3
shards = 2
placement = "colocated"
replicas = 2
[stop]
steps = 40
"""
LONG = JOB.replace("steps = 40", "steps = 150") + "[inject]\nstep_ms = 8\n"
# A shard of four partitions.
WIDE = JOB.replace("linear 32 relu", "linear 2048 relu").replace("steps = 40", "steps = 200") + "[inject]\nstep_ms = 8\n"
# Two shards, aggregators 2 to 6 on two levels, and, as replicas 7 and 8, the shards' backups.
TREE = LONG.replace("workers = 3", "workers = 6") + "[protocol]\nfan_in = 2\n"
# Two shards, aggregators 2 and up for the nodes with workers, and, as replicas 8 and 9, the shards' backups.
OF_NODES = TREE.replace("fan_in = 2", 'fan_in = "node"')
ONEBIT = ["--set", "codec.push=onebit"]
BOTH_WAYS = [*ONEBIT, "--set", "codec.params=int4"]
ADAMW = ["--set", "optimizer.name=adamw", "--set", "optimizer.momentum=", "--set", "optimizer.lr=0.002"]
THREE_COPIES = ["--set", "cluster.replicas=3"]
NOT_TO_BE_SAID = re.compile(r"pure virtual|invariant|assert|terminate called", re.IGNORECASE)


class ReplicasTest(ClusterTest):
    def setUp(self):
        super().setUp()
        self.draw = random.Random(SEED)

    def begin(self, *arguments, job=LONG):
        """A run that has made a step. What it says goes to a file, so that all of it is there in the end."""
        with open(self.path("out"), "w", encoding="utf-8") as out, open(self.path("err"), "w", encoding="utf-8") as err:
            run = subprocess.Popen([cluster_test.TROUPE, "run", self.path("job.toml", job), "--json", *arguments], stdout=out,
                                   stderr=err, start_new_session=True)
        self.addCleanup(self.end, run)
        self.assertTrue(self.wait_until_said(run, r"(?m)^step "), self.said())
        self.address = re.search(r"console (\S+)`", self.said())[1]
        self.pids = [run.pid, *self.children(run)]
        return run

    @staticmethod
    def end(run):
        if run.poll() is None:
            run.kill()
        run.wait()

    def said(self):
        with open(self.path("err"), encoding="utf-8") as err:
            return err.read()

    def wait_until_said(self, run, pattern):
        """Whether it says so before it ends."""
        deadline = time.monotonic() + HANG_S
        while True:
            over = run.poll() is not None
            if re.search(pattern, self.said()):
                return True
            if over:
                return False
            if time.monotonic() > deadline:
                self.fail(f"it does not say {pattern!r}: {self.said()}\n{self.who_waits()}")
            select_nothing()

    def console(self, command):
        return subprocess.run([cluster_test.TROUPE, "console", self.address, "--json", "-c", command], capture_output=True, text=True,
                              timeout=HANG_S, check=False)

    def actors(self):
        return json.loads(self.console("ps").stdout)["actors"]

    def who_waits(self):
        try:
            return "\n".join(f"{each['id']}: {each.get('state')}, {each.get('waits_for')} {each.get('waits_on')}" for each in self.actors())
        except (AttributeError, json.JSONDecodeError, subprocess.TimeoutExpired) as failed:
            return f"the console does not say who waits: {failed}"

    def at_a_drawn_moment(self, within_s=0.9):
        moment = time.monotonic() + self.draw.uniform(0, within_s)
        while time.monotonic() < moment:
            select_nothing()

    def kills(self, run, role):
        """Whether the run lost the role before its end, and went on without it, or with another one in its place."""
        before = self.said().count(f"{role} is killed")
        self.console(f"kill {role}")
        if not self.wait_until_said(run, rf"(?s)({role} is killed.*){{{before + 1}}}"):
            return False
        lost = rf"(?s)({role} is killed.*?{role} \(\S+\) is lost: killed by the operator.*?){{{before + 1}}}"
        if role.startswith("shard"):
            lost += rf"its backup on node \S+ is {role} from now on"
        return self.wait_until_said(run, lost)

    def killed_child(self, run, name):
        for pid in self.children(run):
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as words:
                if f"--name\0{name}\0" in words.read():
                    os.kill(pid, signal.SIGKILL)
                    return self.wait_until_said(run, f"{name} was killed by signal 9") and self.wait_until_said(run, rf"\({name}\) is lost")
        return False

    def end_of(self, run, code=0):
        """The result, if there is one, and all that was said."""
        self.pids = sorted({*self.pids, *self.children(run)}) if run.poll() is None else self.pids
        try:
            run.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self.fail(f"it hangs: {self.said()}\n{self.who_waits()}")
        said = self.said()
        self.assertEqual(run.returncode, code, said)
        self.assertNotRegex(said, NOT_TO_BE_SAID)
        self.assert_gone(self.pids)
        with open(self.path("out"), encoding="utf-8") as out:
            lines = out.read().splitlines()
        return json.loads(lines[-1]) if lines else None, said

    def disturbed(self, roles, *arguments, job=LONG):
        """The result of a run that has lost each of these at a moment that was drawn; a run that ends before that is drawn again."""
        for _ in range(TRIES):
            run = self.begin(*arguments, job=job)
            hit = True
            for role in roles:
                self.at_a_drawn_moment(0.9 / len(roles))
                hit = hit and self.kills(run, role)
            result, said = self.end_of(run)
            if hit:
                self.assertEqual(result["steps"], 150, said)
                return result, said
        return self.fail(f"no kill of {roles} was in time: {said}")


    def assert_replays(self, rounds, result, said, *sets):
        """What each version was made of makes the same weights in one process."""
        replayed = subprocess.run([cluster_test.TROUPE, "replay", self.path("job.toml"), rounds, "--json", *sets], capture_output=True,
                                  text=True, timeout=HANG_S, check=False)
        self.assertEqual(replayed.returncode, 0, replayed.stderr + said)
        found = json.loads(replayed.stdout.splitlines()[-1])
        self.assertEqual((found["weights_digest"], found["version"]), (result["weights_digest"], result["steps"]), replayed.stderr + said)


class Bits(ReplicasTest):
    def test_backups_do_not_change_the_weights(self):
        for kind, sets in {"momentum": [], "adamw": ADAMW, "encoded": BOTH_WAYS}.items():
            with self.subTest(kind):
                digests = {copies: self.run_job(*sets, "--set", f"cluster.replicas={copies}", job=JOB)["weights_digest"]
                           for copies in (1, 2, 3)}
                self.assertEqual(len(set(digests.values())), 1, digests)

    def test_nor_do_losses_of_shards_and_backups(self):
        # Of two shards with two copies: replicas 2 and 3 are backups; with three: 2 to 5.
        losses = [([], ["shard 0"]), ([], ["shard 1"]), ([], ["replica {}"]), (ADAMW, ["shard 0"]), (ADAMW, ["shard 1", "shard 0"]),
                  (THREE_COPIES, ["shard 0", "shard {}"]), (ONEBIT, ["shard 0"]), (ONEBIT, ["shard 1"]),
                  (BOTH_WAYS, ["shard 0"]), (BOTH_WAYS, ["shard 1", "shard 0"])]
        undisturbed = {}
        for sets, roles in losses:
            alone = [] if sets is THREE_COPIES else sets
            kind = " ".join(alone)
            if kind not in undisturbed:
                undisturbed[kind] = self.run_job(*alone, job=LONG)["weights_digest"]
            drawn = [role.format(self.draw.choice([2, 3] if role.startswith("replica") else [0, 1])) for role in roles]
            with self.subTest(kind=kind, sets=sets, roles=drawn, seed=SEED):
                result, said = self.disturbed(drawn, *sets)
                self.assertEqual(result["weights_digest"], undisturbed[kind], said)

    def test_nor_does_the_loss_of_the_lead_while_a_version_is_evaluated(self):
        # Most of the time is an evaluation's: the next lead is asked for the version that is under way, or sends the one after it again.
        sets = [*ONEBIT, "--set", "data.test_samples=20000", "--set", "evaluate.every_samples=240"]
        undisturbed = self.run_job(*sets, job=LONG)
        for _ in range(2):
            result, said = self.disturbed(["shard 0"], *sets)
            for key in ("weights_digest", "test_loss"):
                self.assertEqual(result[key], undisturbed[key], said)


    def test_nor_do_losses_while_sizes_of_partitions_are_tried(self):
        # What the lost one had sent may be in other partitions than what its backup sends.
        wide = WIDE.replace("steps = 200", "steps = 150")
        undisturbed = self.run_job(job=wide)["weights_digest"]
        for shard in ("shard 0", "shard 1"):
            result, said = self.disturbed([shard], "--set", "exchange.partition_kib=auto", job=wide)
            self.assertIn("tries 2048", said)
            self.assertEqual(result["weights_digest"], undisturbed, said)


class Losses(ReplicasTest):
    def test_a_node_that_holds_of_everything_is_killed(self):
        shards = ["--set", "cluster.shards=3"]
        for _ in range(TRIES):
            run = self.begin(*shards)
            of_node = [each["role"] for each in self.actors() if each["node"] == "node-1"]
            self.assertLessEqual({"shard", "replica", "worker"}, set(of_node))
            self.at_a_drawn_moment(0.5)
            if self.killed_child(run, "node-1"):
                break
            self.end_of(run)
        self.assertTrue(self.wait_until_said(run, "its backup on node node-[02] is shard 1 from now on"), self.said())
        result, said = self.end_of(run)
        self.assertEqual(result["steps"], 150, said)
        self.assertTrue(math.isfinite(result["train_loss"]), said)

    def test_a_shard_without_copies_left_ends_the_job(self):
        run = self.begin("--set", "stop.steps=2000")
        self.assertTrue(self.kills(run, "shard 1"), self.said())
        self.console("kill shard 1")
        result, said = self.end_of(run, code=1)
        self.assertIn("shard 1 was lost, and the parameters that it held with it", result["error"])
        self.assertIn(f"the job failed: {result['error']}", said)

    def test_every_protocol_of_rounds_goes_on(self):
        for name in ("coded", "backup", "local", "deadline"):
            with self.subTest(name, seed=SEED):
                self.disturbed(["shard 0"], "--set", f"protocol.name={name}")

    def test_a_run_that_lost_its_lead_replays_to_its_bits(self):
        rounds = self.path("rounds.jsonl")
        result, said = self.disturbed(["shard 0"], "--rounds", rounds)
        self.assert_replays(rounds, result, said)


class Newcomers(ReplicasTest):
    def test_a_node_that_is_back_copies_what_lacks_a_copy_and_takes_its_place(self):
        rounds = self.path("rounds.jsonl")
        for sets in ([], ADAMW):
            with self.subTest("adamw" if sets else "momentum", seed=SEED):
                run = self.begin("--rounds", rounds, *sets, job=WIDE)
                self.assertTrue(self.killed_child(run, "node-1"), self.said())
                self.assertTrue(self.wait_until_said(run, "node node-1 has a whole copy of shard 1"), self.said())
                self.assertTrue(self.kills(run, "shard 1"), self.said())
                result, said = self.end_of(run)
                self.assertEqual(result["steps"], 200, said)
                self.assertIn("its backup on node node-1 is shard 1 from now on", said)
                self.assert_replays(rounds, result, said, *sets)

    def test_a_copy_or_a_shard_that_is_lost_alone_gets_another_copy(self):
        # Their node lives. The copy comes after some seconds, in which the node could have come back.
        local = ["--set", "protocol.name=local", "--set", "protocol.steps=1", "--set", "protocol.outer=nesterov"]
        for job, sets, *losses in ((LONG, [], ("replica 3", 1), ("shard 0", 0)), (TREE, [], ("replica 8", 1)),
                                   (LONG, local, ("shard 1", 1), ("shard 1", 1))):
            many = ["--set", f"stop.steps={750 * len(losses)}", *sets]
            undisturbed = self.run_job(*many, "--set", "inject.step_ms=0", job=job)
            with self.subTest(sets=sets, losses=losses):
                run = self.begin(*many, job=job)
                for lost, shard in losses:
                    before = self.said().count(f"has a whole copy of shard {shard}")
                    self.assertTrue(self.kills(run, lost), self.said())
                    self.assertTrue(self.wait_until_said(run, rf"(?s)(has a whole copy of shard {shard}.*){{{before + 1}}}"), self.said())
                    there = [each["id"] for each in self.actors() if each["role"] == "replica" and each["state"] != "has ended"]
                    self.assertEqual(len(there), 2, self.said())
                result, said = self.end_of(run)
                self.assertEqual(result["weights_digest"], undisturbed["weights_digest"], said)
                self.assertNotIn("is back", said)


class Trees(ReplicasTest):
    def test_backups_below_a_tree_do_not_change_the_weights(self):
        digests = {copies: self.run_job("--set", f"cluster.replicas={copies}", job=TREE)["weights_digest"] for copies in (1, 2)}
        for shard in ("shard 0", "shard 1"):
            digests[shard] = self.disturbed([shard], job=TREE)[0]["weights_digest"]
        self.assertEqual(len(set(digests.values())), 1, digests)

    def test_no_worker_is_lost_with_its_aggregator(self):
        for copies, aggregators in ((1, [2]), (1, [6]), (2, [5, 3])):
            names = [f"aggregator {each}" for each in aggregators]
            with self.subTest(names, copies=copies, seed=SEED):
                result, said = self.disturbed(names, "--set", f"cluster.replicas={copies}", job=TREE)
                self.assertNotRegex(said, r"worker \d+ \(\S+\) is lost")
                self.assertTrue(math.isfinite(result["train_loss"]), said)

    def test_backups_below_aggregators_of_nodes_do_not_change_the_weights(self):
        digests = {copies: self.run_job("--set", f"cluster.replicas={copies}", job=OF_NODES)["weights_digest"] for copies in (1, 2)}
        digests["shard 1"] = self.disturbed(["shard 1"], job=OF_NODES)[0]["weights_digest"]
        self.assertEqual(len(set(digests.values())), 1, digests)

    def test_no_worker_is_lost_with_its_nodes_aggregator(self):
        for copies in (1, 2):
            with self.subTest(copies=copies, seed=SEED):
                result, said = self.disturbed(["aggregator 2"], "--set", f"cluster.replicas={copies}", job=OF_NODES)
                self.assertNotRegex(said, r"worker \d+ \(\S+\) is lost")
                self.assertTrue(math.isfinite(result["train_loss"]), said)


if __name__ == "__main__":
    cluster_test.main()
