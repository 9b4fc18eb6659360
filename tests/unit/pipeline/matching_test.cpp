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

/// One shape of job in several seeds.
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
    expect_matched(0.995, seed, {steps(6), pick(shapes, seed), losses});
}

TEST(Matching, WhatTimesDoNotTellIsFoundByWhatLiesAroundIt) {
  // Broadcasts whose root leaves before a slow member enters, and exchanges on a shared stream whose calls were lost.
  const Change shapes[] = {all_of({tensor(2), shared_stream, fault("slow_gpu:rank=1,factor=1.3")}),
                           all_of({one_host, pipeline(4), shared_stream}),
                           all_of({tensor(2), pipeline(2), shared_stream}),
                           all_of({tensor(2), fully_sharded, shared_stream, fault("late_host:rank=1,pause=3ms")})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(12))
    expect_matched(0.99, seed, {steps(8), pick(shapes, seed), losses});
}

TEST(Matching, LostCallsAreNamedFarFromTheMiddleOfALongCapture) {
  // Calls are lost where windows begin and end, thousands of operations from the middle.
  for (std::uint64_t seed = 0; seed < 2; ++seed)
    expect_matched(0.997, seed,
                   {one_host, tensor(4), pipeline(2), sequence_parallel, shared_stream, steps(32), losses});
}

TEST(Matching, SequenceNumbersOfTheNcclTraceMatchAllThatIsLeft) {
  const Change shapes[] = {tensor(2), all_of({tensor(2), fully_sharded})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(10))
    expect_matched(1, seed, {steps(4), pick(shapes, seed), nccl_trace, drops});
}

TEST(Matching, HostsAreRelatedThoughStagesShareHalfOfTheirExchanges) {
  // Of what a stage in the middle exchanges, each neighbour has one half; one alike follows every few milliseconds.
  for (const std::uint64_t seed : {1, 2, 30044}) {
    expect_matched(0.995, seed,
                   {nodes(4), gpus(2), pipeline(4), layers(3), steps(40), drift(50), shared_stream, losses,
                    fault("slow_gpu:rank=1,factor=1.3")});
  }
}

TEST(Matching, CommunicatorsThatShareAStreamAreNotMixedUp) {
  // Kernels of the windows' edges have no recorded call; where communicators take turns on a stream, only what others
  // did at that moment, and what the program does there, tells whose they are.
  const Change shapes[] = {tensor(2), tensor(4), all_of({tensor(2), experts}), all_of({tensor(2), fully_sharded})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(12))
    expect_matched(0.995, seed, {steps(8), pick(shapes, seed), shared_stream, losses});
}

TEST(Matching, CategoriesTellCommunicatorsOnOneStreamApart) {
  const Change shapes[] = {tensor(2), all_of({tensor(2), fully_sharded}), all_of({tensor(2), sequence_parallel}),
                           all_of({tensor(2), experts})};
  const synth::CommunicatorNames styles[] = {synth::CommunicatorNames::none, synth::CommunicatorNames::purpose,
                                             synth::CommunicatorNames::group};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(10)) {
    const Change named = names(styles[seed % 3]);
    // Where members of few operations do not leave as one beyond doubt, a part of them stays alone.
    expect_matched(0.88, seed, {steps(6), pick(shapes, seed), shared_stream, only_categories, named});
    expect_matched(0.975, seed, {steps(8), pick(shapes, seed), shared_stream, only_categories, named, losses});
  }
  // Exchanges of two whose calls were lost are left alone.
  expect_matched(1, 0, 2, {steps(6), tensor(2), pipeline(2), shared_stream, only_categories});
  expect_matched(0.985, 0, 3, {steps(8), tensor(2), pipeline(2), shared_stream, only_categories, losses});
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
  expect_matched(0.97, 570, 3, {steps(6), shared_stream, losses, tensor(2), sequence_parallel, fully_sharded});
  expect_matched(0.98, 3, 3, {steps(6), shared_stream, losses, tensor(2), pipeline(2)});
  expect_matched(0.99, 3, {steps(6), shared_stream, losses, tensor(2), pipeline(2)});
  expect_matched(0.9, 588, 3, {steps(6), shared_stream, losses, pipeline(4)});
}

