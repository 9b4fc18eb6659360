#include "analysis/waits/collectives_in_step.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "model/schema/job.hpp"

namespace nsys_explain::analysis {
namespace {

auto position_key(const PositionInSteps& position) {
  return std::tie(position.operation, position.in_step, position.position);
}

void add_arrival(const RankTimeline& timeline, std::size_t i, PositionInSteps& sum) {
  const TimelineArrival& arrival = timeline.arrivals[i];
  const Outcome& outcome = timeline.outcomes[i];
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

std::vector<PositionInSteps> positions_in_steps(const RankTimeline& timeline) {
  std::map<std::pair<std::int32_t, Operation>, std::vector<std::size_t>> in_step;
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i)
    if (timeline.arrivals[i].step >= 0)
      in_step[{timeline.arrivals[i].step, timeline.arrivals[i].operation}].push_back(i);
  std::vector<PositionInSteps> positions;
  std::map<std::tuple<Operation, std::int32_t, std::int32_t>, std::size_t> known;
  for (const auto& [key, arrivals] : in_step) {
    for (std::size_t n = 0; n < arrivals.size(); ++n) {
      PositionInSteps empty;
      empty.operation = key.second;
      empty.in_step = static_cast<std::int32_t>(arrivals.size());
      empty.position = static_cast<std::int32_t>(n);
      const auto [found, is_new] = known.try_emplace(position_key(empty), positions.size());
      if (is_new) positions.push_back(empty);
      add_arrival(timeline, arrivals[n], positions[found->second]);
    }
  }
  return merge_positions(std::move(positions));
}

std::vector<PositionInSteps> merge_positions(std::vector<PositionInSteps> positions) {
  std::sort(positions.begin(), positions.end(),
            [](const PositionInSteps& a, const PositionInSteps& b) { return position_key(a) < position_key(b); });
  std::vector<PositionInSteps> merged;
  for (const PositionInSteps& position : positions) {
    if (merged.empty() || position_key(merged.back()) != position_key(position)) {
      merged.push_back(position);
      continue;
    }
    PositionInSteps& sum = merged.back();
    sum.arrivals += position.arrivals;
    sum.inconclusive += position.inconclusive;
    sum.duration_ns += position.duration_ns;
    sum.skew_ns += position.skew_ns;
    sum.transfer_ns += position.transfer_ns;
    sum.most_skew_ns = std::max(sum.most_skew_ns, position.most_skew_ns);
  }
  return merged;
}

Table collectives_in_step_table(std::span<const PositionInSteps> merged) {
  std::map<Operation, std::map<std::int32_t, std::int64_t>> arrivals;  // by how many are in a step
  for (const PositionInSteps& position : merged) arrivals[position.operation][position.in_step] += position.arrivals;
  std::map<Operation, std::int32_t> usual;
  for (const auto& [operation, counts] : arrivals)
    usual[operation] = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                         return a.second < b.second;
                       })->first;
  Table table = make_table(schema::collectives_in_step);
  RowWriter rows(table);
  for (const PositionInSteps& position : merged) {
    if (position.in_step != usual[position.operation]) continue;
    rows << operation_name(position.operation) << std::int64_t{position.position} << std::int64_t{position.in_step}
         << position.arrivals << position.inconclusive << position.duration_ns << position.skew_ns
         << position.transfer_ns << position.most_skew_ns;
  }
  return table;
}

}  // namespace nsys_explain::analysis
