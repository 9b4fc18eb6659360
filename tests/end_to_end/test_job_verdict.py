"""The verdict on thirty jobs: one text on the terminal and in every report, which names the planted culprit, cause and place,
what mending saves, and what to do next; never calm above a finding that matters."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import unittest

from hanging_export import HangingExport
from support import EndToEndTest, TOOL, main, run, seeds

LINES, COLUMNS = 25, 120  # but for paths, which are not broken

MACHINE = {"--nodes": 2, "--gpus-per-node": 4, "--layers": 2, "--steps": 24}
PIPELINE = {**MACHINE, "--tp": 2, "--pp": 2, "--steps": 12}
FOUR_NODES = {"--nodes": 4, "--gpus-per-node": 2, "--tp": 2, "--pp": 2, "--steps": 12, "--layers": 2}
ONE_GPU = {**MACHINE, "--nodes": 1, "--gpus-per-node": 1}

LATE_HOST = "sits idle because its host"
SLOWER = "slower than its peers"
MORE = "has more work than its peers"
UNEVEN = "has larger kernels than its peers"
RANK = "GPU {1} on node00{2} (rank {0})"


def rank(number):
    return RANK.format(number, number % 4, number // 4)


def culprit(number, cause, fault, **changes):
    """A job with a fault of one trace rank: what is planted, and what the verdict tells."""
    return {"options": {**MACHINE, "--fault": f"{fault.replace('@', f'rank={number}')}"}, "finding": "straggler",
            "words": [rank(number), cause], "trace_ranks": [number], **changes}


JOBS = {
    "slow GPU": culprit(5, SLOWER, "slow_gpu:@,factor=1.3"),
    "slow GPU in some steps": culprit(2, SLOWER, "slow_gpu:@,factor=1.4,first_step=8,last_step=16"),
    "slow GPU in every third step": culprit(1, SLOWER, "slow_gpu:@,factor=1.5,period=3"),
    "slow node": {"options": {**MACHINE, "--fault": "slow_node:node=1,factor=1.2"}, "finding": "straggler",
                  "words": ["Node node001 (all 4 ranks)", SLOWER], "trace_ranks": [4, 5, 6, 7],
                  "next": "noisy neighbour"},
    "sleep": culprit(3, LATE_HOST, "late_host:@,pause=3ms,kind=sleep"),
    "garbage collection": culprit(2, LATE_HOST, "late_host:@,pause=4ms,kind=gc", next="gc.disable()"),
    "data loading": culprit(6, LATE_HOST, "late_host:@,pause=3ms,kind=data_loading"),
    "file access": culprit(0, LATE_HOST, "late_host:@,pause=3ms,kind=file_read", next="file access"),
    "module loading": culprit(7, LATE_HOST, "late_host:@,pause=3ms,kind=module_load", next="CUDA_MODULE_LOADING"),
    "no core": culprit(4, LATE_HOST, "late_host:@,pause=3ms,kind=descheduled", next="separate core"),
    "larger kernels": culprit(3, UNEVEN, "extra_work:@,factor=1.4,mode=larger", next="balance"),
    "more kernels": culprit(6, MORE, "extra_work:@,factor=1.4,mode=more", next="balance"),
    "synchronising": culprit(1, "blocked in a synchronising call", "sync_stall:@,pause=3ms", next="synchronisation"),
    "clean": {"options": MACHINE, "words": ["No rank is"]},
    "blocking copy": culprit(6, "blocked in a copy", "blocking_copy:@,bytes=24MB", next="pinned"),
    "allocation": culprit(5, "allocates or frees GPU memory", "allocation:@,pause=3ms", next="allocate before"),
    "profiler": culprit(2, "is delayed by the profiler itself", "profiler_overhead:@,pause=3ms", next="profile less"),
    "pauses here and there": {"options": {**MACHINE, "--fault": "rotating_jitter:pause=3ms"}, "finding": "rotating-delay",
                              "words": ["wander from rank to rank"], "next": "garbage collection"},
    "slow link of a GPU": {"options": {**MACHINE, "--tp": 2, "--steps": 12, "--fault": "slow_link:rank=6,factor=3"},
                           "finding": "slow-link", "words": ["ransfers through rank 6 (GPU 2 on node001)"],
                           "trace_ranks": [6], "next": "nccl-tests"},
    "slow cable": {"options": {**FOUR_NODES, "--fault": "slow_link:nodes=0+2,factor=3"}, "finding": "slow-link",
                   "words": ["the link between hosts node000 and node002"], "next": "between just node000 and node002"},
    "a stage with more layers": {"options": {**PIPELINE, "--fault": "extra_work:stage=1,mode=layers,count=1"},
                                 "finding": "longest-stage", "words": ["ranks 4, 5, 6, 7"], "trace_ranks": [4, 5, 6, 7],
                                 "next": "move layers"},
    "slow GPU in a pipeline": {"options": {**PIPELINE, "--steps": 20, "--fault": "slow_gpu:rank=5,factor=1.4"},
                               "finding": "straggler", "words": [rank(5), SLOWER], "trace_ranks": [5]},
    "two faults": {"options": {**MACHINE, "--fault": ["slow_gpu:rank=5,factor=1.5", "late_host:rank=2,pause=1ms,kind=gc"]},
                   "finding": "straggler", "words": [rank(5), SLOWER], "trace_ranks": [5]},
    "clean pipeline": {"options": PIPELINE, "words": ["pipeline stages waiting for each other"], "next": "micro-batches"},
    "clean tensor parallel": {"options": {**MACHINE, "--tp": 4, "--steps": 12}, "words": ["No rank is"]},
    "the slow one is missing": {"options": {**MACHINE, "--fault": "slow_gpu:rank=5,factor=1.3", "--capture": "missing_rank=5"},
                                "finding": "missing-ranks", "complete": False, "next": "capture",
                                "words": ["1 of 8 ranks (rank 5) has no trace: all 74 collectives lack it, so who is late "
                                          "cannot be seen"]},
    "another is missing": {"options": {**MACHINE, "--fault": "slow_gpu:rank=5,factor=1.3", "--capture": "missing_rank=1"},
                           "finding": "straggler", "complete": False, "trace_ranks": [5],
                           "words": ["1 of 8 ranks (rank 1) has no trace", rank(5), SLOWER]},
    "one GPU": {"options": ONE_GPU, "words": ["one GPU"]},
    "no GPU": {"options": ONE_GPU, "code": 3, "without_gpu": True, "words": ["no GPU kernels", "NVTX ranges", "CUDA calls"],
               "next": "stop the capture before the program ends"},
    "an input that fails": {"options": {**MACHINE, "--fault": "slow_gpu:rank=5,factor=1.3"}, "code": 4, "cut": 3,
                            "finding": "straggler", "complete": False,
                            "words": ["1 of 8 inputs failed", "(rank 3) has no trace", rank(5), SLOWER]},
}


def plain(text):
    return " ".join(text.split())


def arguments(options):
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            yield from (name, one)


class JobVerdict(EndToEndTest):
    def assert_one_verdict(self, report, done, out, code):
        """The same text everywhere, of which the terminal shows all within a screen."""
        verdict = report["verdict"]
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertLessEqual(len(lines), LINES, done.stdout)
        self.assertLessEqual(max(map(len, lines)), COLUMNS, done.stdout)
        self.assertTrue(plain(done.stdout).startswith(plain(verdict["text"])), done.stdout)
        self.assertLessEqual(len(verdict["do_next"]), 3)
        for step in verdict["do_next"]:  # which the terminal shows with the directory of the run
            self.assertIn(f"# {step['expect']}", done.stdout)
        if verdict["next"]:
            self.assertIn("Next: " + plain(verdict["next"]), plain(done.stdout))
        markdown = plain((self.directory / out / "report.md").read_text())
        self.assertIn(f"# Why is this job slow? **{plain(verdict['text'])}**",
                      markdown.replace("\\", "").replace("`", ""))
        page = self.directory / out / "report.html"
        if page.exists():
            self.assertIn(json.dumps(verdict["text"]).replace("<", "\\u003c"), page.read_text())
        worst = min((["high", "medium", "low", "info"].index(f["severity"]) for f in report["findings"]), default=3)
        self.assertEqual(["high", "medium", "low", "info"].index(verdict["severity"]), worst)
        if worst <= 1:
            self.assertIsNotNone(verdict["finding"], "calm above a finding that matters")

    def assert_savings(self, report):
        """Of the verdict, its finding and its replay, one figure; and most saving first."""
        verdict = report["verdict"]
        lead = next((f for f in report["findings"] if f["id"] == verdict["finding"]), None)
        if lead is None or lead["saved_share"] is None:
            self.assertIsNone(verdict["saved_share"])
            return
        replayed = [w for w in report["what_if"] if w["trace_ranks"] == lead["trace_ranks"] and w["subject"] != "all"]
        self.assertIn(verdict["saved_share"], [w["saved_share"] for w in replayed])
        self.assertEqual(verdict["saved_share"], lead["saved_share"])
        self.assertIn(f"(-{100 * verdict['saved_share']:.1f}%, 95% interval {100 * verdict['low_share']:.1f} to "
                      f"{100 * verdict['high_share']:.1f}%)", verdict["text"])
        self.assertEqual(lead["saved_share"], max(f["saved_share"] or 0 for f in report["findings"]))

    def explain_job(self, number, job):
        traces = self.synth(f"job{number}", "--seed", 400 + number, "--truth", "none", *arguments(job["options"]))
        files = sorted(traces.glob("*.sqlite"))
        if job.get("without_gpu"):
            with sqlite3.connect(files[0]) as database:
                for table in ("KERNEL", "MEMCPY", "MEMSET"):
                    database.execute(f"DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_{table}")
        if "cut" in job:
            files[job["cut"]].write_bytes(files[job["cut"]].read_bytes()[:5000])
        return self.explain(traces, f"out{number}")

    def test_thirty_jobs(self):
        self.assertGreaterEqual(len(JOBS), 30)
        names = list(JOBS)
        for number in seeds(len(JOBS)):
            job = JOBS[names[number]]
            with self.subTest(names[number]):
                done = self.explain_job(number, job)
                report = self.report(f"out{number}")
                verdict = report["verdict"]
                self.assert_one_verdict(report, done, f"out{number}", job.get("code", 0))
                self.assert_savings(report)
                for words in job["words"]:
                    self.assertIn(words, verdict["text"])
                if "finding" in job:
                    self.assertEqual(verdict["finding"], job["finding"], verdict["text"])
                    self.assertEqual(verdict["finding"] not in ("straggler", "slow-link", "longest-stage"),
                                     verdict["saved_share"] is None)
                if "trace_ranks" in job:
                    lead = next(f for f in report["findings"] if f["id"] == verdict["finding"])
                    self.assertEqual(lead["trace_ranks"], job["trace_ranks"])
                self.assertEqual(verdict["complete"], job.get("complete", True))
                self.assertIn(job.get("next", ""), verdict["next"])

    def test_a_run_that_is_cut_off(self):
        traces = self.synth("job", "--seed", 3, "--truth", "none", *arguments({**MACHINE, "--nodes": 1}), "--fault",
                            "slow_gpu:rank=1,factor=1.4")
        files = sorted(traces.glob("*.sqlite"))
        export = HangingExport(self.directory)
        self.addCleanup(export.open)
        hanging = self.directory / "rank_00003.nsys-rep"
        hanging.write_text(str(files[3]))
        export.close()
        process = subprocess.Popen(
            [str(part) for part in (TOOL, *files[:3], hanging, "--export", "--out", self.directory / "out")],
            env={**os.environ, "PATH": export.path(os.environ["PATH"])}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        while not (export.hanging_tool() and len(list((self.directory / "out" / "shards").glob("*.record"))) >= 4):
            self.assertIsNone(process.poll(), "the run did not hang")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
        self.assertEqual(process.returncode, 4)
        verdict = self.report("out")["verdict"]
        self.assertRegex(verdict["text"], r"^This report is partial: the run was cut off, and 1 of 4 inputs are missing. "
                                          r"1 of 4 ranks \(rank 3\) has no trace")
        self.assertIn("GPU 1 on node000 (rank 1)", verdict["text"])
        self.assertFalse(verdict["complete"])

    def test_many_inputs_that_fail_alike_take_a_line(self):
        traces = self.synth("job", "--seed", 3, "--truth", "none", *arguments(MACHINE))
        done = self.explain(traces, "out", "--steps", "900:901")
        self.assertEqual(done.returncode, 3)
        self.assertLessEqual(len(done.stderr.splitlines()), 3, done.stderr)
        self.assertRegex(done.stderr, r"8 inputs, .*rank_00000\S* to .*rank_00007\S*: ")


if __name__ == "__main__":
    main()
