#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `check` accepts runs: jobs drawn near the bounds of every key end with 0, or with 1 and a sentence.

usage: drawn_jobs_test.py TROUPE SOURCE [unittest arguments]

Keys and what they accept come from `check --keys --json`, parameters of protocols from `protocols --json`: a new one is drawn by itself.
A job is the quick start, made small, with some keys set. Settings that `check` refuses are taken out, until it accepts the rest; then
`simulate` plays the job, and `run` every few of them. No signal, no broken invariant, no end that does not come.

TROUPE_DRAWN_JOBS=N draws N jobs instead of 500, TROUPE_FIRST_DRAW=S begins with the job of seed S instead of 1. A job that does not end
well is made as short as it can be, and printed as a command with its seed.
"""
import concurrent.futures
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TROUPE, SOURCE = "", ""
COUNT, FIRST = int(os.environ.get("TROUPE_DRAWN_JOBS", "500")), int(os.environ.get("TROUPE_FIRST_DRAW", "1"))
RUN_EVERY = 8      # so many simulated jobs to one that is run
DEADLINE_S = 300   # of one that takes a second on an idle machine, or 20 where its steps last no time and it ends by seconds
MOST_REPAIRS = 12

JOB = "config/quickstart.toml"
SMALL = ["data.train_samples=40", "data.test_samples=10", "data.batch=4", "model.hidden=[8]", "cluster.nodes=1"]
# Keys whose bounds cost minutes or gigabytes get as far as this.
MOST = {"cluster.nodes": 2, "cluster.workers": 9, "cluster.shards": 40, "data.train_samples": 90, "data.test_samples": 30, "data.batch": 200, "data.micro_batch": 200,
        "model.hidden": 40, "compute.threads": 2, "stop.epochs": 5, "stop.steps": 300, "stop.samples": 900, "stop.seconds": 3,
        "protocol.steps": 12, "protocol.initial_steps": 12}
# Texts that name files or devices are those that are everywhere.
TEXTS = {"data.source": ["digits"], "data.path": [], "data.test_path": [], "data.labels_path": [],
         "data.test_labels_path": [], "model.init": ["zeros"], "model.onnx": [], "name": ["", "x", "a b\n\u00e9"],
         "inject.straggler.trace": [], "model.kind": ["mlp"], "compute.precision": ["fp32"]}
LAYERS = [["flatten", "linear 10"], ["flatten", "linear 3 relu", "layernorm", "linear 10"], ["conv 2 3x3 relu pad 1", "pool 2", "flatten", "linear 10"],
          ["conv 3 28x28", "flatten", "gelu", "linear 10"], ["avgpool 7", "flatten", "dropout 0.5", "linear 10"], ["flatten", "dropout 0", "linear 10"],
          ["flatten", "linear 10 sigmoid"], ["conv 4 5x5 stride 3", "batchnorm", "residual {", "groupnorm 2", "relu", "}", "avgpool all", "linear 10"],
          ["flatten", "linear 6", "repeat 2 {", "residual {", "rmsnorm", "linear 6 silu", "}", "}", "linear 10"]]
AUGMENT = [["flip"], ["crop 2"], ["crop 27", "flip"], ["crop 28"]]
FREEZE = [["*.bias"], ["linear1.*"], ["conv1.*", "*.bias"]]
# What makes a step or a fault of a real run last; in virtual time anything goes.
REAL = {"inject.step_ms": 3, "inject.straggler.factor": 5, "inject.straggler.spread": 2, "inject.link.latency_ms": 4, "inject.fault.at_s": 0.2,
        "protocol.interval_s": 0.1, "evaluate.every_s": 0.1, "checkpoint.every_s": 0.1}
REAL_LEAST = {"inject.link.mbit": 50, "inject.straggler.alpha": 0.5, "protocol.interval_s": 0.01, "evaluate.every_s": 0.01,
              "checkpoint.every_s": 0.01}
# One of these makes a SPEC; what else it wants.
SPECS = {"inject.straggler": [["factor"], ["factor", "prob"], ["factor", "worker"], ["dist"], ["dist", "spread"], ["dist", "alpha"], ["dist", "worker"]],
         "inject.link": [["latency_ms"], ["mbit"], ["latency_ms", "mbit"]],
         "inject.fault": [["crash", "at_s"], ["crash", "at_s", "back_after_s"], ["pause", "at_s", "for_s"], ["partition", "at_s", "for_s"], ["reorder"],
                          ["repeat"], ["loss"]]}


def call(arguments, deadline=DEADLINE_S):
    """(exit code, stderr) of the program; None for a code: it did not end in time."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([TROUPE, *arguments], cwd=SOURCE, stdout=subprocess.DEVNULL, stderr=said, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            code = process.wait(deadline)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        return code, said.read().decode("utf-8", "backslashreplace")


