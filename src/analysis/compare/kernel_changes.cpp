#include "analysis/compare/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "model/schema/gpu.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/model/names.hpp"

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

namespace {

/// What one trace rank does by itself, per step.
struct OwnTime {
  double compute_ns = 0, copy_ns = 0, idle_ns = 0, graph_ns = 0;

  double sum_ns() const { return compute_ns + copy_ns + idle_ns + graph_ns; }
};

using OwnTimes = std::map<std::int64_t, OwnTime>;

OwnTimes own_times(const RunTables& run, double amount) {
  OwnTimes times;
  const auto& ranks = schema::ranks;
  const Table* const table =
      table_with(run, ranks, {ranks.trace_rank, ranks.compute_ns, ranks.copy_ns, ranks.opaque_graph_ns, ranks.idle_ns});
  if (table == nullptr || amount <= 0) return times;
  const auto per_step = [&](const schema::Integer& figure, std::size_t row) {
    return static_cast<double>(column(*table, figure)[row]) / amount;
  };
  for (std::size_t r = 0; r < table->row_count(); ++r)
    times[column(*table, ranks.trace_rank)[r]] = {per_step(ranks.compute_ns, r), per_step(ranks.copy_ns, r),
                                                  per_step(ranks.idle_ns, r), per_step(ranks.opaque_graph_ns, r)};
  return times;
}

/// Count and total of a trace rank's compute kernels by name.
using KernelSums = std::map<std::pair<std::int64_t, std::string>, std::pair<double, double>>;

KernelSums kernel_sums(const RunTables& run) {
  KernelSums sums;
  const auto& kernels = schema::kernels;
  const Table* const table = table_with(
      run, kernels,
      {schema::trace_rank, kernels.name, kernels.communication, kernels.durations.count, kernels.durations.total});
  if (table == nullptr) return sums;
  for (std::size_t r = 0; r < table->row_count(); ++r) {
    if (column(*table, kernels.communication)[r] != 0) continue;
    auto& [count, total] = sums[{column(*table, schema::trace_rank)[r], std::string(column(*table, kernels.name)[r])}];
    count += static_cast<double>(column(*table, kernels.durations.count)[r]);
    total += static_cast<double>(column(*table, kernels.durations.total)[r]);
  }
  return sums;
}

/// As Comparison::kernel_time_ratio, of some trace ranks, each against itself.
std::optional<double> kernel_time_ratio(const std::set<std::int64_t>& ranks, const KernelSums& base,
                                        const KernelSums& current) {
  double expected_ns = 0, measured_ns = 0;
  for (const auto& [key, now] : current) {
    const auto was = base.find(key);
    if (!ranks.contains(key.first) || was == base.end() || was->second.first <= 0) continue;
    expected_ns += now.first * was->second.second / was->second.first;
    measured_ns += now.second;
  }
  return expected_ns > 0 ? std::optional(measured_ns / expected_ns) : std::nullopt;
}

/// Node by trace rank, of ranks on several nodes.
std::map<std::int64_t, std::string> nodes_of(const RunTables& run) {
  std::map<std::int64_t, std::string> nodes;
  const auto& places = schema::rank_places;
  const Table* const table = table_with(run, places, {schema::trace_rank, places.level, places.place});
  for (std::size_t r = 0; table != nullptr && r < table->row_count(); ++r)
    if (column(*table, places.level)[r] == level_name(Level::node))
      nodes[column(*table, schema::trace_rank)[r]] = column(*table, places.place)[r];
  return nodes;
}

OwnTime mean_of(const std::set<std::int64_t>& ranks, const OwnTimes& times) {
  OwnTime mean;
  for (const std::int64_t rank : ranks) {
    const OwnTime& one = times.at(rank);
    mean.compute_ns += one.compute_ns;
    mean.copy_ns += one.copy_ns;
    mean.idle_ns += one.idle_ns;
    mean.graph_ns += one.graph_ns;
  }
  const auto count = static_cast<double>(ranks.size());
  return {mean.compute_ns / count, mean.copy_ns / count, mean.idle_ns / count, mean.graph_ns / count};
}

ChangedPlace changed_place(const std::set<std::int64_t>& ranks, const OwnTime& before, const OwnTime& now,
                           std::optional<double> kernel_ratio) {
  ChangedPlace place;
  place.trace_ranks.assign(ranks.begin(), ranks.end());
  place.base_ns = before.sum_ns();
  place.current_ns = now.sum_ns();
  const double slower_ns = kernel_ratio ? now.compute_ns * (1 - 1 / *kernel_ratio) : 0;
  const std::array<std::tuple<ChangedPart, double, double>, 5> parts = {
      std::tuple(ChangedPart::kernel_speed, now.compute_ns - slower_ns, now.compute_ns),
      {ChangedPart::kernel_work, before.compute_ns, now.compute_ns - slower_ns},
      {ChangedPart::copies, before.copy_ns, now.copy_ns},
      {ChangedPart::idle, before.idle_ns, now.idle_ns},
      {ChangedPart::graphs, before.graph_ns, now.graph_ns}};
  const auto most = std::max_element(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
    const double sign = place.current_ns < place.base_ns ? -1 : 1;
    return sign * (std::get<2>(a) - std::get<1>(a)) < sign * (std::get<2>(b) - std::get<1>(b));
  });
  std::tie(place.part, place.part_base_ns, place.part_current_ns) = *most;
  return place;
}

