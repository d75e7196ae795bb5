#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# bundle.sh BUILD_DIR: packs what the bundle preset has built into BUILD_DIR/troupe-VERSION and a .tar.gz beside it: programs,
# tests and the shared libraries that they need beyond those of CUDA and of C, for a host that has none of our packages.
set -euo pipefail

most_megabytes=60
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "${1:?usage: bundle.sh BUILD_DIR}" && pwd)
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
out=$build/troupe-$version

fail() { printf 'bundle: %s\n' "$*" >&2; exit 1; }

# What stays the host's: the C library, and CUDA, which has to fit the driver there.
of_the_host='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libcuda|libcudart|libnvrtc.*|libnvJitLink|libcublas.*|libcudnn.*|libnccl|libcupti|libnvToolsExt|libnvidia.*)\.so'

# libraries_of FILE...: soname and path of every shared library that they need, directly or not, and that we take along.
libraries_of() {
  local name path
  ldd "$@" | awk '/=>/ {print $1, $3}' | sort -u | while read -r name path; do
    [[ $name =~ $of_the_host ]] && continue
    [[ -e $path ]] || { echo "bundle: $name, which something here needs, is not on this machine" >&2; return 1; }
    echo "$name $path"
  done
}

# licence_of PATH: the copyright file of the package that a library comes from.
licence_of() {
  local package
  package=$(dpkg-query -S "$(realpath "$1")" 2> /dev/null | cut -d: -f1) || return 0
  [[ ! -e /usr/share/doc/$package/copyright ]] || cp "/usr/share/doc/$package/copyright" "$out/licences/$package"
}

rm -rf "$out" "$out.tar.gz"
mkdir -p "$out"/{bin,lib,config,licences,tests/gpu}

# Of the tests those that compute: the others say nothing of a host, and are large.
for program in troupe kernels_test tensor_test device_roles_test; do
  cp "$build/$program" "$out/bin/"
done
cuda=$(find "$build" -maxdepth 3 -name libtroupe_cuda.so -not -path "$out/*" -print -quit)
[[ -z $cuda ]] || cp "$cuda" "$out/lib/"

# First, so that what only the whole library needs is not found to be needed.
! "$source_dir/cmake/trimmed_openblas.sh" "$out/lib/libopenblas.so.0" || licence_of "$(${CXX:-g++} -print-file-name=libopenblas.so)"
listed=$(libraries_of "$out"/bin/* ${cuda:+"$out/lib/$(basename "$cuda")"})
while read -r name path; do
  [[ ! -e $out/lib/$name ]] || continue
  cp -L "$path" "$out/lib/$name"
  licence_of "$path"
done <<< "$listed"
strip --strip-unneeded "$out"/bin/* "$out"/lib/*

# Whatever is still needed is beside it or the host's.
for name in $(objdump -p "$out"/bin/* "$out"/lib/* | awk '$1 == "NEEDED" {print $2}' | sort -u); do
  [[ -e $out/lib/$name || $name =~ $of_the_host ]] || fail "$name is needed and not there"
done

cp "$source_dir"/config/*.toml "$out/config/"
cp -r "$source_dir/config/protocols" "$out/config/"
[[ ! -d $source_dir/tests/gpu ]] || cp "$source_dir"/tests/gpu/* "$out/tests/gpu/"
mkdir -p "$out/tests/tensor"
cp "$source_dir/tests/tensor/read_safetensors.py" "$out/tests/tensor/" # with which a test reads weights
cp "$source_dir/LICENSE" "$out/licences/troupe"
cp "$source_dir/cmake/caf-LICENSE" "$out/licences/caf"
for package in libgtest-dev libcli11-dev; do # linked in
  [[ ! -e /usr/share/doc/$package/copyright ]] || cp "/usr/share/doc/$package/copyright" "$out/licences/$package"
done
find "$out/licences" -size +64k -exec gzip -9n {} +

glibc=$(objdump -T "$out"/bin/* "$out"/lib/* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
cat > "$out/README" << END
Troupe $version: trains models on a cluster of actors. This folder runs on any Linux on x86-64 with glibc ${glibc#GLIBC_} or later; it
brings its libraries along (lib/) and installs nothing. ${cuda:+CUDA's own libraries (libcudart, libcublas, libcublasLt) are the host's.}

  bin/troupe devices                        what can compute here
  bin/troupe run config/quickstart.toml     a cluster of three processes learns digits that the program draws
  bin/troupe --help                         the rest
  bin/kernels_test                          the tests; run them from this folder
  tests/gpu/run.sh --help                   what must hold on a GPU, measured part by part
Built without oneDNN, with the parts of OpenBLAS that it calls: digests of weights differ from those of a build that has it.
END

tar -C "$build" --sort=name --owner=0 --group=0 --numeric-owner -czf "$out.tar.gz" "troupe-$version"
bytes=$(du -sb --apparent-size "$out" | cut -f1)
printf '%s: %d.%d MB, packed %d MB\n' "$out" $((bytes / 1000000)) $((bytes / 100000 % 10)) \
  $(($(stat -c %s "$out.tar.gz") / 1000000))
((bytes <= most_megabytes * 1000000)) || fail "more than $most_megabytes MB"
