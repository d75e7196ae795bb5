#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Three coordinators, one of which leads: it is killed, stopped and started again, and the jobs and their clients go on.

usage: council_test.py TROUPE [unittest arguments]
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import cluster_test
from cluster_test import DEADLINE_S, SEED, select_nothing
from survival_test import ENDLESS, GOES_ON, KEPT, SLOW, SurvivalTest

COUNCIL, WORKERS = "abc", "de"
LONG = SLOW.replace("steps = 120", "steps = 1000").replace("step_ms = 20", "step_ms = 10")


class CouncilTest(SurvivalTest):
    def setUp(self):
        super().setUp()
        self.file = self.of_three()

    def of_three(self, name="three.toml", orphan_s=30):
        text = f'name = "lab"\n[cluster]\njournal = "{self.path("journal")}/{{name}}"\norphan_s = {orphan_s}\n'
        for node in COUNCIL:
            text += f'[[node]]\nname = "{node}"\nhost = "127.0.0.1"\nport = {self.kept_port()}\nroles = ["coordinator", "shard"]\n'
        for node in WORKERS:
            text += f'[[node]]\nname = "{node}"\nhost = "127.0.0.1"\nport = 0\n'
        return self.path(name, text)

    def node(self, name, file=None, wait=None):
        """Its log is a file, for several are waited for at once."""
        log = self.path(f"{name}.log")
        with open(log, "a", encoding="utf-8") as out:
            run = subprocess.Popen([cluster_test.TROUPE, "node", file or self.file, "--name", name], stdout=subprocess.DEVNULL, stderr=out,
                                   text=True, start_new_session=True)
        run.stdout = run.stderr = open(os.devnull, encoding="utf-8")  # so that `end` has something to close
        self.addCleanup(self.end, run)
        self.nodes[name] = run
        if wait:
            self.until(lambda: re.search(wait, self.log(name)), f"{wait} in {log}")
        return run

    def log(self, name):
        return pathlib.Path(self.path(f"{name}.log")).read_text(encoding="utf-8")

    def until(self, is_so, what):
        deadline = time.monotonic() + DEADLINE_S
        while not (found := is_so()):
            self.assertLess(time.monotonic(), deadline, f"{what}; " + "\n".join(self.log(node) for node in self.nodes))
            select_nothing()
        return found

    def leader(self, among=COUNCIL):
        """Who leads, by the last word of each that lives."""
        def last(name):
            words = re.findall(r"leads the coordinators|follows; node|knows of no leader", self.log(name))
            return words[-1] if words else ""
        return self.until(lambda: next((name for name in among if last(name) == "leads the coordinators"), None), "a leader")

    def until_step(self, step):
        def makes():
            jobs = self.ask("jobs")[0]["jobs"]
            return jobs and jobs[0]["steps"] >= step
        self.until(makes, f"step {step}")

    def all_of_them(self):
        for name in COUNCIL + WORKERS:
            self.node(name)
        for name in WORKERS:
            self.until(lambda name=name: "joined" in self.log(name), f"{name} has joined")
        return self.leader()

    def kill_node(self, name):
        self.nodes[name].kill()
        self.nodes[name].wait()


