"""Records of what was read: a cache that changes nothing but the time, and runs that are cut off and finished by merge."""

import contextlib
import fcntl
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import sys
import time
import unittest

from hanging_export import HangingExport
from support import MPIEXEC, SYNTH, THOROUGH, TIMEOUT_SECONDS, TOOL, EndToEndTest, main, run, seeds

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
from test_code_digest import PROJECT, digest_of  # noqa: E402


class Records(EndToEndTest):
    JOB = ("--nodes", "2", "--gpus-per-node", "2", "--steps", "12", "--fault", "slow_gpu:rank=1,factor=1.4", "--seed", "3")

    def setUp(self):
        super().setUp()
        self.traces = self.synth("job", *self.JOB, "--truth", "none")

    def rows_read(self, out):
        """Rows and traces that the run took from files, not from records."""
        return sum(phase["rows"] for phase in self.report(out)["run"]["phases"] if phase["name"] == "reading traces")

    def records_in(self, name):
        return sorted((self.directory / name).glob("*.record"))

    environment = None  # of the tool; None: that of the test

    def merge(self, shards, out, *options, ranks=None):
        launcher = [] if ranks is None else [MPIEXEC, "-n", str(ranks)]
        shards = [shards] if isinstance(shards, str) else shards
        return run([*launcher, TOOL, "merge", *[self.directory / s for s in shards], "--out", self.directory / out, *options],
                   env=self.environment)


