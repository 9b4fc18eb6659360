#include "collectives/time_pairing.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

namespace nsys_explain::collectives {
namespace {

/// How closely the exits of each symbol agree: nine in ten of the pairs of nearest exits lie within.
class ExitSpread {
 public:
  ExitSpread(const MemberSequence& member, std::span<const Nanoseconds> mapped_exit_ns, const MemberSequence& reference,
             const PairingTolerance& tolerance)
      : least_ns_(std::max<Nanoseconds>(tolerance.clock_ns, 2'000)) {
    constexpr std::size_t fewest = 16;
    std::vector<std::pair<std::uint64_t, Nanoseconds>> distances;
    distances.reserve(member.symbols.size());
    clock::PartnerFinder partners(reference);
    for (std::size_t i = 0; i < member.symbols.size(); ++i) {
      const std::ptrdiff_t j = partners.nearest(member.symbols[i], mapped_exit_ns[i], tolerance.reach_ns);
      if (j < 0) continue;
      distances.emplace_back(member.symbols[i],
                             std::abs(reference.exit_ns[static_cast<std::size_t>(j)] - mapped_exit_ns[i]));
    }
    std::sort(distances.begin(), distances.end());
    for (std::size_t first = 0; first < distances.size();) {
      std::size_t end = first;
      while (end < distances.size() && distances[end].first == distances[first].first) ++end;
      if (end - first >= fewest) {
        const Nanoseconds ninth_ns = distances[first + (end - first) * 9 / 10].second;
        of_symbol_.emplace_back(distances[first].first, std::max(least_ns_, ninth_ns));
      }
      first = end;
    }
  }

  Nanoseconds of(std::uint64_t symbol) const {
    const auto found = std::lower_bound(of_symbol_.begin(), of_symbol_.end(), symbol,
                                        [](const auto& entry, std::uint64_t s) { return entry.first < s; });
    return found != of_symbol_.end() && found->first == symbol ? found->second : least_ns_;
  }

 private:
  Nanoseconds least_ns_;
  std::vector<std::pair<std::uint64_t, Nanoseconds>> of_symbol_;  ///< sorted
};

/// Two operations of one kind that were under way at the same time.
struct PossiblePair {
  std::size_t i = 0, j = 0;
  std::int64_t gain = 0;  ///< what pairing them saves against leaving both alone; 0: too little tells that they are one
  bool ends_together = false;
  bool ends_at_once = false;  ///< closer than hardly any two that are not one
  Nanoseconds common_ns = 0;  ///< that all were inside
};

constexpr std::int64_t gap_cost = 1'000'000;
/// Exits as close as this are hardly ever those of two operations.
constexpr Nanoseconds at_once_ns = 2'000;

/// Decides which pairs are possible, and finds them.
class PairFinder {
 public:
  PairFinder(const MemberSequence& member, const MemberSequence& reference,
             std::span<const Nanoseconds> earliest_exit_ns, const ClockMap& map, const PairingTolerance& tolerance)
      : member_(member),
        reference_(reference),
        earliest_exit_ns_(earliest_exit_ns),
        map_(map),
        tolerance_(tolerance),
        enter_ns_(mapped(member.enter_ns, map)),
        exit_ns_(mapped(member.exit_ns, map)),
        spread_(member, exit_ns_, reference, tolerance) {}

  /// Sorted by (i, j).
  std::vector<PossiblePair> find() const {
    constexpr std::size_t most_per_operation = 512;
    const Nanoseconds slack_ns = tolerance_.clock_ns;
    const std::size_t size = reference_.symbols.size();
    std::vector<PossiblePair> pairs;
    pairs.reserve(member_.symbols.size());
    std::size_t first = 0;
    for (std::size_t i = 0; i < member_.symbols.size(); ++i) {
      if (!map_.is_known(i)) continue;
      while (first < size && reference_.exit_ns[first] < enter_ns_[i] - slack_ns) ++first;
      const std::size_t limit = std::min(size, first + most_per_operation);
      for (std::size_t j = first; j < limit && reference_.enter_ns[j] <= exit_ns_[i] + slack_ns; ++j) {
        if (!may_be_one(reference_.symbols[j], member_.symbols[i]) || common_ns(i, j) < -slack_ns) continue;
        const bool ends_together = exit_distance(i, j) <= spread_.of(member_.symbols[i]);
        pairs.push_back({i, j, ends_together || is_long_together(i, j) ? gain(i, j) : 0, ends_together,
                         exit_distance(i, j) <= at_once_ns, common_ns(i, j)});
      }
    }
    return pairs;
  }

