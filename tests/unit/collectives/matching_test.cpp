#include "collectives/matching.hpp"
#include "seeds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>

namespace nsys_explain::collectives {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t world = 0xabcdef0123456789;

TraceArrival arrival(std::int32_t rank, std::int32_t position, Nanoseconds enter,
                     Operation operation = Operation::all_reduce, std::int64_t bytes = 1024) {
  TraceArrival a;
  a.trace_rank = rank;
  a.position = position;
  a.enter = TraceTime(enter);
  a.exit = TraceTime(enter + 100);
  a.operation = operation;
  a.call_bytes = bytes;
  a.communicator = world;
  a.evidence = Evidence::nccl_payload;
  return a;
}

/// On a clock that needs no correction.
MatchedBlock matched(const MatchUnit& unit, const PlannedCommunicator& communicator,
                     const std::vector<TraceArrival>& arrivals, const AlignmentOptions& alignment = {}) {
  std::vector<JobArrival> timed;
  for (const TraceArrival& a : arrivals) timed.push_back({a, JobTime(a.enter.ns), JobTime(a.exit.ns)});
  return match_unit(unit, communicator, timed, alignment);
}

std::vector<SequenceSummary> summaries_of(const std::vector<std::vector<TraceArrival>>& ranks,
                                          const std::vector<CommunicatorMembership>& memberships = {}) {
  std::vector<SequenceSummary> all;
  for (const auto& arrivals : ranks) {
    const auto mine = summarise_sequences(arrivals, 0, memberships);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

TEST(Plan, EqualSequencesShareOneCommunicator) {
  const auto planned = plan_communicators(
      summaries_of({{arrival(0, 0, 10), arrival(0, 1, 500)}, {arrival(4, 0, 20), arrival(4, 1, 510)}}));
  ASSERT_EQ(planned.size(), 1U);
  EXPECT_TRUE(planned[0].equal_sequences);
  EXPECT_THAT(planned[0].trace_ranks, ElementsAre(0, 4));
  EXPECT_EQ(planned[0].size, 2);
  EXPECT_EQ(planned[0].name, "0xabcdef0123456789");
  EXPECT_EQ(planned[0].evidence, Evidence::nccl_payload);
}

TEST(Plan, ACommunicatorHasTheNameThatMostMembersGiveIt) {
  auto planned = plan_communicators(summaries_of({{arrival(0, 0, 10)}, {arrival(1, 0, 20)}, {arrival(2, 0, 20)}}));
  name_communicators(planned, {{{0, world}, "other"}, {{1, world}, "tp"}, {{2, world}, "tp"}, {{1, 5}, "elsewhere"}});
  EXPECT_EQ(planned.at(0).given_name, "tp");
  EXPECT_EQ(planned[0].name, "0xabcdef0123456789") << "names are not unique";
}

TEST(Plan, OrderBytesAndOperationMatterToEquality) {
  const std::vector<TraceArrival> reference{arrival(0, 0, 10), arrival(0, 1, 500, Operation::all_gather)};
  const auto equal_to = [&](std::vector<TraceArrival> other) {
    return plan_communicators(summaries_of({reference, std::move(other)}))[0].equal_sequences;
  };
  EXPECT_TRUE(equal_to({arrival(1, 0, 10), arrival(1, 1, 500, Operation::all_gather)}));
  EXPECT_FALSE(equal_to({arrival(1, 0, 10, Operation::all_gather), arrival(1, 1, 500)}));
  EXPECT_FALSE(equal_to({arrival(1, 0, 10, Operation::all_reduce, 2048), arrival(1, 1, 500, Operation::all_gather)}));
  EXPECT_FALSE(equal_to({arrival(1, 0, 10)}));
}

TEST(Plan, MembersOfAnAllToAllMayPassDifferentSizes) {
  const auto planned = plan_communicators(
      summaries_of({{arrival(0, 0, 10, Operation::all_to_all, 5)}, {arrival(1, 0, 10, Operation::all_to_all, 7)}}));
  EXPECT_TRUE(planned[0].equal_sequences);
}

TEST(Plan, SizeComesFromNcclWhereItTells) {
  const std::vector<CommunicatorMembership> memberships{{world, 0, 8, 0}};
  const auto planned = plan_communicators(summaries_of({{arrival(0, 0, 10)}, {arrival(1, 0, 10)}}, memberships));
  EXPECT_EQ(planned[0].size, 8);
}

TEST(Plan, DoesNotDependOnTheOrderOfSummaries) {
  std::vector<std::vector<TraceArrival>> ranks;
  for (std::int32_t r = 0; r < 8; ++r) {
    ranks.push_back({arrival(r, 0, 10), arrival(r, 0, 20)});
    ranks.back()[1].communicator = 0x5000'0000 + static_cast<std::uint64_t>(r / 2);
  }
  auto summaries = summaries_of(ranks);
  const auto reference = plan_communicators(summaries);
  ASSERT_EQ(reference.size(), 5U);
  EXPECT_EQ(reference[0].trace_ranks.size(), 8U) << "the largest one of the first rank stands first";
  for (const unsigned seed : nsys_explain::tiers::seeds(10)) {
    std::shuffle(summaries.begin(), summaries.end(), std::mt19937(seed));
    const auto planned = plan_communicators(summaries);
    ASSERT_EQ(planned.size(), reference.size());
    for (std::size_t c = 0; c < planned.size(); ++c) {
      EXPECT_EQ(planned[c].name, reference[c].name);
      EXPECT_EQ(planned[c].trace_ranks, reference[c].trace_ranks);
    }
  }
}

TEST(Units, CoverEveryPositionOnceForAnyNumberOfToolRanks) {
  PlannedCommunicator large, small, uneven;
  large.trace_ranks = {0, 1, 2, 3};
  large.lengths = {5000, 5000, 5000, 5000};
  small.trace_ranks = {0, 1};
  small.lengths = {3, 3};
  uneven.trace_ranks = {2, 3};
  uneven.lengths = {4000, 3999};
  uneven.equal_sequences = false;
  const std::vector<PlannedCommunicator> communicators{large, small, uneven};
  const auto reference = plan_units(communicators, 1, [](std::int32_t) { return 0; });
  for (std::int32_t tool_ranks : {1, 2, 3, 7, 100}) {
    const auto units = plan_units(communicators, tool_ranks, [&](std::int32_t rank) { return rank % tool_ranks; });
    ASSERT_EQ(units.size(), reference.size());
    std::int64_t next = 0;
    std::int32_t communicator = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
      EXPECT_EQ(units[u].first_position, reference[u].first_position);
      if (units[u].communicator != communicator) next = 0;
      communicator = units[u].communicator;
      EXPECT_EQ(units[u].first_position, next);
      next = units[u].end_position;
      EXPECT_GE(units[u].owner, 0);
      EXPECT_LT(units[u].owner, tool_ranks);
      EXPECT_EQ(units[u].at_reader, tool_ranks == 1) << "members 0 to 3 were read by different tool ranks";
    }
  }
  EXPECT_EQ(reference.back().end_position, 4000) << "one unit for a communicator that needs alignment";
}

/// Eight communicators of two trace ranks each, as long as one another.
std::vector<PlannedCommunicator> eight_pairs() {
  std::vector<PlannedCommunicator> communicators(8);
  for (std::int32_t c = 0; c < 8; ++c) {
    communicators[static_cast<std::size_t>(c)].trace_ranks = {2 * c, 2 * c + 1};
    communicators[static_cast<std::size_t>(c)].lengths = {100, 100};
  }
  return communicators;
}

TEST(Units, StayWithWhoHasReadAllMembers) {
  // Pair c was read by tool rank c % 2, but for one whose members were read by both.
  const auto units = plan_units(eight_pairs(), 2, [](std::int32_t rank) { return rank == 7 ? 0 : rank / 2 % 2; });
  ASSERT_EQ(units.size(), 8U);
  for (std::int32_t c = 0; c < 8; ++c) {
    EXPECT_EQ(units[static_cast<std::size_t>(c)].at_reader, c != 3);
    EXPECT_EQ(units[static_cast<std::size_t>(c)].owner, c % 2) << "the fourth evens out who owns three others";
  }
}

TEST(Units, AreSharedOutWhereOneToolRankHasReadAll) {
  const auto units = plan_units(eight_pairs(), 4, [](std::int32_t) { return 2; });
  std::vector<int> owned(4, 0);
  for (const auto& unit : units) {
    ++owned[static_cast<std::size_t>(unit.owner)];
    EXPECT_EQ(unit.at_reader, unit.owner == 2);
  }
  EXPECT_EQ(owned, (std::vector<int>{2, 2, 2, 2}));
}

TEST(Units, OfManyMembersAreShort) {
  PlannedCommunicator everybody;
  for (std::int32_t rank = 0; rank < 1024; ++rank) everybody.trace_ranks.push_back(rank);
  everybody.lengths.assign(1024, 126);
  everybody.equal_sequences = true;
  const auto units = plan_units(std::vector{everybody}, 2, [](std::int32_t rank) { return rank % 2; });
  ASSERT_EQ(units.size(), 2U) << "64 positions each";
  EXPECT_EQ(units[0].end_position, 64);
  EXPECT_NE(units[0].owner, units[1].owner);
}

TEST(Match, KthWithKth) {
  const auto communicator = plan_communicators(
      summaries_of({{arrival(0, 0, 10), arrival(0, 1, 500)}, {arrival(4, 0, 20), arrival(4, 1, 510)}}))[0];
  std::vector<TraceArrival> arrivals{arrival(4, 1, 510), arrival(0, 0, 10), arrival(0, 1, 500), arrival(4, 0, 20)};
  const MatchedBlock block = matched({0, 0, 2, 0}, communicator, arrivals);
  ASSERT_EQ(block.instances.size(), 2U);
  EXPECT_EQ(block.unmatched_arrivals, 0);
  EXPECT_EQ(block.instances[1].sequence, 1);
  EXPECT_EQ(block.instances[1].operation, Operation::all_reduce);
  EXPECT_EQ(block.instances[1].message_bytes, 1024);
  EXPECT_TRUE(block.instances[1].complete);
  const InstanceArrival& second = block.arrivals[static_cast<std::size_t>(block.instances[1].first_arrival) + 1];
  EXPECT_EQ(second.trace_rank, 4);
  EXPECT_EQ(second.enter.ns, 510);
}

TEST(Match, NumbersCountWhereAllMembersRecordedAllOfAKind) {
  // Each member lost another all-reduce, so that position by position wrong ones would come together; broadcasts have
  // no numbers on one of them.
  const auto numbered = [](TraceArrival a, std::int64_t sequence) {
    a.sequence = sequence;
    return a;
  };
  const std::vector<TraceArrival> first{numbered(arrival(0, 0, 100), 7), numbered(arrival(0, 1, 2'100), 9),
                                        numbered(arrival(0, 2, 3'000, Operation::broadcast, 64), 1)};
  const std::vector<TraceArrival> second{numbered(arrival(1, 0, 1'100), 8), numbered(arrival(1, 1, 2'100), 9),
                                         arrival(1, 2, 3'000, Operation::broadcast, 64)};
  const PlannedCommunicator communicator = plan_communicators(summaries_of({first, second}))[0];
  EXPECT_TRUE(communicator.is_numbered(Operation::all_reduce));
  EXPECT_FALSE(communicator.is_numbered(Operation::broadcast));
  EXPECT_FALSE(PlannedCommunicator().is_numbered(Operation::all_reduce)) << "where nothing is known";
  std::vector<TraceArrival> both = first;
  both.insert(both.end(), second.begin(), second.end());
  const MatchedBlock block = matched({0, 0, 3, 0}, communicator, both);
  ASSERT_EQ(block.instances.size(), 2U);
  EXPECT_EQ(block.unmatched_arrivals, 2);
  EXPECT_EQ(block.instances[0].operation, Operation::all_reduce);
  EXPECT_EQ(block.arrivals[0].enter.ns, 2'100);
  EXPECT_EQ(block.instances[1].operation, Operation::broadcast);
}

TEST(Match, ABroadcastThatTheRootLeftEarlyIsFoundByWhatLiesAroundIt) {
  // The root leaves at 1,300, before the other member enters at 1,500; the second member has an operation more.
  const auto job = [](std::size_t broadcasts_of_the_other) {
    std::vector<TraceArrival> all{arrival(0, 0, 1'000), arrival(0, 1, 1'200, Operation::broadcast, 64),
                                  arrival(0, 2, 2'000)};
    std::int32_t position = 0;
    all.push_back(arrival(1, position++, 1'000));
    for (std::size_t b = 0; b < broadcasts_of_the_other; ++b)
      all.push_back(arrival(1, position++, 1'500 + 200 * static_cast<Nanoseconds>(b), Operation::broadcast, 64));
    all.push_back(arrival(1, position++, 2'000));
    all.push_back(arrival(1, position++, 3'000));
    const auto first_of_other = all.begin() + 3;
    const auto planned = plan_communicators(summaries_of({{all.begin(), first_of_other}, {first_of_other, all.end()}}));
    return matched({0, 0, 5, 0}, planned.at(0), all, {.time_scale_ns = 1});
  };
  const MatchedBlock one = job(1);
  ASSERT_EQ(one.instances.size(), 3U);
  EXPECT_EQ(one.instances[1].operation, Operation::broadcast);
  EXPECT_EQ(one.instances[1].arrivals, 2);
  EXPECT_EQ(one.unmatched_arrivals, 1);
  const MatchedBlock two = job(2);
  EXPECT_EQ(two.instances.size(), 2U) << "which of two it is nobody knows";
  EXPECT_EQ(two.unmatched_arrivals, 4);
}

TEST(Match, WhatFollowsEachOtherAndNobodyWaitsForIsFoundByWhatLiesAroundBoth) {
  // The first member is out of both before the second comes, which has an operation more.
  const auto job = [](Operation first, Operation second) {
    std::vector<TraceArrival> all{arrival(0, 0, 1'000), arrival(0, 1, 1'200, first, 64),
                                  arrival(0, 2, 1'400, second, 64), arrival(0, 3, 9'000)};
    for (const TraceArrival& other : {arrival(1, 0, 1'000), arrival(1, 1, 5'200, first, 64),
                                      arrival(1, 2, 5'400, second, 64), arrival(1, 3, 9'000), arrival(1, 4, 9'500)})
      all.push_back(other);
    const auto first_of_other = all.begin() + 4;
    const auto planned = plan_communicators(summaries_of({{all.begin(), first_of_other}, {first_of_other, all.end()}}));
    return matched({0, 0, 9, 0}, planned.at(0), all, {.time_scale_ns = 1});
  };
  const MatchedBlock different = job(Operation::reduce, Operation::broadcast);
  ASSERT_EQ(different.instances.size(), 4U);
  EXPECT_EQ(different.instances[1].operation, Operation::reduce);
  EXPECT_EQ(different.instances[2].operation, Operation::broadcast);
  EXPECT_EQ(different.unmatched_arrivals, 1);
  const MatchedBlock alike = job(Operation::broadcast, Operation::broadcast);
  EXPECT_EQ(alike.instances.size(), 2U) << "either may lack one of three, and not the same";
}

TEST(Match, BlocksKeepTheSequenceOfTheWhole) {
  PlannedCommunicator communicator;
  communicator.trace_ranks = {0, 1};
  communicator.lengths = {1500, 1500};
  communicator.size = 2;
  std::vector<TraceArrival> arrivals;
  for (std::int32_t p = 1024; p < 1500; ++p) {
    arrivals.push_back(arrival(0, p, 10LL * p));
    arrivals.push_back(arrival(1, p, 10LL * p));
  }
  const MatchedBlock block = matched({0, 1024, 1500, 0}, communicator, arrivals);
  ASSERT_EQ(block.instances.size(), 476U);
  EXPECT_EQ(block.instances.front().sequence, 1024);
  EXPECT_EQ(block.instances.back().sequence, 1499);
}

TEST(Match, ALonelyMemberHasNoInstances) {
  const auto communicator = plan_communicators(summaries_of({{arrival(3, 0, 10), arrival(3, 1, 20)}}))[0];
  const MatchedBlock block = matched({0, 0, 2, 0}, communicator, std::vector{arrival(3, 0, 10), arrival(3, 1, 20)});
  EXPECT_TRUE(block.instances.empty());
  EXPECT_EQ(block.unmatched_arrivals, 2);
}

TEST(Match, SizeOfAnAllGatherIsTheGatheredBuffer) {
  const std::vector<CommunicatorMembership> memberships{{world, 0, 8, 0}};
  const auto communicator = plan_communicators(summaries_of(
      {{arrival(0, 0, 10, Operation::all_gather)}, {arrival(1, 0, 10, Operation::all_gather)}}, memberships))[0];
  const MatchedBlock block =
      matched({0, 0, 1, 0}, communicator,
              std::vector{arrival(0, 0, 10, Operation::all_gather), arrival(1, 0, 10, Operation::all_gather)});
  ASSERT_EQ(block.instances.size(), 1U);
  EXPECT_EQ(block.instances[0].message_bytes, 8 * 1024);
  EXPECT_FALSE(block.instances[0].complete);
}

TEST(Match, OfTwoMembersWhatEachSendsToItselfIsNoMessage) {
  const auto size_of = [](std::int32_t peer_or_root) {
    std::vector<TraceArrival> both{arrival(0, 0, 10, Operation::send_recv), arrival(1, 0, 10, Operation::send_recv)};
    for (TraceArrival& one : both) one.peer_or_root = peer_or_root == several_peers ? peer_or_root : 1 - one.trace_rank;
    const auto planned = plan_communicators(summaries_of({{both[0]}, {both[1]}}));
    return matched({0, 0, 1, 0}, planned.at(0), both).instances.at(0).message_bytes;
  };
  EXPECT_EQ(size_of(several_peers), 512) << "an all-to-all by sends and receives";
  EXPECT_EQ(size_of(1), 1024) << "a pair exchange";
}

/// Two members of one communicator, 400 operations at uneven intervals of about a millisecond, on one clock but for
/// what `error_ns(time)` adds to the second member's. Losing different records leaves their sequences equal.
MatchedBlock matched_with_clock_error(const std::function<Nanoseconds(Nanoseconds)>& error_ns,
                                      const std::vector<std::int32_t>& lost_on_first = {},
                                      const std::vector<std::int32_t>& lost_on_second = {}) {
  std::vector<std::vector<TraceArrival>> members(2);
  Nanoseconds now_ns = 0;
  for (std::int32_t k = 0; k < 400; ++k) {
    now_ns += 800'000 + 7'000 * (k * 37 % 61);
    for (std::int32_t m = 0; m < 2; ++m) {
      const std::vector<std::int32_t>& lost = m == 0 ? lost_on_first : lost_on_second;
      if (std::count(lost.begin(), lost.end(), k) > 0) continue;
      std::vector<TraceArrival>& own = members[static_cast<std::size_t>(m)];
      TraceArrival a = arrival(m, static_cast<std::int32_t>(own.size()), now_ns - 20'000 * (1 + (k + m) % 3));
      a.exit = TraceTime(now_ns + 100 * ((k + 3 * m) % 5));
      if (m == 1) {
        a.enter = a.enter + error_ns(a.enter.ns);
        a.exit = a.exit + error_ns(a.exit.ns);
      }
      a.index = k;
      own.push_back(a);
    }
  }
  const auto planned = plan_communicators(summaries_of(members));
  std::vector<TraceArrival> both = members[0];
  both.insert(both.end(), members[1].begin(), members[1].end());
  const auto longest = static_cast<std::int64_t>(members[0].size());
  return matched({0, 0, longest, 0}, planned.at(0), both, {.time_scale_ns = 10'000});
}

std::size_t right_pairs(const MatchedBlock& block) {
  return static_cast<std::size_t>(
      std::count_if(block.instances.begin(), block.instances.end(), [&](const Instance& instance) {
        const auto members = members_of(block, instance);
        return members.size() == 2 && members.front().index == members.back().index;
      }));
}

TEST(Match, EqualSequencesAreMatchedInOrderThoughAClockStepsOrSlews) {
  const MatchedBlock stepped = matched_with_clock_error([](Nanoseconds t) { return t > 200'000'000 ? 300'000 : 0; });
  EXPECT_EQ(right_pairs(stepped), 400U);
  EXPECT_EQ(stepped.instances.size(), 400U);
  // 5,000 ppm for a tenth of the run: 200 us, as much as 100 ppm adds in two seconds.
  const MatchedBlock slewed = matched_with_clock_error(
      [](Nanoseconds t) { return std::clamp<Nanoseconds>(t - 200'000'000, 0, 40'000'000) / 200; });
  EXPECT_EQ(right_pairs(slewed), 400U);
  EXPECT_EQ(slewed.instances.size(), 400U);
}

TEST(Match, EqualSequencesThatLostDifferentOperationsAreAligned) {
  const auto no_error = [](Nanoseconds) -> Nanoseconds { return 0; };
  const MatchedBlock apart = matched_with_clock_error(no_error, {100}, {140});
  EXPECT_EQ(right_pairs(apart), 398U);
  EXPECT_EQ(apart.instances.size(), 398U);
  const MatchedBlock next_to_each_other = matched_with_clock_error(no_error, {100}, {101});
  EXPECT_EQ(right_pairs(next_to_each_other), 398U);
  EXPECT_EQ(next_to_each_other.instances.size(), 398U);
}

/// A pipeline of four members whose calls do not tell peers. Each step the first and the last two leave together to 30
/// ns, the ones in the middle only to 600, the later of which enters up to `enters_apart_us` before the other.
std::size_t exchanges_in_the_middle(std::int64_t enters_apart_us) {
  constexpr std::int64_t steps = 200, step_ns = 2'000'000;
  std::vector<std::vector<TraceArrival>> members(4);
  const auto add = [&](std::int32_t member, Nanoseconds enter_ns, Nanoseconds exit_ns) {
    std::vector<TraceArrival>& own = members[static_cast<std::size_t>(member)];
    TraceArrival a = arrival(member, static_cast<std::int32_t>(own.size()), enter_ns, Operation::send_recv);
    a.exit = TraceTime(exit_ns);
    a.index = static_cast<std::int32_t>(own.size());
    own.push_back(a);
  };
  for (std::int64_t k = 1; k <= steps; ++k) {
    const Nanoseconds first_ns = k * step_ns, middle_ns = first_ns + 1'000'000, last_ns = first_ns + 1'500'000;
    const Nanoseconds closely_ns = 60 * (k % 5), enters_ns = 1'000 * (k * 13 % 41);
    add(0, first_ns - 90'000, first_ns);
    add(1, first_ns - 90'000 + enters_ns, first_ns + closely_ns);
    add(1, middle_ns - 50'000, middle_ns);
    add(2, middle_ns - 50'000 - 1'000 * (k * 37 % (enters_apart_us + 1)), middle_ns + 300 * (k % 11));
    add(2, last_ns - 90'000, last_ns);
    add(3, last_ns - 90'000 + enters_ns, last_ns + closely_ns);
  }
  const auto planned = plan_communicators(summaries_of(members));
  std::vector<TraceArrival> all;
  for (const std::vector<TraceArrival>& own : members) all.insert(all.end(), own.begin(), own.end());
  const MatchedBlock block = matched({0, 0, 2 * steps, 0}, planned.at(0), all, {.time_scale_ns = 1'000});
  std::size_t found = 0;
  for (const Instance& instance : block.instances) {
    const auto pair = members_of(block, instance);
    const std::int32_t first = pair.front().trace_rank, second = pair.back().trace_rank;
    EXPECT_EQ(second, first + 1);
    EXPECT_LE(std::abs(pair.front().exit - pair.back().exit), 3'000) << "those of one step";
    found += first == 1 ? 1 : 0;
  }
  EXPECT_EQ(block.instances.size() - found, 2U * steps);
  return found;
}

TEST(Match, StagesThatAgreeWorseExchangeWhatTheirOtherNeighboursLeave) {
  EXPECT_EQ(exchanges_in_the_middle(800), 200U);
}

/// Two stages, the first two micro-batches ahead: it sends one forward twice before it receives one back. A sender is
/// done after 20 us, a receiver 600 us after its sender entered. `index` counts the sends or receives of a member.
std::vector<TraceArrival> two_stages(std::int64_t steps) {
  std::vector<TraceArrival> all;
  std::array<std::int32_t, 2> positions{}, sent{}, received{};
  const auto add = [&](std::int32_t member, bool sends, Nanoseconds enter_ns, Nanoseconds exit_ns) {
    const auto m = static_cast<std::size_t>(member);
    TraceArrival a = arrival(member, positions[m]++, enter_ns, Operation::send_recv);
    a.exit = TraceTime(exit_ns);
    a.peer_or_root = 1 - member;
    a.directions = sends ? Directions::sends : Directions::receives;
    a.index = (sends ? sent : received)[m]++;
    all.push_back(a);
  };
  constexpr Nanoseconds us = 1'000, step_ns = 10'000 * us;
  for (std::int64_t k = 0; k < steps; ++k) {
    const Nanoseconds now_ns = k * step_ns + 37 * us * (k * 13 % 41);
    for (const Nanoseconds at_us : {0, 1'000, 4'000}) {  // forward
      add(0, true, now_ns + at_us * us, now_ns + (at_us + 20) * us);
      add(1, false, now_ns + (at_us + 300) * us, now_ns + (at_us + 600) * us);
    }
    for (const Nanoseconds at_us : {2'000, 5'000, 7'000}) {  // backward
      add(1, true, now_ns + at_us * us, now_ns + (at_us + 20) * us);
      add(0, false, now_ns + (at_us + 100) * us, now_ns + (at_us + 600) * us);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const TraceArrival& a, const TraceArrival& b) {
    return std::pair(a.trace_rank, a.enter) < std::pair(b.trace_rank, b.enter);
  });
  positions = {};
  for (TraceArrival& a : all) a.position = positions[static_cast<std::size_t>(a.trace_rank)]++;
  return all;
}

TEST(Match, TheKthSendOfADirectionMeetsItsKthReceive) {
  // In the order of both directions together the second operation of stage 0 is a send, that of stage 1 a receive, but
  // the third of stage 0 receives where that of stage 1 receives, too.
  constexpr std::int64_t steps = 50;
  const std::vector<TraceArrival> all = two_stages(steps);
  std::vector<std::vector<TraceArrival>> members(2);
  for (const TraceArrival& a : all) members[static_cast<std::size_t>(a.trace_rank)].push_back(a);
  const auto planned = plan_communicators(summaries_of(members));
  EXPECT_FALSE(planned.at(0).equal_sequences) << "one unit holds all of it";
  for (const Nanoseconds time_scale_ns : {no_time, Nanoseconds{1'000}}) {
    const MatchedBlock block = matched({0, 0, 6 * steps, 0}, planned[0], all, {.time_scale_ns = time_scale_ns});
    ASSERT_EQ(block.instances.size(), 6U * steps);
    for (const Instance& instance : block.instances) {
      const auto pair = members_of(block, instance);
      EXPECT_EQ(pair[0].index, pair[1].index);
      const JobTime sent = std::min(pair[0].enter, pair[1].enter);
      EXPECT_EQ(std::max(pair[0].exit, pair[1].exit) - sent, 600'000) << "one sends what the other receives";
    }
  }
}

}  // namespace
}  // namespace nsys_explain::collectives
