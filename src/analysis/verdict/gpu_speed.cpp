#include "analysis/verdict/gpu_speed.hpp"

#include <algorithm>
#include <map>

#include "analysis/statistics/usual_in_bins.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {

std::vector<GpuSpeed> gpu_speeds(const std::vector<Table>& tables) {
  std::vector<GpuSpeed> speeds;
  const Table* table = find_table(tables, schema::gpu_speed);
  if (table == nullptr) return speeds;
  const auto& ranks = column(*table, schema::gpu_speed.trace_rank);
  const auto& kernels = column(*table, schema::gpu_speed.kernels);
  const auto& ratios = column(*table, schema::gpu_speed.ratio);
  const auto& p_values = column(*table, schema::gpu_speed.p_value);
  const auto& slow = column(*table, schema::gpu_speed.slow);
  const auto& spreads = column(*table, schema::gpu_speed.spread);
  const auto& executions = column(*table, schema::gpu_speed.executions);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    speeds.push_back({static_cast<std::int32_t>(ranks[i]), kernels[i], ratios[i], p_values[i], slow[i] != 0, spreads[i],
                      executions[i]});
  }
  return speeds;
}

void correct_gpu_speeds(std::span<const GpuSpeed> speeds, std::vector<Table>& tables) {
  std::map<std::int64_t, const GpuSpeed*> of_rank;
  for (const GpuSpeed& speed : speeds) of_rank[speed.trace_rank] = &speed;
  const auto table = std::find_if(tables.begin(), tables.end(),
                                  [](const Table& one) { return one.schema.name == schema::gpu_speed.table_name(); });
  if (table == tables.end()) return;
  const auto& ranks = column(*table, schema::gpu_speed.trace_rank);
  auto& p_values = column(*table, schema::gpu_speed.p_value);
  auto& slow = column(*table, schema::gpu_speed.slow);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto known = of_rank.find(ranks[i]);
    if (known == of_rank.end()) continue;
    p_values[i] = known->second->p_value;
    slow[i] = known->second->slow ? 1 : 0;
  }
}

std::vector<double> slow_gpu_surplus(std::span<const std::int64_t> kernel_ns, std::size_t bins,
                                     std::span<const GpuSpeed> speeds) {
  std::vector<double> shares(kernel_ns.size(), 0);
  const std::vector<std::int64_t> usual = usual_in_bins(kernel_ns, kernel_ns, bins);
  for (std::size_t r = 0; r < speeds.size(); ++r) {
    if (!speeds[r].slow) continue;
    const auto relative = [&](std::size_t bin) {
      return static_cast<double>(kernel_ns[r * bins + bin]) / static_cast<double>(usual[bin]);
    };
    std::vector<double> known;
    for (std::size_t b = 0; b < bins; ++b)
      if (kernel_ns[r * bins + b] > 0) known.push_back(relative(b));
    if (known.empty()) continue;
    const double at_usual_speed = lower_median(known) / speeds[r].ratio;
    const double when_slow = 1 - 1 / speeds[r].ratio;
    for (std::size_t b = 0; b < bins; ++b)
      if (kernel_ns[r * bins + b] > 0)
        shares[r * bins + b] = std::clamp(1 - at_usual_speed / relative(b), 0.0, when_slow);
  }
  return shares;
}

}  // namespace nsys_explain::analysis
