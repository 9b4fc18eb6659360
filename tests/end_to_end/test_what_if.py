"""What the replay says that mending a fault saves, against the same job without the fault (nsys-explain-synth --twin)."""

import contextlib
import csv
import json
import sqlite3

from support import EndToEndTest, main

POINT = 0.01  # of the elapsed time

# Options of a job with one fault, and its trace rank: how ranks wait for each other differs.
JOBS = {
    "overlapped gradients": (["--nodes", 1, "--gpus-per-node", 4, "--layers", 3, "--fault", "slow_gpu:rank=2,factor=1.3"], 2),
    "sharded weights": (["--nodes", 1, "--gpus-per-node", 2, "--dp-style", "fully_sharded", "--layers", 2, "--fault",
                         "sync_stall:rank=1,pause=3ms"], 1),
    "tensor parallel": (["--nodes", 1, "--gpus-per-node", 4, "--tp", 2, "--layers", 2, "--fault",
                         "late_host:rank=0,pause=4ms,kind=gc"], 0),
    "pipeline": (["--nodes", 1, "--gpus-per-node", 8, "--tp", 2, "--pp", 2, "--layers", 1, "--fault",
                  "blocking_copy:rank=5,bytes=24MB"], 5),
    "slow link": (["--nodes", 2, "--gpus-per-node", 4, "--tp", 2, "--layers", 2, "--fault", "slow_link:rank=6,factor=3"], 6),
    "weights gathered before the tensor group meets": (["--nodes", 2, "--gpus-per-node", 4, "--tp", 4, "--tp-style", "sequence_parallel",
                                                       "--dp-style", "fully_sharded", "--layers", 2, "--fault",
                                                       "extra_work:rank=1,factor=1.45,mode=more"], 1),
    "lost calls": (["--nodes", 1, "--gpus-per-node", 4, "--tp", 2, "--layers", 2, "--capture", "orphans=0.05", "--fault",
                    "extra_work:rank=3,factor=1.4"], 3),
}


