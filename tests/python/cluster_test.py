#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""troupe.steps(cluster=): one script on every node of a cluster, by a file, by Slurm's or Kubernetes' variables, on hosts, under srun.

usage: cluster_test.py BUILD_DIR [unittest arguments]

Hosts are network namespaces, which the scripts netup.sh and netdown.sh make for root, in TROUPE_HOSTS or in ../shared/hosts beside
the source.
"""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest

import common
from steps_test import NUMPY

LOOP = NUMPY + """
options = json.loads(sys.argv[1])
loop = troupe.steps(model, samples=1000, test=200, batch=10, **options)
computed = 0
for step in loop:
    if computed == 3 and os.environ.get("FAILS"):
        raise ValueError("these rows are odd")
    compute(step)
    computed += step.training
    if computed == 5 and step.training:
        print("computes", flush=True)
print(json.dumps({"accuracy": loop.result.test_accuracy, "steps": loop.result.steps, "w": model["w"].tolist(), "own": computed}))
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pod(index):
    """What Kubernetes and a Job's description tell a pod."""
    return {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"train-{index}", "TROUPE_SERVICE": "pods", "TROUPE_NODES": "2"}


class Nodes(common.Scripts):
    """Tests that start one script several times."""

    def start_one(self, script, options, settings, prefix=()):
        command = [*prefix, common.python_with(*self.modules), "-u", str(script), json.dumps(options)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                   env=common.environment() | {"TMPDIR": str(self.folder)} | settings, preexec_fn=common.take_interrupts)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def finish(self, process, code=0):
        """Its standard output and error."""
        out, err = process.communicate(timeout=common.DEADLINE_S)
        self.assertEqual(process.returncode, code, f"{out}\n{err}")
        return out, err

    def result_of(self, processes):
        """What the first one printed last; the others have ended with their loops."""
        said = [self.finish(process) for process in processes]
        for out, _ in said[1:]:
            self.assertIn(out, ("", "computes\n"))
        return json.loads(said[0][0].splitlines()[-1])


