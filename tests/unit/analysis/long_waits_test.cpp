#include "analysis/causes/causes.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/problems/find_problems.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr Nanoseconds ms = 1'000'000;

StragglerCase wait_of(std::int32_t trace_rank, Nanoseconds caused_wait_ns) {
  StragglerCase one;
  one.instance = 7;
  one.straggler.trace_rank = trace_rank;
  one.straggler.work_ns = caused_wait_ns;
  one.straggler.profile.parts_ns[static_cast<std::size_t>(WorkPart::profiling)] =
      static_cast<std::uint32_t>(caused_wait_ns);
  one.peer.trace_rank = 1;
  one.peer.work_ns = 0;
  one.caused_wait_ns = caused_wait_ns;
  return one;
}

/// Two ranks of half a second each, with 10 ms of waiting.
JobReport job() {
  JobReport report;
  for (std::int32_t r = 0; r < 2; ++r) {
    RankSummary rank;
    rank.trace_rank = r;
    rank.budget.window_ns = 500 * ms;
    rank.wait_ns = 5 * ms;
    report.ranks.push_back(rank);
  }
  return report;
}

std::optional<double> not_replayed(std::int32_t) {
  return std::nullopt;
}

TEST(LongWaits, AsManyAsHoldMostOfTheWaiting) {
  // 6 + 2 reach 80% of 10 ms.
  const std::vector<StragglerCase> longest{wait_of(0, 6 * ms), wait_of(1, 2 * ms), wait_of(0, 1 * ms)};
  EXPECT_EQ(waits_to_explain(job(), longest, not_replayed), 2U);
}

TEST(LongWaits, NoneWhereManyShortWaitsAddUp) {
  const std::vector<StragglerCase> longest{wait_of(0, 2 * ms), wait_of(1, ms / 2)};
  EXPECT_EQ(waits_to_explain(job(), longest, not_replayed), 0U);
  EXPECT_EQ(waits_to_explain(job(), {}, not_replayed), 0U);
}

TEST(LongWaits, OfOneAreToldIfMendingItSavesTime) {
  // 2 of 10 ms: structure and what is handed on are most of the waiting.
  const std::vector<StragglerCase> longest{wait_of(0, 2 * ms), wait_of(0, ms / 2)};
  const auto of_0 = [](double share) {
    return [share](std::int32_t trace_rank) { return trace_rank == 0 ? std::optional(share) : std::nullopt; };
  };
  EXPECT_EQ(waits_to_explain(job(), longest, of_0(0.011)), 2U);
  EXPECT_EQ(waits_to_explain(job(), longest, of_0(0.009)), 0U);
  const std::vector<StragglerCase> of_two{wait_of(0, 2 * ms), wait_of(1, ms / 2)};
  EXPECT_EQ(waits_to_explain(job(), of_two, of_0(0.011)), 0U) << "80% of the time are rank 0's";
  const std::vector<StragglerCase> nearly_of_one{wait_of(0, 2 * ms), wait_of(1, ms / 5)};
  EXPECT_EQ(waits_to_explain(job(), nearly_of_one, of_0(0.011)), 2U) << "91% are";
}

TEST(LongWaits, NoneWhereWaitingHardlyCosts) {
  JobReport report = job();
  for (RankSummary& rank : report.ranks) rank.budget.window_ns = 10'000 * ms;
  const std::vector<StragglerCase> longest{wait_of(0, 9 * ms)};
  EXPECT_EQ(waits_to_explain(report, longest, not_replayed), 0U);
}

TEST(LongWaits, NoneWhereAStragglerExplainsThem) {
  JobReport report = job();
  Straggler late;
  late.trace_rank = 1;
  late.trace_ranks = {0, 1};  // a place: the costliest trace rank is another one
  report.stragglers = {late};
  const std::vector<StragglerCase> longest{wait_of(0, 9 * ms)};
  EXPECT_EQ(waits_to_explain(report, longest, not_replayed), 0U);
}

TEST(LongWaits, NoneWhereASuspectExplainsThem) {
  JobReport report = job();
  SuspectedStraggler& suspect = report.suspects.emplace_back();
  suspect.late.trace_ranks = {0};
  const std::vector<StragglerCase> longest{wait_of(0, 9 * ms)};
  EXPECT_EQ(waits_to_explain(report, longest, not_replayed), 0U);
}

TEST(LongWaits, BecomeOneFindingWithALineEach) {
  JobReport report = job();
  report.long_waits = {explain_wait(wait_of(0, 6 * ms), nullptr, nullptr),
                       explain_wait(wait_of(0, 2 * ms), nullptr, nullptr)};
  EXPECT_EQ(report.long_waits[0].cause, Cause::profiler_overhead);
  const std::vector<Finding> findings = find_problems(report);
  const auto finding =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.id == "long-waits"; });
  ASSERT_NE(finding, findings.end());
  EXPECT_EQ(finding->title, "2 delays of rank 0 cost 0.8% of all GPU time: it is delayed by the profiler itself");
  EXPECT_EQ(
      finding->evidence[0],
      "collective 7: the others waited 6.000 ms for rank 0; its work took 6.000 ms longer than that of rank 1; the GPU was idle and the profiler stalled the host 6.000 ms longer");
  EXPECT_THAT(finding->evidence, testing::Contains("that is 80% of all waiting"));
}

}  // namespace
}  // namespace nsys_explain::analysis
