#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>

#include "collectives/inspector_keys.hpp"
#include "collectives/inspector_match.hpp"

namespace nsys_explain::collectives {

using StreamKey = std::uint64_t;  ///< Arrival::communicator as extracted
using CommunicatorsOfStream = std::map<StreamKey, std::set<std::uint64_t>>;
using CoverageByCommunicator = std::map<std::uint64_t, InspectorCoverage>;

/// Communicator, peer and size for kernels of sends and receives, from NCCL Inspector's records of them (`p2p_sn`
/// counts on each process by itself, and says in which order); from logs without holes also a sequence that both ends
/// share. A kernel holds one record or, where calls were grouped, several. Where one of them is missing, was lost or
/// fits nothing, the kernels beside it keep what they are: half a kernel would name the wrong peer. Needs the times of
/// verbose logs. Which communicators the records name on each stream.
CommunicatorsOfStream apply_exchange_records(std::span<Arrival> arrivals, std::span<const InspectorRecord> records,
                                             Delay delay, CoverageByCommunicator& coverage);

}  // namespace nsys_explain::collectives
