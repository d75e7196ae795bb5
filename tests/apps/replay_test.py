#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What each version was made of, and the weights computed anew from that: no update is lost, none counts twice.

usage: replay_test.py TROUPE [unittest arguments]
"""
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import time

import cluster_test
from cluster_test import ClusterTest, SEED

JOB = """
name = "replayed"
seed = 7
[data]
source = "digits"
train_samples = 600
test_samples = 100
batch = 16
[model]
layers = ["flatten", "linear 32 relu", "dropout 0.3", "linear 10"]
[optimizer]
lr = 0.05
momentum = 0.9
schedule = "step"
step_epochs = 2
[cluster]
workers = 4
[evaluate]
every_s = 3600.0
[stop]
steps = 60
"""
SGD = ["--set", "optimizer.momentum=0.0"]
ADAMW = ["--set", "optimizer.name=adamw", "--set", "optimizer.momentum=", "--set", "optimizer.lr=0.002"]
STRAGGLER = ["--set", "inject.step_ms=3", "--straggler", "prob=0.2,factor=6"]
BOTH_WAYS = ["--set", "codec.push=onebit", "--set", "codec.params=int4"]
KINDS = {
    "sync sgd": SGD,
    "sync momentum": [],
    "sync adamw": ADAMW,
    "sync lars": ["--set", "optimizer.name=lars", "--set", "optimizer.lr=5", "--set", "cluster.shards=1"],
    "sync by worker": ["--set", "data.partition=by-worker", "--set", "data.sorted_fraction=0.5"],
    "sync augmented": ["--set", 'data.augment=["crop 2", "flip"]'],
    "sync with feedback": ["--set", "codec.push=onebit"],
    "sync encoded both ways": BOTH_WAYS,
    "backup of factors": ["--set", "protocol.name=backup", "--set", "codec.push=factors", *STRAGGLER],
    "backup of rounded parameters": ["--set", "protocol.name=backup", "--set", "codec.params=int8", *STRAGGLER],
    "sync of few elements": ["--set", "codec.push=dgc", "--set", "codec.density=0.02", "--set", "codec.params=changed"],
    "backup rounded to int4": ["--set", "protocol.name=backup", "--set", "codec.push=int4", "--set", "codec.error_feedback=false", *STRAGGLER],
    "backup": ["--set", "protocol.name=backup", *STRAGGLER],
    "deadline adamw": ["--set", "protocol.name=deadline", *STRAGGLER, *ADAMW],
    "coded": ["--set", "protocol.name=coded", *STRAGGLER],
}


class ReplayTest(ClusterTest):
    def setUp(self):
        super().setUp()
        self.rounds = self.path("rounds.jsonl")

    def recorded(self, *arguments, job=JOB):
        return self.run_job("--rounds", self.rounds, *arguments, job=job)

    def replay(self, *arguments, code=0, job=JOB):
        """The object of --json, if there is one, and what was said."""
        done = subprocess.run([cluster_test.TROUPE, "replay", self.path("job.toml", job), self.rounds, "--json", *arguments],
                              capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None, done.stderr

    def assert_replays(self, result, sets):
        """To the weights of the run, over as many gradients as it applied."""
        settings = [word for flag, word in zip(sets, sets[1:]) if flag == "--set"]
        found, said = self.replay(*(word for one in settings for word in ("--set", one)))
        self.assertEqual(found["weights_digest"], result["weights_digest"], said)
        self.assertEqual(found["version"], result["steps"])
        self.assertEqual(found["contributions"], result["gradients"] - result["discarded"])
        return found

    def lines(self):
        with open(self.rounds, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def lives(self):
        """Each worker's lives that versions are made of; of a run that goes on, so far."""
        if not os.path.exists(self.rounds):
            return set()
        with open(self.rounds, encoding="utf-8") as file:
            whole = [json.loads(line) for line in file if line.endswith("\n")]
        return {(worker, life) for line in whole for worker, life, *_ in line.get("contributions", [])}

    def write(self, lines):
        with open(self.rounds, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


class Undisturbed(ReplayTest):
    def test_a_run_replays_to_its_bits(self):
        draw = random.Random(SEED)
        for kind, sets in KINDS.items():
            with self.subTest(kind):
                result = self.recorded("--nodes", str(draw.choice([1, 2, 3])), "--set", f"cluster.shards={draw.choice([1, 2])}", *sets)
                self.assert_replays(result, sets)

    def test_a_line_tells_each_version(self):
        self.recorded("--nodes", "2")
        head, plan, *versions, end = self.lines()
        self.assertEqual((head["troupe_rounds"], head["job"], head["version"]), (1, "replayed", 0))
        self.assertEqual(plan, {"epoch": 1, "members": [[worker, 0] for worker in range(4)]})
        self.assertEqual([line["version"] for line in versions], list(range(1, 61)))
        self.assertEqual([line["position"] for line in versions[:11]], [64 * step for step in range(10)] + [600],
                         "an epoch of the data ends with a short batch")
        self.assertEqual(versions[0]["contributions"], [[worker, 0, 1, "0.25"] for worker in range(4)])
        self.assertEqual(end["end"], 60)

    def test_a_run_that_went_on_from_a_checkpoint(self):
        for number, sets in enumerate((ADAMW, BOTH_WAYS)):
            with self.subTest(sets=sets):
                folder = self.path(f"kept{number}")
                kept = ["--set", f"checkpoint.dir={folder}", "--set", "checkpoint.every_steps=20", *sets]
                self.recorded(*kept, "--set", "stop.steps=40")
                result = self.recorded(*kept, "--resume", f"{folder}/step-40")
                self.assertEqual(self.lines()[0]["version"], 40)
                _, said = self.replay(*kept, code=2)
                self.assertIn("went on from step 40; name that checkpoint with --resume", said)
                found, _ = self.replay(*kept, "--resume", f"{folder}/step-40")
                self.assertEqual((found["weights_digest"], found["version"]), (result["weights_digest"], 60))

    def test_an_interrupted_run_replays_to_its_newest_weights(self):
        run = self.start("--rounds", self.rounds, "--json", "--set", "inject.step_ms=5",
                         job=JOB.replace("steps = 60", "steps = 100000"))
        run.send_signal(signal.SIGINT)
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        found, _ = self.replay()
        result = json.loads(out.splitlines()[-1])
        self.assertEqual((found["weights_digest"], found["version"]), (result["weights_digest"], result["weights_step"]))

    def test_a_full_disk_costs_the_file_and_a_line(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
        done = subprocess.run([cluster_test.TROUPE, "run", self.path("job.toml", JOB), "--json", "--rounds", self.rounds],
                              capture_output=True, text=True, preexec_fn=small_files, timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"rounds.jsonl cannot be written any more \(File too large\); the run goes on without it\n")
        self.assertEqual(json.loads(done.stdout)["steps"], 60)
        _, said = self.replay(code=2)
        self.assertIn("cut off", said)


class Disturbed(ReplayTest):
    """A process of two workers is killed at a random moment, is started anew, and takes part again."""

    def test_a_run_that_loses_workers_and_regains_them_replays_to_its_bits(self):
        draw = random.Random(SEED)
        kinds = {"sync, whose rate follows": ["--set", "optimizer.scale_with_workers=true"], "backup adamw": ["--set", "protocol.name=backup", *ADAMW],
                 "deadline": ["--set", "protocol.name=deadline", "--set", "codec.params=int8"], "coded sgd": ["--set", "protocol.name=coded", *SGD]}
        for kind, sets in kinds.items():
            with self.subTest(kind, seed=SEED):
                sets = [*sets, "--set", "inject.step_ms=10"]
                job = JOB.replace("steps = 60", "steps = 500")
                pathlib.Path(self.rounds).unlink(missing_ok=True)
                run = self.start("--nodes", "3", "--json", "--rounds", self.rounds, *sets, job=job)
                for number in range(2):
                    while all(life < number for _, life in self.lives()):  # else it may be killed before it has done anything
                        self.assertIsNone(run.poll())
                        cluster_test.select_nothing()
                    moment = time.monotonic() + draw.uniform(0, 0.3)
                    while time.monotonic() < moment:
                        cluster_test.select_nothing()
                    os.kill(draw.choice(self.children(run)), signal.SIGKILL)
                    self.wait_for_line(run, "is back")
                out, err = self.finish(run)
                self.assertEqual(run.returncode, 0, err)
                result = json.loads(out.splitlines()[-1])
                self.assertEqual((result["steps"], result["restarts"]), (500, 4), err)
                self.assert_replays(result, sets)
                self.assertGreater(len(self.lives()), 4, "a life of a worker is a life of its process")
                self.assertLess(min(line["workers"] for line in self.lines() if "workers" in line), 4, "versions of fewer, at their rate")


class Refused(ReplayTest):
    def test_what_was_left_out_and_fed_back(self):
        sets = ["--set", "protocol.name=backup", "--set", "codec.push=onebit"]
        self.assertGreater(self.recorded(*sets, *STRAGGLER)["discarded"], 0)
        _, said = self.replay(*sets, code=2)
        self.assertRegex(said, r"version \d+: push \d+ of worker \d, life 0, is in no version, and what its code lost is in its next")

    def refused(self, lines, *arguments, code=2):
        self.write(lines)
        return self.replay(*arguments, code=code)[1]

    def test_a_file_that_is_not_the_runs(self):
        self.recorded()
        whole = self.lines()
        with open(self.rounds, encoding="utf-8") as file:
            text = file.read()
        for size, why in ((len(text) - 30, r"rounds.jsonl:63: the line is cut off"), (len(text) // 2, "the line is cut off")):
            with open(self.rounds, "w", encoding="utf-8") as file:
                file.write(text[:size])
            self.assertRegex(self.replay(code=2)[1], why)
        self.assertIn("the last line, with the digest of the weights, is missing", self.refused(whole[:-1]))
        self.assertIn("rounds.jsonl:1: it is of format 2, and this program reads format 1",
                      self.refused([{**whole[0], "troupe_rounds": 2}, *whole[1:]]))
        self.assertIn("rounds.jsonl:5: version 4 stands where 3 is due", self.refused([*whole[:4], *whole[5:]]))
        doubled = json.loads(json.dumps(whole))
        doubled[5]["contributions"][1] = doubled[4]["contributions"][1]
        self.assertRegex(self.refused(doubled), "rounds.jsonl:6: push 3 of worker 1, life 0, is not newer than its last")
        moved = json.loads(json.dumps(whole))
        moved[5]["position"] += 1
        self.assertIn("version 4: it begins at sample 193, and the one before it ends at 192", self.refused(moved))
        self.assertIn("rounds.jsonl:1: the line is no JSON object", self.refused(["weights"]))

    def test_another_weight_makes_another_digest(self):
        self.recorded()
        lines = self.lines()
        lines[7]["contributions"][2][3] = "0.2500001"
        self.write(lines)
        found, said = self.replay(code=1)
        self.assertFalse(found["same"])
        self.assertRegex(said, f"ends with weights {lines[-1]['weights_digest']}, and its rounds make {found['weights_digest']}")

    def test_a_lost_gradient_makes_another_digest(self):
        self.recorded()
        lines = self.lines()
        del lines[9]["contributions"][3]
        self.write(lines)
        self.assertFalse(self.replay(code=1)[0]["same"])

    def test_another_job(self):
        self.recorded()
        for key, value in (("seed", "8"), ("optimizer.lr", "0.1"), ("data.batch", "8"), ("cluster.workers", "3"), ("protocol.name", "coded")):
            with self.subTest(key):
                self.assertRegex(self.replay("--set", f"{key}={value}", code=2)[1],
                                 rf"--set {key}: {key} is .*, and .*rounds.jsonl was written by a job with ")

    def test_another_codec_of_parameters(self):
        self.recorded("--set", "codec.params=int8")
        self.assertRegex(self.replay("--set", "codec.params=int4", code=2)[1],
                         r"--set codec.params: codec.params is .*int4.*, and .*rounds.jsonl was written by a job with .*int8")

    def test_copies_of_shards_whose_parameters_are_rounded(self):
        done = subprocess.run([cluster_test.TROUPE, "run", self.path("job.toml", JOB), "--nodes", "2", "--rounds", self.rounds, "--set",
                               "codec.params=int8", "--set", "cluster.replicas=2"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--set codec.params: a copy of a shard that comes later, and takes its place, begins with the version itself, which no list of "
                      "gradients tells; leave it out, or write cluster.replicas = 1", done.stderr)
        self.assertFalse(os.path.exists(self.rounds))

    def test_a_protocol_whose_versions_are_not_sums_of_gradients(self):
        for name, why in (("async", "has no rounds: every shard applies each push alone"),
                          ("local", "has workers that keep parameters of their own between rounds"),
                          ("gossip", "has no rounds: every worker has parameters of its own"),
                          ("auto", "changes its protocol while it runs")):
            with self.subTest(name):
                done = subprocess.run([cluster_test.TROUPE, "run", self.path("job.toml", JOB), "--rounds", self.rounds, "--set",
                                       f"protocol.name={name}"], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{name} {why}, so its versions do not follow from lists of gradients; those of sync, backup, deadline, coded do",
                              done.stderr)
                self.assertFalse(os.path.exists(self.rounds))


if __name__ == "__main__":
    cluster_test.main()
