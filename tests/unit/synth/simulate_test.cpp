#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <ostream>
#include <set>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_support.hpp"

namespace nsys_explain::synth {
namespace {

using test::small_plan;

struct Shape {
  const char* name;
  std::int32_t nodes, gpus, tensor, pipeline;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.name;
}

JobPlan plan_of(const Shape& shape, std::uint64_t seed) {
  JobPlan plan = small_plan();
  plan.layout = {shape.nodes, shape.gpus, shape.tensor, shape.pipeline, 0};
  plan.seed = seed;
  return plan;
}

/// Every property that any simulated job must have, whatever its plan.
void expect_sound(const JobPlan& given, const SimulatedJob& job) {
  const JobPlan plan = complete_plan(given);
  ASSERT_EQ(static_cast<std::int32_t>(job.ranks.size()), plan.layout.ranks());
  for (const RankEvents& rank : job.ranks) {
    ASSERT_FALSE(rank.calls.empty());
    // The host makes one call after the other.
    for (std::size_t i = 0; i < rank.calls.size(); ++i) {
      ASSERT_LT(rank.calls[i].start_ns, rank.calls[i].end_ns);
      if (i > 0) {
        ASSERT_GE(rank.calls[i].start_ns, rank.calls[i - 1].end_ns);
      }
    }
    // Nothing starts before it is launched; a stream does one thing at a time, in launch order.
    std::array<Nanoseconds, 5> stream_end{};
    std::int32_t step = 0;
    for (const DeviceActivity& activity : rank.activities) {
      ASSERT_LT(activity.start_ns, activity.end_ns);
      ASSERT_GT(activity.start_ns, rank.calls[activity.call].start_ns);
      ASSERT_GE(activity.start_ns, stream_end[activity.stream]);
      ASSERT_LT(activity.stream, rank.stream_count);
      ASSERT_GE(activity.step, step);
      step = activity.step;
      stream_end[activity.stream] = activity.end_ns;
    }
    for (const HostRange& range : rank.ranges) ASSERT_LT(range.start_ns, range.end_ns);
    // A host wait ends after what it waits for.
    for (const Synchronisation& sync : rank.synchronisations) {
      if (sync.type == 2) {
        ASSERT_LT(sync.event_record, rank.event_records.size());
        continue;
      }
      for (const DeviceActivity& activity : rank.activities) {
        if (activity.call >= sync.call) break;
        if (sync.type == 3 && activity.stream != sync.stream) continue;
        ASSERT_LE(activity.end_ns, rank.calls[sync.call].end_ns);
      }
    }
  }
}

/// Instances against the definitions of the model, recomputed from their arrivals.
void expect_sound_instances(const SimulatedJob& job) {
  std::map<std::uint32_t, std::int64_t> next_sequence;
  std::size_t arrivals = 0;
  for (std::size_t i = 0; i < job.instances.size(); ++i) {
    const TrueInstance& instance = job.instances[i];
    ASSERT_EQ(instance.sequence, next_sequence[instance.communicator]++);
    const std::vector<std::int32_t>& group = job.communicators[instance.communicator].ranks;
    const bool pair = instance.operation == Operation::send_recv;
    ASSERT_EQ(instance.arrivals, pair ? 2U : group.size());
    arrivals += instance.arrivals;
    Nanoseconds latest = 0;
    for (std::uint32_t k = 0; k < instance.arrivals; ++k)
      latest = std::max(latest, job.arrivals[instance.first_arrival + k].enter_ns);
    ASSERT_EQ(instance.last_enter_ns, latest);
    std::int32_t previous_rank = -1;
    for (std::uint32_t k = 0; k < instance.arrivals; ++k) {
      const TrueArrival& arrival = job.arrivals[instance.first_arrival + k];
      ASSERT_EQ(arrival.instance, i);
      ASSERT_NE(std::find(group.begin(), group.end(), arrival.rank), group.end());
      ASSERT_GT(arrival.rank, previous_rank);
      previous_rank = arrival.rank;
      ASSERT_EQ(arrival.wait_ns, std::min(latest, arrival.exit_ns) - arrival.enter_ns);
      if (arrival.rank == instance.last_rank) {
        ASSERT_EQ(arrival.enter_ns, latest);
      }
      if (is_synchronising(instance.operation) || pair) {
        ASSERT_GE(arrival.exit_ns, latest + instance.transfer_ns);
      }
      const DeviceActivity& kernel = job.ranks[static_cast<std::size_t>(arrival.rank)].activities[arrival.activity];
      ASSERT_EQ(kernel.start_ns, arrival.enter_ns);
      ASSERT_EQ(kernel.end_ns, arrival.exit_ns);
      ASSERT_EQ(&job.arrivals[kernel.arrival], &arrival);
    }
  }
  ASSERT_EQ(arrivals, job.arrivals.size());
}

class EveryShape : public ::testing::TestWithParam<std::tuple<Shape, std::uint64_t>> {};

TEST_P(EveryShape, TerminatesWithSoundEvents) {
  const auto& [shape, seed] = GetParam();
  JobPlan plan = plan_of(shape, seed);
  for (const bool variant : {false, true}) {
    if (variant) {
      plan.workload.data_parallel_style = DataParallelStyle::fully_sharded;
      plan.workload.tensor_parallel_style = TensorParallelStyle::sequence_parallel;
      plan.workload.mixture_of_experts = true;
      plan.workload.shared_nccl_stream = seed % 2 == 0;
      plan.workload.nccl_on_compute_stream = seed % 3 == 0;
      plan.workload.micro_batches = static_cast<std::int32_t>(1 + seed % 5);
      plan.workload.restart_at_step = 2;
    }
    const SimulatedJob job = simulate(plan);
    expect_sound(plan, job);
    expect_sound_instances(job);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EveryShape,
                         ::testing::Combine(::testing::Values(Shape{"one_gpu", 1, 1, 1, 1}, Shape{"dp4", 2, 2, 1, 1},
                                                              Shape{"tp4", 1, 4, 4, 1}, Shape{"tp2_dp3", 3, 2, 2, 1},
                                                              Shape{"pp2", 1, 2, 1, 2}, Shape{"pp4", 2, 2, 1, 4},
                                                              Shape{"pp5_dp2", 5, 2, 1, 5},
                                                              Shape{"tp2_pp2_dp2", 2, 4, 2, 2},
                                                              Shape{"tp2_pp3_dp2", 3, 4, 2, 3}),
                                            ::testing::Values(1, 2, 3)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) + "_seed" +
                                  std::to_string(std::get<1>(param.param));
                         });

TEST(Simulate, GraphsQueuesAndRunningAheadAreSound) {
  JobPlan plan = small_plan();
  plan.workload.graph_mode = GraphMode::node;
  expect_sound_instances(simulate(plan));
  plan.workload.graph_mode = GraphMode::none;
  plan.workload.synchronise_every = 0;
  plan.workload.launch_queue_depth = 20;
  const SimulatedJob job = simulate(plan);
  expect_sound(plan, job);
  // With a queue of 20 the host is never more than 20 launches ahead of the GPU.
  const RankEvents& rank = job.ranks[0];
  for (std::size_t i = 20; i < rank.activities.size(); ++i)
    ASSERT_GE(rank.calls[rank.activities[i].call].end_ns, rank.activities[i - 20].start_ns);
}

TEST(Simulate, AGraphLaunchSharesItsCallAndNumbersItsNodes) {
  JobPlan plan = small_plan();
  plan.workload.graph_mode = GraphMode::node;
  const SimulatedJob job = simulate(plan);
  const RankEvents& rank = job.ranks[1];
  ASSERT_EQ(rank.graph_replays.size(), 4U);  // one per step
  for (const GraphReplay& replay : rank.graph_replays) {
    EXPECT_EQ(rank.calls[replay.call].function, ApiFunction::graph_launch);
    for (std::uint32_t i = 0; i < replay.activities; ++i) {
      EXPECT_EQ(rank.activities[replay.first_activity + i].call, replay.call);
      EXPECT_EQ(rank.activities[replay.first_activity + i].graph_node, i + 1);
    }
  }
  EXPECT_EQ(rank.graph_replays[0].activities, rank.graph_replays[3].activities);
}

TEST(Simulate, SpeedsWanderSlowly) {
  JobPlan plan = small_plan();
  plan.workload.steps = 400;
  plan.noise.kernel_noise = 0;
  plan.noise.speed_wander = 0.02;
  plan.clocks.gpu_tick_ns = 1;
  // A moving average over 8 steps with a deviation of 2%: neighbours differ by 2% x sqrt(2 x (1 - 7/8)) = 1%.
  double squares = 0, neighbours = 0, count = 0;
  for (const RankEvents& rank : simulate(plan).ranks) {
    std::vector<double> longest(400, 0);
    for (const DeviceActivity& activity : rank.activities)
      if (activity.kind == ActivityKind::kernel && activity.arrival == no_index)
        longest[static_cast<std::size_t>(activity.step)] = std::max(
            longest[static_cast<std::size_t>(activity.step)], static_cast<double>(activity.end_ns - activity.start_ns));
    const double mean = std::accumulate(longest.begin(), longest.end(), 0.0) / 400;
    for (std::size_t s = 1; s < 400; ++s) {
      squares += std::pow(longest[s] / mean - 1, 2);
      neighbours += std::pow((longest[s] - longest[s - 1]) / mean, 2);
      ++count;
    }
  }
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.004);
  EXPECT_NEAR(std::sqrt(neighbours / count), 0.01, 0.001);
}

TEST(Simulate, EqualPlansGiveEqualJobsAndSeedsDiffer) {
  JobPlan plan = small_plan();
  const SimulatedJob a = simulate(plan), b = simulate(plan);
  ASSERT_EQ(a.ranks[3].activities.size(), b.ranks[3].activities.size());
  for (std::size_t i = 0; i < a.ranks[3].activities.size(); ++i) {
    EXPECT_EQ(a.ranks[3].activities[i].start_ns, b.ranks[3].activities[i].start_ns);
    EXPECT_EQ(a.ranks[3].activities[i].end_ns, b.ranks[3].activities[i].end_ns);
  }
  plan.seed = 2;
  const SimulatedJob c = simulate(plan);
  EXPECT_NE(a.communicators[0].hash, c.communicators[0].hash);
  EXPECT_NE(a.end_ns, c.end_ns);
}

TEST(Simulate, TransferTimeFollowsTheRingFormula) {
  JobPlan plan = small_plan();  // 4 ranks on 2 nodes
  plan.network.transfer_noise = 0;
  plan.network.end_jitter_scale = 0;
  plan.network.latency_inter_ns = 10'000;
  plan.network.bandwidth_inter_gbs = 50;
  plan.workload.gradient_bytes_per_layer = 100'000'000;
  const SimulatedJob job = simulate(plan);
  // All-reduce of 100 MB over 4 ranks: 2 x 3/4 x 100 MB / 50 GB/s = 3 ms, and the latency.
  const auto gradients = std::find_if(job.instances.begin(), job.instances.end(), [](const TrueInstance& i) {
    return i.operation == Operation::all_reduce && i.call_bytes == 100'000'000;
  });
  ASSERT_NE(gradients, job.instances.end());
  EXPECT_EQ(gradients->transfer_ns, 3'010'000);
  for (std::uint32_t k = 0; k < gradients->arrivals; ++k)
    EXPECT_EQ(job.arrivals[gradients->first_arrival + k].exit_ns, gradients->last_enter_ns + 3'010'000);
}

TEST(Simulate, InstancesPerStepAreThoseOfTheSchedule) {
  JobPlan plan = small_plan();
  // DDP on 4 ranks, 2 layers: 2 gradient buckets and the gradient norm per step; a loss reduction every 2 of 4 steps.
  EXPECT_EQ(simulate(plan).instances.size(), 4U * 3 + 2);
  // Pipeline of 4 stages with 8 micro-batches: each of 3 neighbour pairs exchanges 8 activations and 8 gradients. A
  // stage s has 3 - s warm-up sends, as many cool-down receives, and 8 - (3 - s) exchanges that do both at once: 8 + 3
  // - s.
  plan.layout = {2, 2, 1, 4, 0};
  const SimulatedJob pipeline = simulate(plan);
  std::int64_t exchanges = 0;
  for (const TrueInstance& instance : pipeline.instances)
    exchanges += instance.operation == Operation::send_recv ? 1 : 0;
  EXPECT_EQ(exchanges, 4 * ((8 + 3) + (8 + 2) + (8 + 1)));
}

TEST(Simulate, EndJitterHasTheMeasuredSize) {
  JobPlan plan = small_plan();
  plan.workload.steps = 60;
  plan.workload.data_parallel_style = DataParallelStyle::fully_sharded;
  const SimulatedJob job = simulate(plan);
  std::map<Operation, std::vector<Nanoseconds>> jitter;
  for (const TrueInstance& instance : job.instances)
    for (std::uint32_t k = 0; k < instance.arrivals; ++k)
      if (is_synchronising(instance.operation))
        jitter[instance.operation].push_back(job.arrivals[instance.first_arrival + k].exit_ns - instance.last_enter_ns -
                                             instance.transfer_ns);
  for (auto& [operation, values] : jitter) std::sort(values.begin(), values.end());
  const auto median = [&](Operation operation) { return jitter[operation][jitter[operation].size() / 2]; };
  EXPECT_NEAR(static_cast<double>(median(Operation::all_reduce)), 300, 60);
  EXPECT_NEAR(static_cast<double>(median(Operation::reduce_scatter)), 1000, 150);
  EXPECT_GT(median(Operation::all_gather), 500);
  EXPECT_LT(median(Operation::all_gather), 15'000);
}

TEST(Simulate, ABroadcastLetsItsRootGoFirst) {
  JobPlan plan = small_plan();
  plan.layout = {1, 4, 4, 1, 0};
  const SimulatedJob job = simulate(plan);
  std::int64_t broadcasts = 0;
  for (const TrueInstance& instance : job.instances) {
    if (instance.operation != Operation::broadcast) continue;
    ++broadcasts;
    const TrueArrival& root = job.arrivals[instance.first_arrival];
    ASSERT_EQ(root.rank, 0);
    for (std::uint32_t k = 1; k < instance.arrivals; ++k)
      EXPECT_GT(job.arrivals[instance.first_arrival + k].exit_ns, root.enter_ns);
    EXPECT_LT(root.exit_ns, root.enter_ns + instance.transfer_ns + 10'000);
  }
  EXPECT_EQ(broadcasts, 4);
}

TEST(Simulate, ARestartGivesEveryCommunicatorANewHash) {
  JobPlan plan = small_plan();
  plan.layout = {2, 2, 2, 1, 0};
  plan.workload.restart_at_step = 2;
  const SimulatedJob job = simulate(plan);
  std::set<std::uint64_t> hashes;
  for (const TrueCommunicator& communicator : job.communicators) hashes.insert(communicator.hash);
  EXPECT_EQ(hashes.size(), job.communicators.size());
  ASSERT_EQ(job.communicators.size(), 10U);  // world, 2 tensor and 2 data groups, twice
  for (const TrueInstance& instance : job.instances) EXPECT_EQ(instance.communicator >= 5, instance.step >= 2);
}

TEST(Simulate, GroupsAreMegatronsGroups) {
  JobPlan plan = small_plan();
  plan.layout = {2, 4, 2, 2, 0};
  const SimulatedJob job = simulate(plan);
  const auto ranks_of = [&](const std::string& name) {
    for (const TrueCommunicator& communicator : job.communicators)
      if (communicator.name == name) return communicator.ranks;
    return std::vector<std::int32_t>{};
  };
  EXPECT_EQ(ranks_of("world"), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(ranks_of("tensor 1"), (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(ranks_of("data 1"), (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(ranks_of("data 2"), (std::vector<std::int32_t>{4, 6}));
  EXPECT_EQ(ranks_of("pipeline 3"), (std::vector<std::int32_t>{3, 7}));
}

TEST(Plan, RefusesWhatMakesNoSense) {
  const auto message_of = [](const JobPlan& plan) -> std::string {
    try {
      complete_plan(plan);
    } catch (const PlanError& error) {
      return error.what();
    }
    return "";
  };
  JobPlan plan = small_plan();
  EXPECT_EQ(message_of(plan), "");
  plan.layout.tensor_parallel = 3;
  EXPECT_THAT(message_of(plan), ::testing::HasSubstr("does not equal 2 nodes x 2 GPUs = 4"));
  plan = small_plan();
  plan.export_style.nsys_version = "2019.1";
  EXPECT_THAT(message_of(plan), ::testing::HasSubstr("nsys 2019.1"));
  plan = small_plan();
  plan.export_style.nccl_version = "2.99";
  EXPECT_THAT(message_of(plan), ::testing::HasSubstr("NCCL 2.99"));
  plan.export_style.nccl_version = "twenty";
  EXPECT_THAT(message_of(plan), ::testing::HasSubstr("'twenty'"));
  plan = small_plan();
  plan.export_style.payload = PayloadStyle::dynamic_tables;
  EXPECT_THAT(message_of(plan), ::testing::HasSubstr("2026.4"));
  plan = small_plan();
  plan.capture.missing_ranks = {4};
  EXPECT_THAT(message_of(plan), ::testing::HasSubstr("rank 4 cannot be missing"));
  plan = small_plan();
  plan.capture.drop_share = 1.5;
  EXPECT_THAT(message_of(plan), ::testing::HasSubstr("between 0 and 1"));
  plan = small_plan();
  plan.workload.steps = 0;
  EXPECT_NE(message_of(plan), "");
  plan = small_plan();
  plan.workload.restart_at_step = 4;
  EXPECT_NE(message_of(plan), "");
}

}  // namespace
}  // namespace nsys_explain::synth
