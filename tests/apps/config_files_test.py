#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The job files in config/, each with data of its kind. Usage: config_files_test.py TROUPE SOURCE_DIR [unittest arguments].
import os
import pathlib
import sys
import unittest

from cli_test import Case, SOURCE, troupe


class ConfigFiles(Case):
    def test_files_that_come_with_the_program_pass(self):
        drawn = "quickstart", "overlap"  # their data
        for name in drawn:
            self.assertEqual(troupe("check", SOURCE / f"config/{name}.toml").returncode, 0)
        data = pathlib.Path(os.environ.get("TROUPE_DATA", SOURCE / "../shared/data"))
        mnist, text = data / "mnist", data / "tinyshakespeare/input.txt"
        cifar10, tokens = self.folder / "cifar10", self.folder / "tokens.bin"
        cifar10.mkdir()
        for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
            (cifar10 / f"{name}.bin").write_bytes((bytes([3]) + bytes(range(256)) * 12) * 4)
        tokens.write_bytes(bytes(2 * 3000))
        found = {"cifar10-resnet20": (cifar10, []), "gpt2-124m": (tokens, ["--set", f"data.test_path={tokens}"]),
                 "gpt-char": (text, []), "lstm-char": (text, [])}
        for file in sorted((SOURCE / "config").rglob("*.toml")):
            path, more = found.get(file.stem, (mnist, []))
            if path.exists() and file.stem not in (*drawn, "cluster"):
                done = troupe("check", file, "--set", f"data.path={path}", *more)
                self.assertEqual(done.returncode, 0, done)
        if not (mnist.exists() and text.exists()):
            self.skipTest(f"no MNIST or no text in {data}; TROUPE_DATA names the folder that holds them")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
