"""The tool on MPICH: the exchange module passes its tests there, and a job is explained as it is on the MPI that the
rest of the build uses. Skipped, loudly, where MPICH is not installed."""

import os
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))

from support import EndToEndTest, main, run

MPIEXEC = os.environ.get("NSYS_EXPLAIN_MPICH_MPIEXEC")


@unittest.skipIf(MPIEXEC is None, "MPICH is not installed (Debian: mpich libmpich-dev; elsewhere: -DMPICH_ROOT=PREFIX): "
                                  "the tool was tested on one MPI only")
class Mpich(EndToEndTest):
    def test_results_equal_those_of_the_other_mpi(self):
        job = self.synth("job", "--nodes", "2", "--gpus-per-node", "2", "--steps", "6", "--fault",
                         "slow_gpu:rank=1,factor=1.4", "--seed", "3")
        expected = self.analyse(job, "expected", "--csv", ranks=2)
        self.assertEqual([s["trace_rank"] for s in expected["stragglers"]], [1])
        for ranks in (1, 3):
            out = f"mpich{ranks}"
            done = run([MPIEXEC, "-n", ranks, os.environ["NSYS_EXPLAIN_MPICH_TOOL"], job, "--out", self.directory / out,
                        "--csv"])
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(self.report(out)["run"]["tool_ranks"], ranks)
            self.assert_same_results("expected", out)

    def test_exchange(self):
        done = run([MPIEXEC, "-n", "2", os.environ["NSYS_EXPLAIN_MPICH_EXCHANGE_TEST"]])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("[  PASSED  ]", done.stdout)


if __name__ == "__main__":
    main()
