#include "attribution.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "nsys_explain/analysis/delay_costs.hpp"
#include "nsys_explain/analysis/path.hpp"
#include "nsys_explain/analysis/waits.hpp"
#include "nsys_explain/clock/job_time.hpp"
#include "work_surplus.hpp"

namespace nsys_explain::pipeline {
namespace {

using analysis::Claim;
using analysis::Outcome;
using analysis::PathArrival;

/// Claims that have been handed on this often go to nobody: what is left of them is noise passed around.
constexpr int most_hops = 64;

/// Which tool rank holds the path of each trace rank, and where.
struct Homes {
  std::vector<int> tool_rank;        ///< by index of the trace rank; -1: nowhere
  std::vector<LocalRank*> of_index;  ///< by index of the trace rank; null: not here
  std::vector<LocalRank*> local;     ///< those that are here, ascending by trace rank
};

Homes find_homes(const exchange::Communicator& communicator, const JobRanks& job,
                 std::vector<LocalTrace>& local_traces) {
  Homes homes;
  homes.of_index.assign(job.numbers.size(), nullptr);
  std::vector<std::int64_t> mine;
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      const std::size_t index = job.index_of(rank.trace_rank);
      homes.of_index[index] = &rank;
      mine.push_back(static_cast<std::int64_t>(index));
    }
  }
  std::copy_if(homes.of_index.begin(), homes.of_index.end(), std::back_inserter(homes.local),
               [](const LocalRank* rank) { return rank != nullptr; });
  homes.tool_rank.assign(job.numbers.size(), -1);
  const auto all = communicator.all_gather(std::span<const std::int64_t>(mine));
  for (int r = 0; r < communicator.size(); ++r)
    for (const std::int64_t index : all.of(r)) homes.tool_rank[static_cast<std::size_t>(index)] = r;
  return homes;
}

template <class Record>
using Outgoing = std::vector<std::vector<Record>>;

template <class Record>
Outgoing<Record> nothing_for(const exchange::Communicator& communicator) {
  return Outgoing<Record>(static_cast<std::size_t>(communicator.size()));
}

/// Arrivals of the local paths in the order in which their owners told what became of them, which is that in which
/// the owners await answers. Trivially copyable.
struct ArrivalPlace {
  std::int32_t trace_rank = -1;
  std::int32_t index = -1;
};

/// Arrivals of a block in the order in which their homes are told: several of one trace rank follow each other, so that
/// a path is not visited anew for each of its arrivals, far from the one before. `visit(i, member)`: of instance i.
template <class Visit>
void for_each_arrival(MatchedBlock& block, const Visit& visit) {
  constexpr std::size_t at_once = 16;
  for (std::size_t first = 0; first < block.instances.size(); first += at_once) {
    const std::size_t end = std::min(first + at_once, block.instances.size());
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

std::span<InstanceArrival> members_of(MatchedBlock& block, const Instance& instance) {
  return std::span(block.arrivals)
      .subspan(static_cast<std::size_t>(instance.first_arrival), static_cast<std::size_t>(instance.arrivals));
}

/// What all members of an instance are told.
Outcome common_outcome(const MatchedBlock& block, const Instance& instance, std::span<const InstanceArrival> members,
                       std::size_t captured_members, std::span<const std::uint64_t> slow_groups) {
  Outcome outcome;
  outcome.sequence = instance.sequence;
  outcome.last_trace_rank = instance.last_trace_rank;
  outcome.communicator = block.communicator;
  outcome.complete = members.size() == captured_members;
  std::size_t blocking = 0;
  for (const InstanceArrival& member : members) {
    if (member.trace_rank == instance.last_trace_rank) outcome.last_index = member.index;
    outcome.partners = analysis::digest_of_partners(outcome.partners, member.trace_rank);
    blocking += member.blocking ? 1 : 0;
  }
  outcome.blocking = 2 * blocking > members.size();
  outcome.slow_link = std::binary_search(slow_groups.begin(), slow_groups.end(), outcome.partners);
  return outcome;
}

Outcome outcome_of(Outcome outcome, const Instance& instance, const InstanceArrival& member) {
  outcome.wait_ns = member.wait_ns;
  outcome.lateness_ns = analysis::has_lateness(instance) ? member.enter_ns - instance.first_enter_ns : 0;
  outcome.trace_rank = member.trace_rank;
  outcome.index = member.index;
  outcome.judged = analysis::has_lateness(instance) && member.trace_rank != instance.last_trace_rank &&
                   member.wait_ns > analysis::resolution_factor * instance.skew_uncertainty_ns;
  return outcome;
}

/// How many arrivals of the owned blocks have their home on each tool rank.
std::vector<std::size_t> count_by_home(const exchange::Communicator& communicator, const JobRanks& job,
                                       const Homes& homes, const CrossRank& cross) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(communicator.size()), 0);
  for (const MatchedBlock& block : cross.blocks)
    for (const InstanceArrival& arrival : block.arrivals)
      ++counts[static_cast<std::size_t>(homes.tool_rank[job.index_of(arrival.trace_rank)])];
  return counts;
}

