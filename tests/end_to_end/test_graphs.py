"""Collectives that CUDA graphs replay: a call is captured once and told once, and its kernel runs in every launch."""

import collections
import json

import h5py

from matching_truth import Score
from support import EndToEndTest, main, seeds

JOB = ["--nodes", "2", "--gpus-per-node", "2", "--graph", "node", "--clocks", "drift_ppm=20"]
SMALL, LONGER = ["--layers", "2", "--steps", "12"], ["--layers", "4", "--steps", "16"]
SHAPES = [["--tp", "2"], ["--pp", "2"], ["--tp", "2", "--tp-style", "sequence_parallel", "--moe"],
          ["--dp-style", "fully_sharded"]]
LOSSES = [["--tp", "2"], ["--tp", "2", "--tp-style", "sequence_parallel"]]


class Graphs(EndToEndTest):
    def score(self, *options):
        self.synth("job", *JOB, *options, "--force")
        done = self.explain(self.directory / "job", "out", "--force", "--quiet", "--whole-run")  # parts of steps, too
        self.assertEqual(done.returncode, 0, done.stderr)
        score = Score(self.directory / "job", self.directory / "out")
        self.assertEqual(score.unknown, 0, "an arrival that nobody recorded")
        self.assertEqual(score.wrong_pairs, 0, f"{options}: {score}")
        return score

    def check_payload(self):
        """Every replay is told its communicator and size: those of the truth."""
        truth = json.loads((self.directory / "job" / "truth.json").read_text())
        report = self.report("out")
        self.assertEqual({c["evidence"] for c in report["communicators"]}, {"nccl_payload"})
        expected = collections.Counter((i["operation"], i["communicator"]) for i in truth["instances"])
        with h5py.File(self.directory / "out" / "store.h5") as store:
            arrivals = store["collective_arrivals"]
            sources = collections.Counter(s.decode() for s in arrivals["timing_source"][()])
            instances = len(store["collective_instances/instance"])
        self.assertEqual(instances, sum(expected.values()))
        self.assertGreater(sources["graph_node"], sources["kernel"])
        self.assertEqual(report["collectives"]["complete"], instances)

    def test_undisturbed_replays_take_payload_and_partners(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                score = self.score("--seed", str(seed), *SMALL, *SHAPES[seed % 4])
                self.assertEqual(score.matched, score.present, str(score))
                self.check_payload()

    def test_losses_and_windows_that_miss_the_capture_of_the_graph(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                score = self.score("--seed", str(seed), *LONGER, *LOSSES[seed % 2], "--capture", "drop=0.01,ragged=0.2")
                self.assertGreaterEqual(score.share, 0.8, str(score))

    def test_losses_where_the_capture_of_the_graph_was_recorded(self):
        for seed in seeds(4):
            with self.subTest(seed=seed):
                score = self.score("--seed", str(seed), *SMALL, *SHAPES[seed % 4], "--capture", "drop=0.01")
                self.assertGreaterEqual(score.share, 0.995, str(score))
                self.assertEqual({c["evidence"] for c in self.report("out")["communicators"]}, {"nccl_payload"})

    def test_steps_after_the_capture_keep_its_payload(self):
        self.synth("job", *JOB, *SMALL, "--tp", "2", "--seed", "3")
        report = self.analyse(self.directory / "job", "out", "--steps", "4:9")
        self.assertEqual({c["evidence"] for c in report["communicators"]}, {"nccl_payload"})
        self.assertEqual(report["collectives"]["partial"], 0)


if __name__ == "__main__":
    main()
