#!/usr/bin/env python3
"""How often the right one is named: jobs drawn by kind and seed, simulated, analysed and scored against their truth.

    tests/scans/stragglers.py --seeds 1000:20 [--kind single] [--rough] [--cuda-alone] [--workers 1] [--log FILE] [--costs] [--list]

No test: a scan looks for what no test has seen, so take seeds that nobody has used. A job depends on its kind and seed
alone. Programs are those of build/ci, or of NSYS_EXPLAIN_TOOL and NSYS_EXPLAIN_SYNTH. Columns of the table:

right     every planted fault is named a straggler, with just its trace ranks, and nobody comes before them
suspect   not all are named, but those that are not are among the suspects, and a culprit comes first of all
few       likewise, where no rule could do more: delays that go round, which are nobody's fault, hit just that one of n trace
          ranks in as many steps, k, with a probability of n^(1 - k) above the 0.1% at which clean jobs may name somebody
finding   what is missing there is told by another finding (slow-link, slow-gpu, longest-stage, long-waits of that one alone)
silent    a fault that nothing tells, though it truly costs at least 1% of the job's GPU time, by simulation without it
costless  likewise, of a fault that costs less
part      a place or trace rank within the planted one is named, but not just the planted one
wrong     somebody is named a straggler who is not planted
innocent  somebody who is not planted is among the suspects (no verdict; may overlap with all of the above)
misled    another finding (likewise) tells of a place that is sound (may overlap, too)
cause, pattern   of the faults named or suspected, those with the right one
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from accuracy_page import replace_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = os.environ.get("NSYS_EXPLAIN_TOOL", str(ROOT / "build/ci/nsys-explain-mpi"))
SYNTH = os.environ.get("NSYS_EXPLAIN_SYNTH", str(ROOT / "build/ci/nsys-explain-synth"))
TIMEOUT_SECONDS = 300  # far above what a job takes
TELLING_COST = 0.01  # of the job's GPU time
FALSE_ALARM_RATE = 1e-3  # StragglerCriteria

CAPTURES = {"rough": "--rough", "cuda_alone": "--cuda-alone"}

HOST_PAUSES = ["sleep", "gc", "data_loading", "file_read", "module_load", "descheduled"]


class Draw(random.Random):
    """Choices of one job, by kind and seed."""

    def __init__(self, kind, seed):
        super().__init__(f"{kind} {seed}")
        self.job_seed = seed

    def chance(self, probability):
        return self.random() < probability

    def fault(self, where, longest_pause=4.0, kinds=None):
        """One that delays by milliseconds in a step, without its pattern. `where`: rank=R, or any other place."""
        kind = self.choice(kinds or ["slow_gpu", "slow_gpu", "extra_work", "late_host", "late_host", "sync_stall",
                                     "blocking_copy", "allocation", "profiler_overhead"])
        pause = f"pause={self.uniform(2, longest_pause):.1f}ms"
        return f"{kind}:{where}," + {
            "slow_gpu": f"factor={self.uniform(1.15, 1.5):.2f}",
            "extra_work": f"factor={self.uniform(1.2, 1.5):.2f},mode={self.choice(['larger', 'more'])}",
            "late_host": f"{pause},kind={self.choice(HOST_PAUSES)}",
            "blocking_copy": f"bytes={self.randint(16, 32)}MB",
        }.get(kind, pause)

    def capture(self, payload=0.7):
        """How the job was recorded, and what its clocks did."""
        options = ["--seed", self.job_seed, "--clocks",
                   f"utc_offset_ms={self.choice([1, 20, 200])},drift_ppm={self.choice([0, 2, 20, 50])}"]
        if not self.chance(payload):
            options += ["--export", "payload=none"]
        return options

    def rough_capture(self, given):
        """Beside the options given: records lost, windows of ranks that differ, graphs, noisy transfers: where verdicts have less to rest on."""
        options = []
        for chance, option, values in [(0.3, "--capture", ["drop=0.002", "drop=0.01", "drop=0.03"]),
                                       (0.3, "--capture", ["ragged=0.05", "ragged=0.2"]),
                                       (0.2, "--capture", ["orphans=0.02", "orphans=0.1"]), (0.3, "--export", ["files=per_node"]),
                                       (0.2, "--graph", ["node"]), (0.2, "--restart-at", [4, 6, 8]),
                                       (0.2, "--ends", ["scale=2", "scale=3"]), (0.3, "--network", ["noise=0.03", "noise=0.1"])]:
            if self.chance(chance) and not (option == "--ends" and option in given):
                options += [option, self.choice(values)]
        return options

    def streams(self):
        return self.choice([[], [], ["--nccl-on-compute-stream"], ["--shared-nccl-stream"]])

    def sizes(self, most_layers=4):
        return ["--layers", self.randint(1, most_layers), "--gradient-mib", self.choice([8, 32, 64]), "--activation-mib",
                self.choice([4, 16]), "--compute-scale", self.choice([0.7, 1, 1, 1.5])]

    def noise(self):
        """What ranks do by nobody's doing."""
        wander = ["--noise", f"wander={self.choice([0.005, 0.01, 0.02])}"] if self.chance(0.3) else []
        return wander + self.choice([[], ["--noise", "kernels=0.02"], ["--noise", f"kernels=0.02,pauses=0.1,pause_ms={self.choice([1, 3])}"],
                                     ["--fault", "rotating_jitter:pause=3ms"]])


