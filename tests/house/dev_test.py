#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ./dev says what it needs and what is wrong, and leaves nothing half done. Nothing is installed, fetched or built here.
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import tree


class Dev(unittest.TestCase):
    def setUp(self):
        # A copy of the scripts in a folder that everybody may read: some tests run them as nobody.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.root.chmod(0o755)
        (self.root / "cmake").mkdir()
        for name in "dev", "cmake/install_caf.sh", "cmake/caf-0.18.7.patch":
            shutil.copy(tree.ROOT / name, self.root / name)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        self.cache = self.root / "cache"
        self.all_installed()

    def program(self, name, text):
        """A script in the place of a program: of one on the path, or of the file if the name has a folder."""
        path = self.root / name if "/" in name else self.bin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def all_installed(self):
        listed = subprocess.run(["bash", "-c", "source <(sed -n '/^packages()/,/^}/p' dev); packages"], cwd=self.root, check=True,
                                capture_output=True, text=True).stdout
        self.dependencies = [line.split(" : ")[0].strip() for line in listed.splitlines()]
        self.installed({dependency.split()[0]: "99" for dependency in self.dependencies})

    def installed(self, versions, status="installed"):
        """What dpkg knows of: the version of each package."""
        self.program("dpkg-query", "\n".join(f"echo {status} {name} {version}" for name, version in versions.items()))

    def dev(self, *arguments, as_nobody=False, **environment):
        command = [str(self.root / "dev"), *arguments]
        if as_nobody and os.geteuid() == 0:
            command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
        environment = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.root), "XDG_CACHE_HOME": str(self.cache),
                       **environment}
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=60)

    def prefix(self):
        patch = hashlib.sha256((self.root / "cmake/caf-0.18.7.patch").read_bytes()).hexdigest()
        return self.cache / "troupe" / f"caf-0.18.7-{patch[:12]}"

    def test_every_command_has_help(self):
        for command in "setup", "build", "run", "test", "bench", "bundle", "wheel", "nightly", "format", "lint", "clean":
            helped = self.dev(command, "--help")
            self.assertEqual(helped.returncode, 0)
            self.assertTrue(helped.stdout.startswith(f"usage: ./dev {command}"), helped.stdout)
            self.assertIn(f"  {command} ", self.dev("--help").stdout)

    def test_an_unknown_command_is_refused(self):
        refused = self.dev("frobnicate")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no command 'frobnicate'", refused.stderr)

    def missing(self):
        """The dependencies that who is not root is told to have installed."""
        told = self.dev("setup", as_nobody=True)
        self.assertEqual(told.returncode, 1, told.stderr)
        command = told.stderr.splitlines()[-1].split("apt-get satisfy --no-install-recommends ")[1]
        return command.strip("'").split(", "), told.stderr

    def test_who_is_not_root_is_told_the_packages_and_the_command(self):
        self.installed({"git": "1:2.39.5", "patch": "2.7.6"})
        missing, text = self.missing()
        self.assertEqual(missing, [dependency for dependency in self.dependencies if dependency not in {"git", "patch"}])
        self.assertIn("compiles C++20", text)

    def test_a_package_that_was_removed_is_missing(self):
        self.installed({"git": "1:2.39.5"}, status="config-files")
        self.assertIn("git", self.missing()[0])

    def test_what_a_release_names_otherwise_is_as_good(self):
        def all_but_boost(**boost):
            plain = {dependency.split()[0]: "99" for dependency in self.dependencies if "boost" not in dependency}
            self.installed(plain | {name.replace("_", "-"): version for name, version in boost.items()})

        self.prefix().mkdir(parents=True)
        all_but_boost(libboost_dev="1.83.0.2", libboost_json_dev="1.83.0.2")  # Debian 13
        self.assertEqual(self.dev("setup").returncode, 0)
        all_but_boost(**{"libboost_dev": "1.74.0.3", "libboost1.81_dev": "1.81.0-5", "libboost_json1.81_dev": "1.81.0-5"})  # Debian 12
        self.assertEqual(self.dev("setup").returncode, 0)
        all_but_boost(libboost_dev="1.74.0.3")
        self.assertEqual(self.missing()[0], [dependency for dependency in self.dependencies if "boost" in dependency])

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_root_has_apt_choose_among_the_names(self):
        self.installed({dependency.split()[0]: "99" for dependency in self.dependencies if "json" not in dependency})
        self.program("apt-get", '[ "$1" = update ] || { printf "%s\\n" "$@" > asked; exit 100; }')
        self.assertEqual(self.dev("setup").returncode, 100)
        self.assertEqual((self.root / "asked").read_text().splitlines(),
                         ["satisfy", "--yes", "--no-install-recommends", "libboost-json-dev (>= 1.81) | libboost-json1.81-dev"])

    def test_setup_does_nothing_where_nothing_is_missing(self):
        self.prefix().mkdir(parents=True)
        done = self.dev("setup")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_wrong_tarball_is_refused_and_leaves_nothing(self):
        wrong = self.root / "wrong.tar.gz"
        wrong.write_text("not CAF")
        for refused in self.dev("setup", "--caf-tarball", str(wrong)), self.dev("setup", TROUPE_CAF_TARBALL=str(wrong)):
            self.assertEqual(refused.returncode, 1)
            self.assertIn("is not the source of CAF 0.18.7", refused.stderr)
        self.assertEqual([path.name for path in self.prefix().parent.iterdir()], [self.prefix().name + ".lock"])

    def test_an_archive_out_of_reach_is_told_with_the_way_out(self):
        self.program("apt-get", "exit 100")
        told = self.dev("setup")
        self.assertEqual(told.returncode, 1)
        self.assertIn("./dev setup --caf-tarball FILE", told.stderr)

    def test_an_own_caf_needs_no_build(self):
        self.assertEqual(self.dev("setup", CAF_DIR=str(self.root)).returncode, 0)
        self.assertFalse(self.prefix().exists())

    def test_an_unknown_preset_is_refused(self):
        shutil.copy(tree.ROOT / "CMakePresets.json", self.root)
        self.prefix().mkdir(parents=True)
        refused = self.dev("build", "fast")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no preset 'fast'", refused.stderr)

    def nightly(self, code=0, **environment):
        """What a run of two parts prints, the second of which ends with the code, and which of them ran."""
        (self.root / "code").write_text(str(code))
        (self.root / "ran").write_text("")
        done = self.dev("nightly", "mutants", "distributions", **environment)
        self.assertEqual(done.returncode, min(code, 1), done.stderr)
        return [line.split() for line in done.stdout.splitlines()], (self.root / "ran").read_text().split()

    def test_nightly_goes_on_where_it_was_cut_off(self):
        self.prefix().mkdir(parents=True)
        (self.root / "tests/protocols").mkdir(parents=True)
        (self.root / "tests/protocols/mutants.py").write_text("open('ran', 'a').write('mutants ')\n")
        part = self.program("tests/distributions/run.sh", "echo distributions >> ran\nexit $(cat code)")
        (self.root / ".gitignore").write_text("bin\nbuild\ncache\ncode\nran\n")
        commit = ["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message=m"]
        for command in ["git", "init", "--quiet"], ["git", "add", "."], commit:
            subprocess.run(command, cwd=self.root, check=True)

        (head, mutants, distributions), ran = self.nightly(code=3)
        self.assertEqual((mutants[1], distributions[1], ran), ("passed,", "FAILED,", ["mutants", "distributions"]))
        (same, mutants, distributions), ran = self.nightly()
        self.assertEqual((same, mutants[-1], distributions[1], ran), (head, "(before)", "passed,", ["distributions"]))
        self.assertEqual(self.nightly()[1], [])
        other = str(int(head[-1]) + 1)
        self.assertEqual(self.nightly(TROUPE_NIGHTLY_SEED=other)[1], ["mutants", "distributions"])

        part.write_text(part.read_text() + "# changed\n")
        for _ in range(2):
            self.assertEqual(self.nightly()[1], ["mutants", "distributions"])
        subprocess.run([*commit, "--all"], cwd=self.root, check=True)
        self.assertEqual(self.nightly()[1], ["mutants", "distributions"])
        self.assertEqual(self.nightly()[1], [])

    def test_nightly_has_hostile_frames_and_operands_of_each_seed(self):
        self.prefix().mkdir(parents=True)
        shutil.copy(tree.ROOT / "CMakePresets.json", self.root)
        self.program("cmake", "")
        for program in "protocols_test", "kernels_test":
            self.program(f"build/asan/{program}", f'echo "$TROUPE_TEST_SEED" >> {program}.seeds; [ "$TROUPE_TEST_SEED" != "$BAD" ]')
        seeds = [str(seed) for seed in range(7, 507)]
        self.assertEqual(self.dev("nightly", "hostile", TROUPE_NIGHTLY_SEED="7").returncode, 0)
        for program in "protocols_test", "kernels_test":
            self.assertEqual(sorted((self.root / f"{program}.seeds").read_text().split(), key=int), seeds)
        failed = self.dev("nightly", "hostile", TROUPE_NIGHTLY_SEED="7", BAD="9")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("TROUPE_TEST_SEED=9 build/asan", failed.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
