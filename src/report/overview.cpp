#include "report/overview.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/schema/job.hpp"
#include "nsys_explain/model/names.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += i + 1 == parts.size() ? " and " : ", ";
    result += parts[i];
  }
  return result;
}

/// Why waiting has no culprit.
std::string why_not_attributed(const JobReport& report, const Overview& overview) {
  if (overview.resolved == 0) {
    return fmt::format(
        "in none of the {} is the last arriver later than the one before it by more than three times the clock's uncertainty",
        counted(report.instances, "collective"));
  }
  const auto most =
      std::max_element(report.ranks.begin(), report.ranks.end(),
                       [](const RankSummary& a, const RankSummary& b) { return a.last_arrivals < b.last_arrivals; });
  return fmt::format(
      "the clock resolves the last arriver in {} of {} collectives, but no rank is late by what it does itself beyond chance and at a cost that matters (most often last: rank {}, {} times)",
      format_count(overview.resolved), format_count(report.instances), most->trace_rank,
      format_count(most->last_arrivals));
}

/// Pipeline stages that consist of one trace rank: no other does the same work.
std::int64_t stages_of_one(const JobReport& report) {
  const Table* places = find_table(report.tables, schema::rank_places);
  if (places == nullptr) return 0;
  const auto& levels = column(*places, schema::rank_places.level);
  const auto& names = column(*places, schema::rank_places.place);
  std::map<std::string_view, std::int64_t> members;
  for (std::size_t i = 0; i < levels.size(); ++i)
    if (levels[i] == level_name(Level::pipeline_stage)) ++members[names[i]];
  return std::count_if(members.begin(), members.end(), [](const auto& stage) { return stage.second == 1; });
}

}  // namespace

Overview overview_of(const JobReport& report) {
  Overview overview;
  for (const RankSummary& rank : report.ranks) {
    overview.window_ns += rank.budget.window_ns;
    overview.wait_ns += rank.wait_ns;
    overview.resolved += rank.last_arrivals;
  }
  for (const Straggler& straggler : report.stragglers) overview.delay_cost_ns += straggler.delay_cost_ns;
  for (const InputReport& input : report.inputs) {
    overview.inputs_ok += input.status == InputStatus::ok ? 1 : 0;
    overview.inputs_degraded += input.status == InputStatus::degraded ? 1 : 0;
    overview.inputs_failed += input.status == InputStatus::failed ? 1 : 0;
  }
  for (const Warning& warning : report.warnings) ++overview.warnings.at(static_cast<std::size_t>(warning.severity));
  for (const Finding& finding : report.findings) ++overview.findings.at(static_cast<std::size_t>(finding.severity));
  overview.stragglers = report.stragglers;
  std::sort(overview.stragglers.begin(), overview.stragglers.end(), [](const Straggler& a, const Straggler& b) {
    return a.delay_cost_ns != b.delay_cost_ns ? a.delay_cost_ns > b.delay_cost_ns : a.trace_rank < b.trace_rank;
  });
  return overview;
}

const Straggler* late_in_verdict(const JobReport& report) {
  const auto finding = std::find_if(report.findings.begin(), report.findings.end(),
                                    [&](const Finding& one) { return one.id == report.verdict.finding; });
  if (finding == report.findings.end() || finding->trace_ranks.empty()) return nullptr;
  for (const Straggler& one : report.stragglers)
    if (one.trace_ranks == finding->trace_ranks) return &one;
  for (const SuspectedStraggler& one : report.suspects)
    if (one.late.trace_ranks == finding->trace_ranks) return &one.late;
  return nullptr;
}

bool is_mostly_unjudged(const JobReport& report) {
  return report.unjudged * 2 > report.instances;
}

std::vector<std::string> explanation(const JobReport& report, const Overview& overview) {
  std::vector<std::string> sentences;
  if (report.instances == 0 || report.ranks.empty()) return sentences;
  const std::string waiting =
      fmt::format("Waiting in collectives adds up to {}, {} of all GPU time", format_gpu_time(overview.wait_ns),
                  format_share(overview.wait_ns, overview.window_ns));
  if (is_mostly_unjudged(report)) {
    sentences.push_back(waiting + ", where it can be seen at all; the findings and warnings say what is in the way.");
  } else if (overview.stragglers.empty()) {
    sentences.push_back(
        fmt::format("{}. It is not attributed to anybody: {}.", waiting, why_not_attributed(report, overview)));
    if (const std::int64_t alone = stages_of_one(report); alone > 0) {
      sentences.push_back(fmt::format(
          "{} of {} ranks are pipeline stages without peers: lasting surplus work is seen there only in kernels that other stages run, too (tables kernel_peers and stage_balance); longer kernels there may be meant so.",
          format_count(alone), format_count(static_cast<std::int64_t>(report.ranks.size()))));
    }
  } else {
    sentences.push_back(fmt::format("{}; what is named here caused {} of it.", waiting,
                                    format_share(overview.delay_cost_ns, overview.wait_ns)));
  }
  return sentences;
}

