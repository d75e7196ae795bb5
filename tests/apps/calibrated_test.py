#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `simulate` and `check` make of the trace of a real run.

usage: calibrated_test.py TROUPE [unittest arguments].
"""
import json
import subprocess

import cluster_test
from cluster_test import DEADLINE_S, JOB, ClusterTest


class Calibrated(ClusterTest):
    def simulate(self, trace, *arguments):
        return subprocess.run([cluster_test.TROUPE, "simulate", self.path("job.toml", JOB), "--json", "--calibrate", trace, *arguments],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def test_the_simulator_replays_a_run(self):
        emulated = ("--set", "inject.step_ms=10", "--set", "stop.steps=40")
        real = self.run_job("--nodes", "2", "--trace", self.path("t.json"), *emulated)
        done = self.simulate(self.path("t.json"), *emulated)
        self.assertEqual(done.returncode, 0, done.stderr)
        played = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual((played["steps"], played["gradients"]), (real["steps"], real["gradients"]))
        ratio = played["virtual_seconds"] / real["seconds"]
        self.assertTrue(0.7 < ratio < 1.4, f"{played['virtual_seconds']} s for {real['seconds']} s, however long they were")

    def test_over_a_link_it_hides_what_it_may_behind_computing(self):
        trace = self.path("t.json")
        keys = ("cluster.nodes=2", "cluster.workers=2", "cluster.placement=colocated", "exchange.partition_kib=16", "stop.steps=30",
                'model.layers=["flatten", "linear 16 relu", "linear 512 relu", "linear 64 relu", "linear 10"]')
        hosts = [word for each in keys for word in ("--set", each)]
        self.run_job(*hosts, "--trace", trace)
        over = [*hosts, "--set", "inject.link.mbit=400"]
        least = self.check(trace, *over)
        took = {}
        for overlap in "true", "false":
            done = self.simulate(trace, *over, "--set", f"exchange.overlap={overlap}")
            self.assertEqual(done.returncode, 0, done.stderr)
            played = json.loads(done.stdout.splitlines()[-1])
            took[overlap] = 1000 * played["virtual_seconds"] / played["steps"]
        self.assertLess(took["true"], took["false"])
        self.assertGreater(took["true"], 0.95 * max(least["computing_ms"], least["link_ms"]))
        self.assertGreater(took["false"], 0.95 * (least["computing_ms"] + least["link_ms"]))
        self.assertIsNone(self.check(trace, *hosts)["link_ms"], "the job says of no link")

    def check(self, trace, *arguments):
        done = subprocess.run([cluster_test.TROUPE, "check", self.path("job.toml", JOB), "--json", "--calibrate", trace, *arguments],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["network"]

    def test_what_is_no_trace_is_refused_by_name(self):
        text = self.path("no.json", "{")
        for path in (text, self.path("absent.json")):
            done = self.simulate(path)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertTrue(done.stderr.startswith(path + ": "), done.stderr)
            done = subprocess.run([cluster_test.TROUPE, "check", self.path("job.toml", JOB), "--calibrate", path], capture_output=True, text=True,
                                  timeout=DEADLINE_S, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertTrue(done.stderr.startswith(path + ": "), done.stderr)


if __name__ == "__main__":
    cluster_test.main()
