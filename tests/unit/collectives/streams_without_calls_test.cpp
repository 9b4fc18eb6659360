#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "collectives/layout.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t first = first_nccl_key + 1, second = first_nccl_key + 2;

/// Trace ranks on one clock, each with ten collectives of one communicator or stream, a millisecond apart.
struct Job {
  std::vector<SampledOperation> samples;
  std::vector<SequenceSummary> summaries;

  void rank(std::int32_t trace_rank, std::uint64_t key, std::int32_t size, Nanoseconds late_ns = 0) {
    for (std::int32_t i = 0; i < 10; ++i) {
      SampledOperation operation;
      const Nanoseconds at_ns = 1'000'000 * i;
      operation.enter = SessionTime(at_ns + late_ns);
      operation.exit = SessionTime(at_ns + 300'000);
      operation.symbol = 5;
      operation.key = key;
      operation.trace_rank = operation.session = trace_rank;
      operation.index = operation.position = i;
      operation.operation = Operation::all_reduce;
      samples.push_back(operation);
    }
    summaries.push_back({.communicator = key, .trace_rank = trace_rank, .communicator_size = size});
  }

  std::map<StreamPart, std::uint64_t> names() const {
    return name_streams_without_calls(
        samples, summaries, std::vector<Session>(8),
        clock::CoarseClocks({}, std::vector<clock::SessionTie>(8, clock::SessionTie{.unit = 0, .offset_ns = 0}), 0));
  }
};

TEST(StreamsWithoutCalls, AreOfTheCommunicatorThatLacksThem) {
  Job job;
  job.rank(0, 0, -1, 100'000);
  job.rank(1, first, 4);
  job.rank(2, 0, -1, 250'000);
  job.rank(3, first, 4);
  const std::map<StreamPart, std::uint64_t> expected = {{{0, 0, false}, first}, {{2, 0, false}, first}};
  EXPECT_EQ(job.names(), expected);
}

TEST(StreamsWithoutCalls, AreLeftAloneWhereAMemberHadLeftBeforeTheyEntered) {
  Job job;
  job.rank(0, 0, -1, 600'000);  // enters 300 us after the others have left; such exits lie before their enters
  for (SampledOperation& operation : job.samples) operation.exit = operation.exit + 500'000;
  job.rank(1, first, 2);
  EXPECT_TRUE(job.names().empty());
}

TEST(StreamsWithoutCalls, AreLeftAloneWhereMoreFitThanAreLacking) {
  Job job;
  job.rank(0, first, 2);
  job.rank(1, 0, -1);
  job.rank(2, 0, -1);
  EXPECT_TRUE(job.names().empty());
}

TEST(StreamsWithoutCalls, AreLeftAloneWhereTwoCommunicatorsFit) {
  Job job;
  job.rank(0, first, 2);
  job.rank(1, second, 2);
  job.rank(2, 0, -1);
  job.rank(3, 0, -1);
  EXPECT_TRUE(job.names().empty());
}

TEST(StreamsWithoutCalls, AreLeftAloneWhereNoCommunicatorLacksAnybody) {
  Job job;
  job.rank(0, first, 2);
  job.rank(1, first, 2);
  job.rank(2, 0, -1);
  EXPECT_TRUE(job.names().empty());
}

TEST(StreamsWithoutCalls, OfOneHostAreComparedByItsUtc) {
  Job job;
  job.rank(0, first, 2);
  job.rank(1, 0, -1, 100'000);
  const clock::CoarseClocks unrelated({}, std::vector<clock::SessionTie>(2), 0);
  std::vector<Session> sessions(2);
  EXPECT_TRUE(name_streams_without_calls(job.samples, job.summaries, sessions, unrelated).empty());
  for (Session& session : sessions) session.host = "node1";
  EXPECT_EQ(name_streams_without_calls(job.samples, job.summaries, sessions, unrelated).size(), 1U);
  for (SampledOperation& operation : job.samples) {
    if (operation.trace_rank == 0) continue;
    operation.enter = operation.enter + 25'000'000;  // containers whose hosts bear one name
    operation.exit = operation.exit + 25'000'000;
  }
  EXPECT_TRUE(name_streams_without_calls(job.samples, job.summaries, sessions, unrelated).empty());
}

}  // namespace
}  // namespace nsys_explain::collectives