class Council(CouncilTest):
    def test_the_leader_is_killed_and_another_goes_on_with_its_jobs(self):
        first = self.all_of_them()
        kept = self.path("checkpoints")
        self.assertEqual(self.detach(KEPT.format(kept), "first.toml"), 1)
        self.assertEqual(self.detach(SLOW, "second.toml"), 2)
        self.until_checkpoint(kept, 20)
        self.kill_node(first)
        second = self.leader([name for name in COUNCIL if name != first])
        self.assertEqual(self.detach(SLOW, "third.toml"), 3, "numbers go on")
        self.node(first, wait=f"follows; node {second} leads")  # it has a part in the decisions again
        ended = self.until_ended([1, 2, 3])
        for number in (1, 2, 3):
            self.assertEqual((ended[number]["state"], ended[number]["steps"]), ("has ended: made 120 steps", 120))
        self.assertIn(GOES_ON, self.events(1))
        result, _ = self.result_of(self.attach(1, "--json", job=KEPT.format(kept), name="first.toml"))
        self.assertEqual(result["weights_digest"], self.run_job("--nodes", "3", job=SLOW)["weights_digest"])
        self.kill_node(second)
        third = self.leader([name for name in COUNCIL if name != second])
        self.assertEqual(self.ask("jobs")[0]["jobs"], [], f"nothing is run again on {third}")
        self.assertEqual({each["number"] for each in self.ask("jobs")[0]["ended"]}, {2, 3})

    def test_a_client_follows_its_job_to_the_next_leader(self):
        first = self.all_of_them()
        kept = self.path("checkpoints")
        run = self.submit("--json", job=KEPT.format(kept))
        self.until_checkpoint(kept, 20)
        self.kill_node(first)
        self.wait_for_line(run, "its jobs are kept, and it is looked for during 30 s")
        self.wait_for_line(run, "the coordinator is back; this follows job 1 again")
        result, _ = self.result_of(run)
        self.assertEqual(result["steps"], 120)
        self.assertEqual(result["weights_digest"], self.run_job("--nodes", "3", job=SLOW)["weights_digest"])

    def test_a_minority_decides_nothing_and_says_so(self):
        first = self.all_of_them()
        followers = [name for name in COUNCIL if name != first]
        for name in followers:
            self.kill_node(name)
        self.until(lambda: "knows of no leader" in self.log(first), "it steps down")
        _, err = self.finish(run := self.submit("--detach", job=SLOW, name="first.toml"))
        self.assertEqual(run.returncode, 1, err)
        self.assertIn("cannot reach the coordinator that leads the cluster", err)
        self.assertIn("a majority of the coordinators must be there", err)
        self.node(followers[0])
        self.leader([first, followers[0]])
        self.assertGreaterEqual(self.detach(SLOW, "first.toml"), 1)

    def test_a_leader_that_stands_still_is_replaced_and_follows_when_it_goes_on(self):
        first = self.all_of_them()
        self.assertEqual(self.detach(ENDLESS, "first.toml"), 1)
        self.until_step(5)
        self.nodes[first].send_signal(signal.SIGSTOP)
        second = self.leader([name for name in COUNCIL if name != first])
        self.nodes[first].send_signal(signal.SIGCONT)
        self.until(lambda: re.search(rf"leads the coordinators(.|\n)*follows; node {second} leads", self.log(first)), "it follows")
        self.until(lambda: [each["state"] for each in self.ask("jobs")[0]["jobs"]] == ["runs"], "the job runs still")
        self.assertIn(GOES_ON, self.events(1))
        before = self.ask("jobs")[0]["jobs"][0]["steps"]
        self.until(lambda: self.ask("jobs")[0]["jobs"][0]["steps"] > before, "it makes steps")

    def test_other_coordinators_than_before_are_refused(self):
        self.all_of_them()
        for name in COUNCIL + WORKERS:
            self.kill_node(name)
        text = pathlib.Path(self.file).read_text(encoding="utf-8").replace('"b"\n', '"other"\n')
        self.file = self.path("others.toml", text)
        self.assertEqual(self.node("a").wait(DEADLINE_S), 1)
        self.assertIn("this journal is of other coordinators than the cluster's file names now", self.log("a"))


class Takeover(CouncilTest):
    """Jobs without any checkpoint. Moments are drawn from TROUPE_TEST_SEED."""

    def setUp(self):
        super().setUp()
        self.draw = random.Random(f"takeover {SEED}")

    def assert_undisturbed(self, result, err, words="", steps=120, job=SLOW):
        """What a single run makes, and no push more: a second one from step 0 on would be counted."""
        self.assertEqual((result["steps"], result["gradients"], result["error"]), (steps, 2 * steps, None), f"{err} {words}")
        self.assertEqual(result["weights_digest"], self.run_job("--nodes", "3", job=job)["weights_digest"], words)
        said = [int(step) for step in re.findall(r"(?m)^step (\d+)", err)]
        self.assertEqual(said, sorted(said), words)
        logs = "".join(self.log(name) for name in COUNCIL)
        self.assertEqual(len(re.findall("job 1 starts on", logs)), 1, logs)
        self.assertIn(GOES_ON, logs)

    def test_a_job_goes_on_where_it_is(self):
        first = self.all_of_them()
        trace, step, words = self.path("trace.json"), self.draw.randrange(5, 80), f"killed with the draw of seed {SEED}"
        run = self.submit("--json", "--trace", trace, job=SLOW)
        self.until_step(step)
        self.kill_node(first)
        self.wait_for_line(run, "the coordinator is back; this follows job 1 again")
        result, err = self.result_of(run)
        self.assert_undisturbed(result, err, words)
        events = json.loads(pathlib.Path(trace).read_text(encoding="utf-8"))["traceEvents"]
        self.assertEqual(sum(event["name"] == "apply" for event in events), 120, f"each version is made once; {words}")

    def test_a_job_goes_on_under_one_leader_after_the_other(self):
        first = self.all_of_them()
        run = self.submit("--json", job=LONG)
        self.until_step(self.draw.randrange(5, 40))
        self.kill_node(first)
        second = self.leader([name for name in COUNCIL if name != first])
        self.until(lambda: GOES_ON in self.log(second), f"{second} takes it over")
        self.node(first, wait=f"follows; node {second} leads")
        self.assertEqual([each["number"] for each in self.ask("jobs")[0]["jobs"]], [1], "it has not ended yet")
        self.kill_node(second)
        self.assert_undisturbed(*self.result_of(run), steps=1000, job=LONG)

    def test_a_worker_that_dies_with_the_leader_is_left_out(self):
        first = self.all_of_them()
        run = self.submit("--json", job=ENDLESS)
        self.until_step(self.draw.randrange(5, 40))
        self.kill_node(first)
        self.kill_node("e")  # a worker alone: the shard is on d
        self.leader([name for name in COUNCIL if name != first])
        self.wait_for_line(run, "worker 1 .* is lost: .*; the round closes without it")
        self.node("e", wait="joined")
        self.wait_for_line(run, "node e is back")
        self.wait_for_line(run, "^step ")
        self.assertIn(GOES_ON.replace("2 of its 2 nodes are", "1 of its 2 nodes is"), self.events(1))


