#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a node tells Prometheus: of a running job, under any name, after it was killed; and that the documents say the same.

usage: metrics_test.py TROUPE SOURCE [unittest arguments]
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import DEADLINE_S, ENDLESS, JOB, select_nothing

SOURCE = None
NUMBER = r"[+-]?(?:[0-9][0-9.]*(?:e[+-]?[0-9]+)?|Inf)|NaN"
SERIES = re.compile(rf'([a-z_]+)(?:\{{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\}})? ({NUMBER})')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
PLAIN = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def series_of(text):
    """Name, labels and value of every line that is no comment; None for one that Prometheus would not take."""
    out = []
    for line in text.split("\n")[:-1]:
        if not line.startswith("#"):
            parts = SERIES.fullmatch(line)
            out.append((parts[1], {key: re.sub(r"\\.", lambda escape: PLAIN[escape[0]], value) for key, value in LABEL.findall(parts[2] or "")},
                        float(parts[3])) if parts else None)
    return out


def families_of(text):
    return re.findall(r"(?m)^# TYPE (\S+)", text)


class Metrics(BootstrapTest):
    def setUp(self):
        super().setUp()
        self.ports = {name: self.kept_port() for name in "ab"}
        with open(self.file, encoding="utf-8") as file:
            text = file.read()
        for name, port in self.ports.items():
            text = text.replace(f'name = "{name}"\n', f'name = "{name}"\nmetrics_port = {port}\n', 1)
        self.file = self.path("lab.toml", text)

    def scrape(self, node="a"):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[node]}/metrics", timeout=DEADLINE_S) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            return answer.read().decode()

    def scrape_until(self, has, node="a"):
        """The first text whose series, by name and labels, satisfy `has`."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            text = self.scrape(node)
            if has([each for each in series_of(text) if each]):
                return text
            self.assertLess(time.monotonic(), deadline, text)
            select_nothing()

    def of_a_running_job(self):
        """What the coordinator's node and another serve."""
        self.cluster()
        self.wait_for_line(self.submit(job=ENDLESS.replace("every_s = 3600.0", "every_samples = 4800")), "^step ")
        return {node: self.scrape_until(lambda found, node=node, peer=peer: any(name == "troupe_lane_sent_bytes_total" and labels["peer"] == peer and value > 0
                                                                                for name, labels, value in found)
                                        and (node == "b" or any(name == "troupe_job_test_loss" for name, _, _ in found)), node)
                for node, peer in ("ab", "ba")}

    def promtool(self, text):
        if shutil.which("promtool") is None:
            self.skipTest("no promtool here (Debian's package prometheus)")
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), text)

    def test_a_running_job_is_told_as_the_documents_say(self):
        texts = self.of_a_running_job()
        for text in texts.values():
            self.assertNotIn(None, series_of(text), text)
            self.assertEqual(len(families_of(text)), len(set(families_of(text))))
        job = {name: value for name, labels, value in series_of(texts["a"]) if labels == {"number": "1", "name": "small"}}
        self.assertGreater(job["troupe_job_samples_total"], job["troupe_job_steps_total"])
        self.assertLessEqual(job["troupe_job_test_accuracy_ratio"], 1)
        documented = re.findall(r"(?m)^\| `([a-z_]+)(?:\{.*?\})?` \|", (SOURCE / "config/README.md").read_text(encoding="utf-8"))
        self.assertEqual(sorted(documented), sorted(families_of(texts["a"])))
        self.assertLess(set(families_of(texts["b"])), set(documented))
        with self.subTest("the dashboard"):
            board = (SOURCE / "config/grafana.json").read_text(encoding="utf-8")
            asked = [target["expr"] for panel in json.loads(board)["panels"] for target in panel["targets"]]
            self.assertGreater(len(asked), 10)
            labels = {}
            for name, of, _ in series_of(texts["a"]):
                labels.setdefault(name, set()).update(of)
            for name, selected in re.findall(r"\b((?:troupe|caf|process)_[a-z_]+)(?:\{([a-z]+))?", " ".join(asked)):
                self.assertIn(name, labels)
                self.assertLessEqual({selected} - {""}, labels[name], name)
            for name, label in re.findall(r"label_values\((\w+), (\w+)\)", board):
                self.assertIn(label, labels[name])

    def test_promtool_finds_nothing_wrong(self):
        for text in self.of_a_running_job().values():
            self.promtool(text)

    def test_a_job_may_have_any_name(self):
        self.cluster()
        name = 'a "quoted" \\ name,\nof two lines {job="x"} ü'
        run = self.submit("--set", "name=" + json.dumps(name), "--quiet", job=JOB)
        text = self.scrape_until(lambda found: any(each[0] == "troupe_job_test_loss" for each in found))
        self.assertNotIn(None, series_of(text), text)
        self.assertIn(("troupe_job_epochs", {"number": "1", "name": name}), [each[:2] for each in series_of(text)])
        self.promtool(text)
        self.finish(run)

    def test_a_node_that_was_killed_after_a_scrape_starts_again_at_once(self):
        self.node("a", wait="coordinator of")
        self.scrape()  # the node ends the connection, which lingers at its port
        self.nodes["a"].kill()
        self.nodes["a"].wait(DEADLINE_S)
        self.node("a", wait="coordinator of")
        self.assertIn("process_resident_memory_bytes", families_of(self.scrape()))

    def test_a_port_that_somebody_has_is_said_with_a_remedy(self):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", self.ports["a"]))
            taken.listen()
            done = subprocess.run([cluster_test.TROUPE, "node", self.file, "--name", "a"], capture_output=True, text=True, timeout=DEADLINE_S,
                                  check=False)
        self.assertEqual((done.returncode, done.stderr), (1, f"troupe: node a cannot serve metrics at 127.0.0.1:{self.ports['a']}: "
                                                             "Address already in use; give it another metrics_port, or none\n"))


if __name__ == "__main__":
    cluster_test.TROUPE = os.path.abspath(sys.argv.pop(1))
    SOURCE = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)
