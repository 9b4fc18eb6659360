#include "job_clock.hpp"

#include "nsys_explain/clock/fit.hpp"

namespace nsys_explain::pipeline {
namespace {

/// The matched instances of the blocks that this tool rank owns, as the clock wants to see them.
clock::Observations observe(const JobRanks& job, const CrossRank& cross) {
  clock::Observations observations;
  const auto session_of = [&job](std::int32_t trace_rank) {
    return static_cast<std::int32_t>(job.session_of_rank[job.index_of(trace_rank)]);
  };
  for (const collectives::PlannedCommunicator& planned : cross.communicators) {
    std::vector<std::int32_t>& sessions = observations.communicators.emplace_back();
    for (const std::int32_t trace_rank : planned.trace_ranks) sessions.push_back(session_of(trace_rank));
  }
  std::size_t instances = 0, members = 0;
  for (const MatchedBlock& block : cross.blocks) {
    instances += block.instances.size();
    members += block.arrivals.size();
  }
  observations.instances.reserve(instances);
  observations.members.reserve(members);
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      observations.instances.push_back({.operation = instance.operation,
                                        .kernel_name_hash = instance.kernel_name_hash,
                                        .message_bytes = instance.message_bytes,
                                        .first_member = static_cast<std::int64_t>(observations.members.size()),
                                        .members = instance.arrivals,
                                        .communicator = block.communicator});
      for (std::int64_t a = instance.first_arrival; a < instance.first_arrival + instance.arrivals; ++a) {
        const InstanceArrival& arrival = block.arrivals[static_cast<std::size_t>(a)];
        observations.members.push_back({arrival.enter_ns, arrival.exit_ns, session_of(arrival.trace_rank)});
      }
    }
  }
  return observations;
}

}  // namespace

clock::ClockFit estimate_clock(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross,
                               const clock::ClockOptions& options) {
  const clock::Reduction reduction{
      .sum = [&](std::span<const std::int64_t> mine) { return communicator.sum(mine); },
      .maximum = [&](std::span<const std::int64_t> mine) { return communicator.maximum(mine); }};
  return clock::fit_clocks(job.sessions, observe(job, cross), reduction, options);
}

}  // namespace nsys_explain::pipeline
