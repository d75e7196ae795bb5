# SPDX-License-Identifier: BSD-3-Clause
"""What surviving costs while a job trains; part of reliability_bench.py, which says what each figure is."""
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import tempfile
import time

import cluster_test

SMALL = cluster_test.JOB.replace("epochs = 2", "seconds = 1e6\n[evaluate]\nevery_s = 1e6")
# 203,530 parameters.
MLP = SMALL.replace('"linear 48 relu", "linear 32 relu", "linear 10"', '"linear 256 relu", "linear 10"').replace("batch = 16", "batch = 64")
# 267 million, 1 GB; with momentum as much again.
LARGE = SMALL.replace('"linear 48 relu", "linear 32 relu", "linear 10"', '"linear 16384 relu", "linear 15500 relu", "linear 10"')
EMULATED = ["--set", "inject.step_ms=20"]
SPREAD = ["--nodes", "3", "--set", "cluster.workers=3", "--set", "cluster.shards=3", "--set", "cluster.placement=colocated"]
TIMES = 5  # of what is measured in turns


class Run:
    """A job that is being made for so many seconds."""

    def __init__(self, troupe, folder, job, seconds, *settings):
        path = pathlib.Path(folder, "job.toml")
        path.write_text(job.replace("1e6\n", f"{seconds}\n", 1), encoding="utf-8")
        self.log = pathlib.Path(folder, "log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([troupe, "run", str(path), "--json", *settings], stdout=subprocess.PIPE, stderr=log, text=True)

    def said(self):
        return self.log.read_text(encoding="utf-8")

    def wait_for(self, words):
        while words not in self.said():
            self.check()
            time.sleep(0.01)

    def check(self):
        if self.process.poll() is not None:
            raise SystemExit(self.said())

    def result(self):
        out, _ = self.process.communicate()
        if self.process.returncode != 0:
            raise SystemExit(self.said())
        return json.loads(out.splitlines()[-1])


def gaps_of(trace):
    """Between the versions of a traced run, in seconds, in their order."""
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    times = sorted(1e-6 * (event["ts"] + event["dur"]) for event in events if event["name"] == "apply")
    return [b - a for a, b in zip(times, times[1:])]


def rate_of(troupe, job, seconds, *settings):
    """Steps per second."""
    with tempfile.TemporaryDirectory() as folder:
        result = Run(troupe, folder, job, seconds, *(word.replace("FOLDER", folder) for word in settings)).result()
    return result["steps"] / result["seconds"]


def in_turns(troupe, job, seconds, settings, more):
    """Medians of steps per second, with and without `more`."""
    rates = [(rate_of(troupe, job, seconds, *settings, *more), rate_of(troupe, job, seconds, *settings)) for _ in range(TIMES)]
    return [statistics.median(each) for each in zip(*rates)]


def goodput(troupe):
    """Both at once, so that both have the same machine."""
    seconds, every = 300, 20
    with tempfile.TemporaryDirectory() as harmed_folder, tempfile.TemporaryDirectory() as calm_folder:
        runs = [Run(troupe, folder, SMALL, seconds, *SPREAD, *EMULATED, "--set", "cluster.replicas=2") for folder in (harmed_folder, calm_folder)]
        runs[0].wait_for("step ")
        end, kills = time.monotonic() + seconds - every, 0
        while time.monotonic() < end:
            time.sleep(every)
            os.kill(random.choice(cluster_test.ClusterTest.children(runs[0].process)), signal.SIGKILL)
            kills += 1
        harmed, calm = (run.result() for run in runs)
    return row_of("goodput", harmed["steps"] / harmed["seconds"], calm["steps"] / calm["seconds"], f"{kills} kills, {harmed['restarts']} restarts")


def alarm(troupe):
    """Beside eight processes that never stop computing."""
    seconds = 600
    with tempfile.TemporaryDirectory() as folder:
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(8)]
        try:
            run = Run(troupe, folder, SMALL, seconds, *SPREAD, *EMULATED, "--set", "cluster.replicas=2")
            result = run.result()
            said = run.said()
        finally:
            for each in busy:
                each.kill()
                each.wait()
    lost = sum("is lost" in line for line in said.splitlines())
    return row_of("alarm", result["steps"] / result["seconds"], 50, f"{lost} put out, {result['restarts']} restarts in {seconds} s")


