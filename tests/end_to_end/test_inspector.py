"""Exact keys of collectives from NCCL Inspector's logs (--inspector), where the export itself names no communicator."""

import json

from matching_truth import Score
from support import EndToEndTest, main, seeds

BASE = ["--nodes", "2", "--gpus-per-node", "2", "--layers", "2", "--steps", "8", "--clocks", "drift_ppm=20"]
JOB = [*BASE, "--tp", "2"]
PIPELINE = [*BASE, "--pp", "4"]
EXPERTS = [*BASE, "--moe", "--export", "nccl=2.27"]
NO_PAYLOAD = ["--export", "payload=none"]


class Inspector(EndToEndTest):
    def run_job(self, *options, logs="verbose", job=JOB, only=None):
        """The score and the report of a job with logs; pairs of this operation are right, or, without one, all are."""
        traces = self.synth("job", *job, *options, "--export", f"inspector_logs={logs}", "--force")
        report = self.analyse(traces, "out", "--inspector", traces / "inspector", "--force", "--quiet", "--whole-run")
        score = Score(traces, self.directory / "out")
        wrong = score.wrong_of[only] if only else score.wrong_pairs
        self.assertEqual((score.unknown, wrong), (0, 0), f"{options}: {score}")
        return score, report

    def unlogged(self):
        """Arrivals with an exported counterpart that are too small for the log."""
        truth = json.loads((self.directory / "job" / "truth.json").read_text())
        small = 0
        for instance in truth["instances"]:
            exported = sum(member[-1] for member in instance["members"])
            small += exported if exported > 1 and instance["bytes"] < 8192 else 0
        return small

    def truth(self):
        return json.loads((self.directory / "job" / "truth.json").read_text())

    def warnings(self, report, text):
        return sum(w["count"] for w in report["warnings"] if text in w["message"])

    def test_every_logged_collective_takes_its_key(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                # Communicators that take turns on a stream cannot be told without payload, but for the logs.
                stream = ["--shared-nccl-stream"] if seed % 2 else []
                score, report = self.run_job("--seed", str(seed), *NO_PAYLOAD, *stream)
                inspector = report["matching"]["inspector"]
                self.assertEqual((inspector["keyed"], inspector["contradicting"]), (inspector["records"], 0))
                self.assertEqual(inspector["trace_ranks"], 4)
                self.assertGreater(self.unlogged(), 0)
                self.assertGreaterEqual(score.matched + self.unlogged(), score.present, str(score))

    def test_lost_kernels_and_ragged_windows_move_no_key(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                score, report = self.run_job("--seed", str(seed), *NO_PAYLOAD, "--capture", "drop=0.01,ragged=0.2")
                logged = score.present - self.unlogged()
                self.assertGreaterEqual(score.matched, 0.995 * logged, str(score))
                self.assertEqual(report["matching"]["inspector"]["contradicting"], 0)

    def test_terse_logs_give_no_wrong_key(self):
        for seed in seeds(3):
            with self.subTest(seed=seed):
                _, report = self.run_job("--seed", str(seed), *NO_PAYLOAD, logs="terse")
                self.assertEqual(report["matching"]["inspector"]["contradicting"], 0)

    def test_sends_and_receives_take_communicator_and_peer(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                stream = ["--shared-nccl-stream"] if seed % 2 else []
                score, report = self.run_job("--seed", str(seed), *NO_PAYLOAD, *stream, job=PIPELINE)
                inspector = report["matching"]["inspector"]
                # Each of 8 micro-batches crosses each of 3 borders forward and back, seen from both ends, in 8 steps.
                self.assertEqual((inspector["exchanges"], inspector["keyed_exchanges"]), (768, 768))
                self.assertGreaterEqual(score.matched + self.unlogged(), score.present, str(score))
                ends = {(i["operation"], len(i["members"])) for i in self.truth()["instances"] if i["grouped"]}
                self.assertEqual(ends, {("send_recv", 2)})

    def test_lost_kernels_name_no_wrong_peer(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                score, report = self.run_job("--seed", str(seed), *NO_PAYLOAD, "--capture", "drop=0.02", job=PIPELINE,
                                             only="send_recv")  # its all-reduces are too small for the log
                self.assertEqual(report["matching"]["inspector"]["contradicting"], 0)
                self.assertLessEqual(score.missed["send_recv"], 0.02 * score.present, str(score))

    def test_grouped_exchanges_with_all_members(self):
        score, report = self.run_job("--seed", "6", *NO_PAYLOAD, job=EXPERTS)
        inspector = report["matching"]["inspector"]
        grouped = [i for i in self.truth()["instances"] if i["grouped"]]
        # Each of 4 members sends to 4 and receives from 4.
        self.assertEqual(inspector["exchanges"], len(grouped) * 4 * 8)
        self.assertGreater(inspector["keyed_exchanges"], 0.8 * inspector["exchanges"])
        self.assertGreaterEqual(score.matched + self.unlogged(), score.present, str(score))

    def test_times_that_trace_and_log_do_not_agree_on(self):
        traces = self.synth("job", *JOB, "--seed", "3", "--export", "inspector_logs=verbose")
        agreeing = self.analyse(traces, "agreeing", "--inspector", traces / "inspector")["matching"]["inspector"]
        self.assertGreater(agreeing["compared"], 0.8 * agreeing["records"])
        self.assertEqual(agreeing["disagreeing"], 0)
        self.assertLess(agreeing["largest_difference_ns"], 6_000)
        changed = 0
        log = sorted((traces / "inspector").iterdir())[1]
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        ends = [line["coll_perf"]["event_trace_ts"]["kernel_events"][0]["kernel_stop_ts"] for line in lines]
        for line, end in zip(lines, ends):
            # What ends soon after another one is not compared.
            if changed < 5 and sum(abs(end - other) < 300 for other in ends) == 1:
                line["coll_perf"]["coll_exec_time_us"] += 700
                changed += 1
        self.assertGreater(changed, 3)
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        report = self.analyse(traces, "out", "--inspector", traces / "inspector")
        inspector = report["matching"]["inspector"]
        self.assertEqual(inspector["disagreeing"], changed)
        self.assertTrue(690_000 < inspector["largest_difference_ns"] < 700_000, inspector)
        self.assertEqual(self.warnings(report, "took another time"), changed)
        self.assertIn(f"{changed} of ", (self.directory / "out" / "report.md").read_text())

    def test_communicators_made_anew(self):
        score, report = self.run_job("--seed", "3", *NO_PAYLOAD, "--restart-at", "4")
        self.assertGreaterEqual(score.matched + self.unlogged(), score.present, str(score))
        self.assertEqual(self.warnings(report, "contradict"), 0)

    def test_bad_logs_are_warnings(self):
        def damage(logs):
            first, second, third, _ = sorted(logs.iterdir())
            lines = first.read_text().splitlines(keepends=True)
            first.write_text("".join(lines[:-1]) + lines[-1][:40])
            second.unlink()
            third.write_text(third.read_text().replace('"v4.0"', '"v9.1"'))

        traces = self.synth("job", *JOB, "--seed", "1", "--export", "inspector_logs=verbose")
        expected = self.analyse(traces, "expected")
        damage(traces / "inspector")
        report = self.analyse(traces, "out", "--inspector", traces / "inspector")
        self.assertEqual(self.warnings(report, "cut off or damaged"), 1)
        self.assertEqual(self.warnings(report, "have no log of NCCL Inspector"), 1)
        self.assertGreater(self.warnings(report, "another format than v4"), 0)
        self.assertEqual(report["matching"]["inspector"]["trace_ranks"], 2)
        self.assertEqual(report["collectives"], expected["collectives"], "the payload tells what the logs do not")

    def test_where_log_and_trace_contradict_the_trace_counts(self):
        def other_communicators(logs):
            for path in logs.iterdir():
                path.write_text(path.read_text().replace('"id":"0x', '"id":"0x1'))

        traces = self.synth("job", *JOB, "--seed", "2", "--export", "inspector_logs=verbose")
        expected = self.analyse(traces, "expected")
        other_communicators(traces / "inspector")
        report = self.analyse(traces, "out", "--inspector", traces / "inspector")
        self.assertEqual(report["matching"]["inspector"]["keyed"], 0)
        self.assertGreater(self.warnings(report, "contradict the trace"), 0)
        self.assertIn("contradict the trace", (self.directory / "out" / "report.md").read_text())
        self.assertEqual(report["communicators"], expected["communicators"])

    def test_results_do_not_depend_on_tool_ranks(self):
        traces = self.synth("job", *JOB, *NO_PAYLOAD, "--seed", "4", "--export", "inspector_logs=verbose")
        self.analyse(traces, "serial", "--inspector", traces / "inspector", "--csv")
        self.analyse(traces, "ranks", "--inspector", traces / "inspector", "--csv", ranks=3)
        self.assert_same_results("serial", "ranks")

    def test_a_cache_knows_logs_that_changed(self):
        traces = self.synth("job", *JOB, *NO_PAYLOAD, "--seed", "5", "--export", "inspector_logs=verbose")
        options = ["--inspector", traces / "inspector", "--cache", self.directory / "cache", "--force"]
        before = self.analyse(traces, "out", *options)["matching"]["inspector"]
        self.assertEqual(self.analyse(traces, "out", *options)["matching"]["inspector"], before)
        log = sorted((traces / "inspector").iterdir())[0]
        log.write_text("".join(log.read_text().splitlines(keepends=True)[:-20]))
        after = self.analyse(traces, "out", *options)["matching"]["inspector"]
        self.assertLess(after["records"], before["records"])

    def test_a_directory_that_is_not_there(self):
        traces = self.synth("job", *JOB)
        done = self.explain(traces, "out", "--inspector", self.directory / "absent")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("NCCL_INSPECTOR_DUMP_DIR", done.stderr)


if __name__ == "__main__":
    main()
