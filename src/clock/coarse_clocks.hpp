#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "clock/clock_map.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain::clock {

/// What one trace rank communicated on one stream, or in one communicator. Small samples of it do.
struct RecordedSequence {
  std::int32_t trace_rank = -1;
  std::int32_t session = -1;
  std::uint64_t communicator = 0;  ///< where calls name it: members of one communicator share operations; 0: unknown
  std::uint64_t digest = 0;        ///< of the whole sequence: equal ones are alike, operation by operation
  std::vector<std::int64_t> positions;  ///< in the whole sequence, of the operations below
  MemberSequence operations;            ///< session time; exits ascend
};

/// What the files say about a session's clock before anything is compared: sessions of one unit share a clock.
struct SessionTie {
  std::int32_t unit = -1;     ///< -1: shares its clock with no other
  Nanoseconds offset_ns = 0;  ///< session time - time of the unit
};

/// Two sessions to compare. Trivially copyable.
struct SessionPair {
  std::int32_t reference = -1;
  std::int32_t session = -1;
};

/// How the times of a session become those of another. Trivially copyable.
struct SessionRelation {
  std::int32_t session = -1;
  std::int32_t reference = -1;
  double offset_ns = 0;
  double slope = 0;
  double residual_ns = 0;  ///< geometric mean distance of exits from this line, of the kind of operation that fits best
};

/// Coarse clocks of sessions, from samples of what their trace ranks communicated, good to some tens of microseconds:
/// enough to tell which operations of two sessions may be one. Sessions that share a host's clock are taken together.
/// Others are compared in rounds, neighbours first. Of two sequences that are equal, the k-th operations are compared,
/// without any search; others are searched for the offset at which they agree (offset_search.hpp). Where sequences that
/// communicate with each other are compared, ends agree within microseconds, and such relations count at once; others
/// only where nothing better turns up. Which comparisons a round holds does not depend on who makes them.
class CoarseClocks {
 public:
  /// Sequences of all trace ranks, in any order; one tie per session. `centre_ns`: where lines are anchored.
  CoarseClocks(std::vector<RecordedSequence> sequences, std::span<const SessionTie> ties, Nanoseconds centre_ns);

  /// What to compare next; empty: finished.
  std::vector<SessionPair> next_round();
  /// Nothing where no sequences of the two agree.
  std::optional<SessionRelation> compare(const SessionPair& pair) const;
  /// Relations found in the round, in any order.
  void accept(std::span<const SessionRelation> relations);

  /// Only sessions of one component can be compared. A component bears the number of one of its sessions, and its
  /// common time is that one's.
  std::int32_t component_of(std::int32_t session) const { return component_[static_cast<std::size_t>(session)]; }
  Nanoseconds to_common(std::int32_t session, SessionTime time) const;
  Nanoseconds centre_ns() const { return centre_ns_; }

 private:
  struct Line {
    double offset_ns = 0, slope = 0;
  };

  void tie_sessions(std::span<const SessionTie> ties);
  std::vector<SessionPair> pairs_at(std::size_t stride);
  void accept_loose();
  void relate(const SessionRelation& relation);

  std::vector<RecordedSequence> sequences_;                         ///< by trace rank, kind
  std::vector<std::uint64_t> kinds_;                                ///< parallel: only those of one kind are compared
  std::map<std::uint64_t, std::vector<std::int32_t>> sessions_of_;  ///< by kind, in order of trace ranks, each once
  std::vector<std::int32_t> component_;                             ///< per session
  std::vector<Line> line_;                                          ///< per session, to its component's common time
  std::set<std::pair<std::int32_t, std::int32_t>> compared_;
  std::vector<SessionRelation> loose_;
  std::size_t stride_ = 1;  ///< of the next round
  Nanoseconds centre_ns_ = 0;
};

/// How the operations of a member lie against those of a reference.
struct SequenceRelation {
  ClockLine line;  ///< reference time - member time
  /// Geometric mean distance of exits from the line, of the kind of operation that agrees best: what a few members that
  /// leave late do not move.
  double residual_ns = 0;
};

/// Of equal sequences the k-th operations are one, unless a search finds an offset at which they agree far better; of
/// members of one communicator only where their ends agree. Other sequences are searched. Nothing where no offset fits.
std::optional<SequenceRelation> relate_sequences(const RecordedSequence& member, const RecordedSequence& reference,
                                                 Nanoseconds centre_ns);

}  // namespace nsys_explain::clock
