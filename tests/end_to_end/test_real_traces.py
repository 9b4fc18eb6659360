"""Real exports of public projects against figures worked out independently of this tool (with plain SQL and NumPy, or
by nsys itself). Skipped, loudly, where ../shared/traces is absent."""

import unittest

import h5py
import numpy

from support import SHARED_TRACES, WITHOUT_GPU_WORK, EndToEndTest, main


def column(store, table, name):
    return store[f"{table}/{name}"][()]


@unittest.skipUnless(SHARED_TRACES.is_dir(), "the real traces (../shared/traces) are absent")
class RealTraces(EndToEndTest):
    def skews(self, out):
        """Start and end skew of every instance, from the store."""
        with h5py.File(self.directory / out / "store.h5") as store:
            start = column(store, "collective_instances", "arrival_skew_ns")
            instance = column(store, "collective_arrivals", "instance")
            exits = column(store, "collective_arrivals", "exit_ns")
        end = [exits[instance == i].max() - exits[instance == i].min() for i in range(len(start))]
        return start, numpy.array(end)

    def test_mfu_before(self):
        report = self.analyse(SHARED_TRACES / "nsys-ai" / "mfu_2gpu_before.sqlite", "out", "--whole-run", ranks=2)
        self.assertEqual(report["collectives"]["complete"], 33)
        self.assertEqual(report["collectives"]["unmatched_arrivals"], 0)
        start, end = self.skews("out")
        self.assertEqual((numpy.median(start), start.max(), start.sum()), (51_461, 3_339_732, 13_375_816))
        self.assertEqual((numpy.median(end), end.max()), (22_214, 26_587))
        gpu = report["ranks"][0]
        self.assertEqual(gpu["window_ns"], 299_848_812)
        self.assertEqual(gpu["compute_ns"], 253_690_832)
        self.assertEqual(gpu["communication_ns"], 17_172_652)
        self.assertEqual(gpu["overlapped_ns"], 0)
        # The independent figure counts copies as idle.
        self.assertEqual(gpu["idle_ns"] + gpu["copy_ns"], 28_985_328)
        self.assertEqual(sum(operation["wait_ns"] for operation in report["by_operation"]), 13_375_816)

    def test_mfu_after(self):
        report = self.analyse(SHARED_TRACES / "nsys-ai" / "mfu_2gpu_after.sqlite", "out", "--whole-run")
        self.assertEqual(report["collectives"]["complete"], 31)
        start, end = self.skews("out")
        self.assertEqual((numpy.median(start), start.max(), start.sum()), (21_614, 7_031_585, 22_485_194))
        self.assertEqual((numpy.median(end), end.max()), (9_769, 17_558))

    def test_critical_path_of_one_gpu(self):
        # First start to last end of kernels, copies and sets, by SQL; time of kernels, of which less where they overlap.
        for name, elapsed, kernels in (("pipit/perlmutter-cloverleaf-cuda", 342_407_810, 294_404_540),
                                       ("extrap/con_kernel", 258_758_865, 271_711_594), ("fuser/report2", 531_987_523, 401_436)):
            with self.subTest(name=name):
                report = self.analyse(SHARED_TRACES / f"{name}.sqlite", "out", "--force", "--whole-run")
                path = {part["kind"]: part["duration_ns"] for part in report["critical_path"]}
                self.assertEqual(sum(path.values()), elapsed)
                self.assertTrue(0 < path["compute"] <= kernels, path)
                self.assertNotIn("transfer", path)

    def test_every_file_in_one_call_each(self):
        files = sorted(SHARED_TRACES.glob("*/*.sqlite"))
        self.assertEqual(len(files), 11)
        for file in files:
            with self.subTest(file=file.name):
                report = self.analyse(file, "out", "--force", code=3 if file.name in WITHOUT_GPU_WORK else 0)
                if file.name in WITHOUT_GPU_WORK:
                    self.assertIn("The export holds no GPU kernels (", report["verdict"]["text"])
                for rank in report["ranks"]:
                    parts = ("compute_ns", "exposed_communication_ns", "copy_ns", "opaque_graph_ns", "idle_ns")
                    self.assertEqual(sum(rank[part] for part in parts), rank["window_ns"])
                    self.assertEqual(rank["overlapped_ns"] + rank["exposed_communication_ns"], rank["communication_ns"])

    def test_all_files_in_one_call(self):
        # Traces of nine jobs: analysed together with warnings, not refused.
        done = self.explain(sorted(SHARED_TRACES.glob("*/*.sqlite")), "out", ranks=3)
        self.assertIn(done.returncode, (0, 4), done.stderr)
        self.assertEqual(len(self.report("out")["inputs"]), 11)


if __name__ == "__main__":
    main()
