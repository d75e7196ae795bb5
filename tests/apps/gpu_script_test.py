#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The script that judges a GPU, tried without one: gpu_script_test.py TROUPE SOURCE_DIR [unittest arguments]. With TROUPE_CUDA_LIBRARY
# naming the emulated device it runs on that.
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TROUPE, SOURCE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
DEVICE = "cuda:0" if os.environ.get("TROUPE_CUDA_LIBRARY") else "cpu"

spec = importlib.util.spec_from_file_location("gpu_run", SOURCE / "tests/gpu/run.py")
gpu_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gpu_run)


class Overlap(unittest.TestCase):
    def test_spans_that_touch_are_one(self):
        self.assertEqual(gpu_run.union([(5, 7), (0, 2), (1, 3), (3, 4)]), [[0, 4], [5, 7]])

    def test_what_two_tracks_have_in_common(self):
        self.assertEqual(gpu_run.common([[0, 4], [5, 7]], [[3, 6]]), 1 + 1)
        self.assertEqual(gpu_run.common([[0, 1]], [[1, 2]]), 0)

    def test_tracks_of_a_device_are_told_apart_by_name(self):
        def name(tid, text):
            return {"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": text}}

        def span(tid, begin, end):
            return {"name": "x", "ph": "X", "pid": 1, "tid": tid, "ts": begin, "dur": end - begin}

        # As a job on a GPU names them.
        events = [name(1, "worker 0"), name(2, "kernels of worker 0"), name(3, "copies to host of worker 0"),
                  name(4, "copies to device of worker 0"), span(1, 0, 9), span(2, 0, 4), span(3, 3, 6), span(4, 8, 9)]
        self.assertEqual(gpu_run.device_spans(events), ([[3.0, 6.0], [8.0, 9.0]], [[0.0, 4.0]]))


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def run_parts(self, *parts, programs=TROUPE.parent):
        chosen = [word for part in parts for word in ("--part", part)]
        return subprocess.run([SOURCE / "tests/gpu/run.sh", "--tiny", "--device", DEVICE, "--bin", programs, "--out", self.out, *chosen],
                              capture_output=True, text=True, timeout=280)

    def verdicts(self, part):
        return [claim["verdict"] for claim in json.loads((self.out / f"{part}.json").read_text())["claims"]]

    def test_parts_leave_results_and_the_table_comes_last(self):
        done = self.run_parts("devices", "digest", "kernels", "overlap")
        self.assertEqual(self.verdicts("devices") + self.verdicts("digest"), ["pass", "pass"], done)
        self.assertEqual(len(self.verdicts("kernels")), 4, done)
        table = done.stdout.split("\n\n")[-1].splitlines()
        self.assertRegex(table[0], r"^claim +figure +wanted +verdict$")
        self.assertTrue(any("--part protocols" in line and line.endswith("not run") for line in table), table)

    def test_a_part_that_fails_leaves_the_others(self):
        done = self.run_parts("devices", "digest", programs=self.out)
        self.assertEqual((done.returncode, self.verdicts("devices"), self.verdicts("digest")), (1, ["FAIL"], ["FAIL"]), done)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