def machine(nodes, gpus, tensor=1, stages=1):
    options = ["--nodes", nodes, "--gpus-per-node", gpus]
    options += ["--tp", tensor] if tensor > 1 else []
    return options + (["--pp", stages] if stages > 1 else [])


def no_pipeline(draw):
    """A machine of 4 to 16 GPUs, their number."""
    nodes, gpus, tensor = draw.choice([(1, 4, 1), (1, 8, 1), (2, 4, 1), (4, 2, 1), (2, 8, 1), (2, 4, 2), (2, 4, 4),
                                       (1, 8, 8), (2, 6, 2)])
    style = ["--tp-style", "sequence_parallel"] if tensor > 1 and draw.chance(0.3) else []
    return machine(nodes, gpus, tensor) + style, nodes * gpus


def clean(draw):
    layout = draw.choice([no_pipeline(draw)[0], machine(1, 8, 2, 2), machine(2, 4, 1, 4), machine(1, 2), machine(1, 8, 1, 2)])
    extra = draw.choice([[], [], ["--moe"], ["--dp-style", "fully_sharded"]])
    return layout + extra + ["--steps", draw.choice([12, 24, 30])] + draw.noise() + draw.streams()


def single(draw):
    layout, ranks = no_pipeline(draw)
    return layout + ["--steps", draw.randint(14, 24), "--fault", draw.fault(f"rank={draw.randrange(ranks)}")] + draw.streams()


def pattern(draw):
    """Hits enough to prove it among four or more."""
    layout, ranks = no_pipeline(draw)
    fault = draw.fault(f"rank={draw.randrange(ranks)}")
    if draw.chance(0.5):
        first = draw.randint(1, 12)
        last = first + draw.randint(9, 14)
        return layout + ["--steps", last + draw.randint(2, 12), "--fault", f"{fault},first_step={first},last_step={last}"]
    period = draw.randint(2, 4)
    return layout + ["--steps", 10 * period, "--fault", f"{fault},first_step={draw.randint(1, period)},period={period}"]


def two(draw):
    """At different times, or at the same where both are seen: one behind the other is a suspect at best."""
    layout, ranks = no_pipeline(draw)
    slow, late = draw.sample(range(ranks), 2)
    period = draw.randint(3, 4)
    return layout + ["--steps", 40, "--fault", f"slow_gpu:rank={slow},factor={draw.uniform(1.15, 1.3):.2f}", "--fault",
                     f"{draw.choice(['late_host', 'sync_stall', 'allocation'])}:rank={late},"
                     f"pause={draw.randint(10, 16)}ms,period={period},first_step={draw.randint(1, 3)}"]


def small(draw):
    """Two or three GPUs: k hits of n alike prove n^-k and no more."""
    ranks, hits = draw.choice([2, 2, 3]), draw.randint(6, 16)
    fault = draw.fault(f"rank={draw.randrange(ranks)}")
    first = draw.randint(1, 6)
    times, steps = draw.choice([(f",first_step={first},last_step={first + hits - 1}", hits + first + 4),
                                (",first_step=1,period=3", 3 * hits), ("", hits)])
    layout = machine(1, ranks) if draw.chance(0.6) else machine(ranks, 1)
    return layout + ["--steps", steps, "--fault", fault + times] + draw.streams()


