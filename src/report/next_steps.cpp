#include "report/next_steps.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "model/shared_gpus.hpp"
#include "model/shell_quoted.hpp"
#include "report/overview.hpp"
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

}  // namespace nsys_explain::report
