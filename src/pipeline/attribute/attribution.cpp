#include "pipeline/attribute/attribution.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "analysis/waits/rank_timeline.hpp"
#include "analysis/waits/waits.hpp"
#include "pipeline/attribute/delay_sums.hpp"
#include "pipeline/attribute/job_steps.hpp"
#include "pipeline/attribute/work_surplus.hpp"
#include "pipeline/match/owned_rounds.hpp"

namespace nsys_explain::pipeline {
namespace {

using analysis::Outcome;

/// Arrivals of instances [first, end) in the order in which their readers hear of them: several of one trace rank
/// follow each other, so that a timeline is not visited anew for each of its arrivals, far from the one before.
/// `visit(i, member)`: of instance i.
template <class Visit>
void for_each_arrival(MatchedBlock& block, const Piece& piece, const Visit& visit) {
  constexpr std::size_t at_once = 16;
  for (std::size_t first = piece.first; first < piece.end; first += at_once) {
    const std::size_t end = std::min(first + at_once, piece.end);
    std::int32_t most = 0;
    for (std::size_t i = first; i < end; ++i) most = std::max(most, block.instances[i].arrivals);
    for (std::int32_t m = 0; m < most; ++m) {
      for (std::size_t i = first; i < end; ++i) {
        const Instance& instance = block.instances[i];
        if (m < instance.arrivals) visit(i, block.arrivals[static_cast<std::size_t>(instance.first_arrival + m)]);
      }
    }
  }
}

/// What all members of an instance are told.
Outcome common_outcome(const MatchedBlock& block, const Instance& instance, std::span<const InstanceArrival> members,
                       std::size_t captured_members, std::span<const std::uint64_t> slow_groups, std::int32_t step) {
  Outcome outcome;
  outcome.matched = true;
  outcome.step = step;
  outcome.sequence = static_cast<std::int32_t>(instance.sequence);
  outcome.last_trace_rank = instance.last_trace_rank;
  outcome.communicator = block.communicator;
  outcome.complete = members.size() == captured_members;
  std::size_t blocking = 0;
  std::uint64_t partners = 0;
  for (const InstanceArrival& member : members) {
    partners = analysis::digest_of_partners(partners, member.trace_rank);
    blocking += member.blocking ? 1 : 0;
  }
  outcome.partners = static_cast<std::uint32_t>(partners >> 32U);
  outcome.blocking = 2 * blocking > members.size();
  outcome.tied =
      !has_lateness(instance) || std::all_of(members.begin(), members.end(), [&](const InstanceArrival& member) {
        return analysis::stayed_for_last(instance, member);
      });
  outcome.slow_link = std::binary_search(slow_groups.begin(), slow_groups.end(), partners);
  return outcome;
}

Outcome outcome_of(const Outcome& common, const Instance& instance, const InstanceArrival& member) {
  Outcome outcome = common;
  outcome.wait_ns = wait_ns(instance, member);
  outcome.split_told = has_lateness(instance) && instance.skew_uncertainty_ns >= 0 &&
                       member.exit - member.enter > analysis::resolution_factor * instance.skew_uncertainty_ns;
  outcome.lateness_ns = has_lateness(instance) ? member.enter - instance.first_enter : 0;
  return outcome;
}

/// Digests of the members of the slow groups, ascending.
std::vector<std::uint64_t> digests_of_slow_groups(const LinkAnalysis& links) {
  std::vector<std::uint64_t> digests;
  for (const std::vector<std::int32_t>& slow : links.slow_groups)
    digests.push_back(std::accumulate(slow.begin(), slow.end(), std::uint64_t{0}, analysis::digest_of_partners));
  std::sort(digests.begin(), digests.end());
  return digests;
}

/// What a tool rank tells the readers of the arrivals of these instances: at once where they are here, else into what
/// is to be sent.
void tell_readers(const JobRanks& job, const ReaderRanks& readers, std::span<const std::uint64_t> slow_groups,
                  const JobSteps& steps, std::span<const Piece> pieces, CrossRank& cross,
                  Outgoing<ToldOfArrival<Outcome>>& outgoing) {
  std::vector<Outcome> common;
  std::vector<std::int32_t> scratch;
  for (const Piece& piece : pieces) {
    MatchedBlock& block = cross.blocks[piece.block];
    const auto captured = cross.communicators[static_cast<std::size_t>(block.communicator)].trace_ranks.size();
    common.clear();
    for (std::size_t i = piece.first; i < piece.end; ++i) {
      const Instance& instance = block.instances[i];
      const std::span<const InstanceArrival> members = members_of(std::as_const(block), instance);
      common.push_back(common_outcome(block, instance, members, captured, slow_groups,
                                      step_of_instance(job, steps, members, scratch)));
    }
    for_each_arrival(block, piece, [&](std::size_t i, const InstanceArrival& member) {
      const std::size_t r = job.index_of(member.trace_rank);
      const Outcome outcome = outcome_of(common[i - piece.first], block.instances[i], member);
      if (LocalRank* const here = readers.of_index[r]) {
        here->timeline.outcomes[static_cast<std::size_t>(member.index)] = outcome;
      } else {
        outgoing[static_cast<std::size_t>(readers.tool_rank[r])].push_back(
            {outcome, {member.trace_rank, member.index}});
      }
    });
  }
}

/// Collective: tells every timeline what its instances tell.
void send_outcomes(const exchange::Communicator& communicator, const JobRanks& job, const ReaderRanks& readers,
                   const LinkAnalysis& links, const JobSteps& steps, const OwnedRounds& rounds, CrossRank& cross) {
  const std::vector<std::uint64_t> slow_groups = digests_of_slow_groups(links);
  auto outgoing = nothing_for<ToldOfArrival<Outcome>>(communicator);
  exchange::Gathered<ToldOfArrival<Outcome>> received;
  tell_readers(job, readers, slow_groups, steps, rounds.at_reader, cross, outgoing);
  const std::int64_t most_rounds = communicator.maximum(std::ssize(rounds.rounds));
  for (std::size_t round = 0; round < static_cast<std::size_t>(most_rounds); ++round) {
    empty(outgoing);
    tell_readers(job, readers, slow_groups, steps, rounds.of(round), cross, outgoing);
    communicator.all_to_all(outgoing, received);
    for (const auto& [outcome, arrival] : received.values) {
      LocalRank& rank = *readers.of_index[job.index_of(arrival.trace_rank)];
      rank.timeline.outcomes[static_cast<std::size_t>(arrival.index)] = outcome;
    }
  }
}

/// Where the samples of some steps meet: those of a step on all tool ranks, or all would wait for one of them.
class PeerComparison {
 public:
  /// `with_transfers`: some link is slow.
  PeerComparison(const exchange::Communicator& communicator, bool with_transfers)
      : communicator_(communicator),
        with_transfers_(with_transfers),
        samples_(nothing_for<analysis::WorkSample>(communicator)),
        answers_(nothing_for<analysis::UsualWork>(communicator)) {}

