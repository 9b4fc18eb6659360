#include "collectives/slices.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "collectives/forest.hpp"
#include "collectives/robust.hpp"

namespace nsys_explain::collectives {
namespace {

/// When members entered and left operations of one kind, against a moment of each: [operation * members + member]; NaN
/// where a member is not known to have been there.
struct Passages {
  std::size_t members = 0;
  std::vector<double> enters, exits;
};

/// One operation of two members or slices: how much later the second one (the last of it) entered, and left.
struct Difference {
  double enter_ns = 0;
  double exit_ns = 0;                            ///< of its members, on average
  double first_exit_ns = 0;                      ///< of its first member
  double first_took_ns = 0, second_took_ns = 0;  ///< of the first and the second one, from its last entry to its exit
};

Passages passages_of(const MemberOperations& operations) {
  constexpr Nanoseconds reach_ns = 100'000;
  constexpr std::size_t enough = 512;
  Passages result{operations.size(), {}, {}};
  const std::vector<TimedOperation>& first = operations.front();
  const std::size_t every = (first.size() + enough - 1) / enough;
  for (std::size_t o = 0; o < first.size(); o += every) {
    for (const std::vector<TimedOperation>& of_member : operations) {
      const Nanoseconds moment_ns = first[o].exit_ns;
      const TimedOperation* nearest = of_member.empty() ? nullptr : &nearest_exit(of_member, moment_ns);
      const bool is_there = nearest != nullptr && std::abs(nearest->exit_ns - moment_ns) <= reach_ns;
      result.enters.push_back(is_there ? static_cast<double>(nearest->enter_ns - moment_ns) : std::nan(""));
      result.exits.push_back(is_there ? static_cast<double>(nearest->exit_ns - moment_ns) : std::nan(""));
    }
  }
  return result;
}

/// Of the operations in which all members of both were.
std::vector<Difference> differences(const Passages& passages, const Members& first, const Members& second) {
  std::vector<Difference> result;
  for (std::size_t row = 0; row < passages.exits.size(); row += passages.members) {
    Difference difference;
    for (const auto& [slice, sign] : {std::pair(&first, -1.0), std::pair(&second, 1.0)}) {
      double last_enter = -std::numeric_limits<double>::infinity(), first_exit = -last_enter, sum = 0;
      for (const std::size_t member : *slice) {
        last_enter = std::max(last_enter, passages.enters[row + member]);
        first_exit = std::min(first_exit, passages.exits[row + member]);
        sum += passages.exits[row + member];
      }
      difference.enter_ns += sign * last_enter;
      difference.exit_ns += sign * sum / static_cast<double>(slice->size());
      difference.first_exit_ns += sign * first_exit;
      (sign < 0 ? difference.first_took_ns : difference.second_took_ns) = first_exit - last_enter;
    }
    if (!std::isnan(difference.exit_ns)) result.push_back(difference);
  }
  return result;
}

/// What most take who need not wait.
double usual(std::vector<double> values) {
  const auto fifth = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 5);
  std::nth_element(values.begin(), fifth, values.end());
  return *fifth;
}

std::vector<double> values_of(const std::vector<Difference>& differences, double Difference::*value) {
  std::vector<double> values;
  for (const Difference& difference : differences) values.push_back(difference.*value);
  return values;
}

constexpr std::size_t fewest_operations = 4;

constexpr double least_deviation_ns = 100;

/// What two explanations of exits leave unexplained.
struct Residuals {
  std::vector<double> if_one, if_slices;
  double deviation = 0;  ///< of the better one
};

Residuals residuals(const std::vector<Difference>& differences, double Difference::*exit) {
  Residuals result{centred(values_of(differences, exit)), {}, 0};
  for (const Difference& difference : differences) result.if_slices.push_back(difference.*exit - difference.enter_ns);
  result.if_slices = centred(std::move(result.if_slices));
  result.deviation =
      std::min(deviation_of(result.if_one, least_deviation_ns), deviation_of(result.if_slices, least_deviation_ns));
  return result;
}

/// Twice the log of how much better exits are explained by slices that wait for themselves than by one communicator.
double evidence(const std::vector<Difference>& differences) {
  if (differences.size() < fewest_operations) return 0;
  // Members of an all-gather leave when they like, but the first soon after it could.
  const Residuals of_all = residuals(differences, &Difference::exit_ns);
  const Residuals of_first = residuals(differences, &Difference::first_exit_ns);
  const Residuals& best = of_first.deviation < of_all.deviation ? of_first : of_all;
  return misfit(best.if_one, best.deviation) - misfit(best.if_slices, best.deviation);
}

/// Whether two members entered all kinds of operations as close together as they left them.
bool are_in_step(std::span<const Passages> kinds, std::size_t a, std::size_t b) {
  bool is_known = false;
  for (const Passages& passages : kinds) {
    const std::vector<Difference> both = differences(passages, {a}, {b});
    if (both.size() < fewest_operations) continue;
    is_known = true;
    const double exit_ns = scatter(values_of(both, &Difference::exit_ns));
    if (worst_spread_ratio(both.size()) * exit_ns <= scatter(values_of(both, &Difference::enter_ns))) return false;
  }
  return is_known;
}

using Pairs = std::set<std::pair<std::size_t, std::size_t>>;

/// Members that are in another communicator together and in step.
Pairs pairs_in_step(std::span<const Passages> kinds, std::span<const Members> others) {
  Pairs pairs;
  for (const Members& other : others) {
    if (other.size() == kinds.front().members) continue;
    for (std::size_t a = 0; a < other.size(); ++a) {
      for (std::size_t b = a + 1; b < other.size(); ++b) pairs.emplace(other[a], other[b]);
    }
  }
  std::erase_if(pairs, [&](const auto& pair) { return !are_in_step(kinds, pair.first, pair.second); });
  return pairs;
}

/// Communicators of one kind that together hold every member once.
std::vector<std::vector<Members>> whole_kinds(std::span<const Members> others, std::size_t members) {
  std::map<std::pair<std::size_t, std::size_t>, std::set<Members>> kinds;  // by size and distance
  for (const Members& other : others) {
    if (other.size() > 1 && other.size() < members) kinds[{other.size(), other[1] - other[0]}].insert(other);
  }
  std::vector<std::vector<Members>> result;
  for (const auto& [kind, of_kind] : kinds) {
    std::vector<Members> blocks;
    std::vector<bool> is_held(members, false);
    for (const Members& block : of_kind) {
      if (std::any_of(block.begin(), block.end(), [&](std::size_t m) { return is_held[m]; })) continue;
      for (const std::size_t member : block) is_held[member] = true;
      blocks.push_back(block);
    }
    if (std::find(is_held.begin(), is_held.end(), false) == is_held.end()) result.push_back(std::move(blocks));
  }
  return result;
}

/// Whether more pairs of members of these blocks are in step than are by chance.
bool hold_in_step(std::span<const Members> blocks, const Pairs& in_step) {
  constexpr std::size_t one_in = 3;
  const std::size_t size = blocks.front().size();
  const auto held = std::count_if(in_step.begin(), in_step.end(), [&](const auto& pair) {
    return std::any_of(blocks.begin(), blocks.end(), [&](const Members& block) {
      return std::binary_search(block.begin(), block.end(), pair.first) &&
             std::binary_search(block.begin(), block.end(), pair.second);
    });
  });
  return 2 * one_in * static_cast<std::size_t>(held) >= blocks.size() * size * (size - 1);
}

/// Members by what holds them in step, where no communicators are known that hold all; nothing where few are, which may
/// enter as close together by chance.
std::vector<Members> blocks_in_step(const Pairs& pairs, std::size_t members) {
  Forest in_step(members);
  for (const auto& [a, b] : pairs) in_step.join(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b));
  std::vector<Members> blocks(members);
  for (std::size_t m = 0; m < members; ++m)
    blocks[static_cast<std::size_t>(in_step.root(static_cast<std::int32_t>(m)))].push_back(m);
  std::erase_if(blocks, [](const Members& block) { return block.empty(); });
  const auto alone = static_cast<std::size_t>(
      std::count_if(blocks.begin(), blocks.end(), [](const Members& block) { return block.size() == 1; }));
  if (2 * alone > blocks.size()) return {};
  return blocks;
}

