#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "analysis/waits/rank_timeline.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

/// What may be looked into, to tell why somebody was late: every tool rank proposes the worst that it knows of.
namespace nsys_explain::pipeline {

/// A straggler is compared with this many members of an instance at most: those whose work is nearest to the median.
inline constexpr std::size_t most_peers = 16;

struct Member {
  JobTime enter;
  Nanoseconds work_ns = 0;
  std::int32_t trace_rank = -1;
  std::int32_t reserved = 0;
};

/// Instead of a straggler: proposed because of what others waited, whoever caused it.
inline constexpr std::int32_t nobody = -1;

/// Proposal::instance of work before communication that is not matched.
inline constexpr std::int64_t no_instance = -1;

/// A program position that ranks of one role share: see WorkSample.
struct ProgramPosition {
  std::uint64_t role = 0;
  analysis::PositionInStep in_step;
  std::int32_t step = -1;

  bool known() const { return in_step.occurrences > 0; }  ///< else the members of the instance are the peers
};

/// One instance proposed as a case. Trivially copyable.
struct Proposal {
  std::int32_t straggler = nobody;  ///< index into the list of those who are late
  std::int32_t span = 0;
  std::int64_t instance = 0;  ///< no_instance: nothing is matched from there on
  JobTime last_enter;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds longer_ns = 0;  ///< of it, in the work that is compared: not what goes back to before an earlier arrival
  std::array<Member, 1 + most_peers> members{};  ///< the straggler first
  std::int32_t member_count = 0;
  std::int32_t elsewhere = 0;  ///< 1: most of its lateness came about before an earlier collective, which tells more
  std::int32_t reserved = 0;
  std::int32_t alike = 0;  ///< 1: the others have the straggler's role, and are at the same program position
  ProgramPosition position;
};

inline constexpr std::size_t most_stragglers = 8;
inline constexpr std::size_t case_spans = 16;
inline constexpr std::size_t most_long_waits = 6;

/// RankTimeline::role of a trace rank.
using RoleOfRank = std::function<std::uint64_t(std::int32_t)>;

/// The best proposal of each straggler, kind (by who waited in an instance, or by work at a program position) and
/// span, and the best of all.
class Shortlist {
 public:
  void offer(const Proposal& proposal);
  bool would_take(const Proposal& proposal) const;
  /// By straggler, kind and span; then the worst of the run.
  std::vector<Proposal> proposals() const;

 private:
  using Key = std::tuple<std::int32_t, bool, std::int32_t>;
  static Key key_of(const Proposal& proposal) { return {proposal.straggler, proposal.position.known(), proposal.span}; }

  std::map<Key, Proposal> best_;
  std::vector<Proposal> worst_;  ///< worst first
};

/// The trace ranks of the straggler's role that do not share its place.
std::vector<std::int32_t> peers_elsewhere(const Straggler& straggler, const JobRanks& job, const RoleOfRank& role_of);

/// A straggler that is this trace rank.
Straggler alone(std::int32_t trace_rank);

/// What this tool rank's blocks and timelines propose.
Shortlist propose(const JobRanks& job, const CrossRank& cross, const std::vector<LocalTrace>& local_traces,
                  const RoleOfRank& role_of, const JobReport& report, std::span<Straggler* const> late);

}  // namespace nsys_explain::pipeline
