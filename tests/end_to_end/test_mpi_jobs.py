"""Jobs that communicate by MPI alone: who is late in their collectives is named as in those of NCCL, and nobody where nobody is."""

import collections

import h5py

from mpi_jobs import write_job
from support import EndToEndTest, main, seeds

STEPS = 40


class MpiJobs(EndToEndTest):
    def explain_job(self, *options, out="out", **job):
        traces = write_job(self.directory / "job", steps=STEPS, **job)
        return self.analyse(traces, out, "--force", "--quiet", *options)

    def assert_late(self, told, late, by_ns):
        self.assertEqual((told["trace_rank"], told["cause"], told["pattern"]), (late, "slow_kernel", "persistent"))
        self.assertLess(abs(told["own_lateness_ns"] / (STEPS * by_ns) - 1), 0.05)

    def test_name_who_is_late(self):
        for seed in seeds(6):
            for uid in (None, 0x1234_5678_9ABC_DEF0):
                with self.subTest(seed=seed, uid=uid):
                    by_ns = (1_600_000, 400_000, 800_000)[seed % 3]
                    report = self.explain_job(seed=seed, late=seed % 4, by_ns=by_ns, uid=uid)
                    (straggler,) = report["stragglers"]
                    self.assert_late(straggler, seed % 4, by_ns)
                    self.assertIn(f"(rank {seed % 4})", report["verdict"]["text"])
                    # Kernels take 4 ms of a step, and all else 0.06 ms.
                    self.assertLess(abs(straggler["cost_share"] / (by_ns / (4_060_000 + by_ns)) - 1), 0.05)
                    self.assertEqual([(c["evidence"], c["size"]) for c in report["communicators"]], [("mpi_call", 4)])

    def test_name_nobody_where_all_do_the_same(self):
        for seed in seeds(6):
            for halo in (False, True):
                with self.subTest(seed=seed, halo=halo):
                    report = self.explain_job(seed=seed, halo=halo)
                    self.assertEqual((report["stragglers"], report["suspects"], report["late_without_cost"]), ([], [], []))
                    self.assertEqual(report["verdict"]["text"].startswith("No rank is late."), not halo, report["verdict"]["text"])

    def test_name_who_is_late_before_messages(self):
        for seed in seeds(4):
            by_ns = (1_600_000, 800_000)[seed % 2]
            with self.subTest(seed=seed):
                report = self.explain_job(seed=seed, ranks=(4, 8)[seed % 2], late=seed % 4, by_ns=by_ns, halo=True, requests="Waitall")
                (straggler,) = report["stragglers"]
                self.assertEqual((straggler["trace_rank"], straggler["cause"], straggler["pattern"]), (seed % 4, "slow_kernel", "persistent"))
                self.assertLess(abs(straggler["cost_share"] - by_ns / (4_060_000 + by_ns)), 0.01)
                (messages,) = (c for c in report["communicators"] if c["given_name"] == "MPI point-to-point")
                self.assertEqual((messages["complete"], messages["unmatched_arrivals"]), (STEPS * 2 * len(report["ranks"]), 0))
                self.assertNotIn("pipeline-bubble", [finding["id"] for finding in report["findings"]])

    def test_tell_a_late_host_before_messages(self):
        # Who sends is not compared with who receives: at that place of the program nobody runs kernels.
        for seed in seeds(4):
            with self.subTest(seed=seed):
                report = self.explain_job(seed=seed, late=seed % 4, by_ns=0, pause_ns=1_200_000, halo=True, requests=("Waitall", "Wait")[seed % 2])
                (straggler,) = report["stragglers"]
                self.assertEqual((straggler["trace_rank"], straggler["cause"]), (seed % 4, "launch_starved"))

    def test_price_nothing_where_hosts_launch_while_they_wait(self):
        report = self.explain_job(late=2, impossible=True)
        (straggler,) = report["stragglers"]
        self.assertEqual((straggler["trace_rank"], straggler["cause"], report["what_if"]), (2, "slow_kernel", []))
        self.assertIsNone(report["verdict"]["saved_share"])
        # Three of four wait 1.6 of 5.66 ms.
        self.assertLess(abs(straggler["cost_share"] - 0.75 * 1.6 / 5.66), 0.01)
        (warning,) = (one for one in report["warnings"] if "launches of the same thread" in one["message"])
        self.assertEqual(warning["count"], 4 * STEPS)
        self.assertNotEqual(self.explain_job(late=2)["what_if"], [])

    def waits_for_messages(self, **job):
        """How often a rank waits for another one's part in a message by more than a millisecond: (who, for whom) -> count."""
        report = self.explain_job("--whole-run", halo=True, **job)
        with h5py.File(self.directory / "out" / "store.h5") as store:
            operations = store["collective_instances/operation"].asstr()[()]
            last = dict(zip(store["collective_instances/instance"][()], store["collective_instances/last_trace_rank"][()]))
            exchanges = {i for i, operation in zip(last, operations) if operation == "send_recv"}
            rows = list(zip(*(store[f"collective_arrivals/{name}"][()] for name in ("instance", "trace_rank", "wait_ns"))))
        return report, collections.Counter((rank, last[i]) for i, rank, wait_ns in rows if i in exchanges and wait_ns > 1_000_000)

    def test_tell_who_waits_for_whose_message(self):
        # Of the two that each MPI_Waitall completes, the one of the late rank is waited for. So is it by MPI_Wait, whichever is completed first.
        for requests in ("Waitall", "Wait", "Start"):
            with self.subTest(requests=requests):
                self.assertEqual(self.waits_for_messages(late=2, requests=requests)[1], {(1, 2): STEPS, (3, 2): STEPS})

    def test_tell_late_senders_and_late_receivers(self):
        for late, who in ((2, 3), (1, 0)):
            with self.subTest(late=late):
                report, waits = self.waits_for_messages(late=late, requests="none")
                self.assertEqual(waits, {(who, late): STEPS})
                (straggler,) = report["stragglers"]
                self.assertEqual((straggler["trace_rank"], straggler["cause"]), (late, "slow_kernel"))
                self.assertLess(abs(straggler["cost_share"] - 1.6 / (4.06 + 1.6)), 0.01)

    def test_name_nobody_where_halos_are_exchanged_evenly(self):
        for seed in seeds(6):
            with self.subTest(seed=seed):
                report = self.explain_job(seed=seed, ranks=(4, 8)[seed % 2], halo=True, requests=("Waitall", "Wait")[seed // 2 % 2])
                self.assertEqual((report["stragglers"], report["suspects"], report["late_without_cost"]), ([], [], []))
                self.assertNotIn("pipeline-bubble", [finding["id"] for finding in report["findings"]])

    def test_say_that_requests_cannot_be_followed(self):
        report = self.explain_job(late=1, halo=True)
        self.assertEqual(report["stragglers"], [])
        self.assertTrue(any("nothing tells the peer" in warning["message"] for warning in report["warnings"]), report["warnings"])

    def test_suspect_who_is_late_behind_messages(self):
        # Its neighbours wait in MPI_Waitall and come as late to MPI_Allreduce. Whom they waited for there is not told.
        for seed in seeds(6):
            with self.subTest(seed=seed):
                report = self.explain_job(seed=seed, ranks=6, late=seed % 6, halo=True)
                (suspect,) = report["suspects"]
                self.assert_late(suspect, seed % 6, 1_600_000)
                self.assertEqual((report["stragglers"], suspect["doubt"]), ([], "unseen"))

    def test_tell_communicators_apart_by_recorded_ids(self):
        report = self.explain_job(late=1, pairs=True, uid=0x1234_5678_9ABC_DEF0)
        (straggler,) = report["stragglers"]
        self.assert_late(straggler, 1, 1_600_000)
        self.assertEqual(sorted((c["trace_ranks"], c["complete"]) for c in report["communicators"]),
                         [([0, 1], STEPS), ([0, 1, 2, 3], STEPS), ([2, 3], STEPS)])

    def test_name_no_communicator_where_handles_differ(self):
        report = self.explain_job(late=1, pairs=True)
        self.assertEqual((report["stragglers"], [one["trace_rank"] for one in report["suspects"]]), ([], [1]))
        (withheld,) = (finding for finding in report["findings"] if finding["id"] == "withheld-arrivals")
        self.assertIn(f"{8 * STEPS} calls into MPI are in no collective", withheld["title"])
        self.assertIn("commUid", withheld["recommendation"])

    def test_are_matched_call_by_call(self):
        functions = ("MPI_Barrier", "MPI_Bcast", "MPI_Alltoall", "MPI_Allgather", "MPI_Reduce", "MPI_Reduce_scatter", "MPI_Gatherv", "MPI_Scatter",
                     "MPI_Allreduce")
        self.explain_job("--whole-run", functions=functions)
        with h5py.File(self.directory / "out" / "store.h5") as store:
            operations = store["collective_instances/operation"].asstr()[()].tolist()
            sources = set(store["collective_arrivals/timing_source"].asstr()[()])
            enters, waits = store["collective_arrivals/enter_ns"][()], store["collective_arrivals/wait_ns"][()]
        expected = ("barrier", "broadcast", "all_to_all", "all_gather", "reduce", "reduce_scatter", "gather", "scatter", "all_reduce")
        self.assertEqual({name: operations.count(name) for name in expected}, dict.fromkeys(expected, STEPS))
        self.assertEqual((len(operations), sources, len(enters), waits.min() >= 0), (9 * STEPS, {"host_call"}, 4 * 9 * STEPS, True))

    def test_of_two_at_once_the_largest_is_analysed(self):
        jobs = [write_job(self.directory / "first", steps=STEPS, late=1)]
        alone = [self.analyse(jobs[0], "alone", "--quiet")]
        for later, chosen in ((dict(began_s=60), 0), (dict(ranks=6), 1)):  # one after the other, or of another size
            jobs[1:] = [write_job(self.directory / "second", **{"steps": STEPS, **later})]
            alone[1:] = [self.analyse(jobs[1], "alone", "--force", "--quiet")]
            for tool_ranks in (None, 2):
                with self.subTest(later=later, tool_ranks=tool_ranks):
                    done = self.explain(jobs, "out", "--force", "--quiet", ranks=tool_ranks)
                    self.assertEqual(done.returncode, 4, done.stderr)
                    report, other = self.report("out"), 1 - chosen
                    files = sorted(str(path) for path in jobs[other].glob("*.sqlite"))
                    command = f"nsys-explain-mpi {' '.join(files)} --out report-2"
                    self.assertIn(f"the inputs hold 2 jobs, and one of {len(files)} ranks", done.stderr.splitlines()[0])
                    self.assertIn(command, done.stderr.splitlines()[0])
                    self.assertEqual([(job["paths"], job["command"]) for job in report["other_jobs"]], [(files, command)])
                    for key in ("trace_ranks", "sessions", "stragglers", "step_time", "clock", "collectives"):
                        self.assertEqual(report[key], alone[chosen][key])
                    told = report["verdict"]["text"].removeprefix("The inputs hold 2 jobs: the other one cannot be judged here. ")
                    self.assertEqual(told, alone[chosen]["verdict"]["text"])
                    picked = self.analyse(jobs, "picked", "--force", "--quiet", "--job-of", files[-1], code=4)
                    self.assertEqual(picked["trace_ranks"], alone[other]["trace_ranks"])
        done = self.explain(jobs, "none", "--job-of", "hydro.9.sqlite")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--job-of hydro.9.sqlite: no input of that name holds a rank", done.stderr)

    def test_are_the_same_on_any_number_of_tool_ranks(self):
        for requests in (None, "Waitall"):
            with self.subTest(requests=requests):
                self.explain_job(late=2, halo=True, requests=requests, out="one")
                self.analyse(self.directory / "job", "three", "--force", "--quiet", ranks=3)
                self.assert_same_results("one", "three")


if __name__ == "__main__":
    main()
