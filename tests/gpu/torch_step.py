#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The models of `troupe bench step` in PyTorch, one training step after the other: torch_step.py MODEL [--batch B] [--precision P].
# Prints one JSON object: samples/s of eager mode, of a CUDA graph and of torch.compile, each the median of five rounds.
#
# The same work as the prepared column of `troupe bench step`: eight minibatches in pinned host memory, copied in turn, forward, mean
# cross-entropy, backward, SGD with momentum 0.9. Products of fp32 without TF32 unless it is asked for; bf16 by autocast, with fp32
# weights. Without a GPU only eager mode runs, which tries the script and measures nothing.
import argparse
import json
import statistics
import sys
import time

BATCHES = {"mlp": 128, "mnist-cnn": 256, "wide": 4096}
PREPARED = 8


def build(torch, name, width):
    nn = torch.nn
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)), (1, 28, 28)
    if name == "mnist-cnn":
        return nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                             nn.Dropout(0.3), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10)), (1, 28, 28)
    layers = [layer for _ in range(12) for layer in (nn.Linear(width, width), nn.GELU(approximate="tanh"))]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(width, 10)), (1, width)


class Training:
    """A model, its optimizer and its minibatches."""

    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        torch.manual_seed(1)
        self.device = torch.device(options.device)
        self.gpu = self.device.type == "cuda"
        model, sample = build(torch, options.model, options.width)
        self.model = model.to(self.device).train()
        fast = {"fused": True} if self.gpu else {}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, **fast)
        self.host = []
        for _ in range(PREPARED):
            x, labels = torch.rand(options.batch, *sample), torch.randint(0, 10, (options.batch,))
            self.host.append((x.pin_memory(), labels.pin_memory()) if self.gpu else (x, labels))
        self.x, self.labels = (tensor.to(self.device) for tensor in self.host[0])
        self.turn = 0

    def next_batch(self):
        self.turn = (self.turn + 1) % PREPARED
        x, labels = self.host[self.turn]
        self.x.copy_(x, non_blocking=True)
        self.labels.copy_(labels, non_blocking=True)

    def loss(self, forward):
        torch = self.torch
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.options.precision == "bf16"):
            logits = forward(self.x)
        return torch.nn.functional.cross_entropy(logits.float(), self.labels)

    def compute(self, forward):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(forward).backward()
        self.optimizer.step()

    def wait(self):
        if self.gpu:
            self.torch.cuda.synchronize()

    def samples_per_s(self, compute):
        """Median of five rounds."""
        def step():
            self.next_batch()
            compute()

        for _ in range(5):
            step()
        self.wait()
        rates = []
        for _ in range(5):
            begin, steps = time.perf_counter(), 0
            while time.perf_counter() - begin < self.options.seconds:
                for _ in range(self.options.burst):
                    step()
                steps += self.options.burst
                self.wait()
            rates.append(steps * self.options.batch / (time.perf_counter() - begin))
        return statistics.median(rates)

    def eager(self):
        return self.samples_per_s(lambda: self.compute(self.model))

    def graph(self):
        torch = self.torch
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                self.compute(self.model)
        torch.cuda.current_stream().wait_stream(beside)
        self.optimizer.zero_grad(set_to_none=True)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            self.loss(self.model).backward()
            self.optimizer.step()
        return self.samples_per_s(recorded.replay)

    def compiled(self):
        forward = self.torch.compile(self.model, mode="reduce-overhead")
        return self.samples_per_s(lambda: self.compute(forward))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=list(BATCHES))
    parser.add_argument("--batch", type=int)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="fp32")
    parser.add_argument("--device")
    parser.add_argument("--width", type=int, default=4096, help="of the wide model")
    parser.add_argument("--seconds", type=float, default=1, help="of a round")
    parser.add_argument("--burst", type=int, default=10, help="steps between two looks at the clock")
    options = parser.parse_args()
    options.batch = options.batch or BATCHES[options.model]
    try:
        import torch
    except ImportError:
        print("torch_step: PyTorch is not installed here", file=sys.stderr)
        return 3
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    torch.backends.cudnn.benchmark = True
    out = {"model": options.model, "batch": options.batch, "precision": options.precision, "device": options.device,
           "torch": torch.__version__, "samples_per_s": {}, "failed": {}}
    ways = ["eager"] + (["graph", "compiled"] if options.device.startswith("cuda") else [])
    for way in ways:
        try:  # each from the same beginning
            out["samples_per_s"][way] = getattr(Training(torch, options), way)()
        except Exception as e:  # one that does not run here leaves the others
            out["failed"][way] = f"{type(e).__name__}: {e}"[:300]
    print(json.dumps(out))
    return 0 if out["samples_per_s"] else 1


if __name__ == "__main__":
    sys.exit(main())