class WhatIf(EndToEndTest):
    def elapsed(self, name):
        elapsed = json.loads((self.directory / name / "truth.json").read_text())["elapsed"]
        return elapsed["step_ends_ns"][-1] - elapsed["start_ns"]

    def of_rank(self, report, rank, subject):
        found = [what_if for what_if in report["what_if"] if what_if["subject"] == subject and what_if["trace_ranks"] == [rank]]
        self.assertEqual(len(found), 1, report["what_if"])
        return found[0]

    def test_a_mended_job_takes_as_long_as_its_twin(self):
        for number, (name, (options, rank)) in enumerate(JOBS.items()):
            with self.subTest(name):
                job = f"job{number}"
                self.synth(job, "--twin", "all", "--steps", 12, "--seed", 70 + number, *options)
                report = self.analyse(self.directory / job, f"out{number}")
                truth = 1 - self.elapsed(f"{job}-twin") / self.elapsed(job)
                told = self.of_rank(report, rank, "link" if name == "slow link" else "trace_rank")
                self.assertGreater(truth, 0.03)
                self.assertAlmostEqual(told["saved_share"], truth, delta=POINT)
                # Where calls were lost, who waits for whom is guessed: a step is foreseen less well from another one.
                self.assertLess(report["step_time"]["replay_error"], 0.05 if name == "lost calls" else 0.02)
                self.assertEqual(report["step_time"]["steps"], 12)
                if name != "slow link":  # one price: of the straggler, its slowdown and the replay
                    costs = [one["cost_share"] for one in report["stragglers"] if one["trace_ranks"] == [rank]]
                    self.assertEqual(costs, [told["saved_share"]])
                    slowed = [one["slowdown"] for one in report["slowdown"]["by"] if (one["kind"], one["name"]) == ("trace_rank", str(rank))]
                    self.assertAlmostEqual(1 - 1 / slowed[0], told["saved_share"], delta=1e-9)
                shares = [finding["saved_share"] for finding in report["findings"] if finding["id"] in ("straggler", "slow-link")]
                self.assertIn(told["saved_share"], shares)

    def twin_saves(self, name, *options):
        self.synth(name, "--twin", "all", *options)
        return 1 - self.elapsed(f"{name}-twin") / self.elapsed(name)

    def test_inside_graphs_by_node_the_order_of_nodes_tells_who_waits(self):
        layouts = {"ddp": ["--nodes", 1], "sharded": ["--nodes", 1, "--dp-style", "fully_sharded"], "tp": ["--nodes", 1, "--tp", 4],
                   "tpdp": ["--nodes", 2, "--tp", 2], "pp": ["--nodes", 2, "--pp", 4], "moe": ["--nodes", 1, "--moe"],
                   "shared": ["--nodes", 2, "--tp", 2, "--shared-nccl-stream"]}
        for name, options in layouts.items():
            with self.subTest(name):
                truth = self.twin_saves(name, *options, "--graph", "node", "--gpus-per-node", 4, "--steps", 12, "--layers", 2, "--fault",
                                        "slow_gpu:rank=1,factor=1.3")
                report = self.analyse(self.directory / name, f"{name}-out")
                self.assertAlmostEqual(self.of_rank(report, 1, "trace_rank")["saved_share"], truth, delta=2 * POINT)

    def test_without_calls_ids_tell_what_was_launched_first(self):
        truth = self.twin_saves("job", "--nodes", 1, "--gpus-per-node", 4, "--steps", 20, "--fault", "slow_gpu:rank=1,factor=1.3")
        for export in (self.directory / "job").glob("*.sqlite"):
            with contextlib.closing(sqlite3.connect(export)) as database:
                database.execute("drop table CUPTI_ACTIVITY_KIND_RUNTIME")
                database.commit()
        report = self.analyse(self.directory / "job", "out")
        self.assertAlmostEqual(self.of_rank(report, 1, "trace_rank")["saved_share"], truth, delta=POINT)

    def test_a_stage_with_more_layers_is_balanced_by_sharing_them_out(self):
        # 5, 5, 5 and 9 layers are 24, six for each of four stages.
        pipeline = ["--nodes", 1, "--gpus-per-node", 8, "--pp", 4, "--sync-every", 0, "--steps", 8]
        self.synth("job", *pipeline, "--layers", 5, "--fault", "extra_work:stage=3,mode=layers,count=4")
        self.synth("balanced", *pipeline, "--layers", 6)
        report = self.analyse(self.directory / "job", "out")
        told = next(one for one in report["what_if"] if one["subject"] == "stage_balanced")
        truth = 1 - self.elapsed("balanced") / self.elapsed("job")
        self.assertGreater(truth, 0.15)
        self.assertAlmostEqual(told["saved_share"], truth, delta=3 * POINT)
        self.assertEqual(told["trace_ranks"], [6, 7])

    def test_kernels_that_take_longer_now_here_now_there_are_balanced(self):
        # In each of 12 steps another of four ranks computes for 1.6 times as long: 1.15 times on average.
        slow = [option for step in range(12) for option in
                ("--fault", f"slow_gpu:rank={(3 * step + step // 4) % 4},factor=1.6,first_step={step},last_step={step}")]
        shape = ["--nodes", 1, "--gpus-per-node", 4, "--layers", 3, "--steps", 12]
        self.synth("job", *shape, *slow)
        self.synth("balanced", *shape, "--compute-scale", 1.15)
        report = self.analyse(self.directory / "job", "out")
        truth = 1 - self.elapsed("balanced") / self.elapsed("job")
        self.assertGreater(truth, 0.2)
        self.assertAlmostEqual(report["verdict"]["saved_share"], truth, delta=POINT)
        self.assertEqual(report["verdict"]["finding"], "rotating-delay")
        self.assertIn("Balancing it shortens a step from", report["verdict"]["text"])

    def test_one_with_twice_the_work_in_a_grid_is_priced(self):
        truth = self.twin_saves("job", "--nodes", 2, "--gpus-per-node", 8, "--pp", 4, "--steps", 12, "--layers", 2, "--fault",
                                "extra_work:rank=6,factor=2,mode=more")
        report = self.analyse(self.directory / "job", "out")
        self.assertAlmostEqual(self.of_rank(report, 6, "trace_rank")["saved_share"], truth, delta=0.1 * truth)

    def test_of_two_faults_a_twin_may_lack_one(self):
        faults = ["slow_gpu:rank=1,factor=1.25", "late_host:rank=3,pause=2ms,first_step=4,last_step=9"]
        self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--layers", 2, "--steps", 12, "--twin", faults[1], "--fault", faults[0],
                   "--fault", faults[1])
        kinds = [[fault["kind"] for fault in json.loads((self.directory / name / "truth.json").read_text())["faults"]]
                 for name in ("job", "job-twin")]
        self.assertEqual(kinds, [["slow_gpu", "late_host"], ["slow_gpu"]])
        self.assertLess(self.elapsed("job-twin"), self.elapsed("job"))

    def test_nobody_is_mended_in_a_clean_job(self):
        job = self.synth("clean", "--nodes", 1, "--gpus-per-node", 4, "--layers", 2, "--steps", 12)
        report = self.analyse(job, "out")
        self.assertEqual([what_if["subject"] for what_if in report["what_if"]], ["work_balanced", "no_launch_gaps", "communication_hidden"])
        self.assertEqual(report["step_time"]["source"], "nvtx")
        self.assertLess(report["step_time"]["replay_error"], 0.02)

    def test_the_critical_path_is_as_long_as_the_run(self):
        job = self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--tp", 2, "--layers", 2, "--steps", 12, "--fault",
                         "slow_gpu:rank=2,factor=1.5")
        report = self.analyse(job, "out", "--csv")
        start = min(rank["window_start_ns"] for rank in report["ranks"])
        end = max(rank["window_start_ns"] + rank["window_ns"] for rank in report["ranks"])
        self.assertEqual(sum(part["duration_ns"] for part in report["critical_path"]), end - start)
        with open(self.directory / "out" / "tables" / "critical_path.csv", newline="") as table:
            rows = list(csv.DictReader(table))
        self.assertEqual(sum(int(row["duration_ns"]) for row in rows), end - start)
        self.assertEqual({int(row["step"]) for row in rows} - {-1}, set(range(12)))
        compute = {part["trace_rank"]: part["duration_ns"] for part in report["critical_path"] if part["kind"] == "compute"}
        self.assertGreater(compute[2], 0.5 * (end - start))  # the others wait for it

    def test_exposed_communication_is_told_to_the_nanosecond(self):
        job = self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--tp", 2, "--layers", 2, "--steps", 6, "--fault",
                         "slow_gpu:rank=2,factor=1.5")
        report = self.analyse(job, "out")
        for rank in report["ranks"]:
            of_rank = [part for part in report["exposed_communication"] if part["trace_rank"] == rank["trace_rank"]]
            self.assertEqual(sum(part["duration_ns"] for part in of_rank), rank["exposed_communication_ns"])
            # Tensor parallel collectives lie between kernels that wait for them.
            blocking = sum(part["duration_ns"] for part in of_rank if part["compute"] == "blocking")
            self.assertGreater(blocking, 0.9 * rank["exposed_communication_ns"])
        skew = {rank: sum(part["duration_ns"] for part in report["exposed_communication"]
                          if part["trace_rank"] == rank and part["collective"] == "arrival_skew") for rank in range(4)}
        self.assertGreater(skew[3], 5 * skew[2])  # it waits for the slow one, which waits for nobody

    def test_what_all_ranks_could_save(self):
        job = self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--pp", 2, "--layers", 2, "--steps", 8)
        report = self.analyse(job, "out")
        what_if = {one["subject"]: one for one in report["what_if"]}
        self.assertEqual(what_if["communication_hidden"]["trace_ranks"], [])
        self.assertGreater(what_if["communication_hidden"]["saved_share"], 0)
        slowdown = report["slowdown"]
        self.assertGreaterEqual(slowdown["measured_ns"], slowdown["without_launch_gaps_ns"])
        self.assertLess(abs(slowdown["slowdown"] - 1), 0.05)  # all alike
        self.assertEqual({one["kind"] for one in slowdown["by"]}, {"operation", "trace_rank"})
        for one in slowdown["by"]:
            self.assertGreaterEqual(one["slowdown"], 1)
        for one in report["what_if"]:
            self.assertGreaterEqual(one["step_ns_before"], one["step_ns_after"])
            self.assertTrue(0 <= one["saved_share"] <= 1)
            if one["low_share"] is not None:
                self.assertTrue(0 <= one["low_share"] <= one["saved_share"] <= one["high_share"] <= 1)

    def test_the_worst_rank_explains_the_slowdown(self):
        job = self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--layers", 2, "--steps", 8, "--fault",
                         "slow_gpu:rank=1,factor=1.4")
        slowdown = self.analyse(job, "out")["slowdown"]
        worst = next(one for one in slowdown["by"] if one["kind"] == "trace_rank")
        self.assertEqual(worst["name"], "1")
        self.assertAlmostEqual(worst["slowdown"], slowdown["slowdown"], delta=0.02)
        self.assertGreater(slowdown["worst_ranks_share"], 0.9)
        self.assertIsNone(slowdown["last_stage_share"])

    def test_any_number_of_tool_ranks_tells_the_same(self):
        job = self.synth("job", "--nodes", 2, "--gpus-per-node", 2, "--layers", 2, "--steps", 12, "--capture", "drop=0.01", "--fault",
                         "slow_gpu:rank=1,factor=1.3")
        one, three = self.analyse(job, "one"), self.analyse(job, "three", ranks=3)
        self.assertEqual(one["what_if"], three["what_if"])
        self.assertEqual(one["step_time"], three["step_time"])
        for key in ("critical_path", "exposed_communication", "slowdown"):
            self.assertEqual(one[key], three[key])
        self.assertTrue(one["what_if"])


if __name__ == "__main__":
    main()
