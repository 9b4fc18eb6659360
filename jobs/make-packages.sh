#!/usr/bin/env bash
# Makes a .deb and a .tar.gz of the programs, so that users need not compile:
#   jobs/make-packages.sh [DIRECTORY]     packages go to DIRECTORY (default: packages/ in the project)
# They run where this system's libraries are (Debian 12: apt-get install ./FILE.deb brings them).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
directory=${1:-$PWD/packages}
jobs/install-packages.sh build
cmake --preset release -DNSYS_EXPLAIN_TESTS=OFF
cmake --build --preset release --parallel "$(nproc)"
cpack --config build/release/CPackConfig.cmake -B "$directory"
