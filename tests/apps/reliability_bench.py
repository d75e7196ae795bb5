#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long a job stands when one of its processes is harmed: reliability_bench.py TROUPE [--json] [--times N] [FAULT...]

A job of three processes on this machine makes steps of 20 ms, and is harmed N times (default 30), a random moment apart:

  none    nothing: what this machine does by itself
  stop    SIGSTOP to a worker's process, for 1.7 s
  kill    kill -9 of a worker's process, which is started anew
  reset   a reset of one of its lanes (root and iproute2)
  shard   kill -9 of the process that holds a shard, the copy of another one and a worker (cluster.replicas = 2): a run for each
  lead    the end of the first shard, which leads the job; likewise
  leader  kill -9 of the process that leads three coordinators, beside two nodes with the job, which keeps no checkpoint

  goodput      a process with a worker, a shard and a copy killed every 20 s for 5 minutes: steps per second, beside a run that nobody harms
  alarm        nothing, at a load of 8 for 10 minutes: who is put out all the same
  checkpoints  one every 10 s of an MLP: steps per second, beside a run without
  copies       cluster.replicas = 2: likewise
  large        checkpoints of 1 GB: the longest round, and the file beside one of dd's

  doors   strangers at the ports of a cluster: 10,000 connections that say nothing, 500 that say a byte a second, 1,000 a second that say
          garbage, or lengths of 2^60, and 1,000 TLS handshakes a second; printed are the memory that this takes, the steps per second,
          and how soon the next node joins, each beside those without strangers

Printed are the N longest gaps between two versions, the evaluations left out: no fault made the job stand longer. And how long it
took until the node was back; of a leader, until its client had found the next one.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import cluster_test
import connections
import doors_bench
import upkeep_bench

JOB = cluster_test.JOB.replace("epochs = 2", "seconds = 1e6\n[evaluate]\nevery_s = 1e6\n[inject]\nstep_ms = 20")
DEADLINE_S = 60


