# SPDX-License-Identifier: BSD-3-Clause
"""A job below three coordinators, whose nodes are started again when they die."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import cluster_test
from schedules import COORDINATORS, WORKERS
from trouble import Harness, expect


class CouncilRun(Harness):
    def __init__(self, schedule, folder):
        super().__init__(schedule, folder)
        self.keepers, self.nodes, self.process = [], {}, None
        self.file = os.path.join(folder, "lab.toml")
        pathlib.Path(self.file).write_text(self.cluster(), encoding="utf-8")
        for name in COORDINATORS + WORKERS:
            self.start(name)
        self.begin(cluster_test.TROUPE, "run", self.job, "--cluster", self.file, "--json", *self.settings)

    def cluster(self):
        text = f'name = "lab"\n[cluster]\njournal = "{self.folder}/journal/{{name}}"\n'
        for name in COORDINATORS:
            text += f'[[node]]\nname = "{name}"\nhost = "127.0.0.1"\nport = {self.kept_port()}\nroles = ["coordinator", "shard"]\n'
        for name in WORKERS:
            text += f'[[node]]\nname = "{name}"\nhost = "127.0.0.1"\nport = 0\n'
        return text

    def kept_port(self):
        """A port for a node, which listens with SO_REUSEADDR; the system gives it to nobody else meanwhile."""
        keeper = socket.socket()
        self.keepers.append(keeper)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        return keeper.getsockname()[1]

    def start(self, name):
        with open(self.log_of(name), "a", encoding="utf-8") as out:
            self.nodes[name] = subprocess.Popen([cluster_test.TROUPE, "node", self.file, "--name", name], stdout=subprocess.DEVNULL, stderr=out,
                                                start_new_session=True)
        self.pids.add(self.nodes[name].pid)

    def log_of(self, name):
        return os.path.join(self.folder, f"{name}.log")

    def log(self, name):
        return pathlib.Path(self.log_of(name)).read_text(encoding="utf-8")

    def console(self):
        return ["--cluster", self.file]

    def standing(self, name):
        """The last that a coordinator has said of who leads, in the life that it has now."""
        words = re.findall(r"leads the coordinators|follows; node|knows of no leader|coordinator of", self.log(name))
        return words[-1] if words else ""

    def leader(self):
        return next((name for name in COORDINATORS if self.standing(name) == "leads the coordinators"), None)

    def is_calm(self):
        """Of three coordinators at most one may be away."""
        return self.leader() and sum(self.standing(name) == "follows; node" for name in COORDINATORS) == 2

    def suffer(self, fault):
        self.pause(fault.after_s)
        self.wait_until("two follow the third", lambda: self.over() or self.is_calm())
        self.wait_until("all copies are whole", lambda: self.over() or (self.is_whole() and self.is_calm()))
        if self.over():
            return
        self.suffered += 1
        if fault.kind == "reset":
            ports = [keeper.getsockname()[1] for keeper in self.keepers]
            return self.reset_a_lane([node.pid for node in self.nodes.values()], ports)
        names = [name if name != "leader" else self.leader() for name in fault.node.split(" and ")]
        self.harm([self.nodes[name].pid for name in names], fault)
        for name in names if fault.kind == "kill" else []:
            self.nodes[name].wait()
            with open(self.log_of(name), "a", encoding="utf-8") as out:
                out.write("knows of no leader: it was killed\n")
            self.start(name)

    def wait_until_gone(self):
        for name, node in self.nodes.items():
            expect(node.poll() is None, f"node {name} ended with {node.returncode}")
            node.send_signal(signal.SIGTERM)
        for node in self.nodes.values():
            self.wait_until("the nodes end", lambda node=node: node.poll() is not None, 30)
        super().wait_until_gone()

    def judge(self):
        self.judge_words("".join(self.said) + "".join(map(self.log, self.nodes)))
        expect(self.process.returncode == 0, f"the client ends with {self.process.returncode}")
        result = json.loads(self.out.splitlines()[-1])
        expect(result["steps"] == self.steps and not result["error"], f"{result['steps']} steps were made of {self.steps}: {result['error']}")

    def last_words(self):
        logs = "".join(f"    {name}: {line}\n" for name in self.nodes for line in self.log(name).splitlines()[-12:])
        return super().last_words() + logs

    def end(self):
        super().end()
        for node in self.nodes.values():
            node.wait()
        for keeper in self.keepers:
            keeper.close()
