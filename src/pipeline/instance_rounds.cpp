#include "instance_rounds.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

namespace nsys_explain::pipeline {
namespace {

/// Units [first, end) whose arrivals travel to rank 0 together.
struct Round {
  std::size_t first = 0, end = 0;
};

std::vector<Round> plan_rounds(const CrossRank& cross) {
  std::vector<Round> rounds;
  std::int64_t rows = 0;
  for (std::size_t u = 0; u < cross.units.size(); ++u) {
    const collectives::MatchUnit& unit = cross.units[u];
    const auto members = cross.communicators[static_cast<std::size_t>(unit.communicator)].trace_ranks.size();
    if (rounds.empty() || rows > arrivals_per_round) {
      rounds.push_back({u, u});
      rows = 0;
    }
    rounds.back().end = u + 1;
    rows += (unit.end_position - unit.first_position) * static_cast<std::int64_t>(members);
  }
  return rounds;
}

}  // namespace

void gather_instances(const exchange::Communicator& communicator, const CrossRank& cross,
                      std::span<const std::int64_t> first_instance,
                      const std::function<void(const InstanceRound&)>& use) {
  std::size_t next_owned = 0;
  for (const Round& round : plan_rounds(cross)) {
    InstanceRound mine;
    for (; next_owned < cross.owned.size() && cross.owned[next_owned] < round.end; ++next_owned) {
      const MatchedBlock& block = cross.blocks[next_owned];
      for (const Instance& instance : block.instances) {
        mine.instances.push_back({block.communicator, 0, instance});
        const std::int64_t number = first_instance[static_cast<std::size_t>(block.communicator)] + instance.sequence;
        for (std::int64_t a = 0; a < instance.arrivals; ++a) {
          mine.arrivals.push_back({number, block.arrivals[static_cast<std::size_t>(instance.first_arrival + a)]});
        }
      }
    }
    // Owners hold consecutive units in rank order, so what arrives is in order already.
    use({communicator.gather(std::span<const InstanceRow>(mine.instances)).values,
         communicator.gather(std::span<const ArrivalRow>(mine.arrivals)).values});
  }
}

InstanceRows::InstanceRows(const exchange::Communicator& communicator, const CrossRank& cross,
                           std::vector<std::int64_t> first_instance)
    : cross_(cross), first_instance_(std::move(first_instance)) {
  for (const MatchedBlock& block : cross.blocks) {
    instances_.end += std::ssize(block.instances);
    arrivals_.end += std::ssize(block.arrivals);
  }
  place(communicator, instances_);
  place(communicator, arrivals_);
}

void InstanceRows::place(const exchange::Communicator& communicator, Cursor& cursor) {
  const std::array<std::int64_t, 1> mine{cursor.end};
  const auto counts = communicator.all_gather(std::span<const std::int64_t>(mine)).values;
  const auto own = counts.begin() + communicator.rank();
  cursor.in_all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  cursor.row = std::accumulate(counts.begin(), own, std::int64_t{0});
  cursor.end += cursor.row;
}

const MatchedBlock& InstanceRows::next_block(Cursor& cursor) const {
  for (; cursor.instance == cross_.blocks[cursor.block].instances.size(); ++cursor.block) cursor.instance = 0;
  return cross_.blocks[cursor.block];
}

std::int64_t InstanceRows::number_of(const MatchedBlock& block, const Instance& instance) const {
  return first_instance_[static_cast<std::size_t>(block.communicator)] + instance.sequence;
}

std::vector<RowRun> InstanceRows::take_instances(std::int64_t first, std::int64_t end) {
  Cursor& at = instances_;
  if (first >= at.end || end <= at.row) return {};
  const std::int64_t from = at.row;
  std::vector<InstanceRow> rows;
  for (; at.row < std::min(end, at.end); ++at.row, ++at.instance) {
    const MatchedBlock& block = next_block(at);
    rows.push_back({block.communicator, 0, block.instances[at.instance]});
  }
  return {{from, instances_chunk(rows, cross_.communicators, first_instance_)}};
}

std::vector<RowRun> InstanceRows::take_arrivals(std::int64_t first, std::int64_t end) {
  Cursor& at = arrivals_;
  if (first >= at.end || end <= at.row) return {};
  const std::int64_t from = at.row;
  std::vector<ArrivalRow> rows;
  while (at.row < std::min(end, at.end)) {
    const MatchedBlock& block = next_block(at);
    const Instance& instance = block.instances[at.instance];
    for (; at.arrival < instance.arrivals && at.row < end; ++at.arrival, ++at.row) {
      rows.push_back(
          {number_of(block, instance), block.arrivals[static_cast<std::size_t>(instance.first_arrival + at.arrival)]});
    }
    if (at.arrival < instance.arrivals) break;
    at.arrival = 0;
    ++at.instance;
  }
  return {{from, arrivals_chunk(rows)}};
}

}  // namespace nsys_explain::pipeline
