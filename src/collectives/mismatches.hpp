#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/matching.hpp"
#include "nsys_explain/model/collective.hpp"

/// Where members of one communicator did not do the same, in the manner of flight-recorder analysis: who lacks how many
/// operations, and the first operation at which they part.
namespace nsys_explain::collectives {

/// What one member lacks of the operations that others have. A plain run of int64 so that it can be summed up.
struct MemberGaps {
  std::int64_t missing =
      0;  ///< between its own first and last operation: lost by the trace, never done, or not matched
  std::int64_t outside_window = 0;  ///< before its first or after its last operation: not captured
  std::int64_t alone = 0;           ///< operations of its own that nobody else has
};

/// How a member departs from the others. `extra`: it has an operation that most others lack; `unmatched`: it did the
/// like, but nothing shows that it was the same.
enum class Difference : std::uint8_t { missing, extra, operation, bytes, root, unmatched };

std::string_view difference_name(Difference difference);

/// One operation at which members part. Trivially copyable.
struct Mismatch {
  Nanoseconds at_ns = 0;                     ///< latest enter of those that have the operation
  std::int64_t call_bytes = -1;              ///< what most members do: NCCL's per-call size; -1: unknown or nothing
  std::int64_t own_call_bytes = -1;          ///< what the differing one does; likewise
  std::int32_t communicator = 0;             ///< index into the run's list of communicators
  std::int32_t trace_rank = -1;              ///< the first that differs
  std::int32_t position = 0;                 ///< how many operations of the communicator that one had entered before
  std::int32_t peer_trace_rank = -1;         ///< the first of those it differs from
  std::int32_t peer_position = 0;            ///< how many that one had entered before
  std::int32_t differing = 0;                ///< members that differ
  Operation operation = Operation::unknown;  ///< what most members do; unknown where they do nothing
  Operation own_operation = Operation::unknown;  ///< what the differing one does; unknown where it does nothing
  Difference difference = Difference::missing;
  std::array<std::uint8_t, 5> reserved = {};  ///< no padding bytes travel uninitialised
};

struct MemberComparison {
  std::vector<MemberGaps> members;  ///< parallel to PlannedCommunicator::trace_ranks
  std::int64_t operations = 0;      ///< distinct operations of the unit, also those of one member alone
  std::optional<Mismatch> first;    ///< earliest; none where members differ only in when their captures began and ended
};

/// Compares the members of a unit: `arrivals` and the block that match_unit made of them, on one clock. A send or
/// receive is missing where its recorded peer lacks it; where none was recorded, nobody is said to.
MemberComparison compare_members(const PlannedCommunicator& communicator, std::span<const JobArrival> arrivals,
                                 const MatchedBlock& block);

}  // namespace nsys_explain::collectives
