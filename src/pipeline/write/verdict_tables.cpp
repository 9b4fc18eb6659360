#include "pipeline/write/tables.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "model/schema/gpu.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::pipeline {

Table findings_table(const JobReport& report) {
  Table table = make_table(schema::findings);
  RowWriter rows(table);
  for (const Finding& finding : report.findings) {
    rows << finding.id << severity_name(finding.severity) << finding.title
         << fmt::format("{}", fmt::join(finding.evidence, "; ")) << finding.recommendation
         << finding.cost_ns.value_or(-1);
  }
  return table;
}

Table what_if_table(const JobReport& report) {
  Table table = make_table(
      {"what_if",
       "Elapsed time that mending somebody saves, by replaying the job with their work as usual",
       {{"subject", ColumnKind::text, "",
         "trace_rank, place or link (as is usual), all (of the stragglers), stage_balanced (all stages compute as long), work_balanced (of trace ranks that do alike kernels take their mean in each step), no_launch_gaps, communication_hidden (transfers take no time) or best_group (transfers as of the best communicator of their kind)"},
        {"trace_ranks", ColumnKind::text, "",
         "whose work is as usual, or the longest stage, separated by spaces; empty: all"},
        {"after", ColumnKind::text, "",
         "whose work is as usual already, separated by spaces: mending the others saves nothing before"},
        {"saved_share", ColumnKind::real, "", "of the elapsed time of the analysed steps"},
        {"low_share", ColumnKind::real, "",
         "95% interval; -1: it happened once, it would be from 0 to 1, or too few steps tell how much the replay errs"},
        {"high_share", ColumnKind::real, "",
         "95% interval; -1: it happened once, it would be from 0 to 1, or too few steps tell how much the replay errs"},
        {"once_ns", ColumnKind::integer, "ns", "what one step alone lost; 0: it happened in several"},
        {"pauses", ColumnKind::integer, "",
         "steps that hold nearly all of it, where they are too few to tell how often it comes; 0: there are more"},
        {"pauses_ns", ColumnKind::integer, "ns", "what these lost"},
        {"step_ns_before", ColumnKind::integer, "ns", "elapsed time of a step on average"},
        {"step_ns_after", ColumnKind::integer, "ns", "likewise, in the replay"}}});
  RowWriter rows(table);
  for (const WhatIf& what_if : report.what_if) {
    rows << what_if.subject << fmt::format("{}", fmt::join(what_if.trace_ranks, " "))
         << fmt::format("{}", fmt::join(what_if.after, " ")) << what_if.saved_share << what_if.low_share.value_or(-1)
         << what_if.high_share.value_or(-1) << (what_if.pauses == 1 ? what_if.pauses_ns : 0) << what_if.pauses
         << what_if.pauses_ns << what_if.step_ns_before << what_if.step_ns_after;
  }
  return table;
}

Table slowdown_table(const JobReport& report) {
  Table table = make_table(schema::slowdown);
  RowWriter rows(table);
  if (!report.slowdown) return table;
  const Slowdown& slowdown = *report.slowdown;
  rows << "all"
       << "" << slowdown.slowdown();
  rows << "launch"
       << "" << slowdown.launch_slowdown();
  for (const SlowdownBy& by : slowdown.by) rows << by.kind << by.name << by.slowdown;
  return table;
}

Table critical_path_table(const JobReport& report) {
  Table table = make_table(schema::critical_path);
  RowWriter rows(table);
  for (const CriticalShare& share : report.critical_path.by_step) {
    for (std::size_t kind = 0; kind < critical_kind_count; ++kind) {
      if (share.duration_ns[kind] == 0) continue;
      rows << share.step << std::int64_t{share.trace_rank} << critical_kind_name(static_cast<CriticalKind>(kind))
           << share.duration_ns[kind];
    }
  }
  return table;
}

Table exposed_communication_table(const JobReport& report) {
  Table table = make_table(schema::exposed_communication);
  RowWriter rows(table);
  for (const ExposedTime& exposed : report.exposed) {
    for (std::size_t phase = 0; phase < collective_phase_count; ++phase) {
      for (std::size_t reason = 0; reason < standstill_reason_count; ++reason) {
        if (exposed.duration_ns[phase][reason] == 0) continue;
        rows << std::int64_t{exposed.trace_rank} << operation_name(exposed.operation)
             << collective_phase_name(static_cast<CollectivePhase>(phase))
             << standstill_reason_name(static_cast<StandstillReason>(reason)) << exposed.duration_ns[phase][reason];
      }
    }
  }
  return table;
}

