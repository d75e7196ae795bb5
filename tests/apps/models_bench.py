#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Speed and memory of the models that people train, beside PyTorch in turn, and of what may be done to a gradient beside doing without.

usage: models_bench.py TROUPE [PART...] [--times N]    (by hand; the first four need python3-torch)

Parts: step (one core), gpt_char (the job of config/gpt-char.toml, by `run`), memory (GPT-2 of 124 million parameters; attention over long
contexts), ddp (two processes beside DistributedDataParallel over Gloo), pieces (micro-batches and recomputing), clipping. All of them where
none is named. Each row has the median of N ratios, and their ends.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import parity_test

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

# PyTorch as well as it goes here: OpenBLAS 0.3.21 takes a processor that it does not know for one without AVX-512, and an allocator that
# gives pages back makes it up to five times slower on some machines.
CORE = {"OPENBLAS_CORETYPE": "SkylakeX"} if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text().split() else {}
KEEPS_PAGES = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 35), "MALLOC_TOP_PAD_": str(1 << 28)}
SECONDS = 4  # that a figure of PyTorch's is measured for, at least
SYMBOLS, CONTEXT, BATCH = 65, 128, 16
BLOCKS = ["repeat 4 {", "residual {", "layernorm", "attention 4 causal", "}", "residual {", "layernorm", "linear 512 gelu", "linear 128", "}", "}"]
TRANSFORMER = ["embedding 128", "positions", *BLOCKS, "layernorm", f"linear {SYMBOLS}"]
STEP_WANTED = {"transformer": 1.2, "lstm": 1.3, "gpt2": 1.1, "resnet20": 1.0}


# PyTorch's side, in a process of its own.

def peer_model(name):
    """-> module, optimizer, function that draws inputs and labels, samples of a batch."""

    class Characters(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.lstm, self.head = nn.Embedding(SYMBOLS, 128), nn.LSTM(128, 256, batch_first=True), nn.Linear(256, SYMBOLS)

        def forward(self, x):
            return self.head(self.lstm(self.embedding(x))[0])

    if name == "resnet20":
        x, y, batch = torch.rand(4096, 3, 32, 32), torch.randint(10, (4096,)), 128

        def draw_images():
            rows = torch.randint(len(x), (batch,))
            return x[rows], y[rows]

        module = parity_test.ResNet(3, 16)
        return module, torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9), draw_images, batch

    size, vocabulary, context, batch = {"gpt2": ((12, 12, 768), 50257, 64, 4), "gpt_char": ((4, 4, 128), SYMBOLS, 64, 12)}.get(
        name, ((4, 4, 128), SYMBOLS, CONTEXT, BATCH))
    ids, within = torch.randint(vocabulary, (1 << 20,)), torch.arange(context + 1)

    def draw_text():
        windows = ids[torch.randint(len(ids) - context - 1, (batch, 1)) + within]
        return windows[:, :-1], windows[:, 1:].reshape(-1)

    module = Characters() if name == "lstm" else parity_test.GPT(*size, vocabulary, context)
    return module, torch.optim.AdamW(module.parameters(), lr=1e-3), draw_text, batch


