#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the package's docstrings and its page show, carried out from its wheel.

usage: docs_test.py BUILD_DIR [unittest arguments]
"""
import re
import socket

import common

PAGE = common.SOURCE / "apps/python/README.md"


def blocks():
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


class FromWheel(common.Scripts):
    @classmethod
    def setUpClass(cls):
        _, cls.site = common.unpacked_wheel(cls)


@common.needs("numpy")
class Docstrings(FromWheel):
    def test_their_examples_give_what_they_say(self):
        out = self.run_script(f"""
import doctest, os
import troupe
os.chdir({str(common.SOURCE)!r})
from troupe import _run, _steps
results = [doctest.testmod(module) for module in (_run, _steps)]
print(sum(r.failed for r in results), sum(r.attempted for r in results) > 5)
""")
        self.assertEqual(out, "0 True\n")

    def test_the_page_runs_a_job(self):
        job = next(block for block in blocks() if "troupe.run(" in block)
        smaller = job.replace('"optimizer.lr": 0.1', '"optimizer.lr": 0.1, "data.train_samples": 1000, "stop.epochs": 1')
        self.assertNotEqual(job, smaller)
        self.run_script(f"import os, troupe\nos.chdir({str(common.SOURCE)!r})\n" + smaller)


@common.needs("torch")
class Page(FromWheel):
    modules = ("torch",)

    def test_its_loop_trains_a_module_on_four_processes(self):
        loop = next(block for block in blocks() if "nodes=4" in block and "epochs=3" in block)
        smaller = loop.replace("60_000", "2_000").replace("10_000", "500")
        self.assertNotEqual(loop, smaller)
        out = self.run_script("""
def load():
    import torch
    torch.manual_seed(1)
    y = torch.randint(10, (2500,))
    return torch.randn(10, 784)[y] + torch.randn(2500, 784), y
""" + smaller)
        self.assertGreater(float(out), 0.9)

    def test_its_further_loops_train_the_module(self):
        steps = [block for block in blocks() if "troupe.steps(" in block]
        self.assertEqual(len(steps), 3)
        cluster = 'name = "page"\n[[node]]\nname = "a"\nhost = "127.0.0.1"\nport = 1\n[[node]]\nname = "b"\nhost = "127.0.0.1"\nport = 0\n'
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            (self.folder / "cluster.toml").write_text(cluster.replace("port = 1", f"port = {probe.getsockname()[1]}"), encoding="utf-8")
        setup = """
import sys, torch, troupe
torch.manual_seed(1)
y = torch.randint(10, (2500,))
x = torch.randn(10, 784)[y] + torch.randn(2500, 784)
net = torch.nn.Linear(784, 10)
"""
        rest = """
for step in loop:
    out = net(x[step.rows])
    step.backward(torch.nn.functional.cross_entropy(out, y[step.rows]), correct=(out.argmax(1) == y[step.rows]).sum())
print(loop.result.test_accuracy)
"""
        for block in steps[1:]:
            text = setup + block.replace("60_000", "2_000").replace("10_000", "500").replace("nodes=4", "nodes=2") + rest
            text = text.replace('cluster="cluster.toml"', 'cluster="cluster.toml", node=sys.argv[1], optimizer=troupe.sgd(0.05), epochs=3')
            text = text.replace("steps=50", "steps=5").replace("own_optimizer=inner", "own_optimizer=inner, epochs=3")
            path = self.write(text)
            processes = [self.start_file(path, name) for name in ("ab" if "cluster=" in block else "a")]
            first, *others = [self.finish_script(process) for process in processes]
            self.assertGreater(float(first), 0.9)
            self.assertEqual("".join(others), "")

    def test_the_example_of_fit_gives_what_it_says(self):
        out = self.run_script("""
import doctest
from troupe import _fit
tried = doctest.testmod(_fit)
print(tried.failed, tried.attempted > 3)
""")
        self.assertEqual(out, "0 True\n")

    def test_its_fit_trains_a_module(self):
        fit = next(block for block in blocks() if "troupe.fit(" in block)
        self.run_script("""
import torch, troupe
x, y = torch.randn(300, 20), torch.randint(4, (300,))
xt, yt, module = x, y, torch.nn.Linear(20, 4)
""" + fit)


if __name__ == "__main__":
    common.main()