/// Outcome::partners of the slow groups, ascending.
std::vector<std::uint64_t> digests_of_slow_groups(const LinkAnalysis& links) {
  std::vector<std::uint64_t> digests;
  for (const std::vector<std::int32_t>& slow : links.slow_groups)
    digests.push_back(std::accumulate(slow.begin(), slow.end(), std::uint64_t{0}, analysis::digest_of_partners));
  std::sort(digests.begin(), digests.end());
  return digests;
}

/// Collective: tells every path what its instances tell. Returns the arrivals by the owners that told.
exchange::Gathered<ArrivalPlace> send_outcomes(const exchange::Communicator& communicator, const JobRanks& job,
                                               const Homes& homes, const LinkAnalysis& links, CrossRank& cross) {
  const std::vector<std::uint64_t> slow_groups = digests_of_slow_groups(links);
  auto outgoing = nothing_for<Outcome>(communicator);
  const std::vector<std::size_t> counts = count_by_home(communicator, job, homes, cross);
  for (std::size_t home = 0; home < counts.size(); ++home) outgoing[home].reserve(counts[home]);
  for (MatchedBlock& block : cross.blocks) {
    const auto captured = cross.communicators[static_cast<std::size_t>(block.communicator)].trace_ranks.size();
    std::vector<Outcome> common;
    common.reserve(block.instances.size());
    for (const Instance& instance : block.instances)
      common.push_back(common_outcome(block, instance, members_of(block, instance), captured, slow_groups));
    for_each_arrival(block, [&](std::size_t i, const InstanceArrival& member) {
      const auto home = static_cast<std::size_t>(homes.tool_rank[job.index_of(member.trace_rank)]);
      outgoing[home].push_back(outcome_of(common[i], block.instances[i], member));
    });
  }
  const exchange::Gathered<Outcome> received = communicator.all_to_all(std::move(outgoing));
  exchange::Gathered<ArrivalPlace> places;
  places.offsets = received.offsets;
  places.values.reserve(received.values.size());
  for (const Outcome& outcome : received.values) {
    places.values.push_back({outcome.trace_rank, outcome.index});
    analysis::take_outcome(homes.of_index[job.index_of(outcome.trace_rank)]->path, outcome);
  }
  for (LocalRank* const rank : homes.local) analysis::measure(rank->path);
  return places;
}

