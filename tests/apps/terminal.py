# SPDX-License-Identifier: BSD-3-Clause
"""A person at a pseudo-terminal, for tests of the console."""
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

import cluster_test


class Terminal:
    """The console as a person has it: at a pseudo-terminal of that size."""

    def __init__(self, test, *arguments, columns=80, rows=24):
        self.test, self.said = test, ""
        self.keys, terminal = pty.openpty()
        test.addCleanup(os.close, self.keys)
        termios.tcsetwinsize(self.keys, (rows, columns))
        self.before = termios.tcgetattr(self.keys)
        self.process = subprocess.Popen([cluster_test.TROUPE, "console", *arguments], stdin=terminal, stdout=terminal, stderr=terminal,
                                        start_new_session=True,
                                        env={**os.environ, "HOME": test.folder.name, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        os.close(terminal)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)
        self.until("troupe> ")

    def press(self, keys):
        os.write(self.keys, keys.encode())

    def resize(self, columns, rows):
        termios.tcsetwinsize(self.keys, (rows, columns))
        os.killpg(self.process.pid, signal.SIGWINCH)  # the terminal is nobody's own, so the system does not

    def at_prompt(self):
        """How the terminal is once a line can be typed: the prompt may be there a moment earlier."""
        deadline = time.monotonic() + 60
        while termios.tcgetattr(self.keys)[3] & termios.ICANON:
            self.test.assertLess(time.monotonic(), deadline, "nobody reads keys")
        return termios.tcgetattr(self.keys)

    def until(self, pattern):
        """All that was said since the last time, up to this."""
        deadline = time.monotonic() + 60
        while not re.search(pattern, self.said, re.S):
            self.test.assertLess(time.monotonic(), deadline, self.said)
            if select.select([self.keys], [], [], 1)[0]:
                self.said += os.read(self.keys, 4096).decode(errors="replace")
        said, self.said = self.said, ""
        return said
