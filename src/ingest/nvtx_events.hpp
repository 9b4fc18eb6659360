#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "ingest/cuda_events.hpp"

namespace nsys_explain::ingest {

/// Ranks that nsys wrote into thread names ("MPI Rank 3") before it had the table MPI_RANKS, by process.
using ThreadNameRanks = std::map<std::uint64_t, std::set<std::int32_t>>;

/// NVTX_EVENTS: ranges and marks with the names of their domains, and NCCL's calls with their payloads.
/// Ranges come out sorted, with nccl_calls in the same order.
ThreadNameRanks read_nvtx_events(const Reading& reading);

}  // namespace nsys_explain::ingest
