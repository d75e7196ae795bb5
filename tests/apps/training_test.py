#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# What is done to a gradient before it is a step. Usage: training_test.py TROUPE SOURCE_DIR [unittest arguments].
import json
import math
import sys
import unittest

from cli_test import Case, last_json, troupe
from models_test import tensors

JOB = """
seed = 3
[data]
train_samples = 480
test_samples = 100
batch = 24
[model]
layers = ["flatten", "linear 12 relu", "linear 10"]
[optimizer]
lr = 0.1
[cluster]
nodes = 3
workers = 2
shards = 2
[stop]
steps = 1
"""


ALONE = ["cluster.nodes=2", "cluster.workers=1", "cluster.shards=1"]  # whoever comes first is the same in every run


class Training(Case):
    def setUp(self):
        super().setUp()
        self.job = self.write("job.toml", JOB)

    def run_job(self, *sets, flags=(), job=None):
        """Its result and its weights."""
        path = self.folder / "weights.safetensors"
        done = troupe("run", job or self.job, "--json", "--quiet", "--save", path, *flags, *words(sets))
        self.assertEqual(done.returncode, 0, done)
        return last_json(done), tensors(path)


def words(sets):
    return [word for each in sets for word in ("--set", each)]


def list_of(*texts):
    return json.dumps(texts)


class Rates(Training):
    SCALED = "optimizer.lr_scale=" + list_of("*.weight = 3", "linear1.* = 0.5")

    def test_whoever_takes_the_step_scales_the_rate_of_what_is_named(self):
        for sets in ([], ["optimizer.name=adamw"], ["optimizer.name=lars", "optimizer.momentum=0.9", "optimizer.lr=5", "cluster.shards=1"],
                     ["optimizer.momentum=0.9", "cluster.shards=3"], ["cluster.placement=colocated", "cluster.nodes=2"],
                     ["protocol.name=local", "protocol.steps=1"], ["protocol.name=async", *ALONE], ["protocol.name=easgd", "protocol.steps=1", *ALONE],
                     ["protocol.name=easgd", "protocol.steps=1", "protocol.momentum=0.9", *ALONE]):
            with self.subTest(sets):
                # What is frozen is as it began.
                _, begun = self.run_job(*sets, "optimizer.freeze=" + list_of("linear1.*"))
                begun |= {name: values for name, values in self.run_job(*sets, "optimizer.freeze=" + list_of("linear2.*"))[1].items()
                          if name.startswith("linear2")}
                _, plain = self.run_job(*sets)
                _, scaled = self.run_job(*sets, self.SCALED)
                for name, factor in (("linear1.weight", 0.5), ("linear1.bias", 0.5), ("linear2.weight", 3), ("linear2.bias", 1)):
                    moved = [factor * (p - b) for p, b in zip(plain[name], begun[name])]
                    self.assertGreater(max(map(abs, moved)), 1e-4)
                    for b, m, s in zip(begun[name], moved, scaled[name]):
                        self.assertAlmostEqual(b + m, s, places=6, msg=name)

    def test_under_lars_a_matrix_moves_by_a_share_of_its_norm(self):
        lars = ["optimizer.name=lars", "optimizer.lr=5", "optimizer.trust=0.01", "cluster.shards=1"]
        for sets in ([], ["optimizer.momentum=0.9", "optimizer.clip_norm=0.1"], ["protocol.name=async", *ALONE], ["protocol.name=local", "protocol.steps=1", *ALONE],
                     ["protocol.name=local", "protocol.steps=1", "protocol.outer=momentum", *ALONE]):
            with self.subTest(sets):
                _, begun = self.run_job(*lars, *sets, "optimizer.freeze=" + list_of("linear1.*"))
                _, moved = self.run_job(*lars, *sets)
                was, is_now = begun["linear1.weight"], moved["linear1.weight"]
                self.assertAlmostEqual(math.dist(was, is_now) / math.hypot(*was), 5 * 0.01, places=5)

    def test_a_simulation_scales_them_too(self):
        sets = words([self.SCALED, "stop.steps=8"])
        real = last_json(troupe("run", self.job, "--quiet", "--json", *sets))
        played = last_json(troupe("simulate", self.job, "--json", *sets))
        self.assertAlmostEqual(played["train_loss"], real["train_loss"], places=6)
        self.assertNotAlmostEqual(played["train_loss"], last_json(troupe("simulate", self.job, "--json", *sets[2:]))["train_loss"], places=3)

    def test_check_says_what_is_scaled(self):
        self.assertRegex(troupe("check", self.job, *words([self.SCALED])).stdout, r"linear1\.bias +\(12\) +trained, lr times 0\.5\n")
        shapes = last_json(troupe("check", self.job, "--json", *words([self.SCALED])))["model"]["shapes"]
        self.assertEqual([each["lr_scale"] for each in shapes], [0.5, 0.5, 3, 1])

    def test_what_names_nothing_or_has_no_factor_is_refused(self):
        for text, sentence in (("conv1.* = 2", "is the name of no trained parameter"), ("linear1.*", "is no name with a factor above 0"),
                               ("linear1.* = 0", "is no name with a factor above 0")):
            for command in "check", "run":
                with self.subTest(text, command=command):
                    self.assertIn(f'optimizer.lr_scale = "{text}" {sentence}',
                                  self.refused(command, self.job, "--set", "optimizer.lr_scale=" + list_of(text)))


