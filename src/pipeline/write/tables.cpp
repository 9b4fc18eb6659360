#include "pipeline/write/tables.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "model/schema/gpu.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::pipeline {

namespace {

double real_or_nan(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

using enum ColumnKind;

TableExtent extent_without_texts(const TableSchema& schema, std::int64_t rows) {
  return {static_cast<std::size_t>(rows), std::vector<std::size_t>(schema.columns.size(), 0)};
}

/// Bytes of the longest name of an enumeration that ends with `last`.
template <class Value>
std::size_t longest_name(Value last, std::string_view (*name_of)(Value)) {
  std::size_t longest = 0;
  for (int value = 0; value <= static_cast<int>(last); ++value) {
    longest = std::max(longest, name_of(static_cast<Value>(value)).size());
  }
  return longest;
}

}  // namespace

Table instances_chunk(std::span<const InstanceRow> rows,
                      const std::vector<collectives::PlannedCommunicator>& communicators,
                      std::span<const std::int64_t> first_instance) {
  Table table = make_table(schema::collective_instances);
  RowWriter writer(table);
  for (const InstanceRow& row : rows) {
    const Instance& i = row.instance;
    const auto c = static_cast<std::size_t>(row.communicator);
    writer << first_instance[c] + i.sequence << std::string_view(communicators[c].name) << i.sequence
           << operation_name(i.operation) << i.message_bytes << std::int64_t{i.members} << std::int64_t{i.arrivals}
           << i.first_enter.ns << i.last_enter.ns << i.last_enter - i.first_enter << i.skew_uncertainty_ns
           << std::int64_t{i.last_trace_rank} << i.resolved << i.transfer_ns << i.feasible << i.caused_wait_ns
           << i.end_residual_ns;
  }
  return table;
}

Table arrivals_chunk(std::span<const ArrivalRow> rows) {
  Table table = make_table(schema::collective_arrivals);
  RowWriter writer(table);
  for (const ArrivalRow& row : rows) {
    const Instance& i = *row.instance;
    const InstanceArrival& a = *row.arrival;
    writer << row.number << std::int64_t{a.trace_rank} << a.enter.ns << a.exit.ns << wait_ns(i, a) << transfer_ns(i, a)
           << a.own_lateness_ns << inherited_lateness_ns(i, a) << timing_source_name(a.timing_source);
  }
  return table;
}

TableExtent instances_extent(std::int64_t rows, const std::vector<collectives::PlannedCommunicator>& communicators) {
  const TableSchema schema = schema::collective_instances.table_schema();
  TableExtent extent = extent_without_texts(schema, rows);
  std::size_t& longest = extent.longest_texts[schema.index_of(schema::collective_instances.communicator)];
  for (const collectives::PlannedCommunicator& planned : communicators)
    longest = std::max(longest, planned.name.size());
  extent.longest_texts[schema.index_of(schema::collective_instances.operation)] =
      longest_name(Operation::barrier, operation_name);
  return extent;
}

TableExtent arrivals_extent(std::int64_t rows) {
  const TableSchema schema = schema::collective_arrivals.table_schema();
  TableExtent extent = extent_without_texts(schema, rows);
  extent.longest_texts[schema.index_of(schema::collective_arrivals.timing_source)] =
      longest_name(TimingSource::host_call, timing_source_name);
  return extent;
}

TableExtent steps_extent(std::int64_t rows) {
  return extent_without_texts(schema::steps.table_schema(), rows);
}

Table steps_chunk(std::span<const StepRow> rows) {
  Table table = make_table(schema::steps);
  RowWriter writer(table);
  for (const StepRow& row : rows) {
    writer << row.step << std::int64_t{row.trace_rank} << row.start_ns << row.duration_ns << row.own_lateness_ns
           << row.wait_ns << row.caused_wait_ns << std::int64_t{row.apart};
  }
  return table;
}

Table trace_ranks_table(const JobReport& report) {
  Table table = make_table({"trace_ranks",
                            "Ranks of the profiled job: one process on one device",
                            {{"trace_rank", integer, "", "number in the profiled job"},
                             {"rank_source", text, "", "what says so, most trustworthy source first"},
                             {"path", text, "", "input that holds it"},
                             {"process_id", integer, "", "as seen inside its container"},
                             {"device_id", integer, "", "CUDA ordinal as the process saw it"},
                             {"host", text, "", "host name in the export"},
                             {"gpu_name", text, "", ""},
                             {"gpu_uuid", text, "", ""}}});
  RowWriter writer(table);
  for (const TraceRankIdentity& rank : report.trace_ranks) {
    writer << std::int64_t{rank.trace_rank} << rank_source_name(rank.rank_source) << std::string_view(rank.key.path)
           << std::int64_t{rank.process_id} << std::int64_t{rank.key.device_id} << std::string_view(rank.host)
           << std::string_view(rank.gpu_name) << std::string_view(rank.gpu_uuid);
  }
  return table;
}

Table host_processes_table(const JobReport& report) {
  Table table =
      make_table({"host_processes",
                  "Processes without GPU work: no trace ranks, but rows in the tables of calls, ranges and samples",
                  {{"trace_rank", integer, "", "number in the profiled job, where known; else the next that is free"},
                   {"rank_source", text, "", "what says so; file_order: nothing"},
                   {"path", text, "", "input that holds it"},
                   {"process_id", integer, "", "as seen inside its container"},
                   {"process_name", text, "", "empty: not known"},
                   {"host", text, "", "host name in the export"}}});
  RowWriter writer(table);
  for (const TraceRankIdentity& one : report.host_processes) {
    writer << std::int64_t{one.trace_rank} << rank_source_name(one.rank_source) << std::string_view(one.key.path)
           << std::int64_t{one.process_id} << std::string_view(one.process_name) << std::string_view(one.host);
  }
  return table;
}

Table ranks_table(const JobReport& report) {
  Table table = make_table(schema::ranks);
  RowWriter writer(table);
  for (const RankSummary& rank : report.ranks) {
    const Budget& b = rank.budget;
    writer << std::int64_t{rank.trace_rank} << b.window_start_ns << b.window_ns << b.compute_ns << b.communication_ns
           << b.overlapped_ns << b.exposed_communication_ns << b.copy_ns << b.opaque_graph_ns << b.idle_ns
           << rank.arrivals << rank.last_arrivals << rank.wait_ns << rank.caused_wait_ns << rank.own_lateness_ns
           << rank.inherited_lateness_ns << real_or_nan(rank.bus_bandwidth_gbs);
  }
  return table;
}

Table communicators_table(const JobReport& report) {
  Table table = make_table({"communicators",
                            "Communicators of the profiled job",
                            {{"communicator", text, "", "NCCL's communicator hash, or inferred-N"},
                             {"given_name", text, "", "what the program calls it (commName); empty: not known"},
                             {"size", integer, "", "members that exist"},
                             {"members_seen", integer, "", "trace ranks found"},
                             {"instances", integer, "", ""},
                             {"complete", integer, "", "instances with every member"},
                             {"partial", integer, "", "instances with some members missing"},
                             {"unmatched_arrivals", integer, "", "arrivals without a counterpart"},
                             {"evidence", text, "", "what brought the members together"}}});
  RowWriter writer(table);
  for (const CommunicatorSummary& c : report.communicators) {
    writer << std::string_view(c.name) << std::string_view(c.given_name) << std::int64_t{c.size}
           << static_cast<std::int64_t>(c.trace_ranks.size()) << c.instances << c.complete << c.partial
           << c.unmatched_arrivals << evidence_name(c.evidence);
  }
  return table;
}

Table operations_table(const JobReport& report) {
  Table table =
      make_table({"operations",
                  "Sums over all instances by operation; bandwidths rest on complete, feasible instances of known size",
                  {{"operation", text, "", ""},
                   {"instances", integer, "", ""},
                   {"bytes", integer, "bytes", "message sizes; -1: not known"},
                   {"wait_ns", integer, "ns", "over all members"},
                   {"transfer_ns", integer, "ns", "once per instance"},
                   {"algorithm_bandwidth_gbs", real, "GB/s", "total bytes over total transfer time; GB = 1e9"},
                   {"bus_bandwidth_gbs", real, "GB/s", "corrected by the factor of nccl-tests"}}});
  RowWriter writer(table);
  for (const OperationSummary& o : report.by_operation) {
    writer << operation_name(o.operation) << o.instances << o.bytes.value_or(-1) << o.wait_ns << o.transfer_ns
           << real_or_nan(o.algorithm_bandwidth_gbs) << real_or_nan(o.bus_bandwidth_gbs);
  }
  return table;
}

Table clock_table(const JobReport& report) {
  Table table =
      make_table({"clock_sessions",
                  "Job time = u - offset - drift * 1e-9 * (u - offset - pivot), with u = UTC by the report - epoch",
                  {{"path", text, "", "input"},
                   {"host", text, "", ""},
                   {"method", text, "", "collectives, host_clock or utc"},
                   {"offset_ns", integer, "ns", "at the pivot"},
                   {"drift_ppb", real, "ppb", ""},
                   {"uncertainty_ns", integer, "ns", "one standard uncertainty; -1: related to no other session"},
                   {"component", integer, "", "only sessions of one component can be compared"},
                   {"drift_uncertainty_ppb", real, "ppb", "one standard uncertainty; NaN: no drift was fitted"}}});
  RowWriter writer(table);
  for (const SessionClock& session : report.clock.sessions) {
    writer << std::string_view(session.path) << std::string_view(session.host) << clock_method_name(session.method)
           << session.offset_ns << session.drift_ppb << session.uncertainty_ns.value_or(-1)
           << std::int64_t{session.component} << real_or_nan(session.drift_uncertainty_ppb);
  }
  return table;
}

Table clock_residuals_table(const JobReport& report) {
  Table table =
      make_table({"clock_residuals",
                  "How far ends of collectives held out of the clock fit lie from their instance's median",
                  {{"operation", text, "", "what the members do"},
                   {"one_host", integer, "", "1: all members on one host"},
                   {"from_bytes", integer, "bytes", "message sizes from here to below twice this; -1: not known"},
                   {"decides", integer, "", "1: counts in the residual of the whole run"},
                   {"samples", integer, "", "ends looked at"},
                   {"p50_ns", integer, "ns", "median, the lasting bias of each member's ends taken off"},
                   {"p90_ns", integer, "ns", "90% are less"},
                   {"max_ns", integer, "ns", "largest"}}});
  RowWriter writer(table);
  for (const ClassResidual& row : report.clock.residual.by_class) {
    writer << operation_name(row.operation) << row.one_host << row.from_bytes << row.decides << row.samples
           << row.p50_ns << row.p90_ns << row.max_ns;
  }
  return table;
}

std::vector<Table> job_tables(const JobReport& report) {
  std::vector<Table> tables;
  for (const auto& make :
       {findings_table, what_if_table, slowdown_table, critical_path_table, exposed_communication_table,
        step_budget_table, stragglers_table, trace_ranks_table, host_processes_table, ranks_table, communicators_table,
        operations_table, clock_table, clock_residuals_table}) {
    tables.push_back(make(report));
  }
  return tables;
}

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
