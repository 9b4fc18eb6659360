"""How members leave: a law measured from simulated exports is the law that they were simulated by."""

import json
import pathlib
import sys

from support import EndToEndTest, main, run

SIMULATION = pathlib.Path(__file__).resolve().parents[1] / "simulation"
# Members of an all-reduce leave within 10 to 90 us, inner ones at a quarter; a receiver leaves 50 us after its sender, who does not wait.
LAW = {"percent": [0, 50, 100], "laws": {"own": {"source": "by hand", "classes": [
    {"operation": "all_reduce", "bytes_below": 1 << 62, "members": 2, "spread_us": [10, 30, 90], "between": [0.25, 0.25, 0.25]},
    {"operation": "send_recv", "bytes_below": 1 << 62, "members": 2, "spread_us": [50, 50, 50], "nobody_waits": 1}]}}}


class MeasuredEnds(EndToEndTest):
    def measured(self, *options):
        """The classes of a law measured from a job without clock errors, by operation, size and members."""
        law = self.directory / "law.json"
        law.write_text(json.dumps(LAW))
        job = self.synth("job", "--layers", 2, "--seed", 3, "--ends", f"law={law}", "--clocks", "utc_offset_ms=0,drift_ppm=0", "--export", "payload=json",
                         *options, "--force")
        lines = run([sys.executable, SIMULATION / "measure_ends.py", "own", job], check=True).stdout.splitlines()
        classes = [json.loads(line) for line in lines]
        return {(one["operation"], one["bytes_below"], one["members"]): one for one in classes}

    def test_groups(self):
        found = self.measured("--nodes", 2, "--gpus-per-node", 2, "--steps", 60)
        large = found["all_reduce", 1 << 62, 4]
        self.assertEqual(large["instances"], 96)  # two layers, of 60 steps the last four fifths
        share = dict(zip([0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100], large["spread_us"]))
        # Ticks of 32 ns; that biases are taken out moves members by what medians err.
        self.assertAlmostEqual(share[50], 30, delta=8)
        self.assertAlmostEqual(share[25], 20, delta=8)
        self.assertAlmostEqual(share[75], 60, delta=15)
        self.assertLess(share[100], 105)
        self.assertLess(max(map(abs, large["bias_us"])), 8)
        self.assertAlmostEqual(large["between"][5], 0.25, delta=0.15)
        self.assertEqual(large["nobody_waits"], 0)

    def test_pairs_are_those_of_one_direction(self):
        found = self.measured("--nodes", 2, "--gpus-per-node", 1, "--pp", 2, "--micro-batches", 4, "--steps", 20, "--pp-style", "sends_ahead")
        pairs = found["send_recv", 1 << 62, 2]
        self.assertEqual(pairs["instances"], 128)  # two directions, four micro-batches, 16 steps
        for spread in pairs["spread_us"]:
            self.assertAlmostEqual(spread, 50, delta=0.1)
        self.assertEqual(pairs["nobody_waits"], 1)


if __name__ == "__main__":
    main()