def node(draw):
    nodes = draw.choice([3, 4])
    tensor = draw.choice([1, 1, 2, 4])
    return machine(nodes, 4, tensor) + ["--steps", 20, "--fault", f"slow_node:node={draw.randrange(nodes)},"
                                        f"factor={draw.uniform(1.1, 1.4):.2f}"] + draw.streams()


def slow_link(draw):
    """Of one trace rank, or between tensor partners: equal groups elsewhere are fast."""
    tensor = draw.choice([2, 2, 4])
    rank = draw.randrange(8)
    which = f"ranks={rank // 2 * 2}+{rank // 2 * 2 + 1}" if tensor == 2 and draw.chance(0.4) else f"rank={rank}"
    style = ["--tp-style", "sequence_parallel"] if draw.chance(0.3) else []
    return machine(2, 4, tensor) + style + ["--steps", 16, "--fault",
                                            f"slow_link:{which},factor={draw.uniform(1.8, 4):.1f}"]


def parallel(draw):
    """Tensor x pipeline x data, one slow GPU."""
    nodes, gpus, tensor, stages = draw.choice([(2, 8, 2, 2), (2, 8, 4, 2), (4, 4, 2, 4), (4, 4, 2, 2), (4, 8, 2, 2), (3, 8, 2, 3)])
    return machine(nodes, gpus, tensor, stages) + [
        "--micro-batches", draw.choice([2, 4]), "--steps", draw.randint(10, 14), "--fault",
        f"slow_gpu:rank={draw.randrange(nodes * gpus)},factor={draw.uniform(1.15, 1.4):.2f}"]


