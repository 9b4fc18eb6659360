#include "analysis/statistics/sample_periods.hpp"

#include <algorithm>

#include "model/median.hpp"

namespace nsys_explain::analysis {

std::vector<Interval> sample_periods(std::span<const Nanoseconds> time_ns) {
  constexpr Nanoseconds gap_periods = 3;
  if (time_ns.empty()) return {};
  std::vector<Interval> periods{{time_ns[0], time_ns[0]}};
  if (time_ns.size() == 1) return periods;
  std::vector<Nanoseconds> lengths;
  for (std::size_t i = 1; i < time_ns.size(); ++i) lengths.push_back(time_ns[i] - time_ns[i - 1]);
  const Nanoseconds usual_ns = upper_median(lengths);
  for (std::size_t i = 1; i < time_ns.size(); ++i) {
    const bool lost = time_ns[i] - time_ns[i - 1] > gap_periods * usual_ns;
    periods.push_back({lost ? time_ns[i] - usual_ns : time_ns[i - 1], time_ns[i]});
  }
  return periods;
}

}  // namespace nsys_explain::analysis
