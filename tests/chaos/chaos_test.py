#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real runs under schedules of faults that a seed draws: faults, then calm, in which the job must go on and end.

usage: chaos_test.py TROUPE. TROUPE_FIRST_CHAOS=S TROUPE_CHAOS=N: the N seeds from S on. A schedule that fails is printed, and is run
again with its first faults alone: with none, one, two, ... until it fails again.
"""
import contextlib
import dataclasses
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps"))
import cluster_test  # noqa: E402
from cluster_test import ClusterTest, alive, select_nothing  # noqa: E402

CALM_S = 120  # within which a job ends once it is left alone; a loaded machine may need much of it
STEP_MS = 10
JOB = """
name = "chaos"
[data]
source = "digits"
train_samples = 640
test_samples = 64
batch = 16
[model]
layers = ["flatten", "linear 128 relu", "linear 10"]
[optimizer]
lr = 0.05
momentum = 0.9
[cluster]
workers = 4
[evaluate]
every_s = 3600.0
"""
FULL_DISK = 300 * 1000  # a checkpoint's file is larger, the file of rounds is not
NO_LIMIT = resource.RLIM_INFINITY
# What no process may say, whatever is done to the others.
NEVER = r"pure virtual|terminate called|(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:|broken invariant|killed by signal (?!9\b)"


@dataclasses.dataclass
class Fault:
    after_s: float  # of the one before
    kind: str       # kill, stop, reset, disk; coordinator: kill of the run itself
    node: str = ""  # whose process
    for_s: float = 0

    def __str__(self):
        return f"after {self.after_s:.2f} s: {self.kind}" + (f" {self.node}" if self.node else "") + (f" for {self.for_s:.2f} s" if self.for_s else "")


@dataclasses.dataclass
class Schedule:
    seed: int
    sets: list
    faults: list
    end: str  # how the job ends: done; failed, since it lost a shard; killed
    replays: bool

    def __str__(self):
        return "\n  ".join([f"seed {self.seed}: {' '.join(self.sets)}; the job is to be {self.end}", *map(str, self.faults)])

    def seconds(self):
        return sum(fault.after_s + fault.for_s for fault in self.faults)


def resets_connections():
    """Whether this user may reset a connection of others."""
    return os.geteuid() == 0 and shutil.which("ss") is not None


def drawn(seed):
    draw = random.Random(seed)
    form = {3: "tree", 6: "shard", 0: "coordinator"}.get(seed % 8, "rounds")
    sets = ["protocol.name=" + draw.choice(["sync", "backup", "deadline", "coded"]), f"seed={seed}"]
    if draw.random() < 0.4:
        sets += ["optimizer.name=adamw", "optimizer.momentum=", "optimizer.lr=0.002"]
    # Of three processes with workers one is left alone: a job without any worker is over.
    harmed = draw.sample(["node-1", "node-2", "node-3"], 2)
    sets.append(f"cluster.shards={draw.choice([1, 2])}")
    if form == "tree":
        sets[0] = "protocol.name=sync"
        return Schedule(seed, [*sets, "protocol.fan_in=2"], [Fault(draw.uniform(0, 1), "kill", harmed[0])], "done", False)
    if form == "shard":
        sets[-1:] = ["cluster.shards=4", "cluster.placement=colocated"]
        return Schedule(seed, sets, [Fault(draw.uniform(0, 1), "kill", harmed[0])], "failed", False)
    faults, kills = [], 0
    for _ in range(draw.randrange(2, 6)):
        kind = draw.choice(["kill", "kill", "stop", "stop", "disk"] + ["reset"] * resets_connections())
        kills += kind == "kill"
        if kills > 4:  # the fifth within a minute is the last that is started anew
            kind = "stop"
        fault = Fault(draw.uniform(0, 1.2), kind)
        if kind in ("kill", "stop"):
            fault.node = draw.choice(harmed)
        if kind in ("stop", "disk"):
            fault.for_s = draw.uniform(0.05, 2.5)
        faults.append(fault)
    if form == "coordinator":
        return Schedule(seed, sets, [*faults, Fault(draw.uniform(0, 1), "coordinator")], "killed", False)
    return Schedule(seed, sets, faults, "done", True)


class Broken(Exception):
    pass


class Run:
    """One run, with all that it says and every process that it had."""

    def __init__(self, schedule, folder):
        self.folder, self.schedule = folder, schedule
        self.job, self.rounds, self.kept = (os.path.join(folder, name) for name in ("job.toml", "rounds.jsonl", "kept"))
        with open(self.job, "w", encoding="utf-8") as file:
            file.write(JOB)
        self.steps = int((schedule.seconds() + 2) * 1000 / STEP_MS)
        self.settings = [word for one in [*schedule.sets, f"inject.step_ms={STEP_MS}", f"stop.steps={self.steps}"] for word in ("--set", one)]
        arguments = ["--nodes", "4", "--json", "--set", f"checkpoint.dir={self.kept}", "--set", "checkpoint.every_steps=25"]
        if schedule.replays:
            arguments += ["--rounds", self.rounds]
        self.process = subprocess.Popen([cluster_test.TROUPE, "run", self.job, *self.settings, *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, start_new_session=True,
                                        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
        self.said, self.pids, self.out = [], {self.process.pid}, ""
        self.listeners = [threading.Thread(target=self.listen, daemon=True), threading.Thread(target=self.read_result, daemon=True)]
        for listener in self.listeners:
            listener.start()

    def listen(self):
        for line in self.process.stderr:
            self.said.append(line)

    def read_result(self):
        self.out = self.process.stdout.read()

    def wait_until(self, what, is_so, seconds=CALM_S):
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                raise Broken(f"not within {seconds} s: {what}")
            self.look()
            select_nothing()

    def pause(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            self.look()
            select_nothing()

    def look(self):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            self.pids |= set(ClusterTest.children(self.process))

    def child(self, name):
        """None where it is not there now."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for pid in ClusterTest.children(self.process):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/cmdline", encoding="utf-8") as words:
                    if f"--name\0{name}\0" in words.read():
                        return pid
        return None

    def suffer(self, fault):
        self.pause(fault.after_s)
        if self.process.poll() is not None:
            return
        if fault.kind == "coordinator":
            self.process.kill()
        elif fault.kind == "disk":
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (FULL_DISK, NO_LIMIT))
            self.pause(fault.for_s)
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))
        elif fault.kind == "reset":
            with contextlib.suppress(subprocess.CalledProcessError, FileNotFoundError):
                cluster_test.Lanes.reset_one(cluster_test.Lanes, ClusterTest.children(self.process))
        else:
            self.wait_until(f"a process {fault.node}", lambda: self.child(fault.node) or self.process.poll() is not None)
            self.harm(self.child(fault.node), fault)

    def harm(self, pid, fault):
        with contextlib.suppress(ProcessLookupError, TypeError):  # it has ended
            self.pids.add(pid)
            os.kill(pid, signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
            if fault.kind == "stop":
                self.pause(fault.for_s)
                os.kill(pid, signal.SIGCONT)

    def end(self):
        for pid in self.pids:
            if alive(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()


def expect(is_so, otherwise):
    if not is_so:
        raise Broken(otherwise)


def tool(*arguments):
    done = subprocess.run([cluster_test.TROUPE, *arguments, "--json"], capture_output=True, text=True, timeout=CALM_S, check=False)
    expect(done.returncode == 0, f"troupe {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def judge(run):
    schedule, said = run.schedule, "".join(run.said)
    expect(not (found := re.search(f".*({NEVER}).*", said)), f"a process says: {found and found[0]}")
    code = {"done": 0, "failed": 1, "killed": -signal.SIGKILL}[schedule.end]
    expect(run.process.returncode == code, f"the run ends with {run.process.returncode}, not {code}")
    if schedule.end == "killed":
        return
    result = json.loads(run.out.splitlines()[-1])
    if schedule.end == "failed":
        expect(re.search("shard [0-9].* is lost", said) and "shard" in result["error"], f"what was lost is not said: {result['error']}")
        return
    expect(result["steps"] == run.steps, f"{result['steps']} steps were made of {run.steps}")
    newest = tool("checkpoint", "list", run.kept)["checkpoints"]
    expect(all(each["good"] for each in newest) and newest[-1]["step"] == run.steps, f"the checkpoints are {newest}")
    if schedule.replays:
        found = tool("replay", run.job, run.rounds, *run.settings)
        expect(found["weights_digest"] == result["weights_digest"] and found["version"] == run.steps, f"a replay makes {found}")


def play(schedule):
    """What is broken, or None."""
    with tempfile.TemporaryDirectory(prefix="troupe-chaos-") as folder:
        run = Run(schedule, folder)
        try:
            run.wait_until("the first step", lambda: any(line.startswith("step ") for line in run.said) or run.process.poll() is not None)
            for fault in schedule.faults:
                run.suffer(fault)
            run.wait_until("the run ends", lambda: run.process.poll() is not None)
            run.wait_until("its processes end", lambda: not any(map(alive, run.pids)), 30)
            for listener in run.listeners:
                listener.join()
            judge(run)
            return None
        except Broken as broken:
            return f"{broken}\n" + "".join(f"    {line}" for line in run.said[-40:] if not line.startswith("step "))
        finally:
            run.end()


def main():
    first, count = (int(os.environ.get(name, value)) for name, value in (("TROUPE_FIRST_CHAOS", 1), ("TROUPE_CHAOS", 12)))
    failed = 0
    for seed in range(first, first + count):
        schedule, begin = drawn(seed), time.monotonic()
        why = play(schedule)
        print(f"seed {seed}: {len(schedule.faults)} faults, {'passed' if why is None else 'FAILED'}, {time.monotonic() - begin:.1f} s", flush=True)
        if why is None:
            continue
        failed += 1
        print(f"TROUPE_FIRST_CHAOS={seed} TROUPE_CHAOS=1 repeats it\n  {schedule}\n  {why}", flush=True)
        for length in range(len(schedule.faults)):
            shorter = dataclasses.replace(schedule, faults=schedule.faults[:length])
            if schedule.end == "done" and play(shorter) is not None:
                print(f"  its first {length} faults are enough")
                break
    return 1 if failed else 0


if __name__ == "__main__":
    cluster_test.TROUPE = os.path.abspath(sys.argv[1])
    sys.exit(main())
