#include "analysis/tables/tables.hpp"

#include "analysis/trace/rank_events.hpp"
#include "model/schema/gpu.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr auto counters = std::to_array<GpuCounter>(
    {GpuCounter::sms_active, GpuCounter::sm_issue, GpuCounter::tensor_active, GpuCounter::dram_read,
     GpuCounter::dram_write, GpuCounter::pcie_receive, GpuCounter::pcie_transmit});
constexpr std::size_t kernels_kept = 30;
constexpr std::int64_t fewest_of_kernel = 3;  // samples: fewer tell nothing
constexpr double enough_of_sample = 0.9;

/// Numbers of the samples most of which lies in `part`, which is merged.
std::vector<std::size_t> samples_in(const std::vector<Interval>& covered, const std::vector<Interval>& part) {
  std::vector<std::size_t> inside;
  std::size_t first = 0;
  for (std::size_t i = 0; i < covered.size(); ++i) {
    const Interval& sample = covered[i];
    while (first < part.size() && part[first].end_ns <= sample.start_ns) ++first;
    Nanoseconds overlap_ns = 0;
    for (std::size_t p = first; p < part.size() && part[p].start_ns < sample.end_ns; ++p)
      overlap_ns += std::min(part[p].end_ns, sample.end_ns) - std::max(part[p].start_ns, sample.start_ns);
    const Nanoseconds length_ns = sample.end_ns - sample.start_ns;
    if (length_ns > 0 && static_cast<double>(overlap_ns) >= enough_of_sample * static_cast<double>(length_ns))
      inside.push_back(i);
  }
  return inside;
}

struct CounterMean {
  std::int64_t samples = 0;
  double mean_percent = 0, max_percent = 0;
};

std::optional<CounterMean> mean_of(const std::vector<std::uint32_t>& values, const std::vector<Interval>& covered,
                                   const std::vector<std::size_t>& numbers) {
  CounterMean mean;
  double weighted = 0, weight = 0;
  for (const std::size_t i : numbers) {
    if (i >= values.size() || values[i] == GpuSamples::missing) continue;
    const auto length = static_cast<double>(covered[i].end_ns - covered[i].start_ns);
    weighted += length * values[i];
    weight += length;
    mean.max_percent = std::max(mean.max_percent, static_cast<double>(values[i]));
    ++mean.samples;
  }
  if (mean.samples == 0) return std::nullopt;
  mean.mean_percent = weighted / weight;
  return mean;
}

struct Part {
  std::string_view name;
  std::vector<Interval> intervals;
};

std::vector<Part> parts_of(const RankEvents& events) {
  std::vector<Interval> compute, communication, busy;
  for (const Kernel kernel : events.device.kernels)
    (events.is_communication(kernel) ? communication : compute).push_back({kernel.start_ns, kernel.end_ns});
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    busy.push_back({activity.start_ns, activity.end_ns});
  });
  compute = merge_intervals(std::move(compute));
  const std::vector<Interval> window{gpu_window(events.device)};
  std::vector<Interval> alone = subtract(merge_intervals(std::move(communication)), compute);
  std::vector<Interval> idle = subtract(window, merge_intervals(std::move(busy)));
  return {{"window", window},
          {"compute", std::move(compute)},
          {"communication", std::move(alone)},
          {"idle", std::move(idle)}};
}

/// Executions by base name, of the names with most time.
std::vector<std::pair<std::string_view, std::vector<Interval>>> executions_by_name(const RankEvents& events) {
  std::map<std::string_view, std::vector<Interval>> by_name;
  for (const Kernel kernel : events.device.kernels)
    by_name[events.trace.strings[events.device.kind_of(kernel).short_name]].push_back({kernel.start_ns, kernel.end_ns});
  std::vector<std::pair<std::string_view, std::vector<Interval>>> kernels;
  for (auto& [name, executions] : by_name) kernels.emplace_back(name, merge_intervals(std::move(executions)));
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const auto& a, const auto& b) { return total_length(a.second) > total_length(b.second); });
  kernels.resize(std::min(kernels.size(), kernels_kept));
  return kernels;
}

}  // namespace

std::string_view counter_name(GpuCounter counter) {
  switch (counter) {
    case GpuCounter::sms_active:
      return "sms_active";
    case GpuCounter::sm_issue:
      return "sm_issue";
    case GpuCounter::tensor_active:
      return "tensor_active";
    case GpuCounter::dram_read:
      return "dram_read";
    case GpuCounter::dram_write:
      return "dram_write";
    case GpuCounter::pcie_receive:
      return "pcie_receive";
    case GpuCounter::pcie_transmit:
      return "pcie_transmit";
    default:
      return {};
  }
}

std::vector<Table> gpu_counter_tables(const RankEvents& events) {
  std::vector<Table> tables;
  tables.push_back(make_table(schema::gpu_counters));
  tables.push_back(make_table(schema::kernel_counters));
  const GpuSamples& samples = events.device.samples;
  const bool has_any =
      std::any_of(counters.begin(), counters.end(), [&](GpuCounter counter) { return !samples.of(counter).empty(); });
  if (!has_any) return tables;
  const std::vector<Interval> covered = sample_periods(samples.time_ns);
  RowWriter part_row(tables[0]), kernel_row(tables[1]);
  for (const Part& part : parts_of(events)) {
    const std::vector<std::size_t> numbers = samples_in(covered, part.intervals);
    for (const GpuCounter counter : counters)
      if (const auto mean = mean_of(samples.of(counter), covered, numbers))
        part_row << part.name << counter_name(counter) << mean->samples << mean->mean_percent << mean->max_percent
                 << -1.0;
  }
  for (const auto& [name, executions] : executions_by_name(events)) {
    const std::vector<std::size_t> numbers = samples_in(covered, executions);
    for (const GpuCounter counter : counters)
      if (const auto mean = mean_of(samples.of(counter), covered, numbers); mean && mean->samples >= fewest_of_kernel)
        kernel_row << name << counter_name(counter) << mean->samples << mean->mean_percent;
  }
  return tables;
}

void compare_gpu_counters(std::vector<Table>& joined) {
  const auto table = std::find_if(joined.begin(), joined.end(), [](const Table& one) {
    return one.schema.name == schema::gpu_counters.table_name();
  });
  if (table == joined.end()) return;
  const auto& parts = column(*table, schema::gpu_counters.part);
  const auto& names = column(*table, schema::gpu_counters.counter);
  const auto& means = column(*table, schema::gpu_counters.mean_percent);
  std::map<std::pair<std::string_view, std::string_view>, std::vector<double>> of_all;
  for (std::size_t i = 0; i < means.size(); ++i) of_all[{parts[i], names[i]}].push_back(means[i]);
  auto& medians = column(*table, schema::gpu_counters.peers_median_percent);
  for (std::size_t i = 0; i < means.size(); ++i) medians[i] = lower_median(of_all[{parts[i], names[i]}]);
}

}  // namespace nsys_explain::analysis
