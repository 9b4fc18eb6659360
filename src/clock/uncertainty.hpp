#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::clock {

/// No two clocks are known better than this: exits carry steps of 32 ns and an unknown share of systematic error.
inline constexpr double least_uncertainty_ns = 5;

/// Errors that the fitted clocks may have, drawn from their covariance. Errors that two sessions share, because both
/// hang on the same third one, cancel in their difference; single uncertainties could not tell.
struct ClockErrors {
  std::vector<Nanoseconds> at_ns;  ///< job times, ascending, at least two; errors are linear between them
  std::size_t draws = 0;           ///< 0: nothing was fitted
  std::vector<float> error_ns;     ///< [(session * at_ns.size() + time) * draws + draw]
  std::vector<float> tie_ns;       ///< per session: what its host's clock adds to them (host_ties.hpp); empty: nothing
  std::vector<std::int32_t> fitted_graph;  ///< per session; errors of equal numbers can be subtracted; -1: not fitted
};

/// One standard uncertainty, rounded up, of the difference of two times near `at_ns` of two different sessions of one
/// component. From the drawn errors where one graph of collectives relates them (known to 10-20 % by the number of
/// draws), else from their uncertainties as if independent.
Nanoseconds difference_uncertainty_ns(const std::vector<SessionClock>& clocks, const ClockErrors& errors,
                                      std::size_t session_a, std::size_t session_b, Nanoseconds at_ns);

}  // namespace nsys_explain::clock
