# SPDX-License-Identifier: BSD-3-Clause
"""Connections of living processes, and their reset, as by a switch or a firewall. Needs `ss` and root."""
import random
import shutil
import socket
import subprocess


def sockets(pids, *options):
    """Of these processes: (own address, the other's)."""
    listed = subprocess.run(["ss", "-tnpH", *options], capture_output=True, text=True, check=True).stdout.splitlines()
    mine = [line.split() for line in listed if any(f"pid={pid}," in line for pid in pids)]
    return [(each[-3], each[-2]) for each in mine]


def reset(own, other):
    subprocess.run(["ss", "-K", "src", own, "dst", other], capture_output=True, check=True)


def reset_a_lane(pids, others=()):
    """Returns False before there is one. Only a job's lanes lead to ports of these processes, but for `others`, which are theirs too."""
    ports = {own.rsplit(":", 1)[1] for own, _ in sockets(pids, "-l")} - set(map(str, others))
    lanes = [each for each in sockets(pids) if each[0].rsplit(":", 1)[1] in ports]
    if not lanes:
        return False
    lane = random.choice(lanes)
    reset(*lane)
    return lane not in sockets(pids)


def cannot_reset():
    """Why this user cannot reset a connection of others, or ""."""
    if shutil.which("ss") is None:
        return "no ss: apt-get install iproute2"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = client.getsockname()[1]
        subprocess.run(["ss", "-K", "src", f"127.0.0.1:{port}"], capture_output=True, check=False)
        try:
            client.sendall(b"x")
            return "this kernel or user cannot reset a connection of others"
        except OSError:
            return ""
