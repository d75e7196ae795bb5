#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Models beside PyTorch: the same weights and rows give the same gradient, losses and statistics.

A batch is the whole training half, so that both sides see the same rows, in whatever order. PyTorch computes in float64: where an
input of a relu rounds to the other side of zero, float32 of either side is off by as much as that input's gradient. After
some steps of such a network, PyTorch's float32 is off by more than 1e-4; twice as much is then allowed here, of the worst of eight
such runs.

usage: parity_test.py TROUPE [unittest arguments]; needs python3-torch, and skips where it is absent
TROUPE_THOROUGH=1: GPT-2 with its 124 million parameters, which takes four minutes of two cores
"""
import copy
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

try:
    import numpy
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    system_python = "/usr/bin/python3"  # the one that sees the packages of Debian
    if os.path.exists(system_python) and not os.path.samefile(sys.executable, system_python):
        os.execv(system_python, [system_python, "-B", *sys.argv])
    torch = None

TROUPE = None
THOROUGH = os.environ.get("TROUPE_THOROUGH") == "1"
STEPS = 20
DEADLINE_S = 300
CONTEXT, WINDOWS, SYMBOLS = 16, 16, "abcdefghijkl\n"
ADAMW = {"name": "adamw", "lr": 0.0005, "weight_decay": 0.01}


def write_safetensors(path, tensors):
    header, end = {}, 0
    for name, value in tensors.items():
        begin, end = end, end + 4 * value.numel()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(value.detach().numpy().astype("<f4").tobytes())


def read_safetensors(path):
    raw = path.read_bytes()
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:begin])
    header.pop("__metadata__", None)
    return {name: torch.tensor(numpy.frombuffer(raw, "<f4", math.prod(each["shape"]), begin + each["data_offsets"][0]).reshape(each["shape"]))
            for name, each in header.items()}


def toml(tables):
    lines = []
    for table, keys in tables.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def with_huggingface_names(tensors):
    """As Hugging Face's GPT-2 keeps them: products by the transposed matrix, the head and the masks beside what makes them."""
    named = {"transformer." + name: each.T.contiguous() if name.startswith("h.") and each.dim() == 2 else each for name, each in tensors.items()}
    places = len(tensors["wpe.weight"])
    for name in tensors:
        if name.endswith(".attn.c_attn.weight"):
            named["transformer." + name.replace("c_attn.weight", "bias")] = torch.ones(places, places).tril()[None, None]
    return named | {"lm_head.weight": tensors["wte.weight"]}


def without_huggingface_names(tensors):
    plain = {name.removeprefix("transformer."): each for name, each in tensors.items() if name != "lm_head.weight"}
    return {name: each.T if name.startswith("h.") and each.dim() == 2 else each for name, each in plain.items()}


def an_ulp_apart(module, count):
    """Copies whose weights are rounded up or down by chance: what float32 may make of it."""
    copies = [copy.deepcopy(module) for _ in range(count)]
    with torch.no_grad():
        for each in copies:
            for weight in each.parameters():
                weight *= 1 + 1.2e-7 * torch.randint(-1, 2, weight.shape)
    return copies


def distance(ours, theirs):
    """|ours - theirs| / |theirs|, over all of them together."""
    apart = sum(float((ours[name].double() - theirs[name].double()).square().sum()) for name in theirs)
    return math.sqrt(apart / sum(float(each.double().square().sum()) for each in theirs.values()))


