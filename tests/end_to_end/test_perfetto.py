"""`--perfetto`: the timeline keeps the rules of Google's Trace Event Format, and its times are those of store.h5."""

import collections
import gzip
import json
import pathlib
import sqlite3
import unittest

import h5py

from support import EndToEndTest, SHARED_TRACES, main

JOB = ("--nodes", "2", "--gpus-per-node", "2", "--tp", "2", "--layers", "2", "--steps", "6", "--seed", "7", "--truth", "none")


def nanoseconds(microseconds):
    return round(microseconds * 1000)


class Rules:
    """What the format demands of a list of events; collects what was drawn."""

    def __init__(self, test, trace):
        self.test = test
        self.processes, self.threads = {}, {}
        self.slices = collections.defaultdict(list)
        self.flows, self.launches = collections.defaultdict(list), collections.defaultdict(list)
        self.counters = collections.defaultdict(list)
        self.marks = []
        test.assertEqual(set(trace), {"displayTimeUnit", "otherData", "traceEvents"})
        for event in trace["traceEvents"]:
            getattr(self, "take_" + event["ph"])(event)
        self.every_track_has_a_name()
        self.slices_nest()
        self.flows_are_bound()

    def take_M(self, event):
        names = {"process_name": self.processes, "thread_name": self.threads}
        if event["name"] in names:
            key = event["pid"] if event["name"] == "process_name" else (event["pid"], event["tid"])
            self.test.assertNotIn(key, names[event["name"]])
            self.test.assertTrue(event["args"]["name"])
            names[event["name"]][key] = event["args"]["name"]
        else:
            self.test.assertIn(event["name"], ("process_sort_index", "thread_sort_index"))
            self.test.assertIsInstance(event["args"]["sort_index"], int)

    def take_X(self, event):
        self.test.assertGreaterEqual(event["ts"], 0)
        self.test.assertGreaterEqual(event["dur"], 0)
        self.test.assertTrue(event["name"])
        self.slices[event["pid"], event["tid"]].append(event)
        if "bind_id" in event:
            (self.flows if event["bind_id"] < 1 << 32 else self.launches)[event["bind_id"]].append(event)

    def take_C(self, event):
        self.test.assertIsInstance(event["args"]["value"], (int, float))
        self.counters[event["pid"], event["name"]].append((nanoseconds(event["ts"]), event["args"]["value"]))

    def take_i(self, event):
        self.marks.append(event)

    def every_track_has_a_name(self):
        self.test.assertEqual(set(self.slices), set(self.threads))
        self.test.assertLessEqual({pid for pid, _ in [*self.slices, *self.counters]}, set(self.processes))
        self.test.assertNotIn(0, self.processes)
        self.test.assertEqual(len({tid for _, tid in self.threads}), len(self.threads))  # distinct in the whole file

    def slices_nest(self):
        for track, slices in self.slices.items():
            open_ends = []
            # Of equal starts the longer one is outside; the file has it first.
            for event in sorted(slices, key=lambda e: (nanoseconds(e["ts"]), -nanoseconds(e["dur"]))):
                start, end = nanoseconds(event["ts"]), nanoseconds(event["ts"]) + nanoseconds(event["dur"])
                while open_ends and open_ends[-1] <= start:
                    open_ends.pop()
                if open_ends:
                    self.test.assertLessEqual(end, open_ends[-1], f"{self.threads[track]}: {event} overlaps")
                open_ends.append(end)

    def flows_are_bound(self):
        """Arrows of collectives: one begins, one ends, and viewers meet them in this order (by start, of equal starts the
        longer slice first, then as in the file). Arrows of launches begin at a call and end at work of the same rank."""
        for slices in self.slices.values():
            for event in slices:
                self.test.assertEqual("bind_id" in event, "flow_in" in event)
        for launched in self.launches.values():
            self.test.assertEqual(len({event["pid"] for event in launched}), 1)
            for event in launched:
                is_call = event["cat"] == "call"
                self.test.assertIn(event["cat"], ("call", "compute", "communication", "copy", "graph"))
                self.test.assertEqual((event["flow_in"], event["flow_out"]), (not is_call, is_call))
        for number, members in self.flows.items():
            self.test.assertGreater(len(members), 1)
            met = sorted(members, key=lambda e: (nanoseconds(e["ts"]), -nanoseconds(e["dur"])))
            self.test.assertEqual([(e["flow_in"], e["flow_out"]) for e in met],
                                  [(False, True), *[(True, True)] * (len(met) - 2), (True, False)])
            self.test.assertEqual({(e["cat"], e["args"]["instance"]) for e in met}, {("collective", number - 1)})
            self.test.assertEqual(len({e["args"]["communicator"] for e in met}), 1)

    def of_category(self, category):
        for (pid, tid), slices in self.slices.items():
            for event in slices:
                if event["cat"] == category:
                    yield pid, self.threads[pid, tid], event


