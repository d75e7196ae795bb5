# SPDX-License-Identifier: BSD-3-Clause
"""Schedules of faults, drawn from a seed: what the job is, who suffers what, and how the job must end."""
import dataclasses
import os
import random
import shutil

STEP_MS = 20
CHILDREN = ["node-1", "node-2", "node-3"]            # of `run`, whose own process is node-0
COORDINATORS, WORKERS = ["a", "b", "c"], ["d", "e", "f"]  # of a cluster with three coordinators
FORMS = ["coordinator", "rounds", "replicas", "tree", "council", "rounds", "shard", "replicas", "council", "copied tree", "peers", "codes",
         "threads"]


@dataclasses.dataclass
class Fault:
    after_s: float  # of the one before
    kind: str       # kill, stop, hold, reset, disk; coordinator: kill of the run itself
    node: str = ""  # whose process; leader: that of the coordinator which leads then; "leader and d", "node-1 and node-2": both at once; of `hold` a role
    for_s: float = 0

    def __str__(self):
        return f"after {self.after_s:.2f} s: {self.kind}" + (f" {self.node}" if self.node else "") + (f" for {self.for_s:.2f} s" if self.for_s else "")


@dataclasses.dataclass
class Schedule:
    seed: int
    form: str
    sets: list
    faults: list
    end: str = "done"  # how the job ends: done; failed, since it lost a shard; killed
    replays: bool = True

    def __str__(self):
        return "\n  ".join([f"seed {self.seed}, {self.form}: {' '.join(self.sets)}; the job is to be {self.end}", *map(str, self.faults)])

    def waits_for_copies(self):
        """Between faults: of all copies that are lost at once nothing is left."""
        return self.form in ("replicas", "council", "copied tree", "threads")

    def steps(self):
        """So many that the job is likely to suffer all of them, and to be left alone for a while."""
        s = 2 + sum(fault.after_s + fault.for_s / 2 for fault in self.faults)
        waited_for = sum(fault.kind in ("kill", "stop", "hold") for fault in self.faults)
        s += {"replicas": 1, "threads": 1, "copied tree": 1, "council": 3}.get(self.form, 0) * waited_for
        steps = int(s * 1000 / STEP_MS) * (1 if self.end == "done" else 20)  # else its last fault ends it, however late that comes
        return 4 * steps if "protocol.name=gossip" in self.sets else steps  # each worker's count


def resets_connections():
    """Whether this user may reset a connection of others."""
    return os.geteuid() == 0 and shutil.which("ss") is not None


def drawn(seed):
    draw = random.Random(seed)
    form = FORMS[seed % len(FORMS)]
    # Where the copies of a shard count, only protocols of rounds may have them.
    protocol = draw.choice(["sync", "backup", "deadline", "coded"])
    sets = ["protocol.name=" + ("sync" if "tree" in form else protocol), f"seed={seed}"]
    if draw.random() < 0.4:
        sets += ["optimizer.name=adamw", "optimizer.momentum=", "optimizer.lr=0.002"]
    if form == "council":
        return council(draw, seed, sets)
    # Of three processes with workers one is left alone: a job without any worker is over.
    harmed = draw.sample(CHILDREN, 2)
    shards = draw.choice([1, 2])
    sets.append(f"cluster.shards={shards}")
    if form == "tree":
        faults = some(draw, draw.randrange(5, 10), ["kill", "kill", "stop", "stop", "brief stop"], harmed, most_kills=4)
        return Schedule(seed, form, [*sets, "protocol.fan_in=2"], faults, replays=False)
    if form == "copied tree":
        sets += ["protocol.fan_in=2", "cluster.replicas=2", "cluster.placement=colocated"]
        faults = some(draw, draw.randrange(5, 9), ["kill", "kill", "stop"], CHILDREN, most_kills=4)
        return Schedule(seed, form, sets, faults, replays=False)
    if form == "replicas":
        sets += ["cluster.replicas=2", "cluster.placement=colocated"]
        codec = draw.choice(["none", "none", "changed", "int8", "onebit"])
        faults = some(draw, draw.randrange(5, 9), ["kill", "kill", "stop"], CHILDREN, most_kills=4)
        local = draw.random() < 0.4  # its shards step on differences
        if local:
            sets[0] = "protocol.name=local"
            sets += ["protocol.steps=1", f"protocol.outer={draw.choice(['average', 'nesterov'])}"]
        if draw.random() < 0.5:  # two may go at once; which of them are shards, and in which order they are, differs by now
            sets[sets.index("cluster.replicas=2")] = "cluster.replicas=3"
            kills = [each for each in faults if each.kind == "kill"]
            for fault in kills[:min(2, 5 - len(kills))]:
                fault.node = " and ".join(draw.sample(CHILDREN, 2))
        return Schedule(seed, form, [*sets, f"codec.params={codec}"], faults, replays=not local and codec in ("none", "changed"))
    if form == "threads":
        sets += ["cluster.replicas=2", "cluster.placement=colocated", "cluster.progress_s=1.5"]
        return threads(draw, Schedule(seed, form, sets, []), shards)
    if form == "peers":  # whoever is left has everything
        algorithm = draw.choice(["direct", "ring", "halving", "tree", "broadcast", "", ""])
        protocol = [f"protocol.name={'allreduce' if algorithm else 'gossip'}"] + [f"protocol.algorithm={algorithm}"] * bool(algorithm)
        sets = [*protocol, *sets[1:-1]]
        faults = some(draw, draw.randrange(6, 12), ["kill", "kill", "stop", "stop", "brief stop"], CHILDREN, most_kills=4)
        sets += [f"protocol.group={draw.choice([1, 2, 2, 3])}"] * bool(algorithm)
        late = [f"protocol.{each}" for each in ("steps=4", "fragments=2", "overlap_steps=1", "outer=nesterov")]
        sets += late * (algorithm != "" and draw.random() < 0.4)
        sets += ["codec.push=int4"] * (algorithm in ("direct", "broadcast") and draw.random() < 0.5)
        sets += ["exchange.partition_kib=16"] * (algorithm != "" and draw.random() < 0.6)  # thirteen of a gradient
        return Schedule(seed, form, sets, faults, replays=False)
    if form == "shard":
        sets[-1:] = ["cluster.shards=4", "cluster.placement=colocated"]
        faults = some(draw, draw.randrange(1, 4), ["brief stop"], CHILDREN)
        return Schedule(seed, form, sets, [*faults, Fault(draw.uniform(0, 1), "kill", harmed[0])], "failed", False)
    faults = some(draw, draw.randrange(6, 12), ["kill", "kill", "stop", "stop", "brief stop"], harmed, most_kills=4)
    if form == "coordinator":
        return Schedule(seed, form, sets, [*faults[:4], Fault(draw.uniform(0, 1), "coordinator")], "killed", False)
    if form == "codes":  # who comes back lacks what the next parameters build on
        codec = draw.choice(["fp16", "bf16", "int8", "int4", "onebit", "changed", "changed"])
        push = "none" if protocol == "coded" else draw.choice(["int8", "factors"] if "optimizer.name=adamw" in sets else ["int8", "topk", "topk", "factors"])
        return Schedule(seed, form, [*sets, f"codec.params={codec}", f"codec.push={push}"], faults, replays=push in ("none", "factors"))
    return Schedule(seed, form, sets, faults)


