#!/usr/bin/env python3
"""Whether the right cause is named under laws that the analysis does not assume.

    tests/scans/causes.py --seeds 120000:10 [--kind slow_gpu] [--workers 1] [--log FILE] [--markdown docs/accuracy.md] [--list]

No test: take seeds that nobody has used. A job depends on its kind and seed alone. Durations of kernels, pauses, factors and ends of
members are log-normal, of Pareto's law, bimodal or wander; a slow GPU is slower by another factor in each family of kernels and not at all
where grids are small. Of the kind `clean` there are twice as many jobs. Programs are those of build/ci, or of NSYS_EXPLAIN_TOOL and
NSYS_EXPLAIN_SYNTH. Columns of the table:

named      just the planted trace ranks are a straggler; of work that is drawn anew for all, nobody; of a link, a finding tells it
suspected  they are a suspect
silent     neither, though the fault costs at least 1% of the GPU time, by simulation without it
costless   neither, and the fault costs less
cause      of those named, suspected or silent, the cause is told right
innocent   jobs in which somebody is named who is not planted
drained    jobs in which a sound GPU is called slow, or its node is to be drained
"""

import argparse
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
sys.path.insert(0, str(ROOT / "tests/end_to_end"))
from mpi_jobs import write_job  # noqa: E402

TOOL = os.environ.get("NSYS_EXPLAIN_TOOL", str(ROOT / "build/ci/nsys-explain-mpi"))
SYNTH = os.environ.get("NSYS_EXPLAIN_SYNTH", str(ROOT / "build/ci/nsys-explain-synth"))
TIMEOUT_SECONDS = 300  # far above what a job takes
TELLING_COST = 0.01  # of the job's GPU time

LAWS = ["log_normal", "pareto", "bimodal", "wandering"]
# Nodes, GPUs of each, tensor-parallel ranks, pipeline stages.
LAYOUTS = [(1, 4, 1, 1), (1, 8, 1, 1), (2, 4, 1, 1), (4, 2, 1, 1), (2, 8, 1, 1), (2, 4, 2, 1), (2, 4, 4, 1), (1, 8, 2, 1), (2, 4, 1, 2), (1, 8, 2, 2)]
LINKS = [(2, 4, 2, 1), (2, 4, 4, 1), (4, 4, 2, 1)]  # one GPU's, among groups alike
NETWORKS = [(4, 4, 1, 2), (4, 4, 2, 2), (4, 2, 1, 2)]  # one node's: the stages of other nodes have groups alike
ON_GPU = ("slow_gpu", "more_tokens", "drawn_lengths", "evaluation")


class Draw(random.Random):
    """Choices of one job, by kind and seed."""

    def __init__(self, kind, seed):
        super().__init__(f"causes {kind} {seed}")
        self.job_seed = seed

    def law(self):
        return f"law={self.choice(LAWS)}"

    def pause(self, least=1.5, most=6.0):
        return f"pause={self.uniform(least, most):.2f}ms"

    def range_or_not(self, kind):
        """The program may have written an NVTX range down, or not."""
        return f"kind={self.choice([kind, 'sleep'])}"

    def strength(self, law):
        """As laws.hpp has it, of one step."""
        if law == "log_normal": return self.lognormvariate(-0.18, 0.6)
        if law == "pareto": return min(12.0, 0.6 * self.paretovariate(2.5))
        return 0.4 if self.random() < 0.75 else 2.8


class UnevenNoise(random.Random):
    """What mpi_jobs.py draws uniformly, by a law with a long tail."""

    def randrange(self, start, stop=None):
        if stop is not None: return super().randrange(start, stop)
        return int(start * 0.3 * min(20.0, self.paretovariate(1.8)))


def slow_gpu(draw, where):
    """1.2 to 1.5 times, by family; now and then only in part of the run."""
    return f"slow_gpu:{where},factor=1.35,spread=0.15,large_only"


def more_tokens(draw, where):
    return f"extra_work:{where},mode=larger,factor={draw.uniform(1.25, 1.6):.2f},{draw.law()}"


def drawn_lengths(draw, where):
    return f"uneven_work:factor={draw.uniform(0.25, 0.6):.2f},law={draw.choice(['log_normal', 'pareto', 'bimodal'])}"


def data_loading(draw, where):
    kind = draw.choice(["data_loading", "sleep", "file_read"])
    return f"late_host:{where},{draw.pause()},kind={kind},{draw.law()}"


def garbage_collection(draw, where):
    return f"late_host:{where},{draw.pause(6, 12)},chance={draw.uniform(0.35, 0.7):.2f},{draw.range_or_not('gc')},{draw.law()}"