TEST(Matching, WithoutPayloadTheGroupsOfAnUndisturbedJobAreFound) {
  const Change shapes[] = {all_of({tensor(2), pipeline(2), steps(8)}), all_of({tensor(2), fully_sharded, steps(10)}),
                           all_of({tensor(2), experts, steps(6)}), all_of({tensor(2), pipeline(2), experts, steps(6)})};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(10))
    expect_matched(1, seed, {without_payload, pick(shapes, seed)});
}

TEST(Matching, WithoutPayloadWithLossesAndRaggedWindows) {
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(10))
    expect_matched(0.995, seed, {without_payload, steps(16), losses, tensor(seed % 2 == 0 ? 1 : 2)});
}

TEST(Matching, WithoutPayloadCommunicatorsThatTakeTurnsOnAStreamAreToldApart) {
  // Operation by operation: what leaves together is one. A reduction to one rank shows nothing of its members.
  const Change streams[] = {shared_stream, compute_stream};
  for (const std::uint64_t seed : nsys_explain::tiers::seeds(10))
    expect_matched(0.99, seed, {without_payload, tensor(2), steps(12), pick(streams, seed)});
  expect_matched(0.99, 0, 3, {without_payload, tensor(2), steps(16), shared_stream, losses});
}

TEST(Matching, WithoutPayloadStreamsThatHoldEachOtherInStepAreNotMixedUp) {
  // All-to-alls bring the tensor groups of all ranks within a microsecond of each other. All-gathers of one kind go to
  // the communicators whose last member they wait for; those of several kinds that share a stream stay alone.
  const std::initializer_list<std::pair<double, Change>> shapes = {
      {0.97, all_of({experts, tensor(2)})},
      {0.99, all_of({experts, tensor(4), fully_sharded})},
      {0.99, all_of({tensor(2), fully_sharded})},
      {0.97, all_of({tensor(2), sequence_parallel})},
      {0.73, all_of({tensor(2), sequence_parallel, fully_sharded})}};
  for (const auto& [least_share, shape] : shapes)
    expect_matched(least_share, 3, 2, {without_payload, steps(8), shared_stream, shape});
  // Most seeds reach more than the worst of them.
  expect_matched(0.99, 4, {without_payload, steps(8), shared_stream, experts, tensor(2)});
}

TEST(Matching, WithoutPayloadThePlaceInTheProgramTellsWhatDoesTheSameApart) {
  // Data groups gather and scatter as long as tensor groups do, on one stream, and members of all enter in step. What
  // cannot be told is withheld.
  struct Case {
    double least_share;
    std::uint64_t seed;
    Change shape;
  };
  const Change mixed = all_of({without_payload, fully_sharded, sequence_parallel});
  const std::initializer_list<Case> cases = {
      {0.67, 5000, all_of({gpus(8), tensor(4), pipeline(2), steps(12), layers(3), drift(2), compute_stream, losses})},
      {0.69, 5093, all_of({nodes(1), gpus(4), tensor(2), experts, steps(16), layers(2), drift(2), shared_stream})},
      {0.77, 90, all_of({gpus(4), tensor(2), steps(16), layers(3), drift(20), compute_stream})},
      {0.69, 91, all_of({gpus(4), tensor(2), steps(16), layers(3), drift(20), shared_stream, losses})}};
  for (const Case& one : cases) expect_matched(one.least_share, one.seed, {mixed, one.shape});
}

TEST(Matching, WithoutPayloadDataGroupsThatTensorGroupsHoldInStepAreNotTakenForOne) {
  // Reduce-scatters of the data groups of one host end within 1.5 us of each other, those of one group within 1.3 us.
  expect_matched(0.99, 60, 3, {without_payload, steps(12), gpus(8), tensor(2), fully_sharded});
  // What cannot be told is withheld: the sharded operations, here.
  expect_matched(0.55, 60, 3, {without_payload, steps(12), one_host, tensor(4), fully_sharded, shared_stream});
}

