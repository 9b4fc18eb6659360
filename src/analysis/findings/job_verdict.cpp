#include "analysis/findings/job_verdict.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "nsys_explain/model/names.hpp"

namespace nsys_explain::analysis {
namespace {

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// What the analysis lacks; empty where it lacks nothing.
std::string what_is_missing(const JobReport& report) {
  const auto failed = std::count_if(report.inputs.begin(), report.inputs.end(),
                                    [](const InputReport& input) { return input.status == InputStatus::failed; });
  const auto missing = [](const CommunicatorSummary& communicator) {
    return communicator.size - static_cast<std::int64_t>(communicator.trace_ranks.size());
  };
  const auto worst = std::max_element(
      report.communicators.begin(), report.communicators.end(),
      [&](const CommunicatorSummary& a, const CommunicatorSummary& b) { return missing(a) < missing(b); });
  std::string text;
  if (std::any_of(report.findings.begin(), report.findings.end(),
                  [](const Finding& finding) { return finding.id == "partial-report"; })) {
    text += "The run was cut off, so this is a part of it. ";
  }
  if (failed > 0) {
    text += fmt::format("{} of {} failed. ", failed, counted(std::ssize(report.inputs), "input"));
  }
  if (worst != report.communicators.end() && missing(*worst) > 0) {
    text += fmt::format("{} of {} ranks {} no trace, so who is late may be missing here. ", missing(*worst),
                        worst->size, missing(*worst) == 1 ? "has" : "have");
  }
  return text;
}

/// " (GPU 1 on node001)" of a culprit that is a GPU; empty for places, whose names tell where they are.
std::string where(const JobReport& report, const Straggler& straggler) {
  if (straggler.level != Level::gpu) return "";
  const auto rank = std::find_if(report.trace_ranks.begin(), report.trace_ranks.end(),
                                 [&](const auto& identity) { return identity.trace_rank == straggler.trace_rank; });
  if (rank == report.trace_ranks.end()) return "";
  return fmt::format(" (GPU {} on {})", rank->key.device_id, rank->host.empty() ? "an unknown host" : rank->host);
}

bool names_who_is_late(const Finding& finding) {
  return finding.id.ends_with("straggler") || finding.id == "slow-link";
}

/// What the verdict tells: who is late, whose mending saves time, before what is a property of the whole job.
std::vector<Finding>::const_iterator lead(const std::vector<Finding>& findings) {
  const auto matters = [](const Finding& finding) {
    return finding.severity <= FindingSeverity::medium && finding.id != "partial-report";
  };
  auto first = std::find_if(findings.begin(), findings.end(),
                            [&](const Finding& finding) { return matters(finding) && names_who_is_late(finding); });
  if (first == findings.end()) first = std::find_if(findings.begin(), findings.end(), matters);
  if (first == findings.end()) first = std::find_if(findings.begin(), findings.end(), names_who_is_late);
  return first;
}

/// The finding's title, with the place of the culprit whose name it holds.
std::string tell(const JobReport& report, const Finding& finding) {
  std::string title = finding.title;
  const auto add_place = [&](const Straggler& straggler) {
    const std::string name = culprit_name(straggler);
    const std::size_t at = title.find(name);
    if (at == std::string::npos) return false;
    title.insert(at + name.size(), where(report, straggler));
    return true;
  };
  const bool is_told = std::any_of(report.stragglers.begin(), report.stragglers.end(), add_place);
  if (!is_told) {
    std::any_of(report.suspects.begin(), report.suspects.end(),
                [&](const SuspectedStraggler& suspect) { return add_place(suspect.late); });
  }
  return capitalised(std::move(title)) + '.';
}

/// Where no finding matters.
std::string tell_that_nobody_is_late(const JobReport& report) {
  if (report.ranks.empty())
    return "Nothing could be analysed: the inputs hold no GPU activity that this run could read.";
  if (report.unjudged * 2 > report.instances) {
    return fmt::format(
        "Lateness cannot be judged: for {} of {} matched collectives the clocks cannot be compared or the times are "
        "impossible.",
        report.unjudged, report.instances);
  }
  if (report.instances > 0) return "No trace rank is significantly late.";
  if (report.ranks.size() == 1) return "Nothing stands out; there is only one trace rank: nobody to be late for.";
  const bool communicates = std::any_of(report.ranks.begin(), report.ranks.end(), [](const RankSummary& rank) {
    return rank.budget.communication_ns > 0 || rank.budget.opaque_graph_ns > 0;
  });
  return communicates ? "Lateness cannot be judged: no collective was matched across trace ranks."
                      : "No communication between the trace ranks was recorded: nobody can be late for another.";
}

}  // namespace

JobVerdict judge(const JobReport& report) {
  JobVerdict verdict;
  const std::string missing = what_is_missing(report);
  verdict.complete = missing.empty();
  const auto first = lead(report.findings);
  if (first == report.findings.end()) {
    verdict.text = missing + tell_that_nobody_is_late(report);
    return verdict;
  }
  verdict.text = missing + tell(report, *first);
  verdict.finding = first->id;
  verdict.severity = first->severity;
  verdict.next = first->recommendation;
  return verdict;
}

}  // namespace nsys_explain::analysis