/// Collective: the steps of the trace rank that has most stand for the job's; paths count their steps by them.
analysis::Steps agree_on_steps(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes) {
  std::int64_t most = 0;
  for (const LocalRank* const rank : homes.local)
    most = std::max(most, static_cast<std::int64_t>(rank->steps.start_ns.size()));
  most = communicator.maximum(most);
  analysis::Steps steps;
  if (most == 0) return steps;
  constexpr std::int64_t nobody = std::numeric_limits<std::int32_t>::min();
  std::int64_t chosen = nobody;  // the lowest, negated
  for (const LocalRank* const rank : homes.local)
    if (static_cast<std::int64_t>(rank->steps.start_ns.size()) == most)
      chosen = std::max(chosen, -static_cast<std::int64_t>(rank->trace_rank));
  chosen = -communicator.maximum(chosen);

  std::vector<std::int64_t> mine;
  if (const LocalRank* const rank = homes.of_index[job.index_of(static_cast<std::int32_t>(chosen))]) {
    const analysis::Steps& own = rank->steps;
    mine = {static_cast<std::int64_t>(own.source), own.numbered ? 1 : 0, own.first_number, own.end_ns};
    mine.insert(mine.end(), own.start_ns.begin(), own.start_ns.end());
  }
  const std::vector<std::int64_t> all = communicator.all_gather(std::span<const std::int64_t>(mine)).values;
  steps.source = static_cast<analysis::StepSource>(all[0]);
  steps.numbered = all[1] != 0;
  steps.first_number = all[2];
  steps.end_ns = all[3];
  steps.start_ns.assign(all.begin() + 4, all.end());
  return steps;
}

void count_steps_by(const analysis::Steps& job_steps, LocalRank& rank) {
  const std::vector<std::int32_t> related = analysis::relate_steps(job_steps, rank.steps);
  for (PathArrival& arrival : rank.path.arrivals)
    if (arrival.step >= 0) arrival.step = related[static_cast<std::size_t>(arrival.step)];
}

/// Collective: compares every segment of work with those of its peers, where samples of one role and step meet.
void compare_with_peers(const exchange::Communicator& communicator, const Homes& homes) {
  auto outgoing = nothing_for<analysis::WorkSample>(communicator);
  std::size_t most = 0;
  for (const LocalRank* const rank : homes.local) most += rank->path.arrivals.size();
  for (auto& part : outgoing) part.reserve(most / outgoing.size() + 1);
  for (const LocalRank* const rank : homes.local) {
    for (const analysis::WorkSample& sample : analysis::work_samples(rank->path)) {
      const std::uint64_t key = sample.role + static_cast<std::uint64_t>(sample.step + 1);
      outgoing[key % outgoing.size()].push_back(sample);
    }
  }
  auto answers = nothing_for<analysis::UsualWork>(communicator);
  {
    const exchange::Gathered<analysis::WorkSample> samples = communicator.all_to_all(std::move(outgoing));
    const std::vector<analysis::UsualWork> usual = analysis::usual_work(samples.values);
    for (std::size_t r = 0; r < answers.size(); ++r)
      answers[r].assign(usual.begin() + static_cast<std::ptrdiff_t>(samples.offsets[r]),
                        usual.begin() + static_cast<std::ptrdiff_t>(samples.offsets[r + 1]));
  }
  const exchange::Gathered<analysis::UsualWork> usual = communicator.all_to_all(std::move(answers));
  // Every tool rank answers in the order in which it was asked, which was by trace rank.
  std::vector<std::size_t> next(usual.offsets.begin(), usual.offsets.end() - 1);
  std::vector<analysis::UsualWork> own;
  for (LocalRank* const rank : homes.local) {
    own.clear();
    for (std::size_t r = 0; r < next.size(); ++r)
      for (; next[r] < usual.offsets[r + 1] && usual.values[next[r]].trace_rank == rank->trace_rank; ++next[r])
        own.push_back(usual.values[next[r]]);
    analysis::set_excess(rank->path, own);
  }
}

