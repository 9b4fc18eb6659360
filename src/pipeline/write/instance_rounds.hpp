#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exchange/communicator.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/tool_rank/slabs.hpp"
#include "pipeline/write/tables.hpp"

namespace nsys_explain::pipeline {

/// Rows of arrivals that rank 0 holds at once while it writes: some tens of megabytes.
inline constexpr std::int64_t arrivals_per_round = 1 << 18;

/// Consecutive instances with all of their arrivals; empty on every tool rank but 0.
struct InstanceRound {
  std::vector<InstanceRow> instances;     ///< by communicator, then sequence
  std::vector<InstanceArrival> arrivals;  ///< by instance
};

/// Collective: shows all instances to rank 0, some of them at a time: `use` is called on every tool rank equally often.
void gather_instances(const exchange::Communicator& communicator, const CrossRank& cross,
                      const std::function<void(const InstanceRound&)>& use);

/// What a tool rank owns of the tables of instances and of arrivals: the rows of its units.
class InstanceRows {
 public:
  /// Collective.
  InstanceRows(const exchange::Communicator& communicator, const CrossRank& cross,
               std::vector<std::int64_t> first_instance);

  std::int64_t instances_in_all() const { return instances_.in_all; }
  std::int64_t arrivals_in_all() const { return arrivals_.in_all; }

  /// The owned rows before row `end` that have not been taken yet.
  std::vector<RowRun> take_instances(std::int64_t end);
  std::vector<RowRun> take_arrivals(std::int64_t end);

 private:
  /// Which of the owned rows of a table comes next.
  struct Cursor {
    std::vector<std::int64_t> first_row;  ///< of the whole table, by owned block
    std::int64_t in_all = 0;
    std::size_t block = 0, instance = 0;
    std::int32_t arrival = 0;
  };
  std::int64_t number_of(const MatchedBlock& block, const Instance& instance) const;

  const CrossRank& cross_;
  std::vector<std::int64_t> first_instance_;
  Cursor instances_, arrivals_;
};

}  // namespace nsys_explain::pipeline
