#include <algorithm>

#include <fmt/ranges.h>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/findings/findings.hpp"
#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/regex.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// Share of the time of all kernels: as other findings about GPU time.
constexpr double least_share = 0.05;
constexpr std::size_t most_named = 4;

struct SuspectedKernel {
  std::string_view name;
  std::int64_t count = 0;
  Nanoseconds total_ns = 0;
  std::set<std::int64_t> trace_ranks;
};

struct SuspectedTime {
  std::vector<SuspectedKernel> suspected;  ///< most time first
  Nanoseconds suspected_ns = 0, all_ns = 0;
};

/// Last part of a qualified name.
std::string_view unqualified(std::string_view name) {
  const std::size_t colon = name.rfind(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

/// True of a kernel whose name speaks of an exchange between ranks: all-reduce, all-gather, reduce-scatter, all-to-all,
/// dispatch or combine. Parts of attention kernels combine, too, and blocks of one kernel reduce among themselves:
/// names that tell so are none. `demangled`: with or without template and argument lists.
bool looks_like_communication(std::string_view demangled) {
  static const Regex collective("(?i)all_?reduce|all_?gather|reduce_?scatter|all_?(to|2)_?all");
  static const Regex expert_exchange("(?i)dispatch|combine");
  static const Regex local(
      "(?i)(thread|warp|block|cluster)_?all_?reduce|split|flash|attention|attn|mla_|fmha|softmax|lse|prepare|preprocess|prologue|epilogue|layout");
  const std::string_view name = nsys_explain::function_name(demangled);
  if (!collective.occurs_in(name) && !expert_exchange.occurs_in(unqualified(name))) return false;
  return !local.occurs_in(name);
}

SuspectedTime look_through(const Table& table) {
  const auto& ranks = column(table, schema::trace_rank);
  const auto& names = column(table, schema::kernels.name);
  const auto& communication = column(table, schema::kernels.communication);
  const auto& counts = column(table, schema::kernels.durations.count);
  const auto& totals = column(table, schema::kernels.durations.total);
  SuspectedTime time;
  std::map<std::string_view, std::optional<SuspectedKernel>> by_name;
  for (std::size_t i = 0; i < names.size(); ++i) {
    time.all_ns += totals[i];
    if (communication[i] != 0) continue;
    const std::string_view name = nsys_explain::function_name(names[i]);
    auto [place, is_new] = by_name.try_emplace(name);
    if (is_new && looks_like_communication(name)) place->second = SuspectedKernel{name, 0, 0, {}};
    if (!place->second) continue;
    place->second->count += counts[i];
    place->second->total_ns += totals[i];
    place->second->trace_ranks.insert(ranks[i]);
  }
  for (auto& [name, suspected] : by_name) {
    if (!suspected || suspected->trace_ranks.size() < 2) continue;  // nobody to talk to
    time.suspected_ns += suspected->total_ns;
    time.suspected.push_back(*std::move(suspected));
  }
  std::stable_sort(time.suspected.begin(), time.suspected.end(),
                   [](const SuspectedKernel& a, const SuspectedKernel& b) { return a.total_ns > b.total_ns; });
  return time;
}

/// A regular expression that finds these kernels. Without quotes of a shell in it, and short.
std::string pattern_of(const std::vector<SuspectedKernel>& suspected) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < std::min(suspected.size(), most_named); ++i) names.insert(unqualified(suspected[i].name));
  return fmt::format("{}", fmt::join(names, "|"));
}

