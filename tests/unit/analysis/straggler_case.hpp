#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "analysis/verdict/stragglers.hpp"

/// Delays of a job made up for tests of who is named, proven or suspected.
namespace nsys_explain::analysis {

inline constexpr std::size_t case_bins = 64;

struct Case {
  std::vector<RankSummary> ranks;
  Totals totals;
  JobDelays delays;

  explicit Case(std::size_t count) : totals(make_totals(count)) {
    ranks.resize(count);
    delays.bins = case_bins;
    delays.by_step = true;
    delays.role.assign(count, 7);
    delays.speed.resize(count);
    delays.cost_ns.assign(count * case_bins, 0);
    delays.excess_work_ns.assign(count * case_bins, 0);
    delays.slow_transfer_ns.assign(count * case_bins, 0);
    delays.clock_group.assign(count, 0);
    for (std::size_t r = 0; r < count; ++r) {
      ranks[r].trace_rank = static_cast<std::int32_t>(r);
      ranks[r].budget.window_ns = 1'000'000'000;
    }
  }

  void delay(std::size_t rank, std::size_t bin, Nanoseconds cost) {
    delays.cost_ns[rank * case_bins + bin] += cost;
    delays.excess_work_ns[rank * case_bins + bin] += cost / 7;
    ranks[rank].delay_cost_ns += cost;
    RankTotals& t = totals.ranks[rank];
    ++t.resolved;
    ++t.last_arrivals;
    ++t.own_last_arrivals;
    t.caused_wait_ns += cost;
  }

  /// So many tenths of what it takes longer are slow transfers.
  void by_transfers(std::size_t rank, Nanoseconds tenths) {
    for (std::size_t i = rank * case_bins; i < (rank + 1) * case_bins; ++i)
      delays.slow_transfer_ns[i] = delays.excess_work_ns[i] * tenths / 10;
  }

  std::vector<Straggler> stragglers(std::span<const Grouping> groupings = {}) const {
    return find_stragglers(ranks, totals, delays, groupings).stragglers;
  }
};

/// In bin b the rank culprit(b) of 8 costs the others `cost`.
inline Case made(const std::function<std::size_t(std::size_t)>& culprit, Nanoseconds cost) {
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) c.delay(culprit(b), b, cost);
  return c;
}

/// Somebody else each time, in no order.
inline std::size_t anybody(std::size_t bin) {
  return (bin * 2654435761U >> 7) % 8;
}

}  // namespace nsys_explain::analysis
