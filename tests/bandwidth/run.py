# SPDX-License-Identifier: BSD-3-Clause
"""Bytes, virtual time and sums over lanes, each beside what it is compared with. run.sh starts it."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from two_hosts import possible, two_hosts

TIMES = 5  # of which the median counts, where real time is measured


class Session:
    def __init__(self, options):
        self.root, self.data, self.peers = pathlib.Path(options.root), options.data, options.peers
        self.troupe_at = options.bin or self.root / "build" / "release" / "troupe"
        self.rows = []

    def troupe(self, *arguments, codes=(0,), on=()):
        """The object that a subcommand prints. `on`: the words that run it elsewhere."""
        done = subprocess.run([*on, self.troupe_at, *arguments, "--json"], cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            raise RuntimeError(f"troupe {' '.join(arguments)}: {(done.stderr or done.stdout).strip()[-300:]}")
        return json.loads(done.stdout.rstrip("\n").split("\n")[-1])

    def claim(self, text, figure, wanted, holds):
        self.rows.append((text, figure, wanted, "" if holds else "falls short"))
        print(f"{text}: {figure}, wanted {wanted}{'' if holds else ': falls short'}", flush=True)


def sets(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


def hosts(s):
    """Eight workers of one node: parameters travel once a host, and with `fan_in = "node"` so do pushes."""
    job = ["config/quickstart.toml", *sets("cluster.workers=8", "cluster.nodes=2", "stop.steps=20", "stop.epochs=")]
    each = 4 * s.troupe("check", *job)["model"]["parameters"]  # bytes of a set
    for name, more, wanted in ("as it is", [], 9 / 16), ('with fan_in = "node"', ["protocol.fan_in=node"], 1 / 8):
        found = s.troupe("check", *job, *sets(*more))["network"]["round_bytes"] / (16 * each)
        s.claim(f"bytes of a round {name}, by those of 8 pushes and 8 answers", f"{found:.4f}", f"{wanted:.4f} within 1 %", abs(found / wanted - 1) <= 0.01)


def codecs(s):
    job = ["config/quickstart.toml", *sets("cluster.nodes=3", "stop.steps=50", "stop.epochs=", "evaluate.every_samples=1000000")]
    plain = s.troupe("check", *job)["network"]
    for codec, least in ("int8", 3.9), ("int4", 7.5), ("onebit", 28):
        found = s.troupe("check", *job, *sets(f"codec.push={codec}", f"codec.params={codec}"))["network"]
        ran = s.troupe("run", *job, "--quiet", *sets(f"codec.push={codec}", f"codec.params={codec}"))
        up, down = (plain[f"{kind}_bytes"] / found[f"{kind}_bytes"] for kind in ("push", "params"))
        s.claim(f"{codec}: bytes of pushes and of parameters", f"1 / {up:.1f} and 1 / {down:.1f}", f"1 / {least}", min(up, down) >= 0.99 * least)
        wanted = found["start_bytes"] + 50 * found["round_bytes"] + found["evaluation_bytes"]
        off = abs(ran["bytes_sent"] / wanted - 1)
        s.claim(f"{codec}: bytes sent beside what `check` says", f"{100 * off:.2f} % off", "<= 1 %", off <= 0.01)


def factors(s):
    """Of two large matrices and batches of 16: what their gradients are products of, to a shard and among peers, beside the gradients."""
    job = ["config/quickstart.toml", *sets("cluster.workers=4", "cluster.nodes=3", "stop.steps=20", "stop.epochs=", "data.batch=16",
                                           'model.layers=["flatten", "linear 2048 relu", "linear 2048 relu", "linear 10"]',
                                           "evaluate.every_samples=1000000")]
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, dense, more in (("sync", "push", [], []),
                                        ("allreduce", "peers", ["protocol.name=allreduce", "protocol.group=1"], ["protocol.algorithm=broadcast"])):
            files, ran = [], []
            for way in dense, [*dense, *more, "codec.push=factors"]:
                files.append(f"{folder}/{len(files)}.safetensors")
                said = s.troupe("check", *job, *sets(*way))["network"]
                ran.append(s.troupe("run", *job, *sets(*way), "--quiet", "--save", files[-1]))
            wanted = said["start_bytes"] + 20 * said["round_bytes"] + said["evaluation_bytes"]
            off = abs(ran[1]["bytes_sent"] / wanted - 1)
            s.claim(f"{name}, factors: bytes sent beside what `check` says", f"{100 * off:.2f} % off", "<= 1 %", off <= 0.01)
            fewer = ran[0][f"bytes_{kind}"] / ran[1][f"bytes_{kind}"]
            s.claim("the same: bytes of gradients by those without", f"1 / {fewer:.1f}", "fewer", fewer > 1)
            apart = s.troupe("weights", "diff", *files, codes=(1,))["tensors"]
            largest = max(each["relative_difference"] for each in apart)
            s.claim("the same: weights beside those without, of their norm", f"{largest:.1g}", "<= 1e-5", largest <= 1e-5)


def few_elements(s):
    """Past the warm-up: the bytes of the last 100 of 300 versions at the socket."""
    job = ["config/slow-wire.toml", "--quiet", *sets(f"data.path={s.data}", "inject.step_ms=0", "inject.link.mbit=0", "stop.target_accuracy=", "stop.epochs=",
                                                     "evaluate.every_samples=100000000")]

    def bytes_of(steps, *more):
        found = s.troupe("run", *job, *sets(f"stop.steps={steps}", *more))
        return [found["bytes_push"], found["bytes_params"]]
    dgc = ["codec.push=dgc", "codec.params=changed"]
    plain, late = ([last - first for first, last in zip(bytes_of(200, *more), bytes_of(300, *more))] for more in ([], dgc))
    for name, least, dense, sparse in zip(("up", "down"), (270, 90), plain, late):
        s.claim(f"dgc past its warm-up, changed parameters: bytes {name}", f"1 / {dense / sparse:.0f}", f"1 / {least}", dense / sparse >= least)


def slow_wire(s):
    job = ["config/slow-wire.toml", *sets(f"data.path={s.data}")]

    def time_to_target(*more):
        return s.troupe("simulate", *job, *more)["time_to_target_s"]
    plain = time_to_target()
    for name, least, more in (("allreduce", 5, ["protocol.name=allreduce"]), ("onebit both ways", 8, ["codec.push=onebit", "codec.params=onebit"]),
                              ("dgc and changed parameters", 8, ["codec.push=dgc", "codec.params=changed"]),
                              ("int4 both ways", 5, ["codec.push=int4", "codec.params=int4"])):
        found = time_to_target(*sets(*more))
        s.claim(f"8 hosts of 100 Mbit/s, to 0.97: sync's time by that with {name}", f"{plain / found:.1f}" if found else "not reached", f">= {least}",
                bool(found) and plain / found >= least)


def fragments(s):
    """Eight hosts of 10 Mbit/s, five epochs, three seeds: sums of fragments in int4 while the next local steps are taken, beside sync."""
    job = ["config/slow-wire.toml", *sets(f"data.path={s.data}", "inject.link.mbit=10", "stop.target_accuracy=")]
    late = sets("protocol.name=allreduce", "protocol.algorithm=direct", "protocol.steps=20", "protocol.fragments=4", "protocol.overlap_steps=2",
                "protocol.outer=nesterov", "codec.push=int4")
    sync, streamed = ([s.troupe("simulate", *job, *more, "--seed", str(seed)) for seed in (1, 2, 3)] for more in ([], late))
    fewer = streamed[0]["samples"] / streamed[0]["bytes_sent"] * sync[0]["bytes_sent"] / sync[0]["samples"]
    s.claim("8 hosts of 10 Mbit/s, allreduce in fragments, int4: bytes of a sample by sync's", f"1 / {fewer:.0f}", "1 / 150", fewer >= 150)
    # Past the first epoch: before it the first parameters go to all over one link, which takes 5 s.
    first = s.troupe("simulate", *job, *late, *sets("stop.epochs=1"))
    samples, seconds = (streamed[0][key] - first[key] for key in ("samples", "virtual_seconds"))
    waiting = 1 - samples / (8 * 64) * 0.03 / seconds  # a worker computes 64 samples in 30 ms
    s.claim("the same, past the first epoch: share of the time that is no computing", f"{100 * waiting:.1f} %", "<= 3 %", waiting <= 0.03)
    off = statistics.mean(each["test_accuracy"] for each in sync) - statistics.mean(each["test_accuracy"] for each in streamed)
    s.claim("the same: accuracy below sync's, mean of 3 seeds", f"{100 * off:.2f} points", "<= 0.3", off <= 0.003)


def managed_ssp(s):
    """Eight hosts with a worker and a shard each, at 20 Mbit/s: what is spared is the pushes' part, for each is answered by all parameters."""
    shares = ["protocol.name=ssp", "protocol.bound=8", "cluster.placement=colocated", "cluster.shards=8", "cluster.nodes=8", "inject.link.mbit=20"]
    job, budget = ["config/slow-wire.toml", *sets(f"data.path={s.data}", *shares)], 3
    plain = s.troupe("simulate", *job)["time_to_target_s"]
    found = s.troupe("simulate", *job, *sets("codec.push=topk", f"codec.budget_mbit={budget}"))
    faster = plain / found["time_to_target_s"] if found["time_to_target_s"] else 0
    s.claim(f"ssp at 20 Mbit/s, to 0.97: its time by that with a budget of {budget} Mbit/s", f"{faster:.2f}", ">= 1.3", faster >= 1.3)
    afar = 7 / 8  # of each push and each answer; the rest is in the worker's own shard
    each = 4 * s.troupe("check", *job)["model"]["parameters"]
    pushed = (found["bytes_sent"] / afar - found["steps"] * each) / (8 * budget * 1e6 / 8 * found["virtual_seconds"])
    s.claim("the same: bytes of pushes by the budget", f"{pushed:.3f}", "1 within 5 %", abs(pushed - 1) <= 0.05)


