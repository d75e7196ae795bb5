#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Broken job and cluster files, each refused by the program with what stands in the file itself, and good ones, which it accepts.

usage: corpus_test.py TROUPE MOST_MS [--write] [unittest arguments]. A file that is refused costs MOST_MS of the processor's time at most.

Broken files are bad_jobs/*.toml, bad_clusters/*.toml and the cases of corpus/*.cases. There a line `=== NAME` begins a case, and within
it stand `\\xNN` for a byte, `\\r` for a carriage return and `{{5000*[}}` for a repetition (`{{3*#a}}`: of numbered lines, a1 = 1). Lines
`# expect LINE:COLUMN: MESSAGE` are all that is wrong (of a good job: its notes), `# set KEY=VALUE` are settings of the command line. What
they expect may have {protocols} and {layers} for a list that one case spells out (SPELT_OUT). With --write the cases get the program's
answers as their expectations, to be read in review.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TROUPE, MOST_MS, WRITE = "", 200, False
HERE = Path(__file__).resolve().parent
# A place, what is wrong, and what would be right: a clause of its own, or a bound or a list that the value is measured against.
MESSAGE = re.compile(r"^(\d+:\d+|--set \S*): .+(; (?=\S)|\bmust be (?=\S)|\bis not one of (?=\S)).+$")

# The case of corpus/bad_jobs.cases that spells a list out, and what stands before the list there.
SPELT_OUT = {"{protocols}": ("choice: a protocol that is spelt wrongly", "It takes one of "),
             "{layers}": ("model: a layer that there is not", "; write ")}


def lists(expected):
    """What each placeholder stands for, by the text of the cases that spell it out."""
    return {place: expected[name].rpartition(before)[2] for place, (name, before) in SPELT_OUT.items() if name in expected}


def filled(line, known):
    for place, text in known.items():
        line = line.replace(place, text)
    return line


def content(text):
    """The bytes that a case stands for."""
    def repeat(found):
        count, what = int(found[1]), found[2]
        return "\n".join(f"{what[1:]}{i} = {i}" for i in range(count)) if what[0] == "#" else count * what
    text = re.sub(r"\{\{(\d+)\*(.+?)\}\}", repeat, text)
    raw = text.encode()
    raw = re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), raw)
    return raw.replace(rb"\r", b"\r")


class Case:
    def __init__(self, name, text, plain=False):
        self.name = name
        lines = text.splitlines(keepends=True)
        self.expected = [line[len("# expect "):].rstrip("\n") for line in lines if line.startswith("# expect ")]
        self.sets = [line[len("# set "):].rstrip("\n") for line in lines if line.startswith("# set ")]
        body = "".join(line for line in lines if not line.startswith("# expect "))
        self.body = body.encode() if plain else content(body)


def cases(file):
    parts = re.split(r"(?m)^=== (.*)\n", (HERE / "corpus" / file).read_text(encoding="utf-8"))
    return [Case(name, text) for name, text in zip(parts[1::2], parts[2::2])]


def single_files(folder):
    return [Case(path.stem, path.read_text(encoding="utf-8"), plain=True) for path in sorted((HERE / folder).glob("*.toml"))]


def processor_ms(arguments, said=subprocess.DEVNULL):
    """The exit code of the program, and the milliseconds of a processor that it took."""
    process = subprocess.Popen([TROUPE, *arguments], stdout=subprocess.DEVNULL, stderr=said)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # it is no longer there to be asked
    return process.returncode, (used.ru_utime + used.ru_stime) * 1000


class Corpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A file that names a GPU costs the loading of the vendor's libraries, which `devices` does, too.
        cls.loading_ms = max(processor_ms(["devices"])[1] for _ in range(3))

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-test-")
        self.addCleanup(self.folder.cleanup)

    def run_all(self, all_cases, command):
        """(case, exit code, problems without the file's name, milliseconds of a processor) of each; `command` makes arguments from a
        file and a case. Whatever else the machine does, the time is the program's own."""
        def run(numbered):
            number, case = numbered
            path = os.path.join(self.folder.name, f"{number}.toml")
            with open(path, "wb") as file:
                file.write(case.body)
            for _ in range(3):  # whoever reads a library from the disk pays for all that come after
                with tempfile.TemporaryFile() as said:
                    code, took = processor_ms(command(path, case), said)
                    said.seek(0)
                    text = said.read().decode("utf-8", "backslashreplace")
                if took < MOST_MS:
                    break
            return case, code, text.replace(f"{path}:", ""), took
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(run, enumerate(all_cases)))
        slowest = max(results, key=lambda result: result[3])
        print(f"\n{len(results)} files; the slowest, {slowest[0].name}, took {slowest[3]:.0f} ms", file=sys.stderr)
        return results

    def refused(self, file, folder, command):
        named, single = cases(file), single_files(folder)
        known = lists({case.name: case.expected[0] for case in named})
        results = self.run_all(named + single, command)
        if WRITE:
            return write(file, {case.name: text for case, _, text, _ in results[:len(named)]})
        self.assertEqual(len({case.name for case in named}), len(named), "names are taken twice")
        for case, code, text, took in results:
            with self.subTest(case.name):
                self.assertEqual(code, 2, text)
                self.assertLess(took, MOST_MS + (self.loading_ms if b"cuda" in case.body else 0))
                lines = text.splitlines()
                self.assertEqual(lines, [filled(line, known) for line in case.expected])
                for line in lines:
                    self.assertRegex(line, MESSAGE)
                    self.assertLess(len(line), 600)
        return len(results)

    def test_1_every_broken_job_is_refused(self):
        def command(path, case):
            return ["check", path, *(word for each in case.sets for word in ("--set", each))]
        self.assertGreaterEqual(self.refused("bad_jobs.cases", "bad_jobs", command) or 200, 200)

    def test_2_every_broken_cluster_is_refused(self):
        self.assertGreaterEqual(self.refused("bad_clusters.cases", "bad_clusters",
                                             lambda path, case: ["node", path, "--name", "nobody"]) or 50, 50)


    def test_3_every_good_job_is_accepted(self):
        self.accepted("good_jobs.cases", 80, lambda path, case: ["check", path, *(word for each in case.sets for word in ("--set", each))], 0,
                      lambda case: case.expected)

    def test_4_every_good_cluster_is_accepted(self):
        # Nothing is started: the file is fine, and nobody in it has that name.
        self.accepted("good_clusters.cases", 20, lambda path, case: ["node", path, "--name", "nobody"], 2,
                      lambda case: [" it has no node \"nobody\"; --name takes one of its [[node]] names"])

    def accepted(self, file, least, command, code, said):
        results = self.run_all(cases(file), command)
        self.assertGreaterEqual(len(results), least)
        for case, ended, text, _ in results:
            with self.subTest(case.name):
                self.assertEqual((ended, text.splitlines()), (code, said(case)))


def write(file, answers):
    """Gives each case of a file the program's answer."""
    path = HERE / "corpus" / file
    known = lists({name: text.strip() for name, text in answers.items()})
    out = ""
    for name, text in zip(*[iter(re.split(r"(?m)^=== (.*)\n", path.read_text(encoding="utf-8"))[1:])] * 2):
        body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# expect "))
        short = {text: place for place, text in known.items() if name != SPELT_OUT[place][0]}
        out += f"=== {name}\n{body}" + "".join(f"# expect {filled(line, short)}\n" for line in answers[name].splitlines())
    path.write_text(out, encoding="utf-8")


if __name__ == "__main__":
    TROUPE, MOST_MS = os.path.abspath(sys.argv.pop(1)), int(sys.argv.pop(1))
    if "--write" in sys.argv:
        sys.argv.remove("--write")
        WRITE = True
    unittest.main(verbosity=2)
