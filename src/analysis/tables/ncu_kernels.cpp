#include "analysis/tables/side_files.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"

namespace nsys_explain::analysis {
namespace {

using Row = std::vector<std::string>;

std::optional<std::size_t> column_of(const Row& header, std::string_view name) {
  const auto found = std::find(header.begin(), header.end(), name);
  return found == header.end() ? std::nullopt : std::optional<std::size_t>(found - header.begin());
}

/// Metrics of one launch by name.
using Metrics = std::map<std::string, double>;

double scale_of(std::string_view unit) {
  if (unit == "Kbyte") return 1e3;
  if (unit == "Mbyte") return 1e6;
  if (unit == "Gbyte") return 1e9;
  if (unit == "Tbyte") return 1e12;
  return 1;
}

double first_of(const Metrics& metrics, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = metrics.find(name); found != metrics.end()) return found->second;
  return -1;
}

/// -1 where nothing was counted.
double flops_of(const Metrics& metrics) {
  constexpr std::array<std::pair<const char*, double>, 9> operations{{{"dadd", 1},
                                                                      {"dmul", 1},
                                                                      {"dfma", 2},
                                                                      {"fadd", 1},
                                                                      {"fmul", 1},
                                                                      {"ffma", 2},
                                                                      {"hadd", 1},
                                                                      {"hmul", 1},
                                                                      {"hfma", 2}}};
  double flops = 0;
  bool counted = false;
  for (const auto& [operation, weight] : operations) {
    const double half_lanes = operation[0] == 'h' ? 2 : 1;  // an instruction works on a pair of halves
    const auto found = metrics.find(fmt::format("smsp__sass_thread_inst_executed_op_{}_pred_on.sum", operation));
    if (found == metrics.end()) continue;
    flops += weight * half_lanes * found->second;
    counted = true;
  }
  for (const auto& [name, value] : metrics) {
    const bool tensor = name.starts_with("sm__ops_path_tensor_src_") && name.ends_with(".sum") &&
                        name.find("sparsity_on") == std::string::npos;
    if (!tensor) continue;
    flops += value;
    counted = true;
  }
  return counted ? flops : -1;
}

using Stalls = std::map<std::string, double>;

/// By section WarpStateStats, by its shares, by its latencies, and by samples of the program counter (SourceCounters).
/// They count different things.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> stall_families{
    {{"smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"},
     {"smsp__warp_issue_stalled_", "_per_warp_active.pct"},
     {"smsp__average_warp_latency_issue_stalled_", ".ratio"},
     {"smsp__average_warp_latency_issue_stalled_", ".pct"},
     {"smsp__pcsamp_warps_issue_stalled_", ""}}};

Stalls stalls_of(const Metrics& metrics, std::size_t family) {
  const auto& [prefix, suffix] = stall_families[family];
  Stalls stalls;
  for (const auto& [name, value] : metrics) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() < prefix.size() + suffix.size()) continue;
    const std::string reason = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    if (reason == "selected" || reason.ends_with("_not_issued") || value <= 0) continue;  // no stall; counted twice
    stalls[reason] = value;
  }
  return stalls;
}

/// Of all launches of a kernel, by the first family that any of them has.
Stalls stalls_of(const std::vector<const Metrics*>& launches) {
  for (std::size_t family = 0; family < stall_families.size(); ++family) {
    Stalls sums;
    for (const Metrics* launch : launches)
      for (const auto& [reason, value] : stalls_of(*launch, family)) sums[reason] += value;
    if (!sums.empty()) return sums;
  }
  return {};
}

/// The columns of metric values: one, or in the raw page all that are named like hardware counters.
std::vector<std::size_t> value_columns(const Row& names) {
  if (const auto value = column_of(names, "Metric Value")) return {*value};
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < names.size(); ++c)
    if (names[c].find("__") != std::string::npos) columns.push_back(c);
  return columns;
}

/// Launches by (kernel, process, id), whichever form the file has. Ids count from 0 in every process.
std::map<std::array<std::string, 3>, Metrics> read_launches(const std::vector<Row>& rows, std::size_t header) {
  std::map<std::array<std::string, 3>, Metrics> launches;
  const Row& names = rows[header];
  const std::size_t id = *column_of(names, "ID"), kernel = *column_of(names, "Kernel Name");
  const auto process = column_of(names, "Process ID"), metric = column_of(names, "Metric Name"),
             unit = column_of(names, "Metric Unit");
  const std::vector<std::size_t> values = value_columns(names);
  const std::size_t needed = std::max(
      {id, kernel, process.value_or(0), metric.value_or(0), unit.value_or(0), values.empty() ? 0 : values.back()});
  const auto is_launch = [&](const Row& row) { return row.size() > needed && !row[id].empty(); };
  const Row units = !metric && header + 1 < rows.size() && !is_launch(rows[header + 1]) ? rows[header + 1] : Row();
  DecimalMark mark = DecimalMark::point;
  for (std::size_t r = header + 1; r < rows.size(); ++r) {
    for (const std::size_t c : values)
      if (is_launch(rows[r]) && decimal_mark_of(rows[r][c]) == DecimalMark::comma) mark = DecimalMark::comma;
  }
  for (std::size_t r = header + 1; r < rows.size(); ++r) {
    const Row& row = rows[r];
    if (!is_launch(row)) continue;  // the row of units, a message between the lines
    Metrics& metrics = launches[{row[kernel], process ? row[*process] : std::string(), row[id]}];
    for (const std::size_t c : values) {
      const std::string& name = metric ? row[*metric] : names[c];
      const std::string_view its_unit = metric ? (unit ? std::string_view(row[*unit]) : std::string_view())
                                               : (c < units.size() ? std::string_view(units[c]) : std::string_view());
      if (const auto number = parse_number(row[c], mark)) metrics[name] = *number * scale_of(its_unit);
    }
  }
  return launches;
}