/// Collective: own lateness from the paths back to the blocks, in the order in which outcomes were sent.
void return_lateness(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes,
                     const exchange::Gathered<ArrivalPlace>& places, CrossRank& cross) {
  auto answers = nothing_for<Nanoseconds>(communicator);
  for (int r = 0; r < communicator.size(); ++r) {
    std::vector<Nanoseconds>& answer = answers[static_cast<std::size_t>(r)];
    answer.reserve(places.of(r).size());
    for (const ArrivalPlace& place : places.of(r)) {
      const analysis::Path& path = homes.of_index[job.index_of(place.trace_rank)]->path;
      const PathArrival& arrival = path.arrivals[static_cast<std::size_t>(place.index)];
      answer.push_back(arrival.compared ? arrival.own_excess_ns : no_time);
    }
  }
  const auto received = communicator.all_to_all(std::move(answers));
  std::vector<std::size_t> next(received.offsets.begin(), received.offsets.end() - 1);
  for (MatchedBlock& block : cross.blocks) {
    for_each_arrival(block, [&](std::size_t i, InstanceArrival& member) {
      const auto home = static_cast<std::size_t>(homes.tool_rank[job.index_of(member.trace_rank)]);
      const Nanoseconds excess_ns = received.values[next[home]++];
      if (excess_ns != no_time && analysis::has_lateness(block.instances[i]))
        analysis::split_lateness(block.instances[i], member, excess_ns);
    });
    for (Instance& instance : block.instances) analysis::compute_caused_wait(instance, members_of(block, instance));
  }
}

/// Where sums by trace rank and bin are made.
class Ledger {
 public:
  Ledger(const JobRanks& job, const ClockReport& clock, const analysis::Steps& steps, std::int64_t start_ns,
         std::int64_t end_ns)
      : waits(job.trace_ranks),
        job_(job),
        clock_(clock),
        start_ns_(start_ns),
        end_ns_(end_ns),
        steps_(steps.start_ns.size()) {
    delays.by_step = steps_ > 0;
    delays.steps = steps_;
    delays.bins = delays.by_step ? analysis::bins_of_steps(steps_) : analysis::time_bins;
    delays.role.assign(job.numbers.size(), 0);
    delays.cost_ns.assign(job.numbers.size() * delays.bins, 0);
    delays.excess_work_ns.assign(job.numbers.size() * delays.bins, 0);
    delays.slow_transfer_ns.assign(job.numbers.size(), 0);
    ranks.resize(job.numbers.size());
  }

  std::size_t bin_of(const LocalRank& rank, const PathArrival& arrival) const {
    if (delays.by_step) {
      return analysis::bin_of_step(static_cast<std::size_t>(std::max(0, arrival.step)), steps_);
    }
    const SessionClock& session = clock_.sessions[rank.session];
    const Nanoseconds time_ns = clock::to_job_time(session, clock_.pivot_ns, arrival.enter_ns);
    if (time_ns <= start_ns_ || end_ns_ <= start_ns_) return 0;
    const double share = static_cast<double>(time_ns - start_ns_) / static_cast<double>(end_ns_ - start_ns_);
    return std::min(static_cast<std::size_t>(share * static_cast<double>(delays.bins)), delays.bins - 1);
  }

  /// `rank`: index of the one that was waited for, without a delay of its own or of others that tells.
  void unattributed(std::size_t rank, std::int32_t waiting, Nanoseconds amount_ns) {
    ranks[rank].unattributed_ns += amount_ns;
    waits.add(nobodys_delay, waiting, amount_ns);
  }

  analysis::JobDelays delays;
  std::vector<RankDelays> ranks;
  WaitMatrix waits;

 private:
  const JobRanks& job_;
  const ClockReport& clock_;
  Nanoseconds start_ns_, end_ns_;
  std::size_t steps_;
};

/// Cost of each arrival of the local paths: by index of the trace rank, then index of the arrival.
using ArrivalCosts = std::vector<std::vector<Nanoseconds>>;

