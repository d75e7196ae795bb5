#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A machine without a GPU: whoever trains on CPUs loads nothing of CUDA, and is told why a GPU cannot be used. without_gpu_test.py TROUPE
# SOURCE_DIR [unittest arguments].
import json
import os
import pathlib
import subprocess
import sys
import unittest

TROUPE, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
SMALL = [SOURCE / "config/quickstart.toml", "--quiet", "--set", "data.train_samples=2000", "--set", "data.test_samples=200",
         "--set", "stop.epochs=2"]
CUDA = ("libtroupe_cuda", "libcuda", "libcublas", "libcudnn", "libnccl")
NO_LIBRARY = {**os.environ, "TROUPE_CUDA_LIBRARY": "/nowhere/libtroupe_cuda.so"}


def mapped_files(pid):
    """What a process and those that it started have mapped."""
    try:
        files = {line.split()[-1] for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "/" in line}
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has just ended
        return set()
    return files.union(*map(mapped_files, children))


class WithoutGpu(unittest.TestCase):
    def test_a_run_on_the_cpu_maps_nothing_of_cuda(self):
        mapped = set()
        run = subprocess.Popen([TROUPE, "run", *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while run.poll() is None:
            mapped |= mapped_files(run.pid)
        out, err = run.communicate()
        self.assertEqual(run.returncode, 0, err)
        self.assertIn("test accuracy", out)
        self.assertTrue(any("openblas" in name for name in mapped), mapped)  # it was looked at in time
        self.assertEqual([name for name in mapped if any(word in name for word in CUDA)], [])

    def test_the_program_itself_needs_nothing_of_cuda(self):
        needed = subprocess.run(["ldd", TROUPE], check=True, capture_output=True, text=True).stdout
        self.assertEqual([word for word in CUDA if word in needed], [])

    def devices(self, environment=None):
        done = subprocess.run([TROUPE, "devices", "--json"], capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual(done.returncode, 0, done)
        return [device for device in json.loads(done.stdout)["devices"] if device["name"].startswith("cuda")]

    def test_devices_say_in_a_line_why_there_is_none(self):
        for environment in (None, NO_LIBRARY):
            found = self.devices(environment)
            if any(device["usable"] for device in found):
                self.skipTest("there is a GPU here")
            [device] = found
            self.assertGreater(len(device["reason"]), 20, device)
            self.assertNotIn("\n", device["reason"])
            said = subprocess.run([TROUPE, "devices"], capture_output=True, text=True, timeout=60, env=environment)
            self.assertEqual((said.returncode, said.stderr), (0, ""))
            self.assertIn(f"{device['name']} cannot be used: {device['reason']}\n", said.stdout)

    def test_a_job_for_a_gpu_is_refused_before_it_starts_with_the_reason(self):
        refused = subprocess.run([TROUPE, "run", *SMALL, "--set", "compute.device=cuda:0"], capture_output=True, text=True, timeout=60,
                                 env=NO_LIBRARY)
        self.assertEqual(refused.returncode, 2, refused)
        self.assertIn('compute.device = "cuda:0" cannot be used', refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
