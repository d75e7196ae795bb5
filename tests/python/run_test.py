#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""troupe.run: jobs that Troupe computes, from Python.

usage: run_test.py BUILD_DIR [unittest arguments]
"""
import json
import signal
import subprocess
import time

import common

SMALL = "SMALL = {'data.train_samples': 2000, 'data.test_samples': 200, 'stop.epochs': 1, 'evaluate.every_samples': 1000}\n"
JOB = common.SOURCE / "config/quickstart.toml"


def children_of(pid):
    """Live processes below it."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout.split("\n")
    rows = [line.split() for line in listed if line.strip()]
    return [int(child) for child, parent, state in rows if int(parent) == pid and not state.startswith("Z")]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@common.needs("numpy")
class Runs(common.Scripts):
    def test_a_job_gives_weights_losses_and_history(self):
        out = self.run_script(SMALL + f"""
import json, numpy, troupe
lines = []
r = troupe.run({str(JOB)!r}, nodes=1, set=SMALL, on_line=lines.append)
w = r.weights()
flat = numpy.concatenate([a.ravel() for a in w.values()])
print(json.dumps([r.test_loss, r.test_accuracy, r.digest, len(r.history), sorted(r.history[0]), sorted({{a.dtype.name for a in w.values()}}),
                  bool(numpy.isfinite(flat).all()), flat.size, len(lines) > 1, repr(r)]))
""")
        loss, accuracy, digest, evaluations, keys, types, finite, size, told, text = json.loads(out)
        self.assertLess(loss, 2)
        self.assertGreater(accuracy, 0.3)
        self.assertRegex(digest, "^[0-9a-f]{32}$")
        self.assertGreaterEqual(evaluations, 2)
        self.assertLessEqual({"step", "seconds", "test_loss", "test_accuracy"}, set(keys))
        self.assertEqual(types, ["float32"])
        self.assertTrue(finite and told)
        self.assertGreater(size, 1000)
        self.assertIn("test accuracy", text)

    def test_a_second_run_repeats_the_first_and_more_nodes_change_no_bit(self):
        digests = self.run_script(SMALL + f"""
import troupe
for nodes in (1, 1, 2):
    print(troupe.run({str(JOB)!r}, nodes=nodes, set=SMALL).digest)
""").split()
        self.assertEqual(len(digests), 3)
        self.assertEqual(len(set(digests)), 1)
        program = subprocess.run([common.BUILD / "troupe", "run", JOB, "--quiet", "--json", "--nodes", "1", "--set", "data.train_samples=2000",
                                  "--set", "data.test_samples=200", "--set", "stop.epochs=1", "--set", "evaluate.every_samples=1000"],
                                 capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(program.stdout.splitlines()[-1])["weights_digest"], digests[0])

    def test_protocols_and_optimizers_are_values(self):
        out = self.run_script(SMALL + f"""
import troupe
print(troupe.adacomm(initial_steps=20), troupe.adamw(3e-4), troupe.async_())
r = troupe.run({str(JOB)!r}, nodes=1, set=SMALL, protocol=troupe.local(steps=2), optimizer=troupe.adamw(1e-3))
print(r.facts["config"]["protocol"]["name"], r.facts["config"]["protocol"]["steps"], r.facts["config"]["optimizer"]["name"])
print("sync" in dir(troupe), "period" in troupe.adacomm.__doc__)
""").splitlines()
        self.assertEqual(out[0], "adacomm(initial_steps=20) adamw(lr=0.0003) async_()")
        self.assertEqual(out[1], "local 2 adamw")
        self.assertEqual(out[2], "True True")

    def test_what_is_wrong_is_an_exception_with_the_sentence(self):
        for call, sentence in [("troupe.run('missing.toml')", "missing.toml"),
                               (f"troupe.run({str(JOB)!r}, set={{'optimizer.lrr': 1}})", "did you mean optimizer.lr?"),
                               (f"troupe.run({str(JOB)!r}, protocol='synk')", 'did you mean "sync"?'),
                               (f"troupe.run({str(JOB)!r}, protocol=troupe.sgd())", "is no protocol"),
                               ("troupe.adacomm(initial_step=20)", "initial_step"),
                               ("troupe.no_such_thing", "no attribute")]:
            with self.subTest(call=call):
                out = self.run_script(f"import troupe\n{call}\n", code=1)
                self.assertIn(sentence, out.splitlines()[-1] if "Error" in out.splitlines()[-1] else out)

    def test_a_library_of_another_version_is_refused(self):
        out = self.run_script("import troupe._library as l\nl.VERSION = '9.9'\nimport troupe\ntroupe.run('x.toml')\n", code=1)
        self.assertIn("install both from one wheel", out)

    def test_control_c_is_an_exception_and_leaves_no_process(self):
        process = self.start(SMALL + f"""
import sys, troupe
SMALL['stop.epochs'] = 100000
try:
    troupe.run({str(JOB)!r}, nodes=3, set=SMALL, on_line=lambda line: print("line", flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("goes on", flush=True)
""")
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "line\n")
        nodes = children_of(process.pid)
        self.assertEqual(len(nodes), 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=common.DEADLINE_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual([line for line in out.splitlines() if line != "line"], ["interrupted", "goes on"])
        deadline = time.monotonic() + common.DEADLINE_S
        while any(alive(pid) for pid in nodes) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse([pid for pid in nodes if alive(pid)])

    def test_importing_is_cheap(self):
        """It brings itself and ctypes; NumPy and libtroupe.so wait until they are used. What that takes is printed, as it is the machine's."""
        modules = "print(*sorted(sys.modules))"
        known = self.run_script(f"import ctypes, os, pathlib, sys, time\n{modules}").split()
        out = self.run_script(f"""
import sys, time
began = time.perf_counter()
import troupe
print((time.perf_counter() - began) * 1000)
{modules}
print(sum('libtroupe' in line for line in open('/proc/self/maps')))
""")
        took, brought, mapped = out.splitlines()
        print(f"import troupe: {float(took):.0f} ms")
        self.assertEqual(set(brought.split()) - set(known), {"troupe", "troupe._library"})
        self.assertEqual(mapped, "0")


if __name__ == "__main__":
    common.main()
