#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# install_caf.sh release|tsan: builds CAF 0.18.7 with our patch into the prefix where TroupeCAF.cmake looks for it.
#
# The source comes from TROUPE_CAF_TARBALL, or from Debian's experimental suite by way of the archive that this machine's apt
# uses: with a sources file, lists and cache of its own, so that nothing of the system's apt changes and root is not needed.
set -euo pipefail

version=0.18.7
sha256=d5c3abe8fd67a729aab1baeece10367637d903ba335f4c79378bcadfbcd34552
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
patch=$here/caf-$version.patch

fail() { printf 'caf: %s\n' "$*" >&2; exit 1; }

case ${1:-} in
  release) suffix='' sanitize='' ;;
  tsan) suffix=-tsan sanitize='-fsanitize=thread -fno-omit-frame-pointer -g1' ;;
  *) fail "usage: install_caf.sh release|tsan" ;;
esac

cache=${XDG_CACHE_HOME:-$HOME/.cache}/troupe
patch_id=$(sha256sum "$patch")
prefix=$cache/caf-$version-${patch_id:0:12}$suffix
[[ ! -d $prefix ]] || exit 0

mkdir -p "$cache"
exec 9> "$prefix.lock"
flock --nonblock 9 || { echo "caf: waiting for another build of it" >&2 && flock 9; }
[[ ! -d $prefix ]] || exit 0

work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

# fetch_source FILE: the tarball from Debian's experimental suite.
fetch_source() {
  local codename uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  uri=$(apt-get indextargets --format '$(REPO_URI)|$(CODENAME)|$(RELEASE)' 2> /dev/null \
    | awk -F'|' -v name="$codename" '$2 == name || $3 == name {print $1; exit}') || true
  [[ -n $uri ]] || return 1
  mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
  echo "deb-src [signed-by=$keyring] $uri experimental main" > "$work/apt/sources.list"
  # Sandbox::User: _apt may not enter this folder; signature and SHA-256 are checked all the same.
  local apt=(apt-get -q -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$work/apt" && "${apt[@]}" source --tar-only --download-only "actor-framework=$version-1~exp1")
  mv "$work"/apt/actor-framework_*.orig.tar.gz "$1"
}

tarball=${TROUPE_CAF_TARBALL:-}
if [[ -z $tarball ]]; then
  tarball=$work/source.tar.gz
  echo "caf: fetching the source of CAF $version" >&2
  fetch_source "$tarball" >&2 || fail "Debian's experimental suite, which has the source of CAF $version, is out of reach from here;
get actor-framework_$version.orig.tar.gz elsewhere and run ./dev setup --caf-tarball FILE"
fi
echo "$sha256  $tarball" | sha256sum --check --status || fail "$tarball is not the source of CAF $version: its SHA-256 is not $sha256"

echo "caf: building CAF $version into $prefix (some minutes, once)" >&2
mkdir "$work/source"
tar -xf "$tarball" -C "$work/source" --strip-components=1
patch --quiet -d "$work/source" -p1 < "$patch"
log=$work/build.log

# progress: ninja's "[3/40] ..." as one line that is redrawn, on a terminal; else nothing.
progress() {
  local line
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] && [[ -t 2 ]] && printf '\rcaf: %s of %s steps' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
    printf '%s\n' "$line"
  done
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
}
# <cstdint>: caf/detail/ripemd_160.hpp relies on other headers for it, which with g++ 13 and later no longer bring it along.
# ggc: as TroupeOptions.cmake has it; -O1: as the CMakeLists.txt of the tree has it for what sends and decides.
{
  cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_CXX_STANDARD=20 \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG' \
    -DCMAKE_CXX_FLAGS="-include cstdint --param=ggc-min-expand=200 --param=ggc-min-heapsize=500000 $sanitize" \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCAF_ENABLE_EXAMPLES=OFF -DCAF_ENABLE_TESTING=OFF -DCAF_ENABLE_TOOLS=OFF \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=20 -DCMAKE_PROJECT_CAF_INCLUDE="$here/caf_unity.cmake" \
    && cmake --build "$work/build" && DESTDIR=$work/stage cmake --install "$work/build"
} 2>&1 | progress > "$log" || { tail -n 30 "$log" >&2; fail "the build of CAF failed; above, its last lines"; }
# The prefix appears whole or not at all.
mv "$work/stage$prefix" "$prefix"