if torch:

    class Block(nn.Module):
        def __init__(self, width, heads, context):
            super().__init__()
            self.heads = heads
            self.register_buffer("hidden", torch.full((context, context), -math.inf).triu(1), persistent=False)
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn, self.mlp = nn.Module(), nn.Module()
            self.attn.c_attn, self.attn.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp.c_fc, self.mlp.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            rows, places, width = x.shape
            parts = self.attn.c_attn(self.ln_1(x)).view(rows, places, 3, self.heads, width // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            scores = (q * (width // self.heads) ** -0.5) @ k.transpose(-2, -1) + self.hidden
            seen = scores.softmax(-1) @ v
            x = x + self.attn.c_proj(seen.transpose(1, 2).reshape(rows, places, width))
            return x + self.mlp.c_proj(functional.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self, depth, heads, width, vocabulary=len(SYMBOLS), context=CONTEXT):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.h = nn.ModuleList(Block(width, heads, context) for _ in range(depth))
            self.ln_f = nn.LayerNorm(width)

        def forward(self, x):
            x = self.wte(x) + self.wpe.weight
            for block in self.h:
                x = block(x)
            return self.ln_f(x) @ self.wte.weight.T

    class Recurrent(nn.Module):
        def __init__(self, kind, depth, width):
            super().__init__()
            self.kind = kind
            self.embedding = nn.Embedding(len(SYMBOLS), width)
            setattr(self, kind, {"lstm": nn.LSTM, "gru": nn.GRU}[kind](width, width, depth, batch_first=True))
            self.head = nn.Linear(width, len(SYMBOLS))

        def forward(self, x):
            return self.head(getattr(self, self.kind)(self.embedding(x))[0])

    class Residual(nn.Module):
        def __init__(self, came, made, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(came, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made)
            self.conv2, self.bn2 = nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made)
            self.downsample = nn.Sequential()
            if came != made:
                self.downsample = nn.Sequential(nn.Conv2d(came, made, 1, stride, bias=False), nn.BatchNorm2d(made))

        def forward(self, x):
            y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
            return functional.relu(y + self.downsample(x))

    class ResNet(nn.Module):
        def __init__(self, blocks, width):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
            came = width
            for stage in range(3):
                made = width << stage
                each = [Residual(came if first == 0 else made, made, 2 if stage > 0 and first == 0 else 1) for first in range(blocks)]
                setattr(self, f"layer{stage + 1}", nn.Sequential(*each))
                came = made
            self.fc = nn.Linear(came, 10)

        def forward(self, x):
            x = functional.relu(self.bn1(self.conv1(x)))
            x = self.layer3(self.layer2(self.layer1(x)))
            return self.fc(x.mean((2, 3)))


@unittest.skipUnless(torch, "needs python3-torch")
class Parity(unittest.TestCase):
    huggingface_names = False  # of the files that both sides read

    def setUp(self):
        torch.manual_seed(11)
        torch.set_num_threads(1)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-parity-"))
        self.addCleanup(shutil.rmtree, self.folder)

    # What the two sides train on.

    def text(self):
        """-> [data], x, y: windows of ids."""
        held_out = CONTEXT + 1
        ids = torch.randint(len(SYMBOLS), (WINDOWS * CONTEXT + 1,))
        ids[: len(SYMBOLS)] = torch.arange(len(SYMBOLS))
        order = sorted(SYMBOLS)
        path = self.folder / "text"
        path.write_text("".join(order[each] for each in ids) + order[0] * (held_out + 12))
        total = len(path.read_text())
        self.assertGreaterEqual(total // 10, held_out)
        self.assertEqual((total - total // 10 - 1 - CONTEXT) // CONTEXT + 1, WINDOWS)
        windows = torch.stack([ids[at : at + CONTEXT + 1] for at in range(0, WINDOWS * CONTEXT, CONTEXT)])
        return {"source": "text", "path": str(path), "context": CONTEXT, "batch": WINDOWS}, windows[:, :-1], windows[:, 1:]

    def images(self):
        files = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
        pixels, labels = [], []
        for name in files:
            label = torch.randint(10, (4,), dtype=torch.uint8)
            image = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
            (self.folder / name).write_bytes(b"".join(bytes([label[i]]) + image[i].numpy().tobytes() for i in range(4)))
            pixels.append(image)
            labels.append(label)
        data = {"source": "cifar10", "path": str(self.folder), "scale": "unit", "batch": 20}
        return data, torch.cat(pixels[:5]).double() / 255, torch.cat(labels[:5]).long()

    def tokens(self, vocabulary, context, windows):
        ids = torch.randint(vocabulary, (windows * context + 1,))
        paths = self.folder / "train.bin", self.folder / "test.bin"
        for path, count in zip(paths, (len(ids), context + 1)):
            path.write_bytes(ids[:count].numpy().astype("<u2").tobytes())
        batch = torch.stack([ids[at : at + context + 1] for at in range(0, windows * context, context)])
        data = {"source": "tokens", "path": str(paths[0]), "test_path": str(paths[1]), "token_type": "uint16", "vocabulary_size": vocabulary,
                "context": context, "batch": windows}
        return data, batch[:, :-1], batch[:, 1:]

    # What is compared.

    def troupe(self, data, model, optimizer, steps, workers=1):
        """-> weights after so many steps, [train loss after each]."""
        data = {**data, "batch": data["batch"] // workers}
        job, log, out = (self.folder / name for name in ("job.toml", "log.jsonl", "out.safetensors"))
        job.write_text("seed = 1\n" + toml({
            "data": data, "model": {**model, "init": str(self.folder / "first")}, "optimizer": optimizer, "cluster": {"workers": workers},
            "evaluate": {"every_samples": data["batch"] * workers}, "stop": {"steps": steps}}))
        names = ["--names", "huggingface"] if self.huggingface_names else []
        done = subprocess.run([TROUPE, "run", job, "--quiet", "--log", log, "--save", out, *names], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [each["train_loss"] for each in map(json.loads, log.read_text().splitlines()) if each["kind"] == "evaluation"]
        weights = read_safetensors(out)
        return without_huggingface_names(weights) if self.huggingface_names else weights, losses

    def compare(self, module, spec, data, x, y, clip_norm=0.0, within=1e-4, relus=False, precise=True):
        """`precise`: PyTorch computes in float64.

        With `relus`: False where the first gradient is off, but by no more than the inputs that round to another side of zero.
        """
        def loss(of):
            predictions = of(x.to(next(of.parameters()).dtype) if x.is_floating_point() else x)
            return functional.cross_entropy(predictions.reshape(-1, predictions.shape[-1]), y.reshape(-1))

        def trained(of):
            """-> the loss after each step, of what is evaluated."""
            losses = []
            steps = torch.optim.AdamW(of.parameters(), lr=ADAMW["lr"], weight_decay=ADAMW["weight_decay"])
            for _ in range(STEPS):
                of.train()
                steps.zero_grad()
                loss(of).backward()
                if clip_norm:
                    torch.nn.utils.clip_grad_norm_(of.parameters(), clip_norm)
                steps.step()
                of.eval()
                with torch.no_grad():
                    losses.append(float(loss(of)))
            return losses

        def state(of):
            return {name: each.detach().clone() for name, each in of.state_dict().items() if each.is_floating_point()}

        given = state(module)
        write_safetensors(self.folder / "first", with_huggingface_names(given) if self.huggingface_names else given)
        exact, asked = (copy.deepcopy(module).double() if precise else copy.deepcopy(module) for _ in range(2))
        loss(asked).backward()
        if clip_norm:
            self.assertGreater(float(torch.nn.utils.clip_grad_norm_(asked.parameters(), clip_norm)), 2 * clip_norm)
        gradient = {name: each.grad.double() for name, each in asked.named_parameters()}
        rate = 8
        first, (after, _) = state(exact), self.troupe(data, spec, {"name": "sgd", "lr": rate, "clip_norm": clip_norm}, 1)
        ours = {name: (first[name].double() - after[name].double()) / rate for name in gradient}
        if relus and distance(ours, gradient) >= 1e-4:
            self.assertLess(distance(ours, gradient), distance(*(self.with_relus_at(size, exact, loss) for size in (1e-5, -1e-5))))
            return False
        self.assertLess(distance(ours, gradient), 1e-4)

        rounded = an_ulp_apart(module, 8) if relus else [module] if precise else []
        theirs, others = trained(exact), [trained(each) for each in rounded]
        weights, losses = self.troupe(data, spec, {**ADAMW, "clip_norm": clip_norm}, STEPS)
        self.assertEqual(len(losses), STEPS)
        bound = within
        for step, (mine, other, *float32) in enumerate(zip(losses, theirs, *others), 1):
            bound = max([bound, *(2 * abs(each - other) / other for each in float32)])
            self.assertLess(abs(mine - other) / other, bound, f"step {step}: {mine} here, {other} in PyTorch")
        statistics = {name: each for name, each in state(exact).items() if name not in gradient}
        if statistics:
            self.assertLess(distance(weights, statistics), max([bound, *(2 * distance(state(each), statistics) for each in rounded)]))
        return True

    @staticmethod
    def with_relus_at(size, module, loss):
        """The gradient if a relu were 0 below `size`."""
        of = copy.deepcopy(module)
        with unittest.mock.patch.object(functional, "relu", lambda x: x * (x > size)):
            loss(of).backward()
        return {name: each.grad for name, each in of.named_parameters()}

    def check_workers(self, spec, data):
        """Several workers equal one that has the whole batch."""
        sgd = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
        alone, _ = self.troupe(data, spec, sgd, 5)
        shared, _ = self.troupe(data, spec, sgd, 5, workers=8)
        self.assertLess(distance(shared, alone), 1e-5)

    def test_gpt(self):
        data, x, y = self.text()
        spec = {"kind": "gpt", "depth": 4, "heads": 4, "width": 32}
        self.compare(GPT(4, 4, 32), spec, data, x, y)
        self.check_workers(spec, data)

    def test_a_clipped_gpt(self):
        data, x, y = self.text()
        self.compare(GPT(2, 4, 32), {"kind": "gpt", "depth": 2, "heads": 4, "width": 32}, data, x, y, clip_norm=0.3)

    def test_gpt2_by_its_names_at_hugging_face(self):
        self.huggingface_names = True
        torch.set_num_threads(os.cpu_count())
        depth, heads, width, vocabulary, context = (12, 12, 768, 50257, 64) if THOROUGH else (2, 2, 32, 257, 16)
        data, x, y = self.tokens(vocabulary, context, windows=4)
        module = GPT(depth, heads, width, vocabulary, context)
        for name, each in module.named_parameters():  # about as GPT-2 begins
            if each.dim() == 2:
                torch.nn.init.normal_(each, std=0.02 / math.sqrt(2 * depth) if name.endswith("c_proj.weight") else 0.02)
        self.compare(module, {"kind": "gpt", "depth": depth, "heads": heads, "width": width}, data, x, y, precise=not THOROUGH)

    def test_the_norm_is_pytorchs(self):
        data, x, y = self.text()
        module = Recurrent("gru", 1, 24)
        write_safetensors(self.folder / "first", dict(module.state_dict()))
        loss = functional.cross_entropy(module.double()(x).reshape(-1, len(SYMBOLS)), y.reshape(-1))
        loss.backward()
        clip_norm = float(torch.nn.utils.clip_grad_norm_(module.parameters(), 1e9)) / 3
        torch.nn.utils.clip_grad_norm_(module.parameters(), clip_norm)
        rate = 1e4  # next to the step, the weights before it are small
        after, _ = self.troupe(data, {"kind": "gru", "depth": 1, "width": 24}, {"name": "sgd", "lr": rate, "clip_norm": clip_norm}, 1)
        moved = {name: (each.detach() - after[name].double()) / rate for name, each in module.named_parameters()}
        length = math.sqrt(sum(float(each.square().sum()) for each in moved.values()))
        theirs = math.sqrt(sum(float(each.grad.square().sum()) for each in module.parameters()))
        self.assertLess(abs(length / theirs - 1), 1e-6)

    def test_lstm(self):
        data, x, y = self.text()
        spec = {"kind": "lstm", "depth": 2, "width": 24}
        self.compare(Recurrent("lstm", 2, 24), spec, data, x, y)
        self.check_workers(spec, data)

    def test_gru(self):
        data, x, y = self.text()
        spec = {"kind": "gru", "depth": 2, "width": 24}
        self.compare(Recurrent("gru", 2, 24), spec, data, x, y)
        self.check_workers(spec, data)

    def test_resnet20(self):
        """Of 3 million inputs of relus one or two are within rounding of zero, on some machines on its other side: then it is drawn anew."""
        spec = {"kind": "resnet", "depth": 20, "width": 8}
        for _ in range(8):
            data, x, y = self.images()
            if self.compare(ResNet(3, 8), spec, data, x, y, relus=True):
                return
        self.fail("the gradient is off in each of eight draws")


if __name__ == "__main__":
    TROUPE = sys.argv.pop(1)
    unittest.main(verbosity=2)
