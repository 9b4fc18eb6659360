#include "report/overview.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

#include <fmt/format.h>

#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"
#include "model/schema/job.hpp"
#include "model/shared_gpus.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/names.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

/// A word for any shell, which is no option.
bool is_plain_word(std::string_view text) {
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '/';
  });
}

std::string on_host(std::string_view host, std::string_view command) {
  return is_plain_word(host) ? fmt::format("ssh {} {}", host, command) : std::string(command);
}

/// Options of nvidia-smi for this GPU; none where the trace does not say which it is, or the whole node is meant.
std::string gpu_option(const TraceRankIdentity& rank, Level level) {
  if (level != Level::gpu || rank.is_gpu_presumed || !is_plain_word(rank.gpu_uuid)) return "";
  return " -i GPU-" + rank.gpu_uuid;
}

NextStep rows_of(std::string_view directory, std::string_view table, std::string_view expect) {
  return {fmt::format("nsys-explain-mpi show {} {}", shell_quoted(directory), table), std::string(expect)};
}

void add_checks(const JobReport& report, const Straggler& late, std::string_view directory,
                std::vector<NextStep>& steps) {
  const TraceRankIdentity* const rank = find_identity(report, late.trace_rank);
  switch (late.cause) {
    case Cause::slow_kernel:
      if (rank != nullptr && shares_its_gpu(report, rank->trace_rank)) {
        steps.push_back({on_host(rank->host, "nvidia-smi"), "the processes that share this GPU"});
      } else if (rank != nullptr) {
        steps.push_back({on_host(rank->host, fmt::format("nvidia-smi -q{} -d PERFORMANCE,CLOCK,POWER",
                                                         gpu_option(*rank, late.level))),
                         "an active throttle reason, or an SM clock below its peers'"});
        steps.push_back({on_host(rank->host, "dcgmi diag -r 3"), "a failed test: then drain the node"});
      }
      return;
    case Cause::slow_link:
      if (rank != nullptr)
        steps.push_back(
            {on_host(rank->host, "nvidia-smi nvlink -e"), "errors that grow, which a link should not have"});
      return;
    case Cause::extra_work:
    case Cause::uneven_work:
      steps.push_back(rows_of(directory, "straggler_differences", "kernels that it runs more often or longer"));
      return;
    default:
      steps.push_back(rows_of(directory, "straggler_differences", "what its host did that its peers' did not"));
  }
}

/// Which rows show it, of findings that name nobody.
std::optional<NextStep> rows_of_finding(std::string_view id, std::string_view directory) {
  struct Rows {
    std::string_view table, expect;
  };
  static const std::map<std::string_view, Rows> rows{
      {"slow-link", {"slow_links", "transfers through it beside equal ones elsewhere"}},
      {"long-waits", {"long_waits", "each long wait, and what the last rank did before it"}},
      {"rotating-delay", {"steps", "who delays which step: caused_wait_ns"}},
      {"step-time-change", {"steps", "the steps before and after the change"}},
      {"exposed-communication", {"exposed_communication", "the collectives beside which no compute runs"}},
      {"launch-starved", {"barriers", "the calls in which the host stops"}},
      {"gpu-idle", {"barriers", "the calls in which the host stops"}},
      {"dependency-stalled", {"idle_gaps", "the gaps, with the streams that wait"}},
      {"dominant-kernel", {"kernels", "the kernel beside all others"}},
      {"longest-stage", {"stage_balance", "how long each stage computes"}},
      {"connection-setup", {"first_collectives", "first collectives beside later ones"}},
      {"slow-gpu", {"gpu_speed", "how long each rank takes for equal kernels"}}};
  const auto found = rows.find(id);
  if (found == rows.end()) return std::nullopt;
  return rows_of(directory, found->second.table, found->second.expect);
}

}  // namespace

