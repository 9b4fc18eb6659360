#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <ostream>
#include <string>

#include "nsys_explain/model/collective.hpp"
#include "simulation/job_plan.hpp"

/// Simulated jobs written as exports, read and matched as a run does it, and who truly met whom in them.
namespace nsys_explain::pipeline::testing {

/// An option of a job.
using Change = std::function<void(synth::JobPlan&)>;

/// Eight ranks on two hosts, four layers, clocks that drift by up to 20 ppm.
synth::JobPlan make_plan(std::uint64_t seed, std::initializer_list<Change> changes);

struct MatchScore {
  std::int64_t present = 0;      ///< exported arrivals with an exported counterpart
  std::int64_t matched = 0;      ///< of these, those together with the largest part of their true instance
  std::int64_t wrong_pairs = 0;  ///< pairs in one found instance that belong to different true ones
  std::map<std::string, std::int64_t> missed;       ///< by operation, bytes and members
  std::map<std::string, std::int64_t> mixed;        ///< wrong pairs by what was taken for one
  std::map<std::string, std::int64_t> given_names;  ///< of the communicators found, and how many have each

  double share() const { return present == 0 ? 1 : static_cast<double>(matched) / static_cast<double>(present); }
};
std::ostream& operator<<(std::ostream& out, const MatchScore& score);

/// Throws what goes wrong, also where an arrival is found that was not exported, or the other way round.
MatchScore match_simulated(const synth::JobPlan& plan);

}  // namespace nsys_explain::pipeline::testing
