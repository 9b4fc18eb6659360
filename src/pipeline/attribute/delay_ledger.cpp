#include "pipeline/attribute/delay_ledger.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "analysis/waits/delay_costs.hpp"
#include "analysis/waits/path.hpp"
#include "clock/job_time.hpp"
#include "nsys_explain/model/release.hpp"

namespace nsys_explain::pipeline {
namespace {

using analysis::Claim;
using analysis::PathArrival;

/// Claims that have been handed on this often go to nobody: what is left of them is noise passed around.
constexpr int most_hops = 64;

/// Where sums by trace rank and bin are made.
class Ledger {
 public:
  Ledger(const JobRanks& job, const ClockReport& clock, const analysis::Steps& steps, std::int64_t start_ns,
         std::int64_t end_ns)
      : waits(job.trace_ranks), clock_(clock), start_ns_(start_ns), end_ns_(end_ns), steps_(steps.start_ns.size()) {
    delays.by_step = steps_ > 0;
    delays.steps = steps_;
    delays.bins = delays.by_step ? analysis::bins_of_steps(steps_) : analysis::time_bins;
    delays.role.assign(job.numbers.size(), 0);
    for (const std::size_t session : job.session_of_rank)
      delays.clock_group.push_back(clock.sessions[session].component);
    delays.cost_ns.assign(job.numbers.size() * delays.bins, 0);
    delays.excess_work_ns.assign(job.numbers.size() * delays.bins, 0);
    ranks.resize(job.numbers.size());
  }

  /// Of a trace rank's bin in the delays.
  std::size_t entry_of(std::size_t r, const LocalRank& rank, const PathArrival& arrival) const {
    return r * delays.bins + bin_of(rank, arrival);
  }
  std::size_t entry_of_step(std::size_t r, std::size_t step) const {
    return r * delays.bins + analysis::bin_of_step(step, steps_);
  }

  /// `rank`: index of the one that was waited for, without a delay of its own or of others that tells.
  void unattributed(std::size_t rank, std::int32_t waiting, Nanoseconds amount_ns) {
    ranks[rank].unattributed_ns += amount_ns;
    waits.add_to_nobody(waiting, amount_ns);
  }

  analysis::JobDelays delays;
  std::vector<RankDelays> ranks;
  WaitMatrix waits;

 private:
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

  const ClockReport& clock_;
  Nanoseconds start_ns_, end_ns_;
  std::size_t steps_;
};

/// Shows claims on one arrival that follow each other together.
template <class Use>
void for_each_arrival_claimed(std::span<const Claim> claims, const Use& use) {
  for (std::size_t first = 0, end = 0; first < claims.size(); first = end) {
    const Claim& claim = claims[first];
    while (end < claims.size() && claims[end].trace_rank == claim.trace_rank && claims[end].index == claim.index) ++end;
    use(claims.subspan(first, end - first));
  }
}

/// An arrival of a local path with what it explains of the claims on it.
struct ClaimedArrival {
  std::size_t rank = 0;  ///< index of the trace rank
  std::int32_t index = -1;
  analysis::Delay delay;
  std::vector<analysis::Waiting> explained;  ///< ascending by who waits
};

/// Sums the claims on each arrival of the local paths. They may come in any order and need not be kept.
class ClaimedArrivals {
 public:
  ClaimedArrivals(const JobRanks& job, const Homes& homes, Ledger& ledger)
      : job_(job), homes_(homes), ledger_(ledger), first_(homes.of_index.size(), 0) {
    std::size_t arrivals = 0;
    for (const LocalRank* const rank : homes.local) {
      first_[job.index_of(rank->trace_rank)] = arrivals;
      arrivals += rank->path.arrivals.size();
    }
    place_.assign(arrivals, none);
  }

  void add(std::span<const Claim> claims) {
    for_each_arrival_claimed(claims, [&](std::span<const Claim> on_one) {
      ClaimedArrival& claimed = find(job_.index_of(on_one.front().trace_rank), on_one.front().index);
      unexplained_.clear();
      analysis::explain(claimed.delay, on_one, claimed.explained, unexplained_);
      for (const auto& [waiting, amount_ns] : unexplained_) ledger_.unattributed(claimed.rank, waiting, amount_ns);
    });
  }