std::vector<NextStep> next_steps(const JobReport& report, std::string_view directory) {
  constexpr std::size_t most = 3;
  std::vector<NextStep> steps;
  if (auto rows = rows_of_finding(report.verdict.finding, directory)) {
    steps.push_back(*std::move(rows));
  } else if (const Straggler* const late = late_in_verdict(report)) {
    add_checks(report, *late, directory, steps);
  }
  if (const auto& saved = report.verdict.mended; saved && saved->saved_share >= 0.01) {
    const std::string expect =
        saved->step_ns_after > 0 ? fmt::format("once fixed: a step of about {}", format_duration(saved->step_ns_after))
                                 : "once fixed: what changed";
    steps.push_back({fmt::format("nsys-explain-mpi compare {} FIXED", shell_quoted(directory)), expect});
  }
  steps.resize(std::min(steps.size(), most));
  return steps;
}

namespace {

std::string when(const JobReport& report) {
  const Straggler* const named = late_in_verdict(report);
  if (named == nullptr) return {};
  const Straggler& late = *named;
  if (!late.first_step || !late.last_step)
    return fmt::format("When: {}, from {} to {} of job time.", pattern_name(late.pattern),
                       format_duration(late.first_ns), format_duration(late.last_ns));
  if (*late.first_step == *late.last_step) return fmt::format("When: in step {} alone.", *late.first_step);
  const std::string every = late.period_steps ? fmt::format(", every {} steps", *late.period_steps) : "";
  return fmt::format("When: {}{}, from step {} to step {}.", pattern_name(late.pattern), every, *late.first_step,
                     *late.last_step);
}

/// Of 28 steps it can be proved that the last quarter differs: 2 / C(28, 7), at some 100 places, is below the 0.001 of
/// ChangeCriteria (analysis/statistics/significance.hpp).
constexpr std::int64_t enough_steps = 28;

std::string over_time(const JobReport& report) {
  const StepTime& steps = report.step_time;
  if (!steps.change_points.empty()) {
    const StepTimeChange& change = steps.change_points.front();
    return fmt::format("Over time: from step {} on a step takes {}, {} before (medians).", change.step,
                       format_duration(change.after_ns), format_duration(change.before_ns));
  }
  if (steps.steps < enough_steps) return {};
  return fmt::format("Over time: in {} steps no lasting change above 5% stands out.", format_count(report.delay.steps));
}

/// What nothing tells, and what lies in graphs recorded as one interval, may be transfers, too.
std::string network(const JobReport& report) {
  if (report.ranks.size() < 2 || report.instances == 0) return {};
  if (!report.slow_links.empty()) return "Network: a link is slower than equal ones (finding slow-link).";
  const Table* const budget = find_table(report.tables, schema::step_budget);
  if (budget == nullptr || budget->row_count() == 0) return {};
  const auto sum = [&](const schema::Integer& of) {
    const auto& values = column(*budget, of);
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  const std::int64_t window_ns = sum(schema::step_budget.window_ns), known_ns = sum(schema::step_budget.transfer_ns);
  const std::int64_t at_most_ns =
      known_ns + sum(schema::step_budget.inconclusive_ns) + sum(schema::step_budget.opaque_graph_ns);
  const std::string least = format_share(known_ns, window_ns), most = format_share(at_most_ns, window_ns);
  return fmt::format("Network: compute waits for transfers in {} of the time.",
                     least == most ? least : fmt::format("{} to {}", least, most));
}

}  // namespace

std::vector<std::string> short_answers(const JobReport& report) {
  std::vector<std::string> answers;
  for (std::string answer : {when(report), over_time(report), network(report)})
    if (!answer.empty()) answers.push_back(std::move(answer));
  return answers;
}

namespace {

// PROGRAM and REPORT.nsys-rep are the user's to fill in. Other launchers have their own variable for the rank.
constexpr const char* capture =
    "srun nsys profile -t cuda,nvtx --cuda-graph-trace=node --gpu-metrics-devices=cuda-visible -o rank_%q{SLURM_PROCID}_%h PROGRAM";
constexpr const char* capture_nccl =
    "srun nsys profile -t cuda,nvtx,nccl --cuda-graph-trace=node --gpu-metrics-devices=cuda-visible -o rank_%q{SLURM_PROCID}_%h PROGRAM";
constexpr const char* capture_vclock =
    "srun nsys profile -t cuda,nvtx --enable vclock --cuda-graph-trace=node -o rank_%q{SLURM_PROCID}_%h PROGRAM";
constexpr const char* export_with_payload =
    "nsys export --type sqlite --include-blobs=true --include-json=true REPORT.nsys-rep";
constexpr const char* export_normalised =
    "nsys export --type sqlite --include-blobs=true --include-json=true --ts-normalize=true REPORT.nsys-rep";

bool has_opaque_graphs(const JobReport& report) {
  return std::any_of(report.ranks.begin(), report.ranks.end(),
                     [](const RankSummary& rank) { return rank.budget.opaque_graph_ns > 0; });
}

/// Less than 70% of the kernel time of all trace ranks has its launching call.
bool lacks_launches(const JobReport& report) {
  const Table* coverage = find_table(report.tables, schema::nvtx_coverage);
  if (coverage == nullptr) return false;
  const auto& kernel_ns = column(*coverage, schema::nvtx_coverage.kernel_ns);
  const auto& launched_ns = column(*coverage, schema::nvtx_coverage.launched_ns);
  return std::accumulate(launched_ns.begin(), launched_ns.end(), 0.0) <
         0.7 * std::accumulate(kernel_ns.begin(), kernel_ns.end(), 0.0);
}

bool lacks_payload(const JobReport& report) {
  return std::any_of(report.communicators.begin(), report.communicators.end(),
                     [](const CommunicatorSummary& c) { return c.instances > 0 && !is_told_by_calls(c.evidence); });
}

bool lacks_members(const JobReport& report) {
  return std::any_of(report.communicators.begin(), report.communicators.end(), [](const CommunicatorSummary& c) {
    return c.size > 0 && c.trace_ranks.size() < static_cast<std::size_t>(c.size);
  });
}

bool has_unrelated_clocks(const JobReport& report) {
  return report.clock.sessions.size() > 1 &&
         std::any_of(report.clock.sessions.begin(), report.clock.sessions.end(),
                     [](const SessionClock& session) { return !session.uncertainty_ns; });
}

bool has_gpu_metrics(const JobReport& report) {
  const Table* const counters = find_table(report.tables, schema::gpu_counters);
  return counters != nullptr && counters->row_count() > 0;
}

}  // namespace

std::vector<CaptureAdvice> capture_advice(const JobReport& report) {
  std::vector<CaptureAdvice> advice;
  if (report.trace_ranks.empty()) return advice;  // of each input its message says what it lacks
  if (has_opaque_graphs(report)) {
    advice.push_back(
        {"CUDA graphs were recorded as one interval each: kernels and collectives inside them are invisible. Tracing by node shows them, at a higher overhead.",
         {capture}});
  } else if (report.instances == 0) {
    advice.push_back(
        {"No collective was matched, so nobody can be called late. Capture every rank over the same steps, with CUDA and NVTX.",
         {capture}});
  }
  if (lacks_members(report)) {
    advice.push_back(
        {"Some members of a communicator were not captured: who among them was late cannot be seen. Start nsys on every rank (under the launcher, as here), before NCCL is initialised.",
         {capture}});
  }
  if (lacks_launches(report)) {
    advice.push_back(
        {"Many kernels have no launching call in the export, so NVTX ranges, phases and causes on the host cover only a part of them. Start the capture before the work is launched.",
         {capture}});
  }
  if (lacks_payload(report)) {
    advice.push_back(
        {"Message sizes and communicators are not in all exports: collectives were matched by order, and bandwidths are missing. Often a new export is enough; nsys 2025.6.1 and later with NCCL 2.28 and later record more with nccl in -t.",
         {export_with_payload, capture_nccl}});
  }
  if (has_unrelated_clocks(report)) {
    advice.push_back(
        {"Some sessions' clocks cannot be related, so lateness between them is not judged. Capture the same collectives on all ranks; nsys 2026.4 and later can also record the clocks.",
         {capture_vclock, export_normalised}});
  }
  if (!report.nvlink.available && !has_gpu_metrics(report)) {
    advice.push_back(
        {"NVLink traffic was not analysed: it needs GPU metrics in the capture, and permission to read the GPU's performance counters.",
         {capture}});
  }
  return advice;
}

}  // namespace nsys_explain::report
