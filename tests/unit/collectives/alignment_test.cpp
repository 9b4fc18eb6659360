#include "collectives/alignment.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>

#include "simulated_job.hpp"

namespace nsys_explain::collectives {
namespace {

using testing::all_gather;
using testing::all_reduce;
using testing::JobShape;
using testing::keep_only;
using testing::Kind;
using testing::record_job;
using testing::RecordedJob;
using testing::reduce_scatter;
using testing::Score;
using testing::score;
using testing::send_recv;
using testing::set_clock;

using Numbers = std::vector<std::vector<std::int64_t>>;

/// A member whose operations take 10 us and end at these times.
MemberSequence member_with_exits(const std::vector<Nanoseconds>& exits_us, std::uint64_t symbol = 1) {
  MemberSequence member;
  for (const Nanoseconds exit_us : exits_us) {
    member.symbols.push_back(symbol);
    member.enter_ns.push_back((exit_us - 10) * 1000);
    member.exit_ns.push_back(exit_us * 1000);
  }
  return member;
}

/// Both clocks well known.
Numbers align_on_job_time(const std::vector<MemberSequence>& members) {
  return align_sequences(members, {.time_scale_ns = 1'000});
}

TEST(AlignSequences, NothingToAlign) {
  EXPECT_TRUE(align_sequences({}, {}).empty());
  const std::vector<MemberSequence> empty(2);
  EXPECT_EQ(align_sequences(empty, {}), Numbers(2));
  EXPECT_EQ(align_on_job_time({{}, member_with_exits({100, 200}), {}}), (Numbers{{}, {0, 1}, {}}));
}

TEST(AlignSequences, RefusesTimesThatBelongToNoOperation) {
  MemberSequence member = member_with_exits({100, 200});
  member.exit_ns.pop_back();
  const std::vector<MemberSequence> members{member};
  EXPECT_THROW(align_sequences(members, {}), std::invalid_argument);
}

TEST(AlignSequences, OnJobTimeAMissingOperationLeavesAHole) {
  const auto numbers = align_on_job_time({member_with_exits({100, 200, 300, 400}), member_with_exits({100, 300, 400})});
  EXPECT_EQ(numbers, (Numbers{{0, 1, 2, 3}, {0, 2, 3}}));
}

TEST(AlignSequences, OnJobTimeDifferentMissingOperationsAreNotTakenForOne) {
  // The third is missing on one member, the second on the other: 300 and 200 must not become a pair.
  const auto numbers =
      align_on_job_time({member_with_exits({100, 200, 400, 500}), member_with_exits({100, 300, 400, 500})});
  EXPECT_EQ(numbers, (Numbers{{0, 1, 3, 4}, {0, 2, 3, 4}}));
}

TEST(AlignSequences, AnOperationThatTheLongestMemberLacksIsPutAtItsPlace) {
  const auto numbers = align_on_job_time({member_with_exits({100, 300, 400, 500, 600}),
                                          member_with_exits({100, 200, 300}), member_with_exits({200, 300, 400})});
  EXPECT_EQ(numbers, (Numbers{{0, 2, 3, 4, 5}, {0, 1, 2}, {1, 2, 3}}));
}

TEST(AlignSequences, DifferentSymbolsAreNeverOneOperation) {
  const auto numbers = align_on_job_time({member_with_exits({100, 200}, 1), member_with_exits({100, 200}, 2)});
  std::set<std::int64_t> distinct;
  for (const auto& of_member : numbers) distinct.insert(of_member.begin(), of_member.end());
  EXPECT_EQ(distinct, (std::set<std::int64_t>{0, 1, 2, 3}));
}

TEST(AlignSequences, WhatNoCallToldMayBeAnyOfItsKind) {
  constexpr std::uint64_t kind = 5ULL << 32U;
  EXPECT_TRUE(may_be_one(kind, kind | 7U));
  EXPECT_TRUE(may_be_one(kind | 7U, kind));
  EXPECT_FALSE(may_be_one(kind | 7U, kind | 8U));
  EXPECT_FALSE(may_be_one(kind, (6ULL << 32U) | 7U));
  EXPECT_EQ(align_on_job_time({member_with_exits({100, 200}, kind | 7U), member_with_exits({100, 200}, kind)}),
            (Numbers{{0, 1}, {0, 1}}));
  // What the second one's calls tell holds for the first one's operations, too.
  EXPECT_EQ(align_on_job_time({member_with_exits({100, 200}, kind), member_with_exits({100}, kind | 7U),
                               member_with_exits({100}, kind | 8U)}),
            (Numbers{{0, 2}, {0}, {1}}));
}

TEST(AlignSequences, OnJobTimeInfeasiblePairsAreNotMade) {
  // One leaves at 100 us, the other enters at 110 us: the clock would have to be wrong by ten times its scale.
  EXPECT_EQ(align_on_job_time({member_with_exits({100}), member_with_exits({120})}), (Numbers{{0}, {1}}));
  // Enters that differ much are no obstacle: the second waits 80 us for the first.
  MemberSequence early = member_with_exits({100});
  early.enter_ns[0] = 10'000;
  EXPECT_EQ(align_on_job_time({member_with_exits({100}), early}), (Numbers{{0}, {0}}));
}

TEST(AlignSequences, WhoLeavesLateIsNotInTheNextOperationOfTheOthers) {
  // Two gathers that take 90 us follow each other. The first member leaves the second one late, the other one the first
  // and the second: its first ends 92 us before the second of the other member, nearer than either does to its own.
  MemberSequence first = member_with_exits({105, 397});
  first.enter_ns = {0, 106'000};
  MemberSequence second = member_with_exits({305, 500});
  second.enter_ns = {12'000, 306'000};
  EXPECT_EQ(align_on_job_time({first, second}), (Numbers{{0, 1}, {0, 1}}));
}

TEST(AlignSequences, WhatMayHaveLostItsCounterpartIsNotTakenForTheNextOperation) {
  // Of two gathers the longest member lost the first, and the second member leaves the first late and is in the second
  // for a moment only: nothing tells these two that they were in different ones, until the third member joins.
  MemberSequence longest = member_with_exits({503, 1000, 2000, 3000, 4000});
  longest.enter_ns[0] = 170'000;
  MemberSequence late = member_with_exits({367, 620, 1000, 2000});
  late.enter_ns[0] = 33'000;
  late.enter_ns[1] = 480'000;
  MemberSequence third = member_with_exits({168, 501, 1000});
  third.enter_ns[0] = 0;
  third.enter_ns[1] = 169'000;
  EXPECT_EQ(align_on_job_time({longest, late}), (Numbers{{1, 3, 4, 5, 6}, {0, 2, 3, 4}}));
  EXPECT_EQ(align_on_job_time({longest, late, third}), (Numbers{{1, 3, 4, 5, 6}, {0, 2, 3, 4}, {0, 1, 3}}));
}

TEST(AlignSequences, UniqueSymbolsDecideWithFewOperations) {
  MemberSequence all = member_with_exits({1000, 2000, 3500, 4200, 5000, 6100, 7300, 8000, 9900, 12000});
  std::iota(all.symbols.begin(), all.symbols.end(), 10);
  MemberSequence few = member_with_exits({3500, 4200, 5000});
  few.symbols = {12, 13, 14};
  set_clock(few, 7e6, 0);
  const std::vector<MemberSequence> members{few, all};
  EXPECT_EQ(align_sequences(members, {})[0], (std::vector<std::int64_t>{2, 3, 4}));
}

TEST(AlignSequences, AFewOperationsOfARepeatedPatternStayAlone) {
  RecordedJob job = record_job({.step = {all_reduce(1)}, .dropped = 0, .ragged = 0}, 1);
  keep_only(job, 3, [](std::int64_t k) { return k >= 500 && k < 503; });
  const Score result = score(job, align_sequences(job.members, {}));
  EXPECT_EQ(result.wrong_pairs, 0);
  EXPECT_GE(result.present - result.matched, 0);
  EXPECT_LE(result.present - result.matched, 3);
}

TEST(AlignSequences, RegularIntervalsAreTakenNearUtc) {
  // Nothing but UTC can tell: intervals are equal. The second lacks the first operation, and its clock is 0.2 ms off.
  MemberSequence all, late;
  for (Nanoseconds k = 0; k < 500; ++k) {
    const MemberSequence one = member_with_exits({1000 * (k + 1)});
    all.symbols.push_back(1);
    all.enter_ns.push_back(one.enter_ns[0]);
    all.exit_ns.push_back(one.exit_ns[0]);
  }
  late = all;
  for (auto* times : {&late.enter_ns, &late.exit_ns}) times->erase(times->begin());
  late.symbols.pop_back();
  set_clock(late, 2e5, 0);
  const std::vector<MemberSequence> members{late, all};
  const auto numbers = align_sequences(members, {});
  for (std::size_t k = 0; k < 499; ++k) ASSERT_EQ(numbers[0][k], numbers[1][k + 1]) << k;
}

/// A step of a training loop as its collectives appear on one communicator: sizes repeat within the step.
std::vector<Kind> realistic_step() {
  std::vector<Kind> step;
  for (std::uint64_t layer = 0; layer < 12; ++layer) step.push_back(all_gather(100 + layer % 5));
  for (std::uint64_t layer = 0; layer < 12; ++layer) {
    step.push_back(all_gather(100 + layer % 5));
    step.push_back(reduce_scatter(200 + layer % 5));
  }
  step.push_back(all_reduce(300));
  return step;
}

std::vector<Kind> repeated(const std::vector<Kind>& pattern, std::size_t times) {
  std::vector<Kind> step;
  for (std::size_t i = 0; i < times; ++i) step.insert(step.end(), pattern.begin(), pattern.end());
  return step;
}

std::map<std::string, JobShape> jobs() {
  return {
      {"single_symbol_5_per_step", {.step = repeated({all_reduce(1)}, 5)}},
      {"single_symbol_50_per_step", {.step = repeated({all_reduce(1)}, 50), .step_ns = 20e6}},
      {"single_symbol_evenly_spaced", {.step = repeated({all_reduce(1)}, 50), .step_ns = 20e6, .even_spacing = true}},
      {"single_symbol_one_per_step", {.step = {all_reduce(1)}, .step_ns = 20e6}},
      {"reduce_scatter_only", {.step = repeated({reduce_scatter(1)}, 20), .step_ns = 50e6}},
      {"two_symbols", {.step = repeated({all_gather(1), reduce_scatter(2)}, 10)}},
      {"all_gather_only", {.step = repeated({all_gather(1)}, 20)}},
      {"send_recv_pair", {.step = repeated({send_recv(1)}, 8), .members = 2}},
      {"send_recv_group", {.step = repeated({send_recv(1)}, 8)}},
      {"realistic_mixture", {.step = realistic_step(), .step_ns = 45e6}},
      {"realistic_mixture_64_members", {.step = realistic_step(), .step_ns = 45e6, .members = 64, .operations = 1'000}},
  };
}

class SimulatedJob : public ::testing::TestWithParam<std::pair<const std::string, JobShape>> {};

TEST_P(SimulatedJob, RaggedAndDroppedRecordsComeTogetherOnUtc) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const RecordedJob job = record_job(GetParam().second, seed);
    const Score result = score(job, align_sequences(job.members, {}));
    EXPECT_TRUE(result.well_formed) << seed;
    EXPECT_EQ(result.wrong_pairs, 0) << seed;
    EXPECT_GE(result.matched_share(), 0.995) << seed;
  }
}

TEST_P(SimulatedJob, RaggedAndDroppedRecordsComeTogetherOnJobTime) {
  JobShape shape = GetParam().second;
  shape.largest_offset_ns = 1'000;
  shape.largest_drift = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const RecordedJob job = record_job(shape, seed);
    const Score result = score(job, align_sequences(job.members, {.time_scale_ns = 2'000}));
    EXPECT_TRUE(result.well_formed) << seed;
    EXPECT_EQ(result.wrong_pairs, 0) << seed;
    EXPECT_GE(result.matched_share(), 0.995) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(AlignSequences, SimulatedJob, ::testing::ValuesIn(jobs()),
                         [](const auto& job) { return job.param.first; });

TEST(AlignSequences, AMemberMayLackAStretchInTheMiddle) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RecordedJob job = record_job({.step = repeated({all_reduce(1)}, 20), .operations = 4'000}, seed);
    for (const std::size_t m : {0, 5}) {
      const std::int64_t first = m == 0 ? 1'500 : 2'600;
      keep_only(job, m, [&](std::int64_t k) { return k < first || k >= first + 700; });
    }
    const Score result = score(job, align_sequences(job.members, {}));
    EXPECT_TRUE(result.well_formed) << seed;
    EXPECT_EQ(result.wrong_pairs, 0) << seed;
    EXPECT_GE(result.matched_share(), 0.995) << seed;
  }
}

TEST(AlignSequences, TheClockIsFollowedAcrossLongPauses) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const std::size_t pause_every : {100, 600}) {
      const RecordedJob job = record_job({.step = repeated({all_reduce(1)}, 20), .pause_every = pause_every}, seed);
      const Score result = score(job, align_sequences(job.members, {}));
      EXPECT_TRUE(result.well_formed) << seed;
      EXPECT_EQ(result.wrong_pairs, 0) << seed;
      EXPECT_GE(result.matched_share(), 0.995) << seed;
    }
  }
}

TEST(AlignSequences, HalvesWithoutOverlapComeTogetherThroughMembersThatSpanThem) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RecordedJob job = record_job({.step = realistic_step(), .step_ns = 45e6, .ragged = 0}, seed);
    for (std::size_t m = 0; m < 4; ++m) keep_only(job, m, [](std::int64_t k) { return k < 700; });
    for (std::size_t m = 4; m < 7; ++m) keep_only(job, m, [](std::int64_t k) { return k >= 1'200; });
    const Score result = score(job, align_sequences(job.members, {}));
    EXPECT_EQ(result.wrong_pairs, 0) << seed;
    EXPECT_GE(result.matched_share(), 0.995) << seed;
  }
}

TEST(AlignSequences, DecodingDenselyWithOneSymbolIsToldApart) {
  Kind small = all_reduce(1);
  small.transfer_ns = 12'000;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const RecordedJob job = record_job({.step = repeated({small}, 50), .step_ns = 1e6, .noise_ns = 100}, seed);
    const Score result = score(job, align_sequences(job.members, {}));
    EXPECT_EQ(result.wrong_pairs, 0) << seed;
    EXPECT_GE(result.matched_share(), 0.995) << seed;
  }
}

TEST(AlignSequences, ASessionWithoutUtcIsFound) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RecordedJob job = record_job({.step = repeated({all_reduce(1)}, 20), .operations = 4'000}, seed);
    set_clock(job.members[2], 3'600e9, 0);
    const Score result = score(job, align_sequences(job.members, {}));
    EXPECT_EQ(result.wrong_pairs, 0) << seed;
    EXPECT_GE(result.matched_share(), 0.995) << seed;
  }
}

TEST(AlignSequences, AShortCaptureWithoutUtcIsFound) {
  std::int64_t matched = 0, present = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const RecordedJob job = record_job({.step = {all_reduce(1), all_reduce(1)},
                                        .members = 4,
                                        .operations = 40,
                                        .ragged = 0.1,
                                        .largest_offset_ns = 500e6},
                                       seed);
    const Score result = score(job, align_sequences(job.members, {}));
    EXPECT_EQ(result.wrong_pairs, 0) << seed;
    matched += result.matched;
    present += result.present;
  }
  EXPECT_GE(matched, present * 95 / 100);
}

TEST(AlignSequences, OperationsMissingOnAllButOneMemberStayAlone) {
  RecordedJob job = record_job({.step = repeated({all_reduce(1)}, 20), .ragged = 0}, 4);
  for (std::size_t m = 1; m < job.members.size(); ++m) keep_only(job, m, [](std::int64_t k) { return k % 50 != 7; });
  const Numbers numbers = align_sequences(job.members, {});
  EXPECT_EQ(score(job, numbers).wrong_pairs, 0);
  EXPECT_EQ(score(job, numbers).matched_share(), 1.0);
}

TEST(AlignSequences, DisjointWindowsAreNotBroughtTogether) {
  RecordedJob job = record_job({.step = repeated({all_reduce(1)}, 20), .members = 2, .ragged = 0}, 5);
  keep_only(job, 0, [](std::int64_t k) { return k < 900; });
  keep_only(job, 1, [](std::int64_t k) { return k >= 1'100; });
  const Score result = score(job, align_sequences(job.members, {}));
  EXPECT_TRUE(result.well_formed);
  EXPECT_EQ(result.wrong_pairs, 0);
}

TEST(AlignSequences, DoesNotDependOnTheOrderOfMembers) {
  const RecordedJob job = record_job({.step = realistic_step(), .step_ns = 45e6, .members = 12}, 6);
  const Numbers numbers = align_sequences(job.members, {});
  std::vector<std::size_t> order(job.members.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 5; ++trial) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<MemberSequence> permuted;
    permuted.reserve(order.size());
    for (const std::size_t m : order) permuted.push_back(job.members[m]);
    const Numbers permuted_numbers = align_sequences(permuted, {});
    for (std::size_t p = 0; p < order.size(); ++p) ASSERT_EQ(permuted_numbers[p], numbers[order[p]]) << p;
  }
}

TEST(AlignSequences, TimesThatSayNothingDoNoHarm) {
  MemberSequence same_instant;
  same_instant.symbols.assign(300, 1);
  same_instant.enter_ns.assign(300, 0);
  same_instant.exit_ns.assign(300, 0);
  const std::vector<MemberSequence> members{same_instant, same_instant};
  for (const Nanoseconds scale_ns : {no_time, Nanoseconds{1'000}}) {
    const Numbers numbers = align_sequences(members, {.time_scale_ns = scale_ns});
    for (const auto& of_member : numbers) {
      ASSERT_EQ(of_member.size(), 300U);
      for (std::size_t i = 1; i < 300; ++i) ASSERT_LT(of_member[i - 1], of_member[i]);
    }
  }
}

TEST(AlignSequences, AThousandMembers) {
  const RecordedJob job = record_job({.step = realistic_step(),
                                      .step_ns = 45e6,
                                      .members = 1'024,
                                      .operations = 500,
                                      .dropped = 0.001,
                                      .ragged = 0.02},
                                     7);
  const Score result = score(job, align_sequences(job.members, {}));
  EXPECT_TRUE(result.well_formed);
  EXPECT_EQ(result.wrong_pairs, 0);
  EXPECT_GE(result.matched_share(), 0.995);
}

}  // namespace
}  // namespace nsys_explain::collectives
