#pragma once

#include "nsys_explain/model/job_report.hpp"

/// The words of docs/outputs.md for the model's enumerations: in report.json, and where report.md shows them.
namespace nsys_explain {

std::string_view status_name(InputStatus status);
std::string_view rank_source_name(RankSource source);
std::string_view clock_method_name(ClockMethod method);
std::string_view pattern_name(Pattern pattern);
std::string_view level_name(Level level);
std::string_view doubt_name(Doubt doubt);
std::string_view cause_name(Cause cause);
std::string_view severity_name(FindingSeverity severity);
std::string_view severity_name(Severity severity);
std::string_view warning_source_name(WarningSource source);

/// "node n07", "pipeline stage 2".
std::string place_text(const PlaceName& place);

/// "trace rank 5", "node n07 (all 8 trace ranks)".
std::string culprit_name(const Straggler& straggler);

}  // namespace nsys_explain
