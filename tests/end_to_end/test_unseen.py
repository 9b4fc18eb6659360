"""What traces do not show is not claimed: communication under names that nobody knows, captures without GPU work."""

import contextlib
import sqlite3

from support import EndToEndTest, main

JOB = ["--nodes", "2", "--gpus-per-node", "2", "--steps", "16", "--fault", "slow_gpu:rank=2,factor=1.4", "--truth", "none"]


def change(traces, *statements):
    for path in sorted(traces.glob("*.sqlite")):
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)


class UnknownCommunication(EndToEndTest):
    def test_is_named_and_known_once_the_user_says_so(self):
        traces = self.synth("job", *JOB, "--seed", "71")
        known = self.analyse(traces, "known")
        self.assertEqual([late["trace_rank"] for late in known["stragglers"]], [2])
        change(traces, "UPDATE StringIds SET value = replace(value, 'ncclDevKernel', 'fabricKernel')")
        unknown = self.analyse(traces, "unknown")
        self.assertEqual(unknown["collectives"]["complete"], 0)
        (finding,) = (one for one in unknown["findings"] if one["id"] == "unknown-communication")
        self.assertIn("--communication-kernels 'fabricKernel_", finding["recommendation"])
        self.assertNotIn("no-communication", [one["id"] for one in unknown["findings"]])
        self.assertNotIn("nobody", unknown["verdict"]["text"])
        told = self.analyse(traces, "told", "--communication-kernels", "^fabricKernel_")
        self.assertEqual([late["trace_rank"] for late in told["stragglers"]], [2])
        self.assertEqual(told["collectives"]["complete"], known["collectives"]["complete"])
        self.assertNotIn("unknown-communication", [one["id"] for one in told["findings"]])

    def test_a_pattern_that_is_none_ends_the_run(self):
        traces = self.synth("job", *JOB, "--seed", "72")
        for pattern in ("(", ""):
            done = self.explain(traces, "out", "--communication-kernels", pattern)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--communication-kernels '{pattern}'", done.stderr)


class UnmatchedCollectives(EndToEndTest):
    def test_why_somebody_takes_longer_is_told_though_nothing_is_matched(self):
        for fault, cause in (("late_host:rank=5,pause=4ms", "launch_starved"), ("slow_gpu:rank=5,factor=1.4", "slow_kernel"),
                             ("extra_work:rank=5,mode=larger,factor=1.5", "uneven_work")):
            with self.subTest(fault=fault):
                traces = self.synth("job", "--nodes", "2", "--gpus-per-node", "4", "--tp", "4", "--steps", "30", "--layers", "2", "--fault", fault,
                                    "--export", "payload=none", "--nccl-on-compute-stream", "--truth", "none", "--seed", "74", "--force")
                report = self.analyse(traces, "out", "--force")
                self.assertEqual(report["collectives"]["instances"], 0)
                (suspect,) = report["suspects"]
                self.assertEqual((suspect["trace_ranks"], suspect["cause"], suspect["doubt"]), ([5], cause, "unseen"))
                self.assertNotIn("collectives -1", " ".join(suspect["evidence"]))


class WithoutGpuWork(EndToEndTest):
    def test_a_capture_that_was_open_while_idle(self):
        traces = self.synth("job", *JOB, "--seed", "73")
        change(traces, *(f"DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_{table}" for table in ("KERNEL", "MEMCPY", "MEMSET")),
               "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE nameId IN "
               "(SELECT id FROM StringIds WHERE value LIKE 'cu%Launch%')")
        report = self.analyse(traces, "out", code=3)
        self.assertIn("none of the CUDA calls launches work", report["verdict"]["text"])
        self.assertIn("open it when work runs", report["verdict"]["next"])
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["capture_advice"], [])
        markdown = (self.directory / "out" / "report.md").read_text()
        for wrong in ("vclock", "-t cuda,nvtx", "have no trace"):
            self.assertNotIn(wrong, markdown)


if __name__ == "__main__":
    main()