  /// Those that have been claimed since the last time.
  std::vector<ClaimedArrival> take() {
    for (const ClaimedArrival& claimed : claimed_) place_of(claimed.rank, claimed.index) = none;
    return std::exchange(claimed_, {});
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();  // more arrivals fit no memory
  std::uint32_t& place_of(std::size_t rank, std::int32_t index) {
    return place_[first_[rank] + static_cast<std::size_t>(index)];
  }
  ClaimedArrival& find(std::size_t rank, std::int32_t index) {
    std::uint32_t& place = place_of(rank, index);
    if (place == none) {
      place = static_cast<std::uint32_t>(claimed_.size());
      claimed_.push_back({rank, index, analysis::delay_of(homes_.of_index[rank]->path, index), {}});
    }
    return claimed_[place];
  }

  const JobRanks& job_;
  const Homes& homes_;
  Ledger& ledger_;
  std::vector<std::size_t> first_;    ///< arrival of all local ones, by index of the trace rank
  std::vector<std::uint32_t> place_;  ///< in claimed_, of each of them
  std::vector<ClaimedArrival> claimed_;
  std::vector<analysis::Waiting> unexplained_;
};

/// Hands claims on from last arriver to last arriver until each is met. Claims on one arrival are met together, so
/// neither their order nor who sent them matters.
class Settler {
 public:
  Settler(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes, Ledger& ledger,
          SumsOfSteps& sums)
      : communicator_(communicator),
        job_(job),
        homes_(homes),
        ledger_(ledger),
        sums_(sums),
        claimed_(job, homes, ledger),
        outgoing_(nothing_for<Claim>(communicator)),
        onward_(nothing_for<Claim>(communicator)) {}

  /// Collective: the owners of instances tell the last arrivers who waited for them. All claims on an arrival are of
  /// its instance then, and come together; what is handed on is summed at once where it goes.
  void settle_opening(const CrossRank& cross, const OwnedRounds& rounds) {
    for (const Piece& piece : rounds.at_home) open(cross.blocks[piece.block], piece);
    const std::int64_t most_rounds = communicator_.maximum(std::ssize(rounds.rounds));
    hand_on();
    for (std::size_t round = 0; round < static_cast<std::size_t>(most_rounds); ++round) {
      empty(outgoing_);
      for (const Piece& piece : rounds.of(round)) open(cross.blocks[piece.block], piece);
      communicator_.all_to_all(outgoing_, received_);
      for_each_arrival_claimed(received_.values, [&](std::span<const Claim> on_one) { settle_opened(on_one); });
      hand_on();
    }
  }

  /// Collective: takes all claims that are left one hop further, and so on.
  void settle_onward() {
    for (int hop = 1;; ++hop) {
      std::vector<ClaimedArrival> claimed = claimed_.take();
      auto next = claimed.begin();
      if (communicator_.maximum(std::ssize(claimed)) == 0) return;
      while (communicator_.maximum(claimed.end() - next) > 0) {
        for (leaving_claims_ = 0; next != claimed.end() && leaving_claims_ < records_per_round; ++next) {
          settle(next->rank, next->index, next->delay, next->explained, hop);
          release(next->explained);
        }
        hand_on();
      }
    }
  }

 private:
  void open(const MatchedBlock& block, const Piece& piece) {
    for (std::size_t i = piece.first; i < piece.end; ++i) {
      const Instance& instance = block.instances[i];
      analysis::open_claims(instance, members_of(block, instance), opening_);
      for (std::vector<Claim>* claims : {&opening_.claims, &opening_.untold})
        for (Claim& claim : *claims) claim.waiting = ledger_.waits.column_of(job_.index_of(claim.waiting));
      for (const Claim& claim : opening_.untold)
        ledger_.unattributed(job_.index_of(claim.trace_rank), claim.waiting, claim.amount_ns);
      if (opening_.claims.empty()) continue;
      const std::size_t last = job_.index_of(instance.last_trace_rank);
      if (homes_.of_index[last] != nullptr) {
        settle_opened(opening_.claims);
      } else {
        std::vector<Claim>& home = outgoing_[static_cast<std::size_t>(homes_.tool_rank[last])];
        home.insert(home.end(), opening_.claims.begin(), opening_.claims.end());
      }
    }
  }

  void settle_opened(std::span<const Claim> on_one) {
    const std::size_t r = job_.index_of(on_one.front().trace_rank);
    const std::int32_t index = on_one.front().index;
    const analysis::Delay delay = analysis::delay_of(homes_.of_index[r]->path, index);
    explained_.clear();
    unexplained_.clear();
    analysis::explain(delay, on_one, explained_, unexplained_);
    for (const auto& [waiting, amount_ns] : unexplained_) ledger_.unattributed(r, waiting, amount_ns);
    settle(r, index, delay, explained_, 0);
  }

  void settle(std::size_t r, std::int32_t index, const analysis::Delay& delay,
              std::vector<analysis::Waiting>& explained, int hop) {
    const LocalRank& rank = *homes_.of_index[r];
    analysis::settle(rank.path, index, delay, explained, settlement_);
    const Nanoseconds own_ns = analysis::total(settlement_.own);
    const PathArrival& arrival = rank.path.arrivals[static_cast<std::size_t>(index)];
    (hop == 0 ? ledger_.ranks[r].direct_ns : ledger_.ranks[r].propagated_ns) += own_ns;
    sums_of_step(sums_[r], arrival).delay_cost_ns += own_ns;
    ledger_.delays.cost_ns[ledger_.entry_of(r, rank, arrival)] += own_ns;
    for (const auto& [waiting, amount_ns] : settlement_.own) ledger_.waits.add(r, waiting, amount_ns);
    for (const auto& [waiting, amount_ns] : settlement_.unattributed) ledger_.unattributed(r, waiting, amount_ns);
    if (hop >= most_hops) {
      for (const Claim& claim : settlement_.onward) ledger_.unattributed(r, claim.waiting, claim.amount_ns);
      return;
    }
    for_each_arrival_claimed(settlement_.onward, [&](std::span<const Claim> on_one) {
      const std::size_t next = job_.index_of(on_one.front().trace_rank);
      if (homes_.of_index[next] != nullptr) {
        claimed_.add(on_one);
        return;
      }
      std::vector<Claim>& home = onward_[static_cast<std::size_t>(homes_.tool_rank[next])];
      home.insert(home.end(), on_one.begin(), on_one.end());
      leaving_claims_ += on_one.size();
    });
  }

