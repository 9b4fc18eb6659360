#include "collectives/member_matching.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "clock/clock_map.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain::collectives {
namespace {

/// Per member and operation: what belongs together has one number.
using Numbers = std::vector<std::vector<std::int64_t>>;

bool are_equal(std::span<const MemberArrivals> members) {
  return std::all_of(members.begin(), members.end(),
                     [&](const MemberArrivals& member) { return member.symbols == members.front().symbols; });
}

std::vector<MatchedArrivals> matches_of_numbers(std::span<const MemberArrivals> members, const Numbers& numbers) {
  std::int64_t last = -1;
  for (const auto& of_member : numbers) last = of_member.empty() ? last : std::max(last, of_member.back());
  std::vector<MatchedArrivals> matches(static_cast<std::size_t>(last + 1));
  for (std::size_t m = 0; m < members.size(); ++m) {
    for (std::size_t i = 0; i < numbers[m].size(); ++i)
      matches[static_cast<std::size_t>(numbers[m][i])].push_back(members[m].indices[i]);
  }
  return matches;
}

Numbers numbers_in_order(std::span<const MemberArrivals> members) {
  Numbers numbers;
  for (const MemberArrivals& member : members) {
    std::vector<std::int64_t>& of_member = numbers.emplace_back(member.indices.size());
    for (std::size_t i = 0; i < of_member.size(); ++i) of_member[i] = static_cast<std::int64_t>(i);
  }
  return numbers;
}

/// No member leaves an operation before another has entered it, except where members need not wait for each other.
bool is_possible(std::span<const JobArrival> arrivals, const MatchedArrivals& match,
                 const AlignmentOptions& alignment) {
  const Waiting waiting = end_model(arrivals[match.front()].operation).waiting;
  if (waiting != Waiting::all && waiting != Waiting::peers) return true;
  JobTime last_enter = arrivals[match.front()].enter, first_exit = arrivals[match.front()].exit;
  for (const std::size_t a : match) {
    last_enter = std::max(last_enter, arrivals[a].enter);
    first_exit = std::min(first_exit, arrivals[a].exit);
  }
  return last_enter <= first_exit + 4 * alignment.time_scale_ns;
}

/// Without a common clock: exits of what is one operation differ by the clocks only, that is, along a line. Positions
/// that are off by one differ by what lies between operations, which varies.
bool lie_on_lines(std::span<const JobArrival> arrivals, std::span<const MemberArrivals> members) {
  constexpr double tolerance_ns = 100'000;  // a clock wanders less over a unit; operations lie further apart
  constexpr std::size_t one_in = 10;        // members leave late now and then
  const MemberArrivals& first = members.front();
  for (const MemberArrivals& member : members.subspan(1)) {
    std::vector<double> x, y;
    for (std::size_t i = 0; i < member.indices.size(); ++i) {
      const JobArrival& a = arrivals[first.indices[i]];
      const JobArrival& b = arrivals[member.indices[i]];
      if (!end_model(a.operation).may_end_together()) continue;
      x.push_back(static_cast<double>(b.exit - arrivals[member.indices.front()].exit));
      y.push_back(static_cast<double>(a.exit - b.exit));
    }
    if (x.empty()) continue;
    const double base = y.front();
    for (double& difference : y) difference -= base;
    const clock::ClockLine line = clock::fit_line(x, y, 0, true);
    std::size_t off = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      off += std::abs(y[i] - line.offset_ns - line.slope * x[i]) > tolerance_ns ? 1 : 0;
    if (off * one_in > x.size()) return false;
  }
  return true;
}

/// Members need not be in it together, so that times do not tell what belongs together.
bool is_loose(Operation operation) {
  return !end_model(operation).may_end_together();
}

/// Loose operations that lie between the same two others on their members are one; where several follow each other,
/// each with the one of its kind, if there is only one.
void join_loose(std::span<const JobArrival> arrivals, std::span<const MemberArrivals> members, const Numbers& numbers,
                std::vector<MatchedArrivals>& matches) {
  struct Placed {
    std::int64_t number;
    std::uint64_t symbol;
  };
  // Numbers of the operations before and after, what lies between, and one of that.
  using Place = std::tuple<std::int64_t, std::int64_t, std::vector<Operation>, Operation>;
  std::map<Place, std::vector<Placed>> places;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::size_t size = numbers[m].size();
    const auto operation = [&](std::size_t i) { return arrivals[members[m].indices[i]].operation; };
    for (std::size_t first = 1, end = 1; first < size; first = end + 1) {
      std::vector<Operation> between;
      for (end = first; end < size && is_loose(operation(end)); ++end) between.push_back(operation(end));
      const std::set<Operation> kinds(between.begin(), between.end());
      if (end == size || is_loose(operation(first - 1)) || kinds.size() < between.size()) continue;
      for (std::size_t i = first; i < end; ++i)
        places[{numbers[m][first - 1], numbers[m][end], between, operation(i)}].push_back(
            {numbers[m][i], members[m].symbols[i]});
    }
  }
  for (const auto& [place, placed] : places) {
    MatchedArrivals& joined = matches[static_cast<std::size_t>(placed.front().number)];
    std::set<std::int32_t> joined_ranks;
    for (const std::size_t a : joined) joined_ranks.insert(arrivals[a].trace_rank);
    for (const auto& [number, symbol] : std::span(placed).subspan(1)) {
      MatchedArrivals& other = matches[static_cast<std::size_t>(number)];
      const bool shares_member = std::any_of(
          other.begin(), other.end(), [&](std::size_t a) { return joined_ranks.contains(arrivals[a].trace_rank); });
      if (!may_be_one(symbol, placed.front().symbol) || shares_member) continue;
      for (const std::size_t a : other) joined_ranks.insert(arrivals[a].trace_rank);
      joined.insert(joined.end(), other.begin(), other.end());
      other.clear();
    }
    std::sort(joined.begin(), joined.end());
  }
  std::erase_if(matches, [](const MatchedArrivals& match) { return match.empty(); });
}

