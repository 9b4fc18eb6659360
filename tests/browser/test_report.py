"""report.html in a real browser: makes the reports, then hands them to report.mjs. Skipped, loudly, without Chromium, Node.js
or the packages of package-lock.json."""

import collections
import csv
import itertools
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOOL, SYNTH = os.environ["NSYS_EXPLAIN_TOOL"], os.environ["NSYS_EXPLAIN_SYNTH"]
MODULES = pathlib.Path(os.environ["NSYS_EXPLAIN_BROWSER_MODULES"])
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
HOSTILE = ["<script>window.harmed = 1</script>", "</script><script>window.harmed = 2</script>", "\" onload=\"window.harmed = 3",
           "'; DROP TABLE x; --", "=HYPERLINK(\"http://harm\")", "<img src=x onerror=window.harmed=4>", "k" * 5000]


def skip(reason):
    print(f"SKIPPED: {reason}: nothing about report.html was tested in a browser")
    sys.exit(77)


def explain(traces, out, *options, code=0):
    done = subprocess.run([TOOL, *map(str, traces), "--out", str(out), "--quiet", *options], check=False)
    assert done.returncode == code, done
    page = out / "report.html"
    if not page.exists():
        skip("the tool was built without npm, so there is no report.html")
    return page


def hostile_traces(directory, source):
    """Two of the traces with names that would harm a careless page: kernels, ranges, host."""
    directory.mkdir()
    for trace in sorted(source.glob("*.sqlite"))[:2]:
        copy = directory / trace.name
        shutil.copy(trace, copy)
        database = sqlite3.connect(copy)
        ids = [row[0] for row in database.execute("SELECT DISTINCT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL")]
        for number, string_id in enumerate(ids):
            name = HOSTILE[number % len(HOSTILE)]
            database.execute("UPDATE StringIds SET value = ? || value WHERE id = ?", (name, string_id))
        database.execute("UPDATE StringIds SET value = CAST(x'ff' || CAST(value AS BLOB) AS TEXT) WHERE id = ?", (ids[0],))
        database.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = 'Hostname'", (HOSTILE[0],))
        database.commit()
        database.close()
    return directory


def large_job(directory):
    """1,024 trace ranks and a short run: views are as large as they get with that many ranks."""
    subprocess.run([SYNTH, "--out", directory, "--nodes", "128", "--gpus-per-node", "8", "--tp", "8", "--export", "files=per_node",
                    "--steps", "4", "--layers", "1", "--seed", "3", "--truth", "none", "--fault", "slow_gpu:rank=37,factor=1.3"], check=True, stdout=subprocess.DEVNULL)
    return directory


def other_driver(job, rank):
    """A trace rank that differs from the others in what it runs on."""
    database = sqlite3.connect(sorted(job.glob("*.sqlite"))[rank])
    changed = database.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = replace(value, '580.', '570.') WHERE name = 'NvDriverVersion'")
    assert changed.rowcount == 1
    database.commit()
    database.close()


def without_gpu_work(directory, source):
    """Two of the traces as they are where CUDA calls were recorded, and nothing on the GPU."""
    directory.mkdir()
    for trace in sorted(source.glob("*.sqlite"))[:2]:
        shutil.copy(trace, directory)
        database = sqlite3.connect(directory / trace.name)
        for table in ("KERNEL", "MEMCPY", "MEMSET"):
            database.execute(f"DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_{table}")
        database.commit()
        database.close()
    return directory


def ncu_csv(path, job):
    """What Nsight Compute would say of two of the job's kernels: one bound by memory, one by arithmetic."""
    with path.open("w", encoding="utf-8") as file:
        file.write('"ID","Kernel Name","dram__bytes.sum","smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"\n')
        file.write('"","","byte","inst"\n')
        database = sqlite3.connect(sorted(job.glob("*.sqlite"))[0])
        names = [row[0] for row in database.execute(
            "SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName "
            "WHERE value LIKE 'nvjet%' ORDER BY value LIMIT 2")]
        database.close()
        for number, (name, size, operations) in enumerate(zip(names, (400_000_000, 40_000_000), (1_000_000_000, 50_000_000_000))):
            file.write(f'"{number}","{name}","{size}","{operations}"\n')
    return path


PLANTED = [{"tensor": 20, "issue": 10, "read": 50, "write": 30}, {"tensor": 72, "issue": 31, "read": 12, "write": 6}]
METRICS = {"tensor": "Tensor Active [Throughput %]", "issue": "SM Issue [Throughput %]", "read": "DRAM Read Bandwidth [Throughput %]",
           "write": "DRAM Write Bandwidth [Throughput %]"}


