#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What must hold on a GPU, from an unpacked bundle: finds CUDA's libraries and Python, then runs run.py.
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
command -v python3 > /dev/null || { echo "run.sh: this wants python3 (its standard library alone)" >&2; exit 2; }

# Where the system's loader does not look: a toolkit, or the wheels that PyTorch brought along.
folders=()
for folder in "${CUDA_HOME:-/usr/local/cuda}/lib64" /usr/local/cuda*/lib64 \
  $(python3 -c 'import site; print(*(p + "/nvidia/*/lib" for p in site.getsitepackages()))' 2> /dev/null); do
  [[ ! -d $folder ]] || folders+=("$folder")
done
((${#folders[@]} == 0)) || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(IFS=: && echo "${folders[*]}")
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
exec python3 -B "$root/tests/gpu/run.py" --root "$root" "$@"
