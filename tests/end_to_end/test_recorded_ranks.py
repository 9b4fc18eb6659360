"""Who is a rank, and what is claimed where not all of them, or not all of their events, were recorded."""

import contextlib
import sqlite3

from support import EndToEndTest, main

NODE = ["--nodes", "1", "--gpus-per-node", "4", "--truth", "none"]
SLOW = ["--fault", "slow_gpu:rank=2,factor=1.4"]
EVENTS = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
          "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")


@contextlib.contextmanager
def opened(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        yield connection
        connection.commit()


def columns_of(connection, table):
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def add_helper(connection, share, name="fill"):
    """A further process beside a rank, as an engine beside its workers, with this share of its kernels, called so (None: as the rank's
    are); its process id."""
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    columns = columns_of(connection, table)
    rank, all_kernels = connection.execute(f"SELECT globalPid, count(*) FROM {table} GROUP BY 1 ORDER BY 1").fetchone()
    kernels = int(share * all_kernels)
    helper = rank - (1 << 24)
    changed = {"globalPid": str(helper), "start": "start - 9000", "end": "start - 5000", "correlationId": "correlationId + 1000000"}
    if name:
        (text,) = connection.execute("SELECT max(id) + 1 FROM StringIds").fetchone()
        connection.execute("INSERT INTO StringIds VALUES (?, ?)", (text, name))
        changed.update(shortName=str(text), demangledName=str(text))
    values = ", ".join(changed.get(column, column) for column in columns)
    connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE globalPid = ? AND shortName "
                       f"NOT IN (SELECT id FROM StringIds WHERE value LIKE 'nccl%') AND demangledName NOT IN (SELECT id FROM "
                       f"StringIds WHERE value LIKE '%nccl%') AND rowid % 3 = 1 LIMIT ?", (rank, kernels))
    assert connection.execute(f"SELECT count(*) FROM {table} WHERE globalPid = ?", (helper,)).fetchone() == (kernels,) != (0,)
    return helper >> 24 & 0xFFFFFF


def told_about(report, finding):
    return [one for one in report["findings"] if one["id"] == finding]


