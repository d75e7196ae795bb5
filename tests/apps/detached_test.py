#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that go on without whoever submitted them, and whoever follows them later.

usage: detached_test.py TROUPE [unittest arguments]
"""
import json
import os
import signal
import subprocess
import time

import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import DEADLINE_S, ENDLESS, JOB


class Detached(BootstrapTest):
    def detach(self, job, *arguments):
        """Its number."""
        out, err = self.finish(run := self.submit("--detach", *arguments, job=job))
        self.assertEqual(run.returncode, 0, err)
        self.assertIn("goes on by itself", err)
        return out

    def jobs(self, state):
        return self.ask("jobs")[0][state]

    def until_ended(self, number):
        deadline = time.monotonic() + DEADLINE_S
        while not (found := [each for each in self.jobs("ended") if each["number"] == number]):
            self.assertLess(time.monotonic(), deadline)
        return found[0]

    def until_further(self):
        """The job makes a few more steps."""
        before, deadline = self.jobs("jobs")[0]["steps"], time.monotonic() + DEADLINE_S
        while self.jobs("jobs")[0]["steps"] <= before + 3:
            self.assertLess(time.monotonic(), deadline, "it does not go on")

    def test_it_goes_on_without_its_submitter_is_followed_and_left_and_ends_when_told(self):
        self.cluster()
        self.assertEqual(self.detach(ENDLESS), "1\n")
        self.until_further()
        self.assertEqual(self.ask("loss 1")[0]["state"], "runs")
        self.assertEqual(self.ask("events 1")[0]["events"][0]["text"], "is submitted, as small")
        for end in (signal.SIGINT, signal.SIGKILL):
            follower = self.attach(1, job=ENDLESS)
            self.wait_for_line(follower, "^step ")
            follower.send_signal(end)
            _, err = self.finish(follower)
            if end == signal.SIGINT:
                self.assertEqual(follower.returncode, 130, err)
                self.assertIn("job 1 goes on without this", err)
            self.until_further()
        self.ask("stop 1")
        ended = self.until_ended(1)
        self.assertEqual((ended["name"], ended["state"]), ("small", "has ended: stopped at the console"))
        out, err = self.finish(other := self.attach(1, "--seed", "5", job=ENDLESS))
        self.assertEqual((other.returncode, out), (1, ""), "it ended interrupted, which is not said of one that it is not")
        self.assertIn("the job failed: job 1 was submitted from another file, or with other flags; give those", err)

    def test_what_it_came_to_is_kept_for_whoever_attaches(self):
        self.cluster()
        self.assertEqual(json.loads(self.detach(JOB, "--json")), {"job": "small", "number": 1})
        ended = self.until_ended(1)
        saved = self.path("late.safetensors")
        result, _ = self.result_of(self.attach(1, "--json", "--save", saved))
        alone = self.run_job("--nodes", "4")
        for key in ("weights_digest", "steps", "test_accuracy", "config"):
            self.assertEqual(result[key], alone[key], key)
        self.assertTrue(os.path.getsize(saved) > 0)
        self.assertEqual((ended["steps"], ended["test_accuracy"]), (alone["steps"], alone["test_accuracy"]))
        _, err = self.finish(again := self.attach(1))
        self.assertEqual(again.returncode, 1)
        self.assertIn("cannot attach to job 1: there is no job 1 here, or its result is not kept any more", err)

    def test_it_waits_its_turn_without_its_submitter(self):
        self.cluster("abc")
        self.detach(JOB)
        self.assertRegex(self.jobs("jobs")[0]["state"], "waits: .*node d has not joined")
        follower = self.attach(1, "--json")
        self.wait_for_line(follower, "waits: .*node d has not joined")
        self.node("d", wait="joined")
        self.assertGreater(self.result_of(follower)[0]["steps"], 0)

    def test_a_job_of_another_kind_is_not_attached_to(self):
        self.cluster()
        own = self.submit(job=ENDLESS)
        self.wait_for_line(own, "^step ")
        self.detach(ENDLESS)  # it waits
        for arguments, reason in [((1,), "job 1 was submitted without --detach"),
                                  ((2, "--seed", "5"), "job 2 was submitted from another file, or with other flags"),
                                  ((7,), "there is no job 7 here")]:
            _, err = self.finish(stranger := self.attach(*arguments, job=ENDLESS))
            self.assertEqual(stranger.returncode, 1, err)
            self.assertIn(reason, err)
        own.kill()
        self.assertEqual(self.until_ended(1)["state"], "has ended: its client did not come back within 5 s")
        self.until_further()

    def test_flags_without_meaning_beside_it_are_refused(self):
        job = self.path("job.toml", JOB)
        for words, reason in [(("run", job, "--detach"), "--cluster"), (("run", job, "--attach", "1"), "not expected: --attach"),
                              (("run", job, "--cluster", self.file, "--detach", "--save", "x"), "--save"),
                              (("attach", self.file, "1"), "job is required"), (("attach",), "required"),
                              (("attach", self.file, "1", job, "--detach"), "not expected: --detach"),
                              (("attach", self.path("none.toml"), "1", job), "none.toml"),
                              (("attach", self.file, "none", job), "the number of a job")]:
            done = subprocess.run([cluster_test.TROUPE, *words], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    cluster_test.main()
