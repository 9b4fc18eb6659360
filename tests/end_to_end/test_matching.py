"""Who took part in what, in the results of whole runs, by rank and time alone (see matching_truth.py). Many more jobs
are matched in tests/unit/pipeline/matching_test.cpp, without the reports that a run writes."""

import contextlib
import json
import sqlite3

import h5py

from matching_truth import Score
from support import EndToEndTest, main

GROUPS = ["--nodes", "2", "--gpus-per-node", "4", "--layers", "4", "--clocks", "drift_ppm=20"]
LOSSES = ["--capture", "drop=0.01,ragged=0.2"]


class Matching(EndToEndTest):
    def score(self, *options):
        self.synth("job", *GROUPS, *options, "--force")
        self.analyse(self.directory / "job", "out", "--force", "--quiet", "--whole-run")  # parts of steps, too
        score = Score(self.directory / "job", self.directory / "out")
        self.assertEqual(score.unknown, 0, "an arrival that nobody recorded")
        self.assertEqual(score.wrong_pairs, 0, f"{options}: {score}")
        return score

    def test_whole_runs(self):
        for least_share, options in [
                (0.995, ["--seed", "1", "--tp", "2", "--pp", "2", "--steps", "6", *LOSSES]),
                # Kernels at the begin of a capture lack their calls; where ends do not tell either, they are withheld.
                (0.98, ["--seed", "2", "--tp", "2", "--steps", "8", "--shared-nccl-stream", *LOSSES]),
                # The few all-reduces of all ranks follow what holds these in step.
                (0.98, ["--seed", "3", "--tp", "2", "--pp", "2", "--steps", "8", "--export", "payload=none"])]:
            with self.subTest(options=options):
                score = self.score(*options)
                self.assertGreaterEqual(score.share, least_share, str(score))

    def test_a_recorded_communicator_is_matched_in_order_whatever_a_clock_does(self):
        # The run lasts some 400 ms.
        for clock in [["--clocks", "step_us=300,change_at_ms=150"],
                      ["--clocks", "slew_ppm=100,change_at_ms=150,slew_for_ms=50"]]:
            with self.subTest(clock=clock):
                traces = self.synth("job", *GROUPS, "--seed", "6", "--tp", "2", "--steps", "12", *clock, "--force")
                collectives = self.analyse(traces, "out", "--force", "--quiet")["collectives"]
                truth = json.loads((traces / "truth.json").read_text())["instances"]
                self.assertEqual((collectives["complete"], collectives["partial"], collectives["unmatched_arrivals"]),
                                 (len(truth), 0, 0))

    def test_a_captured_part_of_a_job_is_never_complete(self):
        for payload, environment in [("blob", ""), ("none", "WORLD_SIZE=8;")]:
            with self.subTest(payload=payload):
                traces = self.synth("job", *GROUPS, "--seed", "7", "--steps", "6", "--export", f"payload={payload}", "--force")
                first, second, *others = sorted(traces.glob("*.sqlite"))
                for export in others:
                    export.unlink()
                for export in (first, second):
                    with contextlib.closing(sqlite3.connect(export)) as database, database:
                        database.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = value || ? WHERE name = 'DeviceEnvironment'",
                                         (environment,))
                report = self.analyse(traces, "out", "--force", "--quiet")
                self.assertEqual(report["collectives"]["complete"], 0)
                self.assertGreater(report["collectives"]["partial"], 0)
                titles = {finding["id"]: finding["title"] for finding in report["findings"]}
                self.assertIn("6 of 8 ranks", titles["missing-ranks"])
                self.assertNotIn("No rank is", report["verdict"]["text"])

    def test_without_payload_what_shares_a_stream_is_withheld(self):
        score = self.score("--seed", "4", "--tp", "2", "--steps", "12", "--export", "payload=none", "--shared-nccl-stream")
        report = self.report("out")
        self.assertEqual(report["collectives"]["withheld_arrivals"], score.present - score.matched)
        self.assertEqual(report["collectives"]["unmatched_arrivals"], 0)
        self.assertIn("withheld-arrivals", (self.directory / "out" / "report.json").read_text())

    def test_the_nccl_trace_names_communicators_without_payload(self):
        score = self.score("--seed", "5", "--tp", "2", "--steps", "6", "--shared-nccl-stream", "--export",
                           "nccl_trace,payload=none,communicator_names=purpose")
        self.assertGreaterEqual(score.share, 0.95, str(score))
        found = {tuple(c["trace_ranks"]): c for c in self.report("out")["communicators"]}
        # The few all-reduces of all ranks follow what holds these in step: they are withheld.
        expected = {**{(r, r + 1): "tensor" for r in range(0, 8, 2)},
                    **{tuple(range(r, 8, 2)): "data" for r in range(2)}}
        self.assertEqual({members: c["given_name"] for members, c in found.items()}, expected)
        self.assertEqual({c["evidence"] for c in found.values()}, {"order"})

    def test_names_of_communicators_may_be_long(self):
        traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--layers", "1", "--steps", "2", "--export",
                            "nccl_trace,communicator_names=purpose", "--truth", "none")
        name = "a name that its program made of many words, " * 8
        for export in traces.glob("*.sqlite"):
            with contextlib.closing(sqlite3.connect(export)) as database, database:
                database.execute("UPDATE NVTX_EVENTS SET text = ? WHERE text = 'world'", (name,))
        report = self.analyse(traces, "out", "--csv")
        self.assertEqual([c["given_name"] for c in report["communicators"]], [name])
        with h5py.File(self.directory / "out" / "store.h5") as store:
            self.assertEqual(list(store["communicators"]["given_name"].asstr()), [name])


if __name__ == "__main__":
    main()
