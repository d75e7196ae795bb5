#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Pushes and parameters in fewer bits: the same weights wherever the roles are, and in the simulator.

usage: codecs_test.py TROUPE [unittest arguments]
"""
import json
import subprocess

import cluster_test
from cluster_test import ClusterTest, combinations

# Three shards that no number of blocks divides evenly.
JOB = """
name = "encoded"
seed = 7
[data]
source = "digits"
train_samples = 600
test_samples = 100
batch = 16
[model]
layers = ["flatten", "linear 32 relu", "dropout 0.3", "linear 10"]
[optimizer]
lr = 0.05
momentum = 0.9
[cluster]
workers = 4
[evaluate]
every_s = 3600.0
[stop]
steps = 30
"""
CODECS = ("fp16", "bf16", "int8", "int4", "onebit")
SPARSE = {
    "topk": ["codec.push=topk", "codec.density=0.02"],
    "dgc": ["codec.push=dgc", "codec.density=0.02", "codec.warmup_steps=2", "codec.clip=1"],
    "threshold": ["codec.push=threshold", "codec.threshold=0.01"],
}
BUDGET = ["protocol.name=ssp", "codec.push=topk", "codec.budget_mbit=20"]
PLACEMENTS = {
    "one process": [],
    "two": ["--nodes", "2"],
    "three shards": ["--nodes", "4", "--set", "cluster.shards=3"],
    "colocated": ["--nodes", "3", "--set", "cluster.placement=colocated", "--set", "cluster.shards=2"],
}
ALONE, *APART = PLACEMENTS


def as_sets(settings):
    return [word for one in settings for word in ("--set", one)]


class CodecsTest(ClusterTest):
    def encoded(self, codec, *arguments, job=JOB):
        return self.run_job("--set", f"codec.push={codec}", *arguments, job=job)

    def simulated(self, *arguments, job=JOB):
        done = subprocess.run([cluster_test.TROUPE, "simulate", self.path("job.toml", job), "--json", *arguments], capture_output=True,
                              text=True, timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def run_undisturbed(self, undisturbed, *arguments, job):
        """A run of which `undisturbed` is true, or the last of five: beside other work one is slower, now and then."""
        for _ in range(5):
            ran = self.run_job(*arguments, job=job)
            if undisturbed(ran):
                break
        return ran

    def assert_one(self, digests):
        self.assertEqual(len(set(digests.values())), 1, digests)

    def expect_of_a_simulation_what_a_run_does(self, ways):
        for way, shards in combinations(ways, (1, 3)):
            with self.subTest(" ".join(way), shards=shards):
                sets = [*way, "--set", f"cluster.shards={shards}"]
                ran, simulated = self.run_job(*sets, "--nodes", "2", job=JOB), self.simulated(*sets)
                for key in ("steps", "train_loss", "test_loss"):
                    self.assertEqual(ran[key], simulated[key], key)

    def weights_of(self, ways):
        """Of each way, a list of settings: the one digest that it has in one process and in several."""
        found = {}
        for way, placement in combinations(ways, APART):
            with self.subTest(way=way, placement=placement):
                for each in (ALONE, placement):
                    digest = self.run_job(*as_sets(way), *PLACEMENTS[each], job=JOB)["weights_digest"]
                    self.assertEqual(found.setdefault(tuple(way), digest), digest, each)
        return found


class Weights(CodecsTest):
    def test_placement_does_not_change_them(self):
        found = self.weights_of([f"codec.push={codec}"] for codec in ("none", *CODECS))
        self.assertEqual(len(set(found.values())), 1 + len(CODECS), "each codec rounds in its own way")

    def test_nor_where_a_worker_steps_by_itself_or_sums_travel(self):
        for sets in (["--set", "protocol.name=local", "--set", "protocol.steps=3"], ["--set", "protocol.fan_in=2"],
                     ["--set", "optimizer.clip_norm=0.5"], ["--set", "cluster.replicas=2", "--set", "cluster.nodes=4"]):
            with self.subTest(" ".join(sets)):
                self.assert_one({name: self.encoded("onebit", *sets, *PLACEMENTS[name])["weights_digest"]
                                 for name in ("two", "three shards", "colocated")})

    def test_every_protocol_that_takes_a_codec_learns(self):
        for protocol in ("backup", "deadline", "async", "dc-async", "ssp", "adacomm", "easgd", "admm", "auto"):
            codec = "int8" if protocol in ("easgd", "admm") else "onebit"
            auto = ["--set", 'protocol.candidates=["sync", "local"]'] if protocol == "auto" else []
            with self.subTest(protocol):
                result = self.encoded(codec, "--nodes", "2", "--set", f"protocol.name={protocol}", "--set", "stop.steps=300", *auto)
                self.assertGreater(result["test_accuracy"], 0.2, result)

    def test_feedback_is_a_choice(self):
        with_it, without, int8 = (self.encoded(codec, *sets)["weights_digest"] for codec, sets in (
            ("onebit", []), ("onebit", ["--set", "codec.error_feedback=false"]), ("int8", ["--set", "codec.error_feedback=true"])))
        self.assertNotEqual(with_it, without)
        self.assertNotEqual(int8, self.encoded("int8")["weights_digest"])


class Sums(CodecsTest):
    """Among workers: each encodes terms for the owners of segments, and each owner its sums."""
    SUMS = ["protocol.name=allreduce", "protocol.algorithm=direct"]
    LATE = ["protocol.steps=4", "protocol.fragments=2", "protocol.overlap_steps=1", "protocol.outer=nesterov"]

    def digest(self, *settings, nodes=1):
        made = self.run_job("--nodes", str(nodes), *as_sets([*self.SUMS, *settings]), job=JOB)
        self.assertEqual(made["steps"], 30)
        return made["weights_digest"]

    def test_placement_does_not_change_the_weights(self):
        found = {}
        for codec, group in combinations(("none", *CODECS), (1, 2)):
            with self.subTest(codec, group=group):
                sets = [f"codec.push={codec}", f"protocol.group={group}"]
                found[codec] = self.digest(*sets)
                for nodes in (2, 4):
                    self.assertEqual(self.digest(*sets, nodes=nodes), found[codec], nodes)
        self.assertEqual(len(set(found.values())), len(found), "each codec rounds in its own way")

    def test_nor_where_terms_go_to_all(self):
        """Each rounds its term once, and the sum is not rounded."""
        found = {}
        for codec in ("none", "onebit", "factors"):
            with self.subTest(codec):
                sets = [f"codec.push={codec}", "protocol.group=1", "protocol.algorithm=broadcast"]
                found[codec] = self.digest(*sets)
                for nodes in (2, 4):
                    self.assertEqual(self.digest(*sets, nodes=nodes), found[codec], nodes)
        self.assertEqual(found["none"], self.run_job(job=JOB)["weights_digest"], "as a shard sums")
        self.assertEqual(found["factors"], self.run_job("--set", "codec.push=factors", job=JOB)["weights_digest"], "likewise")
        self.assertEqual(found["onebit"], self.run_job("--set", "codec.push=onebit", job=JOB)["weights_digest"], "likewise")

    def test_a_simulation_computes_what_a_run_does(self):
        ways = (["protocol.algorithm=broadcast", "codec.push=factors", "protocol.group=1"],
                ["protocol.algorithm=broadcast", "codec.push=int4", "protocol.group=2"],
                ["codec.push=int4", "protocol.group=1"], ["codec.push=onebit", "protocol.group=2"], [*self.LATE, "protocol.group=1"],
                [*self.LATE, "codec.push=int8", "protocol.group=1"])
        for way in ways:
            with self.subTest(" ".join(way)):
                sets = as_sets([*self.SUMS, *way])
                ran, simulated = self.run_job(*sets, "--nodes", "2", job=JOB), self.simulated(*sets)
                for key in ("steps", "train_loss", "test_loss"):
                    self.assertEqual(ran[key], simulated[key], key)

    def test_who_comes_back_goes_on_with_the_rest(self):
        steps = ["stop.steps=600", "codec.push=onebit", "protocol.group=1"]
        ran = self.run_job(*as_sets([*self.SUMS, *steps]), "--nodes", "3", "--fault", "crash=worker:1,at_s=0.5", job=JOB)
        self.assertEqual(ran["steps"], 600)
        self.assertGreater(ran["test_accuracy"], 0.2)

    def test_each_reason_why_not_is_said(self):
        for sets, words in (
                (["codec.push=int8", "protocol.algorithm=ring"], 'round at each; write protocol.algorithm = "direct"'),
                (["codec.push=int8", "protocol.algorithm=auto", "cluster.workers=9"], 'write protocol.algorithm = "direct"'),
                (["codec.push=topk"], "sums every element among its workers; name fp16, bf16, int8, int4 or onebit"),
                (["codec.push=factors"], 'write protocol.algorithm = "broadcast", by which terms go to all'),
                (["codec.push=factors", "protocol.algorithm=broadcast"], "a sum has no two factors; write protocol.group = 1"),
                (["codec.push=factors", "protocol.algorithm=broadcast", "protocol.group=2"], "a sum has no two factors; write protocol.group = 1"),
                (["codec.push=factors", "protocol.algorithm=broadcast", "protocol.group=1", "protocol.steps=2"], "sends what local steps have made"),
                (["codec.params=int8"], "whose workers keep the parameters themselves")):
            with self.subTest(" ".join(sets)):
                done = subprocess.run([cluster_test.TROUPE, "check", self.path("job.toml", JOB), *as_sets([*self.SUMS, *sets])],
                                      capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(words, done.stderr)


class Parameters(CodecsTest):
    @staticmethod
    def both(codec):
        return ["--set", f"codec.push={codec}", "--set", f"codec.params={codec}"]

    def test_placement_does_not_change_the_weights(self):
        found = self.weights_of([f"codec.push={push}", f"codec.params={codec}"] for codec in CODECS for push in ("none", codec))
        self.assertEqual(len({self.run_job(job=JOB)["weights_digest"], *found.values()}), 1 + 2 * len(CODECS), "each codec rounds in its own way")

    def test_nor_where_a_worker_steps_by_itself_sums_travel_or_a_node_has_an_aggregator(self):
        for sets in (["--set", "protocol.name=local", "--set", "protocol.steps=3"], ["--set", "protocol.fan_in=2"],
                     ["--set", "optimizer.clip_norm=0.5"], ["--set", "protocol.name=coded"]):
            with self.subTest(" ".join(sets)):
                self.assert_one({name: self.run_job("--set", "codec.params=int4", *sets, *PLACEMENTS[name], job=JOB)["weights_digest"]
                                 for name in ("two", "three shards", "colocated")})

    def test_every_protocol_of_rounds_learns(self):
        straggler = ["--set", "inject.step_ms=2", "--straggler", "prob=0.2,factor=6"]  # who misses rounds is given all of them
        for protocol in ("sync", "backup", "deadline", "coded", "local", "adacomm", "admm"):
            with self.subTest(protocol):
                result = self.run_job("--nodes", "2", "--set", f"protocol.name={protocol}", "--set", "stop.steps=100", "--set", "codec.params=int8",
                                      *straggler, job=JOB)
                self.assertGreater(result["test_accuracy"], 0.2, result)

    def test_a_simulation_computes_what_a_run_does(self):
        self.expect_of_a_simulation_what_a_run_does(self.both(codec) for codec in CODECS)

    def test_a_worker_that_dies_comes_back_with_nothing_and_is_given_all(self):
        for codec in ("int8", "onebit"):
            with self.subTest(codec):
                result = self.run_job(*self.both(codec), "--nodes", "3", "--set", "inject.step_ms=5", "--set", "stop.steps=200", "--set",
                                      "cluster.shards=2", "--fault", "crash=worker:1,at_s=0.3", job=JOB)
                self.assertEqual(result["steps"], 200)
                self.assertGreater(result["test_accuracy"], 0.2, result)


class Sparse(CodecsTest):
    """Some elements alone. What is changed is exact: it changes no weight."""
    @staticmethod
    def sets(codec, *further):
        return as_sets((*SPARSE[codec], *further))

    def test_placement_does_not_change_the_weights(self):
        found = self.weights_of([*sets, f"codec.params={params}"] for sets in SPARSE.values() for params in ("none", "changed"))
        for sets in SPARSE.values():
            self.assertEqual(found[*sets, "codec.params=none"], found[*sets, "codec.params=changed"])
        self.assertEqual(len({self.run_job(job=JOB)["weights_digest"], *found.values()}), 1 + len(SPARSE))

    def test_nor_do_aggregators_that_keep_sums_sparse(self):
        for fan_in in ("2", '"node"'):
            for codec in ("topk", "threshold"):
                sets = self.sets(codec, "codec.params=changed", f"protocol.fan_in={fan_in}", "stop.steps=20")
                with self.subTest(codec, fan_in=fan_in):
                    few, plain = self.run_job(*sets, "--nodes", "3", job=JOB), self.run_job(
                        "--nodes", "3", "--set", f"protocol.fan_in={fan_in}", "--set", "stop.steps=20", job=JOB)
                    if fan_in == "2":
                        self.assertEqual(few["weights_digest"], self.run_job(*sets, "--nodes", "4", job=JOB)["weights_digest"])
                    if codec == "topk":
                        self.assertLess(few["bytes_push"], 0.2 * plain["bytes_push"], "the sum of two pushes is sparse, too")

    def test_every_protocol_that_takes_them_learns(self):
        for protocol in ("sync", "backup", "deadline", "async", "dc-async", "ssp", "local", "adacomm"):
            codec = "topk" if protocol in ("local", "adacomm") else "dgc"
            with self.subTest(protocol):
                result = self.run_job("--nodes", "2", *self.sets(codec, f"protocol.name={protocol}", "stop.steps=300"), job=JOB)
                self.assertGreater(result["test_accuracy"], 0.2, result)

    def test_a_simulation_computes_what_a_run_does(self):
        self.expect_of_a_simulation_what_a_run_does(self.sets(codec, "codec.params=changed") for codec in SPARSE)

    def test_a_run_that_goes_on_with_what_is_changed_is_the_run(self):
        job, sets = self.path("job.toml", JOB), ["--set", "codec.params=changed", "--nodes", "2"]
        whole = self.run_job(*sets, job=JOB)["weights_digest"]
        folder = self.path("kept")
        self.run_job(*sets, "--set", f"checkpoint.dir={folder}", "--set", "stop.steps=12", job=JOB)
        done = subprocess.run([cluster_test.TROUPE, "run", job, *sets, "--resume", folder, "--quiet", "--json"],
                              capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["weights_digest"], whole)
        replicas = ["--set", "cluster.replicas=2", "--nodes", "4", "--set", "codec.params=changed"]
        self.assertEqual(self.run_job(*replicas, job=JOB)["weights_digest"], whole)

    def test_each_reason_why_not_is_said(self):
        for sets, words in (
                (["codec.push=threshold"], "codec.push = \"threshold\" needs codec.threshold"),
                (["codec.push=topk", "optimizer.name=adamw", "optimizer.momentum="], "takes what is not sent for zero"),
                (["codec.push=topk", "protocol.name=easgd"], "so few bits lose as much"),
                (["codec.push=topk", "protocol.name=coded"], "weights that change from round to round"),
                (["codec.push=dgc", "optimizer.nesterov=true"], "do not look ahead"),
                (["codec.push=dgc", "optimizer.weight_decay=0.001"], "decay at every step"),
                (["codec.push=dgc", "codec.error_feedback=false"], "adds up what is not sent yet"),
                (["codec.push=dgc", "protocol.name=local"], "local steps have one already"),
                (["codec.push=topk", "codec.density=0"], "codec.density"),
                (["codec.push=topk", "codec.density=1.5"], "codec.density"),
                (["codec.push=onebit", "codec.density=0.5"], "codec.density belongs to codec.push"),
                (["codec.push=changed"], "codec.push"),
                (["codec.params=topk"], "codec.params"),
                (["codec.params=changed", "protocol.name=async"], "answers each push alone"),
                (BUDGET[1:], 'codec.budget_mbit does not go with protocol.name = "sync": every element is sent'),
                ([*BUDGET, "protocol.bound=1"], "and its bound of 1: every element is sent at least once in as many pushes as a worker may be "
                                                "ahead; write protocol.bound = 2 or more"),
                ([*BUDGET, "codec.density=0.1"], "both say how much of a push is sent"),
                ([*BUDGET, "codec.error_feedback=false"], "sends later what it does not send now"),
                ([*BUDGET, "codec.push=dgc"], "codec.budget_mbit belongs to codec.push"),
                ([*BUDGET, "codec.budget_mbit=0"], "codec.budget_mbit")):
            with self.subTest(" ".join(sets)):
                done = subprocess.run([cluster_test.TROUPE, "check", self.path("job.toml", JOB), *as_sets(sets)], capture_output=True, text=True,
                                      timeout=cluster_test.DEADLINE_S, check=False)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(words, done.stderr)


class Factors(CodecsTest):
    """Of a matrix, what its gradient is the product of: the numbers of a gradient, but for the order of their sums."""
    SETS = as_sets(["codec.push=factors"])

    def test_placement_does_not_change_the_weights(self):
        found = self.weights_of([["codec.push=none"], ["codec.push=factors"]])
        self.assertEqual(len(set(found.values())), 2, "sums are in another order")

    def test_they_are_the_weights_without_a_codec_but_for_rounding(self):
        for sets in ([], ["--set", "protocol.fan_in=2"], ["--set", "optimizer.clip_norm=0.5"]):
            with self.subTest(" ".join(sets)):
                files = [self.path("plain.safetensors"), self.path("factors.safetensors")]
                for file, codec in zip(files, ([], self.SETS)):
                    self.run_job(*codec, *sets, "--nodes", "3", "--set", "stop.steps=10", "--save", file, job=JOB)
                done = subprocess.run([cluster_test.TROUPE, "weights", "diff", *files, "--json"], capture_output=True, text=True,
                                      timeout=cluster_test.DEADLINE_S, check=False)
                apart = [each["relative_difference"] for each in json.loads(done.stdout)["tensors"]]
                self.assertTrue(apart, "sums are in another order")
                self.assertLess(max(apart), 1e-5)

    def test_nor_do_copies_of_shards_or_aggregators_or_partitions(self):
        for sets in (["protocol.fan_in=2"], ["cluster.replicas=2", "cluster.nodes=4"], ["exchange.partition_kib=16"]):
            with self.subTest(" ".join(sets)):
                self.assert_one({name: self.run_job(*self.SETS, *as_sets(sets), *PLACEMENTS[name], job=JOB)["weights_digest"]
                                 for name in ("two", "three shards", "colocated")})

    def test_a_check_says_which_parameters_they_are_of(self):
        job = self.path("job.toml", JOB)
        done, told = (subprocess.run([cluster_test.TROUPE, "check", job, *self.SETS, *more], capture_output=True, text=True,
                                     timeout=cluster_test.DEADLINE_S, check=True).stdout for more in (["--json"], []))
        self.assertEqual({each["name"]: each["factors"] for each in json.loads(done)["model"]["shapes"]},
                         {"linear1.weight": True, "linear1.bias": False, "linear2.weight": False, "linear2.bias": False})
        self.assertRegex(told, r"linear1.weight +\(32, 784\) +trained, pushed as factors\n")

    def test_every_protocol_that_takes_them_learns(self):
        for protocol in ("backup", "deadline", "async", "dc-async", "ssp"):
            with self.subTest(protocol):
                result = self.run_job("--nodes", "2", *self.SETS, "--set", f"protocol.name={protocol}", "--set", "stop.steps=300", job=JOB)
                self.assertGreater(result["test_accuracy"], 0.2, result)

    def test_a_simulation_computes_what_a_run_does(self):
        self.expect_of_a_simulation_what_a_run_does([self.SETS])

    def test_each_reason_why_not_is_said(self):
        for sets, words in (
                (["protocol.name=local"], "sends what local steps have made, which has no two factors"),
                (["protocol.name=easgd"], "sends what local steps have made, which has no two factors"),
                (["protocol.name=coded"], "pushes weighted sums of several parts' gradients, which have no two factors"),
                (["protocol.name=allreduce"], "by which terms go to all"),
                (["protocol.name=gossip"], "sends no pushes"),
                (["data.micro_batch=4"], "added up in pieces has no two"),
                (["compute.device=cuda"], "copies in host memory alone"),
                (["codec.error_feedback=true"], "codec.error_feedback belongs to codec.push"),
                (["codec.params=factors"], "codec.params")):
            with self.subTest(" ".join(sets)):
                done = subprocess.run([cluster_test.TROUPE, "check", self.path("job.toml", JOB), *self.SETS, *as_sets(sets)],
                                      capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(words, done.stderr)


class Budget(CodecsTest):
    """A whole push takes 170 ms of it, and every clock ten."""
    JOB = JOB.replace("linear 32 relu", "linear 256 relu")
    SETS = as_sets([*BUDGET, "protocol.bound=32", "optimizer.momentum=0", "cluster.shards=2", "inject.step_ms=10", "stop.steps=600"])

    @staticmethod
    def used(pushed, seconds):
        return pushed / (4 * 20e6 / 8 * seconds)

    def test_each_worker_pushes_what_it_allows(self):
        for nodes in ("2", "4"):
            with self.subTest(nodes=nodes):
                # What a worker saves while it waits for a processor is no more than a whole push.
                ran = self.run_undisturbed(lambda ran: self.used(ran["bytes_push"], ran["seconds"]) > 0.95, *self.SETS, "--nodes", nodes, job=self.JOB)
                self.assertEqual(ran["steps"], 600)
                self.assertAlmostEqual(self.used(ran["bytes_push"], ran["seconds"]), 1, delta=0.05)
                self.assertGreater(ran["test_accuracy"], 0.2, ran)

    def test_and_in_virtual_time(self):
        simulated = self.simulated(*self.SETS, job=self.JOB)
        parameters = 4 * (784 * 256 + 256 + 2570)
        self.assertAlmostEqual(self.used(simulated["bytes_sent"] - (600 + 4) * parameters, simulated["virtual_seconds"]), 1, delta=0.05)
        self.assertGreater(simulated["test_accuracy"], 0.2, simulated)

    def test_on_the_command_line_it_takes_the_place_of_a_density_and_that_its(self):
        for kept, chosen in (("density = 0.1", "budget_mbit=20"), ("budget_mbit = 20", "density=0.1")):
            job = self.path("job.toml", JOB + f'[protocol]\nname = "ssp"\n[codec]\npush = "topk"\n{kept}\n')
            done = subprocess.run([cluster_test.TROUPE, "check", job, "--set", f"codec.{chosen}"], capture_output=True, text=True,
                                  timeout=cluster_test.DEADLINE_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"codec.{kept} is left out: --set codec.{chosen.split('=')[0]} takes its place", done.stdout + done.stderr)

    def test_who_comes_back_begins_anew(self):
        ran = self.run_job(*self.SETS, "--nodes", "3", "--fault", "crash=worker:1,at_s=0.5", job=self.JOB)
        self.assertEqual(ran["steps"], 600)


class Simulated(CodecsTest):
    def test_a_simulation_computes_what_a_run_does(self):
        self.expect_of_a_simulation_what_a_run_does(["--set", f"codec.push={codec}"] for codec in ("none", *CODECS))

    def test_an_emulated_link_takes_the_bytes_of_the_codes(self):
        """8 rounds of four pushes to one shard; parameters come back as they were. So slow a link leaves room for a loaded machine."""
        link = ["--set", "inject.link.mbit=10", "--set", "inject.step_ms=1", "--set", "stop.steps=8"]
        for way in (["codec.push=none"], ["codec.push=onebit"], ["codec.push=factors"], *SPARSE.values()):
            with self.subTest(" ".join(way)):
                simulated = self.simulated(*as_sets(way), *link)["virtual_seconds"]
                ran = self.run_undisturbed(lambda ran: ran["seconds"] < 1.1 * simulated, *as_sets(way), *link, job=JOB)
                self.assertAlmostEqual(ran["seconds"] / simulated, 1, delta=0.1)
        model, rounds = 4 * 25456, 8
        plain, few = self.simulated(*link), self.simulated("--set", "codec.push=onebit", *link)
        self.assertAlmostEqual((plain["bytes_sent"] - few["bytes_sent"]) / (rounds * 4 * model * (1 - 1 / 28.44)), 1, delta=0.01)


class Compared(CodecsTest):
    def compare(self, codecs, *arguments, job=JOB):
        return subprocess.run([cluster_test.TROUPE, "compare", self.path("job.toml", job), "--codecs", codecs, *arguments],
                              capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)

    def runs_of(self, codecs, *arguments, job=JOB):
        done = self.compare(codecs, "--quiet", "--json", *arguments, job=job)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])["runs"]

    def test_each_row_is_a_run_with_that_codec(self):
        labels = ["none", "int8", "onebit", "onebit:error_feedback=false"]
        runs = self.runs_of(",".join(labels), "--nodes", "2")
        self.assertEqual([run["label"] for run in runs], labels)
        self.assertEqual([run["config"]["codec"]["push"] for run in runs], ["none", "int8", "onebit", "onebit"])
        alone = [self.encoded(*sets, "--nodes", "2") for sets in (
            ["none"], ["int8"], ["onebit"], ["onebit", "--set", "codec.error_feedback=false"])]
        self.assertEqual([run["weights_digest"] for run in runs], [run["weights_digest"] for run in alone])
        self.assertGreater(runs[0]["bytes_push"], 25 * runs[2]["bytes_push"])

    def test_they_win_over_the_job_and_what_belonged_to_its_own_is_left_out(self):
        job = JOB + '[codec]\npush = "onebit"\nerror_feedback = false\n'
        none, int4 = (run["config"]["codec"] for run in self.runs_of("none,int4", job=job))
        self.assertEqual((none["push"], none["error_feedback"]), ("none", None))
        self.assertEqual(int4["error_feedback"], False, "the job's own")

    def test_virtual_time_has_values_and_bytes_of_codes(self):
        link = ["--set", "inject.link.mbit=40", "--set", "inject.step_ms=1"]
        ran = {run["label"]: run for run in self.runs_of("none,onebit", "--simulate", *link)}
        for codec, run in ran.items():
            simulated = self.simulated("--set", f"codec.push={codec}", *link)
            self.assertEqual([run[key] for key in ("virtual_seconds", "train_loss", "bytes_sent")],
                             [simulated[key] for key in ("virtual_seconds", "train_loss", "bytes_sent")])
        self.assertGreater(ran["none"]["virtual_seconds"], 1.5 * ran["onebit"]["virtual_seconds"])
        table = self.compare("none,onebit", "--simulate", *link).stdout.splitlines()
        self.assertRegex(table[0], "^codec +time")
        self.assertRegex(table[2], "^onebit +")

    def test_every_wrong_codec_is_named_before_anything_runs(self):
        wrong = self.compare("int9,int8:x,int8:=1,int8:steps=3,none:,none", "--nodes", "2")
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))
        lines = wrong.stderr.splitlines()
        self.assertEqual([line.split(": ")[0] for line in lines],
                         [f"--codecs {label}" for label in ("int9", "int8:x", "int8:=1", "int8:steps=3", "none:")], lines)
        self.assertIn('did you mean "int8"?', lines[0])
        self.assertIn("is not key=value", lines[1])
        self.assertIn("is not key=value", lines[2])
        self.assertIn("codec.steps", lines[3])
        self.assertIn("empty part", lines[4])

    def test_what_the_protocol_does_not_take_is_its_row_s(self):
        done = self.compare("none,fp16,onebit", "--set", "protocol.name=easgd")
        self.assertEqual(done.returncode, 2)
        [line] = done.stderr.splitlines()
        self.assertTrue(line.startswith("--codecs onebit: codec.push = \"onebit\" does not go with"), line)

    def test_one_list_is_compared(self):
        both, none, empty, twice = (self.compare(*words).stderr for words in (
            ("none", "--protocols", "sync"), ("",), ("none,",), ("none,none",)))
        self.assertIn("--protocols excludes --codecs", both)
        self.assertIn("--protocols or --codecs is required", none)
        self.assertIn("write --codecs none,onebit", empty)
        self.assertIn("--codecs none: is listed twice", twice)


class Measured(CodecsTest):
    def test_the_benchmark_has_every_codec_beside_a_copy(self):
        done = subprocess.run([cluster_test.TROUPE, "bench", "codecs", "--tiny", "--json"], capture_output=True, text=True,
                              timeout=cluster_test.DEADLINE_S, check=True)
        rows = json.loads(done.stdout)["codecs"]
        self.assertEqual([row["codec"] for row in rows], [*CODECS, "sparse_bf16", "factors"])
        self.assertEqual(list(rows[0]), ["codec", "bytes", "bytes_ratio", "encode_gbps", "feedback_gbps", "add_gbps", "copy_gbps"])
        for row, ratio in zip(rows, (2, 2, 4 / (1 + 4 / 256), 4 / (1 / 2 + 4 / 256), 32 / (1 + 8 * 8 / 512))):
            self.assertAlmostEqual(row["bytes_ratio"], ratio, places=6)
        self.assertGreater(rows[-2]["bytes_ratio"], 500, rows[-2])
        self.assertAlmostEqual(rows[-1]["bytes_ratio"], 4 * 128 * 128 / (16 + 4 * 16 * (128 + 128)), places=6)
        self.assertIsNone(rows[-1].pop("feedback_gbps"), "they lose nothing")
        for row in rows:
            self.assertGreater(min(row[key] for key in row if key.endswith("gbps")), 0, row)


if __name__ == "__main__":
    cluster_test.main()
