#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Networks by their kind, statistics and frozen parameters, over processes. Usage: models_test.py TROUPE SOURCE_DIR [unittest arguments].
import json
import re
import struct
import sys
import unittest

from cli_test import Case, SOURCE, last_json, read_safetensors, troupe

TEXT = "the cat sat on the mat and the dog sat on the log. " * 120

GPT = """
seed = 3
[data]
source = "text"
path = "PATH"
context = 16
batch = 8
[model]
kind = "gpt"
depth = 2
heads = 2
width = 16
dropout = 0.1
[optimizer]
name = "adamw"
lr = 0.01
[cluster]
nodes = 3
workers = 2
[stop]
steps = 60
"""

IMAGES = """
seed = 3
[data]
train_samples = 400
test_samples = 100
batch = 20
[model]
layers = ["conv 4 3x3 stride 2", "batchnorm", "relu", "residual {", "conv 4 3x3 pad 1", "batchnorm", "relu", "}", "avgpool all", "linear 10"]
[optimizer]
lr = 0.1
weight_decay = 0.1
[cluster]
workers = 2
[stop]
steps = 20
"""


def tensors(path):
    """name -> floats of a safetensors file."""
    return {name: struct.unpack(f"<{len(raw) // 4}f", raw) for name, raw in read_safetensors(path)[1].items()}


class Networks(Case):
    def setUp(self):
        super().setUp()
        self.job = self.write("gpt.toml", GPT.replace("PATH", str(self.write("text.txt", TEXT))))

    def result(self, *arguments):
        done = troupe("run", self.job, "--json", "--quiet", *arguments)
        self.assertEqual(done.returncode, 0, done)
        return last_json(done)

    def test_a_gpt_learns_a_text_over_processes_to_one_digest(self):
        result = self.result()
        # Evenly guessed, a character of 14 costs ln 14 = 2.64.
        self.assertLess(result["test_loss"], 1.5, result)
        self.assertEqual(self.result("--set", "cluster.shards=2")["weights_digest"], result["weights_digest"])
        self.assertEqual(self.result("--nodes", "1")["weights_digest"], result["weights_digest"])

    def test_check_prints_each_layer_with_its_cost(self):
        done = troupe("check", self.job)
        self.assertEqual(done.returncode, 0, done)
        for row in (r"h\.0 +\(rows, 16, 16\) +3280 ", r"head +\(rows, 16, 14\) +0 ", r"attn\.c_attn\.weight +\(48, 16\) +trained"):
            self.assertRegex(done.stdout, row)
        model = last_json(troupe("check", self.job, "--json"))["model"]
        self.assertEqual(sum(layer["parameters"] for layer in model["costs"]), model["parameters"])

    def test_a_list_with_attention_trains_too(self):
        layers = ["embedding 16", "positions", "repeat 2 {", "residual {", "layernorm", "attention 2 causal", "}",
                  "residual {", "layernorm", "linear 32 gelu", "linear 16", "}", "}", "layernorm", "head tied"]
        result = self.result("--set", "model.layers=" + json.dumps(layers))
        self.assertLess(result["test_loss"], 1.5, result)

    def test_the_page_lists_every_layer_and_kind(self):
        page = (SOURCE / "config/models.md").read_text()
        keys = troupe("check", "--keys").stdout
        layers = re.findall(r'"([a-z]+)[ "]', keys[keys.index("; there are "):].split("\n")[0])
        self.assertGreater(len(layers), 15)
        for word in layers + re.findall(r'with kind = "(\w+)"', keys):
            self.assertIn(f"`{word}", page)

    def test_recurrent_networks_train(self):
        for kind in "lstm", "gru":
            with self.subTest(kind):
                result = self.result("--set", f"model.kind={kind}", "--set", "model.depth=1", "--set", "model.width=24")
                self.assertLess(result["test_loss"], 2, result)

    def test_what_does_not_fit_is_refused_by_check_and_run_alike(self):
        for setting, sentence in (("model.heads=3", "heads = 3 do not divide width = 16"), ("data.context=4000", "take a longer text"),
                                  ("model.kind=resnet", "depth = 2 of a resnet must be 6n + 2"), ("optimizer.freeze=[\"h.7.*\"]", "is the name of no parameter"),
                                  ("model.loss=mse", "is for labels that are numbers")):
            for command in "check", "run":
                with self.subTest(setting, command=command):
                    self.assertIn(sentence, self.refused(command, self.job, "--set", setting))