bool are_of_one_size(std::span<const Members> blocks) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const Members& block) { return block.size() == blocks.front().size(); });
}

/// The first member of each block, the second, and so on.
std::vector<Members> slices_across(std::span<const Members> blocks) {
  std::vector<Members> slices(blocks.front().size());
  for (const Members& block : blocks) {
    for (std::size_t s = 0; s < block.size(); ++s) slices[s].push_back(block[s]);
  }
  for (Members& slice : slices) std::sort(slice.begin(), slice.end());
  return slices;
}

double evidence_of(std::span<const Passages> kinds, std::span<const Members> slices) {
  double sum = 0;
  for (const Passages& passages : kinds) {
    for (std::size_t a = 0; a < slices.size(); ++a) {
      for (std::size_t b = a + 1; b < slices.size(); ++b) sum += evidence(differences(passages, slices[a], slices[b]));
    }
  }
  // Of all pairs of slices one less than there are slices are independent.
  return 2 * sum / static_cast<double>(slices.size());
}

}  // namespace

PartingResult part_slices(std::span<const MemberOperations> kinds, std::span<const Members> others) {
  // One communicator is what everything else told.
  constexpr double sure_of_slices = 20, sure_of_one = 8;
  constexpr std::size_t most_members = 128;
  if (kinds.empty() || kinds.front().size() > most_members) return {};
  const std::size_t members = kinds.front().size();
  std::vector<Passages> passages;
  for (const MemberOperations& operations : kinds) passages.push_back(passages_of(operations));
  const Pairs in_step = pairs_in_step(passages, others);
  if (in_step.empty()) return {};
  std::vector<std::vector<Members>> ways = whole_kinds(others, members);
  if (ways.empty()) ways.push_back(blocks_in_step(in_step, members));
  PartingResult result;
  for (const std::vector<Members>& blocks : ways) {
    if (blocks.empty()) continue;
    if (!are_of_one_size(blocks)) {
      result.parting = Parting::unknown;
    } else if (hold_in_step(blocks, in_step)) {
      std::vector<Members> slices = slices_across(blocks);
      const double found = evidence_of(passages, slices);
      if (found > sure_of_slices) return {Parting::slices, std::move(slices)};
      if (found > -sure_of_one) result.parting = Parting::unknown;
    }
  }
  return result;
}

