#!/usr/bin/env bash
# Submits the analysis of a job that is still queued or running; it starts when that job has ended, however it ended:
#
#   slurm/submit-after.sh JOBID [TRACES...] [-- OPTIONS OF sbatch]
#
# TRACES defaults to nsys-JOBID in the current directory, where srun-capture.sh puts them. Prints the number of the
# analysis job. No administrator is needed for this.
set -euo pipefail

job=${1:-}
if [[ ! $job =~ ^[0-9]+(_[0-9]+)?$ ]]; then
  sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0" >&2
  exit 2
fi
shift
traces=()
while (($#)) && [[ $1 != -- ]]; do
  traces+=("$1")
  shift
done
if (($#)); then shift; fi
if ((${#traces[@]} == 0)); then traces=("$PWD/nsys-$job"); fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec sbatch --parsable --dependency="afterany:$job" "$@" "$here/explain.sbatch" "${traces[@]}"
