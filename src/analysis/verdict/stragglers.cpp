#include "analysis/verdict/stragglers.hpp"

#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/statistics/significance.hpp"
#include "model/text.hpp"

namespace nsys_explain::analysis {
namespace {

/// Who of the ranks is a straggler, or of one.
std::vector<std::size_t> ranks_of(std::span<const Straggler> named, std::span<const RankSummary> ranks) {
  std::vector<std::size_t> found;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto is_of = [&](const Straggler& straggler) {
      return std::binary_search(straggler.trace_ranks.begin(), straggler.trace_ranks.end(), ranks[r].trace_rank);
    };
    if (std::any_of(named.begin(), named.end(), is_of)) found.push_back(r);
  }
  return found;
}

/// As which it is known: a node, or trace ranks.
Place known_as(const SlowPlace& slow, std::span<const Place> places) {
  const auto found =
      std::find_if(places.begin(), places.end(), [&](const Place& place) { return place.ranks == slow.ranks; });
  return found != places.end() ? *found : Place{Level::gpu, "", slow.ranks, {}};
}

/// A slow place with what its transfers cost: its own delays, and of those of all that are late by them, but for
/// culprits themselves, the part that transfers have in their lateness.
Straggler describe_slow_place(const Place& place, const LateTogether& together, std::span<const Straggler> culprits,
                              std::span<const RankSummary> ranks, const Totals& totals, const JobDelays& delays) {
  const std::vector<std::size_t>& late = together.late;
  Straggler culprit = describe(place, together.p_value, ranks, totals);
  const std::vector<std::size_t> named = ranks_of(culprits, ranks);
  std::vector<std::int32_t> others;
  for (const std::size_t r : std::span(late).subspan(place.ranks.size())) {
    if (std::binary_search(named.begin(), named.end(), r)) continue;
    others.push_back(ranks[r].trace_rank);
    const Nanoseconds transfers_ns = delays.slow_transfers_of(r), excess_ns = delays.excess_of(r);
    // Who is early but for the transfers is late by nothing else.
    const double part =
        transfers_ns < excess_ns ? static_cast<double>(transfers_ns) / static_cast<double>(excess_ns) : 1.0;
    culprit.delay_cost_ns += static_cast<Nanoseconds>(part * static_cast<double>(ranks[r].caused_wait_ns));
  }
  culprit.cost_share = share_of_windows(culprit.delay_cost_ns, ranks);
  if (!others.empty())
    culprit.evidence.push_back(
        fmt::format("ranks {} exchange with it and are late by the same transfers; their cost is part of its cost",
                    fmt::join(others, ", ")));
  return culprit;
}

/// What is late beyond chance, with what mending it saves.
struct Culprit {
  Straggler late;
  std::vector<std::size_t> ranks;
  double part = 1;                ///< Probabilities::part
  double limit = 1;               ///< Probabilities::limit
  std::optional<double> alone{};  ///< share of the elapsed time saved if it alone were as usual; empty: cannot be told
  double besides = 0;             ///< likewise, once all other culprits are as usual
};

/// The culprits of these places: each place itself, but a slow place for all that are late by its slow transfers.
/// `delays`: without those that are proven, which `all_delays` has.
std::vector<Culprit> describe_culprits(std::span<const Place> places, std::span<const double> p_values,
                                       const Probabilities& probabilities, SlowPlaces slow_places,
                                       std::span<const RankSummary> ranks, const Totals& totals,
                                       const JobDelays& delays, const JobDelays& all_delays) {
  std::vector<Culprit> culprits;
  std::vector<Straggler> of_places;
  for (const std::size_t p : explaining_places(places, p_values, delays)) {
    const Place& place = places[p];
    if (const SlowPlace* slow = slow_place_behind(place, delays)) {
      const auto entry = slow_places.try_emplace(slow, LateTogether{late_with(*slow, delays), 1}).first;
      entry->second.p_value = std::min(entry->second.p_value, p_values[p]);
      continue;
    }
    Culprit& culprit = culprits.emplace_back();
    culprit.late = describe(place, p_values[p], ranks, totals);
    add_proof(place, delays, culprit.late);
    culprit.ranks = place.ranks;
    culprit.part = probabilities.part[p];
    culprit.limit = probabilities.limit[p];
    of_places.push_back(culprit.late);
  }
  for (const auto& [slow, together] : slow_places) {
    Culprit& culprit = culprits.emplace_back();
    const Place place = known_as(*slow, places);
    culprit.late = describe_slow_place(place, together, of_places, ranks, totals, all_delays);
    add_proof(place, delays, culprit.late);
    culprit.ranks = slow->ranks;
  }
  return culprits;
}

/// Their trace ranks, by index, ascending; of all but one of them where one is `left_out`.
std::vector<std::size_t> all_ranks(std::span<const Culprit> culprits, const Culprit* left_out = nullptr) {
  std::set<std::size_t> all;
  for (const Culprit& culprit : culprits)
    if (&culprit != left_out) all.insert(culprit.ranks.begin(), culprit.ranks.end());
  if (left_out != nullptr)
    for (const std::size_t r : left_out->ranks) all.erase(r);
  return {all.begin(), all.end()};
}

/// Takes away many at once of whom none saves anything: to mend more hardly ever saves less, so none of them does where
/// all of them together do not by far, neither alone nor besides those who are left. In a large job hundreds may be
/// slower beyond chance, and each costs two replays.
class ManyCulprits {
 public:
  ManyCulprits(std::vector<Culprit>& culprits, const SavedShare& saved, double smallest)
      : culprits_(culprits), saved_(saved), smallest_(smallest), all_(all_ranks(culprits)), of_all_(saved_of(all_)) {}

