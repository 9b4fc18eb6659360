#pragma once

#include "analysis/trace/rank_events.hpp"

/// What waits for what on one trace rank, folded: made while its events are in memory, kept when they are gone.
namespace nsys_explain::analysis {

enum class PieceKind : std::uint8_t {
  compute,  ///< GPU work but collectives, in a row: nothing of it waited for a collective or for the host but its first
  collective,  ///< one arrival
  host_wait    ///< a call of the host that returned when the GPU had come to some point
};

inline constexpr std::uint32_t no_bound = std::numeric_limits<std::uint32_t>::max();

/// What a piece waits for, and how much later that could have been without delaying the piece.
struct PieceWait {
  std::int32_t piece = -1;            ///< number; -1: nothing
  std::uint32_t slack_ns = no_bound;  ///< no_bound: it does not wait for that

  bool is_one() const { return piece >= 0 && slack_ns != no_bound; }
};

/// A piece of the program, in the order of launches. It begins when all that it waits for is over; slacks tell how much
/// later each could have been without delaying it, so one of them at least is 0. So nothing that is left as it was
/// moves, whatever the lags were.
///
///     host     | launch a | launch b | launch c |
///     compute          [a......]                [c....]      c waits for the exit of b: its slack is 0;
///     stream 7                 [b...............]            had the host been later by after_host_ns, c would be, too
///
/// A row of kernels k with idle time u(k) before each is one piece: the slack of what is before it = sum of u(k),
/// after_host_ns = the least of (slack of the launch of k + all u after k).
struct ActivityPiece {
  /// The first is the compute before: on its stream where events are recorded, else on the device. The others, by when
  /// they were over, the latest first: what its stream waited for, or the collective before on its stream.
  std::array<PieceWait, 3> waits{};
  std::uint32_t after_host_ns = no_bound;  ///< slack of what the host did before; no_bound: it is not known
  /// Compute: slack of its last launch. Once work is shorter, the GPU catches up with the host.
  std::uint32_t after_last_launch_ns = no_bound;
  std::int32_t arrival = -1;  ///< Arrival::index; else that of the next one in the order of launches
  std::uint32_t gpu_ns = 0;   ///< compute: for how long the GPU was busy, but for copies
  std::uint32_t copy_ns = 0;  ///< likewise, with copies and sets beside which nothing ran
  std::uint32_t last_ns = 0;  ///< of these, with the last of its launches
  std::uint32_t contention_ns =
      0;  ///< of gpu_ns: what kernels took longer for collectives beside them (rank_events.hpp)
  /// What the host did by itself since the piece before, until it launched this one; in a row, until the launch that
  /// after_host_ns is the slack of.
  std::uint32_t host_ns = 0;
  std::uint32_t after_ns = 0;  ///< host_wait: for how long the call went on once the GPU had come there
  PieceKind kind = PieceKind::compute;
  bool inferred = false;                      ///< what it waited for last is told by times alone, not by a record
  bool contradicted = false;                  ///< HostEvent::contradicted
  std::array<std::uint8_t, 1> reserved = {};  ///< no padding bytes travel uninitialised
};

template <class Time>
struct PieceAt : ActivityPiece {
  Time start;  ///< of the host: when the call returned
  Time end;    ///< of the GPU's work up to here, or exit
};
using TracePiece = PieceAt<TraceTime>;  ///< as it is folded
using JobPiece = PieceAt<JobTime>;      ///< as it is replayed

/// `arrivals` as in profile_work. Pieces behind the last arrival have the index of none.
std::vector<TracePiece> fold_activity(const RankEvents& events, std::span<const TraceArrival> arrivals);

}  // namespace nsys_explain::analysis