/// Collective: hands claims on from last arriver to last arriver until each is met. A round takes all claims one hop
/// further; claims on one arrival are met together, so neither their order nor who sent them matters.
ArrivalCosts settle_claims(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes,
                           Ledger& ledger) {
  ArrivalCosts costs(job.numbers.size());
  auto outgoing = nothing_for<Claim>(communicator);
  const auto send = [&](const Claim& claim) {
    outgoing[static_cast<std::size_t>(homes.tool_rank[job.index_of(claim.trace_rank)])].push_back(claim);
  };
  for (const LocalRank* const rank : homes.local) {
    const std::size_t r = job.index_of(rank->trace_rank);
    costs[r].assign(rank->path.arrivals.size(), 0);
    const analysis::OpeningClaims opening = analysis::opening_claims(rank->path);
    const std::int32_t waiting = ledger.waits.waiting_of(r);
    for (Claim claim : opening.claims) {
      claim.waiting = waiting;
      send(claim);
    }
    for (const Claim& claim : opening.untold)
      ledger.unattributed(job.index_of(claim.trace_rank), waiting, claim.amount_ns);
  }
  const auto any_left = [&] {
    std::int64_t open = 0;
    for (const std::vector<Claim>& part : outgoing) open += static_cast<std::int64_t>(part.size());
    return communicator.sum(open) > 0;
  };
  for (int hop = 0; any_left(); ++hop) {
    std::vector<Claim> claims =
        communicator.all_to_all(std::exchange(outgoing, nothing_for<Claim>(communicator))).values;
    std::sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) {
      return std::pair(a.trace_rank, a.index) < std::pair(b.trace_rank, b.index);
    });
    for (std::size_t first = 0, end = 0; first < claims.size(); first = end) {
      const auto [trace_rank, index] = std::pair(claims[first].trace_rank, claims[first].index);
      while (end < claims.size() && claims[end].trace_rank == trace_rank && claims[end].index == index) ++end;
      const std::size_t r = job.index_of(trace_rank);
      const analysis::Settlement settlement =
          analysis::settle(homes.of_index[r]->path, index, std::span(claims).subspan(first, end - first));
      const Nanoseconds own_ns = analysis::total(settlement.own);
      (hop == 0 ? ledger.ranks[r].direct_ns : ledger.ranks[r].propagated_ns) += own_ns;
      costs[r][static_cast<std::size_t>(index)] += own_ns;
      for (const auto& [waiting, amount_ns] : settlement.own) ledger.waits.add(trace_rank, waiting, amount_ns);
      for (const auto& [waiting, amount_ns] : settlement.unattributed) ledger.unattributed(r, waiting, amount_ns);
      for (const Claim& claim : settlement.onward) {
        if (hop < most_hops) {
          send(claim);
        } else {
          ledger.unattributed(r, claim.waiting, claim.amount_ns);
        }
      }
    }
  }
  return costs;
}

/// Caused waits of the last arrivers, step by step: where the steps are known.
struct CausedWait {
  Nanoseconds caused_wait_ns = 0;
  std::int32_t trace_rank = -1;
  std::int32_t index = -1;
};