  void leave_those_in_doubt() {
    look(0, culprits_.size());
    culprits_ = std::move(in_doubt_);
  }

 private:
  double saved_of(const std::vector<std::size_t>& ranks) const { return ranks.empty() ? 0 : saved_(ranks).value_or(0); }

  /// Culprits [first, end).
  void look(std::size_t first, std::size_t end) {
    const std::vector<std::size_t> these = all_ranks(std::span(culprits_).subspan(first, end - first));
    std::vector<std::size_t> others;
    std::set_difference(all_.begin(), all_.end(), these.begin(), these.end(), std::back_inserter(others));
    const double limit = end - first == 1 ? smallest_ : by_far * smallest_;
    if (saved_of(these) < limit) {
      if (const double of_others = saved_of(others); of_all_ - of_others < limit) {
        all_ = others;
        of_all_ = of_others;
        return;
      }
    }
    if (end - first == 1) {
      in_doubt_.push_back(std::move(culprits_[first]));
      return;
    }
    const std::size_t middle = first + (end - first) / 2;
    look(first, middle);
    look(middle, end);
  }

  /// A mended trace rank may hold others up by a little, so a group must save a good deal less than one may.
  static constexpr double by_far = 0.25;

  std::vector<Culprit>& culprits_;
  const SavedShare& saved_;
  const double smallest_;
  std::vector<std::size_t> all_;  ///< trace ranks of those who are left
  double of_all_;
  std::vector<Culprit> in_doubt_;
};

/// Each of so few costs two replays, of a quarter of a second at most: no more than to look at them together first.
constexpr std::size_t few_culprits = 16;

/// Leaves those whose mending saves time, alone or once the others are mended. Who saves least alone is asked first, so
/// that of two that make up for each other the greater is left. `saved` tells of everybody, or of nobody.
void leave_who_saves(std::vector<Culprit>& culprits, const SavedShare& saved, double smallest) {
  const auto saved_of = [&](const std::vector<std::size_t>& ranks) {
    return ranks.empty() ? 0 : saved(ranks).value_or(0);
  };
  if (culprits.size() > few_culprits) ManyCulprits(culprits, saved, smallest).leave_those_in_doubt();
  for (Culprit& culprit : culprits) culprit.alone = saved(culprit.ranks);
  std::stable_sort(culprits.begin(), culprits.end(),
                   [](const Culprit& a, const Culprit& b) { return a.alone < b.alone; });
  double of_all = saved_of(all_ranks(culprits));
  for (std::size_t i = 0; i < culprits.size();) {
    Culprit& culprit = culprits[i];
    culprit.besides = of_all - saved_of(all_ranks(culprits, &culprit));
    if (culprit.part * std::max(culprit.alone.value_or(0), culprit.besides) >= smallest) {
      ++i;
      continue;
    }
    of_all -= culprit.besides;
    culprits.erase(culprits.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// Sets what mending it saves: alone, or where that is nothing yet, once those in `all` are mended.
void tell_cost(Culprit& culprit, const std::set<std::int32_t>& all, double smallest) {
  Straggler& late = culprit.late;
  late.cost_share = culprit.part * culprit.alone.value_or(late.cost_share);
  if (late.cost_share >= smallest || culprit.part * culprit.besides < smallest) return;
  late.cost_share = culprit.part * culprit.besides;
  late.first_ns = late.last_ns = no_time;  // nobody waits for it yet
  std::set_difference(all.begin(), all.end(), late.trace_ranks.begin(), late.trace_ranks.end(),
                      std::back_inserter(late.behind));
}

std::set<std::int32_t> trace_ranks_of(std::span<const Straggler> stragglers) {
  std::set<std::int32_t> all;
  for (const Straggler& one : stragglers) all.insert(one.trace_ranks.begin(), one.trace_ranks.end());
  return all;
}

/// The stragglers of a job that was replayed.
std::vector<Straggler> stragglers_by_replay(std::vector<Culprit> culprits, const SavedShare& saved, double smallest) {
  leave_who_saves(culprits, saved, smallest);
  std::vector<Straggler> stragglers;
  for (const Culprit& culprit : culprits) stragglers.push_back(culprit.late);
  const std::set<std::int32_t> all = trace_ranks_of(stragglers);
  for (std::size_t i = 0; i < culprits.size(); ++i) {
    tell_cost(culprits[i], all, smallest);
    stragglers[i] = std::move(culprits[i].late);
  }
  return stragglers;
}

/// The elapsed time that a place could save at most, as a share: what its latest trace rank takes longer.
double longer_share(std::span<const std::size_t> place, std::span<const RankSummary> ranks, const JobDelays& delays) {
  Nanoseconds longest_ns = 0, window_ns = 0;
  for (const std::size_t r : place) longest_ns = std::max(longest_ns, delays.excess_of(r));
  for (const RankSummary& rank : ranks) window_ns = std::max(window_ns, rank.budget.window_ns);
  return window_ns > 0 ? static_cast<double>(longest_ns) / static_cast<double>(window_ns) : 0;
}

/// Where no replay tells: stragglers are those for whom others are seen to wait, and the rest are suspects.
Named judge_by_waits(std::vector<Culprit> culprits, std::span<const RankSummary> ranks, const JobDelays& delays,
                     const StragglerCriteria& criteria) {
  Named named;
  double windows_ns = 0;
  for (const RankSummary& rank : ranks) windows_ns += static_cast<double>(rank.budget.window_ns);
  for (Culprit& culprit : culprits) {
    culprit.late.cost_share *= culprit.part;
    if (culprit.late.cost_share >= criteria.smallest_cost_share) {
      named.stragglers.push_back(std::move(culprit.late));
      continue;
    }
    SuspectedStraggler unseen;
    unseen.late = std::move(culprit.late);
    unseen.late.first_ns = unseen.late.last_ns = no_time;
    unseen.doubt = Doubt::unseen;
    unseen.verdict_p_value = culprit.limit;
    unseen.steps = static_cast<std::int64_t>(delays.steps);
    unseen.unseen_cost_share = culprit.part * longer_share(culprit.ranks, ranks, delays);
    unseen.estimated_cost_ns = static_cast<Nanoseconds>(unseen.unseen_cost_share * windows_ns);
    if (unseen.unseen_cost_share >= criteria.suspect_cost_share) named.suspects.push_back(std::move(unseen));
  }
  std::stable_sort(named.suspects.begin(), named.suspects.end(),
                   [](const SuspectedStraggler& a, const SuspectedStraggler& b) {
                     return a.estimated_cost_ns > b.estimated_cost_ns;
                   });
  return named;
}

/// True where they have a trace rank in common.
bool overlap(const Straggler& a, const Straggler& b) {
  return std::find_first_of(a.trace_ranks.begin(), a.trace_ranks.end(), b.trace_ranks.begin(), b.trace_ranks.end()) !=
         a.trace_ranks.end();
}

/// Of those who are late beyond chance the ones that are named nowhere, though they take longer by as much as a
/// straggler costs at least: the longest first, no trace rank twice.
std::vector<LateWithoutCost> find_late_without_cost(std::span<const Culprit> beyond_chance, const Named& named,
                                                    std::span<const RankSummary> ranks, const JobDelays& delays,
                                                    double smallest) {
  std::vector<LateWithoutCost> late;
  for (const Culprit& culprit : beyond_chance) {
    const double longer = culprit.part * longer_share(culprit.ranks, ranks, delays);
    if (longer >= smallest) late.push_back({culprit.late.trace_ranks, longer, culprit.late.p_value});
  }
  std::stable_sort(late.begin(), late.end(), [](const LateWithoutCost& a, const LateWithoutCost& b) {
    return std::pair(-a.longer_share, a.trace_ranks.size()) < std::pair(-b.longer_share, b.trace_ranks.size());
  });
  std::set<std::int32_t> told = trace_ranks_of(named.stragglers);
  for (const SuspectedStraggler& suspect : named.suspects)
    told.insert(suspect.late.trace_ranks.begin(), suspect.late.trace_ranks.end());
  std::erase_if(late, [&](const LateWithoutCost& one) {
    const bool is_told = std::any_of(one.trace_ranks.begin(), one.trace_ranks.end(),
                                     [&](std::int32_t rank) { return told.contains(rank); });
    told.insert(one.trace_ranks.begin(), one.trace_ranks.end());
    return is_told;
  });
  constexpr std::size_t most = 8;  // lines of evidence
  if (late.size() > most) late.resize(most);
  return late;
}

/// Where steps are few, chance spares hundreds of places in a large job, and each costs a replay of the job.
constexpr std::size_t most_unproven = 32;

/// Places that steps enough to tell would probably prove: costly, and none of their trace ranks named yet. Where the
/// job is replayed, those are looked at that others waited for most, or that take longest.
std::vector<SuspectedStraggler> find_unproven(std::vector<Culprit> likely, const Named& named,
                                              std::span<const RankSummary> ranks, const JobDelays& delays,
                                              const SavedShare& saved, const StragglerCriteria& criteria) {
  const std::set<std::int32_t> all = trace_ranks_of(named.stragglers);
  const std::vector<std::size_t> mended = ranks_of(named.stragglers, ranks);
  std::vector<SuspectedStraggler> unproven;
  const auto most_cost = [&](const Culprit& culprit) {
    return culprit.part * std::max(culprit.late.cost_share, longer_share(culprit.ranks, ranks, delays));
  };
  std::stable_sort(likely.begin(), likely.end(),
                   [&](const Culprit& a, const Culprit& b) { return most_cost(a) > most_cost(b); });
  std::size_t replayed = 0;
  for (Culprit& culprit : likely) {
    const auto is_named = [&](const Straggler& other) { return overlap(other, culprit.late); };
    const auto is_told = [&](const SuspectedStraggler& other) { return is_named(other.late); };
    if (std::any_of(named.stragglers.begin(), named.stragglers.end(), is_named) ||
        std::any_of(named.suspects.begin(), named.suspects.end(), is_told))
      continue;
    if (replayed == most_unproven) break;
    culprit.alone = saved(culprit.ranks);
    replayed += culprit.alone ? 1 : 0;
    if (culprit.alone && !mended.empty()) {
      std::vector<std::size_t> with_it = mended;
      with_it.insert(with_it.end(), culprit.ranks.begin(), culprit.ranks.end());
      std::sort(with_it.begin(), with_it.end());
      culprit.besides = saved(with_it).value_or(0) - saved(mended).value_or(0);
    }
    tell_cost(culprit, all, criteria.suspect_cost_share);
    if (culprit.late.cost_share < criteria.suspect_cost_share) continue;
    SuspectedStraggler one;
    one.late = std::move(culprit.late);
    one.verdict_p_value = culprit.limit;
    // The logarithm of the bound is a sum over independent bins, each of equally many steps.
    one.steps = static_cast<std::int64_t>(delays.steps);
    one.steps_needed = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(delays.steps) * std::log(one.verdict_p_value) / std::log(one.late.p_value)));
    unproven.push_back(std::move(one));
  }
  std::stable_sort(unproven.begin(), unproven.end(), [](const SuspectedStraggler& a, const SuspectedStraggler& b) {
    return a.late.cost_share > b.late.cost_share;
  });
  return unproven;
}

}  // namespace

Named find_stragglers(std::span<const RankSummary> ranks, const Totals& totals, const JobDelays& all_delays,
                      std::span<const Grouping> groupings, const SavedShare& saved, const StragglerCriteria& criteria) {
  const std::vector<Place> places = list_places(ranks.size(), groupings);
  const double limit = criteria.false_alarm_rate / static_cast<double>(std::max<std::size_t>(1, places.size()));
  const std::vector<double> nothing(places.size(), 1);
  Probabilities probabilities{nothing, nothing, std::vector<double>(places.size(), limit), nothing};
  JobDelays delays = all_delays;
  const SlowPlaces slow_places = proven_slow_places(delays, limit);
  take_off_slow_transfers(slow_places, delays);
  const std::vector<std::vector<std::size_t>> classes = classes_of_likes(places, delays);
  for (std::vector<std::size_t> likes : classes) {
    const auto tests = static_cast<double>(classes.size() * likes.size());
    leave_out_slow_places(slow_places, places, likes);
    test_class(likes, places, delays, criteria.false_alarm_rate / tests, criteria.unproven_rate / tests, probabilities);
  }
  for (std::size_t p = 0; p < places.size(); ++p) {
    const double p_value = std::min(slow_by_kernels(places[p], delays), overfull_by_chance(places[p], delays));
    if (p_value > limit) continue;
    probabilities.proven[p] = std::min(probabilities.proven[p], p_value);
    probabilities.part[p] = 1;
  }
  std::vector<Culprit> culprits =
      describe_culprits(places, probabilities.proven, probabilities, slow_places, ranks, totals, delays, all_delays);
  std::vector<Culprit> likely =
      describe_culprits(places, probabilities.likely, probabilities, {}, ranks, totals, delays, delays);
  const bool is_replayed = !culprits.empty() && saved(culprits.front().ranks).has_value();
  const std::vector<Culprit> beyond_chance = is_replayed ? culprits : std::vector<Culprit>{};
  Named named;
  if (is_replayed) {
    named.stragglers = stragglers_by_replay(std::move(culprits), saved, criteria.smallest_cost_share);
  } else {
    named = judge_by_waits(std::move(culprits), ranks, delays, criteria);
  }
  std::stable_sort(named.stragglers.begin(), named.stragglers.end(), [](const Straggler& a, const Straggler& b) {
    return std::pair(!a.behind.empty(), -a.cost_share) < std::pair(!b.behind.empty(), -b.cost_share);
  });
  for (Straggler& one : named.stragglers)
    one.gpu_hours_per_day = one.cost_share * static_cast<double>(24 * ranks.size());
  for (SuspectedStraggler& suspect : find_unproven(std::move(likely), named, ranks, delays, saved, criteria))
    named.suspects.push_back(std::move(suspect));
  named.late_without_cost = find_late_without_cost(beyond_chance, named, ranks, delays, criteria.smallest_cost_share);
  return named;
}

}  // namespace nsys_explain::analysis
