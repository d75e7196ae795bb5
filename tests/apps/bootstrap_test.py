#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts clusters node by node from a file, in any order, kills and restarts nodes, and submits jobs to them.

usage: bootstrap_test.py TROUPE [unittest arguments]
"""
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

import cluster_test
from cluster_test import DEADLINE_S, ENDLESS, JOB, SEED, ClusterTest


class BootstrapTest(ClusterTest):
    ROLES = {"a": '["coordinator", "shard"]'}

    def setUp(self):
        super().setUp()
        self.port = self.kept_port()
        self.file = self.cluster_file("lab.toml")
        self.nodes = {}

    def kept_port(self):
        """A port for a program of this test, which listens with SO_REUSEADDR; the system gives it to nobody else while the test lasts."""
        keeper = socket.socket()
        self.addCleanup(keeper.close)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        return keeper.getsockname()[1]

    def cluster_file(self, name, cluster="lab", names="abcd"):
        text = f'name = "{cluster}"\n'
        for node in names:
            text += f'[[node]]\nname = "{node}"\nhost = "127.0.0.1"\nport = {self.port if node == "a" else 0}\n'
            if node in self.ROLES:
                text += f"roles = {self.ROLES[node]}\n"
        return self.path(name, text)

    def node(self, name, file=None, wait=None):
        """Starts a node; with `wait` returns once its log has such a line."""
        run = subprocess.Popen([cluster_test.TROUPE, "node", file or self.file, "--name", name], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
        run.stdout = open(os.devnull, encoding="utf-8")  # so that `end` has something to close
        self.addCleanup(self.end, run)
        if wait:
            self.wait_for_line(run, wait)
        self.nodes[name] = run
        return run

    def cluster(self, names="abcd"):
        for name in names:
            self.node(name, wait="coordinator of" if name == "a" else "joined")

    def client(self, *words):
        run = subprocess.Popen([cluster_test.TROUPE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
        self.addCleanup(self.end, run)
        return run

    def submit(self, *arguments, job=JOB, name="job.toml"):
        return self.client("run", self.path(name, job), "--cluster", self.file, *arguments)

    def attach(self, number, *arguments, job=JOB, name="job.toml"):
        return self.client("attach", self.file, str(number), self.path(name, job), *arguments)

    def result_of(self, run):
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 0, err)
        return json.loads(out.splitlines()[-1]), err

    def ask(self, *commands, code=0):
        """The console: one object for each command."""
        arguments = [word for command in commands for word in ("-c", command)]
        done = subprocess.run([cluster_test.TROUPE, "console", "--cluster", self.file, "--json", *arguments], capture_output=True,
                              text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]


class Nodes(BootstrapTest):
    def test_nodes_start_in_any_order_and_the_job_waits_for_them_by_name(self):
        order = list("abcd")
        random.Random(SEED).shuffle(order)
        if order[-1] == "a":
            order.reverse()  # so that there is somebody to submit to while another is missing
        for name in order[:-1]:
            self.node(name)
        self.wait_for_line(self.nodes["a"], "coordinator of")
        run = self.submit("--json")
        self.wait_for_line(run, f"waits: .*node {order[-1]} has not joined")
        self.node(order[-1])
        result, _ = self.result_of(run)
        self.assertEqual(result["nodes"], 4)
        embedded = self.run_job("--nodes", "4")
        self.assertEqual(result["weights_digest"], embedded["weights_digest"], f"order {order}")

    def test_a_node_that_dies_and_comes_back_works_again(self):
        self.cluster()
        run = self.submit("--json", job=ENDLESS.replace("epochs = 100000", "samples = 400000"))
        self.wait_for_line(run, "^step ")
        self.nodes["c"].kill()
        self.wait_for_line(run, r"worker \d+ \(c\) is lost")
        self.wait_for_line(run, "^step ")
        self.node("c")
        self.wait_for_line(run, "node c is back")
        log = self.path("log.jsonl")
        result, err = self.result_of(run)
        self.assertGreaterEqual(result["samples"], 400000, log)
        self.assertNotIn("lost", err)  # after its return
        self.assertLess(result["train_loss"], 0.1)

    def test_a_job_whose_node_dies_before_it_begins_begins_anew(self):
        self.cluster()
        os.kill(self.nodes["c"].pid, signal.SIGSTOP)  # it will not answer, so the job cannot begin
        run = self.submit("--json")
        self.wait_for_line(self.nodes["a"], "job 1 starts on a, b, c, d")
        self.nodes["c"].kill()
        self.wait_for_line(run, "the job starts again: node c was lost before the job started")
        self.wait_for_line(run, r"waits: .*node c is gone: .*, at \d\d:\d\d:\d\d")
        self.node("c")
        result, _ = self.result_of(run)
        self.assertEqual(result["nodes"], 4)

    def test_a_job_that_has_lost_all_its_workers_says_for_whom_it_waits(self):
        self.cluster()
        os.kill(self.nodes["d"].pid, signal.SIGSTOP)  # it will not answer, so the job cannot begin
        run = self.submit("--json")
        self.wait_for_line(self.nodes["a"], "job 1 starts on a, b, c, d")
        for name in "bcd":
            self.nodes[name].kill()
        gone = r"it needs 4 nodes.*: node b is gone: .*, at [0-9:]{8}, node c is gone: .*, node d is gone: .*"
        self.wait_for_line(run, f"^troupe: waits: {gone}")
        jobs, why = self.ask("jobs", "why shard 0")
        self.assertRegex(jobs["jobs"][0]["state"], f"^waits: {gone}")
        self.assertRegex(why["causes"][0], rf"^shard 0 would be of job 1 \(small\), which waits: {gone}")
        for name in "bcd":
            self.node(name)
        self.assertEqual(self.result_of(run)[0]["nodes"], 4)

    def test_the_coordinator_comes_back_and_the_nodes_find_it(self):
        self.cluster()
        self.nodes["a"].kill()
        for name in "bcd":
            self.wait_for_line(self.nodes[name], "the coordinator is gone; waiting")
        self.node("a")
        for name in "bcd":
            self.wait_for_line(self.nodes[name], "joined")
        result, _ = self.result_of(self.submit("--json"))
        self.assertGreater(result["steps"], 0)

    def test_a_node_leaves_in_order(self):
        self.cluster()
        run = self.submit(job=ENDLESS)
        self.wait_for_line(run, "^step ")
        self.nodes["b"].send_signal(signal.SIGTERM)
        self.wait_for_line(run, r"node b leaves")
        self.assertEqual(self.nodes["b"].wait(DEADLINE_S), 0)
        self.wait_for_line(run, "^step ")
        self.nodes["c"].send_signal(signal.SIGTERM)
        self.nodes["d"].send_signal(signal.SIGTERM)
        self.wait_for_line(self.nodes["a"], "node [cd] wants to leave")
        self.wait_for_line(self.nodes["a"], "node [cd] wants to leave")
        run.send_signal(signal.SIGINT)  # the last of them stays until the job has ended
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        for name in "cd":
            self.assertEqual(self.nodes[name].wait(DEADLINE_S), 0)

    def test_the_whole_cluster_may_be_told_to_end_at_once(self):
        self.cluster()
        for name in "abcd":
            self.nodes[name].send_signal(signal.SIGTERM)
        for name in "abcd":
            self.assertEqual(self.nodes[name].wait(DEADLINE_S), 0, name)

    def test_a_node_that_is_told_to_end_while_its_coordinator_dies_ends_in_order(self):
        """What says goodbye begins when its node has nobody to wait for any more: the node stands still before, for its log is full."""
        for _ in range(5):
            first, node = self.node("a", wait="coordinator of"), self.node("b", wait="joined")
            with open(f"/proc/{node.pid}/fd/2", "wb", buffering=0) as log:
                log.write(b"\n" * fcntl.fcntl(node.stderr, fcntl.F_SETPIPE_SZ, 4096))
                node.send_signal(signal.SIGTERM)
                self.until(lambda pid=node.pid: pathlib.Path(f"/proc/{pid}/syscall").read_text(encoding="utf-8").startswith("1 "), "it writes")
                lives = self.sockets_of(node)
                first.kill()
                first.wait()
                self.until(lambda run=node, before=lives: self.sockets_of(run) < before, "it hears of its coordinator's end")
            err = node.stderr.read()
            self.assertEqual(node.wait(DEADLINE_S), 0, err.strip())

    @staticmethod
    def sockets_of(run):
        count = 0
        for link in pathlib.Path(f"/proc/{run.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # one that was closed meanwhile
                count += "socket" in os.readlink(link)
        return count

    def until(self, there, event):
        deadline = time.monotonic() + DEADLINE_S
        while not there():
            self.assertLess(time.monotonic(), deadline, event)

    def test_strangers_are_told_why(self):
        self.node("a", wait="coordinator of")
        for names, arguments, reason in [("abcdx", ["x"], 'names no node "x"'), ("abcd", ["zz"], 'it has no node "zz"')]:
            file = self.cluster_file("other.toml", names=names)
            done = subprocess.run([cluster_test.TROUPE, "node", file, "--name", *arguments], capture_output=True, text=True,
                                  timeout=DEADLINE_S, check=False)
            self.assertIn(reason, done.stderr)
            self.assertIn(done.returncode, (1, 2))
        other = self.node("b", file=self.cluster_file("elsewhere.toml", cluster="elsewhere"))
        self.wait_for_line(other, "refused while connecting: another cluster")
        self.assertEqual(other.wait(DEADLINE_S), 1)  # it would be refused for ever
        taken = subprocess.run([cluster_test.TROUPE, "node", self.file, "--name", "a"], capture_output=True, text=True,
                               timeout=DEADLINE_S, check=False)
        self.assertEqual(taken.returncode, 1)
        self.assertIn("cannot listen", taken.stderr)

    def test_a_stranger_at_a_lane_is_named_in_the_log_of_the_node(self):
        port = self.kept_port()
        with open(self.file, encoding="utf-8") as file:
            self.file = self.path("lanes.toml", file.read().replace('name = "b"\n', f'name = "b"\nlane_port = {port}\n'))
        self.cluster()
        run = self.submit(job=ENDLESS)
        self.wait_for_line(run, "^step ")
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self.wait_for_line(self.nodes["b"], r"node b: turns away a connection from 127\.0\.0\.1.*: bad frame")
        self.wait_for_line(run, "^step ")

    def test_a_second_node_of_a_name_is_told_at_once_and_one_whose_forerunner_is_gone_joins(self):
        self.cluster("abc")
        run = self.submit(job=ENDLESS.replace("workers = 4", "workers = 2"))  # on b and c
        self.wait_for_line(run, "^step ")
        first = self.nodes["b"]
        second = self.node("b")
        _, err = self.finish(second)
        self.assertEqual(second.returncode, 1)
        self.assertEqual(err, f'troupe: node b was refused: node "b" has joined already: process {first.pid} on 127.0.0.1; '
                              "end that one, or start this with another name\n")
        os.kill(first.pid, signal.SIGSTOP)
        third = self.node("b")
        self.wait_for_line(third, f"process {first.pid} on 127.0.0.1, which does not answer; it tries again")
        first.kill()
        self.wait_for_line(third, "joined; the coordinator is")
        self.wait_for_line(run, "node b is back")
        self.assertIsNone(run.poll())

    def altered_copy(self, text, by):
        """A copy of the program in which a constant is another one."""
        with open(cluster_test.TROUPE, "rb") as program, open(self.path("other"), "wb") as copy:
            whole = program.read()
            self.assertIn(text, whole)
            copy.write(whole.replace(text, by))
        os.chmod(copy.name, 0o755)
        return copy.name

    def other_version(self):
        """A copy that takes itself for another version's."""
        said = subprocess.run([cluster_test.TROUPE, "version", "--json"], capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout
        version = json.loads(said)["version"].encode()
        other = version[:-1] + (b"8" if version.endswith(b"9") else b"9")
        copy = self.altered_copy(b"\0" + version + b"\0", b"\0" + other + b"\0")
        said = subprocess.run([copy, "version"], capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout
        self.assertIn(other.decode(), said)
        return copy, other.decode()

    def test_whoever_is_of_another_version_is_told_so_and_the_job_goes_on(self):
        self.cluster()
        run = self.submit(job=ENDLESS)
        self.wait_for_line(run, "^step ")
        program, version = self.other_version()
        self.nodes["d"].kill()
        self.wait_for_line(self.nodes["a"], "node d is gone")
        done = subprocess.run([program, "node", self.file, "--name", "d"], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1)
        # Whoever compiled the version into an instruction has left it out of the word that CAF compares; then the cluster does.
        self.assertRegex(done.stderr, rf'^troupe: node d .*(another build of Troupe than {version} .* here|this cluster runs Troupe .*, node "d" runs {version} .*)\n$')
        self.wait_for_line(run, "^step ")
        self.node("d")
        self.wait_for_line(run, "node d is back")

    def test_a_build_with_other_messages_is_refused(self):
        self.cluster("abc")
        other = self.altered_copy(b"troupe::actors::job_says\0", b"troupe::actors::job_saYs\0")
        for command in ["node", self.file, "--name", "d"], ["run", self.path("job.toml", JOB), "--cluster", self.file]:
            with self.subTest(command[0]):
                done = subprocess.run([other, *command], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, r"another build of Troupe than \S+ \(messages [0-9a-f]{8}\) here")


class Jobs(BootstrapTest):
    def test_jobs_queue_and_those_that_fit_run_side_by_side(self):
        self.cluster()
        two = ENDLESS.replace("workers = 4", "workers = 1")
        first = self.submit("--nodes", "2", job=two, name="first.toml")
        self.wait_for_line(first, "^step ")
        second = self.submit("--nodes", "3", job=two.replace("workers = 1", "workers = 2"), name="second.toml")
        self.wait_for_line(second, "^step ")
        third = self.submit("--nodes", "2", "--json", job=JOB.replace("workers = 4", "workers = 1"), name="third.toml")
        self.wait_for_line(third, r"waits: it needs 2 nodes: .*runs job [12]")
        first.send_signal(signal.SIGINT)
        self.finish(first)
        self.assertEqual(first.returncode, 130)
        result, _ = self.result_of(third)
        self.assertGreater(result["steps"], 0)
        second.kill()  # a client that dies takes its job along
        self.wait_for_line(self.nodes["a"], "job 2 has ended: its client did not come back within 5 s")
        last, _ = self.result_of(self.submit("--json"))
        self.assertEqual(last["nodes"], 4)

    def test_a_lane_port_of_the_coordinators_node_keeps_no_job_waiting(self):
        with open(self.file, encoding="utf-8") as file:
            text = file.read()
        with socket.create_server(("127.0.0.1", 0)) as taken:  # lanes go from that node to the others
            port = taken.getsockname()[1]
            self.file = self.path("ports.toml", text.replace('name = "a"', f'name = "a"\nlane_port = {port}'))
            self.node("a", wait=f"lane_port = {port} is not used: lanes go from the coordinator's node to the others")
            self.cluster("bcd")
            one = ENDLESS.replace("workers = 4", "workers = 1")
            runs = [self.submit("--nodes", "2", job=one, name=f"{i}.toml") for i in range(3)]
            for run in runs:
                self.wait_for_line(run, "^step ")
            self.assertEqual([job["state"] for job in self.ask("jobs")[0]["jobs"]], ["runs"] * 3)

    def test_lane_ports_that_are_given_serve_one_job_after_the_other(self):
        with open(self.file, encoding="utf-8") as file:
            text = file.read()
        self.file = self.path("ports.toml", text.replace('name = "b"', f'name = "b"\nlane_port = {self.kept_port()}'))
        self.cluster("ab")
        short = JOB.replace("workers = 4", "workers = 1")
        runs = [self.submit("--nodes", "2", "--json", job=short, name=f"{i}.toml") for i in range(4)]
        for run in runs:
            self.result_of(run)

    def test_weights_and_trace_come_to_the_client(self):
        self.cluster()
        weights, trace = self.path("w.safetensors"), self.path("t.json")
        result, _ = self.result_of(self.submit("--json", "--save", weights, "--trace", trace))
        done = subprocess.run([cluster_test.TROUPE, "evaluate", self.path("job.toml"), "--weights", weights, "--json"],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["weights_digest"], result["weights_digest"])
        with open(trace, encoding="utf-8") as file:
            names = {event["args"]["name"] for event in json.load(file)["traceEvents"] if event["ph"] == "M"}
        self.assertLessEqual({"coordinator", "shard 0", "worker 0", "worker 3"}, names)

    def test_every_job_that_cannot_run_is_refused_at_once(self):
        nobody = self.submit()
        _, err = self.finish(nobody)
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("cannot reach the cluster's coordinator, node a at", err)
        self.cluster("a")
        too_many = self.submit("--nodes", "5")
        _, err = self.finish(too_many)
        self.assertEqual(too_many.returncode, 1)
        self.assertIn("the job wants 5 nodes and the cluster has 4", err)
        alone = self.submit("--nodes", "1")
        _, err = self.finish(alone)
        self.assertIn("may hold no workers", err)


class Checks(BootstrapTest):
    """`check --cluster`: what the nodes say before a job."""

    def check(self, *arguments, job=JOB):
        done = subprocess.run([cluster_test.TROUPE, "check", self.path("job.toml", job), "--cluster", self.file, *arguments], capture_output=True,
                              text=True, timeout=DEADLINE_S, check=False)
        return done, json.loads(done.stdout.splitlines()[-1]) if "--json" in arguments else None

    def csv_job(self, names="abcd", lacks=""):
        """A job on a table by a relative path, and a working folder for each node, which has its own copy unless it `lacks` it."""
        for name in names:
            os.mkdir(self.path(name))
            if name not in lacks:
                with open(os.path.join(self.path(name), "table.csv"), "w", encoding="utf-8") as file:
                    file.writelines(f"{i},{i * i % 7},{i % 2}\n" for i in range(100))
        job = re.sub(r"(?s)\[data\].*?\n(?=\[)", '[data]\nsource = "csv"\npath = "table.csv"\nbatch = 8\n', JOB)
        return re.sub("layers = .*", 'layers = ["linear 2"]', job)

    def node(self, name, file=None, wait=None):
        folder = self.path(name)
        back = os.getcwd()
        os.chdir(folder if os.path.isdir(folder) else back)
        try:
            return super().node(name, file, wait)
        finally:
            os.chdir(back)

    def check_in(self, folder, *arguments, job):
        back = os.getcwd()
        os.chdir(self.path(folder))
        try:
            return self.check(*arguments, job=job)
        finally:
            os.chdir(back)

    def test_every_node_says_what_it_is(self):
        self.cluster()
        done, said = self.check("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(said["ok"] and said["cluster"]["reached"])
        self.assertEqual([node["name"] for node in said["nodes"]], list("abcd"))
        for node in said["nodes"]:
            self.assertEqual((node["state"], node["lane_version"], node["job"], node["data"]), ("here", 12, None, []))
            self.assertEqual(node["pid"], self.nodes[node["name"]].pid)
            self.assertEqual(node["version"], said["nodes"][0]["version"])
            self.assertEqual([(device["name"], device["usable"]) for device in node["devices"]], [("cpu", True)])
            self.assertGreater(node["free_bytes"], 0)
            self.assertLessEqual(abs(node["clock_offset_s"]), node["round_trip_s"] / 2 + 0.001)  # all have one clock
        self.assertGreater(said["nodes"][1]["round_trip_s"], 0)
        done, _ = self.check()
        self.assertRegex(done.stdout, r"(?m)^d +127\.0\.0\.1 +any +here +\S+ +version 12 +cpu +\S+ GB +\S+ ms +[+-]\S+ ms +drawn$")

    def test_a_stopped_node_and_an_absent_one_are_named(self):
        self.cluster("abc")
        os.kill(self.nodes["c"].pid, signal.SIGSTOP)
        done, said = self.check("--json")
        self.assertEqual(done.returncode, 2)
        self.assertFalse(said["ok"])
        self.assertEqual([node["state"] for node in said["nodes"]], ["here", "here", "silent", "absent"])
        self.assertIn("node c: does not answer (no answer in time)", done.stderr)
        self.assertIn("node d: it has not joined; the job needs 4 nodes and 3 are here", done.stderr)
        os.kill(self.nodes["c"].pid, signal.SIGCONT)
        self.node("d", wait="joined")
        self.nodes["d"].kill()
        self.wait_for_line(self.nodes["a"], "node d is gone")
        done, _ = self.check("--set", "cluster.workers=2")
        self.assertEqual(done.returncode, 0, done.stderr)  # three nodes will do
        self.assertRegex(done.stdout, r"(?m)^d .* not here +is gone: .*\n.*nothing is wrong\n\Z", "it is not scrolled away")

    def test_data_that_a_node_lacks_is_named(self):
        job = self.csv_job(lacks="c")
        self.cluster()
        done, said = self.check_in("a", "--json", job=job)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(said["errors"], [{"where": self.file, "what": "node c: table.csv: No such file or directory; every node reads the "
                                                                        "data from the same path"}])
        files = [node["data"][0] for node in said["nodes"]]
        self.assertEqual([len(file["sha256"] or "") for file in files], [64, 64, 0, 64])
        self.assertEqual(len({file["sha256"] for file in files}), 2)

    def test_data_that_differs_by_a_byte_is_named(self):
        job = self.csv_job()
        with open(os.path.join(self.path("c"), "table.csv"), "r+b") as file:
            file.seek(400)
            byte = file.read(1)
            file.seek(400)
            file.write(b"9" if byte != b"9" else b"8")
        self.cluster()
        done, said = self.check_in("a", "--json", job=job)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(said["errors"]), 1)
        self.assertRegex(said["errors"][0]["what"], "^node c: table.csv differs from node a's ")
        with open(os.path.join(self.path("a"), "table.csv"), "rb") as file:
            self.assertEqual(said["nodes"][0]["data"][0]["sha256"], hashlib.sha256(file.read()).hexdigest())

    def test_a_job_does_not_start_on_data_that_differs(self):
        job = self.csv_job()
        with open(os.path.join(self.path("c"), "table.csv"), "r+b") as file:
            file.write(b"1")  # where the first row has a 0
        self.cluster()
        back = os.getcwd()
        os.chdir(self.path("a"))
        try:
            run = self.submit(job=job)
        finally:
            os.chdir(back)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 1, err)
        self.assertRegex(err, r"node c: table\.csv differs from node a's \(\d+ bytes, SHA-256 [0-9a-f]{8}\.\.\., there \d+ bytes, [0-9a-f]{8}\.\.\.\)")

    def test_a_port_that_somebody_has_and_a_gpu_that_is_not_there_are_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with open(self.file, encoding="utf-8") as file:
                text = file.read()
            self.file = self.path("lab.toml", text.replace('name = "b"', f'name = "b"\nlane_port = {taken.getsockname()[1]}')
                                  .replace('name = "d"', 'name = "d"\ndevices = ["cuda:99"]'))
            self.cluster()
            done, _ = self.check()
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "node b: cannot listen for lanes on 127.0.0.1:[0-9]+: Address already in use")
        self.assertRegex(done.stderr, 'node d: its device "cuda:99" of the cluster file cannot be used there: ')

    def test_without_a_cluster_the_files_alone_are_checked(self):
        done, said = self.check("--json")
        self.assertEqual(done.returncode, 0)
        self.assertEqual((said["cluster"]["reached"], said["nodes"]), (False, []))
        self.assertIn("the cluster does not run, so the files alone are checked: cannot reach the cluster's coordinator, node a", done.stderr)

    def test_a_coordinator_that_does_not_answer_is_a_mistake(self):
        self.cluster("a")
        os.kill(self.nodes["a"].pid, signal.SIGSTOP)
        done, said = self.check("--json")
        self.assertEqual((done.returncode, said["ok"], len(said["errors"])), (2, False, 1), done.stderr)
        self.assertRegex(done.stderr, "cannot reach the cluster's coordinator, node a at .*: it accepts connections and has not answered for 10 s")

    def test_a_coordinator_that_is_silent_for_a_moment_is_waited_for(self):
        self.cluster("a")
        for command in (["check", self.path("job.toml", JOB), "--json"], ["console", "-c", "nodes", "--json"], ["run", self.path("job.toml"), "--quiet"]):
            with self.subTest(command[0]):
                os.kill(self.nodes["a"].pid, signal.SIGSTOP)
                client = subprocess.Popen([cluster_test.TROUPE, *command, "--cluster", self.file], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          text=True, start_new_session=True)
                self.addCleanup(self.end, client)
                self.wait_for_line(client, "^waiting for the cluster's coordinator, node a at .*, which accepts connections but does not answer")
                os.kill(self.nodes["a"].pid, signal.SIGCONT)
                if command[0] == "run":  # it is in the queue now: its nodes are not here
                    self.wait_for_line(self.nodes["a"], "job 1 waits: it needs 4 nodes")
                    continue
                out, err = self.finish(client)
                self.assertIn('"name":"d"', out, err)

    def test_a_job_that_runs_goes_on(self):
        self.cluster()
        run = self.submit(job=ENDLESS)
        self.wait_for_line(run, "^step ")
        done, said = self.check("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([node["job"] for node in said["nodes"]][1:], [1, 1, 1])
        self.wait_for_line(run, "^step ")


if __name__ == "__main__":
    cluster_test.main()
