"""Kernels, host and GPU time in the results: tables, the options for categories, and a slow GPU planted in a job."""

import contextlib
import json
import sqlite3

import h5py

from support import TOOL, EndToEndTest, main, run


def busy_ns(path):
    """Time in which at least one kernel, copy or set ran on the GPU, by SQL."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        spans = [span for table in ("KERNEL", "MEMCPY", "MEMSET") if f"CUPTI_ACTIVITY_KIND_{table}" in tables
                 for span in connection.execute(f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_{table}")]
    busy, until = 0, 0
    for start, end in sorted(spans):
        busy, until = busy + max(0, end - max(start, until)), max(until, end)
    return busy


class Activity(EndToEndTest):
    def table(self, name, out="out"):
        with h5py.File(self.directory / out / "store.h5") as store:
            group = store[name]
            columns = {c: group[c].asstr()[()] if h5py.check_string_dtype(group[c].dtype) else group[c][()]
                       for c in group}
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    def test_tables_agree_with_the_budget(self):
        traces = self.synth("traces", "--nodes", "1", "--steps", "12", "--seed", "5")
        report = self.analyse(traces, "out", ranks=2)
        for rank in report["ranks"]:
            def total(table, column):
                return sum(int(row[column]) for row in self.table(table) if row["trace_rank"] == rank["trace_rank"])
            self.assertEqual(total("idle_causes", "total_ns"), rank["idle_ns"])
            self.assertEqual(total("gpu_utilisation", "span_ns"), rank["window_ns"])
            self.assertEqual(total("gpu_utilisation", "compute_ns"), rank["compute_ns"])
            self.assertEqual(total("stream_concurrency", "duration_ns"), rank["window_ns"])
            self.assertEqual(total("categories", "elapsed_ns"), rank["window_ns"] - rank["idle_ns"])
            self.assertEqual(total("gpu_elapsed", "elapsed_ns"), rank["window_ns"] - rank["idle_ns"])
        kernels = sum(int(row["total_ns"]) for row in self.table("kernels"))
        self.assertEqual(kernels, sum(int(row["total_ns"]) for row in self.table("kernels_by_launch")))
        self.assertEqual(kernels, sum(process["kernel_ns"] for process in report["activity"]["processes"]))

    def test_a_pattern_that_is_of_no_input_is_an_error(self):
        traces = self.synth("traces", "--nodes", "1", "--gpus-per-node", "2", "--steps", "2", "--seed", "1")
        done = self.explain(traces, "out", "--categories-of", "*sglang*.sqlite=vllm/ds")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'*sglang*.sqlite' matches no input, so", done.stdout + done.stderr)

    def test_slow_gpu_is_found_and_a_healthy_job_has_none(self):
        for seed in (1, 2, 3):
            clean = self.analyse(self.synth(f"clean{seed}", "--nodes", "1", "--steps", "20", "--seed", str(seed)),
                                 f"c{seed}")
            self.assertNotIn("slow-gpu", [finding["id"] for finding in clean["findings"]])
            slow = self.analyse(self.synth(f"slow{seed}", "--nodes", "1", "--steps", "20", "--seed", str(seed),
                                           "--fault", "slow_gpu:rank=2,factor=1.1"), f"s{seed}")
            speeds = slow["activity"]["gpu_speeds"]
            self.assertEqual([speed["trace_rank"] for speed in speeds if speed["slow"]], [2], speeds)
            told = [finding["title"] for finding in slow["findings"] if finding["id"] in ("slow-gpu", "straggler")]
            self.assertEqual(len(told), 1, told)
            self.assertIn("(rank 2) ", told[0])

    def test_categories_by_name_file_and_run_time(self):
        traces = self.synth("traces", "--nodes", "1", "--gpus-per-node", "2", "--steps", "5", "--seed", "1")
        path = self.directory / "map.json"
        path.write_text(json.dumps({"mine": {"a": {"nccl": "wires", ".*": "rest"}, "b": {".*": "all"}}}))
        report = self.analyse(traces, "out", "--category-map", path, "--categories", "mine/a", "--elapsed-unprofiled", "50")
        self.assertEqual(report["activity"]["category_map"], "mine/a")
        categories = {(row["trace_rank"], row["category"]): int(row["elapsed_ns"]) for row in self.table("categories")}
        for rank in report["ranks"]:
            busy = rank["window_ns"] - rank["idle_ns"]
            number = rank["trace_rank"]
            self.assertEqual(categories[number, "wires"] + categories[number, "rest"], busy)
            self.assertEqual(categories[number, "cpu (non-GPU)"], 50_000_000_000 - busy)
        self.assertEqual(self.analyse(traces, "llama", "--categories", "vllm/llama")["activity"]["category_map"],
                         "vllm/llama")

    def test_comparison_has_cpu_time_and_total(self):
        traces = self.synth("traces", "--nodes", "1", "--gpus-per-node", "2", "--steps", "5", "--seed", "1")
        self.analyse(traces, "before")
        self.analyse(traces, "now", "--elapsed-unprofiled", "50")
        run([TOOL, "compare", self.directory / "before", self.directory / "now", "--out", self.directory / "compared", "--force"])
        lines = (self.directory / "compared" / "compare.md").read_text().split("## GPU time by category", 1)[1].splitlines()
        cells = {row[0]: row[1:] for row in ([cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|"))}
        self.assertEqual(cells["CPU (no GPU work)"][0], "-")
        self.assertEqual(cells["total"][1], "10.00 s", "50 s in 5 steps")

    def test_comparison_of_runs_with_maps_of_their_own_adds_up(self):
        traces = self.synth("traces", "--nodes", "1", "--gpus-per-node", "2", "--steps", "5", "--seed", "2")
        path = self.directory / "map.json"
        path.write_text(json.dumps({"mine": {"a": {"nccl": "wires", ".*": "rest"}}}))
        self.analyse(traces, "llama", "--whole-run", "--categories", "vllm/llama")
        self.analyse(traces, "mine", "--whole-run", "--category-map", path, "--elapsed-unprofiled", "50")
        busy = sum(busy_ns(trace) for trace in traces.glob("*.sqlite")) / 2
        run([TOOL, "compare", self.directory / "llama", self.directory / "mine", "--out", self.directory / "compared", "--labels", "A,B"])
        runs = json.loads((self.directory / "compared" / "compare.json").read_text())["runs"]
        self.assertEqual([one["run"] for one in runs], ["A", "B"])
        for one in runs:
            self.assertAlmostEqual(one["busy_ns"], busy, delta=1)
            self.assertAlmostEqual(sum(one["category_ns"].values()), busy, delta=1)

    def test_title_of_the_reports(self):
        traces = self.synth("traces", "--nodes", "1", "--gpus-per-node", "2", "--steps", "2", "--seed", "1")
        title = "Llama <b>70B</b> *night* | </script>"
        self.assertEqual(self.analyse(traces, "out", "--title", title)["title"], title)
        first = (self.directory / "out" / "report.md").read_text().splitlines()[0]
        self.assertNotIn(" <b>", first)
        if (self.directory / "out" / "report.html").exists():
            self.assertNotIn("*night* | </script>", (self.directory / "out" / "report.html").read_text())
        self.assertIsNone(self.analyse(traces, "none")["title"])
        self.assertEqual((self.directory / "none" / "report.md").read_text().splitlines()[0], "# Why is this job slow?")

    def test_inputs_with_maps_of_their_own(self):
        traces = self.synth("traces", "--nodes", "1", "--gpus-per-node", "2", "--steps", "5", "--seed", "1")
        report = self.analyse(traces, "out", "--categories", "vllm/llama", "--categories-of", "*rank_00001.sqlite=vllm/ds,50")
        self.assertEqual(report["activity"]["category_map"], "vllm/llama, vllm/ds")
        rows = self.table("categories")
        maps = {(row["trace_rank"], row["map"]) for row in rows}
        paths = {rank["trace_rank"]: rank["path"] for rank in report["trace_ranks"]}
        self.assertEqual(maps, {(rank, "vllm/ds" if path.endswith("rank_00001.sqlite") else "vllm/llama") for rank, path in paths.items()})
        with_rest = {row["trace_rank"] for row in rows if row["category"] == "cpu (non-GPU)"}
        self.assertEqual(with_rest, {rank for rank, path in paths.items() if path.endswith("rank_00001.sqlite")})
        self.assertEqual(len(with_rest), 1)
        all_ns = sum(rank["window_ns"] - rank["idle_ns"] for rank in report["ranks"] if rank["trace_rank"] not in with_rest)
        told = sum(int(row["elapsed_ns"]) for row in rows if row["trace_rank"] not in with_rest)
        self.assertEqual(told, all_ns)

    def test_bad_category_options(self):
        traces = self.synth("traces", "--nodes", "1", "--gpus-per-node", "2", "--steps", "2", "--seed", "1")
        path = self.directory / "map.json"
        for text, options, expected in (
                (None, ("--categories", "vllm/lama"), "vllm/llama"),
                ("{", ("--category-map", path), "is not JSON"),
                ('{"e": {"m": {"(": "open"}}}', ("--category-map", path), "'('"),
                ('{"e": {"m": {"x": "y"}, "n": {"x": "y"}}}', ("--category-map", path), "e/m, e/n"),
                ('{"e": {"m": {}}}', ("--category-map", path), "no patterns"),
                ('{"e": {"m": {"x": 3}}}', ("--category-map", path), "no text"),
                (None, ("--category-map", "missing.json"), "check the path"),
                (None, ("--categories-of", "llm"), "PATTERN=MAP"),
                (None, ("--categories-of", "*.sqlite=llm,no"), "PATTERN=MAP"),
                (None, ("--categories-of", "*.sqlite=vllm/lama"), "vllm/llama"),
                (None, ("--elapsed-unprofiled", "-1"), "--elapsed-unprofiled")):
            if text is not None:
                path.write_text(text)
            done = self.explain(traces, "out", *options)
            self.assertEqual(done.returncode, 2, (options, done.stdout, done.stderr))
            self.assertIn(expected, done.stdout + done.stderr)
            self.assertFalse((self.directory / "out").exists())


if __name__ == "__main__":
    main()