@common.needs("numpy")
class Files(Nodes):
    """A cluster file on loopback: a coordinates, and all compute."""

    def file(self, names="abc", roles=None, more=""):
        nodes = [f'[[node]]\nname = "{name}"\nhost = "127.0.0.1"\nport = {free_port() if name == "a" else 0}\n'
                 + (f"roles = {json.dumps(roles[name])}\n" if name in (roles or {}) else "") for name in names]
        path = self.folder / "cluster.toml"
        path.write_text(f'name = "scripts-{os.getpid()}"\n{more}' + "".join(nodes), encoding="utf-8")
        return str(path)

    def start_nodes(self, names="abc", script=LOOP, file=None, settings=None, **options):
        script = self.write(script)
        options = {"cluster": file or self.file(names)} | options
        return [self.start_one(script, options, {"TROUPE_NODE_NAME": name} | (settings or {}).get(name, {})) for name in names]

    def test_three_processes_are_one_with_the_whole_batch(self):
        together = self.result_of(self.start_nodes(epochs=2))
        alone = json.loads(self.run_script(LOOP.replace("batch=10", "batch=30"), json.dumps({"epochs": 2})).splitlines()[-1])
        self.assertGreater(together["accuracy"], 0.95)
        self.assertEqual(together["steps"], alone["steps"])
        self.assertGreater(together["own"], 60)  # a third of the steps, and it evaluates too
        for a, b in zip(sum(alone["w"], []), sum(together["w"], [])):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def test_shards_are_where_the_file_lets_them_be(self):
        file = self.file(roles={"a": ["coordinator", "shard"], "b": ["shard"], "c": ["worker"]})
        got = self.result_of(self.start_nodes(file=file, epochs=2, set={"cluster.shards": 2}))
        self.assertGreater(got["accuracy"], 0.95)
        self.assertEqual(got["own"], 0)  # it evaluates, and c computes

    def test_the_others_go_on_when_one_is_killed(self):
        nodes = self.start_nodes(epochs=20, set={"cluster.shards": 3, "cluster.replicas": 2})
        self.assertEqual(nodes[1].stdout.readline(), "computes\n")
        nodes[2].send_signal(signal.SIGKILL)
        self.assertGreater(self.result_of(nodes[:2])["accuracy"], 0.95)

    def test_when_the_first_one_is_killed_the_others_say_so(self):
        nodes = self.start_nodes(epochs=100000)
        self.assertEqual(nodes[1].stdout.readline(), "computes\n")
        nodes[0].send_signal(signal.SIGKILL)
        began = time.monotonic()
        for node in nodes[1:]:
            _, err = self.finish(node, code=1)
            print(f"its end was said {time.monotonic() - began:.2f} s after the first process's")
            self.assertRegex(err, r"troupe\S*Error: the coordinator, node a at 127.0.0.1:\d+, is gone: connection lost")
        self.assertLess(time.monotonic() - began, 30)

    def test_an_exception_in_the_loop_costs_that_process_alone(self):
        nodes = self.start_nodes(epochs=4, settings={"c": {"FAILS": "1"}}, progress=True)
        out, err = self.finish(nodes[0])
        self.assertGreater(json.loads(out.splitlines()[-1])["accuracy"], 0.95)
        self.assertIn("troupe: node c leaves the job: Traceback", err)
        self.assertIn("ValueError: these rows are odd", err)
        self.finish(nodes[1])
        self.assertIn("ValueError: these rows are odd", self.finish(nodes[2], code=1)[1])

    def test_control_c_at_the_first_one_ends_all(self):
        nodes = self.start_nodes(epochs=100000)
        self.assertEqual(nodes[1].stdout.readline(), "computes\n")
        nodes[0].send_signal(signal.SIGINT)
        _, err = nodes[0].communicate(timeout=common.DEADLINE_S)
        self.assertIn("KeyboardInterrupt", err)
        for node in nodes[1:]:
            self.assertIn("the first process has ended the job before its time", self.finish(node, code=1)[1])

    def test_a_host_that_never_comes_is_named(self):
        file = self.file("abcd")
        script = self.write(LOOP)
        waiting = [self.start_one(script, {"cluster": file, "progress": True}, {"TROUPE_NODE_NAME": name}) for name in "bc"]
        for node in waiting:
            common.line_of(node.stderr, "it tries again, for 600 s")
        first = self.start_one(script, {"cluster": file, "wait_s": 8, "progress": True}, {"TROUPE_NODE_NAME": "a"})
        _, err = self.finish(first, code=1)
        self.assertIn("it needs 4 nodes: node d has not joined within 8 s", err)
        self.assertIn("troupe: waits: ", err)
        for node in waiting:
            self.assertIn("it needs 4 nodes: node d has not joined within 8 s", self.finish(node, code=1)[1])

    def test_a_first_host_that_never_comes_is_named(self):
        file = self.file("ab")
        node = self.start_one(self.write(LOOP), {"cluster": file, "wait_s": 1}, {"TROUPE_NODE_NAME": "b"})
        self.assertRegex(self.finish(node, code=1)[1],
                         r"node b cannot reach the coordinator, node a at 127.0.0.1:\d+: .*; it has tried for 1 s")

    def test_another_module_is_refused_on_both_sides(self):
        script = LOOP.replace("options = json", 'if os.environ.get("OTHER"): model["b"] = numpy.zeros(5, "float32")\noptions = json')
        for node in self.start_nodes("ab", script, settings={"b": {"OTHER": "1"}}):
            self.assertIn('its parameter 1 is "b (4)" in the first process and "b (5)" here', self.finish(node, code=1)[1])

    def test_other_initial_values_are_refused_on_both_sides(self):
        script = LOOP.replace("options = json", 'if os.environ.get("OTHER"): model["b"] += 1\noptions = json')
        for node in self.start_nodes("ab", script, settings={"b": {"OTHER": "1"}}):
            self.assertRegex(self.finish(node, code=1)[1], 'its initial parameter 1 is "b of checksum [0-9a-f]{8}" in the first process '
                                                           'and "b of checksum [0-9a-f]{8}" here; seed it alike')

    def test_another_script_is_refused_on_both_sides(self):
        options = {"cluster": self.file("ab")}
        one, other = self.write(LOOP), self.write(LOOP + "# another line\n")
        nodes = [self.start_one(one, options, {"TROUPE_NODE_NAME": "a"}), self.start_one(other, options, {"TROUPE_NODE_NAME": "b"})]
        for node in nodes:
            self.assertRegex(self.finish(node, code=1)[1], r"the script differs between processes: the first one runs script1.py of checksum "
                                                           r"[0-9a-f]{8}, and this one script2.py of checksum [0-9a-f]{8}")

    def test_what_is_wrong_is_said(self):
        file = self.file("ab")
        for name, options, sentence in [
                ("no name", {"cluster": file}, "say which of its nodes this process is"),
                ("another name", {"cluster": file, "node": "z"}, 'it has no node "z"; there are a, b'),
                ("no file", {"cluster": "nowhere.toml", "node": "a"}, "nowhere.toml"),
                ("nodes too", {"cluster": file, "node": "a", "nodes": 2}, "nodes counts processes of this machine"),
                ("certificates too", {"cluster": file, "node": "a", "insecure": True}, "certs and insecure are for Slurm and Kubernetes"),
        ]:
            with self.subTest(name):
                self.assertIn(sentence, self.run_script(LOOP, json.dumps(options), code=1))

    def test_a_journal_is_refused(self):
        file = self.file("ab", more='[cluster]\njournal = "journal"\n')
        self.assertIn("leave cluster.journal out", self.run_script(LOOP, json.dumps({"cluster": file, "node": "a"}), code=1))

    def test_a_job_file_goes_to_a_running_cluster(self):
        file = self.file("ab", {"a": ["coordinator", "shard"]})
        program = [common.BUILD / "troupe", "node", file, "--name"]
        nodes = [subprocess.Popen([*program, name], cwd=self.folder, stderr=subprocess.PIPE, text=True) for name in "ab"]
        for node in nodes:
            node.stdout = node.stderr
            self.addCleanup(self.end, node)
        while "b has joined" not in (line := nodes[0].stderr.readline()) and line:
            pass
        out = self.run_script(f"""
import troupe
small = {{"data.train_samples": 1000, "data.test_samples": 200, "stop.epochs": 1}}
r = troupe.run({str(common.SOURCE / "config/quickstart.toml")!r}, cluster={file!r}, set=small)
print(r.facts["nodes"], r.steps > 0, r.weights()["linear1.weight"].shape[0] > 1, len(r.history) > 0)
""")
        self.assertEqual(out, "2 True True True\n")