class RecordedRanks(EndToEndTest):
    def job_with_helper(self, share, *name):
        """Reports without and with it, and its process id."""
        traces = self.synth("job", *NODE, *SLOW, "--export", "files=per_node,rank_hint=nothing,payload=none", "--steps", "16", "--seed", "11",
                            "--force")
        without = self.analyse(traces, "without", "--force")
        (path,) = traces.glob("*.sqlite")
        with opened(path) as connection:
            helper = add_helper(connection, share, *name)
        return without, self.analyse(traces, "with", "--force"), helper

    def test_a_helper_process_is_no_rank(self):
        for share in (0.006, 0.2):
            with self.subTest(share=share):
                without, report, helper = self.job_with_helper(share)
                self.assertEqual([(rank["trace_rank"], rank["process_id"]) for rank in report["trace_ranks"]],
                                 [(rank["trace_rank"], rank["process_id"]) for rank in without["trace_ranks"]])
                self.assertEqual((report["stragglers"], report["verdict"]), (without["stragglers"], without["verdict"]))
                self.assertEqual([one["trace_ranks"] for one in report["stragglers"]], [[2]])
                (warning,) = [one for one in report["warnings"] if "helper of the program" in one["message"]]
                self.assertEqual(warning["severity"], "info")
                self.assertIn(f"process {helper} ", warning["message"])
                (told,) = report["helpers"]
                self.assertEqual((told["process_id"], told["busy_ns"]), (helper, 4000 * told["kernels"]))
                self.assertEqual(told["trace_ranks"], [0])
                in_the_way = told["busy_ns"] / told["recorded_ns"] >= 0.01
                self.assertEqual(in_the_way, bool(told_about(report, "shared-gpus")))

    def test_who_does_a_ranks_work_is_one_that_is_unsure(self):
        _, report, helper = self.job_with_helper(0.2, None)
        self.assertEqual([rank["process_id"] for rank in report["trace_ranks"]].count(helper), 1)
        (warning,) = [one for one in report["warnings"] if f"whether process {helper} " in one["message"]]
        self.assertEqual((warning["severity"], report["inputs"][0]["status"]), ("data_loss", "degraded"))

    def test_of_attempts_in_one_export_one_is_analysed(self):
        traces = self.synth("job", *NODE, *SLOW, "--export", "files=per_node,rank_hint=nothing", "--steps", "16", "--seed", "11")
        (path,) = traces.glob("*.sqlite")
        expected = self.analyse(traces, "first")
        with opened(path) as connection:
            for table in (*EVENTS, "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
                columns = columns_of(connection, table)
                later = {name: f"{name} + 60000000000" for name in ("start", "end")} | {name: f"{name} + (100 << 24)" for name in ("globalPid", "globalTid")}
                connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(later.get(name, name) for name in columns)} FROM {table}")
        processes = [rank["process_id"] for rank in expected["trace_ranks"]]
        for options, added in (([], 0), (["--job-of", f"{path.name}:{processes[0] + 100}"], 100)):
            report = self.analyse(traces, "both", "--force", *options, code=4)
            self.assertEqual([rank["process_id"] for rank in report["trace_ranks"]], [process + added for process in processes])
            self.assertEqual([one["trace_ranks"] for one in report["stragglers"]], [[2]])
            self.assertTrue(report["verdict"]["text"].startswith("The inputs hold 2 jobs: the other one cannot be judged here. "))
            (other,) = report["other_jobs"]
            self.assertEqual((other["trace_ranks"], other["reason"]), (4, "they ran one after the other"))
            self.assertRegex(other["command"], f"--job-of {path}:[0-9]+ --out report-{2 - added // 100}$")

    def test_processes_whose_cuda_was_not_traced_are_missing(self):
        traces = self.synth("job", *NODE, "--export", "files=per_node,rank_hint=nothing,payload=none", "--steps", "10",
                            "--seed", "12")
        (path,) = traces.glob("*.sqlite")
        with opened(path) as connection:
            (kept,) = connection.execute("SELECT max(globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
            for table in EVENTS:
                if "globalPid" in columns_of(connection, table):
                    connection.execute(f"DELETE FROM {table} WHERE globalPid <> ?", (kept,))
                elif "globalTid" in columns_of(connection, table):
                    connection.execute(f"DELETE FROM {table} WHERE globalTid >> 24 <> ? >> 24", (kept,))
            connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE globalTid >> 24 <> ? >> 24", (kept,))
        report = self.analyse(traces, "out")
        self.assertFalse(report["verdict"]["complete"])
        self.assertIn("3 of 4 processes have NCCL calls but no GPU work: nsys did not trace their CUDA", report["verdict"]["text"])
        (one,) = report["inputs"]
        self.assertEqual(one["status"], "degraded")
        self.assertNotIn(str(report["trace_ranks"][0]["process_id"]), one["message"])
        self.assertIn(one["message"], told_about(report, "missing-ranks")[0]["evidence"])
        # Without their ranges, too, the collectives show that others took part.
        with opened(path) as connection:
            connection.execute("DELETE FROM NVTX_EVENTS")
        report = self.analyse(traces, "bare")
        self.assertEqual(len(report["trace_ranks"]), 1)
        self.assertFalse(report["verdict"]["complete"])
        self.assertIn("At least 1 rank has no trace", report["verdict"]["text"])
        self.assertNotIn("before anything else", str(report["findings"]))

    def test_one_gpu_for_all_is_told_and_names_nobody(self):
        traces = self.synth("job", *NODE, *SLOW, "--steps", "16", "--export", "isolated_devices", "--seed", "13")
        apart = self.analyse(traces, "apart")
        self.assertEqual(told_about(apart, "shared-gpus"), [])
        for path in traces.glob("*.sqlite"):
            with opened(path) as connection:
                connection.execute("UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = 0, uuid = 'GPU-1b2c3d4e-0000-1111-2222-333344445555'")
        report = self.analyse(traces, "shared")
        (finding,) = told_about(report, "shared-gpus")
        self.assertEqual((finding["severity"], finding["title"]), ("info", "4 ranks share one GPU"))
        self.assertEqual((finding["trace_ranks"], report["verdict"]["finding"]), ([], "straggler"))
        self.assertEqual([one["trace_ranks"] for one in report["stragglers"]], [[2]])
        (straggler,) = told_about(report, "straggler")
        self.assertNotIn("drain", straggler["recommendation"])
        self.assertIn("drain", told_about(apart, "straggler")[0]["recommendation"])

    def test_an_export_without_ranges_or_calls_is_degraded_and_no_missing_rank(self):
        for table, lacks in (("NVTX_EVENTS", "no NVTX ranges"), ("CUPTI_ACTIVITY_KIND_RUNTIME", "no CUDA calls")):
            with self.subTest(table=table):
                traces = self.synth("job", *NODE, "--steps", "8", "--seed", "14", "--force")
                with opened(traces / "rank_00001.sqlite") as connection:
                    connection.execute(f"DROP TABLE {table}")
                report = self.analyse(traces, "out", "--force")
                self.assertEqual([one["status"] for one in report["inputs"]], ["ok", "degraded", "ok", "ok"])
                self.assertIn(f"rank_00001.sqlite holds {lacks}, unlike the other exports", report["inputs"][1]["message"])
                # The others name a communicator of four, and in each of its collectives trace rank 1 was there.
                collectives = report["collectives"]
                self.assertEqual((collectives["complete"], collectives["unmatched_arrivals"], collectives["withheld_arrivals"]),
                                 (collectives["instances"], 0, 0))
                self.assertEqual(report["stragglers"], [])
                self.assertNotIn("no trace:", str(report["findings"]) + str(report["warnings"]))

    def test_a_process_without_ranges_of_the_program_is_named(self):
        traces = self.synth("job", *NODE, "--steps", "8", "--seed", "16")
        def warnings(report):
            return [one for one in report["warnings"] if "no NVTX range but NCCL's" in one["message"]]
        self.assertEqual(warnings(self.analyse(traces, "whole")), [])
        with opened(traces / "rank_00001.sqlite") as connection:
            (process,) = connection.execute("SELECT DISTINCT globalPid >> 24 & 0xFFFFFF FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
            connection.execute("DELETE FROM NVTX_EVENTS WHERE eventType = 59 AND domainId NOT IN "
                               "(SELECT domainId FROM NVTX_EVENTS WHERE eventType = 75)")
            self.assertGreater(connection.execute("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59").fetchone()[0], 0)
        (warning,) = warnings(self.analyse(traces, "out"))
        self.assertEqual((warning["severity"], warning["source"], warning["count"]), ("info", "analysis", 1))
        self.assertIn(f"rank 1 (process {process}) launched kernels and recorded no NVTX range but NCCL's, while kernels of 3 other ranks lie", warning["message"])
        # Without any range its input says so, and once.
        with opened(traces / "rank_00001.sqlite") as connection:
            connection.execute("DELETE FROM NVTX_EVENTS")
        self.assertEqual(warnings(self.analyse(traces, "bare")), [])

    def test_an_export_without_copies_is_degraded(self):
        traces = self.synth("job", *NODE, "--steps", "8", "--seed", "15")
        with opened(traces / "rank_00003.sqlite") as connection:
            connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY")
            connection.execute("DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_MEMSET")
        report = self.analyse(traces, "out")
        self.assertEqual([one["status"] for one in report["inputs"]], ["ok", "ok", "ok", "degraded"])
        self.assertIn("holds no copies", report["inputs"][3]["message"])

    def test_steps_that_nothing_relates_do_not_change(self):
        # Two ranks of different paces, whose collectives nobody knows by name.
        traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--truth", "none", "--capture", "no_nvtx", "--steps", "40", "--seed",
                            "16", *SLOW[:1], "slow_gpu:rank=1,factor=1.6,first_step=15")
        for path in traces.glob("*.sqlite"):
            with opened(path) as connection:
                connection.execute("UPDATE StringIds SET value = replace(value, 'nccl', 'my') WHERE value LIKE '%nccl%'")
        report = self.analyse(traces, "out")
        self.assertEqual((report["collectives"]["instances"], report["step_time"]["steps"]), (0, 0))
        self.assertEqual(report["step_time"]["change_points"], [])
        self.assertEqual(told_about(report, "step-time-change"), [])


if __name__ == "__main__":
    main()