/// Collective: one row per local trace rank and step.
std::vector<StepRow> make_step_rows(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes,
                                    const CrossRank& cross, const analysis::Steps& steps, const ArrivalCosts& costs) {
  auto outgoing = nothing_for<CausedWait>(communicator);
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      if (instance.caused_wait_ns == 0) continue;
      for (std::int64_t a = instance.first_arrival; a < instance.first_arrival + instance.arrivals; ++a) {
        const InstanceArrival& member = block.arrivals[static_cast<std::size_t>(a)];
        if (member.trace_rank != instance.last_trace_rank) continue;
        const auto home = static_cast<std::size_t>(homes.tool_rank[job.index_of(member.trace_rank)]);
        outgoing[home].push_back({instance.caused_wait_ns, member.trace_rank, member.index});
      }
    }
  }
  const std::size_t ranks = homes.local.size();
  std::vector<StepRow> rows(steps.start_ns.size() * ranks);  // by step of the job, then trace rank
  for (std::size_t l = 0; l < ranks; ++l) {
    const LocalRank& rank = *homes.local[l];
    const auto row_of = [&](std::int32_t step) -> StepRow& { return rows[static_cast<std::size_t>(step) * ranks + l]; };
    const std::vector<std::int32_t> related = analysis::relate_steps(steps, rank.steps);
    for (std::size_t i = 0; i < related.size(); ++i) {
      if (related[i] < 0) continue;
      StepRow& row = row_of(related[i]);
      const Nanoseconds end_ns = i + 1 < related.size() ? rank.steps.start_ns[i + 1] : rank.steps.end_ns;
      if (row.trace_rank < 0) row.start_ns = rank.steps.start_ns[i];
      row.trace_rank = rank.trace_rank;
      row.step = steps.first_number + related[i];
      row.duration_ns = end_ns - row.start_ns;
    }
    const std::vector<Nanoseconds>& cost = costs[job.index_of(rank.trace_rank)];
    for (std::size_t i = 0; i < rank.path.arrivals.size(); ++i) {
      const PathArrival& arrival = rank.path.arrivals[i];
      if (arrival.step < 0) continue;
      StepRow& row = row_of(arrival.step);
      if (arrival.compared)
        row.own_lateness_ns += std::clamp<Nanoseconds>(arrival.own_excess_ns, 0, arrival.outcome.lateness_ns);
      row.wait_ns += arrival.outcome.wait_ns;
      row.delay_cost_ns += cost[i];
      row.excess_ns += analysis::excess_at(rank.path, i);
    }
  }
  for (const CausedWait& caused : communicator.all_to_all(std::move(outgoing)).values) {
    const auto rank = std::partition_point(homes.local.begin(), homes.local.end(),
                                           [&](const LocalRank* r) { return r->trace_rank < caused.trace_rank; });
    const std::int32_t step = (*rank)->path.arrivals[static_cast<std::size_t>(caused.index)].step;
    if (step < 0) continue;
    const auto l = static_cast<std::size_t>(rank - homes.local.begin());
    rows[static_cast<std::size_t>(step) * ranks + l].caused_wait_ns += caused.caused_wait_ns;
  }
  std::erase_if(rows, [](const StepRow& row) { return row.trace_rank < 0; });
  return rows;
}

/// By index of the trace rank.
std::vector<analysis::SlowRank> slow_ranks(const JobRanks& job, const LinkAnalysis& links) {
  std::vector<analysis::SlowRank> slow;
  for (const std::int32_t trace_rank : links.slow_ranks) {
    std::set<std::size_t> partners;
    for (const std::vector<std::int32_t>& group : links.slow_groups) {
      if (!std::binary_search(group.begin(), group.end(), trace_rank)) continue;
      for (const std::int32_t member : group) partners.insert(job.index_of(member));
    }
    slow.push_back({job.index_of(trace_rank), {partners.begin(), partners.end()}});
  }
  return slow;
}

/// Collective: the first and the last enter of all paths, in job time.
std::pair<Nanoseconds, Nanoseconds> extent(const exchange::Communicator& communicator, const ClockReport& clock,
                                           const Homes& homes) {
  // Minimum as the maximum of the negated values, which max() (not min()) can be without overflow.
  std::vector<std::int64_t> range(2, -std::numeric_limits<std::int64_t>::max());
  for (const LocalRank* const rank : homes.local) {
    if (rank->path.arrivals.empty()) continue;
    const auto time_of = [&](const PathArrival& arrival) {
      return clock::to_job_time(clock.sessions[rank->session], clock.pivot_ns, arrival.enter_ns);
    };
    range[0] = std::max(range[0], -time_of(rank->path.arrivals.front()));
    range[1] = std::max(range[1], time_of(rank->path.arrivals.back()));
  }
  range = communicator.maximum(range);
  return {-range[0], range[1]};
}