double dram_bytes_of(const Metrics& metrics) {
  const double both = first_of(metrics, {"dram__bytes.sum"});
  const double read = first_of(metrics, {"dram__bytes_read.sum"}),
               written = first_of(metrics, {"dram__bytes_write.sum"});
  return both < 0 && read >= 0 && written >= 0 ? read + written : both;
}

/// Metric names of nvprof's successor (Nsight Compute, "nvprof transition guide").
double bank_conflicts_of(const Metrics& metrics) {
  const double all = first_of(metrics, {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"});
  const double loads = first_of(metrics, {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"}),
               stores = first_of(metrics, {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"});
  return all < 0 && loads >= 0 && stores >= 0 ? loads + stores : all;
}

/// `operation`: "ld" or "st".
double sectors_of(const Metrics& metrics, std::string_view operation) {
  const auto metric = [&](std::string_view begin, std::string_view end) {
    const auto found = metrics.find(fmt::format("{}_pipe_lsu_mem_global_op_{}{}", begin, operation, end));
    return found == metrics.end() ? -1 : found->second;
  };
  const double sectors = metric("l1tex__t_sectors", ".sum"), requests = metric("l1tex__t_requests", ".sum");
  const double average = metric("l1tex__average_t_sectors_per_request", ".ratio");
  return average < 0 && sectors >= 0 && requests > 0 ? sectors / requests : average;
}

/// Running average of what was collected.
void join(double& average, double value, std::int64_t& count) {
  if (value < 0) return;
  average = count == 0 ? value : (average * static_cast<double>(count) + value) / static_cast<double>(count + 1);
  ++count;
}

}  // namespace

std::string top_stall(const std::map<std::string, double>& stalls) {
  const auto most =
      std::max_element(stalls.begin(), stalls.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == stalls.end() ? std::string() : most->first;
}

std::vector<NcuKernel> parse_ncu_csv(std::string_view text) {
  const std::vector<Row> rows = parse_csv(text);
  const auto header = std::find_if(
      rows.begin(), rows.end(), [](const Row& row) { return column_of(row, "ID") && column_of(row, "Kernel Name"); });
  if (header == rows.end()) {
    throw std::runtime_error(
        "it has no header with 'ID' and 'Kernel Name', so it is not Nsight Compute's CSV and no kernel's work is known; make it with: ncu --import REPORT.ncu-rep --csv --page raw > FILE.csv");
  }
  struct Read {
    NcuKernel kernel;
    std::array<std::int64_t, 10> counts{};
    std::vector<const Metrics*> launches;
  };
  std::map<std::string, Read> kernels;
  const auto all_launches = read_launches(rows, static_cast<std::size_t>(header - rows.begin()));
  for (const auto& [key, metrics] : all_launches) {
    auto& [kernel, counts, launches] = kernels[key[0]];
    launches.push_back(&metrics);
    kernel.name = key[0];
    ++kernel.launches;
    join(kernel.flops, flops_of(metrics), counts[0]);
    join(kernel.dram_bytes, dram_bytes_of(metrics), counts[1]);
    join(kernel.sm_percent,
         first_of(metrics, {"sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput", "SM [%]",
                            "Compute (SM) [%]"}),
         counts[2]);
    join(kernel.dram_percent,
         first_of(metrics, {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                            "dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput"}),
         counts[3]);
    join(kernel.tensor_percent,
         first_of(metrics, {"sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
                            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                            "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"}),
         counts[4]);
    join(kernel.l2_hit_percent, first_of(metrics, {"lts__t_sector_hit_rate.pct", "L2 Hit Rate"}), counts[5]);
    join(kernel.occupancy_percent,
         first_of(metrics, {"sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"}), counts[6]);
    join(kernel.bank_conflicts, bank_conflicts_of(metrics), counts[7]);
    join(kernel.sectors_per_load, sectors_of(metrics, "ld"), counts[8]);
    join(kernel.sectors_per_store, sectors_of(metrics, "st"), counts[9]);
  }
  std::vector<NcuKernel> result;
  for (auto& [name, read] : kernels) {
    read.kernel.stalls = stalls_of(read.launches);
    result.push_back(std::move(read.kernel));
  }
  return result;
}

}  // namespace nsys_explain::analysis
