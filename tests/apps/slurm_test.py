#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tasks of a Slurm step, with the variables that srun sets; and under a real srun.

usage: slurm_test.py TROUPE SOURCE [unittest arguments]

A Slurm that answers is used as it is. Else, for root where Slurm's packages are installed, one is started and ended by the scripts
slurm-up.sh and slurm-down.sh in TROUPE_HOSTS, or in ../shared/hosts beside the source.
"""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import cluster_test
from cluster_test import DEADLINE_S, ENDLESS, JOB, ClusterTest, select_nothing

SOURCE = None


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
        step = {"SLURM_JOB_ID": str(free_job()), "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_STEP_TASKS_PER_NODE": "4"}
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


def answers():
    """Whether a Slurm has nodes for us."""
    done = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode == 0 and "idle" in done.stdout


def start_slurm():
    """Empty, or why there is none."""
    missing = [name for name in ("srun", "slurmctld", "slurmd", "munged") if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]} here (Debian's packages slurm-wlm and munge)"
    if answers():
        return ""
    up, down = (hosts() / f"slurm-{way}.sh" for way in ("up", "down"))
    if not up.exists():
        return f"no Slurm answers here, and there is no {up} to start one"
    if os.geteuid() != 0:
        return "no Slurm answers here, and only root can start one"
    folder, munged = pathlib.Path("/tmp/troupe-slurm"), pathlib.Path("/run/munge/munged.pid")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    if not munged.exists():  # `down` leaves it
        unittest.addModuleCleanup(lambda: os.kill(int(munged.read_text(encoding="utf-8")), signal.SIGTERM))
    unittest.addModuleCleanup(subprocess.run, [down, folder], check=False, timeout=60)
    # What it starts stays: its output must not be ours, which others wait for.
    done = subprocess.run([up, "4", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=120)
    deadline = time.monotonic() + 60
    while not answers():
        if time.monotonic() > deadline:
            return f"{up} ended with {done.returncode} and no Slurm answers"
        select_nothing()
    return ""


def hosts():
    return pathlib.Path(os.environ.get("TROUPE_HOSTS", SOURCE.parent / "shared" / "hosts"))


class Srun(ClusterTest):
    @classmethod
    def setUpClass(cls):
        # One Slurm a machine: whoever else tests there waits.
        lock = open("/tmp/troupe-slurm.lock", "w", encoding="utf-8")
        unittest.addModuleCleanup(lock.close)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if why := start_slurm():
            raise unittest.SkipTest(why)

    def srun(self, job):
        run = subprocess.Popen(["srun", "-n", "4", cluster_test.TROUPE, "node", "--slurm", "--run", job], cwd=self.folder.name,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, run)
        return run

    def test_four_tasks_train_the_quick_start_job(self):
        run = self.srun(SOURCE / "config" / "quickstart.toml")
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 0, err)
        result = json.loads(out.splitlines()[-1])
        self.assertEqual((result["job"], result["nodes"], result["epochs"]), ("quickstart", 3, 8))
        self.assertGreater(result["test_accuracy"], 0.95)

    def test_scancel_ends_every_task(self):
        run = self.srun(self.path("job.toml", ENDLESS))
        self.wait_for_line(run, "^step ")
        tasks = {pid: variables for pid in os.listdir("/proc") if pid.isdigit() and (variables := self.task(pid))}
        self.assertEqual({variables["SLURM_PROCID"] for variables in tasks.values()}, set("0123"))
        [job] = {variables["SLURM_JOB_ID"] for variables in tasks.values()}
        subprocess.run(["scancel", job], check=True, timeout=60)
        self.finish(run)
        self.assertNotEqual(run.returncode, 0)
        self.assert_gone(tasks)
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("slurm-")], [])

    def task(self, pid):
        """What Slurm told a process of ours; None of any other."""
        try:
            if os.readlink(f"/proc/{pid}/exe") != cluster_test.TROUPE or os.readlink(f"/proc/{pid}/cwd") != self.folder.name:
                return None
            with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
                variables = dict(line.split("=", 1) for line in file.read().split("\0") if "=" in line)
        except OSError:
            return None
        return variables if "SLURM_PROCID" in variables else None


if __name__ == "__main__":
    cluster_test.TROUPE, SOURCE = os.path.realpath(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
