"""The moments of report.html: what a few trace ranks did around them, against the rows of their traces and of store.h5."""

import json
import sqlite3
import unittest

import h5py

from support import EndToEndTest, main

JOB = ("--nodes", "2", "--gpus-per-node", "4", "--steps", "8", "--seed", "3", "--truth", "none")


class Moments(EndToEndTest):
    def moments(self, out):
        page = self.directory / out / "report.html"
        if not page.exists():
            self.skipTest("the tool was built without npm, so there is no report.html")
        text = page.read_text()
        start = text.index('id="data">') + len('id="data">')
        return json.loads(text[start:text.index("</script>", start)])["moments"]

    def rows(self, moments, moment, kind):
        """(trace rank, start, duration, name) of all events of a kind of row, in job time."""
        for row in moment["rows"]:
            if row["kind"] != kind:
                continue
            at = moment["start_ns"]
            for start, duration, name in zip(row["start"], row["duration"], row["name"]):
                at += start
                yield row["trace_rank"], at, duration, moments["names"]["name"][name]

    def test_events_are_those_of_the_traces_and_waits_those_of_the_store(self):
        traces = self.synth("job", *JOB, "--fault", "slow_gpu:rank=5,factor=1.3")
        report = self.analyse(traces, "out")
        moments = self.moments("out")
        late, usual = moments["list"]
        self.assertEqual((late["late_trace_rank"], late["trace_ranks"][0]), (5, 5))
        self.assertEqual(late["trace_ranks"][1], late["peer_trace_rank"])
        self.assertEqual(len(set(late["trace_ranks"])), 4)
        self.assertEqual((usual["late_trace_rank"], usual["instance"]), (-1, -1))
        self.assertEqual(late["left_out"], 0)
        step = report["step_time"]["median_ns"]
        for end in (late["at_ns"] - late["start_ns"], late["end_ns"] - late["at_ns"]):
            self.assertLess(abs(end / step - 1), 0.02)

        with h5py.File(self.directory / "out" / "store.h5") as store:
            instances = store["collective_instances"]
            place, = (instances["instance"][()] == late["instance"]).nonzero()[0]
            self.assertEqual(instances["last_enter_ns"][place], late["at_ns"])
            self.assertEqual(instances["last_trace_rank"][place], 5)
            table = {name: store["collective_arrivals"][name][()].tolist() for name in ("trace_rank", "enter_ns", "wait_ns")}
        waits = sorted((rank, enter, wait) for rank, enter, wait in zip(*table.values())
                       if wait > 0 and rank in late["trace_ranks"] and enter < late["end_ns"] and enter + wait >= late["start_ns"])
        self.assertEqual(sorted(row[:3] for row in self.rows(moments, late, "waits")), waits)
        self.assertIn("waits for rank 5", {row[3] for row in self.rows(moments, late, "waits")})

        clocks = {session["path"]: session for session in report["clock"]["sessions"]}
        for rank in late["trace_ranks"]:
            path = report["trace_ranks"][rank]["path"]
            with sqlite3.connect(traces / path.split("/")[-1]) as database:
                (utc,) = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
                offset = utc - report["epoch_utc_ns"] - clocks[path]["offset_ns"]
                window = (late["start_ns"] - offset, late["end_ns"] - offset)
                kernels = database.execute("SELECT count(*) FROM (SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL SELECT start, end "
                                           "FROM CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMSET) "
                                           "WHERE end >= ? AND start < ?", window).fetchone()[0]
                calls = database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE end >= ? AND start < ?", window).fetchone()[0]
            for kind, expected in (("stream", kernels), ("calls", calls)):
                shown = sum(row[0] == rank for row in self.rows(moments, late, kind))
                self.assertLessEqual(abs(shown - expected), 2, f"{kind} of trace rank {rank}")  # those at the ends: clocks drift
        self.assertTrue(any(row[3].startswith("step") for row in self.rows(moments, late, "ranges")))

        self.analyse(traces, "three", ranks=3)
        self.assertEqual(self.moments("three"), moments)

    def test_a_moment_of_a_long_trace_is_read_in_part_and_shows_the_same(self):
        # What a first reading learns of where rows lie in time is not in a record: from there on traces are read whole.
        traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "40", "--layers", "32", "--truth", "none",
                            "--fault", "slow_gpu:rank=1,factor=1.3", "--export", "shuffled")
        self.analyse(traces, "first", "--cache", str(self.directory / "cache"))
        self.analyse(traces, "second", "--cache", str(self.directory / "cache"))
        ordered = self.synth("ordered", "--nodes", "1", "--gpus-per-node", "2", "--steps", "40", "--layers", "32", "--truth", "none",
                             "--fault", "slow_gpu:rank=1,factor=1.3")
        self.analyse(ordered, "third", "--cache", str(self.directory / "cache"))
        self.analyse(ordered, "fourth", "--cache", str(self.directory / "cache"))
        moments = self.moments("first")
        self.assertTrue(moments["list"][0]["rows"])
        for out in ("second", "third", "fourth"):
            self.assertEqual(self.moments(out), moments, out)

    def test_a_job_without_late_ranks_shows_a_usual_step_and_one_without_steps_the_middle(self):
        self.analyse(self.synth("clean", *JOB), "clean-out")
        moment, = self.moments("clean-out")["list"]
        self.assertRegex(moment["title"], r"^Steps 3 and 4$")
        self.assertEqual(moment["trace_ranks"], [0, 2, 4, 6])
        self.analyse(self.synth("bare", "--nodes", "1", "--gpus-per-node", "1", "--steps", "2", "--capture", "no_nvtx",
                                "--truth", "none"), "bare-out")
        moment, = self.moments("bare-out")["list"]
        self.assertEqual((moment["title"], moment["trace_ranks"]), ("The middle of the run", [0]))
        self.assertTrue(moment["rows"])

    def test_a_long_moment_is_thinned_out(self):
        self.analyse(self.synth("job", *JOB, "--layers", "64", "--fault", "slow_gpu:rank=5,factor=1.3"), "out")
        moments = self.moments("out")
        late = moments["list"][0]
        self.assertGreater(late["left_out"], 0)
        for rank in late["trace_ranks"]:
            shown = sum(len(row["start"]) for row in late["rows"] if row["trace_rank"] == rank and row["kind"] != "waits")
            self.assertEqual(shown, 1_500)


if __name__ == "__main__":
    main()
