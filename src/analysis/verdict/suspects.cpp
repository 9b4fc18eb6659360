#include "analysis/verdict/stragglers.hpp"

#include <numeric>

#include "analysis/statistics/significance.hpp"
#include "analysis/verdict/kernel_speed.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

bool late_by_transfers(std::span<const std::size_t> ranks, const JobDelays& delays) {
  Nanoseconds transfers = 0, excess = 0;
  for (const std::size_t r : ranks) {
    transfers += delays.slow_transfers_of(r);
    excess += delays.excess_of(r);
  }
  return transfers > 0 && 2 * transfers > excess;
}

bool has_some_of(const Place& place, const SlowPlace& slow) {
  return std::any_of(place.ranks.begin(), place.ranks.end(), [&](std::size_t r) { return slow.has(r); });
}

}  // namespace

const SlowPlace* slow_place_behind(const Place& place, const JobDelays& delays) {
  if (!late_by_transfers(place.ranks, delays)) return nullptr;
  const auto found = std::find_if(delays.slow_places.begin(), delays.slow_places.end(), [&](const SlowPlace& slow) {
    return has_some_of(place, slow) ||
           std::includes(slow.partners.begin(), slow.partners.end(), place.ranks.begin(), place.ranks.end());
  });
  return found != delays.slow_places.end() ? &*found : nullptr;
}

std::vector<std::size_t> late_with(const SlowPlace& slow, const JobDelays& delays) {
  std::vector<std::size_t> late = slow.ranks;
  for (const std::size_t r : slow.partners)
    if (!slow.has(r) && late_by_transfers(std::span(&r, 1), delays)) late.push_back(r);
  return late;
}

SlowPlaces proven_slow_places(const JobDelays& delays, double limit) {
  SlowPlaces proven;
  for (const SlowPlace& slow : delays.slow_places) {
    if (!late_by_transfers(slow.ranks, delays)) continue;
    std::vector<std::size_t> late = late_with(slow, delays);
    const double p_value = p_value_of_set(late, delays.excess_work_ns, delays.role.size(), delays.bins);
    if (p_value <= limit) proven.emplace(&slow, LateTogether{std::move(late), p_value});
  }
  return proven;
}

void take_off_slow_transfers(const SlowPlaces& slow_places, JobDelays& delays) {
  for (const auto& [slow, together] : slow_places) {
    for (const std::size_t r : together.late) {
      const bool is_slow =
          std::any_of(slow_places.begin(), slow_places.end(), [&](const auto& other) { return other.first->has(r); });
      for (std::size_t i = r * delays.bins; !is_slow && i < (r + 1) * delays.bins; ++i)
        delays.excess_work_ns[i] -= std::exchange(delays.slow_transfer_ns[i], 0);
    }
  }
}

void leave_out_slow_places(const SlowPlaces& slow_places, std::span<const Place> places,
                           std::vector<std::size_t>& likes) {
  for (const auto& entry : slow_places)
    std::erase_if(likes, [&](std::size_t p) { return has_some_of(places[p], *entry.first); });
}

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

/// Steps are independent draws; spans of time need not be, and are pooled. Returns the number of bins left.
std::size_t independent_bins(std::vector<std::int64_t>& rows, std::size_t count, const JobDelays& delays) {
  return delays.by_step ? delays.bins : pool_bins(rows, count, delays.bins);
}

/// What these rows of bins have more of something than their likes.
std::vector<RowSurplus> surplus_of(std::vector<std::int64_t> rows, std::size_t count, const JobDelays& delays) {
  const std::size_t bins = independent_bins(rows, count, delays);
  return surplus_of_rows(rows, count, bins);
}

/// Likewise, the probability of their order.
std::vector<double> order_of(std::vector<std::int64_t> rows, std::size_t count, const JobDelays& delays) {
  const std::size_t bins = independent_bins(rows, count, delays);
  return order_p_values(rows, count, bins);
}

/// Kernel time, relative, that each rank takes beyond its likes in a bin: the (lower) median of those of its role. By
/// rank, then bin; infinite where not known, or nobody has its role.
std::vector<double> slower_than_likes(const JobDelays& delays) {
  std::vector<double> slower(delays.excess_work_ns.size(), std::numeric_limits<double>::infinity());
  if (delays.slowness.empty()) return slower;
  std::map<std::uint64_t, std::vector<std::size_t>> by_role;
  for (std::size_t r = 0; r < delays.role.size(); ++r) by_role[delays.role[r]].push_back(r);
  std::vector<double> known;
  for (const auto& [role, likes] : by_role) {
    for (std::size_t b = 0; b < delays.bins; ++b) {
      known.clear();
      for (const std::size_t r : likes)
        if (const double of_rank = delays.slowness[r * delays.bins + b]; of_rank > 0) known.push_back(of_rank);
      if (known.size() < 2) continue;
      const double usual = lower_median(known);
      for (const std::size_t r : likes)
        if (const std::size_t i = r * delays.bins + b; delays.slowness[i] > 0) slower[i] = delays.slowness[i] - usual;
    }
  }
  return slower;
}

