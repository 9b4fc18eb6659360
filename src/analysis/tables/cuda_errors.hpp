#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// How grave a status of CUDA is: column `severity` of table cuda_errors.
enum class StatusSeverity : std::uint8_t {
  answer,   ///< not ready, already enabled, not supported: programs ask on purpose
  failure,  ///< the call failed, the process goes on: no memory, no resources
  fatal     ///< CUDA's documentation: the process must be ended to use CUDA again; or the hardware failed
};

/// Table `cuda_errors`, at the first trace rank of the process (host_calls.hpp).
Table cuda_errors_table(const RankEvents& events);

}  // namespace nsys_explain::analysis