@common.needs("numpy")
class Schedulers(Nodes):
    """The variables of Slurm and Kubernetes, on loopback."""

    def slurm(self):
        for job in range(os.getpid() % 1000, 1250):
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", 20000 + job * 16 % 20000))
                except OSError:
                    continue
            return {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NODELIST": "127.0.0.1",
                    "SLURM_STEP_TASKS_PER_NODE": "3"}
        raise RuntimeError("no free port for a Slurm job")

    def test_the_tasks_of_a_slurm_step_find_each_other(self):
        for options in ({"cluster": "slurm"}, {}):
            with self.subTest(options=options):
                script, step = self.write(LOOP), self.slurm()
                tasks = [self.start_one(script, {"epochs": 2} | options, step | {"SLURM_PROCID": str(task)}) for task in range(3)]
                got = self.result_of(tasks)
                self.assertGreater(got["accuracy"], 0.95)
                self.assertGreater(got["own"], 60)

    def test_nodes_of_this_machine_are_none_of_slurm(self):
        process = self.start_one(self.write(LOOP), {"nodes": 2, "epochs": 1}, self.slurm() | {"SLURM_PROCID": "0"})
        self.assertGreater(self.result_of([process])["steps"], 0)

    def test_what_slurm_does_not_say_is_named(self):
        step = self.slurm()
        for change, sentence in [({"SLURM_STEP_TASKS_PER_NODE": "2,1"}, "do not go together"),
                                 ({"SLURM_PROCID": "7"}, "SLURM_PROCID=7 and 3 tasks do not go together"),
                                 ({"SLURM_STEP_NODELIST": ""}, "SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE are not all set"),
                                 ({"SLURM_STEP_NODELIST": "10.0.0.1"}, "give the nodes certificates")]:
            with self.subTest(change):
                process = self.start_one(self.write(LOOP), {"cluster": "slurm"}, step | {"SLURM_PROCID": "0"} | change)
                self.assertIn(sentence, self.finish(process, code=1)[1])

    def test_what_kubernetes_does_not_say_is_named(self):
        for change, sentence in [({"TROUPE_NODES": ""}, "TROUPE_NODES is not set"),
                                 ({"TROUPE_NODES": "", "HOSTNAME": ""}, "HOSTNAME, TROUPE_NODES are not set"),
                                 ({"TROUPE_NODES": "1"}, "JOB_COMPLETION_INDEX=1 and TROUPE_NODES=1 do not go together"),
                                 ({"HOSTNAME": "train-0"}, "HOSTNAME=train-0 does not end in -1"),
                                 ({"TROUPE_PORT": "0"}, 'TROUPE_PORT="0" is no port'),
                                 ({}, "give them certificates")]:
            with self.subTest(change):
                process = self.start_one(self.write(LOOP), {"cluster": "kubernetes"}, pod(1) | change)
                self.assertIn(sentence, self.finish(process, code=1)[1])


@common.needs("numpy")
class Srun(Nodes):
    """A real Slurm, where one answers (slurm-up.sh beside netup.sh starts one)."""

    @classmethod
    def setUpClass(cls):
        lock = open("/tmp/troupe-slurm.lock", "w", encoding="utf-8")  # as tests/apps has it: whoever else tests there waits
        cls.addClassCleanup(lock.close)
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = shutil.which("srun") and subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, check=False, timeout=60)
        if not answer or answer.returncode != 0 or "idle" not in answer.stdout:
            raise unittest.SkipTest("no Slurm answers here")

    def test_a_script_finds_its_step_by_itself(self):
        process = self.start_one(self.write(LOOP), {"epochs": 2}, {}, prefix=["srun", "-n", "4"])
        out, _ = self.finish(process)
        got = json.loads(out.splitlines()[-1])
        self.assertGreater(got["accuracy"], 0.95)
        self.assertGreater(got["own"], 45)