class Cache(Records):
    def cached(self, out, *options, ranks=None, traces=None):
        return self.analyse(traces or self.traces, out, "--cache", self.directory / "cache", *options, ranks=ranks)

    def test_an_unchanged_trace_is_not_read_again_and_nothing_else_changes(self):
        self.analyse(self.traces, "plain")
        self.cached("first")
        self.assert_same_results("plain", "first")
        self.assertEqual(len(self.records_in("cache")), 4)
        self.assertGreater(self.rows_read("first"), 0)
        for ranks in (None, 3):
            self.cached(f"again{ranks}", ranks=ranks)
            self.assert_same_results("plain", f"again{ranks}")
            self.assertEqual(self.rows_read(f"again{ranks}"), 0)
        self.assertFalse((self.directory / "first" / "shards").exists())

    def test_records_are_of_the_code_that_made_them(self):
        self.cached("first")
        digest = digest_of(PROJECT).encode()
        for record in self.records_in("cache"):
            self.assertIn(digest, record.read_bytes()[:1000], "of the sources as they were built")

    def test_a_growing_directory_reads_what_is_new(self):
        files = sorted(self.traces.glob("*.sqlite"))
        self.cached("two", traces=files[:2])
        self.cached("four", traces=files)
        self.analyse(files[2:], "others")
        self.assertEqual(self.rows_read("four"), self.rows_read("others"))
        self.analyse(files, "plain")
        self.assert_same_results("plain", "four")

    def test_a_changed_trace_is_read_again(self):
        self.cached("first")
        path = sorted(self.traces.glob("*.sqlite"))[1]
        os.utime(path, ns=(1, 1))
        self.cached("touched")
        self.analyse([path], "alone")
        self.assertEqual(self.rows_read("touched"), self.rows_read("alone"))
        self.assert_same_results("first", "touched")

    def test_options_that_change_reading_have_records_of_their_own(self):
        (self.directory / "phases.txt").write_text("load load")
        self.cached("all")
        for number, options in enumerate((["--filter-time", "0s/20ms", "--rank-regex", r"rank_(\d+)"],
                                          ["--steps", "1:8", "--phase-map", self.directory / "phases.txt"],
                                          ["--communication-kernels", "gemm", "--communication-kernels", "norm"])):
            for attempt in ("first", "second"):
                self.cached(f"{attempt}{number}", *options)
            self.analyse(self.traces, f"plain{number}", *options)
            self.assertGreater(self.rows_read(f"first{number}"), 0, options)
            self.assertEqual(self.rows_read(f"second{number}"), 0, options)
            self.assert_same_results(f"plain{number}", f"second{number}")
        # A file of the same name with other content is another option.
        (self.directory / "phases.txt").write_text("load nothing")
        self.cached("other", "--steps", "1:8", "--phase-map", self.directory / "phases.txt")
        self.assertGreater(self.rows_read("other"), 0)

    def test_damaged_records_are_as_good_as_none(self):
        self.cached("first")
        one, two, three, four = self.records_in("cache")
        content = one.read_bytes()
        one.write_bytes(content[: len(content) // 2])
        two.write_bytes(b"")
        flipped = bytearray(three.read_bytes())
        flipped[len(flipped) // 2] ^= 1
        three.write_bytes(flipped)
        # A size that cannot be true: key and content sizes follow the 16 bytes of the file's name for itself.
        absurd = bytearray(four.read_bytes())
        absurd[24:32] = (1 << 60).to_bytes(8, "little")
        four.write_bytes(absurd)
        self.cached("second")
        self.assert_same_results("first", "second")
        self.assertEqual(self.rows_read("second"), self.rows_read("first"))
        self.cached("third")
        self.assertEqual(self.rows_read("third"), 0, "damaged records were replaced")

    def test_records_that_others_could_have_made_up_are_not_taken(self):
        self.cached("first")
        one, two, three, four = self.records_in("cache")
        for record in (one, two, three, four):
            self.assertEqual(record.stat().st_mode & 0o022, 0)
        one.chmod(0o664)
        if os.geteuid() == 0:
            os.chown(two, 1000, 1000)
        three.unlink()
        os.mkfifo(three)
        done = self.explain(self.traces, "second", "--cache", self.directory / "cache")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("give a --cache of your own", done.stderr)
        self.assert_same_results("first", "second")
        self.assertGreater(self.rows_read("second"), self.rows_read("first") / 2)

    def test_records_that_were_made_up_crash_nothing(self):
        """Their digest is right; what they say is not."""
        self.cached("first")
        record = self.records_in("cache")[0]
        whole = record.read_bytes()
        key_end = 40 + int.from_bytes(whole[16:24], "little")
        seen = 14695981039346656037
        for byte in whole[40:key_end]:
            seen = ((seen ^ byte) * 1099511628211) & (2**64 - 1)
        for seed in seeds(60):
            content = bytearray(whole[key_end:])
            chance = random.Random(seed)
            for _ in range(chance.choice((1, 3, 10))):
                at = chance.randrange(len(content) - 8)
                made_up = chance.choice((-1, 1 << 30, 1 << 40, (1 << 63) - 1, chance.randrange(256)))
                content[at:at + 8] = (made_up & (2**64 - 1)).to_bytes(8, "little")
            digest = seen
            for start in range(0, len(content), 8):
                word = int.from_bytes(content[start:start + 8], "little")
                digest = ((digest ^ word) * 0x9E3779B97F4A7C15) & (2**64 - 1)
                digest = ((digest << 29) | (digest >> 35)) & (2**64 - 1)
            record.write_bytes(whole[:32] + digest.to_bytes(8, "little") + whole[40:key_end] + content)
            done = self.explain(self.traces, f"out{seed}", "--cache", self.directory / "cache")
            self.assertIn(done.returncode, (0, 4, 5), f"{seed}: {done.stderr}")

    def test_failed_traces_and_unfinished_databases_are_not_kept(self):
        path = sorted(self.traces.glob("*.sqlite"))[0]
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        done = self.explain(self.traces, "broken", "--cache", self.directory / "cache")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(len(self.records_in("cache")), 3)
        path.write_bytes(whole)
        pathlib.Path(f"{path}-wal").write_bytes(b"")
        self.cached("repaired")
        self.assertEqual(len(self.records_in("cache")), 3, "what a write-ahead log holds is not in the fingerprint")

    def test_a_cache_that_cannot_be_written_is_said_and_harmless(self):
        (self.directory / "file").write_text("")
        done = self.explain(self.traces, "out", "--cache", self.directory / "file" / "cache")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cannot create", done.stderr)


class Elsewhere(EndToEndTest):
    def test_merge_from_another_directory_finds_what_the_run_named_from_its_own(self):
        job = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "4", "--export", "payload=none,inspector_logs=verbose")
        files = sorted(path.name for path in job.glob("*.sqlite"))
        command = [TOOL, *files, "--inspector", "inspector", "--out"]
        done = run([*command, "../expected", "--csv"], cwd=job)
        self.assertEqual(done.returncode, 0, done.stderr)
        # A run that fails at its end leaves its shards.
        self.assertEqual(run([*command, "../cut", "--csv", "--prometheus", "/nowhere/metrics"], cwd=job).returncode, 5)
        for record in (self.directory / "cut" / "shards").glob("*.record"):
            if b"run plan" not in record.read_bytes()[:200]:
                record.unlink()  # so that the traces are read again
        done = run([TOOL, "merge", "cut/shards", "--out", "merged", "--csv"], cwd=self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        keys = (self.directory / "expected" / "tables" / "inspector_keys.csv").read_text()
        self.assertEqual((self.directory / "merged" / "tables" / "inspector_keys.csv").read_text(), keys)


class MadeRecords(Records):
    """nsys-explain-synth --records: what a run keeps of the exports, without them."""

    JOB = ("--nodes", "2", "--gpus-per-node", "4", "--tp", "4", "--steps", "6", "--seed", "3")

    def test_they_tell_what_the_exports_tell(self):
        self.analyse(self.traces, "expected", "--csv")
        shutil.rmtree(self.traces)
        self.synth("job", *self.JOB, "--truth", "none", "--records")
        self.assertEqual([path.name for path in self.traces.iterdir()], ["shards"])
        self.assertEqual(len(self.records_in("job/shards")), 8 + 1, "a record of each trace, and the plan")
        for ranks in (None, 3):
            done = self.merge("job/shards", f"merged{ranks}", "--csv", ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_same_results("expected", f"merged{ranks}")

    def test_one_that_cannot_be_written_is_said(self):
        (self.directory / "made").mkdir()
        (self.directory / "made" / "shards").write_text("")
        done = run([SYNTH, "--out", self.directory / "made", "--records", "--force", *self.JOB])
        self.assertEqual(done.returncode, 5)
        self.assertIn("leaves no record", done.stderr)


@unittest.skipUnless(THOROUGH, "a job of more than a million arrivals takes a minute")
class LargeJob(Records):
    JOB = ("--nodes", "2", "--gpus-per-node", "8", "--tp", "8", "--layers", "4", "--fault", "slow_gpu:rank=5,factor=1.2", "--seed", "7",
           "--truth", "none", "--records")

    def setUp(self):
        EndToEndTest.setUp(self)

    def saved_in(self, name, steps):
        self.synth(name, *self.JOB, "--steps", str(steps))
        # Records are used up by the run that finishes theirs.
        shutil.copytree(self.directory / name, self.directory / f"{name}_again")
        self.assertEqual(self.merge(f"{name}/shards", f"{name}_out").returncode, 0)
        return self.report(f"{name}_out")

    def test_what_mending_saves_is_told_of_some_of_its_steps(self):
        whole, sampled = self.saved_in("whole", 300), self.saved_in("large", 3200)
        saved = {}
        for name, report in (("whole", whole), ("large", sampled)):
            (straggler,) = report["stragglers"]
            self.assertEqual(straggler["trace_ranks"], [5])
            (saved[name],) = [one["saved_share"] for one in report["what_if"] if one["subject"] == "trace_rank"]
        self.assertAlmostEqual(saved["large"], saved["whole"], delta=0.003)
        (told,) = [w["message"] for w in sampled["warnings"] if "spread evenly" in w["message"]]
        replayed, of = map(int, re.search(r"is told of (\d+) of (\d+) steps", told).groups())
        self.assertEqual(of, 3200)
        self.assertLess(replayed, 3200)
        self.assertEqual(sampled["step_time"]["steps"], 3199, "from begin to begin: the last may be cut off")
        self.assertEqual(self.merge("large_again/shards", "two", ranks=2).returncode, 0)
        self.assert_same_results("large_out", "two")


class Operators(Records):
    def test_metrics_and_the_summary_line(self):
        metrics = self.directory / "metrics.prom"
        done = self.explain(self.traces, "out", "--prometheus", metrics, "--summary-line", ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = json.loads(done.stdout)
        self.assertEqual((line["exit_code"], line["trace_ranks"], line["inputs"]["ok"]), (0, 4, 4))
        self.assertEqual([s["trace_rank"] for s in line["stragglers"]], [1])
        report = self.report("out")
        self.assertEqual(line["clock_residual_p90_ns"], report["clock"]["residual"]["held_out_p90_ns"])
        text = metrics.read_text()
        share = sum(r["wait_ns"] for r in report["ranks"]) / sum(r["window_ns"] for r in report["ranks"])
        found = re.search(r"^nsys_explain_wait_ratio\{[^}]*\} (.*)$", text, re.M)
        self.assertAlmostEqual(float(found.group(1)), share, places=12)
        self.assertRegex(text, r'straggler_cost_ratio\{[^}]*trace_rank="1"[^}]*cause="slow_kernel"\}')
        # One class: all-reduces of this job; total bytes over total transfer time.
        self.assertIn('operation="all_reduce"', text)
        self.assertEqual([p.name for p in self.directory.glob("metrics*")], ["metrics.prom"])

    def test_a_run_that_fails_tells_it_in_its_metrics_and_its_line(self):
        metrics = self.directory / "metrics.prom"
        self.analyse(self.traces, "healthy", "--prometheus", metrics)
        self.assertRegex(metrics.read_text(), r"(?m)^nsys_explain_exit_code\{[^}]*\} 0$")
        for ranks in (1, 2):
            done = self.explain(self.traces, "out", "--prometheus", metrics, "--summary-line", "--require-ranks", 9, ranks=ranks)
            self.assertEqual(done.returncode, 4, done.stderr)
            line = json.loads(done.stdout)
            self.assertEqual((line["exit_code"], line["trace_ranks"], line["saved_share"]), (4, 0, None))
            self.assertTrue(line["verdict"].startswith("No verdict: "), line["verdict"])
            text = metrics.read_text()
            self.assertRegex(text, r"(?m)^nsys_explain_exit_code\{[^}]*/out\"\} 4$")
            self.assertNotIn("/healthy", text, "of an earlier run")
            self.assertRegex(text, r"(?m)^nsys_explain_run_timestamp_seconds\{[^}]*\} [1-9][0-9]{9}$")

    def test_metrics_that_cannot_be_written(self):
        done = self.explain(self.traces, "out", "--prometheus", self.directory / "nowhere" / "metrics.prom")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("cannot write", done.stderr)
        self.assertTrue((self.directory / "out" / "report.json").exists())

    def test_files_outside_of_the_results_replace_nothing_that_is_read_or_others(self):
        trace = sorted(self.traces.glob("*.sqlite"))[1]
        whole = trace.read_bytes()
        same, notes, metrics = (self.directory / name for name in ("same.prom", "notes.prom", "metrics.prom"))
        os.link(trace, same)
        notes.write_text("mine")
        for option in ("--prometheus", "--perfetto"):
            for path, *force in ((trace, "--force"), (same, "--force"), (notes,), (self.directory / "out" / "report.json", "--force")):
                done = self.explain(self.traces, "out", option, path, *force)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(f"give another {option}", done.stderr)
                self.assertFalse((self.directory / "out").exists(), "nothing was read")
        self.assertEqual((trace.read_bytes(), notes.read_text()), (whole, "mine"))
        for out in ("one", "two"):  # what an earlier run wrote is replaced
            self.analyse(self.traces, out, "--prometheus", metrics)
            self.assertIn(f'results="{self.directory}/{out}"', metrics.read_text())


class CutOff(Records):
    """Runs that hang in the export of their last trace: a stand-in for nsys stays in it until it is told to go on."""

    def setUp(self):
        super().setUp()
        self.files = sorted(self.traces.glob("*.sqlite"))
        self.export = HangingExport(self.directory)
        self.addCleanup(self.export.open)
        self.hanging = self.directory / "rank_00003.nsys-rep"
        self.hanging.write_text(str(self.files[3]))
        self.scratch = self.directory / "scratch"
        self.scratch.mkdir()
        self.environment = {**os.environ, "PATH": self.export.path(os.environ["PATH"]), "TMPDIR": str(self.scratch)}
        self.inputs = [*self.files[:3], self.hanging]

    def start(self, out, *options, ranks=None, stderr=subprocess.PIPE):
        """A run that hangs, once it hangs and all that can be read was read."""
        self.export.close()
        launcher = [] if ranks is None else [MPIEXEC, "-n", str(ranks)]
        process = subprocess.Popen([str(p) for p in (*launcher, TOOL, *self.inputs, "--export", "--out",
                                                     self.directory / out, *options)],
                                   env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=stderr, text=True)
        self.addCleanup(process.kill)
        shards = self.directory / out / "shards"
        while not (self.export.hanging_tool() and len(list(shards.glob("*.record"))) >= 4):  # three traces and the plan
            self.assertIsNone(process.poll(), "the run did not hang")
        return process

    def finish(self, process):
        out, problems = process.communicate(timeout=TIMEOUT_SECONDS)
        return process.returncode, out, problems

    def wait_for_survivors(self):
        """Until no process of the run is left: what a tool rank starts outlives the launcher."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while any(str(self.directory).encode() in command for command in self.commands() if str(TOOL).encode() in command):
            self.assertLess(time.monotonic(), deadline, "a process of the run hangs")

    def commands(self):
        for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                yield command.read_bytes()

    def expected(self):
        self.export.open()
        done = run([TOOL, *self.inputs, "--export", "--out", self.directory / "expected"], env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([s["trace_rank"] for s in self.report("expected")["stragglers"]], [1])

    def exports(self):
        """Processes of the stand-in that still run."""
        found = []
        for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.export.program).encode() in command.read_bytes():
                    found.append(command.parent.name)
        return found

    def staging(self, out):
        """Where the results of a run are made, in place of `out` until that exists."""
        [path] = self.directory.glob(f".{out}-*")
        return path

    def assert_partial(self, out, missing=None):
        missing = [self.hanging] if missing is None else missing
        report = self.report(out)
        failed = [i["path"] for i in report["inputs"] if i["status"] == "failed"]
        self.assertEqual(failed, [str(path) for path in missing])
        self.assertEqual(report["findings"][0]["id"], "partial-report")
        for path in missing:
            self.assertIn(str(path), "".join(report["findings"][0]["evidence"]))
        self.assertEqual(len(report["trace_ranks"]), 4 - len(missing))
        self.assertIn("this report is partial", (self.directory / out / "report.md").read_text())

    def assert_merge_finishes(self, out, target):
        """As a user would: what no shard holds is read."""
        done = self.merge(f"{out}/shards", target, "--force", ranks=2)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_same_results("expected", target)

    def test_sigterm_leaves_a_partial_report_and_shards_that_merge_finishes(self):
        metrics = self.directory / "metrics.prom"
        metrics.write_text("# HELP nsys_explain_run_info of an earlier run\n")
        process = self.start("out", "--prometheus", metrics, "--summary-line")
        process.send_signal(signal.SIGTERM)
        code, out, problems = self.finish(process)
        self.assertEqual(code, 4, problems)
        self.assertIn("SIGTERM", problems)
        self.assertIn("reading traces", problems)
        line = json.loads(out)
        self.assertEqual((line["exit_code"], line["trace_ranks"], line["inputs"]["failed"]), (4, 3, 1))
        self.assertRegex(metrics.read_text(), r"(?m)^nsys_explain_exit_code\{[^}]*\} 4$")
        self.assertIn(f"merge {self.directory}/out/shards", problems)
        self.assert_partial("out")
        self.assertEqual([p.name for p in self.directory.glob(".out*")], [], "nothing half-written stays")
        self.assertEqual(list(self.scratch.glob("nsys-explain-*")), [], "nor half an export")
        self.assertEqual(self.exports(), [], "nor its process")
        self.expected()
        # Elsewhere first: the shards in `out` are the user's until a merge into `out` itself has all it needs.
        self.assert_merge_finishes("out", "elsewhere")
        self.assertEqual(self.rows_read("elsewhere") > 0, True)
        self.assert_merge_finishes("out", "out")
        self.assertFalse((self.directory / "out" / "shards").exists())

    def test_the_timeout_ends_a_hanging_run_on_all_ranks(self):
        process = self.start("out", "--timeout", "3", ranks=2)
        code, _, problems = self.finish(process)
        self.assertEqual(code, 4, problems)
        self.assertIn("not done after the 3 s of --timeout", problems)
        self.assertRegex(problems, r"tool rank \d on \S+ is not done after the 3 s of --timeout \(at work in \"reading traces\"\)")
        self.assert_partial("out")

    @staticmethod
    def process_of(launcher, rank):
        """The process of a tool rank."""
        for child in pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split():
            variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            if f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
                return int(child)
        raise AssertionError(f"no process of tool rank {rank}")

    def test_after_the_death_of_a_rank_the_first_one_leaves_a_partial_report(self):
        process = self.start("out", ranks=2)
        os.kill(self.process_of(process, 1), signal.SIGKILL)
        # The launcher gives the survivors a second or so; what they start goes on.
        code, _, problems = self.finish(process)
        self.wait_for_survivors()
        self.assertNotEqual(code, 0)
        self.assertIn(f"merge {self.directory}/out/shards --out {self.directory}/out --force finishes it", problems)
        self.assert_partial("out")
        self.expected()
        self.assert_merge_finishes("out", "out")

    def test_after_the_death_of_the_first_rank_merge_or_the_same_run_once_more(self):
        process = self.start("out", ranks=2)
        os.kill(self.process_of(process, 0), signal.SIGKILL)
        self.assertNotEqual(self.finish(process)[0], 0)
        self.expected()
        self.assert_merge_finishes("out", "merged")
        done = run([TOOL, *self.inputs, "--export", "--out", self.directory / "out", "--force"], env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_same_results("expected", "out")
        self.assertFalse((self.directory / "out" / "shards").exists())

    def test_half_an_export_of_a_killed_run_goes_with_the_next_run(self):
        process = self.start("out")
        living = self.scratch / "nsys-explain-living"
        living.mkdir()
        process.kill()
        self.finish(process)
        self.assertEqual(len(list(self.scratch.iterdir())), 2, "nobody removes what a killed process made")
        done = run([TOOL, *self.files, "--out", self.directory / "next"], env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(self.scratch.iterdir()), [living], "but the next run; what others made stays")

    def test_the_timeout_counts_where_a_rank_never_gets_to_mpi(self):
        script = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then kill -STOP $$; fi; exec "$@"'
        done = run([MPIEXEC, "-n", "2", "bash", "-c", script, "-", TOOL, *self.files, "--out", self.directory / "out", "--timeout", "2"])
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn('is not done after the 2 s of --timeout (together with the others in "starting MPI")', done.stderr)

    def test_records_outlive_a_failure(self):
        process = self.start("out", ranks=2)
        (self.staging("out") / "store.h5").mkdir()
        self.export.open()
        code, _, problems = self.finish(process)
        self.assertEqual(code, 5, problems)
        self.assertIn(f"merge {self.directory}/out/shards --out {self.directory}/out --force finishes it", problems)
        self.expected()
        self.assert_merge_finishes("out", "out")
        self.assertFalse((self.directory / "out" / "shards").exists())

    def test_sigterm_to_the_first_rank_alone_while_it_writes_results(self):
        process = self.start("out", ranks=4)
        # It waits there until somebody reads.
        report = self.staging("out") / "report.json"
        held = self.directory / "held"
        os.mkfifo(report)
        os.link(report, held)
        self.export.open()
        while not (report.parent / "store.h5").exists():
            self.assertIsNone(process.poll(), "the run did not come to its results")
        os.kill(self.process_of(process, 0), signal.SIGTERM)
        while "making a partial report" not in (line := process.stderr.readline()):
            self.assertNotEqual(line, "", "the end of stderr")
        reader = subprocess.Popen(["cat", held], stdout=subprocess.DEVNULL)
        self.addCleanup(reader.communicate)
        self.addCleanup(reader.kill)
        code, _, problems = self.finish(process)
        self.assertEqual(code, 4, problems)
        self.assert_partial("out", missing=[])
        self.assertEqual([p.name for p in self.directory.glob(".out*")], [], "nothing half-written stays")
        self.expected()
        self.assert_merge_finishes("out", "out")

    def test_a_file_that_came_meanwhile_is_not_replaced(self):
        for option, file in (("--prometheus", self.directory / "m.prom"), ("--perfetto", self.directory / "t.json.gz")):
            process = self.start(option.strip("-"), option, file)
            file.write_text("mine")
            self.export.open()
            code, _, problems = self.finish(process)
            self.assertEqual(code, 5, problems)
            self.assertIn(f"nothing says that {option} wrote it", problems)
            self.assertEqual(file.read_text(), "mine")
            self.assertEqual(len(self.report(option.strip("-"))["trace_ranks"]), 4)

    def test_sigterm_to_another_rank_once_there_are_results(self):
        self.analyse(self.files, "older")
        memory = tempfile.TemporaryDirectory(dir="/dev/shm")  # exports that lie in memory are not kept: they are made once more
        self.addCleanup(memory.cleanup)
        # Open MPI gives the others a second to say what there is, which beside other work is too short (3 of 20 runs).
        environment = {**self.environment, "TMPDIR": memory.name, "OMPI_MCA_odls_base_sigkill_timeout": "3"}
        for out, pattern, *options in (("fresh", ".fresh-*"), ("older", "older/.nsys-explain-*", "--force")):
            with self.subTest(out):
                self.export.open()  # until the traces are read a second time, for the timeline
                process = subprocess.Popen([str(p) for p in (MPIEXEC, "-n", "3", TOOL, *self.inputs, "--export", "--out", self.directory / out,
                                                             "--perfetto", self.directory / "t.json.gz", *options)],
                                           env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           text=True)
                self.addCleanup(process.kill)
                while not (staging := list(self.directory.glob(pattern))):
                    self.assertIsNone(process.poll(), "the run did not come to its output")
                # The first one waits there until somebody reads.
                report, held = staging[0] / "report.json", self.directory / f"held-{out}"
                os.mkfifo(report)
                os.link(report, held)
                while not (report.parent / "store.h5").exists():
                    self.assertIsNone(process.poll(), "the run did not come to its results")
                self.export.close()
                run(["cat", held], check=True)
                while (report.parent / "store.h5").exists() or report.exists() or not self.export.hanging_tool():
                    self.assertIsNone(process.poll(), "the run did not come to its timeline")
                os.kill(self.process_of(process, 2), signal.SIGTERM)
                code, _, problems = self.finish(process)
                self.assertEqual(code, 5, problems)
                self.assertIn("holds the report, but not all that was to follow it is written", problems)
                self.assertNotIn("partial", problems)

    def full_pipe(self):
        """The end to write to of a pipe that is full and that nobody reads."""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        os.write(writing, b"x" * fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ))
        return writing

    def test_sigterm_to_a_run_that_nobody_listens_to(self):
        process = self.start("out", stderr=self.full_pipe())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process)[0], 4)
        self.assert_partial("out")

    def test_sigterm_to_a_run_with_results_that_nobody_listens_to(self):
        process = subprocess.Popen([TOOL, *self.files, self.directory / "missing.sqlite", "--out", self.directory / "out"],
                                   stderr=self.full_pipe(), stdout=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        while not (self.directory / "out" / "report.json").exists() or (self.directory / "out" / "shards").exists():
            self.assertIsNone(process.poll(), "the run does not wait for a reader")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), 4)

    def test_merge_without_the_traces_says_what_is_missing(self):
        process = self.start("out")
        process.kill()
        self.finish(process)
        self.export.open()
        shutil.move(self.traces, self.directory / "gone")
        self.hanging.unlink()
        done = self.merge("out/shards", "merged")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("it is in no shard", done.stderr)
        report = self.report("merged")
        self.assertEqual(len(report["trace_ranks"]), 3)
        self.assertEqual([s["trace_rank"] for s in report["stragglers"]], [1])
        self.assertTrue(any("could not be read a second time" in w["message"] for w in report["warnings"]))
        self.assertTrue((self.directory / "out" / "shards").exists())

    def test_older_results_stay_when_a_run_is_cut_off(self):
        self.analyse(self.files, "out")
        before = (self.directory / "out" / "report.json").read_bytes()
        process = self.start("out", "--force")
        process.send_signal(signal.SIGTERM)
        code, _, problems = self.finish(process)
        self.assertEqual(code, 5, problems)
        self.assertIn("there is no report", problems)
        self.assertEqual((self.directory / "out" / "report.json").read_bytes(), before)

    def test_what_is_no_shard(self):
        (self.directory / "empty").mkdir()
        for name in ("empty", "missing"):
            done = self.merge(name, "merged")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("holds no shards", done.stderr)

    def test_shards_of_two_runs_are_not_mixed(self):
        for out, inputs in (("one", self.inputs), ("two", [*self.files[:2], self.files[3], self.hanging])):
            self.inputs = inputs
            process = self.start(out)
            process.kill()
            self.finish(process)
            self.export.open()
        done = self.merge(["one/shards", "two/shards"], "merged")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("another run", done.stderr)


if __name__ == "__main__":
    main()