def train_peer(name, seconds, processes, meeting):
    """Prints samples a second of all processes together, and the most that this one held."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    module, optimizer, draw, batch = peer_model(name)
    trained = module
    if processes > 1:
        rank = int(os.environ.get("RANK", "0"))
        if rank == 0:
            for other in range(1, processes):
                subprocess.Popen([sys.executable, "-B", *sys.argv], env=os.environ | {"RANK": str(other)}, stdout=subprocess.DEVNULL)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=processes)
        trained = torch.nn.parallel.DistributedDataParallel(module)

    def step():
        x, y = draw()
        optimizer.zero_grad(set_to_none=True)
        predictions = trained(x)
        nn.functional.cross_entropy(predictions.reshape(-1, predictions.shape[-1]), y).backward()
        optimizer.step()

    for _ in range(3):
        step()
    began = time.perf_counter()
    step()
    steps = torch.tensor([max(3, int(seconds / (time.perf_counter() - began)))])
    if processes > 1:
        torch.distributed.broadcast(steps, 0)
    began = time.perf_counter()
    for _ in range(int(steps)):
        step()
    rate = processes * batch * int(steps) / (time.perf_counter() - began)
    print(json.dumps({"samples_per_s": rate, "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


# Both sides beside each other.

class Bench:
    def __init__(self, troupe, times, folder):
        self.binary, self.times, self.folder = troupe, times, pathlib.Path(folder)

    def object_of(self, *command, variables=()):
        """-> the object that a command prints, and the most that it held: its own process, without children."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | dict(variables))
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"{' '.join(map(str, command))}: status {status}")
        return json.loads(out.splitlines()[-1]), used.ru_maxrss * 1024

    def peer(self, name, seconds=SECONDS, processes=1, threads=1, allocator=KEEPS_PAGES):
        number = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "MKL")}  # OpenBLAS does not hear set_num_threads
        with tempfile.TemporaryDirectory(dir=self.folder) as meeting:
            command = [sys.executable, "-B", __file__, "--peer", name, str(seconds), str(processes), f"{meeting}/meeting"]
            return self.object_of(*self.pinned(processes * threads), *command, variables=CORE | number | allocator)[0]

    @staticmethod
    def pinned(threads):
        return ["taskset", "-c", "0"] if threads == 1 else []

    def job(self, name, tables):
        path = self.folder / f"{name}.toml"
        path.write_text("seed = 1\n" + parity_test.toml(tables))
        return path

    def text_job(self, name, steps, **changes):
        """A transformer over drawn characters; `changes` are tables."""
        text = self.folder / "text"
        if not text.exists():
            drawn = random.Random(1)
            letters = [chr(ord("!") + i) for i in range(SYMBOLS)]
            text.write_text("".join(letters) + "".join(drawn.choices(letters, k=1 << 19)))
        tables = {"data": {"source": "text", "path": str(text), "context": CONTEXT, "batch": BATCH}, "model": {"layers": TRANSFORMER},
                  "optimizer": {"name": "adamw", "lr": 0.001}, "stop": {"steps": steps},
                  "evaluate": {"every_samples": 1 << 40, "train_samples": 16}}
        for table, keys in changes.items():
            tables[table] = tables.get(table, {}) | keys
        return self.job(name, tables)

    def run(self, job):
        return self.object_of(self.binary, "run", job, "--quiet", "--json")

    def speed_beside(self, changed, plain):
        """-> in each turn, the samples a second of one job by those of the other."""
        return [self.run(changed)[0]["samples_per_s"] / self.run(plain)[0]["samples_per_s"] for _ in range(self.times)]

    def claim(self, text, ratios, wanted, most=False):
        found = statistics.median(ratios)
        holds = found <= wanted if most else found >= wanted
        print(f"{text}: {found:.3f} ({min(ratios):.3f} to {max(ratios):.3f}), wanted {'<=' if most else '>='} {wanted}"
              f"{'' if holds else ': falls short'}", flush=True)

    def step(self):
        for name, wanted in STEP_WANTED.items():
            ratios = []
            for _ in range(self.times):
                theirs = self.peer(name)["samples_per_s"]
                ours = self.object_of(*self.pinned(1), self.binary, "bench", "step", "--model", name, "--json")[0]["actors_samples_per_s"]
                ratios.append(ours / theirs)
            self.claim(f"{name}: samples/s of one core by PyTorch's (the last: {ours:.4g} and {theirs:.4g})", ratios, wanted)

    def memory(self):
        vocabulary, context, batch = 50257, 64, 4
        drawn, path = random.Random(1), self.folder / "tokens"
        path.write_bytes(b"".join(drawn.randrange(vocabulary).to_bytes(2, "little") for _ in range(64 * context + 1)))
        job = self.job("gpt2", {
            "data": {"source": "tokens", "path": str(path), "test_path": str(path), "token_type": "uint16", "vocabulary_size": vocabulary,
                     "context": context, "batch": batch},
            "model": {"kind": "gpt", "depth": 12, "heads": 12, "width": 768}, "optimizer": {"name": "adamw", "lr": 0.001}, "stop": {"steps": 5},
            "evaluate": {"every_samples": 1 << 40, "train_samples": 4}})
        ratios = []
        for _ in range(self.times):
            ours, theirs = self.run(job)[1], self.peer("gpt2", seconds=0, allocator={})["bytes"]
            ratios.append(ours / theirs)
        self.claim(f"GPT-2, 4 x 64 tokens: memory of `run` by PyTorch's (the last: {ours / 1e9:.2f} and {theirs / 1e9:.2f} GB)", ratios, 1.0, most=True)

        of_context = {}
        for context in 1024, 2048, 4096:
            # Eight rows: a process that is started here counts what this one holds.
            job = self.text_job("long", 2, data={"context": context, "batch": 8}, evaluate={"train_samples": 1})
            of_context[context] = [self.run(job)[1] for _ in range(self.times)]
        more = [(c - b) / (b - a) for a, b, c in zip(*of_context.values())]
        self.claim("a context of 4096: memory beyond that of 2048, by what that takes beyond 1024 (linear: 2, quadratic: 4)", more, 2.2, most=True)

    def gpt_char(self):
        """One worker and what PyTorch does fastest, of one thread or as many as there are processors."""
        job = self.text_job("gpt-char", 500, data={"context": 64, "batch": 12}, evaluate={"train_samples": 12})
        ratios = []
        for _ in range(self.times):
            ours = self.run(job)[0]["samples_per_s"]
            theirs = max(self.peer("gpt_char", threads=threads)["samples_per_s"] for threads in {1, os.cpu_count()})
            ratios.append(theirs / ours)
        self.claim(f"gpt-char: time by that of PyTorch's loop (samples/s of the last: {ours:.4g} and {theirs:.4g})", ratios, 0.85, most=True)

    def ddp(self):
        job = self.text_job("two", 100, cluster={"nodes": 2, "workers": 2})
        ratios = []
        for _ in range(self.times):
            ours, theirs = self.run(job)[0]["samples_per_s"], self.peer("transformer", processes=2)["samples_per_s"]
            ratios.append(ours / theirs)
        self.claim(f"transformer, two processes: samples/s by DDP's (the last: {ours:.4g} and {theirs:.4g})", ratios, 1.3)

    def pieces(self):
        deep = [each.replace("repeat 4", "repeat 12") for each in TRANSFORMER]
        plain = self.text_job("plain", 25, model={"layers": deep})
        for name, changes, steps_wanted in (("micro_batch of a quarter", {"data": {"micro_batch": BATCH // 4}}, 0.95),
                                            ("recompute", {"compute": {"recompute": "blocks"}}, 0.75)):
            changed = self.text_job("changed", 25, **({"model": {"layers": deep}} | changes))
            self.claim(f"{name}, 12 layers: steps/s by those without", self.speed_beside(changed, plain), steps_wanted)

    def clipping(self):
        four = {"cluster": {"nodes": 2, "workers": 2, "shards": 4}}
        tables = {"data": {"source": "digits", "train_samples": 20000, "batch": 64}, "model": {"kind": "mlp", "hidden": [512, 256]},
                  "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9}, "stop": {"steps": 1200}, "evaluate": {"every_samples": 1 << 40}} | four
        plain = self.job("unclipped", tables)
        clipped = self.job("clipped", tables | {"optimizer": tables["optimizer"] | {"clip_norm": 1.0}})
        self.claim("clip_norm, 4 shards: steps/s of a perceptron by those without", self.speed_beside(clipped, plain), 0.98)
        plain, clipped = self.text_job("unclipped", 60, **four), self.text_job("clipped", 60, optimizer={"clip_norm": 1.0}, **four)
        self.claim("clip_norm, 4 shards: steps/s of a transformer by those without", self.speed_beside(clipped, plain), 0.98)


PARTS = {"step": Bench.step, "gpt_char": Bench.gpt_char, "memory": Bench.memory, "ddp": Bench.ddp, "pieces": Bench.pieces, "clipping": Bench.clipping}


def main():
    if sys.argv[1:2] == ["--peer"]:
        name, seconds, processes, meeting = sys.argv[2:]
        train_peer(name, float(seconds), int(processes), meeting)
        return
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("troupe", type=lambda path: pathlib.Path(path).resolve())
    options.add_argument("parts", nargs="*", metavar="PART")
    options.add_argument("--times", type=int, default=5)
    given = options.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        options.error(f"no part '{min(unknown)}'; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="troupe-models-") as folder:
        for part in given.parts or PARTS:
            PARTS[part](Bench(given.troupe, given.times, folder))


if __name__ == "__main__":
    main()
