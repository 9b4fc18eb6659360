#include "pipeline/write/tables.hpp"

#include <algorithm>
#include <limits>
#include <optional>

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
           << i.first_enter_ns << i.last_enter_ns << i.last_enter_ns - i.first_enter_ns << i.skew_uncertainty_ns
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
    writer << row.number << std::int64_t{a.trace_rank} << a.enter_ns << a.exit_ns << wait_ns(i, a) << transfer_ns(i, a)
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

}  // namespace nsys_explain::pipeline
