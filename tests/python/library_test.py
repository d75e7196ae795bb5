#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The C library: what it shows, and a C program on it.

usage: library_test.py BUILD_DIR [unittest arguments]
"""
import re
import subprocess
import tempfile
import unittest

import common


class Library(unittest.TestCase):
    def test_it_shows_the_functions_of_its_header_alone(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", common.BUILD / "libtroupe.so"], capture_output=True, text=True, check=True)
        shown = {line.split()[-1] for line in listed.stdout.splitlines()}
        header = (common.SOURCE / "apps/library/troupe.h").read_text(encoding="utf-8")
        declared = set(re.findall(r"^[a-z_0-9 ]+[ *]+(troupe_[a-z_]+)\(", header, re.MULTILINE))
        self.assertEqual(shown, declared)
        self.assertGreater(len(declared), 10)

    def test_the_example_in_c_learns_in_each_of_two_runs(self):
        source = common.SOURCE / "apps/examples/c_library/train.c"
        self.assertLess(len(source.read_text(encoding="utf-8").splitlines()), 120)
        with tempfile.TemporaryDirectory(prefix="troupe-c-") as folder:
            program = f"{folder}/train"
            subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", common.SOURCE / "apps/library", source,
                            "-o", program, "-L", common.BUILD, "-ltroupe", f"-Wl,-rpath,{common.BUILD}"], check=True)
            done = subprocess.run([program], capture_output=True, text=True, timeout=common.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        first, second = done.stdout.splitlines()
        self.assertNotEqual(first, second)  # one epoch is not enough
        self.assertEqual(second, "y = 2.000 x0 -3.000 x1 +1.000")


if __name__ == "__main__":
    common.main()
