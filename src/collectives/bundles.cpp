#include "bundles.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "clock_map.hpp"
#include "exit_agreement.hpp"

namespace nsys_explain::collectives {
namespace {

bool are_equal(std::span<const MemberArrivals> members) {
  return std::all_of(members.begin(), members.end(),
                     [&](const MemberArrivals& member) { return member.symbols == members.front().symbols; });
}

std::vector<Bundle> by_position(std::span<const MemberArrivals> members) {
  std::vector<Bundle> bundles(members.front().indices.size());
  for (Bundle& bundle : bundles) bundle.reserve(members.size());
  for (const MemberArrivals& member : members) {
    for (std::size_t i = 0; i < bundles.size(); ++i) bundles[i].push_back(member.indices[i]);
  }
  return bundles;
}

/// No member leaves an operation before another has entered it, except where members need not wait for each other.
bool is_possible(std::span<const Arrival> arrivals, const Bundle& bundle, const AlignmentOptions& alignment) {
  const Operation operation = arrivals[bundle.front()].operation;
  if (!is_synchronising(operation) && operation != Operation::send_recv) return true;
  Nanoseconds last_enter_ns = arrivals[bundle.front()].enter_ns, first_exit_ns = arrivals[bundle.front()].exit_ns;
  for (const std::size_t a : bundle) {
    last_enter_ns = std::max(last_enter_ns, arrivals[a].enter_ns);
    first_exit_ns = std::min(first_exit_ns, arrivals[a].exit_ns);
  }
  return last_enter_ns <= first_exit_ns + 4 * alignment.time_scale_ns;
}

/// Without a common clock: exits of what is one operation differ by the clocks only, that is, along a line. Positions
/// that are off by one differ by what lies between operations, which varies.
bool are_consistent(std::span<const Arrival> arrivals, std::span<const MemberArrivals> members) {
  constexpr double tolerance_ns = 100'000, least_share = 0.9;
  const MemberArrivals& first = members.front();
  for (const MemberArrivals& member : members.subspan(1)) {
    std::vector<double> x, y;
    for (std::size_t i = 0; i < member.indices.size(); ++i) {
      const Arrival& a = arrivals[first.indices[i]];
      const Arrival& b = arrivals[member.indices[i]];
      if (!may_end_together(a.operation)) continue;
      x.push_back(static_cast<double>(b.exit_ns - arrivals[member.indices.front()].exit_ns));
      y.push_back(static_cast<double>(a.exit_ns - b.exit_ns));
    }
    constexpr std::size_t fewest_to_tell = 4;
    if (x.size() < fewest_to_tell) continue;
    const double base = y.front();
    for (double& difference : y) difference -= base;
    const ClockLine line = fit_line(x, y, 0, true);
    std::size_t agreeing = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      agreeing += std::abs(y[i] - line.offset_ns - line.slope * x[i]) <= tolerance_ns ? 1 : 0;
    if (static_cast<double>(agreeing) < least_share * static_cast<double>(x.size())) return false;
  }
  return true;
}

/// Members need not be in it together, so that times do not tell what belongs together.
bool is_loose(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::reduce;
}

using Numbers = std::vector<std::vector<std::int64_t>>;

/// Loose operations that lie between the same two others on their members are one.
void join_loose(std::span<const Arrival> arrivals, std::span<const MemberArrivals> members, const Numbers& numbers,
                std::vector<Bundle>& bundles) {
  using Place = std::tuple<std::int64_t, std::int64_t, Operation>;  // numbers of the operations before and after
  struct Placed {
    std::int64_t number;
    std::uint64_t symbol;
  };
  std::map<Place, std::vector<Placed>> places;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const auto operation = [&](std::size_t i) { return arrivals[members[m].indices[i]].operation; };
    for (std::size_t i = 1; i + 1 < numbers[m].size(); ++i) {
      if (is_loose(operation(i)) && !is_loose(operation(i - 1)) && !is_loose(operation(i + 1)))
        places[{numbers[m][i - 1], numbers[m][i + 1], operation(i)}].push_back({numbers[m][i], members[m].symbols[i]});
    }
  }
  for (const auto& [place, placed] : places) {
    Bundle& joined = bundles[static_cast<std::size_t>(placed.front().number)];
    std::set<std::int32_t> joined_ranks;
    for (const std::size_t a : joined) joined_ranks.insert(arrivals[a].trace_rank);
    for (const auto& [number, symbol] : std::span(placed).subspan(1)) {
      Bundle& other = bundles[static_cast<std::size_t>(number)];
      const bool shares_member = std::any_of(
          other.begin(), other.end(), [&](std::size_t a) { return joined_ranks.contains(arrivals[a].trace_rank); });
      if (!may_be_one(symbol, placed.front().symbol) || shares_member) continue;
      for (const std::size_t a : other) joined_ranks.insert(arrivals[a].trace_rank);
      joined.insert(joined.end(), other.begin(), other.end());
      other.clear();
    }
    std::sort(joined.begin(), joined.end());
  }
  std::erase_if(bundles, [](const Bundle& bundle) { return bundle.empty(); });
}

std::vector<Bundle> aligned(std::span<const Arrival> arrivals, std::span<const MemberArrivals> members,
                            const AlignmentOptions& alignment) {
  std::vector<MemberSequence> sequences;
  for (const MemberArrivals& member : members) {
    MemberSequence& sequence = sequences.emplace_back();
    sequence.symbols = member.symbols;
    for (const std::size_t a : member.indices) {
      sequence.enter_ns.push_back(arrivals[a].enter_ns);
      sequence.exit_ns.push_back(arrivals[a].exit_ns);
    }
  }
  const Numbers numbers = align_sequences(sequences, alignment);
  std::int64_t last = -1;
  for (const auto& of_member : numbers) last = of_member.empty() ? last : std::max(last, of_member.back());
  std::vector<Bundle> bundles(static_cast<std::size_t>(last + 1));
  for (std::size_t m = 0; m < members.size(); ++m) {
    for (std::size_t i = 0; i < numbers[m].size(); ++i)
      bundles[static_cast<std::size_t>(numbers[m][i])].push_back(members[m].indices[i]);
  }
  join_loose(arrivals, members, numbers, bundles);
  return bundles;
}

}  // namespace

std::vector<Bundle> match_members(std::span<const Arrival> arrivals, std::span<const MemberArrivals> members,
                                  const AlignmentOptions& alignment) {
  if (members.empty()) return {};
  if (are_equal(members)) {
    std::vector<Bundle> bundles = by_position(members);
    const bool verified = alignment.time_scale_ns == no_time
                              ? are_consistent(arrivals, members)
                              : std::all_of(bundles.begin(), bundles.end(), [&](const Bundle& bundle) {
                                  return is_possible(arrivals, bundle, alignment);
                                });
    if (verified) return bundles;
  }
  return aligned(arrivals, members, alignment);
}

}  // namespace nsys_explain::collectives
