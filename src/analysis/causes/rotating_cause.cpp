#include "analysis/causes/rotating_cause.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {
namespace {

/// Of each rank beyond the median of its role, in one bin.
std::vector<std::int64_t> beyond_role(const JobDelays& delays, const std::vector<std::int64_t>& values,
                                      std::size_t bin) {
  std::map<std::uint64_t, std::vector<std::int64_t>> of_role;
  for (std::size_t r = 0; r < delays.role.size(); ++r) of_role[delays.role[r]].push_back(values[r * delays.bins + bin]);
  std::map<std::uint64_t, std::int64_t> usual;
  for (auto& [role, of_ranks] : of_role) usual[role] = lower_median(of_ranks);
  std::vector<std::int64_t> beyond;
  for (std::size_t r = 0; r < delays.role.size(); ++r)
    beyond.push_back(values[r * delays.bins + bin] - usual[delays.role[r]]);
  return beyond;
}

}  // namespace

RotatingCause rotating_cause(const JobDelays& delays) {
  if (delays.kernels_ns.empty()) return {};
  double all = 0, longer = 0, larger = 0;
  for (std::size_t b = 0; b < delays.bins; ++b) {
    const std::vector<std::int64_t> longer_ns = beyond_role(delays, delays.kernels_ns, b);
    const std::vector<std::int64_t> larger_ns = beyond_role(delays, delays.usual_kernels_ns, b);
    for (std::size_t r = 0; r < delays.role.size(); ++r) {
      const auto caused = static_cast<double>(delays.caused_wait_ns[r * delays.bins + b]);
      const auto excess = static_cast<double>(delays.excess_work_ns[r * delays.bins + b]);
      all += caused;
      if (excess <= 0) continue;
      longer += caused * std::clamp(static_cast<double>(longer_ns[r]) / excess, 0.0, 1.0);
      larger += caused * std::clamp(static_cast<double>(larger_ns[r]) / excess, 0.0, 1.0);
    }
  }
  if (all <= 0 || 2 * std::max(longer, larger) < all) return {};
  return 2 * larger >= all ? RotatingCause{Cause::uneven_work, larger / all}
                           : RotatingCause{Cause::slow_kernel, longer / all};
}

}  // namespace nsys_explain::analysis
