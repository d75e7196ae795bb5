#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What comes out of the program where that is not easy: nothing can be written, somebody ends it, the terminal is narrow.

usage: output_test.py TROUPE [unittest arguments].
"""
import fcntl
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import sys
import termios

import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import DEADLINE_S, ENDLESS, JOB, ClusterTest, select_nothing

SMALL = JOB.replace("epochs = 2", "steps = 20").replace("workers = 4", "workers = 1")


class OutputTest(ClusterTest):
    def troupe(self, *arguments, **settings):
        return subprocess.run([cluster_test.TROUPE, *arguments], **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
                                                                   "timeout": DEADLINE_S, "check": False, **settings})

    def open(self, *arguments, **settings):
        run = subprocess.Popen([cluster_test.TROUPE, *arguments], **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
                                                                     "start_new_session": True, **settings})
        self.addCleanup(self.end, run)
        return run


class Unwritable(OutputTest):
    def test_a_result_that_cannot_be_printed_is_a_failure(self):
        job = self.path("job.toml", SMALL)
        for arguments in (["devices"], ["--help"], ["protocols", "--json"], ["check", job, "--json"], ["simulate", job, "--json"],
                          ["run", job, "--quiet", "--json"], ["run", job, "--quiet"]):
            with self.subTest(arguments), open("/dev/full", "w", encoding="utf-8") as full:
                done = self.troupe(*arguments, stdout=full)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("troupe: the output cannot be written: ", done.stderr)

    def test_files_that_cannot_be_written_are_refused_before_the_run(self):
        job = self.path("job.toml", SMALL)
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        for flag, file, why in (("--save", "", "is not a name"), ("--save", "/dev/full", "is not a regular file"), ("--trace", "/dev/full", "is not a regular file"),
                                ("--save", pipe, "is not a regular file"), ("--save", self.folder.name, "is a folder"),
                                ("--save", "/proc/w.safetensors", "cannot write"), ("--log", self.path("absent/log"), "cannot write")):
            with self.subTest(flag, file=file):
                done = self.troupe("run", job, flag, file)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(flag, done.stderr)
                self.assertIn(why, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["job.toml", "pipe"])

    def test_a_log_may_go_to_a_device(self):
        self.assertEqual(self.troupe("run", self.path("job.toml", SMALL), "--quiet", "--log", "/dev/null").returncode, 0)

    def test_weights_that_cannot_be_saved_do_not_take_the_results_with_them(self):
        # Nothing that it writes may be larger than this, and the weights are.
        tiny = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)), "restore_signals": False}
        done = self.troupe("run", self.path("job.toml", SMALL), "--quiet", "--json", "--save", self.path("w.safetensors"), **tiny)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot save the weights", done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["steps"], 20)
        self.assertEqual(os.listdir(self.folder.name), ["job.toml"])

    def test_a_job_file_that_is_a_pipe_is_refused_and_one_that_a_shell_hands_over_is_not(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        done = self.troupe("check", pipe)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{pipe}: is a pipe", done.stderr)
        self.assertEqual(self.troupe("check", "/dev/stdin", input=SMALL).returncode, 0)


class Ends(OutputTest):
    kept_port = BootstrapTest.kept_port
    ENDLESS = ("--set", "simulate.numerics=quadratic", "--set", "inject.step_ms=10", "--set", "stop.epochs=1e9")

    def test_ctrl_c_ends_a_simulated_comparison(self):
        run = self.open("compare", self.path("job.toml", JOB), "--simulate", "--protocols", "sync,async", *self.ENDLESS)
        self.wait_for_line(run, r"\(1 of 2\)")
        run.send_signal(2)
        _, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("interrupted after 0 of 2 runs", err)

    def test_ctrl_c_ends_a_simulation_with_what_there_is(self):
        run = self.open("simulate", self.path("job.toml", JOB), "--json", *self.ENDLESS)
        while True:  # until it has taken up the signal
            with open(f"/proc/{run.pid}/status", encoding="utf-8") as status:
                if int(re.search(r"SigCgt:\s*(\w+)", status.read())[1], 16) & 2:
                    break
            select_nothing()
        run.send_signal(2)
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("interrupted after", err)
        self.assertEqual(json.loads(out)["job"], "small")

    def test_a_node_of_its_own_says_whom_it_looks_for_and_that_it_has_joined(self):
        node = '[[node]]\nname = "{}"\nhost = "127.0.0.1"\nport = {}\nroles = {}\n'
        lab = self.path("lab.toml", node.format("a", self.kept_port(), '["coordinator", "shard"]') + node.format("b", 0, '["worker"]'))
        member = self.open("node", lab, "--name", "b", "--once")
        self.wait_for_line(member, r"node b: cannot reach the coordinator, node a at .*; it tries again, for 20 s")
        self.open("node", lab, "--name", "a")
        self.wait_for_line(member, r"node b: joined")


class Leaves(OutputTest):
    """What a run leaves that does not end by itself."""

    SLOW = ENDLESS.replace("[stop]", "[inject]\nstep_ms = 10\n[stop]")
    MEASURED = SLOW.replace("every_s = 3600.0", "every_samples = 640")

    def left_by(self, run, code=130):
        out, err = self.finish(run)
        self.assertEqual(run.returncode, code, err)
        return json.loads(out.splitlines()[-1]), err

    def saved_by(self, run):
        """Where an endless run that has made steps and evaluated nothing saves its weights, and what it says when it is interrupted."""
        self.wait_for_line(run, "^step ")
        self.wait_for_line(run, "^step ")
        run.send_signal(signal.SIGTERM)
        return self.left_by(run)

    def test_an_interrupted_run_saves_its_newest_weights(self):
        for name in "sync", "async", "local", "easgd", "gossip", "backup":
            with self.subTest(name):
                saved = self.path(f"{name}.safetensors")
                run = self.open("run", self.path("job.toml", self.SLOW), "--nodes", "2", "--json", "--save", saved, "--set", f"protocol.name={name}",
                                "--set", "cluster.shards=3")
                result, err = self.saved_by(run)
                self.assertEqual((result["weights_step"], result["evaluated_step"], result["error"]), (result["steps"], None, None))
                self.assertGreater(result["steps"], 1)
                self.assertIn(f"{saved} has the weights of step {result['steps']}", err)
                evaluated = json.loads(self.troupe("evaluate", self.path("job.toml"), "--weights", saved, "--json").stdout)
                self.assertEqual(evaluated["weights_digest"], result["weights_digest"])
                if name == "sync":  # as if it had been meant to end there
                    meant = self.run_job("--set", f"stop.steps={result['steps']}", job=self.SLOW)
                    self.assertEqual(meant["weights_digest"], result["weights_digest"])

    def test_without_an_evaluation_nothing_is_said_of_one(self):
        run = self.open("run", self.path("job.toml", self.SLOW))
        self.wait_for_line(run, "^step ")
        self.wait_for_line(run, "^step ")
        run.send_signal(2)
        out, _ = self.finish(run)
        self.assertNotIn("evaluation", out)
        self.assertRegex(out, r"memory of the largest node: [1-9]\d* MB at the end\nweights [0-9a-f]{32}\n$")

    def test_what_a_person_stops_leaves_what_there_is(self):
        saved = self.path("w.safetensors")
        run = self.open("run", self.path("job.toml", self.MEASURED), "--nodes", "2", "--json", "--save", saved)
        port = re.search(r":(\d+)", self.wait_for_line(run, "troupe console"))[1]
        self.wait_for_line(run, "evaluated")
        asked = self.troupe("console", f"127.0.0.1:{port}", "-c", "stop 1")
        self.assertEqual(asked.returncode, 0, asked.stderr)
        result, err = self.left_by(run)
        self.assertRegex(err, r"troupe: interrupted after \d+ steps: stopped at the console")
        self.assertEqual(result["interrupted"], "stopped at the console")
        self.assertEqual(result["weights_step"], result["steps"])
        self.assertTrue(0 < result["evaluated_step"] <= result["steps"], result)
        evaluated = json.loads(self.troupe("evaluate", self.path("job.toml"), "--weights", saved, "--json").stdout)
        self.assertEqual(evaluated["weights_digest"], result["weights_digest"])

    def test_the_newest_weights_do_not_wait_for_a_worker_that_hangs(self):
        run = self.open("run", self.path("job.toml", self.SLOW), "--nodes", "3", "--json", "--save", self.path("w.safetensors"))
        self.wait_for_line(run, "^step ")
        os.kill(self.children(run)[-1], signal.SIGSTOP)
        run.send_signal(2)
        result, _ = self.left_by(run)
        self.assertEqual(result["weights_step"], result["steps"])

    def test_a_shard_that_hangs_leaves_the_weights_of_the_last_evaluation(self):
        saved = self.path("w.safetensors")
        run = self.open("run", self.path("job.toml", self.MEASURED), "--nodes", "2", "--json", "--save", saved, "--set", "cluster.shards=2",
                        "--set", "cluster.placement=colocated", "--set", "evaluate.every_samples=12800")
        self.wait_for_line(run, "evaluated")  # 200 steps of 10 ms are before the next
        os.kill(self.children(run)[-1], signal.SIGSTOP)
        self.wait_for_line(run, "no step for")
        run.send_signal(2)
        result, err = self.left_by(run)
        self.assertEqual(result["weights_step"], result["evaluated_step"])
        self.assertIn(f"{saved} has the weights of step {result['weights_step']}", err)

    def test_a_job_that_fails_saves_what_was_evaluated_last(self):
        saved = self.path("w.safetensors")
        run = self.open("run", self.path("job.toml", self.MEASURED), "--nodes", "2", "--json", "--save", saved)
        port = re.search(r":(\d+)", self.wait_for_line(run, "troupe console"))[1]
        self.wait_for_line(run, "evaluated")
        self.troupe("console", f"127.0.0.1:{port}", "-c", "kill shard 0")
        result, err = self.left_by(run, 1)
        self.assertIn("shard 0 was lost", result["error"])
        self.assertEqual(result["weights_step"], result["evaluated_step"])
        evaluated = json.loads(self.troupe("evaluate", self.path("job.toml"), "--weights", saved, "--json").stdout)
        self.assertEqual(evaluated["weights_digest"], result["weights_digest"])
        self.assertEqual(evaluated["test_accuracy"], result["test_accuracy"])
        self.assertIn(f"{saved} has the weights of step {result['weights_step']}", err)

    def test_a_job_that_fails_prints_its_object(self):
        job = self.path("job.toml", JOB)
        done = self.troupe("run", job, "--set", "optimizer.lr=1e30", "--json", "--quiet", "--save", self.path("w.safetensors"))
        self.assertEqual(done.returncode, 1, done.stderr)
        [line] = done.stdout.splitlines()
        result = json.loads(line)
        self.assertRegex(result["error"], "training diverged")
        self.assertIsNone(result["interrupted"])
        self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)  # what could not be saved, and why it failed
        said = self.troupe("run", job, "--set", "optimizer.lr=1e30").stderr
        self.assertEqual(len(re.findall("not finite", said)), 2, said)  # the first, and how many there were
        self.assertRegex(said, r"\d\d gradients were not finite, the last at step \d")
        for command in ["simulate", job, "--set", "inject.step_ms=10", "--fault", "crash=worker:0,at_s=0.05", "--set", "cluster.workers=1"], [
                "compare", job, "--protocols", "sync", "--set", "optimizer.lr=1e30", "--quiet"]:
            done = self.troupe(*command, "--json")
            self.assertEqual(done.returncode, 1, done.stderr)
            result = json.loads(done.stdout.splitlines()[-1])
            self.assertRegex(result.get("runs", [result])[0]["error"], "no workers are left|training diverged")


class Terminal(OutputTest):
    # A session of its own, as a shell has one: what it starts is in the foreground, and leaves the terminal as it was.
    SHELL = """if True:
        import fcntl, signal, subprocess, sys, termios
        signal.signal(signal.SIGINT, lambda *_: None)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        before = termios.tcgetattr(0)
        code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
        left = fcntl.ioctl(0, termios.FIONREAD, bytes(4))
        if any(left):
            sys.exit("the shell would read what was typed before Ctrl-C")
        sys.exit(code if termios.tcgetattr(0) == before else "the terminal has changed")"""

    def on_terminal(self, columns, kind, job=SMALL, typed=b""):
        """What a run writes to a terminal of so many columns while that is typed, and how it ends."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        run = subprocess.Popen([sys.executable, "-c", self.SHELL, cluster_test.TROUPE, "run", self.path("job.toml", job)], stdin=theirs,
                               stdout=subprocess.DEVNULL, stderr=theirs, env=dict(os.environ, TERM=kind), start_new_session=True)
        self.addCleanup(lambda: run.poll() is None and os.killpg(run.pid, signal.SIGKILL))
        os.close(theirs)
        written = b""
        try:
            while piece := os.read(ours, 65536):
                written += piece
                if typed and written.count(b"\x1b[J") > 1:  # it draws: a key between two drawings
                    os.write(ours, typed[:1])
                    typed = typed[1:]
        except OSError:
            pass  # the other side is closed
        return written.decode(), run.wait(DEADLINE_S)

    def drawn(self, columns, kind, job=SMALL):
        written, code = self.on_terminal(columns, kind, job)
        self.assertEqual(code, 0, written)
        return written

    @staticmethod
    def screen(written):
        """The lines that are to be seen at last."""
        lines, row, column = [""], 0, 0
        for piece in re.findall(r"\x1b\[\d*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
            if piece == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif piece == "\r":
                column = 0
            elif piece == "\x1b[J":
                lines[row:] = [lines[row][:column]]
            elif piece[0] == "\x1b":
                row -= int(piece[2:-1])
            else:
                lines[row] = lines[row].ljust(column)[:column] + piece + lines[row][column + len(piece):]
                column += len(piece)
        return lines

    def test_no_line_is_longer_than_the_terminal_is_wide_and_nothing_is_missing(self):
        for columns in 20, 40, 200:
            lines = self.screen(self.drawn(columns, "xterm"))
            self.assertLessEqual(max(map(len, lines)), columns, lines)
            self.assertEqual(len(lines), {20: 8, 40: 6, 200: 4}[columns], lines)  # and an empty one, where the cursor is
            whole = " ".join(line.strip() for line in lines)
            self.assertRegex(whole, r"step 20 +epoch 0\.\d\d +loss \d\.\d{4} +test accuracy 0\.\d{4}" if columns > 20 else "test accuracy 0")
            if columns > 20:
                self.assertRegex(whole, r"\d+ samples/s +slowest: worker 0, \d+\.\d ms a step")
                self.assertRegex(lines[0], r"^small \[#{4,32}\]  100 %  left 0 s$")

    def test_what_is_typed_does_not_disturb_what_is_drawn(self):
        written, code = self.on_terminal(80, "xterm", ENDLESS, typed=b"ab\n\n\x03")
        self.assertEqual(code, 130, written)
        lines = self.screen(written)
        self.assertEqual([line for line in lines if re.search(r"\^C|^[ab]|smsm", line)], [])
        self.assertEqual(sum("samples/s" in line for line in lines), 1, lines)

    def test_a_dumb_terminal_gets_lines(self):
        written = self.drawn(80, "dumb")
        self.assertNotIn("\x1b", written)
        self.assertRegex(written, r"(?m)^step ")


if __name__ == "__main__":
    cluster_test.main()
