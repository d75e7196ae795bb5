#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Texts that models go on with, and predictions. Usage: generate_test.py TROUPE SOURCE_DIR [unittest arguments].
import struct
import sys
import unittest

from cli_test import Case, last_json, troupe, write_safetensors

# Trained on this, a model knows that after a comes b, after b c, after c a.
ROUND = "abc" * 400

JOB = """
seed = 3
[data]
source = "text"
path = "PATH"
context = 8
batch = 8
[model]
layers = ["embedding 8", "head"]
[optimizer]
name = "adamw"
lr = 0.1
[stop]
steps = 40
"""
GPT = JOB.replace('layers = ["embedding 8", "head"]', 'kind = "gpt"\ndepth = 1\nheads = 2\nwidth = 16').replace("lr = 0.1", "lr = 0.02")


class Generate(Case):
    def setUp(self):
        super().setUp()
        self.text = self.write("text.txt", ROUND)
        self.job = self.write("round.toml", JOB.replace("PATH", str(self.text)))
        self.weights = self.folder / "round.safetensors"

    def trained(self, *arguments):
        self.assertEqual(troupe("run", self.job, "--quiet", "--save", self.weights, *arguments).returncode, 0)

    def text_of(self, *arguments):
        done = troupe("generate", self.job, "--weights", self.weights, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def refusal(self, *arguments):
        return self.refused("generate", self.job, "--weights", self.weights, *arguments)

    def logits(self, rows):
        """Weights with which the logits behind id i are rows[i]: the embedding is the unit matrix."""
        n = len(rows)
        self.job.write_text(self.job.read_text().replace("embedding 8", f"embedding {n}"))
        unit = [float(i == j) for i in range(n) for j in range(n)]
        columns = [row[i] for i in range(n) for row in rows]
        write_safetensors(self.weights, {"embedding1.weight": ([n, n], unit), "head1.weight": ([n, n], columns)})

    def test_a_trained_model_goes_on_where_the_text_would(self):
        self.trained()
        self.assertEqual(self.text_of("--start", "b", "--tokens", "7", "--temperature", "0"), "bcabcabc\n")

    def test_a_transformer_slides_its_context(self):
        self.job.write_text(GPT.replace("PATH", str(self.text)))
        self.trained()
        for start in "c", "abcab", "abcabcabcabcab":  # of fewer ids than a context, and of more
            added = "abc" * 20
            added = added["abc".index(start[-1]) + 1:][:30]
            self.assertEqual(self.text_of("--start", start, "--tokens", "30", "--temperature", "0"), start + added + "\n")

    def test_the_text_itself_is_not_needed(self):
        self.trained()
        self.text.unlink()
        self.assertEqual(self.text_of("--start", "b", "--tokens", "2", "--temperature", "0"), "bca\n")

    def test_weights_without_a_vocabulary_have_that_of_the_text(self):
        self.logits([[0, 9, 0], [0, 0, 9], [9, 0, 0]])
        self.assertEqual(self.text_of("--start", "b", "--tokens", "4", "--temperature", "0"), "bcabc\n")

    def test_draws_repeat_with_the_seed(self):
        self.logits([[0, 0, 0]] * 3)
        drawn = self.text_of("--start", "a", "--tokens", "60", "--seed", "7")
        self.assertEqual(len(drawn), 62)
        self.assertEqual(self.text_of("--start", "a", "--tokens", "60", "--seed", "7"), drawn)
        self.assertNotEqual(self.text_of("--start", "a", "--tokens", "60", "--seed", "8"), drawn)
        self.assertEqual(self.text_of("--start", "a", "--tokens", "30", "--seed", "7"), drawn[:31] + "\n")

    def test_temperature_and_top_k_narrow_the_draws(self):
        # At temperature 1 a has 0.665, b 0.245 and c 0.090; of a and b alone a has 0.731.
        self.logits([[2, 1, 0]] * 3)
        def share(*arguments):
            drawn = self.text_of("--start", "a", "--tokens", "2000", "--seed", "5", *arguments)[1:-1]
            return [drawn.count(each) / 2000 for each in "abc"]
        for found, expected in zip(share("--temperature", "1"), (0.665, 0.245, 0.090)):
            self.assertAlmostEqual(found, expected, delta=0.04)
        for found, expected in zip(share("--temperature", "1", "--top-k", "2"), (0.731, 0.269, 0)):
            self.assertAlmostEqual(found, expected, delta=0.04)
        # the logits halved: 0.506, 0.307, 0.186
        self.assertAlmostEqual(share("--temperature", "2")[2], 0.186, delta=0.04)
        self.assertEqual(share("--temperature", "1", "--top-k", "1")[0], 1)
        self.assertEqual(share("--temperature", "1e-3")[0], 1)

    def test_json_has_the_ids(self):
        self.logits([[0, 9, 0], [0, 0, 9], [9, 0, 0]])
        report = last_json(troupe("generate", self.job, "--weights", self.weights, "--start", "b", "--tokens", "2", "--temperature", "0", "--json"))
        self.assertEqual((report["text"], report["ids"], report["seed"], report["job"]), ("bca", [1, 2, 0], 3, "round"))

    def test_bytes_are_printed_as_they_are(self):
        self.job.write_text(self.job.read_text().replace("context", 'vocabulary = "bytes"\ncontext'))
        self.trained()
        self.assertEqual(self.text_of("--start", "b", "--tokens", "4", "--temperature", "0"), "bcabc\n")

    def test_what_cannot_go_on_is_refused(self):
        self.trained()
        for arguments, why in [(["--start", "abd"], '--start: the character "d", U+0064, is not among the 3 of the vocabulary'),
                               (["--start", ""], '--start: "" is no value'),
                               (["--start", "a", "--tokens", "0"], '--tokens: "0" is not a whole number of at least 1'),
                               (["--start", "a", "--temperature", "-1"], '--temperature: "-1" is not a number of at least 0'),
                               (["--start", "a", "--temperature", "nan"], '--temperature: "nan" is not a number of at least 0'),
                               (["--start", "a", "--top-k", "x"], '--top-k: "x" is not a whole number of at least 0'),
                               ([], "--start is required"),
                               (["--start", "a", "--set", 'model.layers=["embedding 8", "linear 3"]'], "weights of another model"),
                               (["--start", "a", "--set", 'model.layers=["embedding 8", "flatten", "head"]'], "the last layer, layer 3")]:
            with self.subTest(why=why):
                self.assertIn(why, self.refusal(*arguments))
        digits = self.write("digits.toml", '[data]\nsource = "digits"\n[model]\nlayers = ["flatten", "linear 10"]\n[stop]\nepochs = 1\n')
        self.assertIn('predicts no next id, and generate asks for them; it takes jobs of data.source = "text"',
                      self.refused("generate", digits, "--weights", self.weights, "--start", "a"))
        self.assertIn("nothing.safetensors", self.refused("generate", self.job, "--weights", self.folder / "nothing.safetensors", "--start", "a"))

    def test_weights_that_are_no_numbers_fail(self):
        self.logits([[0, float("nan"), 0]] * 3)
        done = troupe("generate", self.job, "--weights", self.weights, "--start", "a")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("the model's predictions are no numbers", done.stderr)

    def test_a_model_that_looks_ahead_is_refused(self):
        ahead = ["--set", 'model.layers=["embedding 8", "attention 2", "linear 3"]']
        self.trained(*ahead)
        self.assertIn('depends on those behind it, so it predicts no next id; write "causal"', self.refusal("--start", "a", *ahead))
        causal = ["--set", 'model.layers=["embedding 8", "attention 2 causal", "linear 3"]']
        self.trained(*causal)
        self.assertEqual(troupe("generate", self.job, "--weights", self.weights, "--start", "a", *causal).returncode, 0)

    def test_tokens_go_on_as_ids(self):
        tokens = self.folder / "tokens.bin"
        tokens.write_bytes(struct.pack("<1200H", *[0, 1, 2] * 400))
        self.job.write_text(JOB.replace('source = "text"', 'source = "tokens"\nvocabulary_size = 3').replace("PATH", str(tokens)))
        self.trained()
        self.assertEqual(self.text_of("--start", "0 1", "--tokens", "4", "--temperature", "0"), "0 1 2 0 1 2\n")
        self.assertIn('--start: "3" is no id from 0 to 2', self.refusal("--start", "0 3"))


def npy(path, descr, shape, data):
    """What numpy.save writes."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def read_npy(path):
    """(header, floats)"""
    raw = path.read_bytes()
    begin = 10 + struct.unpack("<H", raw[8:10])[0]
    return raw[10:begin].decode(), struct.unpack(f"<{(len(raw) - begin) // 4}f", raw[begin:])


class Predict(Case):
    """Two features; class 0 has the logit a + 2 b + 3, class 1 has 5."""

    def setUp(self):
        super().setUp()
        features, labels = self.folder / "x.npy", self.folder / "y.npy"
        npy(features, "<f4", (4, 2), struct.pack("<8f", 1, 10, 3, 30, 1, 10, 3, 30))
        npy(labels, "|u1", (4,), bytes([0, 1, 0, 1]))
        self.job = self.write("table.toml", f'[data]\nsource = "npy"\npath = "{features}"\nlabels_path = "{labels}"\nscale = "unit"\nbatch = 2\n'
                                            '[model]\nlayers = ["linear 2"]\n[stop]\nsteps = 1\n')
        self.weights, self.input, self.output = (self.folder / name for name in ("w.safetensors", "in.npy", "out.npy"))
        write_safetensors(self.weights, {"linear1.weight": ([2, 2], [1.0, 2.0, 0.0, 0.0]), "linear1.bias": ([2], [3.0, 5.0])})
        npy(self.input, "<f4", (3, 2), struct.pack("<6f", 1, 1, 0, 0, -1, 4))

    def arguments(self, *more):
        return ["predict", self.job, "--weights", self.weights, "--input", self.input, "--output", self.output, *more]

    def predicted(self, *more):
        done = troupe(*self.arguments(*more))
        self.assertEqual(done.returncode, 0, done)
        return read_npy(self.output)

    def test_predictions_are_those_of_the_model(self):
        header, values = self.predicted()
        self.assertIn("'shape': (3, 2)", header)
        self.assertEqual(values, (6, 5, 3, 5, 10, 5))
        self.assertEqual(last_json(troupe(*self.arguments("--json")))["shape"], [3, 2])

    def test_samples_are_scaled_as_the_training_samples_were(self):
        run = troupe("run", self.job, "--quiet", "--save", self.weights, "--set", "data.scale=standard", "--set", "model.init=zeros",
                     "--set", "optimizer.lr=1e-9")
        self.assertEqual(run.returncode, 0, run)
        raw = self.weights.read_bytes()
        self.weights.write_bytes(raw[:-24] + struct.pack("<6f", 1, 0, 0, 1, 0, 0))  # the weight, then the bias
        # of the training rows 1, 3, 1: mean 5/3, deviation sqrt(8/9)
        _, values = self.predicted("--set", "data.scale=standard")
        for found, (x, unit) in zip(values, [(1, 1), (1, 10), (0, 1), (0, 10), (-1, 1), (4, 10)]):
            self.assertAlmostEqual(found, (x / unit - 5 / 3) / (8 / 9) ** 0.5, places=4)

    def test_images_are_bytes(self):
        digits = self.write("digits.toml", '[data]\ntrain_samples = 40\ntest_samples = 10\nscale = "unit"\n[model]\nlayers = ["flatten", "linear 10"]\n'
                                           "[stop]\nsteps = 1\n")
        weight = [1.0 if unit == 3 and pixel == 5 else 0.0 for unit in range(10) for pixel in range(784)]
        write_safetensors(self.weights, {"linear1.weight": ([10, 784], weight), "linear1.bias": ([10], [0.0] * 10)})
        npy(self.input, "|u1", (1, 1, 28, 28), bytes([0] * 5 + [51] + [255] * 778))
        self.job = digits
        _, values = self.predicted()
        self.assertAlmostEqual(values[3], 0.2, places=6)
        self.assertEqual(sum(map(abs, values)), abs(values[3]))

    def test_what_does_not_fit_is_refused(self):
        npy(self.input, "<f4", (2, 3), struct.pack("<6f", *range(6)))
        self.assertIn("in.npy: is (2, 3), and samples are (rows, 2)", self.refused(*self.arguments()))
        self.input.write_bytes(b"no array")
        self.assertIn("--input: ", self.refused(*self.arguments()))
        npy(self.input, "<f4", (1, 2), struct.pack("<2f", 1, 1))
        self.output = self.folder / "none" / "out.npy"
        self.assertIn("--output: ", self.refused(*self.arguments()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
