#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real runs under schedules of faults that a seed draws: faults, then calm, in which the job must go on and end.

usage: chaos_test.py TROUPE. TROUPE_FIRST_CHAOS=S TROUPE_CHAOS=N: the N seeds from S on. TROUPE_CHAOS_JOBS=J: J of them side by
side. A schedule that fails is printed, and is run again with its first faults alone: with none, one, two, ... until it fails again.
"""
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps"))
import cluster_test  # noqa: E402
from cluster_test import ClusterTest, alive, select_nothing  # noqa: E402
from council import CouncilRun  # noqa: E402
from held_thread import HeldThread, threads_called  # noqa: E402
from schedules import STEP_MS, drawn  # noqa: E402
from trouble import CALM_S, Broken, Harness, expect  # noqa: E402

FULL_DISK = 150 * 1000  # a checkpoint's file is larger, the file of rounds is not
NO_LIMIT = resource.RLIM_INFINITY


class Run(Harness):
    """One `run`, with all that it says and every process that it had."""

    def __init__(self, schedule, folder):
        super().__init__(schedule, folder, "[cluster]\nworkers = 4\n")
        self.rounds, self.kept = (os.path.join(folder, name) for name in ("rounds.jsonl", "kept"))
        arguments = ["--nodes", "4", "--json", "--set", f"checkpoint.dir={self.kept}", "--set", "checkpoint.every_steps=25"]
        if schedule.replays:
            arguments += ["--rounds", self.rounds]
        self.begin("env", "--ignore-signal=XFSZ", cluster_test.TROUPE, "run", self.job, *self.settings, *arguments)

    def look(self):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            self.pids |= set(ClusterTest.children(self.process))

    def console(self):
        found = re.search(r"console (\S+)`", "".join(self.said[:20]))
        return [found[1]] if found else None

    def child(self, name):
        """None where it is not there now."""
        if name == "node-0":
            return self.process.pid
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for pid in ClusterTest.children(self.process):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/cmdline", encoding="utf-8") as words:
                    if f"--name\0{name}\0" in words.read():
                        return pid
        return None

    def suffer(self, fault):
        self.pause(fault.after_s)
        if self.schedule.waits_for_copies():
            self.wait_until("all copies are whole", lambda: self.over() or self.is_whole())
        if self.over():
            return
        self.suffered += 1
        if fault.kind == "coordinator":
            self.process.kill()
        elif fault.kind == "disk":
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (FULL_DISK, NO_LIMIT))
            self.pause(fault.for_s)
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for pid in [self.process.pid, *ClusterTest.children(self.process)]:  # a child that began meanwhile has its limit
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))
        elif fault.kind == "hold":
            self.hold(fault)
        elif fault.kind == "reset":
            with contextlib.suppress(FileNotFoundError):
                self.reset_a_lane(ClusterTest.children(self.process))
        else:
            nodes = fault.node.split(" and ")
            self.wait_until(f"a process {fault.node}", lambda: all(map(self.child, nodes)) or self.over())
            self.harm([pid for pid in map(self.child, nodes) if pid], fault)

    def hold(self, fault):
        """The thread in a process that goes on; nothing, where this user may not, or the role has no thread of its name now."""
        held = []
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            held = [HeldThread(tid) for tid in threads_called(fault.node, [self.process.pid, *ClusterTest.children(self.process)])]
        self.suffered -= not any(each.errno == 0 for each in held)
        self.pause(fault.for_s)
        for each in held:
            each.let_go()

    def judge(self):
        schedule, said = self.schedule, "".join(self.said)
        self.judge_words(said)
        code = {"done": 0, "failed": 1, "killed": -signal.SIGKILL}[schedule.end]
        expect(self.process.returncode == code, f"the run ends with {self.process.returncode}, not {code}")
        if schedule.end == "killed":
            return
        result = json.loads(self.out.splitlines()[-1])
        if schedule.end == "failed":
            expect(re.search("shard [0-9].* is lost", said) and "shard" in result["error"], f"what was lost is not said: {result['error']}")
            return
        more = "protocol.name=gossip" in self.settings  # what the lead had not heard of when it held
        expect(result["steps"] == self.steps or (more and result["steps"] > self.steps), f"{result['steps']} steps were made of {self.steps}")
        newest = tool("checkpoint", "list", self.kept)["checkpoints"]
        full = f"no checkpoint of step {self.steps}: " in said  # the disk was, up to the end
        expect(all(each["good"] for each in newest) and (full or newest[-1]["step"] == self.steps), f"the checkpoints are {newest}")
        if schedule.replays:
            found = tool("replay", self.job, self.rounds, *self.settings, "--set", "cluster.replicas=1")
            expect(found["weights_digest"] == result["weights_digest"] and found["version"] == self.steps, f"a replay makes {found}")


def tool(*arguments):
    done = subprocess.run([cluster_test.TROUPE, *arguments, "--json"], capture_output=True, text=True, timeout=CALM_S, check=False)
    expect(done.returncode == 0, f"troupe {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def play(schedule):
    """What is broken, or None; and how many faults were suffered."""
    with tempfile.TemporaryDirectory(prefix="troupe-chaos-") as folder:
        run = (CouncilRun if schedule.form == "council" else Run)(schedule, folder)
        try:
            run.wait_until("the first step", lambda: any(line.startswith("step ") for line in run.said) or run.over())
            for fault in schedule.faults:
                run.suffer(fault)
            run.wait_until("the run ends", run.over)
            run.wait_until_gone()
            run.judge()
            return None, run.suffered
        except Broken as broken:
            return f"{broken}\n" + run.last_words(), run.suffered
        finally:
            run.end()


def try_seed(seed):
    """How many faults were suffered, whether it failed, and what is to be said."""
    schedule, begin = drawn(seed), time.monotonic()
    why, suffered = play(schedule)
    text = f"seed {seed}, {schedule.form}: {suffered} faults, {'passed' if why is None else 'FAILED'}, {time.monotonic() - begin:.1f} s"
    if why is None:
        return suffered, False, text
    text += f"\nTROUPE_FIRST_CHAOS={seed} TROUPE_CHAOS=1 repeats it\n  {schedule}\n  {why}"
    for length in range(len(schedule.faults)):
        shorter = dataclasses.replace(schedule, faults=schedule.faults[:length])
        if schedule.end == "done" and play(shorter)[0] is not None:
            text += f"  its first {length} faults are enough"
            break
    return suffered, True, text


def main():
    defaults = (("TROUPE_FIRST_CHAOS", 1), ("TROUPE_CHAOS", 56), ("TROUPE_CHAOS_JOBS", 4 * len(os.sched_getaffinity(0))))
    first, count, side_by_side = (int(os.environ.get(name, value)) for name, value in defaults)
    faults, failed, begin = 0, 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(side_by_side) as pool:
        for done in concurrent.futures.as_completed([pool.submit(try_seed, seed) for seed in range(first, first + count)]):
            suffered, broken, text = done.result()
            faults, failed = faults + suffered, failed + broken
            print(text, flush=True)
    print(f"{faults} faults in {count} jobs, {failed} of which failed; {time.monotonic() - begin:.0f} s, {side_by_side} side by side")
    return 1 if failed else 0


if __name__ == "__main__":
    cluster_test.TROUPE = os.path.abspath(sys.argv[1])
    sys.exit(main())
