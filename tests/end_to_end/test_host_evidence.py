"""What hosts did, by CPU samples, calls into MPI, and statuses of CUDA calls: planted, found, and not claimed in clean jobs."""

import collections
import contextlib
import sqlite3
import unittest

import h5py

from support import SHARED_TRACES, EndToEndTest, main, seeds

JOB = ["--nodes", "1", "--gpus-per-node", "4", "--steps", "12", "--layers", "2", "--truth", "none"]


def rows_of(store, table):
    columns = {name: (data.asstr()[()] if data.dtype.kind == "O" or data.dtype.kind == "S" else data[()])
               for name, data in store[table].items()}
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


class WhereTheHostWas(EndToEndTest):
    def straggler(self, seed, *options):
        traces = self.synth("job", *JOB, "--seed", str(seed), *options, "--force")
        (straggler,) = self.analyse(traces, "out", "--force", "--quiet")["stragglers"]
        return straggler

    def test_is_told_by_its_functions_and_named_in_the_verdict(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                straggler = self.straggler(seed, "--capture", "cpu_sampling_us=500", "--fault", f"late_host:rank={seed % 4},pause=4ms,kind=computing")
                self.assertEqual((straggler["trace_rank"], straggler["cause"], straggler["host_was_in"]),
                                 (seed % 4, "launch_starved", "collate_batch (dataset.py)"))
                report = self.report("out")
                self.assertIn("because its host launches late (in collate_batch (dataset.py))", report["verdict"]["text"])
                self.assertIn("table cpu_functions", report["verdict"]["next"])
                # The peer is not there at all; the straggler for some 4 ms before each of three collectives.
                (line,) = (line for line in straggler["evidence"] if "collate_batch" in line)
                self.assertRegex(line, r"function collate_batch \(dataset.py\): 2[34] in 1[12].\d+ ms, peer none")
                self.assertNotIn("/home/somebody", (self.directory / "out" / "report.json").read_text())

    def test_is_told_by_its_calls_into_mpi(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                straggler = self.straggler(seed, "--fault", f"late_host:rank={seed % 4},pause=4ms,kind=mpi_wait")
                self.assertEqual((straggler["trace_rank"], straggler["host_was_in"]), (seed % 4, "MPI_Barrier"))
                self.assertIn("that call of MPI", self.report("out")["verdict"]["next"])
                with h5py.File(self.directory / "out" / "store.h5") as store:
                    sums = [row for row in rows_of(store, "nvtx_sum") if (row["domain"], row["range"]) == ("MPI", "MPI_Barrier")]
                self.assertEqual([(row["trace_rank"], row["count"]) for row in sums], [(seed % 4, 12)])

    def test_is_told_by_the_files_that_it_waited_for(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                straggler = self.straggler(seed, "--fault", f"late_host:rank={seed % 4},pause=4ms,kind=file_read")
                self.assertEqual((straggler["trace_rank"], straggler["cause"], straggler["host_was_in"]),
                                 (seed % 4, "launch_starved", "system call: read"))
                verdict = self.report("out")["verdict"]
                self.assertIn("because its host reads or writes files (in system call read)", verdict["text"])
                self.assertIn("compare the storage of this host", verdict["next"])
                (line,) = (line for line in straggler["evidence"] if "largest differences" in line)
                # A pause of 4 ms before each of three sampled collectives; its peer reads nothing there.
                self.assertRegex(line, r"system call: read: \d+ in 1[12]\.\d+ ms, peer none")

    def test_is_not_told_where_nothing_shows_it(self):
        self.assertIsNone(self.straggler(3, "--fault", "late_host:rank=1,pause=4ms")["host_was_in"])
        # Nobody runs while it sleeps.
        self.assertIsNone(self.straggler(3, "--fault", "sync_stall:rank=1,pause=4ms", "--capture", "cpu_sampling_us=500")["host_was_in"])

    def test_is_no_matter_in_clean_jobs(self):
        for seed in seeds(4):
            with self.subTest(seed=seed):
                traces = self.synth("job", *JOB, "--seed", str(seed), "--capture", "cpu_sampling_us=300", "--force")
                report = self.analyse(traces, "out", "--force", "--quiet")
                self.assertEqual((report["stragglers"], report["suspects"]), ([], []))
                self.assertNotIn("reading or writing files", report["verdict"]["text"])


@unittest.skipUnless(SHARED_TRACES.exists(), "real traces are not here")
class RealSamples(EndToEndTest):
    def test_are_counted_as_sql_counts_them(self):
        for name in ("perlmutter-cloverleaf-cuda", "saxpy-mpi-cuda_nsys_perlmutter0"):
            with self.subTest(name=name):
                export = SHARED_TRACES / "pipit" / f"{name}.sqlite"
                self.analyse(export, "out", "--force", "--quiet", "--whole-run")
                expected = collections.Counter()
                # The innermost frame with a resolved name outside of the profiler; else the library of the innermost frame.
                query = """SELECT e.globalTid & 0xFFFFFF, c.id, c.stackDepth, s.value, m.value, coalesce(c.unresolved, 0)
                    FROM SAMPLING_CALLCHAINS c JOIN COMPOSITE_EVENTS e ON e.id = c.id JOIN StringIds s ON s.id = c.symbol
                    JOIN StringIds m ON m.id = c.module ORDER BY c.id, c.stackDepth"""
                with contextlib.closing(sqlite3.connect(f"file:{export}?mode=ro", uri=True)) as database:
                    chains = collections.defaultdict(list)
                    for thread, sample, _, symbol, module, unresolved in database.execute(query):
                        chains[thread, sample].append((symbol, module.rsplit("/", 1)[-1], unresolved))
                for (thread, _), chain in chains.items():
                    foreign = [frame for frame in chain if not frame[1].startswith(("libToolsInjection", "libcupti"))]
                    known = [frame for frame in foreign if not frame[2] and not frame[0].startswith("0x") and not frame[1].startswith("[")]
                    symbol, module, _ = (known or foreign or chain)[0]
                    expected[thread, f"{symbol} ({module})" if known else module] += 1
                with h5py.File(self.directory / "out" / "store.h5") as store:
                    found = {(row["thread_id"], row["function"]): row["samples"] for row in rows_of(store, "cpu_functions")}
                self.assertGreater(len(found), 20)
                for key, count in found.items():
                    self.assertEqual(count, expected[key], key)
                for thread in {thread for thread, _ in found}:
                    self.assertEqual(max(n for key, n in found.items() if key[0] == thread),
                                     max(n for key, n in expected.items() if key[0] == thread))


    def test_who_makes_slow_calls_and_on_which_cores(self):
        """By SQL over a capture with --cudabacktrace and context switches."""
        export = SHARED_TRACES / "pipit" / "saxpy-mpi-cuda_nsys_perlmutter0.sqlite"
        self.analyse(export, "out", "--force", "--quiet", "--whole-run")
        with contextlib.closing(sqlite3.connect(f"file:{export}?immutable=1", uri=True)) as database:
            calls = database.execute(
                "SELECT s.value, count(*), sum(end - start), max(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds s "
                "ON s.id = nameId WHERE callchainId IS NOT NULL GROUP BY s.value").fetchall()
            switches = database.execute("SELECT globalTid & 0xFFFFFF, start, cpu, isSchedIn FROM SCHED_EVENTS "
                                        "ORDER BY globalTid, start, isSchedIn").fetchall()
        with h5py.File(self.directory / "out" / "store.h5") as store:
            stacks, cores = rows_of(store, "call_stacks"), rows_of(store, "thread_cores")
        self.assertEqual(sum(count for _, count, _, _ in calls), 38)
        # nsys 2022 counts the stacks of calls from 0, and the stacks from 1: each holds the function that was called.
        for row in stacks:
            self.assertIn(row["name"], row["stack"])
        for name, count, total, longest in calls:
            of_name = [row for row in stacks if row["name"] == name.split("_v")[0]]
            self.assertEqual((sum(row["count"] for row in of_name), sum(row["total_ns"] for row in of_name),
                              max(row["max_ns"] for row in of_name)), (count, total, longest))
        self.assertIn("cudaMalloc < cudaError cudaMalloc<double>(double**, unsigned long) < main", " | ".join(row["stack"] for row in stacks))
        self.assertNotIn("libcupti", " ".join(row["stack"] for row in stacks))
        (launching,) = (row for row in cores if row["launches"])
        on_core, moved, last, since = collections.Counter(), 0, None, None
        for _, start, cpu, goes_on in (row for row in switches if row[0] == launching["thread"]):
            if goes_on:
                moved += last is not None and cpu != last
                last, since = cpu, start
            elif since is not None:
                on_core[last] += start - since
                since = None
        self.assertEqual((launching["cores"], launching["migrations"], launching["on_cpu_ns"]), (len(on_core), moved, sum(on_core.values())))
        self.assertEqual((launching["core"], launching["preemptions"]), (max(on_core, key=on_core.get), -1))


class CudaErrors(EndToEndTest):
    def job_with(self, status, calls):
        """The last calls of trace rank 2 return it."""
        traces = self.synth("job", *JOB, "--seed", "8", "--force")
        with contextlib.closing(sqlite3.connect(traces / "rank_00002.sqlite")) as database, database:
            database.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = ? WHERE rowid IN (SELECT rowid FROM "
                             "CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start DESC LIMIT ?)", (status, calls))
        return self.analyse(traces, "out", "--force", "--quiet")

    def told(self, report):
        return [finding for finding in report["findings"] if finding["id"] == "cuda-errors"]

    def test_that_end_a_process_are_told_first(self):
        report = self.job_with(700, 3)
        (finding,) = self.told(report)
        self.assertEqual((finding["severity"], finding["trace_ranks"], finding["place"]), ("high", [2], "GPU 2 on node000"))
        self.assertRegex(finding["title"], r"^cuda\w+ of rank 2 returned cudaErrorIllegalAddress \(700\), the first of 3 calls: "
                                           "the process can do no more on its GPU$")
        self.assertIn("illegalAddress".lower(), report["verdict"]["text"].lower())
        with h5py.File(self.directory / "out" / "store.h5") as store:
            self.assertEqual(sum(row["count"] for row in rows_of(store, "cuda_errors") if row["status"] == 700), 3)

    def test_that_a_process_outlives_are_told_as_such(self):
        (finding,) = self.told(self.job_with(2, 1))
        self.assertEqual(finding["severity"], "medium")
        self.assertIn("returned cudaErrorMemoryAllocation (2), once", finding["title"])
        self.assertIn("a smaller batch", finding["recommendation"])

    def test_answers_are_no_errors(self):
        for status in (600, 704, 801, 12345):
            with self.subTest(status=status):
                self.assertEqual(self.told(self.job_with(status, 2)), [])
                with h5py.File(self.directory / "out" / "store.h5") as store:
                    self.assertEqual({row["status"] for row in rows_of(store, "cuda_errors")}, {status})


if __name__ == "__main__":
    main()
