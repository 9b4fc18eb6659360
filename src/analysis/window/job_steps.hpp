#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "analysis/window/steps.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/job_report.hpp"

/// Every trace rank counts its own steps; matched collectives tell which of them are one. All members of an instance
/// are in the same step, whatever their clocks say, and whoever came late to it.
///
///     rank 0   | 0   a  b | 1   a  b | 2      the third of rank 0 is the second of rank 1, whose capture began later,
///     rank 1       b |    0   a  b | 1        as three of four instances tell
namespace nsys_explain::analysis {

/// The steps of one trace rank, by its own count. Trivially copyable.
struct OwnSteps {
  std::int64_t rank = 0;  ///< index of the trace rank
  std::int64_t steps = 0;
  std::int64_t source = 0;  ///< StepSource
  std::int64_t numbered = 0, first_number = 0;
  Nanoseconds first_ns = 0, usual_ns = 0;  ///< when the first one began, how long the median one takes; job time
};
OwnSteps summarise_steps(std::size_t rank, const Steps& steps);

/// In so many instances `other` was this many of its steps ahead of `rank`. Trivially copyable.
struct StepTie {
  std::int32_t rank = 0, other = 0;
  std::int32_t ahead = 0;
  std::int32_t instances = 0;
};

/// Counts ties. Members that follow each other are enough: what relates is a chain.
class StepTies {
 public:
  /// A member's trace rank by index, and its step by its own count; -1: none. Ascending by rank.
  struct Member {
    std::int32_t rank = 0, step = -1;
  };
  void add(std::span<const Member> members);
  std::vector<StepTie> all() const;

 private:
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> instances_;
};

/// For each trace rank the job's step that its own first one is, of which the earliest is 0; not_counted where it has
/// none, or is of another job: nothing ties it to the most ranks, and it has no step among theirs. Related by the ties
/// that most instances support; where none leads from one rank to another, by the numbers that both programs gave their
/// steps, or else by time. `own` by index of the trace rank.
std::vector<std::int32_t> relate_steps(std::span<const OwnSteps> own, std::span<const StepTie> ties);

/// The commonest of these steps, of two alike the earlier; -1 where there are none. Reorders.
std::int32_t common_step(std::span<std::int32_t> steps);

/// How long the job's steps take, from the first beginning of one to that of the next: their spread, and where they
/// change for good. Sets nothing else.
void describe_changes(const Steps& job, StepTime& time);

}  // namespace nsys_explain::analysis
