#!/usr/bin/env bash
# Installs the Debian 12 packages that this project needs:
#   jobs/install-packages.sh build    to build it (default)
#   jobs/install-packages.sh test     to build and test it
# Needs neither network nor root where everything is installed already.
set -euo pipefail

purpose=${1:-build}
packages=(build-essential cmake ninja-build libopenmpi-dev openmpi-bin libhdf5-dev libsqlite3-dev zlib1g-dev libzstd-dev libcli11-dev
          libfmt-dev libre2-dev nlohmann-json3-dev libsimdjson-dev libcereal-dev libcpp-httplib-dev)
optional=()
# For the page of report.html; Node.js may have come from elsewhere.
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then packages+=(nodejs npm); fi
case $purpose in
  build) ;;
  test)
    packages+=(libgtest-dev libgmock-dev libbenchmark-dev clang-format clang-tidy python3-h5py python3-pandas
              python3-matplotlib hdf5-tools git chromium)
    # Tests that need these are skipped without. mpich: Open MPI stays the one behind mpicxx and mpiexec.
    optional=(mpich libmpich-dev shellcheck lua5.4)
    # The cluster tests make hosts of namespaces, which only root may, and run a Slurm of their own on them.
    if ((EUID == 0)); then
      packages+=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge iproute2 util-linux)
    fi
    ;;
  *)
    echo "usage: $0 [build|test]" >&2
    exit 2
    ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  {
    echo "This system has no apt-get, so packages are not installed. Needed, by their Debian 12 names:"
    printf '  %s\n' "${packages[@]}"
    echo "Install their counterparts (a C++20 compiler, CMake 3.22, an MPI-3 library, HDF5, SQLite 3, CLI11, fmt,"
    echo "RE2, nlohmann-json, simdjson, cereal, cpp-httplib), then build with: cmake --preset release && cmake --build --preset release"
  } >&2
  exit 1
fi

# Sets `missing` to those of the packages named that are not installed.
find_missing() {
  missing=()
  local package status
  for package in "$@"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $status == installed ]] || missing+=("$package")
  done
}

find_missing "${packages[@]}" "${optional[@]}"
if ((${#missing[@]} == 0)); then
  echo "All $((${#packages[@]} + ${#optional[@]})) packages needed to $purpose are installed."
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "Packages are missing and cannot be installed without root or sudo; install them: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing: ${missing[*]}"
# RUNLEVEL=1: packages bring services (munge, Slurm) that nobody asked to start.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=120 -q)
"${apt[@]}" update || echo "WARNING: the lists of packages could not be renewed; trying with those that are there."
"${apt[@]}" install --yes --no-install-recommends "${missing[@]}" && exit 0

find_missing "${packages[@]}"
if ((${#missing[@]} > 0)); then "${apt[@]}" install --yes --no-install-recommends "${missing[@]}"; fi
echo "WARNING: not all of these could be installed, and what needs them is skipped: ${optional[*]}"