/// What places take longer, a row of bins each.
struct WorkRows {
  std::vector<std::int64_t> all;
  /// What is longer than chance lets GPUs drift apart: steps that share such a drift are no independent draws. Only
  /// what kernels did take longer may be such a drift: a late host is not. Empty where nothing is known of drifts.
  std::vector<std::int64_t> beyond;
};

WorkRows work_rows_of(std::span<const std::size_t> chosen, std::span<const Place> places, const JobDelays& delays) {
  constexpr double three_deviations = 0.00135;  // of a normal variable
  // What a rank takes longer is over the medians of places, one by one: somewhat more than over that of whole steps.
  constexpr double safely = 2;
  WorkRows rows{rows_of(delays.excess_work_ns, chosen, places, delays.bins), {}};
  if (delays.wander.empty()) return rows;
  std::vector<SpeedWander> of_gpus;
  for (const std::size_t p : chosen)
    for (const std::size_t r : places[p].ranks) of_gpus.push_back(delays.wander[r]);
  const double drift = usual_drift(typical_wander(of_gpus), three_deviations);
  const std::vector<double> slower = slower_than_likes(delays);
  std::vector<std::int64_t> beyond = delays.excess_work_ns;
  for (std::size_t i = 0; i < beyond.size(); ++i)
    beyond[i] -= static_cast<Nanoseconds>(std::clamp(safely * slower[i], 0.0, drift) *
                                          static_cast<double>(delays.kernel_ns[i / delays.bins]));
  rows.beyond = rows_of(beyond, chosen, places, delays.bins);
  return rows;
}

/// What these places take longer than their likes. Taken off one and not off another, a drift must not make that one
/// look longer than it is: beyond it and all of it have to be longer. Probabilities above `limit` may be too small.
std::vector<RowSurplus> work_surplus_of(const WorkRows& rows, std::size_t count, const JobDelays& delays,
                                        double limit) {
  if (rows.beyond.empty()) return surplus_of(rows.all, count, delays);
  std::vector<RowSurplus> surplus = surplus_of(rows.beyond, count, delays);
  if (std::none_of(surplus.begin(), surplus.end(), [&](const RowSurplus& one) { return one.p_value() <= limit; }))
    return surplus;
  const std::vector<RowSurplus> of_all = surplus_of(rows.all, count, delays);
  for (std::size_t i = 0; i < surplus.size(); ++i) {
    surplus[i].any.p_value = std::max(surplus[i].any.p_value, of_all[i].any.p_value);
    surplus[i].limited.p_value = std::max(surplus[i].limited.p_value, of_all[i].limited.p_value);
  }
  return surplus;
}

/// Likewise, the probability of their order.
std::vector<double> work_order_of(const WorkRows& rows, std::size_t count, const JobDelays& delays, double limit) {
  if (rows.beyond.empty()) return order_of(rows.all, count, delays);
  std::vector<double> p_values = order_of(rows.beyond, count, delays);
  if (std::none_of(p_values.begin(), p_values.end(), [&](double p_value) { return p_value <= limit; })) return p_values;
  const std::vector<double> of_all = order_of(rows.all, count, delays);
  for (std::size_t i = 0; i < p_values.size(); ++i) p_values[i] = std::max(p_values[i], of_all[i]);
  return p_values;
}

/// What a place takes longer than its likes.
struct LongerWork {
  double p_value = 1;  ///< that chance makes it as it is
  double part = 0;  ///< of what it takes longer: what chance does not explain, be it for being so long or for recurring
};

