#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# `troupe compare`: a job under several protocols. Usage: compare_test.py TROUPE SOURCE_DIR [unittest arguments].
import os
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from cli_test import SMALL, TROUPE, Case, last_json, troupe


class Compare(Case):
    def compare(self, protocols, *arguments, job=None):
        done = troupe("compare", job or self.job, "--protocols", protocols, "--quiet", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done)
        return last_json(done)["runs"]

    def test_each_run_has_its_label_the_keys_of_run_and_a_curve(self):
        several = ["--set", "cluster.workers=2", "--set", "evaluate.every_samples=64", "--set", "data.batch=16"]
        runs = self.compare("sync,sync:fan_in=2", *several)
        self.assertEqual([run["label"] for run in runs], ["sync", "sync:fan_in=2"])
        self.assertEqual([run["config"]["protocol"]["fan_in"] for run in runs], [0, 2])
        keys = set(last_json(troupe("run", self.job, "--quiet", "--json", *several)))
        for run in runs:
            self.assertEqual(set(run) - {"label", "curve"}, keys)
            self.assertIsNone(run["error"])
            self.assertGreaterEqual(len(run["curve"]), 3)
            self.assertEqual(run["curve"][-1][1:], [run["train_loss"], run["test_accuracy"]])
            seconds = [point[0] for point in run["curve"]]
            self.assertEqual(seconds, sorted(seconds))

    def test_parameters_follow_a_protocols_name(self):
        runs = self.compare("local,local:steps=2", "--set", "protocol.local.steps=3", "--set", "data.batch=16")
        self.assertEqual([run["config"]["protocol"]["steps"] for run in runs], [3, 2])
        self.assertEqual([run["communication_period"] for run in runs], [3, 2])

    def test_a_comparison_of_one_is_a_run(self):
        alone = last_json(troupe("run", self.job, "--quiet", "--json", "--seed", "3"))
        self.assertEqual(self.compare("sync", "--seed", "3")[0]["weights_digest"], alone["weights_digest"])

    def test_people_read_a_table_with_a_row_a_protocol(self):
        done = troupe("compare", self.job, "--protocols", "sync,sync:fan_in=2", "--set", "stop.target_accuracy=0.2")
        self.assertEqual(done.returncode, 0, done)
        head, *rows = done.stdout.splitlines()
        self.assertRegex(head, r"^protocol +to 0.2 +relative +train loss +accuracy +steps +steps/s +sent +staleness mean/max$")
        self.assertRegex(rows[0], r"^sync +\d+\.\d\d s +1\.00 +\d")
        self.assertRegex(rows[1], r"^sync:fan_in=2 +\d+\.\d\d s +\d+\.\d\d +\d")
        self.assertIn("compare: sync:fan_in=2 (2 of 2)", done.stderr)

    def test_the_plot_is_xml_that_names_every_protocol(self):
        plot = self.folder / "loss.svg"
        self.compare("sync,sync:fan_in=2", "--plot", plot, "--set", "name=a < b", "--set", "stop.target_accuracy=0.2")
        root = xml.etree.ElementTree.parse(plot).getroot()
        texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("a < b", texts)
        for label in ("sync", "sync:fan_in=2"):
            self.assertEqual(texts.count(label), 2, texts)  # at the end of a curve in each of the two panels
            self.assertEqual(sum(text.startswith(label + ": 0.2 after ") for text in texts), 1, texts)

    def test_every_wrong_protocol_is_named_before_anything_runs(self):
        lines = self.refused("compare", self.job, "--protocols", "snyc,sync:fan_in=1,sync:fanin=2,sync:fan_in,sync").splitlines()
        self.assertEqual([line.split(": ")[0] for line in lines],
                         [f"--protocols {label}" for label in ("snyc", "sync:fan_in=1", "sync:fanin=2", "sync:fan_in")])
        self.assertIn('did you mean "sync"?', lines[0])
        self.assertIn("at least 2", lines[1])
        self.assertIn("did you mean protocol.fan_in?", lines[2])
        self.assertIn("parameters follow the name", lines[3])
        self.assertIn("listed twice", self.refused("compare", self.job, "--protocols", "sync,sync"))
        self.assertIn("between two commas", self.refused("compare", self.job, "--protocols", "sync,"))

    def test_a_broken_job_is_refused_once(self):
        bad = self.write("bad.toml", SMALL + "epoch = 3\n")
        self.assertEqual(len(self.refused("compare", bad, "--protocols", "sync,sync:fan_in=2").splitlines()), 1)

    def test_tables_of_the_job_are_the_base_of_the_protocol_that_they_name(self):
        job = self.write("tables.toml", SMALL + "[cluster]\nworkers = 2\n[protocol.sync]\nfan_in = 2\n")
        runs = self.compare("sync,sync:fan_in=0", job=job)
        self.assertEqual([run["config"]["protocol"]["fan_in"] for run in runs], [2, 0])

    def test_a_run_that_fails_does_not_stop_the_others(self):
        environment = {**os.environ, "TMPDIR": str(self.folder / "nowhere")}  # where a cluster of processes keeps its file
        done = subprocess.run([TROUPE, "compare", self.job, "--protocols", "sync,sync:fan_in=2", "--nodes", "2", "--quiet", "--json"],
                              capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual(done.returncode, 1, done)
        runs = last_json(done)["runs"]
        self.assertEqual([run["label"] for run in runs], ["sync", "sync:fan_in=2"])
        for run in runs:
            self.assertIn("TMPDIR", run["error"])
            self.assertEqual(run["curve"], [])

    def test_what_a_comparison_cannot_do_is_refused(self):
        self.assertIn("--protocols", self.refused("compare", self.job))
        folder = self.folder / "folder.svg"
        folder.mkdir()
        self.assertIn("--plot: ", self.refused("compare", self.job, "--protocols", "sync", "--plot", folder))
        self.assertIn("loss.png is not the name of an SVG file; let it end in .svg",
                      self.refused("compare", self.job, "--protocols", "sync", "--plot", self.folder / "loss.png"))
        self.assertIn("only `troupe simulate`", self.refused("compare", self.job, "--protocols", "sync", "--fault", "loss=0.1"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
