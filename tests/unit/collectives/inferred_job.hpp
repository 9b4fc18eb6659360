#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>

#include "simulation/job_plan.hpp"

/// Simulated jobs whose records name no communicators, matched without files and without tool ranks, against the truth.
namespace nsys_explain::collectives::testing {

struct InferredScore {
  std::int64_t present = 0;      ///< recorded arrivals with a recorded counterpart
  std::int64_t matched = 0;      ///< of these, those together with the largest part of their true instance
  std::int64_t withheld = 0;     ///< recorded arrivals of which nothing tells the communicator
  std::int64_t wrong_pairs = 0;  ///< pairs in one found instance that belong to different true ones
  std::map<std::string, std::int64_t> missed, mixed;  ///< by operation

  double share() const { return present == 0 ? 1 : static_cast<double>(matched) / static_cast<double>(present); }
};
std::ostream& operator<<(std::ostream& out, const InferredScore& score);

/// The plan must be complete.
InferredScore infer_simulated(const synth::JobPlan& plan);

}  // namespace nsys_explain::collectives::testing
