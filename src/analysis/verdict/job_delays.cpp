#include "analysis/verdict/job_delays.hpp"

#include <algorithm>
#include <numeric>

namespace nsys_explain::analysis {

std::size_t bins_of_steps(std::size_t steps) {
  return std::min(steps, most_bins);
}

std::size_t bin_of_step(std::size_t step, std::size_t steps) {
  const std::size_t bins = bins_of_steps(steps);
  return std::min(step * bins / steps, bins - 1);
}

namespace {

Nanoseconds sum_of_row(const std::vector<Nanoseconds>& rows, std::size_t rank, std::size_t bins) {
  const auto row = rows.begin() + static_cast<std::ptrdiff_t>(rank * bins);
  return std::accumulate(row, row + static_cast<std::ptrdiff_t>(bins), Nanoseconds{0});
}

}  // namespace

Nanoseconds JobDelays::excess_of(std::size_t rank) const {
  return sum_of_row(excess_work_ns, rank, bins);
}

Nanoseconds JobDelays::slow_transfers_of(std::size_t rank) const {
  return slow_transfer_ns.empty() ? 0 : sum_of_row(slow_transfer_ns, rank, bins);
}

std::vector<Nanoseconds> JobDelays::greatest_excess(std::span<const std::size_t> ranks) const {
  std::vector<Nanoseconds> greatest(bins, 0);
  for (const std::size_t r : ranks)
    for (std::size_t b = 0; b < bins; ++b) greatest[b] = std::max(greatest[b], excess_work_ns[r * bins + b]);
  return greatest;
}

const StageBalance* find_overfull_stage(const JobDelays& delays, std::span<const std::size_t> ranks) {
  const auto found = std::find_if(delays.stages.begin(), delays.stages.end(), [&](const StageBalance& stage) {
    return stage.overfull() && std::equal(stage.ranks.begin(), stage.ranks.end(), ranks.begin(), ranks.end());
  });
  return found == delays.stages.end() ? nullptr : &*found;
}

}  // namespace nsys_explain::analysis
