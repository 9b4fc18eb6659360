#!/usr/bin/env bash
# Profiles every task of a job step with Nsight Systems, and exports on the node that recorded:
#
#   srun slurm/srun-capture.sh [OPTIONS] PROGRAM [ARGUMENTS...]
#
#   --out DIR        where the traces go (default: nsys-$SLURM_JOB_ID in the directory of submission, shared)
#   --local DIR      a disk of the node: traces stay in DIR/nsys-$SLURM_JOB_ID there, nothing crosses the network
#   --per-node       one report per node instead of one per task: the first task of every node records all of it
#   --ranks LIST     tasks to record, such as 0,8,16-23; the others run unprofiled (default: all)
#   --nsys "OPTIONS" more options for nsys profile, e.g. "--gpu-metrics-devices=cuda-visible --capture-range=cudaProfilerApi"
#   --no-export      leave the .nsys-rep as they are
#
# The task's exit code is that of PROGRAM; a failing nsys export is only reported.
set -euo pipefail

out=
local_disk=
per_node=no
ranks=
nsys_options=()
export_traces=yes

usage() {
  sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}

while (($#)); do
  case $1 in
    --out) out=${2:?--out needs a directory}; shift 2 ;;
    --local) local_disk=${2:?--local needs a directory}; shift 2 ;;
    --per-node) per_node=yes; shift ;;
    --ranks) ranks=${2:?--ranks needs a list}; shift 2 ;;
    --nsys) read -ra more <<<"${2:?--nsys needs options}"; nsys_options+=("${more[@]}"); shift 2 ;;
    --no-export) export_traces=no; shift ;;
    -h | --help) usage ;;
    --) shift; break ;;
    -*) echo "srun-capture: unknown option $1" >&2; usage ;;
    *) break ;;
  esac
done
(($#)) || usage

job=${SLURM_JOB_ID:?srun-capture: not inside a Slurm job step, so no rank is known; start it with srun}
rank=${SLURM_PROCID:?srun-capture: SLURM_PROCID is not set, so no rank is known; start it with srun}
shared=${out:-${SLURM_SUBMIT_DIR:-$PWD}/nsys-$job}

# in_list NUMBER LIST: whether NUMBER is in a list like 0,8,16-23.
in_list() {
  local part
  local -a parts
  IFS=, read -ra parts <<<"$2"
  for part in "${parts[@]}"; do
    if [[ $part =~ ^([0-9]+)-([0-9]+)$ ]]; then
      # 10#: 08 is a decimal number, too.
      if ((10#$1 >= 10#${BASH_REMATCH[1]} && 10#$1 <= 10#${BASH_REMATCH[2]})); then return 0; fi
    elif [[ $part =~ ^[0-9]+$ ]]; then
      if ((10#$1 == 10#$part)); then return 0; fi
    else
      echo "srun-capture: --ranks: '$part' is neither a number nor a range; give e.g. 0,8,16-23" >&2
      exit 2
    fi
  done
  return 1
}

if [[ -n $ranks ]] && ! in_list "$rank" "$ranks"; then exec "$@"; fi
if [[ $per_node == yes && ${SLURM_LOCALID:-0} != 0 ]]; then exec "$@"; fi
if ! command -v nsys >/dev/null; then
  echo "srun-capture: nsys is not on PATH of $(hostname): task $rank runs unprofiled; load its module" >&2
  exec "$@"
fi

mkdir -p "$shared"
traces=$shared
if [[ -n $local_disk ]]; then
  traces=$local_disk/nsys-$job
  mkdir -p "$local_disk"
  mkdir -m 755 "$traces" 2>/dev/null || true  # another task of this node may have made it
  # Anybody can foresee the name, and make it first on a disk that all write to.
  if [[ -L $traces || ! -d $traces || ! -O $traces || -n $(find "$traces" -maxdepth 0 -perm /022) ]]; then
    echo "srun-capture: $traces on $(hostname) is no directory that only you can write to, so others could read or change the traces: task $rank runs unprofiled; give another --local" >&2
    exec "$@"
  fi
  # Tells the analysis where to look: node-local traces cannot be seen from outside.
  if [[ $rank == 0 || -n $ranks ]]; then printf '%s\n' "$traces" >"$shared/node-local"; fi
fi

name='rank_%q{SLURM_PROCID}_%h'
scope=()
if [[ $per_node == yes ]]; then
  name='node_%q{SLURM_NODEID}_%h'
  scope=(--process-scope=system-wide)
fi

status=0
nsys profile --trace=cuda,nvtx --cuda-graph-trace=node --sample=none --cpuctxsw=none "${scope[@]}" "${nsys_options[@]}" \
  --output "$traces/$name" "$@" || status=$?

if [[ $export_traces == yes ]]; then
  host=$(hostname -s)
  case $per_node in
    yes) report=$traces/node_${SLURM_NODEID}_$host.nsys-rep ;;
    no) report=$traces/rank_${rank}_$host.nsys-rep ;;
  esac
  if ! nsys export --type=sqlite --include-blobs=true --include-json=true --output "${report%.nsys-rep}.sqlite" "$report"; then
    echo "srun-capture: $report was not exported; the analysis needs the export: run nsys export --type=sqlite on it" >&2
  fi
fi
exit "$status"
