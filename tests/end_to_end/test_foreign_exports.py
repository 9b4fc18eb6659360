"""Traces as other tools make them: no metadata, no session start, few columns, few samples. Analysed as far as they go; what they lack
is said."""

import contextlib
import sqlite3

import h5py

from support import EndToEndTest, main

PID = 1 << 24  # of global ids


def build(path):
    """Two processes on one GPU. Communication lies in [1, 3) and [4, 5.5) ms; NVLink is sampled at six moments."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.executescript("""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL,
                streamId INT NOT NULL, globalPid INT, correlationId INT, demangledName INT NOT NULL);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT NOT NULL, end INT NOT NULL, nameId INT NOT NULL, globalTid INT, correlationId INT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, streamId INT NOT NULL,
                bytes INT, copyKind INT);
            CREATE TABLE NVTX_EVENTS (start INT NOT NULL, end INT NOT NULL, eventType INT, text TEXT, textId INT, globalTid INT);
            CREATE TABLE TARGET_INFO_GPU_METRICS (metricId INT NOT NULL, metricName TEXT NOT NULL, typeId INT);
            CREATE TABLE GPU_METRICS (timestamp INT NOT NULL, metricId INT NOT NULL, typeId INT, value REAL NOT NULL);
        """)
        database.executemany("INSERT INTO StringIds VALUES (?, ?)",
                             [(1, "void math::compute<float>(float*)"), (2, "ncclAllReduceRingKernel"), (3, "ncclBroadcastRingKernel"),
                              (10, "cudaLaunchKernel"), (12, "cudaStreamSynchronize")])
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 0, ?, ?, ?, ?)",
                             [(0, 1_000_000, 0, 111 * PID, 101, 1), (1_000_000, 3_000_000, 0, 111 * PID, 102, 2),
                              (1_500_000, 2_500_000, 1, 111 * PID, 103, 1), (4_000_000, 5_500_000, 0, 222 * PID, 201, 3),
                              (4_200_000, 4_800_000, 1, 222 * PID, 202, 1)])
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)",
                             [(0, 10_000, 10, 111 * PID + 7, 101), (210_000, 220_000, 10, 111 * PID + 7, 102),
                              (1_200_000, 1_215_000, 10, 111 * PID + 7, 103), (3_950_000, 3_970_000, 10, 222 * PID + 9, 201),
                              (4_150_000, 4_170_000, 10, 222 * PID + 9, 202), (5_000_000, 5_800_000, 12, 111 * PID + 7, None)])
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (3100000, 3600000, 0, 7, 4096, 1)")
        database.execute("INSERT INTO NVTX_EVENTS VALUES (0, 3100000, 59, 'prefill', NULL, ?)", (111 * PID + 7,))
        database.executemany("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (?, ?, 0)", [(1, "NVLink bytes transmitted"), (2, "NVLink bytes received")])
        database.executemany("INSERT INTO GPU_METRICS VALUES (?, ?, 0, ?)",
                             [(at, metric, value) for at, values in [(500_000, (5.0, 4.0)), (1_500_000, (70.0, 65.0)), (2_500_000, (80.0, 78.0)),
                                                                     (3_500_000, (6.0, 5.0)), (4_500_000, (85.0, 82.0)), (6_000_000, (8.0, 7.0))]
                              for metric, value in zip((1, 2), values)])


class ForeignExports(EndToEndTest):
    def setUp(self):
        super().setUp()
        build(self.directory / "trace.sqlite")
        self.found = self.analyse(self.directory / "trace.sqlite", "out", "--quiet", "--gpu-trace")

    def test_are_analysed_degraded(self):
        (given,) = self.found["inputs"]
        self.assertEqual(given["status"], "degraded")
        messages = " ".join(warning["message"] for warning in self.found["warnings"])
        self.assertIn("does not tell when the session started", messages)
        self.assertIn("rows of CUPTI_ACTIVITY_KIND_MEMCPY do not tell their process", messages)
        # By hand: 1 + 1 ms of compute in one process, 0.6 ms in the other.
        kernels = {(kernel["name"], kernel["total_ns"]) for kernel in self.found["activity"]["kernels"]}
        self.assertIn(("void math::compute<float>(float*)", 2_600_000), kernels)
        self.assertEqual([rank["window_ns"] for rank in self.found["ranks"]], [3_000_000, 1_500_000])

    def test_a_gpu_of_two_processes_is_told_as_a_whole(self):
        # nsys-llm-explainer publishes of this example: 909.1 launches a second, 18.2% idle, a gap of 1 ms, p50, p90 and
        # p99 of 1000, 1800 and 1980 us.
        with h5py.File(self.directory / "out" / "store.h5") as store:
            (gpu,) = zip(*(store["shared_gpus"][name][:] for name in store["shared_gpus"]))
            gpu = dict(zip(store["shared_gpus"], gpu))
        self.assertEqual((gpu["trace_rank"], gpu["processes"], gpu["launches"], gpu["window_ns"]), (0, 2, 5, 5_500_000))
        self.assertAlmostEqual(gpu["launches_per_second"], 909.1, delta=0.05)
        self.assertAlmostEqual(gpu["idle_percent"], 18.2, delta=0.05)
        self.assertEqual((gpu["idle_ns"], gpu["longest_gap_ns"]), (1_000_000, 1_000_000))
        for name, value in (("median_ns", 1_000_000), ("p90_ns", 1_800_000), ("p99_ns", 1_980_000)):
            self.assertAlmostEqual(gpu[name], value, delta=1)

    def test_overlap_of_each_communication_kernel(self):
        with h5py.File(self.directory / "out" / "store.h5") as store:
            rows = sorted(zip(*(store["communication_overlap_trace"][name][:] for name in ("trace_rank", "duration_ns", "overlapped_ns"))))
        self.assertEqual(rows, [(0, 2_000_000, 1_000_000), (1, 1_500_000, 600_000)])  # published: 1.0 and 0.6 ms

    def test_short_names_are_those_of_functions(self):
        with h5py.File(self.directory / "out" / "store.h5") as store:
            self.assertIn("compute", set(store["kernels_by_base_name"]["name"].asstr()[:]))

    def test_sparse_link_samples_give_means_and_no_correlation(self):
        (sent,) = (gpu for gpu in self.found["nvlink"]["gpus"] if gpu["trace_rank"] == 0 and "transmit" in gpu["metric"])
        # A sample covers the time since the one before: half of (0.5, 1.5] and all of (1.5, 2.5] ms lie in the all-reduce.
        self.assertAlmostEqual(sent["mean_during_percent"], (0.5 * 70 + 1.0 * 80) / 1.5)
        self.assertAlmostEqual(sent["mean_outside_percent"], 70)
        self.assertIsNone(sent["correlation"])
        self.assertIn("of 2 that cannot be told: their samples within the GPU's activity are too few", self.found["nvlink"]["message"])


if __name__ == "__main__":
    main()
