"""Phases, attribution and evidence from other tools, as a user gives them: against the truth of a simulated job."""

import csv
import datetime
import json
import sqlite3

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
        self.assertIn("## Phases of the program", (self.directory / "out" / "report.md").read_text())

    def test_missing_launches_are_said(self):
        trace = self.traces / "rank_00001.sqlite"
        with sqlite3.connect(trace) as connection:
            calls = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()[0]
            connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid > ?", (calls // 10,))
        report = self.analyse(self.traces, "out")
        finding = next(f for f in report["findings"] if f["id"] == "weak-launch-attribution")
        self.assertIn("on 1 of 2 trace ranks", finding["title"])
        self.assertIn("trace rank 1", finding["evidence"][0])

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
                            "--gpu-metrics")
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
        self.assertIn("1 trace ranks", finding["title"])
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
        markdown = (self.directory / "clean" / "report.md").read_text()
        self.assertIn("`580.95.05`", markdown.split("## What it ran on")[1].split("\n## ")[0])
        with sqlite3.connect(self.traces / "rank_00001.sqlite") as connection:
            secret = connection.execute("SELECT value FROM META_DATA_CAPTURE WHERE value LIKE 'AWS_SECRET%'").fetchone()
            self.assertIsNotNone(secret)
            connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = '53512903' WHERE name = 'NvDriverVersion'")
            connection.execute("UPDATE TARGET_INFO_GPU SET clockRate = 1755000000")
        mixed = self.analyse(self.traces, "mixed", "--csv", "--force", ranks=2)
        findings = {finding["id"]: finding for finding in mixed["findings"]}
        self.assertIn("driver: 580.95.05 (trace rank 0), 535.129.03 (trace rank 1)",
                      findings["mixed-software"]["evidence"])
        self.assertEqual(findings["mixed-gpus"]["severity"], "medium")
        self.assertIn("sm_clock_limit", findings["mixed-gpus"]["evidence"][0])
        hidden = secret[0].split("=")[1].strip('"').encode()
        for path in (self.directory / "mixed").rglob("*"):
            if path.is_file():
                self.assertNotIn(hidden, path.read_bytes(), path)

    def test_bad_files_say_problem_and_remedy(self):
        cases = (("--ncu", "a,b\n1,2\n", "ncu --import"), ("--cublas-log", "nothing\n", "CUBLAS_LOGINFO_DBG=1"),
                 ("--weights", "x gemv\n", "line 1 of the weights"), ("--gpu-peaks", "fp99=1 X\n", "unknown key"),
                 ("--nvml", "a,b\n", "nvidia-smi --query-gpu"), ("--phase-map", "step\n", "has no pattern"))
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


if __name__ == "__main__":
    main()
