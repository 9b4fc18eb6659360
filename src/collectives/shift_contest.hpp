#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/clock_map.hpp"
#include "collectives/shift_candidates.hpp"

namespace nsys_explain::collectives {

/// What is known of where a member lies on a reference.
enum class Verdict : std::uint8_t {
  nothing,    ///< no shift fits
  ambiguous,  ///< several shifts fit alike, however many operations are looked at
  decided
};

/// What two sequences have in common. Those of neighbouring communicators end in step and agree closely at shifts that
/// mean nothing.
enum class Kinship : std::uint8_t { one_communicator, unknown };

/// The result of a contest of shifts.
struct Shift {
  Verdict verdict = Verdict::nothing;
  ClockLine line;                  ///< holds over the sample; of several shifts that fit alike, the one nearest to UTC
  Nanoseconds best_offset_ns = 0;  ///< of the sharpest shift
  Sample sample;
  double sharpness = 0;  ///< mean log(reach / residual) of the sharpest shift
};

/// Shifts that no longer sample than this has told apart are taken as equal.
inline constexpr std::size_t largest_sample = 8192;

/// Lets offsets compete by how sharply a sample of the member around operation `centre` agrees with the reference, and
/// doubles the sample until one is left.
///
/// The winner must also fit better than wrong shifts of this loop are known to fit, or the right shift was not among
/// the candidates. reach_ns: see ClockEstimate.
Shift compete(const MemberSequence& member, const MemberSequence& reference, Kinship kinship, std::size_t centre,
              std::span<const Nanoseconds> offsets, Nanoseconds reach_ns);

}  // namespace nsys_explain::collectives
