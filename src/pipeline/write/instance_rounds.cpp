#include "pipeline/write/instance_rounds.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>
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

/// Rows of a table, as runs of consecutive ones.
template <class Row>
class RunsOfRows {
 public:
  using ChunkOf = std::function<Table(std::span<const Row>)>;
  explicit RunsOfRows(ChunkOf chunk_of) : chunk_of_(std::move(chunk_of)) {}

  /// `number`: of the whole table; they ascend.
  void add(std::int64_t number, const Row& row) {
    if (number != next_) end_run();
    rows_.push_back(row);
    next_ = number + 1;
  }
  std::vector<RowRun> finish() {
    end_run();
    return std::move(runs_);
  }

 private:
  void end_run() {
    if (!rows_.empty()) runs_.push_back({next_ - std::ssize(rows_), chunk_of_(rows_)});
    rows_.clear();
  }

  ChunkOf chunk_of_;
  std::vector<Row> rows_;
  std::int64_t next_ = 0;
  std::vector<RowRun> runs_;
};

/// By communicator, then sequence: each tool rank's part is in this order.
InstanceRound in_order(InstanceRound round) {
  const auto before = [](const InstanceRow& a, const InstanceRow& b) {
    return std::pair(a.communicator, a.instance.sequence) < std::pair(b.communicator, b.instance.sequence);
  };
  if (std::is_sorted(round.instances.begin(), round.instances.end(), before)) return round;
  struct Place {
    const InstanceRow* row;
    std::size_t first_arrival;
  };
  std::vector<Place> places;
  std::size_t arrivals = 0;
  for (const InstanceRow& row : round.instances) {
    places.push_back({&row, arrivals});
    arrivals += static_cast<std::size_t>(row.instance.arrivals);
  }
  std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) { return before(*a.row, *b.row); });
  InstanceRound ordered;
  for (const Place& place : places) {
    ordered.instances.push_back(*place.row);
    const auto first = round.arrivals.begin() + static_cast<std::ptrdiff_t>(place.first_arrival);
    ordered.arrivals.insert(ordered.arrivals.end(), first, first + place.row->instance.arrivals);
  }
  return ordered;
}

/// Collective: at which row of the table each owned block begins, and how many rows there are in all.
std::pair<std::vector<std::int64_t>, std::int64_t> place_blocks(const exchange::Communicator& communicator,
                                                                const CrossRank& cross,
                                                                std::span<const std::int64_t> rows_of_block) {
  std::vector<std::int64_t> rows(cross.units.size(), 0);
  for (std::size_t b = 0; b < rows_of_block.size(); ++b) rows[cross.owned[b]] = rows_of_block[b];
  rows = communicator.sum(rows);
  const std::int64_t in_all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  std::exclusive_scan(rows.begin(), rows.end(), rows.begin(), std::int64_t{0});
  std::vector<std::int64_t> first;
  for (const std::size_t unit : cross.owned) first.push_back(rows[unit]);
  return {std::move(first), in_all};
}

}  // namespace

void gather_instances(const exchange::Communicator& communicator, const CrossRank& cross,
                      const std::function<void(const InstanceRound&)>& use) {
  std::size_t next_owned = 0;
  for (const Round& round : plan_rounds(cross)) {
    InstanceRound mine;
    for (; next_owned < cross.owned.size() && cross.owned[next_owned] < round.end; ++next_owned) {
      const MatchedBlock& block = cross.blocks[next_owned];
      for (const Instance& instance : block.instances) {
        mine.instances.push_back({block.communicator, 0, instance});
        const std::span<const InstanceArrival> members = members_of(block, instance);
        mine.arrivals.insert(mine.arrivals.end(), members.begin(), members.end());
      }
    }
    use(in_order({communicator.gather(std::span<const InstanceRow>(mine.instances)).values,
                  communicator.gather(std::span<const InstanceArrival>(mine.arrivals)).values}));
  }
}

InstanceRows::InstanceRows(const exchange::Communicator& communicator, const CrossRank& cross,
                           std::vector<std::int64_t> first_instance)
    : cross_(cross), first_instance_(std::move(first_instance)) {
  std::vector<std::int64_t> instances, arrivals;
  for (const MatchedBlock& block : cross.blocks) {
    instances.push_back(std::ssize(block.instances));
    arrivals.push_back(std::ssize(block.arrivals));
  }
  std::tie(instances_.first_row, instances_.in_all) = place_blocks(communicator, cross, instances);
  std::tie(arrivals_.first_row, arrivals_.in_all) = place_blocks(communicator, cross, arrivals);
}

std::int64_t InstanceRows::number_of(const MatchedBlock& block, const Instance& instance) const {
  return first_instance_[static_cast<std::size_t>(block.communicator)] + instance.sequence;
}

std::vector<RowRun> InstanceRows::take_instances(std::int64_t end) {
  RunsOfRows<InstanceRow> runs(
      [&](std::span<const InstanceRow> rows) { return instances_chunk(rows, cross_.communicators, first_instance_); });
  for (Cursor& at = instances_; at.block < cross_.blocks.size(); ++at.block, at.instance = 0) {
    const MatchedBlock& block = cross_.blocks[at.block];
    for (; at.instance < block.instances.size(); ++at.instance) {
      const std::int64_t row = at.first_row[at.block] + static_cast<std::int64_t>(at.instance);
      if (row >= end) return runs.finish();
      runs.add(row, {block.communicator, 0, block.instances[at.instance]});
    }
  }
  return runs.finish();
}

std::vector<RowRun> InstanceRows::take_arrivals(std::int64_t end) {
  RunsOfRows<ArrivalRow> runs(arrivals_chunk);
  for (Cursor& at = arrivals_; at.block < cross_.blocks.size(); ++at.block, at.instance = 0) {
    const MatchedBlock& block = cross_.blocks[at.block];
    for (; at.instance < block.instances.size(); ++at.instance, at.arrival = 0) {
      const Instance& instance = block.instances[at.instance];
      for (; at.arrival < instance.arrivals; ++at.arrival) {
        const std::int64_t arrival = instance.first_arrival + at.arrival;
        if (at.first_row[at.block] + arrival >= end) return runs.finish();
        runs.add(at.first_row[at.block] + arrival,
                 {number_of(block, instance), &instance, &block.arrivals[static_cast<std::size_t>(arrival)]});
      }
    }
  }
  return runs.finish();
}

}  // namespace nsys_explain::pipeline
