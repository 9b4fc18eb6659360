#include "pipeline/read/inspector_logs.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "collectives/inspector_keys.hpp"
#include "ingest/side_files.hpp"

namespace nsys_explain::pipeline {
namespace {

/// From UTC to trace time; not known where the export does not tell when its session began.
void to_trace_time(Nanoseconds& time_ns, const Session& session) {
  if (time_ns == no_time) return;
  time_ns = session.utc_start_ns == no_time ? no_time : time_ns - session.utc_start_ns;
}

void add_memberships(const std::vector<InspectorRecord>& records,
                     std::vector<collectives::CommunicatorMembership>& memberships) {
  for (const InspectorRecord& record : records)
    memberships.push_back({record.communicator, record.rank, record.rank_count, -1});
  const auto key = [](const auto& m) { return std::tuple(m.communicator, m.rank, m.rank_count, m.device); };
  std::sort(memberships.begin(), memberships.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  memberships.erase(std::unique(memberships.begin(), memberships.end(),
                                [&](const auto& a, const auto& b) { return key(a) == key(b); }),
                    memberships.end());
}

void judge(const std::vector<collectives::InspectorCoverage>& coverage, std::int64_t arrivals,
           std::vector<Warning>& warnings) {
  std::int64_t keyed = 0, contradicting = 0, keyed_exchanges = 0, exchange_kernels = 0, disagreeing = 0;
  for (const collectives::InspectorCoverage& row : coverage) {
    keyed += row.keyed;
    contradicting += row.contradicting;
    keyed_exchanges += row.keyed_exchanges;
    exchange_kernels += row.exchange_kernels;
    disagreeing += row.disagreeing;
  }
  const auto warn = [&](Severity severity, std::int64_t count, const char* message) {
    if (count > 0) warnings.push_back({severity, WarningSource::analysis, count, message});
  };
  warn(Severity::info, keyed,
       "collectives took communicator and sequence number from NCCL Inspector's logs: what belongs together is exact");
  warn(
      Severity::info, arrivals - keyed - exchange_kernels,
      "communication kernels took no key from NCCL Inspector's logs, which leave out small messages, before NCCL 2.30 sends and receives, and what ended before or after: these are matched by payload or order");
  warn(Severity::info, keyed_exchanges,
       "sends and receives took communicator and peer from NCCL Inspector's logs: who exchanged with whom is exact");
  warn(
      Severity::info, disagreeing,
      "collectives took another time by NCCL Inspector's logs than by the trace, so that one of the two is wrong: table inspector_keys names communicators and ranks; lateness rests on the trace");
  warn(
      Severity::data_loss, contradicting,
      "records of NCCL Inspector's logs contradict the trace, so no key was taken from them: table inspector_keys names communicators and ranks; check that log and trace are of one run");
}

}  // namespace

InspectorFindings take_inspector_keys(const std::string& directory, const Trace& trace, const ProcessTrace& process,
                                      std::vector<collectives::DeviceArrivals>& devices,
                                      std::vector<collectives::CommunicatorMembership>& memberships) {
  InspectorFindings findings;
  const auto communicates = [](const collectives::DeviceArrivals& device) { return !device.arrivals.empty(); };
  if (std::none_of(devices.begin(), devices.end(), communicates)) return findings;
  if (devices.size() > 1) {
    findings.warnings.push_back(
        {Severity::info, WarningSource::analysis, 1,
         "processes drive several GPUs, and NCCL Inspector's logs do not say which of them ran what: their collectives take no key from it"});
    return findings;
  }
  ingest::InspectorLog log = ingest::read_inspector_log(directory, trace.session.host, process.process_id);
  findings.warnings = std::move(log.warnings);
  if (log.records.empty()) return findings;
  for (InspectorRecord& record : log.records) {
    to_trace_time(record.end_ns, trace.session);
    to_trace_time(record.dumped_ns, trace.session);
  }
  std::vector<TraceArrival>& arrivals = devices.front().arrivals;
  const auto coverage = collectives::apply_inspector_log(arrivals, log.records);
  add_memberships(log.records, memberships);
  judge(coverage, static_cast<std::int64_t>(arrivals.size()), findings.warnings);
  findings.tables.push_back(collectives::inspector_keys_table(coverage));
  return findings;
}

}  // namespace nsys_explain::pipeline
