#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The files that put nodes onto other people's machines: they are well formed and agree with each other and with the program.

usage: deploy_test.py TROUPE SOURCE [unittest arguments]
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TROUPE = SOURCE = None


class Deploy(unittest.TestCase):
    def test_kubernetes(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("no YAML parser (python3-yaml)")
        parts = {part["kind"]: part for part in yaml.safe_load_all((SOURCE / "config/kubernetes.yaml").read_text(encoding="utf-8"))}
        self.assertEqual(set(parts), {"Service", "NetworkPolicy", "ConfigMap", "StatefulSet"})
        cluster, pods = parts["ConfigMap"]["data"]["cluster.toml"], parts["StatefulSet"]["spec"]
        names = re.findall(r'^name = "(troupe-\d+)"$', cluster, re.M)
        self.assertEqual(names, [f"troupe-{i}" for i in range(pods["replicas"])])
        self.assertEqual(re.findall(r'^host = "(.*)"$', cluster, re.M), [f'{name}.{pods["serviceName"]}' for name in names])
        container = pods["template"]["spec"]["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.assertEqual(ports, {port["name"]: port["port"] for port in parts["Service"]["spec"]["ports"]})
        self.assertEqual(set(re.findall(r"^port = (\d+)$", cluster, re.M)), {str(ports["control"])})
        self.assertEqual(set(re.findall(r"^metrics_port = (\d+)$", cluster, re.M)), {str(ports["metrics"])})
        self.assertEqual(parts["Service"]["spec"]["selector"], pods["template"]["metadata"]["labels"])
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "cluster.toml"
            file.write_text(cluster, encoding="utf-8")
            # Its command starts a node: with a name that the file lacks it says so alone, so the file and the arguments are fine.
            command = [TROUPE if word == "troupe" else str(file) if word.endswith(".toml") else word.replace("$(POD_NAME)", "troupe-9")
                       for word in container["command"]]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            self.assertRegex(done.stderr, r'^\S+: it has no node "troupe-9"; .*\n$')

    def test_systemd(self):
        unit = (SOURCE / "config/troupe.service").read_text(encoding="utf-8")
        self.assertRegex(unit, r"(?m)^ExecStart=/opt/troupe/bin/troupe node /etc/troupe/cluster\.toml --name %H$")
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze here")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "troupe.service"
            file.write_text(unit.replace("/opt/troupe/bin/troupe", "/bin/true"), encoding="utf-8")
            done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, timeout=120, check=False)
            self.assertNotIn("troupe.service", done.stderr)


if __name__ == "__main__":
    TROUPE, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)