def some(draw, count, kinds, harmed, most_kills=0):
    """Beside these kinds, resets of lanes and full disks. A brief stop is one that nobody takes for a death. The fifth process that
    dies within a minute is the last that is started anew."""
    faults, kills = [], 0
    for _ in range(count):
        kind = draw.choice([*kinds, "disk"] + ["reset"] * resets_connections())
        kills += kind == "kill"
        if kind == "kill" and kills > most_kills:
            kind = "stop"
        fault = Fault(draw.uniform(0, 0.8), kind.removeprefix("brief "))
        if fault.kind in ("kill", "stop"):
            fault.node = draw.choice(["node-0", *CHILDREN] if kind == "brief stop" else harmed)
        if fault.kind in ("stop", "disk"):
            fault.for_s = draw.uniform(0.05, 0.6 if kind == "brief stop" else 2.2)
        faults.append(fault)
    return faults


def threads(draw, schedule, shards):
    """Of any shard, of any copy, of the evaluator, and of one worker; some for longer than the deadline, some shorter."""
    worker = draw.randrange(4)
    copies = [f"shard {i}" for i in range(shards)] + [f"replica {shards + i}" for i in range(shards)]
    roles = [*copies, *copies, "evaluator 0", f"compute {worker}", f"compute {worker}", f"loader {worker}"]
    for fault in some(draw, draw.randrange(5, 8), ["hold", "hold", "hold", "kill", "stop"], CHILDREN, most_kills=2):
        if fault.kind == "hold":
            fault.node, fault.for_s = draw.choice(roles), draw.uniform(0.5, 6)
        schedule.faults.append(fault)
    return schedule


def council(draw, seed, sets):
    """Any node, alone or with the coordinator that leads; of the coordinators one at a time."""
    sets += ["cluster.workers=3", f"cluster.shards={draw.choice([1, 2])}", "cluster.replicas=2"]
    faults = []
    for _ in range(draw.randrange(4, 7)):
        kind = draw.choice(["kill", "kill", "kill", "stop", "stop"] + ["reset"] * resets_connections())
        node = draw.choice(["leader", *COORDINATORS, *WORKERS, *WORKERS, *(f"leader and {worker}" for worker in WORKERS)])
        faults.append(Fault(draw.uniform(0, 0.8), kind, node if kind != "reset" else "", draw.uniform(0.05, 2.5) if kind == "stop" else 0))
    sets += ["protocol.fan_in=2"] * ("protocol.name=sync" in sets and draw.random() < 0.5)
    return Schedule(seed, "council", sets, faults, replays=False)
