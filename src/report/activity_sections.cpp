#include "report/activity_sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "report/markdown_parts.hpp"
#include "report/markdown_table.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

using Align = MarkdownTable::Align;

constexpr std::size_t few_rows = 8;  ///< many short sections must stay readable together
constexpr std::size_t name_width = 52;

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

/// Below this the normal tail is not worth digits.
std::string p_value(double p) {
  return p < 1e-16 ? "< 1e-16" : fmt::format("{:.1e}", p);
}

std::string nothing(std::string_view reason) {
  return wrap(reason, "", "");
}

/// The first rows of `elements` as a table; `to_row` makes a row of cells.
template <class T, class ToRow>
std::string short_table(std::vector<MarkdownTable::Column> columns, const std::vector<T>& elements, const ToRow& to_row,
                        std::string_view where, std::size_t most_rows = few_rows) {
  MarkdownTable table{std::move(columns), {}};
  const std::size_t shown = std::min(elements.size(), most_rows);
  for (std::size_t i = 0; i < shown; ++i) table.rows.push_back(to_row(elements[i]));
  return table.to_string() + rest_note(elements.size(), shown, where);
}

std::string suspects_section(const ActivitySummary& a) {
  const std::string out =
      heading("Global critical path suspects",
              "What takes most time over all trace ranks, at most three of each kind. Share is of the windows of all "
              "trace ranks; kinds overlap: a host that waits in a barrier may wait for a busy GPU.");
  if (a.suspects.empty()) return out + nothing("None: no trace rank has GPU activity.");
  return out + short_table(
                   {{"kind", Align::left}, {"name", Align::left}, {"total"}, {"share"}, {"count"}}, a.suspects,
                   [](const Suspect& s) -> std::vector<std::string> {
                     return {s.kind, markdown_code(s.name, name_width), format_duration(s.total_ns), percent(s.share),
                             format_count(s.count)};
                   },
                   "`activity.suspects` in report.json", 10);
}

std::string kernels_section(const ActivitySummary& a) {
  if (a.kernels.empty()) return {};
  return heading("Top kernels",
                 "Sums of durations over all trace ranks; share is of the sum of all kernels. Tail is what the slowest "
                 "executions cost: (p99 - median) x count.") +
         short_table(
             {{"kernel", Align::left}, {"total"}, {"share"}, {"count"}, {"longest"}, {"tail"}}, a.kernels,
             [](const KernelSummary& k) -> std::vector<std::string> {
               return {markdown_code(k.name, name_width),
                       format_duration(k.total_ns),
                       percent(k.share),
                       format_count(k.count),
                       format_duration(k.max_ns),
                       format_duration(static_cast<Nanoseconds>(k.tail_score_ns))};
             },
             "tables `kernels`, `kernels_by_launch`, `kernel_histogram`, `kernel_pacing` of store.h5");
}

std::string communication_section(const ActivitySummary& a) {
  const std::string out = heading(
      "Top NCCL ops",
      "Communication kernels by base name over all trace ranks, waiting included; overlapped is the part during "
      "which compute ran on the same GPU. Waits and transfers: `Collectives by operation`.");
  if (a.communication.empty()) {
    return out + nothing(
                     "None: no communication kernel was recorded. A job of one GPU has none; inside CUDA graphs they "
                     "show only with --cuda-graph-trace=node.");
  }
  return out + short_table(
                   {{"kernel", Align::left},
                    {"total"},
                    {"of kernels"},
                    {"count"},
                    {"longest"},
                    {"overlapped"},
                    {"most in rank"}},
                   a.communication,
                   [](const KernelSummary& k) -> std::vector<std::string> {
                     return {markdown_code(k.name, 44),
                             format_duration(k.total_ns),
                             percent(k.share),
                             format_count(k.count),
                             format_duration(k.max_ns),
                             format_share(k.overlapped_ns, k.total_ns),
                             fmt::format("{}", k.largest_trace_rank)};
                   },
                   "table `communication_overlap` of store.h5");
}

std::string barriers_section(const ActivitySummary& a) {
  const std::string out =
      heading("Top CPU-GPU barriers",
              "Where the host stopped: calls that wait for the GPU, blocking copies, waits in the operating system on "
              "threads that launch, and pauses of 100 us or more without a launching call, which hold the others. Sums "
              "over all "
              "processes.");
  if (a.barriers.empty()) {
    return out + nothing("None: no such call was recorded, or no CUDA calls at all (capture with -t cuda).");
  }
  return out + short_table(
                   {{"kind", Align::left}, {"name", Align::left}, {"total"}, {"count"}, {"longest"}}, a.barriers,
                   [](const NamedTotal& b) -> std::vector<std::string> {
                     return {b.kind, markdown_code(b.name, name_width), format_duration(b.total_ns),
                             format_count(b.count), format_duration(b.max_ns)};
                   },
                   "table `barriers` of store.h5");
}

