#include "pipeline/investigate/case_proposals.hpp"

#include <algorithm>
#include <unordered_map>

namespace nsys_explain::pipeline {
namespace {

bool better(const Proposal& a, const Proposal& b) {
  return std::tuple(a.elsewhere, -a.caused_wait_ns, a.instance) <
         std::tuple(b.elsewhere, -b.caused_wait_ns, b.instance);
}

std::int32_t span_of(JobTime time, const Interval& late) {
  const double length = static_cast<double>(late.end_ns - late.start_ns) + 1;
  const double share = static_cast<double>(time.ns - late.start_ns) / length;
  return static_cast<std::int32_t>(std::clamp(share, 0.0, 0.999999) * static_cast<double>(case_spans));
}

/// A transient one was late in its steps; in others it may be last by chance.
bool has_own_steps(const Straggler& straggler) {
  return straggler.pattern == Pattern::transient && straggler.first_step && straggler.last_step;
}

/// The time in which a straggler was late. It starts at no_time where the straggler never was last by its own work.
/// What came before counts to the first span, what came after to the last.
Interval when_late(const Straggler& straggler, const StepStarts& steps) {
  if (has_own_steps(straggler)) {
    const std::int64_t first = *straggler.first_step - steps.first_number,
                       end = *straggler.last_step - steps.first_number + 1;
    const std::int64_t count = std::ssize(steps.start_ns);
    if (first >= 0 && first < end && end <= count) {
      const Nanoseconds end_ns = end < count ? steps.start_ns[static_cast<std::size_t>(end)] : steps.end_ns;
      return {steps.start_ns[static_cast<std::size_t>(first)], end_ns};
    }
  }
  return {straggler.first_ns, straggler.last_ns};
}

/// Trace ranks, ascending.
using TraceRanks = std::span<const std::int32_t>;

/// A host that sends and one that receives are at different program positions, whatever their roles.
bool is_message(const Instance& instance, std::span<const InstanceArrival> arrivals) {
  return instance.operation == Operation::send_recv && arrivals.front().timing_source == TimingSource::host_call;
}

/// The straggler, then the members whose work is nearest to the median: of its role, if there are any. Who shares its
/// place, and so its trouble, is no measure.
void add_members(std::span<const InstanceArrival> arrivals, bool at_one_position, std::int32_t straggler,
                 TraceRanks place, const RoleOfRank& role_of, Proposal& proposal) {
  std::vector<Member> peers, alike;
  for (const InstanceArrival& arrival : arrivals) {
    const Member member{arrival.enter, arrival.work_ns, arrival.trace_rank, 0};
    if (arrival.trace_rank == straggler) {
      proposal.members[0] = member;
    } else if (arrival.work_ns != no_time && !std::binary_search(place.begin(), place.end(), arrival.trace_rank)) {
      peers.push_back(member);
      if (at_one_position && role_of(arrival.trace_rank) == role_of(straggler)) alike.push_back(member);
    }
  }
  proposal.alike = alike.empty() ? 0 : 1;
  if (!alike.empty()) peers = std::move(alike);
  std::sort(peers.begin(), peers.end(), [](const Member& a, const Member& b) {
    return std::tie(a.work_ns, a.trace_rank) < std::tie(b.work_ns, b.trace_rank);
  });
  const std::size_t kept = std::min(peers.size(), most_peers);
  const auto first = peers.begin() + static_cast<std::ptrdiff_t>((peers.size() - kept) / 2);
  std::copy_n(first, kept, proposal.members.begin() + 1);
  proposal.member_count = static_cast<std::int32_t>(1 + kept);
}

/// Offers an instance as a case against its last arriver.
void propose_instance(const MatchedBlock& block, const Instance& instance, TraceRanks place, const RoleOfRank& role_of,
                      Proposal proposal, Shortlist& shortlist) {
  proposal.last_enter = instance.last_enter;
  proposal.caused_wait_ns = instance.caused_wait_ns;
  if (!shortlist.would_take(proposal)) return;
  const std::span<const InstanceArrival> arrivals = members_of(block, instance);
  for (const InstanceArrival& arrival : arrivals) {
    if (arrival.trace_rank == instance.last_trace_rank) proposal.own_lateness_ns = arrival.own_lateness_ns;
  }
  add_members(arrivals, !is_message(instance, arrivals), instance.last_trace_rank, place, role_of, proposal);
  if (proposal.members[0].work_ns == no_time || proposal.member_count < 2) return;
  const Nanoseconds median_ns = proposal.members[static_cast<std::size_t>(proposal.member_count) / 2].work_ns;
  proposal.longer_ns = std::clamp<Nanoseconds>(proposal.members[0].work_ns - median_ns, 0, proposal.own_lateness_ns);
  // What members of other roles work tells nothing, but no more than all of its own work can hold its lateness.
  const bool holds_it = proposal.alike != 0 ? 2 * proposal.longer_ns >= proposal.own_lateness_ns
                                            : proposal.members[0].work_ns >= proposal.own_lateness_ns;
  proposal.elsewhere = holds_it ? 0 : 1;
  shortlist.offer(proposal);
}

/// Stragglers by their trace rank.
struct StragglerNumbers {
  std::multimap<std::int32_t, std::int32_t> by_work;  ///< with peers elsewhere
  std::map<std::int32_t, std::int32_t> by_instance;   ///< but for places of several trace ranks with peers elsewhere
};

StragglerNumbers number_stragglers(std::span<Straggler* const> late, const JobRanks& job, const RoleOfRank& role_of) {
  StragglerNumbers numbers;
  for (std::size_t s = 0; s < std::min(late.size(), most_stragglers); ++s) {
    const Straggler& straggler = *late[s];
    const bool peers = !peers_elsewhere(straggler, job, role_of).empty();
    if (peers) numbers.by_work.emplace(straggler.trace_rank, static_cast<std::int32_t>(s));
    if (!peers || straggler.trace_ranks.size() == 1)
      numbers.by_instance.emplace(straggler.trace_rank, static_cast<std::int32_t>(s));
  }
  return numbers;
}

/// Cases by work: the other members of what a place delayed are often of the place, too, and what made a trace rank
/// late may lie before an earlier collective, in which nobody waited for it, or which nothing matches. So the arrivals
/// of the (costliest) trace rank whose work was longest, beyond that of ranks of its role at the same program
/// position; where such an arrival is not matched, the next one that is names the case, or none.
void propose_longest_work(const LocalRank& rank, const Straggler& straggler, const StepStarts& steps,
                          std::span<const std::int64_t> first_instance, Proposal proposal, Shortlist& shortlist) {
  if (rank.timeline.arrivals.empty()) return;
  Interval late = when_late(straggler, steps);
  if (late.start_ns == no_time)
    late = {rank.clock(rank.timeline.arrivals.front().enter).ns, rank.clock(rank.timeline.arrivals.back().enter).ns};
  const auto is_in_own_step = [&](const analysis::TimelineArrival& arrival) {
    const std::int64_t step = steps.first_number + arrival.step;
    return !has_own_steps(straggler) || (step >= *straggler.first_step && step <= *straggler.last_step);
  };
  const analysis::Outcome* next = nullptr;  // of the latest matched arrival that was passed, from the end on
  for (std::size_t i = rank.timeline.arrivals.size(); i-- > 0;) {
    const analysis::TimelineArrival& arrival = rank.timeline.arrivals[i];
    if (arrival.matched) next = &rank.timeline.outcomes[i];
    if (!arrival.compared || !arrival.whole_step || arrival.excess_work_ns <= 0) continue;
    if (!is_in_own_step(arrival)) continue;
    proposal.instance = no_instance;
    if (next != nullptr)
      proposal.instance = first_instance[static_cast<std::size_t>(next->communicator)] + next->sequence;
    proposal.last_enter = rank.clock(arrival.enter);
    proposal.span = span_of(proposal.last_enter, late);
    proposal.caused_wait_ns = proposal.own_lateness_ns = proposal.longer_ns = arrival.excess_work_ns;
    proposal.members[0] = {proposal.last_enter, arrival.work_ns, rank.trace_rank, 0};
    proposal.member_count = 1;
    proposal.alike = 1;
    proposal.position = {rank.timeline.role, analysis::position_in_step(arrival), arrival.step};
    if (shortlist.would_take(proposal)) shortlist.offer(proposal);
  }
}

/// Cases by delay, whoever is late: the arrivals before which most of what others waited came about. What they waited
/// may lie in collectives of several groups, and after others in which nobody waited.
void propose_delays(const LocalRank& rank, std::span<const std::int64_t> first_instance, Shortlist& shortlist) {
  const analysis::RankTimeline& timeline = rank.timeline;
  for (const auto& [index, caused_ns] : timeline.caused_ns) {
    const auto at = static_cast<std::size_t>(index);
    const analysis::TimelineArrival& arrival = timeline.arrivals[at];
    const auto met = std::find_if(timeline.arrivals.begin() + index, timeline.arrivals.end(),
                                  [](const analysis::TimelineArrival& later) { return later.matched; });
    Proposal proposal;
    proposal.caused_wait_ns = caused_ns;
    if (met == timeline.arrivals.end() || !arrival.has_peers || !shortlist.would_take(proposal)) continue;
    const analysis::Outcome& outcome = timeline.outcomes[static_cast<std::size_t>(met - timeline.arrivals.begin())];
    proposal.instance = first_instance[static_cast<std::size_t>(outcome.communicator)] + outcome.sequence;
    proposal.last_enter = rank.clock(arrival.enter);
    proposal.own_lateness_ns = proposal.longer_ns = std::max<Nanoseconds>(0, arrival.excess_work_ns);
    proposal.members[0] = {proposal.last_enter, arrival.work_ns, rank.trace_rank, 0};
    proposal.member_count = 1;
    proposal.alike = 1;
    proposal.position = {timeline.role, analysis::position_in_step(arrival), arrival.step};
    shortlist.offer(proposal);
  }
}

}  // namespace

void Shortlist::offer(const Proposal& proposal) {
  if (proposal.straggler == nobody) {
    worst_.push_back(proposal);
    std::sort(worst_.begin(), worst_.end(), better);
    worst_.resize(std::min(worst_.size(), most_long_waits));
    return;
  }
  const auto [entry, is_new] = best_.try_emplace(key_of(proposal), proposal);
  if (!is_new && better(proposal, entry->second)) entry->second = proposal;
}

bool Shortlist::would_take(const Proposal& proposal) const {
  if (proposal.straggler == nobody) return worst_.size() < most_long_waits || better(proposal, worst_.back());
  const auto entry = best_.find(key_of(proposal));
  return entry == best_.end() || better(proposal, entry->second);
}

std::vector<Proposal> Shortlist::proposals() const {
  std::vector<Proposal> all;
  for (const auto& [key, proposal] : best_) all.push_back(proposal);
  all.insert(all.end(), worst_.begin(), worst_.end());
  return all;
}

/// The trace ranks of the straggler's role that do not share its place.
std::vector<std::int32_t> peers_elsewhere(const Straggler& straggler, const JobRanks& job, const RoleOfRank& role_of) {
  std::vector<std::int32_t> peers;
  const TraceRanks place = straggler.trace_ranks;
  for (const std::int32_t trace_rank : job.numbers)
    if (role_of(trace_rank) == role_of(straggler.trace_rank) &&
        !std::binary_search(place.begin(), place.end(), trace_rank))
      peers.push_back(trace_rank);
  return peers;
}

Straggler alone(std::int32_t trace_rank) {
  Straggler one;
  one.trace_rank = trace_rank;
  one.trace_ranks = {trace_rank};
  return one;
}

Shortlist propose(const JobRanks& job, const CrossRank& cross, const std::vector<LocalTrace>& local_traces,
                  const RoleOfRank& role_of, const JobReport& report, std::span<Straggler* const> late) {
  const StragglerNumbers numbers = number_stragglers(late, job, role_of);
  const std::vector<std::int64_t> first_instance = first_instances(report);
  Shortlist shortlist;
  std::unordered_map<std::uint64_t, std::size_t> ranks_of_role;
  for (const std::int32_t trace_rank : job.numbers) ++ranks_of_role[role_of(trace_rank)];
  const auto is_compared_by_step = [&](std::int32_t trace_rank) {
    return report.delay.steps > 0 && ranks_of_role[role_of(trace_rank)] > 1;
  };
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      if (is_compared_by_step(rank.trace_rank)) propose_delays(rank, first_instance, shortlist);
      const auto [first, end] = numbers.by_work.equal_range(rank.trace_rank);
      for (auto found = first; found != end; ++found) {
        Proposal proposal;
        proposal.straggler = found->second;
        propose_longest_work(rank, *late[static_cast<std::size_t>(found->second)], report.detail.steps, first_instance,
                             proposal, shortlist);
      }
    }
  }
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      if (!instance.resolved || instance.caused_wait_ns <= 0) continue;
      Proposal proposal;
      proposal.instance = first_instance[static_cast<std::size_t>(block.communicator)] + instance.sequence;
      if (!is_compared_by_step(instance.last_trace_rank))
        propose_instance(block, instance, {}, role_of, proposal, shortlist);
      const auto found = numbers.by_instance.find(instance.last_trace_rank);
      if (found == numbers.by_instance.end()) continue;
      const Straggler& straggler = *late[static_cast<std::size_t>(found->second)];
      proposal.straggler = found->second;
      const Interval late_time = when_late(straggler, report.detail.steps);
      if (late_time.start_ns != no_time) proposal.span = span_of(instance.last_enter, late_time);
      propose_instance(block, instance, straggler.trace_ranks, role_of, proposal, shortlist);
    }
  }
  return shortlist;
}

}  // namespace nsys_explain::pipeline
