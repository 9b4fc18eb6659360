#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "analysis/waits/levels.hpp"
#include "analysis/waits/parallel_layout.hpp"
#include "analysis/waits/waits.hpp"
#include "collectives/matching.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/table.hpp"

/// Which trace ranks share a node, a rail, a rack or a place in the parallel layout.
namespace nsys_explain::pipeline {

using RackOfHost = std::map<std::string, std::string>;

/// Reads the text of a --topology file: a line "HOST RACK" for each node, '#' begins a comment. Throws
/// std::runtime_error: problem, why it matters, what to do.
RackOfHost parse_topology(const std::string& text);

/// The rack that a host name holds: what comes before its last number where there are two ("r03" of "r03n07",
/// "rack3-" becomes "rack3"). Empty where there are not.
std::string rack_in_name(const std::string& host);

/// Nodes by host name; where every node holds equally many trace ranks, rails: the n-th trace rank of each; racks as
/// given, or else from the host names.
std::vector<analysis::Grouping> hardware_groupings(std::span<const TraceRankIdentity> trace_ranks,
                                                   const RackOfHost& racks);

/// Communicators whose members were all captured. `totals` are parallel to `communicators`; `numbers` are the trace
/// ranks, ascending.
std::vector<analysis::LayoutCommunicator> layout_communicators(
    std::span<const collectives::PlannedCommunicator> communicators,
    std::span<const analysis::CommunicatorTotals> totals, std::span<const std::int32_t> numbers);

/// Table `rank_places`: the place of each trace rank on each level that the job has.
Table rank_places_table(std::span<const std::int32_t> numbers, std::span<const analysis::Grouping> groupings);

}  // namespace nsys_explain::pipeline