 private:
  static std::vector<Nanoseconds> mapped(const std::vector<Nanoseconds>& times, const ClockMap& map) {
    std::vector<Nanoseconds> result(times.size());
    std::transform(times.begin(), times.end(), result.begin(), [&](Nanoseconds t) { return map.to_reference(t); });
    return result;
  }

  Nanoseconds exit_distance(std::size_t i, std::size_t j) const {
    return std::abs(exit_ns_[i] - reference_.exit_ns[j]);
  }

  Nanoseconds common_ns(std::size_t i, std::size_t j) const {
    return std::min(exit_ns_[i], earliest_exit_ns_[j]) - std::max(enter_ns_[i], reference_.enter_ns[j]);
  }
  Nanoseconds shorter_ns(std::size_t i, std::size_t j) const {
    return std::min(exit_ns_[i] - enter_ns_[i], earliest_exit_ns_[j] - reference_.enter_ns[j]);
  }

  /// The last to arrive is inside together with all others until the first leaves; who leaves late takes several times
  /// as long as that.
  bool is_long_together(std::size_t i, std::size_t j) const {
    constexpr Nanoseconds times = 4;
    const Nanoseconds common = common_ns(i, j);
    return common > 0 && times * common >= shorter_ns(i, j);
  }

  /// Half the cost is the distance of the exits, half the part of the shorter interval not spent together.
  std::int64_t gain(std::size_t i, std::size_t j) const {
    const Nanoseconds scale_ns = std::max<Nanoseconds>(1, 4 * spread_.of(member_.symbols[i]));
    const Nanoseconds distance_ns = std::min(exit_distance(i, j), scale_ns);
    const Nanoseconds shorter = std::max<Nanoseconds>(1, shorter_ns(i, j));
    const Nanoseconds apart_ns = shorter - std::clamp<Nanoseconds>(common_ns(i, j), 0, shorter);
    return 2 * gap_cost - distance_ns * (gap_cost / 2) / scale_ns - apart_ns * (gap_cost / 2) / shorter;
  }

