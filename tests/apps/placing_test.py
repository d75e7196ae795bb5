#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which nodes of a cluster a job gets, what it is refused for, and how nodes are let go.

usage: placing_test.py TROUPE [unittest arguments]
"""
import signal
import subprocess

import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import DEADLINE_S, ENDLESS, JOB


class Placing(BootstrapTest):
    ROLES = {"a": '["coordinator", "shard"]', "b": '["shard"]', "c": '["worker"]'}

    def setUp(self):
        super().setUp()
        self.file = self.cluster_file("lab.toml", names="abc")

    def test_workers_go_to_the_node_that_may_hold_them(self):
        self.cluster("abc")
        one = JOB.replace("workers = 4", "workers = 1")
        for arguments, nodes in [((), 2), (("--nodes", "2"), 2), (("--nodes", "3", "--set", "cluster.workers=2"), 3),
                                 (("--set", "cluster.workers=2", "--set", "cluster.shards=2"), 3)]:
            with self.subTest(arguments=arguments):
                result, _ = self.result_of(self.submit("--json", *arguments, job=one))
                self.assertEqual(result["nodes"], nodes)

    def test_a_node_that_two_ask_to_let_go_stays_until_its_job_has_ended(self):
        self.cluster("abc")
        run = self.submit("--set", "cluster.shards=2", job=ENDLESS.replace("workers = 4", "workers = 2"))
        self.wait_for_line(run, "^step ")
        self.nodes["b"].send_signal(signal.SIGTERM)
        self.wait_for_line(self.nodes["a"], "node b wants to leave")
        drain = subprocess.run([cluster_test.TROUPE, "console", "--cluster", self.file, "-c", "drain b"], capture_output=True, text=True,
                               timeout=DEADLINE_S, check=False)
        self.assertIn("node b holds what its job needs; it leaves when that ends", drain.stdout)
        self.assertIsNone(self.nodes["b"].poll(), "it has a shard")
        run.send_signal(signal.SIGINT)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertEqual(self.nodes["b"].wait(DEADLINE_S), 0)

    def test_a_job_whose_node_never_comes_holds_up_nobody(self):
        self.cluster("ac")
        two = JOB.replace("workers = 4", "workers = 1")
        waits = self.submit("--set", "cluster.workers=2", "--set", "cluster.shards=2", job=two, name="waits.toml")
        self.wait_for_line(waits, "waits: it needs 3 nodes.*: node b has not joined")
        result, _ = self.result_of(self.submit("--json", job=two))
        self.assertGreater(result["steps"], 0)
        self.assertEqual([(job["number"], job["state"]) for job in self.ask("jobs")[0]["jobs"]],
                         [(1, "waits: it needs 3 nodes, 1 of them for workers: node b has not joined")])
        self.node("b")
        self.finish(waits)
        self.assertEqual(waits.returncode, 0)

    def test_what_no_nodes_could_carry_is_refused_beside_a_job_that_goes_on(self):
        self.cluster("abc")
        one = ENDLESS.replace("workers = 4", "workers = 1")
        run = self.submit(job=one)
        self.wait_for_line(run, "^step ")
        for arguments, reason in [
            (("--set", "compute.device=cuda:7"), "node c: cuda:7 cannot be used there: "),
            (("--set", 'model.layers=["flatten", "linear 1000000 relu", "linear 1000000", "linear 10"]'),
             r"node a: its host has [0-9.]+ [MGT]B free and the job takes about [0-9.]+ [GT]B there")]:
            with self.subTest(arguments=arguments):
                large = self.submit(*arguments, job=one, name="large.toml")
                _, err = self.finish(large)
                self.assertEqual(large.returncode, 1, err)
                self.assertRegex(err, "no nodes of the cluster could carry it: .*" + reason)
        self.wait_for_line(run, "^step ")
        self.assertIsNone(run.poll())


if __name__ == "__main__":
    cluster_test.main()
