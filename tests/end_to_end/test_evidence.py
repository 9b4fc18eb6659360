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