def scaling(s):
    job = ["config/scaling.toml", *sets(f"data.path={s.data}")]

    def rate(*more):
        found = s.troupe("simulate", *job, *more)
        return found["samples"] / found["virtual_seconds"]
    alone = rate("--workers", "1", *sets("inject.link.mbit=1000000"))
    encoded = sets("protocol.name=sync", "cluster.shards=8", "codec.push=onebit", "codec.params=onebit", "inject.link.mbit=1000")
    for name, more in ("allreduce at 10 Gbit/s", []), ("sync, 8 shards, onebit both ways, at 1 Gbit/s", encoded):
        efficiency = rate(*more) / alone / 32
        s.claim(f"32 workers, efficiency of {name}", f"{efficiency:.2f}", ">= 0.7", efficiency >= 0.7)


def in_turn(s, job, *ways, on=()):
    """The newest run each way (settings, apart by blanks), and the median of how many steps/s the last has by the first."""
    ratios = []
    for _ in range(TIMES):
        made = [s.troupe("run", *job, *sets(*way.split()), on=on) for way in ways]
        first, last = (run["steps"] / run["samples"] * run["samples_per_s"] for run in (made[0], made[-1]))
        ratios.append(last / first)
    return made, statistics.median(ratios)


def real_time(s):
    """The same job by shards and by sums among workers, in turn: two processes with a worker each."""
    job = ["config/quickstart.toml", "--quiet", "--nodes", "2", *sets("cluster.placement=colocated", "cluster.shards=1", "stop.epochs=2")]
    _, found = in_turn(s, job, "protocol.name=sync", "protocol.name=allreduce")
    s.claim("two processes: samples/s of allreduce by sync's", f"{found:.2f}", ">= 1", found >= 1)


