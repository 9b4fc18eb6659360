#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {

/// What the rough clock of each trace rank lacks, by all that it did, whatever the lanes: exits of operations that all
/// members leave at once lie on one line, those of others scatter around it.
std::map<std::int32_t, FineClock> fine_clocks_of_ranks(std::span<const SampledOperation> samples,
                                                       const RoughClocks& clocks);

}  // namespace nsys_explain::collectives