  /// The sample of an arrival takes part in the next comparison, if it has one.
  void add(analysis::RankTimeline& timeline, std::size_t arrival) {
    const std::optional<analysis::WorkSample> sample = analysis::work_sample(timeline, arrival);
    if (!sample) return;
    const std::size_t meets_on = sample->position % samples_.size();
    samples_[meets_on].push_back(*sample);
    asked_.push_back({&timeline, static_cast<std::uint32_t>(arrival), static_cast<std::uint32_t>(meets_on)});
  }

  /// Collective: tells the timelines of all samples that were added what is usual there.
  void compare() {
    communicator_.all_to_all(samples_, received_samples_);
    empty(samples_);
    const std::vector<analysis::UsualWork> usual = analysis::usual_work(received_samples_.values, with_transfers_);
    for (std::size_t r = 0; r < answers_.size(); ++r)
      answers_[r].assign(usual.begin() + static_cast<std::ptrdiff_t>(received_samples_.offsets[r]),
                         usual.begin() + static_cast<std::ptrdiff_t>(received_samples_.offsets[r + 1]));
    communicator_.all_to_all(answers_, received_answers_);
    // Each tool rank answers in the order of its samples.
    std::vector<std::size_t> next = received_answers_.offsets;
    for (const Asked& asked : asked_)
      analysis::take_usual(*asked.timeline, asked.arrival, received_answers_.values[next[asked.tool_rank]++]);
    asked_.clear();
  }

 private:
  struct Asked {
    analysis::RankTimeline* timeline = nullptr;
    std::uint32_t arrival = 0;
    std::uint32_t tool_rank = 0;
  };

