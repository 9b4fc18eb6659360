"""NVTX tables of real exports against what `nsys stats` printed and against the definitions in plain SQL and Python.
Skipped, loudly, where ../shared/traces is absent."""

import csv
import collections
import re
import sqlite3
import statistics
import unittest

from support import SHARED_TRACES, EndToEndTest, main

PROCESS = ~0xFFFFFF


@unittest.skipUnless(SHARED_TRACES.is_dir(), "the real traces (../shared/traces) are absent")
class RealNvtx(EndToEndTest):
    def table(self, trace, name):
        out = trace.stem
        if not (self.directory / out).exists():
            self.analyse(trace, out, "--csv", "--whole-run")
        with open(self.directory / out / "tables" / f"{name}.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_nvtx_sum_is_what_nsys_stats_printed(self):
        printed = {}
        text = (SHARED_TRACES / "fuser" / "report2.nsys-stats.txt").read_text()
        section = text.split("Executing 'nvtx_sum' stats report")[1].split("Executing")[0]
        for line in section.splitlines():
            fields = line.split(None, 9)
            if len(fields) == 10 and fields[8] in ("PushPop", "StartEnd"):
                printed[fields[9]] = fields[:9]
        rows = self.table(SHARED_TRACES / "fuser" / "report2.sqlite", "nvtx_sum")
        total = sum(int(row["total_ns"]) for row in rows)
        self.assertEqual(len(rows), len(printed))
        self.assertGreater(len(rows), 70)
        for row in rows:
            share, time, count, mean, median, least, most, deviation, style = printed[f"{row['domain']}:{row['range']}"]
            self.assertEqual((row["total_ns"], row["count"], row["min_ns"], row["max_ns"], row["style"]),
                             (time, count, least, most, style))
            self.assertAlmostEqual(float(row["mean_ns"]), float(mean), delta=0.0501)
            self.assertAlmostEqual(float(row["median_ns"]), float(median), delta=0.0501)
            self.assertAlmostEqual(float(row["stddev_ns"]), float(deviation), delta=0.0501)
            self.assertAlmostEqual(100 * int(row["total_ns"]) / total, float(share), delta=0.0501)

    def test_projection_and_kernels_follow_the_definition(self):
        trace = SHARED_TRACES / "nsys-ai" / "mfu_2gpu_before.sqlite"
        db = sqlite3.connect(f"file:{trace}?mode=ro", uri=True)
        ranges = db.execute("SELECT start, end, globalTid, coalesce(text, (SELECT value FROM StringIds WHERE id = "
                            "textId)), domainId FROM NVTX_EVENTS WHERE eventType = 59").fetchall()
        calls = {(tid & PROCESS, correlation): (start, end, tid) for start, end, tid, correlation in
                 db.execute("SELECT start, end, globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME")}
        operations = collections.defaultdict(list)  # by thread: (call start, call end, start, end, kernel)
        for table, name in (("KERNEL", "demangledName"), ("MEMCPY", "NULL"), ("MEMSET", "NULL")):
            for start, end, pid, correlation, kernel in db.execute(
                    f"SELECT start, end, globalPid, correlationId, {name} FROM CUPTI_ACTIVITY_KIND_{table}"):
                if (pid, correlation) in calls:
                    call_start, call_end, tid = calls[pid, correlation]
                    operations[tid].append((call_start, call_end, start, end, kernel))
        projected, kernels = collections.defaultdict(list), collections.defaultdict(list)
        names = dict(db.execute("SELECT id, value FROM StringIds"))
        pids = sorted({tid & PROCESS for _, _, tid, _, _ in ranges})
        for start, end, tid, label, domain in ranges:
            inside = [o for o in operations[tid] if start <= o[0] and o[1] <= end]
            label = re.sub(r", (op_id|seq) = .*", "", label)
            key = (pids.index(tid & PROCESS), "NCCL" if domain else "", label)
            if inside:
                projected[key].append(max(o[3] for o in inside) - min(o[2] for o in inside))
            for _, _, a, b, kernel in inside:
                if kernel is not None:
                    kernels[*key, names[kernel]].append(b - a)
        found = {(int(r["trace_rank"]), r["domain"], r["range"]): r for r in self.table(trace, "nvtx_gpu_projection")}
        self.assertEqual(found.keys(), projected.keys())
        self.assertGreater(len(found), 80)
        for key, durations in projected.items():
            self.assertEqual((int(found[key]["count"]), int(found[key]["total_ns"])), (len(durations), sum(durations)))
            self.assertAlmostEqual(float(found[key]["median_ns"]), statistics.median(durations), places=3)
        found = {(int(r["trace_rank"]), r["domain"], r["range"], r["kernel"]): r
                 for r in self.table(trace, "nvtx_kernels")}
        self.assertEqual(found.keys(), kernels.keys())
        for key, durations in kernels.items():
            self.assertEqual((int(found[key]["count"]), int(found[key]["total_ns"]), int(found[key]["max_ns"])),
                             (len(durations), sum(durations), max(durations)))


if __name__ == "__main__":
    main()
