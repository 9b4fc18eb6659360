"""A limit on memory changes how traces are read, and nothing of what they tell."""

import contextlib
import os
import pathlib
import re
import sqlite3
import subprocess
import tempfile

from support import TOOL, EndToEndTest, main, run


class MemoryLimit(EndToEndTest):
    # 490,000 kernels and more calls in each of two traces: more than what rank 0 needs to write a report.
    JOB = ("--nodes", "1", "--gpus-per-node", "2", "--pp", "2", "--steps", "10", "--export", "repeat=60,operator_ranges", "--truth", "none")

    def setUp(self):
        super().setUp()
        self.traces = self.synth("job", *self.JOB)

    def explain_limited(self, out, limit, *options, **environment):
        return run([TOOL, self.traces, "--out", self.directory / out, "--threads", "1", "--memory-limit", limit, *options],
                   env={**os.environ, **environment})

    # Either trace has room with its events in files, none with them in memory; and the same, but for what the first one leaves behind.
    SCARCE, TOO_SCARCE = 44_000_000, 36_000_000

    def named_limit(self, done):
        """The limit that a refusal names, as it is to be given back."""
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("more than --memory-limit", done.stderr)
        return re.search(r"give a limit of (\w+)", done.stderr).group(1)

    def needs_files(self):
        done = self.explain_limited("refused", "1M")
        self.assertIn("more than --memory-limit 1.049 MB allows, so nothing more was read", done.stderr)
        self.assertFalse((self.directory / "refused").exists())
        if "TMPDIR" in done.stderr:
            self.skipTest("the directory for temporary files lies in memory: nothing can be put into files")

    def test_the_limit_that_a_refusal_names_is_enough(self):
        done = self.explain_limited("out", self.named_limit(self.explain_limited("refused", "1M")))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # Where communication is most of what there is; on two tool ranks, of which one replays what both have.
        self.traces = self.synth("dense", "--nodes", "2", "--gpus-per-node", "2", "--tp", "4", "--steps", "400", "--truth", "none")
        for ranks in (None, 2):
            done = self.explain(self.traces, "refused", "--memory-limit", "1M", ranks=ranks)
            limit = self.named_limit(done)
            done = self.explain(self.traces, f"dense-{ranks}", "--memory-limit", limit, ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(self.report(f"dense-{ranks}")["inputs"][0]["status"], "ok")

    def packed_bytes(self, trace):
        """What the packed events of a trace take: 16 bytes each."""
        with contextlib.closing(sqlite3.connect(trace)) as connection:
            return 16 * sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                            for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"))

    def test_results_do_not_depend_on_it(self):
        free = self.analyse(self.traces, "free", "--csv")
        self.assertNotIn("memory", free["run"])
        largest = max(self.packed_bytes(trace) for trace in self.traces.glob("*.sqlite"))
        self.needs_files()
        for name, limit, in_files in (("ample", 1 << 32, 0), ("scarce", self.SCARCE, 2)):
            with self.subTest(limit=limit):
                done = self.explain_limited(name, limit, "--csv", "--timing")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                memory = self.report(name)["run"]["memory"]
                self.assertEqual((memory["limit_bytes"], memory["traces_in_files"]), (limit, in_files))
                self.assertGreaterEqual(memory["file_bytes"], largest if in_files else 0)
                self.assertIn("read with events in temporary files" if in_files else "all events were held in memory",
                              done.stdout)
                self.assert_same_results("free", name)

    def most_anonymous_bytes(self, *command):
        """What the kernel counts as memory of a process that only its end gives back, as often seen as can be."""
        most = 0
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen([str(part) for part in command], stdout=said, stderr=said)
            while process.poll() is None:
                with contextlib.suppress(OSError, AttributeError):
                    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                    most = max(most, 1024 * int(re.search(r"RssAnon:\s*(\d+)", status).group(1)))
            said.seek(0)
            self.assertEqual(process.returncode, 0, said.read())
        return most

    def test_the_kernel_counts_no_more(self):
        self.needs_files()
        limit = self.SCARCE + 10_000_000  # what is held once traces are read varies by some megabytes with two threads
        for threads in (1, 2):
            with self.subTest(threads=threads):
                most = self.most_anonymous_bytes(TOOL, self.traces, "--out", self.directory / f"of{threads}", "--threads", threads,
                                                 "--memory-limit", limit)
                self.assertGreater(most, 0)
                self.assertLess(most, 1.1 * limit)

    def test_the_system_knows_the_peak_too(self):
        process = subprocess.Popen([TOOL, self.traces, "--out", self.directory / "peak", "--quiet"])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        most = max(phase["peak_memory_bytes"] for phase in self.report("peak")["run"]["phases"])
        self.assertGreaterEqual(1024 * usage.ru_maxrss, 0.98 * most, "what the parent is told")
        self.assertGreater(most, 2 * self.packed_bytes(next(self.traces.glob("*.sqlite"))))

    def test_a_limit_for_each_trace_but_not_for_what_all_leave(self):
        # Enough for either trace alone; what the first leaves behind (rows of its tables, arrivals) is too much.
        self.needs_files()
        done = self.explain_limited("out", self.TOO_SCARCE)
        limit = self.named_limit(done)
        self.assertIn("held already", done.stderr)
        # What was read is not lost.
        self.assertEqual([p.name for p in (self.directory / "out").iterdir()], ["shards"])
        done = run([TOOL, "merge", self.directory / "out" / "shards", "--out", self.directory / "out"])
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.explain_limited("enough", limit)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_files_in_memory_are_no_help(self):
        if not pathlib.Path("/dev/shm").is_dir():
            self.skipTest("no file system in memory at /dev/shm")
        done = self.explain_limited("out", self.SCARCE, TMPDIR="/dev/shm")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("set TMPDIR to a disk", done.stderr)


if __name__ == "__main__":
    main()
