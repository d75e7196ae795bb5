#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The script that tries a bare Debian, tried without one: debootstrap makes a root of bash alone here, and ./dev says what it is told.
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import tree

DEADLINE_S = 60


def may_make_namespaces():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode == 0


class Refusals(unittest.TestCase):
    def run_script(self, *arguments, before=()):
        return subprocess.run([*before, "bash", tree.ROOT / "tests/distributions/run.sh", *arguments], capture_output=True, text=True,
                              timeout=DEADLINE_S)

    @unittest.skipIf(os.geteuid() != 0, "needs root, to become nobody")
    def test_who_is_not_root_is_told_so(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            script = shutil.copy(tree.ROOT / "tests/distributions/run.sh", folder)
            told = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", script, "trixie"], cwd=folder,
                                  capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((told.returncode, told.stdout), (77, "distributions: skipped: it wants root, for debootstrap and chroot\n"))

    def test_what_it_does_not_know_is_refused(self):
        for arguments, why in (["--only", "walk", "trixie"], "no step 'walk'"), (["--fast"], "what is '--fast'?"), ([], "which suites?"):
            told = self.run_script(*arguments)
            self.assertEqual(told.returncode, 2, told)
            self.assertIn(why, told.stderr)


@unittest.skipUnless(may_make_namespaces(), "needs a root that may make namespaces")
class Suites(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.source, self.cache, self.bin = self.folder / "source", self.folder / "cache", self.folder / "bin"
        (self.source / "tests/distributions").mkdir(parents=True)
        shutil.copy(tree.ROOT / "tests/distributions/run.sh", self.source / "tests/distributions")
        self.bin.mkdir()
        self.program(self.bin / "debootstrap", DEBOOTSTRAP)
        self.program(self.bin / "apt-get", "echo 'http://archive/|Debian'")
        self.program(self.bin / "apt-config", "echo 'Acquire::Check-Date \"false\";'")

    def program(self, path, text):
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)

    def start(self, dev, *arguments):
        self.program(self.source / "dev", dev)
        git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C", self.source]
        for command in ["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--allow-empty", "--message", "x"]:
            subprocess.run([*git, *command], check=True)
        return subprocess.Popen([self.source / "tests/distributions/run.sh", "--cache", self.cache, *arguments], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"})

    def processes_inside(self):
        """Those whose root is the suite's."""
        inside = []
        for root in Path("/proc").glob("[0-9]*/root"):
            try:
                if str(self.cache) in os.readlink(root):
                    inside.append(root.parent.name)
            except OSError:
                pass  # it has ended
        return inside

    def wait_for(self, condition, what):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def test_a_line_says_what_came_of_it(self):
        running = self.start(DEV, "--only", "run,test", "one")
        out, err = running.communicate(timeout=DEADLINE_S)
        minutes = r"in [\d.]+ min \([\d.]+ min of CPU\)"
        self.assertRegex(out, rf"^one: run 0 {minutes}, 8422 samples/s, weights a291772e9936c2dd; "
                              rf"test 3 {minutes}, 2 passed, 1 skipped, 1 failed\n$")
        self.assertEqual(running.returncode, 1, err)
        log = (self.cache / "one.run.log").read_text()
        self.assertIn("ccache off: 1", log)
        self.assertIn("alone here: true", log)

    def test_ended_in_any_way_it_leaves_neither_processes_nor_mounts(self):
        for how in signal.SIGINT, signal.SIGTERM, signal.SIGKILL:
            with self.subTest(how.name):
                running = self.start("(sleep 1000 & wait) & sleep 1000", "--only", "run", "one")
                self.wait_for(lambda: len(self.processes_inside()) >= 4, "nothing runs inside")
                running.send_signal(how)
                running.communicate(timeout=DEADLINE_S)
                self.wait_for(lambda: not self.processes_inside(), "processes are left")
                self.assertNotIn(str(self.cache), Path("/proc/mounts").read_text())


DEV = """
echo "ccache off: $CCACHE_DISABLE"
[[ -e /proc/$$/status ]] && echo "alone here: $( (($$ < 50)) && echo true)"
if [[ $1 == run ]]; then
  echo "1256 steps, 160000 samples in 19.0 s of training: 8422 samples/s"
  echo "weights a291772e9936c2dd"
else
  echo " 1/4 Test   #1: tensor.one ...   Passed    0.02 sec"
  echo "10/10 Test #10: tensor.two ...   Passed    0.02 sec"
  echo "3/4 Test   #3: tensor.three ...***Skipped   0.02 sec"
  echo "4/4 Test   #4: tensor.four ...***Failed   0.02 sec"
  exit 3
fi"""

# The root that it makes: bash, env and sleep with their libraries, and the folders that every system has.
DEBOOTSTRAP = """
root=$3
mkdir -p "$root"/{proc,sys,dev,srv,etc/apt/apt.conf.d,var/cache/apt/archives,usr/bin}
for program in bash env sleep; do
  cp "$(command -v $program)" "$root/usr/bin/"
  for library in $(ldd "$(command -v $program)" | grep -o '/[^ ]*'); do
    mkdir -p "$root$(dirname $library)"
    cp -L $library "$root$library"
  done
done"""

if __name__ == "__main__":
    unittest.main(verbosity=2)