TEST(Matching, WithoutPayloadExchangesOfPipelinesInStepAreNotTakenForThoseOfNeighbours) {
  // An exchange that ends with one of a neighbour's, because a tensor group holds both in step, waits for its partner.
  for (const std::uint64_t seed : {70, 73})
    expect_matched(0.89, seed, {without_payload, steps(8), one_host, tensor(2), pipeline(4), compute_stream});
}

TEST(Matching, WithoutPayloadStreamsOfOneCommunicatorEachAreFound) {
  // Transfers of data groups in step that end together by chance are no sign of another communicator.
  expect_matched(0.995, 5056,
                 {without_payload, nodes(4), gpus(4), tensor(4), layers(3), steps(24), losses, without_host_clocks,
                  fault("slow_gpu:rank=1,factor=1.3")});
  // Late members of all-gathers, and operations that end together at a steady distance, are no sign of another one.
  expect_matched(1, 2024,
                 {without_payload, layers(2), steps(12), drift(2), tensor(2), pipeline(2), fully_sharded,
                  sequence_parallel, fault("slow_gpu:rank=1,factor=1.3")});
  // Hosts of neighbouring stages share exchanges and the world's all-reduces, while their data groups go in step.
  expect_matched(1, 1167,
                 {without_payload, layers(2), steps(24), nodes(4), pipeline(4), fault("slow_gpu:rank=1,factor=1.3")});
}

TEST(Matching, WithoutPayloadWhatAlwaysFollowsIsNotWhatItFollows) {
  // The world's all-reduce ends a fixed time after that of the slowest data group.
  for (const std::uint64_t seed : {2, 8}) {
    expect_matched(
        1, seed,
        {without_payload, layers(2), drift(2), tensor(2), pipeline(2), steps(24), fault("late_host:rank=1,pause=3ms")});
  }
}

TEST(Matching, WithoutPayloadCommunicatorsThatShareAStreamAreRatherWithheldThanMixedUp) {
  const Change slow = fault("slow_gpu:rank=1,factor=1.3");
  struct Case {
    double least_share;
    std::uint64_t seed;
    Change shape;
  };
  const std::initializer_list<Case> cases = {
      {0.95, 19, all_of({one_host, pipeline(2), steps(6), layers(2), drift(50), compute_stream, slow})},
      {0.95, 42, all_of({one_host, tensor(2), pipeline(2), steps(10), drift(2), shared_stream, slow})},
      {0.9, 64, all_of({one_host, tensor(2), pipeline(2), steps(16), layers(2), drift(2), compute_stream, losses})},
      {0.5, 49, all_of({one_host, tensor(2), fully_sharded, steps(6), shared_stream, losses})},
      {0.85, 69, all_of({tensor(2), pipeline(2), experts, steps(6), drift(50), compute_stream, losses})},
      {0.9, 5, all_of({tensor(2), pipeline(2), steps(6), shared_stream})}};
  for (const Case& one : cases) expect_matched(one.least_share, one.seed, {without_payload, one.shape});
}

TEST(Matching, WithoutPayloadHostsAreRelatedByWhatTheyShareInTurns) {
  // Most of what a stream carries is of tensor groups within a host; the exchanges alone go to the other one.
  const Change shapes[] = {all_of({gpus(2), tensor(2), pipeline(2), shared_stream}),
                           all_of({gpus(4), tensor(4), pipeline(2), compute_stream}),
                           all_of({gpus(8), pipeline(2), layers(2), shared_stream})};
  for (std::uint64_t seed = 200; seed < 209; ++seed)
    expect_matched(0.93, seed, {without_payload, steps(8), pick(shapes, seed)});
}

