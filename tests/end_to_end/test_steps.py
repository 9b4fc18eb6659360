"""Steps of the job: the right ones or none, whether ranges or kernels tell of them, and what changes from step to step."""

import csv
import json

from support import EndToEndTest, main, seeds

# Nothing but what `nsys profile -t cuda` records.
CUDA_ALONE = ["--capture", "no_nvtx", "--truth", "none"]
SMALL = ["--layers", "3", "--gradient-mib", "8", "--activation-mib", "4"]

LAYOUTS = {
    "data": ["--nodes", "1", "--gpus-per-node", "4"],
    "sharded": ["--nodes", "1", "--gpus-per-node", "4", "--dp-style", "fully_sharded"],
    "tensor": ["--nodes", "2", "--gpus-per-node", "4", "--tp", "2"],
    "sequence": ["--nodes", "2", "--gpus-per-node", "2", "--tp", "2", "--tp-style", "sequence_parallel"],
    "accumulation": ["--nodes", "1", "--gpus-per-node", "4", "--micro-batches", "4"],
    "sharded accumulation": ["--nodes", "1", "--gpus-per-node", "4", "--dp-style", "fully_sharded", "--micro-batches", "2"],
    "pipeline": ["--nodes", "1", "--gpus-per-node", "4", "--pp", "2"],
    "deep pipeline": ["--nodes", "2", "--gpus-per-node", "4", "--pp", "4", "--tp", "2"],
    "experts": ["--nodes", "1", "--gpus-per-node", "4", "--moe"],
    "one stream": ["--nodes", "1", "--gpus-per-node", "4", "--tp", "2", "--nccl-on-compute-stream"],
    "host far ahead": ["--nodes", "1", "--gpus-per-node", "4", "--sync-every", "0"],
    "graph by node": ["--nodes", "1", "--gpus-per-node", "4", "--graph", "node"],
}


class StepsTest(EndToEndTest):
    def job(self, seed, *options):
        self.synth("job", "--seed", str(seed), "--force", *SMALL, *options)
        report = self.analyse(self.directory / "job", "out", "--force", "--quiet")
        for file in (self.directory / "job").iterdir():
            file.unlink()
        return report


class FromKernels(StepsTest):
    def test_all_steps_of_every_layout(self):
        for number, (name, layout) in enumerate(LAYOUTS.items()):
            for seed in seeds(4):
                steps = 20 if (number + seed) % 2 else 60 if len(LAYOUTS) % 2 else 30
                with self.subTest(layout=name, seed=seed):
                    report = self.job(100 + seed, *CUDA_ALONE, *layout, "--steps", str(steps))
                    self.assertEqual((report["delay"]["steps"], report["delay"]["step_source"]), (steps, "periodicity"))
                    self.assertEqual(report["stragglers"], [])

    def test_parts_of_steps_at_the_ends_of_a_capture(self):
        for seed in seeds(6):
            with self.subTest(seed=seed):
                report = self.job(200 + seed, *CUDA_ALONE, *LAYOUTS["tensor"], "--steps", "30", "--capture", "ragged=0.2")
                # Every rank loses up to a fifth at either end, no two of eight the same.
                self.assertTrue(24 <= report["delay"]["steps"] <= 31, report["delay"])

    def test_lost_records_make_no_steps(self):
        for seed in seeds(6):
            with self.subTest(seed=seed):
                report = self.job(300 + seed, *CUDA_ALONE, *LAYOUTS["tensor"], "--steps", "30", "--capture", "drop=0.01")
                self.assertTrue(29 <= report["delay"]["steps"] <= 31, report["delay"])

    def test_who_pauses_in_which_steps(self):
        for rank in (0, 5):
            with self.subTest(rank=rank):
                # A rank that pauses before its first step began later than the others: that step is start-up. Steps
                # by order are counted from the next one.
                report = self.job(11, *CUDA_ALONE, *LAYOUTS["tensor"], "--steps", "40", "--fault",
                                  f"late_host:rank={rank},pause=100ms,kind=sleep,period=5")
                self.assertEqual([(s["trace_rank"], s["pattern"], s["cause"], s["first_step"], s["period_steps"])
                                  for s in report["stragglers"]], [(rank, "periodic", "launch_starved", 4, 5)])


class WithoutSteps(StepsTest):
    def test_no_pattern_is_told(self):
        # Two steps repeat too little.
        report = self.job(5, *CUDA_ALONE, *LAYOUTS["data"], "--steps", "2", "--fault", "slow_gpu:rank=2,factor=1.5")
        self.assertEqual((report["delay"]["steps"], report["delay"]["step_source"]), (0, "none"))
        late = report["stragglers"] + report["suspects"]
        self.assertEqual({one["trace_rank"] for one in late}, {2})
        self.assertEqual({one["pattern"] for one in late}, {"unknown"})


