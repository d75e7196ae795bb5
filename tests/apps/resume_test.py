#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of real runs, and runs that go on from them: the same bits as the unbroken run, whatever broke it.

usage: resume_test.py TROUPE [unittest arguments]
"""
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess

import cluster_test
from cluster_test import ClusterTest, SEED

JOB = """
name = "kept"
seed = 7
[data]
source = "digits"
train_samples = 640
test_samples = 100
batch = 16
[model]
layers = ["flatten", "linear 32 relu", "dropout 0.3", "linear 10"]
[optimizer]
lr = 0.05
momentum = 0.9
[cluster]
workers = 4
[evaluate]
every_s = 3600.0
[stop]
steps = 60
[checkpoint]
every_steps = 5
"""
TEXT = """
seed = 7
[data]
source = "text"
path = "TEXT"
context = 8
batch = 4
[model]
layers = ["embedding 8", "linear 16 relu", "head"]
[optimizer]
lr = 0.05
[cluster]
workers = 2
[stop]
steps = 20
"""
ADAMW = ["--set", "optimizer.name=adamw", "--set", "optimizer.momentum=", "--set", "optimizer.lr=0.002"]
ALLREDUCE = ["--set", "protocol.name=allreduce", "--set", "cluster.shards=1"]  # groups are given, else they are those of a node
KINDS = {
    "sync sgd": ["--set", "optimizer.momentum=0.0"],
    "sync momentum": [],
    "sync adamw": ADAMW,
    "sync lars": ["--set", "optimizer.name=lars", "--set", "optimizer.lr=5", "--set", "cluster.shards=1"],
    "coded adamw": ["--set", "protocol.name=coded", *ADAMW],
    "backup of all": ["--set", "protocol.name=backup", "--set", "protocol.quorum=4"],
    "sync rounded to int8": ["--set", "codec.push=int8"],
    "sync of factors": ["--set", "codec.push=factors"],
    "sync with onebit both ways": ["--set", "codec.push=onebit", "--set", "codec.params=onebit"],
    "sync of few elements": ["--set", "codec.push=dgc", "--set", "codec.density=0.02", "--set", "codec.params=changed",
                             "--set", "cluster.shards=1"],
    "local with int4 both ways": ["--set", "protocol.name=local", "--set", "protocol.steps=2", "--set", "codec.push=int4",
                                  "--set", "codec.params=int4"],
    "tree": ["--set", "protocol.fan_in=2"],
    "auto": ["--set", "protocol.name=auto", "--set", 'protocol.candidates=["sync"]'],
    "allreduce adamw": [*ALLREDUCE, "--set", "protocol.group=1", *ADAMW],
    "allreduce by a ring, in groups": [*ALLREDUCE, "--set", "protocol.group=2", "--set", "protocol.algorithm=ring"],
    "allreduce of local steps": [*ALLREDUCE, "--set", "protocol.group=1", "--set", "protocol.steps=3", "--set", "protocol.outer=nesterov"],
    "allreduce of fragments that come late": [*ALLREDUCE, "--set", "protocol.group=1", "--set", "protocol.steps=4", "--set", "protocol.fragments=2",
                                              "--set", "protocol.overlap_steps=1", "--set", "protocol.outer=nesterov"],
    "allreduce in groups, of sums that come late": [*ALLREDUCE, "--set", "protocol.group=2", "--set", "protocol.steps=4", "--set", "protocol.overlap_steps=1"],
    "broadcast of onebit terms": [*ALLREDUCE, "--set", "protocol.group=1", "--set", "protocol.algorithm=broadcast", "--set", "codec.push=onebit"],
    "allreduce of int4 sums": [*ALLREDUCE, "--set", "protocol.group=1", "--set", "protocol.algorithm=direct", "--set", "codec.push=int4"],
    "admm": ["--set", "protocol.name=admm", "--set", "protocol.barrier=4", "--set", "protocol.steps=2"],
    "local sgd": ["--set", "protocol.name=local", "--set", "protocol.steps=3", "--set", "optimizer.momentum=0.0"],
    "local momentum": ["--set", "protocol.name=local", "--set", "protocol.steps=3", "--set", "protocol.sample_fraction=0.5"],
    "local adamw, outer nesterov": ["--set", "protocol.name=local", "--set", "protocol.steps=2", "--set", "protocol.outer=nesterov", *ADAMW],
}


class ResumeTest(ClusterTest):
    def command(self, *arguments, job=JOB, events=False):
        return [cluster_test.TROUPE, "run", self.path("job.toml", job), *([] if events else ["--quiet"]), "--json", "--set",
                f"checkpoint.dir={self.path('kept')}", *arguments]

    def run_to_end(self, *arguments, code=0, job=JOB, events=False):
        done = subprocess.run(self.command(*arguments, job=job, events=events), capture_output=True, text=True,
                              timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None, done.stderr

    def listed(self):
        done = subprocess.run([cluster_test.TROUPE, "checkpoint", "list", self.path("kept"), "--json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["checkpoints"]

    def steps(self):
        return [each["step"] for each in self.listed()]

    def newest(self):
        """The step of the newest checkpoint, 0 before the first."""
        manifests = pathlib.Path(self.path("kept")).glob("step-*/manifest")
        return max((int(each.parent.name.removeprefix("step-")) for each in manifests), default=0)

    def kill_after(self, checkpoint, *arguments, step_ms=10):
        """A run that is killed, with its processes, a moment after that checkpoint is there, or a later one."""
        run = subprocess.Popen(self.command("--set", f"inject.step_ms={step_ms}", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
        self.addCleanup(self.end, run)
        while self.newest() < checkpoint:
            self.assertIsNone(run.poll(), run.stderr)
            cluster_test.select_nothing()
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()

    def kill_before_its_end(self, checkpoint, *arguments):
        """Likewise; one that ends before that is made again, slower."""
        for step_ms in (10, 50, 250):
            self.kill_after(checkpoint, *arguments, step_ms=step_ms)
            if self.newest() < 60:
                return
            subprocess.run(["rm", "-r", self.path("kept")], check=True)
        self.fail("a run of steps of 250 ms ended before it was killed")


class Bits(ResumeTest):
    def test_a_killed_run_goes_on_with_the_bits_of_an_unbroken_one(self):
        draw = random.Random(SEED)
        for kind, sets in KINDS.items():
            with self.subTest(kind):
                unbroken, _ = self.run_to_end(*sets)
                subprocess.run(["rm", "-r", self.path("kept")], check=True)
                self.kill_before_its_end(draw.randrange(5, 50, 5), *sets, "--nodes", str(draw.choice([1, 2, 4])))
                resumed, said = self.run_to_end("--resume", self.path("kept"), "--nodes", str(draw.choice([1, 2, 4])),
                                                "--set", f"cluster.shards={draw.choice([1, 2, 3])}", *sets)
                self.assertEqual(resumed["weights_digest"], unbroken["weights_digest"], said)
                self.assertEqual(resumed["steps"], 60)
                self.assertEqual(resumed["samples"], unbroken["samples"])
                subprocess.run(["rm", "-r", self.path("kept")], check=True)

    def test_where_each_push_is_applied_alone_a_run_goes_on_where_it_was(self):
        for protocol, *more in (("async",), ("dc-async",), ("ssp",), ("easgd",), ("async", "--set", "codec.push=onebit")):
            with self.subTest(protocol, more=more):
                sets = ["--set", f"protocol.name={protocol}", "--set", "cluster.shards=2", "--set", "checkpoint.every_steps=20", *more]
                self.kill_after(40, *sets, "--set", "stop.steps=100000")
                first = self.steps()[-1]  # or the one before it, where this one is torn
                steps = first + 160
                resumed, said = self.run_to_end(*sets, "--resume", self.path("kept"), "--nodes", "2", "--set", f"stop.steps={steps}")
                self.assertGreaterEqual(resumed["samples"], 16 * (steps - 8), said)  # the last batch of an epoch is short, not here
                self.assertEqual(resumed["steps"], steps)
                self.assertGreater(resumed["test_accuracy"], 0.2)
                made = [each for each in self.listed() if each["step"] > first]
                self.assertIn(len(made), (1, 2, 3), made)  # one that is due while another is written is left out
                self.assertEqual([each["faults"] for each in made], [[]] * len(made))
                self.assertGreater(made[-1]["step"], steps - 8)
                subprocess.run(["rm", "-r", self.path("kept")], check=True)

    def taken_out(self, checkpoint):
        """The file of its weights, and their accuracy."""
        weights = self.path("taken.safetensors")
        subprocess.run([cluster_test.TROUPE, "checkpoint", "export", self.path(f"kept/step-{checkpoint}"), "--to", weights], check=True,
                       capture_output=True)
        done = subprocess.run([cluster_test.TROUPE, "evaluate", self.path("job.toml"), "--set", "checkpoint.every_steps=", "--weights", weights,
                               "--json"], check=True, capture_output=True, text=True)
        return weights, json.loads(done.stdout.splitlines()[-1])["test_accuracy"]

    def test_where_every_worker_has_parameters_of_its_own_a_run_goes_on_where_it_was(self):
        sets = ["--set", "protocol.name=gossip", "--set", "cluster.shards=1", "--set", "checkpoint.every_steps=80", "--set", "optimizer.lr=0.02"]
        self.kill_after(480, *sets, "--set", "stop.steps=100000", "--nodes", "2")
        first = self.steps()[-1]
        # Small steps from there: the accuracy stays within noise, and 160 of them from the initial parameters reach 0.2.
        sets += ["--set", "optimizer.lr=0.001"]
        for workers in (2, 4, 6):  # of some nobody goes on, and some have no file
            with self.subTest(workers=workers):
                there = [each for each in self.listed() if each["good"]][-1]
                before, steps = self.taken_out(there["step"])[1], there["step"] + 160
                self.assertGreater(before, 0.5, "the mean of the replicas is a trained model")
                resumed, said = self.run_to_end(*sets, "--resume", self.path("kept"), "--nodes", "2", "--set", f"stop.steps={steps}",
                                                "--set", f"cluster.workers={workers}")
                self.assertGreaterEqual(resumed["steps"], steps, said)
                self.assertGreaterEqual(resumed["samples"], there["samples"] + 160, said)
                self.assertGreater(resumed["test_accuracy"], before - 0.1, said)
        made = [each for each in self.listed() if each["step"] > first]
        self.assertEqual([each["faults"] for each in made], [[]] * len(made))
        self.assertEqual(made[-1]["step"], steps, "the last step is written, too")

    def test_every_worker_goes_on_with_parameters_of_its_own(self):
        sets = ["--set", "protocol.name=gossip", "--set", "cluster.shards=1"]
        self.run_to_end(*sets)
        taken, mixed = self.taken_out(60)[0], self.path("mixed.safetensors")
        self.run_to_end(*sets, "--resume", self.path("kept"), "--set", "stop.steps=300", "--set", "optimizer.lr=1e-30", "--save", mixed)
        done = subprocess.run([cluster_test.TROUPE, "weights", "diff", taken, mixed, "--json"], capture_output=True, text=True, check=False)
        differ = {each["name"]: each["largest_difference"] for each in json.loads(done.stdout.splitlines()[-1])["tensors"]}
        # Without steps all tend to their mean by weights; workers that had begun at the mean would have stayed there.
        self.assertGreater(differ["linear1.weight"], 1e-4, differ)
        self.assertLess(differ["linear1.weight"], 0.2, differ)

    def test_a_worker_without_a_file_begins_without_momentum(self):
        sets = ["--set", "protocol.name=local", "--set", "protocol.steps=3"]
        self.run_to_end(*sets, "--set", "stop.steps=20")
        resumed, said = self.run_to_end(*sets, "--resume", self.path("kept"), "--set", "cluster.workers=6")
        self.assertEqual(resumed["steps"], 60, said)

    def test_the_period_that_adacomm_has_reached_is_kept(self):
        sets = ["--set", "protocol.name=adacomm", "--set", "protocol.initial_steps=8", "--set", "protocol.interval_s=0.1",
                "--set", "inject.step_ms=5"]
        first, _ = self.run_to_end(*sets, "--set", "stop.steps=30")
        self.assertLess(first["communication_period"], 8)
        resumed, said = self.run_to_end(*sets, "--resume", self.path("kept"), "--set", "stop.steps=31", "--set", "protocol.interval_s=1000")
        self.assertEqual(resumed["communication_period"], first["communication_period"], said)

    def test_the_size_of_partitions_that_was_tried_last_is_where_it_goes_on(self):
        sets = ["--set", "exchange.partition_kib=auto"]
        first, said = self.run_to_end(*sets, "--set", "stop.steps=30")
        self.assertEqual(first["partition_kib"], 2048, said)  # another one than at the beginning
        resumed, said = self.run_to_end(*sets, "--resume", self.path("kept"), "--set", "stop.steps=31")
        self.assertEqual(resumed["partition_kib"], 2048, said)

    def test_another_number_of_shards_makes_no_difference(self):
        first, _ = self.run_to_end("--set", "stop.steps=20", "--set", "cluster.shards=3", "--nodes", "2")
        unbroken, _ = self.run_to_end("--set", f"checkpoint.dir={self.path('other')}")
        for shards in (1, 2):
            resumed, _ = self.run_to_end("--resume", self.path("kept/step-20"), "--set", f"cluster.shards={shards}",
                                         "--set", f"checkpoint.dir={self.path(f'kept{shards}')}")
            self.assertEqual(resumed["weights_digest"], unbroken["weights_digest"])
        self.assertEqual(first["steps"], 20)


class Course(ResumeTest):
    def test_training_time_goes_on_where_it_was(self):
        for steps in (20, 40, 60):
            result, said = self.run_to_end("--set", "inject.step_ms=10", "--set", f"stop.steps={steps}", "--set", "checkpoint.every_steps=20",
                                           *(["--resume", self.path("kept")] if steps > 20 else []))
            self.assertGreaterEqual(result["seconds"], 0.010 * steps, said)
        for each in self.listed():
            self.assertGreaterEqual(each["training_s"], 0.010 * each["step"], each)

    def test_every_so_many_steps_and_at_the_end_and_the_newest_are_kept(self):
        sets = ["--set", "inject.step_ms=5", "--set", "checkpoint.every_steps=20"]

        def whole(due, said):
            """Without those that the run says it had no time for."""
            late = re.findall(r"no checkpoint of step (\d+): that of step (\d+) took too long", said)
            return [step for step in due if not any(int(slow) < step <= int(until) for until, slow in late)]
        _, said = self.run_to_end(*sets, "--set", "stop.steps=90", events=True)
        first = whole([20, 40, 60, 80, 90], said)[-3:]
        self.assertEqual(self.steps(), first, said)
        _, said = self.run_to_end(*sets, "--set", "stop.steps=150", "--set", "checkpoint.keep=2", "--resume", self.path("kept"), events=True)
        self.assertEqual(self.steps(), first + whole([100, 120, 140, 150], said)[-2:], "those of another run are not counted")
        self.assertEqual(self.steps()[-1], 150)
        for each in self.listed():
            self.assertEqual(each["faults"], [], each)

    def test_an_interrupt_saves_the_newest_step(self):
        run = subprocess.Popen(self.command("--set", "stop.steps=100000", "--set", "inject.step_ms=10", "--set", "checkpoint.every_steps=20"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, run)
        while not os.path.exists(os.path.join(self.path("kept"), "step-20", "manifest")):
            self.assertIsNone(run.poll())
            cluster_test.select_nothing()
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=cluster_test.DEADLINE_S)
        steps = json.loads(out.splitlines()[-1])["steps"]
        self.assertGreaterEqual(self.steps()[-1], steps, err)

    def test_a_full_disk_costs_the_checkpoint_and_a_line(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        run = subprocess.run(self.command(events=True), capture_output=True, text=True, preexec_fn=small_files,
                             timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stderr, r"no checkpoint of step \d+: shard 0: .*: File too large")
        self.assertEqual([name for _, _, names in os.walk(self.path("kept")) for name in names if name != ".mark"], [])


class Refused(ResumeTest):
    def test_what_is_torn_is_named_and_the_one_before_it_is_taken(self):
        self.run_to_end("--set", "stop.steps=20", "--set", "inject.step_ms=5", "--set", "checkpoint.every_steps=10")
        torn = os.path.join(self.path("kept"), "step-20", "shard-0.ckpt")
        with open(torn, "r+b") as file:
            file.truncate(os.path.getsize(torn) // 2)
        _, said = self.run_to_end("--resume", self.path("kept/step-20"), code=2)
        self.assertIn("step-20/shard-0.ckpt", said)
        resumed, said = self.run_to_end("--resume", self.path("kept"))
        self.assertIn("step-20/shard-0.ckpt", said)
        self.assertEqual(resumed["steps"], 60)

    def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(self):
        for verb, code in (("check", 2), ("run", 1)):
            done = subprocess.run([cluster_test.TROUPE, verb, self.path("job.toml", JOB), "--set", "checkpoint.dir=/proc/kept"],
                                  capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn("checkpoint.dir: /proc", done.stderr)
            self.assertNotIn("step", done.stdout + done.stderr)

    def test_the_checkpoints_of_another_run_are_not_written_among(self):
        self.run_to_end("--set", "stop.steps=20")
        _, said = self.run_to_end("--set", "stop.steps=20", code=2)
        self.assertRegex(said, "checkpoint.dir: .* has step-[0-9]+ of another run; go on from it with --resume")
        self.run_to_end("--resume", self.path("kept/step-20"))
        older, newer = self.steps()[-2:]
        _, said = self.run_to_end("--set", "stop.steps=65", "--resume", self.path(f"kept/step-{older}"), code=2)
        self.assertIn(f"step-{newer} of another run", said)

    def test_another_job_is_refused_by_the_key(self):
        self.run_to_end("--set", "stop.steps=10")
        for key, value in (("optimizer.name", "adamw"), ("data.train_samples", "320"), ("model.layers", '["flatten", "linear 10"]'),
                           ("protocol.name", "coded")):
            with self.subTest(key):
                sets = [f"{key}={value}"] + (["optimizer.momentum="] if value == "adamw" else [])
                _, said = self.run_to_end(*(word for one in sets for word in ("--set", one)), "--resume", self.path("kept"), code=2)
                self.assertIn(key, said)

    def test_another_text_is_refused_even_if_it_is_as_long_and_the_same_text_may_move(self):
        text = TEXT.replace("TEXT", self.path("text.txt", "to be or not to be, " * 40))
        self.run_to_end("--set", "stop.steps=10", job=text)
        other = self.path("other.txt", "to de or not to de, " * 40)
        result, said = self.run_to_end("--set", f"data.path={other}", "--resume", self.path("kept"), code=1, job=text)
        self.assertRegex(said, "other.txt .SHA-256 [0-9a-f]{8}.* is not of the data that .*/kept/step-10 was made with, which are .*text.txt")
        self.assertEqual(result["steps"], 0)
        moved = self.path("moved.txt", "to be or not to be, " * 40)
        result, _ = self.run_to_end("--set", f"data.path={moved}", "--resume", self.path("kept"), job=text)
        self.assertEqual(result["steps"], 20)


if __name__ == "__main__":
    cluster_test.main()
