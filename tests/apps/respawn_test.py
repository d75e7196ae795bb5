#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kills processes that `run` has started: it starts them anew, and their workers come back to the job.

usage: respawn_test.py TROUPE [unittest arguments]
"""
import json
import os
import re
import signal

import cluster_test
from cluster_test import ENDLESS, JOB, ClusterTest, select_nothing

# Steps of 20 ms, each over the same number of samples: 4 workers' batches of 16.
SLOW = JOB.replace("train_samples = 1200", "train_samples = 1280").replace("epochs = 2", "steps = 600")
EMULATED = ("--set", "inject.step_ms=20")
LIMIT = 5  # new processes within a minute


class RespawnTest(ClusterTest):
    def setUp(self):
        super().setUp()
        self.pids = set()

    def begin(self, *arguments, job=SLOW, nodes=3):
        """A run of which each child is known."""
        run = self.start("--nodes", str(nodes), "--json", *EMULATED, *arguments, job=job)
        self.pids |= set(self.children(run))
        self.assertEqual(len(self.pids), nodes - 1)
        return run

    def child(self, run, name):
        """The process of a node; one that has just been started has no name of its own for a moment."""
        while run.poll() is None:
            for pid in self.children(run):
                try:
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as words:
                        if f"--name\0{name}\0" in words.read():
                            return pid
                except (FileNotFoundError, ProcessLookupError):
                    pass  # it has ended
            select_nothing()
        return self.fail(f"the run ended without a process {name}")

    def kill(self, run, name):
        pid = self.child(run, name)
        self.pids.add(pid)
        os.kill(pid, signal.SIGKILL)
        self.wait_for_line(run, rf"{name} was killed by signal 9 \(Killed\)")

    def end_of(self, run, code=0):
        """The result, and what was said since."""
        self.pids |= set(self.children(run))
        out, err = self.finish(run)
        self.assertEqual(run.returncode, code, err)
        self.assert_gone(self.pids)
        return json.loads(out.splitlines()[-1]), err

    def progress(self, path):
        with open(path, encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        return [(line["step"], line["samples"]) for line in lines if line["kind"] == "progress"]


class Respawn(RespawnTest):
    def test_a_killed_child_is_started_anew_and_its_workers_come_back(self):
        self.assert_comes_back()

    def assert_comes_back(self, *sets):
        log = self.path("log.jsonl")
        run = self.begin("--log", log, *sets)
        self.kill(run, "node-1")
        self.wait_for_line(run, "node-1 is started anew")
        self.wait_for_line(run, "node node-1 is back")
        before = len(self.progress(log))
        result, err = self.end_of(run)
        self.assertEqual((result["restarts"], result["steps"]), (2, 600), err)  # two of the four workers
        self.assertNotIn("lost", err)
        while_all_work = self.progress(log)[before + 1:]  # the round that was under way did not have them
        self.assertGreater(len(while_all_work), 1, "a machine on which nothing takes long")
        (first, some), (last, more) = while_all_work[0], while_all_work[-1]
        self.assertEqual(more - some, 64 * (last - first), "a step is over the batches of all four")

    def test_one_child_that_dies_again_and_again_stays_dead_in_the_end(self):
        run = self.begin()
        for _ in range(LIMIT):  # each before it is back, most before they join
            self.kill(run, "node-1")
            self.wait_for_line(run, "node-1 is started anew")
        self.kill(run, "node-1")
        said = self.wait_for_line(run, "node-1 is not started anew")
        self.assertIn(f"that was done {LIMIT} times within a minute", said)
        self.assertEqual(self.children(run), [self.child(run, "node-2")])
        result, err = self.end_of(run)
        self.assertEqual(result["steps"], 600, err)
        self.assertNotRegex(err, "anew|could not")

    def test_without_it_the_job_goes_on_without_the_child(self):
        run = self.begin("--set", "cluster.respawn=false", "--set", "stop.steps=200")
        self.kill(run, "node-1")
        self.assertEqual(self.children(run), [self.child(run, "node-2")])
        result, err = self.end_of(run)
        self.assertEqual((result["restarts"], result["steps"]), (0, 200), err)
        self.assertLess(result["samples"], 200 * 64)
        self.assertNotIn("anew", err)

    def test_below_a_tree_too(self):
        for fan_in in ("2", '"node"'):
            with self.subTest(fan_in=fan_in):
                self.pids = set()
                self.assert_comes_back("--set", f"protocol.fan_in={fan_in}")

    def test_a_child_with_which_the_job_ends_is_not_started_anew(self):
        for arguments, why in (("--set", "cluster.placement=colocated"), "shard 1"), ((), "no workers are left"):
            with self.subTest(why):
                self.pids = set()
                run = self.begin(*arguments, nodes=2)
                os.kill(self.child(run, "node-1"), signal.SIGKILL)
                result, err = self.end_of(run, code=1)
                self.assertIn(why, result["error"])
                self.assertNotIn("anew", err)

    def test_ctrl_c_ends_a_child_that_has_not_joined_yet(self):
        run = self.begin(job=ENDLESS)
        self.kill(run, "node-1")
        self.wait_for_line(run, "node-1 is started anew")
        run.send_signal(signal.SIGINT)
        result, _ = self.end_of(run, code=130)
        self.assertEqual(result["interrupted"], "interrupted")

    def test_a_new_child_does_not_outlive_its_parent_and_inherits_no_connection(self):
        run = self.begin(job=ENDLESS)
        self.kill(run, "node-1")
        self.wait_for_line(run, "node node-1 is back")
        child, sockets = self.child(run, "node-1"), []
        for pid in child, run.pid:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if os.path.lexists(f"/proc/{pid}/fd/{fd}")]
            sockets.append({link for link in links if re.match("socket:", link)})
        self.assertTrue(all(sockets))
        self.assertFalse(sockets[0] & sockets[1])
        run.kill()
        run.wait()
        self.assert_gone({*self.pids, child})


if __name__ == "__main__":
    cluster_test.main()
