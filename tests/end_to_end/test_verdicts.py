"""A planted fault is found, and a clean job stays clean: against the truth of simulated jobs, over several seeds."""

import json

from support import EndToEndTest, main


class Verdicts(EndToEndTest):
    def test_slow_gpu_is_named_first(self):
        for seed in range(10):
            with self.subTest(seed=seed):
                slow = (3 * seed + 1) % 8
                traces = self.synth(f"job{seed}", "--seed", str(seed), "--steps", "12", "--fault",
                                    f"slow_gpu:rank={slow},factor=1.3")
                report = self.analyse(traces, f"out{seed}", ranks=2)
                self.assertTrue(report["stragglers"], "nobody was named")
                self.assertEqual(report["stragglers"][0]["trace_rank"], slow)
                self.assertEqual(len(report["stragglers"]), 1, "a victim was named, too")
                self.assertEqual(report["findings"][0]["id"], "straggler")
                summary = (self.directory / f"out{seed}" / "report.md").read_text().splitlines()
                self.assertTrue(any(f"rank {slow}" in line for line in summary[:12]), "not on the first screen")

    def test_clean_job_names_nobody(self):
        for seed in range(10):
            with self.subTest(seed=seed):
                traces = self.synth(f"job{seed}", "--seed", str(100 + seed), "--steps", "12")
                report = self.analyse(traces, f"out{seed}", ranks=2)
                self.assertEqual(report["stragglers"], [])
                self.assertNotIn("straggler", [finding["id"] for finding in report["findings"]])

    def test_every_instance_of_the_truth_is_matched(self):
        traces = self.synth("job", "--seed", "5", "--steps", "6", "--tp", "2")
        truth = json.loads((traces / "truth.json").read_text())
        report = self.analyse(traces, "out")
        self.assertEqual(report["collectives"]["partial"], 0)
        self.assertEqual(report["collectives"]["unmatched_arrivals"], 0)
        self.assertEqual(report["collectives"]["complete"], len(truth["instances"]))


if __name__ == "__main__":
    main()
