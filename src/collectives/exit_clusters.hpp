#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "nsys_explain/model/time.hpp"

/// Communicators that other ones hold in step leave their operations at about one time. What gives them away: all
/// members of one leave an operation together, so how much earlier or later than the others varies by communicator, not
/// by member.
namespace nsys_explain::collectives {

/// When members left operations: exits[operation * members + member], in ns against any time of the operation; NaN
/// where a member did not. When they entered likewise, or empty: not known.
struct ExitTable {
  std::size_t members = 0;
  std::vector<double> exits;
  std::vector<double> enters = {};
};

/// The members, ascending, that leave as one with member `own`: as long as they fall into two parts whose distance
/// varies more than the exits within each do, the part without it is left out. The parts are those of the first
/// principal component of the exits. Where the exits of two parts lie far closer together than the entries of the last
/// of each, those have waited for each other, and are none.
std::vector<std::size_t> leave_as_one(const ExitTable& table, std::size_t own);

/// Takes out what each member's clock lacks of a line through its exits; `times` of the operations.
void remove_trends(ExitTable& table, std::span<const Nanoseconds> times);

/// True where the distance of some members to the others varies far more than the exits of either do, or more, and is
/// not about 0. A few operations that members left late together do not make two communicators of one.
bool vary_apart(const ExitTable& table, std::span<const std::size_t> part);

}  // namespace nsys_explain::collectives