std::string processes_section(const ActivitySummary& a) {
  const std::string out =
      heading("Per-process breakdown",
              "Sums of durations of the kernels, communication kernels and barriers of each process, "
              "with the one that has most of each.");
  if (a.processes.empty()) return out + nothing("None: no process has GPU activity.");
  return out + short_table(
                   {{"process"},
                    {"file", Align::left},
                    {"kernels"},
                    {"comm."},
                    {"barriers"},
                    {"top kernel", Align::left},
                    {"top barrier", Align::left}},
                   a.processes,
                   [](const ProcessSummary& p) -> std::vector<std::string> {
                     return {fmt::format("{}", p.process_id), markdown_path(p.path, 22),
                             format_duration(p.kernel_ns),    format_duration(p.communication_ns),
                             format_duration(p.barrier_ns),   markdown_code(p.top_kernel, 26),
                             markdown_code(p.top_barrier, 24)};
                   },
                   "`activity.processes` in report.json");
}

std::string idle_section(const ActivitySummary& a) {
  const bool any = std::any_of(a.idle_causes.begin(), a.idle_causes.end(), [](const auto& c) { return c.count > 0; });
  if (!any) return {};
  return heading(
             "Idle GPU time by cause",
             "launch_starved: the host launched the next activity only after the GPU had run dry. "
             "dependency_stalled: launched in time, waiting for another stream. other: neither, or the launch is not "
             "in the trace.") +
         short_table(
             {{"cause", Align::left}, {"total"}, {"gaps"}, {"longest"}}, a.idle_causes,
             [](const NamedTotal& c) -> std::vector<std::string> {
               return {c.name, format_duration(c.total_ns), format_count(c.count), format_duration(c.max_ns)};
             },
             "table `idle_causes` of store.h5") +
         wrap("Single gaps: table `idle_gaps`; over time: table `gpu_utilisation` of store.h5.", "\n", "");
}

std::string categories_section(const ActivitySummary& a) {
  if (a.categories.empty()) return {};
  std::vector<CategorySummary> rows = a.categories;
  constexpr std::size_t most_categories = 12;
  if (rows.size() > most_categories) rows.resize(most_categories);
  CategorySummary all;
  all.category = "in all";
  for (const CategorySummary& c : a.categories) all.elapsed_ns += c.elapsed_ns;
  all.share = all.smallest_share = all.largest_share = 1;
  rows.push_back(all);
  return heading(
             "GPU time by category",
             fmt::format("No moment counted twice; categories by the map {} (--categories, --category-map, "
                         "--categories-of). The last two columns are the trace ranks with the smallest and the largest "
                         "share.",
                         markdown_text(a.category_map, 40))) +
         short_table(
             {{"category", Align::left}, {"elapsed"}, {"share"}, {"smallest"}, {"largest"}}, rows,
             [](const CategorySummary& c) -> std::vector<std::string> {
               return {markdown_text(c.category, 40), format_duration(c.elapsed_ns), percent(c.share),
                       percent(c.smallest_share), percent(c.largest_share)};
             },
             "", rows.size()) +
         rest_note(a.categories.size(), rows.size() - 1, "tables `categories` and `category_kernels` of store.h5");
}

std::string speeds_section(const ActivitySummary& a) {
  if (a.gpu_speeds.empty()) return {};
  std::vector<GpuSpeed> slowest = a.gpu_speeds;
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](const GpuSpeed& x, const GpuSpeed& y) { return x.ratio > y.ratio; });
  return heading("Same kernels on different GPUs",
                 "Compute kernels of equal name, grid and block: the ratio to the peers' medians, slowest first. Slow: "
                 "significant, at least 2%, and unlike the other trace ranks.") +
         short_table(
             {{"rank"}, {"ratio"}, {"p-value"}, {"kernels"}, {"verdict", Align::left}}, slowest,
             [](const GpuSpeed& s) -> std::vector<std::string> {
               return {fmt::format("{}", s.trace_rank), fmt::format("{:.3f}", s.ratio), p_value(s.p_value),
                       format_count(s.kernels), s.slow ? "slow" : "alike"};
             },
             "tables `gpu_speed`, `kernel_peers` and `kernel_imbalance` of store.h5");
}

std::string spread_table(const char* what, const std::vector<PercentSpread>& spreads, std::string_view where) {
  return short_table(
      {{what, Align::left}, {"lowest"}, {"of trace rank"}, {"median"}, {"highest"}, {"of trace rank"}}, spreads,
      [](const PercentSpread& s) -> std::vector<std::string> {
        return {s.name,
                fmt::format("{:.1f}%", s.lowest),
                fmt::format("{}", s.lowest_trace_rank),
                fmt::format("{:.1f}%", s.median),
                fmt::format("{:.1f}%", s.highest),
                fmt::format("{}", s.highest_trace_rank)};
      },
      where);
}

