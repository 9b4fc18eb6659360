#!/usr/bin/env python3
"""Inputs for fuzz_meaning: each recording, and each trace of PyTorch's profiler, cut to a few steps.

make_meaning_seeds.py DIRECTORY [--synth PROGRAM] [TRACE.json.gz...]: a directory of DIRECTORY is the exports or traces of one job.
"""

import argparse
import contextlib
import gzip
import json
import lzma
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "end_to_end"))

from kineto_traces import write_traces  # noqa: E402  (from another folder of the tests)

STEPS = 5, 10  # the first that is kept, and the first that is not
REDUCTIONS = 40, 60  # likewise of all-reduces, where no range tells a step
KEPT_OF_COMPUTE = 12  # one in so many kernels, with its calls
EVENTS_OF_TRACE = 1000
BY_NAME = "(SELECT coalesce(text, (SELECT value FROM StringIds WHERE id = textId)))"


def window(export):
    """From the first kept step or reduction to the first that is not, on the clock of the export."""
    def start_of(name, index):
        found = export.execute(f"SELECT start FROM NVTX_EVENTS WHERE {BY_NAME} = ? ORDER BY start LIMIT 1 OFFSET ?", (name, index)).fetchone()
        return found and found[0]
    if start_of(f"step {STEPS[0]}", 0) is not None:
        return tuple(start_of(f"step {step}", 0) for step in STEPS)
    return tuple(start_of("ncclAllReduce", index) for index in REDUCTIONS)


def cut_export(path, nullable):
    """Keeps a few steps, all of NCCL, and some of the compute kernels. `nullable`: NULL may stand in every column."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as export:
        first, end = window(export)
        tables = [name for (name,) in export.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        is_nccl = "demangledName IN (SELECT id FROM StringIds WHERE value LIKE 'nccl%')"
        export.execute(f"CREATE TEMP TABLE gone AS SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL "
                       f"WHERE NOT {is_nccl} AND correlationId % {KEPT_OF_COMPUTE}")
        for table in tables:
            columns = {row[1] for row in export.execute(f"PRAGMA table_info({table})")}
            if "start" in columns and table != "NVTX_EVENTS":
                export.execute(f"DELETE FROM {table} WHERE start NOT BETWEEN ? AND ?", (first, end))
            if table.startswith("CUPTI_ACTIVITY_KIND_") and "correlationId" in columns:
                export.execute(f"DELETE FROM {table} WHERE correlationId IN gone")
        # Communicators are told about before the steps.
        export.execute(f"DELETE FROM NVTX_EVENTS WHERE start NOT BETWEEN ? AND ? AND eventType = 59 AND {BY_NAME} NOT LIKE 'ncclComm%'",
                       (first, end - 1))
        export.execute("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid % 4 AND correlationId NOT IN (SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL)")
        for table in ("PROCESSES", "ThreadNames", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"):
            export.execute(f"DELETE FROM {table} WHERE rowid % 8")
        export.execute("DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET WHERE rowid % 8")
        if nullable:
            export.execute("PRAGMA writable_schema = ON")
            export.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as export:
        export.execute("VACUUM")


def cut_trace(packed, path):
    """Events of the middle of a trace, for all threads and streams; what has no time stays."""
    trace = json.loads(gzip.decompress(packed.read_bytes()))
    timed = sorted((event for event in trace["traceEvents"] if "ts" in event), key=lambda event: float(event["ts"]))
    wanted = [event for event in timed if event.get("cat") not in ("python_function", "cpu_instant_event")]
    begin = max(0, (len(wanted) - EVENTS_OF_TRACE) // 2)
    untimed = [event for event in trace["traceEvents"] if "ts" not in event]
    trace["traceEvents"] = untimed + wanted[begin:begin + EVENTS_OF_TRACE]
    path.write_text(json.dumps(trace))


def write_as_traces(exports, directory, by_operators):
    """The same job as PyTorch's profiler writes it; without what write_traces does not know."""
    with tempfile.TemporaryDirectory() as scratch:
        known = [pathlib.Path(shutil.copy(export, scratch)) for export in exports]
        for path in known:
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as export:
                export.execute("DELETE FROM NVTX_EVENTS WHERE length(binaryData) < 48")
                export.execute("DELETE FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION WHERE eventSyncId NOT IN "
                               "(SELECT eventSyncId FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT)")
        write_traces(known, directory, by_operators)
    for packed in sorted(directory.glob("*.gz")):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()


# What the recordings lack: samples of the GPU and of the host, several processes in one export, ranks of other names, stages, older tables.
SIMULATED = {
    "graphs": ("--nodes", "1", "--gpus-per-node", "2", "--graph", "node", "--capture", "cpu_sampling_us=3000"),
    "metrics": ("--nodes", "1", "--gpus-per-node", "2", "--export", "payload=json,nccl_trace,rank_hint=slurm", "--metrics", "nvlink,nic,switch,period_us=2000"),
    "nodes": ("--nodes", "2", "--gpus-per-node", "2", "--tp", "2", "--export", "files=per_node"),
    "stages": ("--nodes", "1", "--gpus-per-node", "4", "--pp", "2", "--export", "payload=none,operator_ranges,rank_hint=nothing"),
    "experts": ("--nodes", "1", "--gpus-per-node", "2", "--moe", "--restart-at", "3", "--fault", "slow_gpu:rank=1,factor=1.5", "--export", "payload=dynamic,nsys=2026.4"),
    "old": ("--nodes", "1", "--gpus-per-node", "2", "--graph", "whole", "--export", "nsys=2022.4,payload=json,rank_hint=mpi_ranks"),
}


def simulate(program, directory, options):
    subprocess.run([program, "--out", directory, "--steps", "5", "--layers", "1",
                    "--truth", "none", *options], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("traces", nargs="*", type=pathlib.Path)
    parser.add_argument("--synth", help="nsys-explain-synth: jobs with what the recordings lack")
    options = parser.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    for number, recording in enumerate(sorted((TESTS / "recordings").iterdir())):
        job = options.directory / recording.name
        job.mkdir()
        for packed in sorted(recording.glob("*.sqlite.xz")):
            export = job / packed.stem
            export.write_bytes(lzma.decompress(packed.read_bytes()))
            cut_export(export, number % 2 == 0)
    for name, by_operators in ("w2_clean", False), ("ckpt_none", True):
        exports = sorted((options.directory / name).glob("*.sqlite"))
        write_as_traces(exports, options.directory / f"kineto_{name}", by_operators)
    for trace in options.traces:
        job = options.directory / ("trace_" + trace.name.split(".json")[0])
        job.mkdir()
        cut_trace(trace, job / trace.name.removesuffix(".gz"))
    if options.synth:
        for name, more in SIMULATED.items():
            simulate(options.synth, options.directory / f"made_{name}", more)


if __name__ == "__main__":
    main()
