#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A bundle runs where there is nothing else: bundle_test.py BUNDLE. Its programs are started in a root folder that holds the bundle,
# the files of the C library, /proc and /dev. `./dev bundle` runs this.
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUNDLE = pathlib.Path(sys.argv.pop(1)).resolve()
C_LIBRARY = ["libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2"]
MOUNTS = "mount --rbind /proc proc && mount --rbind /dev dev && mount --bind \"$BUNDLE\" bundle"


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        for name in "proc", "dev", "tmp", "bundle", "lib64":
            (cls.root / name).mkdir()
        (cls.root / "tmp").chmod(0o1777)
        loader = pathlib.Path("/lib64/ld-linux-x86-64.so.2")
        shutil.copy(loader, cls.root / "lib64")
        libraries = cls.root / "lib/x86_64-linux-gnu"
        libraries.mkdir(parents=True)
        for name in C_LIBRARY:
            shutil.copy(pathlib.Path("/lib/x86_64-linux-gnu", name), libraries)
        tried = cls.alone("true", check=False)
        if tried.returncode != 0:
            raise unittest.SkipTest("no root folder of its own can be made here: " + tried.stderr.strip())

    @classmethod
    def alone(cls, command, check=True):
        """Runs a shell command after the mounts, in a mount namespace of its own and the folder that will be the root."""
        unshare = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
        return subprocess.run([*unshare, "sh", "-c", f"{MOUNTS} && {command}"], cwd=cls.root, check=check, capture_output=True,
                              text=True, timeout=300, env={"PATH": os.environ["PATH"], "BUNDLE": str(BUNDLE)})

    def run_in_bundle(self, program, *arguments):
        done = self.alone(" ".join(["exec chroot .", f"/bundle/bin/{program}", *arguments]), check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        return done.stdout

    def test_the_programs_look_for_libraries_beside_themselves_alone(self):
        for program in (BUNDLE / "bin").iterdir():
            found = subprocess.run(["objdump", "-p", program], check=True, capture_output=True, text=True).stdout
            self.assertEqual(re.findall(r"R(?:UN)?PATH +(.*)", found), ["$ORIGIN/../lib"], program)

    def test_devices_are_listed(self):
        self.assertRegex(self.run_in_bundle("troupe", "devices"), r"(?m)^cpu +yes")

    def test_the_image_of_the_containerfile_learns(self):
        """On the C library alone, for no registry is asked for a base."""
        if not shutil.which("buildah"):
            self.skipTest("no buildah")
        source = pathlib.Path(__file__).resolve().parents[2]
        with tempfile.TemporaryDirectory() as folder:
            def buildah(*arguments, **options):
                done = subprocess.run(["buildah", "--root", f"{folder}/images", "--runroot", f"{folder}/running", "--storage-driver", "vfs", *arguments],
                                      capture_output=True, text=True, timeout=600, check=False, **options)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                return done.stdout

            build = ["build", "--quiet", "--isolation", "chroot"]
            buildah(*build, "--tag", "localhost/base", "--file", "-", self.root, input="FROM scratch\nCOPY . /\n")
            buildah(*build, "--tag", "localhost/troupe", "--build-arg", "BASE=localhost/base", "--file", source / "config/Containerfile", BUNDLE.parent)
            container = buildah("from", "--pull-never", "localhost/troupe").strip()
            said = buildah("run", "--isolation", "chroot", container, "--", "troupe", "run", "config/quickstart.toml", "--set", "stop.epochs=2")
            buildah("rm", container)
        self.assertGreater(float(re.search(r"test accuracy ([0-9.]+)", said)[1]), 0.9)

    def test_the_quick_start_learns(self):
        said = self.run_in_bundle("troupe", "run", "/bundle/config/quickstart.toml", "--set", "stop.epochs=2")
        self.assertGreater(float(re.search(r"test accuracy ([0-9.]+)", said)[1]), 0.9)

    def test_the_kernels_pass_their_tests(self):
        self.assertIn("[  PASSED  ]", self.run_in_bundle("kernels_test", "--gtest_brief=1"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
