#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Models from ONNX files: what PyTorch exports has its logits here and trains as it does there.

usage: onnx_test.py TROUPE [unittest arguments]; the comparisons need python3-torch, and skip where it is absent
"""
import io
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings

import parity_test
from parity_test import DEADLINE_S, Parity, torch, toml, write_safetensors

TROUPE = None

if torch:
    from torch import nn
    from torch.nn import functional

    def perceptron():
        return nn.Sequential(nn.Flatten(), nn.Linear(3072, 32), nn.GELU(), nn.Dropout(0), nn.Linear(32, 10))

    def convolutional():
        return nn.Sequential(nn.Conv2d(3, 8, 5, padding=2), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3), nn.ReLU6(), nn.AvgPool2d(3),
                             nn.Flatten(), nn.Linear(192, 10))

    def depthwise():
        def separable(came, made, stride):
            return [nn.Conv2d(came, came, 3, stride, 1, groups=came, bias=False), nn.BatchNorm2d(came), nn.LeakyReLU(0.1),
                    nn.Conv2d(came, made, 1), nn.SiLU()]
        return nn.Sequential(*separable(3, 8, 2), *separable(8, 12, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10))

    class ByShape(nn.Module):
        """Asks for its shapes, as research code does."""

        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(96, 24), nn.Linear(32 * 24, 10)
            self.norm = nn.LayerNorm(24)

        def forward(self, x):
            rows, channels, height, width = x.shape
            x = x.permute(0, 2, 1, 3).reshape(rows, height, channels * width)
            x = self.norm(self.first(x))
            return self.last(torch.relu(x).view(x.size(0), -1))


def export(module, example, opset=17):
    """-> the bytes of the file, for training, any number of rows."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its tracer's
        torch.onnx.export(module, example, file, opset_version=opset, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "rows"}, "y": {0: "rows"}})
    return file.getvalue()


# -- files by hand: protobuf's encoding of the few messages that they need


def varint(number):
    number %= 1 << 64
    out = b""
    while number >= 128:
        out, number = out + bytes([number % 128 + 128]), number // 128
    return out + bytes([number])


def field(number, value):
    """A field of a message: a whole number, or bytes, a text or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, dims, data=None, external=None):
    """float32."""
    out = b"".join(field(1, extent) for extent in dims) + field(2, 1) + field(8, name)
    if external:
        return out + field(13, field(1, "location") + field(2, external)) + field(14, 1)
    return out + field(9, struct.pack(f"<{len(data)}f", *data))


def node(kind, inputs, outputs, name, integers=()):
    attributes = b"".join(field(5, field(1, key) + field(3, value) + field(20, 2)) for key, value in integers)
    return (b"".join(field(1, each) for each in inputs) + b"".join(field(2, each) for each in outputs) + field(3, name) + field(4, kind)
            + attributes)


def declared(name, extents):
    dims = b"".join(field(1, field(2, each) if isinstance(each, str) else field(1, each)) for each in extents)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def file_of(nodes, tensors, opset=17, inputs=None):
    graph = (b"".join(field(1, each) for each in nodes) + field(2, "graph") + b"".join(field(5, each) for each in tensors)
             + b"".join(field(11, each) for each in inputs or [declared("x", ["rows", 784])]) + field(12, declared("y", ["rows", 10])))
    return field(1, 8) + field(7, graph) + field(8, field(2, opset))


LINEAR = node("Gemm", ["x", "w", "b"], ["y"], "head", [("transB", 1)])


def weights():
    return [tensor("w", [10, 784], [((i * 37) % 101 - 50) / 500 for i in range(7840)]), tensor("b", [10], [0.0] * 10)]


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-onnx-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.job = self.folder / "job.toml"
        self.job.write_text(f"""
