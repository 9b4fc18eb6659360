#pragma once

#include <cstddef>
#include <vector>

#include "clock/clock_map.hpp"

namespace nsys_explain::clock {

/// Operations [first, end) of a member.
struct SequenceSample {
  std::size_t first = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - first; }
};

/// `wanted` of the `available` operations, around `centre` as far as the ends allow.
SequenceSample sample_around(std::size_t centre, std::size_t wanted, std::size_t available);

/// Clocks set by NTP lie well within this of each other.
inline constexpr Nanoseconds utc_window_ns = 100'000'000;
/// Operations that candidates are taken from, and with which their contest begins.
inline constexpr std::size_t first_sample = 64;
/// Fewer than this are never brought together by time alone.
inline constexpr std::size_t fewest_operations = 3;

/// first_sample operations, or as many as there are, near `centre` that lie close together in time: over a pause
/// between them clocks move apart by an unknown amount.
SequenceSample compact_sample(const MemberSequence& member, std::size_t centre);

/// Offsets (reference - member) within utc_window_ns of `prior_ns` by which many operations of the sample come to lie
/// on one of equal symbol. Best first, at most about a hundred.
std::vector<Nanoseconds> offsets_near(const MemberSequence& member, const MemberSequence& reference,
                                      SequenceSample sample, Nanoseconds prior_ns, Nanoseconds reach_ns);

/// Offsets of any size by which many intervals between two successive operations of the sample come to lie on equal
/// ones between equal symbols. Best first.
std::vector<Nanoseconds> offsets_anywhere(const MemberSequence& member, const MemberSequence& reference,
                                          SequenceSample sample, Nanoseconds reach_ns);

}  // namespace nsys_explain::clock