def host_computing(draw, where):
    return f"late_host:{where},{draw.pause()},kind=computing,{draw.law()}"


def checkpoint(draw, where):
    period = draw.randint(3, 5)
    return f"checkpoint:{where},bytes={draw.randint(8, 24)}MB,{draw.pause(12, 30)},{draw.range_or_not('file_read')},period={period},first_step={draw.randint(1, 2)},{draw.law()}"


def evaluation(draw, where):
    period = draw.randint(3, 5)
    return f"extra_work:{where},mode=evaluation,count={draw.randint(3, 6)},period={period},first_step={draw.randint(1, 2)},{draw.law()}"


def synchronising(draw, where):
    return f"sync_stall:{where},{draw.pause()},count={draw.randint(1, 2)},{draw.law()}"


def shared_core(draw, where):
    """The thread loses its core in one piece of each step; nsys records thread states."""
    return f"late_host:{where},{draw.pause()},kind=descheduled,{draw.law()}"


def slow_link(draw, where):
    return f"slow_link:{where},factor={draw.uniform(2, 4):.1f},{draw.law()}"


def copies(draw, where):
    return f"blocking_copy:{where},bytes={draw.randint(16, 32)}MB,{draw.law()}"


def allocations(draw, where):
    return f"allocation:{where},{draw.pause()},count={draw.randint(1, 3)},{draw.law()}"


def clean(draw, where):
    return None


# How each is planted, and the causes that tell it.
KINDS = {
    "slow_gpu": (slow_gpu, {"slow_kernel"}),
    "more_tokens": (more_tokens, {"uneven_work"}),
    "drawn_lengths": (drawn_lengths, {"uneven_work"}),
    "data_loading": (data_loading, {"launch_starved"}),
    "garbage_collection": (garbage_collection, {"launch_starved"}),
    "host_computing": (host_computing, {"launch_starved"}),
    "checkpoint": (checkpoint, {"launch_starved"}),
    "evaluation": (evaluation, {"extra_work"}),
    "synchronising": (synchronising, {"sync_stall"}),
    "shared_core": (shared_core, {"launch_starved"}),
    "slow_link": (slow_link, {"slow_link"}),
    "slow_network": (slow_link, {"slow_link"}),
    "copies": (copies, {"blocking_copy"}),
    "allocations": (allocations, {"allocation"}),
    "late_mpi": (None, {"launch_starved", "slow_kernel"}),
    "clean": (clean, set()),
}


def ends_file(draw, directory):
    """How members leave: each later by a law of its own, log-normal or in two clusters, with a bias that lasts."""
    shares = [0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100]
    classes = []
    for operation in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv", "all_to_all"):
        one = {"operation": operation, "bytes_below": 1 << 62, "members": 1}
        if draw.random() < 0.5:
            one |= {"log_normal_median_us": draw.uniform(0.5, 6), "bias_sigma": draw.uniform(0.3, 1), "sigma": draw.uniform(0.6, 1.3), "most_us": 300}
        else:
            near, far = draw.uniform(0.5, 3), draw.uniform(10, 40)
            one |= {"spread_us": [near * (1 + share / 200) if share < 75 else far * (1 + (share - 75) / 50) for share in shares],
                    "bias_us": [draw.uniform(0, 4) * share / 100 for share in shares], "between": []}
            one["bias_us"].sort()
        classes.append(one)
    path = directory / "ends.json"
    path.write_text(json.dumps({"percent": shares, "laws": {"drawn": {"source": "drawn", "classes": classes}}}))
    return path


