#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "seeds.hpp"
#include "unit/pipeline/matched_job.hpp"

/// Who took part in what, against the truth of simulated jobs.
namespace nsys_explain::pipeline {
namespace {

using synth::JobPlan;
using testing::Change;
using testing::make_plan;
using testing::match_simulated;
using testing::MatchScore;

Change steps(std::int32_t count) {
  return [count](JobPlan& plan) { plan.workload.steps = count; };
}
Change layers(std::int32_t count) {
  return [count](JobPlan& plan) { plan.workload.layers = count; };
}
Change tensor(std::int32_t ranks) {
  return [ranks](JobPlan& plan) { plan.layout.tensor_parallel = ranks; };
}
Change pipeline(std::int32_t stages) {
  return [stages](JobPlan& plan) { plan.layout.pipeline_parallel = stages; };
}
Change drift(double ppm) {
  return [ppm](JobPlan& plan) { plan.clocks.drift_max_ppm = ppm; };
}
Change fault(const std::string& text) {
  return [text](JobPlan& plan) { plan.faults.push_back(synth::parse_fault(text)); };
}
/// On each of the two hosts.
Change gpus(std::int32_t count) {
  return [count](JobPlan& plan) { plan.layout.gpus_per_node = count; };
}
Change nodes(std::int32_t count) {
  return [count](JobPlan& plan) { plan.layout.nodes = count; };
}
void one_host(JobPlan& plan) {
  plan.layout.nodes = 1;
  plan.layout.gpus_per_node = 8;
}
void fully_sharded(JobPlan& plan) {
  plan.workload.data_parallel_style = synth::DataParallelStyle::fully_sharded;
}
void sequence_parallel(JobPlan& plan) {
  plan.workload.tensor_parallel_style = synth::TensorParallelStyle::sequence_parallel;
}
void experts(JobPlan& plan) {
  plan.workload.mixture_of_experts = true;
}
void restart(JobPlan& plan) {
  plan.workload.restart_at_step = plan.workload.steps / 2;
}
void shared_stream(JobPlan& plan) {
  plan.workload.shared_nccl_stream = true;
}
void compute_stream(JobPlan& plan) {
  plan.workload.nccl_on_compute_stream = true;
}
void without_payload(JobPlan& plan) {
  plan.export_style.payload = synth::PayloadStyle::none;
}
void nccl_trace(JobPlan& plan) {
  plan.export_style.advanced_nccl_trace = true;
}
/// nsys -t nccl, exported as it is by default: categories tell communicators of one process apart, and nothing else.
void only_categories(JobPlan& plan) {
  nccl_trace(plan);
  without_payload(plan);
}
Change names(synth::CommunicatorNames style) {
  return [style](JobPlan& plan) { plan.export_style.communicator_names = style; };
}
void drops(JobPlan& plan) {
  plan.capture.drop_share = 0.01;
}
void losses(JobPlan& plan) {
  drops(plan);
  plan.capture.ragged_share = 0.2;
}
/// Sessions of one host are related by nothing but what they did.
void without_host_clocks(JobPlan& plan) {
  plan.export_style.nsys_version = "2025.5";
}
void expect_matched(double least_share, std::uint64_t seed, std::initializer_list<Change> changes) {
  SCOPED_TRACE(seed);
  const MatchScore score = match_simulated(make_plan(seed, changes));
  EXPECT_GE(score.share(), least_share) << score;
  EXPECT_EQ(score.wrong_pairs, 0) << score;
}

/// One shape of job in several seeds. `least_share` is what the worst of all seeds reaches, rounded down: what is
/// beyond it is withheld.
void expect_matched(double least_share, std::uint64_t first_seed, std::uint64_t seeds,
                    std::initializer_list<Change> changes) {
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(static_cast<std::uint32_t>(seeds))) {
    expect_matched(least_share, first_seed + seed, changes);
  }
}

/// The shape that a seed stands for.
template <std::size_t N>
Change pick(const Change (&shapes)[N], std::uint64_t seed) {
  return shapes[seed % N];
}

Change all_of(std::initializer_list<Change> changes) {
  return [changes = std::vector<Change>(changes)](JobPlan& plan) {
    for (const Change& change : changes) change(plan);
  };
}

TEST(Matching, ShortJobsWithLossesAndRaggedWindows) {
  const Change shapes[] = {pipeline(4), all_of({tensor(2), pipeline(2)}), all_of({tensor(2), fully_sharded}),
                           all_of({tensor(2), sequence_parallel, experts}), all_of({tensor(2), pipeline(2), restart})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(10))
    expect_matched(0.94, seed, {steps(6), pick(shapes, seed), losses});
}

TEST(Matching, WhatTimesDoNotTellIsFoundByWhatLiesAroundIt) {
  // Broadcasts whose root leaves before a slow member enters, and exchanges on a shared stream whose calls were lost.
  const Change shapes[] = {all_of({tensor(2), shared_stream, fault("slow_gpu:rank=1,factor=1.3")}),
                           all_of({one_host, pipeline(4), shared_stream}),
                           all_of({tensor(2), pipeline(2), shared_stream}),
                           all_of({tensor(2), fully_sharded, shared_stream, fault("late_host:rank=1,pause=3ms")})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(12))
    expect_matched(0.87, seed, {steps(8), pick(shapes, seed), losses});
}

TEST(Matching, LostCallsAreNamedFarFromTheMiddleOfALongCapture) {
  // Calls are lost where windows begin and end, thousands of operations from the middle.
  for (std::uint64_t seed = 0; seed < 2; ++seed)
    expect_matched(0.98, seed, {one_host, tensor(4), pipeline(2), sequence_parallel, shared_stream, steps(32), losses});
}

TEST(Matching, SequenceNumbersOfTheNcclTraceMatchAllThatIsLeft) {
  const Change shapes[] = {tensor(2), all_of({tensor(2), fully_sharded})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(10))
    expect_matched(1, seed, {steps(4), pick(shapes, seed), nccl_trace, drops});
}

TEST(Matching, HostsAreRelatedThoughStagesShareHalfOfTheirExchanges) {
  // Of what a stage in the middle exchanges, each neighbour has one half; one alike follows every few milliseconds.
  for (const std::uint64_t seed : {1, 2, 30044}) {
    expect_matched(0.98, seed,
                   {nodes(4), gpus(2), pipeline(4), layers(3), steps(40), drift(50), shared_stream, losses,
                    fault("slow_gpu:rank=1,factor=1.3")});
  }
}

TEST(Matching, CommunicatorsThatShareAStreamAreNotMixedUp) {
  // Kernels of the windows' edges have no recorded call; where communicators take turns on a stream, only what others
  // did at that moment, and what the program does there, tells whose they are.
  const Change shapes[] = {tensor(2), tensor(4), all_of({tensor(2), experts}), all_of({tensor(2), fully_sharded})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(12))
    expect_matched(0.92, seed, {steps(8), pick(shapes, seed), shared_stream, losses});
}

TEST(Matching, CategoriesTellCommunicatorsOnOneStreamApart) {
  const Change shapes[] = {tensor(2), all_of({tensor(2), fully_sharded}), all_of({tensor(2), sequence_parallel}),
                           all_of({tensor(2), experts})};
  const synth::CommunicatorNames styles[] = {synth::CommunicatorNames::none, synth::CommunicatorNames::purpose,
                                             synth::CommunicatorNames::group};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(10)) {
    const Change named = names(styles[seed % 3]);
    // Where members of few operations do not leave as one beyond doubt, a part of them stays alone.
    expect_matched(0.43, seed, {steps(6), pick(shapes, seed), shared_stream, only_categories, named});
    expect_matched(0.43, seed, {steps(8), pick(shapes, seed), shared_stream, only_categories, named, losses});
  }
  // Exchanges of two whose calls were lost are left alone.
  expect_matched(0.9, 0, 2, {steps(6), tensor(2), pipeline(2), shared_stream, only_categories});
  expect_matched(0.75, 0, 3, {steps(8), tensor(2), pipeline(2), shared_stream, only_categories, losses});
}