class Clipping(Training):
    LAYERS = "model.layers=" + list_of("flatten", "batchnorm", "linear 12 relu", "linear 10")

    def norm(self, found, begun):
        return sum((a - b) ** 2 for name in begun if "running" not in name for a, b in zip(found[name], begun[name])) ** 0.5

    def begin(self):
        """Sets that begin at weights which are known."""
        _, begun = self.run_job(self.LAYERS, "optimizer.lr=1e-30")
        path = self.folder / "begun.safetensors"
        (self.folder / "weights.safetensors").rename(path)
        return [self.LAYERS, f"model.init={path}", "optimizer.lr=1"], begun

    def test_a_step_is_as_long_as_the_norm_that_is_allowed(self):
        begin, begun = self.begin()
        for sets in ([], ["cluster.shards=1"], ["cluster.replicas=2"], ["protocol.name=backup", "protocol.quorum=2"], ["protocol.name=async", *ALONE],
                     ["protocol.name=dc-async", *ALONE], ["protocol.name=local", "protocol.steps=1", *ALONE]):
            with self.subTest(sets):
                _, free = self.run_job(*begin, *sets)
                whole = self.norm(free, begun)
                self.assertGreater(whole, 0.01)
                _, clipped = self.run_job(*begin, *sets, f"optimizer.clip_norm={whole / 8}")
                self.assertAlmostEqual(self.norm(clipped, begun) / (whole / 8), 1, places=4)
                for name in begun:  # the direction is the same, and a running mean is no gradient
                    share = 1 if "running" in name else 8
                    for b, f, c in zip(begun[name], free[name], clipped[name]):
                        self.assertAlmostEqual(f - b, share * (c - b), delta=2e-5 * whole + 1e-6 * abs(b) * share, msg=name)
                _, same = self.run_job(*begin, *sets, f"optimizer.clip_norm={whole * 1.01}")
                for name in begun:
                    for f, s in zip(free[name], same[name]):
                        self.assertAlmostEqual(f, s, places=6, msg=name)

    def test_the_bits_do_not_depend_on_shards_copies_aggregators_and_processes(self):
        clip = ["optimizer.clip_norm=0.1", "optimizer.momentum=0.9", "stop.steps=12", self.LAYERS]
        digests = {}
        for sets in (["cluster.shards=1"], ["cluster.shards=3"], ["cluster.shards=3", "cluster.nodes=1"], ["cluster.shards=2", "cluster.replicas=2"],
                     ["cluster.shards=4", "cluster.nodes=3"]):
            digests[" ".join(sets)] = self.run_job(*clip, *sets)[0]["weights_digest"]
        self.assertEqual(len(set(digests.values())), 1, digests)
        self.assertNotIn(self.run_job(*clip[1:], "cluster.shards=1")[0]["weights_digest"], digests.values())

    def test_a_simulation_clips_too(self):
        for sets in ([], ["protocol.name=async", *ALONE], ["protocol.name=local", "protocol.steps=2"]):
            with self.subTest(sets):
                sets = words(["optimizer.clip_norm=0.05", "stop.steps=8", *sets])
                real = last_json(troupe("run", self.job, "--quiet", "--json", *sets))
                played = last_json(troupe("simulate", self.job, "--json", *sets))
                self.assertAlmostEqual(played["train_loss"], real["train_loss"], places=6)
                self.assertNotAlmostEqual(played["train_loss"], last_json(troupe("simulate", self.job, "--json", *sets[2:]))["train_loss"], places=3)

    def test_a_replay_clips_too(self):
        rounds = self.folder / "rounds.jsonl"
        sets = ["optimizer.clip_norm=0.05", "stop.steps=8"]
        run, _ = self.run_job(*sets, flags=["--rounds", rounds])
        replayed = last_json(troupe("replay", self.job, rounds, "--json", *words(sets)))
        self.assertEqual(replayed["weights_digest"], run["weights_digest"])

    def test_no_norm_at_all_is_refused(self):
        for text in "-1", "1e-20", "1e300":
            self.assertIn("optimizer.clip_norm", self.refused("check", self.job, "--set", "optimizer.clip_norm=" + text))


