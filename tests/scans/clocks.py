#!/usr/bin/env python3
"""Clocks and matching where members leave as real ones do: simulated jobs with the measured law of ends, against their truth.

    tests/scans/clocks.py --seeds 5000:4 [--family data] [--workers 1] [--log FILE] [--markdown PAGE] [--list]

A seed gives a job of each family and each factor by which the law of ends is multiplied: 25 jobs. No test: take seeds that nobody has used. A job
depends on its family, factor and seed alone. Programs are those of build/ci, or of NSYS_EXPLAIN_TOOL and NSYS_EXPLAIN_SYNTH. Needs h5py.

offsets      hosts beside the first whose clock the report relates to it; unrelated: those that it does not
error        how far apart one true moment, in the middle of the run, lies on the two corrected clocks
stated       one standard uncertainty; within, within twice: share of errors that it bounds
wrong jobs   with a pair of operations matched that are not of one true instance; wrong pairs: their number
matched      share of exported operations that are together with their counterparts
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))

import numpy

from accuracy_page import replace_table
from matching_truth import Score, job_time
from stragglers import SYNTH, TOOL, machine, run

FACTORS = [0.1, 0.3, 1, 3, 10]
EVIDENCE = {"payload": [], "no payload": ["--export", "payload=none"], "no NVTX": ["--capture", "no_nvtx"]}


def data(draw):
    return machine(draw.choice([2, 4, 8, 16]), draw.choice([1, 1, 2]))


def sharded(draw):
    return machine(draw.choice([2, 4, 8]), draw.choice([1, 2])) + ["--dp-style", "fully_sharded"]


def tensor(draw):
    nodes, gpus, size = draw.choice([(2, 2, 2), (4, 1, 2), (4, 2, 4), (8, 2, 2), (8, 1, 4)])
    return machine(nodes, gpus, size) + (["--tp-style", "sequence_parallel"] if draw.random() < 0.4 else [])


def pipeline(draw):
    nodes, gpus, size, stages = draw.choice([(2, 1, 1, 2), (4, 1, 1, 2), (4, 2, 1, 4), (4, 2, 2, 2), (8, 2, 2, 4)])
    return machine(nodes, gpus, size, stages) + ["--micro-batches", draw.choice([2, 4]), "--pp-style", draw.choice(["1f1b", "sends_ahead"])]


def experts(draw):
    return machine(draw.choice([2, 4, 8]), draw.choice([1, 2])) + ["--moe"]


FAMILIES = {family.__name__: family for family in (data, sharded, tensor, pipeline, experts)}


def job_of(family, factor, seed):
    """The evidence, and what nsys-explain-synth is told."""
    draw = random.Random(f"clocks {family} {factor} {seed}")
    options = FAMILIES[family](draw) + ["--steps", draw.choice([10, 20, 40]), "--layers", draw.randint(1, 3), "--gradient-mib", draw.choice([8, 32]),
                                        "--ends", f"law=loopback_sockets,scale={factor}", "--network", f"bandwidth_inter={draw.choice([2, 10, 45])}",
                                        "--clocks", f"utc_offset_ms={draw.choice([1, 20, 200])},drift_ppm={draw.choice([0, 2, 20])}",
                                        "--noise", f"kernels={draw.choice([0.005, 0.02])},pauses={draw.choice([0, 0.1])}", "--export", "files=per_node"]
    evidence = draw.choice(list(EVIDENCE))
    return evidence, [str(option) for option in options + EVIDENCE[evidence] + ["--seed", seed]]


def offsets_of(truth, report):
    """(error, stated uncertainty) in ns of each related session but the first, and how many are unrelated to it."""
    clocks = {pathlib.Path(clock["path"]).name: clock for clock in report["clock"]["sessions"]}
    middle = numpy.array([truth["clock_pivot_ns"]], dtype=numpy.int64)
    at = {name: int(job_time(middle, session, clocks[name], report)[0])
          for session in truth["sessions"] if (name := session["file"]) in clocks}
    first = min(at)
    related = [name for name in at if name != first and clocks[name]["component"] == clocks[first]["component"]]
    return [(abs(at[name] - at[first]), clocks[name]["uncertainty_ns"]) for name in related], len(at) - 1 - len(related)


def examine(family, factor, seed):
    evidence, options = job_of(family, factor, seed)
    job = {"family": family, "factor": f"ends x {factor}", "evidence": evidence, "seed": seed, "options": options}
    with tempfile.TemporaryDirectory(prefix="nsys-explain-clocks-") as scratch:
        directory = pathlib.Path(scratch)
        try:
            run([SYNTH, "--out", directory / "job", *options])
            run([TOOL, directory / "job", "--out", directory / "out", "--quiet"])
        except (subprocess.SubprocessError, OSError) as problem:
            return {**job, "failed": f"{problem} {getattr(problem, 'stderr', b'')!r}"}
        truth = json.loads((directory / "job" / "truth.json").read_text())
        report = json.loads((directory / "out" / "report.json").read_text())
        score = Score(directory / "job", directory / "out")
        offsets, unrelated = offsets_of(truth, report)
        return {**job, "offsets": offsets, "unrelated": unrelated, "wrong": score.wrong_pairs, "matched": score.matched, "present": score.present}


def row(name, jobs):
    done = [job for job in jobs if "failed" not in job]
    offsets = [pair for job in done for pair in job["offsets"]]
    cells = [name, str(len(jobs)), str(len(offsets)), str(sum(job["unrelated"] for job in done))]
    if offsets:
        error, stated = (statistics.median(column) / 1000 for column in zip(*offsets))
        most = max(one for one, _ in offsets) / 1000
        within = [sum(one <= times * bound for one, bound in offsets) / len(offsets) for times in (1, 2)]
        ratio = f"{stated / error:.1f}" if error else "-"
        cells += [f"{error:.1f}", f"{most:.0f}", f"{stated:.1f}", ratio, f"{within[0]:.0%}", f"{within[1]:.0%}"]
    else:
        cells += ["-"] * 6
    present = sum(job["present"] for job in done)
    share = f"{sum(job['matched'] for job in done) / present:.1%}" if present else "-"
    return cells + [str(sum(job["wrong"] > 0 for job in done)), str(sum(job["wrong"] for job in done)), share]


def table_of(jobs):
    rows = [["jobs with", "jobs", "offsets", "unrelated", "error, median (us)", "most", "stated, median (us)", "stated / error", "within",
             "within twice", "wrong jobs", "wrong pairs", "matched"]]
    for column, values in (("family", FAMILIES), ("factor", [f"ends x {factor}" for factor in FACTORS]), ("evidence", EVIDENCE)):
        rows += [row(value, chosen) for value in values if (chosen := [job for job in jobs if job[column] == value])]
    return rows + [row("all", jobs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1000:1", help="first seed and how many")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="may be repeated; all where left out")
    parser.add_argument("--workers", type=int, default=1, help="jobs at a time")
    parser.add_argument("--log", type=pathlib.Path, help="one line of JSON per job")
    parser.add_argument("--markdown", type=pathlib.Path, help="page whose table of clocks is replaced (docs/accuracy.md)")
    parser.add_argument("--list", action="store_true", help="only say what nsys-explain-synth would be told")
    arguments = parser.parse_args()
    first, count = (int(part) for part in arguments.seeds.split(":"))
    todo = [(family, factor, seed) for seed in range(first, first + count) for family in arguments.family or FAMILIES for factor in FACTORS]
    if arguments.list:
        for one in todo:
            print(*one, " ".join(job_of(*one)[1]))
        return
    jobs = []
    log = arguments.log.open("w") if arguments.log else None
    with concurrent.futures.ThreadPoolExecutor(arguments.workers) as pool:
        for job in pool.map(lambda one: examine(*one), todo):
            jobs.append(job)
            if log:
                print(json.dumps(job), file=log, flush=True)
            # What is to be looked at: wrong pairs, and clocks far outside.
            far = max((error / max(stated, 1) for error, stated in job.get("offsets", [])), default=0)
            if job.get("wrong") or far > 4 or "failed" in job:
                print(f"{job.get('failed', '')} {job.get('wrong')} wrong pairs, error at most {far:.1f} x stated:", " ".join(job["options"]), flush=True)
    table = table_of(jobs)
    for cells in table:
        print(" | ".join(cells))
    if arguments.markdown:
        replace_table(arguments.markdown, "clocks.py", f"clocks.py --seeds {arguments.seeds}", table)


if __name__ == "__main__":
    main()
