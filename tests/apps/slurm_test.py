#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tasks of a Slurm step, with the variables that srun sets; and a real srun where this machine has one that answers.

usage: slurm_test.py TROUPE [unittest arguments]
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import unittest

import cluster_test
from cluster_test import DEADLINE_S, JOB, ClusterTest


def free_job():
    """A job number whose coordinator's port is free."""
    for job in range(os.getpid() % 1000, 1250):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", 20000 + job * 16 % 20000))
                return job
            except OSError:
                continue
    raise RuntimeError("no free port for a Slurm job")


class Slurm(ClusterTest):
    def test_four_tasks_run_a_job_and_end_with_it(self):
        job = self.path("job.toml", JOB)
        step = {"SLURM_JOB_ID": str(free_job()), "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "4"}
        tasks = []
        for task in (2, 0, 3, 1):
            tasks.append(subprocess.Popen([cluster_test.TROUPE, "node", "--slurm", "--run", job], cwd=self.folder.name,
                                          env={**os.environ, **step, "SLURM_PROCID": str(task)}, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True, start_new_session=True))
            self.addCleanup(self.end, tasks[-1])
        said = [task.communicate(timeout=DEADLINE_S) for task in tasks]
        self.assertEqual([task.returncode for task in tasks], [0] * 4, said)
        result = json.loads(said[1][0].splitlines()[-1])
        self.assertEqual(result["nodes"], 4)
        self.assertEqual(result["weights_digest"], self.run_job("--nodes", "4")["weights_digest"])
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("slurm-")], [])

    def test_outside_of_a_step_it_says_so(self):
        outside = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
        done = subprocess.run([cluster_test.TROUPE, "node", "--slurm"], capture_output=True, text=True, env=outside,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("start it with srun", done.stderr)

    def test_a_real_srun(self):
        up = shutil.which("srun") and subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, check=False, timeout=30)
        if not up or up.returncode != 0 or "idle" not in up.stdout:
            self.skipTest("no Slurm answers here")
        done = subprocess.run(["srun", "-n", "4", cluster_test.TROUPE, "node", "--slurm", "--run", self.path("job.toml", JOB)],
                              capture_output=True, text=True, cwd=self.folder.name, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["nodes"], 4)


if __name__ == "__main__":
    cluster_test.TROUPE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
