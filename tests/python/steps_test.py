#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""troupe.steps: loops of scripts that compute the steps, in NumPy and in PyTorch.

usage: steps_test.py BUILD_DIR [unittest arguments]
"""
import json
import os
import re
import signal
import subprocess
import threading
import time

import common
import run_test

# Softmax regression on clouds around four centres.
NUMPY = """
import json, os, sys, time
import numpy, troupe
rng = numpy.random.default_rng(1)
labels = rng.integers(0, 4, 1200)
centres = numpy.array([[2, 0], [-2, 0], [0, 2], [0, -2]], dtype="float32")
x = (centres[labels] + rng.normal(0, 0.5, (1200, 2))).astype("float32")
model = {"w": numpy.zeros((2, 4), "float32"), "b": numpy.zeros(4, "float32"), "unused": numpy.ones(3, "float32")}

def compute(step):
    xs, ys = x[step.rows], labels[step.rows]
    z = xs @ step.parameters["w"] + step.parameters["b"]
    z -= z.max(1, keepdims=True)
    p = numpy.exp(z) / numpy.exp(z).sum(1, keepdims=True)
    if step.training:
        d = p.copy()
        d[numpy.arange(len(ys)), ys] -= 1
        step.gradients["w"] = xs.T @ d / len(ys)
        step.gradients["b"][...] = d.mean(0)
    step.done(-numpy.log(p[numpy.arange(len(ys)), ys] + 1e-9).mean(), correct=(p.argmax(1) == ys).sum())
"""
LOOP = """
loop = troupe.steps(model, samples=1000, test=200, **json.loads(sys.argv[1]))
for step in loop:
    compute(step)
print(json.dumps({"accuracy": loop.result.test_accuracy, "loss": loop.result.test_loss, "steps": loop.result.steps,
                  "unused": model["unused"].tolist(), "w": model["w"].tolist(), "digest": loop.result.digest}))
"""

MODULE = """
import json, os, sys
import numpy, torch, troupe
torch.manual_seed(int(os.environ.get("SEED", "1")))
torch.set_num_threads(1)
rng = numpy.random.default_rng(1)
y = torch.from_numpy(rng.integers(0, 4, 1200))
x = (torch.tensor([[2., 0], [-2, 0], [0, 2], [0, -2]])[y] + torch.from_numpy(rng.normal(0, 0.5, (1200, 2)).astype("float32")))
loss_of = torch.nn.functional.cross_entropy
module = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
"""
DIGITS = """
import sys
sys.path.insert(0, sys.argv[2])
import drawn_digits
x, y = map(torch.from_numpy, drawn_digits.draw(2400))
def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(144, 48), torch.nn.ReLU(), torch.nn.Linear(48, 10))
def accuracy(module, **options):
    loop = troupe.steps(module, samples=2000, test=400, batch=20, **options)
    for step in loop:
        out = module(x[step.rows])
        step.backward(loss_of(out, y[step.rows]), correct=(out.argmax(1) == y[step.rows]).sum())
    return loop.result.test_accuracy
"""
MODULE_LOOP = """
loop = troupe.steps(module, samples=1000, test=200, **json.loads(sys.argv[1]))
for step in loop:
    out = module(x[step.rows])
    step.backward(loss_of(out, y[step.rows]), correct=(out.argmax(1) == y[step.rows]).sum())
print(json.dumps({"accuracy": loop.result.test_accuracy, "steps": loop.result.steps,
                  "values": {k: v.tolist() for k, v in module.state_dict().items()}}))