Numbers aligned_numbers(std::span<const JobArrival> arrivals, std::span<const MemberArrivals> members,
                        const AlignmentOptions& alignment) {
  std::vector<MemberSequence> sequences;
  for (const MemberArrivals& member : members) {
    MemberSequence& sequence = sequences.emplace_back();
    sequence.symbols = member.symbols;
    for (const std::size_t a : member.indices) {
      sequence.enter_ns.push_back(arrivals[a].enter.ns);
      sequence.exit_ns.push_back(arrivals[a].exit.ns);
    }
  }
  return align_sequences(sequences, alignment);
}

/// How much successive values change from one to the next, in the middle; -1 for fewer than two. Clocks, and what
/// members differ by at the end, change little from one operation to the next; what lies between two operations does.
Nanoseconds usual_change_ns(std::span<const Nanoseconds> values_ns) {
  std::vector<Nanoseconds> changes_ns;
  for (std::size_t i = 1; i < values_ns.size(); ++i) changes_ns.push_back(std::abs(values_ns[i] - values_ns[i - 1]));
  return changes_ns.empty() ? -1 : lower_median(changes_ns);
}

/// Successive operations of a member that an alignment moves away from the order.
struct MovedRun {
  std::size_t moved = 0;
  /// Differences of exits to those of the first member: in order, and in the alignment where that knows a counterpart.
  std::vector<Nanoseconds> in_order_ns, in_alignment_ns;

  /// Whether a clock that stepped or slewed is no explanation: the run is too short for one, or most of it has a
  /// counterpart with which it ends far more evenly. A clock's error would leave exits in order even, and the alignment
  /// of it without counterparts. A sender that leaves before its receiver enters is without counterpart, too.
  bool is_better_aligned(bool one_way) const {
    constexpr std::size_t short_run = 4;
    constexpr Nanoseconds times = 4;  // intervals between operations are ten times as large as the noise of ends
    if (moved <= short_run && !one_way) return true;
    const Nanoseconds in_order = usual_change_ns(in_order_ns), in_alignment = usual_change_ns(in_alignment_ns);
    return 2 * in_alignment_ns.size() >= moved && in_alignment >= 0 && times * in_alignment < in_order;
  }
};

std::vector<MovedRun> moved_runs(std::span<const std::int64_t> numbers,
                                 const std::map<std::int64_t, std::size_t>& first,
                                 const std::function<Nanoseconds(std::size_t, std::size_t)>& difference_ns) {
  std::vector<MovedRun> runs;
  bool is_open = false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto partner = first.find(numbers[i]);
    const bool is_moved = partner == first.end() || partner->second != i;
    if (is_moved && !is_open) runs.emplace_back();
    is_open = is_moved;
    if (!is_moved) continue;
    ++runs.back().moved;
    runs.back().in_order_ns.push_back(difference_ns(i, i));
    if (partner != first.end()) runs.back().in_alignment_ns.push_back(difference_ns(i, partner->second));
  }
  return runs;
}

