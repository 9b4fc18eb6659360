"""What people ask, answered within one screen: which GPU, why, how much, what now, since when, which step, is it the network,
is it getting worse, can I trust this, and did my fix help. Of simulated jobs and of recordings of real ones."""

import json
import lzma
import pathlib
import re

from support import TOOL, EndToEndTest, main, run

RECORDINGS = pathlib.Path(__file__).resolve().parent.parent / "recordings"
SCREEN = 25  # lines
MACHINE = ("--nodes", "2", "--gpus-per-node", "2", "--layers", "2", "--steps", "40", "--seed", "7")
# What is planted; who, why, when, and over time, as the answers hold it.
JOBS = {
    "slow": (["--fault", "slow_gpu:rank=3,factor=1.4"],
             ("GPU 1 on node001 (rank 3)", "runs 1.4 times slower", "from step 0 to step 39", "in 40 steps no lasting change")),
    "throttled": (["--fault", "slow_gpu:rank=1,factor=1.5,first_step=20,last_step=39"],
                  ("GPU 1 on node000 (rank 1)", "slower", "from step 20 to step 39", "from step 20 on a step takes")),
    "host": (["--fault", "late_host:rank=2,pause=4ms,kind=sleep,period=4,first_step=3"],
             ("GPU 0 on node001 (rank 2)", "sits idle because its host", "every 4 steps, from step 3 to step 39", "in 40 steps no lasting change")),
}
# Why and when; whether 26 steps change over time cannot be told.
REAL = {"w2_sleep": ("sits idle because its host launches late", "persistent, from step 1 to step 26", None),
        "moe_hot": ("uneven work", "persistent, from step 1 to step 28", "in 28 steps no lasting change")}


class Questions(EndToEndTest):
    def assert_answered(self, out, done, answers):
        self.assertEqual(done.returncode, 0, done.stderr)
        screen = " ".join(line.strip() for line in done.stdout.splitlines()[:SCREEN])
        self.assertLessEqual(len(done.stdout.splitlines()), SCREEN, done.stdout)
        who, why, when, over_time = answers
        for text in (who, why, "Fixing it shortens a step from", "95% interval", "Next: ", "Do next: ", "When: ", when,
                     "Network: ", "collectives matched", "Clock: "):
            self.assertIn(text, screen)
        if over_time is None:
            self.assertNotIn("Over time: ", screen)
        else:
            self.assertIn(f"Over time: {over_time}", screen)
        verdict = self.report(out)["verdict"]
        for answer in verdict["answers"]:
            self.assertIn(answer, screen)
        markdown = " ".join((self.directory / out / "report.md").read_text().split())
        self.assertIn(" ".join(verdict["answers"]), markdown)

    def test_of_simulated_jobs(self):
        for name, (options, answers) in JOBS.items():
            with self.subTest(name):
                self.assert_answered(name, self.explain(self.synth(f"{name}_traces", *MACHINE, *options), name), answers)

    def test_of_real_ones(self):
        for name, (why, when, over_time) in REAL.items():
            with self.subTest(name):
                for packed in (RECORDINGS / name).glob("*.xz"):
                    (self.directory / f"{name}_{packed.stem}").write_bytes(lzma.decompress(packed.read_bytes()))
                rank = json.loads((RECORDINGS / name / "truth.json").read_text())["rank"]
                done = self.explain(sorted(self.directory.glob(f"{name}_*.sqlite")), name)
                self.assert_answered(name, done, (f"(rank {rank})", why, when, over_time))

    def test_of_a_clean_job_nothing_is_said_of_when(self):
        done = self.explain(self.synth("traces", *MACHINE), "clean")
        self.assertIn("No rank is late", done.stdout)
        self.assertNotIn("When: ", done.stdout)
        self.assertIn("Over time: in 40 steps no lasting change above 5% stands out. Network: ", " ".join(done.stdout.split()))

    def test_whether_a_fix_helped(self):
        for name, options in (("before", JOBS["slow"][0]), ("after", [])):
            self.analyse(self.synth(f"{name}_traces", *MACHINE, *options), name)
        done = run([TOOL, "compare", self.directory / "before", self.directory / "after"])
        first = " ".join(done.stdout.split("\n\n")[0].split())
        before, after = (self.report(name)["step_time"]["median_ns"] for name in ("before", "after"))
        told = re.match(r"Faster: a step takes [0-9.]+ ms instead of [0-9.]+ ms \(-([0-9.]+)%", first)
        self.assertIsNotNone(told, first)
        self.assertAlmostEqual(float(told[1]), 100 * (1 - after / before), delta=1)


if __name__ == "__main__":
    main()