std::string input_quality(const JobReport& report, const Overview& overview) {
  if (overview.inputs_ok == static_cast<std::int64_t>(report.inputs.size()))
    return counted(overview.inputs_ok, "input") + '.';
  return fmt::format(
      "{}: {} ok, {} degraded, {} failed.", counted(static_cast<std::int64_t>(report.inputs.size()), "input"),
      format_count(overview.inputs_ok), format_count(overview.inputs_degraded), format_count(overview.inputs_failed));
}

std::string matching_quality(const JobReport& report) {
  std::string sentence = counted(report.instances, "collective") + " matched";
  if (report.partial > 0)
    sentence += fmt::format(": {} complete, {} partial", format_count(report.complete), format_count(report.partial));
  if (report.unmatched_arrivals > 0)
    sentence += fmt::format("; {} without counterpart", counted(report.unmatched_arrivals, "arrival"));
  if (report.withheld_arrivals > 0)
    sentence += fmt::format("; {} withheld, as nothing says which communicator they belong to",
                            counted(report.withheld_arrivals, "arrival"));
  return sentence + ".";
}

std::string clock_quality(const JobReport& report) {
  const ClockReport& clock = report.clock;
  if (clock.sessions.empty()) return "Clock: no session was read.";
  if (clock.sessions.size() == 1) return "Clock: one session, so all times share one clock.";
  std::map<ClockMethod, std::int64_t> methods;
  std::int64_t unrelated = 0;
  for (const SessionClock& session : clock.sessions) {
    ++methods[session.method];
    unrelated += session.uncertainty_ns ? 0 : 1;
  }
  std::vector<std::string> parts;
  parts.reserve(methods.size());
  for (const auto& [method, sessions] : methods) {
    const bool is_related_by_utc = method == ClockMethod::utc && unrelated == 0;
    parts.push_back(fmt::format("{} by {}", format_count(sessions),
                                is_related_by_utc ? "UTC of one host" : clock_method_name(method)));
  }
  std::string text =
      fmt::format("Clock: {}, {}", counted(static_cast<std::int64_t>(clock.sessions.size()), "session"), joined(parts));
  if (clock.residual.held_out_p90_ns) {
    text += fmt::format("; ends of collectives agree within {} (90% of them)",
                        format_duration(*clock.residual.held_out_p90_ns));
  }
  if (clock.smallest_skew_ns)
    text += fmt::format("; delays below {} are not seen", format_duration(*clock.smallest_skew_ns));
  if (unrelated > 0) {
    text += fmt::format("; {} related to no other: no lateness is stated for {}",
                        unrelated == 1 ? "1 session is" : format_count(unrelated) + " sessions are",
                        unrelated == 1 ? "it" : "them");
  }
  return text + ".";
}

const TraceRankIdentity* find_identity(const JobReport& report, std::int32_t trace_rank) {
  const auto found = std::find_if(report.trace_ranks.begin(), report.trace_ranks.end(),
                                  [&](const TraceRankIdentity& rank) { return rank.trace_rank == trace_rank; });
  return found == report.trace_ranks.end() ? nullptr : &*found;
}

std::string format_gpu_time(Nanoseconds duration_ns) {
  const double seconds = static_cast<double>(duration_ns) * 1e-9;
  constexpr double hour = 3600;
  if (std::abs(seconds) < 1) return format_duration(duration_ns) + " of GPU time";
  const bool hours = std::abs(seconds) >= hour;
  const double value = hours ? seconds / hour : seconds;
  const bool large = std::abs(value) >= 999.5;
  return fmt::format("{} GPU-{}", large ? format_count(std::llround(value)) : fmt::format("{:.3g}", value),
                     hours ? "hours" : "seconds");
}

}  // namespace nsys_explain::report
