#pragma once

#include <vector>

#include "ingest/database.hpp"
#include "ingest/metadata.hpp"
#include "ingest/nvtx_events.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// Adds what the export says about ranks to ProcessTrace::claims, most trustworthy first: MPI_RANKS (or nsys' thread
/// names), the rank in the largest communicator that NCCL told about, the environment of the only profiled process.
/// A source that contradicts itself about a process claims nothing and gives a warning.
void claim_ranks(const Database& database, const Metadata& metadata, const ThreadNameRanks& thread_name_ranks,
                 std::vector<ProcessTrace>& processes, std::vector<Warning>& warnings);

}  // namespace nsys_explain::ingest
