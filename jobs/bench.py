"""The measurements of bench.sh (usage there)."""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

# What an analysis needs of an export; the same columns as tests/benchmarks/read_methods.cpp.
NEEDED = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "start end deviceId contextId streamId correlationId globalPid demangledName shortName"
    " gridX gridY gridZ blockX blockY blockZ registersPerThread graphNodeId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end globalTid correlationId nameId returnValue",
    "NVTX_EVENTS": "start end eventType globalTid textId domainId text",
}

# The reading any Python script would do, as a process of its own: rows by a cursor into numpy arrays.
PYTHON_READER = """
import json, sqlite3, sys, time
import numpy
start = time.perf_counter()
database, rows = sqlite3.connect(sys.argv[1]), 0
for table, columns in json.loads(sys.argv[2]).items():
    names = columns.split()
    cursor = database.execute("SELECT %s FROM %s" % (", ".join('"%s"' % n for n in names), table))
    while batch := cursor.fetchmany(100000):
        rows += len(batch)
        arrays = [numpy.array(c, dtype=object if n == "text" else float) for n, c in zip(names, zip(*batch))]
print(json.dumps({"seconds": time.perf_counter() - start, "rows": rows}))
"""


# A tool rank that leaves behind how much memory it needed: the directory for that, then its command.
RANK = """
import os, resource, subprocess, sys
done = subprocess.run(sys.argv[2:])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
open(os.path.join(sys.argv[1], os.environ.get("OMPI_COMM_WORLD_RANK", "0")), "w").write(str(peak))
sys.exit(done.returncode)
"""


def options():
    parser = argparse.ArgumentParser(prog="bench.sh")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each measurement; the median counts")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench.json"))
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE.json",
                        help="ratios of an earlier run: exit with 1 where one is worse by more than a tenth")
    parser.add_argument("--only", choices=("reading", "whole", "traces", "cross", "records"), action="append")
    return parser.parse_args()


