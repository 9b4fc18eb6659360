#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "analysis/waits/bandwidth.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/slow_link.hpp"

/// Where in the network transfers are slow, by comparing groups that should be equally fast.
///
/// Groups of one operation, size and shape (members, nodes) form a class. A group is slow in its class if its median
/// bandwidth is below 1 / 1.25 of what a quarter of the class reaches, its fastest tenth included, and the difference
/// exceeds what clocks and ends of kernels leave open. What is then named is what all slow groups contain and no fast
/// one does: a greedy hitting set over ranks, pairs of them, nodes and pairs of nodes (docs/method.md, Slow links).
///
/// Example. Pipeline stages on four nodes, eight lanes each: eight groups of two ranks between nodes 0 and 1, eight
/// between 1 and 2, eight between 2 and 3. Those between 1 and 2 are slow. Rank 9 is only in one of them; node 1 is in
/// all, but also in those between 0 and 1, which are fast; the pair (1, 2) is in all slow ones and in no fast one.
namespace nsys_explain::analysis {

/// `names` of the communicators for the evidence; `hosts` by node. Most lost time first. Where every group of a class
/// is equally slow, or a class has one group only, nothing can be told.
std::vector<SlowLink> find_slow_links(std::span<const TransferGroup> groups, std::span<const std::string> names,
                                      const NodeOfRank& node_of, std::span<const std::string> hosts);

/// Trace ranks (ascending) of each group that is slow for most of the time that can be judged.
std::vector<std::vector<std::int32_t>> slow_groups(std::span<const TransferGroup> groups,
                                                   std::span<const std::string> names, const NodeOfRank& node_of);

/// Table `slow_links`: a row per place.
Table slow_links_table(std::span<const SlowLink> links);

/// The link of the report with most lost time that one of the straggler's trace ranks lies on; null where there is
/// none.
const SlowLink* link_of(const JobReport& report, const Straggler& straggler);

/// Likewise, where the straggler is late by its transfers: then finding `slow-link` tells of both.
const SlowLink* link_behind(const JobReport& report, const Straggler& straggler);

/// "the link between trace ranks 3 and 7 (hosts n0, n1)".
std::string describe(const SlowLink& link);

}  // namespace nsys_explain::analysis