/// The trace ranks that changed by nodes, where all of a node did, else each by itself.
std::map<std::string, std::set<std::int64_t>> by_place(const std::set<std::int64_t>& changed,
                                                       const std::map<std::int64_t, std::string>& nodes) {
  std::map<std::string, std::set<std::int64_t>> members, places;
  for (const auto& [rank, node] : nodes) members[node].insert(rank);
  for (const std::int64_t rank : changed) {
    const auto node = nodes.find(rank);
    const std::string name = node == nodes.end() ? "" : node->second;
    const std::set<std::int64_t>& all = members[name];
    const bool whole = all.size() > 1 && std::includes(changed.begin(), changed.end(), all.begin(), all.end());
    places[whole ? "node " + name : "rank " + std::to_string(rank) + (name.empty() ? "" : " (" + name + ")")].insert(
        rank);
  }
  return places;
}

}  // namespace

std::vector<ChangedPlace> find_changed_places(const RunTables& base, const RunTables& current,
                                              const Comparison& comparison, double change_ns) {
  constexpr double enough = 0.5;  // of the step's change: what a rank waits less for others makes up the rest
  const OwnTimes before = own_times(base, comparison.amount(comparison.base())),
                 now = own_times(current, comparison.amount(comparison.current()));
  std::set<std::int64_t> changed;
  for (const auto& [rank, time] : now) {
    const auto was = before.find(rank);
    if (was == before.end() || before.size() != now.size()) return {};
    const double own_ns = time.sum_ns() - was->second.sum_ns();
    if (own_ns * change_ns > 0 && std::abs(own_ns) >= enough * std::abs(change_ns)) changed.insert(rank);
  }
  const KernelSums kernels_before = kernel_sums(base), kernels_now = kernel_sums(current);
  std::vector<ChangedPlace> places;
  const auto groups = changed.size() == now.size()
                          ? std::map<std::string, std::set<std::int64_t>>{{"all ranks", changed}}
                          : by_place(changed, nodes_of(current));
  for (const auto& [name, ranks] : groups) {
    if (ranks.empty()) continue;
    places.push_back(changed_place(ranks, mean_of(ranks, before), mean_of(ranks, now),
                                   kernel_time_ratio(ranks, kernels_before, kernels_now)));
    places.back().place = name;
  }
  std::stable_sort(places.begin(), places.end(), [](const ChangedPlace& a, const ChangedPlace& b) {
    return std::abs(a.current_ns - a.base_ns) > std::abs(b.current_ns - b.base_ns);
  });
  return places;
}

}  // namespace nsys_explain::analysis
