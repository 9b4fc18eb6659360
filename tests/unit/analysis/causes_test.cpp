#include "analysis/causes/causes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsys_explain/model/names.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::HasSubstr;

constexpr Nanoseconds us = 1000;

/// A member whose work is 1 ms of compute by one set of kernels, and whatever a test adds.
CaseMember member(std::int32_t trace_rank, std::initializer_list<std::pair<WorkPart, Nanoseconds>> more = {}) {
  CaseMember m;
  m.trace_rank = trace_rank;
  m.profile.kernels_hash = 42;
  m.profile.kernels = 10;
  m.profile.kernel_ns = 1000 * us;
  m.profile.parts_ns[static_cast<std::size_t>(WorkPart::compute)] = 1000 * us;
  m.work_ns = 1000 * us;
  for (const auto& [part, time_ns] : more) {
    m.profile.parts_ns[static_cast<std::size_t>(part)] += static_cast<std::uint32_t>(time_ns);
    m.work_ns += time_ns;
  }
  return m;
}

StragglerCase one_case(const CaseMember& straggler, Nanoseconds caused_wait_ns = 1000 * us) {
  StragglerCase one;
  one.caused_wait_ns = caused_wait_ns;
  one.straggler = straggler;
  const std::vector<CaseMember> members{straggler, member(1), member(2), member(3)};
  EXPECT_TRUE(choose_peer(members, one));
  return one;
}

/// The kernels of the straggler take longer, with the same or with other kernels.
CaseMember slower(Nanoseconds by_ns, bool same_kernels = true) {
  CaseMember m = member(0, {{WorkPart::compute, by_ns}});
  m.profile.kernel_ns += static_cast<std::uint32_t>(by_ns);
  if (!same_kernels) m.profile.kernels_hash = 43;
  return m;
}

/// 2 ms more, by kernels beyond the peers' number.
ComputeDifference more_kernels() {
  ComputeDifference difference;
  difference.own_ns = 5e6;
  difference.peers_ns = 3e6;
  difference.more_ns = 2e6;
  return difference;
}

WorkDifference range_difference(const std::string& name, Nanoseconds straggler_ns, Nanoseconds peer_ns) {
  WorkDifference difference;
  difference.kind = WorkEventKind::range;
  difference.name = name;
  difference.straggler_ns = straggler_ns;
  difference.peer_ns = peer_ns;
  return difference;
}

