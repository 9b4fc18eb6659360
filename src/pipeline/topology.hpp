#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "nsys_explain/analysis/levels.hpp"
#include "nsys_explain/model/identity.hpp"

/// Which trace ranks share a node, a rail or a rack.
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
std::vector<analysis::Grouping> groupings_of(std::span<const TraceRankIdentity> trace_ranks, const RackOfHost& racks);

}  // namespace nsys_explain::pipeline
