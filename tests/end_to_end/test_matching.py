"""Who took part in what, against the truth of simulated jobs, by rank and time alone (see matching_truth.py)."""

from matching_truth import Score
from support import EndToEndTest, main

GROUPS = ["--nodes", "2", "--gpus-per-node", "4", "--layers", "4", "--drift-ppm", "20"]


class Matching(EndToEndTest):
    def score(self, *options):
        self.synth("job", *options, "--force")
        self.explain(self.directory / "job", "out", "--force", "--quiet")
        score = Score(self.directory / "job", self.directory / "out")
        self.assertEqual(score.unknown, 0, "an arrival that nobody recorded")
        return score

    def assert_all_matched(self, *options):
        score = self.score(*options)
        self.assertEqual((score.matched, score.wrong_pairs), (score.present, 0), f"{options}: {score}")

    def test_without_payload_the_groups_of_an_undisturbed_job_are_found(self):
        # Where a rank's clock cannot be related before anything is matched, its groups stay unknown: that may cost
        # arrivals, but never makes a wrong pair.
        complete = 0
        for seed in range(10):
            shape = [["--tp", "2", "--pp", "2", "--steps", "8"],
                     ["--tp", "2", "--dp-style", "fully_sharded", "--steps", "10"]][seed % 2]
            with self.subTest(seed=seed):
                score = self.score("--seed", str(seed), "--payload", "none", *GROUPS, *shape)
                self.assertEqual(score.wrong_pairs, 0, score)
                self.assertGreater(score.share, 0.85, score)
                complete += score.matched == score.present
        self.assertGreaterEqual(complete, 9)

    def test_without_payload_with_losses_and_ragged_windows(self):
        for seed in range(10):
            with self.subTest(seed=seed):
                score = self.score("--seed", str(seed), "--payload", "none", *GROUPS, "--steps", "16", "--drop", "0.01",
                                   "--ragged", "0.2", *(["--tp", "2"] if seed % 2 else []))
                self.assertGreaterEqual(score.share, 0.995, score)
                self.assertEqual(score.wrong_pairs, 0, score)

    def test_pipeline_neighbours_exchange_in_pairs(self):
        for seed in range(3):
            with self.subTest(seed=seed):
                self.assert_all_matched("--seed", str(seed), *GROUPS, "--pp", "4", "--steps", "6")
                score = self.score("--seed", str(seed), "--payload", "none", *GROUPS, "--pp", "4", "--steps", "6")
                self.assertEqual(score.wrong_pairs, 0, score)


if __name__ == "__main__":
    main()