TEST(Matching, WithoutPayloadHostsAreRelatedByWhatLittleGoesToOthers) {
  // Tensor groups fill the streams; of what goes to other hosts, the world's all-reduces alone end sharply, at one
  // place of the program. A stage exchanges with both neighbours at places that look alike.
  expect_matched(0.99, 5035,
                 {without_payload, gpus(4), tensor(4), layers(3), steps(24), drift(2), shared_stream,
                  fault("late_host:rank=1,pause=3ms")});
  expect_matched(0.99, 5004,
                 {without_payload, nodes(4), gpus(4), tensor(4), pipeline(4), layers(3), steps(16), shared_stream});
  expect_matched(0.95, 5052,
                 {without_payload, nodes(4), gpus(4), pipeline(4), layers(3), steps(24), drift(50), shared_stream,
                  losses, fault("late_host:rank=1,pause=3ms")});
  // The first stage does not exchange before it reduces for the world, so that it has that place alone.
  expect_matched(0.98, 56003,
                 {without_payload, nodes(4), gpus(2), pipeline(4), experts, steps(16), drift(2), compute_stream});
}

TEST(Matching, WithoutPayloadClocksOfHostsAreNotTakenFromGroupsInStep) {
  // Tensor groups that do the same end together by chance more often than what hosts share.
  expect_matched(
      0.99, 5050,
      {without_payload, nodes(4), gpus(4), tensor(2), pipeline(2), experts, steps(24), shared_stream, losses});
  // Two in five reduce-scatters of the stages end within 5 us of each other at a wrong shift, as many farther off.
  expect_matched(0.99, 54004,
                 {without_payload, gpus(2), pipeline(2), layers(2), steps(24), fully_sharded, experts, shared_stream,
                  drift(2), fault("late_host:rank=1,pause=3ms")});
}

TEST(Matching, WithoutPayloadOneFalseAlarmDoesNotPartAllStreamsOfAProgram) {
  // Streams of one communicator each, one of 16 of which seems to wait for another.
  expect_matched(0.995, 30011,
                 {without_payload, nodes(4), gpus(4), tensor(2), pipeline(4), layers(2), steps(40), drift(50),
                  fully_sharded, sequence_parallel, losses, fault("late_host:rank=1,pause=3ms")});
}

TEST(Matching, WithoutPayloadHowLongAllGathersTakeTellsWhoseTheyAre) {
  // Tensor groups hold data groups in step, so that few places of the program tell whose their all-gathers are.
  const Change common = all_of({without_payload, tensor(2), fully_sharded, sequence_parallel});
  expect_matched(0.97, 5093, {common, one_host, gpus(4), layers(2), experts, steps(16), shared_stream, drift(2)});
  expect_matched(0.99, 5026, {common, gpus(8), steps(16), experts, shared_stream, drift(50)});
  expect_matched(0.98, 8034, {common, one_host, pipeline(2), steps(6), experts, shared_stream});
  expect_matched(0.95, 30059,
                 {common, nodes(4), gpus(2), pipeline(2), layers(2), steps(40), compute_stream, losses,
                  fault("slow_gpu:rank=1,factor=1.3")});
}

TEST(Matching, WithoutPayloadThePlaceWhereAllGathersAreDoneTellsTheirSize) {
  // No gather of a data group tells by itself whose it is; all together do, and those of tensor groups are shorter.
  expect_matched(0.99, 32053,
                 {without_payload, nodes(4), gpus(4), tensor(2), layers(2), steps(40), fully_sharded, sequence_parallel,
                  shared_stream, drift(2)});
}

TEST(Matching, WithoutPayloadWhatRootsWaitForTellsWhoseReductionsAre) {
  const Change every_step = [](JobPlan& plan) { plan.workload.reduce_every = 1; };
  const Change shapes[] = {pipeline(2), all_of({tensor(2), gpus(4)}), all_of({gpus(4), fully_sharded})};
  for (std::uint64_t seed = 220; seed < 223; ++seed)
    expect_matched(0.99, seed, {without_payload, layers(2), steps(40), every_step, shared_stream, pick(shapes, seed)});
}

