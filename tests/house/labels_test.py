#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Every test says, in its labels, to which suite it belongs and what time budget the suite has; without, ./dev test would miss it.
import json
import re
import subprocess
import sys


def main(ctest, build_dir):
    listed = subprocess.run([ctest, "--test-dir", build_dir, "--show-only=json-v1"], check=True, capture_output=True,
                            text=True).stdout
    suites = {"kernels", "tensor", "protocols", "actors", "apps", "python", "fuzz", "chaos", "house"}
    bad = []
    for test in json.loads(listed)["tests"]:
        labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
        if len(suites & set(labels)) != 1 or sum(bool(re.fullmatch(r"budget-\d+s", label)) for label in labels) != 1:
            bad.append(f"{test['name']}: {labels or 'no labels'}")
    print(*bad, sep="\n")
    return "a test needs one suite and one budget: see tests/CMakeLists.txt" if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