def checkpoints(troupe):
    often, never = in_turns(troupe, MLP, 25, [], ["--set", "checkpoint.dir=FOLDER/kept", "--set", "checkpoint.every_s=10"])
    return row_of("checkpoints", often, never, "every 10 s, real steps")


def copies(troupe):
    settings = ["--nodes", "2", "--set", "cluster.workers=2", "--set", "cluster.shards=2", "--set", "cluster.placement=colocated"]
    with_copies, without = in_turns(troupe, MLP, 8, settings, ["--set", "cluster.replicas=2"])
    yield row_of("copies", with_copies, without, "replicas = 2, real steps")
    with_copies, without = in_turns(troupe, SMALL, 8, [*settings, *EMULATED], ["--set", "cluster.replicas=2"])
    yield row_of("copies", with_copies, without, "replicas = 2, steps of 20 ms")


def large(troupe):
    """Rounds of 1 GB while checkpoints are written, and how fast their files are. Beside it, while the same job trains: dd of the same
    size, and a copy of what the optimizer keeps. The first two checkpoints are left out: memory that a machine has never used may take
    seconds a GB."""
    every, first, last = 30, 3, 2 + TIMES
    with tempfile.TemporaryDirectory() as folder:
        kept, trace, copied = (pathlib.Path(folder, name) for name in ("kept", "trace.json", "copy"))
        run = Run(troupe, folder, LARGE, 1e6, "--set", "cluster.workers=1", "--set", f"checkpoint.dir={kept}", "--set",
                  f"checkpoint.every_steps={every}", "--set", "checkpoint.keep=1", "--trace", str(trace))

        def wait_until(is_so):
            while not is_so():
                run.check()
                time.sleep(0.002)
        rates, dds, copies = [], [], []
        for number in range(first, last + 1):
            written = kept / f"step-{number * every}"
            wait_until(written.exists)
            begun = time.time()
            wait_until((written / "manifest").exists)
            size = (written / "shard-0.ckpt").stat().st_size
            rates.append(size / ((written / "manifest").stat().st_mtime - begun))
            time.sleep(8)  # memory that was freed just now is faster, and no checkpoint finds such
            began = time.monotonic()
            subprocess.run(["dd", "if=/dev/zero", f"of={copied}", "bs=1M", f"count={size >> 20}", "conv=fsync"], check=True, capture_output=True)
            dds.append(size / (time.monotonic() - began))
            copied.unlink()
        block = bytearray(os.urandom(1 << 20)) * (size // 2 >> 20)
        other = bytearray(block)
        for _ in range(TIMES):
            began = time.monotonic()
            other[:] = memoryview(block)
            copies.append(time.monotonic() - began)
        run.process.send_signal(signal.SIGINT)
        run.process.communicate()
        gaps = gaps_of(trace)
    longest = [max(gaps[number * every - 1:number * every + 12]) for number in range(1, last + 1)]
    median, copy_s = statistics.median(gaps), statistics.median(copies)
    yield row_of("large", statistics.median(rates) * 1e-9, statistics.median(dds) * 1e-9, f"GB/s of a file of {size * 1e-9:.2f} GB, and dd's")
    yield row_of("large", max(longest[first - 1:]), 1.3 * median + copy_s,
                 f"s: the longest round, and 1.3 medians of {median:.2f} s and a copy of {copy_s:.2f} s; at the first checkpoints "
                 + " and ".join(f"{each:.2f} s" for each in longest[:first - 1]))


KINDS = {"goodput": goodput, "alarm": alarm, "checkpoints": checkpoints, "copies": copies, "large": large}


def row_of(what, measured, beside, of):
    return {"what": what, "measured": measured, "beside": beside, "of": of, "load": os.getloadavg()[0]}


def print_rows(troupe, kinds, as_json):
    rows = []
    if not as_json:
        print(f"{'upkeep':<12}{'measured':>10}{'beside it':>11}{'ratio':>7}{'load':>7}")
    for kind in kinds:
        found = KINDS[kind](troupe)
        for row in [found] if isinstance(found, dict) else found:
            rows.append(row)
            if not as_json:
                print(f"{row['what']:<12}{row['measured']:>10.2f}{row['beside']:>11.2f}{row['measured'] / row['beside']:>7.3f}{row['load']:>7.1f}"
                      f"  {row['of']}", flush=True)
    return rows
