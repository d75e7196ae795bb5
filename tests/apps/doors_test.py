#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Who is let in where there are no certificates, and what strangers can cost: on the control plane's port and on lanes.

usage: doors_test.py TROUPE [unittest arguments]
"""
import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import DEADLINE_S, ENDLESS, ClusterTest, Hostility

SOMEBODY, SOMEBODY_ELSE = 65534, 65533


def bytes_from(port, says):
    """How many bytes a server answers first: the control port greets, a lane answers what it does not understand."""
    with socket.socket() as peer:  # create_connection would import what another user may not read
        peer.settimeout(60)
        peer.connect(("127.0.0.1", port))
        try:
            peer.sendall(says)
            return len(peer.recv(65536))
        except ConnectionError:
            return 0


def knock(port, user, says=b""):
    """The same, by a process of that user."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.write(writes, str(bytes_from(port, says)).encode())
        finally:
            os._exit(0)  # nothing of the parent's is cleaned up here
    os.close(writes)
    with os.fdopen(reads) as answer:
        got = answer.read()
    os.waitpid(child, 0)
    return int(got)


def ports_of(run, children):
    """The control port of a run and its child's lane port, each with what makes it answer."""
    [control], [lane] = Hostility.listening_ports([run.pid]), Hostility.listening_ports(children)
    return (control, b""), (lane, b"\xff" * 64)


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
class Users(ClusterTest):
    """A run on loopback is its own user's, and root's."""

    def test_another_user_gets_no_answer_from_an_embedded_run_and_its_owner_does(self):
        run = self.start("--nodes", "2")
        ports = ports_of(run, self.children(run))
        for port, says in ports:
            self.assertEqual(knock(port, SOMEBODY, says), 0)
            self.assertGreater(knock(port, 0, says), 0)
        # Each of both processes has a word to say.
        said = [self.wait_for_line(run, "turns away.* of user") for _ in ports]
        for line in said:
            self.assertRegex(line, r"turns away a connection from 127\.0\.0\.1:\d+: it is of user 65534, and without certificates this "
                                   r"cluster takes those of its own user, 0, alone$")
        self.wait_for_line(run, r"^step ")
        run.send_signal(signal.SIGINT)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)

    def test_a_users_run_is_for_that_user_and_root(self):
        program = self.path("troupe")
        shutil.copy(cluster_test.TROUPE, program)
        os.chmod(program, 0o755)
        job = self.path("job.toml", ENDLESS)
        os.chown(self.folder.name, SOMEBODY, SOMEBODY)
        run = subprocess.Popen([program, "run", job, "--nodes", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, user=SOMEBODY, group=SOMEBODY, extra_groups=[], cwd=self.folder.name,
                               env={**os.environ, "HOME": self.folder.name, "TMPDIR": self.folder.name})
        self.addCleanup(self.end, run)
        self.wait_for_line(run, r"^step ")
        for port, says in ports_of(run, self.children(run)):
            answers = {user: knock(port, user, says) > 0 for user in (SOMEBODY, 0, SOMEBODY_ELSE)}
            self.assertEqual(answers, {SOMEBODY: True, 0: True, SOMEBODY_ELSE: False})


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
class OthersClusters(BootstrapTest):
    def test_a_cluster_on_loopback_has_no_console_for_another_user(self):
        self.node("a", wait="coordinator of")
        program = self.path("troupe")
        shutil.copy(cluster_test.TROUPE, program)
        for path, mode in (program, 0o755), (self.folder.name, 0o755):
            os.chmod(path, mode)

        def console(user):
            return subprocess.run([program, "console", f"127.0.0.1:{self.port}", "-c", "nodes"], capture_output=True, text=True, cwd="/",
                                  timeout=DEADLINE_S, check=False, user=user, group=user, extra_groups=[])

        kept_out = console(SOMEBODY)
        self.assertEqual((kept_out.returncode, kept_out.stdout), (1, ""), kept_out)
        self.assertIn("its own user's connections only", kept_out.stderr)
        self.wait_for_line(self.nodes["a"], "node a: turns away a connection from 127.0.0.1:.* it is of user 65534")
        self.assertEqual(console(0).returncode, 0)


class Strangers(BootstrapTest):
    MOST, SILENT, MOST_MIB, JOIN_S = 128, 1010, 64, 2

    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = self.SILENT + 200
        if hard != resource.RLIM_INFINITY and hard < wanted:
            self.skipTest(f"{hard} descriptors are too few for {self.SILENT} connections")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    @staticmethod
    def descriptors(run):
        return len(os.listdir(f"/proc/{run.pid}/fd"))

    @staticmethod
    def resident_mib(run):
        with open(f"/proc/{run.pid}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024

    def seconds_to_join(self, name):
        began = time.monotonic()
        self.node(name, wait="joined")
        return time.monotonic() - began

    def test_a_thousand_silent_connections_keep_nobody_out_and_nothing_for_long(self):
        a = self.node("a", wait="coordinator of")
        quiet_s = self.seconds_to_join("b")
        descriptors, memory = self.descriptors(a), self.resident_mib(a)
        silent = []
        for _ in range(self.SILENT):
            silent.append(socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S))
            self.addCleanup(silent[-1].close)
        join_s = self.seconds_to_join("c")
        grown = self.resident_mib(a) - memory
        held = self.descriptors(a) - descriptors
        print(f"{self.SILENT} silent connections: c joined in {join_s:.2f} s (b, before: {quiet_s:.2f} s), "
              f"{grown:.1f} MiB and {held} descriptors more", file=sys.stderr)
        self.assertLess(join_s, quiet_s + self.JOIN_S)
        self.assertLess(grown, self.MOST_MIB)
        self.assertLessEqual(held, self.MOST + 4)
        for connection in silent:
            # The server's greeting; then its end, though this end says and closes nothing. A reset is an end, too.
            with contextlib.suppress(ConnectionError):
                while connection.recv(65536):
                    pass
        deadline = time.monotonic() + 30
        while self.descriptors(a) > descriptors + 2:  # c's own
            self.assertLess(time.monotonic(), deadline, f"{self.descriptors(a)} descriptors, before {descriptors}")
            cluster_test.select_nothing()
        self.node("d", wait="joined")
        self.result_of(self.submit("--json"))


if __name__ == "__main__":
    cluster_test.main()
