#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "collectives/turn_claims.hpp"
#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

/// The communicators that something is claimed for; nullptr: several of one kind.
Families claimed_sets(const std::vector<TurnLane>& lanes) {
  Families sets;
  for (const TurnLane& lane : lanes) {
    for (const auto& [symbol, operations] : lane.operations) {
      for (const TurnOperation& operation : operations) {
        if (operation.claimed == nullptr) continue;
        for (const std::size_t member : *operation.claimed) {
          const auto [known, is_new] = sets[kind_of(*operation.claimed)].try_emplace(member, operation.claimed);
          if (known->second != nullptr && *known->second != *operation.claimed) known->second = nullptr;
        }
      }
    }
  }
  return sets;
}

/// An operation and its lane.
struct Voter {
  TurnOperation* operation = nullptr;
  std::size_t lane = 0;
};

/// By symbol and place, as far as that is known.
std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Voter>> voters_at_places(std::vector<TurnLane>& lanes) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Voter>> places;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    for (auto& [symbol, operations] : lanes[l].operations) {
      for (TurnOperation& operation : operations) {
        if (operation.place != 0) places[{symbol, operation.place}].push_back({&operation, l});
      }
    }
  }
  return places;
}

/// Those of about one size, each; those of unknown size first, if there are any.
std::vector<std::span<const Voter>> by_size(std::vector<Voter>& voters) {
  constexpr double alike = 1.25;
  const auto size_ns = [](const Voter& voter) { return voter.operation->usual_transfer_ns; };
  std::stable_sort(voters.begin(), voters.end(),
                   [&](const Voter& a, const Voter& b) { return size_ns(a) < size_ns(b); });
  std::vector<std::span<const Voter>> sizes;
  for (std::size_t first = 0, end = 0; first < voters.size(); first = end) {
    do ++end;
    while (end < voters.size() &&
           static_cast<double>(size_ns(voters[end])) <= alike * static_cast<double>(size_ns(voters[end - 1])));
    sizes.push_back(std::span(voters).subspan(first, end - first));
  }
  return sizes;
}

/// The kind of nearly all claims; nothing if few operations are claimed, or claims are at odds.
struct Vote {
  std::optional<Kind> kind;
  bool is_for_all = false;  ///< nearly all are claimed, so that the rest may be as well
  bool is_at_odds = false;
};

/// Whether communicators of two kinds are claimed that share members, neither being part of the other.
bool are_at_odds(std::span<const Voter> voters) {
  std::set<LaneSet> claimed;
  for (const Voter& voter : voters) {
    if (voter.operation->claimed != nullptr) claimed.insert(*voter.operation->claimed);
  }
  const auto cross = [](const LaneSet& a, const LaneSet& b) {
    return kind_of(a) != kind_of(b) && shared_members(a, b) > 0 && !is_subset(a, b) && !is_subset(b, a);
  };
  return std::any_of(claimed.begin(), claimed.end(), [&](const LaneSet& a) {
    return std::any_of(claimed.begin(), claimed.end(), [&](const LaneSet& b) { return cross(a, b); });
  });
}

/// What most voters claim, and some parts of it: of those who leave together, some always leave closest.
Vote vote_of(std::span<const Voter> voters, const Families& sets) {
  constexpr std::size_t fewest = 8, part_in = 4;
  constexpr double least_agreeing = 0.9, least_claimed = 0.8;
  std::map<Kind, std::size_t> of_kind;
  for (const Voter& voter : voters) {
    if (voter.operation->claimed != nullptr) ++of_kind[kind_of(*voter.operation->claimed)];
  }
  const auto most = std::max_element(of_kind.begin(), of_kind.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == of_kind.end()) return {};
  std::size_t claims = 0, agreeing = 0;
  for (const Voter& voter : voters) {
    const LaneSet* claimed = voter.operation->claimed;
    if (claimed == nullptr) continue;
    ++claims;
    const auto whole = sets.at(most->first).find(voter.lane);
    const bool is_known = whole != sets.at(most->first).end() && whole->second != nullptr;
    const bool is_part =
        is_known && is_subset(*claimed, *whole->second) && part_in * of_kind.at(kind_of(*claimed)) < most->second;
    if (kind_of(*claimed) == most->first || is_part) ++agreeing;
  }
  if (most->second < fewest || static_cast<double>(agreeing) < least_agreeing * static_cast<double>(claims))
    return {std::nullopt, false, of_kind.size() > 1 && are_at_odds(voters)};
  return {most->first, static_cast<double>(claims) >= least_claimed * static_cast<double>(voters.size()), false};
}

/// What is claimed takes as long then; slow exchanges are withdrawn last of all.
void follow(std::span<const Voter> voters, const Vote& vote, const Families& sets, const std::vector<TurnLane>& lanes,
            std::uint64_t symbol) {
  for (const auto& [operation, l] : voters) {
    if (operation->claimed != nullptr) {
      const bool differs = vote.kind ? kind_of(*operation->claimed) != *vote.kind : vote.is_at_odds;
      if (differs) operation->claimed = nullptr;
    }
    if (operation->claimed == nullptr && vote.kind && vote.is_for_all) {
      const auto set = sets.at(*vote.kind).find(l);
      if (set == sets.at(*vote.kind).end() || set->second == nullptr) continue;
      const bool has_habits = largest_habit(operation->operation) > 0;
      if (has_habits || takes_as_long(lanes, l, symbol, *operation, *set->second)) operation->claimed = set->second;
    }
  }
}