seed = 1
[data]
source = "digits"
train_samples = 1000
test_samples = 200
batch = 50
[model]
onnx = "{self.folder / 'net.onnx'}"
[optimizer]
lr = 0.1
[stop]
steps = 20
""")

    def troupe(self, *arguments):
        return subprocess.run([TROUPE, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def refusal(self, data):
        """What `check` says of such a file."""
        (self.folder / "net.onnx").write_bytes(data)
        done = self.troupe("check", self.job)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"^\S*job.toml:9:\d+: \S*net.onnx: ")
        return done.stderr

    def test_a_file_is_trained_from_its_weights(self):
        (self.folder / "net.onnx").write_bytes(file_of([LINEAR], weights()))
        done = self.troupe("run", self.job, "--quiet", "--json", "--nodes", "2", "--save", self.folder / "out.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout.splitlines()[-1])
        self.assertGreater(result["test_accuracy"], 0.5)
        saved = parity_test.read_safetensors(self.folder / "out.safetensors") if torch else {"w": None, "b": None}
        self.assertEqual(sorted(saved), ["b", "w"])
        still = self.troupe("run", self.job, "--quiet", "--json", "--set", "stop.steps=1", "--set", "optimizer.lr=1e-30", "--save",
                            self.folder / "first.safetensors")
        self.assertEqual(still.returncode, 0, still.stderr)
        if torch:
            first = parity_test.read_safetensors(self.folder / "first.safetensors")["w"]
            self.assertAlmostEqual(float(first[0, 1]), (37 - 50) / 500, 6)

    def test_what_is_damaged_is_refused(self):
        good = file_of([LINEAR], weights())
        for end in (1, 40, len(good) // 2, len(good) - 1):
            self.assertIn("it is cut off or damaged; export or copy it anew", self.refusal(good[:end]))
        self.assertIn("initializer w has an extent of 4611686018427387904",
                      self.refusal(file_of([LINEAR], [tensor("w", [1 << 62, 784], [0.0]), weights()[1]])))
        self.assertIn("initializer w has 1 elements, but its extents say 7840", self.refusal(file_of([LINEAR], [tensor("w", [10, 784], [0.0])])))

    def test_what_is_not_read_is_refused_with_what_is(self):
        self.assertIn("has operators of opset 5, and 11 to 17 are read", self.refusal(file_of([LINEAR], weights(), opset=5)))
        said = self.refusal(file_of([node("Hardmax", ["x"], ["y"], "odd")], weights()))
        self.assertIn('node "odd" (Hardmax): is of an operator that is not read; there are Abs, Add, And, AveragePool, ', said)
        self.assertIn("Gemm", said)

    def test_data_of_its_own_file_that_is_not_there_is_refused(self):
        parts = [tensor("w", [10, 784], external="w.bin"), weights()[1]]
        self.assertIn("w.bin, which is not there; copy that file beside the model", self.refusal(file_of([LINEAR], parts)))
        self.assertIn("which is no file in the model's folder",
                      self.refusal(file_of([LINEAR], [tensor("w", [10, 784], external="../w.bin"), weights()[1]])))
        (self.folder / "w.bin").write_bytes(b"\0" * 100)
        self.assertIn("needs 31360 bytes from byte 0", self.refusal(file_of([LINEAR], parts)))
        (self.folder / "w.bin").write_bytes(b"\0" * 31360)
        self.assertEqual(self.troupe("check", self.job).returncode, 0)

    def test_a_cycle_is_refused(self):
        nodes = [node("Add", ["x", "b2"], ["a2"], "first"), node("Relu", ["a2"], ["b2"], "second"), LINEAR]
        self.assertIn('node "first" (Add) reads b2, which nothing before it makes: the graph has a cycle', self.refusal(file_of(nodes, weights())))

    def test_a_misfit_is_named_by_its_node(self):
        self.assertIn('node "head" (Gemm): the matrix product of (rows, 784) and (10, 783) transposed has inner extents that differ',
                      self.refusal(file_of([LINEAR], [tensor("w", [10, 783], [0.0] * 7830), weights()[1]])))
        self.assertIn("the input x takes samples of (783), and the data has (1, 28, 28)",
                      self.refusal(file_of([LINEAR], weights(), inputs=[declared("x", ["rows", 783])])))
        self.assertIn("2 inputs and 1 outputs", self.refusal(file_of([LINEAR], weights(), inputs=[declared("x", ["rows", 784])] * 2)))


TEXT_MODELS = {
    "gpt": 'kind = "gpt"\ndepth = 2\nheads = 2\nwidth = 16\ndropout = 0.1',
    "list": 'layers = ["embedding 16", "positions", "residual {", "rmsnorm", "attention 4 causal keys 2", "}", "linear 16 silu", "head tied"]',
    "lstm": 'kind = "lstm"\ndepth = 2\nwidth = 12',
    "gru": 'kind = "gru"\ndepth = 1\nwidth = 12',
}
IMAGE_MODELS = {
    "mlp": 'kind = "mlp"\nhidden = [32]',
    "cnn": 'layers = ["conv 8 3x3 relu stride 2 pad 1", "batchnorm", "conv 8 3x3 groups 8", "groupnorm 2", "gelu", "pool 2", "flatten", '
           '"dropout 0.1", "linear 10"]',
    "averages": 'layers = ["conv 8 5x5 gelu-erf", "avgpool 2", "residual {", "conv 8 1x1 tanh", "}", "avgpool all", "flatten", "layernorm", "linear 10"]',
    "resnet": 'kind = "resnet"\ndepth = 8\nwidth = 4',
}


class Exports(unittest.TestCase):
    setUp, troupe = Files.setUp, Files.troupe

    def job_of(self, name, model, text):
        path = self.folder / f"{name}.toml"
        (self.folder / "text").write_text("to be, or not to be, that is the question: " * 40)
        data = (f'source = "text"\npath = "{self.folder / "text"}"\ncontext = 8\n' if text
                else 'source = "digits"\ntrain_samples = 400\ntest_samples = 100\n')
        path.write_text(f"seed = 1\n[data]\n{data}batch = 20\n[model]\n{model}\n[optimizer]\nlr = 0.05\n[stop]\nsteps = 5\n")
        return path

    def json(self, *arguments):
        done = self.troupe(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def exported(self, name, model, text):
        """-> its job, weights and file, after some steps; and the digest."""
        job, weights_file, file = self.job_of(name, model, text), self.folder / f"{name}.safetensors", self.folder / f"{name}.onnx"
        trained = self.json("run", job, "--quiet", "--save", weights_file)["weights_digest"]
        self.assertEqual(self.json("export", job, "--weights", weights_file, "--onnx", file)["weights_digest"], trained)
        return job, weights_file, file, trained

    def test_what_is_exported_comes_back_with_the_same_weights(self):
        for models, text in ((TEXT_MODELS, True), (IMAGE_MODELS, False)):
            for name, model in models.items():
                with self.subTest(name):
                    first, weights_file, file, trained = self.exported(name, model, text)
                    again = self.job_of(f"{name}-again", f'onnx = "{file}"', text)
                    same = self.json("run", again, "--quiet", "--set", "optimizer.lr=1e-30", "--set", "stop.steps=1")["weights_digest"]
                    if "norm" not in model and "resnet" not in name:  # whose statistics move
                        self.assertEqual(same, trained)
                    ours, theirs = (self.json("evaluate", job, "--weights", weights_file) for job in (first, again))
                    self.assertEqual(ours["test_accuracy"], theirs["test_accuracy"])
                    self.assertAlmostEqual(ours["test_loss"], theirs["test_loss"], 5)

    def test_opencv_computes_the_same(self):
        try:
            import cv2  # pylint: disable=import-outside-toplevel
            import numpy  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("needs python3-opencv")
        for name in ("mlp", "cnn"):
            model = IMAGE_MODELS[name].replace('"batchnorm", ', "").replace('"groupnorm 2", ', "")
            job, weights_file, file, _ = self.exported(name, model, False)
            x = numpy.random.default_rng(1).standard_normal((3, 1, 28, 28)).astype("<f4")
            numpy.save(self.folder / "x.npy", x)
            said = self.json("predict", job, "--weights", weights_file, "--input", self.folder / "x.npy", "--output", self.folder / "y.npy")
            self.assertEqual(said["shape"], [3, 10])
            mean, deviation = self.scaling(weights_file)
            net = cv2.dnn.readNetFromONNX(str(file))
            for row, ours in zip((x - mean) / deviation, numpy.load(self.folder / "y.npy")):
                net.setInput(row[None])
                self.assertLess(float(abs(net.forward()[0] - ours).max()), 1e-4)

    @staticmethod
    def scaling(weights_file):
        raw = weights_file.read_bytes()
        metadata = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"]
        return json.loads(metadata["mean"])[0], json.loads(metadata["deviation"])[0]

    def test_what_has_no_form_there_is_refused(self):
        model = 'layers = ["embedding 16", "attention 2 causal rotary", "head"]'
        job, weights_file = self.job_of("rotary", model, True), self.folder / "rotary.safetensors"
        self.json("run", job, "--quiet", "--save", weights_file)
        done = self.troupe("export", job, "--weights", weights_file, "--onnx", self.folder / "rotary.onnx")
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no form in ONNX that is written here", done.stderr)
        self.assertFalse((self.folder / "rotary.onnx").exists())


@unittest.skipUnless(torch, "needs python3-torch")
class Imports(unittest.TestCase):
    setUp, text, images, compare = Parity.setUp, Parity.text, Parity.images, Parity.compare
    huggingface_names = Parity.huggingface_names

    def troupe(self, data, model, optimizer, steps):
        return Parity.troupe(self, data, model, optimizer, steps)

    def logits(self, data, model, x):
        """What `predict` says of rows, by the weights in `first`."""
        job, asked, said = (self.folder / name for name in ("predict.toml", "x.npy", "y.npy"))
        job.write_text("seed = 1\n" + toml({"data": data, "model": model, "stop": {"steps": 1}}))
        parity_test.numpy.save(asked, x.numpy().astype("<f4" if x.is_floating_point() else "<i4"))
        done = subprocess.run([TROUPE, "predict", job, "--weights", self.folder / "first", "--input", asked, "--output", said],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return torch.tensor(parity_test.numpy.load(said))

    def check(self, module, data, x, y, opset=17):
        (self.folder / "net.onnx").write_bytes(export(module, x[:2].float() if x.is_floating_point() else x[:2], opset))
        spec = {"onnx": str(self.folder / "net.onnx")}
        module.eval()
        with torch.no_grad():
            theirs = module(x.float() if x.is_floating_point() else x)
        write_safetensors(self.folder / "first", {name: each for name, each in module.state_dict().items() if each.is_floating_point()})
        ours = self.logits(data, spec, x)
        self.assertLess(float((ours - theirs).abs().max()), 1e-4)
        module.train()
        self.compare(module, spec, data, x, y, within=1e-3)

    def test_perceptron(self):
        for opset in (11, 17):
            self.check(perceptron(), *self.images(), opset)

    def test_convolutions(self):
        self.check(convolutional(), *self.images())

    def test_residual_network_with_batch_norms(self):
        self.check(parity_test.ResNet(1, 8), *self.images())

    def test_depthwise_convolutions(self):
        self.check(depthwise(), *self.images())

    def test_reshapes_by_shape(self):
        for opset in (12, 17):
            self.check(ByShape(), *self.images(), opset)

    def test_gpt(self):
        self.check(parity_test.GPT(2, 4, 32), *self.text())

    def test_lstm(self):
        self.check(parity_test.Recurrent("lstm", 2, 24), *self.text())

    def test_gru(self):
        self.check(parity_test.Recurrent("gru", 1, 24), *self.text())


if __name__ == "__main__":
    TROUPE = parity_test.TROUPE = sys.argv.pop(1)
    unittest.main(verbosity=2)
