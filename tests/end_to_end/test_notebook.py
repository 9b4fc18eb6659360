"""The example for notebooks, run as its first lines say, with Debian's h5py, pandas and matplotlib."""

import importlib.util
import pathlib
import sys
import unittest

from support import EndToEndTest, main, run

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "skew_heatmap.py"


class Notebook(EndToEndTest):
    @unittest.skipUnless(all(importlib.util.find_spec(m) for m in ("h5py", "pandas", "matplotlib")),
                         "h5py, pandas or matplotlib is missing: the example for notebooks was not run")
    def test_the_slow_rank_waits_least_and_the_sums_agree(self):
        job = self.synth("job", "--nodes", "2", "--steps", "6", "--fault", "slow_gpu:rank=5,factor=1.3", "--seed", "4")
        report = self.analyse(job, "out")
        picture = self.directory / "heat.png"
        done = run([sys.executable, SCRIPT, self.directory / "out" / "store.h5", picture], check=True)
        self.assertIn("trace rank 5 waited least", done.stdout)
        waited = sum(rank["wait_ns"] for rank in report["ranks"]) * 1e-6
        self.assertIn(f"8 trace ranks, {waited:.1f} ms waited in all", done.stdout)
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")


if __name__ == "__main__":
    main()