std::string utilisation_section(const ActivitySummary& a) {
  std::string out;
  if (!a.mfu.empty())
    out += heading("Model FLOPs utilisation",
                   "FLOPs of the logged matrix multiplications over what the GPU could do in the window, by type.") +
           spread_table("type", a.mfu, "table `model_flops` of store.h5");
  if (!a.compute_counters.empty())
    out +=
        heading("SMs, tensor cores, memory and PCIe",
                "GPU metrics in percent of the hardware's peak: means of each trace rank while compute kernels run.") +
        spread_table("counter", a.compute_counters, "tables `gpu_counters` and `kernel_counters` of store.h5");
  return out;
}

std::string cpu_section(const ActivitySummary& a) {
  if (a.cpu_functions.empty()) return {};
  return heading(
             "Functions of the launching threads",
             "Where CPU samples found the threads that launch, over all processes; a sample counts for its period.") +
         short_table(
             {{"function", Align::left}, {"time"}, {"samples"}}, a.cpu_functions,
             [](const NamedTotal& f) -> std::vector<std::string> {
               return {markdown_code(f.name, name_width), format_duration(f.total_ns), format_count(f.count)};
             },
             "table `cpu_functions` of store.h5", 5);
}

std::string host_section(const ActivitySummary& a) {
  if (a.api_calls.empty()) return {};
  return heading("CUDA calls of the host", "Runtime and driver calls by name, over all processes and threads.") +
         short_table(
             {{"call", Align::left}, {"total"}, {"count"}, {"longest"}}, a.api_calls,
             [](const NamedTotal& c) -> std::vector<std::string> {
               return {markdown_code(c.name, name_width), format_duration(c.total_ns), format_count(c.count),
                       format_duration(c.max_ns)};
             },
             "tables `cuda_api`, `kernel_launches`, `launch_latency` and `allocations` of store.h5", 5);
}

std::string rules_section(const ActivitySummary& a) {
  std::vector<NamedTotal> broken;
  for (const NamedTotal& rule : a.rules) {
    if (rule.count > 0) broken.push_back(rule);
  }
  if (broken.empty()) return {};
  return heading("Expert rules", "The rules of `nsys analyze` with its default limits, joined by process.") +
         short_table(
             {{"rule", Align::left}, {"cases"}, {"total"}, {"bytes"}}, broken,
             [](const NamedTotal& r) -> std::vector<std::string> {
               return {r.name, format_count(r.count), format_duration(r.total_ns),
                       r.bytes > 0 ? format_bytes(r.bytes) : "-"};
             },
             "table `expert_rules` of store.h5") +
         wrap("Single cases: table `expert_rule_cases` of store.h5.", "\n", "");
}

std::string transfers_section(const ActivitySummary& a) {
  if (a.transfers.empty()) return {};
  return heading("Copies and sets",
                 "By operation, over all trace ranks; bandwidth is bytes over the sum of durations.") +
         short_table(
             {{"operation", Align::left}, {"total"}, {"count"}, {"bytes"}, {"bandwidth"}}, a.transfers,
             [](const NamedTotal& t) -> std::vector<std::string> {
               const double gbs = t.total_ns > 0 ? static_cast<double>(t.bytes) / static_cast<double>(t.total_ns) : 0;
               return {markdown_code(t.name, name_width), format_duration(t.total_ns), format_count(t.count),
                       format_bytes(t.bytes), fmt::format("{:.3g} GB/s", gbs)};
             },
             "tables `memory_time`, `memory_transfers` and `copy_engines` of store.h5");
}

/// Why parts are missing, and the option that records them.
std::string missing_note(const ActivitySummary& a) {
  std::vector<std::string> missing;
  if (a.os_calls.empty()) missing.emplace_back("calls into the operating system (-t osrt)");
  if (!a.has_thread_states) missing.emplace_back("thread states (--cpuctxsw=process-tree)");
  if (a.largest_gpu_memory_bytes == 0) missing.emplace_back("GPU memory over time (--cuda-memory-usage=true)");
  if (a.transfers.empty()) missing.emplace_back("copies and sets (there were none, or no -t cuda)");
  if (a.gpu_speeds.empty()) missing.emplace_back("kernels that several trace ranks ran five times or more");
  if (missing.empty()) return {};
  std::string text = "Not in these traces: ";
  for (std::size_t i = 0; i < missing.size(); ++i) text += (i > 0 ? "; " : "") + missing[i];
  return wrap(text + ".", "\n", "");
}

}  // namespace

std::string activity_sections(const JobReport& report) {
  const ActivitySummary& a = report.activity;
  std::string out = suspects_section(a);
  out += idle_section(a);
  out += kernels_section(a);
  out += speeds_section(a);
  out += utilisation_section(a);
  out += communication_section(a);
  out += categories_section(a);
  out += barriers_section(a);
  out += host_section(a);
  out += cpu_section(a);
  out += rules_section(a);
  out += transfers_section(a);
  out += processes_section(a);
  out += missing_note(a);
  return out;
}

}  // namespace nsys_explain::report
