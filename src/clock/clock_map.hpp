#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::clock {

/// What operations must share to be one: in the upper half of a symbol what every kernel shows, in the lower half what
/// only its call tells, 0 where no call was recorded.
inline bool may_be_one(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t told = 0xffffffffU;
  return a == b || (((a ^ b) & ~told) == 0 && ((a & told) == 0 || (b & told) == 0));
}

/// One member's operations on one communicator, in order.
struct MemberSequence {
  std::vector<std::uint64_t> symbols;  ///< see may_be_one
  std::vector<Nanoseconds> enter_ns;   ///< same length, ascending
  std::vector<Nanoseconds> exit_ns;
};

/// Offset of one clock to another as a line: reference time - member time = offset_ns + slope * (t - origin_ns).
struct ClockLine {
  Nanoseconds origin_ns = 0;  ///< member time
  double offset_ns = 0;       ///< at origin_ns
  double slope = 0;

  Nanoseconds offset_at(Nanoseconds member_ns) const;
};

/// How a member's clock maps onto the reference's: piecewise linear between knots, the last pieces continued.
/// Without knots the clocks are one.
class ClockMap {
 public:
  ClockMap() = default;
  /// Knots ascending in origin; the slope of the first and last one holds beyond them. `unknown`: per operation of the
  /// member, true where its clock could not be followed; empty: known everywhere.
  explicit ClockMap(std::vector<ClockLine> knots, std::vector<bool> unknown = {})
      : knots_(std::move(knots)), unknown_(std::move(unknown)) {}

  Nanoseconds to_reference(Nanoseconds member_ns) const;
  bool is_known(std::size_t operation) const { return unknown_.empty() || !unknown_[operation]; }

 private:
  std::vector<ClockLine> knots_;
  std::vector<bool> unknown_;
};

/// Finds, for operations asked in any order, the operation of a sequence that may be the same one (see may_be_one)
/// whose exit lies nearest
/// to a time.
class PartnerFinder {
 public:
  /// `sequence` must outlive the finder; its exits ascend.
  explicit PartnerFinder(const MemberSequence& sequence) : sequence_(sequence) {}

  /// Index, or -1 if none lies within reach_ns. Fast where successive questions lie close together.
  std::ptrdiff_t nearest(std::uint64_t symbol, Nanoseconds time_ns, Nanoseconds reach_ns);

 private:
  const MemberSequence& sequence_;
  std::size_t cursor_ = 0;  ///< first exit not before the time last asked for
};

/// Robust centre and, where asked for, slope of points (x, y) with outliers on either side: minimises sum
/// log(|residual| + floor_ns), so the sharpest cluster wins over a broad one. x is member time relative to origin.
ClockLine fit_line(std::span<const double> x, std::span<const double> y, Nanoseconds origin_ns, bool with_slope);

/// Exits of a synchronising operation do not agree better than this, so smaller residuals say nothing more.
inline constexpr double residual_floor_ns = 500;
/// Oscillators of two hosts differ by less than this.
inline constexpr double largest_slope = 3e-4;

}  // namespace nsys_explain::clock
