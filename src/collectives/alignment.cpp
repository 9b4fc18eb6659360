#include "collectives/alignment.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "clock/offset_search.hpp"
#include "collectives/consensus.hpp"
#include "collectives/time_pairing.hpp"

namespace nsys_explain::collectives {
namespace {

void check(std::span<const MemberSequence> members) {
  for (const MemberSequence& member : members) {
    if (member.enter_ns.size() == member.symbols.size() && member.exit_ns.size() == member.symbols.size()) continue;
    throw std::invalid_argument(
        "Symbols and times of a member to align differ in number, so operations cannot be told apart: pass one enter and one exit per symbol.");
  }
}

/// The member with times that ascend: operations that overlap on one member count as ending together.
MemberSequence ordered(const MemberSequence& member) {
  MemberSequence result = member;
  for (std::vector<Nanoseconds>* times : {&result.enter_ns, &result.exit_ns}) {
    for (std::size_t i = 1; i < times->size(); ++i) (*times)[i] = std::max((*times)[i], (*times)[i - 1]);
  }
  return result;
}

/// Longest first, so that the first one is the best reference. Depends on what members hold and not on their order;
/// differences of times decide before times, so that it does not depend on clock offsets either.
bool is_better_reference(const MemberSequence& a, const MemberSequence& b) {
  if (a.symbols.size() != b.symbols.size()) return a.symbols.size() > b.symbols.size();
  if (a.symbols != b.symbols) return a.symbols < b.symbols;
  for (std::size_t i = 1; i < a.exit_ns.size(); ++i) {
    const Nanoseconds a_ns = a.exit_ns[i] - a.exit_ns[0], b_ns = b.exit_ns[i] - b.exit_ns[0];
    if (a_ns != b_ns) return a_ns > b_ns;
  }
  if (a.exit_ns != b.exit_ns) return a.exit_ns < b.exit_ns;
  return a.enter_ns < b.enter_ns;
}

/// Beside a longer group a short stretch of a loop looks like any other of its kind; only long ones form further
/// groups.
constexpr std::size_t fewest_for_further_group = 64;
/// What fits none of so many groups is left alone: trying all against all would take quadratic time.
constexpr std::size_t most_groups = 8;

/// Brings members together, group by group: a group is a consensus and the members whose clocks were found to fit it.
class Aligner {
 public:
  Aligner(std::span<const MemberSequence> members, const AlignmentOptions& options) : options_(options) {
    for (const MemberSequence& member : members) members_.push_back(ordered(member));
    identifiers_.resize(members.size());
  }

  std::vector<std::vector<std::int64_t>> align() {
    std::vector<std::size_t> waiting;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (!members_[m].symbols.empty()) waiting.push_back(m);
    }
    std::stable_sort(waiting.begin(), waiting.end(),
                     [&](std::size_t a, std::size_t b) { return is_better_reference(members_[a], members_[b]); });
    while (!waiting.empty()) {
      Consensus& group = groups_.emplace_back();
      const MemberSequence& first = members_[waiting.front()];
      const std::vector<std::ptrdiff_t> none(first.symbols.size(), -1);
      identifiers_[waiting.front()] = group.merge(first, {}, none, next_identifier_);
      waiting.erase(waiting.begin());
      if (groups_.size() > most_groups) continue;
      const std::size_t fewest = groups_.size() > 1 ? fewest_for_further_group : 0;
      const auto joins = [&](std::size_t m) {
        return std::min(first.symbols.size(), members_[m].symbols.size()) >= fewest && try_merge(group, m);
      };
      // A member that fits nothing yet may fit once others have made the consensus longer.
      while (std::erase_if(waiting, joins) > 0) {
      }
    }
    return numbered();
  }

 private:
  bool try_merge(Consensus& group, std::size_t m) {
    const MemberSequence& member = members_[m];
    ClockMap map;
    PairingTolerance tolerance;
    if (options_.time_scale_ns == no_time) {
      const std::optional<clock::ClockEstimate> estimate = clock::estimate_clock(member, group.timeline());
      if (!estimate) return false;
      map = estimate->map;
      tolerance = {.clock_ns = estimate->reach_ns / 50, .reach_ns = estimate->reach_ns};
    } else {
      const Nanoseconds scale_ns = std::max<Nanoseconds>(1, options_.time_scale_ns);
      tolerance = {.clock_ns = 4 * scale_ns, .reach_ns = 8 * scale_ns};
    }
    const auto partner = pair_by_time(member, group.timeline(), group.earliest_exit_ns(), map, tolerance);
    const bool is_alone = std::all_of(partner.begin(), partner.end(), [](std::ptrdiff_t p) { return p < 0; });
    if (is_alone && options_.time_scale_ns == no_time) return false;
    identifiers_[m] = group.merge(member, map, partner, next_identifier_);
    return true;
  }

  /// Numbers by place; operations of different groups go by time.
  std::vector<std::vector<std::int64_t>> numbered() {
    struct Placed {
      Nanoseconds exit_ns;
      std::size_t group;
      std::int64_t identifier;
    };
    std::vector<Placed> places;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Consensus& group = groups_[g];
      for (std::size_t index = 0; index < group.identifiers().size(); ++index) {
        places.push_back({group.timeline().exit_ns[index], g, group.identifiers()[index]});
      }
    }
    // Stable: within a group exits ascend, so its order stays.
    std::stable_sort(places.begin(), places.end(), [](const Placed& a, const Placed& b) {
      return a.exit_ns != b.exit_ns ? a.exit_ns < b.exit_ns : a.group < b.group;
    });
    std::vector<std::int64_t> number(places.size());
    for (std::size_t place = 0; place < places.size(); ++place) {
      number[static_cast<std::size_t>(places[place].identifier)] = static_cast<std::int64_t>(place);
    }
    for (std::vector<std::int64_t>& of_member : identifiers_) {
      for (std::int64_t& identifier : of_member) identifier = number[static_cast<std::size_t>(identifier)];
    }
    return std::move(identifiers_);
  }

  AlignmentOptions options_;
  std::vector<MemberSequence> members_;
  std::vector<Consensus> groups_;
  std::vector<std::vector<std::int64_t>> identifiers_;  ///< per member and operation
  std::int64_t next_identifier_ = 0;
};

}  // namespace

std::vector<std::vector<std::int64_t>> align_sequences(std::span<const MemberSequence> members,
                                                       const AlignmentOptions& options) {
  check(members);
  return Aligner(members, options).align();
}

}  // namespace nsys_explain::collectives
