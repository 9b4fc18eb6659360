#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ingest/kineto/trace_event.hpp"

namespace nsys_explain::ingest {

/// A collective as NCCL's own NVTX range would tell it.
struct CollectiveCall {
  std::string label;    ///< "ncclAllReduce"
  std::string payload;  ///< in JSON, as decode_json_payload reads it
};

/// `job_rank`: of this trace, -1 unknown. Empty where the fields name no collective that NCCL runs. A communicator's
/// number is a hash of the group's name and ranks, which all its members write alike; sizes are those that NCCL counts
/// (of all-gathers what one rank sends, of reduce-scatters what one receives).
std::optional<CollectiveCall> collective_call(const CollectiveFields& fields, std::int64_t job_rank);

/// Place of a rank of the job in "[0, 2, 4]"; -1 where it is not there, or where the list is cut.
std::int64_t place_in_group(const std::string& group_ranks, std::int64_t job_rank);

}  // namespace nsys_explain::ingest
