#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/collective.hpp"

/// What waits for what on one trace rank, folded: made while its events are in memory, kept when they are gone.
namespace nsys_explain::analysis {

enum class PieceKind : std::uint8_t {
  compute,  ///< GPU work but collectives, in a row: nothing of it waited for a collective or for the host but its first
  collective,  ///< one arrival
  host_wait    ///< a call of the host that returned when the GPU had come to some point
};

inline constexpr std::uint32_t no_bound = std::numeric_limits<std::uint32_t>::max();

/// A piece of the program, in the order of launches. It begins when all that it waits for is over; `after_X_ns` tells
/// how much later X could have been without delaying it, so one of them at least is 0, and no_bound where it does not
/// wait for X. So nothing that is left as it was moves, whatever the lags were.
///
///     host     | launch a | launch b | launch c |
///     compute          [a......]                [c....]      c waits for the exit of b: after_other_ns = 0;
///     stream 7                 [b...............]            had the host been later by after_host_ns, c would be, too
///
/// A row of kernels k with idle time u(k) before each is one piece: after_compute_ns = sum of u(k), after_host_ns = the
/// least of (slack of the launch of k + all u after k).
struct ActivityPiece {
  Nanoseconds start_ns = 0;                   ///< trace time; of the host: when the call returned
  Nanoseconds end_ns = 0;                     ///< of the GPU's work up to here, or exit
  std::uint32_t after_compute_ns = no_bound;  ///< the compute piece before
  std::uint32_t after_host_ns = no_bound;     ///< what the host did before
  /// Compute: slack of its last launch. Once work is shorter, the GPU catches up with the host.
  std::uint32_t after_last_launch_ns = no_bound;
  std::uint32_t after_other_ns = no_bound;  ///< the end of `waits_for`
  std::int32_t arrival = -1;                ///< Arrival::index; else that of the next one in the order of launches
  std::int32_t waits_for = -1;              ///< number of a piece
  std::uint32_t gpu_ns = 0;                 ///< compute: for how long the GPU was busy, but for copies
  std::uint32_t copy_ns = 0;                ///< likewise, with copies and sets beside which nothing ran
  std::uint32_t last_ns = 0;                ///< of these, with the last of its launches
  /// What the host did by itself since the piece before, until it launched this one; in a row, until the launch that
  /// after_host_ns is the slack of.
  std::uint32_t host_ns = 0;
  std::uint32_t after_ns = 0;  ///< host_wait: for how long the call went on once the GPU had come there
  PieceKind kind = PieceKind::compute;
  std::array<std::uint8_t, 3> reserved = {};  ///< no padding bytes travel uninitialised
};

/// `arrivals` as in profile_work. Pieces behind the last arrival have the index of none.
std::vector<ActivityPiece> fold_activity(const RankEvents& events, std::span<const Arrival> arrivals);

}  // namespace nsys_explain::analysis
