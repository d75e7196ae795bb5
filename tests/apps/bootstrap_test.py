#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts clusters node by node from a file, in any order, kills and restarts nodes, and submits jobs to them.

usage: bootstrap_test.py TROUPE [unittest arguments]
"""
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

import cluster_test
from cluster_test import DEADLINE_S, ENDLESS, JOB, ClusterTest

SEED = int(os.environ.get("TROUPE_TEST_SEED", "1"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class BootstrapTest(ClusterTest):
    ROLES = {"a": '["coordinator", "shard"]'}

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.file = self.cluster_file("lab.toml")
        self.nodes = {}

    def cluster_file(self, name, cluster="lab", names="abcd"):
        text = f'name = "{cluster}"\n'
        for node in names:
            text += f'[[node]]\nname = "{node}"\nhost = "127.0.0.1"\nport = {self.port if node == "a" else 0}\n'
            if node in self.ROLES:
                text += f"roles = {self.ROLES[node]}\n"
        return self.path(name, text)

    def node(self, name, file=None, wait=None):
        """Starts a node; with `wait` returns once its log has such a line."""
        run = subprocess.Popen([cluster_test.TROUPE, "node", file or self.file, "--name", name], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
        run.stdout = open(os.devnull, encoding="utf-8")  # so that `end` has something to close
        self.addCleanup(self.end, run)
        if wait:
            self.wait_for_line(run, wait)
        self.nodes[name] = run
        return run

    def cluster(self, names="abcd"):
        for name in names:
            self.node(name, wait="coordinator of" if name == "a" else "joined")

    def submit(self, *arguments, job=JOB, name="job.toml"):
        run = subprocess.Popen([cluster_test.TROUPE, "run", self.path(name, job), "--cluster", self.file, *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, run)
        return run

    def result_of(self, run):
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 0, err)
        return json.loads(out.splitlines()[-1]), err


class Nodes(BootstrapTest):
    def test_nodes_start_in_any_order_and_the_job_waits_for_them_by_name(self):
        order = list("abcd")
        random.Random(SEED).shuffle(order)
        if order[-1] == "a":
            order.reverse()  # so that there is somebody to submit to while another is missing
        for name in order[:-1]:
            self.node(name)
        self.wait_for_line(self.nodes["a"], "coordinator of")
        run = self.submit("--json")
        self.wait_for_line(run, f"waits: .*node {order[-1]} has not joined")
        self.node(order[-1])
        result, _ = self.result_of(run)
        self.assertEqual(result["nodes"], 4)
        embedded = self.run_job("--nodes", "4")
        self.assertEqual(result["weights_digest"], embedded["weights_digest"], f"order {order}")

    def test_a_node_that_dies_and_comes_back_works_again(self):
        self.cluster()
        run = self.submit("--json", job=ENDLESS.replace("epochs = 100000", "samples = 400000"))
        self.wait_for_line(run, "^step ")
        self.nodes["c"].kill()
        self.wait_for_line(run, r"worker \d+ \(c\) is lost")
        self.wait_for_line(run, "^step ")
        self.node("c")
        self.wait_for_line(run, "node c is back")
        log = self.path("log.jsonl")
        result, err = self.result_of(run)
        self.assertGreaterEqual(result["samples"], 400000, log)
        self.assertNotIn("lost", err)  # after its return
        self.assertLess(result["train_loss"], 0.1)

    def test_a_job_whose_node_dies_before_it_begins_begins_anew(self):
        self.cluster()
        os.kill(self.nodes["c"].pid, signal.SIGSTOP)  # it will not answer, so the job cannot begin
        run = self.submit("--json")
        self.wait_for_line(self.nodes["a"], "job 1 starts on a, b, c, d")
        self.nodes["c"].kill()
        self.wait_for_line(run, "the job begins anew: node c was lost before the job started")
        self.wait_for_line(run, "waits: .*node c has not joined")
        self.node("c")
        result, _ = self.result_of(run)
        self.assertEqual(result["nodes"], 4)

    def test_the_coordinator_comes_back_and_the_nodes_find_it(self):
        self.cluster()
        self.nodes["a"].kill()
        for name in "bcd":
            self.wait_for_line(self.nodes[name], "the coordinator is gone; waiting")
        self.node("a")
        for name in "bcd":
            self.wait_for_line(self.nodes[name], "joined")
        result, _ = self.result_of(self.submit("--json"))
        self.assertGreater(result["steps"], 0)

    def test_a_node_leaves_in_order(self):
        self.cluster()
        run = self.submit(job=ENDLESS)
        self.wait_for_line(run, "^step ")
        self.nodes["b"].send_signal(signal.SIGTERM)
        self.wait_for_line(run, r"node b leaves")
        self.assertEqual(self.nodes["b"].wait(DEADLINE_S), 0)
        self.wait_for_line(run, "^step ")
        self.nodes["c"].send_signal(signal.SIGTERM)
        self.nodes["d"].send_signal(signal.SIGTERM)
        self.wait_for_line(self.nodes["a"], "node [cd] wants to leave")
        self.wait_for_line(self.nodes["a"], "node [cd] wants to leave")
        run.send_signal(signal.SIGINT)  # the last of them stays until the job has ended
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        for name in "cd":
            self.assertEqual(self.nodes[name].wait(DEADLINE_S), 0)

    def test_the_whole_cluster_may_be_told_to_end_at_once(self):
        self.cluster()
        for name in "abcd":
            self.nodes[name].send_signal(signal.SIGTERM)
        for name in "abcd":
            self.assertEqual(self.nodes[name].wait(DEADLINE_S), 0, name)

    def test_metrics_are_served_as_prometheus_takes_them(self):
        metrics = free_port()
        with open(self.file, encoding="utf-8") as file:
            text = file.read()
        self.file = self.path("lab.toml", text.replace(f"port = {self.port}\n", f"port = {self.port}\nmetrics_port = {metrics}\n", 1))
        self.cluster()
        run = self.submit(job=ENDLESS)
        self.wait_for_line(run, "^step ")
        deadline = time.monotonic() + 60
        while True:
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=30) as answer:
                text = answer.read().decode()
            steps = re.search(r'^troupe_job_steps\{job="1 small"\} (\S+)', text, re.M)
            if steps and float(steps[1]) > 0:
                break
            self.assertLess(time.monotonic(), deadline, text)
        for name in ("troupe_job_samples", "troupe_job_training_seconds", "troupe_job_test_accuracy_ratio", "caf_actor_mailbox_size",
                     "caf_actor_processing_time_seconds_count"):
            self.assertRegex(text, rf"(?m)^{name}\{{")
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) [a-z_]+ .*|[a-z_]+(\{([a-z_]+="[^"]*",?)*\})? -?([0-9.e+-]+|NaN|Inf)( [0-9]+)?)$')

    def test_strangers_are_told_why(self):
        self.node("a", wait="coordinator of")
        for names, arguments, reason in [("abcdx", ["x"], 'names no node "x"'), ("abcd", ["zz"], 'it has no node "zz"')]:
            file = self.cluster_file("other.toml", names=names)
            done = subprocess.run([cluster_test.TROUPE, "node", file, "--name", *arguments], capture_output=True, text=True,
                                  timeout=DEADLINE_S, check=False)
            self.assertIn(reason, done.stderr)
            self.assertIn(done.returncode, (1, 2))
        other = self.node("b", file=self.cluster_file("elsewhere.toml", cluster="elsewhere"))
        self.wait_for_line(other, "refused while connecting: another cluster")
        taken = subprocess.run([cluster_test.TROUPE, "node", self.file, "--name", "a"], capture_output=True, text=True,
                               timeout=DEADLINE_S, check=False)
        self.assertEqual(taken.returncode, 1)
        self.assertIn("cannot listen", taken.stderr)


class Jobs(BootstrapTest):
    def test_jobs_queue_and_those_that_fit_run_side_by_side(self):
        self.cluster()
        two = ENDLESS.replace("workers = 4", "workers = 1")
        first = self.submit("--nodes", "2", job=two, name="first.toml")
        self.wait_for_line(first, "^step ")
        second = self.submit("--nodes", "3", job=two.replace("workers = 1", "workers = 2"), name="second.toml")
        self.wait_for_line(second, "^step ")
        third = self.submit("--nodes", "2", "--json", job=JOB.replace("workers = 4", "workers = 1"), name="third.toml")
        self.wait_for_line(third, r"waits: it needs 2 nodes: .*runs job [12]")
        first.send_signal(signal.SIGINT)
        self.finish(first)
        self.assertEqual(first.returncode, 130)
        result, _ = self.result_of(third)
        self.assertGreater(result["steps"], 0)
        second.kill()  # a client that dies takes its job along
        self.wait_for_line(self.nodes["a"], "job 2 has ended: whoever submitted it is gone")
        last, _ = self.result_of(self.submit("--json"))
        self.assertEqual(last["nodes"], 4)

    def test_weights_and_trace_come_to_the_client(self):
        self.cluster()
        weights, trace = self.path("w.safetensors"), self.path("t.json")
        result, _ = self.result_of(self.submit("--json", "--save", weights, "--trace", trace))
        done = subprocess.run([cluster_test.TROUPE, "evaluate", self.path("job.toml"), "--weights", weights, "--json"],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["weights_digest"], result["weights_digest"])
        with open(trace, encoding="utf-8") as file:
            names = {event["args"]["name"] for event in json.load(file)["traceEvents"] if event["ph"] == "M"}
        self.assertLessEqual({"coordinator", "shard 0", "worker 0", "worker 3"}, names)

    def test_every_job_that_cannot_run_is_refused_at_once(self):
        nobody = self.submit()
        _, err = self.finish(nobody)
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("cannot reach the cluster's coordinator, node a at", err)
        self.cluster("a")
        too_many = self.submit("--nodes", "5")
        _, err = self.finish(too_many)
        self.assertEqual(too_many.returncode, 1)
        self.assertIn("the job wants 5 nodes and the cluster has 4", err)
        alone = self.submit("--nodes", "1")
        _, err = self.finish(alone)
        self.assertIn("may hold no workers", err)


if __name__ == "__main__":
    cluster_test.TROUPE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