TEST(Matching, SessionsThatOnlyWhatTheyDidRelatesAreWithheldRatherThanMixedUp) {
  const Change shapes[] = {pipeline(4), all_of({tensor(2), pipeline(2)})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(4))
    expect_matched(0.93, seed, {steps(6), pick(shapes, seed), losses, without_host_clocks});
}

TEST(Matching, FewStepsAreEnoughWhereExitsAgree) {
  // No clock of a host relates the sessions, so their shifts by whole steps must be told apart by what they did.
  const Change shapes[] = {all_of({nodes(1), gpus(4)}), all_of({nodes(1), gpus(4), shared_stream}),
                           all_of({one_host, tensor(2)}), all_of({nodes(1), gpus(4), fully_sharded, compute_stream})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(12))
    expect_matched(0.97, seed, {steps(8), pick(shapes, seed), losses, without_host_clocks});
}

TEST(Matching, OfCommunicatorsThatDoTheSameNoneIsMixedUp) {
  // Gathers of two kinds of communicators, which members leave when they like; exchanges in pairs.
  expect_matched(0.9, 570, 3, {steps(6), shared_stream, losses, tensor(2), sequence_parallel, fully_sharded});
  expect_matched(0.9, 3, 3, {steps(6), shared_stream, losses, tensor(2), pipeline(2)});
  expect_matched(0.9, 3, {steps(6), shared_stream, losses, tensor(2), pipeline(2)});
  expect_matched(0.85, 588, 3, {steps(6), shared_stream, losses, pipeline(4)});
}

