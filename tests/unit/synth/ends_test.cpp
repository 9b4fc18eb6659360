// How members of a collective leave: laws of ends, from data.

#include <algorithm>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulation/ends.hpp"
#include "test_support.hpp"

namespace nsys_explain::synth::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<EndsMember> four{{0}, {1}, {2}, {3}};
const std::vector<EndsMember> pair{{0, true, false}, {1, false, true}};

/// Spread 100 us, inner members in its middle, no biases.
EndsLaw even_law() {
  EndsLaw law;
  law.shares = {0, 0.5, 1};
  EndsClass one;
  one.operation = Operation::all_reduce;
  one.bytes_below = 1 << 30;
  one.spread_us = {100, 100, 100};
  one.between = {0.5, 0.5, 0.5};
  law.classes = {one};
  return law;
}

EndsInstance instance_at(std::int64_t position, std::int64_t bytes = 1'000, std::uint32_t channel = 0) {
  return {1, Operation::all_reduce, bytes, channel, position};
}

TEST(Ends, MembersLeaveInARandomOrderWithinTheSpread) {
  const EndsLaw law = even_law();
  std::map<std::size_t, int> first;
  for (std::int64_t position = 0; position < 400; ++position) {
    std::vector<double> delays = end_delays_ns(law, instance_at(position), four);
    ++first[static_cast<std::size_t>(std::min_element(delays.begin(), delays.end()) - delays.begin())];
    std::sort(delays.begin(), delays.end());
    EXPECT_THAT(delays, ElementsAre(0, 50'000, 50'000, 100'000));
  }
  // 100 each, with a standard deviation of 8.7.
  for (const auto& [member, times] : first) EXPECT_NEAR(times, 100, 44) << member;
}

TEST(Ends, ABiasLastsForARankAndClassInWhateverGroup) {
  EndsLaw law = even_law();
  law.classes[0].spread_us = {0, 0, 0};
  law.classes[0].bias_us = {-200, 0, 200};
  const std::vector<double> once = end_delays_ns(law, instance_at(0), four);
  EXPECT_EQ(*std::min_element(once.begin(), once.end()), 0) << "the first leaves at the planned end";
  EXPECT_GT(*std::max_element(once.begin(), once.end()), 20'000);
  EXPECT_LE(*std::max_element(once.begin(), once.end()), 400'000);
  EXPECT_EQ(end_delays_ns(law, instance_at(7), four), once);
  EXPECT_EQ(end_delays_ns(law, instance_at(0, 1'000, 3), four), once);
  law.classes.push_back(law.classes[0]);
  law.classes[1].bytes_below = 1 << 10;
  EXPECT_NE(end_delays_ns(law, instance_at(0), four), once) << "another class has other biases";
}

TEST(Ends, QuantilesAreInterpolated) {
  EndsLaw law = even_law();
  law.classes[0].spread_us = {0, 10, 1'000};
  int below = 0;
  double most = 0;
  for (std::int64_t position = 0; position < 1'000; ++position) {
    const std::vector<double> delays = end_delays_ns(law, instance_at(position), four);
    const double spread_ns = *std::max_element(delays.begin(), delays.end());
    below += spread_ns <= 10'000;
    most = std::max(most, spread_ns);
  }
  EXPECT_NEAR(below, 500, 80);  // five standard deviations of 15.8
  EXPECT_GT(most, 950'000);
  EXPECT_LE(most, 1'000'000);
}

TEST(Ends, TheClassIsThatOfSizeAndMembers) {
  EndsLaw law = even_law();
  const EndsClass even = law.classes[0];
  const auto add = [&](std::int64_t bytes_below, std::int32_t members, double spread_us, bool by_tree) {
    EndsClass one = even;
    one.bytes_below = bytes_below;
    one.members = members;
    one.spread_us = {spread_us, spread_us, spread_us};
    one.by_tree = by_tree;
    law.classes.push_back(one);
  };
  law.classes.clear();
  add(1 << 16, 2, 1, false);
  add(1 << 16, 8, 2, true);
  add(1 << 30, 4, 3, false);
  const auto spread_us = [&](std::int64_t bytes, std::size_t members, Operation operation = Operation::all_reduce) {
    std::vector<EndsMember> group(members);
    for (std::size_t i = 0; i < members; ++i) group[i].rank = static_cast<std::int32_t>(i);
    const std::vector<double> delays = end_delays_ns(law, {1, operation, bytes, 0, 0}, group);
    return *std::max_element(delays.begin(), delays.end()) / 1000;
  };
  EXPECT_EQ(spread_us(100, 2), 1);
  EXPECT_EQ(spread_us(100, 7), 1);
  EXPECT_EQ(spread_us(100, 8), 2);
  EXPECT_EQ(spread_us(100, 64), 2);
  EXPECT_EQ(spread_us(1 << 20, 2), 3) << "only larger groups were measured";
  EXPECT_EQ(spread_us(1 << 20, 8), 3);
  EXPECT_EQ(spread_us(std::int64_t{1} << 40, 8), 3) << "only smaller calls were measured";
  EXPECT_EQ(spread_us(100, 8, Operation::broadcast), 2) << "what was not measured is like an all-reduce";
  EXPECT_TRUE(goes_by_tree(law, Operation::all_reduce, 100, 8));
  EXPECT_FALSE(goes_by_tree(law, Operation::all_reduce, 1 << 20, 8));
}

TEST(Ends, AReceiverLeavesLastAndASenderNeedNotWait) {
  EndsLaw law = even_law();
  law.classes[0].operation = Operation::send_recv;
  law.classes[0].nobody_waits = 1;
  const EndsInstance instance{1, Operation::send_recv, 1'000, 0, 0};
  for (std::int64_t position = 0; position < 20; ++position)
    EXPECT_THAT(end_delays_ns(law, {1, Operation::send_recv, 1'000, 0, position}, pair), ElementsAre(0, 100'000));
  EXPECT_TRUE(leaves_at_once(law, instance, pair));
  EXPECT_FALSE(leaves_at_once(law, instance, {{0, true, true}, {1, true, true}})) << "both need the other";
  law.classes[0].nobody_waits = 0;
  EXPECT_FALSE(leaves_at_once(law, instance, pair));
}

class EndsFile : public ExportTest {};

TEST_F(EndsFile, LawsAreReadByNameOrFromAFile) {
  EXPECT_EQ(ends_law("nvlink").source, "assumed, not measured");
  EXPECT_EQ(ends_law("infiniband").source, "assumed, not measured");
  EXPECT_THAT(ends_law("loopback_sockets").source, HasSubstr("measured from"));
  EXPECT_TRUE(has_trees(ends_law("loopback_sockets")));
  EXPECT_FALSE(has_trees(ends_law("nvlink")));
  for (const char* name : {"", "roce", "/nonexistent/ends.json"}) EXPECT_THROW(ends_law(name), PlanError) << name;
  const std::string path = (directory_.parent_path() / "own.json").string();
  std::ofstream(path) << R"({"percent": [0, 100], "laws": {"own": {"source": "by hand", "classes": [
      {"operation": "all_gather", "bytes_below": 9, "members": 2, "spread_us": [5, 5]}]}}})";
  EXPECT_EQ(ends_law(path).name, "own");
  EXPECT_EQ(ends_law(path).classes.at(0).operation, Operation::all_gather);
  std::ofstream(path) << R"({"percent": [0, 50, 100], "laws": {"own": {"source": "by hand", "classes": [
      {"operation": "all_gather", "bytes_below": 9, "members": 2, "spread_us": [5, 5]}]}}})";
  EXPECT_THROW(ends_law(path), PlanError) << "two figures for three shares";
}

TEST(Ends, ASimulatedJobFollowsItsLaw) {
  JobPlan plan = small_plan();
  plan.network.ends = even_law();
  plan.network.end_jitter_scale = 3;
  const SimulatedJob job = simulate(plan);
  int seen = 0;
  for (const TrueInstance& instance : job.instances) {
    if (instance.operation != Operation::all_reduce || instance.arrivals < 2) continue;
    ++seen;
    std::vector<Nanoseconds> after_end;
    for (std::uint32_t k = 0; k < instance.arrivals; ++k)
      after_end.push_back(job.arrivals[instance.first_arrival + k].exit_ns - instance.last_enter_ns -
                          instance.transfer_ns);
    std::sort(after_end.begin(), after_end.end());
    EXPECT_EQ(after_end.front(), 0);
    EXPECT_EQ(after_end.back(), 300'000);
  }
  EXPECT_GT(seen, 4);
}

TEST(Ends, StagesThatSendAheadHaveOperationsInDifferentOrders) {
  JobPlan plan = small_plan();
  plan.layout = {2, 1, 1, 2, 0};
  plan.workload.micro_batches = 4;
  plan.workload.pipeline_style = PipelineStyle::sends_ahead;
  EXPECT_THROW(simulate(plan), PlanError) << "with senders that wait, all would wait for ever";
  plan.network.ends = ends_law("loopback_sockets");
  const SimulatedJob job = simulate(plan);
  int pairs = 0, ahead = 0;
  std::vector<std::vector<bool>> sends(2);  // by rank, in order of enters
  std::vector<std::vector<std::pair<Nanoseconds, bool>>> enters(2);
  for (const TrueInstance& instance : job.instances) {
    if (instance.operation != Operation::send_recv) continue;
    ++pairs;
    ASSERT_EQ(instance.arrivals, 2u);
    const TrueArrival& a = job.arrivals[instance.first_arrival];
    const TrueArrival& b = job.arrivals[instance.first_arrival + 1];
    ASSERT_NE(a.sends, b.sends);
    ASSERT_NE(a.receives, b.receives);
    const TrueArrival &sender = a.sends ? a : b, &receiver = a.sends ? b : a;
    EXPECT_GE(receiver.exit_ns, sender.exit_ns) << "nothing is received before it was sent";
    ahead += sender.exit_ns < receiver.enter_ns;
    for (const TrueArrival* one : {&a, &b}) {
      enters[static_cast<std::size_t>(one->rank)].emplace_back(one->enter_ns, one->sends);
      EXPECT_EQ(job.ranks[static_cast<std::size_t>(one->rank)].activities[one->activity].arrival,
                static_cast<std::uint32_t>(one - job.arrivals.data()));
    }
  }
  EXPECT_EQ(pairs, 4 * 2 * 4) << "steps, directions, micro-batches";
  EXPECT_GT(ahead, 8);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::sort(enters[rank].begin(), enters[rank].end());
    for (std::size_t i = 0; i < 8; ++i) sends[rank].push_back(enters[rank][i].second);
  }
  EXPECT_THAT(sends[0], ElementsAre(true, true, true, true, false, false, false, false));
  EXPECT_THAT(sends[1], ElementsAre(false, true, false, true, false, true, false, true));
}

}  // namespace
}  // namespace nsys_explain::synth::test