def section_of(key):
    return key["key"].split(".")[0]


def listed(*arguments):
    done = subprocess.run([TROUPE, *arguments, "--json"], cwd=SOURCE, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def arguments_of(settings):
    return [JOB, *(word for one in [*SMALL, *settings] for word in ("--set", one))]


class Keys:
    """What may be drawn."""

    def __init__(self):
        self.plain = [key for key in listed("check", "--keys")["keys"] if key["accepts"] and key["key"] != "protocol.name"]
        self.protocols = {}
        for protocol in listed("protocols")["protocols"]:
            parameters = [dict(parameter, key="protocol." + parameter["name"]) for parameter in protocol["parameters"]]
            for parameter in parameters:
                parameter["choices"] = self.choices(protocol["name"], parameter)
            self.protocols[protocol["name"]] = parameters

    @staticmethod
    def choices(protocol, parameter):
        """Those of a parameter that is a text or a list of them: the program names them."""
        if not isinstance(parameter["default"], (str, list)):
            return []
        wrong = "?" if isinstance(parameter["default"], str) else '["?"]'
        _, said = call(["check", *arguments_of([f"protocol.name={protocol}", f"{parameter['key']}={wrong}"])])
        return re.search(r"is not one of (.*)", said)[1].split(", ")


class Draw:
    """One job: settings, one a key."""

    def __init__(self, keys, seed, folder):
        self.random, self.folder = random.Random(seed), f"{folder}/{seed}"
        self.real = seed % RUN_EVERY == 0
        protocol = self.random.choice(list(keys.protocols))
        self.settings = [f"protocol.name={protocol}"]
        for key in self.chosen(keys, keys.protocols[protocol]):
            self.settings += self.setting(key)
        if self.random.random() < 0.3:  # what else may end a job
            self.settings += ["stop.epochs=", self.random.choice(["stop.steps=3", "stop.samples=17", "stop.seconds=0.05"])]

    def chosen(self, keys, parameters):
        """Half of the protocol's parameters and of two sections, for what goes wrong is mostly between keys of one; a few from elsewhere;
        and mostly a number of workers, for all have to do with it."""
        sections = self.random.sample(sorted({section_of(key) for key in keys.plain}), 2)
        near = [key for key in [*parameters, *keys.plain] if section_of(key) in ["protocol", *sections] and self.random.random() < 0.5]
        always = [key for key in keys.plain if key["key"] in ("cluster.workers", "inject.link")]
        far = [*self.random.sample(keys.plain, self.random.randint(0, 4)), *(key for key in always if self.random.random() < 0.5)]
        return [*near, *(key for key in far if key not in near)]

    def setting(self, key):
        name = key["key"]
        if key.get("type") == "tables":
            return [f"{name}={{{spec}}}" for spec in self.specs(key)]
        value = self.parameter(key) if "type" not in key else self.value(name, key)
        return [] if value is None else [f"{name}={value}"]

    def specs(self, key):
        own = {each["key"]: each for each in key["keys"]}
        named = list(self.random.choice(SPECS.get(key["key"], [[]])))
        if self.random.random() < 0.2:
            named.append(self.random.choice(list(own)))
        entries = []
        for each in dict.fromkeys(named):
            value = self.value(f"{key['key']}.{each}", own[each])
            if value is not None:
                entries.append(f"{each} = {value}")
        return [", ".join(entries)]

    def parameter(self, key):
        value, random_of = key["default"], self.random
        if isinstance(value, bool):
            return random_of.choice(["true", "false"])
        if isinstance(value, int):
            return self.whole(key["key"], 0, 0x7fffffff, value)
        if isinstance(value, float):
            return self.real_number(key["key"], {"least": 0}, value)
        if isinstance(value, str):
            return json.dumps(random_of.choice(key["choices"]))
        return json.dumps(random_of.sample(key["choices"], random_of.randint(1, len(key["choices"]))))

    def value(self, name, key):
        kind, random_of = key["type"], self.random
        if name == "checkpoint.dir":
            return json.dumps(self.folder)
        if name in TEXTS or kind == "text":
            choices = TEXTS.get(name, key.get("choices", ["worker:0", "worker:1", "worker:2"]))
            return json.dumps(random_of.choice(choices), ensure_ascii=False) if choices else None
        if kind == "whole":
            return self.whole(name, key["least"], key.get("most", 2**63 - 1), key.get("default"))
        if kind == "real":
            return self.real_number(name, key, key.get("default"))
        if kind == "flag":
            return random_of.choice(["true", "false"])
        if kind == "device":
            return '"cpu"'
        if kind == "wholes":
            return json.dumps([self.whole(name, key["least"], key["most"], None) for _ in range(random_of.randint(1, 3))])
        if name == "model.layers":
            return json.dumps(random_of.choice(LAYERS))
        if name == "data.augment":
            return json.dumps(random_of.choice(AUGMENT))
        if name == "optimizer.freeze":
            return json.dumps(random_of.choice(FREEZE))
        if name == "optimizer.lr_scale":
            return json.dumps([f"{pattern} = {random_of.choice(['0.1', '1', '2.5', '1e-3'])}" for pattern in random_of.choice(FREEZE)])
        raise KeyError(f"{name} is of type {kind}, which this test does not draw")

    def whole(self, name, least, most, default):
        most = min(most, MOST.get(name, most))
        near = [least, least + 1, least + 2, least + 3, least + 4, most, most - 1, (default or 0) + 1]
        return self.random.choice([value for value in near if least <= value <= most])

    def real_number(self, name, key, default):
        least = key.get("least", key.get("above", 0))
        most = key.get("most", key.get("below", 1e300))
        most = min(most, MOST.get(name, most))
        near = [least, least + 1e-9, least + 1e-300, 0.1, 0.5, 0.999, 1, 1 + 1e-9, 2, 3, 10, most, most - 1e-9, most / 2, default or 0.25]
        if most == 1e300:
            near += [1e3, 1e6, 1e9, 1e12]
        if self.real:
            near = [min(max(value, REAL_LEAST.get(name, least)), REAL.get(name, most)) for value in near]
        value = self.random.choice([value for value in near if least <= value <= most])
        return repr(float(value))


def accepted(settings):
    """What `check` accepts of them, for what it refuses is taken out, and what is wrong with how it ends. None: that was not all."""
    for _ in range(MOST_REPAIRS):
        code, said = call(["check", *arguments_of(settings)])
        if code == 0:
            return settings, ""
        if code != 2:
            return settings, f"ends with {code}: {said}"
        blamed = set(re.findall(r"^--set ([\w.-]+)", said, re.M))
        kept = [one for one in settings if one.split("=")[0] not in blamed]
        if len(kept) == len(settings):  # what is wrong stands in the file: it depends on what is set
            kept = settings[:-1]
        settings = kept
        if not settings:
            break
    return None, ""


def ends_badly(command, settings, deadline=DEADLINE_S):
    """How a job ends that should not; empty: well."""
    code, said = call([command, *arguments_of(settings), *(["--quiet"] if command == "run" else [])], deadline)
    last = said.splitlines()[-1] if said else ""
    if code is None:
        return f"does not end within {deadline} s"
    if code == 0 or (code == 1 and re.match(r"troupe: \w.*\w", last) and "broken invariant" not in said):
        return ""
    if command == "run" and code == 2 and "only `troupe simulate` plays this" in last:
        return ""
    return f"ends with {code}: {last}"


def shortest(command, settings):
    """Fewer settings that `check` accepts and that end badly, too. Here nobody waits long for an end."""
    for one in list(settings):
        fewer = [each for each in settings if each != one]
        if call(["check", *arguments_of(fewer)])[0] == 0 and ends_badly(command, fewer, DEADLINE_S / 10):
            settings = fewer
    return settings


class DrawnJobs(unittest.TestCase):
    def test_what_check_accepts_ends_well(self):
        keys, folder = Keys(), self.enterContext(tempfile.TemporaryDirectory())
        print(f"\n{COUNT} jobs from TROUPE_FIRST_DRAW={FIRST} on", file=sys.stderr)

        def try_one(seed):
            draw = Draw(keys, seed, folder)
            settings, how = accepted(draw.settings)
            if settings is None:
                return "refused", ""
            command = "check" if how else "run" if draw.real else "simulate"
            how = how or ends_badly(command, settings)
            if not how:
                return command, ""
            words = shlex.join(["troupe", command, *arguments_of(shortest(command, settings) if command != "check" else settings)])
            found = f"TROUPE_FIRST_DRAW={seed} TROUPE_DRAWN_JOBS=1: {how}\n  {words}"
            print(found, file=sys.stderr, flush=True)
            return "failed", found

        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            ends = list(pool.map(try_one, range(FIRST, FIRST + COUNT)))
        counts = {kind: sum(1 for ended, _ in ends if ended == kind) for kind in ("simulate", "run", "refused", "failed")}
        print(counts, file=sys.stderr)
        bad = [text for kind, text in ends if kind == "failed"]
        self.assertFalse(bad, "\n" + "\n".join(bad))
        self.assertLessEqual(counts["refused"], COUNT // 10, "too few jobs are accepted to say anything")


if __name__ == "__main__":
    TROUPE, SOURCE = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