def run(command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"bench.sh: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def median_of(measure, repeat):
    """The run with the median time, of `repeat` runs that each return a dict with `seconds`."""
    runs = sorted((measure() for _ in range(repeat)), key=lambda r: r["seconds"])
    return runs[len(runs) // 2]


class Bench:
    def __init__(self, arguments, scratch):
        self.arguments, self.scratch = arguments, scratch
        self.tool = arguments.build / "nsys-explain-mpi"
        self.synth = arguments.build / "nsys-explain-synth"
        self.reader = arguments.build / "tests" / "read_methods"
        self.full = arguments.size == "full"
        self.results = {"size": arguments.size, "cores": len(os.sched_getaffinity(0))}

    def make(self, name, *plan):
        directory = self.scratch / name
        if not directory.exists():
            print(f"making {name} ...", flush=True)
            start = time.perf_counter()
            run([self.synth, "--out", directory, "--truth", "none", *plan])
            print(f"  {size_of(directory) / 1e6:,.0f} MB in {time.perf_counter() - start:.0f} s")
        return directory

    def big_export(self):
        # One of two ranks; per repeat 108,600 kernels, 121,800 API calls, 54,000 operators.
        directory = self.make("big", "--nodes", 1, "--gpus-per-node", 2, "--steps", 500, "--capture", "missing_rank=1",
                              "--export", f"operator_ranges,repeat={74 if self.full else 8}")
        return next(directory.glob("*.sqlite"))

    def reading(self):
        path = self.big_export()
        rows = self.results["reading"] = []

        def method(name, threads=1):
            return json.loads(run([self.reader, path, name, threads]))

        def add(label, measure, repeat):
            figures = median_of(measure, repeat)
            rows.append({"label": label, **figures})
            rate = f"{figures['rows'] / figures['seconds'] / 1e6:8.2f}" if figures.get("rows") else " " * 8
            peak = f"{figures['peak_memory_bytes'] / 1e6:8.0f}" if "peak_memory_bytes" in figures else " " * 8
            ratio = f"{rows[0]['seconds'] / figures['seconds']:8.2f}"
            print(f"  {label:32} {figures['seconds']:8.2f} {rate} {peak} {ratio}", flush=True)

        print(f"reading the needed columns of {path.stat().st_size / 1e6:,.0f} MB, warm")
        print(f"  {'':32} {'seconds':>8} {'Mrow/s':>8} {'peak MB':>8} {'x step':>8}")
        method("pread")  # into the page cache
        repeat = self.arguments.repeat
        add("sqlite3_step", lambda: method("step"), repeat)
        add("our reader, SQLite", lambda: method("sqlite"), repeat)
        add("our reader, pages, 1 thread", lambda: method("pages"), repeat)
        add("our reader, pages, 2 threads", lambda: method("pages", 2), repeat)
        add("limit: pread, whole file", lambda: method("pread"), repeat)
        add("limit: memcpy, as many bytes", lambda: method("memcpy"), repeat)
        if len({r["checksum"] for r in rows if r.get("rows")}) != 1:
            sys.exit("bench.sh: the readers do not agree on what they read")
        if shutil.which("sqlite3"):
            selects = ";".join(f"SELECT {columns_of(table)} FROM {table}" for table in NEEDED)
            add("sqlite3 shell to /dev/null", lambda: timed(["sh", "-c", f"sqlite3 '{path}' '{selects}' > /dev/null"]), 1)
        if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode == 0:
            command = [sys.executable, "-c", PYTHON_READER, path, json.dumps(NEEDED)]
            add("Python sqlite3 to numpy", lambda: json.loads(run(command)), 1)

    def whole(self):
        path = self.big_export()
        step = median_of(lambda: json.loads(run([self.reader, path, "step"])), self.arguments.repeat)["seconds"]
        print(f"a whole run over the same file (sqlite3_step only reads it in {step:.2f} s)")
        self.results["whole"] = []
        for threads in (1, 2):
            figures = median_of(lambda: self.explain(path, "--threads", threads), self.arguments.repeat)
            self.results["whole"].append({"threads": threads, "step_seconds": step, **figures})
            print(f"  {threads} thread(s): {figures['seconds']:.2f} s, {figures['seconds'] / step:.2f} x sqlite3_step, "
                  f"peak {figures['peak_memory_bytes'] / 1e6:,.0f} MB")
            for phase in figures["phases"]:
                if phase["seconds"] > 0.02:
                    print(f"    {phase['name']:24} {phase['seconds']:8.2f} s {phase['peak_memory_bytes'] / 1e6:8,.0f} MB")

    def traces(self):
        directory = self.make("traces", "--nodes", 8, "--gpus-per-node", 8, "--steps", 900 if self.full else 100,
                              "--export", "operator_ranges")
        self.over_ranks("traces", f"64 traces, {size_of(directory) / 1e6:,.0f} MB", directory, "--threads", 1)
        self.both_at_once(sorted(directory.glob("*.sqlite")))

    def both_at_once(self, traces):
        """What two cores are worth here: runs that know nothing of each other, at once, each over half of the traces."""
        halves = traces[::2], traces[1::2]

        def at_once():
            start = time.perf_counter()
            runs = [subprocess.Popen([self.tool, *half, "--threads", "1", "--out", self.scratch / f"half{i}", "--quiet"])
                    for i, half in enumerate(halves)]
            if any([process.wait() for process in runs]):
                sys.exit("bench.sh: a run over half of the traces failed")
            seconds = time.perf_counter() - start
            for i in range(len(halves)):
                shutil.rmtree(self.scratch / f"half{i}")
            return {"seconds": seconds}

        alone = median_of(lambda: self.explain(*halves[0], "--threads", 1), self.arguments.repeat)["seconds"]
        both = median_of(at_once, self.arguments.repeat)["seconds"]
        self.results["two_runs_at_once"] = {"alone_seconds": alone, "both_seconds": both}
        print(f"  two runs over half of them each: {alone:.2f} s alone, {both:.2f} s both at once "
              f"(so {2 * alone / both:.2f} x is what two cores give)")

    def cross(self):
        # 22 collectives a step on each rank, most of them of the eight of a node: 2,541 in all where full.
        nodes, few_nodes, steps = (128, 8, 115) if self.full else (16, 4, 30)
        plan = ("--gpus-per-node", 8, "--tp", 8, "--layers", 4, "--steps", steps, "--export", "files=per_node")
        directory = self.make("cross", "--nodes", nodes, *plan)
        few = self.make("few", "--nodes", few_nodes, *plan)
        self.over_ranks("cross", f"{8 * nodes} ranks, {size_of(directory) / 1e6:,.0f} MB", directory, "--threads", 1)
        self.cross_rate(directory, f"{8 * nodes} ranks", few, f"{8 * few_nodes} ranks")

    def cross_rate(self, many, name_of_many, few, name_of_few):
        """Arrivals a second of what is done across ranks. Machines differ, and one machine from hour to hour: so beside
        how many rows sqlite3_step reads in a second, right before each run."""
        if not shutil.which("mpirun"):
            return
        path = self.big_export()
        print("matching, clocks and waits over 2 tool ranks of one thread, each run beside sqlite3_step on one core")
        rows = self.results["cross_rate"] = []
        for _ in range(self.arguments.repeat):
            step = json.loads(run([self.reader, path, "step"]))
            runs = {name: self.explain(job, "--threads", 1, ranks=2)
                    for name, job in ((name_of_many, many), (name_of_few, few))}
            arrivals_a_second = {name: figures["arrivals"] / cross_seconds(figures) for name, figures in runs.items()}
            rows.append({"step_rows_a_second": step["rows"] / step["seconds"], "arrivals_a_second": arrivals_a_second,
                         "peak_memory_bytes_of_ranks": runs[name_of_many]["peak_memory_bytes_of_ranks"]})
        rows.sort(key=lambda row: row["arrivals_a_second"][name_of_many] / row["step_rows_a_second"])
        for row in rows:
            of_many, of_few = row["arrivals_a_second"].values()
            first, *others = row["peak_memory_bytes_of_ranks"]
            print(f"  {name_of_many}: {of_many / 1e6:.2f} million arrivals/s, {of_many / row['step_rows_a_second']:.2f} x "
                  f"the rows of sqlite3_step ({row['step_rows_a_second'] / 1e6:.2f} million/s); time per arrival "
                  f"{of_few / of_many:.2f} x that of {name_of_few}; rank 0 holds {first / max(others):.2f} x another")

    def records(self):
        """A job of very many trace ranks from its records, beside one of a tenth: what crosses ranks, and writing."""
        if not shutil.which("mpirun"):
            return
        rows = self.results["records"] = []
        print("20 steps of 22 collectives from records alone (merge), over 2 tool ranks of one thread")
        for nodes in (125, 1250) if self.full else (16, 128):
            job = self.make(f"records{nodes}", "--nodes", nodes, "--gpus-per-node", 8, "--tp", 8, "--layers", 4, "--steps", 20,
                            "--records")
            shards = job / "shards"
            figures = median_of(lambda: self.explain("merge", shards, "--threads", 1, ranks=2), self.arguments.repeat)
            rows.append({"trace_ranks": 8 * nodes, "record_bytes": size_of(shards), **figures})
            each = figures["seconds"] / figures["arrivals"]
            first = rows[0]["seconds"] / rows[0]["arrivals"]
            print(f"  {8 * nodes:6,} trace ranks: {figures['seconds']:.1f} s ({each / first:.2f} x the time per arrival), memory "
                  f"{sum(figures['peak_memory_bytes_of_ranks']) / 1e6:,.0f} MB in all, "
                  f"{size_of(shards) / (160 * nodes):,.0f} bytes of records per trace rank and step, "
                  f"page {figures['page_bytes'] / 1e6:.1f} MB")

    def over_ranks(self, name, label, *inputs):
        if not shutil.which("mpirun"):
            return print(f"{label}: left out, there is no mpirun")
        print(f"{label}, over tool ranks")
        self.results[name] = []
        for ranks in (1, 2):
            figures = median_of(lambda: self.explain(*inputs, ranks=ranks), self.arguments.repeat)
            self.results[name].append({"tool_ranks": ranks, **figures})
            first = self.results[name][0]["seconds"]
            print(f"  mpirun -n {ranks}: {figures['seconds']:.2f} s ({first / figures['seconds']:.2f} x), "
                  f"peak {figures['peak_memory_bytes'] / 1e6:,.0f} MB")

    def explain(self, *inputs, ranks=None):
        """A run of the tool as a user starts it: wall time, the phases and the memory it tells of itself."""
        out = self.scratch / "report"
        shutil.rmtree(out, ignore_errors=True)
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_hwloc_base_binding_policy="none")
        memory = self.scratch / "memory"
        shutil.rmtree(memory, ignore_errors=True)
        memory.mkdir()
        launcher = [] if ranks is None else ["mpirun", "--oversubscribe", "-n", ranks, sys.executable, "-c", RANK, memory]
        start = time.perf_counter()
        run([*launcher, self.tool, *inputs, "--out", out, "--quiet"], env=environment)
        seconds = time.perf_counter() - start
        report = json.loads((out / "report.json").read_text())
        phases = report["run"]["phases"]
        page = out / "report.html"
        return {"seconds": seconds, "page_bytes": page.stat().st_size if page.exists() else 0, "phases": phases, "peak_memory_bytes": max(p["peak_memory_bytes"] for p in phases),
                "peak_memory_bytes_of_ranks": [int(file.read_text()) for file in sorted(memory.iterdir())],
                "arrivals": sum(rank["arrivals"] for rank in report["ranks"])}


def ratios_of(results):
    """What does not depend on the machine, more is better."""
    ratios = {}
    if reading := {row["label"]: row["seconds"] for row in results.get("reading", [])}:
        for threads in ("1 thread", "2 threads"):
            ratios[f"reading pages, {threads}: times as fast as sqlite3_step"] = (
                reading["sqlite3_step"] / reading[f"our reader, pages, {threads}"])
    for row in results.get("whole", []):
        ratios[f"whole run, {row['threads']} thread(s): sqlite3_step / run"] = row["step_seconds"] / row["seconds"]
    for name in ("traces", "cross"):
        if len(rows := results.get(name, [])) == 2:
            ratios[f"{name}: two tool ranks, times as fast as one"] = rows[0]["seconds"] / rows[1]["seconds"]
    if rows := results.get("cross_rate"):
        middle = rows[len(rows) // 2]
        arrivals = next(iter(middle["arrivals_a_second"].values()))
        ratios["arrivals matched a second / rows of sqlite3_step"] = arrivals / middle["step_rows_a_second"]
    return ratios


def worse_than(earlier, ratios):
    """Prints both; how many are worse by more than a tenth."""
    worse = 0
    for name, ratio in ratios.items():
        before = earlier.get(name)
        is_worse = before is not None and ratio < 0.9 * before
        worse += is_worse
        print(f"  {name}: {ratio:.2f}" + (f", {before:.2f} before" if before else "") + (" WORSE" if is_worse else ""))
    return worse


def cross_seconds(figures):
    names = ("matching collectives", "aligning clocks", "attributing waits")
    return sum(phase["seconds"] for phase in figures["phases"] if phase["name"] in names)


def columns_of(table):
    return ", ".join(f'"{name}"' for name in NEEDED[table].split())


def size_of(directory):
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def timed(command):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": time.perf_counter() - start, "cpu_seconds": after.ru_utime - before.ru_utime}


def main():
    arguments = options()
    if shutil.which("cmake"):
        run(["cmake", "-DNSYS_EXPLAIN_TESTS=ON", arguments.build])  # read_methods is of the tests, which jobs/demo.sh leaves out
        run(["cmake", "--build", arguments.build, "--target", "nsys-explain-mpi", "nsys-explain-synth", "read_methods"])
    with tempfile.TemporaryDirectory(prefix="nsys-explain-bench-") as scratch:
        bench = Bench(arguments, pathlib.Path(scratch))
        for part in arguments.only or ("reading", "whole", "traces", "cross", "records"):
            getattr(bench, part)()
    ratios = bench.results["ratios"] = ratios_of(bench.results)
    arguments.out.write_text(json.dumps(bench.results, indent=2) + "\n")
    print(f"figures: {arguments.out}; ratios, more is better:")
    earlier = json.loads(arguments.against.read_text())["ratios"] if arguments.against else {}
    if worse_than(earlier, ratios) > 0:
        sys.exit(1)


main()