class Pieces(Training):
    LAYERS = "model.layers=" + list_of("flatten", "linear 24 relu", "dropout 0.3", "linear 10")

    def distance(self, found, expected):
        largest = max(abs(value) for values in expected.values() for value in values)
        return max(abs(a - b) for name in expected for a, b in zip(found[name], expected[name])) / largest

    def test_pieces_of_a_batch_are_the_batch(self):
        for sets in ([], ["protocol.name=local", "protocol.steps=2"], ["protocol.name=coded", "protocol.stragglers=1"]):
            with self.subTest(sets):
                sets = [self.LAYERS, "stop.steps=6", *sets]
                whole, expected = self.run_job(*sets)
                result, found = self.run_job(*sets, "data.micro_batch=7")  # 24 samples: three of 7 and one of 3
                self.assertLess(self.distance(found, expected), 1e-5)
                self.assertAlmostEqual(result["train_loss"], whole["train_loss"], places=5)

    def test_they_repeat_bit_for_bit_on_any_processes(self):
        sets = [self.LAYERS, "stop.steps=6", "data.micro_batch=7"]
        digest = self.run_job(*sets)[0]["weights_digest"]
        for other in ["cluster.shards=3"], ["cluster.nodes=1"]:
            self.assertEqual(self.run_job(*sets, *other)[0]["weights_digest"], digest)

    def test_a_simulation_has_them_too(self):
        sets = words([self.LAYERS, "stop.steps=6", "data.micro_batch=5"])
        played, real = last_json(troupe("simulate", self.job, "--json", *sets)), last_json(troupe("run", self.job, "--quiet", "--json", *sets))
        self.assertAlmostEqual(played["train_loss"], real["train_loss"], places=6)

    def activations(self, *sets):
        roles = last_json(troupe("check", self.job, "--json", *words(sets)))["memory"]["roles"]
        return [item["bytes"] for role in roles for item in role["items"] if item["what"] == "activations"]

    def test_check_expects_the_memory_of_a_piece(self):
        for whole, piece in zip(self.activations("data.batch=120"), self.activations("data.batch=120", "data.micro_batch=30")):
            self.assertAlmostEqual(piece / whole, 0.25, delta=0.025)

    def test_pieces_without_a_variance_are_refused(self):
        normed = "model.layers=" + list_of("flatten", "linear 4", "batchnorm", "linear 10")
        for rows in 1, 23:  # of 24: the last piece has one
            for command in "check", "run":
                with self.subTest(rows=rows, command=command):
                    sets = words([normed, f"data.micro_batch={rows}"])
                    self.assertIn("take a larger micro-batch", self.refused(command, self.job, *sets))
        self.run_job(normed, "data.micro_batch=8", "stop.steps=2")


class Recomputed(Training):
    BRACES = ["residual {", "linear 24 relu", "dropout 0.2", "linear 12 tanh", "}"] * 4
    LAYERS = "model.layers=" + list_of("flatten", "linear 12 relu", *BRACES, "linear 10")
    BLOCKS = "compute.recompute=blocks"

    def test_its_bits_are_those_of_values_that_are_kept(self):
        for sets in ([], ["data.micro_batch=7"], ["protocol.name=local", "protocol.steps=2"]):
            with self.subTest(sets):
                sets = [self.LAYERS, "stop.steps=6", *sets]
                self.assertEqual(self.run_job(*sets, self.BLOCKS)[0]["weights_digest"], self.run_job(*sets)[0]["weights_digest"])

    def test_a_simulation_may_recompute(self):
        sets = [self.LAYERS, "stop.steps=6"]
        losses = [last_json(troupe("simulate", self.job, "--json", *words(each)))["train_loss"] for each in (sets, [*sets, self.BLOCKS])]
        self.assertEqual(*losses)

    def test_check_expects_less_memory(self):
        layers = "model.layers=" + list_of("flatten", *["repeat 9 {", "linear 512 relu", "linear 512 tanh", "linear 64", "}"], "linear 10")
        kept, again = (last_json(troupe("check", self.job, "--json", *words([layers, *each])))["memory"]["workspace_bytes"]
                       for each in ([], [self.BLOCKS]))
        self.assertLess(again, 0.4 * kept)


