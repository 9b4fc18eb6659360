#include "clock/uncertainty.hpp"

#include <algorithm>
#include <cmath>

namespace nsys_explain::clock {

Nanoseconds difference_uncertainty_ns(const std::vector<SessionClock>& clocks, const ClockErrors& errors,
                                      std::size_t session_a, std::size_t session_b, Nanoseconds at_ns) {
  double result = std::hypot(static_cast<double>(clocks[session_a].uncertainty_ns.value_or(0)),
                             static_cast<double>(clocks[session_b].uncertainty_ns.value_or(0)));
  if (errors.draws > 0 && errors.fitted_graph[session_a] >= 0 &&
      errors.fitted_graph[session_a] == errors.fitted_graph[session_b]) {
    const std::vector<Nanoseconds>& times = errors.at_ns;
    const auto after = std::upper_bound(times.begin() + 1, times.end() - 1, at_ns);
    const auto right = static_cast<std::size_t>(after - times.begin());
    const double share =
        static_cast<double>(at_ns - times[right - 1]) / static_cast<double>(times[right] - times[right - 1]);
    const float* const a = &errors.error_ns[(session_a * times.size() + right - 1) * errors.draws];
    const float* const b = &errors.error_ns[(session_b * times.size() + right - 1) * errors.draws];
    double squares = 0;
    for (std::size_t d = 0; d < errors.draws; ++d) {
      const double before = static_cast<double>(a[d]) - static_cast<double>(b[d]);
      const double behind = static_cast<double>(a[errors.draws + d]) - static_cast<double>(b[errors.draws + d]);
      squares += std::pow(before + share * (behind - before), 2);
    }
    result = std::sqrt(squares / static_cast<double>(errors.draws));
    if (!errors.tie_ns.empty()) result = std::hypot(result, errors.tie_ns[session_a], errors.tie_ns[session_b]);
  }
  return static_cast<Nanoseconds>(std::ceil(std::max(result, least_uncertainty_ns)));
}

}  // namespace nsys_explain::clock