class Perfetto(EndToEndTest):
    def timeline(self, inputs, out, *options, ranks=None):
        file = self.directory / f"{out}.json.gz"
        done = self.explain(inputs, out, "--perfetto", file, *options, ranks=ranks)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        trace = json.loads(gzip.decompress(file.read_bytes()))
        self.findings_are_those_of_the_report(trace, out)
        return Rules(self, trace), trace["otherData"], file, done

    def findings_are_those_of_the_report(self, trace, out):
        drawn = [(e["name"], e["args"]["id"], e["args"]["next"]) for e in trace["traceEvents"] if e.get("cat") == "finding"]
        self.assertEqual(drawn, [(f["title"], f["id"], f["recommendation"]) for f in self.report(out)["findings"]])

    def rank_of(self, rules):
        return {pid: int(name.split(",")[0].removeprefix("rank ")) for pid, name in rules.processes.items()
                if name.startswith("rank ")}

    def arrivals(self, out):
        with h5py.File(self.directory / out / "store.h5") as store:
            table = store["collective_arrivals"]
            return sorted(zip(*(table[name][()].tolist() for name in ("trace_rank", "instance", "enter_ns", "exit_ns", "wait_ns"))))

    def test_times_are_those_of_the_store_and_the_bytes_the_same_for_any_tool_ranks(self):
        traces = self.synth("job", *JOB, "--metrics", "nvlink", "--fault", "slow_gpu:rank=1,factor=1.5")
        rules, facts, file, _ = self.timeline(traces, "one", "--whole-run")
        self.assertTrue(facts["time"].endswith(" 0 ns"))
        ranks = self.rank_of(rules)
        self.assertEqual(sorted(ranks.values()), [0, 1, 2, 3])
        self.assertEqual(sum(name.startswith("host ") for name in rules.processes.values()), 2)

        drawn = sorted((ranks[pid], e["args"]["instance"], nanoseconds(e["ts"]), nanoseconds(e["ts"] + e["dur"]),
                        nanoseconds(e["args"]["wait_us"])) for pid, _, e in rules.of_category("collective"))
        self.assertEqual(drawn, self.arrivals("one"))
        waits = sorted((ranks[pid], nanoseconds(e["ts"]), nanoseconds(e["dur"])) for pid, _, e in rules.of_category("wait"))
        self.assertEqual(waits, sorted((r, enter, wait) for r, _, enter, _, wait in drawn if wait > 0))
        self.assertEqual(len({(e["name"], e["cname"]) for _, _, e in rules.of_category("wait")}), 1)  # one colour
        # The kernels of collectives are on their streams, at the same times.
        kernels = collections.Counter((ranks[pid], nanoseconds(e["ts"]), nanoseconds(e["ts"] + e["dur"]))
                                      for pid, name, e in rules.of_category("communication") if name.startswith("stream"))
        self.assertEqual(kernels, collections.Counter((r, enter, leave) for r, _, enter, leave, _ in drawn))
        members = collections.Counter(instance for _, instance, *_ in drawn)
        self.assertEqual({number - 1: len(steps) for number, steps in rules.flows.items()}, dict(members))
        path = [(nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"])) for *_, e in rules.of_category("critical_path")]
        self.assertTrue(all(end == start for (_, end), (start, _) in zip(path, path[1:])))
        self.assertEqual(path[-1][1] - path[0][0], sum(part["duration_ns"] for part in self.report("one")["critical_path"]))
        links = [values for (pid, name), values in rules.counters.items() if "NVLink" in name]
        self.assertEqual(len(links), 4 * 2)
        self.assertTrue(all(0 <= v <= 101 for values in links for _, v in values))
        self.assertTrue(all(max(v for _, v in values) > 10 for values in links), [max(v for _, v in values) for values in links])
        self.assertEqual(sum(name == "ranks waiting" for _, name in rules.counters), 2)
        for tool_ranks in (1, 3):
            *_, other, _ = self.timeline(traces, f"ranks{tool_ranks}", "--whole-run", ranks=tool_ranks)
            self.assertEqual(other.read_bytes(), file.read_bytes())
        self.host_threads(rules, traces)
        self.launches(rules, traces)
        self.limits(traces, len(drawn))
        self.window(traces, drawn)
        self.refusals(traces, file)

    def launches(self, rules, traces):
        """Kernels and copies carry what the exports hold of their launch, and hang on the call that launched them."""
        kernels, copied, arrows = collections.Counter(), collections.Counter(), 0
        for trace in traces.glob("*.sqlite"):
            with sqlite3.connect(trace) as database:
                kernels.update(database.execute(
                    "SELECT gridX || 'x' || gridY || 'x' || gridZ, blockX || 'x' || blockY || 'x' || blockZ, registersPerThread, "
                    "staticSharedMemory, dynamicSharedMemory FROM CUPTI_ACTIVITY_KIND_KERNEL"))
                for table in ("KERNEL", "MEMCPY", "MEMSET"):
                    table = f"CUPTI_ACTIVITY_KIND_{table}"
                    arrows += database.execute(f"SELECT count(*) FROM {table} JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId)").fetchone()[0]
                    if table.endswith(("CPY", "SET")):
                        copied.update(size for size, in database.execute(f"SELECT bytes FROM {table}"))
        drawn = collections.Counter(tuple(e["args"].values()) for category in ("compute", "communication")
                                    for _, name, e in rules.of_category(category) if name.startswith("stream"))
        self.assertEqual(drawn, kernels)
        self.assertEqual(collections.Counter(e["args"]["bytes"] for *_, e in rules.of_category("copy")), copied)
        self.assertEqual(sum(event["flow_in"] for launched in rules.launches.values() for event in launched), arrows)

    def host_threads(self, rules, traces):
        """Ranges and calls of the threads that launch: as many as the exports hold, with their durations."""
        rows = collections.Counter()
        for trace in traces.glob("*.sqlite"):
            with sqlite3.connect(trace) as database:
                launching = "SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN CUPTI_ACTIVITY_KIND_KERNEL k USING (correlationId)"
                for category, table in (("nvtx", "NVTX_EVENTS"), ("call", "CUPTI_ACTIVITY_KIND_RUNTIME")):
                    rows.update((category, length) for length, in database.execute(
                        f"SELECT end - start FROM {table} WHERE end IS NOT NULL AND globalTid IN ({launching})"))
        drawn = collections.Counter()
        for category, track in (("nvtx", "NVTX, thread "), ("call", "calls, thread ")):
            for _, name, event in rules.of_category(category):
                self.assertTrue(name.startswith(track), name)
                drawn[category, nanoseconds(event["dur"])] += 1
        self.assertEqual(sum(drawn.values()), sum(rows.values()))
        # The clocks of some sessions drift: a nanosecond more or less, rarely.
        self.assertGreater(sum((drawn & rows).values()), 0.9 * sum(rows.values()))

    def limits(self, traces, arrivals):
        rules, facts, _, done = self.timeline(traces, "cut", "--perfetto-events", "3000")
        gpu = sum(e["cat"] in ("compute", "communication", "copy", "graph", "nvtx", "call") for all_ in rules.slices.values() for e in all_)
        links = sum(len(values) for (_, name), values in rules.counters.items() if "NVLink" in name)
        collectives = sum(1 for _ in rules.of_category("collective"))
        self.assertLess(collectives, arrivals)
        path = sum(1 for _ in rules.of_category("critical_path"))
        self.assertLessEqual(gpu + links + 2 * collectives + path, 3000)
        self.assertGreater(gpu + links + 2 * collectives + path, 2400)
        self.assertIn("at most 3000 events", facts["cut"])
        self.assertIn("the timeline ends at job time", done.stderr)
        cut, = [mark for mark in rules.marks if mark["name"] == facts["cut"]]
        end = nanoseconds(cut["ts"])
        self.assertTrue(all(nanoseconds(e["ts"]) < end for all_ in rules.slices.values() for e in all_))
        self.assertEqual({self.rank_of(rules)[pid] for pid, *_ in rules.of_category("compute")}, {0, 1, 2, 3})  # all end there
        again = self.timeline(traces, "cut3", "--perfetto-events", "3000", ranks=3)[2]
        self.assertEqual(again.read_bytes(), (self.directory / "cut.json.gz").read_bytes())

    def window(self, traces, drawn):
        enters = sorted(enter for _, _, enter, *_ in drawn)
        start, end = enters[len(enters) // 3], enters[len(enters) // 2]
        rules, *_ = self.timeline(traces, "window", "--perfetto-window", f"{start}ns/{end}ns")
        last_enter = collections.defaultdict(int)
        for _, instance, enter, *_ in drawn:
            last_enter[instance] = max(last_enter[instance], enter)
        expected = {instance for instance, enter in last_enter.items() if start <= enter < end}
        self.assertTrue(expected)
        self.assertEqual({e["args"]["instance"] for _, _, e in rules.of_category("collective")}, expected)
        for category in ("compute", "communication"):
            for _, _, event in rules.of_category(category):
                self.assertLess(nanoseconds(event["ts"]), end)
                self.assertGreaterEqual(nanoseconds(event["ts"] + event["dur"]), start)

    def refusals(self, traces, file):
        before = file.read_bytes()
        done = self.explain(traces, "again", "--perfetto", file)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--force", done.stderr)
        done = self.explain(traces, "bad", "--perfetto", self.directory / "x.json.gz", "--perfetto-window", "7s/5s")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--perfetto-window '7s/5s' ends before it starts", done.stderr)
        done = self.explain(traces, "nowhere", "--perfetto", self.directory / "absent" / "x.json.gz")
        self.assertEqual(done.returncode, 5)
        self.assertIn("without it there is no timeline", done.stderr)
        self.assertEqual(self.report("nowhere")["collectives"]["partial"], 0)  # the report itself is there
        self.assertEqual(file.read_bytes(), before)

    def test_files_of_the_user_beside_it_stay_as_they_are(self):
        file = self.directory / "t.json.gz"
        precious = self.directory / "precious"
        precious.write_text("kept")
        (self.directory / "t.json.gz.part").symlink_to(precious)
        self.analyse(self.synth("job", *JOB), "out", "--perfetto", file)
        self.assertEqual(precious.read_text(), "kept")
        self.assertTrue((self.directory / "t.json.gz.part").is_symlink())
        json.loads(gzip.decompress(file.read_bytes()))

    def test_branches_of_a_graph_lie_beside_each_other(self):
        self.timeline(self.synth("graph-job", *JOB, "--graph", "node"), "graphs")

    def test_real_traces(self):
        trace = pathlib.Path(SHARED_TRACES) / "nsys-ai" / "mfu_2gpu_before.sqlite"
        if not trace.exists():
            self.skipTest("the real traces are absent")
        rules, *_ = self.timeline(trace, "real", "--whole-run")
        self.assertEqual(sum(1 for _ in rules.of_category("communication")), 66)
        self.assertEqual(len(rules.flows), 33)


if __name__ == "__main__":
    main()
