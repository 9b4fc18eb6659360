#include "analysis/problems/activity_summary.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "analysis/questions/question.hpp"
#include "analysis/tables/percent_spread.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {

// Whose sums are suspects.
namespace questions {
Question barriers();
Question idle_causes();
Question memory_transfers();
}  // namespace questions

namespace {

constexpr std::size_t kept = 50;  ///< rows of a list
constexpr std::size_t suspects_of_kind = 3;
constexpr std::string_view launcher_gap = "launcher_gap";  ///< holds the other barriers: not added to them

using Integers = std::vector<std::int64_t>;

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// Most time first, then by kind and name; only the first.
void bound(std::vector<NamedTotal>& totals) {
  std::sort(totals.begin(), totals.end(), [](const NamedTotal& a, const NamedTotal& b) {
    return std::tie(b.total_ns, a.kind, a.name) < std::tie(a.total_ns, b.kind, b.name);
  });
  if (totals.size() > kept) totals.resize(kept);
}

std::vector<KernelSummary> kernels_by_name(const Table* table, bool communication_only) {
  if (table == nullptr) return {};
  const auto& ranks = column(*table, schema::trace_rank);
  const auto& names = column(*table, schema::kernels.name);
  const auto& communication = column(*table, schema::kernels.communication);
  const auto& counts = column(*table, schema::kernels.durations.count);
  const auto& totals = column(*table, schema::kernels.durations.total);
  const auto& maxima = column(*table, schema::kernels.durations.max);
  const auto& tails = column(*table, schema::kernels.tail_score_ns);
  std::map<std::string_view, KernelSummary> sums;
  Nanoseconds all_ns = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    all_ns += totals[i];
    if (communication_only && communication[i] == 0) continue;
    KernelSummary& sum = sums[names[i]];
    sum.communication = communication[i] != 0;
    ++sum.trace_ranks;
    sum.count += counts[i];
    sum.total_ns += totals[i];
    sum.max_ns = std::max(sum.max_ns, maxima[i]);
    sum.tail_score_ns += tails[i];
    if (sum.largest_trace_rank < 0 || totals[i] > sum.largest_ns) {
      sum.largest_ns = totals[i];
      sum.largest_trace_rank = static_cast<std::int32_t>(ranks[i]);
    }
  }
  std::vector<KernelSummary> result;
  for (auto& [name, sum] : sums) {
    sum.name = name;
    sum.share = share_of(sum.total_ns, all_ns);
    result.push_back(std::move(sum));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const KernelSummary& a, const KernelSummary& b) { return a.total_ns > b.total_ns; });
  if (result.size() > kept) result.resize(kept);
  return result;
}

void add_overlap(const Table* table, std::vector<KernelSummary>& communication) {
  if (table == nullptr) return;
  const auto& names = column(*table, schema::communication_overlap.name);
  const auto& overlapped = column(*table, schema::communication_overlap.overlapped_ns);
  std::map<std::string_view, Nanoseconds> sums;
  for (std::size_t i = 0; i < names.size(); ++i) sums[names[i]] += overlapped[i];
  for (KernelSummary& kernel : communication) {
    if (const auto found = sums.find(kernel.name); found != sums.end()) kernel.overlapped_ns = found->second;
  }
}

/// Sums of one process, with the name that has most of it.
struct TopOf {
  Nanoseconds total_ns = 0, largest_ns = -1;
  std::string_view name;
  void add(std::string_view candidate, Nanoseconds duration_ns) {
    total_ns += duration_ns;
    if (duration_ns > largest_ns) {
      largest_ns = duration_ns;
      name = candidate;
    }
  }
};

