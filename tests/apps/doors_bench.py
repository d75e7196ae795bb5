# SPDX-License-Identifier: BSD-3-Clause
"""What strangers cost a cluster: memory, steps per second, and how soon the next honest node joins. See reliability_bench.py."""
import contextlib
import json
import multiprocessing
import os
import pathlib
import re
import resource
import secrets
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

import cluster_test

JOB = cluster_test.JOB.replace("workers = 4", "workers = 2").replace("epochs = 2", "seconds = 1e6\n[evaluate]\nevery_s = 1e6\n[inject]\nstep_ms = 20")
DEADLINE_S = 60
IDLE, SLOW, HANDSHAKES = 10_000, 500, 1_000
# A frame of a lane: one segment of 2^60 words; and a record of TLS that is as long as one may say.
LENGTHS = struct.pack("<IIQ", 0, 0xFFFF_FFFF, 1 << 60) * 4 + b"\x16\x03\x01\xff\xff" + b"\xff" * 64


class Lab:
    """Node a leads and has shards, b and c work; d comes later. `secured`: with certificates."""

    def __init__(self, troupe, folder, secured):
        self.troupe, self.folder, self.nodes = troupe, folder, {}
        keeper = socket.socket()
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        self.keeper, self.port = keeper, keeper.getsockname()[1]
        text = 'name = "lab"\n'
        for name in "abcd":
            text += f'[[node]]\nname = "{name}"\nhost = "127.0.0.1"\nport = {self.port if name == "a" else 0}\n'
            text += 'roles = ["coordinator", "shard"]\n' if name == "a" else 'roles = ["worker"]\n'
        if secured:
            ours = os.path.join(folder, "ours")
            self.certs("init", ours)
            for name in "abcd":
                self.certs("issue", ours, "--node", name)
            self.certs("issue", ours, "--node", "client", "--role", "console")
            text += f'[security]\nca = "{ours}/ca.pem"\ncertificate = "{ours}/{{name}}.pem"\nkey = "{ours}/{{name}}.key"\n'
        self.file = pathlib.Path(folder, "lab.toml")
        self.file.write_text(text, encoding="utf-8")
        for name in "abc":
            self.start(name)
        job = pathlib.Path(folder, "job.toml")
        job.write_text(JOB, encoding="utf-8")
        self.steps, self.run = [], subprocess.Popen([troupe, "run", str(job), "--cluster", str(self.file), "--json"], stdout=subprocess.DEVNULL,
                                                    stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self.listen, daemon=True).start()
        self.until(lambda: self.steps, "a step")

    def certs(self, *arguments):
        subprocess.run([self.troupe, "certs", *arguments], check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE_S)

    def listen(self):
        for line in self.run.stderr:
            if found := re.match(r"step (\d+)", line):
                self.steps.append(int(found[1]))

    def start(self, name):
        """Once it has joined: how long that took. A node says so in its log."""
        began, log = time.monotonic(), os.path.join(self.folder, f"{name}.{len(self.nodes)}.log")
        with open(log, "w", encoding="utf-8") as out:
            self.nodes[name] = subprocess.Popen([self.troupe, "node", str(self.file), "--name", name], stdout=subprocess.DEVNULL, stderr=out)
        self.until(lambda: re.search("joined|coordinator of", pathlib.Path(log).read_text(encoding="utf-8")), f"node {name} has joined")
        return time.monotonic() - began

    def stop(self, name):
        self.nodes[name].terminate()
        self.nodes.pop(name).wait(DEADLINE_S)

    @staticmethod
    def until(is_so, what):
        end = time.monotonic() + DEADLINE_S
        while not is_so():
            if time.monotonic() > end:
                raise SystemExit(f"not within {DEADLINE_S} s: {what}")
            time.sleep(0.005)

    def ports(self):
        """The control port, and one for lanes."""
        listed = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout.splitlines()
        of_b = [int(line.split()[3].rsplit(":", 1)[1]) for line in listed if f"pid={self.nodes['b'].pid}," in line]
        return [self.port, *of_b[:1]]

    def memory_mib(self):
        def of(pid):
            with open(f"/proc/{pid}/status", encoding="utf-8") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024
        return {name: of(self.nodes[name].pid) for name in "ab"}

    def step_now(self):
        """The console's word, for progress is shown a few times a second only."""
        asked = [self.troupe, "console", "--cluster", str(self.file), "--json", "-c", "jobs"]
        with contextlib.suppress(json.JSONDecodeError, KeyError, IndexError, subprocess.TimeoutExpired):
            said = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
            return json.loads(said.stdout)["jobs"][0]["steps"]
        return self.steps[-1]

    def end(self):
        self.run.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run.wait(DEADLINE_S)
        for process in [self.run, *self.nodes.values()]:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.keeper.close()