def pipeline(draw):
    stages, replicas = draw.choice([2, 2, 3, 4]), draw.randint(1, 4)
    ranks = stages * replicas
    # A pause of a later stage's host hides in its wait for the first activations.
    if draw.chance(0.3):
        fault = draw.fault(f"rank={draw.randrange(replicas)}", kinds=["late_host", "profiler_overhead"])
    else:
        fault = draw.fault(f"rank={draw.randrange(ranks)}", kinds=["slow_gpu", "slow_gpu", "extra_work", "extra_work",
                                                                  "sync_stall", "allocation", "blocking_copy"])
    layout = machine(2, ranks // 2, 1, stages) if ranks % 2 == 0 and draw.chance(0.5) else machine(1, ranks, 1, stages)
    return layout + ["--micro-batches", draw.choice([2, 4, 8]), "--steps", draw.choice([16, 24, 40]), "--fault",
                     fault] + draw.streams()


def stage(draw):
    """Slow GPUs, or more layers, of a whole pipeline stage."""
    tensor, stages = draw.choice([(1, 2), (1, 4), (2, 2), (1, 3), (2, 4)])
    place = f"stage={draw.randrange(stages)}"
    fault = draw.choice([f"slow_gpu:{place},factor={draw.uniform(1.15, 1.4):.2f}", f"extra_work:{place},mode=layers,count=1"])
    replicas = draw.choice([1, 2]) if tensor == 1 else 2
    return machine(1, tensor * stages * replicas, tensor, stages) + [
        "--micro-batches", draw.choice([2, 4]), "--steps", draw.choice([16, 24]), "--fault", fault]


def mixed(draw):
    """Experts and sharded weights: much blocking communication, some of it beside compute."""
    layout, ranks = no_pipeline(draw)
    extra = draw.choice([["--moe"], ["--dp-style", "fully_sharded"], ["--moe", "--dp-style", "fully_sharded"]])
    return layout + extra + ["--steps", draw.randint(14, 24), "--fault", draw.fault(f"rank={draw.randrange(ranks)}")] + draw.streams()


def noisy(draw):
    """A culprit beside what ranks do by nobody's doing."""
    layout, ranks = no_pipeline(draw)
    return layout + ["--steps", draw.randint(24, 40), "--fault",
                     draw.fault(f"rank={draw.randrange(ranks)}")] + draw.noise() + draw.streams()


def clean_small(draw):
    """Two or three GPUs by themselves."""
    ranks = draw.choice([2, 2, 3])
    layout = machine(1, ranks) if draw.chance(0.5) else machine(ranks, 1)
    extra = draw.choice([[], [], ["--dp-style", "fully_sharded"], ["--moe"]])
    return layout + extra + ["--steps", draw.randint(6, 60)] + draw.noise() + draw.streams()


def pair(draw):
    """Two nodes of one GPU each, in captures long enough."""
    fault = draw.fault(f"rank={draw.randrange(2)}")
    when = draw.choice(["", ",first_step=5,last_step=18", ",first_step=1,period=2"])
    return machine(2, 1) + ["--steps", draw.randint(26, 40), "--fault", fault + when] + draw.streams()


def experts(draw):
    """Experts and sharded weights on several nodes, without tensor groups; now and then in part of the run only."""
    nodes, gpus = draw.choice([(2, 4), (4, 2), (2, 8), (3, 4)])
    extra = draw.choice([["--moe"], ["--dp-style", "fully_sharded"], ["--moe", "--dp-style", "fully_sharded"]])
    first = draw.randint(1, 8)
    when = f",first_step={first},last_step={first + draw.randint(8, 14)}" if draw.chance(0.5) else ""
    fault = draw.fault(f"rank={draw.randrange(nodes * gpus)}")
    return machine(nodes, gpus) + extra + ["--steps", 26, "--fault", fault + when] + draw.streams()


def grid(draw):
    """Tensor x pipeline x data over nodes, one of which is slow."""
    nodes, gpus, tensor, stages = draw.choice([(4, 4, 2, 2), (4, 2, 2, 2), (3, 4, 2, 2), (4, 4, 4, 2), (4, 4, 1, 2),
                                               (8, 2, 2, 4), (4, 8, 2, 2)])
    fault = f"slow_node:node={draw.randrange(nodes)},factor={draw.uniform(1.15, 1.4):.2f}"
    return machine(nodes, gpus, tensor, stages) + ["--micro-batches", draw.choice([2, 4]), "--steps",
                                                   draw.randint(12, 16), "--fault", fault]


def same_node(draw):
    """Two culprits of different kinds on one node."""
    nodes, gpus, tensor = draw.choice([(2, 4, 1), (2, 8, 1), (3, 4, 1), (2, 4, 2), (1, 8, 1)])
    first, second = draw.sample(range(gpus), 2)
    base = draw.randrange(nodes) * gpus
    return machine(nodes, gpus, tensor) + [
        "--steps", draw.randint(28, 34), "--fault", f"slow_gpu:rank={base + first},factor={draw.uniform(1.15, 1.3):.2f}",
        "--fault", f"{draw.choice(['late_host', 'sync_stall', 'allocation'])}:rank={base + second},"
        f"pause={draw.randint(10, 16)}ms,period={draw.choice([3, 4])},first_step={draw.randint(1, 3)}"] + draw.streams()


def part(draw):
    """One culprit of a 3-D job, in part of the run."""
    nodes, gpus, tensor, stages = draw.choice([(2, 8, 2, 2), (4, 4, 2, 2), (2, 4, 2, 2), (2, 8, 1, 2)])
    first = draw.randint(2, 10)
    fault = draw.fault(f"rank={draw.randrange(nodes * gpus)}",
                       kinds=["slow_gpu", "extra_work", "sync_stall", "allocation", "blocking_copy"])
    return machine(nodes, gpus, tensor, stages) + ["--micro-batches", draw.choice([2, 4]), "--steps", 30, "--fault",
                                                   f"{fault},first_step={first},last_step={first + draw.randint(9, 14)}"]


def slightly(draw):
    """A GPU that is 2.5% slower, in a capture long enough to prove it."""
    nodes, gpus, tensor = draw.choice([(1, 4, 1), (1, 8, 1), (2, 4, 1), (2, 4, 2)])
    return machine(nodes, gpus, tensor) + ["--steps", 60, "--fault", f"slow_gpu:rank={draw.randrange(nodes * gpus)},factor=1.025"]


def little(draw):
    """Some 5 to 20 times the uncertainty of the clocks, in every one of many short steps."""
    nodes, gpus = draw.choice([(4, 1), (8, 1), (4, 2), (2, 4), (3, 1)])
    return machine(nodes, gpus) + ["--steps", draw.choice([200, 300, 400]), "--ends", f"scale={draw.choice([8, 12, 16])}", "--fault",
                                   f"late_host:rank={draw.randrange(nodes * gpus)},pause={draw.randint(1200, 4000)}ns"]


def uneven(draw):
    """An expert with more tokens; or sequence lengths that are drawn in each step, which are nobody's fault."""
    layout, ranks = no_pipeline(draw)
    fault = f"rank={draw.randrange(ranks)},factor={draw.uniform(1.5, 3):.2f}" if draw.chance(0.5) else f"factor={draw.uniform(0.2, 0.6):.2f}"
    return layout + ["--steps", draw.randint(20, 30), "--fault", f"uneven_work:{fault}"] + draw.streams()


KINDS = {kind.__name__: kind for kind in (clean, single, pattern, two, small, node, slow_link, parallel, pipeline, stage,
                                          mixed, slightly, noisy, clean_small, pair, experts, grid, same_node, part, little, uneven)}
LARGEST_LAYERS = {"parallel": 2, "node": 3, "two": 3, "grid": 2, "same_node": 3, "part": 2}
# What these need is told by communicators alone; steps of less than a millisecond are not matched without.
PAYLOAD = {"stage": 1.0, "slow_link": 1.0, "little": 1.0}
SHORT_STEPS = {"little": ["--layers", 1, "--gradient-mib", 1, "--compute-scale", 0.05]}


def job_options(kind, seed, capture):
    """What nsys-explain-synth is told of a job."""
    draw = Draw(kind, seed)
    options = KINDS[kind](draw) + (SHORT_STEPS.get(kind) or draw.sizes(LARGEST_LAYERS.get(kind, 4))) + draw.capture(PAYLOAD.get(kind, 0.7))
    on_gpu = all(option.startswith(("slow_gpu", "slow_node", "extra_work", "uneven_work")) for option in faults_of(options))
    if on_gpu and draw.chance(0.3):  # a host that runs ahead hides its own pauses
        options += ["--sync-every", draw.choice([2, 3])]
    if "rough" in capture:
        options += draw.rough_capture(options)
    if "cuda_alone" in capture:
        options += ["--export", "payload=blob", "--capture", "no_nvtx"]
    return [str(option) for option in options]


def faults_of(options):
    return [value for option, value in zip(options, options[1:]) if option == "--fault"]


def run(command):
    subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=TIMEOUT_SECONDS,
                   stdin=subprocess.DEVNULL)


