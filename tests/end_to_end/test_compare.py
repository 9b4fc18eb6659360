"""`nsys-explain-mpi compare`: planted changes are found, equal jobs stay equal, and what cannot be compared is said."""

import json
import multiprocessing.pool
import re
import shutil
import unittest

import h5py

from support import EndToEndTest, SHARED_TRACES, TOOL, main, run, THOROUGH

SEEDS = 20 if THOROUGH else 8  # a trend takes some runs
JOB = ("--nodes", "1", "--gpus-per-node", "2", "--layers", "2", "--steps", "24", "--truth", "none")
# Every kernel and every transfer takes 3% longer: so does a step.
SLOWER = ("--compute-scale", "1.03", "--network", f"bandwidth_intra={200 / 1.03}")


class Compare(EndToEndTest):
    def store(self, name, *options):
        """The store of a simulated job; --csv and reports are of no interest here."""
        traces = self.synth(f"{name}-traces", *options)
        self.analyse(traces, name, "--quiet", "--threads", "1")
        shutil.rmtree(traces)
        return self.directory / name / "store.h5"

    def compare(self, *arguments, code=0, out="compared"):
        done = run([TOOL, "compare", *arguments, "--out", self.directory / out, "--force"])
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads((self.directory / out / "compare.json").read_text())

    def text(self, suffix, out="compared"):
        return (self.directory / out / f"compare.{suffix}").read_text()

    def refused(self, *arguments, code=2):
        done = run([TOOL, "compare", *arguments])
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr

    def test_any_table_is_laid_beside_another(self):
        before = self.store("before", "--seed", "1", *JOB)
        after = self.store("after", "--seed", "1", *JOB, "--compute-scale", "1.5")

        def sums(store):
            with h5py.File(store) as file:
                names, totals = file["kernels"]["name"].asstr()[:], file["kernels"]["total_ns"][:]
            return {name: int(sum(totals[names == name])) for name in set(names)}

        old, new = sums(before), sums(after)
        done = run([TOOL, "diff", before, after, "kernels", "--by", "name", "--columns", "total_ns", "--limit", 0, "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)
        self.assertEqual({row["name"]: row["total_ns_change"] for row in rows},
                         {name: new.get(name, 0) - old.get(name, 0) for name in old | new})
        changes = [abs(row["total_ns_change"]) for row in rows]
        self.assertEqual(changes, sorted(changes, reverse=True))
        alike = json.loads(run([TOOL, "diff", before, after, "kernels", "--by", "name", "--columns", "total_ns", "--rename", ".*=all",
                                "--json"]).stdout)
        self.assertEqual([(row["total_ns_before"], row["total_ns_after"]) for row in alike], [(sum(old.values()), sum(new.values()))])
        for arguments, expected in ((("kernel",), "has no table 'kernel'"), (("kernels", "--by", "nmae"), "no column 'nmae'"),
                                    (("kernels", "--rename", "("), "PATTERN=REPLACEMENT"), (("kernels", "--rename", "(=x"), "is no rule")):
            done = run([TOOL, "diff", before, after, *arguments])
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(expected, done.stderr)

    def test_a_change_of_three_percent_is_found_and_equal_jobs_stay_equal(self):
        def make(plan):
            seed, slower = plan
            return self.store(f"{'slower' if slower else 'base'}{seed}", "--seed", str(seed), *JOB, *(SLOWER if slower else ()))

        plans = [(seed, False) for seed in range(SEEDS + 1)] + [(seed + 100, True) for seed in range(SEEDS)]
        with multiprocessing.pool.ThreadPool(2) as pool:
            stores = pool.map(make, plans, chunksize=1)
        bases, slower = stores[:SEEDS + 1], stores[SEEDS + 1:]
        covered = 0
        for seed in range(SEEDS):
            same = self.compare(bases[seed], bases[seed + 1])
            self.assertEqual(same["verdict"], "same", seed)
            different = [change for change in same["changes"] if change["significant"]]
            self.assertEqual(different, [], f"seed {seed}: equal jobs differ")
            worse = self.compare(bases[seed], slower[seed], code=10)
            self.assertEqual(worse["verdict"], "worse", seed)
            covered += worse["headline"]["ratio_low"] <= 1.03 <= worse["headline"]["ratio_high"]
        self.assertEqual(self.compare(slower[0], bases[0])["verdict"], "better")
        # 99% intervals from 24 steps, resampled in blocks, are somewhat narrow; pauses and latencies do not scale.
        self.assertGreaterEqual(covered, 0.9 * SEEDS)
        self.history_is_judged(bases, slower)
        self.runs_side_by_side(bases[0], slower[0])

    def history_is_judged(self, bases, slower):
        found = self.compare(*bases[:4], slower[0], code=10)
        self.assertEqual([r["run"] for r in found["runs"]], [str(p) for p in (*bases[:4], slower[0])])
        # Means over ranks have no noise of their own, but runs of the same job tell it.
        compute = [c for c in found["changes"] if c["topic"] == "rank time" and c["figure"] == "compute_ns"][0]
        self.assertTrue(compute["significant"])
        self.assertAlmostEqual(compute["ratio"], 1.03, delta=0.005)
        # Five equal runs are too few to tell a trend from chance, and twenty have none.
        found = self.compare(*bases[:5])
        self.assertEqual([change for change in found["changes"] if change["significant"]], [])
        self.assertEqual(found["history"], [str(path) for path in bases[:5]])
        self.assertEqual({t["direction"] for t in found["trend"]}, {"too_few_runs"})
        step = next(t for t in found["trend"] if t["figure"] == "step_ns")
        self.assertEqual(step["values_ns"], [run_of["step_ns"] for run_of in found["runs"]])
        self.assertIn("## Trend, per step", self.text("md"))
        self.assertIn("<h2>Trend, per step</h2>", self.text("html"))
        self.assertEqual(self.text("html").count("<svg"), len(found["trend"]))
        self.assertEqual({t["direction"] for t in self.compare(*bases[:SEEDS])["trend"]}, {"none"})

    def runs_side_by_side(self, one, other):
        found = self.compare(one, other, "--side-by-side", "--labels", "A<b>,B", "--tokens", "1000,2000", "--throughput", "9000")
        self.assertNotIn("verdict", found)
        self.assertNotIn("trend", found)
        self.assertEqual(found["basis"], "token")
        for run_of, tokens in zip(found["runs"], (1000, 2000)):
            self.assertAlmostEqual(run_of["busy_ns"], sum(run_of["category_ns"].values()), delta=1)
            self.assertAlmostEqual(run_of["busy_ns_per_token"], run_of["busy_ns"] / tokens)
            self.assertEqual(run_of["tokens_per_second"], 9000)
            # What keeps a GPU busy is compute, exposed communication and copies.
            parts = run_of["rank_means_ns"]
            self.assertAlmostEqual(run_of["busy_ns"], sum(parts[p] for p in ("compute_ns", "exposed_communication_ns", "copy_ns")),
                                   delta=0.001 * run_of["busy_ns"])
        self.assertIn("111.1 us", self.text("md"))  # 1 s / 9,000
        self.assertIn('class="bar"', self.text("html"))
        self.assertNotIn("A<b>", self.text("html"))
        self.assertIn("has 3 values for 2 runs", self.refused(one, other, "--tokens", "1,2,3"))
        self.assertIn("--labels names 1 runs", self.refused(one, other, "--labels", "A"))
        self.refused(one, other, "--throughput", "5")  # means nothing without tokens
        self.refused(one, other, "--tokens", "0")

    def test_other_rank_counts_and_missing_sections_are_said(self):
        four = self.store("four", "--seed", "1", "--nodes", "2", "--gpus-per-node", "2", *JOB[4:])
        two = self.store("two", "--seed", "1", *JOB)
        found = self.compare(four, two)
        self.assertTrue(any("4 ranks before and 2 now" in note for note in found["notes"]), found["notes"])
        plain = self.store("plain", "--seed", "2", *JOB, "--capture", "no_nvtx")
        found = self.compare(four, plain)
        self.assertEqual(found["verdict"], "unknown")  # its steps are guesses
        self.assertTrue(any("mark them with NVTX" in note for note in found["notes"]), found["notes"])
        try:
            import h5py
        except ImportError:
            self.skipTest("h5py is missing: stores without tables were not tested")
        old = self.directory / "old.h5"
        shutil.copy(plain, old)
        with h5py.File(old, "a") as file:
            for name in ("categories", "kernels", "steps", "collective_instances"):
                if name in file:
                    del file[name]
        found = self.compare(four, old)
        self.assertEqual(found["verdict"], "unknown")
        for expected in ("table kernels", "table categories", "steps were not recognised"):
            self.assertTrue(any(expected in note for note in found["notes"]), (expected, found["notes"]))
        self.assertIn("Cannot be judged", self.text("md"))
        self.refused(four, self.directory / "absent.h5", code=3)

    def test_who_changed_is_named_with_what_it_takes_longer_for(self):
        options = ("--nodes", "2", "--gpus-per-node", "2", "--layers", "2", "--steps", "24", "--truth", "none")
        base = self.store("base", "--seed", "1", *options)
        plans = [("slow_gpu:rank=3,factor=1.3", [3], "rank 3 (node001)", "kernel_speed", "GPU 1 on node001 (rank 3) runs"),
                 ("slow_node:node=1,factor=1.2", [2, 3], "node node001", "kernel_speed", "node node001 (all 2 ranks) runs"),
                 ("late_host:rank=0,pause=3ms,kind=sleep", [0], "rank 0 (node000)", "idle", "GPU 0 on node000 (rank 0)")]
        for number, (fault, ranks, place, part, finding) in enumerate(plans):
            with self.subTest(fault):
                now = self.store(f"now{number}", "--seed", str(2 + number), *options, "--fault", fault)
                found = self.compare(base, now, code=10)
                self.assertEqual([(one["place"], one["part"], one["trace_ranks"]) for one in found["changed_places"]],
                                 [(place, part, ranks)])
                text = " ".join(self.text("md").split())
                self.assertIn(f"What changed, per step: {place}: ", text)
                self.assertIn(f"New finding: {finding}", text)
                for change in found["changes"]:
                    if change["topic"] == "rank" and int(change["name"].split()[-1]) not in ranks:
                        self.assertAlmostEqual(change["ratio"], 1, delta=0.02, msg="who waits is no faster by itself")
                [back] = self.compare(now, base)["changed_places"]
                self.assertEqual((back["place"], back["part"]), (place, part))

    def test_a_report_against_itself_has_not_changed(self):
        store = self.store("one", "--seed", "1", *JOB, "--capture", "no_nvtx")
        found = self.compare(store, store)
        self.assertEqual((found["verdict"], found["is_one_run"], found["notes"]), ("same", True, []))
        self.assertIn("# Nothing changed: both reports hold the same run", self.text("md"))

    def test_only_an_earlier_comparison_is_replaced(self):
        store = self.store("one", "--seed", "1", *JOB)
        self.compare(store, store)
        self.compare(store, store)  # its own files
        page = self.directory / "compared" / "compare.json"
        page.write_text('{"mine": true}')
        done = run([TOOL, "compare", store, store, "--out", self.directory / "compared", "--force"])
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
        self.assertIn("nothing says that this program wrote it", done.stderr)
        self.assertEqual(page.read_text(), '{"mine": true}')

    def test_before_and_after_a_fix(self):
        traces = [SHARED_TRACES / "nsys-ai" / f"mfu_2gpu_{when}.sqlite" for when in ("before", "after")]
        if not all(trace.exists() for trace in traces):
            self.skipTest("the real traces are absent")
        for trace in traces:
            self.analyse(trace, trace.stem, "--whole-run")  # the figures below are of all rows
        found = self.compare(*(self.directory / trace.stem / "store.h5" for trace in traces), "--labels", "before,after")
        # Slices of 0.3 s without steps: the amount of work in them is not known, so the windows are no verdict.
        self.assertEqual(found["verdict"], "unknown")
        self.assertTrue(any("mark steps" in note for note in found["notes"]))
        figures = [self.figures_from_rows(trace) for trace in traces]
        for run_of, expected in zip(found["runs"], figures):
            self.assertEqual(run_of["trace_ranks"], 2)
            for part in ("compute", "idle"):
                self.assertAlmostEqual(run_of["rank_means_ns"][f"{part}_ns"], expected[part], delta=1)
        # What changed is said all the same: equal windows hold less compute by kernels as fast as before, more idle
        # time and more waiting, and both reports say what the waits come from.
        self.assertAlmostEqual(found["kernel_time_ratio"], self.kernel_time_ratio(traces), delta=1e-6)
        text = " ".join(self.text("md").split())
        self.assertIn("On average, per window and rank: compute ", text)
        for words, part in (("compute", "compute"), ("idle", "idle"), ("waiting for late members", "wait")):
            before, now = (one[part] / 1e6 for one in figures)
            told = re.search(rf"{words} (\S+) ms instead of (\S+) ms \((\S+?)%\)", text)
            for number, expected in zip(told.groups(), (now, before, 100 * (now / before - 1))):
                # To the last digit that is told.
                digits = len(number.partition(".")[2])
                self.assertAlmostEqual(float(number), expected, delta=0.51 * 10**-digits, msg=words)
        # So that a change of both sides alike is seen.
        self.assertEqual([round(one["compute"] / 1e6, 1) for one in figures], [254.9, 227.5])
        self.assertIn("kernels of equal name take as long as before (within 0.5%), and there is 11.", text)
        before, now = text.split("## Before: what the report found")[1].split("## Now: what the report found")
        self.assertIn("8.2% of GPU time is idle because the host launched the next work too late", before)
        self.assertIn("6 delays cost ", before)
        self.assertIn("16.3% of GPU time is idle because the host launched the next work too late", now)
        self.assertIn("5 delays cost ", now)
        self.assertEqual([f["id"] for f in found["runs"][0]["findings"] if f["id"] == "long-waits"], ["long-waits"])

    @staticmethod
    def kernel_time_ratio(traces):
        """Time of the kernels now over what as many of each name would have taken before, from the rows alone."""
        import sqlite3
        sums = []
        for trace in traces:
            database = sqlite3.connect(f"file:{trace}?mode=ro", uri=True)
            sums.append({name: (count, total) for name, count, total in database.execute(
                "SELECT s.value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL k "
                "JOIN StringIds s ON s.id = k.demangledName WHERE s.value NOT LIKE 'nccl%' GROUP BY s.value")})
            database.close()
        before, now = sums
        both = [name for name in now if name in before]
        return sum(now[n][1] for n in both) / sum(now[n][0] * before[n][1] / before[n][0] for n in both)

    @staticmethod
    def figures_from_rows(trace):
        """Compute, idle and waiting in ns, means over both devices, worked out from the rows alone. Both devices are in
        one file and send to and receive from each other only, so their exchanges are matched by order, and a member
        waits until the other is there, or until it leaves."""
        import sqlite3
        database = sqlite3.connect(f"file:{trace}?mode=ro", uri=True)

        def union(intervals):
            covered, end = 0, 0
            for start, stop in sorted(intervals):
                covered += max(0, stop - max(start, end))
                end = max(end, stop)
            return covered

        compute, idle, exchanges = [], [], []
        for device in (0, 1):
            kernels = database.execute(
                "SELECT start, end, s.value LIKE 'nccl%' FROM CUPTI_ACTIVITY_KIND_KERNEL k "
                "JOIN StringIds s ON s.id = k.shortName WHERE deviceId = ? ORDER BY start", (device,)).fetchall()
            activity = [kernel[:2] for kernel in kernels]
            for table in ("MEMCPY", "MEMSET"):
                activity += database.execute(f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_{table} WHERE deviceId = ?", (device,))
            window = max(stop for _, stop in activity) - min(start for start, _ in activity)
            compute.append(union(kernel[:2] for kernel in kernels if not kernel[2]))
            idle.append(window - union(activity))
            exchanges.append([kernel[:2] for kernel in kernels if kernel[2]])
        database.close()
        assert len(exchanges[0]) == len(exchanges[1])
        wait = sum(max(0, min(other[0], one[1]) - one[0]) for pair in zip(*exchanges) for one, other in (pair, pair[::-1]))
        return {"compute": sum(compute) / 2, "idle": sum(idle) / 2, "wait": wait / 2}


if __name__ == "__main__":
    main()