"""


@common.needs("numpy")
class Arrays(common.Scripts):
    def learn(self, script=NUMPY + LOOP, **options):
        return json.loads(self.run_script(script, json.dumps(options)).splitlines()[-1])

    def test_a_model_in_numpy_learns(self):
        got = self.learn(epochs=3, batch=20, optimizer="sgd")
        self.assertGreater(got["accuracy"], 0.97)
        self.assertEqual(got["unused"], [1, 1, 1])  # a gradient that nobody wrote is zero
        self.assertEqual(got["steps"], 150)

    def test_every_protocol_trains_it_on_two_processes(self):
        for protocol in ["sync", "backup", "async", "dc-async", "ssp", "local", "adacomm", "easgd", "gossip", "coded"]:
            with self.subTest(protocol=protocol):
                got = self.learn(epochs=6, batch=10, nodes=2, protocol=protocol)
                self.assertGreater(got["accuracy"], 0.95)

    def test_steps_that_the_script_takes_are_those_of_local_sgd(self):
        own = NUMPY.replace('step.gradients["w"] = xs.T @ d / len(ys)', 'step.gradients["w"] = 0.1 * (xs.T @ d / len(ys))')
        own = own.replace('step.gradients["b"][...] = d.mean(0)', 'step.gradients["b"][...] = 0.1 * d.mean(0)') + LOOP
        for protocol in ("local", "easgd"):
            with self.subTest(protocol):
                troupes = self.learn(epochs=2, batch=20, protocol=protocol, set={"optimizer.lr": 0.1})
                self.assertGreater(max(map(abs, sum(troupes["w"], []))), 0.5)
                ours = self.learn(own, epochs=2, batch=20, protocol=protocol, own_optimizer=True)
                for a, b in zip(sum(troupes["w"], []), sum(ours["w"], [])):
                    self.assertAlmostEqual(a, b, delta=1e-5)
        # Under gossip, whom a worker mixes with is a matter of who is ready.
        self.assertGreater(self.learn(own, epochs=3, batch=20, protocol="gossip", own_optimizer=True)["accuracy"], 0.97)

    def test_four_processes_are_one_with_the_whole_batch(self):
        one, four = self.learn(epochs=2, batch=40), self.learn(epochs=2, batch=10, nodes=4)
        self.assertEqual(one["steps"], four["steps"])
        for a, b in zip(sum(one["w"], []), sum(four["w"], [])):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def test_the_others_finish_when_one_is_killed(self):
        script = NUMPY + """
loop = troupe.steps(model, samples=1000, test=200, nodes=3, batch=10, epochs=4, set={"cluster.respawn": False})
for i, step in enumerate(loop):
    if i == 3 and "node-2" in os.environ.get("TROUPE_NODE", ""):
        os.kill(os.getpid(), 9)
    compute(step)
print(loop.result.test_accuracy)
"""
        self.assertGreater(float(self.run_script(script)), 0.95)

    def test_a_process_that_was_killed_comes_back(self):
        script = NUMPY + """
loop = troupe.steps(model, samples=1000, test=200, nodes=2, batch=10, epochs=40, progress=True)
for i, step in enumerate(loop):
    if i == 3 and os.environ.get("TROUPE_NODE") and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), 9)
    if os.environ.get("TROUPE_NODE") and i == 10:
        open("back", "w").close()
    time.sleep(0.01 if i > 3 and not os.path.exists("back") else 0)
    compute(step)
print(loop.result.facts["restarts"], loop.result.test_accuracy)
"""
        process = self.start(script)
        self.addCleanup(process.kill)
        out, err = process.communicate(timeout=common.DEADLINE_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("is started anew", err)

    def test_a_loop_that_stood_still_comes_back(self):
        """As in a debugger. Until then the others take their time."""
        process = self.start(NUMPY + """
loop = troupe.steps(model, samples=1000, test=200, nodes=3, batch=10, epochs=40, progress=True, set={"cluster.progress_s": 1})
for i, step in enumerate(loop):
    stands_still = i == 3 and "node-2" in os.environ.get("TROUPE_NODE", "")
    while stands_still and not os.path.exists("moves"):
        time.sleep(0.01)
    if i == 4 and "node-2" in os.environ.get("TROUPE_NODE", ""):
        open("back", "w").close()
    time.sleep(0.01 if os.path.exists("moves") and not os.path.exists("back") else 0)
    compute(step)
print(loop.result.facts["restarts"], loop.result.test_accuracy)
""")
        self.addCleanup(process.kill)
        common.line_of(process.stderr, "is lost: no step for")
        (self.folder / "moves").touch()
        common.line_of(process.stderr, "is restarted, as it moves again")
        out, err = process.communicate(timeout=common.DEADLINE_S)
        self.assertEqual(process.returncode, 0, err)
        restarts, accuracy = map(float, out.split())
        self.assertEqual(restarts, 1)
        self.assertGreater(accuracy, 0.95)

    def test_an_exception_in_the_loop_costs_that_process_alone(self):
        script = NUMPY + """