def waits_and_time(truth, guilty):
    """In seconds: what all but the guilty trace ranks waited, and how long the job took, of all of them together."""
    waits = sum(member[3] for instance in truth["instances"] for member in instance["members"] if member[0] not in guilty)
    return waits * 1e-9, truth["end_ns"] * 1e-9 * len(truth["ranks"])


def without_faults(options):
    """But with jitter and drawn lengths, which are nobody's."""
    jitter = [fault for fault in faults_of(options) if fault.startswith(("rotating_jitter", "uneven_work:factor"))]
    rest = [option for option in options if option != "--fault" and option not in faults_of(options)]
    return rest + [option for fault in jitter for option in ("--fault", fault)]


def true_costs(options, guilty, directory):
    """What the faults of a job cost, by simulating it with and without them: more waiting of the others (delay_cost_ns
    is an estimate of that), and more GPU time, in seconds."""
    both = []
    for name, chosen in (("with", options), ("without", without_faults(options))):
        run([SYNTH, "--out", directory / name, "--truth", "full", *chosen])
        both.append(waits_and_time(json.loads((directory / name / "truth.json").read_text()), guilty))
        shutil.rmtree(directory / name)
    (waits, time), (usual_waits, usual_time) = both
    return {"true_wait_s": waits - usual_waits, "true_time_s": time - usual_time,
            "true_share": max(waits - usual_waits, time - usual_time) / time}


def ranks_told_of(finding):
    """Trace ranks in the title of a finding."""
    told = re.search(r"\branks? ([\d, and]+)", finding["title"])
    return {int(rank) for rank in re.findall(r"\d+", told[1])} if told else set()


def told_by_findings(fault, report):
    """Findings other than verdicts that tell a fault."""
    long_waits = {int(rank) for finding in report["findings"] if finding["id"] == "long-waits"
                  for line in finding["evidence"] for rank in re.findall(r"waited [\d.]+ ms for rank (\d+)", line)}
    if long_waits and long_waits <= set(fault["ranks"]):
        return True
    ids = {"slow_link": "slow-link", "slow_kernel": "slow-gpu", "extra_work": "longest-stage", "uneven_work": "longest-stage"}
    return any(fault["ranks"][0] in ranks_told_of(finding)
               for finding in report["findings"] if finding["id"] == ids.get(fault["cause"]))


