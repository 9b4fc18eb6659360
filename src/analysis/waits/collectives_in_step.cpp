#include "analysis/waits/collectives_in_step.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "model/schema/job.hpp"

namespace nsys_explain::analysis {
namespace {

auto place_key(const PlaceInSteps& place) {
  return std::tie(place.operation, place.in_step, place.place);
}

void add_arrival(const RankTimeline& path, std::size_t i, PlaceInSteps& sum) {
  const PathArrival& arrival = path.arrivals[i];
  const Outcome& outcome = path.outcomes[i];
  const Nanoseconds duration_ns = arrival.exit - arrival.enter;
  ++sum.arrivals;
  sum.duration_ns += duration_ns;
  if (!outcome.matched || !outcome.split_told) {
    ++sum.inconclusive;
    return;
  }
  sum.skew_ns += outcome.wait_ns;
  sum.transfer_ns += duration_ns - outcome.wait_ns;
  sum.most_skew_ns = std::max(sum.most_skew_ns, outcome.wait_ns);
}

}  // namespace

std::vector<PlaceInSteps> places_in_steps(const RankTimeline& path) {
  std::map<std::pair<std::int32_t, Operation>, std::vector<std::size_t>> in_step;
  for (std::size_t i = 0; i < path.arrivals.size(); ++i)
    if (path.arrivals[i].step >= 0) in_step[{path.arrivals[i].step, path.arrivals[i].operation}].push_back(i);
  std::vector<PlaceInSteps> places;
  std::map<std::tuple<Operation, std::int32_t, std::int32_t>, std::size_t> known;
  for (const auto& [key, arrivals] : in_step) {
    for (std::size_t n = 0; n < arrivals.size(); ++n) {
      PlaceInSteps empty;
      empty.operation = key.second;
      empty.in_step = static_cast<std::int32_t>(arrivals.size());
      empty.place = static_cast<std::int32_t>(n);
      const auto [found, is_new] = known.try_emplace(place_key(empty), places.size());
      if (is_new) places.push_back(empty);
      add_arrival(path, arrivals[n], places[found->second]);
    }
  }
  return merge_places(std::move(places));
}

std::vector<PlaceInSteps> merge_places(std::vector<PlaceInSteps> places) {
  std::sort(places.begin(), places.end(),
            [](const PlaceInSteps& a, const PlaceInSteps& b) { return place_key(a) < place_key(b); });
  std::vector<PlaceInSteps> merged;
  for (const PlaceInSteps& place : places) {
    if (merged.empty() || place_key(merged.back()) != place_key(place)) {
      merged.push_back(place);
      continue;
    }
    PlaceInSteps& sum = merged.back();
    sum.arrivals += place.arrivals;
    sum.inconclusive += place.inconclusive;
    sum.duration_ns += place.duration_ns;
    sum.skew_ns += place.skew_ns;
    sum.transfer_ns += place.transfer_ns;
    sum.most_skew_ns = std::max(sum.most_skew_ns, place.most_skew_ns);
  }
  return merged;
}

Table collectives_in_step_table(std::span<const PlaceInSteps> merged) {
  std::map<Operation, std::map<std::int32_t, std::int64_t>> arrivals;  // by how many are in a step
  for (const PlaceInSteps& place : merged) arrivals[place.operation][place.in_step] += place.arrivals;
  std::map<Operation, std::int32_t> usual;
  for (const auto& [operation, counts] : arrivals)
    usual[operation] = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                         return a.second < b.second;
                       })->first;
  Table table = make_table(schema::collectives_in_step);
  RowWriter rows(table);
  for (const PlaceInSteps& place : merged) {
    if (place.in_step != usual[place.operation]) continue;
    rows << operation_name(place.operation) << std::int64_t{place.place} << std::int64_t{place.in_step}
         << place.arrivals << place.inconclusive << place.duration_ns << place.skew_ns << place.transfer_ns
         << place.most_skew_ns;
  }
  return table;
}

}  // namespace nsys_explain::analysis