sys.excepthook = lambda *ignored: None  # so that the traceback below comes by the job's log
loop = troupe.steps(model, samples=1000, test=200, nodes=3, batch=10, epochs=4, progress=True)
for i, step in enumerate(loop):
    if i == 3 and "node-2" in os.environ.get("TROUPE_NODE", ""):
        raise ValueError("these rows are odd")
    compute(step)
print(loop.result.test_accuracy)
"""
        process = self.start(script)
        self.addCleanup(process.kill)
        out, err = process.communicate(timeout=common.DEADLINE_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertGreater(float(out), 0.95)
        self.assertIn("ValueError: these rows are odd", err)
        self.assertIn("troupe: node-2 exited with 1: Traceback", err)
        self.assertNotIn("node-2 is started anew", err)

    def test_an_exception_is_in_the_console(self):
        process = self.start(NUMPY + """
loop = troupe.steps(model, samples=1000, test=200, nodes=3, batch=10, epochs=1000000, progress=True)
for i, step in enumerate(loop):
    if i == 3 and "node-2" in os.environ.get("TROUPE_NODE", ""):
        raise ValueError("these rows are odd")
    compute(step)
""")
        self.addCleanup(process.kill)
        address = re.search(r"troupe console (\S+)`", common.line_of(process.stderr, "troupe console")).group(1)
        common.line_of(process.stderr, "node-2 is not started anew")
        drained = threading.Thread(target=process.stderr.read)
        drained.start()
        said = subprocess.run([common.BUILD / "troupe", "console", address, "-c", "events 1"], capture_output=True, text=True, check=True,
                              timeout=common.DEADLINE_S).stdout
        process.send_signal(signal.SIGINT)
        drained.join()
        self.assertIn("node-2 exited with 1: Traceback", said)
        self.assertIn("ValueError: these rows are odd", said)

    def test_a_shard_that_is_killed_has_its_copy_go_on(self):
        script = NUMPY + """
loop = troupe.steps(model, samples=1000, test=200, nodes=3, batch=10, epochs=4,
                    set={"cluster.respawn": False, "cluster.shards": 3, "cluster.replicas": 2})
for i, step in enumerate(loop):
    if i == 3 and "node-2" in os.environ.get("TROUPE_NODE", ""):
        os.kill(os.getpid(), 9)
    compute(step)
print(loop.result.test_accuracy)
"""
        self.assertGreater(float(self.run_script(script)), 0.95)

    def computing(self):
        """A script in the middle of its loop, and the processes that it has started."""
        process = self.start(NUMPY + """
loop = troupe.steps(model, samples=1000, test=200, nodes=3, batch=10, epochs=1000000)
for i, step in enumerate(loop):
    compute(step)
    if i == 20 and "TROUPE_NODE" not in os.environ:
        print("computes", flush=True)
""")
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "computes\n")
        nodes = run_test.children_of(process.pid)
        self.assertEqual(len(nodes), 2)
        return process, nodes

    def until_gone(self, nodes):
        deadline = time.monotonic() + common.DEADLINE_S
        while any(run_test.alive(pid) for pid in nodes) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse([pid for pid in nodes if run_test.alive(pid)])

    def test_nobody_outlives_the_first_process(self):
        process, nodes = self.computing()
        process.kill()
        self.until_gone(nodes)

    def test_control_c_ends_every_process(self):
        process, nodes = self.computing()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=common.DEADLINE_S)
        self.assertIn("KeyboardInterrupt", err)
        self.until_gone(nodes)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("troupe-")], [])

    def test_processes_share_the_cores_unless_the_environment_says_how(self):
        script = NUMPY + """
del os.environ["OMP_NUM_THREADS"]
os.environ.update({"OMP_NUM_THREADS": each for each in sys.argv[1:]})
for step in troupe.steps(model, samples=1000, test=200, nodes=2):
    compute(step)
