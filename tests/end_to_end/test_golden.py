"""Two traces small enough to work out by hand (tests/golden/rank_*.sql), and the reports that must come of them.

Both ranks run on one host with a common system clock. In job time, in each of three steps k (k ms later):
  rank 0: gemm 1,000,000 - 1,300,000; all-reduce of 4,000,000 bytes 1,300,000 - 1,900,000
  rank 1: gemm 1,000,000 - 1,500,000; all-reduce                    1,500,000 - 1,900,400

Run with --write to accept what the tool writes now as the new expectation of report.md and report.json: read the
difference before you commit it.
"""

import json
import pathlib
import sqlite3
import sys

from support import EndToEndTest, main, run, TOOL

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
EXAMPLE = GOLDEN.parent.parent / "docs" / "example-report.md"


class Golden(EndToEndTest):
    def setUp(self):
        super().setUp()
        for rank in (0, 1):
            connection = sqlite3.connect(self.directory / f"rank_{rank}.sqlite")
            connection.executescript((GOLDEN / f"rank_{rank}.sql").read_text())
            connection.close()
        # Relative paths: they stand in the reports. The host's clock alone: ends of collectives would correct it by the
        # 400 ns between the exits.
        run([TOOL, "rank_0.sqlite", "rank_1.sqlite", "--out", "out", "--clock", "host"], check=True, cwd=self.directory)

    def test_numbers_worked_out_by_hand(self):
        report = self.report("out")
        self.assertEqual(report["collectives"], {"instances": 3, "complete": 3, "partial": 0, "unmatched_arrivals": 0,
                                                 "withheld_arrivals": 0, "unjudged": 0})
        # Rank 0 waits 200,000 in each; the median of (400,000, 400,400), the lower of the two, is the transfer.
        (operation,) = report["by_operation"]
        self.assertEqual(operation["operation"], "all_reduce")
        self.assertEqual(operation["wait_ns"], 600_000)
        self.assertEqual(operation["transfer_ns"], 1_200_000)
        self.assertEqual(operation["bytes"], 12_000_000)
        self.assertEqual(operation["algorithm_bandwidth_gbs"], 10.0)
        self.assertEqual(operation["bus_bandwidth_gbs"], 10.0)  # 2 (n - 1) / n = 1 for n = 2
        first, second = report["ranks"]
        self.assertEqual(first["window_start_ns"], 1_000_000)
        self.assertEqual(first["window_ns"], 2_900_000)
        self.assertEqual(first["compute_ns"], 900_000)
        self.assertEqual(first["exposed_communication_ns"], 1_800_000)
        self.assertEqual(first["idle_ns"], 200_000)
        self.assertEqual(second["compute_ns"], 1_500_000)
        self.assertEqual(second["exposed_communication_ns"], 1_201_200)
        self.assertEqual(second["idle_ns"], 2_900_400 - 2_701_200)
        self.assertEqual((first["wait_ns"], second["wait_ns"]), (600_000, 0))
        # From the second step on the work before rank 1's enter is 599,600 against a median of 400,000: 199,600 of its
        # 200,000 are its own. Of the first step nothing is known.
        self.assertEqual(second["own_lateness_ns"], 2 * 199_600)
        self.assertEqual(second["inherited_lateness_ns"], 2 * 400)
        self.assertEqual(second["caused_wait_ns"], 2 * 199_600)
        self.assertEqual(second["last_arrivals"], 3)

    def test_reports_are_as_expected(self):
        report = self.report("out")
        report.pop("run")
        found = {"job.json": json.dumps(report, indent=2) + "\n",
                 "job.md": (self.directory / "out" / "report.md").read_text()}
        for name, text in found.items():
            if "--write" in sys.argv:
                (GOLDEN / name).write_text(text)
            self.assertEqual(text, (GOLDEN / name).read_text(), f"{name} differs; see --write")


class Example(EndToEndTest):
    """docs/example-report.md is the report of the demo's job (jobs/demo.sh)."""

    def test_it_is_what_the_tool_writes(self):
        self.synth("traces", "--nodes", 2, "--gpus-per-node", 4, "--fault", "slow_gpu:rank=5,factor=1.3", "--seed", 1)
        run([TOOL, "traces", "--out", "report"], check=True, cwd=self.directory)
        text = (self.directory / "report" / "report.md").read_text()
        if "--write" in sys.argv:
            EXAMPLE.write_text(text)
        self.assertEqual(text, EXAMPLE.read_text(), "docs/example-report.md differs; see --write")


if __name__ == "__main__":
    main()
