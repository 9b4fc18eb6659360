#include <optional>
#include <string>

#include "nsys_explain/model/names.hpp"
#include "nsys_explain/model/utf8.hpp"
#include "report/json_parts.hpp"
#include "report/overview.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

std::string to_summary_line(const JobReport& report, std::string_view output_directory, int exit_code) {
  const Overview overview = overview_of(report);
  double seconds = 0;
  for (const RunFacts::Phase& phase : report.run.phases) seconds += phase.seconds;
  const auto to_object = [&](const Straggler& straggler) {
    const TraceRankIdentity* identity = find_identity(report, straggler.trace_rank);
    return Json{{"trace_rank", straggler.trace_rank},
                {"level", level_name(straggler.level)},
                {"host", identity == nullptr ? "" : valid_utf8(identity->host)},
                {"gpu", identity == nullptr ? -1 : identity->key.device_id},
                {"pattern", pattern_name(straggler.pattern)},
                {"cause", cause_name(straggler.cause)},
                {"cost_share", straggler.cost_share}};
  };
  const bool has_time = overview.window_ns > 0;
  const std::optional<WhatIf>& fixed = report.verdict.mended;
  const Json line{
      {"tool", "nsys-explain-mpi"},
      {"version", report.run.tool_version},
      {"exit_code", exit_code},
      {"date_utc", report.run.date_utc},
      {"verdict", valid_utf8(report.verdict.text)},
      {"finding", report.verdict.finding},
      {"severity", severity_name(report.verdict.severity)},
      {"judged_share", nullable(report.verdict.judged_share)},
      {"saved_share", fixed ? Json(fixed->saved_share) : Json(nullptr)},
      {"low_share", fixed ? nullable(fixed->low_share) : Json(nullptr)},
      {"high_share", fixed ? nullable(fixed->high_share) : Json(nullptr)},
      {"results", valid_utf8(output_directory)},
      {"inputs",
       {{"ok", overview.inputs_ok}, {"degraded", overview.inputs_degraded}, {"failed", overview.inputs_failed}}},
      {"trace_ranks", report.trace_ranks.size()},
      {"collectives", report.instances},
      {"wait_share", has_time ? Json(static_cast<double>(overview.wait_ns) / static_cast<double>(overview.window_ns))
                              : Json(nullptr)},
      {"stragglers", array_of(overview.stragglers, to_object)},
      {"clock_residual_p90_ns", nullable(report.clock.residual.held_out_p90_ns)},
      {"findings_high", overview.findings[static_cast<std::size_t>(FindingSeverity::high)]},
      {"tool_ranks", report.run.tool_ranks},
      {"seconds", seconds}};
  return line.dump(-1, ' ', true);  // in ASCII: it is printed
}

}  // namespace nsys_explain::report
