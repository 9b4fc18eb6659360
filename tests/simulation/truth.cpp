#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "simulation/exports.hpp"
#include "simulation/kernel_catalogue.hpp"

namespace nsys_explain::synth {
namespace {

using Json = nlohmann::ordered_json;

Json sessions_json(const SimulatedJob& job) {
  Json list = Json::array();
  for (const TrueSession& session : job.sessions) {
    // Relative to the first session, at mid-run, in the sense of docs/outputs.md, Times.
    const RelativeClock relative = relative_clock(session, job.sessions.front(), job.end_ns / 2);
    list.push_back({{"file", session.file_name},
                    {"node", session.node},
                    {"ranks", session.ranks},
                    {"start_ns", session.start_ns},
                    {"utc_start_reported_ns", reported_utc_start_ns(session)},
                    {"utc_offset_ns", session.utc_offset_ns},
                    {"drift_ppb", session.drift_ppb},
                    {"offset_to_first_ns", relative.offset_ns},
                    {"drift_to_first_ppb", relative.drift_ppb}});
  }
  return list;
}

Json ranks_json(const SimulatedJob& job, const JobPlan& plan) {
  Json list = Json::array();
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const RankPlace& place = job.places[rank];
    const RankEvents& events = job.ranks[rank];
    std::int64_t kernels = 0, exported = 0, communication = 0, compute_ns = 0, copies = 0;
    for (std::uint32_t i = 0; i < events.activities.size(); ++i) {
      const DeviceActivity& activity = events.activities[i];
      if (activity.kind != ActivityKind::kernel) {
        ++copies;
        continue;
      }
      ++kernels;
      if (is_exported(job, plan, static_cast<std::int32_t>(rank), i)) ++exported;
      if (activity.arrival == no_index)
        compute_ns += activity.end_ns - activity.start_ns;
      else
        ++communication;
    }
    list.push_back({{"rank", rank},
                    {"node", place.node},
                    {"session", place.session},
                    {"process_id", place.process_id},
                    {"device_id", place.device_id},
                    {"gpu_uuid", place.gpu_uuid},
                    {"kernels", kernels},
                    {"exported_kernels", exported},
                    {"communication_kernels", communication},
                    {"compute_ns", compute_ns},
                    {"memory_operations", copies},
                    {"api_calls", events.calls.size()}});
  }
  return list;
}

/// Elapsed time, of all and by step, is that of GPU activity.
struct Elapsed {
  Nanoseconds start_ns = std::numeric_limits<Nanoseconds>::max();
  std::vector<Nanoseconds> step_ends_ns;
};

Elapsed elapsed_of(const SimulatedJob& job, const JobPlan& plan) {
  Elapsed elapsed;
  elapsed.step_ends_ns.assign(static_cast<std::size_t>(plan.workload.steps), 0);
  for (const RankEvents& events : job.ranks) {
    for (const DeviceActivity& activity : events.activities) {
      Nanoseconds& end_ns = elapsed.step_ends_ns[static_cast<std::size_t>(activity.step)];
      end_ns = std::max(end_ns, activity.end_ns);
      elapsed.start_ns = std::min(elapsed.start_ns, activity.start_ns);
    }
  }
  return elapsed;
}

Json faults_json(const JobPlan& plan) {
  Json list = Json::array();
  for (const Fault& fault : plan.faults)
    list.push_back({{"kind", fault_kind_name(fault.kind)},
                    {"cause", expected_cause(fault)},
                    {"pattern", expected_pattern(fault, plan.workload.steps)},
                    {"ranks", faulty_ranks(fault, plan.layout)},
                    {"factor", fault.factor},
                    {"pause_ns", fault.pause_ns},
                    {"first_step", fault.first_step},
                    {"last_step", fault.last_step < 0 ? plan.workload.steps - 1 : fault.last_step},
                    {"period", fault.period}});
  return list;
}

Json communicators_json(const SimulatedJob& job) {
  std::vector<std::int64_t> instances(job.communicators.size(), 0);
  for (const TrueInstance& instance : job.instances) ++instances[instance.communicator];
  Json list = Json::array();
  for (std::size_t i = 0; i < job.communicators.size(); ++i) {
    const TrueCommunicator& communicator = job.communicators[i];
    list.push_back({{"name", communicator.name},
                    {"hash", fmt::format("{:016x}", communicator.hash)},
                    {"ranks", communicator.ranks},
                    {"instances", instances[i]}});
  }
  return list;
}

/// Members as rows of [rank, enter_ns, exit_ns, wait_ns, exported], which keeps large files readable and small.
Json instances_json(const SimulatedJob& job, const JobPlan& plan) {
  Json list = Json::array();
  for (const TrueInstance& instance : job.instances) {
    Json members = Json::array();
    for (std::uint32_t i = 0; i < instance.arrivals; ++i) {
      const TrueArrival& arrival = job.arrivals[instance.first_arrival + i];
      members.push_back({arrival.rank, arrival.enter_ns, arrival.exit_ns, arrival.wait_ns,
                         is_exported(job, plan, arrival.rank, arrival.activity)});
    }
    list.push_back({{"communicator", instance.communicator},
                    {"sequence", instance.sequence},
                    {"operation", std::string(operation_name(instance.operation))},
                    {"grouped", instance.grouped},
                    {"bytes", instance.call_bytes},
                    {"step", instance.step},
                    {"last_enter_ns", instance.last_enter_ns},
                    {"last_rank", instance.last_rank},
                    {"transfer_ns", instance.transfer_ns},
                    {"members", std::move(members)}});
  }
  return list;
}

}  // namespace

std::string truth_json(const SimulatedJob& job, const JobPlan& plan, TruthDetail detail) {
  const JobPlan complete = complete_plan(plan);
  Json truth;
  truth["truth_version"] = "1.0";
  truth["time"] = "true time: nanoseconds since the start of the earliest session; true UTC = true_epoch_utc_ns + time";
  truth["true_epoch_utc_ns"] = true_epoch_utc_ns;
  truth["end_ns"] = job.end_ns;
  truth["seed"] = complete.seed;
  truth["layout"] = {{"nodes", complete.layout.nodes},
                     {"gpus_per_node", complete.layout.gpus_per_node},
                     {"tensor_parallel", complete.layout.tensor_parallel},
                     {"pipeline_parallel", complete.layout.pipeline_parallel},
                     {"data_parallel", complete.layout.data_parallel},
                     {"steps", complete.workload.steps}};
  const Elapsed elapsed = elapsed_of(job, complete);
  truth["elapsed"] = {{"start_ns", elapsed.start_ns}, {"step_ends_ns", elapsed.step_ends_ns}};
  truth["clock_pivot_ns"] = job.end_ns / 2;
  truth["sessions"] = sessions_json(job);
  truth["ranks"] = ranks_json(job, complete);
  truth["communicators"] = communicators_json(job);
  truth["faults"] = faults_json(complete);
  truth["instance_count"] = job.instances.size();
  if (detail == TruthDetail::full) {
    truth["member_columns"] = {"rank", "enter_ns", "exit_ns", "wait_ns", "exported"};
    truth["instances"] = instances_json(job, complete);
  }
  // One line per top-level list entry would need a writer of our own; compact JSON is what tools read anyway.
  return truth.dump() + "\n";
}

}  // namespace nsys_explain::synth
