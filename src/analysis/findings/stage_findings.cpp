#include "analysis/findings/stage_findings.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/causes/attributed_time.hpp"
#include "analysis/findings/finding_parts.hpp"
#include "analysis/findings/finding_sizes.hpp"
#include "analysis/findings/late_parts.hpp"
#include "analysis/verdict/job_delays.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::analysis {
namespace {

/// Stages differ by embedding, head and loss; below these shares nobody would divide the model anew.
constexpr double least_longer = 0.05;  // than the other stages compute
constexpr double least_gain = 0.02;    // of the GPU time

/// One row of stage_balance.
struct Stage {
  std::string name;
  Nanoseconds kernel_ns = 0, others_kernel_ns = 0, shared_ns = 0;

  Nanoseconds longer_ns() const { return kernel_ns - others_kernel_ns; }
};

Stage longest_stage(const Table& balance) {
  Stage longest;
  for (std::size_t i = 0; i < balance.row_count(); ++i) {
    const Stage stage{column(balance, schema::stage_balance.stage)[i],
                      column(balance, schema::stage_balance.kernel_ns)[i],
                      column(balance, schema::stage_balance.others_kernel_ns)[i],
                      column(balance, schema::stage_balance.shared_ns)[i]};
    if (i == 0 || stage.longer_ns() > longest.longer_ns()) longest = stage;
  }
  return longest;
}

/// Of a stage that rank_places knows; else of two trace ranks each is listed by itself.
std::vector<std::int32_t> trace_ranks_of(const Stage& stage, const JobReport& report) {
  std::vector<std::int32_t> ranks;
  if (const Table* places = find_table(report.tables, schema::rank_places)) {
    for (std::size_t i = 0; i < places->row_count(); ++i)
      if (column(*places, schema::rank_places.level)[i] == "pipeline_stage" &&
          column(*places, schema::rank_places.place)[i] == stage.name)
        ranks.push_back(static_cast<std::int32_t>(column(*places, schema::trace_rank)[i]));
  }
  for (const RankSummary& rank : report.ranks)
    if (ranks.empty() && name_of_lone_stage(rank.trace_rank) == stage.name) ranks.push_back(rank.trace_rank);
  return ranks;
}

/// True where a straggler is among them, or a suspect that has more to compute or takes longer for it.
bool is_named(const std::vector<std::int32_t>& ranks, const JobReport& report) {
  LateRanks late = late_by(report, {Cause::slow_kernel, Cause::extra_work, Cause::uneven_work});
  for (const Straggler& straggler : report.stragglers)
    late.insert(late.end(), straggler.trace_ranks.begin(), straggler.trace_ranks.end());
  return std::find_first_of(ranks.begin(), ranks.end(), late.begin(), late.end()) != ranks.end();
}

/// Mean share of the window that these trace ranks wait, or all but these.
double waiting_share(const std::vector<std::int32_t>& ranks, bool these, const JobReport& report) {
  Nanoseconds wait_ns = 0, window_ns = 0;
  for (const RankSummary& rank : report.ranks) {
    if ((std::find(ranks.begin(), ranks.end(), rank.trace_rank) != ranks.end()) != these) continue;
    wait_ns += rank.wait_ns;
    window_ns += rank.budget.window_ns;
  }
  return share(wait_ns, window_ns);
}

bool is_a_pipeline(const JobReport& report) {
  const Table* const places = find_table(report.tables, schema::rank_places);
  if (places == nullptr) return false;
  const auto& levels = column(*places, schema::rank_places.level);
  return std::find(levels.begin(), levels.end(), std::string_view(level_name(Level::pipeline_stage))) != levels.end();
}

}  // namespace

void add_pipeline_bubble_finding(const JobReport& report, Nanoseconds told_ns, std::vector<Finding>& findings) {
  if (!is_a_pipeline(report)) return;
  Nanoseconds wait_ns = 0;
  for (const RankSummary& rank : report.ranks) wait_ns += rank.wait_ns;
  const Nanoseconds windows_ns = windows_of(report).ranks_ns;
  constexpr double least_bubble = 0.05;  // of the GPU time: schedules leave some
  const Nanoseconds left_ns = wait_ns - told_ns;
  const double part = share(left_ns, windows_ns);
  if (part < least_bubble) return;
  findings.push_back(
      {.id = "pipeline-bubble",
       .severity = severity_of(part),
       .title = fmt::format(
           "{:.1f}% of GPU time is pipeline stages waiting for each other without anybody being late: the schedule's bubble",
           100 * part),
       .evidence = {fmt::format("{} of waiting in collectives and exchanges{}", gpu_time_of(left_ns, windows_ns),
                                told_ns > 0 ? ", besides that of other findings" : ""),
                    "with as many micro-batches as m, s stages alike wait for (s - 1) / (m + s - 1) of the time"},
       .recommendation =
           "run more micro-batches per step, or an interleaved schedule (several parts of the model per stage)",
       .cost_ns = left_ns});
}

void add_longest_stage_finding(const JobReport& report, std::vector<Finding>& findings) {
  const Table* const balance = find_table(report.tables, schema::stage_balance);
  if (balance == nullptr || balance->row_count() == 0 || report.delay.steps <= 0) return;
  const Stage stage = longest_stage(*balance);
  const std::vector<std::int32_t> ranks = trace_ranks_of(stage, report);
  if (ranks.empty() || is_named(ranks, report)) return;
  const auto bins = static_cast<std::int64_t>(bins_of_steps(static_cast<std::size_t>(report.delay.steps)));
  const double longer = share(stage.longer_ns(), stage.others_kernel_ns);
  const Nanoseconds gain_ns = stage.longer_ns() * bins * std::ssize(report.ranks);
  const double gain = share(gain_ns, windows_of(report).ranks_ns);
  const double waits = waiting_share(ranks, true, report), others_wait = waiting_share(ranks, false, report);
  if (longer < least_longer || gain < least_gain || waits >= others_wait) return;
  const auto ms = [](Nanoseconds time_ns) { return static_cast<double>(time_ns) * 1e-6; };
  findings.push_back(
      {.id = "longest-stage",
       .severity = severity_of(gain, stage_time),
       .title =
           fmt::format("the pipeline stage of rank{} {} computes {:.0f}% longer than the others, which wait for it",
                       ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "), 100 * longer),
       .evidence =
           {fmt::format(
                "{:.3f} ms of kernels in a span of steps, {:.3f} ms in the median of the other stages; {:.3f} ms of it in kernels of a name, grid and block that other stages run, too (table stage_balance)",
                ms(stage.kernel_ns), ms(stage.others_kernel_ns), ms(stage.shared_ns)),
            fmt::format("it waits for {:.1f}% of its time, the others for {:.1f}%", 100 * waits, 100 * others_wait),
            "a stage has no peers: the traces do not tell whether it has larger or more work than was meant (longer or more micro-batches, other shapes), or the model was divided so (layers, embedding, head and loss)"},
       .recommendation =
           "compare its kernels with another stage's (table kernels_by_launch), then move layers from it to the others, or give the stage with the head or the embedding fewer layers",
       .cost_ns = gain_ns,
       .trace_ranks = ranks});
  if (!tell_saving(report, findings.back()))
    findings.back().title += fmt::format("; stages alike would save up to {:.1f}% of the GPU time", 100 * gain);
  findings.back().place = ranks.size() > 1 ? "pipeline stage " + stage.name : place_of(report, ranks.front());
}

}  // namespace nsys_explain::analysis
