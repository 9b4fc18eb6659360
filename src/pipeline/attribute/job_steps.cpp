#include "pipeline/attribute/job_steps.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace nsys_explain::pipeline {
namespace {

/// Collective: what every trace rank counts, by its index. Ranges of the program outweigh what repeats.
std::vector<analysis::OwnSteps> gather_own_steps(const exchange::Communicator& communicator, const JobRanks& job,
                                                 const ReaderRanks& readers) {
  std::vector<analysis::OwnSteps> mine;
  for (const LocalRank* const rank : readers.local)
    mine.push_back(analysis::summarise_steps(job.index_of(rank->trace_rank), rank->steps));
  std::vector<analysis::OwnSteps> own(job.numbers.size());
  for (const analysis::OwnSteps& of_rank : communicator.all_gather(std::span<const analysis::OwnSteps>(mine)).values)
    own[static_cast<std::size_t>(of_rank.rank)] = of_rank;
  constexpr auto ranges = static_cast<std::int64_t>(analysis::StepSource::nvtx);
  const auto is_by_ranges = [](const analysis::OwnSteps& of_rank) { return of_rank.source == ranges; };
  if (std::any_of(own.begin(), own.end(), is_by_ranges)) {
    for (analysis::OwnSteps& of_rank : own)
      if (!is_by_ranges(of_rank)) of_rank.steps = 0;
  }
  return own;
}

/// Collective: the ties of all instances, of long blocks of enough of them.
std::vector<analysis::StepTie> gather_ties(const exchange::Communicator& communicator, const JobRanks& job,
                                           const CrossRank& cross, std::span<const analysis::OwnSteps> own) {
  constexpr std::size_t enough = 1024;  // for a majority, of each communicator
  analysis::StepTies ties;
  std::vector<analysis::StepTies::Member> members;
  for (const MatchedBlock& block : cross.blocks) {
    const std::size_t stride = std::max<std::size_t>(1, block.instances.size() / enough);
    for (std::size_t i = 0; i < block.instances.size(); i += stride) {
      members.clear();
      for (const InstanceArrival& member : members_of(block, block.instances[i])) {
        const std::size_t r = job.index_of(member.trace_rank);
        members.push_back({static_cast<std::int32_t>(r), own[r].steps > 0 ? member.step : -1});
      }
      ties.add(members);
    }
  }
  const std::vector<analysis::StepTie> mine = ties.all();
  return communicator.all_gather(std::span<const analysis::StepTie>(mine)).values;
}

/// Collective: forgets what is counted by ranks that in most of their instances are in another step than the others.
/// False where these are more than half.
bool agree(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross, JobSteps& steps) {
  std::vector<std::int64_t> counts(2 * steps.first.size(), 0);  // by rank: instances, and those where it agrees
  std::vector<std::int32_t> scratch;
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      const std::span<const InstanceArrival> members = members_of(block, instance);
      const std::int32_t step = step_of_instance(job, steps, members, scratch);
      for (const InstanceArrival& member : members) {
        const std::size_t r = job.index_of(member.trace_rank);
        if (member.step < 0 || steps.first[r] == analysis::not_counted) continue;
        ++counts[2 * r];
        if (member.step + steps.first[r] == step) ++counts[2 * r + 1];
      }
    }
  }
  counts = communicator.sum(counts);
  std::size_t all = 0, contradicted = 0;
  for (std::size_t r = 0; r < steps.first.size(); ++r) {
    if (steps.first[r] == analysis::not_counted) continue;
    ++all;
    if (2 * counts[2 * r + 1] >= counts[2 * r]) continue;
    ++contradicted;
    steps.first[r] = analysis::not_counted;
  }
  return 2 * contradicted <= all;
}

/// Counts from the earliest step that is left.
void count_from_earliest(std::span<const analysis::OwnSteps> own, JobSteps& steps) {
  std::int32_t earliest = std::numeric_limits<std::int32_t>::max(), end = std::numeric_limits<std::int32_t>::min();
  for (std::size_t r = 0; r < own.size(); ++r) {
    if (steps.first[r] == analysis::not_counted) continue;
    earliest = std::min(earliest, steps.first[r]);
    end = std::max(end, steps.first[r] + static_cast<std::int32_t>(own[r].steps));
  }
  if (end <= earliest) return;
  steps.steps = end - earliest;
  for (std::size_t r = own.size(); r-- > 0;) {
    if (steps.first[r] == analysis::not_counted) continue;
    steps.first[r] -= earliest;
    steps.source = static_cast<analysis::StepSource>(own[r].source);
    if (own[r].numbered == 0) continue;
    steps.numbered = true;
    steps.first_number = own[r].first_number - steps.first[r];
  }
}

}  // namespace

