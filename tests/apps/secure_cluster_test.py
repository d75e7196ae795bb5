#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A cluster with certificates: it trains as one without, and who has none of its authority gets nothing.

usage: secure_cluster_test.py TROUPE [unittest arguments]
"""
import os
import socket
import ssl
import subprocess
import time

import cluster_test
from bootstrap_test import BootstrapTest


class Secured(BootstrapTest):
    """Nodes a to d and whoever submits jobs have certificates of one authority, each its own, and a cluster file that names it."""

    def setUp(self):
        super().setUp()
        for authority in "ours", "theirs":
            self.certs("init", self.path(authority))
        for name in "abcd":
            self.certs("issue", self.path("ours"), "--node", name)
        self.certs("issue", self.path("ours"), "--node", "user", "--role", "console")
        self.certs("issue", self.path("theirs"), "--node", "d")
        self.file = self.secured("user")

    def certs(self, *arguments):
        subprocess.run([cluster_test.TROUPE, "certs", *arguments], check=True, stdout=subprocess.DEVNULL, timeout=60)

    def secured(self, name, authority="ours"):
        """The cluster file as the owner of that certificate has it."""
        folder = self.path(authority)
        with open(self.cluster_file("plain.toml"), encoding="utf-8") as file:
            plain = file.read()
        return self.path(f"{name}-of-{authority}.toml",
                         plain + f'[security]\nca = "{folder}/ca.pem"\ncertificate = "{folder}/{name}.pem"\nkey = "{folder}/{name}.key"\n')

    def cluster(self, names="abcd"):
        for name in names:
            self.node(name, file=self.secured(name), wait="coordinator of" if name == "a" else "joined")

    def strangers(self):
        """Cluster files of whoever is kept out, and what they are told."""
        return ((self.cluster_file("plain.toml"), "this cluster asks for certificates; none given"),
                (self.secured("d", authority="theirs"), "its certificate is not of this cluster's authority"))

    def test_it_trains_bit_for_bit_as_one_without(self):
        self.cluster()
        result, _ = self.result_of(self.submit("--json"))
        self.assertEqual(result["nodes"], 4)
        self.assertEqual(result["weights_digest"], self.run_job("--nodes", "4")["weights_digest"])

    def test_strangers_join_nothing_and_run_nothing_while_members_do(self):
        self.cluster("abc")
        for file, reason in self.strangers():
            stranger = self.node("d", file=file, wait=f"cannot reach the coordinator.*{reason}")
            self.end(stranger)
            run = subprocess.run([cluster_test.TROUPE, "run", self.path("job.toml", cluster_test.JOB), "--cluster", file, "--quiet"],
                                 capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
            self.assertEqual(run.returncode, 1, run)
            self.assertRegex(run.stderr, reason)
        self.wait_for_line(self.nodes["a"], "turns away a connection from 127.0.0.1: it")
        self.node("d", file=self.secured("d"), wait="joined")
        self.result_of(self.submit("--json"))

    def test_metrics_are_for_certificates_of_the_authority_alone(self):
        port = self.kept_port()
        with open(self.secured("a"), encoding="utf-8") as file:
            text = file.read().replace('name = "a"\n', f'name = "a"\nmetrics_port = {port}\n', 1)
        self.node("a", file=self.path("metrics.toml", text), wait="coordinator of")

        def scrape(context):
            plain = socket.create_connection(("127.0.0.1", port), timeout=cluster_test.DEADLINE_S)
            with context.wrap_socket(plain, server_hostname="a") if context else plain as client:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
                return b"".join(iter(lambda: client.recv(65536), b"")).decode()

        def context(*of):
            made = ssl.create_default_context(cafile=self.path("ours") + "/ca.pem")
            if of:
                made.load_cert_chain(self.path(of[0]) + f"/{of[1]}.pem", self.path(of[0]) + f"/{of[1]}.key")
            return made

        self.assertRegex(scrape(context("ours", "user")), r"(?s)^HTTP/1\.1 200 OK\r\n.*\ncaf_system_running_actors [1-9]")
        for stranger, reason in (context(), "certificate required"), (context("theirs", "d"), "unknown ca"):
            with self.assertRaisesRegex(ssl.SSLError, reason):
                scrape(stranger)
        self.assertRegex(scrape(None), r"(?s)^HTTP/1\.1 400 .*\r\n\r\nthis cluster has certificates; ask by https, with one of its authority\n$")

    def test_the_console_is_for_certificates_of_the_authority_alone(self):
        self.cluster("abc")

        def console(file):
            return subprocess.run([cluster_test.TROUPE, "console", "--cluster", file, "-c", "nodes"], capture_output=True, text=True,
                                  timeout=cluster_test.DEADLINE_S, check=False)

        self.assertRegex(console(self.secured("user")).stdout, r"(?m)^c ")
        for file, reason in self.strangers():
            done = console(file)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done)
            self.assertRegex(done.stderr, f"^troupe: .*127.0.0.1:{self.port}.*{reason}.*\\n$")
        done = subprocess.run([cluster_test.TROUPE, "console", f"127.0.0.1:{self.port}", "-c", "nodes"], capture_output=True, text=True,
                              timeout=cluster_test.DEADLINE_S, check=False)
        self.assertIn("this cluster asks for certificates; none given", done.stderr)

    def test_an_insecure_cluster_is_named_to_whoever_has_certificates(self):
        self.node("a", file=self.cluster_file("plain.toml"), wait="coordinator of")
        done = subprocess.run([cluster_test.TROUPE, "console", "--cluster", self.secured("user"), "-c", "nodes"], capture_output=True, text=True,
                              timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("it speaks no TLS: that end has no certificates, or says insecure = true, and this one has", done.stderr)

    def test_a_node_with_another_nodes_certificate_does_not_start(self):
        done = subprocess.run([cluster_test.TROUPE, "node", self.secured("d"), "--name", "c"], capture_output=True, text=True,
                              timeout=cluster_test.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 2, done)
        self.assertRegex(done.stderr, r':\d+:15: \S+/d\.pem was issued to "d" and this is node "c", whose peers would refuse it')

    def test_a_consoles_certificate_in_a_nodes_place_is_refused_before_anything_starts(self):
        for name, role in ("e", "console"), ("client", "console"):
            self.certs("issue", self.path("ours"), "--node", name, "--role", role)
        with open(self.secured("{name}"), encoding="utf-8") as file:
            text = file.read().replace('name = "d"', 'name = "e"')
        lab = self.path("with-e.toml", text)
        for command in ("node", lab, "--name", "e"), ("check", self.path("job.toml", cluster_test.JOB), "--cluster", lab):
            done = subprocess.run([cluster_test.TROUPE, *command], capture_output=True, text=True, timeout=cluster_test.DEADLINE_S, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertRegex(done.stderr, r'/e\.pem is a console\'s certificate: with it node "e" may look and give orders, not join')

    def with_list(self, name):
        """The cluster file of that node, with a list of revoked certificates."""
        with open(self.secured(name), encoding="utf-8") as file:
            return self.path(f"{name}-and-list.toml", file.read() + f'crl = "{self.path("ours")}/crl.pem"\n')

    def test_a_revoked_node_is_out_within_half_a_minute_and_the_job_goes_on(self):
        self.certs("revoke", self.path("ours"))
        for name in "abcd":
            self.node(name, file=self.with_list(name), wait="coordinator of" if name == "a" else "joined")
        run = self.submit(job=cluster_test.ENDLESS)
        self.wait_for_line(run, "^step ")
        began = time.monotonic()
        self.certs("revoke", self.path("ours"), "--node", "d")
        self.wait_for_line(run, r"worker \d+ \(d\) is lost")
        self.wait_for_line(self.nodes["a"], 'has ended the connection of "d", whose certificate has been revoked')
        self.assertLess(time.monotonic() - began, 30)
        self.wait_for_line(self.nodes["a"], "turns away a connection from .*: its certificate has been revoked")
        self.wait_for_line(run, "^step ")

    def test_certificates_of_another_authority_replace_those_in_use_and_end_no_job(self):
        self.cluster()
        run = self.submit(job=cluster_test.ENDLESS)
        self.wait_for_line(run, "^step ")
        ours, theirs = self.path("ours"), self.path("theirs")
        with open(ours + "/ca.pem", encoding="utf-8") as old, open(theirs + "/ca.pem", encoding="utf-8") as new:
            both = old.read() + new.read()
        for name in "abc":
            self.certs("issue", theirs, "--node", name)
        self.path("ours/ca.new", both)
        os.replace(ours + "/ca.new", ours + "/ca.pem")
        for name in "abcd":
            for kind in "key", "pem":
                os.replace(f"{theirs}/{name}.{kind}", f"{ours}/{name}.{kind}")
        self.end(self.nodes["d"])
        self.wait_for_line(run, r"worker \d+ \(d\) is lost")
        self.node("d", file=self.secured("d"), wait="joined")
        self.wait_for_line(run, "^step ")
        self.assertEqual([self.nodes[name].poll() for name in "abc"], [None] * 3)

    def test_one_file_serves_every_node(self):
        self.certs("issue", self.path("ours"), "--node", "client", "--role", "console")
        self.file = self.secured("{name}")
        for name in "abcd":
            self.node(name, wait="coordinator of" if name == "a" else "joined")
        self.assertEqual(self.result_of(self.submit("--json"))[0]["nodes"], 4)

    def test_connections_that_say_nothing_keep_nobody_waiting(self):
        self.cluster("abc")
        silent = []
        for _ in range(300):
            connection = socket.create_connection(("127.0.0.1", self.port), timeout=cluster_test.DEADLINE_S)
            self.addCleanup(connection.close)
            silent.append(connection)
        for connection in silent[::2]:
            connection.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a TLS handshake
        self.node("d", file=self.secured("d"), wait="joined")
        self.result_of(self.submit("--json"))


if __name__ == "__main__":
    cluster_test.main()