/// Takes exchanges apart of which no call tells who sends, if some of them cannot be one: then the order in which
/// members send and receive is not the same, and nothing tells which belong together.
void part_undirected(std::span<const JobArrival> arrivals, const AlignmentOptions& alignment,
                     std::vector<MatchedArrivals>& matches) {
  const auto is_undirected = [&](const MatchedArrivals& match) {
    return std::all_of(match.begin(), match.end(), [&](std::size_t a) {
      return is_pair_exchange(arrivals[a]) && arrivals[a].directions == Directions::unknown;
    });
  };
  const bool are_possible = std::all_of(matches.begin(), matches.end(), [&](const MatchedArrivals& match) {
    return !is_undirected(match) || is_possible(arrivals, match, alignment);
  });
  if (alignment.time_scale_ns == no_time || are_possible) return;
  std::vector<MatchedArrivals> parted;
  for (MatchedArrivals& match : matches) {
    if (!is_undirected(match)) {
      parted.push_back(std::move(match));
      continue;
    }
    for (const std::size_t a : match) parted.push_back({a});
  }
  matches = std::move(parted);
}

/// Whether most of what the alignment moves is better there. one_way: sends and their receives, all in causal order.
bool is_clearly_better(const Numbers& aligned, std::span<const JobArrival> arrivals,
                       std::span<const MemberArrivals> members, bool one_way) {
  std::map<std::int64_t, std::size_t> first;
  for (std::size_t i = 0; i < aligned.front().size(); ++i) first[aligned.front()[i]] = i;
  const auto exit = [&](std::size_t m, std::size_t i) { return arrivals[members[m].indices[i]].exit; };
  std::size_t moved = 0, better = 0;
  for (std::size_t m = 1; m < members.size(); ++m) {
    const auto difference_ns = [&](std::size_t i, std::size_t j) { return exit(m, i) - exit(0, j); };
    for (const MovedRun& run : moved_runs(aligned[m], first, difference_ns)) {
      moved += run.moved;
      better += run.is_better_aligned(one_way) ? run.moved : 0;
    }
  }
  return 2 * better > moved;
}

}  // namespace

bool is_received(std::span<const JobArrival> arrivals, const MatchedArrivals& match,
                 const AlignmentOptions& alignment) {
  if (match.size() != 2 || !is_one_way(arrivals[match.front()].directions)) return false;
  const bool sends_first = arrivals[match.front()].directions == Directions::sends;
  const JobArrival& sender = arrivals[sends_first ? match.front() : match.back()];
  const JobArrival& receiver = arrivals[sends_first ? match.back() : match.front()];
  return alignment.time_scale_ns == no_time || sender.enter <= receiver.exit + 4 * alignment.time_scale_ns;
}

std::vector<MatchedArrivals> match_members(std::span<const JobArrival> arrivals,
                                           std::span<const MemberArrivals> members, const AlignmentOptions& alignment,
                                           bool one_way) {
  if (members.empty()) return {};
  std::vector<MatchedArrivals> in_order;
  if (are_equal(members)) {
    in_order = matches_of_numbers(members, numbers_in_order(members));
    const bool is_credible = alignment.time_scale_ns == no_time
                                 ? lie_on_lines(arrivals, members)
                                 : std::all_of(in_order.begin(), in_order.end(), [&](const MatchedArrivals& match) {
                                     return is_possible(arrivals, match, alignment);
                                   });
    if (is_credible) return in_order;
  }
  const Numbers numbers = aligned_numbers(arrivals, members, alignment);
  one_way = one_way && std::all_of(in_order.begin(), in_order.end(), [&](const MatchedArrivals& match) {
              return is_received(arrivals, match, alignment);
            });
  if (!in_order.empty() && !is_clearly_better(numbers, arrivals, members, one_way)) {
    part_undirected(arrivals, alignment, in_order);
    return in_order;
  }
  std::vector<MatchedArrivals> matches = matches_of_numbers(members, numbers);
  join_loose(arrivals, members, numbers, matches);
  return matches;
}

}  // namespace nsys_explain::collectives