class Copies(CouncilTest):
    """One shard and its backup, on the two nodes with workers."""
    JOB = ENDLESS.replace("[cluster]\n", "[cluster]\nreplicas = 2\n")

    def lead_moves(self, run, lost, to, back=True):
        """The node with the shard is lost, its copy takes its place; the node gets the next copy."""
        self.kill_node(lost)
        self.wait_for_line(run, f"its backup on node {to} is shard 0 from now on")
        self.wait_for_line(run, "^step ")
        if back:
            self.gets_a_copy(run, lost)

    def gets_a_copy(self, run, name):
        self.node(name)
        self.wait_for_line(run, f"node {name} has a whole copy of shard 0")

    def another_leads(self, run, first):
        self.kill_node(first)
        self.wait_for_line(run, "the coordinator is back; this follows job 1 again")
        self.wait_for_line(run, "^step ")
        second = self.leader([name for name in COUNCIL if name != first])
        self.node(first, wait=f"follows; node {second} leads")
        return second

    def test_a_copy_that_came_later_takes_its_shards_place_under_another_coordinator(self):
        first = self.all_of_them()
        run = self.submit("--json", job=self.JOB)
        self.until_step(5)
        self.kill_node("e")
        self.wait_for_line(run, "replica 1 .* is lost")
        second = self.another_leads(run, first)
        self.gets_a_copy(run, "e")  # a node that comes back to the next coordinator
        third = self.another_leads(run, second)
        self.lead_moves(run, "d", "e")
        self.another_leads(run, third)
        self.lead_moves(run, "e", "d", back=False)  # both copies came later, under other coordinators


class Secured(CouncilTest):
    """The same with certificates."""

    def of_three(self, name="three.toml", orphan_s=30):
        folder = self.path("ours")
        self.certs("init", folder)
        for node in COUNCIL + WORKERS:
            self.certs("issue", folder, "--node", node)
        self.certs("issue", folder, "--node", "client", "--role", "console")
        plain = pathlib.Path(super().of_three("plain.toml", orphan_s)).read_text(encoding="utf-8")
        return self.path(name, plain + f'[security]\nca = "{folder}/ca.pem"\ncertificate = "{folder}/{{name}}.pem"\n'
                                       f'key = "{folder}/{{name}}.key"\n')

    def certs(self, *arguments):
        subprocess.run([cluster_test.TROUPE, "certs", *arguments], check=True, stdout=subprocess.DEVNULL, timeout=60)

    def test_a_client_follows_its_job_to_the_next_leader(self):
        first = self.all_of_them()
        kept = self.path("checkpoints")
        run = self.submit("--json", job=KEPT.format(kept))
        self.until_checkpoint(kept, 20)
        self.kill_node(first)
        self.wait_for_line(run, "the coordinator is back; this follows job 1 again")
        self.assertEqual(self.result_of(run)[0]["steps"], 120)


if __name__ == "__main__":
    cluster_test.main()
