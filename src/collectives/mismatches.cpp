#include "collectives/mismatches.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "collectives/alignment.hpp"

namespace nsys_explain::collectives {
namespace {

/// Arrivals that were brought together, or one that stayed alone.
struct Together {
  Nanoseconds first_enter_ns = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds last_enter_ns = std::numeric_limits<Nanoseconds>::min();
  Nanoseconds first_exit_ns = std::numeric_limits<Nanoseconds>::max();
  std::vector<const Arrival*> arrivals;  ///< by trace rank

  void add(const Arrival& arrival) {
    first_enter_ns = std::min(first_enter_ns, arrival.enter_ns);
    last_enter_ns = std::max(last_enter_ns, arrival.enter_ns);
    first_exit_ns = std::min(first_exit_ns, arrival.exit_ns);
    arrivals.push_back(&arrival);
  }
};

/// From the first to the last enter of a member.
struct Window {
  Nanoseconds first_ns = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds last_ns = std::numeric_limits<Nanoseconds>::min();

  /// Whoever entered the operation before this member's first one is no member of its capture, and so on at the end:
  /// nobody leaves an operation, and goes on to the next, before this member has entered it.
  bool covers(const Together& together) const {
    return together.last_enter_ns > first_ns && together.first_enter_ns < last_ns;
  }
};

std::vector<Together> all_together(std::span<const Arrival> arrivals, const MatchedBlock& block) {
  std::map<std::pair<std::int32_t, std::int32_t>, const Arrival*> alone;  // by trace rank and index
  for (const Arrival& arrival : arrivals) alone[{arrival.trace_rank, arrival.index}] = &arrival;
  std::vector<Together> result;
  for (const Instance& instance : block.instances) {
    Together& together = result.emplace_back();
    for (std::int64_t i = 0; i < instance.arrivals; ++i) {
      const InstanceArrival& member = block.arrivals[static_cast<std::size_t>(instance.first_arrival + i)];
      const auto entry = alone.find({member.trace_rank, member.index});
      together.add(*entry->second);
      alone.erase(entry);
    }
    std::sort(together.arrivals.begin(), together.arrivals.end(),
              [](const Arrival* a, const Arrival* b) { return a->trace_rank < b->trace_rank; });
  }
  for (const auto& [key, arrival] : alone) result.emplace_back().add(*arrival);
  std::stable_sort(result.begin(), result.end(), [](const Together& a, const Together& b) {
    return std::tuple(a.last_enter_ns, a.arrivals.front()->trace_rank) <
           std::tuple(b.last_enter_ns, b.arrivals.front()->trace_rank);
  });
  return result;
}

bool share_a_member(const Together& a, const Together& b) {
  return std::any_of(a.arrivals.begin(), a.arrivals.end(), [&](const Arrival* x) {
    return std::any_of(b.arrivals.begin(), b.arrivals.end(),
                       [&](const Arrival* y) { return x->trace_rank == y->trace_rank; });
  });
}

Difference difference_between(const Arrival& own, const Arrival& other) {
  if (own.operation != other.operation) return Difference::operation;
  if (may_be_one(arrival_symbol(own), arrival_symbol(other))) return Difference::unmatched;
  return own.call_bytes != other.call_bytes ? Difference::bytes : Difference::root;
}

class MemberComparer {
 public:
  MemberComparer(const PlannedCommunicator& communicator, std::span<const Arrival> arrivals, const MatchedBlock& block)
      : communicator_(communicator),
        arrivals_(arrivals),
        block_(block),
        together_(all_together(arrivals, block)),
        windows_(communicator.trace_ranks.size()) {
    for (const Arrival& arrival : arrivals) {
      Window& window = windows_[member_of(arrival.trace_rank)];
      window.first_ns = std::min(window.first_ns, arrival.enter_ns);
      window.last_ns = std::max(window.last_ns, arrival.enter_ns);
    }
  }

