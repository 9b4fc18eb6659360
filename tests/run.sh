#!/usr/bin/env bash
# Installs what is needed, then builds and checks, in tiers (CONTRIBUTING.md tells what runs in which):
#   tests/run.sh                 format, build without warnings, every test with few seeds
#   tests/run.sh quick [MODULE]  build, rules and unit tests (of one module of src, with its end-to-end tests left out)
#   tests/run.sh thorough        the first with all seeds, and cluster, browser, MPICH, package, clang-tidy, sanitizers
# Runs from any directory, any number of times. JOBS=N limits the parallel work (default: the available cores).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
jobs=${JOBS:-$(nproc)}
tier=${1:-default}
module=${2:-}
usage() {
  echo "usage: $0 [quick [MODULE] | thorough]" >&2
  exit 2
}
case $tier in
  default | thorough) (($# <= 1)) || usage ;;
  quick) [[ -z $module || -d tests/unit/$module ]] || usage ;;
  *) usage ;;
esac

stage() { printf '\n=== %s (after %d s)\n' "$*" "$SECONDS"; }

warn_without_traces() {
  if [[ ! -d $root/../shared/traces ]]; then
    echo "WARNING: ../shared/traces is absent: every test on real traces was SKIPPED, only made traces were tested."
  fi
}

check_format() {
  stage "format: clang-format"
  if ! find include src tests \( -name '*.cpp' -o -name '*.hpp' \) -print0 |
    xargs -0 -P "$jobs" -n 32 clang-format --dry-run --Werror; then
    echo "The files named above are not formatted; run clang-format -i on them." >&2
    exit 1
  fi
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  stage "build: $preset"
  cmake --preset "$preset"
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
}

lint() {
  stage "lint: clang-tidy"
  # GCC's warning options are not clang's business; the analyzer's shallow mode with fewer nodes takes a fraction of the time.
  local arguments=(-extra-arg=-Wno-unknown-warning-option) argument
  for argument in -Xclang -analyzer-config -Xclang mode=shallow,max-nodes=20000; do arguments+=(-extra-arg="$argument"); done
  # Each source by itself, so that a missing include is found.
  cmake --preset lint >build/lint.log || { cat build/lint.log >&2; exit 1; }
  if ! run-clang-tidy -quiet -j "$jobs" -p build/lint "${arguments[@]}" "$root/(src|tests/simulation)/.*" >build/tidy.log 2>&1; then
    grep -vE '^clang-tidy|[0-9]+ warnings? generated' build/tidy.log || true
    echo "clang-tidy has findings; where none stands above, it ended early (out of memory?), see build/tidy.log" >&2
    exit 1
  fi
  echo "no findings in $(grep -c '^clang-tidy' build/tidy.log) files"
}

stage packages
jobs/install-packages.sh test

if [[ $tier == quick ]]; then
  if [[ -n $module ]]; then
    build ci "unit_$module"
    ctest --preset ci --parallel "$jobs" --tests-regex "^(unit\\.$module|include_rules)"
  else
    build ci
    ctest --preset ci --parallel "$jobs" --label-regex '^(unit|rules|mpi)$'
  fi
  exit
fi

check_format
build ci
stage tests
warn_without_traces
test_log=$root/build/ci/tests.log
if [[ $tier == thorough ]]; then
  export NSYS_EXPLAIN_THOROUGH=1
  ctest --preset ci --parallel "$jobs" | tee "$test_log"
  lint
  build sanitize
  stage "sanitizers: tests"
  ctest --preset sanitize --parallel "$jobs" --label-regex '^(unit|mpi)$'
else
  ctest --preset ci --parallel "$jobs" --label-exclude '^thorough$' | tee "$test_log"
fi

stage "all passed"
warn_without_traces
echo "Summary of the tests of the ci build:"
sed -n '/tests passed,/,$p' "$test_log"