bool wait_for_each_other(const MemberOperations& operations, const Members& first, const Members& second) {
  constexpr double clearly_ns = 15'000;  // rough clocks are good to that, too
  constexpr double together_ns = 3'000;
  constexpr std::size_t one_in = 20;
  const std::vector<Difference> both = differences(passages_of(operations), first, second);
  if (both.size() < fewest_operations) return false;
  const double usual_of_first_ns = usual(values_of(both, &Difference::first_took_ns));
  const double usual_of_second_ns = usual(values_of(both, &Difference::second_took_ns));
  std::vector<double> exits;  // of operations that the one that came first waited in
  for (const Difference& difference : both) {
    const double waited_ns = difference.enter_ns > 0 ? difference.first_took_ns - usual_of_first_ns
                                                     : difference.second_took_ns - usual_of_second_ns;
    const double apart_ns = std::abs(difference.enter_ns);
    if (apart_ns >= clearly_ns && 2 * waited_ns >= apart_ns && std::abs(difference.exit_ns) <= clearly_ns)
      exits.push_back(difference.exit_ns);
  }
  std::sort(exits.begin(), exits.end());
  std::size_t together = 0;
  for (std::size_t from = 0, end = 0; from < exits.size(); ++from) {
    while (end < exits.size() && exits[end] - exits[from] <= together_ns) ++end;
    together = std::max(together, end - from);
  }
  // Transfers of groups in step that take more or less long end together by chance, too, but at any distance.
  const double by_chance = static_cast<double>(exits.size() - together) * together_ns / (2 * clearly_ns - together_ns);
  const double fewest = static_cast<double>(fewest_operations) + by_chance + 4 * std::sqrt(by_chance);
  return static_cast<double>(together) >= fewest && together >= both.size() / one_in;
}

}  // namespace nsys_explain::collectives
