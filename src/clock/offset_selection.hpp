#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "clock/clock_map.hpp"
#include "clock/offset_candidates.hpp"

namespace nsys_explain::clock {

/// What is known of where a member lies on a reference.
enum class Verdict : std::uint8_t {
  nothing,    ///< no offset fits
  ambiguous,  ///< several offsets fit alike, however many operations are looked at
  decided
};

/// The result of a contest of offsets.
struct FittedOffset {
  Verdict verdict = Verdict::nothing;
  ClockLine line;                  ///< holds over the sample; of several offsets that fit alike, the one nearest to UTC
  Nanoseconds best_offset_ns = 0;  ///< of the sharpest offset
  SequenceSample sample;
  double sharpness = 0;  ///< mean log(reach / residual) of the sharpest offset
};

/// Offsets that no longer sample than this has told apart are taken as equal.
inline constexpr std::size_t largest_sample = 8192;

/// Lets offsets compete by how sharply a sample of the member around operation `centre` agrees with the reference, and
/// doubles the sample until one is left.
///
/// The winner must also fit better than wrong offsets of this loop are known to fit, or the right offset was not among
/// the candidates. reach_ns: see ClockEstimate.
FittedOffset compete(const MemberSequence& member, const MemberSequence& reference, std::size_t centre,
                     std::span<const Nanoseconds> offsets, Nanoseconds reach_ns);

}  // namespace nsys_explain::clock
