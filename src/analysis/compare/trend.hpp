#pragma once

#include <span>
#include <vector>

#include "nsys_explain/model/comparison.hpp"

namespace nsys_explain::analysis {

/// How every figure that runs are compared by went from the oldest run to the newest; empty for fewer than three runs.
/// A trend is an order that chance hardly makes (Kendall 1938: concordant less discordant pairs, exact distribution
/// without ties, two-sided, at 1% over all figures together), of more than `tolerance` from one end to the other by the
/// median of the slopes of all pairs (Sen 1968).
std::vector<Trend> find_trends(const Comparison& comparison, double tolerance);

/// Two-sided p-value of a sequence under the hypothesis that all orders are equally likely; equal values count for
/// neither direction, which errs on the safe side. 1 for fewer than two values.
double kendall_p_value(std::span<const double> values);

}  // namespace nsys_explain::analysis
