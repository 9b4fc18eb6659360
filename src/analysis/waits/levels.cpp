#include "analysis/waits/levels.hpp"

#include <algorithm>
#include <map>

#include "model/schema/job.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::analysis {

namespace {

/// The best part of one place for these residuals: their lower median, where the penalty and the deviations balance.
Nanoseconds best_part(std::span<const Nanoseconds> residual_ns, const Place& place) {
  std::vector<Nanoseconds> values;
  for (const std::size_t r : place.ranks) values.push_back(residual_ns[r]);
  return std::max<Nanoseconds>(0, lower_median(values));
}

/// By how much the objective falls, in half nanoseconds.
Nanoseconds gain(std::span<const Nanoseconds> residual_ns, const Place& place, Nanoseconds part) {
  Nanoseconds fall = -part;
  for (const std::size_t r : place.ranks) fall += 2 * (std::abs(residual_ns[r]) - std::abs(residual_ns[r] - part));
  return fall;
}

}  // namespace

const Grouping* find_grouping(std::span<const Grouping> groupings, Level level) {
  const auto found = std::find_if(groupings.begin(), groupings.end(),
                                  [&](const Grouping& grouping) { return grouping.level == level; });
  return found == groupings.end() ? nullptr : &*found;
}

std::vector<Place> list_places(std::size_t ranks, std::span<const Grouping> groupings) {
  std::vector<Place> places;
  for (std::size_t r = 0; r < ranks; ++r) places.push_back({Level::gpu, "", {r}, {}});
  for (const Grouping& grouping : groupings) {
    std::map<std::string, std::vector<std::size_t>> by_name;
    for (std::size_t r = 0; r < ranks; ++r)
      if (!grouping.place_of_rank[r].empty()) by_name[grouping.place_of_rank[r]].push_back(r);
    for (auto& [name, listed] : by_name) {
      std::vector<std::size_t>& members = listed;
      if (members.size() == ranks || (members.size() == 1 && grouping.level != Level::pipeline_stage)) continue;
      const auto same = std::find_if(places.begin(), places.end(), [&](const Place& p) { return p.ranks == members; });
      if (same == places.end()) {
        places.push_back({grouping.level, name, std::move(members), {}});
      } else {
        same->also.push_back({grouping.level, name});
      }
    }
  }
  return places;
}

std::vector<Nanoseconds> fit_places(std::span<const Nanoseconds> lateness_ns, std::span<const Place> places) {
  std::vector<Nanoseconds> residual(lateness_ns.begin(), lateness_ns.end());
  std::vector<Nanoseconds> parts(places.size(), 0);
  for (std::size_t round = 0; round < places.size(); ++round) {
    std::size_t best = places.size();
    Nanoseconds best_gain = 0;
    for (std::size_t p = 0; p < places.size(); ++p) {
      if (parts[p] > 0) continue;
      const Nanoseconds fall = gain(residual, places[p], best_part(residual, places[p]));
      if (fall <= best_gain) continue;
      best_gain = fall;
      best = p;
    }
    if (best == places.size()) break;
    parts[best] = best_part(residual, places[best]);
    for (const std::size_t r : places[best].ranks) residual[r] -= parts[best];
  }
  const Nanoseconds largest = parts.empty() ? 0 : *std::max_element(parts.begin(), parts.end());
  std::vector<Nanoseconds> explained(lateness_ns.size(), 0);
  for (std::size_t p = 0; p < places.size(); ++p)
    for (const std::size_t r : places[p].ranks) explained[r] = std::max(explained[r], parts[p]);
  for (std::size_t p = 0; p < places.size(); ++p)
    for (const std::size_t r : places[p].ranks)
      if (4 * parts[p] < explained[r] || 50 * parts[p] < largest) parts[p] = 0;
  return parts;
}

namespace {

struct PlaceSum {
  std::string place;
  std::int64_t first_trace_rank = 0, trace_ranks = 0;
  RankSummary sum;
};

/// In the order in which the places come first.
std::vector<PlaceSum> sum_places(std::span<const RankSummary> ranks, const Grouping& grouping) {
  std::vector<PlaceSum> places;
  std::map<std::string_view, std::size_t> known;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::string& name = grouping.place_of_rank[r];
    if (name.empty()) continue;
    const auto [entry, is_new] = known.try_emplace(name, places.size());
    if (is_new) places.push_back({name, ranks[r].trace_rank, 0, {}});
    PlaceSum& place = places[entry->second];
    ++place.trace_ranks;
    place.sum.budget.window_ns += ranks[r].budget.window_ns;
    place.sum.budget.compute_ns += ranks[r].budget.compute_ns;
    place.sum.budget.exposed_communication_ns += ranks[r].budget.exposed_communication_ns;
    place.sum.budget.idle_ns += ranks[r].budget.idle_ns;
    place.sum.wait_ns += ranks[r].wait_ns;
    place.sum.own_lateness_ns += ranks[r].own_lateness_ns;
    place.sum.inherited_lateness_ns += ranks[r].inherited_lateness_ns;
    place.sum.caused_wait_ns += ranks[r].caused_wait_ns;
  }
  return places;
}

}  // namespace

Table level_sums_table(std::span<const RankSummary> ranks, std::span<const Grouping> groupings) {
  Table table = make_table(schema::level_sums);
  RowWriter rows(table);
  for (const Grouping& grouping : groupings) {
    const std::vector<PlaceSum> places = sum_places(ranks, grouping);
    if (places.size() == ranks.size()) continue;
    for (const auto& [place, first_trace_rank, trace_ranks, sum] : places) {
      rows << level_name(grouping.level) << place << first_trace_rank << trace_ranks << sum.budget.window_ns
           << sum.budget.compute_ns << sum.budget.exposed_communication_ns << sum.budget.idle_ns << sum.wait_ns
           << sum.own_lateness_ns << sum.inherited_lateness_ns << sum.caused_wait_ns;
    }
  }
  return table;
}

}  // namespace nsys_explain::analysis