# -- strangers, each in a process of its own: `port` on this host, until they are killed


CALLS = multiprocessing.Value("Q")  # connections that were made


def called(port, kept):
    """A new connection; the oldest goes where this process may have no more."""
    try:
        peer = socket.socket()
        peer.settimeout(1)
        peer.connect(("127.0.0.1", port))
        peer.setblocking(False)
        kept.append(peer)
        with CALLS.get_lock():
            CALLS.value += 1
        return peer
    except OSError:
        time.sleep(0.01)
        return None


def idle(port, many):
    """Connections that say nothing; once all are there, 500 a second are replaced."""
    kept = []
    while True:
        if len(kept) < many:
            called(port, kept)
        else:
            kept.pop(0).close()
            time.sleep(0.002)


def slow(port, many):
    """A byte a second of what a client says first."""
    kept = []
    hello = client_hello()
    while True:
        while len(kept) < many:
            called(port, kept)
        for at, peer in enumerate(list(kept)):
            try:
                peer.send(hello[at % 8:at % 8 + 1])
            except OSError:
                kept.remove(peer)
                peer.close()
        time.sleep(1)


def says(port, what, a_second):
    """One connection after the other that says this; it is kept for a while."""
    kept, began, count = [], time.monotonic(), 0
    while True:
        if peer := called(port, kept):
            with contextlib.suppress(OSError):
                peer.send(what)
        while len(kept) > 100:
            kept.pop(0).close()
        count += 1
        time.sleep(max(0, began + count / a_second - time.monotonic()))


def client_hello():
    """With a key, so that a server computes its own and signs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    comes, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(comes, goes).do_handshake()
    return goes.read()


def strangers(kind, port, ports):
    share = ports if kind in ("idle", "slow", "handshakes") else 1
    return {"idle": lambda: idle(port, IDLE // share), "slow": lambda: slow(port, SLOW // share),
            "garbage": lambda: says(port, secrets.token_bytes(65536), 500), "lengths": lambda: says(port, LENGTHS, 500),
            "handshakes": lambda: says(port, client_hello(), HANDSHAKES / share)}[kind]


KINDS = ["idle", "slow", "garbage", "lengths", "handshakes"]


def measure(troupe, kind, seconds=8):
    """At both ports at once: half of the strangers each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(troupe, folder, secured=kind == "handshakes")
        try:
            return {"strangers": kind, **disturbed(lab, kind, seconds), "load": os.getloadavg()[0]}
        finally:
            lab.end()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def disturbed(lab, kind, seconds):
    def steps_a_second(meanwhile):
        began, first = time.monotonic(), lab.step_now()
        answer = meanwhile()
        time.sleep(max(0, began + seconds - time.monotonic()))
        last = lab.step_now()
        return (last - first) / (time.monotonic() - began), answer

    def joins():
        time.sleep(1)
        took = lab.start("d")
        lab.stop("d")
        return took

    ports = lab.ports()
    quiet, quiet_join_s = steps_a_second(joins)
    before = most = lab.memory_mib()
    them = [multiprocessing.get_context("fork").Process(target=strangers(kind, port, len(ports)), daemon=True) for port in ports]
    for each in them:
        each.start()
    try:
        time.sleep(1 if kind != "idle" else 4)  # until all are there
        calls, since = CALLS.value, time.monotonic()
        loud, join_s = steps_a_second(joins)
        calls = (CALLS.value - calls) / (time.monotonic() - since)
        most = lab.memory_mib()
    finally:
        for each in them:
            each.kill()
            each.join()
    return {"calls_per_s": calls, "more_mib": max(most[name] - before[name] for name in before), "steps_per_s": loud, "undisturbed": quiet,
            "join_s": join_s, "undisturbed_join_s": quiet_join_s}


def print_rows(troupe, as_json):
    rows = []
    if not as_json:
        print(f"{'strangers':<12}{'calls/s':>9}{'memory':>12}{'steps/s':>9}{'of':>7}{'share':>7}{'join':>9}{'of':>8}{'load':>7}")
    for kind in KINDS:
        row = measure(troupe, kind)
        rows.append(row)
        if not as_json:
            print(f"{kind:<12}{row['calls_per_s']:>9.0f}{row['more_mib']:>8.1f} MiB{row['steps_per_s']:>9.1f}{row['undisturbed']:>7.1f}"
                  f"{row['steps_per_s'] / row['undisturbed']:>7.2f}{row['join_s']:>7.2f} s{row['undisturbed_join_s']:>6.2f} s{row['load']:>7.1f}", flush=True)
    return rows
