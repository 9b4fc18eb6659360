#pragma once

#include <optional>

#include "nsys_explain/model/collective.hpp"

/// Parts of a JobReport that several modules make.
namespace nsys_explain {

// What the end of the run waited for, from the last activity back to the first: a chain without gaps or overlaps.

enum class CriticalKind : std::uint8_t {
  compute,   ///< kernels
  copy,      ///< copies and sets
  transfer,  ///< of a collective, once its last member had entered
  launch,    ///< from a launch to the start on the GPU, and the gaps between kernels
  host,      ///< what the host did by itself until it launched
  unknown    ///< nothing recorded tells
};
inline constexpr std::size_t critical_kind_count = 6;

std::string_view critical_kind_name(CriticalKind kind);

struct CriticalSegment {
  Nanoseconds start_ns = 0, end_ns = 0;  ///< job time
  std::int32_t trace_rank = -1;
  CriticalKind kind = CriticalKind::unknown;
};

/// Of one trace rank in one step.
struct CriticalShare {
  std::int64_t step = -1;  ///< -1: behind the last step, or no steps are known
  std::int32_t trace_rank = -1;
  std::array<Nanoseconds, critical_kind_count> duration_ns{};  ///< by CriticalKind

  Nanoseconds of(CriticalKind kind) const { return duration_ns[static_cast<std::size_t>(kind)]; }
};

/// Known on rank 0 only; empty where the job was not replayed.
struct CriticalPath {
  std::vector<CriticalSegment> segments;  ///< ascending
  std::vector<CriticalShare> by_step;     ///< by step, then trace rank
};

/// Sums over all steps, by trace rank.
std::vector<CriticalShare> critical_shares(const CriticalPath& path);

// Exposed communication, every nanosecond told by what the collective did and by why no compute ran beside it.

enum class CollectivePhase : std::uint8_t {
  arrival_skew,  ///< before its last member had entered
  transfer,      ///< after that
  unmatched,     ///< its other members are not known
  inconclusive   ///< the clocks leave open which of the two: it took less than three standard uncertainties
};
enum class StandstillReason : std::uint8_t {
  blocking,      ///< compute, or the host, waited for communication
  launch_paced,  ///< the host had not launched what ran next
  not_told
};
inline constexpr std::size_t collective_phase_count = 4, standstill_reason_count = 3;

std::string_view collective_phase_name(CollectivePhase phase);
std::string_view standstill_reason_name(StandstillReason reason);

/// Of the collectives of one operation on one trace rank. Trivially copyable.
struct ExposedTime {
  std::int32_t trace_rank = -1;
  Operation operation = Operation::unknown;
  std::array<std::uint8_t, 3> reserved = {};  ///< no padding bytes travel uninitialised
  std::array<std::array<Nanoseconds, standstill_reason_count>, collective_phase_count> duration_ns{};  ///< by phase
};

/// What the transfers that are slow have in common, and those that are not slow lack. `group`: the slow groups share
/// several trace ranks, and nothing tells which of them it is.
enum class LinkPlace : std::uint8_t { rank, rank_pair, node, node_pair, group };

/// Which transfers of the place are slow: all, those within a node (NVLink), or those between nodes (its NIC or cable).
enum class LinkScope : std::uint8_t { any, within_node, between_nodes };

/// A place in the network whose transfers are slower than those of equal groups elsewhere.
struct SlowLink {
  LinkPlace place = LinkPlace::group;
  LinkScope scope = LinkScope::any;
  std::vector<std::int32_t> trace_ranks;  ///< rank, rank_pair, group: these; node, node_pair: the ranks on them
  std::vector<std::string> hosts;         ///< that the place lies on
  std::int64_t slow_groups = 0;           ///< groups of trace ranks that are slow through it
  std::int64_t fast_groups = 0;           ///< groups that were compared and are not slow
  std::int64_t instances = 0;             ///< collectives of the slow groups
  double slowdown = 1;                    ///< their transfer time / that of their peers
  Nanoseconds lost_ns = 0;  ///< GPU time: transfer time beyond the peers', times members, summed over instances
  Operation operation = Operation::unknown;   ///< of the slow group that loses most
  std::int64_t bytes = 0;                     ///< of one of its collectives
  double measured_gbs = 0, expected_gbs = 0;  ///< its bus bandwidth, and that of equal groups elsewhere
  std::vector<std::string> evidence;
};

// How much longer the job takes than if all did alike, by the replays of `what_if`, after Lin et al. 2025,
// "Understanding Stragglers in Large Model Training Using What-if Analysis". Each is the elapsed time over that of the
// replay in which one thing is as usual, so 1 / (1 - what mending that saves). Ideal: all work and transfers as is
// usual.

/// The job as measured, against the job with one thing as usual.
struct SlowdownBy {
  std::string kind;  ///< "operation" (S_t) or "trace_rank" (S_w)
  std::string name;  ///< "compute", "transfer", or the trace rank's number
  double slowdown = 1;
};

struct Slowdown {
  Nanoseconds measured_ns = 0, without_launch_gaps_ns = 0, ideal_ns = 0;  ///< elapsed time, of the steps that count
  std::vector<SlowdownBy> by;                                             ///< by kind, worst first
  /// Of what the ideal job saves, the part that it saves if only the worst 3% of the trace ranks (at least one) do
  /// alike (M_W), or only the last pipeline stage (M_S); empty where there is none, or nothing to save.
  std::optional<double> worst_ranks_share, last_stage_share;

  /// S.
  double slowdown() const { return static_cast<double>(measured_ns) / static_cast<double>(ideal_ns); }
  double launch_slowdown() const {
    return static_cast<double>(measured_ns) / static_cast<double>(without_launch_gaps_ns);
  }
};

}  // namespace nsys_explain
