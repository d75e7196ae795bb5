#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Does on a bare Debian of each suite what a newcomer does, and prints a line of what came of it.
set -euo pipefail

usage='usage: tests/distributions/run.sh [--only STEP[,STEP...]] [--cache FOLDER] SUITE...

Takes what is committed into a chroot for each SUITE (bookworm, trixie, ...), made by debootstrap with nothing but the smallest
system, and does there, as root and without ccache:

  run     ./dev run, in a fresh root: what a newcomer waits for
  test    ./dev test, in the root that `run` left
  speed   the quick start five times in each root, in turn: medians of the samples per second

  --only STEPS     only these, separated by commas
  --cache FOLDER   where the systems, roots, packages and logs are kept (default: ~/.cache/troupe/distributions)

The archive is the one that this machine'"'"'s apt uses. It wants root, debootstrap and 4 GB for each suite, and exits with
77 where it cannot. Mounts and processes are in namespaces of their own and go when the script ends, however it ends.'

tree=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
fail() { printf 'distributions: %s\n' "$*" >&2; exit 2; }
skip() { printf 'distributions: skipped: %s\n' "$*"; exit 77; }

only=run,test,speed
cache=${XDG_CACHE_HOME:-$HOME/.cache}/troupe/distributions
suites=()
while (($#)); do
  case $1 in
    --help | -h) printf '%s\n' "$usage"; exit 0 ;;
    --only) only=${2:?--only wants steps}; shift ;;
    --cache) cache=${2:?--cache wants a folder}; shift ;;
    -*) fail "what is '$1'? See --help" ;;
    *) suites+=("$1") ;;
  esac
  shift
done
for step in ${only//,/ }; do
  [[ $step =~ ^(run|test|speed)$ ]] || fail "no step '$step'; there are run, test, speed"
done
((${#suites[@]})) || fail "which suites? For example: tests/distributions/run.sh bookworm trixie"
wants() { [[ ,$only, == *",$1,"* ]]; }

((EUID == 0)) || skip "it wants root, for debootstrap and chroot"
command -v debootstrap > /dev/null || skip "debootstrap is missing: apt-get install debootstrap"
unshare --mount --pid --fork true 2> /dev/null || skip "this root may not make namespaces"
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

# apart COMMAND...: with mounts and processes of its own, which end with this script.
apart() {
  setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child -- "$@" &
  wait $!
}

# inside ROOT COMMAND: in a chroot, with what programs expect of a system. The shell outside stays to bury orphans.
inside() {
  # shellcheck disable=SC2016
  apart bash -c '
    set -e
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    mount --bind "$2" "$1/var/cache/apt/archives"
    code=0
    env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb CCACHE_DISABLE=1 \
      chroot "$1" bash -c "cd /srv/troupe && $3" < /dev/null || code=$?
    exit $code' _ "$1" "$1.packages" "$2"
}

# base SUITE: the bare system, made once.
base() {
  [[ ! -d $cache/$1.base ]] || return 0
  local uri
  uri=$(apt-get indextargets --format '$(REPO_URI)|$(LABEL)' 2> /dev/null | awk -F'|' '$2 == "Debian" {print $1; exit}')
  [[ -n $uri ]] || fail "this machine's apt names no archive of Debian"
  rm -rf --one-file-system "$cache/$1.new"
  apart debootstrap --variant=minbase "$1" "$cache/$1.new" "$uri" > "$cache/$1.base.log" 2>&1 \
    || { tail "$cache/$1.base.log" >&2; fail "debootstrap could not make $1 (above, its last lines)"; }
  mv "$cache/$1.new" "$cache/$1.base"
}

# fresh SUITE: a root with the bare system, this machine's ways to the archive, and a clone.
fresh() {
  local root=$cache/$1
  rm -rf --one-file-system "$root"
  cp -a --reflink=auto "$cache/$1.base" "$root"
  mkdir -p "$root.packages/partial"
  cp -L /etc/resolv.conf "$root/etc/"
  apt-config dump | grep -E '^Acquire::(http|https|ftp|Check-)' > "$root/etc/apt/apt.conf.d/of-this-machine" || true
  git -c advice.detachedHead=false clone --quiet --depth 1 "file://$tree" "$root/srv/troupe"
}

# step SUITE NAME COMMAND: runs it in the suite's root; "NAME EXIT_CODE in WALL min (CPU min of CPU)" to stdout, the rest to a log.
step() {
  local log=$cache/$1.$2.log code=0 TIMEFORMAT='%R %U %S'
  { time inside "$cache/$1" "$3" > "$log" 2>&1; } 2> "$log.time" || code=$?
  awk -v what="$2 $code" 'END {printf "%s in %.1f min (%.1f min of CPU)", what, $1 / 60, ($2 + $3) / 60}' "$log.time"
  return "$code"
}

# result LOG: "8422 samples/s, weights ..." of a run.
result() { sed -nE 's/.*: ([0-9]+ samples\/s)$/\1/p; s/^(weights [0-9a-f]+)$/\1/p' "$1" | paste -sd, | sed 's/,/, /'; }

# tests LOG: how many ctest saw pass, skip and fail.
tests() {
  awk '/^ *[0-9]+\/[0-9]+ Test +#/ {if (/ Passed /) ++passed; else if (/\*\*\*Skipped/) ++skipped; else ++failed}
       END {printf "%d passed, %d skipped, %d failed", passed, skipped, failed}' "$1"
}

failed=0
git -C "$tree" diff --quiet HEAD || echo "distributions: what is not committed is not tried" >&2
for suite in "${suites[@]}"; do
  printf '%s: ' "$suite"
  if wants run; then
    base "$suite" && fresh "$suite"
    step "$suite" run './dev run' || failed=1
    printf ', %s' "$(result "$cache/$suite.run.log")"
  elif [[ ! -d $cache/$suite/srv/troupe ]]; then
    fail "there is no root of $suite in $cache: the step run makes it"
  fi
  ! wants run || ! wants test || printf '; '
  if wants test; then
    step "$suite" test './dev test' || failed=1
    printf ', %s' "$(tests "$cache/$suite.test.log")"
  fi
  printf '\n'
done

if wants speed; then
  for ((time = 0; time < 5; ++time)); do
    for suite in "${suites[@]}"; do
      inside "$cache/$suite" 'build/release/troupe run config/quickstart.toml' > "$cache/$suite.speed.log" 2>&1 || failed=1
      result "$cache/$suite.speed.log" >> "$cache/$suite.speeds.$$"
    done
  done
  for suite in "${suites[@]}"; do
    printf '%s: median of 5 quick starts, in turn: %d samples/s\n' "$suite" "$(sort -n "$cache/$suite.speeds.$$" | awk 'NR == 3 {print $1}')"
    rm "$cache/$suite.speeds.$$"
  done
fi
((failed == 0)) || printf 'distributions: the logs are %s/SUITE.STEP.log\n' "$cache" >&2
exit $failed
