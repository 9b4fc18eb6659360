#pragma once

#include <cstdint>
#include <vector>

#include "clock/estimator.hpp"
#include "clock/samples.hpp"

/// How far the clocks can be trusted, from what did not go into them.
namespace nsys_explain::clock {

/// Collective: fits the clocks to one half of the instances, looks at the other half, and the other way round.
/// Leaves the estimator as it was.
ClockResidual held_out_residual(Estimator& estimator, SampleSet& set, const Reduction& reduction);

/// The clocks of samples: offsets to level-zero time, in path order.
using SampleClocks = std::vector<SessionClock>;

/// Collective: nobody leaves a synchronising operation before everybody entered, which bounds every offset from both
/// sides. Moves the offsets that miss their bounds by more than their uncertainty and the noise of exits explain to
/// the nearest bound; returns how many it moved. Instances whose exits disagree with the fit are wrong matches and
/// bound nothing.
std::int64_t move_into_bounds(const SampleSet& set, SampleClocks& clocks, Nanoseconds pivot_ns,
                              const Reduction& reduction);

}  // namespace nsys_explain::clock
