#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/trace/activity_graph.hpp"
#include "nsys_explain/model/time.hpp"

/// The job once more, with something changed: what each piece of work waits for is known (activity_graph.hpp), all
/// members of a collective leave as much after the latest enter as they did, and times move on from there.
///
///     rank 0   [work....][wait.....][all-reduce]      rank 1 works 100 longer than is usual; without that it enters
///     rank 1   [work..............][all-reduce]       100 earlier, and both leave earlier by what rank 0 waited
namespace nsys_explain::analysis {

/// An arrival as the replay takes it. Trivially copyable.
struct ReplayArrival {
  Nanoseconds enter_ns = 0, exit_ns = 0;  ///< job time
  std::int64_t instance = -1;             ///< equal for those who met; -1: not matched
  std::uint64_t place = 0;                ///< equal for peers at the same place of the program; 0: not compared
  std::uint64_t own_place = 0;            ///< equal for the same place in other steps of the same trace rank; likewise
  std::uint64_t met_place = 0;            ///< equal for peers who met; likewise
  std::uint64_t step_place = 0;           ///< equal for peers in the same step; likewise
  Nanoseconds surplus_ns = 0;             ///< GPU work known without peers to be too much
  std::int32_t step = -1;
  bool slow_link = false;                     ///< its transfer goes over a slow link
  std::array<std::uint8_t, 3> reserved = {};  ///< no padding bytes travel uninitialised
};

/// One trace rank.
struct ReplayRank {
  std::span<const ActivityPiece> pieces;    ///< times in job time
  std::span<const ReplayArrival> arrivals;  ///< by Arrival::index
};

/// What is to be as usual: work of some trace ranks, by index, and transfers over slow links with one of them.
struct Scenario {
  std::vector<std::size_t> ranks{};
  std::vector<std::size_t> links{};  ///< of these the slow transfers only
};

/// Elapsed time of a replay.
struct ReplayedTime {
  Nanoseconds end_ns = 0;                 ///< of the last activity; job time
  std::vector<Nanoseconds> step_ends_ns;  ///< latest exit of each step; no_time: none
};

class Replay {
 public:
  /// `ranks` by index of the trace rank; what they hold must outlive it.
  Replay(std::vector<ReplayRank> ranks, std::size_t steps);

  ReplayedTime run(const Scenario& scenario) const;
  ReplayedTime measured() const { return run({}); }
  Nanoseconds start_ns() const { return start_ns_; }  ///< of the first activity, as measured
  Nanoseconds end_ns() const { return end_ns_; }      ///< of the last

 private:
  /// What a piece takes beyond what is usual; may be negative.
  struct Excess {
    Nanoseconds gpu_ns = 0;    ///< of a collective: of its transfer
    Nanoseconds after_ns = 0;  ///< as in ActivityPiece
    Nanoseconds host_ns = 0;   ///< with that of all pieces since the host's latest wait
  };
  struct Member {
    std::uint32_t piece = 0;  ///< of all
    Nanoseconds enter_ns = 0, exit_ns = 0;
  };
  struct Shifts;  ///< how much later everything is

  const ActivityPiece& piece(std::size_t p) const { return ranks_[rank_of_[p]].pieces[p - first_piece_[rank_of_[p]]]; }
  void number_pieces();
  void join_members();
  void order_events();
  void find_excess();
  void start(std::size_t p, Shifts& shifts) const;
  void leave(std::size_t p, Shifts& shifts) const;

  std::vector<ReplayRank> ranks_;
  std::size_t steps_;
  Nanoseconds start_ns_ = 0, end_ns_ = 0;
  // By piece of all.
  std::vector<std::size_t> first_piece_;  ///< of each rank; one entry more
  std::vector<std::uint32_t> rank_of_;
  std::vector<std::int32_t> compute_before_;    ///< piece; -1: none
  std::vector<std::int32_t> host_wait_before_;  ///< likewise
  std::vector<std::uint32_t> instance_of_;      ///< number of a collective's
  std::vector<Excess> excess_;
  std::vector<std::uint32_t> order_;       ///< of events: twice the piece, and one more where a collective leaves
  std::vector<std::size_t> first_member_;  ///< of each instance; one entry more
  std::vector<Member> members_;            ///< of an instance by enter
};

}  // namespace nsys_explain::analysis
