#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What few bytes are worth, as ratios in one run: a table of claims. By hand; `run.sh --data FOLDER` with MNIST's four files takes ten minutes.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
exec python3 -B "$root/tests/bandwidth/run.py" --root "$root" "$@"
