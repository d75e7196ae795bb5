#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# trimmed_openblas.sh TO: writes the part of OpenBLAS that Troupe calls. The whole library is 37 MB, of Fortran, double precision and
# LAPACK for twenty processors. This links that of its own archive, with the same kernels: the same bits. Fails without the archive.
set -euo pipefail

# The cores of OpenBLAS that stay: any x86-64, AVX2, and the two kinds of AVX-512. The names of the others lead to the first.
kept_cores='PRESCOTT HASWELL ZEN SKYLAKEX COOPERLAKE'

flags=()
archive=$(${CXX:-g++} -print-file-name=libopenblas.a)
[[ -e $archive ]] || archive=$(dirname "$(realpath "$(${CXX:-g++} -print-file-name=libopenblas.so)")")/libopenblas.a
[[ -e $archive ]] || exit 1
for symbol in cblas_sgemm openblas_set_num_threads openblas_get_num_threads openblas_get_corename; do
  flags+=("-Wl,-u,$symbol")
done
for core in $(nm "$archive" 2> /dev/null | sed -n 's/.* D gotoblas_\([A-Z0-9_]*\)$/\1/p' | sort -u); do
  [[ " $kept_cores " == *" $core "* ]] || flags+=("-Wl,--defsym=gotoblas_$core=gotoblas_PRESCOTT")
done
${CXX:-g++} -shared -o "$1" -Wl,-soname,libopenblas.so.0 "${flags[@]}" "$archive" -lm -lpthread