TEST(HostWasIn, WhatTheProgramWroteDownComesFirst) {
  // A loader takes 31 ms here and 0.4 ms on the peer; nothing else tells what the host did in 30.5 ms.
  const std::vector<StragglerCase> cases{one_case(member(0, {{WorkPart::unseen, 30'500 * us}}))};
  Divergence divergence;
  divergence.differences = {range_difference("data", 31'000 * us, 400 * us),
                            range_difference("forward", 900 * us, 600 * us)};
  const CauseVerdict verdict = decide_cause(cases, &divergence, nullptr);
  EXPECT_EQ(verdict.cause, Cause::launch_starved);
  EXPECT_EQ(verdict.part, WorkPart::named_range);
  EXPECT_EQ(verdict.host_was_in, "data");
  EXPECT_THAT(verdict.evidence[0], HasSubstr("the host was in data 30.500 ms longer than on a median peer"));
  // A range that holds less than half of it says nothing.
  divergence.differences = {range_difference("data", 15'000 * us, 400 * us)};
  EXPECT_EQ(decide_cause(cases, &divergence, nullptr).host_was_in, "");
  EXPECT_EQ(decide_cause(cases, &divergence, nullptr).part, WorkPart::unseen);
}

TEST(EvidenceTable, WhatMembersOfAnotherRoleComputeTellsNothing) {
  // The neighbouring stage computes 6 ms less by design, and 4 ms of idle GPU are the straggler's own lateness.
  CaseMember straggler = member(0, {{WorkPart::compute, 6000 * us}, {WorkPart::descheduled, 4000 * us}});
  straggler.profile.kernel_ns += 6000 * us;
  straggler.profile.kernels_hash = 43;
  StragglerCase one = one_case(straggler);
  one.alike = false;
  one.own_lateness_ns = 4000 * us;
  const CaseVerdict verdict = judge_case(one, std::nullopt);
  EXPECT_TRUE(verdict.counts);
  EXPECT_EQ(verdict.cause, Cause::launch_starved);
  EXPECT_EQ(verdict.part, WorkPart::descheduled);
  EXPECT_EQ(verdict.difference_ns, 4000 * us);
  one.own_lateness_ns = 9000 * us;
  EXPECT_FALSE(judge_case(one, std::nullopt).counts) << "most of its lateness is something else";
  one.alike = true;
  EXPECT_EQ(judge_case(one, std::nullopt).cause, Cause::unknown)
      << "of the same role, what it computed more is the question";
}

TEST(EvidenceTable, RowByRow) {
  const std::vector<std::pair<WorkPart, Cause>> rows{{WorkPart::profiling, Cause::profiler_overhead},
                                                     {WorkPart::allocation, Cause::allocation},
                                                     {WorkPart::module_load, Cause::launch_starved},
                                                     {WorkPart::synchronising, Cause::sync_stall},
                                                     {WorkPart::blocking_copy, Cause::blocking_copy},
                                                     {WorkPart::file_access, Cause::launch_starved},
                                                     {WorkPart::named_range, Cause::launch_starved},
                                                     {WorkPart::system_wait, Cause::launch_starved},
                                                     {WorkPart::descheduled, Cause::launch_starved},
                                                     {WorkPart::launching, Cause::launch_starved},
                                                     {WorkPart::unseen, Cause::launch_starved},
                                                     {WorkPart::copy, Cause::extra_work},
                                                     {WorkPart::communication, Cause::unknown},
                                                     {WorkPart::opaque_graph, Cause::unknown},
                                                     {WorkPart::pending, Cause::unknown}};
  for (const auto& [part, cause] : rows) {
    const CaseVerdict verdict = judge_case(one_case(member(0, {{part, 500 * us}})), std::nullopt);
    EXPECT_EQ(cause_name(verdict.cause), cause_name(cause)) << work_parts()[static_cast<std::size_t>(part)].name;
    EXPECT_EQ(verdict.part, part);
    EXPECT_TRUE(verdict.counts);
    EXPECT_EQ(verdict.difference_ns, 500 * us);
  }
}

TEST(EvidenceTable, SameKernelsSlower) {
  const CaseVerdict verdict = judge_case(one_case(slower(300 * us)), std::nullopt);
  EXPECT_EQ(verdict.cause, Cause::slow_kernel);
  EXPECT_EQ(verdict.part, WorkPart::compute);
}

TEST(EvidenceTable, OtherKernelsAreJudgedByNames) {
  const StragglerCase one = one_case(slower(300 * us, false));
  EXPECT_EQ(judge_case(one, std::nullopt).cause, Cause::unknown) << "without names it cannot be told";
  for (const Cause why : {Cause::slow_kernel, Cause::extra_work, Cause::uneven_work})
    EXPECT_EQ(judge_case(one, why).cause, why);
  EXPECT_EQ(judge_case(one_case(slower(300 * us)), Cause::extra_work).cause, Cause::slow_kernel)
      << "what is the same here is not more";
  EXPECT_EQ(judge_case(one_case(slower(300 * us)), Cause::uneven_work).cause, Cause::uneven_work);
}

TEST(EvidenceTable, StarvationAfterCallsThatThePeersDoNotMake) {
  CaseMember synchronises = member(0, {{WorkPart::unseen, 500 * us}});
  synchronises.profile.synchronisations = 1;
  EXPECT_EQ(judge_case(one_case(synchronises), std::nullopt).cause, Cause::sync_stall);
  synchronises.profile.allocations = 1;
  EXPECT_EQ(judge_case(one_case(synchronises), std::nullopt).cause, Cause::allocation);
}

TEST(EvidenceTable, ComputeThatPeersDidWhileTheyWaitedIsNoCause) {
  // The same kernels in the same time; only that the peers had run them during an earlier collective.
  CaseMember behind = member(0);
  StragglerCase one = one_case(behind);
  one.peer.profile.parts_ns[static_cast<std::size_t>(WorkPart::compute)] = 0;
  one.peer.work_ns = 0;
  EXPECT_FALSE(judge_case(one, std::nullopt).counts);
}

TEST(EvidenceTable, KernelsWithinTheNoiseOfThePeersAreNotSlower) {
  StragglerCase one = one_case(slower(20 * us));
  EXPECT_EQ(judge_case(one, std::nullopt).cause, Cause::slow_kernel);
  one.kernel_noise_ns = 6 * us;
  EXPECT_FALSE(judge_case(one, std::nullopt).counts);
}

TEST(ChoosePeer, TakesTheMedianOfThoseThatRanTheSame) {
  CaseMember other = member(4, {{WorkPart::unseen, 9000 * us}});
  other.profile.kernels_hash = 7;
  const std::vector<CaseMember> members{
      member(0, {{WorkPart::unseen, 500 * us}}), member(1, {{WorkPart::unseen, 20 * us}}),
      member(2, {{WorkPart::unseen, 10 * us}}), member(3, {{WorkPart::unseen, 30 * us}}), other};
  StragglerCase one;
  one.straggler = members[0];
  ASSERT_TRUE(choose_peer(members, one));
  EXPECT_EQ(one.peer.trace_rank, 1);
  EXPECT_TRUE(one.same_kernels);
  one.straggler.profile.kernels_hash = 99;
  ASSERT_TRUE(choose_peer(members, one));
  EXPECT_EQ(one.peer.trace_rank, 1) << "of the majority that ran the same";
  EXPECT_FALSE(one.same_kernels);
  const std::vector<CaseMember> alone{members[0]};
  EXPECT_FALSE(choose_peer(alone, one));
}

TEST(DecideCause, OneHiccupDoesNotSpeakForTheRun) {
  std::vector<StragglerCase> cases(9, one_case(slower(300 * us), 2000 * us));
  cases.push_back(one_case(member(0, {{WorkPart::unseen, 900'000 * us}}), 900'000 * us));
  const CauseVerdict verdict = decide_cause(cases, nullptr, nullptr);
  EXPECT_EQ(verdict.cause, Cause::slow_kernel);
  ASSERT_FALSE(verdict.evidence.empty());
  EXPECT_THAT(verdict.evidence[0], HasSubstr("in 9 of 10 sampled collectives"));
  EXPECT_THAT(verdict.evidence[0], HasSubstr("compute kernels ran 0.300 ms longer than on a median peer"));
}

TEST(DecideCause, NoCaseOutweighsAnotherSoMostCasesDecide) {
  std::vector<StragglerCase> cases(12, one_case(slower(900 * us), 900 * us));
  for (int i = 0; i < 4; ++i) cases.push_back(one_case(member(0, {{WorkPart::unseen, 3000 * us}}), 3000 * us));
  EXPECT_EQ(decide_cause(cases, nullptr, nullptr).cause, Cause::slow_kernel);
}

TEST(DecideCause, TheFewStepsInWhichSomebodyIsLateOutweighTheOthers) {
  // Two checkpoints in ten spans; in the others it is last by microseconds.
  std::vector<StragglerCase> cases(8, one_case(slower(10 * us), 10 * us));
  for (const Nanoseconds pause : {26'000 * us, 14'000 * us})
    cases.push_back(one_case(member(0, {{WorkPart::file_access, pause}}), pause));
  EXPECT_EQ(decide_cause(cases, nullptr, nullptr).cause, Cause::slow_kernel);
  EXPECT_EQ(decide_cause(cases, nullptr, nullptr, LateIn::some_steps).cause, Cause::launch_starved);
  cases.pop_back();
  EXPECT_EQ(decide_cause(cases, nullptr, nullptr, LateIn::some_steps).cause, Cause::slow_kernel) << "one may go by";
}

TEST(DecideCause, WhatHoldsLittleOfTheWaitingIsNotTheCause) {
  // In twelve cases kernels are those of the peers, and in one that hardly anybody waited in they take longer.
  std::vector<StragglerCase> cases(12, one_case(member(0), 15'000 * us));
  cases.push_back(one_case(slower(200 * us), 9 * us));
  EXPECT_NEAR(share_that_counts(cases), 9.0 / 180'009, 1e-9);
  EXPECT_EQ(decide_cause(cases, nullptr, nullptr).cause, Cause::unknown);
  EXPECT_TRUE(decide_cause(cases, nullptr, nullptr).evidence.empty());
  // Two of fourteen.
  cases.back().caused_wait_ns = 15'000 * us;
  cases.push_back(cases.back());
  EXPECT_NEAR(share_that_counts(cases), 2.0 / 14, 1e-9);
  EXPECT_EQ(decide_cause(cases, nullptr, nullptr).cause, Cause::slow_kernel);
  EXPECT_EQ(share_that_counts({}), 0);
}

TEST(DecideCause, OtherKernelsInAFewCasesAreNoExtraWork) {
  // The same kernels took longer in five cases; in three that more was waited in, others seem to have run, too.
  const ComputeDifference difference = more_kernels();
  std::vector<StragglerCase> cases(5, one_case(slower(50 * us), 50 * us));
  for (int i = 0; i < 3; ++i) cases.push_back(one_case(slower(1000 * us, false), 1000 * us));
  EXPECT_EQ(judge_case(cases.back(), difference.cause()).cause, Cause::extra_work);
  EXPECT_EQ(decide_cause(cases, nullptr, &difference).cause, Cause::slow_kernel);
  // In most of them: that is what it does.

  EXPECT_EQ(decide_cause(std::span(cases).subspan(3), nullptr, &difference).cause, Cause::extra_work)
      << "three of five";
}

TEST(DecideCause, WhatPeersDifferByInOtherCasesIsNoiseInThisOneToo) {
  const ComputeDifference difference = more_kernels();
  std::vector<StragglerCase> cases(5, one_case(slower(100 * us, false)));
  cases[0].kernel_noise_ns = 0;  // its peers happened to agree
  for (int i = 1; i < 5; ++i) cases[static_cast<std::size_t>(i)].kernel_noise_ns = 30 * us;
  EXPECT_EQ(decide_cause(cases, nullptr, &difference).cause, Cause::extra_work);
  pool_kernel_noise(cases);
  EXPECT_EQ(cases[0].kernel_noise_ns, 30 * us);
  EXPECT_EQ(decide_cause(cases, nullptr, &difference).cause, Cause::unknown) << "100 is not beyond four times 30";
  // Where kernels are the same they are compared one by one.
  std::vector<StragglerCase> same(3, one_case(slower(100 * us)));
  same.push_back(cases[1]);
  pool_kernel_noise(same);
  EXPECT_EQ(same[0].kernel_noise_ns, 0);
}

TEST(DecideCause, CasesThatDisagreeLeaveItUnknown) {
  std::vector<StragglerCase> cases{one_case(member(0, {{WorkPart::unseen, 500 * us}})),
                                   one_case(member(0, {{WorkPart::allocation, 500 * us}})),
                                   one_case(member(0, {{WorkPart::synchronising, 500 * us}}))};
  EXPECT_EQ(decide_cause(cases, nullptr, nullptr).cause, Cause::unknown);
  EXPECT_EQ(decide_cause({}, nullptr, nullptr).cause, Cause::unknown);
}

}  // namespace
}  // namespace nsys_explain::analysis
