#!/usr/bin/env python3
"""What the replay says that mending a fault saves, against the same job without the fault (nsys-explain-synth --twin).

    tests/scans/what_if.py --seeds 5000:20 [--kind data] [--rough] [--workers 1] [--keep DIR] [--markdown PAGE] [--list]

No test: take seeds that nobody has used. A job depends on its kind and seed alone. Programs are those of build/ci, or of
NSYS_EXPLAIN_TOOL and NSYS_EXPLAIN_SYNTH. Of each job a line: the share of the elapsed time that the twin saves (truth),
what_if of the trace ranks with the fault (told), its 95% interval, and the error in points. Then, by kind, how many errors
are within one point, and how many intervals hold the truth. Jobs whose fault nobody names count as unnamed.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from accuracy_page import replace_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = os.environ.get("NSYS_EXPLAIN_TOOL", str(ROOT / "build/ci/nsys-explain-mpi"))
SYNTH = os.environ.get("NSYS_EXPLAIN_SYNTH", str(ROOT / "build/ci/nsys-explain-synth"))
TIMEOUT_SECONDS = 300


class Draw(random.Random):
    def __init__(self, kind, seed):
        super().__init__(f"what_if {kind} {seed}")
        self.job_seed = seed

    def fault(self, where, kinds=("slow_gpu", "slow_gpu", "extra_work", "late_host", "sync_stall", "blocking_copy", "allocation",
                                  "profiler_overhead")):
        kind = self.choice(kinds)
        pause = f"pause={self.uniform(1.5, 5):.1f}ms"
        text = f"{kind}:{where}," + {
            "slow_gpu": f"factor={self.uniform(1.1, 1.5):.2f}",
            "extra_work": f"factor={self.uniform(1.2, 1.5):.2f},mode={self.choice(['larger', 'more'])}",
            "late_host": f"{pause},kind={self.choice(['sleep', 'gc', 'data_loading', 'file_read', 'descheduled'])}",
            "blocking_copy": f"bytes={self.randint(12, 32)}MB",
        }.get(kind, pause)
        return text + self.choice(["", "", "", ",period=3", ",first_step=4,last_step=9"])

    def sizes(self):
        return ["--layers", self.randint(1, 4), "--gradient-mib", self.choice([8, 32, 64]), "--activation-mib",
                self.choice([4, 16]), "--compute-scale", self.choice([0.7, 1, 1, 1.5]), "--steps", self.choice([12, 16, 20])]

    def noise(self):
        """What ranks do by nobody's doing, and how far the host is ahead."""
        return self.choice([[], [], ["--noise", "kernels=0.02"], ["--noise", "kernels=0.02,pauses=0.1,pause_ms=1"],
                            ["--noise", "wander=0.01"], ["--sync-every", 4], ["--sync-every", 0], ["--network", "noise=0.05"], ["--ends", "scale=3"]])

    def rough_capture(self):
        return self.choice([["--export", "payload=none"], ["--capture", "no_nvtx"], ["--capture", "drop=0.005"], ["--capture", "drop=0.02"],
                            ["--capture", "ragged=0.05"], ["--capture", "orphans=0.05"], ["--graph", "node"], ["--export", "files=per_node"], ["--clocks", "drift_ppm=50"],
                            ["--restart-at", 6]])

    def streams(self):
        return self.choice([[], [], ["--nccl-on-compute-stream"], ["--shared-nccl-stream"]])


def machine(nodes, gpus, tensor=1, stages=1):
    options = ["--nodes", nodes, "--gpus-per-node", gpus]
    options += ["--tp", tensor] if tensor > 1 else []
    return options + (["--pp", stages] if stages > 1 else [])


def data(draw):
    nodes, gpus = draw.choice([(1, 2), (1, 4), (1, 8), (2, 4), (2, 8)])
    style = draw.choice([[], ["--dp-style", "fully_sharded"], ["--moe"]])
    return machine(nodes, gpus) + style + ["--fault", draw.fault(f"rank={draw.randrange(nodes * gpus)}")]


def tensor(draw):
    nodes, gpus, size = draw.choice([(1, 4, 2), (1, 8, 2), (2, 4, 2), (2, 4, 4), (1, 8, 8), (2, 8, 4)])
    style = ["--tp-style", "sequence_parallel"] if draw.random() < 0.4 else []
    return machine(nodes, gpus, size) + style + ["--fault", draw.fault(f"rank={draw.randrange(nodes * gpus)}")]


def pipeline(draw):
    nodes, gpus, size, stages = draw.choice([(1, 8, 2, 2), (2, 4, 1, 2), (2, 4, 1, 4), (2, 8, 2, 4)])
    return machine(nodes, gpus, size, stages) + ["--fault", draw.fault(f"rank={draw.randrange(nodes * gpus)}")]


def link(draw):
    """Of a rank whose groups have likes: of a job whose only group is slow nothing tells that it is."""
    nodes, gpus, size = draw.choice([(2, 4, 2), (4, 4, 2), (4, 4, 4), (4, 2, 2), (2, 8, 4)])
    where = f"rank={draw.randrange(nodes * gpus)}"
    return machine(nodes, gpus, size) + ["--fault", f"slow_link:{where},factor={draw.uniform(1.5, 4):.1f}"]


