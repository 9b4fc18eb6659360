"""Tables of the store against sums of the exports' rows, by SQL and by hand: what `nsys stats` and `nsys recipe` print of one export
is here for every trace rank."""

import collections
import re
import sqlite3
import statistics

from stores import table
from support import EndToEndTest, main

KERNELS = """SELECT k.start, k.end, d.value, s.value, streamId, correlationId, gridX, gridY, gridZ, blockX, blockY, blockZ, globalPid, registersPerThread
             FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds d ON d.id = demangledName JOIN StringIds s ON s.id = shortName ORDER BY k.start, k.end"""
COPIES = """SELECT start, end, bytes, copyKind, srcKind, dstKind, streamId, correlationId FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start"""
SETS = "SELECT start, end, bytes, streamId, correlationId FROM CUPTI_ACTIVITY_KIND_MEMSET ORDER BY start"
CALLS = "SELECT start, end, correlationId, value, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId"
RANGES = """SELECT start, end, coalesce(text, value), globalTid, eventType FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId
            WHERE eventType = 59 AND domainId = 0 ORDER BY start"""
OPERATOR = re.compile(r", op_id = \d+$")  # PyTorch numbers its operators; ranges are summed by name
KIND = {0: "Pageable", 1: "Pinned", 2: "Device"}
Kernel = collections.namedtuple("Kernel", "start end name short stream correlation gx gy gz bx by bz pid registers")
Copy = collections.namedtuple("Copy", "start end bytes kind source destination stream correlation")
Set = collections.namedtuple("Set", "start end bytes stream correlation")
Call = collections.namedtuple("Call", "start end correlation name thread")


def merged(intervals):
    result = []
    for start, end in sorted(map(tuple, intervals)):
        if result and start <= result[-1][1]:
            result[-1][1] = max(result[-1][1], end)
        else:
            result.append([start, end])
    return result


def length(intervals):
    return sum(end - start for start, end in merged(intervals))


def shared(one, other):
    """Time that lies in both."""
    return length(one) + length(other) - length([*one, *other])


def spans(events):
    return [(event.start, event.end) for event in events]


def is_communication(kernel):
    return kernel.short.startswith("nccl")


class Export:
    """The rows of one export."""

    def __init__(self, path):
        database = sqlite3.connect(path)
        self.kernels = [Kernel(*row) for row in database.execute(KERNELS)]
        self.copies = [Copy(*row) for row in database.execute(COPIES)]
        self.sets = [Set(*row) for row in database.execute(SETS)]
        self.calls = {row[2]: Call(row[0], row[1], row[2], row[3].split("_v")[0], row[4]) for row in database.execute(CALLS)}
        self.ranges = list(database.execute(RANGES))
        self.all_reduces, = database.execute("SELECT count(*) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE coalesce(text, value) = 'ncclAllReduce'").fetchone()
        self.samples = collections.defaultdict(list)
        for time, name, value in database.execute("SELECT timestamp, metricName, value FROM GPU_METRICS JOIN TARGET_INFO_GPU_METRICS USING (typeId, metricId) "
                                                  "ORDER BY timestamp"):
            self.samples[name].append((time, value))
        database.close()
        self.activity = [*self.kernels, *self.copies, *self.sets]
        self.window = (min(one.start for one in self.activity), max(one.end for one in self.activity))

    def groups(self, key):
        groups = collections.defaultdict(list)
        for kernel in self.kernels:
            groups[key(kernel)].append(kernel)
        return groups

    def launch(self, kernel):
        return self.calls[kernel.correlation]

    def inside(self, begin, end, thread):
        """What was launched on the thread between the two."""
        return [one for one in self.activity if (call := self.calls[one.correlation]).thread == thread and begin <= call.start and call.end <= end]


