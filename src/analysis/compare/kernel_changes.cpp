#include "analysis/compare/kernel_changes.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

struct KernelExecutions {
  double count = 0, total_ns = 0;

  void add(const KernelExecutions& others) {
    count += others.count;
    total_ns += others.total_ns;
  }
  double mean_us() const { return total_ns / count / 1e3; }
};

/// Of every compute kernel, over all trace ranks.
std::map<std::string, KernelExecutions> compute_executions(const RunTables& run) {
  std::map<std::string, KernelExecutions> sums;
  const Table* table = table_with(run, schema::kernels,
                                  {schema::kernels.name, schema::kernels.communication, schema::kernels.durations.count,
                                   schema::kernels.durations.total});
  if (table == nullptr) return sums;
  const auto& communication = column(*table, schema::kernels.communication);
  for (std::size_t r = 0; r < communication.size(); ++r) {
    if (communication[r] != 0) continue;
    sums[std::string(column(*table, schema::kernels.name)[r])].add(
        {static_cast<double>(column(*table, schema::kernels.durations.count)[r]),
         static_cast<double>(column(*table, schema::kernels.durations.total)[r])});
  }
  return sums;
}

/// What only one of two runs has.
struct OneSided {
  int names = 0;
  KernelExecutions all;
};

OneSided only_in(const std::map<std::string, KernelExecutions>& run,
                 const std::map<std::string, KernelExecutions>& other) {
  OneSided found;
  for (const auto& [name, executions] : run) {
    if (other.contains(name)) continue;
    ++found.names;
    found.all.add(executions);
  }
  return found;
}

}  // namespace

std::optional<double> compare_kernel_times(const RunTables& base, const RunTables& current) {
  const auto before = compute_executions(base);
  double expected_ns = 0, measured_ns = 0;
  for (const auto& [name, now] : compute_executions(current)) {
    const auto was = before.find(name);
    if (was == before.end() || was->second.count <= 0) continue;
    expected_ns += now.count * was->second.total_ns / was->second.count;
    measured_ns += now.total_ns;
  }
  return expected_ns > 0 ? std::optional(measured_ns / expected_ns) : std::nullopt;
}

std::optional<std::string> fused_kernels_note(const RunTables& base, const RunTables& current) {
  constexpr double least_share = 0.01, least_time = 0.25, most_time = 1.25;
  const auto before = compute_executions(base), after = compute_executions(current);
  KernelExecutions all_before, common_before, common_after;
  for (const auto& [name, executions] : before) {
    all_before.add(executions);
    const auto now = after.find(name);
    if (now == after.end()) continue;
    common_before.add(executions);
    common_after.add(now->second);
  }
  const OneSided gone = only_in(before, after), came = only_in(after, before);
  if (common_before.count <= 0 || common_after.count <= 0 || gone.all.count <= 0 || came.all.count <= 0) return {};
  const double scale = common_after.count / common_before.count;  // of the work that both runs did
  const double time = came.all.total_ns / (scale * gone.all.total_ns);
  const bool fewer_and_longer = came.all.count < scale * gone.all.count && came.all.mean_us() > gone.all.mean_us();
  if (!fewer_and_longer || gone.all.total_ns < least_share * all_before.total_ns) return {};
  if (time < least_time || time > most_time) return {};
  return fmt::format(
      "compute kernels of {} name{} ({:.0f} executions, {:.1f} us each on average) are gone, and of {} other{} came "
      "{:.0f} ({:.1f} us each): fewer and longer ones, as where kernels are fused; for as much work they take {:.0f}% "
      "of the time",
      gone.names, gone.names == 1 ? "" : "s", gone.all.count, gone.all.mean_us(), came.names,
      came.names == 1 ? "" : "s", came.all.count, came.all.mean_us(), 100 * time);
}

}  // namespace nsys_explain::analysis
