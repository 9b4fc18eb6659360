#!/usr/bin/env bash
# From nothing to a verdict: installs what the build needs, builds, simulates a job of 2 nodes x 4 GPUs in which one GPU
# is slow, and explains its traces with four tool ranks. Runs from any directory, any number of times.
#   jobs/demo.sh [DIRECTORY]     results go to DIRECTORY (default: demo/ in the project)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
demo=${1:-$PWD/demo}
slow_rank=5

step() { printf '\n=== %s\n' "$*"; }

step "packages"
jobs/install-packages.sh build

step "build"
cmake --preset release -DNSYS_EXPLAIN_TESTS=OFF >/dev/null
cmake --build --preset release --parallel "$(nproc)" --target nsys-explain-mpi nsys-explain-synth

step "a simulated job of 8 ranks; the GPU of rank $slow_rank runs 1.3 times slower"
build/release/nsys-explain-synth --out "$demo/traces" --force --nodes 2 --gpus-per-node 4 \
  --fault "slow_gpu:rank=$slow_rank,factor=1.3" --seed 1

step "mpirun -n 4 nsys-explain-mpi $demo/traces/*.sqlite --out $demo/report"
# More ranks than cores, and root in a container, are fine for a demonstration.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none
if [[ $(id -u) == 0 ]]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
mpirun -n 4 build/release/nsys-explain-mpi "$demo"/traces/*.sqlite --out "$demo/report" --force --csv