std::vector<ProcessSummary> processes_of(const std::vector<Table>& tables, const JobReport& report) {
  using Key = std::pair<std::string_view, std::uint64_t>;
  struct Sums {
    TopOf kernels, communication, barriers;
    std::int64_t count = 0;
  };
  std::map<Key, Sums> sums;
  std::map<Key, ProcessSummary> processes;
  std::map<std::int64_t, Key> key_of_rank;
  for (const TraceRankIdentity& rank : report.trace_ranks) {
    const Key key(rank.key.path, rank.key.global_pid);
    key_of_rank[rank.trace_rank] = key;
    ProcessSummary& process = processes[key];
    process.path = rank.key.path;
    process.process_id = rank.process_id;
    process.trace_ranks.push_back(rank.trace_rank);
  }
  if (const Table* kernels = find_table(tables, schema::kernels_by_base_name)) {
    const auto& ranks = column(*kernels, schema::trace_rank);
    const auto& names = column(*kernels, schema::kernels_by_base_name.name);
    const auto& communication = column(*kernels, schema::kernels_by_base_name.communication);
    const auto& counts = column(*kernels, schema::kernels_by_base_name.durations.count);
    const auto& totals = column(*kernels, schema::kernels_by_base_name.durations.total);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      Sums& process = sums[key_of_rank[ranks[i]]];
      process.kernels.add(names[i], totals[i]);
      if (communication[i] != 0) process.communication.add(names[i], totals[i]);
      process.count += counts[i];
    }
  }
  if (const Table* barriers = find_table(tables, schema::barriers)) {
    const auto& ranks = column(*barriers, schema::trace_rank);
    const auto& names = column(*barriers, schema::barriers.name);
    const auto& totals = column(*barriers, schema::barriers.total_ns);
    const auto& kinds = column(*barriers, schema::barriers.kind);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (kinds[i] != launcher_gap) sums[key_of_rank[ranks[i]]].barriers.add(names[i], totals[i]);
    }
  }
  std::vector<ProcessSummary> result;
  for (auto& [key, process] : processes) {
    const Sums& sum = sums[key];
    process.kernel_ns = sum.kernels.total_ns;
    process.kernels = sum.count;
    process.communication_ns = sum.communication.total_ns;
    process.barrier_ns = sum.barriers.total_ns;
    process.top_kernel = sum.kernels.name;
    process.top_communication = sum.communication.name;
    process.top_barrier = sum.barriers.name;
    result.push_back(std::move(process));
  }
  return result;
}

std::vector<CategorySummary> categories_of(const Table* table) {
  if (table == nullptr) return {};
  const auto& ranks = column(*table, schema::categories.trace_rank);
  const auto& names = column(*table, schema::categories.category);
  const auto& elapsed = column(*table, schema::categories.elapsed_ns);
  const auto& shares = column(*table, schema::categories.share_percent);
  std::map<std::string_view, CategorySummary> sums;
  std::map<std::string_view, std::int64_t> seen;
  Nanoseconds all_ns = 0;
  std::int64_t rank_count = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == 0 || ranks[i] != ranks[i - 1]) ++rank_count;
    CategorySummary& sum = sums[names[i]];
    const double share = shares[i] / 100;
    sum.smallest_share = seen[names[i]]++ == 0 ? share : std::min(sum.smallest_share, share);
    sum.largest_share = std::max(sum.largest_share, share);
    sum.elapsed_ns += elapsed[i];
    all_ns += elapsed[i];
  }
  std::vector<CategorySummary> result;
  for (auto& [name, sum] : sums) {
    sum.category = name;
    sum.share = share_of(sum.elapsed_ns, all_ns);
    if (seen[name] < rank_count) sum.smallest_share = 0;  // some trace rank has none of it
    result.push_back(std::move(sum));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const CategorySummary& a, const CategorySummary& b) { return a.elapsed_ns > b.elapsed_ns; });
  return result;
}

LaunchSummary launches_of(const Table* table) {
  LaunchSummary summary;
  if (table == nullptr) return summary;
  const auto& ranks = column(*table, schema::trace_rank);
  const auto& launches = column(*table, schema::launch_storm.launches);
  const auto& rates = column(*table, schema::launch_storm.launches_per_second);
  const auto& storms = column(*table, schema::launch_storm.storm);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    summary.launches += launches[i];
    if (storms[i] != 0) summary.storming.push_back(static_cast<std::int32_t>(ranks[i]));
    if (rates[i] > summary.largest_rate) {
      summary.largest_rate = rates[i];
      summary.largest_trace_rank = static_cast<std::int32_t>(ranks[i]);
    }
  }
  return summary;
}

/// Profiler and CUDA overhead by name; the table tells them apart by a number.
std::vector<NamedTotal> overheads_of(const Table* table) {
  if (table == nullptr) return {};
  std::vector<NamedTotal> result;
  std::map<std::pair<std::int64_t, std::string_view>, NamedTotal> sums;
  const auto& is_profiler = column(*table, schema::profiler_overhead.profiler);
  const auto& names = column(*table, schema::profiler_overhead.name);
  const auto& counts = column(*table, schema::profiler_overhead.count);
  const auto& unions = column(*table, schema::profiler_overhead.union_ns);
  const auto& maxima = column(*table, schema::profiler_overhead.max_ns);
  for (std::size_t i = 0; i < names.size(); ++i) {
    NamedTotal& sum = sums[{is_profiler[i], names[i]}];
    sum.count += counts[i];
    sum.total_ns += unions[i];
    sum.max_ns = std::max(sum.max_ns, maxima[i]);
  }
  for (auto& [key, sum] : sums) {
    sum.kind = key.first != 0 ? "profiler" : "cuda";
    sum.name = key.second;
    result.push_back(std::move(sum));
  }
  bound(result);
  return result;
}

