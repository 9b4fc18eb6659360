#include "pipeline/attribute/collective_costs.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "analysis/links/links.hpp"
#include "analysis/replay/slack.hpp"
#include "analysis/waits/collectives_in_step.hpp"
#include "model/schema/job.hpp"
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
  std::vector<analysis::PositionInSteps> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      const std::vector<analysis::PositionInSteps> positions = analysis::positions_in_steps(rank.timeline);
      mine.insert(mine.end(), positions.begin(), positions.end());
    }
    mine = analysis::merge_positions(std::move(mine));
  }
  return analysis::collectives_in_step_table(
      analysis::merge_positions(communicator.gather(std::span<const analysis::PositionInSteps>(mine)).values));
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
  if (!replay.is_whole()) return make_table(schema::slack);
  std::sort(sizes.begin(), sizes.end(),
            [](const CollectiveSize& a, const CollectiveSize& b) { return a.instance < b.instance; });
  return analysis::slack_table(replay.graph(), sizes, names_of(cross));
}

Table first_collectives(const exchange::Communicator& communicator, const CrossRank& cross) {
  struct Part {
    Nanoseconds first_ns = -1;  ///< of the first instance, on the tool rank that holds it
    Nanoseconds longest_later_ns = 0;
    std::int64_t later = 0;
    std::int32_t communicator = -1, members = 0;
  };
  std::vector<Part> mine;
  for (const MatchedBlock& block : cross.blocks) {
    Part part;
    part.communicator = block.communicator;
    for (const Instance& instance : block.instances) {
      if (!instance.complete || !has_lateness(instance)) continue;
      part.members = instance.members;
      if (instance.sequence == 0) {
        part.first_ns = instance.transfer_ns;
      } else {
        part.longest_later_ns = std::max(part.longest_later_ns, instance.transfer_ns);
        ++part.later;
      }
    }
    mine.push_back(part);
  }
  std::map<std::int32_t, Part> all;
  for (const Part& part : communicator.gather(std::span<const Part>(mine)).values) {
    Part& sum = all[part.communicator];
    sum.first_ns = std::max(sum.first_ns, part.first_ns);
    sum.longest_later_ns = std::max(sum.longest_later_ns, part.longest_later_ns);
    sum.later += part.later;
    sum.members = std::max(sum.members, part.members);
  }
  Table table = make_table(schema::first_collectives);
  RowWriter row(table);
  const std::vector<std::string> names = names_of(cross);
  for (const auto& [number, part] : all)
    if (part.first_ns >= 0)
      row << std::string_view(names[static_cast<std::size_t>(number)]) << std::int64_t{part.members} << part.first_ns
          << part.longest_later_ns << part.later;
  return table;
}

Table exchange_balances(const exchange::Communicator& communicator, const CrossRank& cross,
                        const std::vector<LocalTrace>& local_traces, const std::vector<Table>& tables) {
  std::map<std::pair<std::int32_t, std::int32_t>, Nanoseconds> sums;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      for (std::size_t i = 0; i < rank.timeline.arrivals.size(); ++i) {
        const analysis::TimelineArrival& arrival = rank.timeline.arrivals[i];
        const analysis::Outcome& outcome = rank.timeline.outcomes[i];
        if (arrival.operation != Operation::send_recv || !outcome.matched || !outcome.split_told) continue;
        sums[{outcome.communicator, rank.trace_rank}] += arrival.exit - arrival.enter - outcome.wait_ns;
      }
    }
  }
  std::vector<MemberTransfer> mine;
  for (const auto& [key, transfer_ns] : sums) mine.push_back({transfer_ns, key.first, key.second});
  const std::vector<MemberTransfer> all = communicator.gather(std::span<const MemberTransfer>(mine)).values;
  return analysis::exchange_balances_table(analysis::exchange_balances(tables), all, names_of(cross));
}

namespace {

/// A stretch that lies on both sides of the latest enter belongs to them by the lengths of its parts.
void add_stretch(const LocalRank& rank, std::span<const WorkProfile> profiles, const analysis::ExposedStretch& stretch,
                 ExposedTime& sum) {
  const auto of = [&](CollectivePhase phase) -> Nanoseconds& {
    return sum.duration_ns[static_cast<std::size_t>(phase)][static_cast<std::size_t>(stretch.reason)];
  };
  const auto arrival = static_cast<std::size_t>(stretch.arrival);
  if (stretch.arrival < 0 || !rank.timeline.outcomes[arrival].matched) {
    of(CollectivePhase::unmatched) += stretch.exposed_ns;
    return;
  }
  if (!rank.timeline.outcomes[arrival].split_told) {
    of(CollectivePhase::inconclusive) += stretch.exposed_ns;
    return;
  }
  const TraceTime latest_enter = profiles[arrival].enter + rank.timeline.outcomes[arrival].wait_ns;
  const Nanoseconds length_ns = stretch.end_ns - stretch.start_ns,
                    before_ns = std::clamp<Nanoseconds>(latest_enter.ns - stretch.start_ns, 0, length_ns);
  const auto skew_ns = before_ns == length_ns
                           ? stretch.exposed_ns
                           : static_cast<Nanoseconds>(static_cast<double>(stretch.exposed_ns) *
                                                      static_cast<double>(before_ns) / static_cast<double>(length_ns));
  of(CollectivePhase::arrival_skew) += skew_ns;
  of(CollectivePhase::transfer) += stretch.exposed_ns - skew_ns;
}

}  // namespace

std::vector<ExposedTime> gather_exposed_time(const exchange::Communicator& communicator,
                                             std::vector<LocalTrace>& local_traces) {
  std::vector<ExposedTime> mine;
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      std::map<Operation, ExposedTime> sums;
      const std::vector<WorkProfile> profiles = rank.profiles.rows();
      for (const analysis::ExposedStretch& stretch : rank.exposed.rows())
        add_stretch(rank, profiles, stretch, sums[stretch.operation]);
      rank.exposed.release();
      for (auto& [operation, sum] : sums) {
        sum.trace_rank = rank.trace_rank;
        sum.operation = operation;
        mine.push_back(sum);
      }
    }
  }
  std::vector<ExposedTime> all = communicator.gather(std::span<const ExposedTime>(mine)).values;
  std::sort(all.begin(), all.end(), [](const ExposedTime& a, const ExposedTime& b) {
    return std::tie(a.trace_rank, a.operation) < std::tie(b.trace_rank, b.operation);
  });
  return all;
}

}  // namespace nsys_explain::pipeline
