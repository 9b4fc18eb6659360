#!/usr/bin/env bash
# Installs what is needed, then builds and checks everything:
#   tests/run.sh           format, build without warnings, tests, clang-tidy
#   tests/run.sh --fast    without clang-tidy
#   tests/run.sh --full    and the unit and MPI tests once more with AddressSanitizer and UndefinedBehaviorSanitizer
# Runs from any directory, any number of times. JOBS=N limits the parallel work (default: the available cores).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
jobs=${JOBS:-$(nproc)}
tidy=yes
sanitize=no
case ${1:-} in
  '') ;;
  --fast) tidy=no ;;
  --full) sanitize=yes ;;
  *)
    echo "usage: $0 [--fast | --full]" >&2
    exit 2
    ;;
esac

stage() { printf '\n=== %s (after %d s)\n' "$*" "$SECONDS"; }

warn_without_traces() {
  if [[ ! -d $root/../shared/traces ]]; then
    echo "WARNING: ../shared/traces is absent: every test on real traces was SKIPPED, only made traces were tested."
  fi
}

# configure PRESET: with ccache where it is installed, else with precompiled headers, of which it would know nothing.
configure() {
  local faster=(-DNSYS_EXPLAIN_PRECOMPILE=ON)
  if command -v ccache >/dev/null; then faster=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake --preset "$1" "${faster[@]}"
}

stage packages
jobs/install-packages.sh test

stage "format: clang-format"
if ! find include src tests \( -name '*.cpp' -o -name '*.hpp' \) -print0 |
  xargs -0 -P "$jobs" -n 32 clang-format --dry-run --Werror; then
  echo "The files named above are not formatted; run clang-format -i on them." >&2
  exit 1
fi

stage "build: warnings are errors"
configure ci
cmake --build --preset ci --parallel "$jobs"

stage tests
warn_without_traces
test_log=$root/build/ci/tests.log
ctest --preset ci --parallel "$jobs" | tee "$test_log"

if [[ $tidy == yes ]]; then
  stage "lint: clang-tidy"
  # GCC's warning options are not clang's business; the analyzer's shallow mode with fewer nodes takes a fraction of the time.
  tidy_arguments=(-extra-arg=-Wno-unknown-warning-option)
  for argument in -Xclang -analyzer-config -Xclang mode=shallow,max-nodes=20000; do tidy_arguments+=(-extra-arg="$argument"); done
  # Without precompiled headers, so that a missing include is found.
  cmake --preset lint >build/lint.log || { cat build/lint.log >&2; exit 1; }
  if ! run-clang-tidy -quiet -j "$jobs" -p build/lint "${tidy_arguments[@]}" "$root/src/.*" \
      >build/ci/tidy.log 2>&1; then
    grep -vE '^clang-tidy|[0-9]+ warnings? generated' build/ci/tidy.log || true
    echo "clang-tidy has findings; where none stands above, it ended early (out of memory?), see build/ci/tidy.log" >&2
    exit 1
  fi
  echo "no findings in $(grep -c '^clang-tidy' build/ci/tidy.log) files"
fi

if [[ $sanitize == yes ]]; then
  stage "sanitizers: build"
  configure sanitize
  cmake --build --preset sanitize --parallel "$jobs"
  stage "sanitizers: tests"
  ctest --preset sanitize --parallel "$jobs" --label-regex '^(unit|mpi)$'
fi

stage "all passed"
warn_without_traces
echo "Summary of the tests of the ci build:"
sed -n '/tests passed,/,$p' "$test_log"