  MemberComparison run() {
    result_.members.resize(communicator_.trace_ranks.size());
    result_.operations = static_cast<std::int64_t>(together_.size());
    for (const Together& together : together_) {
      if (together.arrivals.size() == 1) ++result_.members[member_of(together.arrivals.front()->trace_rank)].alone;
      std::vector<std::size_t> lacking;  // though their captures cover it
      for (const std::size_t m : members_without(together)) {
        const bool covered = windows_[m].covers(together);
        ++(covered ? result_.members[m].missing : result_.members[m].outside_window);
        if (covered) lacking.push_back(m);
      }
      if (result_.first) continue;
      if (!lacking.empty()) {
        parted(together, lacking);
      } else {
        compare_within(together);
      }
    }
    return std::move(result_);
  }

 private:
  std::size_t member_of(std::int32_t trace_rank) const {
    const auto& ranks = communicator_.trace_ranks;
    return static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), trace_rank) - ranks.begin());
  }

  /// Members with a trace that should have taken part and did not.
  std::vector<std::size_t> members_without(const Together& together) const {
    std::vector<std::size_t> without;
    const Arrival& any = *together.arrivals.front();
    const bool in_pairs = communicator_.size > 2 && is_pair_exchange(any);
    if (in_pairs && (together.arrivals.size() > 1 || any.peer_or_root < 0)) return without;
    auto present = together.arrivals.begin();
    for (std::size_t m = 0; m < communicator_.trace_ranks.size(); ++m) {
      if (present != together.arrivals.end() && (*present)->trace_rank == communicator_.trace_ranks[m]) {
        ++present;
      } else if (!in_pairs || communicator_.ranks[m] == any.peer_or_root) {
        without.push_back(m);
      }
    }
    return without;
  }

  /// What this member did while the others were all in `together`.
  const Together* instead(const Together& together, std::int32_t trace_rank) const {
    for (const Together& other : together_) {
      if (other.first_enter_ns >= together.first_exit_ns || share_a_member(together, other)) continue;
      for (const Arrival* arrival : other.arrivals) {
        if (arrival->trace_rank == trace_rank && arrival->enter_ns < together.first_exit_ns &&
            arrival->exit_ns > together.last_enter_ns) {
          return &other;
        }
      }
    }
    return alike_nearby(together, trace_rank);
  }

  /// What nobody waits in need not overlap: the like that this member did alone, if both did nothing together between.
  const Together* alike_nearby(const Together& together, std::int32_t trace_rank) const {
    const Arrival& with = *together.arrivals.front();
    const auto has = [](const Together& t, std::int32_t rank) {
      return std::any_of(t.arrivals.begin(), t.arrivals.end(),
                         [&](const Arrival* arrival) { return arrival->trace_rank == rank; });
    };
    for (const Together& other : together_) {
      const Arrival& own = *other.arrivals.front();
      if (other.arrivals.size() > 1 || own.trace_rank != trace_rank) continue;
      if (!may_be_one(arrival_symbol(own), arrival_symbol(with))) continue;
      const auto [first_ns, last_ns] = std::minmax(other.last_enter_ns, together.last_enter_ns);
      const bool apart =
          std::any_of(together_.begin(), together_.end(), [&, first = first_ns, last = last_ns](const Together& t) {
            return t.last_enter_ns > first && t.last_enter_ns < last && has(t, trace_rank) && has(t, with.trace_rank);
          });
      if (!apart) return &other;
    }
    return nullptr;
  }

  std::int32_t entered_before(std::int32_t trace_rank, Nanoseconds time_ns) const {
    std::int32_t position = -1;
    std::int32_t first = std::numeric_limits<std::int32_t>::max();
    for (const Arrival& arrival : arrivals_) {
      if (arrival.trace_rank != trace_rank) continue;
      first = std::min(first, arrival.position);
      if (arrival.enter_ns < time_ns) position = std::max(position, arrival.position);
    }
    return position < 0 ? first : position + 1;
  }

  void report(std::int32_t trace_rank, const Arrival* own, std::int32_t peer_trace_rank, const Arrival* other,
              Nanoseconds at_ns, std::size_t differing) {
    Mismatch mismatch;
    mismatch.at_ns = at_ns;
    mismatch.communicator = block_.communicator;
    mismatch.trace_rank = trace_rank;
    mismatch.position = own != nullptr ? own->position : entered_before(trace_rank, at_ns);
    mismatch.peer_trace_rank = peer_trace_rank;
    mismatch.peer_position = other != nullptr ? other->position : entered_before(peer_trace_rank, at_ns);
    mismatch.differing = static_cast<std::int32_t>(differing);
    if (own != nullptr)
      std::tie(mismatch.own_operation, mismatch.own_call_bytes) = std::tie(own->operation, own->call_bytes);
    if (other != nullptr)
      std::tie(mismatch.operation, mismatch.call_bytes) = std::tie(other->operation, other->call_bytes);
    mismatch.difference = own == nullptr     ? Difference::missing
                          : other == nullptr ? Difference::extra
                                             : difference_between(*own, *other);
    result_.first = mismatch;
  }

  /// The fewer differ from the more.
  void parted(const Together& together, const std::vector<std::size_t>& lacking) {
    const std::int32_t without = communicator_.trace_ranks[lacking.front()];
    const Arrival& with = *together.arrivals.front();
    const Together* other = instead(together, without);
    const Arrival* done = nullptr;
    if (other != nullptr) {
      done = *std::find_if(other->arrivals.begin(), other->arrivals.end(),
                           [&](const Arrival* arrival) { return arrival->trace_rank == without; });
    }
    if (lacking.size() > together.arrivals.size()) {
      report(with.trace_rank, &with, without, done, together.last_enter_ns, together.arrivals.size());
    } else {
      report(without, done, with.trace_rank, &with, together.last_enter_ns, lacking.size());
    }
  }

  /// NCCL's own numbers bring operations together whatever their sizes are.
  void compare_within(const Together& together) {
    std::vector<const Arrival*> alike, different;
    for (const Arrival* arrival : together.arrivals) {
      const bool same = may_be_one(arrival_symbol(*arrival), arrival_symbol(*together.arrivals.front()));
      (same ? alike : different).push_back(arrival);
    }
    if (different.empty()) return;
    if (different.size() > alike.size()) std::swap(alike, different);
    report(different.front()->trace_rank, different.front(), alike.front()->trace_rank, alike.front(),
           together.last_enter_ns, different.size());
  }

  const PlannedCommunicator& communicator_;
  std::span<const Arrival> arrivals_;
  const MatchedBlock& block_;
  std::vector<Together> together_;  ///< by latest enter
  std::vector<Window> windows_;     ///< per member
  MemberComparison result_;
};

}  // namespace

std::string_view difference_name(Difference difference) {
  switch (difference) {
    case Difference::missing:
      return "missing";
    case Difference::extra:
      return "extra";
    case Difference::operation:
      return "operation";
    case Difference::bytes:
      return "bytes";
    case Difference::root:
      return "root";
    case Difference::unmatched:
      return "unmatched";
  }
  return "";
}

MemberComparison compare_members(const PlannedCommunicator& communicator, std::span<const Arrival> arrivals,
                                 const MatchedBlock& block) {
  // Nothing to compare where all took part in everything, which is the rule.
  const bool all_complete = std::all_of(block.instances.begin(), block.instances.end(),
                                        [](const Instance& instance) { return instance.complete; });
  if (all_complete && block.unmatched_arrivals == 0 && communicator.unnumbered_operations != 0) {
    MemberComparison comparison;
    comparison.members.resize(communicator.trace_ranks.size());
    comparison.operations = static_cast<std::int64_t>(block.instances.size());
    return comparison;
  }
  return MemberComparer(communicator, arrivals, block).run();
}

}  // namespace nsys_explain::collectives