  const MemberSequence& member_;
  const MemberSequence& reference_;
  std::span<const Nanoseconds> earliest_exit_ns_;
  const ClockMap& map_;
  PairingTolerance tolerance_;
  std::vector<Nanoseconds> enter_ns_, exit_ns_;
  ExitSpread spread_;
};

/// The chain of pairs, last first, ascending in i and j, with the greatest gain: edit alignment with only the possible
/// pairs looked at. O(pairs x log reference) by a binary indexed tree of the best chain that ends at or before each j.
std::vector<std::size_t> best_chain(std::span<const PossiblePair> pairs, std::size_t reference_size) {
  struct Best {
    std::int64_t gain = 0;
    std::ptrdiff_t pair = -1;
  };
  std::vector<Best> tree(reference_size + 1);
  std::vector<std::int64_t> chain_gain(pairs.size());
  std::vector<std::ptrdiff_t> previous(pairs.size());
  Best overall;
  for (std::size_t first = 0; first < pairs.size();) {
    std::size_t end = first;
    for (; end < pairs.size() && pairs[end].i == pairs[first].i; ++end) {
      if (pairs[end].gain == 0) continue;
      Best before;
      for (std::size_t node = pairs[end].j; node > 0; node &= node - 1) {
        if (tree[node].gain > before.gain) before = tree[node];
      }
      chain_gain[end] = before.gain + pairs[end].gain;
      previous[end] = before.pair;
    }
    // Only now, so that no chain uses two pairs of one operation.
    for (std::size_t p = first; p < end; ++p) {
      if (pairs[p].gain == 0) continue;
      const Best best{chain_gain[p], static_cast<std::ptrdiff_t>(p)};
      if (best.gain > overall.gain) overall = best;
      for (std::size_t node = pairs[p].j + 1; node <= reference_size; node += node & (~node + 1)) {
        if (best.gain > tree[node].gain) tree[node] = best;
      }
    }
    first = end;
  }
  std::vector<std::size_t> chain;
  for (std::ptrdiff_t p = overall.pair; p >= 0; p = previous[static_cast<std::size_t>(p)])
    chain.push_back(static_cast<std::size_t>(p));
  return chain;
}

/// The shortest time, but for a few, that all members were inside operations of a symbol: what these take at least. By
/// symbol, as far as there are enough.
std::map<std::uint64_t, Nanoseconds> shortest_common(const MemberSequence& member, std::span<const PossiblePair> pairs,
                                                     std::span<const std::size_t> chain) {
  constexpr std::size_t one_in = 100;
  std::map<std::uint64_t, std::vector<Nanoseconds>> common_ns;
  for (const std::size_t p : chain) common_ns[member.symbols[pairs[p].i]].push_back(pairs[p].common_ns);
  std::map<std::uint64_t, Nanoseconds> shortest;
  for (auto& [symbol, of_symbol] : common_ns) {
    if (of_symbol.size() < one_in) continue;  // the shortest itself may be wrong
    const auto nth = of_symbol.begin() + static_cast<std::ptrdiff_t>(of_symbol.size() / one_in);
    std::nth_element(of_symbol.begin(), nth, of_symbol.end());
    shortest[symbol] = *nth;
  }
  return shortest;
}

/// Partners by a chain of pairs. Who does not leave together was inside together for as long as others are: two that
/// follow each other, whose counterparts were lost, were not. And where two do not end together, and one that is left
/// over was under way beside either, the record of its counterpart may be lost and that of the other's as well: which
/// two are one cannot be told.
std::vector<std::ptrdiff_t> sure_partners(const MemberSequence& member, std::span<const PossiblePair> pairs,
                                          std::span<const std::size_t> chain, std::size_t reference_size) {
  constexpr double least_part = 0.75;  // transfers differ by some percent
  const std::size_t member_size = member.symbols.size();
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> of_member(member_size, none), of_reference(reference_size, none);
  for (const std::size_t p : chain) of_member[pairs[p].i] = of_reference[pairs[p].j] = p;
  std::vector<bool> is_doubtful(pairs.size(), false);
  for (const PossiblePair& rival : pairs) {
    const std::size_t a = of_member[rival.i], b = of_reference[rival.j];
    if ((a == none) != (b == none)) is_doubtful[a == none ? b : a] = true;
  }
  std::vector<std::ptrdiff_t> partner(member_size, -1);
  const std::map<std::uint64_t, Nanoseconds> shortest = shortest_common(member, pairs, chain);
  const auto is_too_short = [&](const PossiblePair& pair) {
    const auto usual = shortest.find(member.symbols[pair.i]);
    return usual != shortest.end() &&
           static_cast<double>(pair.common_ns) < least_part * static_cast<double>(usual->second);
  };
  for (const std::size_t p : chain) {
    if (pairs[p].ends_at_once || (!is_too_short(pairs[p]) && (pairs[p].ends_together || !is_doubtful[p])))
      partner[pairs[p].i] = static_cast<std::ptrdiff_t>(pairs[p].j);
  }
  return partner;
}

}  // namespace

std::vector<std::ptrdiff_t> pair_by_time(const MemberSequence& member, const MemberSequence& reference,
                                         std::span<const Nanoseconds> earliest_exit_ns, const ClockMap& map,
                                         const PairingTolerance& tolerance) {
  const PairFinder finder(member, reference, earliest_exit_ns, map, tolerance);
  const std::vector<PossiblePair> pairs = finder.find();
  return sure_partners(member, pairs, best_chain(pairs, reference.symbols.size()), reference.symbols.size());
}

}  // namespace nsys_explain::collectives
