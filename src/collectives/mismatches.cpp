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
  JobTime first_enter{std::numeric_limits<Nanoseconds>::max()};
  JobTime last_enter{std::numeric_limits<Nanoseconds>::min()};
  JobTime first_exit{std::numeric_limits<Nanoseconds>::max()};
  std::vector<const JobArrival*> arrivals;  ///< by trace rank

  void add(const JobArrival& arrival) {
    first_enter = std::min(first_enter, arrival.enter);
    last_enter = std::max(last_enter, arrival.enter);
    first_exit = std::min(first_exit, arrival.exit);
    arrivals.push_back(&arrival);
  }
};

/// From the first to the last enter of a member.
struct Window {
  JobTime first{std::numeric_limits<Nanoseconds>::max()};
  JobTime last{std::numeric_limits<Nanoseconds>::min()};

  /// Whoever entered the operation before this member's first one is no member of its capture, and so on at the end:
  /// nobody leaves an operation, and goes on to the next, before this member has entered it.
  bool covers(const Together& together) const { return together.last_enter > first && together.first_enter < last; }
};

std::vector<Together> all_together(std::span<const JobArrival> arrivals, const MatchedBlock& block) {
  std::map<std::pair<std::int32_t, std::int32_t>, const JobArrival*> alone;  // by trace rank and index
  for (const JobArrival& arrival : arrivals) alone[{arrival.trace_rank, arrival.index}] = &arrival;
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
              [](const JobArrival* a, const JobArrival* b) { return a->trace_rank < b->trace_rank; });
  }
  for (const auto& [key, arrival] : alone) result.emplace_back().add(*arrival);
  std::stable_sort(result.begin(), result.end(), [](const Together& a, const Together& b) {
    return std::tuple(a.last_enter, a.arrivals.front()->trace_rank) <
           std::tuple(b.last_enter, b.arrivals.front()->trace_rank);
  });
  return result;
}

bool share_a_member(const Together& a, const Together& b) {
  return std::any_of(a.arrivals.begin(), a.arrivals.end(), [&](const JobArrival* x) {
    return std::any_of(b.arrivals.begin(), b.arrivals.end(),
                       [&](const JobArrival* y) { return x->trace_rank == y->trace_rank; });
  });
}

Difference difference_between(const JobArrival& own, const JobArrival& other) {
  if (own.operation != other.operation) return Difference::operation;
  if (may_be_one(arrival_symbol(own), arrival_symbol(other))) return Difference::unmatched;
  return own.call_bytes != other.call_bytes ? Difference::bytes : Difference::root;
}

class MemberComparer {
 public:
  MemberComparer(const PlannedCommunicator& communicator, std::span<const JobArrival> arrivals,
                 const MatchedBlock& block)
      : communicator_(communicator),
        arrivals_(arrivals),
        block_(block),
        together_(all_together(arrivals, block)),
        windows_(communicator.trace_ranks.size()) {
    for (const JobArrival& arrival : arrivals) {
      Window& window = windows_[member_of(arrival.trace_rank)];
      window.first = std::min(window.first, arrival.enter);
      window.last = std::max(window.last, arrival.enter);
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
    const JobArrival& any = *together.arrivals.front();
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
      if (other.first_enter >= together.first_exit || share_a_member(together, other)) continue;
      for (const JobArrival* arrival : other.arrivals) {
        if (arrival->trace_rank == trace_rank && arrival->enter < together.first_exit &&
            arrival->exit > together.last_enter) {
          return &other;
        }
      }
    }
    return alike_nearby(together, trace_rank);
  }

  /// What nobody waits in need not overlap: the like that this member did alone, if both did nothing together between.
  const Together* alike_nearby(const Together& together, std::int32_t trace_rank) const {
    const JobArrival& with = *together.arrivals.front();
    const auto has = [](const Together& t, std::int32_t rank) {
      return std::any_of(t.arrivals.begin(), t.arrivals.end(),
                         [&](const JobArrival* arrival) { return arrival->trace_rank == rank; });
    };
    for (const Together& other : together_) {
      const JobArrival& own = *other.arrivals.front();
      if (other.arrivals.size() > 1 || own.trace_rank != trace_rank) continue;
      if (!may_be_one(arrival_symbol(own), arrival_symbol(with))) continue;
      const auto [first, last] = std::minmax(other.last_enter, together.last_enter);
      const bool apart =
          std::any_of(together_.begin(), together_.end(), [&, from = first, until = last](const Together& t) {
            return t.last_enter > from && t.last_enter < until && has(t, trace_rank) && has(t, with.trace_rank);
          });
      if (!apart) return &other;
    }
    return nullptr;
  }

  std::int32_t entered_before(std::int32_t trace_rank, JobTime time) const {
    std::int32_t position = -1;
    std::int32_t first = std::numeric_limits<std::int32_t>::max();
    for (const JobArrival& arrival : arrivals_) {
      if (arrival.trace_rank != trace_rank) continue;
      first = std::min(first, arrival.position);
      if (arrival.enter < time) position = std::max(position, arrival.position);
    }
    return position < 0 ? first : position + 1;
  }

  void report(std::int32_t trace_rank, const JobArrival* own, std::int32_t peer_trace_rank, const JobArrival* other,
              JobTime at, std::size_t differing) {
    Mismatch mismatch;
    mismatch.at_ns = at.ns;
    mismatch.communicator = block_.communicator;
    mismatch.trace_rank = trace_rank;
    mismatch.position = own != nullptr ? own->position : entered_before(trace_rank, at);
    mismatch.peer_trace_rank = peer_trace_rank;
    mismatch.peer_position = other != nullptr ? other->position : entered_before(peer_trace_rank, at);
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
    const JobArrival& with = *together.arrivals.front();
    const Together* other = instead(together, without);
    const JobArrival* done = nullptr;
    if (other != nullptr) {
      done = *std::find_if(other->arrivals.begin(), other->arrivals.end(),
                           [&](const JobArrival* arrival) { return arrival->trace_rank == without; });
    }
    if (lacking.size() > together.arrivals.size()) {
      report(with.trace_rank, &with, without, done, together.last_enter, together.arrivals.size());
    } else {
      report(without, done, with.trace_rank, &with, together.last_enter, lacking.size());
    }
  }

  /// NCCL's own numbers bring operations together whatever their sizes are.
  void compare_within(const Together& together) {
    std::vector<const JobArrival*> alike, different;
    for (const JobArrival* arrival : together.arrivals) {
      const bool same = may_be_one(arrival_symbol(*arrival), arrival_symbol(*together.arrivals.front()));
      (same ? alike : different).push_back(arrival);
    }
    if (different.empty()) return;
    if (different.size() > alike.size()) std::swap(alike, different);
    report(different.front()->trace_rank, different.front(), alike.front()->trace_rank, alike.front(),
           together.last_enter, different.size());
  }

  const PlannedCommunicator& communicator_;
  std::span<const JobArrival> arrivals_;
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

MemberComparison compare_members(const PlannedCommunicator& communicator, std::span<const JobArrival> arrivals,
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