def hosts():
    return pathlib.Path(os.environ.get("TROUPE_HOSTS", common.SOURCE.parent / "shared" / "hosts"))


@common.needs("numpy")
class Hosts(Nodes):
    """Four hosts in network namespaces, with names of their own."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or shutil.which("ip") is None or not (hosts() / "netup.sh").exists():
            raise unittest.SkipTest(f"hosts are made by root, with iproute2 and {hosts() / 'netup.sh'}")
        lock = open("/tmp/troupe-namespaces.lock", "w", encoding="utf-8")  # one set of them a machine
        cls.addClassCleanup(lock.close)
        fcntl.flock(lock, fcntl.LOCK_EX)
        cls.addClassCleanup(subprocess.run, ["bash", hosts() / "netdown.sh", "3", "troupe-py"], check=False, capture_output=True)
        made = subprocess.run(["bash", hosts() / "netup.sh", "3", "troupe-py"], check=False, capture_output=True, text=True)
        if made.returncode != 0:
            raise unittest.SkipTest(f"no network namespaces can be made here: {made.stderr.strip()}")

    def on(self, number, script, options, settings):
        return self.start_one(script, options, settings, prefix=["ip", "netns", "exec", f"troupe-py{number}"])

    def test_a_script_on_three_hosts_with_certificates(self):
        program = str(common.BUILD / "troupe")
        subprocess.run([program, "certs", "init", "authority"], cwd=self.folder, check=True, capture_output=True)
        nodes = ""
        for number, name in enumerate("abc", start=1):
            subprocess.run([program, "certs", "issue", "authority", "--node", name, "--host", f"10.77.0.{number}", "--out", "certs"],
                           cwd=self.folder, check=True, capture_output=True)
            nodes += f'[[node]]\nname = "{name}"\nhost = "10.77.0.{number}"\nport = {7400 if name == "a" else 0}\n'
        (self.folder / "cluster.toml").write_text(
            'name = "hosts"\n' + nodes + '[security]\nca = "certs/ca.pem"\ncertificate = "certs/{name}.pem"\nkey = "certs/{name}.key"\n',
            encoding="utf-8")
        script = self.write(LOOP)
        processes = [self.on(number, script, {"cluster": "cluster.toml", "epochs": 2}, {"TROUPE_NODE_NAME": name})
                     for number, name in enumerate("abc", start=1)]
        self.assertGreater(self.result_of(processes)["accuracy"], 0.95)

    def test_the_pods_of_an_indexed_job_find_each_other(self):
        names = "127.0.0.1 localhost\n10.77.0.1 train-0.pods\n10.77.0.2 train-1.pods\n"
        for number in (1, 2):  # `ip netns exec` has it as /etc/hosts there
            folder = pathlib.Path(f"/etc/netns/troupe-py{number}")
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts").write_text(names, encoding="utf-8")
        for options in ({"cluster": "kubernetes"}, {}):
            with self.subTest(options=options):
                script = self.write(LOOP)
                pods = [self.on(number, script, {"epochs": 2, "insecure": True} | options, pod(number - 1)) for number in (1, 2)]
                self.assertGreater(self.result_of(pods)["accuracy"], 0.95)

    def test_a_host_that_is_cut_off_costs_its_process(self):
        nodes = "".join(f'[[node]]\nname = "{name}"\nhost = "10.77.0.{number}"\nport = {7400 if name == "a" else 0}\n'
                        for number, name in enumerate("abc", start=1))
        (self.folder / "cluster.toml").write_text('name = "cut"\n' + nodes + "[security]\ninsecure = true\n", encoding="utf-8")
        script = self.write(LOOP.replace("    compute(step)\n", "    compute(step)\n    time.sleep(0.01 * (computed > 5))\n"))
        processes = [self.on(number, script, {"cluster": "cluster.toml", "epochs": 20}, {"TROUPE_NODE_NAME": name})
                     for number, name in enumerate("abc", start=1)]
        self.assertEqual(processes[2].stdout.readline(), "computes\n")
        subprocess.run(["ip", "link", "set", "prv3", "down"], check=True)
        self.addCleanup(subprocess.run, ["ip", "link", "set", "prv3", "up"], check=False)
        self.assertGreater(self.result_of(processes[:2])["accuracy"], 0.95)
        self.assertIn("the coordinator, node a at 10.77.0.1:7400, is gone: connection lost", self.finish(processes[2], code=1)[1])


if __name__ == "__main__":
    common.main()