std::vector<Suspect> suspects_of(const ActivitySummary& summary, const std::vector<Table>& tables,
                                 const JobReport& report, Nanoseconds window_ns) {
  std::vector<Suspect> suspects;
  if (window_ns == 0) return suspects;  // there is nothing that they could be a share of
  const auto add = [&](std::string_view kind, const std::string& name, std::int64_t count, Nanoseconds total_ns) {
    const auto same_kind =
        std::count_if(suspects.begin(), suspects.end(), [&](const auto& s) { return s.kind == kind; });
    if (total_ns <= 0 || static_cast<std::size_t>(same_kind) >= suspects_of_kind) return;
    suspects.push_back({std::string(kind), name, count, total_ns, share_of(total_ns, window_ns)});
  };
  for (const KernelSummary& kernel : summary.kernels) {
    if (!kernel.communication) add("kernel", kernel.name, kernel.count, kernel.total_ns);
  }
  for (const KernelSummary& kernel : summary.communication) {
    add("communication", kernel.name, kernel.count, kernel.total_ns);
  }
  const auto add_rows = [&](std::string_view kind, const ShownTable& shown) {
    const Table sums = sums_of(tables, report, shown);
    for (std::size_t i = 0; i < sums.row_count(); ++i) {
      if (kind == "barrier" && column<std::string>(sums, "kind")[i] == launcher_gap) continue;
      add(kind, std::string(column<std::string>(sums, "name")[i]), column<std::int64_t>(sums, "count")[i],
          column<std::int64_t>(sums, "total_ns")[i]);
    }
  };
  add_rows("barrier", questions::barriers().shown);
  add_rows("idle", questions::idle_causes().shown);
  add_rows("copy", questions::memory_transfers().shown);
  std::stable_sort(suspects.begin(), suspects.end(),
                   [](const Suspect& a, const Suspect& b) { return a.total_ns > b.total_ns; });
  return suspects;
}

}  // namespace

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

ActivitySummary summarise_activity(const std::vector<Table>& tables, const JobReport& report) {
  using namespace schema;
  const auto table = [&](const Declaration& declaration) { return find_table(tables, declaration); };
  ActivitySummary summary;
  summary.kernels = kernels_by_name(table(kernels), false);
  summary.communication = kernels_by_name(table(kernels_by_base_name), true);
  add_overlap(table(communication_overlap), summary.communication);
  summary.overheads = overheads_of(table(profiler_overhead));
  if (const Table* overheads = table(profiler_overhead)) {
    const auto& is_profiler = column(*overheads, profiler_overhead.profiler);
    const auto& in_window = column(*overheads, profiler_overhead.in_window_ns);
    for (std::size_t i = 0; i < in_window.size(); ++i) {
      summary.profiler_in_window_ns += is_profiler[i] != 0 ? in_window[i] : 0;
    }
  }
  summary.processes = processes_of(tables, report);
  summary.categories = categories_of(table(categories));
  summary.gpu_speeds = gpu_speeds(tables);
  if (const Table* counters = table(gpu_counters))
    summary.compute_counters =
        spread_over_ranks(counters, gpu_counters.counter, gpu_counters.mean_percent,
                          [&](std::size_t i) { return column(*counters, gpu_counters.part)[i] == "compute"; });
  if (const Table* flops = table(model_flops))
    summary.mfu = spread_over_ranks(flops, model_flops.type, model_flops.mfu_percent,
                                    [&](std::size_t i) { return column(*flops, model_flops.peak_tflops)[i] > 0; });
  summary.launches = launches_of(table(launch_storm));
  if (const Table* memory = table(gpu_memory_summary)) {
    for (const std::int64_t peak : column(*memory, gpu_memory_summary.peak_bytes)) {
      summary.largest_gpu_memory_bytes = std::max(summary.largest_gpu_memory_bytes, peak);
    }
  }
  const Table* threads = table(thread_states);
  summary.has_thread_states = threads != nullptr && threads->row_count() > 0;
  Nanoseconds window_ns = 0;
  for (const RankSummary& rank : report.ranks) window_ns += rank.budget.window_ns;
  summary.suspects = suspects_of(summary, tables, report, window_ns);
  return summary;
}

}  // namespace nsys_explain::analysis
