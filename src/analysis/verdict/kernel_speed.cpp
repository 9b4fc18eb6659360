#include "analysis/verdict/kernel_speed.hpp"

#include <cmath>
#include <numbers>

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

namespace {

/// Values are cut into stretches as long as there are stretches, but into four where there are as many.
std::size_t stretch_length(std::size_t values) {
  const auto square = static_cast<std::size_t>(std::sqrt(static_cast<double>(values)));
  return std::max<std::size_t>(1, std::min(square, values / 4));
}

double slowness_of(std::int64_t kernel_ns, std::int64_t usual_ns) {
  return kernel_ns > 0 && usual_ns > 0 ? static_cast<double>(kernel_ns) / static_cast<double>(usual_ns) : 0;
}

/// By bin: how slow GPUs are together, the median over ranks; 0 where none is known. What all have in common makes none
/// of them late.
std::vector<double> common_slowness(std::span<const std::int64_t> kernel_ns, std::span<const std::int64_t> usual_ns,
                                    std::size_t bins) {
  std::vector<double> common(bins, 0), of_ranks;
  for (std::size_t b = 0; b < bins; ++b) {
    of_ranks.clear();
    for (std::size_t i = b; i < kernel_ns.size(); i += bins)
      if (const double slowness = slowness_of(kernel_ns[i], usual_ns[i]); slowness > 0) of_ranks.push_back(slowness);
    if (of_ranks.empty()) continue;
    std::sort(of_ranks.begin(), of_ranks.end());
    common[b] = (of_ranks[(of_ranks.size() - 1) / 2] + of_ranks[of_ranks.size() / 2]) / 2;
  }
  return common;
}

/// Of the means of whole stretches.
SpeedWander wander_of(std::span<const double> slowness) {
  const std::size_t length = stretch_length(slowness.size());
  const std::size_t stretches = length > 0 ? slowness.size() / length : 0;
  if (stretches < 2) return {};
  std::vector<double> means(stretches, 0);
  double mean = 0;
  for (std::size_t i = 0; i < stretches * length; ++i) means[i / length] += slowness[i] / static_cast<double>(length);
  for (const double one : means) mean += one / static_cast<double>(stretches);
  double squares = 0;
  for (const double one : means) squares += (one - mean) * (one - mean);
  return {std::sqrt(squares / static_cast<double>(stretches - 1)) / mean, static_cast<int>(stretches) - 1};
}

/// Of a chi-square variable, over its degrees of freedom (Wilson and Hilferty 1931).
double median_of_chi_square(int freedom) {
  return std::pow(1 - 2 / (9.0 * freedom), 3);
}

}  // namespace

std::vector<SpeedWander> speed_wander(std::span<const std::int64_t> kernel_ns, std::span<const std::int64_t> usual_ns,
                                      std::size_t bins) {
  std::vector<SpeedWander> wander;
  if (bins == 0) return wander;
  const std::size_t ranks = kernel_ns.size() / bins;
  const bool has_middle = ranks >= 3;  // of two nobody knows which of them wanders
  const std::vector<double> common = common_slowness(kernel_ns, usual_ns, bins);
  // To be held against a middle of n, which each of them is a part of, takes 1 / n off the variance.
  const double part_of_middle = has_middle ? std::sqrt(1 - 1 / static_cast<double>(ranks)) : 1;
  std::vector<double> slowness;
  for (std::size_t r = 0; r < ranks; ++r) {
    slowness.clear();
    for (std::size_t b = 0; b < bins; ++b) {
      const double own = slowness_of(kernel_ns[r * bins + b], usual_ns[r * bins + b]);
      if (own > 0) slowness.push_back(has_middle ? own / common[b] : own);
    }
    wander.push_back(wander_of(slowness));
    wander.back().deviation /= part_of_middle;
  }
  return wander;
}

std::vector<SpeedWander> spread_of_executions(std::span<const GpuSpeed> speeds) {
  std::vector<SpeedWander> spread;
  for (const GpuSpeed& speed : speeds) {
    const std::size_t length = stretch_length(static_cast<std::size_t>(speed.executions));
    spread.push_back({speed.spread, length > 0 ? static_cast<int>(length) - 1 : 0});
  }
  return spread;
}

TypicalWander typical_wander(std::span<const SpeedWander> of_gpus) {
  std::vector<double> variances;
  std::vector<int> freedom;
  for (const SpeedWander& one : of_gpus) {
    if (one.freedom == 0) continue;
    variances.push_back(one.deviation * one.deviation);
    freedom.push_back(one.freedom);
  }
  if (variances.empty()) return {};
  const int of_one = lower_median(freedom);
  const auto half = static_cast<int>((variances.size() + 1) / 2);
  return {{std::sqrt(lower_median(variances) / median_of_chi_square(of_one)), of_one}, of_one * half};
}

double usual_drift(const SpeedWander& wander, double probability) {
  return wander.deviation > 0 ? std::numbers::sqrt2 * wander.deviation * student_quantile(probability, wander.freedom)
                              : 0;
}

void doubt_wandering_speeds(const TypicalWander& wander, std::span<GpuSpeed> speeds) {
  if (wander.deviation <= 0) return;
  for (GpuSpeed& speed : speeds) {
    if (!speed.slow) continue;
    const double tail =
        student_tail(std::log(speed.ratio) / (std::numbers::sqrt2 * wander.deviation), wander.freedom_of_half);
    speed.p_value = std::max(speed.p_value, std::min(1.0, tail * static_cast<double>(speeds.size())));
    speed.slow = speed.p_value < significantly_slow;
  }
}

std::vector<double> kernel_slowness(std::span<const std::int64_t> kernel_ns, std::span<const std::int64_t> usual_ns,
                                    std::span<const GpuSpeed> speeds, std::size_t bins) {
  std::vector<double> slowness(kernel_ns.size(), 0);
  for (std::size_t i = 0; i < kernel_ns.size(); ++i)
    if (kernel_ns[i] > 0 && usual_ns[i] > 0)
      slowness[i] = speeds[i / bins].ratio * static_cast<double>(kernel_ns[i]) / static_cast<double>(usual_ns[i]);
  return slowness;
}

std::vector<Nanoseconds> typical_kernel_times(std::span<const std::int64_t> kernel_ns, std::size_t bins) {
  std::vector<Nanoseconds> typical;
  for (std::size_t first = 0; first < kernel_ns.size(); first += bins) {
    std::vector<Nanoseconds> known;
    for (const Nanoseconds of_bin : kernel_ns.subspan(first, bins))
      if (of_bin > 0) known.push_back(of_bin);
    typical.push_back(known.empty() ? 0 : lower_median(known));
  }
  return typical;
}

}  // namespace nsys_explain::analysis
