#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs real clusters of processes and looks at what they leave: weights, messages, exit codes, children.

usage: cluster_test.py TROUPE [unittest arguments]. Every test starts its own cluster on ports that the system chooses.
"""
import contextlib
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import connections

TROUPE = None
DEADLINE_S = 240  # a hang is a failure, not a wait
SEED = int(os.environ.get("TROUPE_TEST_SEED", "1"))
THOROUGH = os.environ.get("TROUPE_THOROUGH") == "1"

JOB = """
name = "small"
seed = 7
[data]
source = "digits"
train_samples = 1200
test_samples = 300
batch = 16
[model]
layers = ["flatten", "linear 48 relu", "linear 32 relu", "linear 10"]
[optimizer]
lr = 0.05
momentum = 0.9
[cluster]
workers = 4
[stop]
epochs = 2
"""
ENDLESS = JOB.replace("epochs = 2", "epochs = 100000").replace("[stop]", "[evaluate]\nevery_s = 3600.0\n[stop]")


def combinations(*axes):
    """All of them where the tests are to be thorough; else so few that each value of each axis is in one."""
    axes = [list(axis) for axis in axes]
    if THOROUGH:
        return list(itertools.product(*axes))
    return [tuple(axis[turn % len(axis)] for axis in axes) for turn in range(max(map(len, axes)))]


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-test-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name, text=None):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        return path

    def run_job(self, *arguments, job=JOB):
        done = subprocess.run([TROUPE, "run", self.path("job.toml", job), "--quiet", "--json", *arguments],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def start(self, *arguments, job=ENDLESS, command="run"):
        """An endless run; returns the process once it has made a step."""
        run = subprocess.Popen([TROUPE, command, self.path("job.toml", job), *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, run)
        self.wait_for_line(run, r"^step ")
        return run

    @staticmethod
    def end(run):
        if run.poll() is None:
            run.kill()
        run.wait()
        for pipe in (run.stdout, run.stderr):
            pipe.close()

    def wait_for_line(self, run, pattern):
        """Reads the run's progress up to a line that matches; what it waits for is in the failure."""
        seen = []
        alarm = signal.signal(signal.SIGALRM, lambda *_: self.fail(f"no line {pattern!r} in {''.join(seen)}"))
        signal.alarm(DEADLINE_S)
        try:
            for line in run.stderr:
                seen.append(line)
                if re.search(pattern, line):
                    return line
            self.fail(f"ended without a line {pattern!r}: {''.join(seen)}")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, alarm)

    @staticmethod
    def children(run):
        pids = []
        for task in os.listdir(f"/proc/{run.pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # where this thread has just ended
                with open(f"/proc/{run.pid}/task/{task}/children", encoding="utf-8") as listed:
                    pids += [int(pid) for pid in listed.read().split()]
        return sorted(pids)

    def finish(self, run):
        out, err = run.communicate(timeout=DEADLINE_S)
        return out, err

    def assert_gone(self, pids):
        deadline = time.monotonic() + 30
        while any(alive(pid) for pid in pids):
            self.assertLess(time.monotonic(), deadline, f"still there: {[p for p in pids if alive(p)]}")
            select_nothing()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def select_nothing():
    """Gives up the processor for a moment; the loops around it end on a condition, not on this."""
    import select
    select.select([], [], [], 0.02)


class Determinism(ClusterTest):
    def test_processes_shards_and_placement_do_not_change_the_weights(self):
        digests = {}
        for nodes, shards, placement in [(1, 1, "separate"), (1, 3, "separate"), (2, 1, "separate"), (3, 3, "separate"),
                                         (4, 1, "separate"), (2, 2, "colocated"), (3, 3, "colocated"), (2, 1, "separate")]:
            result = self.run_job("--nodes", str(nodes), "--set", f"cluster.shards={shards}",
                                  "--set", f"cluster.placement={placement}")
            digests[nodes, shards, placement] = result["weights_digest"]
            self.assertEqual(result["samples"], 2400)
            self.assertEqual(result["steps"], 2 * 19)  # 1,200 samples in global batches of 64: 18 whole ones and a short one
        self.assertEqual(len(set(digests.values())), 1, digests)

    def test_another_seed_gives_other_weights(self):
        self.assertNotEqual(self.run_job("--seed", "8")["weights_digest"], self.run_job("--seed", "9")["weights_digest"])

    def test_a_tree_repeats_bit_for_bit_on_any_number_of_processes(self):
        tree = ["--set", "protocol.fan_in=2"]
        one, three = self.run_job(*tree), self.run_job(*tree, "--nodes", "3", "--set", "cluster.shards=2")
        self.assertEqual(one["weights_digest"], three["weights_digest"])
        flat = self.run_job()
        self.assertAlmostEqual(one["train_loss"], flat["train_loss"], delta=0.02 * flat["train_loss"])

    def test_workers_of_one_batch_equal_one_worker_of_the_whole(self):
        four = self.run_job()
        one = self.run_job("--set", "cluster.workers=1", "--set", "data.batch=64")
        self.assertEqual(one["steps"], four["steps"])
        self.assertAlmostEqual(one["train_loss"], four["train_loss"], delta=1e-3 * one["train_loss"])

    def test_samples_of_its_own_are_the_same_in_every_process_and_cover_the_data(self):
        skewed = ["--set", "data.partition=by-worker", "--set", "data.sorted_fraction=1", "--set", "data.label_noise=0.1"]
        one, three = self.run_job(*skewed), self.run_job(*skewed, "--nodes", "3", "--set", "cluster.shards=2")
        self.assertEqual(one["weights_digest"], three["weights_digest"])
        self.assertEqual((one["samples"], one["steps"]), (2400, 2 * 19))
        # Where a step is over all samples it does not matter whose they are; of one worker's labels alone it would be another step.
        whole = ["--set", "data.batch=300", "--set", "stop.steps=10"]
        own, shared = self.run_job(*whole, *skewed), self.run_job(*whole, "--set", "data.label_noise=0.1")
        self.assertNotEqual(own["weights_digest"], shared["weights_digest"])
        self.assertAlmostEqual(own["train_loss"], shared["train_loss"], delta=1e-3 * shared["train_loss"])


class Traces(ClusterTest):
    """`run --trace`: every span of every role, one after the other on its track."""

    def tracks(self, path):
        """The spans of each role, by name and in order; none overlaps the next."""
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        names, tracks = {}, {}
        for event in trace["traceEvents"]:
            if event["ph"] == "M":
                names[event["pid"], event["tid"]] = event["args"]["name"]
            elif event["ph"] == "X":
                tracks.setdefault(names[event["pid"], event["tid"]], []).append(event)
        for name, spans in tracks.items():
            spans.sort(key=lambda span: (span["ts"], span["dur"]))
            for before, after in zip(spans, spans[1:]):
                self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1e-3, f"{name}: {before}, {after}")
        self.arrows = self.arrows_of(trace["traceEvents"], names, tracks)
        return tracks

    def arrows_of(self, events, names, tracks):
        """(name, from, to): roles with the span that each end lies in."""
        ends = {}
        for event in events:
            if event["ph"] not in "sf":
                self.assertIn(event["ph"], "MX")
                continue
            role = names[event["pid"], event["tid"]]
            span = next(span for span in tracks[role] if span["ts"] <= event["ts"] <= span["ts"] + span["dur"])
            ends.setdefault((event["id"], event["name"]), {})[event["ph"]] = (role, span)
        return [(name, both["s"], both["f"]) for (_, name), both in ends.items()]

    @staticmethod
    def count(spans, kind):
        return sum(span["name"] == kind for span in spans)

    def test_what_every_role_did_is_there_and_changes_nothing(self):
        path = self.path("t.json")
        traced = self.run_job("--nodes", "3", "--trace", path)
        self.assertEqual(traced["weights_digest"], self.run_job("--nodes", "3")["weights_digest"])
        tracks = self.tracks(path)
        self.assertEqual(sorted(tracks), ["coordinator", "evaluator", "loader 0", "loader 1", "loader 2", "loader 3", "shard 0",
                                          "worker 0", "worker 1", "worker 2", "worker 3"])
        steps = traced["steps"]
        self.assertEqual([span["name"] for span in tracks["evaluator"]], ["evaluate"] * 2)
        gradients = [(source[0], to[1]["args"]["version"]) for name, source, to in self.arrows if name == "gradient"]
        self.assertEqual(sorted(gradients), sorted((f"worker {i}", version) for i in range(4) for version in range(1, steps + 1)))
        parameters = [(source[1]["args"]["version"], to[0], to[1]["args"]["version"]) for name, source, to in self.arrows if name == "parameters"]
        self.assertEqual(sorted(parameters), sorted((version, f"worker {i}", version) for i in range(4) for version in range(1, steps)))
        self.assertEqual([span["args"]["version"] for span in tracks["shard 0"]], list(range(1, steps + 1)))
        self.assertEqual([span["name"] for span in tracks["coordinator"]], ["hold"] * 2, "one for each evaluation")
        held = {0} | {span["args"]["version"] for span in tracks["coordinator"]}
        samples = 0
        for worker in range(4):
            spans = tracks[f"worker {worker}"]
            self.assertEqual([span["name"] for span in spans], (["compute", "push", "wait"] * steps)[:-1])
            computed = spans[::3]
            self.assertEqual([span["args"]["step"] for span in computed], list(range(1, steps + 1)))
            self.assertEqual([span["args"]["version"] for span in computed], list(range(steps)))
            self.assertTrue(all(span["args"]["worker"] == worker for span in spans))
            # Parameters may come before the word that the job goes on: a step after a hold may begin before training time does.
            free = [span["args"] for span in computed if span["args"]["version"] not in held]
            self.assertGreaterEqual(len(free), steps - 2)
            self.assertTrue(all(args["training_ns"] >= args["real_ns"] > 0 for args in free))
            samples += sum(span["args"]["samples"] for span in computed)
        self.assertEqual(samples, traced["samples"])

    def test_trees_and_local_steps_have_their_spans(self):
        path = self.path("t.json")
        tree = self.run_job("--nodes", "2", "--set", "protocol.fan_in=2", "--trace", path)
        tracks = self.tracks(path)
        for aggregator in ("aggregator 1", "aggregator 2"):
            self.assertEqual(self.count(tracks[aggregator], "sum"), tree["steps"])
        local = self.run_job("--set", "protocol.name=local", "--set", "protocol.steps=3", "--trace", path)
        spans = self.tracks(path)["worker 3"]
        self.assertEqual(self.count(spans, "push"), local["steps"])
        self.assertEqual(self.count(spans, "compute"), 3 * local["steps"])

    def test_emulated_time_is_told_from_real_time(self):
        path = self.path("t.json")
        self.run_job("--set", "inject.step_ms=5", "--set", "stop.steps=5", "--trace", path)
        for span in self.tracks(path)["worker 0"]:
            if span["name"] == "compute" and span["args"]["samples"] == 16:
                self.assertEqual(span["args"]["emulated_ns"], 5_000_000)
                self.assertGreaterEqual(span["args"]["training_ns"], 5_000_000)

    def test_an_interrupted_run_leaves_its_trace(self):
        path = self.path("t.json")
        run = self.start("--nodes", "2", "--trace", path)
        run.send_signal(signal.SIGINT)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("shard 0", self.tracks(path))

    def test_a_file_that_cannot_be_written_is_named(self):
        for path in self.path("absent/t.json"), "/dev/full":
            done = subprocess.run([TROUPE, "run", self.path("job.toml", JOB), "--quiet", "--trace", path], capture_output=True,
                                  text=True, timeout=DEADLINE_S, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(os.path.dirname(path), done.stderr)


class Weights(ClusterTest):
    def test_what_is_saved_evaluates_the_same(self):
        weights = self.path("w.safetensors")
        trained = self.run_job("--save", weights)
        done = subprocess.run([TROUPE, "evaluate", self.path("job.toml"), "--weights", weights, "--json"],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        evaluated = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(evaluated["test_accuracy"], trained["test_accuracy"])
        self.assertEqual(evaluated["weights_digest"], trained["weights_digest"])

    def refuse(self, *arguments, job=JOB, code=2, **settings):
        """A run that ends with `code` and nothing on stdout; what it said."""
        done = subprocess.run([TROUPE, "run", self.path("job.toml", job), *arguments], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False, **settings)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_a_folder_that_is_not_there_is_found_before_anything_starts(self):
        said = self.refuse("--save", self.path("missing/w.safetensors"))
        self.assertIn("missing", said)
        self.assertNotIn("job small", said)

    def test_a_model_that_does_not_fit_is_refused_by_its_layer(self):
        said = self.refuse(job=JOB.replace('"flatten", ', '"flatten", "conv 8 3x3 relu", '))
        self.assertIn("layer 2", said)

    def test_a_temporary_folder_that_is_not_there_ends_the_run(self):
        self.assertTrue(self.refuse("--nodes", "2", code=1, env=dict(os.environ, TMPDIR=self.path("missing"))))

    def test_a_disk_that_is_too_small_leaves_no_file_and_says_so(self):
        disk = self.path("disk")
        os.mkdir(disk)
        mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            self.skipTest("only root can mount a tiny disk")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        done = subprocess.run([TROUPE, "run", self.path("job.toml", JOB), "--quiet", "--json", "--save", os.path.join(disk, "w.safetensors")],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("w.safetensors", done.stderr)
        self.assertIsNotNone(json.loads(done.stdout)["weights_digest"])
        self.assertEqual(os.listdir(disk), [])


class Lanes(ClusterTest):
    """Connections between living processes are reset, as a switch or a firewall may do."""

    def setUp(self):
        super().setUp()
        random.seed(SEED)
        if why := connections.cannot_reset():
            self.skipTest(why)

    def test_every_protocol_goes_on_as_if_nothing_had_been(self):
        for protocol in ("sync", "local", "ssp", "gossip"):
            with self.subTest(protocol):
                choice = ["--nodes", "3", "--set", f"protocol.name={protocol}"]
                whole = self.run_job(*choice) if protocol in ("sync", "local") else None
                result = self.reset_often(choice)
                self.assertGreaterEqual(result["samples"], 2400)
                if whole:
                    self.assertEqual([result[key] for key in ("samples", "steps", "weights_digest")],
                                     [whole[key] for key in ("samples", "steps", "weights_digest")])

    def reset_often(self, choice):
        """The result of a run whose lanes were reset more than three times; one that ends before that is made again, slower."""
        for step_ms in (20, 100, 500):
            run = subprocess.Popen([TROUPE, "run", self.path("job.toml", JOB), *choice, "--set", f"inject.step_ms={step_ms}", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.addCleanup(self.end, run)
            resets = 0
            while run.poll() is None:
                children = self.children(run)
                resets += len(children) == 2 and connections.reset_a_lane(children)
                select_nothing()
            out, err = self.finish(run)
            self.assertEqual(run.returncode, 0, err)
            self.assertNotRegex(err, "lost|stall")
            if resets > 3:
                return json.loads(out.splitlines()[-1])
        return self.fail(f"{resets} resets in a run of 40 steps of 500 ms: {err}")


class Deaths(ClusterTest):
    def test_training_goes_on_without_a_killed_worker(self):
        run = self.start("--nodes", "3", "--set", "stop.epochs=1e9", "--set", "cluster.respawn=false")
        children = self.children(run)
        self.assertEqual(len(children), 2)
        os.kill(children[0], signal.SIGKILL)
        self.wait_for_line(run, r"worker \d+ \(node-\d\) is lost")
        self.wait_for_line(run, r"^step ")
        self.wait_for_line(run, r"^step ")
        run.send_signal(signal.SIGINT)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assert_gone(children)

    def test_all_workers_killed_ends_the_run_with_the_reason(self):
        run = self.start("--nodes", "3", "--set", "cluster.respawn=false")
        for child in self.children(run):
            os.kill(child, signal.SIGKILL)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 1, err)
        self.assertRegex(err, r"no worker|workers? .*left")

    def test_a_lost_shard_ends_the_run_with_the_reason(self):
        run = self.start("--nodes", "2", "--set", "cluster.placement=colocated")
        os.kill(self.children(run)[0], signal.SIGKILL)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 1, err)
        self.assertRegex(err, r"shard 1")

    def test_no_child_outlives_its_parent(self):
        run = self.start("--nodes", "3")
        children = self.children(run)
        run.kill()
        run.wait()
        self.assert_gone(children)

    def test_a_stopped_worker_is_named(self):
        run = self.start("--nodes", "3")
        child = self.children(run)[1]
        os.kill(child, signal.SIGSTOP)
        try:
            self.wait_for_line(run, r"worker \d+ \(node-\d\) is lost: node node-\d is silent for")
        finally:
            os.kill(child, signal.SIGCONT)
        run.send_signal(signal.SIGINT)
        self.finish(run)


class Silence(ClusterTest):
    LOST = r"worker \d \(node-\d\) is lost: node node-\d is silent for \d\.\d s, says node node-0; the round closes without it"

    def test_a_stopped_node_is_put_out_and_comes_back_as_often_as_it_is_stopped(self):
        run = self.start("--nodes", "3", "--json", "--set", "inject.step_ms=20")
        children = self.children(run)
        for child in children * 2:
            os.kill(child, signal.SIGSTOP)
            self.wait_for_line(run, self.LOST)
            self.wait_for_line(run, "^step ")
            os.kill(child, signal.SIGCONT)
            self.wait_for_line(run, r"node node-\d is back")
        run.send_signal(signal.SIGINT)
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        result = json.loads(out.splitlines()[-1])
        self.assertEqual(result["restarts"], 4 * 2)  # of each node's two workers
        self.assert_gone(children)

    def test_a_stopped_coordinator_accuses_nobody_and_is_waited_for(self):
        run = self.start("--nodes", "3", "--json", "--set", "inject.step_ms=20", "--set", "stop.steps=200", "--set", "stop.epochs=")
        for _ in range(2):
            os.kill(run.pid, signal.SIGSTOP)
            time.sleep(2.5)  # longer than a deadline, and shorter than the control plane's
            os.kill(run.pid, signal.SIGCONT)
            self.wait_for_line(run, "^step ")
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 0, err)
        self.assertEqual(json.loads(out.splitlines()[-1])["restarts"], 0, err)


class Gossip(ClusterTest):
    JOB = JOB.replace("epochs = 2", "epochs = 15").replace("[stop]", '[protocol]\nname = "gossip"\n[stop]')

    def test_replicas_learn_from_each_other_in_one_process_and_in_several(self):
        # Each worker sees a few of the labels only: the average is good because the replicas have met, or not at all.
        few_labels = ["--set", "data.partition=by-worker", "--set", "data.sorted_fraction=1", "--set", "inject.step_ms=4"]
        for nodes in ("1", "3"):
            result = self.run_job("--nodes", nodes, *few_labels, job=self.JOB.replace("epochs = 15", "epochs = 30"))
            self.assertLess(result["train_loss"], 0.1)
            self.assertGreater(result["test_accuracy"], 0.8)
            self.assertGreaterEqual(result["samples"], 30 * 1200)
            self.assertEqual(result["gradients"], result["steps"])  # each worker's step is one

    def test_peers_shards_and_placement_change_nothing_in_kind(self):
        result = self.run_job("--nodes", "3", "--set", "protocol.peers=2", "--set", "cluster.shards=2",
                              "--set", "cluster.placement=colocated", "--set", "inject.step_ms=4", job=self.JOB)
        self.assertLess(result["train_loss"], 0.2)  # at one pace, whatever else the machine does
        self.assertGreater(result["bytes_sent"], 10e6)

    def test_what_is_saved_is_the_average_that_was_evaluated(self):
        weights = self.path("w.safetensors")
        trained = self.run_job("--nodes", "3", "--save", weights, job=self.JOB)
        done = subprocess.run([TROUPE, "evaluate", self.path("job.toml"), "--weights", weights, "--json"],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        evaluated = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(evaluated["weights_digest"], trained["weights_digest"])
        self.assertEqual(evaluated["test_accuracy"], trained["test_accuracy"])

    def test_a_job_goes_on_and_ends_well_without_a_killed_worker(self):
        # One process has two workers of the four. At the lr of 0.05 the two that are left diverge where one runs ahead alone. The
        # pace gives the kill its time: without it the steps would have to be as many as the fastest machine makes meanwhile.
        job = self.JOB.replace("epochs = 15", "epochs = 60").replace("lr = 0.05", "lr = 0.02")
        run = self.start("--nodes", "3", "--json", "--set", "inject.step_ms=4", "--set", "cluster.respawn=false", job=job)
        os.kill(self.children(run)[0], signal.SIGKILL)
        self.wait_for_line(run, r"worker \d+ \(node-\d\) is lost")
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 0, err)
        result = json.loads(out.splitlines()[-1])
        self.assertGreaterEqual(result["samples"], 60 * 1200)
        self.assertLess(result["train_loss"], 0.1)

    def test_nobody_waits_for_a_stopped_worker(self):
        run = self.start("--nodes", "3", job=self.JOB.replace("epochs = 15", "seconds = 1e6\n[evaluate]\nevery_s = 3600.0"))
        child = self.children(run)[0]
        os.kill(child, signal.SIGSTOP)
        try:
            self.wait_for_line(run, Silence.LOST)
            for _ in range(3):
                self.wait_for_line(run, r"^step ")
        finally:
            os.kill(child, signal.SIGCONT)
        self.wait_for_line(run, r"node node-\d is back")
        run.send_signal(signal.SIGINT)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertNotIn("lost", err)


class Interruption(ClusterTest):
    def test_ctrl_c_ends_in_order(self):
        run = self.start("--nodes", "2")
        children = self.children(run)
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to the whole group
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("interrupted", err)
        self.assert_gone(children)


    def test_ctrl_c_ends_a_comparison_and_what_comes_after(self):
        compare = self.start("--protocols", "sync,sync:fan_in=2", "--nodes", "2", command="compare")
        children = self.children(compare)
        os.killpg(compare.pid, signal.SIGINT)
        _, err = self.finish(compare)
        self.assertEqual(compare.returncode, 130, err)
        self.assertIn("interrupted after 0 of 2 runs", err)
        self.assertNotIn("(2 of 2)", err)
        self.assert_gone(children)


class Hostility(ClusterTest):
    @staticmethod
    def listening_ports(pids):
        """Ports on which these processes listen, from /proc: a socket of theirs that is in state 0A."""
        sockets = set()
        for pid in pids:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                try:
                    sockets.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
                except FileNotFoundError:
                    pass  # closed meanwhile
        ports = []
        for family in ("tcp", "tcp6"):
            with open(f"/proc/net/{family}", encoding="utf-8") as table:
                for row in table.readlines()[1:]:
                    fields = row.split()
                    if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                        ports.append(int(fields[1].rsplit(":", 1)[1], 16))
        return ports

    def test_garbage_on_any_port_hurts_nobody(self):
        run = self.start("--nodes", "2")
        ports = self.listening_ports([run.pid, *self.children(run)])
        self.assertGreaterEqual(len(ports), 2)
        noise = bytes((37 * i * i + 11 * i) % 256 for i in range(4096))
        for port in ports:
            for payload in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 24, b"\0" * 64, noise):
                with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
                    try:
                        peer.sendall(payload)
                    except OSError:
                        pass  # it hung up on us
        self.wait_for_line(run, r"^step ")
        self.wait_for_line(run, r"^step ")
        run.send_signal(signal.SIGINT)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertNotIn("lost", err)


def main():
    """What each file of such tests does when it is run: FILE TROUPE [unittest arguments]."""
    global TROUPE
    TROUPE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