  const exchange::Communicator& communicator_;
  bool with_transfers_;
  std::vector<Asked> asked_;  ///< in the order in which they were added
  Outgoing<analysis::WorkSample> samples_;
  Outgoing<analysis::UsualWork> answers_;
  exchange::Gathered<analysis::WorkSample> received_samples_;
  exchange::Gathered<analysis::UsualWork> received_answers_;
};

/// Collective: compares every segment of work with those of its peers, where samples of one role and step meet: some
/// of the job's `steps` at a time, what lies outside of all steps with the first.
void compare_with_peers(const exchange::Communicator& communicator, const ReaderRanks& readers, std::int64_t steps,
                        bool with_transfers) {
  // All wait for all at the end of each round, so rounds are longer than where records only pass through.
  constexpr std::int64_t samples_per_round = 4 * static_cast<std::int64_t>(records_per_round);
  std::int64_t most = 0;  // arrivals on a tool rank
  for (const LocalRank* const rank : readers.local) most += std::ssize(rank->timeline.arrivals);
  most = std::max<std::int64_t>(communicator.maximum(most), 1);
  const std::int64_t at_once = std::max<std::int64_t>(steps * samples_per_round / most, 1);

  PeerComparison comparison(communicator, with_transfers);
  std::vector<std::size_t> next(readers.local.size(), 0);  // of each timeline's by_step
  for (std::int64_t first = 0; first <= steps; first += at_once) {
    const bool is_last = first + at_once > steps;
    for (std::size_t r = 0; r < next.size(); ++r) {
      analysis::RankTimeline& timeline = readers.local[r]->timeline;
      for (; next[r] < timeline.by_step.size(); ++next[r]) {
        const std::uint32_t arrival = timeline.by_step[next[r]];
        if (!is_last && timeline.arrivals[arrival].step >= first + at_once) break;
        comparison.add(timeline, arrival);
      }
    }
    comparison.compare();
  }
}

/// Once all outcomes are known. `stages`: null where nothing tells of stages. Everything that one timeline needs at
/// once, while it lies in the caches.
WorkSums measure_timelines(const JobRanks& job, const ReaderRanks& readers, const JobSteps& steps,
                           const analysis::Grouping* stages) {
  WorkSums sums(job.numbers.size(), static_cast<std::size_t>(steps.steps));
  for (LocalRank* const rank : readers.local) {
    const std::size_t r = job.index_of(rank->trace_rank);
    analysis::count_by_job(rank->timeline, {rank->steps.start_ns.size(), steps.first[r]});
    analysis::measure(rank->timeline, rank->profiles.rows());
    if (stages != nullptr) analysis::tell_stages_apart(rank->timeline, stages->place_of_rank[r]);
    sums.add(r, *rank);
  }
  return sums;
}

/// Once what is usual is known to all timelines.
SumsOfSteps finish_timelines(const JobRanks& job, const ReaderRanks& readers, std::size_t steps) {
  SumsOfSteps sums(job.numbers.size());
  for (LocalRank* const rank : readers.local) {
    analysis::finish_excess(rank->timeline);
    sums[job.index_of(rank->trace_rank)] = add_up_steps(rank->timeline, steps);
  }
  return sums;
}

/// Own lateness of an arrival of a local timeline; no_time where it is not known.
Nanoseconds own_excess(const LocalRank& rank, std::int32_t arrival) {
  return analysis::own_lateness_of(rank.timeline, static_cast<std::size_t>(arrival));
}

/// What owners of instances ask of the local timelines.
void answer(const JobRanks& job, const ReaderRanks& readers, const exchange::Gathered<ArrivalNumber>& asked,
            Outgoing<Nanoseconds>& answers) {
  empty(answers);
  for (std::size_t owner = 0; owner < answers.size(); ++owner) {
    for (const ArrivalNumber& arrival : asked.of(static_cast<int>(owner)))
      answers[owner].push_back(own_excess(*readers.of_index[job.index_of(arrival.trace_rank)], arrival.index));
  }
}

/// Splits lateness of the members of a piece, whose own comes from `excess_of` in the order of for_each_arrival, and
/// tells what their last arrivers caused.
template <class ExcessOf>
void split_lateness(CrossRank& cross, const Piece& piece, const ExcessOf& excess_of) {
  MatchedBlock& block = cross.blocks[piece.block];
  for_each_arrival(block, piece, [&](std::size_t i, InstanceArrival& member) {
    const Nanoseconds excess_ns = excess_of(member);
    if (excess_ns != no_time && has_lateness(block.instances[i]))
      analysis::split_lateness(block.instances[i], member, excess_ns);
  });
  for (std::size_t i = piece.first; i < piece.end; ++i)
    analysis::compute_caused_wait(block.instances[i], members_of(block, block.instances[i]));
}

/// Collective: brings own lateness from the timelines to the blocks, which then tell what the last arrivers caused.
void return_lateness(const exchange::Communicator& communicator, const JobRanks& job, const ReaderRanks& readers,
                     const OwnedRounds& rounds, CrossRank& cross) {
  auto questions = nothing_for<ArrivalNumber>(communicator);
  auto answers = nothing_for<Nanoseconds>(communicator);
  exchange::Gathered<ArrivalNumber> asked;
  exchange::Gathered<Nanoseconds> answered;
  for (const Piece& piece : rounds.at_reader) {
    split_lateness(cross, piece, [&](const InstanceArrival& member) {
      return own_excess(*readers.of_index[job.index_of(member.trace_rank)], member.index);
    });
  }
  const std::int64_t most_rounds = communicator.maximum(std::ssize(rounds.rounds));
  for (std::size_t round = 0; round < static_cast<std::size_t>(most_rounds); ++round) {
    empty(questions);
    for (const Piece& piece : rounds.of(round)) {
      for_each_arrival(cross.blocks[piece.block], piece, [&](std::size_t, const InstanceArrival& member) {
        const std::size_t r = job.index_of(member.trace_rank);
        if (readers.of_index[r] == nullptr)
          questions[static_cast<std::size_t>(readers.tool_rank[r])].push_back({member.trace_rank, member.index});
      });
    }
    communicator.all_to_all(questions, asked);
    answer(job, readers, asked, answers);
    communicator.all_to_all(answers, answered);
    std::vector<std::size_t> next(answered.offsets.begin(), answered.offsets.end() - 1);
    for (const Piece& piece : rounds.of(round)) {
      split_lateness(cross, piece, [&](const InstanceArrival& member) {
        const std::size_t r = job.index_of(member.trace_rank);
        return readers.of_index[r] != nullptr ? own_excess(*readers.of_index[r], member.index)
                                              : answered.values[next[static_cast<std::size_t>(readers.tool_rank[r])]++];
      });
    }
  }
}

/// By index of the trace rank.
std::vector<analysis::SlowPlace> slow_places(const JobRanks& job, const LinkAnalysis& links) {
  std::vector<analysis::SlowPlace> slow;
  for (const std::vector<std::int32_t>& place : links.slow_places) {
    std::set<std::size_t> partners;
    for (const std::vector<std::int32_t>& group : links.slow_groups) {
      if (std::find_first_of(group.begin(), group.end(), place.begin(), place.end()) == group.end()) continue;
      for (const std::int32_t member : group) partners.insert(job.index_of(member));
    }
    analysis::SlowPlace& one = slow.emplace_back();
    for (const std::int32_t trace_rank : place) one.ranks.push_back(job.index_of(trace_rank));
    one.partners.assign(partners.begin(), partners.end());
  }
  return slow;
}

}  // namespace

Attribution attribute_delays(const exchange::Communicator& communicator, const ClockReport& clock, const JobRanks& job,
                             CrossRank& cross, std::vector<LocalTrace>& local_traces,
                             const std::vector<Table>& rank_tables, std::span<const analysis::Grouping> groupings,
                             const LinkAnalysis& links) {
  const ReaderRanks readers = find_readers(communicator, job, local_traces);
  const OwnedRounds rounds = plan_owned_rounds(cross);
  const JobSteps counted = count_steps(communicator, job, readers, cross);
  send_outcomes(communicator, job, readers, links, counted, rounds, cross);
  WorkSums sums = measure_timelines(job, readers, counted, analysis::find_grouping(groupings, Level::pipeline_stage));
  analysis::Steps steps = steps_in_time(communicator, counted, readers);
  WorkSurplus surplus = find_surplus(communicator, job, rank_tables, groupings, std::move(sums), local_traces);
  compare_with_peers(communicator, readers, std::ssize(steps.start_ns), !links.slow_groups.empty());
  SumsOfSteps sums_of_steps = finish_timelines(job, readers, steps.start_ns.size());
  return_lateness(communicator, job, readers, rounds, cross);
  Attribution attribution;
  attribution.delays = sum_delays(communicator, clock, job, readers, cross, steps, sums_of_steps);
  attribution.steps_apart = steps_apart(communicator, counted, readers);
  attribution.step_rows = make_step_rows(job, readers, steps, attribution.steps_apart, sums_of_steps);
  attribution.waits = sum_waits_for(communicator, job.trace_ranks, cross);
  attribution.delays.speed = std::move(surplus.speed);
  attribution.delays.wander = std::move(surplus.wander);
  attribution.delays.kernel_ns = std::move(surplus.kernel_ns);
  attribution.delays.kernels_ns = std::move(surplus.kernels_ns);
  attribution.delays.usual_kernels_ns = std::move(surplus.usual_kernels_ns);
  attribution.delays.slowness = std::move(surplus.slowness);
  attribution.delays.stages = std::move(surplus.stages);
  attribution.delays.slow_places = slow_places(job, links);
  attribution.steps = std::move(steps);
  return attribution;
}

}  // namespace nsys_explain::pipeline
