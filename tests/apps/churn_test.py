#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One job, whose nodes start in any order, are killed and come back, while somebody reads `ps` all the time.

usage: churn_test.py TROUPE [unittest arguments]. The order is drawn from TROUPE_TEST_SEED, or else from the time, and printed.
"""
import os
import random
import re
import sys
import threading
import time

import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import DEADLINE_S, JOB

SEED = int(os.environ.get("TROUPE_TEST_SEED") or time.time_ns() // 1000 % 1_000_000)
WORKERS, SHARDS = 4, 2
# What a node may be, as far as the test knows.
WORKS, DIES, GONE, COMES = "works", "dies", "gone", "comes"


class Readings(threading.Thread):
    """Reads `ps` until it is told to end. What is wrong with a reading ends it, too, and is in `wrong`."""

    def __init__(self, test, job):
        super().__init__(daemon=True)
        self.test, self.job = test, job
        self.nodes = {name: (WORKS, 0) for name in "abcd"}  # with how often that has changed
        self.changed = threading.Condition()
        self.done, self.over, self.wrong, self.count, self.late = False, False, None, 0, 0
        self.seen = []  # (node, how it was while all of the reading was made, how it was shown), of the newest reading

    def become(self, node, state):
        with self.changed:
            self.nodes[node] = (state, self.nodes[node][1] + 1)

    def until(self, node, state, shown):
        """Waits for a reading, begun and ended while the node was `state`, that shows it so."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.wrong or self.over or (node, state, shown) in self.seen, DEADLINE_S):
                self.test.fail(f"node {node} {state} and was never shown as {shown}; last: {self.seen}")
        self.test.assertIsNone(self.wrong)
        self.test.assertFalse(self.over, "the job has ended")

    def run(self):
        try:
            while not self.done:
                with self.changed:
                    before = dict(self.nodes)
                said, jobs = self.test.ask("ps", "jobs")
                with self.changed:
                    self.over = not jobs["jobs"]
                    if self.over:
                        return self.changed.notify_all()
                    steady = {name: before[name][0] for name in before if before[name] == self.nodes[name]}
                    self.seen = [(name, steady.get(name), shown) for name, shown in self.judge(said, steady)]
                    self.count += 1
                    self.changed.notify_all()
        except Exception as failed:  # for the thread of the test
            with self.changed:
                self.wrong = failed
                self.changed.notify_all()

    def judge(self, said, steady):
        """How each node is shown: "whole", "in part", or why it is silent. Raises where that cannot be."""
        actors = [(actor["id"], actor["node"], actor["job"]) for actor in said["actors"]]
        silent = {each["node"]: each["reason"] for each in said["silent"]}
        placed = placement("abcd", self.job)
        self.test.assertEqual(len(set(actors)), len(actors), f"somebody is shown twice: {said}")
        self.test.assertEqual(len(silent), len(said["silent"]), said)
        self.test.assertLessEqual(set(actors), set().union(*placed.values()), "somebody is shown who was never placed")
        for name, roles in placed.items():
            found = roles & set(actors)
            shown = silent.get(name) or ("whole" if found == roles else "in part")
            where = f"reading {self.count}: node {name}, which {steady.get(name, 'changes')}, is {shown}: {said}"
            self.test.assertEqual(bool(found), name not in silent, where)  # it is shown, or named
            self.test.assertTrue(shown != "in part" or steady.get(name) in (COMES, None), where)
            if steady.get(name) == WORKS and shown != "whole":
                self.test.assertEqual(shown, "no answer in time", where)  # a machine that is busy; `until` wants a whole one
                self.late += 1
            if steady.get(name) == GONE:
                self.test.assertEqual(shown, "it is gone", where)
            yield name, shown


def placement(nodes, job):
    """What a job places on each: its shards beside the coordinator, which alone may hold them, its workers in blocks on the rest."""
    first, *rest = nodes
    placed = {name: {(f"node {name}", name, job)} for name in nodes}
    placed[first] |= {(role, first, job) for role in ("coordinator 0", "evaluator 0", *(f"shard {i}" for i in range(SHARDS)))}
    for i in range(WORKERS):
        name = rest[i * len(rest) // WORKERS]
        placed[name] |= {(f"{role} {i}", name, job) for role in ("worker", "compute", "loader")}
    return placed


class Churn(BootstrapTest):
    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        print(f"seed {SEED}", file=sys.stderr)

    def shuffled(self, names):
        return self.chance.sample(names, len(names))

    def test_a_job_outlives_its_nodes_and_ps_is_right_at_each_moment(self):
        for name in self.shuffled("abcd"):
            self.node(name)
        self.wait_for_line(self.nodes["a"], "coordinator of")
        for number, samples in enumerate((300_000, 3_000_000), 1):
            if self.job_outlives_them(number, samples):
                return
        self.fail("a machine on which nothing takes long")

    def job_outlives_them(self, number, samples):
        """False: it was at its end before the last of them had come back."""
        job = JOB.replace("epochs = 2", f"samples = {samples}").replace("train_samples = 1200", "train_samples = 6000")
        job = job.replace("lr = 0.05", "lr = 0.02")  # alone, or as one of two, a worker does not stand more
        run = self.submit("--json", "--set", f"cluster.shards={SHARDS}", "--set", "evaluate.every_s=3600", job=job)
        self.wait_for_line(run, "^step ")
        self.assertEqual([each["nodes"] for each in self.ask("jobs")[0]["jobs"]], [list("abcd")])
        readings = Readings(self, number)
        readings.start()
        try:
            for name in self.shuffled("bcd"):
                self.dies_and_comes_back(name, run, readings)
        except AssertionError:
            if readings.wrong is None and not self.ask("jobs")[0]["jobs"]:
                return False
            raise
        finally:
            readings.done = True
            readings.join(DEADLINE_S)
        self.assertIsNone(readings.wrong)
        print(f"{readings.count} readings, {readings.late} nodes too late for one", file=sys.stderr)
        result, _ = self.result_of(run)
        self.assertGreaterEqual(result["samples"], samples)
        self.assertGreaterEqual(result["restarts"], 4)  # every worker has lived twice
        # Undisturbed it comes to the same; a gradient that counts twice, or parameters that lack a part, do not.
        self.assertGreater(result["test_accuracy"], 0.9)
        self.assertLess(result["train_loss"], 0.01)
        return True

    def dies_and_comes_back(self, name, run, readings):
        readings.until(name, WORKS, "whole")
        readings.become(name, DIES)
        self.nodes[name].kill()
        self.nodes[name].wait()
        workers = {role for role, *_ in placement("abcd", 0)[name] if role.startswith("worker")}
        lost = {self.wait_for_line(run, r"worker \d+ \(\w\) is lost") for _ in workers}
        self.assertEqual({re.search(r"worker \d+ \(\w\)", line)[0] for line in lost}, {f"{worker} ({name})" for worker in workers})
        readings.until(name, DIES, "it is gone")
        readings.become(name, GONE)
        readings.until(name, GONE, "it is gone")
        readings.become(name, COMES)
        self.node(name)
        self.wait_for_line(run, f"node {name} is back")
        readings.become(name, WORKS)
        readings.until(name, WORKS, "whole")


if __name__ == "__main__":
    cluster_test.main()
