#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/exit_agreement.hpp"
#include "collectives/exit_clusters.hpp"
#include "collectives/inference.hpp"

/// The sampled operations of lanes, as the search for lanes of one communicator looks at them (see group_lanes).
namespace nsys_explain::collectives {

inline constexpr std::size_t no_group = std::numeric_limits<std::size_t>::max();

/// A stage within a pipeline shares half of its exchanges with a neighbour; two that share more do the same.
inline constexpr double mostly_shared = 0.75;

/// The sampled operations of one lane, on the common clock.
struct Lane {
  std::int32_t trace_rank = -1;
  std::uint64_t lane = 0;
  std::string name;  ///< what the program calls its communicator; empty: not known
  std::int32_t component = 0;
  bool point_to_point = false;                                 ///< most of its operations are sends and receives
  std::map<std::uint64_t, std::vector<TimedOperation>> exits;  ///< of synchronising operations, by symbol
  std::map<std::uint64_t, Operation> operation_of;             ///< by symbol
  bool is_named_elsewhere = false;                             ///< some of its operations are of communicators that
                                                               ///< other calls on the trace rank name
  bool is_untold = false;                                      ///< with whom it communicates cannot be told
  std::size_t group = no_group;
  Nanoseconds best_spread_ns = std::numeric_limits<Nanoseconds>::max();  ///< of the exits it shares with another lane
  Nanoseconds sharpest_ns = std::numeric_limits<Nanoseconds>::max();     ///< of all-reduces, with any lane
  Nanoseconds loosest_ns = 0;  ///< of the operations it shares with lanes of its group, those that agree worst
};

/// Lanes with keys in [first, end). `is_fine`: on a clock good to a fraction of a microsecond, if all that its trace
/// rank did shows that.
std::vector<Lane> make_lanes(std::span<const SampledOperation> samples, const RoughClocks& clocks, std::uint64_t first,
                             std::uint64_t end, bool is_fine);

/// Operations that all members leave within a moment.
bool ends_sharply(Operation operation);

/// Exits do not agree better than this; a few may by chance.
Nanoseconds least_spread_ns(Operation operation);

/// Whether the lane was captured at the time.
bool covers(const Lane& lane, std::uint64_t symbol, Nanoseconds exit_ns);

/// Whether an operation of the lane ends within the tolerance.
bool ends_near(const Lane& lane, std::uint64_t symbol, Nanoseconds exit_ns, Nanoseconds tolerance_ns);

/// When the lanes of a group left what the first of them did, against its own exits; operations that all members leave
/// at once, of one symbol or of all (nothing given). Without the trend of each lane, which is its clock's.
ExitTable exits_of(std::span<const Lane> lanes, std::span<const std::size_t> group,
                   std::optional<std::uint64_t> symbol = std::nullopt);

}  // namespace nsys_explain::collectives
