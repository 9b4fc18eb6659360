#include "analysis/waits/level_sums.hpp"

#include <map>

#include "model/schema/job.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::analysis {
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
