"""Who lacks what: members of communicators against the truth of simulated jobs, by rank alone."""

import collections
import json

import h5py

from matching_truth import Score
from support import EndToEndTest, main, seeds

GROUPS = ["--nodes", "2", "--gpus-per-node", "4", "--layers", "4", "--clocks", "drift_ppm=20", "--steps", "6"]


class Members(EndToEndTest):
    def score(self, *options):
        self.synth("job", *GROUPS, *options, "--force")
        report = self.analyse(self.directory / "job", "out", "--force", "--quiet")
        return report, Score(self.directory / "job", self.directory / "out")

    def true_gaps(self):
        """Per rank: recorded by somebody else, but not by this rank."""
        truth = json.loads((self.directory / "job" / "truth.json").read_text())
        gaps = collections.Counter()
        for instance in truth["instances"]:
            exported = [exported for *_, exported in instance["members"]]
            if any(exported):
                gaps.update(member[0] for member in instance["members"] if not member[-1])
        return gaps

    def found_gaps(self):
        gaps = collections.Counter()
        with h5py.File(self.directory / "out" / "store.h5") as store:
            table = store["communicator_members"]
            for rank, missing, outside in zip(*(table[c][()] for c in ("trace_rank", "missing", "outside_window"))):
                gaps[int(rank)] += int(missing) + int(outside)
        return +gaps

    def test_lost_operations_are_named_by_rank(self):
        for seed in seeds(4):
            with self.subTest(seed=seed):
                report, score = self.score("--seed", str(seed), "--tp", "2", "--capture", "drop=0.01")
                gaps, found = self.true_gaps(), self.found_gaps()
                self.assertGreater(len(gaps), 0)
                self.assertEqual(gaps - found, collections.Counter(), "a lost operation that nobody is said to lack")
                # What was recorded and could not be matched is missing to the rest of its members, too.
                self.assertEqual(sum(found.values()), sum(gaps.values()) + score.present - score.matched)
                matching = report["matching"]
                self.assertEqual(matching["missing_arrivals"] + matching["outside_windows"], sum(found.values()))
                self.assertLess(matching["outside_windows"], 0.5 * sum(found.values()))
                parted = {mismatch["difference"] for mismatch in matching["first_mismatches"]}
                self.assertLessEqual(parted, {"missing", "unmatched"})
                self.assertIn("missing in the middle", (self.directory / "out" / "report.md").read_text())

    def test_members_that_do_the_same_part_nowhere(self):
        for options in (["--tp", "2", "--pp", "2"], ["--tp", "2", "--restart-at", "3"]):
            with self.subTest(options=options):
                report, score = self.score("--seed", "1", *options)
                self.assertEqual((score.matched, score.wrong_pairs), (score.present, 0), str(score))
                self.assertEqual(report["matching"], {"missing_arrivals": 0, "outside_windows": 0,
                                                      "members_without_trace": 0, "lacking_members": [],
                                                      "first_mismatches": []})

    def test_what_ragged_windows_cut_off_is_not_missing(self):
        for seed in seeds(3):
            with self.subTest(seed=seed):
                report, _ = self.score("--seed", str(seed), "--tp", "2", "--capture", "ragged=0.2")
                self.assertEqual(report["matching"]["missing_arrivals"], 0)
                self.assertEqual(report["matching"]["first_mismatches"], [])
                self.assertGreater(report["matching"]["outside_windows"], 0)

    def test_three_of_eight_ranks(self):
        absent = [0, 2, 3, 4, 7]
        report, score = self.score("--seed", "3", "--capture", f"missing_rank={'+'.join(map(str, absent))}")
        self.assertEqual((score.matched, score.wrong_pairs), (score.present, 0), str(score))
        self.assertEqual(report["matching"]["members_without_trace"], 5)
        self.assertEqual(report["matching"]["missing_arrivals"], 0)
        with h5py.File(self.directory / "out" / "store.h5") as store:
            table = store["communicator_members"]
            rows = list(zip(table["communicator_rank"][()], table["trace_rank"][()]))
        self.assertEqual(sorted(int(rank) for rank, trace_rank in rows if trace_rank < 0), absent)
        self.assertEqual([(int(a), int(b)) for a, b in rows if b >= 0], [(1, 1), (5, 5), (6, 6)])
        self.assertIn("3 of 8", (self.directory / "out" / "report.md").read_text())

    def test_the_rest_matches_where_a_rank_is_absent_and_communicators_are_made_anew(self):
        for seed in seeds(3):
            with self.subTest(seed=seed):
                report, score = self.score("--seed", str(seed), "--tp", "2", "--restart-at", "3", "--capture", "missing_rank=5")
                self.assertEqual((score.matched, score.wrong_pairs), (score.present, 0), str(score))
                # A tensor-parallel, a data-parallel and the world's communicator, each made twice. Its partner of the
                # first has nobody left to match with.
                self.assertGreaterEqual(report["matching"]["members_without_trace"], 4)


if __name__ == "__main__":
    main()
