#include "pipeline/attribute/delay_sums.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "analysis/waits/rank_timeline.hpp"

namespace nsys_explain::pipeline {
namespace {

using analysis::TimelineArrival;

/// Which bin of the run an arrival lies in.
class Bins {
 public:
  /// Collective.
  Bins(const exchange::Communicator& communicator, const ReaderRanks& readers, std::size_t steps)
      : steps_(steps), count_(steps > 0 ? analysis::bins_of_steps(steps) : analysis::time_bins) {
    // Minimum as the maximum of the negated values, which max() (not min()) can be without overflow.
    std::vector<std::int64_t> range(2, -std::numeric_limits<std::int64_t>::max());
    for (const LocalRank* const rank : readers.local) {
      if (rank->timeline.arrivals.empty()) continue;
      range[0] = std::max(range[0], -rank->clock(rank->timeline.arrivals.front().enter).ns);
      range[1] = std::max(range[1], rank->clock(rank->timeline.arrivals.back().enter).ns);
    }
    range = communicator.maximum(range);
    start_ns_ = -range[0];
    end_ns_ = range[1];
  }

  std::size_t count() const { return count_; }

  /// Of a step; what lies outside of all steps counts with the first.
  std::size_t of_step(std::int32_t step) const {
    return analysis::bin_of_step(static_cast<std::size_t>(std::max(0, step)), steps_);
  }
  std::size_t of(const LocalRank& rank, const TimelineArrival& arrival) const {
    if (steps_ > 0) return of_step(arrival.step);
    const Nanoseconds time_ns = rank.clock(arrival.enter).ns;
    if (time_ns <= start_ns_ || end_ns_ <= start_ns_) return 0;
    const double share = static_cast<double>(time_ns - start_ns_) / static_cast<double>(end_ns_ - start_ns_);
    return std::min(static_cast<std::size_t>(share * static_cast<double>(count_)), count_ - 1);
  }

 private:
  std::size_t steps_, count_;
  Nanoseconds start_ns_ = 0, end_ns_ = 0;
};

/// What others waited for a last arriver, on its way there.
using CausedWait = ToldOfArrival<Nanoseconds>;

/// Collective.
std::vector<CausedWait> send_caused_waits(const exchange::Communicator& communicator, const JobRanks& job,
                                          const ReaderRanks& readers, const CrossRank& cross) {
  auto outgoing = nothing_for<CausedWait>(communicator);
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      if (instance.caused_wait_ns == 0) continue;
      for (std::int64_t a = instance.first_arrival; a < instance.first_arrival + instance.arrivals; ++a) {
        const InstanceArrival& member = block.arrivals[static_cast<std::size_t>(a)];
        if (member.trace_rank != instance.last_trace_rank) continue;
        const auto reader = static_cast<std::size_t>(readers.tool_rank[job.index_of(member.trace_rank)]);
        outgoing[reader].push_back({instance.caused_wait_ns, {member.trace_rank, member.index}});
      }
    }
  }
  return communicator.all_to_all(std::move(outgoing)).values;
}

/// What one trace rank took longer, into its bins.
void add_excess(std::size_t r, const LocalRank& rank, std::span<const StepSums> sums, const Bins& bins,
                analysis::JobDelays& delays) {
  const analysis::RankTimeline& timeline = rank.timeline;
  if (delays.by_step) {
    delays.excess_work_ns[r * delays.bins] += sums.back().excess_ns;
    for (std::size_t step = 0; step + 1 < sums.size(); ++step)
      delays.excess_work_ns[r * delays.bins + bins.of_step(static_cast<std::int32_t>(step))] += sums[step].excess_ns;
  } else {
    for (std::size_t i = 0; i < timeline.arrivals.size(); ++i)
      delays.excess_work_ns[r * delays.bins + bins.of(rank, timeline.arrivals[i])] += analysis::excess_at(timeline, i);
  }
  if (timeline.excess_transfers_ns.empty()) return;
  delays.slow_transfer_ns.resize(delays.excess_work_ns.size(), 0);
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i)
    delays.slow_transfer_ns[r * delays.bins + bins.of(rank, timeline.arrivals[i])] += timeline.excess_transfers_ns[i];
}

}  // namespace

analysis::JobDelays sum_delays(const exchange::Communicator& communicator, const ClockReport& clock,
                               const JobRanks& job, const ReaderRanks& readers, const CrossRank& cross,
                               const analysis::Steps& steps, SumsOfSteps& sums) {
  const Bins bins(communicator, readers, steps.start_ns.size());
  analysis::JobDelays delays;
  delays.steps = steps.start_ns.size();
  delays.by_step = delays.steps > 0;
  delays.bins = bins.count();
  for (const std::size_t session : job.session_of_rank) delays.clock_group.push_back(clock.sessions[session].component);
  delays.caused_wait_ns.assign(job.numbers.size() * delays.bins, 0);
  delays.excess_work_ns.assign(job.numbers.size() * delays.bins, 0);
  std::vector<std::int64_t> roles(job.numbers.size(), 0);
  for (const LocalRank* const rank : readers.local) {
    const std::size_t r = job.index_of(rank->trace_rank);
    roles[r] = static_cast<std::int64_t>(rank->timeline.role);
    add_excess(r, *rank, sums[r], bins, delays);
  }
  for (const auto& [caused_wait_ns, late] : send_caused_waits(communicator, job, readers, cross)) {
    const std::size_t r = job.index_of(late.trace_rank);
    LocalRank& rank = *readers.of_index[r];
    const TimelineArrival& arrival = rank.timeline.arrivals[static_cast<std::size_t>(late.index)];
    rank.timeline.caused_ns[analysis::origin_of(rank.timeline, late.index)] += caused_wait_ns;
    sums_of_step(sums[r], arrival).caused_wait_ns += caused_wait_ns;
    delays.caused_wait_ns[r * delays.bins + bins.of(rank, arrival)] += caused_wait_ns;
  }
  delays.caused_wait_ns = communicator.sum(delays.caused_wait_ns);
  delays.excess_work_ns = communicator.sum(delays.excess_work_ns);
  if (communicator.maximum(std::ssize(delays.slow_transfer_ns)) > 0) {
    delays.slow_transfer_ns.resize(delays.excess_work_ns.size(), 0);
    delays.slow_transfer_ns = communicator.sum(delays.slow_transfer_ns);
  }
  for (const std::int64_t role : communicator.sum(roles)) delays.role.push_back(static_cast<std::uint64_t>(role));
  return delays;
}

}  // namespace nsys_explain::pipeline
