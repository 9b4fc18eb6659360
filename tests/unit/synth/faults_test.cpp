#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_support.hpp"

namespace nsys_explain::synth {
namespace {

using test::small_plan;

JobPlan plan_with(const std::string& fault) {
  JobPlan plan = small_plan();
  plan.workload.steps = 6;
  if (!fault.empty()) plan.faults.push_back(parse_fault(fault));
  return plan;
}

/// Work of one rank as its own doing: durations of compute kernels and copies, in order, and the calls made.
struct OwnWork {
  std::vector<Nanoseconds> durations;
  std::vector<std::uint32_t> grids;
  std::map<ApiFunction, int> calls;
  friend bool operator==(const OwnWork&, const OwnWork&) = default;
};

OwnWork own_work(const RankEvents& rank) {
  OwnWork work;
  for (const DeviceActivity& activity : rank.activities) {
    if (activity.arrival != no_index) continue;
    work.durations.push_back(activity.end_ns - activity.start_ns);
    work.grids.push_back(activity.grid_x);
  }
  for (const HostCall& call : rank.calls) ++work.calls[call.function];
  return work;
}

/// Share of the gradient all-reduces in which `rank` is last.
double last_share(const SimulatedJob& job, std::int32_t rank) {
  double last = 0, all = 0;
  for (const TrueInstance& instance : job.instances) {
    if (instance.call_bytes < 1'000'000) continue;
    all += 1;
    last += instance.last_rank == rank ? 1 : 0;
  }
  return last / all;
}

class RankFault : public ::testing::TestWithParam<const char*> {};

TEST_P(RankFault, MakesItsRankLateAndLeavesTheOthersTheirWork) {
  const SimulatedJob clean = simulate(plan_with(""));
  const SimulatedJob faulty = simulate(plan_with(GetParam()));
  for (const std::size_t rank : {0U, 1U, 3U})
    EXPECT_EQ(own_work(faulty.ranks[rank]), own_work(clean.ranks[rank])) << rank;
  EXPECT_LT(last_share(clean, 2), 0.7);
  EXPECT_EQ(last_share(faulty, 2), 1.0);
  EXPECT_GT(faulty.end_ns, clean.end_ns + Nanoseconds{6} * 500'000);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RankFault,
                         ::testing::Values("slow_gpu:rank=2,factor=1.3", "late_host:rank=2,pause=2ms",
                                           "late_host:rank=2,pause=2ms,kind=gc",
                                           "late_host:rank=2,pause=2ms,kind=file_read",
                                           "late_host:rank=2,pause=2ms,kind=module_load",
                                           "late_host:rank=2,pause=2ms,kind=descheduled",
                                           "extra_work:rank=2,factor=1.3", "extra_work:rank=2,factor=1.5,mode=more",
                                           "sync_stall:rank=2,pause=2ms", "blocking_copy:rank=2,bytes=12MB",
                                           "allocation:rank=2,pause=2ms", "profiler_overhead:rank=2,pause=2ms"),
                         [](const auto& param) { return "fault" + std::to_string(param.index); });

TEST(Fault, SlowGpuMultipliesEveryKernelOfItsRank) {
  const OwnWork clean = own_work(simulate(plan_with("")).ranks[2]);
  const OwnWork slow = own_work(simulate(plan_with("slow_gpu:rank=2,factor=2")).ranks[2]);
  ASSERT_EQ(clean.durations.size(), slow.durations.size());
  EXPECT_EQ(clean.grids, slow.grids);
  std::size_t doubled = 0;
  for (std::size_t i = 0; i < clean.durations.size(); ++i) {
    const double ratio = static_cast<double>(slow.durations[i]) / static_cast<double>(clean.durations[i]);
    EXPECT_TRUE(std::abs(ratio - 2) < 0.01 || ratio == 1) << i;  // copies and sets are not kernels
    doubled += ratio > 1.5 ? 1 : 0;
  }
  EXPECT_GT(doubled, clean.durations.size() * 9 / 10);
}

TEST(Fault, ExtraWorkHasLargerGridsOrMoreKernels) {
  const OwnWork clean = own_work(simulate(plan_with("")).ranks[2]);
  const OwnWork larger = own_work(simulate(plan_with("extra_work:rank=2,factor=1.5")).ranks[2]);
  ASSERT_EQ(larger.grids.size(), clean.grids.size());
  EXPECT_NE(larger.grids, clean.grids);
  const OwnWork more = own_work(simulate(plan_with("extra_work:rank=2,factor=1.5,mode=more")).ranks[2]);
  EXPECT_EQ(more.durations.size(),
            clean.durations.size() + std::size_t{6} * 2 * 5);  // steps x layers x half of 10 kernels
}

TEST(Fault, AnExpertThatIsBusyTakesLongerOnEqualGrids) {
  const OwnWork clean = own_work(simulate(plan_with("")).ranks[2]);
  const OwnWork busy = own_work(simulate(plan_with("uneven_work:rank=2,factor=2")).ranks[2]);
  EXPECT_EQ(busy.grids, clean.grids);
  std::size_t doubled = 0;
  for (std::size_t i = 0; i < clean.durations.size(); ++i)
    doubled += 2 * busy.durations[i] > 3 * clean.durations[i] ? 1 : 0;
  EXPECT_EQ(doubled, std::size_t{6} * 2 * 2);  // steps x layers x two kinds of GEMMs
}

TEST(Fault, SequenceLengthsAreDrawnForEachRankAndStep) {
  const SimulatedJob job = simulate(plan_with("uneven_work:factor=0.4"));
  EXPECT_NE(own_work(job.ranks[1]).grids, own_work(simulate(plan_with("")).ranks[1]).grids);
  EXPECT_NE(own_work(job.ranks[1]).grids, own_work(job.ranks[2]).grids);
}

TEST(Fault, MoreLayersBelongToAllRanksOfAStage) {
  JobPlan plan = small_plan();
  plan.layout = {2, 4, 2, 2, 0};
  plan.workload.steps = 2;
  plan.workload.layers = 2;
  const auto kernels = [&](const std::string& fault) {
    JobPlan faulty = plan;
    if (!fault.empty()) faulty.faults.push_back(parse_fault(fault));
    std::vector<std::size_t> counts;
    for (const RankEvents& rank : simulate(faulty).ranks) counts.push_back(own_work(rank).durations.size());
    return counts;
  };
  const std::vector<std::size_t> clean = kernels(""), deeper = kernels("extra_work:stage=1,mode=layers");
  for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(deeper[r], clean[r]) << r;
  // Half of the layers as many again; some kernels belong to no layer.
  for (std::size_t r = 4; r < 8; ++r)
    EXPECT_NEAR(static_cast<double>(deeper[r]) / static_cast<double>(clean[r]), 1.5, 0.1);
}

TEST(Fault, IsPlantedInAllRanksOfAPlaceInTheLayout) {
  const Layout layout{2, 4, 2, 2, 2};
  using Ranks = std::vector<std::int32_t>;
  EXPECT_EQ(faulty_ranks(parse_fault("slow_gpu:stage=1"), layout), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(faulty_ranks(parse_fault("slow_gpu:tensor=1"), layout), (Ranks{1, 3, 5, 7}));
  EXPECT_EQ(faulty_ranks(parse_fault("slow_gpu:data=0"), layout), (Ranks{0, 1, 4, 5}));
  EXPECT_EQ(faulty_ranks(parse_fault("slow_gpu:data=0,rank=7"), layout), (Ranks{0, 1, 4, 5, 7}));
}

TEST(Fault, LeavesItsOwnMark) {
  const auto rank = [](const char* fault) { return simulate(plan_with(fault)).ranks[2]; };
  const auto calls = [](const RankEvents& events, ApiFunction function) {
    return std::count_if(events.calls.begin(), events.calls.end(),
                         [&](const HostCall& call) { return call.function == function; });
  };
  EXPECT_EQ(calls(rank(""), ApiFunction::device_synchronize), 0);
  EXPECT_EQ(calls(rank("sync_stall:rank=2,count=2"), ApiFunction::device_synchronize), 12);
  EXPECT_EQ(calls(rank("blocking_copy:rank=2"), ApiFunction::memcpy), 6);
  EXPECT_EQ(calls(rank("allocation:rank=2"), ApiFunction::malloc), 6);
  EXPECT_EQ(calls(rank("allocation:rank=2"), ApiFunction::free), 6);
  EXPECT_EQ(rank("profiler_overhead:rank=2,pause=2ms").overheads.size(), 6U);
  EXPECT_EQ(rank("profiler_overhead:rank=2,pause=2ms,period=3").overheads.size(), 2U);
  EXPECT_TRUE(rank("").overheads.empty());
  const RankEvents plain = rank("late_host:rank=2"), collected = rank("late_host:rank=2,kind=gc");
  EXPECT_EQ(collected.ranges.size(), plain.ranges.size() + 6);
  EXPECT_EQ(rank("late_host:rank=2,kind=file_read").file_reads.size(), 6U);
  EXPECT_EQ(rank("late_host:rank=2,kind=descheduled").descheduled.size(), 6U);
  EXPECT_EQ(calls(rank("late_host:rank=2,kind=module_load"), ApiFunction::module_load), 6);
  EXPECT_TRUE(plain.file_reads.empty() && plain.descheduled.empty());
}

TEST(Fault, HostPauseLastsAsLongAsPlanned) {
  // The GPU idles at the end of each step, so a pause before the first launch shows in full.
  const SimulatedJob clean = simulate(plan_with("")), late = simulate(plan_with("late_host:rank=2,pause=5ms"));
  EXPECT_NEAR(static_cast<double>(late.end_ns - clean.end_ns), 6 * 5e6, 1e6);
}

TEST(Fault, ActsInItsStepsOnly) {
  JobPlan plan = plan_with("slow_gpu:rank=2,factor=2,first_step=2,last_step=4,period=2");
  const SimulatedJob clean = simulate(plan_with("")), faulty = simulate(plan);
  for (std::size_t i = 0; i < clean.ranks[2].activities.size(); ++i) {
    const DeviceActivity& a = clean.ranks[2].activities[i];
    const DeviceActivity& b = faulty.ranks[2].activities[i];
    if (a.arrival != no_index || a.kind != ActivityKind::kernel) continue;
    const bool slowed = b.end_ns - b.start_ns > (a.end_ns - a.start_ns) * 3 / 2;
    EXPECT_EQ(slowed, a.step == 2 || a.step == 4) << "step " << a.step;
  }
}

TEST(Fault, SlowLinkSlowsGroupsThatUseIt) {
  JobPlan plan = small_plan();
  plan.layout = {2, 4, 2, 1, 0};
  const SimulatedJob clean = simulate(plan);
  plan.faults.push_back(parse_fault("slow_link:ranks=4+5,factor=3"));
  const SimulatedJob faulty = simulate(plan);
  ASSERT_EQ(clean.instances.size(), faulty.instances.size());
  for (std::size_t i = 0; i < clean.instances.size(); ++i) {
    const TrueInstance& a = clean.instances[i];
    const TrueInstance& b = faulty.instances[i];
    const std::string& name = clean.communicators[a.communicator].name;
    const double ratio = static_cast<double>(b.transfer_ns) / static_cast<double>(a.transfer_ns);
    EXPECT_NEAR(ratio, name == "tensor 2" || name == "world" ? 3 : 1, 0.001) << name;
  }
}

TEST(Fault, RotatingJitterVisitsSeveralRanks) {
  JobPlan plan = plan_with("rotating_jitter:pause=3ms");
  plan.workload.steps = 24;
  const SimulatedJob job = simulate(plan);
  std::map<std::int32_t, int> last;
  for (const TrueInstance& instance : job.instances)
    if (instance.call_bytes > 1'000'000) ++last[instance.last_rank];
  EXPECT_EQ(last.size(), 4U);
  for (const auto& [rank, count] : last) EXPECT_LT(count, 2 * 24 / 2) << rank;
}

TEST(Fault, ParsesEveryKeyAndUnit) {
  const Fault fault = parse_fault(
      "late_host:rank=3+1+3,pause=1.5ms,kind=data_loading,first_step=2,last_step=9,period=3,count=4,factor=2.5,bytes=1.5MiB,node=1");
  EXPECT_EQ(fault.kind, FaultKind::late_host);
  EXPECT_EQ(fault.ranks, (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(fault.nodes, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(fault.pause_ns, 1'500'000);
  EXPECT_EQ(fault.pause, HostPause::data_loading);
  EXPECT_EQ(fault.first_step, 2);
  EXPECT_EQ(fault.last_step, 9);
  EXPECT_EQ(fault.period, 3);
  EXPECT_EQ(fault.count, 4);
  EXPECT_EQ(fault.factor, 2.5);
  EXPECT_EQ(fault.bytes, 1'572'864);
  EXPECT_EQ(parse_fault("late_host:rank=0,pause=20us").pause_ns, 20'000);
  EXPECT_EQ(parse_fault("late_host:rank=0,pause=2s").pause_ns, 2'000'000'000);
}

TEST(Fault, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"", "slow", "slow_gpu:rank", "slow_gpu:rank=", "slow_gpu:rank=-1", "slow_gpu:rank=1.5", "slow_gpu:factor=fast",
        "late_host:pause=3", "late_host:pause=3m", "late_host:kind=nap", "extra_work:mode=huge", "slow_gpu:colour=red",
        "slow_gpu:period=0", "blocking_copy:bytes=9XB"})
    EXPECT_THROW(parse_fault(text), PlanError) << text;
  for (const char* text : {"slow_gpu", "slow_gpu:rank=4", "slow_node:node=2", "slow_gpu:rank=1,factor=0"}) {
    JobPlan plan = small_plan();
    plan.faults.push_back(parse_fault(text));
    EXPECT_THROW(simulate(plan), PlanError) << text;
  }
}

TEST(Fault, ExpectedCauseAndPattern) {
  const auto cause = [](const char* text) { return expected_cause(parse_fault(text)); };
  EXPECT_EQ(cause("slow_gpu:rank=1"), "slow_kernel");
  EXPECT_EQ(cause("slow_node:node=1"), "slow_kernel");
  EXPECT_EQ(cause("late_host:rank=1"), "launch_starved");
  EXPECT_EQ(cause("extra_work:rank=1,mode=more"), "extra_work");
  EXPECT_EQ(cause("extra_work:rank=1"), "uneven_work");
  EXPECT_EQ(cause("sync_stall:rank=1"), "sync_stall");
  EXPECT_EQ(cause("blocking_copy:rank=1"), "blocking_copy");
  EXPECT_EQ(cause("allocation:rank=1"), "allocation");
  EXPECT_EQ(cause("slow_link:rank=1"), "slow_link");
  EXPECT_EQ(cause("profiler_overhead:rank=1"), "profiler_overhead");
  const auto pattern = [](const char* text) { return expected_pattern(parse_fault(text), 10); };
  EXPECT_EQ(pattern("slow_gpu:rank=1"), "persistent");
  EXPECT_EQ(pattern("slow_gpu:rank=1,last_step=9"), "persistent");
  EXPECT_EQ(pattern("slow_gpu:rank=1,last_step=8"), "transient");
  EXPECT_EQ(pattern("slow_gpu:rank=1,first_step=1"), "transient");
  EXPECT_EQ(pattern("slow_gpu:rank=1,period=5"), "periodic");
  EXPECT_EQ(pattern("rotating_jitter"), "rotating");
}

}  // namespace
}  // namespace nsys_explain::synth
