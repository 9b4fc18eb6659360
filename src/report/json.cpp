#include <fmt/format.h>

#include "nsys_explain/model/names.hpp"
#include "report/overview.hpp"
#include "report/report.hpp"
#include "report/side_files.hpp"

// Keys appear in the order of docs/outputs.md, report.json. Non-finite numbers become null and invalid UTF-8 becomes
// U+FFFD when the document is written.
namespace nsys_explain::report {
namespace {

Json value(const RunFactSummary::Value& v, std::size_t all) {
  return {{"value", v.value}, {"trace_ranks", v.trace_ranks.size() == all ? Json(nullptr) : Json(v.trace_ranks)}};
}

Json fact(const RunFactSummary& f, std::size_t all) {
  return {{"fact", f.name}, {"values", array_of(f.values, [&](const auto& v) { return value(v, all); })}};
}

/// The trace ranks of a value that all of them share are null: report.json must stay small on thousands of ranks.
Json run_facts_json(const JobReport& report) {
  return array_of(report.run_facts, [&](const RunFactSummary& f) { return fact(f, report.trace_ranks.size()); });
}

Json input(const InputReport& input) {
  return {{"path", input.path}, {"status", status_name(input.status)}, {"message", input.message}};
}

Json session(const Session& session) {
  return {{"path", session.path},
          {"host", session.host},
          {"uuid", session.uuid},
          {"nsys_version", session.nsys_version},
          {"utc_start_ns", point_in_time(session.utc_start_ns)}};
}

Json trace_rank(const TraceRankIdentity& rank) {
  return {{"trace_rank", rank.trace_rank},
          {"rank_source", rank_source_name(rank.rank_source)},
          {"path", rank.key.path},
          {"process_id", rank.process_id},
          {"process_name", rank.process_name},
          {"device_id", rank.key.device_id},
          {"host", rank.host},
          {"gpu_name", rank.gpu_name},
          {"gpu_uuid", rank.gpu_uuid}};
}

Json host_process(const TraceRankIdentity& process) {
  return {{"trace_rank", process.trace_rank},
          {"rank_source", rank_source_name(process.rank_source)},
          {"path", process.key.path},
          {"process_id", process.process_id},
          {"process_name", process.process_name},
          {"host", process.host}};
}

Json helper(const HelperProcess& helper) {
  return {{"path", helper.key.path},
          {"process_id", helper.process_id},
          {"device_id", helper.key.device_id},
          {"process_name", helper.process_name},
          {"host", helper.host},
          {"kernels", helper.kernels},
          {"busy_ns", helper.busy_ns},
          {"recorded_ns", helper.recorded_ns},
          {"trace_ranks", helper.trace_ranks}};
}

Json other_job(const OtherJob& job) {
  return {{"trace_ranks", job.trace_ranks}, {"paths", job.paths}, {"reason", job.reason}, {"command", job.command}};
}

Json communicator(const CommunicatorSummary& communicator) {
  return {{"communicator", communicator.name},
          {"given_name", communicator.given_name.empty() ? Json() : Json(communicator.given_name)},
          {"trace_ranks", communicator.trace_ranks},
          {"size", communicator.size},
          {"instances", communicator.instances},
          {"complete", communicator.complete},
          {"partial", communicator.partial},
          {"unmatched_arrivals", communicator.unmatched_arrivals},
          {"evidence", evidence_name(communicator.evidence)}};
}

Json operation(const OperationSummary& summary) {
  return {{"operation", operation_name(summary.operation)},
          {"instances", summary.instances},
          {"bytes", nullable(summary.bytes)},
          {"wait_ns", summary.wait_ns},
          {"transfer_ns", summary.transfer_ns},
          {"algorithm_bandwidth_gbs", nullable(summary.algorithm_bandwidth_gbs)},
          {"bus_bandwidth_gbs", nullable(summary.bus_bandwidth_gbs)}};
}

Json rank(const RankSummary& rank) {
  const Budget& budget = rank.budget;
  return {{"trace_rank", rank.trace_rank},
          {"window_start_ns", point_in_time(budget.window_start_ns)},
          {"window_ns", budget.window_ns},
          {"compute_ns", budget.compute_ns},
          {"communication_ns", budget.communication_ns},
          {"overlapped_ns", budget.overlapped_ns},
          {"exposed_communication_ns", budget.exposed_communication_ns},
          {"copy_ns", budget.copy_ns},
          {"opaque_graph_ns", budget.opaque_graph_ns},
          {"idle_ns", budget.idle_ns},
          {"arrivals", rank.arrivals},
          {"last_arrivals", rank.last_arrivals},
          {"wait_ns", rank.wait_ns},
          {"caused_wait_ns", rank.caused_wait_ns},
          {"own_lateness_ns", rank.own_lateness_ns},
          {"inherited_lateness_ns", rank.inherited_lateness_ns},
          {"bus_bandwidth_gbs", nullable(rank.bus_bandwidth_gbs)}};
}

Json straggler(const Straggler& straggler) {
  return {{"trace_rank", straggler.trace_rank},
          {"level", level_name(straggler.level)},
          {"place", straggler.place},
          {"trace_ranks", straggler.trace_ranks},
          {"pattern", pattern_name(straggler.pattern)},
          {"cause", cause_name(straggler.cause)},
          {"host_was_in", straggler.host_was_in.empty() ? Json() : Json(straggler.host_was_in)},
          {"own_lateness_ns", straggler.own_lateness_ns},
          {"caused_wait_ns", straggler.caused_wait_ns},
          {"delay_cost_ns", straggler.delay_cost_ns},
          {"cost_share", straggler.cost_share},
          {"gpu_hours_per_day", straggler.gpu_hours_per_day},
          {"last_share", straggler.last_share},
          {"p_value", straggler.p_value},
          {"first_ns", point_in_time(straggler.first_ns)},
          {"last_ns", point_in_time(straggler.last_ns)},
          {"first_step", nullable(straggler.first_step)},
          {"last_step", nullable(straggler.last_step)},
          {"period_steps", nullable(straggler.period_steps)},
          {"behind", straggler.behind},
          {"evidence", straggler.evidence}};
}

Json suspect(const SuspectedStraggler& suspect) {
  Json json = straggler(suspect.late);
  const auto where = [&](Doubt doubt, auto value) { return suspect.doubt == doubt ? Json(value) : Json(nullptr); };
  json["doubt"] = doubt_name(suspect.doubt);
  json["verdict_p_value"] = suspect.verdict_p_value;
  json["steps"] = suspect.steps;
  json["steps_needed"] = where(Doubt::too_few_steps, suspect.steps_needed);
  json["unseen_cost_share"] = where(Doubt::unseen, suspect.unseen_cost_share);
  return json;
}

Json step(const NextStep& step) {
  return {{"command", step.command}, {"expect", step.expect}};
}

Json verdict(const JobReport& report) {
  const JobVerdict& verdict = report.verdict;
  const WhatIf* const mended = verdict.mended ? &*verdict.mended : nullptr;
  return {{"text", verdict.text},
          {"finding", verdict.finding.empty() ? Json() : Json(verdict.finding)},
          {"severity", severity_name(verdict.severity)},
          {"saved_share", mended != nullptr ? Json(mended->saved_share) : Json()},
          {"low_share", mended != nullptr ? nullable(mended->low_share) : Json()},
          {"high_share", mended != nullptr ? nullable(mended->high_share) : Json()},
          {"complete", verdict.complete},
          {"judged_share", nullable(verdict.judged_share)},
          {"answers", short_answers(report)},
          {"next", verdict.next},
          {"do_next", array_of(next_steps(report, "."), step)}};
}

Json delay(const DelaySummary& delay) {
  return {{"wait_ns", delay.wait_ns},
          {"attributed_ns", delay.attributed_ns},
          {"unattributed_ns", delay.unattributed_ns},
          {"cost_share", delay.cost_share},
          {"gpu_hours_per_day", delay.gpu_hours_per_day},
          {"rotating", delay.rotating},
          {"rotating_cause", delay.rotating ? Json(cause_name(delay.rotating_cause)) : Json()},
          {"rotating_share", delay.rotating ? Json(delay.rotating_share) : Json()},
          {"steps", delay.steps},
          {"first_step", delay.first_step},
          {"step_source", delay.step_source}};
}

Json finding(const Finding& finding) {
  return {{"id", finding.id},
          {"severity", severity_name(finding.severity)},
          {"title", finding.title},
          {"evidence", finding.evidence},
          {"recommendation", finding.recommendation},
          {"cost_ns", finding.cost_ns ? Json(*finding.cost_ns) : Json(nullptr)},
          {"saved_share", finding.mended ? Json(finding.mended->saved_share) : Json(nullptr)},
          {"trace_ranks", finding.trace_ranks},
          {"place", finding.place.empty() ? Json(nullptr) : Json(finding.place)}};
}

Json what_if(const WhatIf& what_if) {
  return {{"subject", what_if.subject},
          {"trace_ranks", what_if.trace_ranks},
          {"after", what_if.after},
          {"finding", what_if.finding.empty() ? Json(nullptr) : Json(what_if.finding)},
          {"saved_share", what_if.saved_share},
          {"low_share", nullable(what_if.low_share)},
          {"high_share", nullable(what_if.high_share)},
          {"once_ns", what_if.pauses == 1 ? Json(what_if.pauses_ns) : Json(nullptr)},
          {"pauses", what_if.pauses},
          {"pauses_ns", what_if.pauses > 0 ? Json(what_if.pauses_ns) : Json(nullptr)},
          {"step_ns_before", what_if.step_ns_before},
          {"step_ns_after", what_if.step_ns_after}};
}

Json slowdown(const Slowdown& slowdown) {
  Json by = Json::array();
  for (const SlowdownBy& one : slowdown.by)
    by.push_back({{"kind", one.kind}, {"name", one.name}, {"slowdown", one.slowdown}});
  return {{"slowdown", slowdown.slowdown()},
          {"launch_slowdown", slowdown.launch_slowdown()},
          {"measured_ns", slowdown.measured_ns},
          {"without_launch_gaps_ns", slowdown.without_launch_gaps_ns},
          {"ideal_ns", slowdown.ideal_ns},
          {"by", by},
          {"worst_ranks_share", nullable(slowdown.worst_ranks_share)},
          {"last_stage_share", nullable(slowdown.last_stage_share)}};
}

Json critical_path(const CriticalPath& path) {
  Json rows = Json::array();
  for (const CriticalShare& share : critical_shares(path)) {
    for (std::size_t kind = 0; kind < critical_kind_count; ++kind) {
      if (share.duration_ns[kind] == 0) continue;
      rows.push_back({{"trace_rank", share.trace_rank},
                      {"kind", critical_kind_name(static_cast<CriticalKind>(kind))},
                      {"duration_ns", share.duration_ns[kind]}});
    }
  }
  return rows;
}

/// Sums over operations.
Json exposed_communication(const std::vector<ExposedTime>& exposed) {
  std::map<std::int32_t, ExposedTime> sums;
  for (const ExposedTime& one : exposed)
    for (std::size_t phase = 0; phase < collective_phase_count; ++phase)
      for (std::size_t reason = 0; reason < standstill_reason_count; ++reason)
        sums[one.trace_rank].duration_ns[phase][reason] += one.duration_ns[phase][reason];
  Json rows = Json::array();
  for (const auto& [trace_rank, sum] : sums) {
    for (std::size_t phase = 0; phase < collective_phase_count; ++phase) {
      for (std::size_t reason = 0; reason < standstill_reason_count; ++reason) {
        if (sum.duration_ns[phase][reason] == 0) continue;
        rows.push_back({{"trace_rank", trace_rank},
                        {"collective", collective_phase_name(static_cast<CollectivePhase>(phase))},
                        {"compute", standstill_reason_name(static_cast<StandstillReason>(reason))},
                        {"duration_ns", sum.duration_ns[phase][reason]}});
      }
    }
  }
  return rows;
}

Json change_point(const StepTimeChange& change) {
  return {{"step", change.step},
          {"before_ns", change.before_ns},
          {"after_ns", change.after_ns},
          {"p_value", change.p_value}};
}

Json step_time(const StepTime& time) {
  const auto where_known = [&](Nanoseconds value) { return time.steps > 0 ? Json(value) : Json(nullptr); };
  return {{"source", time.source},
          {"steps", time.steps},
          {"median_ns", where_known(time.median_ns)},
          {"p95_ns", where_known(time.p95_ns)},
          {"spread_ns", where_known(time.spread_ns)},
          {"change_points", array_of(time.change_points, change_point)},
          {"replay_error", nullable(time.replay_error)},
          {"replay_error_p90", nullable(time.replay_error_p90)},
          {"inferred_edges", nullable(time.inferred_edges)}};
}

Json advice(const CaptureAdvice& advice) {
  return {{"missing", advice.missing}, {"commands", advice.commands}};
}

Json warning(const Warning& warning) {
  return {{"severity", severity_name(warning.severity)},
          {"source", warning_source_name(warning.source)},
          {"count", warning.count},
          {"message", warning.message}};
}

Json phase(const RunFacts::Phase& phase) {
  return {{"name", phase.name},
          {"seconds", phase.seconds},
          {"rows", phase.rows},
          {"bytes", phase.bytes},
          {"peak_memory_bytes", phase.peak_memory_bytes}};
}

Json run(const RunFacts& run) {
  Json facts = {{"date_utc", run.date_utc},     {"tool_version", run.tool_version},
                {"tool_ranks", run.tool_ranks}, {"threads", run.threads},
                {"hosts", run.hosts},           {"phases", array_of(run.phases, phase)}};
  if (run.memory) {
    facts["memory"] = {{"limit_bytes", run.memory->limit_bytes},
                       {"traces_in_files", run.memory->traces_in_files},
                       {"file_bytes", run.memory->file_bytes}};
  }
  return facts;
}

Json nvlink_json(const JobReport& report) {
  Json nvlink = {{"available", report.nvlink.available}, {"message", report.nvlink.message}};
  nvlink.update(lists_of(report, "nvlink"));
  return nvlink;
}

}  // namespace

std::vector<JsonSection> json_sections(const JobReport& report) {
  return {
      {"schema_version", [&] { return Json("1.0"); }},
      {"epoch_utc_ns", [&] { return point_in_time(report.epoch_utc_ns); }},
      {"title", [&] { return report.title.empty() ? Json(nullptr) : Json(report.title); }},
      {"window", [&] { return report.window.empty() ? Json(nullptr) : Json(report.window); }},
      {"left_out", [&] { return report.left_out.empty() ? Json(nullptr) : Json(report.left_out); }},
      {"inputs", [&] { return array_of(report.inputs, input); }},
      {"sessions", [&] { return array_of(report.sessions, session); }},
      {"trace_ranks", [&] { return array_of(report.trace_ranks, trace_rank); }},
      {"helpers", [&] { return array_of(report.helpers, helper); }},
      {"other_jobs", [&] { return array_of(report.other_jobs, other_job); }},
      {"host_processes", [&] { return array_of(report.host_processes, host_process); }},
      {"run_facts", [&] { return run_facts_json(report); }},
      {"clock", [&] { return clock_json(report.clock); }},
      {"communicators", [&] { return array_of(report.communicators, communicator); }},
      {"collectives",
       [&] {
         return Json{{"instances", report.instances},
                     {"complete", report.complete},
                     {"partial", report.partial},
                     {"unmatched_arrivals", report.unmatched_arrivals},
                     {"withheld_arrivals", report.withheld_arrivals},
                     {"unjudged", report.unjudged}};
       }},
      {"matching", [&] { return matching_json(report.tables); }},
      {"by_operation", [&] { return array_of(report.by_operation, operation); }},
      {"ranks", [&] { return array_of(report.ranks, rank); }},
      {"attribution", [&] { return attribution_json(report); }},
      {"phases", [&] { return list_of(report, "phases"); }},
      {"serving", [&] { return list_of(report, "serving"); }},
      {"requests", [&] { return requests_json(report); }},
      {"nccl_log", [&] { return nccl_log_json(report); }},
      {"stragglers", [&] { return array_of(report.stragglers, straggler); }},
      {"suspects", [&] { return array_of(report.suspects, suspect); }},
      {"late_without_cost",
       [&] {
         return array_of(report.late_without_cost, [](const LateWithoutCost& late) {
           return Json{
               {"trace_ranks", late.trace_ranks}, {"longer_share", late.longer_share}, {"p_value", late.p_value}};
         });
       }},
      {"delay", [&] { return delay(report.delay); }},
      {"step_time", [&] { return step_time(report.step_time); }},
      {"what_if", [&] { return array_of(report.what_if, what_if); }},
      {"slowdown", [&] { return report.slowdown ? slowdown(*report.slowdown) : Json(nullptr); }},
      {"critical_path", [&] { return critical_path(report.critical_path); }},
      {"exposed_communication", [&] { return exposed_communication(report.exposed); }},
      {"activity", [&] { return activity_json(report); }},
      {"nvlink", [&] { return nvlink_json(report); }},
      {"network", [&] { return list_of(report, "network"); }},
      {"findings", [&] { return array_of(report.findings, finding); }},
      {"verdict", [&] { return verdict(report); }},
      {"capture_advice", [&] { return array_of(capture_advice(report), advice); }},
      {"warnings", [&] { return array_of(report.warnings, warning); }},
      {"run", [&] { return run(report.run); }},
  };
}

std::string to_json(const JobReport& report) {
  std::string text = "{\n";
  for (const JsonSection& section : json_sections(report)) {
    Json one;
    one[section.name] = section.make();
    const std::string part = one.dump(2, ' ', false, Json::error_handler_t::replace);
    if (text.size() > 2) text += ",\n";
    text += std::string_view(part).substr(2, part.size() - 4);  // without the object around it
  }
  return text + "\n}\n";
}

}  // namespace nsys_explain::report