class Statistics(Case):
    def setUp(self):
        super().setUp()
        self.job = self.write("images.toml", IMAGES)

    def weights(self, *arguments):
        path = self.folder / "weights.safetensors"
        done = troupe("run", self.job, "--quiet", "--save", path, *arguments)
        self.assertEqual(done.returncode, 0, done)
        return tensors(path)

    def test_running_means_are_pushed_and_weighted_and_never_decayed(self):
        one = self.weights("--nodes", "3")
        variance = one["batchnorm1.running_var"]
        self.assertTrue(all(0 < v < 100 for v in variance) and any(v != 1 for v in variance), variance)
        self.assertEqual(one, self.weights("--nodes", "3", "--set", "cluster.shards=3"))
        # Behind a frozen layer they do not depend on what is trained: the optimizer has no part in them.
        frozen = ["--set", 'optimizer.freeze=["conv1.*"]']
        plain = self.weights(*frozen, "--set", "optimizer.weight_decay=0")
        other = self.weights(*frozen, "--set", "optimizer.weight_decay=0.5", "--set", "optimizer.momentum=0.9", "--set", "optimizer.lr=0.01")
        for name in "batchnorm1.running_mean", "batchnorm1.running_var":
            self.assertEqual(plain[name], other[name])
        self.assertNotEqual(plain["conv2.weight"], other["conv2.weight"])

    def test_every_protocol_but_those_with_a_dual_variable_keeps_them(self):
        for protocol in "async", "dc-async", "ssp", "local", "easgd", "backup", "gossip", "coded":
            with self.subTest(protocol):
                weights = self.weights("--set", f"protocol.name={protocol}")
                for name in "batchnorm1.running_var", "batchnorm2.running_var":
                    self.assertTrue(all(0 < v < 100 for v in weights[name]), weights[name])

    def test_sixteen_bits_of_a_push_keep_them(self):
        plain, rounded = self.weights(), self.weights("--set", "codec.push=fp16")
        for name in "batchnorm1.running_var", "batchnorm2.running_var":
            for here, there in zip(plain[name], rounded[name]):
                self.assertAlmostEqual(here, there, delta=0.01 * here)

    def test_what_statistics_do_not_go_with_is_refused_by_check_and_run_alike(self):
        for settings, sentence in (
                (["protocol.name=admm"], "batchnorm1.running_mean is a running mean or variance"),
                (["codec.push=int8"], 'batchnorm1.running_mean is a running mean or variance, and codec.push = "int8" rounds it'),
                (["data.batch=1", 'model.layers=["flatten", "linear 4", "batchnorm", "linear 10"]'], "needs two values of each channel")):
            flags = [word for setting in settings for word in ("--set", setting)]
            for command in "check", "run":
                with self.subTest(sentence, command=command):
                    self.assertIn(sentence, self.refused(command, self.job, *flags))

    def test_shards_that_would_have_no_parameters_are_refused(self):
        small = ["--set", 'model.layers=["flatten", "linear 10"]']
        for settings, most in (["cluster.shards=1024"], 491), (["cluster.shards=3", "codec.push=topk"], 2):
            flags = small + [word for setting in settings for word in ("--set", setting)]
            for command in "check", "run":
                with self.subTest(settings, command=command):
                    self.assertIn(f"write at most cluster.shards = {most}", self.refused(command, self.job, *flags))
        self.weights(*small, "--set", "cluster.shards=2", "--set", "codec.push=topk")

    def test_what_is_frozen_stays(self):
        first = self.weights("--set", "stop.steps=1", "--set", 'optimizer.freeze=["conv1.*", "batchnorm2.weight"]')
        last = self.weights("--set", 'optimizer.freeze=["conv1.*", "batchnorm2.weight"]')
        for name in "conv1.weight", "conv1.bias", "batchnorm2.weight":
            self.assertEqual(first[name], last[name], name)
        for name in "conv2.weight", "batchnorm2.bias", "batchnorm1.running_var", "linear1.weight":
            self.assertNotEqual(first[name], last[name], name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
