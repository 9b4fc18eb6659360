#include "analysis/trace/launches.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "unit/analysis/random.hpp"
#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

struct Segment {
  Nanoseconds enter_ns = 0, start_ns = 0, end_ns = 0;
  std::vector<std::uint32_t> kernels;

  friend bool operator==(const Segment&, const Segment&) = default;
};

std::vector<Segment> segments_of(const RankEvents& events) {
  std::vector<Segment> segments;
  for_each_launch_segment(events, [&](const Kernel& communication, const LaunchSegment& segment) {
    segments.push_back(
        {communication.start_ns, segment.start_ns, segment.end_ns, {segment.kernels.begin(), segment.kernels.end()}});
  });
  return segments;
}

/// The definition: all kernels sorted by launch, then by node of the graph, then as they ran.
std::vector<Segment> sorted_segments(const RankEvents& events) {
  struct Launched {
    Nanoseconds launch_ns;
    std::uint64_t node;
    std::uint32_t number;
  };
  std::vector<Launched> launched;
  for (std::uint32_t k = 0; k < events.device.kernels.size(); ++k) {
    const Kernel kernel = events.device.kernels[k];
    const auto call = events.launches.find(kernel.correlation_id, kernel.start_ns);
    launched.push_back({call ? call->start_ns : kernel.start_ns, events.device.kind_of(kernel).graph_node_id, k});
  }
  std::sort(launched.begin(), launched.end(), [](const Launched& a, const Launched& b) {
    return std::tie(a.launch_ns, a.node, a.number) < std::tie(b.launch_ns, b.node, b.number);
  });
  std::vector<Segment> segments;
  Segment next;
  if (!launched.empty()) next.start_ns = launched.front().launch_ns;
  for (const Launched& one : launched) {
    const Kernel kernel = events.device.kernels[one.number];
    if (!events.is_communication(kernel)) {
      next.kernels.push_back(one.number);
      continue;
    }
    next.enter_ns = kernel.start_ns;
    next.end_ns = one.launch_ns;
    segments.push_back(next);
    next = {0, one.launch_ns, 0, {}};
  }
  return segments;
}

/// One thread launches to some streams, each of which runs its kernels in order; now and then the host stands still.
/// Some launches bring several nodes of a graph, some calls are not recorded, some start at the same time.
testing::OneRank random_rank(testing::Random& random) {
  testing::OneRank rank;
  const std::int64_t streams = random.integer(1, 4), lost_percent = random.integer(0, 1) * random.integer(0, 30);
  const std::int64_t graph_percent = random.integer(0, 1) * random.integer(0, 40), longest = random.integer(1, 400);
  std::vector<Nanoseconds> free_ns(static_cast<std::size_t>(streams), 0);
  Nanoseconds now_ns = 1000;
  for (std::uint32_t correlation = 1; correlation <= 300; ++correlation) {
    now_ns += random.integer(0, 99) == 0 ? 10'000 : random.integer(0, 60);  // 0: two threads at once
    if (random.integer(0, 99) >= lost_percent)
      rank.call("cudaLaunchKernel", now_ns, now_ns + 20, correlation, random.integer(0, 9) == 0 ? 2 : 1);
    const bool is_graph = random.integer(0, 99) < graph_percent;
    for (std::int64_t node = 1; node <= (is_graph ? 6 : 1); ++node) {
      const auto stream = static_cast<std::size_t>(random.integer(0, streams - 1));
      const Nanoseconds start_ns = std::max(free_ns[stream], now_ns + random.integer(5, 30));
      free_ns[stream] = start_ns + random.integer(1, longest);
      const char* const name = random.integer(0, 4) == 0 ? "nccl" : "gemm";
      rank.kernel(name, start_ns, free_ns[stream], correlation, static_cast<std::uint32_t>(stream + 7)).graph_node_id =
          is_graph ? static_cast<std::uint64_t>(node) : 0;
    }
  }
  return rank;
}

TEST(LaunchOrder, IsThatOfAllKernelsSortedByTheirLaunches) {
  std::size_t segments = 0, out_of_order = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    testing::Random random(seed);
    testing::OneRank rank = random_rank(random);
    const RankEvents events = rank.events();
    const std::vector<Segment> expected = sorted_segments(events);
    ASSERT_EQ(segments_of(events), expected) << "seed " << seed;
    segments += expected.size();
    for (std::size_t s = 1; s < expected.size(); ++s)
      out_of_order += expected[s].enter_ns < expected[s - 1].enter_ns ? 1 : 0;
  }
  EXPECT_GT(segments, 5000U);
  EXPECT_GT(out_of_order, 500U) << "hardly any kernel ran out of order: nothing was tested";
}

TEST(LaunchOrder, KernelsWithoutCallsAreInTheOrderOfTheirStarts) {
  testing::OneRank rank;
  rank.kernel("gemm", 100, 200);
  rank.kernel("nccl", 150, 300, 0, 20);
  rank.kernel("gemm", 200, 300);
  rank.kernel("nccl", 400, 500, 0, 20);
  EXPECT_EQ(segments_of(rank.events()), (std::vector<Segment>{{150, 100, 150, {0}}, {400, 150, 400, {2}}}));
}

TEST(LaunchOrder, OfNoKernelsHasNoSegments) {
  testing::OneRank rank;
  EXPECT_TRUE(segments_of(rank.events()).empty());
  rank.kernel("gemm", 100, 200);
  EXPECT_TRUE(segments_of(rank.events()).empty()) << "what follows the last communication belongs to none";
}

}  // namespace

}  // namespace nsys_explain::analysis
