"""What a run prints for people is in their words: the terminal, the verdict, the findings and report.md."""

import pathlib
import sys

from support import TOOL, EndToEndTest, main, run

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from sentences import private_words  # noqa: E402

MACHINE = ("--nodes", "2", "--gpus-per-node", "2", "--layers", "2", "--steps", "16", "--seed", "1")
JOBS = {"clean": MACHINE,
        "slow GPU": (*MACHINE, "--fault", "slow_gpu:rank=3,factor=1.3"),
        "late host": (*MACHINE, "--fault", "late_host:rank=2,pause=3ms,kind=sleep"),
        "uneven work": (*MACHINE, "--fault", "extra_work:rank=1,factor=1.4,mode=larger"),
        "wandering pauses": (*MACHINE, "--fault", "rotating_jitter:pause=3ms"),
        "one GPU": ("--nodes", "1", "--gpus-per-node", "1", "--layers", "2", "--steps", "16", "--seed", "1")}


class PlainWords(EndToEndTest):
    def test_no_private_word_in_what_people_read(self):
        for name, options in JOBS.items():
            with self.subTest(job=name):
                out = name.replace(" ", "_")
                self.synth(f"{out}_traces", *options)
                # As a user does, so that lines are not longer by the test's directory.
                done = run([TOOL, f"{out}_traces", "--out", out], cwd=self.directory)
                report = self.report(out)
                texts = [done.stdout, (self.directory / out / "report.md").read_text(), report["verdict"]["text"],
                         report["verdict"]["next"]]
                for finding in report["findings"]:
                    texts += [finding["title"], finding["recommendation"], *finding["evidence"]]
                for text in texts:
                    self.assertEqual(private_words(text), [])
                self.assertLessEqual(len(done.stdout.splitlines()), 16, done.stdout)
                if name == "one GPU":
                    self.assertNotIn("rank", done.stdout)

    def test_nor_in_the_goldens(self):
        for golden in sorted((TESTS / "golden").glob("*.md")):
            self.assertEqual(private_words(golden.read_text()), [], golden.name)

    def test_each_word_would_be_found(self):
        self.assertEqual(len(private_words("mended instance own told; `told` own_lateness_ns trace rank 5")), 5)


if __name__ == "__main__":
    main()