TEST(Matching, WithoutPayloadStreamsThatAgreeInAllRelateHostsAndNotThoseThatDoInMost) {
  // Pairs of a pipeline that are in step agree in half of what they exchange, many times; the world's all-reduces all.
  expect_matched(0.995, 34050,
                 {without_payload, gpus(4), pipeline(2), layers(3), steps(60), fault("late_host:rank=1,pause=3ms")});
}

TEST(Matching, WithoutPayloadAllGathersOfMembersInStepAreTold) {
  // Members leave by habits that hide how long they waited, but for when most of them leave: at once.
  expect_matched(0.99, 34015,
                 {without_payload, one_host, gpus(4), tensor(2), sequence_parallel, steps(80), shared_stream, losses});
  // Where the world holds tensor groups in step, what takes as long as elsewhere is theirs.
  expect_matched(0.99, 34051,
                 {without_payload, one_host, tensor(2), layers(2), sequence_parallel, steps(120), drift(2),
                  compute_stream, fault("slow_gpu:rank=1,factor=1.3")});
  // Of tensor groups and of data groups, neither for the other.
  expect_matched(0.5, 9094,
                 {without_payload, without_host_clocks, gpus(4), tensor(2), layers(2), fully_sharded, sequence_parallel,
                  steps(12), shared_stream, drift(2), losses});
}

TEST(Matching, WithoutPayloadWhatTookLongerThanItsClassIsNotClaimedWithIt) {
  // Reduce-scatters of data groups in step end together with shorter ones of tensor groups by chance.
  expect_matched(0.95, 8044,
                 {without_payload, nodes(4), gpus(4), tensor(2), pipeline(4), layers(2), steps(24), fully_sharded,
                  sequence_parallel, compute_stream, fault("late_host:rank=1,pause=3ms")});
}

TEST(Matching, WithoutPayloadPeersInStepLieAtTheUsualDistance) {
  expect_matched(
      0.999, 7065,
      {without_payload, gpus(8), tensor(4), pipeline(4), steps(16), drift(50), fault("slow_gpu:rank=1,factor=1.3")});
}

TEST(Matching, WithoutPayloadPairsInTheMiddleOfPipelinesAreFoundThoughOneIsKnown) {
  expect_matched(0.99, 45016,
                 {without_payload, nodes(4), gpus(4), tensor(4), pipeline(4), layers(3), steps(120), drift(20),
                  fully_sharded, sequence_parallel, shared_stream, losses, fault("late_host:rank=1,pause=3ms")});
}

TEST(Matching, WithoutPayloadExchangesOfPipelinesInStepAreNoAllToAll) {
  // No clock relates the hosts of the two stages, so that those who exchange with others seem to meet each other only.
  expect_matched(0.8, 32022,
                 {without_payload, without_host_clocks, nodes(4), gpus(4), pipeline(2), layers(2), steps(40), experts,
                  shared_stream});
}

TEST(Matching, WithoutPayloadExchangesOfExpertsAreToldFromThoseOfThePipelineOneByOne) {
  for (const std::uint64_t seed : {8001, 8039}) {
    expect_matched(0.97, seed,
                   {without_payload, gpus(4), pipeline(4), layers(2), steps(12), experts, shared_stream, drift(2)});
  }
}

TEST(Matching, WithoutPayloadExchangesAreNotTakenForTheAllToAllsOfTheirStream) {
  const Change shapes[] = {all_of({gpus(8), layers(2)}), gpus(4), all_of({layers(3), losses})};
  for (std::uint64_t seed = 210; seed < 213; ++seed)
    expect_matched(0.8, seed, {without_payload, steps(8), pipeline(2), experts, shared_stream, pick(shapes, seed)});
}

