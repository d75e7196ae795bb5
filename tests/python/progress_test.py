#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is shown of a job: on a terminal, in a notebook, in a file.

usage: progress_test.py BUILD_DIR [unittest arguments]
"""
import os
import pty
import subprocess

import common
from run_test import JOB, SMALL
from steps_test import NUMPY

STEPS = NUMPY + """
for step in troupe.steps(model, samples=1000, test=200, batch=5, epochs=4, progress=PROGRESS):
    compute(step)
    time.sleep(0.001)  # it lasts for more than a redrawing
"""
NOTEBOOK = """
import sys, types
class place:
    def update(self, data, raw):
        shown.append(("update", data["text/plain"], raw))
def display(data, raw, display_id):
    shown.append(("display", data["text/plain"], raw))
    return place()
shown = []
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: object()
sys.modules["IPython.display"] = types.ModuleType("IPython.display")
sys.modules["IPython.display"].display = display
sys.modules["ipykernel"] = types.ModuleType("ipykernel")
"""


@common.needs("numpy")
class Progress(common.Scripts):
    def on_terminal(self, script):
        """What a terminal got of its standard error."""
        ours, its = pty.openpty()
        self.addCleanup(os.close, ours)
        process = subprocess.Popen([common.python_with("numpy"), str(self.write(script))], stdout=subprocess.DEVNULL, stderr=its,
                                   cwd=self.folder, env=common.environment() | {"TERM": "xterm"})
        os.close(its)
        got = b""
        try:
            while part := os.read(ours, 65536):
                got += part
        except OSError:  # the other end is closed
            pass
        self.assertEqual(process.wait(timeout=common.DEADLINE_S), 0, got)
        return got.decode()

    def test_a_terminal_has_lines_that_are_rewritten(self):
        for name, script in [("steps", STEPS.replace("PROGRESS", "None")),
                             ("run", SMALL + f"import troupe\ntroupe.run({str(JOB)!r}, nodes=1, set=SMALL)\n")]:
            with self.subTest(name):
                got = self.on_terminal(script)
                self.assertIn("\x1b[J", got)
                self.assertIn("samples/s", got)

    def test_nothing_is_shown_where_nobody_looks_or_wants_it(self):
        self.assertEqual(self.on_terminal(STEPS.replace("PROGRESS", "False")), "")
        process = self.start(STEPS.replace("PROGRESS", "None"))
        self.addCleanup(process.kill)
        self.assertEqual(process.communicate(timeout=common.DEADLINE_S), ("", ""))

    def test_a_notebook_has_a_line_that_is_replaced(self):
        for name, script in [("steps", STEPS.replace("PROGRESS", "None")),
                             ("run", SMALL + f"import troupe\ntroupe.run({str(JOB)!r}, nodes=1, set=SMALL)\n")]:
            with self.subTest(name):
                out = self.run_script(NOTEBOOK + script + "print([how for how, _, _ in shown][:1], len(shown), shown[-1])\n")
                self.assertRegex(out, r"\['display'\] \d+ \('(display|update)', 'step \d+  epoch \d.*loss \d.* s.*', True\)")

    def test_a_notebook_is_not_made_by_looking_for_one(self):
        out = self.run_script(STEPS.replace("PROGRESS", "None") + "print('IPython' in sys.modules)\n")
        self.assertEqual(out, "False\n")


if __name__ == "__main__":
    common.main()
