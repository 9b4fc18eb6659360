#include "collectives/bundles.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "collectives/clock_map.hpp"
#include "collectives/exit_agreement.hpp"
#include "collectives/program_places.hpp"

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

/// Loose operations that lie between the same two others on their members are one; where several follow each other,
/// each with the one of its kind, if there is only one.
void join_loose(std::span<const Arrival> arrivals, std::span<const MemberArrivals> members, const Numbers& numbers,
                std::vector<Bundle>& bundles) {
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

/// What gathers of a symbol take at least, but for a few: from the entry of the last member to the exit of the first.
std::map<std::uint64_t, Nanoseconds> least_gather_times(std::span<const Arrival> arrivals,
                                                        std::span<const Bundle> bundles) {
  constexpr std::size_t one_in = 100;
  std::map<std::uint64_t, std::vector<Nanoseconds>> times_ns;
  for (const Bundle& bundle : bundles) {
    if (bundle.size() < 2 || arrivals[bundle.front()].operation != Operation::all_gather) continue;
    Nanoseconds last_enter_ns = arrivals[bundle.front()].enter_ns, first_exit_ns = arrivals[bundle.front()].exit_ns;
    for (const std::size_t a : bundle) {
      last_enter_ns = std::max(last_enter_ns, arrivals[a].enter_ns);
      first_exit_ns = std::min(first_exit_ns, arrivals[a].exit_ns);
    }
    times_ns[arrival_symbol(arrivals[bundle.front()])].push_back(first_exit_ns - last_enter_ns);
  }
  std::map<std::uint64_t, Nanoseconds> least_ns;
  for (auto& [symbol, of_symbol] : times_ns) {
    const auto nth = of_symbol.begin() + static_cast<std::ptrdiff_t>(of_symbol.size() / one_in);
    std::nth_element(of_symbol.begin(), nth, of_symbol.end());
    least_ns[symbol] = std::max<Nanoseconds>(0, *nth);
  }
  return least_ns;
}

/// What was recorded around each arrival in the communicator.
std::vector<Recorded> recorded_around_arrivals(std::size_t arrivals, std::span<const MemberArrivals> members) {
  std::vector<std::vector<std::uint64_t>> sequences;
  for (const MemberArrivals& member : members) sequences.push_back(member.symbols);
  const std::vector<std::vector<Recorded>> recorded = recorded_around(sequences);
  std::vector<Recorded> result(arrivals, Recorded::unknown);
  for (std::size_t m = 0; m < members.size(); ++m) {
    for (std::size_t i = 0; i < recorded[m].size(); ++i) result[members[m].indices[i]] = recorded[m][i];
  }
  return result;
}

/// Members leave gathers late now and then, by as much as the next one takes. Where the record of one is lost on one
/// member, and that of the next on another, what is left of the two looks like one. It ends at least as far apart as
/// the next one takes, and both lack one like it: those are parted of which one does and the other may.
void part_gathers(std::span<const Arrival> arrivals, std::span<const MemberArrivals> members,
                  std::vector<Bundle>& bundles) {
  const std::map<std::uint64_t, Nanoseconds> least_ns = least_gather_times(arrivals, bundles);
  std::vector<Recorded> recorded;
  std::vector<Bundle> parted;
  for (Bundle& bundle : bundles) {
    if (bundle.size() < 2 || arrivals[bundle.front()].operation != Operation::all_gather) continue;
    Bundle by_exit = bundle;
    const auto earlier = [&](std::size_t a, std::size_t b) { return arrivals[a].exit_ns < arrivals[b].exit_ns; };
    std::sort(by_exit.begin(), by_exit.end(), earlier);
    const Nanoseconds apart_ns = least_ns.at(arrival_symbol(arrivals[bundle.front()]));
    if (arrivals[by_exit.back()].exit_ns - arrivals[by_exit.front()].exit_ns < apart_ns) continue;
    if (recorded.empty()) recorded = recorded_around_arrivals(arrivals.size(), members);
    const std::size_t middle = by_exit[(by_exit.size() - 1) / 2];
    std::erase_if(bundle, [&](std::size_t a) {
      const bool is_far = std::abs(arrivals[a].exit_ns - arrivals[middle].exit_ns) >= apart_ns;
      const auto [least, most] = std::minmax(recorded[a], recorded[middle]);
      const bool lack_one = most == Recorded::all_but_one_like_it && least != Recorded::all;
      if (is_far && lack_one) parted.push_back({a});
      return is_far && lack_one;
    });
  }
  bundles.insert(bundles.end(), parted.begin(), parted.end());
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
  if (alignment.time_scale_ns != no_time) part_gathers(arrivals, members, bundles);
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
