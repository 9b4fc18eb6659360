#include "analysis/verdict/kernel_speed.hpp"

#include "analysis/statistics/significance.hpp"
#include "analysis/statistics/statistics.hpp"
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