def plant_counters(trace):
    """GPU metrics beside those of NVLink: in samples that one of two kernels fills by more than half, as PLANTED; else 1%. Returns their base names."""
    database = sqlite3.connect(trace)
    type_id, = database.execute("SELECT DISTINCT typeId FROM GPU_METRICS").fetchone()
    names = [row[0] for row in database.execute(
        "SELECT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName WHERE value LIKE 'nvjet%' GROUP BY value "
        "ORDER BY sum(end - start) DESC LIMIT 2")]
    kernels = [(start, end, names.index(name)) for name, start, end in database.execute(
        "SELECT value, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName ORDER BY start") if name in names]
    times = [row[0] for row in database.execute("SELECT DISTINCT timestamp FROM GPU_METRICS ORDER BY 1")]
    for number, name in enumerate(METRICS.values()):
        database.execute("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (?, 1, 'GPU Metrics', ?, ?)", (type_id, 40 + number, name))
    at = 0
    for before, time in zip(times, times[1:]):
        while at < len(kernels) and kernels[at][1] <= before:
            at += 1
        held = [0, 0]
        for start, end, kernel in itertools.takewhile(lambda one: one[0] < time, itertools.islice(kernels, at, None)):
            held[kernel] += min(end, time) - max(start, before)
        filling = next((kernel for kernel in (0, 1) if 2 * held[kernel] > time - before), None)
        for number, metric in enumerate(METRICS):
            database.execute("INSERT INTO GPU_METRICS VALUES (?, ?, ?, ?, ?)",
                             (time, time, type_id, 40 + number, 1 if filling is None else PLANTED[filling][metric]))
    database.commit()
    database.close()
    return names


def table(report, name):
    """A table of the store, as `show` prints it."""
    printed = subprocess.run([TOOL, "show", report, name, "--csv", "--limit", "0"], check=True, capture_output=True, text=True).stdout
    return [{key: float(cell) if re.fullmatch(r"-?[\d.]+", cell) else cell for key, cell in row.items()} for row in csv.DictReader(printed.splitlines())]


def figures(report):
    """What the dashboard of a report must say, from its tables."""
    summary = json.loads((report / "report.json").read_text(encoding="utf-8"))
    whole, idle = (sum(rank[field] for rank in summary["ranks"]) for field in ("window_ns", "idle_ns"))
    budget = table(report, "step_budget")
    parts = {field: sum(row[field] for row in budget) for field in budget[0] if field.endswith("_ns") and field != "window_ns"}
    limit = max(parts, key=parts.get)
    times = collections.Counter()
    for row in table(report, "kernels"):
        times[row["name"]] += row["total_ns"]
    kernels, reached = [], 0
    for name, time in times.most_common():
        reached += time
        kernels.append([name, reached / sum(times.values())])
    steps = summary["step_time"]["steps"] * len(summary["ranks"])
    return {"gpuStep": (whole - idle) / steps, "idleStep": idle / steps, "times": {name: time / steps for name, time in times.items()}, "gpu": 100 * (whole - idle) / whole, "idle": 100 * idle / whole, "limit": limit, "limitShare": 100 * parts[limit] / sum(row["window_ns"] for row in budget),
            "frameworks": [one["value"] for fact in summary["run_facts"] if fact["fact"] == "framework" for one in fact["values"]], "kernels": kernels}


def operations(trace):
    """Kernels, copies and sets of a trace: start, duration, and whether NCCL's."""
    database = sqlite3.connect(trace)
    rows = database.execute(
        "SELECT start, end - start, value LIKE 'nccl%' FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName UNION ALL "
        "SELECT start, end - start, 0 FROM CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT start, end - start, 0 FROM CUPTI_ACTIVITY_KIND_MEMSET").fetchall()
    database.close()
    return rows


def main():
    if CHROMIUM is None:
        skip("there is no Chromium")
    if shutil.which("node") is None or not (MODULES / "node_modules" / "playwright-core").exists():
        skip("Node.js or playwright-core is missing (npm ci was not run)")
    root = pathlib.Path(tempfile.mkdtemp(prefix="nsys-explain-browser-"))
    try:
        job = root / "job"
        subprocess.run([SYNTH, "--out", job, "--nodes", "2", "--gpus-per-node", "4", "--tp", "2", "--pp", "2", "--seed", "2",
                        "--steps", "8", "--metrics", "nvlink", "--fault", "slow_gpu:rank=5,factor=1.3"], check=True, stdout=subprocess.DEVNULL)
        other_driver(job, 3)
        sampled = plant_counters(sorted(job.glob("*.sqlite"))[5])
        late = explain([job], root / "late", "--ncu", ncu_csv(root / "ncu.csv", job))
        large = explain([large_job(root / "large-job")], root / "large")
        one = explain([sorted(job.glob("*.sqlite"))[0]], root / "one")
        hostile = explain([hostile_traces(root / "hostile", job)], root / "hostile-report", "--csv")
        hosts = explain([without_gpu_work(root / "hosts", job)], root / "hosts-report", code=3)
        (root / "operations.json").write_text(json.dumps(operations(sorted(job.glob("*.sqlite"))[0])), encoding="utf-8")  # too long for an argument
        pages = {"hosts": str(hosts), "late": str(late), "one": str(one), "hostile": str(hostile), "large": str(large), "largeLateRank": 37, "chromium": CHROMIUM, "ranks": 8,
                 "lateRank": 5, "lateStage": 1, "steps": 8, "figures": figures(root / "late"), "sampled": sampled, "planted": PLANTED,
                 "operations": str(root / "operations.json")}
        environment = {**os.environ, "NODE_PATH": str(MODULES / "node_modules")}
        done = subprocess.run(["node", str(HERE / "report.mjs"), str(MODULES), json.dumps(pages)], env=environment, timeout=280)
        # A spreadsheet must not run what a kernel is called.
        for table in (root / "hostile-report" / "tables").glob("*.csv"):
            for line in table.read_text(encoding="utf-8").splitlines():
                assert not any(cell.lstrip('"').startswith("=HYPER") for cell in line.split(",")), f"{table.name}: {line[:200]}"
        json.loads((root / "hostile-report" / "report.json").read_text(encoding="utf-8"))
        sys.exit(done.returncode)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
