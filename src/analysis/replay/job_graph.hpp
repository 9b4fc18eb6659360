#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/lost_members.hpp"
#include "analysis/trace/activity_graph.hpp"
#include "nsys_explain/model/time.hpp"

/// What waits for what in the whole job: the pieces of all trace ranks, and who met in which collective.
namespace nsys_explain::analysis {

/// An arrival as the replay takes it. Trivially copyable.
struct ReplayArrival {
  JobTime enter, exit;
  std::int64_t instance = -1;       ///< equal for those who met; -1: not matched
  std::uint64_t position = 0;       ///< equal for peers at the same program position; 0: not compared
  std::uint64_t own_position = 0;   ///< equal for the same position in other steps of the same trace rank; likewise
  std::uint64_t met_position = 0;   ///< equal for peers who met; likewise
  std::uint64_t step_position = 0;  ///< equal for peers in the same step; likewise
  std::uint64_t kind = 0;           ///< equal for transfers alike: operation, size and members; 0: not compared
  Nanoseconds surplus_ns = 0;       ///< GPU work known without peers to be too much
  std::int32_t step = -1;
  bool slow_link = false;                     ///< its transfer goes over a slow link
  std::array<std::uint8_t, 3> reserved = {};  ///< no padding bytes travel uninitialised
};

/// One trace rank.
struct ReplayRank {
  std::span<const JobPiece> pieces;
  std::span<const ReplayArrival> arrivals;  ///< by Arrival::index
};

/// Pieces are numbered one trace rank after the other; what the ranks hold must outlive the graph.
struct JobGraph {
  struct Member {
    std::uint32_t piece = 0;
    JobTime enter, exit;
  };

  /// `ranks` by index of the trace rank.
  explicit JobGraph(std::vector<ReplayRank> ranks);

  std::size_t pieces() const { return rank_of.size(); }
  const JobPiece& piece(std::size_t p) const { return ranks[rank_of[p]].pieces[p - first_piece[rank_of[p]]]; }
  /// What a piece waits for, by number in the job; -1: nothing. `w`: of ActivityPiece::waits.
  std::int32_t waited_for(std::size_t p, std::size_t w) const {
    const PieceWait& wait = piece(p).waits[w];
    return wait.is_one() ? static_cast<std::int32_t>(first_piece[rank_of[p]]) + wait.piece : -1;
  }
  /// Of a collective's piece.
  const ReplayArrival& arrival_of(std::size_t p) const {
    return ranks[rank_of[p]].arrivals[static_cast<std::size_t>(piece(p).arrival)];
  }
  /// Those who met in an instance, by enter.
  std::span<const Member> members_of(std::uint32_t instance) const {
    return std::span(members).subspan(first_member[instance], first_member[instance + 1] - first_member[instance]);
  }
  /// Of an instance, by what they entered after.
  std::span<const LostMember> lost_of(std::uint32_t instance) const {
    const auto [first, end] = std::equal_range(lost.begin(), lost.end(), LostMember{instance, 0, 0},
                                               [](const auto& a, const auto& b) { return a.instance < b.instance; });
    return {first, end};
  }
  /// Of the pieces that wait for more than their launch and the compute before: those whose waits times tell.
  std::optional<double> inferred_share() const;
  std::size_t instances() const { return first_member.size() - 1; }
  /// Twice the piece: it starts; one more: a collective leaves. By time, so that nothing depends on what is later by;
  /// leaving comes before what starts at the same time.
  std::vector<std::uint32_t> events_by_time() const;

  std::vector<ReplayRank> ranks;
  Nanoseconds start_ns = 0;              ///< of the first activity
  Nanoseconds end_ns = 0;                ///< of the last activity of a GPU
  std::vector<std::size_t> first_piece;  ///< of each rank; one entry more
  // By piece.
  std::vector<std::uint32_t> rank_of;
  std::vector<std::int32_t> host_wait_before;  ///< piece; -1: none
  std::vector<std::uint32_t> instance_of;      ///< number of a collective's; one that was not matched has its own
  // By instance.
  std::vector<std::size_t> first_member;  ///< one entry more
  std::vector<Member> members;            ///< of each by enter
  std::vector<LostMember> lost;           ///< by instance
  std::vector<std::int64_t> resumes;      ///< by piece: the instance in which its trace rank is a lost member; -1: none

 private:
  void number_pieces();
  void join_members();
};

}  // namespace nsys_explain::analysis
