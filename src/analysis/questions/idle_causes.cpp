#include "analysis/questions/question.hpp"

#include <algorithm>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {
namespace {

constexpr double idle_worth_telling = 0.05;  // of the window of all trace ranks

/// The late by what their hosts did: meanwhile their GPUs are idle.
LateRanks late_by_host(const JobReport& report) {
  return late_by(report, {Cause::launch_starved, Cause::sync_stall, Cause::blocking_copy, Cause::allocation,
                          Cause::profiler_overhead});
}

LatePart told_of_idle(const JobReport& report, std::string_view cause) {
  LateRanks late = late_by_host(report);
  const auto is_of_cause = [&](const Table& table, std::size_t i) {
    return column(table, schema::idle_causes.cause)[i] == cause;
  };
  const Nanoseconds told_ns =
      surplus_of(late, time_of_ranks(report, schema::idle_causes, schema::idle_causes.gaps.total, is_of_cause));
  return {std::move(late), told_ns};
}

LatePart told_of_all_idle(const JobReport& report) {
  LateRanks late = late_by_host(report);
  TimeOfRank idle_ns;
  for (const RankSummary& rank : report.ranks) idle_ns[rank.trace_rank] = rank.budget.idle_ns;
  const Nanoseconds told_ns = surplus_of(late, idle_ns);
  return {std::move(late), told_ns};
}

ShownTable idle_causes_shown() {
  const auto& table = schema::idle_causes;
  return {
      .table = table.table_name(),
      .findings = {"launch-starved", "dependency-stalled", "gpu-idle"},
      .view = "idle",
      .list = "idle_causes",
      .folding = {.columns = {{"name", table.cause, FoldedColumn::By::key},
                              {"count", table.gaps.count},
                              {"total_ns", table.gaps.total},
                              {"max_ns", table.gaps.max, FoldedColumn::By::largest}},
                  .order = "total_ns"},
      .title = "Idle GPU time by cause",
      .derivation =
          "launch_starved: the host launched the next activity only after the GPU had run dry. dependency_stalled: launched in time, waiting for another stream. other: neither, or the launch is not in the trace.",
      .cells = {{"cause", "name"}, {"total", "total_ns"}, {"gaps", "count"}, {"longest", "max_ns"}},
      .rest = "table `idle_causes` of store.h5",
      .note = "Single gaps: table `idle_gaps`; over time: table `gpu_utilisation` of store.h5."};
}

/// Idle time by its causes, then what of it no such finding has told, nor those about the late.
void find_idle_time(const JobReport& report, std::vector<Finding>& findings) {
  const Windows windows = windows_of(report);
  const Table sums = sums_of(report.tables, report, idle_causes_shown());
  Nanoseconds idle_ns = 0, told_ns = 0, late_ns = 0;
  for (const RankSummary& rank : report.ranks) idle_ns += rank.budget.idle_ns;
  const auto add = [&](const char* cause, const char* id, const char* title, const char* recommendation) {
    const auto idle = [&](std::string_view figure) { return figure_of(sums, cause, figure); };
    const LatePart late = told_of_idle(report, cause);
    late_ns += late.time_ns;
    const Nanoseconds left_ns = idle("total_ns") - late.time_ns;
    const double part = share(left_ns, windows.ranks_ns);
    if (part < idle_worth_telling) return;
    told_ns += left_ns;
    findings.push_back(
        {.id = id,
         .severity = severity_of(part),
         .title = fmt::format("{:.1f}% of GPU time is idle {}{}", 100 * part, title, late.beside()),
         .evidence = {fmt::format("{} in {} gaps, the longest {:.3f} ms; GPUs are idle for {} in all",
                                  gpu_time(idle("total_ns")), idle("count"), static_cast<double>(idle("max_ns")) * 1e-6,
                                  gpu_time_of(idle_ns, windows.ranks_ns)),
                      fmt::format("rows: idle_gaps where cause = '{}'", cause)},
         .recommendation = recommendation,
         .cost_ns = left_ns});
    late.add_to(findings.back().evidence);
  };
  add("launch_starved", "launch-starved", "because the host launched the next work too late",
      "see the barriers and CUDA calls of the host: remove synchronising calls from the loop, launch ahead, use CUDA graphs or fewer, larger kernels; check the input pipeline and the CPU's load");
  add("dependency_stalled", "dependency-stalled", "waiting for another stream, with work already launched",
      "order the work so that streams overlap, record events as early as possible, and split what others wait for");
  LatePart late = told_of_all_idle(report);
  late.time_ns = std::max(late.time_ns, late_ns);
  const Nanoseconds left_ns = idle_ns - told_ns - late.time_ns;
  if (const double part = share(left_ns, windows.ranks_ns); part >= idle_worth_telling) {
    findings.push_back(
        {.id = "gpu-idle",
         .severity = severity_of(part),
         .title = fmt::format("GPUs are idle for {:.1f}% of their time{}{}", 100 * part,
                              told_ns > 0 ? " for other reasons" : "", late.beside()),
         .evidence = {fmt::format("{} between the first and the last GPU activity of each rank",
                                  gpu_time_of(left_ns, windows.ranks_ns))},
         .recommendation =
             "look for late launches, synchronising calls and input pipelines on the host; CUDA graphs cut launch cost",
         .cost_ns = left_ns});
    late.add_to(findings.back().evidence);
  }
}

}  // namespace

Question idle_causes() {
  return {.shown = idle_causes_shown(), .find = find_idle_time};
}

}  // namespace nsys_explain::analysis::questions
