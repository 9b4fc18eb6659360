"""What the program itself wrote down is heard, and what is nobody's slow GPU is told as what it is: written into simulated exports."""

import contextlib
import sqlite3

import h5py

from support import EndToEndTest, main

MS = 1_000_000
JOB = ["--nodes", "1", "--steps", "24", "--layers", "2", "--truth", "none", "--clocks", "utc_offset_ms=0"]


GPU_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")


class Export:
    """One trace rank's export, to be changed. Times are its own."""

    def __init__(self, path):
        self.database = sqlite3.connect(path)

    def close(self):
        self.database.commit()
        self.database.close()

    def value(self, query, *values):
        return self.database.execute(query, values).fetchone()[0]

    def step_begin(self, step):
        return self.value("SELECT start FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE coalesce(text, value) = ?", f"step {step}")

    def collective_end(self, after_ns):
        """Of the first collective that begins after it."""
        return self.value("SELECT end FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName WHERE value LIKE 'nccl%' AND "
                          "start >= ? ORDER BY start", after_ns)

    def wait_end(self, after_ns):
        """When the host's first wait for a stream that is not over by then ends."""
        return self.value("SELECT end FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId WHERE value LIKE "
                          "'cudaStreamSynchronize%' AND end > ? ORDER BY end", after_ns)

    def insert_time(self, at_ns, pause_ns, host_at_ns=None):
        """From this moment on everything is so much later, the host's events from another; what goes on then takes longer."""
        for (table,) in self.database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = {row[1] for row in self.database.execute(f'PRAGMA table_info("{table}")')}
            is_host = host_at_ns is not None and table not in GPU_TABLES
            for column in {"start", "end", "timestamp"} & columns:
                self.database.execute(f'UPDATE "{table}" SET "{column}" = "{column}" + ? WHERE "{column}" >= ?',
                                      (pause_ns, host_at_ns if is_host else at_ns))

    def copy(self, table, where, **changes):
        columns = [row[1] for row in self.database.execute(f'PRAGMA table_info("{table}")')]
        row = dict(zip(columns, self.database.execute(f"SELECT * FROM {table} WHERE {where} LIMIT 1").fetchone()))
        row.update(changes)
        self.database.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", list(row.values()))

    def name(self, text):
        number = self.value("SELECT max(id) + 1 FROM StringIds")
        self.database.execute("INSERT INTO StringIds (id, value) VALUES (?, ?)", (number, text))
        return number

    def add_range(self, text, start_ns, end_ns):
        columns = {row[1] for row in self.database.execute("PRAGMA table_info(NVTX_EVENTS)")}
        changes = {"start": start_ns, "end": end_ns, "text": text}
        if "textId" in columns:
            changes["textId"] = None
        where = "eventType = 59 AND coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) = 'step 3'"
        self.copy("NVTX_EVENTS", where, **changes)

    def add_kernels(self, kernel, begin_ns, count, duration_ns):
        """One after the other; each is launched when the one before it ends."""
        name = self.name(kernel)
        first = self.value("SELECT max(correlationId) + 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME")
        for i in range(count):
            start = begin_ns + i * (duration_ns + 10_000)
            self.copy("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId IN (SELECT id FROM StringIds WHERE value LIKE 'cudaLaunchKernel%')",
                      start=start, end=start + 4000, correlationId=first + i)
            self.copy("CUPTI_ACTIVITY_KIND_KERNEL", "shortName NOT IN (SELECT id FROM StringIds WHERE value LIKE '%nccl%')",
                      start=start + 6000, end=start + 6000 + duration_ns, correlationId=first + i, shortName=name, demangledName=name)


