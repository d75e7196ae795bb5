#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The wheel of the Python package: installed into a folder, it has all that it needs.

usage: wheel_test.py BUILD_DIR [unittest arguments]
"""
import subprocess
import unittest
import zipfile

import common


@common.needs("numpy")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel, cls.site = common.unpacked_wheel(cls)

    def script(self, text):
        done = subprocess.run([common.python_with("numpy"), "-c", text], capture_output=True, text=True, timeout=common.DEADLINE_S,
                              cwd=self.site.parent, check=False, env=common.environment(self.site))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_job_runs_on_two_processes_from_it(self):
        out = self.script(f"""
import troupe
r = troupe.run({str(common.SOURCE / "config/quickstart.toml")!r}, nodes=2, set={{"data.train_samples": 1000, "stop.epochs": 1}})
print(r.digest, troupe.__file__)
""")
        self.assertRegex(out, "^[0-9a-f]{32} " + str(self.site))

    def test_libraries_are_its_own(self):
        out = self.script("""
import re, troupe
troupe.sync()
print("\\n".join(sorted(set(re.findall(r"(/\\S+\\.so\\S*)", open("/proc/self/maps").read())))))
""")
        ours = [line for line in out.splitlines() if line.startswith(str(self.site))]
        self.assertIn(str(self.site / "troupe/lib/libtroupe.so"), ours)
        self.assertGreater(len(ours), 5)

    def test_its_record_lists_every_file(self):
        with zipfile.ZipFile(self.wheel) as archive:
            record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
            listed = {line.split(",")[0] for line in archive.read(record).decode().splitlines()}
            self.assertEqual(listed, set(archive.namelist()))
            for name in archive.namelist():
                self.assertNotIn(b"/build/release", archive.read(name) if name.endswith((".py", "METADATA")) else b"")

    def test_the_program_is_in_it(self):
        self.assertIn("troupe", self.script("import subprocess, sys; print(subprocess.run([sys.executable, '-m', 'troupe', 'version'], "
                                            "capture_output=True, text=True, check=True).stdout)"))


if __name__ == "__main__":
    common.main()
