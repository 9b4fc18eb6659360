#include "analysis/findings/findings.hpp"

#include <fmt/ranges.h>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"
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

namespace {

/// Of all trace ranks.
struct StreamCounts {
  std::int64_t communication = 0;
  std::int64_t beside_compute = 0;  ///< of these, on a stream that holds more compute kernels than communication
};

StreamCounts count_streams(const JobReport& report) {
  StreamCounts counts;
  const Table* const table = find_table(report.tables, schema::streams);
  if (table == nullptr) return counts;
  const auto& kernels = column(*table, schema::streams.kernels);
  const auto& communication = column(*table, schema::streams.communication_kernels);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    counts.communication += communication[i];
    if (kernels[i] > 2 * communication[i]) counts.beside_compute += communication[i];
  }
  return counts;
}

/// How many trace ranks ran with this value of a fact.
std::size_t ranks_with(const JobReport& report, std::string_view fact, std::string_view value) {
  const Table* const table = find_table(report.tables, schema::run_facts);
  if (table == nullptr) return 0;
  const auto& ranks = column(*table, schema::trace_rank);
  const auto& facts = column(*table, schema::run_facts.fact);
  const auto& values = column(*table, schema::run_facts.value);
  std::set<std::int64_t> with;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (facts[i] == fact && values[i] == value) with.insert(ranks[i]);
  return with.size();
}

/// Of all exposed communication, what ran while the host had not launched what came next.
double launch_paced_share(const JobReport& report) {
  Nanoseconds paced_ns = 0, all_ns = 0;
  for (const ExposedTime& one : report.exposed) {
    for (const auto& by_reason : one.duration_ns) {
      for (const Nanoseconds time_ns : by_reason) all_ns += time_ns;
      paced_ns += by_reason[static_cast<std::size_t>(StandstillReason::launch_paced)];
    }
  }
  return share(paced_ns, all_ns);
}

/// The synchronising call that hosts spend most time in; empty where they make none.
std::string longest_synchronisation(const JobReport& report) {
  const Table* const table = find_table(report.tables, schema::barriers);
  if (table == nullptr) return {};
  const auto& kinds = column(*table, schema::barriers.kind);
  const auto& names = column(*table, schema::barriers.name);
  const auto& totals = column(*table, schema::barriers.total_ns);
  std::map<std::string_view, std::int64_t> by_name;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] == "sync_api") by_name[names[i]] += totals[i];
  std::pair<std::string_view, std::int64_t> longest;
  for (const auto& one : by_name)
    if (one.second > longest.second) longest = one;
  if (longest.first.empty()) return {};
  return fmt::format("; hosts spend {} in {} (table barriers)", gpu_time(longest.second), longest.first);
}

}  // namespace

OverlapAdvice explain_exposed_communication(const JobReport& report) {
  constexpr double most = 0.5;
  OverlapAdvice advice;
  std::vector<std::string> steps;
  const auto reason = [&](std::string evidence, std::string_view step) {
    advice.evidence.push_back(std::move(evidence));
    steps.emplace_back(step);
  };
  const StreamCounts counts = count_streams(report);
  const double beside = share(counts.beside_compute, counts.communication);
  if (beside > most)
    reason(
        fmt::format(
            "{:.0f}% of the communication kernels run on the stream of compute, so neither can run while the other does (table streams)",
            100 * beside),
        "give communication a separate stream");
  if (const std::size_t ranks = ranks_with(report, "CUDA_DEVICE_MAX_CONNECTIONS", "1"); ranks > 0 && beside <= most)
    reason(
        fmt::format(
            "CUDA_DEVICE_MAX_CONNECTIONS=1 on {} of {} ranks: all streams of a GPU share one hardware queue, so kernels start in the order of launches, and compute behind a collective waits for it",
            ranks, report.trace_ranks.size()),
        "unset CUDA_DEVICE_MAX_CONNECTIONS, or launch compute before the collective that it may overlap (tensor parallel layers rely on that order)");
  if (const std::size_t ranks = ranks_with(report, "CUDA_LAUNCH_BLOCKING", "1"); ranks > 0)
    reason(fmt::format("CUDA_LAUNCH_BLOCKING=1 on {} of {} ranks: each launch waits until its kernel is over", ranks,
                       report.trace_ranks.size()),
           "unset CUDA_LAUNCH_BLOCKING");
  if (const double paced = launch_paced_share(report); paced > most)
    reason(
        fmt::format(
            "for {:.0f}% of that time the host had not launched the compute that came next{} (table exposed_communication)",
            100 * paced, longest_synchronisation(report)),
        "launch ahead: no synchronisation between a collective and the compute that may run beside it");
  if (steps.empty()) steps.emplace_back("overlap them with compute (bucket sizes, prefetching), or move fewer bytes");
  advice.recommendation = fmt::format("{}", fmt::join(steps, "; "));
  return advice;
}

}  // namespace nsys_explain::analysis
