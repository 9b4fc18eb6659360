#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "clock/fit.hpp"
#include "simulated_clocks.hpp"

/// Fits of simulated clocks held against their truth.
namespace nsys_explain::clock::testing {

/// Errors of a fit against the truth, per session, relative to the session's reference in `reference_of`.
struct Errors {
  std::vector<double> offset_ns, drift, uncertainty_ns;

  double worst_offset_pair() const { return range(offset_ns); }
  double worst_drift_pair() const { return range(drift); }

 private:
  static double range(const std::vector<double>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return *high - *low;
  }
};

inline Errors errors_of(const SimulatedClocks& job, const ClockFit& fit, const std::vector<int>& sessions) {
  Errors errors;
  const int reference = sessions.front();
  for (const int s : sessions) {
    const SessionClock& clock = fit.report.sessions[s];
    errors.offset_ns.push_back(static_cast<double>(clock.offset_ns) -
                               job.true_offset(s, reference, static_cast<double>(fit.report.pivot_ns)));
    errors.drift.push_back(clock.drift_ppb * 1e-9 - job.true_drift(s, reference));
    errors.uncertainty_ns.push_back(static_cast<double>(clock.uncertainty_ns.value_or(-1)));
  }
  return errors;
}

inline ClockFit fit_serially(const SimulatedClocks& job, const ClockOptions& options = {}) {
  return fit_clocks(job.sessions, job.observations, Reduction::serial(), options);
}

/// Coverage and width of the stated uncertainties over many fits.
struct Coverage {
  int covered = 0, all = 0;
  double stated = 0, squares = 0;

  void add(const Errors& errors) {
    for (std::size_t s = 1; s < errors.offset_ns.size(); ++s) {  // the reference has neither error nor uncertainty
      covered += std::abs(errors.offset_ns[s]) <= 3 * errors.uncertainty_ns[s] ? 1 : 0;
      stated += errors.uncertainty_ns[s] * errors.uncertainty_ns[s];
      squares += errors.offset_ns[s] * errors.offset_ns[s];
      ++all;
    }
  }
  double share() const { return static_cast<double>(covered) / all; }
  double width() const { return std::sqrt(stated / squares); }
};

}  // namespace nsys_explain::clock::testing