def groups(s):
    """Four workers on each of two processes: a sum that each process sends for its own, and one in which each worker sends for itself, in turn."""
    job = ["config/quickstart.toml", "--quiet", "--nodes", "2", *sets("cluster.placement=colocated", "cluster.workers=8", "protocol.name=allreduce",
                                                                      "stop.epochs=1")]
    (each, node), found = in_turn(s, job, "protocol.group=1", "protocol.group=0")
    s.claim("two processes of four workers, allreduce: samples/s with a sum for each process", f"{found:.2f}", ">= 1", found >= 1)
    fewer = each["bytes_peers"] / node["bytes_peers"]
    s.claim("the same: bytes between processes", f"1 / {fewer:.2f}", "1 / 4", abs(fewer - 4) <= 0.04)


def overlap(s):
    """Two hosts at 1 Gbit/s: gradients that leave during backward, and a forward that begins with the first parameters, beside neither."""
    if not possible():
        return
    with two_hosts(s.troupe_at, "1gbit") as (on, cluster):
        job = ["config/overlap.toml", "--quiet", "--cluster", cluster]
        (_, hidden), found = in_turn(s, job, "exchange.overlap=false", "exchange.overlap=true", on=on)
        s.claim("two hosts at 1 Gbit/s: steps/s of sync with overlap by without", f"{found:.2f}", ">= 1.12", found >= 1.12)
        s.claim("the same: communication that is hidden", f"{hidden['overlap']:.2f}", "> 0", hidden["overlap"] > 0)
        _, found = in_turn(s, job, "exchange.order=ready", "exchange.order=layers", on=on)
        s.claim("the same: steps/s by layers, by those in the order of readiness", f"{found:.2f}", ">= 1", found >= 1)
        summed = [*job, *sets("protocol.name=allreduce")]
        (_, hidden), found = in_turn(s, summed, "exchange.overlap=false", "exchange.overlap=true", on=on)
        s.claim("the same, allreduce: steps/s with overlap by without", f"{found:.2f}", ">= 1.6", found >= 1.6)
        s.claim("the same: communication that is hidden", f"{hidden['overlap']:.2f}", "> 0", hidden["overlap"] > 0)
        whole = "exchange.partition_kib=32768"
        _, found = in_turn(s, [*summed, *sets("exchange.overlap=false")], whole, "exchange.partition_kib=1024", on=on)
        s.claim("the same, without overlap: steps/s of sums by partitions by those of whole sums", f"{found:.2f}", ">= 1", found >= 1)
        _, found = in_turn(s, summed, f"{whole} exchange.order=ready", "exchange.order=layers", on=on)
        s.claim("the same, with overlap: by layers, by whole layers in the order of readiness", f"{found:.2f}", ">= 1.2", found >= 1.2)
        # A batch of one sample computes next to nothing: its steps are of communication alone.
        _, found = in_turn(s, summed, "exchange.overlap=true", "data.batch=1", on=on)
        s.claim("the same: time of a step by that of communication alone", f"{found:.2f}", "<= 1.1", found <= 1.1)


