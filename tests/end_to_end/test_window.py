"""A part of the run: the same part of every rank and section, against the truth of simulated jobs."""

import json

from support import EndToEndTest, main

PARTS = ("compute_ns", "exposed_communication_ns", "copy_ns", "opaque_graph_ns", "idle_ns")


class Window(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.traces = self.synth("job", "--nodes", "2", "--gpus-per-node", "2", "--steps", "6", "--seed", "3")
        self.truth = json.loads((self.traces / "truth.json").read_text())

    def check(self, report, instances):
        """All instances of the window complete; every budget adds up."""
        self.assertEqual(report["collectives"],
                         {"instances": instances, "complete": instances, "partial": 0, "unmatched_arrivals": 0, "withheld_arrivals": 0,
                          "unjudged": 0})
        for rank in report["ranks"]:
            self.assertEqual(sum(rank[part] for part in PARTS), rank["window_ns"])
            self.assertEqual(rank["arrivals"], instances)

    def in_steps(self, *steps):
        return sum(instance["step"] in steps for instance in self.truth["instances"])

    def test_steps_hold_their_collectives_exactly(self):
        report = self.analyse(self.traces, "out", "--steps", "2:3", ranks=2)
        self.check(report, self.in_steps(2, 3))
        self.assertEqual(report["window"], "--steps 2:3")
        self.assertIn("--steps 2:3", (self.directory / "out" / "report.md").read_text())

    def test_steps_without_ranges_are_those_by_order(self):
        traces = self.synth("bare", "--nodes", "2", "--gpus-per-node", "2", "--steps", "8", "--seed", "3", "--capture", "no_nvtx", "--export",
                            "payload=none")
        whole = self.analyse(traces, "all")
        report = self.analyse(traces, "rest", "--skip-warmup=2")
        self.assertEqual((whole["delay"]["steps"], report["delay"]["steps"]), (8, 6))
        self.assertEqual(report["collectives"]["unmatched_arrivals"], 0)

    def test_where_nothing_recurs_all_is_analysed_and_that_is_said(self):
        traces = self.synth("one", "--nodes", "1", "--gpus-per-node", "2", "--steps", "2", "--layers", "1", "--seed", "3", "--capture", "no_nvtx")
        report = self.analyse(traces, "out", "--skip-warmup")
        self.assertEqual(report["ranks"], self.analyse(traces, "all", "--whole-run")["ranks"])
        self.assertIn("--skip-warmup leave all of it", " ".join(warning["message"] for warning in report["warnings"]))

    def test_warmup_and_steps_add_up_to_the_whole(self):
        whole = self.analyse(self.traces, "whole")
        self.assertIsNone(whole["window"])
        self.check(self.analyse(self.traces, "rest", "--skip-warmup"), self.in_steps(1, 2, 3, 4, 5))
        self.check(self.analyse(self.traces, "first", "--steps", ":0"), self.in_steps(0))
        self.check(self.analyse(self.traces, "range", "--filter-nvtx", "step 4"), self.in_steps(4))

    def test_time_means_job_time_on_every_rank(self):
        # Step 3 by the truth, widened to gaps between collectives; sessions start up to 0.4 s apart.
        enters = [member[1] for i in self.truth["instances"] if i["step"] == 3 for member in i["members"]]
        start, end = min(enters) - 2_000, max(enters) + 2_000
        inside = sum(start <= member[1] <= end for i in self.truth["instances"] for member in i["members"])
        report = self.analyse(self.traces, "out", "--filter-time", f"{start}/{end}ns", ranks=3)
        # The hosts' clocks disagree by milliseconds, so collectives at the edges may miss members.
        arrivals = sum(rank["arrivals"] for rank in report["ranks"]) + report["collectives"]["unmatched_arrivals"]
        self.assertGreater(arrivals, 0)
        for rank in report["ranks"]:
            self.assertEqual(sum(rank[part] for part in PARTS), rank["window_ns"])
            self.assertLess(rank["window_ns"], 3 * (end - start))
        self.assertLessEqual(arrivals, 2 * inside)

    def test_what_cannot_be_is_refused(self):
        for option, value, code, words in (("--filter-time", "5x/6s", 2, "START/END"),
                                           ("--steps", "b", 2, "FIRST:LAST"),
                                           ("--filter-nvtx", "@x", 2, "names no range"),
                                           ("--phase-map", "/nonexistent", 2, "cannot read the file of --phase-map"),
                                           ("--steps", "70:80", 3, "steps asked for")):
            with self.subTest(option=option, value=value):
                done = self.explain(self.traces, "refused", option, value)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    main()
