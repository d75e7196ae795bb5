#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that grow onto nodes as they join, and give them back.

usage: elastic_test.py TROUPE [unittest arguments]
"""
import time

import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import DEADLINE_S, ENDLESS, select_nothing

GROWS = ("--json", "--set", "cluster.nodes=2", "--set", "cluster.workers=2", "--set", "cluster.max_workers=5", "--set", "inject.step_ms=10")


class Elastic(BootstrapTest):
    def workers(self):
        """Those that are there: by node, their numbers."""
        out = {}
        for actor in self.ask("ps")[0]["actors"]:
            if actor["id"].startswith("worker "):
                out.setdefault(actor["node"], []).append(int(actor["id"].split()[1]))
        return {node: sorted(numbers) for node, numbers in out.items()}

    def until_workers_are(self, expected):
        deadline = time.monotonic() + DEADLINE_S
        while (now := self.workers()) != expected:
            self.assertLess(time.monotonic(), deadline, f"{now} is not yet {expected}")
            select_nothing()

    def test_nodes_that_join_bring_workers_and_take_them_along(self):
        self.grow_and_shrink()

    def test_beside_an_aggregator_too(self):
        self.grow_and_shrink("--set", "protocol.fan_in=node", aggregators=["aggregator 1"])

    def grow_and_shrink(self, *more, aggregators=()):
        self.cluster("ab")
        run = self.submit(*GROWS, *more, job=ENDLESS)
        self.wait_for_line(run, "^step ")
        sums = [actor["id"] for actor in self.ask("ps")[0]["actors"] if actor["role"] == "aggregator"]
        self.assertEqual(sums, list(aggregators))
        self.assertEqual(self.workers(), {"b": [0, 1]})
        self.node("c")
        self.wait_for_line(run, "node c joins the job")
        self.until_workers_are({"b": [0, 1], "c": [2, 3]})
        self.node("d")
        self.until_workers_are({"b": [0, 1], "c": [2, 3], "d": [4]})
        self.ask("drain c")
        self.until_workers_are({"b": [0, 1], "d": [4]})
        self.ask("undrain c")
        self.until_workers_are({"b": [0, 1], "c": [2, 3], "d": [4]})
        self.nodes["d"].kill()
        self.wait_for_line(run, r"worker 4 \(d\) is lost")
        self.wait_for_line(run, "^step ")
        self.ask("stop 1")
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn('"restarts":2', out.replace(" ", ""), "those of c, which was there before")

    def test_a_job_grows_onto_free_nodes_and_jobs_that_wait_come_first(self):
        self.cluster("abcd")
        first = self.submit("--json", "--set", "cluster.nodes=4", "--set", "cluster.workers=3", job=ENDLESS)
        self.wait_for_line(first, "^step ")
        grows = self.submit(*GROWS, job=ENDLESS, name="grows.toml")
        self.wait_for_line(grows, "waits: ")
        third = self.submit("--json", "--set", "cluster.nodes=2", "--set", "cluster.workers=1", job=ENDLESS, name="third.toml")
        self.wait_for_line(third, "waits: ")
        self.ask("stop 1")
        self.wait_for_line(third, "^step ")
        self.wait_for_line(grows, "joins the job")
        jobs = {job["number"]: job["nodes"] for job in self.ask("jobs")[0]["jobs"]}
        self.assertEqual({number: len(nodes) for number, nodes in jobs.items()}, {2: 3, 3: 2}, jobs)
        self.ask("stop 3")
        self.wait_for_line(grows, "joins the job")
        self.assertEqual(sum(map(len, self.workers().values())), 5)


if __name__ == "__main__":
    cluster_test.main()
