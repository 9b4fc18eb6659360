#include "suspects.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "nsys_explain/analysis/significance.hpp"

namespace nsys_explain::analysis {
namespace {

/// Sums over the trace ranks of each of the chosen places, one row of bins each; what is below 0 counts as 0.
std::vector<std::int64_t> rows_of(std::span<const std::int64_t> by_rank, std::span<const std::size_t> chosen,
                                  std::span<const Place> places, std::size_t bins) {
  std::vector<std::int64_t> rows(chosen.size() * bins, 0);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    for (const std::size_t r : places[chosen[i]].ranks)
      for (std::size_t b = 0; b < bins; ++b) rows[i * bins + b] += by_rank[r * bins + b];
  }
  for (std::int64_t& value : rows) value = std::max<std::int64_t>(0, value);
  return rows;
}

/// Bounds on the probability that these places, were they alike, have as much of something as they do.
std::vector<double> p_values_of(std::span<const std::int64_t> by_rank, std::span<const std::size_t> chosen,
                                std::span<const Place> places, const JobDelays& delays) {
  std::vector<std::int64_t> rows = rows_of(by_rank, chosen, places, delays.bins);
  // Steps are independent draws; spans of time need not be.
  const std::size_t bins = delays.by_step ? delays.bins : pool_bins(rows, chosen.size(), delays.bins);
  return p_values_of_rows(rows, chosen.size(), bins);
}

/// Likewise, that they both delay others as much and themselves take as much longer. Cost alone does not tell: who is
/// last for a reason of another kind (a process that nobody recorded, ends of collectives that differ) is charged with
/// what noise adds, and never with what it takes away.
std::vector<double> p_values_of_delay(std::span<const std::size_t> chosen, std::span<const Place> places,
                                      const JobDelays& delays) {
  std::vector<double> p_values = p_values_of(delays.cost_ns, chosen, places, delays);
  const std::vector<double> of_work = p_values_of(delays.excess_work_ns, chosen, places, delays);
  for (std::size_t i = 0; i < p_values.size(); ++i) p_values[i] = std::max(p_values[i], of_work[i]);
  return p_values;
}

/// True where two ranks are late at different times, by more than the chance with which one trouble may hit now this,
/// now that of them: they have less than half of their lateness in common, and one of them is ahead in most bins, or
/// ahead by much and the other by little.
bool late_at_other_times(std::size_t a, std::size_t b, const JobDelays& delays) {
  constexpr double chance = 0.01;
  Nanoseconds common = 0, all = 0;
  std::vector<std::int64_t> lead_of_a, lead_of_b;
  for (std::size_t bin = 0; bin < delays.bins; ++bin) {
    const Nanoseconds of_a = std::max<Nanoseconds>(0, delays.excess_work_ns[a * delays.bins + bin]);
    const Nanoseconds of_b = std::max<Nanoseconds>(0, delays.excess_work_ns[b * delays.bins + bin]);
    common += 2 * std::min(of_a, of_b);
    all += of_a + of_b;
    if (of_a > of_b) lead_of_a.push_back(of_a - of_b);
    if (of_b > of_a) lead_of_b.push_back(of_b - of_a);
  }
  const double p_value =
      std::min(sign_test(lead_of_a.size(), lead_of_a.size() + lead_of_b.size()), rank_sum_test(lead_of_a, lead_of_b));
  return 2 * common < all && p_value < chance / 2;
}

/// A place in which two culprits, each proven by itself, are late at other times than each other.
bool holds_two_culprits(const Place& place, std::span<const Place> places, std::span<const double> p_values,
                        const JobDelays& delays) {
  std::vector<std::size_t> culprits;
  for (std::size_t p = 0; p < places.size(); ++p) {
    const std::vector<std::size_t>& ranks = places[p].ranks;
    if (p_values[p] < 1 && ranks.size() == 1 &&
        std::binary_search(place.ranks.begin(), place.ranks.end(), ranks.front()))
      culprits.push_back(ranks.front());
  }
  for (std::size_t i = 0; i < culprits.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (late_at_other_times(culprits[i], culprits[j], delays)) return true;
  return false;
}

}  // namespace

std::vector<std::vector<std::size_t>> classes_of_likes(std::span<const Place> places, const JobDelays& delays) {
  std::map<std::pair<Level, std::vector<std::uint64_t>>, std::vector<std::size_t>> by_roles;
  for (std::size_t p = 0; p < places.size(); ++p) {
    std::vector<std::uint64_t> roles;
    for (const std::size_t r : places[p].ranks) roles.push_back(delays.role[r]);
    std::sort(roles.begin(), roles.end());
    by_roles[{places[p].level, std::move(roles)}].push_back(p);
  }
  std::vector<std::vector<std::size_t>> classes;
  std::vector<std::size_t> alone;
  for (auto& [roles, members] : by_roles) {
    if (members.size() > 1) {
      classes.push_back(std::move(members));
    } else if (roles.first == Level::gpu) {
      alone.push_back(members.front());
    }
  }
  if (alone.size() > 1) classes.push_back(std::move(alone));
  return classes;
}

void test_class(std::vector<std::size_t> members, std::span<const Place> places, const JobDelays& delays, double limit,
                double mention_limit, Probabilities& probabilities) {
  for (const std::size_t place : members) probabilities.limit[place] = limit;
  const auto take_best = [&](const std::vector<double>& p, double up_to, std::vector<double>& into) {
    const auto best = std::min_element(p.begin(), p.end()) - p.begin();
    if (p[static_cast<std::size_t>(best)] > up_to) return false;
    into[members[static_cast<std::size_t>(best)]] = p[static_cast<std::size_t>(best)];
    members.erase(members.begin() + best);
    return true;
  };
  while (members.size() > 1) {
    const std::vector<double> p = p_values_of_delay(members, places, delays);
    if (take_best(p, limit, probabilities.proven)) continue;
    if (delays.by_step) take_best(p, mention_limit, probabilities.likely);
    break;
  }
  while (members.size() > 1 &&
         take_best(p_values_of(delays.excess_work_ns, members, places, delays), limit, probabilities.longer)) {
  }
}

double slow_by_kernels(const Place& place, const JobDelays& delays) {
  double p_value = 0;
  for (const std::size_t r : place.ranks)
    p_value = std::max(p_value, delays.speed[r].slow ? delays.speed[r].p_value : 1);
  return p_value;
}

double overfull_by_chance(const Place& place, const JobDelays& delays) {
  const StageBalance* stage = find_overfull_stage(delays, place.ranks);
  return stage == nullptr ? 1 : stage->p_value;
}

std::vector<std::size_t> explaining_places(std::span<const Place> places, std::span<const double> p_values,
                                           const JobDelays& delays) {
  std::vector<std::size_t> significant;
  std::vector<Place> candidates;
  for (std::size_t p = 0; p < places.size(); ++p) {
    if (p_values[p] >= 1) continue;
    if (places[p].ranks.size() > 1 && holds_two_culprits(places[p], places, p_values, delays)) continue;
    significant.push_back(p);
    candidates.push_back(places[p]);
  }
  std::vector<Nanoseconds> lateness;
  for (std::size_t r = 0; r < delays.role.size(); ++r)
    lateness.push_back(std::max<Nanoseconds>(0, delays.excess_of(r)));
  const std::vector<Nanoseconds> parts = fit_places(lateness, candidates);
  std::vector<std::size_t> needed;
  for (std::size_t i = 0; i < significant.size(); ++i)
    if (parts[i] > 0) needed.push_back(significant[i]);
  return needed;
}

}  // namespace nsys_explain::analysis