/// Of a job of several trace ranks: kernels that look like communication and are not known as such, where they take so
/// much time that what is said of compute and of waiting may be wrong.
void find_unknown_communication(const JobReport& report, std::vector<Finding>& findings) {
  const Table* const table = find_table(report.tables, schema::kernels);
  if (table == nullptr || report.trace_ranks.size() < 2) return;
  const SuspectedTime time = look_through(*table);
  const double part = share(time.suspected_ns, time.all_ns);
  if (time.suspected.empty() || part < least_share) return;
  std::vector<std::string> evidence;
  for (std::size_t i = 0; i < std::min(time.suspected.size(), most_named); ++i) {
    const SuspectedKernel& one = time.suspected[i];
    evidence.push_back(fmt::format("{}: {} in {} executions on {} ranks", short_kernel_name(one.name),
                                   gpu_time(one.total_ns), one.count, one.trace_ranks.size()));
  }
  evidence.emplace_back("rows: kernels where communication = 0");
  findings.push_back(
      {.id = "unknown-communication",
       .severity = FindingSeverity::medium,  // a name is no proof
       .title = fmt::format(
           "{:.1f}% of the time of kernels is in such as look like communication but are not known to be: waiting in them counts as compute, so who is late for them cannot be seen",
           100 * part),
       .evidence = std::move(evidence),
       .recommendation = fmt::format(
           "if these kernels exchange data between ranks, analyse the same traces again with --communication-kernels '{}'",
           pattern_of(time.suspected))});
}

/// Of a job of one trace rank, which nobody can be compared with: the kernel that takes most of its time.
void find_dominant_kernel(const JobReport& report, std::vector<Finding>& findings) {
  constexpr double least_share = 0.5;  // of the window: below, other kernels matter as much
  const std::optional<HeaviestKernel> kernel = heaviest_kernel(report);
  if (!kernel || report.ranks.size() != 1 || kernel->share < least_share) return;
  const auto& [name, total_ns, count, part] = *kernel;
  const RankSummary& rank = report.ranks.front();
  // Beside members that nobody recorded, nothing tells what the step waits for: then it is only the largest kernel.
  const bool is_alone = collectives_alone(report) > 0 || report.untraced_processes > 0;
  findings.push_back(
      {.id = "dominant-kernel",
       .severity = is_alone ? FindingSeverity::low : FindingSeverity::medium,
       .title = fmt::format("{:.1f}% of GPU time is one kernel: {}", 100 * part, short_kernel_name(name)),
       .evidence = {fmt::format("{} in {} execution{}, {} each on average", gpu_time(total_ns), count,
                                count == 1 ? "" : "s", duration_text(total_ns / std::max<std::int64_t>(count, 1))),
                    fmt::format("rows: kernels where name = '{}'", name)},
       .recommendation =
           std::string(is_alone ? "once the other ranks are captured"
                                : "make this kernel faster before anything else") +
           ": profile it with Nsight Compute (nsys-explain-mpi --help evidence has the command), and compare it with what the GPU can do (--ncu, --gpu-peaks)",
       .cost_ns = total_ns,
       .trace_ranks = {rank.trace_rank},
       .place = place_of(report, rank.trace_rank)});
}

void find_in_kernels(const JobReport& report, std::vector<Finding>& findings) {
  find_unknown_communication(report, findings);
  find_dominant_kernel(report, findings);
}

}  // namespace

Question kernels() {
  const auto& table = schema::kernels;
  using By = FoldedColumn::By;
  return {
      .shown =
          {.table = table.table_name(),
           .findings = {"unknown-communication", "dominant-kernel", "kernel-tail", "longest-stage"},
           .view = "kernels",
           .list = "kernels",
           .folding = {.columns = {{"name", table.name, By::key},
                                   {"communication", table.communication, By::largest},
                                   {"trace_ranks", table.name, By::rows},
                                   {"count", table.durations.count},
                                   {"total_ns", table.durations.total},
                                   {"max_ns", table.durations.max, By::largest},
                                   {"share", table.durations.total, By::share},
                                   {"tail_score_ns", table.tail_score_ns},
                                   {"largest_trace_rank", schema::trace_rank, By::at_largest, table.durations.total},
                                   {"largest_ns", table.durations.total, By::largest}},
                       .order = "total_ns"},
           .title =
               "Top kernels",
           .derivation =
               "Sums of durations over all ranks; share is of the sum of all kernels. Tail is what the slowest executions cost: (p99 - median) x count.",
           .cells = {{.heading = "kernel", .column = "name", .is_code = true},
                     {"total", "total_ns"},
                     {"share", "share"},
                     {"count", "count"},
                     {"longest", "max_ns"},
                     {"tail", "tail_score_ns"}},
           .rest = "tables `kernels`, `kernels_by_launch`, `kernel_histogram`, `kernel_pacing` of store.h5"},
      .find = find_in_kernels};
}

}  // namespace nsys_explain::analysis::questions
