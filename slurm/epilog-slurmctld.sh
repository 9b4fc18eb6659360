#!/bin/sh
# EpilogSlurmctld: after every job that left traces, submits their analysis as the job's own user.
#
# In slurm.conf:   EpilogSlurmctld=/opt/nsys-explain-mpi/slurm/epilog-slurmctld.sh
#
# Runs on the controller as SlurmUser, in the background of slurmctld, with hardly any environment; submitting for
# others needs SlurmUser=root. A job left traces if its working directory holds nsys-JOBID (srun-capture.sh makes it).
# Settings, all optional, as shell variables in /etc/nsys-explain-mpi.conf (must belong to root, writable for nobody
# else): PATH, SLURM_CONF, EXPLAIN_SBATCH (the script to submit), EXPLAIN_OPTIONS (options for sbatch), EXPLAIN_LOG,
# EXPLAIN_REPORTS (a directory in which each job of each user leaves its report, as job-JOBID, for others to see; else
# reports lie beside the traces).
#
# Always exits 0: whatever fails here must not hold up the cluster. Never recurses: jobs whose name starts with
# nsys-explain are left alone.
configuration=${NSYS_EXPLAIN_CONF:-/etc/nsys-explain-mpi.conf}
PATH=/usr/local/bin:/usr/bin:/bin
EXPLAIN_SBATCH=$(dirname "$0")/explain.sbatch
EXPLAIN_OPTIONS=
EXPLAIN_REPORTS=
EXPLAIN_LOG=/dev/null
job=${SLURM_JOB_ID:-}
say() { printf '%s job %s: %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$job" "$*" >>"$EXPLAIN_LOG" 2>/dev/null; }

# A link counts by what it leads to; the link itself must be root's, too.
refused=
if [ -L "$configuration" ] && [ ! -e "$configuration" ]; then
  refused="leads nowhere, so no setting is read; correct the link"
elif [ -f "$configuration" ]; then
  if [ -z "$(find "$configuration" ! -user root)$(find -L "$configuration" ! -user root -o -perm /022)" ]; then
    # shellcheck disable=SC1090  # the administrator's file
    . "$configuration"
  else
    refused="is ignored: not only root can change it, and what it says runs as root; chown root, chmod go-w"
  fi
fi
if [ -n "$refused" ]; then
  printf 'nsys-explain-mpi: %s %s\n' "$configuration" "$refused" >&2
  logger -t nsys-explain-mpi "$configuration $refused" 2>/dev/null
fi
export PATH
[ -n "${SLURM_CONF:-}" ] && export SLURM_CONF

# sees TEST PATH: whether test(1) holds for a path of the job's user. Asked as that user, since the path is foreign to
# root, and for at most 10 s, since its file system may answer never.
sees() {
  set -- timeout -s KILL 10 test "$@"
  if [ "$(id -u)" = 0 ]; then
    groups=--clear-groups
    id "$uid" >/dev/null 2>&1 && groups=--init-groups
    set -- setpriv --reuid="$uid" --regid="${group:-$uid}" "$groups" "$@"
  fi
  "$@" 2>/dev/null
}

submit() {
  uid=${SLURM_JOB_UID:-}
  group=${SLURM_JOB_GID:-${SLURM_JOB_GROUP:-}}
  directory=${SLURM_JOB_WORK_DIR:-}
  nodes=${SLURM_JOB_NODELIST:-}
  case ${SLURM_JOB_NAME:-} in nsys-explain*) return ;; esac
  case $job in '' | *[!0-9]*) return ;; esac
  case $uid in '' | *[!0-9]*) say "no user id, so nobody to submit for"; return ;; esac
  sees -d "$directory/nsys-$job" || return
  set -- --uid="$uid" --job-name="nsys-explain-$job" --chdir="$directory" --parsable
  [ -n "$group" ] && set -- "$@" --gid="$group"
  # Traces on the nodes' own disks can only be read there.
  if [ -n "$nodes" ] && sees -f "$directory/nsys-$job/node-local"; then
    count=$(scontrol show hostnames "$nodes" | wc -l)
    set -- "$@" --nodelist="$nodes" --nodes="$count" --ntasks-per-node=1
  fi
  for variable in $(env | sed -n 's/^\(SLURM_[A-Za-z0-9_]*\|SLURMD_[A-Za-z0-9_]*\)=.*/\1/p'); do
    # Of the ended job nothing must reach the new one; settings of the site's own PMIx stay.
    case $variable in SLURM_CONF | SLURM_PMIX_*) ;; *) unset "$variable" ;; esac
  done
  # shellcheck disable=SC2086  # several options in one variable
  if submitted=$(timeout 10 sbatch "$@" $EXPLAIN_OPTIONS "$EXPLAIN_SBATCH" "$directory/nsys-$job" \
    ${EXPLAIN_REPORTS:+-- --out "$EXPLAIN_REPORTS/job-$job" --force} 2>&1); then
    say "submitted its analysis as job $submitted for user $uid"
  else
    say "its analysis was not submitted: $submitted"
  fi
}

submit
exit 0
