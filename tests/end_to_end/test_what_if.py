"""What the replay says that mending a fault saves, against the same job without the fault (nsys-explain-synth --twin)."""

import json

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
    "lost calls": (["--nodes", 1, "--gpus-per-node", 4, "--tp", 2, "--layers", 2, "--orphans", 0.05, "--fault",
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
                self.assertEqual(report["step_time"]["replay_error"], 0)
                self.assertEqual(report["step_time"]["steps"], 12)
                shares = [finding["saved_share"] for finding in report["findings"] if finding["id"] in ("straggler", "slow-link")]
                self.assertIn(told["saved_share"], shares)

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
        self.assertEqual(report["what_if"], [])
        self.assertEqual(report["step_time"]["source"], "nvtx")
        self.assertEqual(report["step_time"]["replay_error"], 0)

    def test_any_number_of_tool_ranks_tells_the_same(self):
        job = self.synth("job", "--nodes", 2, "--gpus-per-node", 2, "--layers", 2, "--steps", 12, "--drop", 0.01, "--fault",
                         "slow_gpu:rank=1,factor=1.3")
        one, three = self.analyse(job, "one"), self.analyse(job, "three", ranks=3)
        self.assertEqual(one["what_if"], three["what_if"])
        self.assertEqual(one["step_time"], three["step_time"])
        self.assertTrue(one["what_if"])


if __name__ == "__main__":
    main()
