"""What the end-to-end tests share: they run the built programs as a user would, each in a directory of its own."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from stores import datasets

TOOL = os.environ["NSYS_EXPLAIN_TOOL"]
SYNTH = os.environ["NSYS_EXPLAIN_SYNTH"]
MPIEXEC = os.environ.get("NSYS_EXPLAIN_MPIEXEC", "mpiexec")
SHARED_TRACES = pathlib.Path(os.environ.get("NSYS_EXPLAIN_SHARED_TRACES", "/nonexistent"))
THOROUGH = os.environ.get("NSYS_EXPLAIN_THOROUGH", "") not in ("", "0")
WITHOUT_GPU_WORK = ("profile.sqlite", "cg_trace.sqlite", "poolformer.sqlite")  # of the shared traces: exit code 3
TIMEOUT_SECONDS = 120  # far above what a run takes: a run that reaches it hangs


def seeds(count):
    """The seeds of a test that tries many: all of them in the tier `thorough`, else the first, the middle and the last."""
    return range(count) if THOROUGH or count <= 3 else (0, count // 2, count - 1)


class EndToEndTest(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="nsys-explain-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def synth(self, name, *options):
        """Traces of a simulated job in a new directory below the test's."""
        target = self.directory / name
        run([SYNTH, "--out", target, *options], check=True)
        return target

    def explain(self, inputs, out, *options, ranks=None):
        """Runs the tool, without a launcher where ranks is None; returns the finished process."""
        launcher = [] if ranks is None else [MPIEXEC, "-n", str(ranks)]
        inputs = [inputs] if isinstance(inputs, (str, pathlib.Path)) else inputs
        return run([*launcher, TOOL, *inputs, "--out", self.directory / out, *options])

    def report(self, out):
        return json.loads((self.directory / out / "report.json").read_text())

    def analyse(self, inputs, out, *options, ranks=None, code=0):
        """A run that must end so; its report."""
        done = self.explain(inputs, out, *options, ranks=ranks)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return self.report(out)

    def assert_same_results(self, expected, actual):
        """All that two runs found, byte for byte: everything but the facts of the runs themselves."""
        one, other = self.report(expected), self.report(actual)
        one.pop("run"), other.pop("run")
        self.assertEqual(one, other)
        first, second = datasets(self.directory / expected / "store.h5"), datasets(self.directory / actual / "store.h5")
        self.assertEqual(first.keys(), second.keys())
        for name in first:
            self.assertEqual(first[name], second[name], name)
        for table in (self.directory / expected).glob("tables/*"):
            self.assertEqual(table.read_bytes(), (self.directory / actual / "tables" / table.name).read_bytes())


def run(command, check=False, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace",
                          timeout=TIMEOUT_SECONDS, stdin=subprocess.DEVNULL, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def main():
    """Fails where no test ran; says loudly what was skipped."""
    program = unittest.main(exit=False, verbosity=1, argv=sys.argv[:1] + [a for a in sys.argv[1:] if a != "--write"])
    for test, reason in program.result.skipped:
        print(f"SKIPPED {test}: {reason}", file=sys.stderr)
    ran = program.result.testsRun - len(program.result.skipped)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if ran == 0:
        print("no test ran", file=sys.stderr)
        sys.exit(77 if program.result.skipped else 1)
