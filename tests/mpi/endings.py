#!/usr/bin/env python3
"""Checks how a run of several tool ranks begins and ends: exit codes, messages, and that nobody waits for ever.

usage: endings.py PROBE FAILING_TEST MPIEXEC NUMPROC_FLAG
"""

import os
import subprocess
import sys
import unittest

PROBE, FAILING_TEST, MPIEXEC, NUMPROC_FLAG = sys.argv[1:5]
HANG_S = 60

LAUNCHER_PREFIXES = ("SLURM_", "OMPI_COMM_", "PMI", "MPI_LOCAL", "MV2_", "JSM_", "PALS_", "ALPS_", "NSYS_EXPLAIN_MPI")


def environment(**variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    return {**clean, **variables}


def run(command, **variables):
    """Runs the command; fails where it hangs."""
    return subprocess.run(command, env=environment(**variables), timeout=HANG_S, capture_output=True, text=True)


def alone(how, **variables):
    return run([PROBE, how], **variables)


def together(ranks, how, **variables):
    return run([MPIEXEC, NUMPROC_FLAG, str(ranks), PROBE, how], **variables)


class Alone(unittest.TestCase):
    def test_without_a_launcher_the_world_is_serial(self):
        result = alone("describe")
        self.assertEqual((result.returncode, result.stdout), (0, "rank 0 of 1\n"))

    def test_slurm_without_pmi_is_serial_and_warns(self):
        # What srun --mpi=none leaves in the environment; Open MPI's MPI_Init fails with it.
        result = alone("describe", SLURM_JOB_ID="1", SLURM_NODELIST="h1", SLURM_JOB_NODELIST="h1", SLURM_PROCID="2",
                       SLURM_NTASKS="4", SLURM_STEP_NUM_TASKS="4", SLURM_STEP_ID="0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("rank 0 of 1\nwarning: SLURM_STEP_NUM_TASKS says that 4 tasks were started", result.stdout)
        self.assertIn("srun --mpi=pmix", result.stdout)

    def test_an_unknown_choice_is_wrong_usage(self):
        result = alone("describe", NSYS_EXPLAIN_MPI="maybe")
        self.assertEqual(result.returncode, 2)
        self.assertIn("NSYS_EXPLAIN_MPI=maybe is not known", result.stderr)

    def test_mpi_can_be_forced_on(self):
        result = alone("describe", NSYS_EXPLAIN_MPI="on")
        self.assertEqual((result.returncode, result.stdout), (0, "rank 0 of 1\n"), result.stderr)

    def test_abort_gives_its_code(self):
        self.assertEqual(alone("abort").returncode, 7)

    def test_exception_passes(self):
        self.assertEqual(alone("throw").returncode, 3)


class Together(unittest.TestCase):
    def test_ranks_form_one_world(self):
        result = together(3, "describe")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"])

    def test_mpi_can_be_forced_off_with_a_warning(self):
        result = together(2, "describe", NSYS_EXPLAIN_MPI="off")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("rank 0 of 1\n"), 2)
        self.assertIn("says that 2 tasks were started", result.stdout)

    def test_the_common_exit_code_comes_through(self):
        self.assertEqual(together(2, "same_code").returncode, 5)

    def test_abort_ends_waiting_ranks_with_its_code(self):
        self.assertEqual(together(3, "abort").returncode, 7)

    def test_an_exception_of_one_rank_ends_waiting_ranks(self):
        result = together(2, "throw")
        self.assertEqual(result.returncode, 1)
        self.assertIn("tool rank 1: an exception left the program", result.stderr)

    def test_unequal_lengths_are_found(self):
        result = together(2, "unequal_lengths")
        self.assertEqual(result.returncode, 1)
        self.assertIn("1 elements here and 2 elsewhere", result.stderr)

    def test_a_wrong_number_of_parts_is_found(self):
        result = together(2, "wrong_parts")
        self.assertEqual(result.returncode, 1)
        self.assertIn("tool rank 1: all_to_all was given 3 parts for 2 ranks", result.stderr)


class TestMain(unittest.TestCase):
    """The main function of the MPI tests can fail."""

    def run_tests(self, gtest_filter):
        return run([MPIEXEC, NUMPROC_FLAG, "3", FAILING_TEST, "--gtest_color=no", f"--gtest_filter={gtest_filter}"])

    def test_a_failure_of_another_rank_is_reported(self):
        result = self.run_tests("*")
        self.assertEqual(result.returncode, 1)
        self.assertIn("on rank 1 of 3", result.stdout)
        self.assertEqual(result.stdout.count("a planted failure"), 1, result.stdout)
        self.assertIn("[  FAILED  ] Failing.OnRankOneOnly", result.stdout)
        self.assertIn("[       OK ] Failing.Nowhere", result.stdout)

    def test_success_is_printed_once(self):
        result = self.run_tests("*Nowhere")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(result.stdout.count("[  PASSED  ] 1 test."), 1)

    def test_no_test_is_a_failure(self):
        result = self.run_tests("*NoSuchTest")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no test ran", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