JobSteps count_steps(const exchange::Communicator& communicator, const JobRanks& job, const ReaderRanks& readers,
                     const CrossRank& cross) {
  const std::vector<analysis::OwnSteps> own = gather_own_steps(communicator, job, readers);
  JobSteps steps;
  steps.first = analysis::relate_steps(own, gather_ties(communicator, job, cross, own));
  if (agree(communicator, job, cross, steps)) {
    count_from_earliest(own, steps);
  } else {
    steps.first.assign(own.size(), analysis::not_counted);
  }
  return steps;
}

std::int32_t step_of_instance(const JobRanks& job, const JobSteps& steps, std::span<const InstanceArrival> members,
                              std::vector<std::int32_t>& scratch) {
  scratch.clear();
  for (const InstanceArrival& member : members) {
    const std::int32_t first = steps.first[job.index_of(member.trace_rank)];
    if (member.step >= 0 && first != analysis::not_counted) scratch.push_back(first + member.step);
  }
  return analysis::common_step(scratch);
}

analysis::Steps steps_in_time(const exchange::Communicator& communicator, const JobSteps& steps,
                              const ReaderRanks& readers) {
  constexpr std::int64_t never = -std::numeric_limits<std::int64_t>::max();
  // Minimum as the maximum of the negated values.
  std::vector<std::int64_t> starts(static_cast<std::size_t>(steps.steps) + 1, never);
  for (const LocalRank* const rank : readers.local) {
    const std::vector<std::int32_t>& numbers = rank->timeline.job_steps;
    for (std::size_t own = 0; own < numbers.size(); ++own) {
      if (numbers[own] < 0) continue;
      std::int64_t& start = starts[static_cast<std::size_t>(numbers[own])];
      start = std::max(start, -rank->steps.start_ns[own]);
    }
    if (!numbers.empty()) starts.back() = std::max(starts.back(), rank->steps.end_ns);
  }
  starts = communicator.maximum(starts);
  analysis::Steps in_time;
  in_time.source = steps.source;
  in_time.numbered = steps.numbered;
  in_time.first_number = steps.first_number;
  if (!steps.are_known()) return in_time;
  in_time.end_ns = starts.back();
  // A step that nobody begins has no time; nor has one that begins before the one before it.
  Nanoseconds before_ns = std::numeric_limits<Nanoseconds>::min();
  for (std::size_t step = 0; step + 1 < starts.size(); ++step) {
    const Nanoseconds start_ns = starts[step] == never ? before_ns : -starts[step];
    in_time.start_ns.push_back(before_ns = std::max(start_ns, before_ns + 1));
  }
  return in_time;
}

std::vector<std::int32_t> steps_apart(const exchange::Communicator& communicator, const JobSteps& steps,
                                      const ReaderRanks& readers) {
  struct Counts {
    std::int64_t have_it = 0, do_more = 0;
  };
  if (!steps.are_known()) return {};
  std::vector<Counts> mine(static_cast<std::size_t>(steps.steps));
  for (const LocalRank* const rank : readers.local) {
    const std::vector<std::int32_t>& numbers = rank->timeline.job_steps;
    for (std::size_t own = 0; own < numbers.size(); ++own) {
      if (numbers[own] < 0) continue;
      Counts& counts = mine[static_cast<std::size_t>(numbers[own])];
      ++counts.have_it;
      if (std::binary_search(rank->steps_with_more.begin(), rank->steps_with_more.end(),
                             static_cast<std::int32_t>(own)))
        ++counts.do_more;
    }
  }
  std::vector<std::int64_t> counts;
  for (const Counts& one : mine) counts.insert(counts.end(), {one.have_it, one.do_more});
  counts = communicator.sum(counts);
  std::vector<std::int32_t> apart;
  for (std::int32_t step = 0; step < steps.steps; ++step) {
    const std::size_t at = 2 * static_cast<std::size_t>(step);
    if (counts[at] > 0 && counts[at + 1] == counts[at]) apart.push_back(step);
  }
  return apart;
}

}  // namespace nsys_explain::pipeline
