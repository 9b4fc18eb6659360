#pragma once

#include <optional>

#include "clock/clock_map.hpp"
#include "clock/coarse_clocks.hpp"

namespace nsys_explain::clock {

/// How the operations of a member lie against those of a reference.
struct SequenceRelation {
  ClockLine line;  ///< reference time - member time
  /// Geometric mean distance of exits from the line, of the kind of operation that agrees best: what a few members that
  /// leave late do not move.
  double residual_ns = 0;
};

/// Of equal sequences the k-th operations are one, unless a search finds an offset at which they agree far better; of
/// members of one communicator only where their ends agree. Other sequences are searched. Nothing where no offset fits.
std::optional<SequenceRelation> relate_sequences(const RecordedSequence& member, const RecordedSequence& reference,
                                                 Nanoseconds centre_ns);

}  // namespace nsys_explain::clock
