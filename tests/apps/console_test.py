#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The console beside clusters that run, stall, and end.

usage: console_test.py TROUPE [unittest arguments]
"""
import json
import os
import pty
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

import cluster_test
from bootstrap_test import SEED, BootstrapTest
from cluster_test import DEADLINE_S, ENDLESS


# Where a job of four workers and two shards places what it spawns, on nodes that may hold shards (a) or both: (id, node, job).
ROLES_OF_FOUR = ({("coordinator 0", "a", 1), ("evaluator 0", "a", 1), ("shard 0", "a", 1), ("shard 1", "a", 1)}
                 | {(f"node {x}", x, 1) for x in "abcd"}
                 | {(f"{role} {i}", node, 1) for i, node in enumerate("bbcd") for role in ("worker", "compute", "loader")})


class Console(BootstrapTest):
    def ask(self, *commands, code=0):
        """One object for each command."""
        arguments = [word for command in commands for word in ("-c", command)]
        done = subprocess.run([cluster_test.TROUPE, "console", "--cluster", self.file, "--json", *arguments], capture_output=True,
                              text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def running(self, *arguments, job=ENDLESS):
        self.cluster()
        run = self.submit(*arguments, job=job)
        self.wait_for_line(run, "^step ")
        return run

    def cause_of(self, actor, pattern):
        """Asks until the cause is named: the stall takes a moment to reach this actor."""
        deadline = time.monotonic() + 30
        while True:
            causes = self.ask(f"why {actor}")[0]["causes"]
            if len(causes) == 1 and re.search(pattern, causes[0]):
                return
            self.assertLess(time.monotonic(), deadline, f"why {actor}: {causes}")

    def test_ps_shows_all_that_was_placed_and_nothing_else(self):
        self.cluster()
        self.assertEqual(self.ask("jobs"), [{"jobs": []}])
        self.assertEqual(self.placed(), {(f"node {x}", x, 0) for x in "bcd"})
        run = self.submit("--set", "cluster.shards=2", job=ENDLESS)
        self.wait_for_line(run, "^step ")
        seen, jobs, nodes = self.ask("ps", "jobs", "nodes")
        self.assertEqual(self.placed(seen), ROLES_OF_FOUR)
        self.assertEqual([actor["id"] for actor in seen["actors"] if actor["role"] == "worker"], [f"worker {i}" for i in range(4)])
        for actor in seen["actors"]:
            self.assertFalse(actor["stuck"] or actor["ended"], actor)
            self.assertTrue(0 <= actor["busy"] <= 1 and actor["messages"] > 0, actor)
            if actor["role"] not in ("coordinator", "node"):
                self.assertEqual(actor["parent"], "node " + actor["node"])
            if actor["role"] in ("compute", "loader"):
                self.assertEqual(actor["watched_by"], "worker " + actor["id"].split()[1])
        self.assertEqual([(job["name"], job["state"]) for job in jobs["jobs"]], [("small", "runs")])
        self.assertEqual([node["pid"] for node in nodes["nodes"]][1:], [self.nodes[name].pid for name in "bcd"])
        self.assertEqual({(link["from"], link["to"]) for link in self.ask("links")[0]["links"]},
                         {(x, "a") for x in "bcd"} | {("a", x) for x in "bcd"})

    def placed(self, seen=None):
        actors = (seen or self.ask("ps")[0])["actors"]
        found = {(actor["id"], actor["node"], actor["job"]) for actor in actors}
        self.assertEqual(len(found), len(actors), "somebody is shown twice")
        return found

    def test_ps_is_complete_while_a_node_is_killed_and_comes_back(self):
        self.cluster()
        run = self.submit("--set", "cluster.shards=2", job=ENDLESS)
        self.wait_for_line(run, "^step ")
        lives_on_c = {role for role in ROLES_OF_FOUR if role[1] == "c"}
        self.assertEqual(self.placed(), ROLES_OF_FOUR)
        self.nodes["c"].kill()
        self.wait_for_line(run, r"worker 2 \(c\) is lost")
        seen = self.ask("ps")[0]
        self.assertEqual(self.placed(seen), ROLES_OF_FOUR - lives_on_c)
        self.assertEqual(seen["silent"], [{"node": "c", "reason": "it is gone"}])
        coordinator = next(actor for actor in seen["actors"] if actor["role"] == "coordinator")
        self.assertIn("worker 2 (c) is lost", coordinator["last_error"])
        self.assertFalse(any("worker 2" in actor["waits_for"] for actor in seen["actors"]))
        self.node("c")
        self.wait_for_line(run, "node c is back")
        seen = self.ask("ps")[0]
        self.assertEqual((self.placed(seen), seen["silent"]), (ROLES_OF_FOUR, []))
        self.nodes["d"].send_signal(signal.SIGTERM)
        self.wait_for_line(run, "node d leaves")
        self.assertEqual({role for role in self.placed() if role[1] != "d"}, {role for role in ROLES_OF_FOUR if role[1] != "d"})

    def test_an_actor_that_has_ended_is_shown_with_the_reason(self):
        self.running("--fault", "crash=worker:1,at_s=0.2")
        deadline = time.monotonic() + 60
        while not (ended := [actor for actor in self.ask("ps")[0]["actors"] if actor["ended"]]):
            self.assertLess(time.monotonic(), deadline)
        self.assertLessEqual({actor["id"] for actor in ended}, {"worker 1", "compute 1", "loader 1"})
        self.assertIn("[[inject.fault]] says so", ended[0]["last_error"])
        self.assertRegex(self.ask("why worker 1")[0]["causes"][0], r"^worker 1 on node b: it has ended: .*says so")

    def test_why_names_stopped_processes_in_time(self):
        """The other stalls are in stalls_test.cpp."""
        run = self.running()
        chance = random.Random(SEED)
        named = 0
        for _ in range(10):
            index = chance.randrange(3)
            process, stalled = self.nodes["bcd"[index]], "worker " + ["[01]", "2", "3"][index]
            asked = chance.choice(["coordinator", "shard 0"] + [f"worker {i}" for i in range(4) if not re.match(stalled, f"worker {i}")])
            os.kill(process.pid, signal.SIGSTOP)
            try:
                began = time.monotonic()
                causes = []
                while time.monotonic() - began < 5:
                    causes = self.ask(f"why {asked}")[0]["causes"]
                    if causes and all(re.match(f"{stalled}: it is on a node that does not answer: node {'bcd'[index]} ", each) for each in causes):
                        named += 1
                        break
                else:
                    print(f"seed {SEED}: node {'bcd'[index]} is stopped; why {asked}: {causes}", file=sys.stderr)
            finally:
                os.kill(process.pid, signal.SIGCONT)
            steps = self.steps()
            while self.steps() < steps + 3:  # before the next one
                self.assertIsNone(run.poll())
        self.assertGreaterEqual(named, 9)

    def steps(self):
        return self.ask("jobs")[0]["jobs"][0]["steps"]

    def test_why_finds_a_stopped_process(self):
        self.running()
        os.kill(self.nodes["c"].pid, signal.SIGSTOP)
        self.addCleanup(os.kill, self.nodes["c"].pid, signal.SIGCONT)
        # A node that says nothing for ten seconds is lost, and then nobody waits for it any more: one question has to do.
        self.cause_of("coordinator", r"^worker 2: it is on a node that does not answer: node c")
        self.assertIn(self.ask("ps")[0]["silent"], ([{"node": "c", "reason": "no answer in time"}], [{"node": "c", "reason": "it is gone"}]))

    def test_why_and_stragglers_find_a_slow_worker(self):
        self.running("--set", "inject.step_ms=40", "--straggler", "worker=1,factor=50")
        self.cause_of("worker 3", r"^worker 1 on node b: it computes")
        deadline = time.monotonic() + 30
        while [each["id"] for each in self.ask("stragglers")[0]["workers"] if each["verdict"]] != ["worker 1"]:
            self.assertLess(time.monotonic(), deadline)

    def test_stop_and_drain_do_what_they_say(self):
        run = self.running()
        self.assertEqual(self.ask("drain d")[0]["done"], True)
        self.wait_for_line(run, "node d leaves")
        self.assertNotIn("worker 3", [actor["id"] for actor in self.ask("ps")[0]["actors"]])
        self.ask("stop 7", code=1)
        self.ask("stop small")
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertEqual(self.ask("jobs")[0]["jobs"], [])

    def test_what_is_mistyped_gets_an_answer_and_harms_nothing(self):
        run = self.running()
        for command, reason in [("pss", "did you mean ps?"), ("why", "wants an actor"), ("show worker 9", "there is no actor"),
                                ("drain x", 'no node "x"'), ("help nothing", "there is no command"), ("watch ps", "wants a terminal")]:
            self.assertIn(reason, self.ask(command, code=1)[0]["error"])
        self.wait_for_line(run, "^step ")

    def test_a_person_talks_to_it_and_is_asked_before_anything_ends(self):
        run = self.running()
        person, terminal = pty.openpty()
        talk = subprocess.Popen([cluster_test.TROUPE, "console", "--cluster", self.file], stdin=terminal, stdout=terminal, stderr=terminal,
                                start_new_session=True, env={**os.environ, "HOME": self.folder.name, "TERM": "xterm"})
        os.close(terminal)
        self.addCleanup(talk.wait)
        self.addCleanup(talk.kill)
        said = ""

        def until(pattern):
            nonlocal said
            deadline = time.monotonic() + 60
            while not re.search(pattern, said, re.S):
                self.assertLess(time.monotonic(), deadline, said)
                if select.select([person], [], [], 1)[0]:
                    said += os.read(person, 4096).decode(errors="replace")
            said = ""

        until("troupe> ")
        os.write(person, b"ps worker\n")
        until(r"worker 3 .*troupe> ")
        os.write(person, b"sho\t shard:0\n")  # Tab completes the command
        until(r"shard 0 on node a: .*troupe> ")
        os.write(person, b"watch stragglers\n")
        until(r"median .*press Enter")
        os.write(person, b"\n")
        until("troupe> ")
        os.write(person, b"stop 1\n")
        until(r"stop job 1 .*\[y/N\] ")
        os.write(person, b"n\n")
        until(r"nothing was done.*troupe> ")
        self.wait_for_line(run, "^step ")
        os.write(person, b"stop 1\n")
        until(r"\[y/N\] ")
        os.write(person, b"y\n")
        until(r"job 1 ends.*troupe> ")
        self.finish(run)
        os.write(person, b"quit\n")
        self.assertEqual(talk.wait(60), 0)

    def test_a_run_of_its_own_can_be_looked_at_and_ended(self):
        for arguments, node in ((("--nodes", "2"), "node-1"), (("--nodes", "1", "--listen", "0"), "node-0")):
            run = subprocess.Popen([cluster_test.TROUPE, "run", self.path("job.toml", ENDLESS), *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
            self.addCleanup(self.end, run)
            address = re.search(r"troupe console (\S+)`", self.wait_for_line(run, "troupe console")).group(1)
            self.wait_for_line(run, "^step ")
            done = subprocess.run([cluster_test.TROUPE, "console", address, "--json", "-c", "ps worker", "-c", "stop 1"],
                                  capture_output=True, text=True, timeout=DEADLINE_S, check=True)
            seen, stopped = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual([(actor["id"], actor["node"]) for actor in seen["actors"]], [(f"worker {i}", node) for i in range(4)])
            self.assertTrue(stopped["done"])
            self.assertEqual(self.finish(run)[0], "")
            self.assertEqual(run.returncode, 130)

    def test_an_address_that_is_no_cluster_gets_an_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as mute:
            for address, code, said in ((f"127.0.0.1:{mute.getsockname()[1]}", 1, "cannot reach"), ("here", 2, "HOST:PORT"), (":7", 2, "HOST:PORT"),
                                        ("127.0.0.1:99999", 2, "HOST:PORT")):
                done = subprocess.run([cluster_test.TROUPE, "console", address, "-c", "ps"], capture_output=True, text=True,
                                      timeout=DEADLINE_S, check=False)
                self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
                self.assertIn(said, done.stderr)

    def test_without_a_cluster_it_says_so(self):
        done = subprocess.run([cluster_test.TROUPE, "console", "--cluster", self.file, "-c", "ps"], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot reach the cluster's coordinator, node a at", done.stderr)


if __name__ == "__main__":
    cluster_test.TROUPE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
