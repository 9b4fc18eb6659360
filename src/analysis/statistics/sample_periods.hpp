#pragma once

#include <span>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::analysis {

/// What each sample of counters covers: the time since the one before it, or one period (the median distance) where
/// more than three passed, for samples were lost. Nothing of the first, whose beginning nobody knows. `time_ns`
/// ascends.
std::vector<Interval> sample_periods(std::span<const Nanoseconds> time_ns);

}  // namespace nsys_explain::analysis
