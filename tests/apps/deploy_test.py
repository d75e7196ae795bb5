#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The files that put nodes onto other people's machines: they are well formed and agree with each other and with the program.

usage: deploy_test.py TROUPE SOURCE [unittest arguments]
"""
import pathlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

TROUPE = SOURCE = None


def probe(how, host, port_of):
    """What a kubelet does: it knows the pod's address and has no certificate. An error is a failed probe."""
    if "httpGet" in how:
        get = how["httpGet"]
        return urllib.request.urlopen(f'{get.get("scheme", "HTTP").lower()}://{host}:{port_of[get["port"]]}{get["path"]}', timeout=120).close()
    return socket.create_connection((host, port_of[how["tcpSocket"]["port"]]), timeout=120).close()


class Deploy(unittest.TestCase):
    def kept_port(self, host):
        """A port for a program that listens with SO_REUSEADDR; nobody else gets it while the test lasts."""
        keeper = socket.socket()
        self.addCleanup(keeper.close)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((host, 0))
        return keeper.getsockname()[1]

    def kubernetes(self, file="kubernetes.yaml"):
        """The file's parts by kind."""
        try:
            import yaml
        except ImportError:
            self.skipTest("no YAML parser (python3-yaml)")
        return {part["kind"]: part for part in yaml.safe_load_all((SOURCE / "config" / file).read_text(encoding="utf-8"))}

    def test_kubernetes_probes_a_node_with_certificates_and_without(self):
        parts = self.kubernetes()
        container = parts["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
        host = "127.0.0.2"  # not the one that a node falls back to
        port_of = {port["name"]: self.kept_port(host) for port in container["ports"]}
        text = re.sub(r'(?m)^host = .*', f'host = "{host}"', parts["ConfigMap"]["data"]["cluster.toml"]).replace("port = 7400", "port = 0")
        for port, of in (0, "control"), (7401, "metrics"):  # the first node's; the others do not start here
            text = text.replace(f"port = {port}", f"port = {port_of[of]}", 1)
        text = text.replace("metrics_port = 7401\n", "")
        with tempfile.TemporaryDirectory() as folder:
            for arguments in ["init", folder], ["issue", folder, "--node", "troupe-0"]:
                subprocess.run([TROUPE, "certs", *arguments], check=True, stdout=subprocess.DEVNULL, timeout=120)
            secured = "".join(f'{key} = "{folder}/{name}"\n' for key, name in (("ca", "ca.pem"), ("certificate", "troupe-0.pem"), ("key", "troupe-0.key")))
            for security in "insecure = true", secured:
                file = pathlib.Path(folder) / "cluster.toml"
                file.write_text(text.replace("insecure = true", security), encoding="utf-8")
                node = subprocess.Popen([os.path.abspath(TROUPE), "node", file, "--name", "troupe-0"], stderr=subprocess.PIPE, text=True)
                try:
                    self.assertRegex(node.stderr.readline(), "coordinator of cluster kubernetes", security)
                    for name in "readinessProbe", "livenessProbe":
                        with self.subTest(name, security=security):
                            probe(container[name], host, port_of)
                finally:
                    node.kill()
                    node.wait()
                    node.stderr.close()

    def test_kubernetes(self):
        parts = self.kubernetes()
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

    def test_a_script_on_kubernetes(self):
        parts = self.kubernetes("kubernetes-script.yaml")
        job, pod = parts["Job"]["spec"], parts["Job"]["spec"]["template"]["spec"]
        told = {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"]}
        self.assertEqual(told, {"TROUPE_SERVICE": parts["Service"]["metadata"]["name"], "TROUPE_NODES": str(job["completions"])})
        self.assertEqual(pod["subdomain"], told["TROUPE_SERVICE"])
        self.assertEqual((job["completionMode"], job["parallelism"]), ("Indexed", job["completions"]))
        self.assertEqual(parts["Service"]["spec"]["selector"], job["template"]["metadata"]["labels"])

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
