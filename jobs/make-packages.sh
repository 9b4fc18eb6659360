#!/usr/bin/env bash
# Makes a .deb and a .tar.gz of the programs, so that users need not compile:
#   jobs/make-packages.sh [DIRECTORY]     packages go to DIRECTORY (default: packages/ in the project)
# They run where this system's libraries are (Debian 12: apt-get install ./FILE.deb brings them).
#
# Built twice: the second time the compiler knows from a run which branches are taken, which makes the tool a fifth
# faster (docs/scaling.md).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
directory=${1:-$PWD/packages}
build=$PWD/build/package
jobs/install-packages.sh build

# In one folder: the compiler finds the profile of a source by the path of its object.
build_with() {
  cmake --preset release -B "$build" -DNSYS_EXPLAIN_TESTS=OFF -DCMAKE_CXX_COMPILER=g++ -DCMAKE_CXX_FLAGS="$1"
  cmake --build "$build" --parallel "$(nproc)" --target all nsys-explain-synth
}

rm -rf "$build"
build_with "-fprofile-generate=$build/profile -fprofile-update=prefer-atomic"

# One rank with many events, and many ranks with few.
explain() {
  local traces=$build/traces-$1
  shift
  "$build/nsys-explain-synth" --out "$traces" --truth none "$@"
  "$build/nsys-explain-mpi" "$traces"/*.sqlite --out "$traces/report" --threads 2 --quiet
}
explain long --nodes 1 --gpus-per-node 2 --steps 500 --capture missing_rank=1 --export operator_ranges,repeat=2
explain wide --nodes 4 --gpus-per-node 8 --tp 8 --layers 4 --steps 30 --export files=per_node \
  --fault slow_gpu:rank=5,factor=1.3

build_with "-fprofile-use=$build/profile -fprofile-partial-training -Wno-missing-profile"
cpack --config "$build/CPackConfig.cmake" -B "$directory"
