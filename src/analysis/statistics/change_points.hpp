#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nsys_explain::analysis {

/// From `first` on values are larger, or smaller, than before.
struct ChangePoint {
  std::size_t first = 0;
  std::int64_t before = 0, after = 0;  ///< median since the change before it, and up to the one after it
  double p_value = 1;                  ///< bound on the probability of so large a change, anywhere, by chance
};

struct ChangeCriteria {
  double false_alarm_rate = 1e-3;
  double least_change = 0.05;  ///< of the value before
};

/// Where a series changes for good: in the shortest of many parts of it that show so (seeded intervals, Kovacs et al.
/// 2023; the narrowest over threshold, Baranowski et al. 2019), so that one change does not hide another. A part is
/// split where the ranks of the values before and after differ most (Pettitt 1979), and shows a change if chance moves
/// the median so far with at most `false_alarm_rate` (Bonferroni, over all places of all parts). What lasts makes
/// neighbours alike without a change: the variance of a median grows by (1 + r) / (1 - r), with r the correlation of
/// neighbours within the halves. However far they are apart, two halves prove no more than the order of their values
/// can. A change within what nine tenths of neighbours differ anyway is none. Ascending; values are above 0.
std::vector<ChangePoint> change_points(std::span<const std::int64_t> series, const ChangeCriteria& criteria = {});

}  // namespace nsys_explain::analysis
