#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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
    delays.caused_wait_ns.assign(count * case_bins, 0);
    delays.excess_work_ns.assign(count * case_bins, 0);
    delays.slow_transfer_ns.assign(count * case_bins, 0);
    delays.clock_group.assign(count, 0);
    for (std::size_t r = 0; r < count; ++r) {
      ranks[r].trace_rank = static_cast<std::int32_t>(r);
      ranks[r].budget.window_ns = 1'000'000'000;
    }
  }

  void delay(std::size_t rank, std::size_t bin, Nanoseconds cost) {
    delays.caused_wait_ns[rank * case_bins + bin] += cost;
    delays.excess_work_ns[rank * case_bins + bin] += cost / 7;
    ranks[rank].caused_wait_ns += cost;
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

  /// All meet at the end of each bin, and the latest of them tells when: what these being as usual saves.
  std::optional<double> saved(std::span<const std::size_t> mended) const {
    std::vector<std::size_t> all, others;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      all.push_back(r);
      if (std::find(mended.begin(), mended.end(), r) == mended.end()) others.push_back(r);
    }
    const std::vector<Nanoseconds> latest = delays.greatest_excess(all), left = delays.greatest_excess(others);
    Nanoseconds saved_ns = 0;
    for (std::size_t b = 0; b < delays.bins; ++b) saved_ns += latest[b] - left[b];
    return static_cast<double>(saved_ns) / static_cast<double>(ranks.front().budget.window_ns);
  }
  /// A fifth of the least cost that a run asks for: what is tested is mostly chance.
  StragglerCriteria criteria = {.smallest_cost_share = 0.002};

  Named named(std::span<const Grouping> groupings = {}) const {
    return find_stragglers(
        ranks, totals, delays, groupings, [&](auto mended) { return saved(mended); }, criteria);
  }
  /// Where no replay tells what anything saves.
  Named named_without_replay(std::span<const Grouping> groupings = {}) const {
    return find_stragglers(
        ranks, totals, delays, groupings, [](auto) -> std::optional<double> { return std::nullopt; }, criteria);
  }
  std::vector<Straggler> stragglers(std::span<const Grouping> groupings = {}) const {
    return named(groupings).stragglers;
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
