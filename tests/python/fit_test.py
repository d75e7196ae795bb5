#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""troupe.from_torch and troupe.fit: a module of PyTorch's that Troupe computes.

usage: fit_test.py BUILD_DIR [unittest arguments]
"""
import common

DATA = """
import torch, troupe
torch.manual_seed(3)
torch.set_num_threads(1)
y = torch.randint(3, (240,))
x = torch.randn(3, 12)[y] + 0.5 * torch.randn(240, 12)
module = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
"""


@common.needs("torch")
class Fits(common.Scripts):
    modules = ("torch",)

    def test_a_module_is_trained_and_comes_back(self):
        out = self.run_script(DATA + """
r = troupe.fit(troupe.from_torch(module, x[:2]), (x, y), test=(x, y), batch=40, epochs=10, protocol="sync", nodes=2,
               optimizer=troupe.sgd(0.1))
same = r.to_torch(module) is module
with torch.no_grad():
    right = (module.eval()(x).argmax(1) == y).float().mean()
print(same, sorted(r.weights()) == sorted(n for n, t in module.state_dict().items() if t.is_floating_point()),
      abs(float(right) - r.test_accuracy) < 1e-6, r.test_accuracy > 0.9)
""")
        self.assertEqual(out, "True True True True\n")

    def test_its_steps_are_those_of_torch(self):
        out = self.run_script(DATA + """
import copy
before = copy.deepcopy(module.state_dict())
net = troupe.from_torch(module, x[:5])
print(all(torch.equal(value, before[name]) for name, value in module.state_dict().items()))
r = troupe.fit(net, (x, y), test=(x, y), batch=240, optimizer=troupe.sgd(0.05), epochs=20, set={"optimizer.momentum": 0})
steps = torch.optim.SGD(module.parameters(), lr=0.05)
for _ in range(20):
    steps.zero_grad()
    torch.nn.functional.cross_entropy(module(x), y).backward()
    steps.step()
apart = max(float((torch.from_numpy(r.weights()[name]) - value).abs().max()) for name, value in module.state_dict().items() if name in r.weights())
print(len(r.weights()) == 8, apart < 1e-3, apart)
""")
        self.assertTrue(out.startswith("True\nTrue True "), out)

    def test_what_is_wrong_is_a_sentence(self):
        out = self.run_script(DATA + """
def said(call):
    try:
        call()
    except troupe.Error as error:
        print(error)
net = troupe.from_torch(module, x[:2])
said(lambda: troupe.from_torch(x, module))
said(lambda: troupe.fit(module, (x, y)))
said(lambda: troupe.fit(net, x))
said(lambda: troupe.fit(net, (x[:, :5], y)))
said(lambda: troupe.from_torch(torch.nn.Sequential(module, torch.nn.Softmin(0)), x[:2]) and troupe.fit(
    troupe.from_torch(torch.nn.Sequential(module, torch.nn.CELU()), x[:2]), (x, y)))
r = troupe.fit(net, (x, y))
said(lambda: r.to_torch(torch.nn.Linear(2, 2)))
""").splitlines()
        self.assertIn("takes a torch.nn.Module and a batch", out[0])
        self.assertIn("fit takes a net of troupe.from_torch", out[1])
        self.assertIn("data is a pair", out[2])
        self.assertIn("takes samples of (12), and the data has (5)", "\n".join(out))
        self.assertIn("(Celu): is of an operator that is not read", "\n".join(out))
        self.assertIn("give the one that from_torch was given", out[-1])


if __name__ == "__main__":
    common.main()
