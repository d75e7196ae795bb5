#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The built program as people run it: help, exit codes, messages, JSON. Usage: cli_test.py TROUPE SOURCE_DIR [unittest arguments].
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

TROUPE, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
COMMANDS = ["run", "attach", "evaluate", "generate", "predict", "node", "console", "check", "simulate", "replay", "compare", "bench", "certs", "checkpoint", "weights", "devices", "protocols", "version"]

SMALL = """
[data]
train_samples = 200
test_samples = 100
[model]
layers = ["flatten", "linear 10"]
[stop]
epochs = 1
"""


def troupe(*arguments):
    return subprocess.run([TROUPE, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def last_json(done):
    """The object on the last line of stdout."""
    return json.loads(done.stdout.rstrip("\n").split("\n")[-1])


def write_safetensors(path, tensors):
    """`tensors`: name -> (shape, floats)."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    """-> header, {name: bytes}."""
    raw = path.read_bytes()
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:begin])
    return header, {name: raw[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]
                    for name, entry in header.items() if name != "__metadata__"}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.job = self.write("job.toml", SMALL)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def refused(self, *arguments):
        """Runs what must be refused before anything starts; returns stderr."""
        done = troupe(*arguments)
        self.assertEqual(done.returncode, 2, done)
        self.assertNotEqual(done.stderr, "")
        return done.stderr


class Help(Case):
    def test_every_subcommand_has_help_with_an_example(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                done = troupe(command, "--help")
                self.assertEqual(done.returncode, 0, done)
                self.assertIn(f"Example:\n  troupe {command}", done.stdout)
                self.assertEqual(done.stderr, "")

    def test_the_program_lists_every_subcommand(self):
        done = troupe("--help")
        self.assertEqual(done.returncode, 0)
        for command in COMMANDS:
            self.assertRegex(done.stdout, rf"(?m)^  {command} ")


class Usage(Case):
    def test_no_subcommand_is_wrong_usage(self):
        self.assertIn("troupe --help", self.refused())

    def test_a_misspelt_subcommand_is_named_with_a_likely_one(self):
        self.assertIn("did you mean check?", self.refused("chekc", self.job))

    def test_an_unknown_flag_is_named_with_a_likely_one(self):
        message = self.refused("run", self.job, "--ndoes", "3")
        self.assertIn("--ndoes", message)
        self.assertIn("did you mean --nodes?", message)

    def test_what_is_missing_is_named(self):
        self.assertIn("job", self.refused("run"))
        self.assertIn("job", self.refused("check"))
        self.assertIn("--weights", self.refused("evaluate", self.job))
        self.assertIn("--name", self.refused("node", self.job))

    def test_bench_measures_only_what_it_knows(self):
        self.assertIn("kernels", self.refused("bench", "everything"))
        self.assertIn("wide", self.refused("bench", "step", "--model", "vgg"))
        self.assertIn("cuda:7", self.refused("bench", "kernels", "--backend", "cuda:7"))

    def test_bench_prints_the_documented_keys(self):
        [ops] = last_json(troupe("bench", "kernels", "--tiny", "--json")).values()
        self.assertEqual(list(ops[0]), ["op", "shape", "arithmetic", "gflops", "gbps", "reference_ratio"])
        self.assertIn("adamw", [row["op"] for row in ops])
        keys = ["model", "batch", "predictions_per_sample", "precision", "gflops", "prepared_samples_per_s", "direct_samples_per_s",
                "actors_samples_per_s", "ratio"]
        step = last_json(troupe("bench", "step", "--tiny", "--batch", 4, "--json"))
        self.assertEqual((list(step), step["model"], step["batch"]), (keys, "mlp", 4))
        self.assertAlmostEqual(step["ratio"], step["actors_samples_per_s"] / step["direct_samples_per_s"], places=9)
        sums = last_json(troupe("bench", "collectives", "--tiny", "--procs", 3, "--algorithm", "ring", "--json"))
        self.assertEqual((sums["procs"], [(row["algorithm"], row["bytes"]) for row in sums["rows"]]), (3, [("ring", 4096), ("ring", 65536)]))
        self.assertEqual(list(sums["rows"][0]), ["algorithm", "bytes", "us", "bus_gbps", "bare_us", "bare_bus_gbps"])
        result = last_json(troupe("bench", "actors", "--tiny", "--json"))
        self.assertEqual(result["actors"], 2 * 1500 + 3)  # and the nodes
        self.assertGreater(min(result["spawn_per_s"], result["snapshot_ms"], result["job_steps_per_s"]), 0)
        # How much is lost is for a quiet machine to say. What one look costs anywhere is in inspection_test.cpp: a message to each actor.
        self.assertTrue(math.isfinite(result["inspect_overhead"]), result)
        models = result["models"]
        self.assertEqual([row["model"] for row in models], ["mlp", "mnist-cnn"])
        self.assertTrue(all(list(row) == keys and row["ratio"] > 0 for row in models), models)
        for row in models:
            self.assertAlmostEqual(row["ratio"], row["actors_samples_per_s"] / row["direct_samples_per_s"], places=9)

    def test_a_set_takes_one_value_and_leaves_the_job_file_alone(self):
        done = troupe("check", "--set", "data.batch=8", "--set", "seed=3", self.job, "--json")
        self.assertEqual(done.returncode, 0, done)

    def test_a_number_that_is_none_is_refused_in_words(self):
        for flag, value, expected in (("--steps", "0", "a whole number above 0"), ("--steps", "abc", "a whole number above 0"),
                                  ("--seconds", "-1", "a number of seconds above 0")):
            self.assertIn(f'{flag}: "{value}" is not {expected}; see', self.refused("simulate", self.job, flag, value))
        for port in "abc", "99999", "-1":
            self.assertIn(f'"{port}" is not a port', self.refused("run", self.job, "--listen", port))

    def test_a_flag_without_meaning_is_refused(self):
        for arguments in (["bench", "lanes", "--model", "mlp"], ["bench", "kernels", "--batch", "8"], ["bench", "lanes", "--procs", "3"],
                          ["bench", "codecs", "--algorithm", "ring"], ["bench", "collectives", "--backend", "cuda:0"]):
            message = self.refused(*arguments)
            self.assertIn(arguments[-2], message)
        self.assertIn("--sockets is for `bench collectives`", self.refused("bench", "lanes", "--sockets"))

    def test_a_key_as_a_flag_is_named_with_its_set(self):
        for arguments, hint in ((["--workers", "4"], "--set cluster.workers=4"), (["--worker", "4"], "--set cluster.workers=4"),
                                (["--batch=32"], "--set data.batch=32"), (["--hidden"], "--set model.hidden=VALUE"),
                                (["--train-samples", "9"], "--set data.train_samples=9 or --set evaluate.train_samples=9"),
                                (["--bound", "3"], "--set protocol.bound=3")):
            message = self.refused("run", self.job, *arguments)
            self.assertIn(f"troupe: not expected: {' '.join(arguments)}; did you mean {hint}?", message)
        self.assertNotIn("--set", self.refused("bench", "step", "--workers", "4"))

    def test_commands_that_take_a_job_take_its_flags(self):
        plain = last_json(troupe("check", self.job, "--json"))
        flags = last_json(troupe("check", self.job, "--seed", "9", "--nodes", "2", "--json"))
        values = {v["key"]: (v["value"], v["from"]) for v in flags["values"]}
        self.assertEqual((values["seed"], values["cluster.nodes"]), ((9, "--seed"), (2, "--nodes")))
        self.assertEqual(plain["notes"], [])
        self.assertIn("--nodes: cluster.nodes = 0 is out of range", self.refused("check", self.job, "--nodes", "0"))
        for command in (["evaluate", self.job, "--weights", "none"], ["compare", self.job, "--protocols", "sync"]):
            self.assertIn("--seed: seed = -1 is out of range", self.refused(*command, "--seed", "-1", "--nodes", "2"))

    def test_nodes_do_no_harm_to_a_simulation(self):
        done = troupe("compare", self.job, "--protocols", "sync", "--simulate", "--nodes", "2", "--quiet", "--set", "inject.step_ms=1")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("--nodes: note: --simulate starts no process", done.stderr)

    def test_a_misspelt_path_is_named_with_a_likely_one(self):
        likely = self.write("quickstart.toml", "")
        missing = likely.with_name("quikstart.toml")
        self.assertEqual(self.refused("check", missing), f"{missing}: there is no such file; did you mean {likely}?\n")

    def test_a_file_for_a_folder_of_data_is_called_that(self):
        images = self.write("train-images-idx3-ubyte", "")
        message = self.refused("check", self.job, "--set", "data.source=idx", "--set", f"data.path={images}")
        self.assertIn(f"--set data.path: {images}: a file, and source = \"idx\" reads a folder; did you mean {os.path.dirname(images)}?", message)

    def test_what_was_left_out_is_said_by_all_and_listed_by_check(self):
        note = 'note: optimizer.momentum = 0.5 is left out: it belongs to optimizer.name = "sgd" or "lars", and --set optimizer.name is "adamw"'
        job = self.write("momentum.toml", SMALL + "[optimizer]\nmomentum = 0.5\n")
        for command in (["check", job], ["simulate", job], ["compare", job, "--protocols", "sync", "--simulate", "--quiet"]):
            done = troupe(*command, "--set", "optimizer.name=adamw", "--json")
            self.assertEqual((done.returncode, done.stderr.count(note)), (0, 1), done)
            if command[0] == "check":
                self.assertEqual([f"{each['where']}: note: {each['what']}" for each in last_json(done)["notes"]], [f"{job}:{SMALL.count(chr(10)) + 2}:12: {note}"])

    def test_what_other_programs_understand(self):
        self.assertRegex(troupe("--version").stdout, r"^troupe \d+\.\d+\.\d+\n$")
        self.assertEqual(troupe("help").stdout, troupe("--help").stdout)
        self.assertEqual(troupe("help", "certs", "issue").stdout, troupe("certs", "issue", "--help").stdout)
        self.assertIn("there is no command rnu; did you mean run?", self.refused("rnu"))

    def test_a_set_without_a_key_is_refused(self):
        self.assertIn("is not key=value", self.refused("check", self.job, "--set", "batch"))

    def test_nodes_and_seed_are_checked_like_the_keys_they_stand_for(self):
        message = self.refused("run", self.job, "--nodes", "many", "--seed", "-1")
        self.assertIn('--nodes: cluster.nodes = "many" is a text; it takes a whole number from 1 to 1024', message)
        self.assertIn("--seed: seed = -1 is out of range", message)

    def test_what_comes_later_says_so(self):
        self.assertIn("needs HOST:PORT", self.refused("console", "-c", "ps"))


class Resume(Case):
    def test_a_checkpoint_that_is_not_there_is_refused(self):
        nowhere = self.folder / "nowhere"
        self.assertEqual(self.refused("run", self.job, "--resume", nowhere),
                         f"--resume: there is no folder {nowhere}; name a checkpoint, or the checkpoint.dir of a run\n")
        self.assertEqual(self.refused("run", self.job, "--resume", self.folder),
                         f"--resume: {self.folder} has no checkpoint, such as {self.folder}/step-100\n")
        nowhere.with_name("step-4").mkdir()
        self.assertRegex(self.refused("run", self.job, "--resume", self.folder / "step-4"), rf"^--resume: {self.folder}/step-4 cannot be used: .+\n$")

    def test_it_has_the_parameters_that_the_job_would_begin_with(self):
        job = self.write("zeros.toml", SMALL.replace("[stop]", 'init = "absent.safetensors"\n[stop]'))
        said = self.refused("run", job, "--resume", self.folder)
        self.assertIn(f'{job}:7:1: note: model.init = "absent.safetensors" is left out: --resume does without it\n', said)

    def test_it_is_for_runs_alone_and_takes_a_name(self):
        self.assertIn("not expected: --resume", self.refused("simulate", self.job, "--resume", self.folder))
        self.assertIn('"" is not a name of a folder', self.refused("run", self.job, "--resume", ""))

    def test_compare_writes_no_checkpoints(self):
        kept = self.folder / "kept"
        job = self.write("kept.toml", f'[checkpoint]\ndir = "{kept}"\nevery_steps = 1\n{SMALL}')
        done = troupe("compare", job, "--protocols", "sync,async", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f'{job}:2:1: note: checkpoint.dir = "{kept}" is left out: compare does without it\n', done.stderr)
        self.assertFalse(kept.exists())


class Inject(Case):
    def test_specs_are_checked_like_the_tables_they_stand_for(self):
        message = self.refused("run", self.job, "--straggler", "worker=1,factor=5", "--link", "speed=3")
        self.assertIn("--straggler worker=1,factor=5: inject.straggler.worker names worker 1 and there is 1", message)
        self.assertIn("--link speed=3: unknown key inject.link.speed; there are latency_ms, mbit", message)

    def test_specs_add_up_and_are_listed(self):
        report = last_json(troupe("check", self.job, "--straggler", "factor=2", "--straggler", "dist=pareto", "--json"))
        values = {v["key"]: (v["value"], v["from"]) for v in report["values"]}
        self.assertEqual(values["inject.straggler"], (["factor=2", "dist=pareto"], "--straggler"))

    def test_a_run_refuses_what_only_the_simulator_plays(self):
        for spec in ("pause=worker:0,at_s=1,for_s=1", "crash=worker:0,at_s=1,back_after_s=1", "loss=0.1"):
            with self.subTest(spec=spec):
                message = self.refused("run", self.job, "--fault", spec)
                self.assertTrue(message.startswith(f"--fault {spec}: "), message)
                self.assertIn("only `troupe simulate` plays this", message)


class Simulate(Case):
    TIMED = ["--set", "inject.step_ms=100"]

    def simulate(self, *arguments, job=None):
        done = troupe("simulate", job or self.job, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done)
        return last_json(done)

    def test_the_documented_keys_are_there(self):
        keys = ("job protocol workers seed virtual_seconds wall_seconds events steps gradients discarded staleness_mean "
                "staleness_max train_loss time_to_target_s bytes_sent faults trace_digest")
        self.assertLessEqual(set(keys.split()), set(self.simulate()))

    def test_a_seed_repeats_its_digest_and_another_has_another(self):
        jitter = [*self.TIMED, "--workers", "3", "--straggler", "dist=jitter,spread=0.3"]
        first, again, other = (self.simulate(*jitter, "--seed", seed) for seed in ("1", "1", "2"))
        self.assertEqual(first["trace_digest"], again["trace_digest"])
        self.assertNotEqual(first["trace_digest"], other["trace_digest"])

    def test_virtual_time_is_counted_by_hand(self):
        # Three steps of 0.1 s, each with 10 ms there and 10 ms back; a fourth, of the last 8 of 200 samples, takes an eighth.
        link = ["--link", "latency_ms=10"]
        self.assertAlmostEqual(self.simulate(*self.TIMED, *link, "--steps", "3")["virtual_seconds"], 3 * 0.12, places=6)
        self.assertAlmostEqual(self.simulate(*self.TIMED, *link, "--steps", "4")["virtual_seconds"], 3 * 0.12 + 0.0325, places=6)

    def test_the_model_learns_what_a_real_run_does(self):
        several = ["--set", "cluster.workers=2", "--set", "data.batch=16", "--set", "stop.epochs=2"]
        for protocol in ("sync", "local", "coded"):
            with self.subTest(protocol):
                chosen = [*several, "--set", f"protocol.name={protocol}"]
                real = last_json(troupe("run", self.job, "--quiet", "--json", *chosen))
                played = self.simulate(*chosen)
                self.assertEqual(played["steps"], real["steps"])
                self.assertAlmostEqual(played["train_loss"], real["train_loss"], places=6)

    def test_one_workers_elastic_averaging_is_that_of_a_real_run(self):
        for momentum in (0, 0.9):
            chosen = ["--set", "protocol.name=easgd", "--set", "protocol.steps=2", "--set", f"protocol.momentum={momentum}",
                      "--set", "cluster.workers=1", "--set", "stop.epochs=2"]
            real = last_json(troupe("run", self.job, "--quiet", "--json", *chosen))
            played = self.simulate(*chosen)
            self.assertEqual(played["steps"], real["steps"])
            self.assertAlmostEqual(played["train_loss"], real["train_loss"], places=6)

    def test_the_quadratic_has_the_jobs_optimizer(self):
        def loss(*sets):
            return self.simulate("--set", "simulate.numerics=quadratic", "--set", "inject.step_ms=10", "--steps", "20",
                                 *(word for one in sets for word in ("--set", one)))["train_loss"]
        plain, momentum = loss(), loss("optimizer.momentum=0.5")
        others = [loss(*sets) for sets in (("optimizer.momentum=0.5", "optimizer.nesterov=true"), ("optimizer.weight_decay=0.1",),
                                           ("optimizer.warmup_epochs=4",), ("optimizer.name=adamw",),
                                           ("optimizer.schedule=step", "optimizer.step_epochs=1", "optimizer.gamma=0.5"))]
        self.assertEqual(len({plain, momentum, *others}), 7)

    def test_the_quadratic_needs_no_data(self):
        played = self.simulate("--set", "simulate.numerics=quadratic", "--set", "data.train_samples=10000000",
                               "--workers", "50", "--steps", "20", *self.TIMED)
        self.assertEqual((played["steps"], played["gradients"]), (20, 1000))

    def test_steps_that_take_no_time_are_said_to(self):
        self.assertIn("--set inject.step_ms=10", troupe("simulate", self.job).stdout)
        self.assertNotIn("--set inject.step_ms", troupe("simulate", self.job, *self.TIMED).stdout)

    def test_a_job_that_virtual_time_never_ends_is_refused(self):
        gossip = ("--set", "protocol.name=gossip", "--link", "latency_ms=30", "--steps", "3")
        for arguments, reason in ((("--set", "stop.epochs=", "--set", "stop.seconds=1"), "steps take no time, so stop.seconds never comes"),
                                  (gossip, "steps take no time and gossip never waits"),
                                  ((*gossip, "--set", "inject.step_ms=0.0001"), "steps take 100 ns and gossip never waits")):
            done = troupe("simulate", self.job, *arguments)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(f"the job failed: {reason}", done.stderr)
            self.assertIn("set inject.step_ms=10", done.stderr)
        self.simulate(*gossip, "--set", "inject.step_ms=1")

    def test_compare_plays_protocols_in_virtual_time(self):
        done = troupe("compare", self.job, "--protocols", "sync,async", "--simulate", "--json", "--quiet", "--set",
                      "cluster.workers=4", *self.TIMED, "--straggler", "worker=1,factor=5")
        sync, async_ = last_json(done)["runs"]
        self.assertGreater(sync["virtual_seconds"], 2 * async_["virtual_seconds"])

    def test_a_job_whose_workers_all_die_fails_with_the_seed(self):
        done = troupe("simulate", self.job, *self.TIMED, "--fault", "crash=worker:0,at_s=0.05")
        self.assertEqual(done.returncode, 1, done)
        self.assertRegex(done.stderr, r"no workers are left.*--seed \d+ repeats it")


class Version(Case):
    def test_version_is_one_line_and_one_object(self):
        done = troupe("version")
        self.assertRegex(done.stdout, r"^troupe \d+\.\d+\.\d+ \(messages [0-9a-f]{8}\) \(.*\)\n$")
        said = last_json(troupe("version", "--json"))
        self.assertRegex(said["version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(said["dialect"], done.stdout.removeprefix("troupe ")[:len(said["dialect"])])


class Lists(Case):
    def test_the_cpu_is_a_device(self):
        cpu = last_json(troupe("devices", "--json"))["devices"][0]
        self.assertEqual(list(cpu), ["name", "detail", "usable", "reason", "memory_bytes", "free_bytes", "capability", "driver"])
        self.assertTrue(0 < cpu["free_bytes"] <= cpu["memory_bytes"])
        self.assertEqual((cpu["name"], cpu["usable"], cpu["reason"]), ("cpu", True, None))
        self.assertIn("cpu", troupe("devices").stdout)

    def test_protocols_are_listed(self):
        listed = last_json(troupe("protocols", "--json"))
        sync = next(p for p in listed["protocols"] if p["name"] == "sync")
        self.assertEqual((sync["per_push"], sync["fan_in"]), (False, True))
        self.assertIn("allreduce", [each["name"] for each in listed["protocols"]])
        self.assertRegex(troupe("protocols").stdout, r"(?m)^sync: ")


class Check(Case):
    def test_a_good_job_prints_every_value_and_where_it_came_from(self):
        done = troupe("check", self.job, "--set", "data.batch=8", "--json")
        self.assertEqual(done.returncode, 0, done)
        report = last_json(done)
        values = {v["key"]: (v["value"], v["from"]) for v in report["values"]}
        self.assertEqual(values["data.batch"], (8, "--set"))
        self.assertEqual(values["data.train_samples"], (200, "job file line 3"))
        self.assertEqual(values["optimizer.lr"], (0.05, "default"))
        self.assertEqual(values["stop.steps"], (None, "not given"))

    def test_cost_and_shapes_are_those_of_the_model(self):
        report = last_json(troupe("check", self.job, "--json"))
        self.assertTrue(report["ok"])
        self.assertEqual(report["model"]["parameters"], 784 * 10 + 10)
        self.assertEqual([p["shape"] for p in report["model"]["shapes"]], [[10, 784], [10]])
        [mean], [deviation] = report["data"].pop("mean"), report["data"].pop("deviation")
        self.assertTrue(0.05 < mean < 0.3 < 4 * deviation < 2, (mean, deviation))  # of pixels / 255, most of them black
        self.assertEqual(report["data"], {"train_samples": 200, "test_samples": 100, "validation_samples": 0, "sample": [1, 28, 28], "classes": 10,
                                          "scaling": "(x - mean) / deviation, one pair a channel, x = pixel / 255"})
        # forward and the gradient of the weights; the input needs none
        self.assertGreaterEqual(report["flops_per_sample"], 2 * 2 * 7840)
        self.assertGreaterEqual(report["memory"]["worker_bytes"], 3 * 4 * 7850)

    def test_what_no_memory_holds_is_refused_with_its_size_and_what_would_help(self):
        large = [self.job, "--set", "data.batch=1048576", "--set", 'model.layers=["flatten", "linear 200000", "linear 10"]']
        for command in "check", "run":
            said = self.refused(command, *large)
            self.assertRegex(said, r"has [0-9.]+ [MGT]B free and the job needs about [0-9.]+ [GT]B: 1 worker of [0-9.]+ [GT]B")
            self.assertIn("a smaller data.batch", said)
        said = troupe("check", *large, "--json")
        self.assertEqual((said.returncode, last_json(said)["ok"]), (2, False))

    def test_memory_is_listed_role_by_role(self):
        memory = last_json(troupe("check", self.job, "--set", "optimizer.momentum=0.9", "--json"))["memory"]
        roles = {role["role"]: role for role in memory["roles"]}
        self.assertEqual(list(roles), ["worker", "shard", "evaluator", "node"])
        self.assertIn({"what": "optimizer", "bytes": roles["shard"]["items"][0]["bytes"] / 2, "on_device": True}, roles["shard"]["items"])
        [host] = memory["devices"]
        self.assertEqual(host["needed_bytes"], sum(r["count"] * (r["device_bytes"] + r["host_bytes"]) for r in memory["roles"]))
        self.assertLess(host["needed_bytes"], host["free_bytes"])

    def test_people_read_the_same(self):
        done = troupe("check", self.job)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"data\.train_samples +job file line 3 +200")
        self.assertIn("nothing is wrong", done.stdout)

    def test_every_problem_is_reported_at_once(self):
        bad = self.write("bad.toml", "[data]\nbacth = 3\nscale = \"x\"\n" + SMALL.replace("[data]\n", ""))
        lines = self.refused("check", bad).splitlines()
        self.assertEqual([line.split(": ")[0] for line in lines], [f"{bad}:2:1", f"{bad}:3:9"])
        report = last_json(troupe("check", bad, "--json"))
        self.assertFalse(report["ok"])
        self.assertEqual([e["where"] for e in report["errors"]], [f"{bad}:2:1", f"{bad}:3:9"])

    def test_a_model_that_does_not_fit_is_named_with_its_place_its_layer_and_the_shape(self):
        bad = self.write("bad.toml", SMALL.replace('"flatten", ', '"flatten", "pool 2", '))
        message = self.refused("check", bad)
        self.assertTrue(message.startswith(f"{bad}:6:10: "), message)
        self.assertIn("pool 2", message)
        self.assertIn("784", message)

    def test_data_that_is_not_there_is_named(self):
        message = self.refused("check", self.job, "--set", "data.source=cifar10", "--set", "data.path=no/such/folder",
                               "--set", "data.train_samples=1")
        self.assertIn("data.train_samples belongs to", message)
        idx = self.write("idx.toml", '[data]\nsource = "idx"\npath = "no/such/folder"\n' + SMALL[SMALL.index("[model]"):])
        message = self.refused("check", idx)
        self.assertTrue(message.startswith(f"{idx}:3:8: "), message)
        self.assertIn("no/such/folder", message)

    def test_a_device_that_is_not_here_is_named(self):
        message = self.refused("check", self.job, "--set", "compute.device=cuda:99")
        self.assertTrue(message.startswith('--set compute.device: compute.device = "cuda:99" cannot be used: '), message)

    def test_weights_to_start_from_must_fit(self):
        path = self.folder / "init.safetensors"
        write_safetensors(path, {"linear1.weight": ([10, 784], [0.5] * 7840), "linear1.bias": ([10], [0.0] * 10)})
        self.assertEqual(troupe("check", self.job, "--set", f"model.init={path}").returncode, 0)
        message = self.refused("check", self.job, "--set", f"model.init={path}",
                               "--set", 'model.layers=["flatten", "linear 16 relu", "linear 10"]')
        self.assertTrue(message.startswith("--set model.init: "), message)
        self.assertIn("linear2.weight", message)
        self.assertIn("--set model.init: ", self.refused("check", self.job, "--set", "model.init=nothing.safetensors"))

    def test_a_cluster_file_says_how_many_nodes_there_are(self):
        node = '[[node]]\nname = "{0}"\nhost = "localhost"\nport = {1}\n'
        lab = self.write("lab.toml", node.format("a", 7070) + node.format("b", 7071) + node.format("c", 7072))
        values = {v["key"]: (v["value"], v["from"]) for v in last_json(troupe("check", self.job, "--cluster", lab, "--json"))["values"]}
        self.assertEqual(values["cluster.nodes"], (3, "--cluster"))
        self.assertEqual(values["cluster.workers"], (2, "cluster.nodes"))
        bad = self.write("bad.toml", node.format("a", 70700))
        self.assertIn(f"{bad}:4:8: ", self.refused("check", self.job, "--cluster", bad))

    def test_copies_of_a_shard_need_nodes_that_may_hold_some(self):
        node = '[[node]]\nname = "{0}"\nhost = "localhost"\nport = {1}\nroles = {2}\n'
        lab = self.write("lab.toml", node.format("a", 7070, '["coordinator", "shard", "worker"]') + node.format("b", 7071, '["shard", "worker"]')
                         + node.format("c", 7072, '["worker"]'))
        sync = ["--cluster", lab, "--set", "protocol.name=sync", "--set"]
        self.assertIn("--set cluster.replicas: cluster.replicas = 3 needs as many nodes that may hold shards, and the cluster has 2 (a, b); "
                      "give at most 2, or give more of its nodes the role shard",
                      self.refused("check", self.job, *sync, "cluster.replicas=3"))
        self.assertEqual(troupe("check", self.job, *sync, "cluster.replicas=2").returncode, 0)

    def test_keys_are_listed_without_a_job(self):
        done = troupe("check", "--keys")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"batch +a whole number from 1 to \d+; default 64")

    def test_keys_are_an_object_for_programs(self):
        keys = {key["key"]: key for key in last_json(troupe("check", "--keys", "--json"))["keys"]}
        self.assertEqual((keys["data.batch"]["default"], keys["stop.epochs"]["default"]), (64, None))
        self.assertIn("whole number", keys["data.batch"]["accepts"])
        told = {key: {name: value for name, value in keys[key].items() if name not in ("key", "accepts", "default", "meaning", "keys")} for key in keys}
        self.assertEqual(told["data.batch"], {"type": "whole", "least": 1, "most": 1 << 20})
        self.assertEqual(told["seed"], {"type": "whole", "least": 0})
        self.assertEqual(told["optimizer.lr"], {"type": "real", "above": 0})
        self.assertEqual(told["optimizer.momentum"], {"type": "real", "least": 0, "below": 1})
        self.assertEqual(told["optimizer.schedule"], {"type": "text", "choices": ["constant", "step", "cosine"]})
        self.assertEqual(told["inject.straggler"], {"type": "tables"})
        self.assertIn(("factor", "real", 1), [(key["key"], key["type"], key.get("least")) for key in keys["inject.straggler"]["keys"]])

    def test_a_precision_that_the_cpu_has_not_is_refused(self):
        message = self.refused("check", self.job, "--set", "compute.precision=bf16")
        self.assertIn('--set compute.precision: compute.precision = "bf16" is for GPUs', message)


class Node(Case):
    def test_a_name_that_the_file_lacks_is_refused(self):
        lab = self.write("lab.toml", '[[node]]\nname = "a"\nhost = "localhost"\nport = 7070\n')
        self.assertIn('it has no node "b"', self.refused("node", lab, "--name", "b"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
