#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is installed is enough: copies of the examples are built against a scratch prefix alone, and run.

usage: install_test.py BUILD_DIR [unittest arguments]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import bootstrap_test
import cluster_test

BUILD = None
DEADLINE_S = 280


def call(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=DEADLINE_S, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


class Installed(bootstrap_test.BootstrapTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="troupe-install-")
        cls.addClassCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        cls.prefix = root / "prefix"
        call("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.examples = root / "examples"
        shutil.copytree(cls.prefix / "share/troupe/examples", cls.examples)
        # One project of all three, so that what they need is found once. Nothing of the tree is on its paths.
        (cls.examples / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(all LANGUAGES CXX)\n"
            "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)\n"
            + "".join(f"add_subdirectory({name})\n" for name in ("custom_model", "custom_protocol", "ps_client")), encoding="utf-8")
        cls.built = root / "built/bin"
        launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache')}"] if shutil.which("ccache") else []
        call("cmake", "-G", "Ninja", "-S", cls.examples, "-B", root / "built", f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_BUILD_TYPE=Release",
             *launcher, env=os.environ | {"CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1"})
        call("cmake", "--build", root / "built", "--parallel", "2", env=os.environ | {"CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1"})
        cluster_test.TROUPE = str(cls.prefix / "bin/troupe")

    def example(self, program, *arguments, code=0):
        job = self.examples / program / {"custom_model": "spirals.toml", "custom_protocol": "portion.toml"}[program]
        done = subprocess.run([self.built / program, arguments[0], job, *arguments[1:]], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout.splitlines()[-1]) if code == 0 and "--json" in arguments else done.stdout + done.stderr

    def test_the_program_itself_is_installed(self):
        self.assertIn("troupe", call(self.prefix / "bin/troupe", "version"))
        self.assertIn("nothing is wrong", call(self.prefix / "bin/troupe", "check", self.prefix / "share/troupe/config/quickstart.toml"))

    def test_nothing_that_is_installed_names_the_build_tree(self):
        for path in (self.prefix / "lib/cmake").rglob("*.cmake"):
            self.assertNotIn(str(pathlib.Path(BUILD).resolve()), path.read_text(encoding="utf-8"), path)

    def test_a_model_and_data_of_ones_own_learn(self):
        result = self.example("custom_model", "run", "--quiet", "--json")
        self.assertEqual(result["nodes"], 2)  # the other one is a child of the same program
        self.assertGreater(result["test_accuracy"], 0.95)
        self.assertEqual([result["config"]["data"]["arms"], result["config"]["data"]["noise"]], [3, 0.03])
        self.assertEqual(result["config"]["model"]["width"], 64)
        one = self.example("custom_model", "run", "--quiet", "--json", "--nodes", "1")
        self.assertEqual(one["weights_digest"], result["weights_digest"])

    def test_parameters_of_ones_own_are_checked_as_all_keys_are(self):
        for setting, complaint in [("model.widht=3", r"unknown key model\.widht; did you mean model\.width\?"),
                                   ("data.arms=1", r"data\.arms = 1 must be a whole number of at least 2"),
                                   ("model.kind=tapred", r'did you mean "tapered"\?'),
                                   ("model.narrowest=65", r"spirals\.toml:\d+:\d+: model\.narrowest is more than model\.width"),
                                   ("data.label_noise=0.5", r"data\.label_noise belongs to data\.source")]:
            with self.subTest(setting):
                self.assertRegex(self.example("custom_model", "check", "--set", setting, code=2), complaint)
        self.assertRegex(call(self.built / "custom_model", "check", "--keys"), r'with kind = "tapered": .*\n  width ')

    def test_a_protocol_of_ones_own_runs_and_is_simulated(self):
        result = self.example("custom_protocol", "run", "--quiet", "--json")
        self.assertEqual([result["protocol"], result["nodes"]], ["portion", 2])
        self.assertGreater(result["discarded"], 0)  # the straggler's
        self.assertGreater(result["test_accuracy"], 0.8)
        quick, thorough = (self.example("custom_protocol", "simulate", "--json", "--set", f"protocol.share={share}") for share in (0.75, 1))
        self.assertGreater(quick["discarded"], 0)
        self.assertEqual(thorough["discarded"], 0)
        self.assertLess(quick["virtual_seconds"], thorough["virtual_seconds"])
        self.assertRegex(call(self.built / "custom_protocol", "protocols"), r"portion: .*\n.*\n.*\n  protocol\.share = 0\.75: ")

    def test_a_cluster_of_another_program_says_what_it_lacks(self):
        job = str(self.examples / "custom_model/spirals.toml")
        refused = subprocess.run([cluster_test.TROUPE, "check", job], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertRegex(refused.stderr, r'data\.source = "spirals" is not known')
        self.assertRegex(refused.stderr, r'model\.kind = "tapered" is not known')
        self.cluster("ab")  # of plain nodes
        submitted = subprocess.run([self.built / "custom_model", "run", job, "--cluster", self.file, "--quiet"], capture_output=True,
                                   text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(submitted.returncode, 1)
        self.assertIn('the cluster\'s program has no model "tapered", no data source "spirals"', submitted.stderr)
        result, _ = self.result_of(self.submit("--json", "--nodes", "2"))  # and is none the worse for it
        self.assertEqual(result["nodes"], 2)

    def test_a_node_of_another_program_is_told_what_it_lacks(self):
        plain = cluster_test.TROUPE
        self.addCleanup(setattr, cluster_test, "TROUPE", plain)
        cluster_test.TROUPE = str(self.built / "custom_protocol")
        self.node("a", wait="coordinator of")
        cluster_test.TROUPE = plain
        stranger = self.node("b", wait='this cluster\'s program has a protocol "portion", which that of node "b" lacks')
        self.assertEqual(stranger.wait(DEADLINE_S), 1)
        cluster_test.TROUPE = str(self.built / "custom_protocol")
        self.node("b", wait="joined")

    def test_an_actor_of_ones_own_reads_the_parameters_from_shards_on_two_nodes(self):
        self.cluster()
        run = self.submit("--set", "cluster.shards=2", "--set", "cluster.placement=colocated", job=cluster_test.ENDLESS)
        self.wait_for_line(run, "^step ")
        said = call(self.built / "ps_client", self.file, "4")
        shards = re.findall(r"shard (\d) on node (\w): parameters (\d+) to (\d+) of job small", said)
        self.assertEqual([shard[0] for shard in shards], ["0", "1"])
        self.assertEqual(len({shard[1] for shard in shards}), 2, "on two nodes")
        self.assertEqual(shards[0][3], shards[1][2])
        versions = [int(version) for version in re.findall(r"(?m)^version (\d+)", said)]
        self.assertEqual(len(versions), 4)
        self.assertEqual(versions, sorted(versions))
        self.assertGreater(versions[-1], versions[0])
        moved = re.findall(r"; (\S+) ([\d.]+) moved ([\d.]+)", said.splitlines()[-1])
        self.assertEqual([name for name, _, _ in moved][::2], ["linear1.weight", "linear2.weight", "linear3.weight"])
        self.assertTrue(all(float(norm) > 0 for _, norm, _ in moved))
        self.assertTrue(any(float(distance) > 0 for _, _, distance in moved))


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
