#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The console beside clusters that run, stall, and end.

usage: console_test.py TROUPE [unittest arguments]
"""
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import termios
import time

import cluster_test
from bootstrap_test import SEED, BootstrapTest
from cluster_test import DEADLINE_S, ENDLESS, JOB
from terminal import Terminal


INTERRUPTS = int(os.environ.get("TROUPE_INTERRUPTS", "50"))

# Where a job of four workers and two shards places what it spawns, on nodes that may hold shards (a) or both: (id, node, job).
ROLES_OF_FOUR = ({("coordinator 0", "a", 1), ("evaluator 0", "a", 1), ("shard 0", "a", 1), ("shard 1", "a", 1)}
                 | {(f"node {x}", x, 1) for x in "abcd"}
                 | {(f"{role} {i}", node, 1) for i, node in enumerate("bbcd") for role in ("worker", "compute", "loader")})


def promised(text):
    """The keys that `help` promises: a dict, whose values are None (anything), a dict, or a list of one dict; {} has any keys."""
    tokens = re.findall(r"\w+|[:\[\]{}]", text)

    def keys(end):
        found = {}
        while tokens and tokens[0] != end:
            name = tokens.pop(0)
            found[name] = value() if tokens and tokens[0] == ":" else None
        if end:
            tokens.pop(0)
        return found

    def value():
        opening = "".join(tokens.pop(0) for _ in range(3 if tokens[1] == "[" else 2))
        inner = keys("}")
        return [inner] if opening == ":[{" and tokens.pop(0) == "]" else inner

    return keys(None)


class Console(BootstrapTest):
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
        self.assertEqual(self.ask("jobs"), [{"jobs": [], "ended": []}])
        self.assertEqual(self.placed(), {(f"node {x}", x, 0) for x in "abcd"})
        self.assertEqual({(each["id"], each["node"]) for each in self.ask("tree")[0]["tree"]}, {(f"node {x}", x) for x in "abcd"})
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
        named, gone_on = 0, 0
        for _ in range(10):
            index = chance.randrange(3)
            process, stalled = self.nodes["bcd"[index]], "worker " + ["[01]", "2", "3"][index]
            asked_of = chance.choice(["coordinator", "shard 0"] + [f"worker {i}" for i in range(4) if not re.match(stalled, f"worker {i}")])
            os.kill(process.pid, signal.SIGSTOP)
            try:
                began, asked, steps = time.monotonic(), 0, self.steps()
                causes = []
                right = f"{stalled}: it is on a node that does not answer: node {'bcd'[index]} |the lane from node a to node {'bcd'[index]}: nothing has come"
                while time.monotonic() - began < 5 or asked < 2:  # a busy machine answers late; the node is lost after ten seconds
                    asked += 1
                    causes = self.ask(f"why {asked_of}")[0]["causes"]
                    if causes and all(re.match(right, each) for each in causes):
                        named += 1
                        break
                    if self.steps() >= steps + 5:  # the node has been put out: nobody waits for it any more
                        gone_on += 1
                        break
                    if any(float(found[1]) >= 1 for each in causes if (found := re.search(r"for ([\d.]+) s", each))):
                        self.fail(f"seed {SEED}: node {'bcd'[index]} is stopped; why {asked_of}: {causes}")  # nothing else lasts
                else:
                    print(f"seed {SEED}: node {'bcd'[index]} is stopped; why {asked_of}: {causes}", file=sys.stderr)
            finally:
                os.kill(process.pid, signal.SIGCONT)
            steps = self.steps()
            while self.steps() < steps + 3:  # before the next one
                self.assertIsNone(run.poll())
        self.assertEqual(named + gone_on, 10, f"{named} named")  # with the others 95 % at least

    def steps(self):
        return self.ask("jobs")[0]["jobs"][0]["steps"]

    def test_why_finds_a_stopped_process(self):
        run = self.running()
        for name in "bcd":  # two are put out; the last one has all workers, and is waited for
            os.kill(self.nodes[name].pid, signal.SIGSTOP)
            self.addCleanup(os.kill, self.nodes[name].pid, signal.SIGCONT)
            if name != "d":
                self.wait_for_line(run, rf"worker \d \({name}\) is lost: node {name} is silent for")
        # A node that says nothing for ten seconds is lost: one question has to do.
        self.cause_of("coordinator", r"^worker 3: it is on a node that does not answer: .*node d")
        for silent in self.ask("ps")[0]["silent"]:
            self.assertIn(silent["node"], "bcd")
            self.assertIn(silent["reason"], ("no answer in time", "it is gone"))

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
        self.wait_for_line(self.nodes["d"], "node d: is drained: the cluster places nothing here until `undrain d` in its console")
        self.assertNotIn("worker 3", [actor["id"] for actor in self.ask("ps")[0]["actors"]])
        node = self.node_of("d")
        self.assertEqual((node["state"], node["job"]), ("drained", 0))
        self.assertGreater(node["leaving_s"], 0)
        self.assertIn("node a is the coordinator's", self.ask("drain a", code=1)[0]["error"])
        self.assertIn("is not drained", self.ask("undrain a", code=1)[0]["error"])
        self.assertEqual(self.ask("undrain d")[0]["done"], True)
        self.wait_for_line(self.nodes["d"], "node d: is undrained")
        self.wait_for_line(run, "node d is back")
        self.assertEqual((self.node_of("d")["state"], self.node_of("d")["job"]), ("here", 1))
        self.assertIn("is not drained", self.ask("undrain d", code=1)[0]["error"])
        self.ask("stop 7", code=1)
        self.ask("stop small")
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        jobs = self.ask("jobs")[0]
        self.assertEqual(jobs["jobs"], [])
        self.assertEqual([(each["number"], each["name"], each["state"]) for each in jobs["ended"]],
                         [(1, "small", "has ended: stopped at the console")])
        self.assertGreater(jobs["ended"][0]["train_loss"], 0)

    def node_of(self, name):
        return next(each for each in self.ask("nodes")[0]["nodes"] if each["name"] == name)

    def test_a_node_that_cannot_leave_yet_says_for_what_it_waits_and_may_be_taken_back(self):
        self.ROLES = {**self.ROLES, "b": '["shard"]'}
        self.file = self.cluster_file("lab.toml", names="abc")
        self.cluster("abc")
        run = self.submit("--set", "cluster.shards=2", job=ENDLESS)
        self.wait_for_line(run, "^step ")
        drain = subprocess.Popen([cluster_test.TROUPE, "console", "--cluster", self.file, "-c", "drain b"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(drain.stdout.close)
        self.addCleanup(drain.wait)
        self.wait_for_line(self.nodes["b"], "node b: holds what job 1 needs, and leaves when that ends")
        self.wait_for_line(self.nodes["a"], "node b holds what job 1 needs, and leaves when that ends")
        waiting = self.submit("--set", "cluster.shards=2", job=JOB)  # for b, too
        self.wait_for_line(waiting, "waits: .*node b leaves when job 1 ends")
        node = self.node_of("b")
        self.assertEqual((node["state"], node["job"]), ("leaves", 1))
        self.assertEqual(self.ask("undrain b")[0]["done"], True)
        self.assertEqual(self.node_of("b")["state"], "here")
        self.ask("stop 1")
        self.finish(run)
        self.assertEqual(self.node_of("b")["state"], "here")

    def state_of(self, actor):
        return {each["id"]: each["state"] for each in self.ask("ps")[0]["actors"]}.get(actor)

    def until_state(self, actor, pattern):
        deadline = time.monotonic() + DEADLINE_S
        while not re.search(pattern, self.state_of(actor) or ""):
            self.assertLess(time.monotonic(), deadline, f"{actor}: {self.state_of(actor)}")

    def steps(self):
        return self.ask("jobs")[0]["jobs"][0]["steps"]

    def test_an_actor_that_stands_still_is_named_and_goes_on(self):
        self.running("--set", "protocol.name=async")
        for actor in ("worker 1", "shard 0"):
            self.assertEqual(self.ask(f"pause {actor}"), [{"done": True, "actor": actor}])
            self.until_state(actor, "stands still")
            self.assertTrue(self.ask(f"show {actor}")[0]["paused"])
            if actor == "shard 0":
                self.cause_of("worker 2", "^shard 0 on node a: it stands still: paused by the operator")
                before = self.steps()
                self.assertEqual(self.steps(), before, "nobody makes versions")
            self.ask(f"pause {actor}")  # twice is once
            self.ask(f"resume {actor}")
            self.until_state(actor, "^(?!.*stands still)")
        before, deadline = self.steps(), time.monotonic() + DEADLINE_S
        while self.steps() <= before + 10:
            self.assertLess(time.monotonic(), deadline, "the job does not go on")

    def test_a_worker_dies_and_lives_again(self):
        run = self.running()
        self.assertTrue(self.ask("kill worker 2")[0]["done"])
        self.wait_for_line(run, "worker 2 .* is lost: killed by the operator")
        self.assertIn("is dead", self.ask("pause worker 2", code=1)[0]["error"])
        self.assertTrue(self.ask("restart worker 2")[0]["done"])
        self.wait_for_line(run, "worker 2 .* is restarted")
        self.assertTrue(self.ask("restart worker 0")[0]["done"], "alive, too")
        deadline = time.monotonic() + DEADLINE_S
        while any(int(self.ask(f"show worker {i}")[0]["fields"]["step"]) < 5 for i in (0, 2)):
            self.assertLess(time.monotonic(), deadline, "the new lives make no steps")
        self.assertIn("cannot be restarted", self.ask("restart shard 0", code=1)[0]["error"])

    def test_settings_change_while_the_job_runs(self):
        run = self.running("--set", "protocol.name=local", "--set", "protocol.steps=2")
        self.ask("set log.level debug", "set protocol.steps 7")
        self.assertIn("period 7, learning rate times 1", self.wait_for_line(run, "plan 2"))
        self.ask("set optimizer.lr = 0.025")
        self.wait_for_line(run, r"plan 3: 4 workers, local, period 7, learning rate times 0\.5")
        for wrong in ("set data.batch 3", "set optimizer.lr fast", "set optimizer.lr", "set protocol.steps 0", "set optimizer.lr 0.1 9"):
            self.assertIn("error", self.ask(wrong, code=1)[0])
        for wrong, why in (("set optimizer.lr -1", "optimizer.lr = -1 must be above 0"), ("set optimizer.lr 1e308", "too far from the job's 0.05"),
                           ("set protocol.steps 9999999999", "steps must be at most 2147483647")):
            self.assertIn(why, self.ask(wrong, code=1)[0]["error"])

    def test_a_trace_of_a_while(self):
        self.running()
        path = self.path("while.json")
        self.assertIn("no trace", self.ask("trace off", code=1)[0]["error"])
        self.assertEqual(self.ask(f"trace on {path}"), [{"recording": True, "file": path, "events": None}])
        self.assertIn("already", self.ask(f"trace on {path}", code=1)[0]["error"])
        before, deadline = self.steps(), time.monotonic() + DEADLINE_S
        while self.steps() <= before + 20:
            self.assertLess(time.monotonic(), deadline)
        ended = self.ask("trace off")[0]  # another process than the one that began it
        self.assertEqual((ended["recording"], ended["file"]), (False, path))
        with open(path, encoding="utf-8") as file:
            spans = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
        self.assertEqual(len(spans), ended["events"])
        self.assertGreaterEqual(len({span["args"]["version"] for span in spans if span["name"] == "apply"}), 20)
        self.assertEqual({span["args"]["worker"] for span in spans if span["name"] == "compute"}, {0, 1, 2, 3})
        self.assertIn("error", self.ask(f"trace on {self.path('absent/t.json')}", code=1)[0])

    def test_what_is_mistyped_gets_an_answer_and_harms_nothing(self):
        run = self.running()
        for command, reason in [("pss", "did you mean ps?"), ("why", "needs an actor"), ("show worker 9", "there is no actor"),
                                ("kill worker 9", 'there is no actor "worker 9"'), ("pause wroker 0", "did you mean worker 0?"),
                                ("restart nobody", 'there is no actor "nobody"'), ("kill node b", "node b takes no orders"),
                                ("undrain x", 'no node "x"'),
                                ("ps --json", "flags stand on the command line: troupe console --cluster FILE -c ps --json"),
                                ("drain x", 'no node "x"'), ("help nothing", "there is no command"), ("watch stop 1", "a command that only looks"),
                                ("watch worker 9", "there is no actor"), ("loss 9", "there is no job"), ("events other", "there is no job"),
                                ("mailbox", "needs an actor")]:
            self.assertIn(reason, self.ask(command, code=1)[0]["error"])
        self.wait_for_line(run, "^step ")

    def test_a_person_talks_to_it_and_is_asked_before_anything_ends(self):
        run = self.running()
        talk = Terminal(self, "--cluster", self.file)
        talk.press("ps worker\n")
        talk.until(r"worker 3 .*troupe> ")
        talk.press("sho\t shard:0\n")  # Tab completes the command
        talk.until(r"shard 0 on node a: .*troupe> ")
        talk.press("show wor\t3\n")  # as far as the names are one
        talk.until(r"worker 3 on node d: .*troupe> ")
        talk.press("mailbox coo\t\n")
        talk.until(r"coordinator 0 on node a: .*troupe> ")
        talk.press("stop 1\n")
        talk.until(r"stop job 1 .*\[y/N\] ")
        talk.press("n\n")
        talk.until(r"nothing was done.*troupe> ")
        self.wait_for_line(run, "^step ")
        talk.press("stop \t\n")  # there is but one job
        talk.until(r"\[y/N\] ")
        talk.press("y\n")
        talk.until(r"job 1 ends.*troupe> ")
        self.finish(run)
        talk.press("quit\n")
        self.assertEqual(talk.process.wait(60), 0)

    def test_whatever_ends_or_holds_something_asks_first(self):
        run = self.running()
        talk = Terminal(self, "--cluster", self.file)
        for command, reason in [("kill worker 9", 'there is no actor "worker 9"'), ("drain x", 'there is no node "x"')]:
            talk.press(command + "\n")
            self.assertNotIn("[y/N]", talk.until(reason + ".*troupe> "))
        for command, question in [("stop 1", r"stop job 1 \(small, step \d+\)\?"), ("drain d", r"take node d out of its job\?"),
                                  ("kill worker 1", r"kill worker 1 of job 1\?"), ("restart worker 1", r"restart worker 1 of job 1\?"),
                                  ("pause worker 1", r"pause worker 1 of job 1\?")]:
            for refusal in ("n", "", "yess"):
                talk.press(command + "\n")
                talk.until(question + r" \[y/N\] ")
                talk.press(refusal + "\n")
                talk.until("nothing was done.*troupe> ")
        before = self.steps()
        while self.steps() <= before + 3:
            self.assertIsNone(run.poll())
        self.assertEqual({actor["id"] for actor in self.ask("ps worker")[0]["actors"] if not actor["ended"]}, {f"worker {i}" for i in range(4)})
        talk.press("pause worker 1\n")
        talk.until(r"\[y/N\] ")
        talk.press("yes\n")
        talk.until("stands still.*troupe> ")
        talk.press("resume worker 1\n")  # harms nothing
        talk.until("goes on.*troupe> ")

    def test_history_outlives_a_session_and_quit_may_be_completed(self):
        self.cluster("a")
        for _ in range(2):
            talk = Terminal(self, "--cluster", self.file)
            talk.press("nodes\n")
            talk.until(r"not here.*troupe> ")
            talk.press("qui\t\n")
            self.assertEqual(talk.process.wait(60), 0)
        talk = Terminal(self, "--cluster", self.file)
        talk.press("\x1b[A")  # the arrow up
        talk.until("nodes")
        talk.press("\n")
        talk.until(r"not here.*troupe> ")

    def test_live_views_redraw_in_place_until_a_key_and_leave_the_terminal_as_it_was(self):
        self.running()
        talk = Terminal(self, "--cluster", self.file)
        for command, line in [("top mailbox", "worker 3"), ("watch links", "from +to"), ("watch worker 1", "worker 1 on node b"), ("loss", "training loss")]:
            at_prompt = talk.at_prompt()
            talk.press(command + "\n")
            first = talk.until(f"{command} .*any key ends this.*{line}")
            self.assertIn("\x1b[?1049h", first)  # a screen of its own
            again = talk.until(r"\x1b\[H.*any key ends this.*\x1b\[H.*any key")
            self.assertNotIn("\x1b[2J", first + again)  # nothing is ever blank
            talk.resize(40, 12)
            talk.until(r"\x1b\[H\x1b\[7m(\x1b\[0m|.{40}\x1b\[0m)")
            talk.press("\x03")  # Ctrl-C is a key like any other
            last = talk.until(r"\x1b\[\?1049l.*troupe> ")
            self.assertRegex(last, line)  # what was seen last stays
            self.assertEqual(talk.at_prompt(), at_prompt)
            talk.resize(80, 24)
        talk.press("quit\n")
        self.assertEqual(talk.process.wait(60), 0)
        self.assertEqual(termios.tcgetattr(talk.keys), talk.before)

    def test_a_live_view_that_is_ended_from_outside_gives_the_terminal_back(self):
        self.running()
        talk = Terminal(self, "--cluster", self.file)
        talk.press("watch ps\n")
        talk.until("any key ends this")
        talk.process.terminate()
        talk.until(r"\x1b\[\?1049l")
        self.assertEqual(talk.process.wait(60), -signal.SIGTERM)
        self.assertTrue(termios.tcgetattr(talk.keys)[3] & termios.ICANON)

    def test_loss_and_events_tell_what_has_happened_after_the_end_too(self):
        self.cluster()
        self.result_of(self.submit("--json"))
        past, events = self.ask("loss small", "events 1")
        self.assertEqual([past[key] for key in ("job", "name", "protocol", "state")], [1, "small", "sync", "has ended: trained for 2 epochs"])
        points = past["evaluations"]
        self.assertEqual([point["step"] for point in points], [19, 38])
        self.assertEqual(points, sorted(points, key=lambda point: point["seconds"]))
        self.assertLess(points[-1]["train_loss"], points[0]["train_loss"])
        self.assertEqual([each["text"] for each in events["events"]], ["is submitted, as small", "starts on a, b, c, d",
                                                                       "has ended: trained for 2 epochs"])
        for each in events["events"]:
            self.assertRegex(each["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual([each["text"] for each in self.ask("events")[0]["events"]][:3], [f"node {x} has joined" for x in "bcd"])
        drawn = subprocess.run([cluster_test.TROUPE, "console", "--cluster", self.file, "-c", "loss"], capture_output=True, text=True, check=True,
                               timeout=DEADLINE_S, env={**os.environ, "COLUMNS": "60", "LC_ALL": "C"}).stdout
        self.assertEqual(sum(row.count("o") for row in re.findall(r"(?m)^[ 0-9.]*[|+](.*)$", drawn)), 4, drawn)  # two evaluations, two panels
        self.assertTrue(all(len(line) <= 60 for line in drawn.splitlines()[1:]), drawn)

    def test_every_command_answers_what_its_help_promises(self):
        self.running(job=f'{ENDLESS}[checkpoint]\ndir = "{self.path("checkpoints")}"\n')
        listed = self.ask("help")[0]["commands"]
        for command in listed:
            name = command["usage"].split()[0]
            told = self.ask(f"help {name}")[0]["commands"]
            self.assertEqual(told, [command])
            keys = command["json"]
            if same := re.match("as `(\\w+)", keys):
                keys = next(each["json"] for each in listed if each["usage"].split()[0] == same[1])
            with self.subTest(command=command["example"]):
                self.assertEqual(command["example"].split()[0], name)
                self.check(self.ask(command["example"])[0], promised(keys))

    def check(self, said, keys):
        if isinstance(keys, list):
            for each in said:
                self.check(each, keys[0])
        elif keys:
            self.assertEqual(set(said), set(keys))
            for key, inner in keys.items():
                self.check(said[key], inner)

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
            self.assertRegex(self.finish(run)[0], r"\A\d+ steps, ")  # what it had come to
            self.assertEqual(run.returncode, 130)

    def test_an_interrupt_gives_up_the_line_and_not_the_console(self):
        run = self.running()
        talk = Terminal(self, "--cluster", self.file)
        at_prompt = talk.at_prompt()
        talk.press("drain b")
        talk.until("drain b")
        talk.process.send_signal(signal.SIGINT)
        talk.until(r"\^C.*troupe> ")
        talk.press("ps worker\n")  # and nothing of what was given up
        talk.until(r"worker 3 .*troupe> ")
        talk.press("stop 1\n")
        talk.until(r"stop job 1 .*\[y/N\] ")
        talk.process.send_signal(signal.SIGINT)
        talk.until(r"\^C.*nothing was done.*troupe> ")
        self.wait_for_line(run, "^step ")
        self.assertEqual(talk.at_prompt(), at_prompt)
        talk.process.kill()
        talk.process.wait()
        with open(self.path(".troupe_history"), encoding="utf-8") as history:
            self.assertEqual(history.read().split("\n")[-3:], ["ps\\040worker", "stop\\0401", ""])  # as libedit writes it

    def test_an_interrupt_at_any_moment_ends_no_console(self):
        """As many as TROUPE_INTERRUPTS says: at an empty line, in a line, a key, a search, a question, and while Tab asks the cluster."""
        self.running()
        draw = random.Random(SEED)
        print(f"TROUPE_TEST_SEED={SEED}", file=sys.stderr)
        talk = None
        for i in range(INTERRUPTS):
            if i % 25 == 0:  # now and then it is the first one
                talk = Terminal(self, "--cluster", self.file)
            keys, shown = draw.choice([("", ""), ("drain b", "drain b"), ("ps \x1b[", "ps "), ("\x12ps", "bck"), ("stop 1\n", r"\[y/N\] "),
                                       ("show wor\t", "show wor")])
            with self.subTest(i=i, keys=keys):
                talk.at_prompt()
                talk.press(keys)
                talk.until(shown)
                talk.process.send_signal(signal.SIGINT)
                meanwhile = draw.choice(["", "x", "x" * 50])
                talk.press(meanwhile)  # before the signal is seen, or behind it
                talk.until(r"\^C.*troupe> ")
                talk.at_prompt()
                talk.press(f"\x15nonsense-{i}\n")
                talk.until(f'no command "nonsense-{i}".*troupe> ')

    def test_the_prompt_outlives_a_stop_and_gives_the_terminal_back_to_whoever_ends_it(self):
        self.cluster("a")
        talk = Terminal(self, "--cluster", self.file)
        at_prompt = talk.at_prompt()
        talk.press("nod")
        talk.until("nod")
        talk.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, talk.process.pid, os.WSTOPPED)
        termios.tcsetattr(talk.keys, termios.TCSANOW, talk.before)  # a shell does so
        talk.process.send_signal(signal.SIGCONT)
        talk.until("troupe> .*nod")  # it is drawn again
        self.assertEqual(talk.at_prompt(), at_prompt)
        talk.resize(40, 12)
        talk.press("e\x7fes\n")
        talk.until(r"not here.*troupe> ")
        talk.at_prompt()
        talk.process.terminate()
        self.assertEqual(talk.process.wait(60), -signal.SIGTERM)
        self.assertEqual(termios.tcgetattr(talk.keys), talk.before)

    def test_a_coordinator_that_is_back_is_found_again(self):
        self.node("a", wait="coordinator of")
        talk = Terminal(self, "--cluster", self.file)
        talk.press("nodes\n")
        talk.until(r"a +127.0.0.1.*troupe> ")
        self.nodes["a"].kill()
        self.nodes["a"].wait()
        said = "does not answer"
        while "does not answer" in said:  # whoever asks before the loss is noticed waits for an answer in vain
            talk.press("nodes\n")
            said = talk.until(r"(cannot reach|does not answer).*troupe> ")
        self.assertRegex(said, "cannot reach the cluster's coordinator, node a at .*: no connection: nobody listens there")
        again = self.node("a", wait="coordinator of")
        talk.press("nodes\n")
        talk.until(rf"a +127.0.0.1.* {again.pid}.*troupe> ")

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
    cluster_test.main()