class Change(StepsTest):
    def finding(self, report):
        return next((f for f in report["findings"] if f["id"] == "step-time-change"), None)

    def test_every_gpu_slower_from_a_step_on(self):
        for seed in seeds(5):
            for nvtx in ([], CUDA_ALONE):
                with self.subTest(seed=seed, nvtx=not nvtx):
                    report = self.job(seed, *LAYOUTS["data"], "--steps", "30", "--fault",
                                      "slow_gpu:stage=0,factor=1.4,first_step=15", *nvtx)
                    finding = self.finding(report)
                    self.assertIsNotNone(finding, json.dumps(report["step_time"]))
                    self.assertIn("from step 15 on", finding["title"])
                    change, = report["step_time"]["change_points"]
                    self.assertEqual(change["step"], 15)
                    self.assertAlmostEqual(change["after_ns"] / change["before_ns"], 1.4, delta=0.08)
                    # Half of the steps would take that much less.
                    windows = sum(rank["window_ns"] for rank in report["ranks"])
                    self.assertAlmostEqual(finding["cost_ns"] / windows, 0.4 * 15 / (15 + 1.4 * 15), delta=0.04)
                    self.assertEqual(report["stragglers"], [])

    def test_no_change_in_a_clean_job(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                report = self.job(seed, *LAYOUTS["data"], "--steps", "30", "--noise", "kernels=0.02,wander=0.02,pauses=0.1")
                self.assertEqual(report["step_time"]["change_points"], [])
                self.assertIsNone(self.finding(report))

    def test_a_change_that_one_rank_makes_is_told_once(self):
        report = self.job(7, *LAYOUTS["data"], "--steps", "40", "--fault", "slow_gpu:rank=3,factor=1.5,first_step=20")
        self.assertEqual([s["trace_rank"] for s in report["stragglers"]], [3])
        self.assertEqual([change["step"] for change in report["step_time"]["change_points"]], [20])
        self.assertIsNone(self.finding(report))


class Transient(StepsTest):
    def test_its_times_lie_in_its_steps(self):
        for seed in seeds(4):
            for fault in ("slow_gpu:rank=3,factor=1.5,first_step=14,last_step=23", "late_host:rank=1,pause=60ms,kind=sleep,period=6"):
                with self.subTest(seed=seed, fault=fault):
                    traces = self.synth("job", *SMALL, *LAYOUTS["data"], "--steps", "40", "--noise", "pauses=0.1", "--seed",
                                        str(60 + seed), "--fault", fault, "--truth", "none", "--force")
                    report = self.analyse(traces, "out", "--csv", "--force", "--quiet")
                    one, = report["stragglers"]
                    with open(self.directory / "out" / "tables" / "steps.csv", newline="", encoding="utf-8") as rows:
                        begins = [(int(row["step"]), int(row["start_ns"])) for row in csv.DictReader(rows)]
                    # Of one rank or the other: who is late begins its step late.
                    first = min(start_ns for step, start_ns in begins if step == one["first_step"])
                    end = max([start_ns for step, start_ns in begins if step == one["last_step"] + 1], default=1 << 62)
                    self.assertGreaterEqual(one["first_ns"], first)
                    self.assertLessEqual(one["last_ns"], end)
                    self.assertLessEqual(one["first_ns"], one["last_ns"])


class OneStall(StepsTest):
    def test_of_one_rank_that_all_groups_wait_for(self):
        for rank in (0, 5):
            with self.subTest(rank=rank):
                report = self.job(3, *LAYOUTS["tensor"], "--steps", "30", "--fault",
                                  f"late_host:rank={rank},pause=500ms,kind=sleep,first_step=15,last_step=15")
                finding, = (f for f in report["findings"] if f["id"] == "long-waits")
                self.assertIn(f"1 delay of rank {rank} costs", finding["title"])
                self.assertIn("its host launches late", finding["title"])
                self.assertEqual((report["verdict"]["finding"], finding["trace_ranks"]), ("long-waits", [rank]))
                self.assertAlmostEqual(finding["saved_share"], 0.5 / 0.78, delta=0.05)
                # It happened once: priced in time, and nothing tells how often it comes.
                verdict, (mended,) = report["verdict"], (w for w in report["what_if"] if w["finding"] == "long-waits")
                self.assertAlmostEqual(mended["once_ns"] / 1e9, 0.5, delta=0.02)
                self.assertEqual([one[end] for one in (verdict, mended) for end in ("low_share", "high_share")], [None] * 4)
                self.assertIn(f"saves one pause of {mended['once_ns'] / 1e6:.0f} ms (-{100 * mended['saved_share']:.1f}%)",
                              finding["title"])
                self.assertGreater(finding["cost_ns"], 1.5e9, "three of a data-parallel group and a tensor partner, 500 ms each")


if __name__ == "__main__":
    main()
