#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "collectives/inference.hpp"
#include "seeds.hpp"

namespace nsys_explain::collectives {
namespace {

/// Operations of a job of two tensor and two data groups on one stream and one clock, and which communicator each is
/// of: "0 1" and "2 3" (tensor), "0 2" and "1 3" (data), "0 1 2 3" (world).
struct SharedStreams {
  std::vector<SampledOperation> operations;
  std::map<std::pair<std::int32_t, std::int32_t>, std::set<std::int32_t>> members;  ///< by trace rank and index
};

class Simulation {
 public:
  explicit Simulation(unsigned seed) : random_(seed) {}

  SharedStreams run(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (int layer = 0; layer < 6; ++layer) {
        meet({0, 1}, 90'000);
        meet({2, 3}, 90'000);
      }
      meet({0, 2}, 1'100'000);
      meet({1, 3}, 1'100'000);
      meet({0, 1, 2, 3}, 25'000);
    }
    return std::move(job_);
  }

  /// As run, but tensor groups hold the data groups in step, whose operations then end at the same time but for what
  /// their transfers vary.
  SharedStreams run_side_by_side(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (int layer = 0; layer < 3; ++layer) {
        meet({0, 1}, 90'000);
        meet({2, 3}, 90'000);
      }
      meet({0, 2}, 175'000, 300);
      meet({1, 3}, 175'000, 300);
    }
    return std::move(job_);
  }

  /// Two groups of four whose members are held in step by pairs and by all: they reduce at the same time, and take
  /// times that differ by little more than their members' ends do.
  SharedStreams run_in_step(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (int layer = 0; layer < 4; ++layer) {
        for (const std::int32_t first : {0, 2, 4, 6}) meet({first, first + 1}, 30'000);
        meet({0, 2, 4, 6}, 60'000, 800);
        meet({1, 3, 5, 7}, 60'000, 800);
      }
      meet({0, 1, 2, 3, 4, 5, 6, 7}, 12'000);
    }
    return std::move(job_);
  }

 private:
  /// All compute for a while, wait for the last one, and leave within a microsecond of each other.
  void meet(const std::set<std::int32_t>& members, double transfer_ns, double work_noise_ns = 2'000) {
    std::normal_distribution<double> normal;
    std::map<std::int32_t, Nanoseconds> enters;
    Nanoseconds last_ns = 0;
    for (const std::int32_t rank : members) {
      enters[rank] = free_ns_[rank] + 200'000 + static_cast<Nanoseconds>(work_noise_ns * normal(random_));
      last_ns = std::max(last_ns, enters[rank]);
    }
    const auto end_ns = last_ns + static_cast<Nanoseconds>(transfer_ns * (1 + 0.01 * normal(random_)));
    for (const std::int32_t rank : members) {
      const Nanoseconds exit_ns = end_ns + static_cast<Nanoseconds>(std::abs(400 * normal(random_)));
      const std::int32_t index = next_index_[rank]++;
      job_.operations.push_back({.enter_ns = enters[rank],
                                 .exit_ns = exit_ns,
                                 .symbol = std::uint64_t{1} << 32U,
                                 .trace_rank = rank,
                                 .session = 0,
                                 .lane = static_cast<std::uint64_t>(rank),
                                 .index = index,
                                 .operation = Operation::all_reduce,
                                 .stream = 0});
      job_.members[{rank, index}] = members;
      free_ns_[rank] = exit_ns;
    }
  }

  std::mt19937_64 random_;
  std::map<std::int32_t, Nanoseconds> free_ns_;
  std::map<std::int32_t, std::int32_t> next_index_;
  SharedStreams job_;
};

RoughClocks one_clock(const std::vector<SampledOperation>& operations) {
  const std::vector<SessionTie> ties{{.unit = 0, .offset_ns = 0}};
  return RoughClocks(operations, ties, operations[operations.size() / 2].exit_ns);
}

TEST(RoughClocks, SessionsOfAHostShareItsClockUnlessTheirTimesWereMoved) {
  constexpr Nanoseconds moved_ns = 3'000'000, own_offset_ns = 7'000'000;
  for (const std::int32_t moved : {-1, 0, 2}) {
    SCOPED_TRACE(moved);
    SharedStreams job = Simulation(5).run(30);
    const Nanoseconds centre_ns = job.operations[job.operations.size() / 2].exit_ns;
    std::vector<SessionTie> ties;
    for (std::int32_t session = 0; session < 4; ++session)
      ties.push_back({.unit = 7, .offset_ns = session * own_offset_ns});
    for (SampledOperation& operation : job.operations) {
      operation.session = operation.trace_rank;
      const Nanoseconds shift_ns = operation.session * own_offset_ns + (operation.session == moved ? moved_ns : 0);
      operation.enter_ns += shift_ns;
      operation.exit_ns += shift_ns;
    }
    const RoughClocks clocks(job.operations, ties, centre_ns);
    const auto true_zero = [&](std::int32_t session) {
      return clocks.to_common(session, centre_ns + session * own_offset_ns + (session == moved ? moved_ns : 0));
    };
    for (std::int32_t session = 1; session < 4; ++session) {
      EXPECT_EQ(clocks.component_of(session), clocks.component_of(0));
      EXPECT_LE(std::abs(true_zero(session) - true_zero(0)), 5'000) << session;
    }
  }
}

TEST(Turns, OperationsGoToTheCommunicatorThatLeavesWithThem) {
  constexpr std::uint64_t first_key = 100;
  for (const unsigned seed : nsys_explain::tiers::seeds(10)) {
    SCOPED_TRACE(seed);
    SharedStreams job = Simulation(seed).run(30);
    std::shuffle(job.operations.begin(), job.operations.end(), std::mt19937_64(seed));
    const auto keys = share_out_turns(job.operations, one_clock(job.operations), first_key);
    EXPECT_GE(keys.size(), job.operations.size() * 98 / 100);
    std::map<std::uint64_t, std::set<std::int32_t>> members_of_key;
    for (const OperationKey& key : keys) {
      EXPECT_GE(key.key, first_key);
      const auto& members = job.members.at({key.trace_rank, key.index});
      EXPECT_EQ(members_of_key.try_emplace(key.key, members).first->second, members);
    }
    EXPECT_EQ(members_of_key.size(), 5U);
  }
}

/// Expects nobody to be taken for a member of a communicator that it is not of.
void expect_none_mistaken(const SharedStreams& job, const std::vector<OperationKey>& keys) {
  std::map<std::uint64_t, std::set<std::int32_t>> members_of_key;
  for (const OperationKey& key : keys) {
    const auto& members = job.members.at({key.trace_rank, key.index});
    EXPECT_EQ(members_of_key.try_emplace(key.key, members).first->second, members);
  }
}

/// Expects all but one in so many to be told, and none mistaken.
void expect_told(const SharedStreams& job, std::size_t one_in) {
  const auto keys = share_out_turns(job.operations, one_clock(job.operations), 0);
  EXPECT_GE(keys.size(), job.operations.size() * (one_in - 1) / one_in);
  expect_none_mistaken(job, keys);
}

TEST(Turns, CommunicatorsHeldInStepAreNotMixedUp) {
  for (const unsigned seed : nsys_explain::tiers::seeds(10)) {
    SCOPED_TRACE(seed);
    expect_told(Simulation(seed).run_in_step(20), 5);
  }
}

TEST(Turns, LanesThatAreHeldInStepDoNotClaimEachOthersOperations) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    SharedStreams job = Simulation(seed).run_side_by_side(10);
    std::mt19937_64 random(seed);
    std::erase_if(job.operations, [&](const SampledOperation& o) { return o.trace_rank > 1 && random() % 50 == 0; });
    expect_none_mistaken(job, share_out_turns(job.operations, one_clock(job.operations), 0));
  }
}

/// A pipeline of four stages, each of which exchanges with the next one by itself and, every fourth time, the first two
/// together with the last two: their exits agree to the nanosecond, but for what members differ.
class Pipeline {
 public:
  explicit Pipeline(unsigned seed) : random_(seed) {}

  /// Who is last when the two pairs exchange together: the stages in the middle, or the first and the last one.
  SharedStreams run(int rounds, bool middle_is_last) {
    for (int round = 0; round < rounds; ++round) {
      time_ns_ += 6'000'000 + below(500'000);
      if (round % 4 == 3) {
        exchange(0, 1, time_ns_, middle_is_last);
        exchange(3, 2, time_ns_, middle_is_last);
      } else {
        exchange(0, 1, time_ns_, below(2) == 0);
        exchange(2, 3, time_ns_ + 1'000'000 + below(300'000), below(2) == 0);
      }
      exchange(1, 2, time_ns_ + 3'000'000 + below(300'000), below(2) == 0);
    }
    return std::move(job_);
  }

 private:
  Nanoseconds below(Nanoseconds end) { return static_cast<Nanoseconds>(random_() % static_cast<std::uint64_t>(end)); }

  void exchange(std::int32_t a, std::int32_t b, Nanoseconds last_enter_ns, bool b_is_last) {
    for (const std::int32_t rank : {a, b}) {
      const bool is_last = (rank == b) == b_is_last;
      const std::int32_t index = next_index_[rank]++;
      job_.operations.push_back({.enter_ns = last_enter_ns - (is_last ? 0 : 150'000 + below(300'000)),
                                 .exit_ns = last_enter_ns + 400'000 + below(1'000),
                                 .symbol = std::uint64_t{1} << 32U,
                                 .trace_rank = rank,
                                 .session = 0,
                                 .lane = static_cast<std::uint64_t>(rank),
                                 .index = index,
                                 .operation = Operation::send_recv,
                                 .stream = 0});
      job_.members[{rank, index}] = {a, b};
    }
  }

  std::mt19937_64 random_;
  Nanoseconds time_ns_ = 0;
  std::map<std::int32_t, std::int32_t> next_index_;
  SharedStreams job_;
};

TEST(Turns, OfPairsThatExchangeAtOnceHowLongTheyTookTells) {
  for (const unsigned seed : nsys_explain::tiers::seeds(10)) {
    SCOPED_TRACE(seed);
    expect_told(Pipeline(seed).run(80, false), 50);
  }
}

TEST(Turns, OfPairsThatExchangeAtOnceTheMemberThatCannotBeInAnotherTells) {
  for (const unsigned seed : nsys_explain::tiers::seeds(10)) {
    SCOPED_TRACE(seed);
    expect_told(Pipeline(seed).run(80, true), 50);
  }
}

TEST(Turns, WhatTooFewOperationsShowIsLeftAlone) {
  const SharedStreams job = Simulation(1).run(1);
  for (const OperationKey& key : share_out_turns(job.operations, one_clock(job.operations), 0))
    EXPECT_EQ(job.members.at({key.trace_rank, key.index}).size(), 2U);
}

/// Makes a lane of each communicator, numbered by each trace rank in its own way; returns whose lane is whose.
std::map<std::pair<std::int32_t, std::uint64_t>, std::set<std::int32_t>> tell_by_categories(SharedStreams& job) {
  std::map<std::int32_t, std::map<std::set<std::int32_t>, std::uint64_t>> category;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::set<std::int32_t>> members_of_lane;
  for (SampledOperation& operation : job.operations) {
    const auto& members = job.members.at({operation.trace_rank, operation.index});
    auto& of_rank = category[operation.trace_rank];
    const auto next = (of_rank.size() + static_cast<std::size_t>(operation.trace_rank)) % 3;
    operation.lane = first_category_lane + 1 + of_rank.try_emplace(members, next).first->second;
    members_of_lane[{operation.trace_rank, operation.lane}] = members;
  }
  return members_of_lane;
}

TEST(Categories, AreBroughtTogetherByWhatTheyDoNotByTheirNumbers) {
  for (const unsigned seed : nsys_explain::tiers::seeds(10)) {
    SCOPED_TRACE(seed);
    SharedStreams job = Simulation(seed).run(20);
    const auto members_of_lane = tell_by_categories(job);
    const LaneRoles roles = group_category_lanes(job.operations, one_clock(job.operations), {});
    ASSERT_EQ(roles.size(), members_of_lane.size());
    std::map<std::uint64_t, std::set<std::int32_t>> ranks_of_key;
    for (const auto& [lane, role] : roles) {
      EXPECT_TRUE(names_communicator(role.key));
      ranks_of_key[role.key].insert(lane.first);
    }
    for (const auto& [lane, role] : roles) EXPECT_EQ(ranks_of_key.at(role.key), members_of_lane.at(lane));
  }
}

TEST(Categories, ThatOthersHoldInStepAreNotBroughtTogether) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    SharedStreams job = seed % 2 == 0 ? Simulation(seed).run_side_by_side(16) : Simulation(seed).run_in_step(16);
    std::mt19937_64 random(seed);
    std::erase_if(job.operations, [&](const SampledOperation&) { return random() % 50 == 0; });
    const auto members_of_lane = tell_by_categories(job);
    std::map<std::uint64_t, std::set<std::int32_t>> members_of_key;
    for (const auto& [lane, role] : group_category_lanes(job.operations, one_clock(job.operations), {}))
      EXPECT_EQ(members_of_key.try_emplace(role.key, members_of_lane.at(lane)).first->second, members_of_lane.at(lane));
  }
}

TEST(Categories, OfNamesThatBothTraceRanksUseAreNotBroughtTogether) {
  // Two lanes that always leave together are one communicator, unless the program calls them differently and either
  // rank has the other's name, too. A name that one rank alone uses, as one that holds its number, tells nothing.
  SharedStreams job = Simulation(1).run(20);
  const auto members_of_lane = tell_by_categories(job);
  const auto joined = [&](const std::string& world_of_rank_2, const std::string& other_of_rank_2) {
    GivenNames names;
    for (const auto& [lane, members] : members_of_lane) {
      names[lane] = members.size() == 4 ? "world" : "group";
      if (lane.first == 2) names[lane] = members.size() == 4 ? world_of_rank_2 : other_of_rank_2;
    }
    const LaneRoles roles = group_category_lanes(job.operations, one_clock(job.operations), names);
    std::set<std::uint64_t> keys;
    for (const auto& [lane, role] : roles) {
      if (members_of_lane.at(lane).size() == 4) keys.insert(role.key);
    }
    return keys.size() == 1;
  };
  EXPECT_TRUE(joined("world", "group"));
  EXPECT_FALSE(joined("group", "world"));
  EXPECT_TRUE(joined("world of rank 2", "group of rank 2"));
}

TEST(Categories, OfWhichNothingCanBeToldStayAloneUnlessThereIsButOne) {
  const auto keys = [](int of_each) {
    std::vector<SampledOperation> operations;
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      for (int lane = 0; lane < of_each; ++lane) {
        operations.push_back({.enter_ns = 100 * rank,
                              .exit_ns = 1'000,
                              .symbol = std::uint64_t{1} << 32U,
                              .trace_rank = rank,
                              .session = 0,
                              .lane = first_category_lane + 1 + static_cast<std::uint64_t>(lane),
                              .index = lane,
                              .operation = Operation::all_reduce,
                              .stream = 0});
      }
    }
    std::set<std::uint64_t> result;
    for (const auto& [lane, role] : group_category_lanes(operations, one_clock(operations), {}))
      result.insert(role.key);
    return result.size();
  };
  EXPECT_EQ(keys(1), 1U);
  EXPECT_EQ(keys(2), 6U);
}

/// Names the communicators of all operations but those for which `is_orphan` holds. Names by members.
std::map<std::set<std::int32_t>, std::uint64_t> name_others(SharedStreams& job, const auto& is_orphan) {
  std::map<std::set<std::int32_t>, std::uint64_t> name;
  for (SampledOperation& operation : job.operations) {
    const auto& members = job.members.at({operation.trace_rank, operation.index});
    const std::uint64_t own = name.try_emplace(members, first_nccl_key + name.size()).first->second;
    operation.is_orphan = is_orphan(operation);
    operation.lane = operation.is_orphan ? 0 : own;
  }
  return name;
}

TEST(Orphans, TakeTheNameOfThoseThatLeaveWithThem) {
  SharedStreams job = Simulation(2).run(20);
  const auto name = name_others(job, [](const SampledOperation& o) { return o.trace_rank == 3 && o.index < 12; });
  const auto keys = name_orphans(job.operations, one_clock(job.operations));
  EXPECT_EQ(keys.size(), 12U);
  for (const OperationKey& key : keys) {
    EXPECT_EQ(key.trace_rank, 3);
    EXPECT_EQ(key.key, name.at(job.members.at({key.trace_rank, key.index})));
  }
}

TEST(Orphans, OfAllMembersAreToldApartByWhoElseCouldHaveBeenThere) {
  constexpr std::int32_t operations_of_step = 8;
  for (const unsigned seed : nsys_explain::tiers::seeds(10)) {
    SCOPED_TRACE(seed);
    SharedStreams job = Simulation(seed).run(20);
    std::mt19937_64 random(seed);
    // Captures start apart, and the calls of the first operations of each were made before.
    std::map<std::int32_t, std::int32_t> first;
    for (std::int32_t rank = 0; rank < 4; ++rank) first[rank] = static_cast<std::int32_t>(random() % 16);
    std::erase_if(job.operations,
                  [&](const SampledOperation& o) { return o.index < first[o.trace_rank] || random() % 100 == 0; });
    const auto name = name_others(
        job, [&](const SampledOperation& o) { return o.index < first[o.trace_rank] + operations_of_step + 4; });
    // An operation that only one member recorded is nobody's.
    std::map<std::tuple<std::set<std::int32_t>, Nanoseconds>, std::size_t> recorded;
    const auto moment = [&](const SampledOperation& o) {
      return std::tuple(job.members.at({o.trace_rank, o.index}), o.exit_ns / 1'000'000);
    };
    std::size_t with_others = 0;
    for (const SampledOperation& o : job.operations) ++recorded[moment(o)];
    for (const SampledOperation& o : job.operations) with_others += o.is_orphan && recorded[moment(o)] > 1 ? 1 : 0;
    const auto keys = name_orphans(job.operations, one_clock(job.operations));
    EXPECT_GE(5 * keys.size(), 3 * with_others);
    for (const OperationKey& key : keys) EXPECT_EQ(key.key, name.at(job.members.at({key.trace_rank, key.index})));
  }
}

TEST(Orphans, OfCommunicatorsThatNoCallNamesAreLeftAlone) {
  // All that is named are the tensor groups, and the operations of other groups end with none of theirs.
  SharedStreams job = Simulation(3).run(20);
  name_others(job, [&](const SampledOperation& o) {
    const std::set<std::int32_t>& members = job.members.at({o.trace_rank, o.index});
    return members != std::set<std::int32_t>{0, 1} && members != std::set<std::int32_t>{2, 3};
  });
  for (const OperationKey& key : name_orphans(job.operations, one_clock(job.operations)))
    EXPECT_EQ(job.members.at({key.trace_rank, key.index}).size(), 4U) << "two data groups by chance";
}

}  // namespace
}  // namespace nsys_explain::collectives
