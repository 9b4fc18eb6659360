#include "analysis/questions/question.hpp"

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {

Question memory_transfers();  // whose sums tell what was copied most

namespace {

constexpr double copies_worth_telling = 0.01, exposed_copies_worth_telling = 0.05;  // of the window of all trace ranks

LatePart told_of_copies(const JobReport& report, std::string_view rule) {
  LateRanks late = late_by(report, {Cause::blocking_copy});
  const auto is_of_rule = [&](const Table& table, std::size_t i) {
    return column(table, schema::expert_rules.rule)[i] == rule;
  };
  const Nanoseconds told_ns =
      surplus_of(late, time_of_ranks(report, schema::expert_rules, schema::expert_rules.total_ns, is_of_rule));
  return {std::move(late), told_ns};
}

ShownTable expert_rules_shown() {
  const auto& table = schema::expert_rules;
  return {.table = table.table_name(),
          .findings = {"pageable-copies", "blocking-copies"},
          .view = "host",
          .list = "expert_rules",
          .folding = {.columns = {{"name", table.rule, FoldedColumn::By::key},
                                  {"count", table.cases},
                                  {"total_ns", table.total_ns},
                                  {"bytes", table.bytes}},
                      .order = "total_ns"}};
}

/// Copies that block by how they are called, then the time of copies that no such finding has told, nor those about the
/// late.
void find_copies(const JobReport& report, std::vector<Finding>& findings) {
  const Windows windows = windows_of(report);
  const Table sums = sums_of(report.tables, report, expert_rules_shown());
  Nanoseconds told_ns = 0, exposed_ns = 0;
  for (const RankSummary& rank : report.ranks) exposed_ns += rank.budget.copy_ns;
  const auto add = [&](const char* rule, const char* id, const char* title, const char* recommendation) {
    const Nanoseconds total_ns = figure_of(sums, rule, "total_ns");
    const LatePart late = told_of_copies(report, rule);
    const Nanoseconds left_ns = total_ns - late.time_ns;
    const double part = share(left_ns, windows.ranks_ns);
    told_ns += late.time_ns;
    if (part < copies_worth_telling) return;
    told_ns += left_ns;
    findings.push_back(
        {.id = id,
         .severity = severity_of(part),
         .title = fmt::format("{:.1f}% of GPU time is {}{}", 100 * part, title, late.beside()),
         .evidence = {fmt::format("{} in {} copies, {:.3f} GB", gpu_time(total_ns), figure_of(sums, rule, "count"),
                                  static_cast<double>(figure_of(sums, rule, "bytes")) * 1e-9),
                      fmt::format("rows: expert_rule_cases where rule = '{}'", rule)},
         .recommendation = recommendation,
         .cost_ns = left_ns});
    late.add_to(findings.back().evidence);
  };
  add("cuda_memcpy_async", "pageable-copies",
      "asynchronous copies of pageable memory, which block like synchronous ones",
      "pin the host memory (cudaHostAlloc, pin_memory=True) so that copies run beside kernels");
  add("cuda_memcpy_sync", "blocking-copies", "copies by synchronous calls",
      "use cudaMemcpyAsync on a separate stream with pinned memory, and fetch results less often (.item(), .cpu())");
  const double part = share(exposed_ns - told_ns, windows.ranks_ns);
  if (part < exposed_copies_worth_telling) return;
  std::vector<std::string> evidence = {
      fmt::format("{} in which nothing but copies and sets ran", gpu_time_of(exposed_ns, windows.ranks_ns))};
  const Table copies = sums_of(report.tables, report, memory_transfers().shown);
  if (copies.row_count() > 0) {
    const std::string_view most = column<std::string>(copies, "name")[0];
    const auto bytes = static_cast<double>(figure_of(copies, most, "bytes"));
    const Nanoseconds total_ns = figure_of(copies, most, "total_ns");
    evidence.push_back(fmt::format("most of it {}: {:.3f} GB in {} operations and {}, {:.1f} GB/s", most, bytes * 1e-9,
                                   figure_of(copies, most, "count"), gpu_time(total_ns),
                                   bytes / static_cast<double>(total_ns)));
  }
  evidence.push_back("rows: copy_engines, memory_transfers, memory_time, memory_size");
  findings.push_back(
      {.id = "exposed-copies",
       .severity = severity_of(part),
       .title = fmt::format("{:.1f}% of GPU time is copies that no kernel hides{}", 100 * part,
                            told_ns > 0 ? ", besides those of other findings" : ""),
       .evidence = std::move(evidence),
       .recommendation =
           "keep on the GPU what is copied again and again; copy ahead on a separate stream, from pinned memory, while kernels run; copy less (smaller types, larger batches per copy)",
       .cost_ns = exposed_ns - told_ns});
}

}  // namespace

Question expert_rules() {
  return {.shown = expert_rules_shown(), .find = find_copies};
}

}  // namespace nsys_explain::analysis::questions