def misled_by_findings(truth, report):
    """Whether findings other than verdicts tell of slow GPUs or links, or uneven stages, that are sound."""
    kinds = {"slow-link": ["slow_link"], "slow-gpu": ["slow_gpu", "slow_node"], "longest-stage": ["extra_work"]}
    for finding in report["findings"]:
        ranks = {rank for fault in truth["faults"] if fault["kind"] in kinds.get(finding["id"], []) for rank in fault["ranks"]}
        if finding["id"] in kinds and not ranks_told_of(finding) & ranks:
            return True
    return False


def could_be_chance(truth, fault):
    """Whether delays that go round hit the same trace rank in as many steps with more than the rate of false alarms."""
    last = min(fault["last_step"], truth["layout"]["steps"] - 1)
    hits = len(range(fault["first_step"], last + 1, fault.get("period") or 1))
    return len(truth["ranks"]) ** (1.0 - hits) > FALSE_ALARM_RATE


def score(truth, report):
    """All but costs of one job: a class, and what is said of its faults."""
    faults = [fault for fault in truth["faults"] if fault["pattern"] != "rotating"]
    guilty = {rank for fault in faults for rank in fault["ranks"]}
    named, suspects = report["stragglers"], report["suspects"]
    told = [next((one for one in named + suspects if one["trace_ranks"] == fault["ranks"]), None) for fault in faults]
    is_named = [any(one is straggler for straggler in named) for one in told]
    result = {
        "wrong": any(not set(one["trace_ranks"]) <= guilty for one in named),
        "innocent": any(not set(one["trace_ranks"]) <= guilty for one in suspects),
        "misled": misled_by_findings(truth, report),
        "faults": len(faults),
        "told": sum(one is not None for one in told),
        "cause": sum(one is not None and one["cause"] == fault["cause"] for one, fault in zip(told, faults)),
        "pattern": sum(one is not None and one["pattern"] == fault["pattern"] for one, fault in zip(told, faults)),
        "named": [[one["trace_ranks"], one["cause"], one["pattern"], one["p_value"]] for one in named],
        "suspects": [[one["trace_ranks"], one["cause"], one["pattern"], one["doubt"], one["p_value"]] for one in suspects],
        "stated_cost_s": sum(one["delay_cost_ns"] for one in named + suspects) * 1e-9,
        "shares": [one["cost_share"] for one in named],
    }
    overlapping = [one for one in named if set(one["trace_ranks"]) & guilty]
    first = (named + suspects)[0]["trace_ranks"] if named or suspects else None
    guilty_first = first is not None and set(first) <= guilty
    if not faults:
        result["class"] = "clean"
    elif all(is_named) and guilty_first:
        result["class"] = "right"
    elif None not in told and guilty_first:
        unnamed = [fault for fault, is_one in zip(faults, is_named) if not is_one]
        result["class"] = "few" if all(could_be_chance(truth, fault) for fault in unnamed) else "suspect"
    elif any(one is None and told_by_findings(fault, report) for one, fault in zip(told, faults)):
        result["class"] = "finding"
    elif overlapping:
        result["class"] = "part"
    else:
        result["class"] = "silent"
    return result


def run_job(kind, seed, capture, costs):
    options = job_options(kind, seed, capture)
    with tempfile.TemporaryDirectory(prefix="nsys-explain-scan-") as scratch:
        directory = pathlib.Path(scratch)
        run([SYNTH, "--out", directory / "job", "--truth", "summary", *options])
        run([TOOL, directory / "job", "--out", directory / "out", "--quiet"])
        truth = json.loads((directory / "job" / "truth.json").read_text())
        result = score(truth, json.loads((directory / "out" / "report.json").read_text()))
        shutil.rmtree(directory / "job")
        if result["faults"] and (costs or result["class"] == "silent"):
            guilty = {rank for fault in truth["faults"] for rank in fault["ranks"]}
            result.update(true_costs(options, guilty, directory))
            if result["class"] == "silent" and result["true_share"] < TELLING_COST:
                result["class"] = "costless"
    return {"kind": kind, "seed": seed, **result, "options": options}


