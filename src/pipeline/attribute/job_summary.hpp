#pragma once

#include <span>
#include <vector>

#include "analysis/links/links.hpp"
#include "analysis/waits/waits.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/attribute/attribution.hpp"
#include "pipeline/attribute/link_analysis.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/tool_rank/topology.hpp"

namespace nsys_explain::pipeline {

/// Sums equal warnings, orders them by severity, then source and message.
std::vector<Warning> tidy_warnings(std::vector<Warning> warnings);

/// The places that trace ranks share: hardware, and the layout that communicators show.
std::vector<analysis::Grouping> groupings_of(const JobRanks& job, const CrossRank& cross,
                                             std::span<const analysis::CommunicatorTotals> totals,
                                             const RackOfHost& racks);

/// The report as far as it follows from what was read, matched and attributed: all but causes, findings and the run
/// itself. `rank_tables`: of all trace ranks.
JobReport summarise_job(const JobRanks& job, const ClockReport& clock, const CrossRank& cross,
                        const analysis::Totals& totals, Verdict verdict, LinkAnalysis links,
                        std::vector<Table> rank_tables, const std::vector<analysis::LinkPeak>& link_peaks);

}  // namespace nsys_explain::pipeline
