#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cross_rank.hpp"
#include "nsys_explain/exchange/communicator.hpp"
#include "tables.hpp"

namespace nsys_explain::pipeline {

/// Rows of arrivals that rank 0 holds at once while it writes: some tens of megabytes.
inline constexpr std::int64_t arrivals_per_round = 1 << 18;

/// Consecutive instances with all of their arrivals; empty on every tool rank but 0.
struct InstanceRound {
  std::vector<InstanceRow> instances;  ///< by communicator, then sequence
  std::vector<ArrivalRow> arrivals;    ///< by instance
};

/// Collective: shows all instances to rank 0, some of them at a time: `use` is called on every tool rank equally often.
void gather_instances(const exchange::Communicator& communicator, const CrossRank& cross,
                      std::span<const std::int64_t> first_instance,
                      const std::function<void(const InstanceRound&)>& use);

}  // namespace nsys_explain::pipeline