  /// Collective.
  void hand_on() {
    communicator_.all_to_all(onward_, received_);
    empty(onward_);
    claimed_.add(received_.values);
  }

  const exchange::Communicator& communicator_;
  const JobRanks& job_;
  const Homes& homes_;
  Ledger& ledger_;
  SumsOfSteps& sums_;
  ClaimedArrivals claimed_;  ///< by claims that have been handed on
  Outgoing<Claim> outgoing_, onward_;
  exchange::Gathered<Claim> received_;
  std::size_t leaving_claims_ = 0;
  analysis::OpeningClaims opening_;
  std::vector<analysis::Waiting> explained_, unexplained_;
  analysis::Settlement settlement_;
};

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

/// What one trace rank took longer, into its bins. What lies outside of all steps counts with the first.
void add_excess(std::size_t r, const LocalRank& rank, std::span<const StepSums> sums, Ledger& ledger) {
  const analysis::Path& path = rank.path;
  std::vector<Nanoseconds>& excess_ns = ledger.delays.excess_work_ns;
  if (ledger.delays.by_step) {
    excess_ns[ledger.entry_of_step(r, 0)] += sums.back().excess_ns;
    for (std::size_t step = 0; step + 1 < sums.size(); ++step)
      excess_ns[ledger.entry_of_step(r, step)] += sums[step].excess_ns;
  } else {
    for (std::size_t i = 0; i < path.arrivals.size(); ++i)
      excess_ns[ledger.entry_of(r, rank, path.arrivals[i])] += analysis::excess_at(path, i);
  }
  if (!path.excess_transfers_ns.empty()) {
    std::vector<Nanoseconds>& transfers_ns = ledger.delays.slow_transfer_ns;
    transfers_ns.resize(excess_ns.size(), 0);
    for (std::size_t i = 0; i < path.arrivals.size(); ++i)
      transfers_ns[ledger.entry_of(r, rank, path.arrivals[i])] += path.excess_transfers_ns[i];
  }
  ledger.delays.role[r] = path.role;
}

/// Collective: sums of the local ranks' entries on every tool rank.
SettledDelays add_up(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes,
                     const SumsOfSteps& sums, Ledger& ledger) {
  for (const LocalRank* const rank : homes.local) {
    const std::size_t r = job.index_of(rank->trace_rank);
    add_excess(r, *rank, sums[r], ledger);
  }
  SettledDelays settled;
  settled.delays = std::move(ledger.delays);
  settled.delays.cost_ns = communicator.sum(settled.delays.cost_ns);
  settled.delays.excess_work_ns = communicator.sum(settled.delays.excess_work_ns);
  std::vector<Nanoseconds>& transfers_ns = settled.delays.slow_transfer_ns;
  if (communicator.maximum(std::ssize(transfers_ns)) > 0) {
    transfers_ns.resize(settled.delays.excess_work_ns.size(), 0);
    transfers_ns = communicator.sum(transfers_ns);
  }
  std::vector<std::int64_t> flat;
  for (std::size_t r = 0; r < ledger.ranks.size(); ++r) {
    const RankDelays& rank = ledger.ranks[r];
    flat.insert(flat.end(), {static_cast<std::int64_t>(settled.delays.role[r]), rank.direct_ns, rank.propagated_ns,
                             rank.unattributed_ns});
  }
  flat = communicator.sum(flat);
  for (std::size_t r = 0; r < ledger.ranks.size(); ++r) {
    const auto field = std::span(flat).subspan(4 * r, 4);
    settled.delays.role[r] = static_cast<std::uint64_t>(field[0]);
    settled.ranks.push_back({field[1], field[2], field[3]});
  }
  settled.waits = ledger.waits.gather(communicator);
  return settled;
}

}  // namespace

SettledDelays settle_delays(const exchange::Communicator& communicator, const ClockReport& clock, const JobRanks& job,
                            const Homes& homes, const CrossRank& cross, const OwnedRounds& rounds,
                            const analysis::Steps& steps, SumsOfSteps& sums) {
  const auto [start_ns, end_ns] = extent(communicator, clock, homes);
  Ledger ledger(job, clock, steps, start_ns, end_ns);
  Settler settler(communicator, job, homes, ledger, sums);
  settler.settle_opening(cross, rounds);
  settler.settle_onward();
  return add_up(communicator, job, homes, sums, ledger);
}

}  // namespace nsys_explain::pipeline
