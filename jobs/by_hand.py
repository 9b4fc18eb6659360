#!/usr/bin/env python3
"""What a notebook does, against the truth: puts NCCL kernels on UTC as recorded, takes the k-th of a name on every rank for one collective,
and calls whoever starts last late. For the table in README.md.

    jobs/by_hand.py JOB REPORT      a directory of nsys-explain-synth, and what nsys-explain-mpi made of it
"""

import collections
import json
import pathlib
import sqlite3
import sys

import nsys_explain


def nccl_kernels(path):
    """Starts by name, ascending, in nanoseconds of UTC."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    names = dict(database.execute("SELECT id, value FROM StringIds"))
    (utc,) = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
    starts = collections.defaultdict(list)
    for start, name in database.execute("SELECT start, shortName FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start"):
        if names[name].startswith("nccl"):
            starts[names[name]].append(utc + start)
    return starts


def by_hand(paths):
    """How often each rank starts last, and the waiting of all in seconds."""
    ranks = [nccl_kernels(path) for path in paths]
    last, wait_ns = collections.Counter(), 0
    for name in ranks[0]:
        for starts in zip(*(rank[name] for rank in ranks)):
            last[starts.index(max(starts))] += 1
            wait_ns += sum(max(starts) - start for start in starts)
    return last, wait_ns * 1e-9


def spread(values):
    """Largest difference of any two, each less its own truth."""
    return max(values) - min(values)


def main():
    job, report = map(pathlib.Path, sys.argv[1:])
    truth = json.loads((job / "truth.json").read_text())
    found = json.loads((report / "report.json").read_text())
    true_last = collections.Counter(instance["last_rank"] for instance in truth["instances"])
    wait = truth["member_columns"].index("wait_ns")
    true_wait = sum(member[wait] for instance in truth["instances"] for member in instance["members"]) * 1e-9
    last, wait_s = by_hand(sorted(job.glob("*.sqlite")))
    with nsys_explain.open(report) as run:
        ours = collections.Counter(run.table("collective_instances")["last_trace_rank"].tolist())
    utc_error = spread([session["offset_to_first_ns"] for session in truth["sessions"]])
    files = {pathlib.Path(session["path"]).name: session["offset_ns"] for session in found["clock"]["sessions"]}
    our_error = spread([files[pathlib.Path(session["file"]).name] - session["offset_to_first_ns"] for session in truth["sessions"]])
    print(f"collectives {truth['instance_count']}\nlast, truly {dict(true_last)}, by hand {dict(last)}, by the tool {dict(ours)}")
    print(f"waiting, truly {true_wait:.3f} s, by hand {wait_s:.3f} s, by the tool {sum(rank['wait_ns'] for rank in found['ranks']) * 1e-9:.3f} s")
    print(f"clocks differ by up to {utc_error} ns on UTC, and by up to {our_error} ns after the fit")


if __name__ == "__main__":
    main()
