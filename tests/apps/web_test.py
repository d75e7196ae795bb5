#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The web page of a run: what it is told, and how it looks in a browser.

usage: web_test.py TROUPE PICTURES [unittest arguments]. Screenshots go to the folder PICTURES.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

import browser
import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import DEADLINE_S, ENDLESS, JOB

PICTURES = None
SLOW = ["--set", "inject.step_ms=40"]  # so that a run is still there when it is looked at
EVIL = '<script>document.title = \\"owned\\"</script><img src=x onerror=alert(1)>'


class WebTest(BootstrapTest):
    def watched(self, *arguments, job=ENDLESS):
        """A run and the address of its page."""
        run = subprocess.Popen([cluster_test.TROUPE, "run", self.path("watched.toml", job), "--quiet", "--json", "--web", "0", *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, run)
        return run, self.wait_for_line(run, "^web page at ").split()[-1]

    @staticmethod
    def snapshot(url):
        with urllib.request.urlopen(url + "snapshot", timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def until(self, url, good):
        """The first snapshot that is good; there is nothing in it before the job is submitted."""
        deadline = time.monotonic() + 60
        while not ((now := self.snapshot(url)) and good(now)):
            self.assertLess(time.monotonic(), deadline, now)
            cluster_test.select_nothing()
        return now

    @staticmethod
    def events(url):
        """Every snapshot that a subscriber is sent, until the server goes."""
        with urllib.request.urlopen(url + "events", timeout=DEADLINE_S) as stream:
            for line in stream:
                if line.startswith(b"data: ") and line != b"data: {}\n":
                    yield json.loads(line[len(b"data: "):])

    def refused(self, *arguments):
        done = subprocess.run([cluster_test.TROUPE, "run", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr


class Feed(WebTest):
    def test_a_subscriber_is_told_what_run_prints_and_logs(self):
        log = self.path("log.jsonl")
        run, url = self.watched(*SLOW, "--log", log, "--set", "evaluate.every_samples=320", job=JOB)
        told = list(self.events(url))
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 0, err)
        result, last = json.loads(out.splitlines()[-1]), told[-1]
        self.assertEqual((last["state"], last["job"]["name"], last["job"]["workers"]), ("done", "small", 4))
        for key in ("steps", "samples", "epochs", "seconds", "train_loss", "test_loss", "test_accuracy"):
            self.assertEqual(last["result"][key], result[key], key)
        with open(log, encoding="utf-8") as lines:
            logged = [each for each in map(json.loads, lines) if each.pop("kind") == "evaluation"]
        self.assertEqual(last["curves"]["evaluations"], logged)
        self.assertGreater(len(logged), 5)
        losses = last["curves"]["losses"]  # time, mean, low, high
        self.assertEqual(sorted(losses), losses)
        self.assertTrue(all(low <= mean <= high for _, mean, low, high in losses), losses)
        self.assertEqual([each["state"] for each in told if each["state"] in ("done", "failed")], ["done"])

    def test_whoever_comes_late_sees_it_from_the_beginning(self):
        _, url = self.watched(*SLOW, "--set", "evaluate.every_samples=320", job=ENDLESS.replace("every_s = 3600.0", ""))
        early = self.until(url, lambda now: len(now["curves"]["evaluations"]) >= 1 and now["curves"]["losses"])
        late = self.until(url, lambda now: len(now["curves"]["evaluations"]) >= 3)
        self.assertEqual(late["curves"]["evaluations"][0], early["curves"]["evaluations"][0])
        self.assertEqual(late["curves"]["losses"][0][0], early["curves"]["losses"][0][0])

    def test_the_actors_of_this_job_and_of_no_other(self):
        self.cluster()
        _, url = self.watched("--cluster", self.file, *SLOW, "--straggler", "worker=1,factor=4")
        self.submit(job=ENDLESS.replace("workers = 4", "workers = 1"), name="other.toml")  # waits, or runs beside
        slow = lambda now: [each["id"] for each in now["cluster"].get("stragglers", {}).get("workers", []) if each["slow"]]
        waits = lambda now: {(each["from"], each["to"]): each["share"] for each in now["cluster"].get("waits", [])}
        now = self.until(url, lambda now: slow(now) == ["worker 1"] and waits(now).get(("shard 0", "worker 1"), 0) > 0.5)
        self.assertEqual([(each["id"], each["node"]) for each in now["cluster"]["actors"]],
                         [("coordinator 0", "a"), ("evaluator 0", "a"), ("shard 0", "a"),
                          ("worker 0", "b"), ("worker 1", "b"), ("worker 2", "c"), ("worker 3", "d")])
        self.assertTrue(all(0 <= share <= 1 for share in waits(now).values()), now["cluster"]["waits"])
        self.assertEqual([each["name"] for each in now["cluster"]["nodes"]], list("abcd"))
        self.assertLessEqual({("a", "b"), ("b", "a")}, {(each["from"], each["to"]) for each in now["cluster"]["lanes"]})

    def test_nodes_that_stop_are_shown_and_the_last_is_named_as_the_cause(self):
        self.cluster()
        _, url = self.watched("--cluster", self.file)
        self.until(url, lambda now: len(now["cluster"].get("actors", [])) == 7)
        for name in "bcd":  # all but the one with the last workers are put out
            os.kill(self.nodes[name].pid, signal.SIGSTOP)
            self.addCleanup(os.kill, self.nodes[name].pid, signal.SIGCONT)
        now = self.until(url, lambda now: now["cluster"].get("causes"))
        cause = re.match(r"(worker \d): it is on a node that does not answer: .*node [bcd]", now["cluster"]["causes"][0])
        self.assertTrue(cause, now["cluster"]["causes"])
        moods = {each["id"]: each["mood"] for each in now["cluster"]["actors"]}
        self.assertEqual(moods[cause[1]], "stuck")

    def test_the_end_says_why(self):
        run, url = self.watched("--nodes", "2", *SLOW)
        told = self.events(url)
        next(each for each in told if each["progress"])
        run.send_signal(signal.SIGINT)
        self.assertEqual(list(told)[-1]["state"], "interrupted")
        self.finish(run)
        self.assertEqual(run.returncode, 130)
        self.cluster()
        run, url = self.watched("--cluster", self.file)
        told = self.events(url)
        next(each for each in told if each["progress"])
        self.nodes["a"].kill()
        last = list(told)[-1]
        self.assertEqual(last["state"], "failed")
        self.assertIn("coordinator is gone", last["reason"])

    def test_what_it_cannot_serve_is_refused_before_anything_starts(self):
        job = self.path("job.toml", JOB)
        self.assertIn("--web: 0.0.0.0 is no loopback address", self.refused(job, "--web", "0.0.0.0:80"))
        self.assertIn("is no port", self.refused(job, "--web", "127.0.0.1:99999"))
        self.assertIn("job is required", self.refused("--web", "8080"))
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            self.assertIn(f"--web: cannot listen on 127.0.0.1:{port} (Address already in use); name another port", self.refused(job, "--web", str(port)))
            self.assertIn("missing.toml", self.refused("--web", "missing.toml"))  # the job, not an address


@unittest.skipUnless(browser.chromium(), "there is no chromium here: the page is not looked at")
class Page(WebTest):
    def setUp(self):
        super().setUp()
        self.browser = browser.Browser()
        self.addCleanup(self.browser.close)

    def open(self, url, **view):
        self.browser.open(url, **view)

    def clean(self, url):
        """Nothing was asked of anybody else, and nothing was complained of."""
        self.assertEqual({each for each in self.browser.requests if not each.startswith("data:")}, {url, url + "events"})
        self.assertEqual(self.browser.complaints, [])

    def test_it_shows_a_run_at_every_size_and_light_and_names_stay_text(self):
        self.cluster()
        name = json.loads(f'"{EVIL}"')
        _, url = self.watched("--cluster", self.file, *SLOW, "--straggler", "worker=1,factor=4", "--set", "evaluate.every_s=1.0",
                              job=ENDLESS.replace('"small"', json.dumps(name)))
        self.open(url)
        self.browser.until("document.querySelector('#accuracy [data-series=test]')?.dataset.points >= 2")
        self.browser.until("document.querySelectorAll('.box').length === 7 && document.querySelector('.box.slow')?.dataset.actor === 'worker 1'")
        self.browser.until("document.querySelector('.wait.slow')?.dataset.wait === 'shard 0 > worker 1'")
        self.assertEqual(self.browser.ask("document.getElementById('job').textContent"), name)
        self.assertNotEqual(self.browser.ask("document.title"), "owned")
        self.assertEqual(self.browser.ask("document.scripts.length + ' ' + document.images.length"), "1 0")
        self.assertGreater(self.browser.ask("document.querySelector('#loss [data-series=round]').dataset.points"), "1")
        self.assertEqual(self.browser.ask("document.querySelectorAll('#nodes tbody tr').length"), 4)
        os.makedirs(PICTURES, exist_ok=True)
        for screen, width, height in (("laptop", 1280, 800), ("phone", 390, 844)):
            for dark in (False, True):
                self.browser.look_as(width, height, dark)
                self.browser.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                self.assertEqual(self.browser.ask("document.documentElement.scrollWidth"), width)
                self.assertEqual(self.browser.ask(FAINT), [], f"too little contrast, {screen}, {'dark' if dark else 'light'}")
                self.browser.picture(os.path.join(PICTURES, f"{screen}-{'dark' if dark else 'light'}.png"))
        self.clean(url)

    def test_of_many_workers_each_node_is_a_box_and_the_slow_one_stands_out(self):
        self.cluster()
        _, url = self.watched("--cluster", self.file, "--set", "inject.step_ms=150", "--straggler", "worker=7,factor=4",
                              job=ENDLESS.replace("workers = 4", "workers = 36").replace("batch = 16", "batch = 4"))
        self.open(url)
        boxes = "[...document.querySelectorAll('.box')].map(box => box.dataset.actor).join()"
        folded = "coordinator 0,evaluator 0,shard 0,worker 7,workers on b,workers on c,workers on d"
        self.browser.until(f"{boxes} === {json.dumps(folded)} && document.querySelector('.bars .slow') !== null")
        self.assertEqual(self.browser.ask("document.querySelector('[data-actor=\"workers on b\"] .name').textContent"), "11 workers")
        self.assertRegex(self.browser.ask("document.querySelector('.graph svg').getAttribute('aria-label')"), "^39 actors: 1 is slow, ")
        self.assertEqual(self.browser.ask("[...document.querySelectorAll('.bars li > :first-child')].map(each => each.textContent).join()"),
                         "worker 7,b (11),c (12),d (12)")
        self.assertFalse(self.browser.ask("document.getElementById('folded').hidden"))
        os.makedirs(PICTURES, exist_ok=True)
        for screen, width in (("laptop", 1280), ("phone", 390)):
            self.browser.look_as(width, 800, False)
            self.browser.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            self.assertEqual(self.browser.ask("document.documentElement.scrollWidth"), width)
            self.assertEqual(self.browser.ask(CUT_OFF), [])
            self.browser.picture(os.path.join(PICTURES, f"many-{screen}.png"))
        self.clean(url)

    def test_nothing_moves_when_it_updates(self):
        _, url = self.watched(*SLOW, "--nodes", "2", "--set", "evaluate.every_s=1.0")
        self.open(url)
        self.browser.until("document.querySelectorAll('.box').length === 7 && document.querySelectorAll('.bars li').length === 4 "
                           "&& document.querySelector('#accuracy [data-series=test]') !== null")
        self.browser.ask("""void (window.moved = 0, window.seen = new Set(), new PerformanceObserver(list => {
            for (const shift of list.getEntries()) window.moved += shift.value; }).observe({type: "layout-shift"}))""")
        self.browser.until("seen.add(document.querySelector('#figures dd').textContent).size >= 5")
        self.assertLess(self.browser.ask("moved"), 1e-4)  # of what the field calls good a thousandth: rounding of a pixel

    def test_the_end_stays_and_a_lost_run_is_said(self):
        run, url = self.watched("--set", "inject.step_ms=100", job=JOB)
        self.open(url)
        self.browser.until("document.querySelector('#state').textContent === 'runs'")
        self.finish(run)
        self.browser.until("document.querySelector('#state').textContent === 'done'")
        self.assertIn("The run is done", self.browser.ask("document.querySelector('#notice').textContent"))
        self.browser.ask("new Promise(done => setTimeout(done, 1500))")  # it does not try to come back
        self.assertEqual(self.browser.ask("document.querySelector('#state').textContent"), "done")
        self.clean(url)
        run, url = self.watched(*SLOW)
        self.open(url)
        self.browser.until("document.querySelector('#state').textContent === 'runs'")
        run.kill()
        self.browser.until("document.querySelector('#state').textContent === 'no connection'")
        self.assertIn("Nothing has come from the run since", self.browser.ask("document.querySelector('#notice').textContent"))


# Texts of boxes that reach beyond them.
CUT_OFF = """[...document.querySelectorAll(".box text")].filter(text => getComputedStyle(text).visibility === "visible"
  && text.getBoundingClientRect().right > text.parentElement.querySelector(".edge").getBoundingClientRect().right).map(text => text.textContent)"""

# Texts whose colour differs too little from the ground they stand on (WCAG 2: 4.5 to 1).
FAINT = """(() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/^rgba\\(.*, 0\\)$|^transparent$/.test(colour)) return colour;
    }
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()) || ["script", "title"].includes(element.localName)) continue;
    const style = getComputedStyle(element), a = light(element instanceof SVGElement ? style.fill : style.color), b = light(ground(element));
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) faint.push(element.textContent.slice(0, 40));
  }
  return faint;
})()"""


if __name__ == "__main__":
    cluster_test.TROUPE, PICTURES = os.path.abspath(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
