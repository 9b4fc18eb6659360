#include "pipeline/attribute/job_summary.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "analysis/links/links.hpp"
#include "analysis/questions/question.hpp"
#include "analysis/tables/tables.hpp"
#include "analysis/waits/waits.hpp"
#include "pipeline/read/ranks_without_ranges.hpp"

namespace nsys_explain::pipeline {
namespace {

std::vector<CommunicatorSummary> summarise_communicators(const CrossRank& cross, const analysis::Totals& totals) {
  std::vector<CommunicatorSummary> rows;
  for (std::size_t c = 0; c < cross.communicators.size(); ++c) {
    const collectives::PlannedCommunicator& planned = cross.communicators[c];
    const analysis::CommunicatorTotals& total = totals.communicators[c];
    rows.push_back({planned.name, planned.given_name, planned.source_key, planned.trace_ranks, planned.size,
                    total.instances, total.complete, total.instances - total.complete, total.unmatched_arrivals,
                    planned.evidence});
  }
  return rows;
}

void add_missing_rank_warnings(const JobReport& report, std::vector<Warning>& warnings) {
  for (const CommunicatorSummary& communicator : report.communicators) {
    const auto seen = static_cast<std::int32_t>(communicator.trace_ranks.size());
    if (seen == communicator.size) continue;
    warnings.push_back(
        {Severity::data_loss, WarningSource::analysis, communicator.size - seen,
         fmt::format(
             "members of communicator {} are not known ({} of {} seen): who they made wait, and whether they came last, cannot be told; {}",
             communicator.name, seen, communicator.size,
             communicator.size > std::ssize(report.trace_ranks)
                 ? "add their traces"
                 : "add their traces, or export all tables of those that are here")});
  }
}

}  // namespace

std::vector<Warning> tidy_warnings(std::vector<Warning> warnings) {
  const auto key = [](const Warning& w) {
    return std::tuple(-static_cast<int>(w.severity), w.source, std::string_view(w.message));
  };
  std::sort(warnings.begin(), warnings.end(), [&](const Warning& a, const Warning& b) { return key(a) < key(b); });
  std::vector<Warning> tidy;
  for (Warning& warning : warnings) {
    if (!tidy.empty() && key(tidy.back()) == key(warning)) {
      tidy.back().count += warning.count;
    } else {
      tidy.push_back(std::move(warning));
    }
  }
  return tidy;
}

namespace {

/// A rail, or an index in a group, is a place of ranks that meet: those that no chain of communicators joins share
/// nothing of it that could be late. A node or a rack they may share; stages are compared wherever they are.
void forget_places_of_strangers(const JobRanks& job, const CrossRank& cross,
                                std::vector<analysis::Grouping>& groupings) {
  std::vector<std::size_t> group(job.numbers.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  const auto first_of = [&](std::size_t r) {
    while (group[r] != r) r = group[r] = group[group[r]];
    return r;
  };
  for (const collectives::PlannedCommunicator& planned : cross.communicators) {
    for (const std::int32_t member : planned.trace_ranks)
      group[first_of(job.index_of(member))] = first_of(job.index_of(planned.trace_ranks.front()));
  }
  for (analysis::Grouping& grouping : groupings) {
    if (grouping.level == Level::node || grouping.level == Level::rack || grouping.level == Level::pipeline_stage)
      continue;
    std::map<std::string, std::set<std::size_t>> groups;
    for (std::size_t r = 0; r < group.size(); ++r) groups[grouping.place_of_rank[r]].insert(first_of(r));
    for (std::string& place : grouping.place_of_rank)
      if (groups[place].size() > 1) place.clear();
  }
}

}  // namespace

std::vector<analysis::Grouping> groupings_of(const JobRanks& job, const CrossRank& cross,
                                             std::span<const analysis::CommunicatorTotals> totals,
                                             const RackOfHost& racks) {
  std::vector<analysis::Grouping> groupings = hardware_groupings(job.trace_ranks, racks);
  const auto communicators = layout_communicators(cross.communicators, totals, job.numbers);
  for (analysis::Grouping& grouping : analysis::layout_groupings(job.numbers.size(), communicators))
    groupings.push_back(std::move(grouping));
  if (!cross.communicators.empty()) forget_places_of_strangers(job, cross, groupings);
  return groupings;
}

JobReport summarise_job(const JobRanks& job, const ClockReport& clock, const CrossRank& cross,
                        const analysis::Totals& totals, Verdict verdict, LinkAnalysis links,
                        std::vector<Table> rank_tables, const std::vector<analysis::LinkPeak>& link_peaks) {
  JobReport report;
  report.epoch_utc_ns = job.epoch_utc_ns;
  report.inputs = job.inputs;
  report.sessions = job.sessions;
  report.trace_ranks = job.trace_ranks;
  report.helpers = job.helpers;
  report.other_jobs = job.other_jobs;
  report.world_size = job.world_size;
  report.untraced_processes = job.untraced_processes;
  report.run_facts = analysis::summarise_run_facts(rank_tables);
  report.clock = clock;
  report.communicators = summarise_communicators(cross, totals);
  report.clock.violations = 0;
  for (std::size_t c = 0; c < report.communicators.size(); ++c) {
    report.instances += report.communicators[c].instances;
    report.complete += report.communicators[c].complete;
    report.partial += report.communicators[c].partial;
    report.unmatched_arrivals += report.communicators[c].unmatched_arrivals;
    report.clock.violations += totals.communicators[c].infeasible;
    report.unjudged += totals.communicators[c].unjudged;
  }
  report.withheld_arrivals = cross.withheld_arrivals;
  if (totals.largest_skew_uncertainty_ns >= 0) {
    report.clock.smallest_skew_ns = analysis::resolution_factor * totals.largest_skew_uncertainty_ns;
  }
  report.by_operation = analysis::summarise_operations(totals.operations);
  report.ranks = std::move(verdict.ranks);
  report.stragglers = std::move(verdict.stragglers);
  report.suspects = std::move(verdict.suspects);
  report.late_without_cost = std::move(verdict.late_without_cost);
  report.delay = std::move(verdict.delay);
  report.nvlink = analysis::describe_nvlink(rank_tables);
  analysis::estimate_nvlink_gbs(job.trace_ranks, link_peaks, rank_tables);
  report.slow_links = std::move(links.slow_links);
  for (const analysis::Question& question : analysis::all_questions()) report.shown.push_back(question.shown);
  report.warnings = job.warnings;
  add_missing_rank_warnings(report, report.warnings);
  for (Warning& one : ranks_without_ranges(rank_tables, job)) report.warnings.push_back(std::move(one));
  report.warnings = tidy_warnings(std::move(report.warnings));
  report.tables = std::move(links.tables);
  report.tables.push_back(analysis::byte_matrix_table(rank_tables));
  report.tables.push_back(analysis::network_metrics_table(rank_tables, job.trace_ranks));
  std::move(rank_tables.begin(), rank_tables.end(), std::back_inserter(report.tables));
  return report;
}

}  // namespace nsys_explain::pipeline