TEST(Matching, PipelineNeighboursExchangeInPairs) {
  expect_matched(1, 0, 3, {pipeline(4), steps(6)});
}

TEST(Matching, ExchangesSideBySideAreNoAllToAll) {
  // Tensor groups hold the ends of two exchanges in step, so that all four leave together. In a short capture it cannot
  // be told then who is whose peer.
  expect_matched(0.86, 0, 10, {without_payload, one_host, tensor(2), pipeline(2), steps(6), drift(2)});
}

TEST(Matching, WithoutPayloadStreamsOfOneCommunicatorEachAreFound) {
  const Change shapes[] = {tensor(1), tensor(4), all_of({tensor(2), pipeline(2)}),
                           all_of({pipeline(2), fully_sharded})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(12))
    expect_matched(0.85, 500 + seed, {without_payload, steps(12), pick(shapes, seed)});
}

TEST(Matching, WithoutPayloadDataGroupsThatTensorGroupsHoldInStepAreNotTakenForOne) {
  // Reduce-scatters of the data groups of one host end within 1.5 us of each other, those of one group within 1.3 us.
  const Change shapes[] = {all_of({gpus(8), tensor(2)}), all_of({one_host, tensor(4)}), tensor(4)};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(9))
    expect_matched(0.2, 60 + seed, {without_payload, steps(12), fully_sharded, pick(shapes, seed)});
}

TEST(Matching, WithoutPayloadWithLossesAndRaggedWindowsNothingIsMixedUp) {
  const Change shapes[] = {tensor(2), all_of({tensor(2), pipeline(2)}), all_of({pipeline(4), without_host_clocks}),
                           all_of({tensor(2), experts, fully_sharded})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(12))
    expect_matched(0, 71180 + seed, {without_payload, steps(8), layers(2), losses, pick(shapes, seed)});
}

TEST(Matching, WithoutPayloadCommunicatorsThatShareAStreamAreWithheld) {
  const Change shapes[] = {all_of({tensor(2), shared_stream}), all_of({tensor(2), fully_sharded, compute_stream}),
                           all_of({tensor(2), sequence_parallel, experts, shared_stream, losses}),
                           all_of({tensor(2), pipeline(2), compute_stream}),
                           all_of({one_host, tensor(4), fully_sharded, shared_stream, without_host_clocks})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(10)) {
    SCOPED_TRACE(seed);
    const MatchScore score = match_simulated(make_plan(seed, {without_payload, steps(12), pick(shapes, seed)}));
    EXPECT_EQ(score.matched, 0) << score;
    EXPECT_EQ(score.wrong_pairs, 0) << score;
  }
}

}  // namespace
}  // namespace nsys_explain::pipeline
