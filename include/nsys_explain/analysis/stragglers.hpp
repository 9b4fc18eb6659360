#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/analysis/totals.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// For each rank a bound on the probability that it causes as much waiting as it does if all ranks were alike, that is,
/// if in every time bin the ranks' shares were dealt out at random. `caused[r * bins + b]` is what rank r caused in bin
/// b.
///
/// Chernoff's bound for the sum T_r over independent bins: P(T >= T_r) <= min over L > 0 of
/// exp(-L T_r) * product over b of (mean over s of exp(L x_sb)), taken over a grid of L. Free of assumptions on the
/// distribution: a single long pause cannot be significant (1/ranks at best), a delay that recurs can.
std::vector<double> caused_wait_p_values(std::span<const std::int64_t> caused, std::size_t ranks, std::size_t bins);

/// Adds up neighbouring bins until what happens in one says nothing about the next (mean lag-1 autocorrelation
/// about each rank's own mean below 0.1), but not below 16 bins. Returns the number of bins left.
std::size_t pool_bins(std::vector<std::int64_t>& caused, std::size_t ranks, std::size_t bins);

struct StragglerCriteria {
  double false_discovery_rate = 1e-3;  ///< of the verdicts "causes more waiting than chance" (Benjamini-Hochberg)
  double smallest_cost_share = 0.002;  ///< caused wait as a share of all trace ranks' window time
};

/// Names the trace ranks whose own lateness delays the others: more than chance among all trace ranks allows, and at
/// a cost that matters. Ordered by caused wait. `ranks` and `totals` are parallel.
std::vector<Straggler> find_stragglers(std::span<const RankSummary> ranks, const Totals& totals,
                                       const StragglerCriteria& criteria = {});

}  // namespace nsys_explain::analysis