print("TROUPE_LOOP" in os.environ, open("threads").read(), len(os.sched_getaffinity(0)) // 2 or 1)
"""
        script = script.replace("import numpy, troupe", """
if os.environ.get("TROUPE_NODE"):
    with open("threads", "w") as out:
        out.write(os.environ["OMP_NUM_THREADS"])
import numpy, troupe""")
        left, given, share = self.run_script(script).split()
        self.assertEqual((left, given), ("False", share))
        self.assertEqual(self.run_script(script, "3").split()[1], "3")

    def test_two_loops_of_one_script(self):
        out = self.run_script(NUMPY + """
for epochs in (1, 3):
    loop = troupe.steps(model, samples=1000, test=200, nodes=2, batch=10, epochs=epochs)
    for step in loop:
        compute(step)
    print(loop.result.steps)
""")
        self.assertEqual(out.split(), ["50", "nan", "150"])  # the process of the second loop passes over the first, whose steps it lacks

    def test_what_is_wrong_is_said(self):
        setup = "loop = troupe.steps(model, samples=1000, test=200)\n"
        for name, script, sentence in [
                ("a step that nobody ends", setup + "for step in loop: pass", "a step ended without step.done(loss)"),
                ("ended twice", setup + "for step in loop:\n  step.done(1.0)\n  step.done(1.0)", "called twice for one step"),
                ("another shape", setup + "for step in loop:\n  step.gradients['w'] = numpy.zeros(3)\n",
                 "the gradient of w has shape (3,), and w has (2, 4)"),
                ("no such parameter", setup + "for step in loop:\n  step.gradients['v'] = 1\n", "there is no parameter 'v'; there are w, b"),
                ("a parameter that is written", setup + "for step in loop:\n  step.parameters['w'] += 1\n", "read-only"),
                ("NaN", setup + "for step in loop:\n  if step.training: step.gradients['w'] = numpy.full((2, 4), numpy.nan)\n  step.done(1.0)",
                 "finite"),
                ("float64", "troupe.steps({'w': numpy.zeros(3)}, samples=10, test=1)", "w is float64, and Troupe trains float32"),
                ("a list", "troupe.steps({'w': [0.0]}, samples=10, test=1)", "w is no array but list: write numpy.array(w, 'float32')"),
                ("no model", "troupe.steps(3, samples=10, test=1)", "the model is int; give a torch.nn.Module, or a dict of float32 arrays"),
                ("no rows", "troupe.steps(model, samples=0, test=1)", "at least 1 sample"),
                ("no parameters", "troupe.steps({}, samples=1, test=1)", "no parameters"),
                ("a GPU", "troupe.steps(model, samples=1000, test=200, set={'compute.device': 'cuda'})", "cuda"),
                ("a fork", setup + "step = next(loop)\nif os.fork() == 0:\n  try:\n    step.done(1.0)\n  except troupe.Error as e:\n"
                 "    print(e, flush=True)\n  os._exit(0)\nos.wait()\nloop.close()\nsys.exit(1)", "this process is a fork"),
                ("no script", "sys.argv = ['']\ntroupe.steps(model, samples=10, test=1, nodes=2)", "put the loop into a file"),
        ]:
            with self.subTest(name):
                self.assertIn(sentence, self.run_script(NUMPY + script, code=1))

    def test_a_module_that_differs_between_processes(self):
        out = self.run_script(NUMPY + """
if os.environ.get("TROUPE_NODE"):
    model["b"] = numpy.zeros(5, "float32")
for step in troupe.steps(model, samples=1000, test=200, nodes=2):
    compute(step)
""", code=1)
        self.assertIn('its parameter 1 is "b (4)" in the first process and "b (5)" here', out)


@common.needs("torch")
class Modules(common.Scripts):
    modules = ("torch",)

    def learn(self, more="", **options):
        return json.loads(self.run_script(MODULE + more + MODULE_LOOP, json.dumps(options)).splitlines()[-1])

    def test_a_module_learns_and_has_the_final_parameters(self):
        got = self.learn(epochs=4, batch=20, optimizer="adamw", set={"optimizer.lr": 0.01})
        self.assertGreater(got["accuracy"], 0.97)

    def test_it_is_what_pytorchs_own_loop_gives(self):
        out = self.run_script(MODULE + """
import copy
twin = copy.deepcopy(module)
optimizer = torch.optim.AdamW(twin.parameters(), lr=0.01, weight_decay=0)
taken = []
loop = troupe.steps(module, samples=1000, test=200, batch=50, epochs=2, optimizer=troupe.adamw(0.01))
for step in loop:
    if step.training:
        optimizer.zero_grad()
        with torch.enable_grad():
            loss_of(twin(x[step.rows]), y[step.rows]).backward()
        optimizer.step()
    step.backward(loss_of(module(x[step.rows]), y[step.rows]))
a, b = (torch.cat([p.detach().ravel() for p in m.parameters()]) for m in (module, twin))
print(float((a - b).norm() / b.norm()), loop.result.test_accuracy, loop.result.history[-1]["test_accuracy"])
""").split()
        self.assertLess(float(out[0]), 1e-5)
        self.assertEqual(out[1:], ["None", "None"])  # nobody counted

    def test_four_processes_are_one_with_the_whole_batch(self):
        one, four = self.learn(epochs=2, batch=40), self.learn(epochs=2, batch=10, nodes=4)
        for name, values in one["values"].items():
            for a, b in zip(str(values).strip("[]").replace("[", "").replace("]", "").split(","),
                            str(four["values"][name]).strip("[]").replace("[", "").replace("]", "").split(",")):
                self.assertAlmostEqual(float(a), float(b), delta=1e-5)

    def test_buffers_are_statistics_and_unused_parameters_stay(self):
        got = self.learn(epochs=2, batch=20, nodes=2, more="""
module = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
module.register_parameter("spare", torch.nn.Parameter(torch.ones(2)))
""")
        self.assertGreater(got["accuracy"], 0.95)
        self.assertEqual(got["values"]["spare"], [1, 1])
        self.assertNotEqual(got["values"]["1.running_mean"], [0.0] * 16)

    def digits(self, script, code=0):
        return self.run_script(MODULE + DIGITS + script, "{}", str(common.SOURCE / "tests/python"), code=code)

    def test_every_protocol_trains_it_on_digits(self):
        out = self.digits("""
for entry in json.loads(troupe._library.library().troupe_listing())["protocols"]:
    slow = entry["name"] in ("admm", "easgd", "gossip", "deadline")  # deadline: whoever is late on a busy machine is left out
    print(entry["name"], accuracy(net(), workers=2, epochs=20 if slow else 6, protocol=entry["name"], optimizer=troupe.sgd(0.1)))
""")
        reached = {name: float(value) for name, value in map(str.split, out.splitlines())}
        self.assertGreater(len(reached), 10)
        self.assertEqual({name: value for name, value in reached.items() if value < 0.97}, {})

    def test_torch_takes_the_local_steps_as_troupe_does(self):
        values = {}
        for optimizer in ("optimizer=troupe.sgd(0.1)", "own_optimizer=torch.optim.SGD(module.parameters(), lr=0.1)"):
            loop = MODULE_LOOP.replace("**json", f"nodes=2, batch=20, epochs=2, protocol=troupe.local(steps=5), {optimizer}, **json")
            values[optimizer] = json.loads(self.run_script(MODULE + loop, "{}").splitlines()[-1])["values"]
        troupes, torchs = ([x for each in found.values() for x in sum([v if isinstance(v, list) else [v] for v in each], [])]
                           for found in values.values())
        self.assertGreater(max(abs(x) for x in troupes), 0.5)
        self.assertLess(max(abs(a - b) for a, b in zip(troupes, torchs)), 1e-5)

    def test_each_worker_has_a_state_of_its_own_wherever_it_is(self):
        values = []
        for where in ("nodes=2", "workers=2", "nodes=2, workers=4", "workers=4"):
            loop = MODULE_LOOP.replace("**json", f"{where}, batch=20, epochs=2, protocol=troupe.local(steps=5), own_optimizer=inner, **json")
            inner = "\ninner = torch.optim.AdamW(module.parameters(), lr=0.01)\n"
            found = json.loads(self.run_script(MODULE + inner + loop, "{}").splitlines()[-1])["values"]
            values.append([x for each in found.values() for x in sum([v if isinstance(v, list) else [v] for v in each], [])])
        for i, other in ((0, 1), (2, 3)):
            self.assertLess(max(abs(a - b) for a, b in zip(values[i], values[other])), 1e-6)
        self.assertGreater(max(abs(a - b) for a, b in zip(values[0], values[2])), 1e-3)

    def test_an_inner_adamw_trains_digits(self):
        out = self.digits("""
module = net()
inner = torch.optim.AdamW(module.parameters(), lr=3e-3)
print(accuracy(module, nodes=2, epochs=6, protocol=troupe.local(steps=10, outer="nesterov"), own_optimizer=inner))
print(len(inner.state))
""")
        reached, states = out.split()
        self.assertGreater(float(reached), 0.97)
        self.assertEqual(states, "4")  # it stays in its process

    def test_an_own_optimizer_is_refused_where_it_has_no_steps(self):
        for name, call, sentence in [
                ("sync", "accuracy(net(), own_optimizer=inner)", "own_optimizer: under sync workers take no steps; the caller's optimizer can "
                 "take the workers' own steps of local"),
                ("admm", "accuracy(net(), own_optimizer=inner, protocol='admm')", "under admm workers take steps of the protocol's own"),
                ("EAMSGD", "accuracy(net(), own_optimizer=inner, protocol=troupe.easgd(momentum=0.9))", "under easgd workers take steps of the"),
                ("auto", "accuracy(net(), own_optimizer=inner, protocol='auto')", "under sync workers take no steps"),
                ("both", "accuracy(net(), own_optimizer=inner, optimizer='adamw')", "own_optimizer takes the steps, and optimizer is Troupe's"),
                ("a key", "accuracy(net(), own_optimizer=inner, protocol='local', set={'optimizer.weight_decay': 0.1})",
                 "this job sets optimizer keys; leave those out"),
                ("none of torch", "accuracy(net(), own_optimizer='adamw', protocol='local')", "own_optimizer is 'adamw', and no optimizer of"),
        ]:
            with self.subTest(name):
                self.assertIn(sentence, self.digits("inner = torch.optim.SGD(net().parameters(), lr=0.1)\n" + call, code=1))

    def test_a_loop_that_is_left_leaves_the_module_its_values_in_memory_of_its_own(self):
        out = self.run_script(MODULE + """
loop = troupe.steps(module, samples=1000, test=200)
for i, step in enumerate(loop):
    step.backward(loss_of(module(x[step.rows]), y[step.rows]))
    if step.training and i > 5:
        break
weight = module[0].weight
before, place, old = weight.detach().clone(), weight.data_ptr(), weight.data
loop.close()
print(bool((weight == before).all()), weight.data_ptr() != place, torch.is_grad_enabled(), module.training)
""")
        self.assertEqual(out, "True True True True\n")

    def test_what_is_wrong_is_said(self):
        setup = "loop = troupe.steps(module, samples=1000, test=200)\n"
        for name, script, sentence in [
                ("a step without backward", setup + "for step in loop: pass", "a step ended without step.backward(loss)"),
                ("float64", "troupe.steps(module.double(), samples=1000, test=200)", "0.weight is float64, and Troupe trains float32"),
                ("a loss for each row", setup + "for step in loop:\n  step.backward(loss_of(module(x[step.rows]), y[step.rows], "
                 "reduction='none'))", "the loss has shape (64,); give its mean over the rows"),
                ("a loss of something else", setup + "for step in loop:\n  step.backward(torch.tensor(1.))", "does not depend on the module"),
                ("an optimizer in the loop", "o = torch.optim.SGD(module.parameters(), lr=1)\n" + setup + "for step in loop:\n"
                 "  step.backward(loss_of(module(x[step.rows]), y[step.rows]))\n  o.step()", "was changed in place during a step"),
                ("a parameter that is replaced", setup + "for step in loop:\n  module[0].weight.data = torch.zeros(16, 2)\n"
                 "  step.backward(loss_of(module(x[step.rows]), y[step.rows]))", "0.weight was replaced during a step"),
                ("NaN", setup + "for step in loop:\n  step.backward(loss_of(module(x[step.rows]), y[step.rows]) * float('nan'))", "finite"),
        ]:
            with self.subTest(name):
                self.assertIn(sentence, self.run_script(MODULE + script, code=1))


if __name__ == "__main__":
    common.main()