/// Collective: sums of the local ranks' entries on every tool rank.
Attribution add_up(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes, Ledger& ledger,
                   const ArrivalCosts& costs) {
  for (const LocalRank* const rank : homes.local) {
    const std::size_t r = job.index_of(rank->trace_rank);
    const std::vector<Nanoseconds>& cost = costs[r];
    for (std::size_t i = 0; i < cost.size(); ++i) {
      const PathArrival& arrival = rank->path.arrivals[i];
      const std::size_t entry = r * ledger.delays.bins + ledger.bin_of(*rank, arrival);
      ledger.delays.cost_ns[entry] += cost[i];
      ledger.delays.excess_work_ns[entry] += analysis::excess_at(rank->path, i);
      ledger.delays.slow_transfer_ns[r] += arrival.excess_transfer_ns;
    }
    ledger.delays.role[r] = rank->path.role;
  }
  Attribution attribution;
  attribution.delays = std::move(ledger.delays);
  attribution.delays.cost_ns = communicator.sum(attribution.delays.cost_ns);
  attribution.delays.excess_work_ns = communicator.sum(attribution.delays.excess_work_ns);
  attribution.delays.slow_transfer_ns = communicator.sum(attribution.delays.slow_transfer_ns);
  std::vector<std::int64_t> flat;
  for (std::size_t r = 0; r < ledger.ranks.size(); ++r) {
    const RankDelays& rank = ledger.ranks[r];
    flat.insert(flat.end(), {static_cast<std::int64_t>(attribution.delays.role[r]), rank.direct_ns, rank.propagated_ns,
                             rank.unattributed_ns});
  }
  flat = communicator.sum(flat);
  for (std::size_t r = 0; r < ledger.ranks.size(); ++r) {
    const auto field = std::span(flat).subspan(4 * r, 4);
    attribution.delays.role[r] = static_cast<std::uint64_t>(field[0]);
    attribution.ranks.push_back({field[1], field[2], field[3]});
  }
  return attribution;
}

}  // namespace

Attribution attribute_delays(const exchange::Communicator& communicator, const ClockReport& clock, const JobRanks& job,
                             CrossRank& cross, std::vector<LocalTrace>& local_traces,
                             const std::vector<Table>& rank_tables, std::span<const analysis::Grouping> groupings,
                             const LinkAnalysis& links) {
  const Homes homes = find_homes(communicator, job, local_traces);
  const exchange::Gathered<ArrivalPlace> places = send_outcomes(communicator, job, homes, links, cross);
  analysis::Steps steps = agree_on_steps(communicator, job, homes);
  for (LocalRank* const rank : homes.local) count_steps_by(steps, *rank);
  if (const analysis::Grouping* stages = analysis::find_grouping(groupings, Level::pipeline_stage))
    for (LocalRank* const rank : homes.local)
      analysis::tell_stages_apart(rank->path, stages->place_of_rank[job.index_of(rank->trace_rank)]);
  WorkSurplus surplus = find_surplus(communicator, job, rank_tables, groupings, steps.start_ns.size(), local_traces);
  compare_with_peers(communicator, homes);
  return_lateness(communicator, job, homes, places, cross);
  const auto [start_ns, end_ns] = extent(communicator, clock, homes);
  Ledger ledger(job, clock, steps, start_ns, end_ns);
  const ArrivalCosts costs = settle_claims(communicator, job, homes, ledger);
  std::vector<StepRow> step_rows = make_step_rows(communicator, job, homes, cross, steps, costs);
  Attribution attribution = add_up(communicator, job, homes, ledger, costs);
  attribution.delays.speed = std::move(surplus.speed);
  attribution.delays.stages = std::move(surplus.stages);
  attribution.delays.slow_ranks = slow_ranks(job, links);
  attribution.waits = ledger.waits.gather(communicator);
  attribution.steps = std::move(steps);
  attribution.step_rows = std::move(step_rows);
  return attribution;
}

}  // namespace nsys_explain::pipeline