TEST(Matching, WithoutPayloadExchangesThatWaitedForOthersAreNotThoseOfLanesInStep) {
  // Two pipelines whose stages are in step, and experts across them: some exchanges end together by chance.
  expect_matched(0.98, 36043,
                 {without_payload, nodes(4), gpus(2), pipeline(4), layers(2), steps(120), experts, shared_stream,
                  drift(20), fault("late_host:rank=1,pause=3ms")});
}

TEST(Matching, WithoutPayloadWhoseNeighboursWereNotCapturedYetAreNoPair) {
  expect_matched(0.99, 41022,
                 {without_payload, gpus(4), tensor(2), pipeline(4), layers(2), steps(40), sequence_parallel, experts,
                  shared_stream, drift(2), losses});
}

TEST(Matching, WithoutPayloadPipelinesAreKnownByTheirEnds) {
  // Stages between exchange with two others at places of the program that look alike.
  expect_matched(
      0.99, 9051,
      {without_payload, nodes(4), gpus(2), tensor(2), pipeline(4), layers(3), steps(8), compute_stream, drift(20)});
  expect_matched(0.99, 32038,
                 {without_payload, nodes(4), gpus(2), tensor(2), pipeline(4), layers(4), steps(40), fully_sharded,
                  shared_stream, drift(2), fault("late_host:rank=1,pause=3ms")});
}

TEST(Matching, WithoutPayloadDataGroupsInStepAreToldByWhomTheyWaitFor) {
  expect_matched(0.97, 36024,
                 {without_payload, one_host, gpus(8), tensor(4), layers(2), steps(120), fully_sharded, shared_stream,
                  drift(2), fault("late_host:rank=1,pause=3ms")});
}

TEST(Matching, WithoutPayloadTensorGroupsThatHoldDataGroupsInStepDoNotTakeTheirs) {
  for (std::uint64_t seed = 8036; seed < 8040; ++seed) {
    expect_matched(
        0.6, seed,
        {without_payload, one_host, gpus(4), tensor(2), layers(3), steps(6), compute_stream, drift(2), losses});
  }
}

TEST(Matching, WithoutPayloadGathersThatTakeTheSameEverywhereAreOfOneKind) {
  expect_matched(0.99, 5082,
                 {without_payload, gpus(8), tensor(2), layers(4), steps(24), fully_sharded, experts, shared_stream,
                  drift(20), fault("slow_gpu:rank=1,factor=1.3")});
  // What they take though nobody waits, as if they were of others, is nearly the same everywhere as well.
  expect_matched(0.99, 55036,
                 {without_payload, one_host, gpus(4), tensor(2), layers(3), steps(24), sequence_parallel, experts,
                  shared_stream, drift(20), losses, fault("late_host:rank=1,pause=3ms")});
}

TEST(Matching, WithoutPayloadGathersAreNotClaimedForMembersThatDidOthers) {
  const Change common = all_of({without_payload, steps(120), fully_sharded, sequence_parallel, losses});
  expect_matched(0.985, 34036,
                 {common, gpus(8), tensor(4), layers(3), shared_stream, fault("late_host:rank=1,pause=3ms")});
  // One that left late, and the next one: what is left of two of which each member lost the other.
  expect_matched(0.995, 34037,
                 {common, gpus(4), tensor(2), pipeline(2), layers(2), drift(50), fault("slow_gpu:rank=1,factor=1.3")});
}

TEST(Matching, PipelineNeighboursExchangeInPairs) {
  expect_matched(1, 0, 3, {pipeline(4), steps(6)});
  // Without payload one pair of stages on two hosts, which share but half of their exchanges, may be missed.
  expect_matched(0.87, 0, 10, {without_payload, pipeline(4), steps(6)});
}

TEST(Matching, ExchangesSideBySideAreNoAllToAll) {
  // Tensor groups hold the ends of two exchanges in step, so that all four leave together. In a short capture it cannot
  // be told then who is whose peer.
  expect_matched(0.96, 0, 10, {without_payload, one_host, tensor(2), pipeline(2), steps(6), drift(2)});
}

}  // namespace
}  // namespace nsys_explain::pipeline