class Run:
    """A job that is being made, and what it has said so far."""

    def __init__(self, troupe, folder, *settings, where=("--nodes", "3")):
        self.trace = pathlib.Path(folder, "trace.json")
        job = pathlib.Path(folder, "job.toml")
        job.write_text(JOB, encoding="utf-8")
        self.process = subprocess.Popen([troupe, "run", str(job), *where, "--trace", str(self.trace), "--json", *settings],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said, self.changed = [], threading.Condition()
        threading.Thread(target=self.listen, daemon=True).start()
        self.wait_for("^step ", 0)

    def listen(self):
        for line in self.process.stderr:
            with self.changed:
                self.said.append((time.monotonic(), line))
                self.changed.notify_all()

    def wait_for(self, pattern, since):
        """How long after `since` a line came that matches."""
        found = []

        def has_come():
            found[:] = [at for at, line in self.said if at >= since and re.search(pattern, line)]
            return bool(found)
        with self.changed:
            if not self.changed.wait_for(has_come, DEADLINE_S):
                raise SystemExit(f"no line {pattern!r} within {DEADLINE_S} s:\n" + "".join(line for _, line in self.said[-20:]))
        return found[0] - since

    def end(self):
        """The gaps between its versions, in seconds, the longest first; its result."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=DEADLINE_S)
        return sorted(upkeep_bench.gaps_of(self.trace), reverse=True), json.loads(out.splitlines()[-1])


class Council:
    """Coordinators a, b and c, and nodes d and e for jobs."""

    def __init__(self, troupe, folder):
        self.troupe, self.folder, self.nodes = troupe, folder, {}
        self.file = pathlib.Path(folder, "three.toml")
        text = f'name = "lab"\n[cluster]\njournal = "{folder}/{{name}}"\n'
        keepers = [socket.create_server(("127.0.0.1", 0)) for _ in "abc"]
        for name, keeper in zip("abc", keepers):
            text += f'[[node]]\nname = "{name}"\nhost = "127.0.0.1"\nport = {keeper.getsockname()[1]}\nroles = ["coordinator", "shard"]\n'
            keeper.close()
        for name in "de":
            text += f'[[node]]\nname = "{name}"\nhost = "127.0.0.1"\nport = 0\n'
        self.file.write_text(text, encoding="utf-8")
        for name in "abcde":
            self.start(name)
        for name in "de":
            self.until(lambda name=name: "joined" in self.log(name), f"{name} has joined")

    def start(self, name):
        with open(pathlib.Path(self.folder, f"{name}.log"), "a", encoding="utf-8") as log:
            self.nodes[name] = subprocess.Popen([self.troupe, "node", str(self.file), "--name", name], stdout=log, stderr=log)

    def log(self, name):
        return pathlib.Path(self.folder, f"{name}.log").read_text(encoding="utf-8")

    def until(self, is_so, what):
        deadline = time.monotonic() + DEADLINE_S
        while not (found := is_so()):
            if time.monotonic() > deadline:
                raise SystemExit(f"not within {DEADLINE_S} s: {what}\n" + "\n".join(self.log(name) for name in self.nodes))
            time.sleep(0.01)
        return found

    def leader(self, other_than=""):
        def last(name):
            words = re.findall(r"leads the coordinators|follows; node|knows of no leader|one of 3 coordinators", self.log(name))
            return words[-1] if words else ""
        return self.until(lambda: next((name for name in "abc" if name != other_than and last(name) == "leads the coordinators"), None), "a leader")

    def lose_leader(self, run):
        """How long its client looked for the next one. The lost one is started again."""
        first, begin = self.leader(), time.monotonic()
        self.nodes[first].kill()
        self.nodes[first].wait()
        found = run.wait_for("follows job 1 again", begin)
        before = len(self.log(first))
        self.start(first)
        self.until(lambda: "joined; the coordinator" in self.log(first)[before:], f"{first} is back")
        return found

    def end(self):
        for node in self.nodes.values():
            node.kill()
            node.wait()


def stop(run, child):
    begin = time.monotonic()
    os.kill(child, signal.SIGSTOP)
    run.wait_for("is lost", begin)
    time.sleep(max(0, begin + 1.7 - time.monotonic()))
    begin = time.monotonic()
    os.kill(child, signal.SIGCONT)
    return run.wait_for("is back", begin)


def kill(run, child):
    begin = time.monotonic()
    os.kill(child, signal.SIGKILL)
    back = run.wait_for("is back", begin)
    time.sleep(12)  # no more than five a minute are started anew
    return back


def reset(run, _):
    connections.reset_a_lane(cluster_test.ClusterTest.children(run.process))


def lose_shard(run, child):
    begin = time.monotonic()
    os.kill(child, signal.SIGKILL)
    run.wait_for("is shard [0-9]+ from now on", begin)


def lose_lead(run, _):
    begin = time.monotonic()
    address = next(found[1] for _, line in run.said if (found := re.search("console ([0-9.:]+)", line)))
    subprocess.run([run.process.args[0], "console", address], input="kill shard 0\n", text=True, capture_output=True, check=True,
                   timeout=DEADLINE_S)
    run.wait_for("is shard 0 from now on", begin)


FAULTS = {"none": lambda run, child: None, "stop": stop, "kill": kill, "reset": reset, "shard": lose_shard, "lead": lose_lead,
          "leader": None, **dict.fromkeys(upkeep_bench.KINDS), "doors": None}
WITH_COPIES = ["--set", "cluster.replicas=2", "--set", "cluster.placement=colocated", "--set", "cluster.workers=3", "--set",
               "cluster.shards=3"]


def of(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else None


def measure_losses(troupe, fault, times):
    """A copy is not replaced while its job runs, so each loss is of another run."""
    gaps = []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(troupe, folder, *WITH_COPIES)
            time.sleep(random.uniform(0.3, 0.8))
            FAULTS[fault](run, random.choice(cluster_test.ClusterTest.children(run.process)))
            time.sleep(1)
            gaps.append(run.end()[0][0])
    return row_of(fault, times, gaps, [], 0)


def measure_leader(troupe, fault, times):
    with tempfile.TemporaryDirectory() as folder:
        council = Council(troupe, folder)
        try:
            run, found = Run(troupe, folder, "--set", "cluster.workers=2", where=("--cluster", str(council.file))), []
            for _ in range(times):
                time.sleep(random.uniform(0.3, 0.8))
                found.append(council.lose_leader(run))
            gaps, result = run.end()
        finally:
            council.end()
    return row_of(fault, times, gaps[:times], found, result["restarts"])


def row_of(fault, times, gaps, returns, restarts):
    return {"fault": fault, "times": times, "gap_p50_s": of(gaps, 0.5), "gap_p99_s": of(gaps, 0.99), "back_p50_s": of(returns, 0.5),
            "back_p99_s": of(returns, 0.99), "restarts": restarts, "load": os.getloadavg()[0]}


def measure(troupe, fault, times):
    if fault in ("shard", "lead"):
        return measure_losses(troupe, fault, times)
    if fault == "leader":
        return measure_leader(troupe, fault, times)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(troupe, folder)
        returns = []
        for _ in range(times):
            time.sleep(random.uniform(0.3, 0.8))
            returns.append(FAULTS[fault](run, random.choice(cluster_test.ClusterTest.children(run.process))))
        gaps, result = run.end()
    return row_of(fault, times, gaps[:times], [each for each in returns if each is not None], result["restarts"])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("troupe")
    parser.add_argument("faults", nargs="*", metavar="FAULT", default=list(FAULTS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--times", type=int, default=30)
    asked = parser.parse_args()
    if unknown := set(asked.faults) - set(FAULTS):
        parser.error(f"what is {', '.join(unknown)}? There are {', '.join(FAULTS)}")
    rows, doors, upkeep = [], None, []
    if "doors" in asked.faults:
        asked.faults.remove("doors")
        doors = doors_bench.print_rows(asked.troupe, asked.json)
    kinds = [each for each in asked.faults if each in upkeep_bench.KINDS]
    asked.faults = [each for each in asked.faults if each not in kinds]
    if not asked.json and asked.faults:
        print(f"{'fault':<8}{'times':>6}{'gap p50':>10}{'gap p99':>10}{'back p50':>10}{'back p99':>10}{'restarts':>10}{'load':>7}")
    for fault in asked.faults:
        row = measure(asked.troupe, fault, asked.times)
        rows.append(row)
        seconds = ["" if row[key] is None else f"{row[key]:.3f} s" for key in ("gap_p50_s", "gap_p99_s", "back_p50_s", "back_p99_s")]
        if not asked.json:
            print(f"{fault:<8}{row['times']:>6}{seconds[0]:>10}{seconds[1]:>10}{seconds[2]:>10}{seconds[3]:>10}{row['restarts']:>10}{row['load']:>7.1f}",
                  flush=True)
    if kinds:
        upkeep = upkeep_bench.print_rows(asked.troupe, kinds, asked.json)
    if asked.json:
        print(json.dumps({"faults": rows, **({"upkeep": upkeep} if upkeep else {}), **({"doors": doors} if doors else {})}))


if __name__ == "__main__":
    main()
