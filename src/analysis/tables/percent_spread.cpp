#include "analysis/tables/percent_spread.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {

std::vector<PercentSpread> spread_over_ranks(const Table* table, const schema::Text& name, const schema::Real& percent,
                                             const std::function<bool(std::size_t row)>& counts) {
  std::vector<PercentSpread> spreads;
  if (table == nullptr) return spreads;
  const auto& ranks = column(*table, schema::trace_rank);
  const auto& names = column(*table, name);
  const auto& percents = column(*table, percent);
  std::map<std::string_view, std::vector<double>> of_name;
  for (std::size_t i = 0; i < percents.size(); ++i) {
    if (!counts(i)) continue;
    std::vector<double>& values = of_name[names[i]];
    if (values.empty()) spreads.push_back({std::string(names[i]), 0, percents[i], 0, percents[i], -1, -1});
    values.push_back(percents[i]);
    PercentSpread& spread =
        *std::find_if(spreads.begin(), spreads.end(), [&](const PercentSpread& one) { return one.name == names[i]; });
    const auto trace_rank = static_cast<std::int32_t>(ranks[i]);
    if (spread.lowest_trace_rank < 0 || percents[i] < spread.lowest) {
      spread.lowest = percents[i];
      spread.lowest_trace_rank = trace_rank;
    }
    if (spread.highest_trace_rank < 0 || percents[i] > spread.highest) {
      spread.highest = percents[i];
      spread.highest_trace_rank = trace_rank;
    }
    ++spread.trace_ranks;
  }
  for (PercentSpread& spread : spreads) spread.median = lower_median(of_name[spread.name]);
  return spreads;
}

}  // namespace nsys_explain::analysis
