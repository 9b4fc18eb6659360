"""Results do not depend on the number of tool ranks, on the order of the arguments, or on the launcher."""

import random
import shutil
import sqlite3

import h5py

from support import EndToEndTest, main


def datasets(path):
    """Every dataset of a store outside /run, as bytes."""
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and not name.startswith("run/"):
            values = item[()]
            found[name] = [bytes(v) for v in values] if item.dtype.kind == "O" else values.tobytes()

    with h5py.File(path) as store:
        store.visititems(visit)
    return found


class Invariance(EndToEndTest):
    def assert_same(self, expected, actual):
        one, other = self.report(expected), self.report(actual)
        one.pop("run"), other.pop("run")
        self.assertEqual(one, other)
        first, second = datasets(self.directory / expected / "store.h5"), datasets(self.directory / actual / "store.h5")
        self.assertEqual(first.keys(), second.keys())
        for name in first:
            self.assertEqual(first[name], second[name], name)
        for table in (self.directory / expected / "tables").iterdir():
            self.assertEqual(table.read_bytes(), (self.directory / actual / "tables" / table.name).read_bytes())

    def check(self, traces):
        files = sorted(traces.glob("*.sqlite"))
        self.analyse(files, "serial", "--csv")
        self.assertIn("collective_arrivals/enter_ns", datasets(self.directory / "serial" / "store.h5"))
        for ranks in (1, 2, 3, 5):
            shuffled = files[:]
            random.Random(ranks).shuffle(shuffled)
            self.analyse(shuffled, f"ranks{ranks}", "--csv", ranks=ranks)
            self.assert_same("serial", f"ranks{ranks}")
        return self.report("serial")

    def test_one_file_per_rank(self):
        report = self.check(self.synth("job", "--nodes", "2", "--gpus-per-node", "2", "--steps", "6", "--fault",
                                       "slow_gpu:rank=1,factor=1.4", "--seed", "3"))
        self.assertEqual([rank["trace_rank"] for rank in report["trace_ranks"]], [0, 1, 2, 3])
        self.assertGreater(report["collectives"]["complete"], 0)

    def test_one_file_per_node_in_a_tensor_parallel_job(self):
        self.check(self.synth("job", "--nodes", "2", "--gpus-per-node", "2", "--tp", "2", "--steps", "4", "--files",
                              "per_node", "--seed", "4"))

    def test_directory_and_pattern_name_the_same_inputs(self):
        traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "3")
        self.analyse(sorted(traces.glob("*.sqlite")), "files", "--csv")
        self.analyse(traces, "directory", "--csv", ranks=2)
        self.assert_same("files", "directory")
        self.analyse(f"{traces}/rank_*.sqlite", "pattern", "--csv", ranks=2)
        self.assert_same("files", "pattern")


class Invariants(EndToEndTest):
    """What may change the representation of a job, but no verdict (the clock fit absorbs it)."""

    FAULT = ("--nodes", "2", "--gpus-per-node", "2", "--steps", "12", "--fault", "slow_gpu:rank=2,factor=1.3")

    def assert_same_verdict(self, one, other):
        self.assertEqual([s["trace_rank"] for s in one["stragglers"]], [2])
        self.assertEqual([s["trace_rank"] for s in other["stragglers"]], [2])
        self.assertEqual(one["collectives"], other["collectives"])
        for a, b in zip(one["ranks"], other["ranks"]):
            # Merging moves times against the 32 ns tick of the GPU's clock.
            self.assertLessEqual(abs(a["window_ns"] - b["window_ns"]), 64)
            self.assertLess(abs(a["compute_ns"] - b["compute_ns"]), 50_000)
            # Sums of up to 111 waits, each known to about 0.1 us.
            self.assertLess(abs(a["wait_ns"] - b["wait_ns"]), 50_000)

    def test_a_constant_added_to_all_times_of_one_report(self):
        traces = self.synth("job", *self.FAULT)
        expected = self.analyse(traces, "expected")
        for name, statements in {
            "utc": ["UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + 7000000"],
            "events": [f"UPDATE {table} SET start = start + 3000000, end = end + 3000000" for table in
                       ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
                        "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")],
        }.items():
            with self.subTest(shifted=name):
                shifted = self.directory / name
                shutil.copytree(traces, shifted)
                connection = sqlite3.connect(shifted / "rank_00001.sqlite")
                for statement in statements:
                    connection.execute(statement)
                connection.commit()
                connection.close()
                self.assert_same_verdict(expected, self.analyse(shifted, f"{name}-out"))

    def test_rows_in_no_order(self):
        ordered = self.synth("ordered", *self.FAULT)
        shuffled = self.synth("shuffled", *self.FAULT, "--shuffled-rows")
        self.assert_same_verdict(self.analyse(ordered, "a"), self.analyse(shuffled, "b"))

    def test_reports_of_one_node_merged_into_one_file(self):
        per_rank = self.synth("per_rank", *self.FAULT)
        per_node = self.synth("per_node", *self.FAULT, "--files", "per_node")
        self.assert_same_verdict(self.analyse(per_rank, "a"), self.analyse(per_node, "b"))


if __name__ == "__main__":
    main()
