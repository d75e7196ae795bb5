#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A coordinator that is killed and started again: its queue, its jobs, and their clients.

usage: survival_test.py TROUPE [unittest arguments]
"""
import os
import pathlib
import signal
import time

import cluster_test
import connections
from bootstrap_test import BootstrapTest
from cluster_test import DEADLINE_S, JOB, select_nothing

# So slow that it can be killed in its middle, however fast the machine; 120 steps of 20 ms.
SLOW = JOB.replace("epochs = 2", "steps = 120").replace("workers = 4", "workers = 2").replace("[stop]", "[evaluate]\nevery_s = 3600.0\n[stop]")
SLOW += "[inject]\nstep_ms = 20\n"
KEPT = SLOW + '[checkpoint]\ndir = "{}"\nevery_steps = 10\n'
GOES_ON = "ran when the coordinator was lost, and goes on where it is; 2 of its 2 nodes are back"
ENDLESS = SLOW.replace("steps = 120", "steps = 1000000")


class SurvivalTest(BootstrapTest):
    NAMES = "abc"

    def setUp(self):
        super().setUp()
        self.file = self.with_journal()

    def with_journal(self, orphan_s=30, journal="journal", name="kept.toml"):
        text = pathlib.Path(self.cluster_file("plain.toml", names=self.NAMES)).read_text(encoding="utf-8")
        head, nodes = text.split("[[node]]", 1)
        return self.path(name, f'{head}[cluster]\njournal = "{self.path(journal)}"\norphan_s = {orphan_s}\n[[node]]{nodes}')

    def kill_coordinator(self):
        self.nodes["a"].send_signal(signal.SIGKILL)
        self.nodes["a"].wait()

    def kill_all(self):
        self.kill_coordinator()
        for name in "bc":
            self.nodes[name].kill()
            self.nodes[name].wait()

    def detach(self, job, name):
        out, err = self.finish(run := self.submit("--detach", job=job, name=name))
        self.assertEqual(run.returncode, 0, err)
        return int(out)

    def until_checkpoint(self, folder, step):
        deadline = time.monotonic() + DEADLINE_S
        while not any(int(each.parent.name.removeprefix("step-")) >= step for each in pathlib.Path(folder).glob("step-*/manifest")):
            self.assertLess(time.monotonic(), deadline, "no checkpoint")
            select_nothing()

    def until_ended(self, numbers):
        deadline, ended = time.monotonic() + DEADLINE_S, {}
        while sorted(ended) != numbers:
            self.assertLess(time.monotonic(), deadline, ended)
            ended = {each["number"]: each for each in self.ask("jobs")[0]["ended"]}
        return ended

    def events(self, number):
        return [each["text"] for each in self.ask(f"events {number}")[0]["events"]]


class Queue(SurvivalTest):
    def test_jobs_outlive_their_coordinator(self):
        self.cluster("abc")
        kept = self.path("checkpoints")
        self.assertEqual(self.detach(KEPT.format(kept), "first.toml"), 1)
        self.assertEqual(self.detach(SLOW, "second.toml"), 2)
        self.until_checkpoint(kept, 20)
        self.kill_coordinator()
        self.assertRegex(self.wait_for_line(self.nodes["b"], "waiting for it to come back"), "the coordinator is gone")
        self.node("a", wait="coordinator of")
        self.assertEqual(self.detach(SLOW, "third.toml"), 3, "numbers go on")
        ended = self.until_ended([1, 2, 3])
        for number in (1, 2, 3):
            self.assertEqual((ended[number]["state"], ended[number]["steps"]), ("has ended: made 120 steps", 120))
        first = self.events(1)
        self.assertIn(GOES_ON, first)
        self.assertEqual(self.events(2)[0], "was in the queue when the coordinator was lost, and still is")
        self.assertEqual([each for each in first if "starts on" in each], [])
        # The bits are those of a run that nothing has disturbed.
        alone = self.run_job("--nodes", "3", job=SLOW)
        saved = self.path("late.safetensors")
        result, _ = self.result_of(self.attach(1, "--json", "--save", saved, job=KEPT.format(kept), name="first.toml"))
        self.assertEqual(result["weights_digest"], alone["weights_digest"])
        # What has ended is not run again, and is known.
        self.kill_coordinator()
        self.node("a", wait="coordinator of")
        self.assertEqual(self.ask("jobs")[0]["jobs"], [])
        self.assertEqual({each["number"] for each in self.ask("jobs")[0]["ended"]}, {2, 3}, "1 was fetched")
        result, err = self.result_of(self.attach(2, "--json", job=SLOW, name="second.toml"))
        self.assertEqual((result["steps"], result["weights_digest"]), (120, None), err)

    def test_a_job_whose_nodes_are_gone_goes_on_from_its_checkpoint(self):
        self.cluster("abc")
        kept = self.path("checkpoints")
        self.detach(KEPT.format(kept), "first.toml")
        self.until_checkpoint(kept, 20)
        self.kill_all()
        self.cluster("abc")
        self.assertEqual(self.until_ended([1])[1]["steps"], 120)
        said = self.events(1)
        self.assertIn("cannot go on as it is: its roles are gone", said)
        self.assertRegex("\n".join(said), rf"(?m)^ran when the coordinator was lost, and goes on from {kept}/step-\d+$")
        result, _ = self.result_of(self.attach(1, "--json", job=KEPT.format(kept), name="first.toml"))
        self.assertEqual(result["weights_digest"], self.run_job("--nodes", "3", job=SLOW)["weights_digest"])

    def test_a_job_without_nodes_and_checkpoints_begins_again_and_says_so(self):
        self.cluster("abc")
        self.detach(SLOW, "first.toml")
        deadline = time.monotonic() + DEADLINE_S
        while not (jobs := self.ask("jobs")[0]["jobs"]) or jobs[0]["steps"] < 5:
            self.assertLess(time.monotonic(), deadline)
        self.kill_all()
        self.cluster("abc")
        ended = self.until_ended([1])
        self.assertEqual(ended[1]["steps"], 120)
        self.assertIn("ran when the coordinator was lost, and begins again at step 0: it keeps no checkpoints ([checkpoint] dir)",
                      self.events(1))


class Clients(SurvivalTest):
    def test_a_client_comes_back_to_its_job(self):
        self.cluster("abc")
        kept = self.path("checkpoints")
        run = self.submit("--json", job=KEPT.format(kept))
        self.until_checkpoint(kept, 20)
        self.kill_coordinator()
        self.wait_for_line(run, "the cluster's coordinator is gone: .*; its jobs are kept, and it is looked for during 30 s")
        self.node("a", wait="coordinator of")
        self.wait_for_line(run, "the coordinator is back; this follows job 1 again")
        self.wait_for_line(run, f"job 1 {GOES_ON}")
        result, _ = self.result_of(run)
        self.assertEqual((result["steps"], result["error"]), (120, None))
        self.assertEqual(result["weights_digest"], self.run_job("--nodes", "3", job=SLOW)["weights_digest"])
        self.assertEqual(self.ask("jobs")[0]["jobs"], [])

    def test_a_job_whose_client_does_not_come_back_ends(self):
        self.file = self.with_journal(orphan_s=2)
        self.cluster("abc")
        run = self.submit("--json", job=ENDLESS)
        self.wait_for_line(run, "^step ")
        run.send_signal(signal.SIGSTOP)
        self.kill_coordinator()
        run.kill()
        self.node("a", wait="coordinator of")
        self.assertRegex(self.until_ended([1])[1]["state"], "its client did not come back within 2 s")

    def test_a_client_gives_up_where_nobody_comes_back(self):
        self.file = self.with_journal(orphan_s=2)
        self.cluster("abc")
        run = self.submit("--json", job=ENDLESS)
        self.wait_for_line(run, "^step ")
        self.kill_coordinator()
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 1, err)
        self.assertIn("did not come back within 2 s", err)

    def test_ctrl_c_ends_the_wait(self):
        self.cluster("abc")
        run = self.submit("--json", job=ENDLESS)
        self.wait_for_line(run, "^step ")
        self.kill_coordinator()
        self.wait_for_line(run, "it is looked for")
        run.send_signal(signal.SIGINT)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("is in the journal of the coordinator that is gone, and ends 30 s after that is back", err)

    def test_without_a_journal_its_end_is_the_clients(self):
        self.file = self.cluster_file("plain.toml", names="abc")
        self.cluster("abc")
        run = self.submit("--json", job=ENDLESS)
        self.wait_for_line(run, "^step ")
        self.kill_coordinator()
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 1, err)
        self.assertIn("the job failed: the cluster's coordinator is gone", err)


class Connections(SurvivalTest):
    """The connection between a client and its coordinator is reset, and both live."""

    def setUp(self):
        super().setUp()
        if why := connections.cannot_reset():
            self.skipTest(why)

    def reset(self, run):
        """Until there is none of before."""
        old = set(connections.sockets([run.pid]))
        self.assertTrue(old)
        for own, other in old:
            connections.reset(own, other)
        self.assertFalse(old & set(connections.sockets([run.pid])))

    def test_a_client_comes_back_over_a_new_connection(self):
        alone = self.run_job("--nodes", "3", job=SLOW)
        for file, said in [(self.file, "its jobs are kept"), (self.cluster_file("plain.toml", names="abc"), "it is dialled again for 5 s")]:
            with self.subTest(said):
                self.file = file
                self.cluster("abc")
                run = self.submit("--json", job=SLOW)
                self.wait_for_line(run, "^step ")
                self.reset(run)
                self.wait_for_line(run, said)
                self.wait_for_line(run, "this follows job 1 again")
                self.wait_for_line(run, "^step ")
                result, _ = self.result_of(run)
                self.assertEqual((result["steps"], result["error"]), (120, None))
                self.assertEqual(result["weights_digest"], alone["weights_digest"])
                self.assertEqual(self.ask("jobs")[0]["jobs"], [])
                self.kill_all()

    def test_one_that_waits_keeps_its_place(self):
        self.cluster("ab")
        first = self.submit("--json", job=SLOW.replace("workers = 2", "workers = 3"))
        second = self.submit("--json", job=SLOW, name="second.toml")
        for run in first, second:
            self.wait_for_line(run, "waits: .*c has not joined|waits: job")
            self.reset(run)
            self.wait_for_line(run, "this follows job")
        self.node("c", wait="joined")
        for run in first, second:
            self.assertEqual(self.result_of(run)[0]["steps"], 120)


class Refused(SurvivalTest):
    def refusal(self, file=None, code=1):
        _, err = self.finish(node := self.node("a", file=file))
        self.assertEqual(node.returncode, code, err)
        return err

    def test_a_journal_that_cannot_be_written(self):
        self.path("taken", "a file")
        err = self.refusal(self.with_journal(journal="taken/journal", name="bad.toml"), code=2)
        self.assertRegex(err, r"bad.toml:3:11: cluster.journal = .*taken/journal\" cannot be written: .*/taken is no folder; give a folder")

    def test_a_second_process_with_the_same_journal(self):
        self.node("a", wait="coordinator of")
        self.assertIn("another process has this journal; end that one", self.refusal())

    def test_a_damaged_journal_is_named_with_file_and_byte(self):
        self.node("a", wait="coordinator of")
        self.detach(SLOW, "first.toml")
        self.detach(SLOW, "second.toml")
        self.kill_coordinator()
        path = self.path("journal/journal-1")
        whole = bytearray(pathlib.Path(path).read_bytes())
        whole[len(whole) // 2] ^= 0xff
        pathlib.Path(path).write_bytes(whole)
        err = self.refusal()
        self.assertRegex(err, f"node a cannot use its journal: {path}: damaged at byte \\d+")
        self.assertEqual(pathlib.Path(path).read_bytes(), whole, "nothing is changed")

    def test_a_journal_that_fails_takes_no_further_jobs_and_those_that_are_there_go_on(self):
        self.node("a", wait="coordinator of")
        for name in "bc":
            self.node(name, wait="joined")
        self.detach(ENDLESS, "first.toml")
        import resource
        size = os.path.getsize(self.path("journal/journal-1"))
        resource.prlimit(self.nodes["a"].pid, resource.RLIMIT_FSIZE, (size + 16, resource.RLIM_INFINITY))
        _, err = self.finish(run := self.submit("--detach", job=SLOW, name="second.toml"))
        self.assertEqual(run.returncode, 1, err)
        self.assertRegex(err, "the coordinator's journal failed, and it takes no further jobs: .*journal-1: .*start its node again")
        jobs = self.ask("jobs")[0]["jobs"]
        self.assertEqual([(each["number"], each["state"]) for each in jobs], [(1, "runs")])
        self.ask("stop 1")
        self.assertEqual(self.until_ended([1])[1]["state"], "has ended: stopped at the console")


if __name__ == "__main__":
    cluster_test.main()
