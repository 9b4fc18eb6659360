"""Results do not depend on the number of tool ranks, on the order of the arguments, or on the launcher."""

import random
import unittest

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


if __name__ == "__main__":
    main()