class WrittenDown(EndToEndTest):
    def exports(self, seed, *options):
        traces = self.synth(f"job{seed}", *JOB, "--gpus-per-node", "4", "--seed", str(seed), "--force", *options)
        exports = [Export(path) for path in sorted(traces.glob("*.sqlite"))]
        for export in exports:
            self.addCleanup(export.database.close)
        return traces, exports

    def delay(self, exports, late, step, pause_ns):
        """Before a step one rank does something else; the others wait for it in their next collective. When it begins."""
        begins = [export.step_begin(step) for export in exports]
        for rank, export in enumerate(exports):
            if rank == late:
                export.insert_time(begins[rank], pause_ns)
                continue
            # The GPU waits within its collective, and the host for the GPU at the end of the step.
            collective_ns = export.collective_end(begins[rank]) - 1000
            export.insert_time(collective_ns, pause_ns, host_at_ns=export.wait_end(collective_ns))
        return begins[late]

    def test_an_evaluation_of_one_rank_is_its_extra_work(self):
        """With NCCL on a stream of its own the peers' kernels beside it are stretched by as much, so that nothing would end
        earlier without the evaluation; on the stream of compute they wait, and it is the two pauses that are saved."""
        for seed, options, saves in ((1, [], False), (2, ["--export", "payload=none"], False), (13, ["--nccl-on-compute-stream"], True)):
            with self.subTest(seed=seed):
                traces, exports = self.exports(seed, *options)
                for step in (16, 8):
                    begin = self.delay(exports, 1, step, 160 * MS)
                    exports[1].add_kernels("score_batch", begin + MS, 30, 5 * MS)
                    exports[1].add_range("validate", begin + MS // 2, begin + 155 * MS)
                for export in exports:
                    export.close()
                report = self.analyse(traces, "out", "--force", "--quiet")
                self.assertIn("rank 1", report["verdict"]["text"].lower())
                self.assertIn("(in validate)", report["verdict"]["text"])
                self.assertNotIn("drain", report["verdict"]["next"])
                self.assertIn("that its peers do not", report["verdict"]["next"])
                (finding,) = [one for one in report["findings"] if one["trace_ranks"] == [1]]
                self.assertEqual("saves nothing" in finding["title"], not saves, finding["title"])
                if saves:
                    elapsed = report["step_time"]["median_ns"] * 24 + 320 * MS
                    self.assertAlmostEqual(finding["saved_share"], 320 * MS / elapsed, delta=0.03)
                else:
                    self.assertNotRegex(finding["title"], "costs? ")
                    self.assertIn("other work takes as long meanwhile", finding["title"])
                with h5py.File(self.directory / "out" / "store.h5") as store:
                    rows = zip(store["straggler_differences/trace_rank"][()], store["straggler_differences/name"].asstr()[()],
                               store["straggler_differences/range"].asstr()[()], store["straggler_differences/count"][()],
                               store["straggler_differences/difference_ns"][()])
                    self.assertIn((1, "score_batch", "validate", 30, 150 * MS), list(rows))

    def test_a_range_that_takes_longer_on_one_rank_is_named(self):
        for seed in (3, 4):
            with self.subTest(seed=seed):
                traces, exports = self.exports(seed, "--nccl-on-compute-stream")  # or what runs beside would be stretched
                for step in range(21, 2, -1):
                    begin = self.delay(exports, 2, step, 9 * MS)
                    for rank, export in enumerate(exports):
                        if rank == 2:  # it launches, too: a range is not silent because of a kernel
                            export.add_kernels("normalise", begin + 8 * MS, 1, 50_000)
                            export.add_range("data", begin + MS // 4, begin + 8 * MS + MS // 2)
                for export in exports:
                    export.close()
                report = self.analyse(traces, "out", "--force", "--quiet")
                (late,) = report["stragglers"]
                self.assertEqual((late["trace_ranks"], late["cause"], late["host_was_in"]), ([2], "launch_starved", "data"))
                self.assertIn("its host launches late (in data)", report["verdict"]["text"])
                self.assertNotIn("no call or range shows", " ".join(late["evidence"]))
                self.assertNotIn("gc.", report["verdict"]["next"])


class Uneven(EndToEndTest):
    def simulated(self, seed, *options, gpus=4):
        traces = self.synth("job", *JOB, "--gpus-per-node", str(gpus), "--seed", str(seed), "--force", *options)
        return self.analyse(traces, "out", "--force", "--quiet")

    def test_a_busy_expert_is_no_slow_gpu(self):
        for seed, factor in ((5, 1.6), (6, 2.5)):
            with self.subTest(seed=seed):
                report = self.simulated(seed, "--fault", f"uneven_work:rank=2,factor={factor}")
                (late,) = report["stragglers"]
                self.assertEqual((late["trace_ranks"], late["cause"]), ([2], "uneven_work"))
                self.assertNotIn("drain", report["verdict"]["next"])
                self.assertNotIn("slow-gpu", [finding["id"] for finding in report["findings"]])
                self.assertIn("takes 1.00 times as long", " ".join(late["evidence"]))

    def test_a_slow_gpu_is_no_uneven_work(self):
        report = self.simulated(7, "--fault", "slow_gpu:rank=1,factor=1.4")
        self.assertEqual([(one["trace_ranks"], one["cause"]) for one in report["stragglers"]], [([1], "slow_kernel")])
        self.assertIn("drain", report["verdict"]["next"])

    def test_lengths_drawn_in_each_step_are_uneven_work_of_the_job(self):
        for seed, spread in ((8, 0.3), (9, 0.5)):
            with self.subTest(seed=seed):
                report = self.simulated(seed, "--fault", f"uneven_work:factor={spread}", gpus=8)
                self.assertEqual((report["stragglers"], report["suspects"]), ([], []))
                self.assertEqual((report["delay"]["rotating"], report["delay"]["rotating_cause"]), (True, "uneven_work"))
                self.assertGreater(report["delay"]["rotating_share"], 0.9)
                self.assertIn("sequence lengths", report["verdict"]["next"])
                waiting = report["delay"]["wait_ns"] / sum(rank["window_ns"] for rank in report["ranks"])
                self.assertIn(f"{100 * waiting:.1f}% of all GPU time is waiting", report["verdict"]["text"])

    def test_pauses_that_wander_are_none(self):
        report = self.simulated(10, "--fault", "rotating_jitter:pause=3ms")
        self.assertNotEqual(report["delay"]["rotating_cause"], "uneven_work")


class Overlap(EndToEndTest):
    def exposed(self, *options, connections=None):
        traces = self.synth("job", *JOB, "--gpus-per-node", "4", "--seed", "11", "--gradient-mib", "256", "--force", *options)
        for path in traces.glob("*.sqlite"):
            if connections is not None:
                with contextlib.closing(sqlite3.connect(path)) as database, database:
                    database.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = value || ? WHERE name = 'DeviceEnvironment'",
                                     (f";CUDA_DEVICE_MAX_CONNECTIONS={connections}",))
                    database.execute("INSERT INTO META_DATA_CAPTURE (name, value) VALUES (?, ?)",
                                     ("PROCESS_0:ENVIRONMENT_VARIABLE", f'CUDA_DEVICE_MAX_CONNECTIONS="{connections}"'))
        report = self.analyse(traces, "out", "--force", "--quiet")
        return next(finding for finding in report["findings"] if finding["id"] == "exposed-communication")

    def test_one_stream_is_the_reason(self):
        finding = self.exposed("--nccl-on-compute-stream")
        self.assertIn("100% of the communication kernels run on the stream of compute", " ".join(finding["evidence"]))
        self.assertIn("give communication a separate stream", finding["recommendation"])

    def test_streams_that_are_separate_need_no_advice(self):
        finding = self.exposed()
        self.assertNotIn("stream", finding["recommendation"])

    def test_one_hardware_queue_is_the_reason(self):
        for connections, told in ((1, True), (8, False)):
            with self.subTest(connections=connections):
                finding = self.exposed(connections=connections)
                self.assertEqual("on 4 of 4 ranks: all streams of a GPU share one hardware queue" in " ".join(finding["evidence"]), told)
                self.assertEqual(finding["recommendation"].startswith("unset CUDA_DEVICE_MAX_CONNECTIONS"), told)


class Connections(EndToEndTest):
    def simulated(self, setup_ns):
        traces = self.synth("job", *JOB, "--gpus-per-node", "4", "--seed", "12", "--nccl-on-compute-stream", "--force")
        for path in traces.glob("*.sqlite"):
            export = Export(path)
            if setup_ns > 0:
                export.insert_time(export.collective_end(0) - 1000, setup_ns)
            export.close()
        report = self.analyse(traces, "out", "--force", "--quiet")
        return report, {finding["id"]: finding for finding in report["findings"]}

    def test_the_first_collective_makes_connections(self):
        before, usual = self.simulated(0)
        self.assertNotIn("connection-setup", usual)
        for setup_ms in (150, 700):
            with self.subTest(setup_ms=setup_ms):
                report, findings = self.simulated(setup_ms * MS)
                # Four members, less than the longest later one of some milliseconds.
                cost_ms = findings["connection-setup"]["cost_ns"] / MS
                self.assertTrue(4 * (setup_ms - 10) <= cost_ms <= 4 * setup_ms, cost_ms)
                self.assertEqual((report["stragglers"], report["suspects"]), ([], []))
                self.assertNotIn("long-waits", findings)
                # What no compute hides is what it was.
                exposed = [found["exposed-communication"]["cost_ns"] if "exposed-communication" in found else 0 for found in (usual, findings)]
                self.assertLess(abs(exposed[1] - exposed[0]), 60 * MS)


if __name__ == "__main__":
    main()