def guarded(kind, seed, capture, costs):
    """A job that fails is a result, too: the rest of a long scan goes on."""
    try:
        return run_job(kind, seed, capture, costs)
    except (subprocess.SubprocessError, OSError, KeyError, ValueError) as problem:
        detail = getattr(problem, "stderr", None) or b""
        return {"kind": kind, "seed": seed, "class": "failed", "problem": f"{problem} {detail.decode(errors='replace')}",
                "options": job_options(kind, seed, capture)}


CLASSES = ["right", "few", "suspect", "finding", "silent", "costless", "part"]


COLUMNS = ["kind", "jobs", *CLASSES, "wrong", "innocent", "misled", "cause", "pattern", "failed"]


def table_rows(results):
    """The cells of the table by kind, with a last row of all."""
    by_kind = collections.defaultdict(list)
    for result in results:
        by_kind[result["kind"]].append(result)
    rows = [(kind, by_kind[kind]) for kind in KINDS if by_kind[kind]]
    cells_of_rows = []
    for kind, jobs in [*rows, ("all", results)]:
        count = lambda name: sum(bool(job.get(name)) for job in jobs)
        of_told = lambda name: f"{sum(job.get(name, 0) for job in jobs)}/{sum(job.get('told', 0) for job in jobs)}"
        cells = [kind, len(jobs), *(sum(job["class"] == c for job in jobs) for c in CLASSES), count("wrong"),
                 count("innocent"), count("misled"), of_told("cause"), of_told("pattern"), sum(job["class"] == "failed" for job in jobs)]
        cells_of_rows.append([str(cell) for cell in cells])
    return cells_of_rows


def print_table(results):
    for cells in [COLUMNS, *table_rows(results)]:
        print(" ".join(f"{cell:>9}" for cell in cells))


def markdown_table(results):
    """Columns in which every row is 0 are left out."""
    rows = table_rows(results)
    kept = [c for c, name in enumerate(COLUMNS) if name in ("kind", "jobs", "right", "wrong") or any(row[c] not in ("0", "0/0") for row in rows)]
    return [[COLUMNS[c] for c in kept], *([row[c] for c in kept] for row in rows)]


def is_miss(result):
    return (result["class"] in ("silent", "suspect", "finding", "part", "failed") or result.get("wrong") or result.get("innocent")
            or result.get("misled")
            or result.get("cause", 0) < result.get("told", 0) or result.get("pattern", 0) < result.get("told", 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1000:20", help="first seed and how many of each kind")
    parser.add_argument("--kind", action="append", choices=KINDS, help="may be repeated; all where left out")
    parser.add_argument("--rough", action="store_true", help="the same jobs, captured worse")
    parser.add_argument("--cuda-alone", action="store_true", help="the same jobs, captured without NVTX: by -t cuda alone")
    parser.add_argument("--workers", type=int, default=1, help="jobs at a time")
    parser.add_argument("--log", type=pathlib.Path, help="one line of JSON per job")
    parser.add_argument("--costs", action="store_true", help="simulate every job without its faults, too")
    parser.add_argument("--markdown", type=pathlib.Path, help="page whose table of verdicts is replaced (docs/accuracy.md)")
    parser.add_argument("--list", action="store_true", help="only say what nsys-explain-synth would be told")
    arguments = parser.parse_args()
    capture = [how for how in CAPTURES if getattr(arguments, how)]
    first, count = (int(part) for part in arguments.seeds.split(":"))
    jobs = [(kind, seed) for seed in range(first, first + count) for kind in arguments.kind or KINDS]
    if arguments.list:
        for kind, seed in jobs:
            print(kind, seed, " ".join(job_options(kind, seed, capture)))
        return
    results = []
    log = arguments.log.open("w") if arguments.log else None
    with concurrent.futures.ThreadPoolExecutor(arguments.workers) as pool:
        for result in pool.map(lambda job: guarded(*job, capture, arguments.costs), jobs):
            results.append(result)
            if log:
                print(json.dumps(result), file=log, flush=True)
            if is_miss(result):
                options = " ".join(result.pop("options"))
                print(json.dumps(result), "\n   ", options, flush=True)
    print_table(results)
    if arguments.markdown:
        options = " ".join(["--seeds", arguments.seeds, *(CAPTURES[how] for how in capture)])
        replace_table(arguments.markdown, "stragglers.py", options, markdown_table(results))
    sys.exit(any(result["class"] == "failed" for result in results))


if __name__ == "__main__":
    main()
