# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts on this one: network namespaces with a wire of a given rate between them, and a node of a cluster in each. Needs root, ip and tc."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

CLUSTER = """name = "two-hosts"
[security]
insecure = true # the wire is this machine's own
[[node]]
name = "a"
host = "10.78.0.1"
port = 7400
[[node]]
name = "b"
host = "10.78.0.2"
port = 7400
"""


def possible():
    """Not in a container that may make no namespaces, either."""
    return all(shutil.which(tool) for tool in ("ip", "tc", "unshare")) and subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


def wait_for_listener(on, address, port):
    deadline = time.monotonic() + 30
    while subprocess.run([*on, "bash", "-c", f": < /dev/tcp/{address}/{port}"], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody listens at {address}:{port}")
        time.sleep(0.05)


@contextlib.contextmanager
def two_hosts(troupe, rate):
    """The words that run a command on host a, and the cluster's file."""
    names = [f"troupe{os.getpid()}{host}" for host in "ab"]

    def system(*words):
        subprocess.run(words, check=True, capture_output=True)
    with contextlib.ExitStack() as left, tempfile.TemporaryDirectory() as folder:
        for name in names:
            system("ip", "netns", "add", name)
            left.callback(system, "ip", "netns", "del", name)
        system("ip", "link", "add", "wire", "netns", names[0], "type", "veth", "peer", "name", "wire", "netns", names[1])
        for number, name in enumerate(names, 1):
            system("ip", "-n", name, "addr", "add", f"10.78.0.{number}/24", "dev", "wire")
            for link in "lo", "wire":
                system("ip", "-n", name, "link", "set", link, "up")
            system("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "wire", "root", "tbf", "rate", rate, "burst", "256kb", "latency", "20ms")
        file = pathlib.Path(folder) / "cluster.toml"
        file.write_text(CLUSTER, encoding="utf-8")
        on_host = [["ip", "netns", "exec", name] for name in names]
        for host, name in zip(on_host, "ab"):
            node = subprocess.Popen([*host, troupe, "node", file, "--name", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            left.callback(node.wait)
            left.callback(node.terminate)
        wait_for_listener(on_host[0], "10.78.0.1", 7400)  # the other one joins it
        yield on_host[0], str(file)