def job_options(kind, seed, directory):
    """What nsys-explain-synth is told of a job, and the trace ranks at fault."""
    draw = Draw(kind, seed)
    nodes, gpus, tensor, stages = draw.choice({"slow_link": LINKS, "slow_network": NETWORKS}.get(kind, LAYOUTS))
    # A pause of a later stage's host hides in its wait for the first activations.
    rank = draw.randrange(nodes * gpus // (1 if kind in ON_GPU + ("slow_network",) else stages))
    fault = KINDS[kind][0](draw, f"node={rank // gpus}" if kind == "slow_network" else f"rank={rank}")
    options = ["--nodes", nodes, "--gpus-per-node", gpus, "--tp", tensor, "--pp", stages, "--seed", seed, "--steps", draw.randint(30, 45),
               "--layers", draw.randint(1, 4), "--gradient-mib", draw.choice([8, 32, 64]), "--activation-mib", draw.choice([4, 16]),
               "--compute-scale", draw.choice([0.7, 1, 1.5]), "--ends", f"law={ends_file(draw, directory)}",
               "--noise", f"kernels={draw.uniform(0.005, 0.03):.3f},{draw.law()}", "--network", f"noise={draw.uniform(0.01, 0.05):.3f}",
               "--clocks", f"utc_offset_ms={draw.choice([1, 20])},drift_ppm={draw.choice([0, 2, 20])}"]
    if draw.random() < 0.5: options += ["--noise", f"pauses={draw.uniform(0.05, 0.15):.2f},pause_ms={draw.uniform(0.3, 1.5):.1f}"]
    if draw.random() < 0.3 and kind not in ("slow_link", "slow_network"): options += ["--export", "payload=none"]
    if draw.random() < 0.3 and tensor * stages == 1: options += draw.choice([["--dp-style", "fully_sharded"], ["--moe"]])
    if draw.random() < 0.3 and kind in ON_GPU: options += ["--sync-every", draw.choice([2, 3])]
    if draw.random() < 0.3: options += ["--nccl-on-compute-stream"]
    if fault: options += ["--fault", fault]
    guilty = {"clean": [], "drawn_lengths": [], "slow_network": list(range(rank // gpus * gpus, rank // gpus * gpus + gpus))}
    return [str(option) for option in options], guilty.get(kind, [rank])


def mpi_job(seed, directory):
    """One rank comes late to its collectives: its host pauses, or its kernels take longer."""
    draw = Draw("late_mpi", seed)
    ranks, law = draw.choice([4, 6, 8]), draw.choice(LAWS[:3])
    rank, mean_ns = draw.randrange(ranks), draw.uniform(0.4e6, 2e6)
    halo = draw.choice([{}, {"halo": True, "requests": draw.choice(["Waitall", "Wait"])}])
    on_host = draw.random() < 0.5
    later = lambda: int(mean_ns * draw.strength(law))
    write_job(directory, ranks=ranks, steps=draw.randint(30, 50), seed=seed, late=rank, noise=UnevenNoise(seed),
              by_ns=0 if on_host else later, pause_ns=later if on_host else 0, uid=draw.choice([None, 77]), **halo)
    return [rank], {"launch_starved" if on_host else "slow_kernel"}


def run(command):
    subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=TIMEOUT_SECONDS,
                   stdin=subprocess.DEVNULL)


def gpu_time_s(directory):
    """Of all trace ranks together, without the time before the first step."""
    truth = json.loads((directory / "truth.json").read_text())
    elapsed = truth["elapsed"]
    return (elapsed["step_ends_ns"][-1] - elapsed["start_ns"]) * 1e-9


def cost_share(options, directory):
    """The share of the job's time that the fault costs."""
    fault = options.index("--fault")
    for name, chosen in (("with", options), ("without", options[:fault] + options[fault + 2:])):
        run([SYNTH, "--out", directory / name, "--truth", "summary", *chosen])
    shares = 1 - gpu_time_s(directory / "without") / gpu_time_s(directory / "with")
    for name in ("with", "without"): shutil.rmtree(directory / name)
    return shares


def ranks_of(finding):
    return set(finding.get("trace_ranks") or [])


def drained(report, slow):
    """Whether a GPU that is not among the slow ones is called slow, or its node is to be drained."""
    told = [set(one["trace_ranks"]) for one in report["stragglers"] + report["suspects"] if one["cause"] == "slow_kernel"]
    told += [ranks_of(finding) for finding in report["findings"] if finding["id"] == "slow-gpu" or "drain" in finding["recommendation"]]
    return any(not ranks <= slow for ranks in told)


def score(kind, guilty, causes, report):
    named, suspects = report["stragglers"], report["suspects"]
    slow = set(guilty) if "slow_kernel" in causes else set()
    innocent = [one["trace_ranks"] for one in named if not set(one["trace_ranks"]) <= set(guilty)]
    result = {"innocent": bool(innocent), "drained": drained(report, slow),
              "told": [[one["trace_ranks"], one["cause"], one["pattern"], one.get("host_was_in", "")] for one in named + suspects],
              "verdict": report["verdict"]["text"]}
    if kind in ("clean", "drawn_lengths"):
        findings = {finding["id"]: finding["title"] for finding in report["findings"]}
        right = kind == "clean" or "uneven" in findings.get("rotating-delay", "")
        return result | {"class": "silent" if named else "named", "cause": right and not named}
    exact = lambda some: next((one for one in some if one["trace_ranks"] == guilty), None)
    told = exact(named) or exact(suspects)
    if told is None and kind in ("slow_link", "slow_network"):
        named = [one["trace_ranks"] for one in named + suspects if one["cause"] == "slow_link"]
        named += [ranks_of(finding) for finding in report["findings"] if finding["id"] == "slow-link"]
        if any(set(ranks) & set(guilty) for ranks in named): return result | {"class": "named", "cause": True}
    if told is None: return result | {"class": "silent", "cause": False}
    return result | {"class": "named" if exact(named) else "suspected", "cause": told["cause"] in causes}


def run_job(kind, seed):
    with tempfile.TemporaryDirectory(prefix="nsys-explain-scan-") as scratch:
        directory = pathlib.Path(scratch)
        causes, options = KINDS[kind][1], []
        if kind == "late_mpi":
            guilty, causes = mpi_job(seed, directory / "job")
        else:
            options, guilty = job_options(kind, seed, directory)
            run([SYNTH, "--out", directory / "job", "--truth", "summary", *options])
        run([TOOL, directory / "job", "--out", directory / "out", "--quiet"])
        result = score(kind, guilty, causes, json.loads((directory / "out" / "report.json").read_text()))
        shutil.rmtree(directory / "job")
        if options and (result["class"] == "silent" and kind != "clean" or kind == "drawn_lengths" and not result["cause"]):
            result["cost_share"] = round(cost_share(options, directory), 4)
            if result["cost_share"] < TELLING_COST and not result["innocent"]: result["class"] = "costless"
    return {"kind": kind, "seed": seed, "rank": guilty, **result, "options": " ".join(options)}


def guarded(kind, seed):
    """A job that fails is a result, too: the rest of a long scan goes on."""
    try:
        return run_job(kind, seed)
    except (subprocess.SubprocessError, OSError, KeyError, ValueError) as problem:
        detail = getattr(problem, "stderr", None) or b""
        return {"kind": kind, "seed": seed, "class": "failed", "problem": f"{problem} {detail.decode(errors='replace')}"}


def table(results):
    head = ["kind", "jobs", "named", "suspected", "silent", "costless", "cause", "innocent", "drained", "failed"]
    rows = []
    for kind in [kind for kind in KINDS if any(job["kind"] == kind for job in results)] + ["all"]:
        jobs = [job for job in results if kind in (job["kind"], "all")]
        faulty = [job for job in jobs if job["kind"] != "clean" and job["class"] not in ("costless", "failed")]
        of_class = lambda name: sum(job["class"] == name for job in jobs)
        rows.append([kind, len(jobs), of_class("named"), of_class("suspected"), of_class("silent"), of_class("costless"),
                     f"{sum(job['cause'] for job in faulty)} of {len(faulty)}" if faulty else "", sum(job.get("innocent", False) for job in jobs),
                     sum(job.get("drained", False) for job in jobs), of_class("failed")])
    return [head, *([str(cell) for cell in row] for row in rows)]


def is_miss(job):
    return job["class"] == "failed" or job["class"] != "costless" and not job["cause"] or job["innocent"] or job["drained"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="120000:10", help="first seed and how many of each kind")
    parser.add_argument("--kind", action="append", choices=KINDS, help="may be repeated; all where left out")
    parser.add_argument("--workers", type=int, default=1, help="jobs at a time")
    parser.add_argument("--log", type=pathlib.Path, help="one line of JSON per job")
    parser.add_argument("--markdown", type=pathlib.Path, help="page whose table is replaced (docs/accuracy.md)")
    parser.add_argument("--list", action="store_true", help="only say what nsys-explain-synth would be told")
    arguments = parser.parse_args()
    first, count = (int(part) for part in arguments.seeds.split(":"))
    kinds = arguments.kind or list(KINDS)
    jobs = [(kind, first + i) for i in range(2 * count) for kind in kinds if i < count or kind == "clean"]
    if arguments.list:
        for kind, seed in jobs:
            if kind != "late_mpi": print(kind, seed, " ".join(job_options(kind, seed, pathlib.Path(tempfile.gettempdir()))[0]))
        return
    results = []
    log = arguments.log.open("w") if arguments.log else None
    with concurrent.futures.ThreadPoolExecutor(arguments.workers) as pool:
        for result in pool.map(lambda job: guarded(*job), jobs):
            results.append(result)
            if log: print(json.dumps(result), file=log, flush=True)
            if is_miss(result): print(json.dumps(result), flush=True)
    rows = table(results)
    for row in rows: print(" ".join(f"{cell:>18}" if c == 0 else f"{cell:>9}" for c, cell in enumerate(row)))
    if arguments.markdown: replace_table(arguments.markdown, "causes.py", f"--seeds {arguments.seeds}", rows)
    sys.exit(any(result["class"] == "failed" for result in results))


if __name__ == "__main__":
    main()
