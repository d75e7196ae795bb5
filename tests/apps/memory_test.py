#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# What `check` estimates against what runs take: memory_test.py TROUPE SOURCE_DIR [unittest arguments].
# The resident sizes of all of a run's processes at their highest, added up, are within a factor of 1.5 of the estimate.
import json
import pathlib
import subprocess
import sys
import time
import unittest

TROUPE, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
FACTOR = 1.5
# Large enough that tensors outweigh the program: 23 MB of parameters.
JOB = {"data.train_samples": 4000, "data.test_samples": 500, "data.batch": 256, "model.hidden": "[2048, 2048]", "stop.epochs": 1}


def processes(pid):
    """A process and those that it started, as long as they are there."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid] + [p for child in children for p in processes(int(child))]


def highest_resident_bytes(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


class Memory(unittest.TestCase):
    def compare(self, **changes):
        settings = {**JOB, **{key.replace("__", "."): value for key, value in changes.items()}}
        job = [SOURCE / "config/quickstart.toml", *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]
        checked = subprocess.run([TROUPE, "check", *job, "--json"], capture_output=True, text=True, timeout=60)
        self.assertEqual(checked.returncode, 0, checked)
        memory = json.loads(checked.stdout.splitlines()[-1])["memory"]
        highest = {}
        run = subprocess.Popen([TROUPE, "run", *job, "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while run.poll() is None:  # a high-water mark: only what a process takes after the last look is missed
            for pid in processes(run.pid):
                highest[pid] = max(highest.get(pid, 0), highest_resident_bytes(pid))
            time.sleep(0.01)
        self.assertEqual(run.returncode, 0, run.communicate())
        run.communicate()
        estimated, real = memory["devices"][0]["needed_bytes"], sum(highest.values())
        print(f"{changes}: {estimated / 1e6:.0f} MB estimated, {real / 1e6:.0f} MB real")
        self.assertLess(real / FACTOR, estimated, changes)
        self.assertGreater(real * FACTOR, estimated, changes)

    def test_processes_that_send_parameters_and_gradients(self):
        self.compare(cluster__nodes=3, cluster__workers=4, cluster__shards=2)

    def test_one_process_that_shares_them(self):
        self.compare(cluster__nodes=1, cluster__workers=4)

    def test_versions_retained_for_delayed_gradients(self):
        self.compare(cluster__nodes=1, cluster__workers=4, protocol__name="dc-async", stop__epochs=2)

    def test_replicas_of_local_steps(self):
        self.compare(cluster__nodes=3, cluster__workers=4, protocol__name="easgd", stop__epochs=2)

    def test_a_large_batch_in_small_pieces(self):
        self.compare(cluster__nodes=1, data__train_samples=8192, data__batch=4096, data__micro_batch=64)

    def test_blocks_that_are_computed_twice(self):
        braces = '"residual {", "linear 256 relu", "linear 256 tanh", "linear 64", "}", ' * 8
        self.compare(cluster__nodes=1, data__train_samples=8192, data__batch=4096, model__kind="", model__hidden="",
                     model__layers=f'["flatten", "linear 64", {braces} "linear 10"]', compute__recompute="blocks")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
