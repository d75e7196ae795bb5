#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Roles whose thread stands still in a living process, as in a device driver or on a hung disk: found by whom a round waits for.

usage: standstill_test.py TROUPE [unittest arguments]
"""
import json
import os

import cluster_test
from held_thread import HeldThread, threads_called
from replicas_test import LONG, ReplicasTest

SOON = ["--set", "cluster.progress_s=3"]  # on a loaded machine a round may take one
# Three processes, of which two have a worker each.
PEERS = LONG.replace("workers = 3", "workers = 2").replace("shards = 2", "shards = 1").replace('placement = "colocated"\nreplicas = 2\n', "")


class StandstillTest(ReplicasTest):
    def stand_still(self, run, role):
        """The role's thread, from now on."""
        found = threads_called(role, (run.pid, *self.children(run)))
        self.assertTrue(found, f"no thread is called {role!r}")
        held = HeldThread(found[0])
        if held.errno != 0:
            self.skipTest(f"threads of other processes cannot be held here: {os.strerror(held.errno)}")
        return held

    def with_one_still(self, role, *arguments, job=LONG, code=0):
        run = self.begin(*SOON, *arguments, job=job)
        self.stand_still(run, role)
        return self.end_of(run, code)


class Roles(StandstillTest):
    def test_a_shard_loses_its_place_to_its_copy(self):
        result, said = self.with_one_still("shard 1")
        self.assertEqual(result["steps"], 150, said)
        lost = r"(?s)shard 1 \((\S+)\) is lost: no step for \d+ s; shard 1 does not answer.*its backup on node \S+ is shard 1 from now on"
        self.assertRegex(said, rf"{lost}.*node \1 is back")
        self.assertNotRegex(said, r"worker \d \(\S+\) is lost: no step for \d+ s; worker", "who waits for it is not to blame")

    def test_the_lead_loses_its_place_to_its_copy(self):
        result, said = self.with_one_still("shard 0")
        self.assertEqual(result["steps"], 150, said)
        self.assertRegex(said, r"(?s)shard 0 does not answer.*its backup on node \S+ is shard 0 from now on")
        self.assertIn("not all threads have ended within 10 s: shard 0; the process ends without them", said)

    def test_without_a_copy_the_job_ends_by_its_name(self):
        run = self.begin("--set", "cluster.progress_s=7", "--set", "cluster.replicas=1")
        self.stand_still(run, "shard 1")
        self.assertTrue(self.wait_until_said(run, r"no step for \d+ s: the round waits for shard 1 \(\S+\)\n"), "soon, and of nobody else")
        why = json.loads(self.console("why worker 0").stdout)
        stands = r"(does not get to answer|has not answered for \S+ s)"  # between two messages, or in the middle of one
        self.assertRegex(" ".join(why["causes"]), rf"^shard 1 on node \S+: it \w+ for \S+ s, and {stands}$")
        result, said = self.end_of(run, 1)
        self.assertRegex(result["error"], r"^no step for \d+ s; shard 1 does not answer, and no copy of it can take its place; cluster.progress_s")
        self.assertNotRegex(said, r"worker \d \(\S+\) is lost")

    def test_a_worker_leaves(self):
        result, said = self.with_one_still("compute 1")
        self.assertEqual(result["steps"], 150, said)
        self.assertRegex(said, r"worker 1 \(\S+\) is lost: no step for \d+ s; worker 1: computes for")

    def test_a_worker_that_moves_again_comes_back(self):
        run = self.begin(*SOON, "--set", "stop.steps=600")
        held = self.stand_still(run, "compute 1")
        self.assertTrue(self.wait_until_said(run, r"worker 1 \(\S+\) is lost: no step for"), self.said())
        held.let_go()
        self.assertTrue(self.wait_until_said(run, r"worker 1 \(\S+\) is restarted, as it moves again"), self.said())
        result, said = self.end_of(run)
        self.assertEqual((result["steps"], result["restarts"]), (600, 1), said)

    def test_the_evaluator_is_replaced(self):
        result, said = self.with_one_still("evaluator 0")
        self.assertEqual(result["steps"], 150, said)
        self.assertRegex(said, r"evaluator 0 \(node-0\) is lost: the evaluation of step \d+ has taken \d+ s, and evaluator 0 does not answer")


class Peers(StandstillTest):
    def test_who_waits_for_no_other_worker_is_lost(self):
        result, said = self.with_one_still("compute 1", "--set", "protocol.name=allreduce", job=PEERS)
        self.assertEqual(result["steps"], 150, said)
        self.assertRegex(said, r"worker 1 \(\S+\) is lost: no step for \d+ s; worker 1: computes for")
        self.assertNotRegex(said, r"worker 0 \(\S+\) is lost")

    def test_who_moves_again_is_given_what_the_others_have(self):
        for protocol in ("allreduce", "gossip"):
            run = self.begin(*SOON, "--set", f"protocol.name={protocol}", "--set", "stop.steps=1000", job=PEERS)
            held = self.stand_still(run, "compute 1")
            self.assertTrue(self.wait_until_said(run, r"worker 1 \(\S+\) is lost: no step for"), self.said())
            held.let_go()
            self.assertTrue(self.wait_until_said(run, r"worker 1 \(\S+\) is restarted, as it moves again"), self.said())
            result, said = self.end_of(run)
            self.assertGreaterEqual(result["steps"], 1000, said)

    def test_an_evaluation_waits_for_no_worker_that_stands_still(self):
        result, said = self.with_one_still("compute 1", "--set", "protocol.name=gossip", job=PEERS)
        self.assertGreaterEqual(result["steps"], 150, said)
        self.assertRegex(said, r"worker 1 \(\S+\) is lost: no step for \d+ s; worker 1: (held, )?computes for")

    def test_a_new_evaluator_knows_whose_replicas_it_collects(self):
        for protocol in ("allreduce", "gossip"):
            run = self.begin("--set", f"protocol.name={protocol}", job=PEERS)
            self.assertTrue(self.kills(run, "evaluator 0"), self.said())
            before = self.said().count("evaluated:")
            self.assertTrue(self.wait_until_said(run, rf"(?s)(evaluated:.*){{{before + 2}}}"), self.said())
            result, said = self.end_of(run)
            self.assertGreaterEqual(result["steps"], 150, said)


if __name__ == "__main__":
    cluster_test.main()
