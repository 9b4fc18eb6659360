#include "pipeline/attribute/collective_costs.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "analysis/links/messages.hpp"
#include "analysis/replay/slack.hpp"
#include "analysis/waits/collectives_in_step.hpp"
#include "model/schema/links.hpp"

namespace nsys_explain::pipeline {
namespace {

using analysis::CollectiveSize;
using analysis::MemberTransfer;

std::vector<std::string> names_of(const CrossRank& cross) {
  std::vector<std::string> names;
  for (const collectives::PlannedCommunicator& planned : cross.communicators) names.push_back(planned.name);
  return names;
}

/// Exchanges are between some members only.
bool is_whole(const Instance& instance) {
  return (instance.complete || instance.operation == Operation::send_recv) && has_lateness(instance);
}

}  // namespace

Table collectives_in_step(const exchange::Communicator& communicator, const std::vector<LocalTrace>& local_traces) {
  std::vector<analysis::PlaceInSteps> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      const std::vector<analysis::PlaceInSteps> places = analysis::places_in_steps(rank.path);
      mine.insert(mine.end(), places.begin(), places.end());
    }
    mine = analysis::merge_places(std::move(mine));
  }
  return analysis::collectives_in_step_table(
      analysis::merge_places(communicator.gather(std::span<const analysis::PlaceInSteps>(mine)).values));
}

Table collective_slack(const exchange::Communicator& communicator, const CrossRank& cross, const JobReplay& replay) {
  std::vector<CollectiveSize> sizes;
  if (replay.too_many_arrivals() == 0) {
    for (const MatchedBlock& block : cross.blocks) {
      for (const Instance& instance : block.instances) {
        if (!is_whole(instance)) continue;
        sizes.push_back(
            {std::int64_t{block.communicator} << 32U | instance.sequence, instance.message_bytes, instance.operation});
      }
    }
    sizes = communicator.gather(std::span<const CollectiveSize>(sizes)).values;
  }
  if (!replay.is_here()) return make_table(schema::slack);
  std::sort(sizes.begin(), sizes.end(),
            [](const CollectiveSize& a, const CollectiveSize& b) { return a.instance < b.instance; });
  return analysis::slack_table(replay.graph(), sizes, names_of(cross));
}

Table exchange_balances(const exchange::Communicator& communicator, const CrossRank& cross,
                        const std::vector<LocalTrace>& local_traces, const std::vector<Table>& tables) {
  std::map<std::pair<std::int32_t, std::int32_t>, Nanoseconds> sums;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      for (std::size_t i = 0; i < rank.path.arrivals.size(); ++i) {
        const analysis::PathArrival& arrival = rank.path.arrivals[i];
        const analysis::Outcome& outcome = rank.path.outcomes[i];
        if (arrival.operation != Operation::send_recv || !outcome.matched || !outcome.split_told) continue;
        sums[{outcome.communicator, rank.trace_rank}] += arrival.exit_ns - arrival.enter_ns - outcome.wait_ns;
      }
    }
  }
  std::vector<MemberTransfer> mine;
  for (const auto& [key, transfer_ns] : sums) mine.push_back({transfer_ns, key.first, key.second});
  const std::vector<MemberTransfer> all = communicator.gather(std::span<const MemberTransfer>(mine)).values;
  return analysis::exchange_balances_table(analysis::exchange_balances(tables), all, names_of(cross));
}

}  // namespace nsys_explain::pipeline