class HeldOut(Training):
    def test_what_is_held_out_is_not_trained_with_and_evaluated(self):
        sets = ["evaluate.holdout=0.25", "stop.steps=", "stop.epochs=2"]
        log = self.folder / "log"
        result, _ = self.run_job(*sets, flags=("--log", log))
        self.assertEqual((result["samples"], result["epochs"]), (2 * 360, 2))
        losses = [line["validation_loss"] for line in map(json.loads, log.read_text().splitlines()) if line["kind"] == "evaluation"]
        self.assertEqual((len(losses), losses[-1]), (2, result["validation_loss"]))
        self.assertNotIn(result["validation_loss"], (result["test_loss"], result["train_loss"]))
        self.assertEqual(self.run_job(*sets, "cluster.nodes=1", "cluster.shards=1")[0]["weights_digest"], result["weights_digest"])
        data = last_json(troupe("check", self.job, "--json", *words(sets)))["data"]
        self.assertEqual((data["train_samples"], data["validation_samples"]), (360, 120))

    def test_what_only_the_held_out_could_teach_is_not_learnt(self):
        # Each row has a feature of its own, so a model that sees it once too often knows its label by heart.
        rows = [",".join(["1" if i == j else "0" for j in range(40)] + [str(i * i % 7 % 2)]) for i in range(40)]
        file = self.write("rows.csv", "\n".join(rows) + "\n")
        sets = ["data.source=csv", f"data.path={file}", f"data.test_path={file}", "data.train_samples=", "data.test_samples=", "data.batch=4",
                'model.layers=["linear 2"]', "stop.steps=400"]
        self.assertLess(self.run_job(*sets)[0]["test_loss"], 0.05)
        result, _ = self.run_job(*sets, "evaluate.holdout=0.5")
        self.assertLess(result["train_loss"], 0.05)
        self.assertGreater(result["validation_loss"], 0.5)

    def test_a_simulation_holds_the_same_out(self):
        sets = ["evaluate.holdout=0.25", "stop.steps=8"]
        real, played = self.run_job(*sets)[0], last_json(troupe("simulate", self.job, "--json", *words(sets)))
        self.assertAlmostEqual(played["validation_loss"], real["validation_loss"], places=6)
        quadratic = last_json(troupe("simulate", self.job, "--json", *words(["evaluate.holdout=0.25", "stop.steps=", "stop.epochs=2",
                                                                              "simulate.numerics=quadratic", "inject.step_ms=10"])))
        self.assertEqual(quadratic["samples"], 2 * 360)

    def test_a_share_that_leaves_nothing_is_refused(self):
        for command in "check", "run":
            self.assertIn("leaves none to train with", self.refused(command, self.job, *words(["evaluate.holdout=0.9999"])))

class Patience(Training):
    SETS = ["evaluate.every_samples=48", "stop.steps=2000", "optimizer.lr=0.5", "evaluate.holdout=0.2"]

    def test_a_job_ends_when_its_loss_falls_no_more_and_leaves_the_best_weights(self):
        for sets in (["stop.patience=1"], ["stop.patience=3", "cluster.nodes=1"], ["stop.patience=2", "protocol.name=local"]):
            with self.subTest(sets):
                result, weights = self.run_job(*self.SETS, *sets)
                self.assertLess(result["steps"], 2000)
                self.assertEqual(result["weights_step"], result["best_step"])
                self.assertLess(result["best_step"], result["evaluated_step"])
                other, found = self.run_job(*self.SETS, *sets[1:], f"stop.steps={result['best_step']}")
                self.assertIsNone(other["best_step"])
                self.assertEqual(found, weights)
                self.assertLess(other["validation_loss"], result["validation_loss"])

    def test_a_simulation_loses_patience_at_the_same_step(self):
        sets = [*self.SETS, "stop.patience=2"]
        real, played = self.run_job(*sets)[0], last_json(troupe("simulate", self.job, "--json", *words(sets)))
        self.assertEqual(played["steps"], real["steps"])

    def test_it_keeps_the_best_to_the_end(self):
        result, _ = self.run_job(*self.SETS, "stop.steps=400", "stop.patience=1000000")
        self.assertEqual(result["steps"], 400)
        self.assertEqual(result["weights_step"], result["best_step"])
        self.assertLess(result["best_step"], 400)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
