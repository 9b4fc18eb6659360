"""report.html in a real browser: makes the reports, then hands them to report.mjs. Skipped, loudly, without Chromium, Node.js
or the packages of package-lock.json."""

import json
import os
import pathlib
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
        late = explain([job], root / "late", "--ncu", ncu_csv(root / "ncu.csv", job))
        large = explain([large_job(root / "large-job")], root / "large")
        one = explain([sorted(job.glob("*.sqlite"))[0]], root / "one")
        hostile = explain([hostile_traces(root / "hostile", job)], root / "hostile-report", "--csv")
        hosts = explain([without_gpu_work(root / "hosts", job)], root / "hosts-report", code=3)
        pages = {"hosts": str(hosts), "late": str(late), "one": str(one), "hostile": str(hostile), "large": str(large), "largeLateRank": 37, "chromium": CHROMIUM, "ranks": 8,
                 "lateRank": 5, "lateStage": 1, "steps": 8}
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