def lanes(s):
    """Payloads that a peer on this host copies from where they lie, by bare sockets."""
    for row in s.troupe("bench", "lanes")["sizes"]:
        if row["bytes"] in (1 << 20, 4 << 20):
            size = f"{row['bytes'] >> 20} MB between two processes"
            found = row["shm_gbps"] / row["bare_gbps"]
            s.claim(f"{size}, lent: bytes/s by bare sockets'", f"{found:.2f}", ">= 2.5", found >= 2.5)
            found = row["shm_rtt_us"] / row["bare_rtt_us"]
            s.claim(f"{size}, lent: time there and back by bare sockets'", f"{found:.2f}", "<= 1", found <= 1)


def sums(s):
    """Sums among two processes, beside OpenMPI's and Gloo's where there are any."""
    if not s.peers:
        return
    peers = pathlib.Path(s.peers)

    def said(*command):
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        return json.loads(done.stdout.rstrip("\n").split("\n")[-1])

    def mpi(*transport):
        rows = said("mpirun", "--oversubscribe", "-n", "2", *transport, "/usr/bin/python3", str(peers / "mpi_allreduce.py"))["rows"]
        return {row["bytes"]: row["us"] for row in rows}

    def ours(*more):
        return {row["bytes"]: row["us"] for row in s.troupe("bench", "collectives", "--algorithm", "direct", *more)["rows"]}

    ways = {"lent": lambda: ours(), "sockets": lambda: ours("--sockets"), "vader": lambda: mpi("--mca", "btl", "vader,self"),
            "tcp": lambda: mpi("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"),
            "gloo": lambda: {int(size): row["us"] for size, row in said("/usr/bin/python3", str(peers / "gloo_allreduce.py"), "--procs", "2").items()
                             if size.isdigit()}}
    found = {name: [] for name in ways}
    for _ in range(TIMES):
        for name, measure in ways.items():
            found[name].append(measure())

    def claim(size, mine, theirs, most):
        ratio = statistics.median(a[size] / min(b[size] for b in other) for a, *other in zip(found[mine], *(found[each] for each in theirs)))
        s.claim(f"sum of {size >> 10} KB, {mine}: time by that of {' or '.join(theirs)}", f"{ratio:.2f}", f"<= {most}", ratio <= most)

    claim(4 << 10, "sockets", ["gloo"], 0.6)
    for size in 1 << 20, 4 << 20, 16 << 20, 64 << 20:
        claim(size, "sockets", ["tcp", "gloo"], 1.1)
    for size, most in (4 << 20, 1), (16 << 20, 1), (64 << 20, 0.7):
        claim(size, "lent", ["vader"], most)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--root", required=True, help=argparse.SUPPRESS)
    arguments.add_argument("--bin", help="troupe; default: the release build's")
    arguments.add_argument("--data", help="a folder with MNIST's four files; without it only what needs none is tried")
    arguments.add_argument("--peers", help="a folder with mpi_allreduce.py and gloo_allreduce.py; without it nothing is beside them")
    s = Session(arguments.parse_args())
    for part in hosts, codecs, factors, overlap, lanes, sums, real_time, groups, *((few_elements, slow_wire, fragments, managed_ssp, scaling) if s.data else ()):
        part(s)
    print("\n| claim | figure | wanted | |\n| --- | --- | --- | --- |")
    for row in s.rows:
        print("| " + " | ".join(row) + " |")
    return 1 if any(row[3] for row in s.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