/// What is done at a place, in any size that tells it.
struct ToldPlace {
  Kind kind;
  Nanoseconds least_ns = 0;  ///< what the smallest takes
};

/// Nothing if no size tells a kind, or two tell different ones. `votes`: of these sizes, from small to large.
std::optional<ToldPlace> told_place(std::span<const Vote> votes, std::span<const std::span<const Voter>> sizes) {
  std::optional<ToldPlace> told;
  for (std::size_t s = 0; s < votes.size(); ++s) {
    if (!votes[s].kind) continue;
    if (told && told->kind != *votes[s].kind) return std::nullopt;
    if (!told) told = {*votes[s].kind, sizes[s].front().operation->usual_transfer_ns};
  }
  return told;
}

/// What places say of the claims there for another kind than they tell, as if these were of another size.
class OtherClaims {
 public:
  explicit OtherClaims(const Families& sets) : sets_(sets) {}

  void note(std::span<const Voter> voters, std::uint64_t symbol, const ToldPlace& told) {
    for (const Voter& voter : voters) {
      if (voter.operation->claimed == nullptr) continue;
      if (kind_of(*voter.operation->claimed) == told.kind)
        told_.insert(voter.operation);
      else
        others_.push_back({voter, symbol, told});
    }
  }

  /// Takes those back that may be what the place tells: few operations, which do not tell by themselves, have met
  /// others by chance. But not where a member is at a place that tells what is claimed: near a lost record, places may
  /// be mistaken.
  void withdraw(const std::vector<TurnLane>& lanes) const {
    std::vector<TurnOperation*> withdrawn;
    for (const OtherClaim& other : others_) {
      if (may_be_told(lanes, other) && !is_told_by_member(lanes, other)) withdrawn.push_back(other.voter.operation);
    }
    for (TurnOperation* operation : withdrawn) operation->claimed = nullptr;
  }

 private:
  struct OtherClaim {
    Voter voter;
    std::uint64_t symbol = 0;
    ToldPlace told;
  };

  /// Whether an operation took long enough for what the place tells, and those left with it who do that.
  bool may_be_told(const std::vector<TurnLane>& lanes, const OtherClaim& other) const {
    constexpr double least = 0.8;
    const TurnOperation& operation = *other.voter.operation;
    const auto duration_ns = static_cast<double>(operation.exit_ns - operation.enter_ns);
    if (duration_ns < least * static_cast<double>(other.told.least_ns)) return false;
    const SetOfLane& family = sets_.at(other.told.kind);
    const auto set = family.find(other.voter.lane);
    return set == family.end() || set->second == nullptr ||
           meeting(lanes, other.voter.lane, operation, *set->second) != Meeting::no;
  }

  bool is_told_by_member(const std::vector<TurnLane>& lanes, const OtherClaim& other) const {
    const LaneSet& set = *other.voter.operation->claimed;
    return std::any_of(set.begin(), set.end(), [&](std::size_t member) {
      const auto found = lanes[member].operations.find(other.symbol);
      if (found == lanes[member].operations.end()) return false;
      const TurnOperation& its = nearest_exit(found->second, other.voter.operation->exit_ns);
      return told_.contains(&its) && *its.claimed == set;
    });
  }

  const Families& sets_;
  std::set<const TurnOperation*> told_;  ///< claimed for what their places tell
  std::vector<OtherClaim> others_;
};

}  // namespace

void agree_by_place(std::vector<TurnLane>& lanes) {
  const Families sets = claimed_sets(lanes);
  OtherClaims others(sets);
  for (auto& [place, voters] : voters_at_places(lanes)) {
    // Members of exchanges leave by habits of their own, so that different parts of one communicator are claimed.
    const bool has_habits = largest_habit(voters.front().operation->operation) > 0;
    std::optional<Vote> common;
    const std::vector<std::span<const Voter>> sizes = by_size(voters);
    const bool is_first_unknown = sizes.size() > 1 && sizes.front().front().operation->usual_transfer_ns == 0;
    std::vector<Vote> votes(is_first_unknown ? 1 : 0);
    for (std::size_t s = votes.size(); s < sizes.size(); ++s) {
      Vote vote = vote_of(sizes[s], sets);
      if (has_habits) vote.is_at_odds = false;
      follow(sizes[s], vote, sets, lanes, place.first);
      votes.push_back(vote);
      if (common && common->kind != vote.kind) vote = {};
      common = vote;
    }
    if (is_first_unknown && common) follow(sizes.front(), *common, sets, lanes, place.first);
    if (const std::optional<ToldPlace> told = told_place(votes, sizes)) others.note(voters, place.first, *told);
  }
  others.withdraw(lanes);
}

}  // namespace nsys_explain::collectives
