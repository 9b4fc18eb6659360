#include "analysis/verdict/host_idle.hpp"

#include <algorithm>

#include "analysis/statistics/significance.hpp"
#include "analysis/statistics/usual_in_bins.hpp"
#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr double false_alarm_rate = 1e-3;
constexpr double smallest_share_of_kernels = 0.01;

double surplus_of(std::span<const std::int64_t> idle_ns, std::span<const std::int64_t> kernel_ns,
                  std::span<const std::int64_t> usual) {
  std::vector<std::int64_t> own, more, kernels;
  for (std::size_t b = 0; b < usual.size(); ++b) {
    if (kernel_ns[b] <= 0) continue;
    own.push_back(idle_ns[b]);
    more.push_back(idle_ns[b] - usual[b]);
    kernels.push_back(kernel_ns[b]);
  }
  if (own.empty()) return 0;
  const auto own_ns = static_cast<double>(lower_median(std::move(own)));
  const auto more_ns = static_cast<double>(lower_median(std::move(more)));
  if (more_ns < smallest_share_of_kernels * static_cast<double>(lower_median(std::move(kernels)))) return 0;
  return own_ns > 0 ? std::clamp(more_ns / own_ns, 0.0, 1.0) : 0;
}

}  // namespace

std::vector<double> host_idle_surplus(std::span<const std::int64_t> idle_ns, std::span<const std::int64_t> kernel_ns,
                                      std::size_t bins) {
  const std::size_t ranks = bins > 0 ? idle_ns.size() / bins : 0;
  std::vector<double> surplus(ranks, 0);
  if (ranks < 2) return surplus;
  const std::vector<std::int64_t> usual = usual_in_bins(idle_ns, kernel_ns, bins);
  for (std::size_t r = 0; r < ranks; ++r)
    surplus[r] = surplus_of(idle_ns.subspan(r * bins, bins), kernel_ns.subspan(r * bins, bins), usual);
  if (std::all_of(surplus.begin(), surplus.end(), [](double of_rank) { return of_rank == 0; })) return surplus;
  const std::vector<double> p_values = caused_wait_p_values(idle_ns, ranks, bins);
  for (std::size_t r = 0; r < ranks; ++r)
    if (p_values[r] * static_cast<double>(ranks) > false_alarm_rate) surplus[r] = 0;
  return surplus;
}

}  // namespace nsys_explain::analysis
