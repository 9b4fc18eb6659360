"""Phases, attribution and evidence from other tools, as a user gives them: against the truth of a simulated job."""

import collections
import contextlib
import csv
import datetime
import json
import pickle
import random
import re
import shutil
import sqlite3
import statistics

from support import EndToEndTest, main, run, TOOL


class Evidence(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "4", "--seed", "9")

    def rows(self, out, name):
        with open(self.directory / out / "tables" / f"{name}.csv", newline="") as file:
            return list(csv.DictReader(file))

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def test_phases_and_steps_of_every_rank(self):
        report = self.analyse(self.traces, "out", "--csv", ranks=2)
        truth = json.loads((self.traces / "truth.json").read_text())
        steps = self.rows("out", "nvtx_steps")
        recorded = []
        for rank in (0, 1):  # the last range of a rank may lie beyond the end of its capture
            with sqlite3.connect(self.traces / f"rank_{rank:05}.sqlite") as connection:
                recorded += [(rank, int(label.split()[1])) for (label,) in connection.execute(
                    "SELECT text FROM NVTX_EVENTS WHERE text LIKE 'step %' ORDER BY start")]
        self.assertGreaterEqual(len(recorded), 6)
        self.assertEqual([(int(s["trace_rank"]), int(s["step"])) for s in steps], recorded)
        phases = {phase["phase"]: phase for phase in report["phases"]}
        for name in ("step", "forward", "backward", "optimizer"):
            self.assertEqual(phases[name]["trace_ranks"], 2, name)
            self.assertGreater(phases[name]["kernel_ns"], 0, name)
        # All ranges of rank 0 are there: what its phases launch is in its steps, and in at most one phase.
        of_rank_0 = {row["phase"]: int(row["kernel_ns"]) for row in self.rows("out", "phases")
                     if row["trace_rank"] == "0"}
        self.assertLessEqual(sum(of_rank_0[p] for p in ("forward", "backward", "optimizer")), of_rank_0["step"])
        kernels = sum(rank["kernels"] for rank in truth["ranks"])
        self.assertEqual(sum(int(row["kernels"]) for row in self.rows("out", "nvtx_coverage")), kernels)
        self.assertEqual(report["attribution"]["launched_percent"], 100)
        self.assertNotIn("weak-launch-attribution", [finding["id"] for finding in report["findings"]])

    def test_missing_launches_are_said(self):
        trace = self.traces / "rank_00001.sqlite"
        with sqlite3.connect(trace) as connection:
            calls = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()[0]
            connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid > ?", (calls // 10,))
        report = self.analyse(self.traces, "out")
        finding = next(f for f in report["findings"] if f["id"] == "weak-launch-attribution")
        self.assertIn("on 1 of 2 ranks", finding["title"])
        self.assertIn("rank 1", finding["evidence"][0])

    def test_throttling_is_found_in_job_time(self):
        with sqlite3.connect(self.traces / "rank_00000.sqlite") as connection:
            (start_utc,) = connection.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
            first, last = connection.execute("SELECT min(start), max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
            (uuid,) = connection.execute("SELECT uuid FROM TARGET_INFO_GPU ORDER BY id").fetchone()
        lines = ["timestamp, uuid, clocks.current.sm [MHz], utilization.gpu [%]"]
        zone = datetime.timezone(datetime.timedelta(hours=-5))
        for i in range(20):
            utc_ns = start_utc + first + (last - first) * (2 * i + 1) // 40
            local = datetime.datetime.fromtimestamp(utc_ns // 1_000_000_000, zone).strftime("%Y/%m/%d %H:%M:%S")
            clock = 1100 if 8 <= i < 12 else 1980
            lines.append(f"{local}.{utc_ns % 1_000_000_000 // 1000:06d}, GPU-{uuid}, {clock} MHz, 97 %")
        samples = self.write("samples.csv", "\n".join(lines) + "\n")
        report = self.analyse(self.traces, "out", "--csv", "--nvml", samples, "--nvml-utc-offset", "-5")
        throttled = [int(row["trace_rank"]) for row in self.rows("out", "gpu_throttling")]
        self.assertIn(0, throttled)
        (span,) = [row for row in self.rows("out", "gpu_throttling") if row["trace_rank"] == "0"]
        self.assertEqual((int(span["samples"]), float(span["lowest_sm_clock_mhz"])), (4, 1100))
        self.assertAlmostEqual(int(span["end_ns"]) - int(span["start_ns"]), (last - first) / 5, delta=3000)
        window = report["ranks"][0]["window_start_ns"]
        self.assertAlmostEqual(int(span["start_ns"]), window + (last - first) * 17 // 40, delta=1_000_000)
        self.assertIn("gpu-throttling", [finding["id"] for finding in report["findings"]])

    def test_a_slow_gpu_is_shown_beside_its_clock_and_power(self):
        traces = self.synth("slow", "--nodes", "1", "--gpus-per-node", "4", "--steps", "16", "--layers", "2", "--seed", "4",
                            "--fault", "slow_gpu:rank=2,factor=1.4")
        uuids = [rank["gpu_uuid"] for rank in json.loads((traces / "truth.json").read_text())["ranks"]]
        with sqlite3.connect(traces / "rank_00000.sqlite") as connection:
            (start_utc,) = connection.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
            first, last = connection.execute("SELECT min(start), max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        lines = ["timestamp, uuid, clocks.current.sm [MHz], utilization.gpu [%], power.draw [W]"]
        for i in range(20):
            utc_ns = start_utc + first + (last - first) * (2 * i + 1) // 40
            moment = datetime.datetime.fromtimestamp(utc_ns // 1_000_000_000, datetime.timezone.utc)
            for rank, uuid in enumerate(uuids):
                clock, power = (1414, "350.50") if rank == 2 else (1980, f"{680 + rank}.25")
                lines.append(f"{moment:%Y/%m/%d %H:%M:%S}.{utc_ns % 1_000_000_000 // 1000:06d}, GPU-{uuid}, {clock} MHz, 97 %, "
                             f"{power} W")
        samples = self.write("samples.csv", "\n".join(lines) + "\n")
        (straggler,) = self.analyse(traces, "out", "--nvml", samples, "--nvml-utc-offset", "0")["stragglers"]
        self.assertEqual((straggler["trace_rank"], straggler["cause"]), (2, "slow_kernel"))
        (line,) = [line for line in straggler["evidence"] if "gpu_samples" in line]
        self.assertIn("SM clock 1414 MHz (the other GPUs 1980)", line)
        self.assertIn("power 350 W (the other GPUs 681)", line)

    def test_throttling_by_the_gpu_metrics_of_the_trace(self):
        traces = self.synth("sampled", "--nodes", "1", "--gpus-per-node", "2", "--steps", "8", "--seed", "9",
                            "--metrics", "nvlink")
        for rank in (0, 1):
            with sqlite3.connect(traces / f"rank_{rank:05}.sqlite") as connection:
                first, last = connection.execute(
                    "SELECT min(start), max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
                types = {row[0] & 0xFF: row for row in connection.execute(
                    "SELECT DISTINCT typeId, sourceId, typeName FROM TARGET_INFO_GPU_METRICS")}
                type_id, source, type_name = types[rank]
                connection.execute("INSERT INTO TARGET_INFO_GPU_METRICS (typeId, sourceId, typeName, metricId, metricName)"
                                   " VALUES (?, ?, ?, 900, 'GPC Clock Frequency [MHz]')", (type_id, source, type_name))
                begin, end = first + (last - first) * 2 // 5, first + (last - first) * 3 // 5
                connection.executemany(
                    "INSERT INTO GPU_METRICS (rawTimestamp, timestamp, typeId, metricId, value) VALUES (?, ?, ?, 900, ?)",
                    ((at, at, type_id, 1_200_000_000 if rank == 1 and begin <= at < end else 1_980_000_000)
                     for at in range(first, last, 100_000)))
        report = self.analyse(traces, "out", "--csv")
        sampled = {row["trace_rank"]: row for row in self.rows("out", "gpu_samples")}
        self.assertEqual({row["source"] for row in sampled.values()}, {"gpu_metrics"})
        self.assertEqual(float(sampled["1"]["highest_sm_clock_mhz"]), 1980)
        spans = self.rows("out", "gpu_throttling")
        self.assertEqual({row["trace_rank"] for row in spans}, {"1"})
        found = sum(int(row["end_ns"]) - int(row["start_ns"]) for row in spans)
        self.assertAlmostEqual(found, (last - first) / 5, delta=max(3_000_000, (last - first) / 20))
        window = report["ranks"][1]["window_start_ns"]  # job time
        self.assertAlmostEqual(int(spans[0]["start_ns"]), window + begin - first, delta=3_000_000)
        finding = next(f for f in report["findings"] if f["id"] == "gpu-throttling")
        self.assertIn("the GPU of 1 rank ran slower", finding["title"])
        self.assertIn("1200 MHz (gpu_metrics)", finding["evidence"][0])

    def test_what_it_ran_on_and_where_ranks_differ(self):
        clean = self.analyse(self.traces, "clean", "--csv")
        facts = {fact["fact"]: fact["values"] for fact in clean["run_facts"]}
        self.assertEqual(facts["driver"], [{"value": "580.95.05", "trace_ranks": None}])
        self.assertEqual(facts["cuda_driver"][0]["value"], "13.0")
        self.assertEqual(facts["gpu"][0]["value"], "NVIDIA H100 80GB HBM3")
        self.assertEqual(facts["gpu_memory_bandwidth"][0]["value"], "3352 GB/s")
        self.assertEqual([f["id"] for f in clean["findings"] if f["id"].startswith("mixed-")], [])
        self.assertEqual(len(self.rows("clean", "run_facts")), 2 * len(clean["run_facts"]))
        with sqlite3.connect(self.traces / "rank_00001.sqlite") as connection:
            secret = connection.execute("SELECT value FROM META_DATA_CAPTURE WHERE value LIKE 'AWS_SECRET%'").fetchone()
            self.assertIsNotNone(secret)
            connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = '53512903' WHERE name = 'NvDriverVersion'")
            connection.execute("UPDATE TARGET_INFO_GPU SET clockRate = 1755000000")
        mixed = self.analyse(self.traces, "mixed", "--csv", "--force", ranks=2)
        findings = {finding["id"]: finding for finding in mixed["findings"]}
        self.assertIn("driver: 580.95.05 (rank 0), 535.129.03 (rank 1)",
                      findings["mixed-software"]["evidence"])
        self.assertEqual(findings["mixed-gpus"]["severity"], "medium")
        self.assertIn("sm_clock_limit", findings["mixed-gpus"]["evidence"][0])
        hidden = secret[0].split("=")[1].strip('"').encode()
        for path in (self.directory / "mixed").rglob("*"):
            if path.is_file():
                self.assertNotIn(hidden, path.read_bytes(), path)

    def test_requests_of_a_csv(self):
        rng = random.Random(5)
        rows, first, last = [], [], []
        for i in range(40):
            arrival, queue, ttft, tokens = 10 + i * 0.25, rng.uniform(0, 0.5), rng.uniform(0.5, 1), rng.randrange(2, 200)
            end = arrival + ttft + 0.01 * (tokens - 1)
            rows.append(f"{i},{arrival},{arrival + queue},{arrival + ttft},{end},{100 + i},{tokens}")
            first.append(ttft)
            last.append((end, tokens))
        text = "request_id,arrival,start,first_token,end,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n"
        requests = self.analyse(self.traces, "out", "--csv", "--requests", self.write("requests.csv", text))["requests"]
        elapsed = max(end for end, _ in last) - 10
        self.assertEqual((requests["requests"], requests["failed"], requests["prompt_tokens"]), (40, 0, 4000 + 780))
        self.assertAlmostEqual(requests["output_tokens_per_second"], sum(t for _, t in last) / elapsed, places=4)
        latencies = {row["latency"]: row for row in requests["latencies"]}
        self.assertAlmostEqual(latencies["time_to_first_token"]["median_ns"] / 1e9, statistics.median(first), places=6)
        self.assertAlmostEqual(latencies["time_per_output_token"]["p90_ns"] / 1e9, 0.01, places=6)
        self.assertEqual(latencies["queueing"]["count"], 40)
        self.assertEqual(len(self.rows("out", "request_latencies")), 4)
        report = (self.directory / "out" / "report.md").read_text()
        self.assertIn("## Requests", report)
        self.assertIn(f"{requests['output_tokens_per_second']:.1f} output tokens/s", report)
        self.assertIsNone(self.analyse(self.traces, "without")["requests"])

    def test_requests_of_a_benchmark(self):
        result = {"backend": "vllm", "duration": 8.0, "completed": 2, "input_lens": [100, 300, 50], "output_lens": [3, 2, 0],
                  "ttfts": [0.2, 0.4, 0.0], "itls": [[0.1, 0.3], [0.5], []], "errors": ["", "", "refused"]}
        requests = self.analyse(self.traces, "out", "--requests", self.write("result.json", json.dumps(result)))["requests"]
        self.assertEqual((requests["requests"], requests["failed"], requests["output_tokens"]), (2, 1, 5))
        self.assertEqual((requests["elapsed_ns"], requests["output_tokens_per_second"]), (8_000_000_000, 5 / 8))
        latencies = {row["latency"]: row["median_ns"] for row in requests["latencies"]}
        # Of the first request 0.4 s for two tokens after the first one, of the second 0.5 s for one.
        self.assertEqual(latencies, {"time_to_first_token": 300_000_000, "time_per_output_token": 350_000_000,
                                     "end_to_end": 750_000_000})

    def test_what_the_command_for_nsight_compute_collects_is_read(self):
        """The metrics that the help names, and a stall of the section that it asks for, give every column a value."""
        (command,) = re.findall(r"^ncu --csv .*?PROGRAM$", run([TOOL, "--help", "evidence"]).stdout.replace("\\\n", ""), re.M)
        metrics = command.split("--metrics ")[1].split()[0].split(",")
        self.analyse(self.traces, "plain", "--csv")
        kernel = self.rows("plain", "kernels")[0]["name"]
        names = ["ID", "Kernel Name", *metrics, "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"]
        text = ",".join(f'"{name}"' for name in names) + "\n" + ",".join(f'"{value}"' for value in [0, kernel] + [50] * (len(names) - 2)) + "\n"
        self.analyse(self.traces, "out", "--csv", "--ncu", self.write("ncu.csv", text))
        rows = self.rows("out", "roofline")
        self.assertEqual(len(rows), 2)
        for row in rows:
            # 50 instructions of threads each: adds and multiplications once, fma twice, of pairs of halves twice that.
            self.assertEqual((float(row["flops"]), float(row["dram_bytes"])), (6 * 50 + 3 * 100 + 4 * 50, 100))
            for name in ("sm_percent", "dram_percent", "tensor_percent", "l2_hit_percent", "occupancy_percent", "bank_conflicts",
                         "sectors_per_load", "sectors_per_store"):
                self.assertEqual(float(row[name]), 50, name)
        self.assertEqual([(row["reason"], float(row["share_percent"])) for row in self.rows("out", "kernel_stalls")], [("wait", 100)] * 2)

    def test_counters_of_a_server(self):
        def scrape(requests, executions, request_us, infer_us):
            return "".join(f'nv_inference_{name}{{model="bert",version="1"}} {value}\n' for name, value in (
                ("request_success", requests), ("count", requests), ("exec_count", executions),
                ("request_duration_us", request_us), ("compute_infer_duration_us", infer_us)))
        text = scrape(1000, 500, 9_000_000, 7_000_000) + scrape(1600, 650, 12_000_000, 8_500_000)
        self.analyse(self.traces, "out", "--csv", "--requests", self.write("metrics.txt", text))
        (row,) = self.rows("out", "served_models")
        self.assertEqual((row["requests"], row["executions"], row["infer_ns"]), ("600", "150", "1500000000"))
        # 600 requests in 150 executions; 3 s and 1.5 s over 600 requests.
        self.assertRegex((self.directory / "out" / "report.md").read_text(), r"`bert` +\| +600 \| +0 \| +4\.0 \| +5\.000 ms \|.*\| +2\.500 ms \|")

    def test_layers_of_an_engine(self):
        layers = [("stem", 2.0), ("block 1 + block 2", 6.0), ("head", 4.0)]
        profile = [{"count": 8}] + [{"name": name, "timeMs": ms, "averageMs": ms / 8, "percentage": ms / 0.12} for name, ms in layers]
        self.analyse(self.traces, "out", "--csv", "--trt-profile", self.write("profile.json", json.dumps(profile)))
        rows = self.rows("out", "engine_layers")
        self.assertEqual([(row["layer"], int(row["mean_ns"])) for row in rows], [(name, int(ms * 1e6 / 8)) for name, ms in layers])
        self.assertRegex((self.directory / "out" / "report.md").read_text(), r"`block 1 \+ block 2` +\| +50\.0% \|")
        done = self.explain(self.traces, "bad", "--trt-profile", self.write("bad.json", "{}"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("trtexec --loadEngine=ENGINE --dumpProfile", done.stderr)

    def test_memory_of_pytorchs_allocator(self):
        """Levels by a model of its own: what is in use is a dictionary of blocks."""
        rng, blocks, events, levels = random.Random(11), {}, [], []
        for time in range(3000):
            if blocks and rng.random() < 0.45:
                address = rng.choice(sorted(blocks))
                events.append({"action": "free_completed", "addr": address, "size": blocks.pop(address)[0], "time_us": 10 ** 15 + time})
            else:
                size, line = rng.randrange(1, 1 << 20), rng.randrange(5)
                blocks[time] = (size, line)
                events.append({"action": "alloc", "addr": time, "size": size, "time_us": 10 ** 15 + time,
                               "frames": [{"filename": "/x/net.py", "line": line, "name": "forward"}]})
            levels.append((sum(size for size, _ in blocks.values()), dict(blocks)))
        kept = events[1000:]  # the oldest are lost
        segment = {"device": 0, "total_size": 1 << 30, "blocks": [
            {"address": address, "size": size + 7, "requested_size": size, "state": "active_allocated",
             "frames": [{"filename": "/x/net.py", "line": line, "name": "forward"}]} for address, (size, line) in blocks.items()]}
        snapshot = {"segments": [segment], "device_traces": [kept]}
        self.analyse(self.traces, "out", "--csv", "--memory-snapshot", self.write("snapshot.json", json.dumps(snapshot)))
        (summary,) = self.rows("out", "allocator_summary")
        peak = max(range(999, 3000), key=lambda i: levels[i][0])
        self.assertEqual((int(summary["peak_bytes"]), int(summary["peak_event"])), (levels[peak][0], peak - 1000))
        self.assertEqual((int(summary["final_bytes"]), int(summary["peak_utc_ns"])), (levels[-1][0], (10 ** 15 + peak) * 1000))
        memory = self.rows("out", "allocator_memory")
        self.assertEqual([int(row["in_use_bytes"]) for row in memory], [levels[min(1000 + 3 * i + 2, 2999)][0] for i in range(667)])
        expected = collections.Counter()
        for address, (size, line) in levels[peak][1].items():
            freed = any(event["addr"] == address and event["action"] == "free_completed" for event in kept)
            expected[f"net.py:{line} forward" if address >= 1000 or not freed else ""] += size
        self.assertEqual({row["stack"]: int(row["bytes"]) for row in self.rows("out", "allocator_peak")}, dict(expected))
        self.assertIn("## PyTorch's allocator", (self.directory / "out" / "report.md").read_text())
        (self.directory / "snapshot.pickle").write_bytes(pickle.dumps(snapshot))
        done = self.explain(self.traces, "bad", "--memory-snapshot", self.directory / "snapshot.pickle")
        self.assertEqual(done.returncode, 2)
        self.assertIn("pickle.load(open(sys.argv[1]", done.stderr)

    def test_what_nccls_log_says_of_connections(self):
        def log(host, process, rank, lines):
            prefix = f"{host}:{process}:{process + 7} [{rank % 2}] NCCL INFO"
            start = f"comm 0x55{rank} rank {rank} nranks 4 cudaDev {rank % 2} busId 7000 commId 0xabc123 - Init START"
            return "".join(f"{prefix} {line}\n" for line in ["Using network Socket", f"ncclCommInitRank {start}", *lines])

        first = self.write("nccl.node1.log", "NCCL version 2.27.3+cuda12.9\n" + log("node1", 100, 0, [
            *(f"Channel {c:02}/0 : 0[0] -> 1[1] via P2P/CUMEM/read" for c in range(8)),
            "NCCL_SOCKET_IFNAME set by environment to hunter2",
            "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..7}",
            "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..7}"]) + log("node1", 101, 1, [
                "Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct",
                "Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0"]))
        second = self.write("nccl.node2.log", log("node2", 100, 2, [
            "Channel 00/0 : 1[1] -> 2[0] [receive] via NET/Socket/0"]))
        options = ["--csv", "--nccl-log", first, "--nccl-log", second]
        report = self.analyse(self.traces, "out", *options)
        self.assertEqual(report["nccl_log"], {"members": 3, "transports": [
            {"same_host": False, "transport": "NET/Socket", "connections": 1, "channels": 1},
            {"same_host": True, "transport": "P2P/CUMEM", "connections": 1, "channels": 8},
            {"same_host": True, "transport": "SHM/direct", "connections": 1, "channels": 1}]})
        (choice,) = self.rows("out", "nccl_choices")
        self.assertEqual([choice[k] for k in ("operation", "bytes", "algorithm", "protocol", "count")],
                         ["AllReduce", "1048576", "RING", "SIMPLE", "2"])
        self.assertEqual({row["communicator"] for row in self.rows("out", "nccl_members")}, {"0x0000000000abc123"})
        text = (self.directory / "out" / "report.md").read_text()
        self.assertIn("1 of 2 connections within hosts are not P2P", " ".join(text.split()))
        for path in (self.directory / "out").rglob("*"):
            if path.is_file():
                self.assertNotIn(b"hunter2", path.read_bytes(), path)
        self.analyse(self.traces, "ranks", *options, ranks=2)
        self.assert_same_results("out", "ranks")

    def test_samples_of_dcgm(self):
        with sqlite3.connect(self.traces / "rank_00000.sqlite") as connection:
            (start_utc,) = connection.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
            first, last = connection.execute("SELECT min(start), max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
            (uuid,) = connection.execute("SELECT uuid FROM TARGET_INFO_GPU ORDER BY id").fetchone()
        lines = ["ts,Hostname,UUID,DCGM_FI_DEV_SM_CLOCK,DCGM_FI_DEV_POWER_USAGE,DCGM_FI_PROF_SM_ACTIVE"]
        for i in range(9):
            lines.append(f"{start_utc + first + (last - first) * (2 * i + 1) // 18},node000,GPU-{uuid},1980,{600 + i},0.{i}")
        self.analyse(self.traces, "out", "--csv", "--nvml", self.write("dcgm.csv", "\n".join(lines) + "\n"))
        (row,) = [row for row in self.rows("out", "gpu_samples") if row["trace_rank"] == "0"]
        self.assertEqual([float(row[k]) for k in ("samples", "median_sm_clock_mhz", "median_power_w", "median_sm_active_percent",
                                                  "median_tensor_active_percent")], [9, 1980, 604, 40, -1])

    def test_bad_files_say_problem_and_remedy(self):
        cases = (("--ncu", "a,b\n1,2\n", "ncu --import"), ("--cublas-log", "nothing\n", "CUBLAS_LOGINFO_DBG=1"),
                 ("--weights", "x gemv\n", "line 1 of the weights"), ("--gpu-peaks", "fp99=1 X\n", "unknown key"),
                 ("--nvml", "a,b\n", "nvidia-smi --query-gpu"), ("--phase-map", "step\n", "has no pattern"),
                 ("--requests", "a,b\n1,2\n", "--save-detailed"), ("--requests", '{"ttfts": ', "is none"),
                 ("--nccl-log", "hello\n", "NCCL_DEBUG_SUBSYS"))
        for option, text, words in cases:
            with self.subTest(option=option):
                done = self.explain(self.traces, "refused", option, self.write("bad", text))
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
                done = self.explain(self.traces, "refused", option, self.directory / "absent")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("check the path", done.stderr)

    def test_schema_names_every_table_that_is_written(self):
        self.analyse(self.traces, "out", "--csv")
        schema = run([TOOL, "--print-schema"], check=True).stdout
        for table in (self.directory / "out" / "tables").glob("*.csv"):
            with open(table, newline="") as file:
                header = next(csv.reader(file))
            section = schema.split(f"\n{table.stem}: ")[1].split("\n\n")[0]
            self.assertEqual([line.split()[0] for line in section.splitlines()[1:]], header, table.stem)

    def test_input_schema_tells_what_of_an_export_is_read(self):
        (export, *_) = sorted(self.traces.glob("*.sqlite"))
        copy = self.directory / "copy.sqlite"
        shutil.copy(export, copy)
        with contextlib.closing(sqlite3.connect(copy)) as database, database:
            database.execute("CREATE TABLE PMU_EVENTS (start INTEGER, counter TEXT)")
            database.execute("INSERT INTO PMU_EVENTS VALUES (1, 'a'), (2, 'b')")
            (kernels,) = database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
            columns = [row[1] for row in database.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")]
        printed = run([TOOL, "--print-input-schema", copy], check=True).stdout.splitlines()
        self.assertIn("PMU_EVENTS: 2 rows, not read: start, counter", printed)
        self.assertIn(f"CUPTI_ACTIVITY_KIND_KERNEL: {kernels} rows: {', '.join(columns)}", printed)
        absent = run([TOOL, "--print-input-schema", self.directory / "absent.sqlite"])
        self.assertEqual(absent.returncode, 3)
        self.assertIn("absent.sqlite", absent.stderr)


if __name__ == "__main__":
    main()
