#pragma once

#include <optional>
#include <span>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::analysis {

/// What a replay saves of the elapsed time; shares lie between 0 and 1.
struct Saving {
  double share = 0;
  std::optional<double> low, high;  ///< 95% interval of the mean over steps; empty: it happened once
  Nanoseconds once_ns = 0;          ///< what it saves, where one step holds nearly all of it; 0: it does not
};

/// `before_ns`, `after_ns`: the durations of the steps, equally many; `saved_ns` of `elapsed_ns` in all.
///
///     100 steps save 2 ms each of 20:  10%, an interval as wide as the steps differ
///     one of them saves 4 s, the others nothing:  no mean over steps tells how often that comes, so no interval
Saving measure_saving(std::span<const double> before_ns, std::span<const double> after_ns, Nanoseconds saved_ns,
                      Nanoseconds elapsed_ns);

}  // namespace nsys_explain::analysis