/// Of each one chosen: by sums, or by the order in each step, which gets a hundredth of the error rate. Anything where
/// none has a p-value of `limit` or less.
std::vector<LongerWork> longer_work_of(std::span<const std::size_t> chosen, std::span<const Place> places,
                                       const JobDelays& delays, double limit) {
  constexpr double part_of_order = 0.01;
  const WorkRows rows = work_rows_of(chosen, places, delays);
  const std::vector<RowSurplus> work = work_surplus_of(rows, chosen.size(), delays, limit);
  const std::vector<double> order = work_order_of(rows, chosen.size(), delays, limit);
  std::vector<LongerWork> longer;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const double p_value = std::min(1.0, std::min(work[i].p_value() / (1 - part_of_order), order[i] / part_of_order));
    const auto row = rows.all.begin() + static_cast<std::ptrdiff_t>(i * delays.bins);
    const double all = std::accumulate(row, row + static_cast<std::ptrdiff_t>(delays.bins), 0.0);
    const Surplus& proven = work[i].any.p_value <= limit ? work[i].any : work[i].limited;
    longer.push_back({p_value, all > 0 ? std::clamp(static_cast<double>(proven.amount) / all, 0.0, 1.0) : 0});
  }
  return longer;
}

/// The lateness of two ranks, bin by bin.
struct Lateness {
  Nanoseconds common_ns = 0, all_ns = 0;  ///< of both: what both have in a bin, and all
  std::vector<std::int64_t> lead_of_a, lead_of_b;

  Lateness(std::size_t a, std::size_t b, const JobDelays& delays) {
    for (std::size_t bin = 0; bin < delays.bins; ++bin) {
      const Nanoseconds of_a = std::max<Nanoseconds>(0, delays.excess_work_ns[a * delays.bins + bin]);
      const Nanoseconds of_b = std::max<Nanoseconds>(0, delays.excess_work_ns[b * delays.bins + bin]);
      common_ns += 2 * std::min(of_a, of_b);
      all_ns += of_a + of_b;
      if (of_a > of_b) lead_of_a.push_back(of_a - of_b);
      if (of_b > of_a) lead_of_b.push_back(of_b - of_a);
    }
  }
  bool is_shared() const { return 2 * common_ns >= all_ns; }
};

/// True where two ranks are late at different times, by more than the chance with which one trouble may hit now this,
/// now that of them: they have less than half of their lateness in common, and one of them is ahead in most bins, or
/// ahead by much and the other by little.
bool late_at_other_times(std::size_t a, std::size_t b, const JobDelays& delays) {
  constexpr double chance = 0.01;
  const Lateness lateness(a, b, delays);
  const auto& [common_ns, all_ns, of_a, of_b] = lateness;
  const double p_value = std::min(sign_test(of_a.size(), of_a.size() + of_b.size()), rank_sum_test(of_a, of_b));
  return !lateness.is_shared() && p_value < chance / 2;
}

/// True where a place may be late as one. It is not where two culprits, each proven by itself, are late at other times
/// than each other; nor where most of its others are not late together with one of those who are proven: what they
/// lack is lateness at all, but for a pause or a lost record now and then, however long.
bool may_be_one_culprit(const Place& place, std::span<const Place> places, std::span<const double> p_values,
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
      if (late_at_other_times(culprits[i], culprits[j], delays)) return false;
  std::size_t others = 0, late_together = 0;
  for (const std::size_t r : place.ranks) {
    if (std::find(culprits.begin(), culprits.end(), r) != culprits.end()) continue;
    ++others;
    late_together += std::any_of(culprits.begin(), culprits.end(),
                                 [&](std::size_t culprit) { return Lateness(culprit, r, delays).is_shared(); })
                         ? 1
                         : 0;
  }
  return culprits.empty() || 2 * late_together >= others;
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
  // Without the one that is proven the others are less like chance. Of many, all that are proven go at once: each test
  // of thousands takes a second, and one less hardly changes it.
  constexpr std::size_t many = 256;
  for (const std::size_t place : members) probabilities.limit[place] = limit;
  while (members.size() > 1) {
    const std::vector<LongerWork> longer = longer_work_of(members, places, delays, mention_limit);
    const auto best = std::min_element(longer.begin(), longer.end(),
                                       [](const LongerWork& a, const LongerWork& b) { return a.p_value < b.p_value; });
    const bool is_proven = best->p_value <= limit;
    if (!is_proven && (best->p_value > mention_limit || !delays.by_step)) return;
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const bool is_best = i == static_cast<std::size_t>(best - longer.begin());
      if (!is_best && !(is_proven && members.size() > many && longer[i].p_value <= limit)) {
        rest.push_back(members[i]);
        continue;
      }
      (is_proven ? probabilities.proven : probabilities.likely)[members[i]] = longer[i].p_value;
      probabilities.part[members[i]] = longer[i].part;
    }
    if (!is_proven) return;
    members = std::move(rest);
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
    if (places[p].ranks.size() > 1 && !may_be_one_culprit(places[p], places, p_values, delays)) continue;
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
