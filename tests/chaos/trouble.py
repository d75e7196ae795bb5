# SPDX-License-Identifier: BSD-3-Clause
"""What all runs under faults have in common: their processes, what these say, and what none of them may ever say."""
import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time

import cluster_test
import connections
from cluster_test import alive, select_nothing
from schedules import STEP_MS

JOB = """
name = "chaos"
[data]
source = "digits"
train_samples = 640
test_samples = 64
batch = 16
[model]
layers = ["flatten", "linear 64 relu", "linear 10"]
[optimizer]
lr = 0.05
momentum = 0.9
[evaluate]
every_s = 3600.0
"""
CALM_S = 120  # within which a job ends once it is left alone; a loaded machine may need much of it
# What no process may say, whatever is done to the others.
NEVER = r"pure virtual|terminate called|(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:|broken invariant|killed by signal (?!9\b)"


class Broken(Exception):
    pass


def expect(is_so, otherwise):
    if not is_so:
        raise Broken(otherwise)


class Harness:
    """A job's client, and the processes of the job. Subclasses know where these are. `more`: further tables of its file."""

    def __init__(self, schedule, folder, more=""):
        self.folder, self.schedule, self.suffered = folder, schedule, 0
        self.job = os.path.join(folder, "job.toml")
        with open(self.job, "w", encoding="utf-8") as file:
            file.write(JOB + more)
        self.steps = schedule.steps()
        self.settings = [word for one in [*schedule.sets, f"inject.step_ms={STEP_MS}", f"stop.steps={self.steps}"] for word in ("--set", one)]
        self.said, self.pids, self.out = [], set(), ""

    def begin(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.pids.add(self.process.pid)
        self.listeners = [threading.Thread(target=self.listen, daemon=True), threading.Thread(target=self.read_result, daemon=True)]
        for listener in self.listeners:
            listener.start()

    def listen(self):
        for line in self.process.stderr:
            self.said.append(line)

    def read_result(self):
        self.out = self.process.stdout.read()

    def over(self):
        return self.process.poll() is not None

    def look(self):
        """For processes that are new."""

    def wait_until(self, what, is_so, seconds=CALM_S):
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                raise Broken(f"not within {seconds} s: {what}")
            self.look()
            select_nothing()

    def pause(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.over():
            self.look()
            select_nothing()

    def roles(self):
        """Of the job, as the console lists them; None where nobody answers, or not everybody."""
        if not (where := self.console()):
            return None
        with contextlib.suppress(subprocess.TimeoutExpired, json.JSONDecodeError, KeyError):
            done = subprocess.run([cluster_test.TROUPE, "console", *where, "--json", "-c", "ps"], capture_output=True, text=True, timeout=10, check=False)
            listed = json.loads(done.stdout) if done.returncode == 0 else {"silent": True}
            return None if listed["silent"] else listed["actors"]
        return None

    def is_whole(self):
        """Whether each shard has its copies, and all of them count. That of a copy which is whole is told to the coordinator first."""
        shards, replicas = (next(int(each.split("=")[1]) for each in self.schedule.sets if each.startswith(f"cluster.{key}="))
                            for key in ("shards", "replicas"))
        wanted = shards * replicas
        for again in (True, False):
            roles = self.roles()
            copies = [each for each in roles or [] if each["role"] in ("shard", "replica") and each["state"] != "has ended"]
            if len(copies) != wanted or any(each["state"] in ("catches up", "stuck") for each in copies):
                return False
            if again:
                self.pause(0.5)
        return True

    def harm(self, pids, fault):
        def tell(sign):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    os.kill(pid, sign)
        self.pids.update(pids)
        tell(signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
        if fault.kind == "stop":
            self.pause(fault.for_s)
            tell(signal.SIGCONT)

    @staticmethod
    def reset_a_lane(pids, others=()):
        """`others`: ports of these processes that are none of a job's lanes."""
        with contextlib.suppress(subprocess.CalledProcessError, FileNotFoundError):
            connections.reset_a_lane(pids, others)

    def wait_until_gone(self):
        self.wait_until("its processes end", lambda: not any(map(alive, self.pids)), 30)
        for listener in self.listeners:
            listener.join()

    @staticmethod
    def judge_words(said):
        expect(not (found := re.search(f".*({NEVER}).*", said)), f"a process says: {found and found[0]}")

    def last_words(self):
        return "".join(f"    {line}" for line in self.said[-40:] if not line.startswith("step "))

    def end(self):
        for pid in self.pids:
            if alive(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()
