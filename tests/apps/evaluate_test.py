#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Saved weights: what is in their file, and what `evaluate` says of them. Usage: evaluate_test.py TROUPE SOURCE_DIR [unittest arguments].
import json
import math
import struct
import sys
import unittest

from cli_test import Case, SMALL, last_json, troupe, write_safetensors


TEXT_JOB = """
[data]
source = "text"
path = "PATH"
context = 4
[model]
layers = ["embedding 4", "head"]
[stop]
steps = 1
"""


class Evaluate(Case):
    """One linear layer whose weights are zero: the loss is log 10, and every sample is taken for class 0."""

    def weights(self, name="weights.safetensors", outputs=10):
        path = self.folder / name
        write_safetensors(path, {"linear1.weight": ([outputs, 784], [0.0] * (784 * outputs)), "linear1.bias": ([outputs], [0.0] * outputs)})
        return path

    def test_zero_weights_give_the_loss_of_guessing(self):
        done = troupe("evaluate", self.job, "--weights", self.weights(), "--json")
        self.assertEqual(done.returncode, 0, done)
        report = last_json(done)
        self.assertAlmostEqual(report["test_loss"], 2.302585, places=4)
        self.assertEqual(report["samples"], 100)
        self.assertLess(report["test_accuracy"], 0.3)
        self.assertIn("test loss 2.3026", troupe("evaluate", self.job, "--weights", self.weights()).stdout)

    def test_a_bias_towards_one_class_is_right_for_its_share_of_the_samples(self):
        path = self.folder / "biased.safetensors"
        shares = []
        for label in range(10):
            bias = [5.0 if i == label else 0.0 for i in range(10)]
            write_safetensors(path, {"linear1.weight": ([10, 784], [0.0] * 7840), "linear1.bias": ([10], bias)})
            shares.append(last_json(troupe("evaluate", self.job, "--weights", path, "--json"))["test_accuracy"])
        self.assertAlmostEqual(sum(shares), 1.0)

    def test_weights_of_another_shape_are_refused_by_name(self):
        message = self.refused("evaluate", self.job, "--weights", self.weights(outputs=9))
        self.assertIn("linear1.", message)

    def saved(self, *arguments):
        return self.saved_of(self.job, *arguments)

    def saved_of(self, job, *arguments):
        path = self.folder / "saved.safetensors"
        self.assertEqual(troupe("run", job, "--quiet", "--save", path, *arguments).returncode, 0)
        return path

    def test_saved_weights_can_be_used_elsewhere_by_what_they_say(self):
        train, test = ([[(7 * i + 5 * j + 3 * i * j) % 256 for j in range(4)] for i in range(count)] for count in (30, 20))
        for half, images in ("train", train), ("t10k", test):
            head = struct.pack(">IIII", 0x803, len(images), 2, 2)
            (self.folder / f"{half}-images-idx3-ubyte").write_bytes(head + bytes(sum(images, [])))
            (self.folder / f"{half}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, len(images)) + bytes(i % 10 for i in range(len(images))))
        self.job = self.write("idx.toml", f'[data]\nsource = "idx"\npath = "{self.folder}"\nbatch = 8\n' + SMALL[SMALL.index("[model]"):])
        raw = self.saved().read_bytes()
        begin = 8 + struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8:begin])
        about = header.pop("__metadata__")
        checked = last_json(troupe("check", self.job, "--json"))
        self.assertEqual((about["step"], json.loads(about["layers"])), ("4", ["flatten", "linear 10"]))
        self.assertEqual(about["version"], last_json(troupe("version", "--json"))["version"])
        self.assertEqual([json.loads(about[key]) for key in ("mean", "deviation")], [checked["data"][key] for key in ("mean", "deviation")])
        [mean], [deviation] = json.loads(about["mean"]), json.loads(about["deviation"])
        pixels = [pixel / 255 for image in train for pixel in image]
        self.assertAlmostEqual(mean, sum(pixels) / len(pixels))
        weight, bias = (struct.unpack_from(f"<{math.prod(t['shape'])}f", raw, begin + t["data_offsets"][0]) for t in header.values())
        loss = 0
        for i, image in enumerate(test):
            x = [(pixel / 255 - mean) / deviation for pixel in image]
            logits = [bias[k] + sum(weight[4 * k + j] * x[j] for j in range(4)) for k in range(10)]
            loss += math.log(sum(map(math.exp, logits))) - logits[i % 10]
        evaluated = last_json(troupe("evaluate", self.job, "--weights", self.folder / "saved.safetensors", "--json"))
        self.assertAlmostEqual(evaluated["test_loss"], loss / len(test), places=5)

    def test_weights_of_another_model_are_refused_though_they_fit(self):
        path = self.saved("--set", 'model.layers=["flatten", "linear 8 relu", "linear 10"]')
        evaluate = ["evaluate", self.job, "--weights", path, "--set"]
        self.assertEqual(troupe(*evaluate, 'model.layers=["flatten",  "linear  8 relu", "linear 10"]').returncode, 0)
        self.assertIn('weights of another model: layers = ["flatten", "linear 8 relu", "linear 10"]; the job\'s are ["flatten", "linear 8 tanh"',
                      self.refused(*evaluate, 'model.layers=["flatten", "linear 8 tanh", "linear 10"]'))

    def test_data_of_another_scale_than_the_weights_are_noticed(self):
        path = self.saved()
        self.assertEqual(troupe("evaluate", self.job, "--weights", path).stderr, "")
        self.assertRegex(troupe("evaluate", self.job, "--weights", path, "--set", "data.scale=unit").stderr,
                         r"was trained on data of mean 0\.\d+ and deviation 0\.\d+, and this job's have 0 and 1")

    def test_weights_of_a_text_know_its_characters(self):
        job = self.write("text.toml", TEXT_JOB.replace("PATH", str(self.write("a.txt", "a \u00e4b " * 40))))
        path = self.saved_of(job)
        raw = path.read_bytes()
        about = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"]
        self.assertEqual(json.loads(about["vocabulary"]), [" ", "a", "b", "\u00e4"])
        self.assertEqual(troupe("evaluate", job, "--weights", path).returncode, 0)
        other = ["--set", f"data.path={self.write('b.txt', 'a ob ' * 40)}"]
        expected = ('weights of another vocabulary: their ids stand for 4 characters, those of data.path for 4 characters; id 3 is "\u00e4" there and '
                    '"o" here')
        self.assertIn(expected, self.refused("evaluate", job, "--weights", path, *other))
        self.assertIn("--set model.init: ", self.refused("run", job, "--set", f"model.init={path}", *other))
        self.assertIn(expected, self.refused("check", job, "--set", f"model.init={path}", *other))
        self.assertEqual(troupe("check", job, "--set", f"model.init={path}").returncode, 0)
        self.assertIn("for 4 characters, those of data.path for bytes; give",
                      self.refused("evaluate", job, "--weights", path, "--set", "data.vocabulary=bytes"))

    def test_a_truncated_file_is_refused(self):
        path = self.weights()
        path.write_bytes(path.read_bytes()[:-4])
        self.assertIn(str(path), self.refused("evaluate", self.job, "--weights", path))

    def test_what_is_no_weights_file_is_refused(self):
        self.assertIn(str(self.job), self.refused("evaluate", self.job, "--weights", self.job))
        self.assertIn("nothing.safetensors", self.refused("evaluate", self.job, "--weights", self.folder / "nothing.safetensors"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
