#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"

namespace nsys_explain::ingest {

struct RanksWithoutHelpers {
  std::vector<TraceRankIdentity> ranks;
  std::vector<Warning> warnings;  ///< who was left out
};

/// A server's engine process, a data loader with a CUDA context: a process in the export of others that takes part in
/// no collective and runs less than 1% of the kernels that those who do run (median). It is no rank of the job, unless
/// MPI, NCCL or the user number it. `collectives`: of each identity.
///
///     ranks of one export with 600, 600 and 600 kernels, 200 collectives each; a fourth process with 5 kernels and
///     none: three ranks
RanksWithoutHelpers leave_out_helpers(std::vector<TraceRankIdentity> identities,
                                      std::span<const std::int64_t> collectives);

}  // namespace nsys_explain::ingest