class Tables(EndToEndTest):
    def setUp(self):
        super().setUp()
        traces = self.traces = self.synth("traces", "--nodes", "1", "--gpus-per-node", "2", "--tp", "2", "--layers", "3", "--steps", "4", "--seed", "11", "--metrics", "nvlink",
                            "--export", "operator_ranges", "--fault", "slow_gpu:rank=1,factor=1.2")
        for path in traces.glob("*.sqlite"):
            self.name_as_linkers_do(path)
        self.analyse(traces, "out", "--whole-run", "--gpu-trace")
        self.exports = [Export(path) for path in sorted(traces.glob("*.sqlite"))]

    @staticmethod
    def name_as_linkers_do(path):
        """Mangled names, which the simulation does not write: every name with a letter in front."""
        with sqlite3.connect(path) as database:
            first, = database.execute("SELECT max(id) + 1 FROM StringIds").fetchone()
            database.execute(f"INSERT INTO StringIds SELECT {first} + row_number() OVER (ORDER BY id), '_Z' || value FROM StringIds "
                             "WHERE id IN (SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL)")
            database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET mangledName = (SELECT other.id FROM StringIds one, StringIds other "
                             f"WHERE one.id = demangledName AND other.id >= {first} AND other.value = '_Z' || one.value)")

    def rows(self, name, rank):
        return [row for row in table(self.directory / "out" / "store.h5", name) if row["trace_rank"] == rank]

    def statistics_are(self, row, values, what):
        self.assertEqual((row["count"], row["total_ns"], row["min_ns"], row["max_ns"]), (len(values), sum(values), min(values), max(values)), what)
        self.assertAlmostEqual(row["median_ns"], statistics.median(values), delta=1e-6, msg=what)
        self.assertAlmostEqual(row["stddev_ns"], statistics.stdev(values) if len(values) > 1 else 0, delta=1e-3, msg=what)

    def test_all(self):
        for rank, export in enumerate(self.exports):
            for check in (self.kernel_tables, self.launch_tables, self.time_tables, self.memory_tables, self.communication_tables, self.link_tables,
                          self.nvtx_tables, self.trace_table):
                with self.subTest(check.__name__, rank=rank):
                    check(rank, export)
        self.imbalance()

    def kernel_tables(self, rank, export):
        for name, key, columns in (("kernels", lambda k: (k.name,), ("name",)), ("kernels_by_base_name", lambda k: (k.short,), ("name",)),
                                   ("kernels_by_mangled_name", lambda k: ("_Z" + k.name,), ("name",)),
                                   ("kernels_by_launch", lambda k: (k.name, *k[6:12]), ("name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"))):
            groups = export.groups(key)
            rows = self.rows(name, rank)
            self.assertEqual({tuple(row[column] for column in columns) for row in rows}, set(groups), name)
            for row in rows:
                self.statistics_are(row, [k.end - k.start for k in groups[tuple(row[column] for column in columns)]], name)
        by_name = export.groups(lambda k: k.name)
        counted = collections.Counter()
        for row in self.rows("kernel_histogram", rank):
            self.assertEqual(row["count"], sum(row["lower_ns"] <= k.end - k.start < row["upper_ns"] for k in by_name[row["name"]]))
            counted[row["name"]] += row["count"]
        self.assertEqual(counted, {name: len(group) for name, group in by_name.items()})
        by_short = export.groups(lambda k: k.short)
        rows = self.rows("kernel_pacing", rank)
        self.assertGreater(len(rows), 5)
        for row in rows:
            starts = [k.start for k in by_short[row["name"]]]
            self.statistics_are(row, [b - a for a, b in zip(starts, starts[1:])], "kernel_pacing")
            self.assertEqual(row["last_ns"] - row["first_ns"], starts[-1] - starts[0])
        origin = min(k.start for k in export.kernels)
        first = min(row["start_ns"] for row in self.rows("gpu_trace", rank) if row["kind"] == "kernel")
        progress = self.rows("kernel_progress", rank)
        self.assertGreater(len(progress), 100)
        for row in progress:
            self.assertAlmostEqual(row["start_ns"] - first, by_short[row["name"]][row["execution"]].start - origin, delta=2)

    def launch_tables(self, rank, export):
        latencies = [k.start - export.launch(k).start for k in export.kernels]
        rows = self.rows("launch_latency", rank)
        self.assertEqual(sum(row["count"] for row in rows), len(latencies))
        for row in rows:
            self.assertEqual(row["count"], sum(row["lower_ns"] <= one < row["upper_ns"] for one in latencies))
        (storm,) = self.rows("launch_storm", rank)
        durations = [k.end - k.start for k in export.kernels]
        window = max(k.end for k in export.kernels) - export.kernels[0].start
        self.assertEqual((storm["launches"], storm["window_ns"]), (len(durations), window))
        self.assertAlmostEqual(storm["launches_per_second"], len(durations) / (window / 1e9), places=6)
        self.assertAlmostEqual(storm["median_ns"], statistics.median(durations))
        self.assertAlmostEqual(storm["under_10us_percent"], 100 * sum(one < 10_000 for one in durations) / len(durations))
        rows = self.rows("kernel_launches", rank)
        groups = export.groups(lambda k: (export.launch(k).thread & 0xFFFFFF, export.launch(k).name, k.name))
        self.assertEqual({(row["thread"], row["call"], row["kernel"]) for row in rows}, set(groups))
        for row in rows:
            group = groups[row["thread"], row["call"], row["kernel"]]
            calls = [export.launch(k) for k in group]
            queued = [k.start - call.end for k, call in zip(group, calls) if k.start > call.end]
            self.assertEqual((row["count"], row["queue_count"], row["total_sum_ns"]), (len(group), len(queued), sum(k.end - call.start for k, call in zip(group, calls))))
            self.assertAlmostEqual(row["api_mean_ns"], statistics.mean(call.end - call.start for call in calls))
            self.assertAlmostEqual(row["queue_mean_ns"], statistics.mean(queued) if queued else 0, places=3)
        calls = [call for call in export.calls.values() if call.name == "cudaStreamSynchronize"]
        (barrier,) = [row for row in self.rows("barriers", rank) if row["kind"] == "sync_api" and row["name"] == "cudaStreamSynchronize"]
        self.assertEqual((barrier["count"], barrier["total_ns"], barrier["max_ns"]),
                         (len(calls), sum(call.end - call.start for call in calls), max(call.end - call.start for call in calls)))

    def time_tables(self, rank, export):
        begin, end = export.window
        busy = merged(spans(export.activity))
        gaps = [other[0] - one[1] for one, other in zip(busy, busy[1:])]
        found = self.rows("idle_gaps", rank)
        self.assertEqual(sorted((row["duration_ns"] for row in found), reverse=True), sorted(gaps, reverse=True)[:200])
        self.assertEqual(sum(row["elapsed_ns"] for row in self.rows("gpu_elapsed", rank)), length(busy))
        self.assertEqual(sum(row["elapsed_ns"] for row in self.rows("categories", rank)), length(busy))
        kernels = export.groups(lambda k: k.name)
        categories = {row["name"]: row for row in self.rows("category_kernels", rank) if row["name"] in kernels}
        self.assertEqual({name: (row["instances"], row["total_ns"]) for name, row in categories.items()},
                         {name: (len(group), sum(k.end - k.start for k in group)) for name, group in kernels.items()})
        self.assertEqual({row["category"] for name, row in categories.items() if name.startswith("nccl")}, {"communication"})
        by_stream = collections.defaultdict(list)
        for one in export.activity:
            by_stream[one.stream].append(one)
        rows = {row["stream"]: row for row in self.rows("streams", rank)}
        self.assertEqual(set(rows), set(by_stream))
        for stream, events in by_stream.items():
            self.assertEqual((rows[stream]["kernels"], rows[stream]["busy_ns"]), (sum(isinstance(one, Kernel) for one in events), length(spans(events))))
        edges = sorted(edge for events in by_stream.values() for start, stop in merged(spans(events)) for edge in ((start, 1), (stop, -1)))
        levels, level, before = collections.Counter(), 0, begin
        for time, change in edges:
            levels[level] += time - before
            level, before = level + change, time
        self.assertEqual({row["busy_streams"]: row["duration_ns"] for row in self.rows("stream_concurrency", rank)}, {k: v for k, v in levels.items() if v > 0})
        rows = self.rows("gpu_utilisation", rank)
        self.assertEqual(sum(row["span_ns"] for row in rows), end - begin)
        compute = [(k.start, k.end) for k in export.kernels if not is_communication(k)]
        shift = rows[0]["start_ns"] - begin
        for row in rows[:: max(1, len(rows) // 20)]:
            span = [(row["start_ns"] - shift, row["start_ns"] - shift + row["span_ns"])]
            self.assertAlmostEqual(row["compute_ns"], shared(compute, span), delta=2)
            communication = spans(k for k in export.kernels if is_communication(k))
            self.assertAlmostEqual(row["exposed_communication_ns"], shared(merged([*compute, *communication]), span) - shared(compute, span), delta=2)
            self.assertAlmostEqual(row["idle_ns"], row["span_ns"] - shared(spans(export.activity), span), delta=2)

    def memory_tables(self, rank, export):
        compute = [(k.start, k.end) for k in export.kernels if not is_communication(k)]
        groups = collections.defaultdict(list)
        for copy in export.copies:
            groups[{1: "host_to_device", 2: "device_to_host"}[copy.kind]].append(copy)
        rows = self.rows("copy_engines", rank)
        self.assertGreaterEqual(len(rows), len(groups))
        for row in rows:
            group = next((group for kind, group in groups.items() if kind in row["direction"]), export.sets)
            self.assertEqual((row["count"], row["bytes"], row["busy_ns"], row["overlapped_ns"]),
                             (len(group), sum(one.bytes for one in group), length(spans(group)), shared(merged(spans(group)), compute)), row["direction"])
            self.assertAlmostEqual(row["throughput_gbs"], row["bytes"] / row["busy_ns"])
        sums, titles = collections.Counter(), {"host_to_device": "[CUDA memcpy Host-to-Device]", "device_to_host": "[CUDA memcpy Device-to-Host]"}
        for row in self.rows("memory_transfers", rank):
            sums[row["operation"]] += row["total_ns"]
            if "Host" in row["operation"]:
                group = next(group for kind, group in groups.items() if titles[kind] == row["operation"])
                self.assertEqual((row["source"], row["destination"]), (KIND[group[0].source], KIND[group[0].destination]))
                self.assertAlmostEqual(row["bandwidth_gbs"], sum(one.bytes for one in group) / sum(one.end - one.start for one in group))
        self.assertEqual(sums.total(), sum(one.end - one.start for one in (*export.copies, *export.sets)))
        self.assertEqual({row["operation"]: (row["count"], row["total_ns"]) for row in self.rows("memory_time", rank)},
                         {titles[kind]: (len(group), sum(c.end - c.start for c in group)) for kind, group in groups.items()}
                         | ({"[CUDA memset]": (len(export.sets), sum(s.end - s.start for s in export.sets))} if export.sets else {}))
        pageable = [copy for copy in export.copies if 0 in (copy.source, copy.destination)]
        rules = {row["rule"]: row for row in self.rows("expert_rules", rank)}
        self.assertEqual((rules["cuda_memcpy_async"]["cases"], rules["cuda_memcpy_async"]["bytes"]), (len(pageable), sum(copy.bytes for copy in pageable)))
        long_gaps = [b[0] - a[1] for a, b in zip(merged(spans(export.activity)), merged(spans(export.activity))[1:]) if b[0] - a[1] > 500_000_000]
        self.assertEqual(rules["gpu_gaps"]["cases"] if "gpu_gaps" in rules else 0, len(long_gaps))

    def communication_tables(self, rank, export):
        compute = merged((k.start, k.end) for k in export.kernels if not is_communication(k))
        groups = export.groups(lambda k: k.short)
        rows = self.rows("communication_overlap", rank)
        self.assertEqual({row["name"] for row in rows}, {name for name in groups if name.startswith("nccl")})
        for row in rows:
            group = groups[row["name"]]
            self.assertEqual((row["count"], row["total_ns"], row["overlapped_ns"]),
                             (len(group), sum(k.end - k.start for k in group), sum(shared([(k.start, k.end)], compute) for k in group)))
            self.assertAlmostEqual(row["overlapped_percent"], 100 * row["overlapped_ns"] / row["total_ns"])
        self.assertEqual(sorted(row["overlapped_ns"] for row in self.rows("communication_overlap_trace", rank)),
                         sorted(shared([(k.start, k.end)], compute) for k in export.kernels if is_communication(k)))
        operations = {row["operation"]: row["instances"] for row in table(self.directory / "out" / "store.h5", "operations")}
        self.assertEqual(operations["all_reduce"], export.all_reduces)

    def link_tables(self, rank, export):
        rows = self.rows("nvlink_over_time", rank)
        metrics = {row["metric"] for row in rows}
        self.assertGreaterEqual(len(metrics), 2)
        # A sample covers the time since the one before, and belongs to the span in which it ends. User data are requests and responses.
        begin, end = export.window
        for metric in metrics:
            of_metric = [row for row in rows if row["metric"] == metric]
            direction = "RX" if "receive" in metric else "TX"
            values = collections.Counter()
            for name, samples in export.samples.items():
                if f" {direction} " in name:
                    for time, value in samples:
                        values[time] += value
            times = sorted(values)
            weighted, weights = collections.Counter(), collections.Counter()
            for before, time in zip(times, times[1:]):
                if begin <= before and time <= end:
                    number = (time - 1 - begin) // of_metric[0]["span_ns"]
                    weighted[number] += values[time] * (time - before)
                    weights[number] += time - before
            self.assertGreater(len(weights), 100)
            for number in list(weights)[1:-1]:
                self.assertAlmostEqual(of_metric[number]["mean_percent"], weighted[number] / weights[number], places=6)

    def nvtx_tables(self, rank, export):
        labels = collections.defaultdict(list)
        for start, end, text, thread, _ in export.ranges:
            labels[OPERATOR.sub("", text)].append((start, end, thread))
        rows = {row["range"]: row for row in self.rows("nvtx_sum", rank) if row["domain"] == ""}
        projected = {row["range"]: row for row in self.rows("nvtx_gpu_projection", rank) if row["domain"] == ""}
        kernels = collections.defaultdict(dict)
        for row in self.rows("nvtx_kernels", rank):
            kernels[row["range"]][row["kernel"]] = row
        self.assertIn("forward", labels)
        self.assertGreater(sum(text.startswith("aten::") for text in labels), 3)
        for text, found in labels.items():
            self.statistics_are(rows[text], [end - start for start, end, _ in found], text)
            held = [events for events in (export.inside(*one) for one in found) if events]
            if not held:  # another thread launches what is in the backward pass
                self.assertNotIn(text, projected)
                continue
            self.assertEqual(projected[text]["gpu_operations"], sum(map(len, held)))
            self.statistics_are(projected[text], [max(one.end for one in events) - min(one.start for one in events) for events in held], text)
            for name, row in kernels[text].items():
                self.statistics_are(row, [one.end - one.start for events in held for one in events if isinstance(one, Kernel) and one.name == name], text)
        (coverage,) = self.rows("nvtx_coverage", rank)
        self.assertEqual((coverage["kernels"], coverage["kernel_ns"], coverage["launched_kernels"]),
                         (len(export.kernels), sum(k.end - k.start for k in export.kernels), len(export.kernels)))
        traced = [row for row in self.rows("nvtx_gpu_projection_trace", rank) if row["range"] == "forward"]
        self.assertEqual(sorted(row["duration_ns"] for row in traced),
                         sorted(max(one.end for one in events) - min(one.start for one in events) for events in (export.inside(*one) for one in labels["forward"])))
        steps = self.rows("nvtx_steps", rank)
        self.assertEqual([row["host_ns"] for row in steps], [labels[f"step {row['step']}"][0][1] - labels[f"step {row['step']}"][0][0] for row in steps])
        for row in steps:
            begin, end, _ = labels[f"step {row['step']}"][0]
            held = [one for one in export.activity if begin <= export.calls[one.correlation].start < end]
            self.assertEqual((row["gpu_operations"], row["gpu_end_ns"] - row["gpu_start_ns"], row["kernel_ns"]),
                             (len(held), max(one.end for one in held) - min(one.start for one in held), sum(one.end - one.start for one in held if isinstance(one, Kernel))))
        phases = {row["phase"]: row for row in self.rows("phases", rank)}
        self.assertEqual((phases["backward"]["ranges"], phases["backward"]["host_ns"]), (len(labels["backward"]), sum(end - start for start, end, _ in labels["backward"])))

    def trace_table(self, rank, export):
        rows = self.rows("gpu_trace", rank)
        self.assertEqual(len(rows), len(export.activity))
        events = sorted(export.kernels, key=lambda k: (k.start, k.end, k.stream))
        kernels = sorted((row for row in rows if row["kind"] == "kernel"), key=lambda row: (row["start_ns"], row["duration_ns"], row["stream"]))
        for row, k in zip(kernels, events):
            self.assertEqual((row["duration_ns"], row["stream"], row["latency_ns"], row["registers"]), (k.end - k.start, k.stream, k.start - export.launch(k).start, k.registers))
            self.assertEqual((row["grid"], row["block"]), (f"{k.gx}x{k.gy}x{k.gz}", f"{k.bx}x{k.by}x{k.bz}"))

    def test_coverage_that_is_low_is_told_with_its_share(self):
        shares = []
        for path, export in zip(sorted(self.traces.glob("*.sqlite")), self.exports):
            with sqlite3.connect(path) as database:
                database.execute("DELETE FROM NVTX_EVENTS WHERE domainId = 0 AND eventType = 59 AND coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) "
                                 "NOT IN ('forward', 'step 1')")
            held = {one.correlation for begin, end, text, thread, _ in export.ranges if text in ("forward", "step 1") for one in export.inside(begin, end, thread)
                    if isinstance(one, Kernel)}
            whole = sum(k.end - k.start for k in export.kernels)
            shares.append(sum(k.end - k.start for k in export.kernels if k.correlation in held) / whole)
        self.assertLess(max(shares), 0.7)
        report = self.analyse(self.traces, "bare", "--whole-run")
        (finding,) = [one for one in report["findings"] if one["id"] == "low-nvtx-coverage"]
        self.assertTrue(finding["title"].startswith("on 2 of 2 ranks less than 70% of the kernel time"), finding["title"])
        self.assertIn(f"worst is rank {shares.index(min(shares))} with {100 * min(shares):.1f}%", finding["evidence"][0])

    def imbalance(self):
        rows = {row["name"]: row for row in table(self.directory / "out" / "store.h5", "kernel_imbalance")}
        totals = [{name: sum(k.end - k.start for k in group) for name, group in export.groups(lambda k: k.name).items()} for export in self.exports]
        self.assertEqual(set(rows), set(totals[0]) | set(totals[1]))
        for name, row in rows.items():
            held = [(total[name], rank) for rank, total in enumerate(totals) if name in total]
            self.assertEqual((row["trace_ranks"], row["largest_ns"]), (len(held), max(held)[0]))
            self.assertAlmostEqual(row["imbalance"], max(held)[0] / (sum(one for one, _ in held) / len(held)))


if __name__ == "__main__":
    main()