def two(draw):
    nodes, gpus, size = draw.choice([(1, 8, 1), (2, 4, 1), (2, 4, 2), (2, 8, 2)])
    one, other = draw.sample(range(nodes * gpus), 2)
    return machine(nodes, gpus, size) + ["--fault", draw.fault(f"rank={one}"), "--fault", draw.fault(f"rank={other}")]


KINDS = {"data": data, "tensor": tensor, "pipeline": pipeline, "link": link, "two": two}


def options_of(kind, seed, rough):
    draw = Draw(kind, seed)
    options = KINDS[kind](draw) + draw.sizes() + draw.streams() + draw.noise() + (draw.rough_capture() if rough else [])
    return [str(option) for option in options + ["--seed", seed]]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}{done.stdout}")


def elapsed_of(directory):
    truth = json.loads((directory / "truth.json").read_text())
    return truth["elapsed"]["step_ends_ns"][-1] - truth["elapsed"]["start_ns"], truth


def examine(kind, seed, rough, keep):
    """One line of the table."""
    directory = pathlib.Path(keep or tempfile.mkdtemp(prefix="nsys-explain-what-if-")) / f"{kind}-{seed}"
    shutil.rmtree(directory, ignore_errors=True)
    try:
        run([SYNTH, "--out", str(directory / "job"), "--twin", "all", "--truth", "summary", *options_of(kind, seed, rough)])
        elapsed, truth = elapsed_of(directory / "job")
        without = elapsed_of(directory / "job-twin")[0]
        run([TOOL, str(directory / "job"), "--out", str(directory / "report")])
        report = json.loads((directory / "report" / "report.json").read_text())
        culprits = sorted({rank for fault in truth["faults"] for rank in fault["ranks"]})
        told = [what_if for what_if in report["what_if"] if what_if["trace_ranks"] == culprits]
        line = {"kind": kind, "seed": seed, "truth": (elapsed - without) / elapsed, "named": bool(told),
                "cost_share": report["delay"]["cost_share"],
                "others": [what_if["trace_ranks"] for what_if in report["what_if"]] if not told else []}
        if told:
            once = told[0]["low_share"] is None  # no interval then
            line.update(told=told[0]["saved_share"], low=0 if once else told[0]["low_share"],
                        high=1 if once else told[0]["high_share"])
        return line
    finally:
        if not keep:
            shutil.rmtree(directory.parent, ignore_errors=True)


def show(line):
    text = f"{line['kind']:9} {line['seed']:6} truth {100 * line['truth']:6.2f}%"
    if not line["named"]:
        return f"{text}  unnamed; what_if of {line['others']}"
    return (f"{text}  told {100 * line['told']:6.2f}% [{100 * line['low']:6.2f}, {100 * line['high']:6.2f}]  error "
            f"{100 * (line['told'] - line['truth']):+6.2f}  waits {100 * line['cost_share']:5.1f}%")


def summarise(lines):
    """Rows by kind, the names of columns first."""
    by_kind = collections.defaultdict(list)
    for line in lines:
        for kind in (line["kind"], "all"):
            by_kind[kind].append(line)
    rows = [["kind", "jobs", "named", "error at most 1 point", "95% of errors below", "95% interval holds the truth"]]
    for kind in [*(kind for kind in by_kind if kind != "all"), "all"]:
        named = [line for line in by_kind[kind] if line["named"]]
        row = [kind, str(len(by_kind[kind])), str(len(named)), "", "", ""]
        if named:
            errors = sorted(abs(line["told"] - line["truth"]) for line in named)
            within = sum(error <= 0.01 for error in errors) / len(named)
            held = sum(line["low"] <= line["truth"] <= line["high"] for line in named) / len(named)
            row[3:] = [f"{within:.1%}", f"{100 * errors[int(0.95 * (len(errors) - 1))]:.2f} points", f"{held:.1%}"]
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1000:5", help="FIRST:COUNT")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--rough", action="store_true", help="capture the same jobs worse")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", help="leave jobs and reports in this directory")
    parser.add_argument("--markdown", type=pathlib.Path, help="page whose table of savings is replaced (docs/accuracy.md)")
    parser.add_argument("--list", action="store_true", help="show the options of each job only")
    arguments = parser.parse_args()
    first, count = map(int, arguments.seeds.split(":"))
    jobs = [(kind, seed) for kind in arguments.kind or KINDS for seed in range(first, first + count)]
    if arguments.list:
        for kind, seed in jobs:
            print(kind, " ".join(options_of(kind, seed, arguments.rough)))
        return
    lines = []
    with concurrent.futures.ThreadPoolExecutor(arguments.workers) as pool:
        for line in pool.map(lambda job: examine(*job, arguments.rough, arguments.keep), jobs):
            lines.append(line)
            print(show(line), flush=True)
    table = summarise(lines)
    for row in table:
        print(" | ".join(row))
    if arguments.markdown:
        options = f"--seeds {arguments.seeds}" + (" --rough" if arguments.rough else "")
        replace_table(arguments.markdown, "what_if.py --rough" if arguments.rough else "what_if.py", options, table)


if __name__ == "__main__":
    sys.exit(main())
