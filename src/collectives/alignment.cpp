#include "collectives/alignment.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "clock/clock_map.hpp"
#include "clock/offset_search.hpp"
#include "collectives/time_pairing.hpp"

namespace nsys_explain::collectives {
namespace {

using clock::ClockMap;

/// The union of the operations of members merged so far, on the clock of the first of them. Each operation has an
/// identifier that stays when others are put in before it.
class Consensus {
 public:
  /// Symbols, latest enters and mean exits of the operations, in order; enters and exits ascend.
  const MemberSequence& timeline() const { return timeline_; }
  std::span<const Nanoseconds> earliest_exit_ns() const { return earliest_exit_ns_; }
  std::span<const std::int64_t> identifiers() const { return identifiers_; }

  /// Merges a member: partner[i] = index of its i-th operation in timeline() or -1 (ascending where not -1). Operations
  /// without partner become new ones at their place, with identifiers from next_identifier on. Returns the identifier
  /// of each operation.
  std::vector<std::int64_t> merge(const MemberSequence& member, const ClockMap& map,
                                  std::span<const std::ptrdiff_t> partner, std::int64_t& next_identifier);

 private:
  void update(std::size_t index, Nanoseconds enter_ns, Nanoseconds exit_ns);
  /// Puts the operations at (place, operation), sorted, in front of the ones now at place.
  struct Insertion {
    std::size_t place = 0;
    std::uint64_t symbol = 0;
    Nanoseconds enter_ns = 0, exit_ns = 0;
    std::int64_t identifier = 0;
  };
  void insert(std::span<const Insertion> insertions);

  MemberSequence timeline_;
  std::vector<Nanoseconds> earliest_exit_ns_;
  std::vector<std::int64_t> counts_;  ///< members merged into each operation
  std::vector<std::int64_t> identifiers_;
};

std::vector<std::int64_t> Consensus::merge(const MemberSequence& member, const ClockMap& map,
                                           std::span<const std::ptrdiff_t> partner, std::int64_t& next_identifier) {
  std::vector<std::int64_t> result(partner.size());
  std::vector<Insertion> insertions;
  std::vector<std::size_t> limit(partner.size());  // place of the next operation with a partner
  for (std::size_t i = partner.size(), next = identifiers_.size(); i-- > 0;) {
    if (partner[i] >= 0) next = static_cast<std::size_t>(partner[i]);
    limit[i] = next;
  }
  std::size_t place = 0;  // first operation behind everything of this member so far
  for (std::size_t i = 0; i < partner.size(); ++i) {
    const Nanoseconds enter_ns = map.to_reference(member.enter_ns[i]);
    const Nanoseconds exit_ns = map.to_reference(member.exit_ns[i]);
    if (partner[i] >= 0) {
      const auto index = static_cast<std::size_t>(partner[i]);
      timeline_.symbols[index] = std::max(timeline_.symbols[index], member.symbols[i]);  // of one kind: what calls tell
      update(index, enter_ns, exit_ns);
      result[i] = identifiers_[index];
      place = index + 1;
      continue;
    }
    // Alone: by time, but before the next operation that has a partner.
    const auto begin = timeline_.exit_ns.begin();
    const auto found = std::upper_bound(begin + static_cast<std::ptrdiff_t>(place),
                                        begin + static_cast<std::ptrdiff_t>(limit[i]), exit_ns);
    place = static_cast<std::size_t>(found - begin);
    result[i] = next_identifier++;
    insertions.push_back({place, member.symbols[i], enter_ns, exit_ns, result[i]});
  }
  if (!insertions.empty()) insert(insertions);
  return result;
}

void Consensus::update(std::size_t index, Nanoseconds enter_ns, Nanoseconds exit_ns) {
  Nanoseconds& mean_ns = timeline_.exit_ns[index];
  mean_ns += (exit_ns - mean_ns) / ++counts_[index];
  earliest_exit_ns_[index] = std::min(earliest_exit_ns_[index], exit_ns);
  timeline_.enter_ns[index] = std::max(timeline_.enter_ns[index], enter_ns);
  // Means move by a little; order must stay.
  if (index > 0) {
    timeline_.enter_ns[index] = std::max(timeline_.enter_ns[index], timeline_.enter_ns[index - 1]);
    mean_ns = std::max(mean_ns, timeline_.exit_ns[index - 1]);
  }
  if (index + 1 < identifiers_.size()) {
    timeline_.enter_ns[index] = std::min(timeline_.enter_ns[index], timeline_.enter_ns[index + 1]);
    mean_ns = std::min(mean_ns, timeline_.exit_ns[index + 1]);
  }
}

void Consensus::insert(std::span<const Insertion> insertions) {
  const std::size_t old_size = identifiers_.size(), new_size = old_size + insertions.size();
  MemberSequence merged;
  std::vector<Nanoseconds> earliest_exit_ns;
  std::vector<std::int64_t> counts, identifiers;
  for (auto* times : {&merged.enter_ns, &merged.exit_ns, &earliest_exit_ns}) times->reserve(new_size);
  for (auto* numbers : {&counts, &identifiers}) numbers->reserve(new_size);
  merged.symbols.reserve(new_size);
  const auto append = [&](std::uint64_t symbol, Nanoseconds enter_ns, Nanoseconds exit_ns, Nanoseconds earliest_ns,
                          std::int64_t count, std::int64_t identifier) {
    if (!identifiers.empty()) {
      enter_ns = std::max(enter_ns, merged.enter_ns.back());
      exit_ns = std::max(exit_ns, merged.exit_ns.back());
    }
    merged.symbols.push_back(symbol);
    merged.enter_ns.push_back(enter_ns);
    merged.exit_ns.push_back(exit_ns);
    earliest_exit_ns.push_back(earliest_ns);
    counts.push_back(count);
    identifiers.push_back(identifier);
  };
  auto next = insertions.begin();
  for (std::size_t index = 0; index <= old_size; ++index) {
    for (; next != insertions.end() && next->place == index; ++next) {
      append(next->symbol, next->enter_ns, next->exit_ns, next->exit_ns, 1, next->identifier);
    }
    if (index == old_size) break;
    append(timeline_.symbols[index], timeline_.enter_ns[index], timeline_.exit_ns[index], earliest_exit_ns_[index],
           counts_[index], identifiers_[index]);
  }
  timeline_ = std::move(merged);
  earliest_exit_ns_ = std::move(earliest_exit_ns);
  counts_ = std::move(counts);
  identifiers_ = std::move(identifiers);
}

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