Table step_budget_table(const JobReport& report) {
  struct Parts {
    std::array<Nanoseconds, collective_phase_count> waited_ns{};  ///< by phase, but for launch-paced
    Nanoseconds launch_paced_ns = 0;
  };
  std::map<std::int64_t, Parts> parts;
  for (const ExposedTime& exposed : report.exposed) {
    Parts& of = parts[exposed.trace_rank];
    for (std::size_t phase = 0; phase < collective_phase_count; ++phase) {
      for (std::size_t reason = 0; reason < standstill_reason_count; ++reason) {
        const bool by_launch = static_cast<StandstillReason>(reason) == StandstillReason::launch_paced;
        (by_launch ? of.launch_paced_ns : of.waited_ns[phase]) += exposed.duration_ns[phase][reason];
      }
    }
  }
  std::map<std::int64_t, Nanoseconds> starved_ns;
  if (const Table* causes = find_table(report.tables, schema::idle_causes)) {
    for (std::size_t row = 0; row < causes->row_count(); ++row)
      if (column(*causes, schema::idle_causes.cause)[row] == "launch_starved")
        starved_ns[column(*causes, schema::trace_rank)[row]] += column(*causes, schema::idle_causes.gaps.total)[row];
  }
  Table table = make_table(schema::step_budget);
  RowWriter rows(table);
  for (const RankSummary& rank : report.ranks) {
    const Budget& budget = rank.budget;
    const Parts& of = parts[rank.trace_rank];
    const auto waited_ns = [&](CollectivePhase phase) { return of.waited_ns[static_cast<std::size_t>(phase)]; };
    const Nanoseconds starved = std::min(starved_ns[rank.trace_rank], budget.idle_ns);
    rows << std::int64_t{rank.trace_rank} << report.delay.steps << budget.window_ns << budget.compute_ns
         << waited_ns(CollectivePhase::transfer) << waited_ns(CollectivePhase::arrival_skew)
         << waited_ns(CollectivePhase::unmatched) + waited_ns(CollectivePhase::inconclusive)
         << of.launch_paced_ns + starved << budget.copy_ns << budget.opaque_graph_ns << budget.idle_ns - starved;
  }
  return table;
}

Table stragglers_table(const JobReport& report) {
  Table table =
      make_table({"stragglers",
                  "Trace ranks and places that are late by their own work, costliest first",
                  {{"trace_rank", ColumnKind::integer, "", "rank of the profiled job; of a place the costliest"},
                   {"level", ColumnKind::text, "",
                    "gpu, node, rail, rack, pipeline_stage, expert_index, tensor_index or data_index"},
                   {"place", ColumnKind::text, "", "name of the node, rail or rack, number of the stage or index"},
                   {"pattern", ColumnKind::text, "",
                    "persistent, transient, periodic or rotating; unknown where no steps are known"},
                   {"cause", ColumnKind::text, "", "as in report.json"},
                   {"own_lateness_ns", ColumnKind::integer, "ns", "lateness not passed on from others"},
                   {"caused_wait_ns", ColumnKind::integer, "ns", "waiting that would vanish without it"},
                   {"delay_cost_ns", ColumnKind::integer, "ns",
                    "caused wait, with that of partners by a slow link that is its own"},
                   {"first_step", ColumnKind::integer, "", "first step it delayed; -1: no steps known"},
                   {"last_step", ColumnKind::integer, "", "last step it delayed; -1: no steps known"},
                   {"period_steps", ColumnKind::integer, "", "periodic: steps between delays; else -1"},
                   {"last_share", ColumnKind::real, "",
                    "of the resolved instances it took part in; of a place its trace ranks' on average"},
                   {"p_value", ColumnKind::real, "", "bound on the chance to cause this much waiting"},
                   {"first_ns", ColumnKind::time, "ns", "first instance it delayed"},
                   {"last_ns", ColumnKind::time, "ns", "last instance it delayed"}}});
  RowWriter rows(table);
  for (const Straggler& straggler : report.stragglers) {
    rows << std::int64_t{straggler.trace_rank} << level_name(straggler.level) << straggler.place
         << pattern_name(straggler.pattern) << cause_name(straggler.cause) << straggler.own_lateness_ns
         << straggler.caused_wait_ns << straggler.delay_cost_ns << straggler.first_step.value_or(-1)
         << straggler.last_step.value_or(-1) << straggler.period_steps.value_or(-1) << straggler.last_share
         << straggler.p_value << straggler.first_ns << straggler.last_ns;
  }
  return table;
}

}  // namespace nsys_explain::pipeline
