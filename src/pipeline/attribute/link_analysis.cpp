#include "pipeline/attribute/link_analysis.hpp"

#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <cereal/types/map.hpp>
#include <cereal/types/utility.hpp>

#include "analysis/links/links.hpp"
#include "analysis/waits/bandwidth.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Nodes are told apart by their names; a trace rank whose host nobody recorded is on a node of its own.
struct Nodes {
  explicit Nodes(const JobRanks& job) {
    std::map<std::string, std::int32_t> number;
    for (const TraceRankIdentity& rank : job.trace_ranks) {
      if (rank.host.empty()) continue;
      const auto [node, is_new] = number.try_emplace(rank.host, static_cast<std::int32_t>(hosts.size()));
      if (is_new) hosts.push_back(rank.host);
      node_of[rank.trace_rank] = node->second;
    }
  }
  analysis::NodeOfRank node_of;
  std::vector<std::string> hosts;
};

std::vector<analysis::TransferGroup> gather_groups(const exchange::Communicator& communicator, const CrossRank& cross) {
  const std::string bytes = pack(analysis::transfer_groups(cross.blocks));
  const auto gathered = communicator.gather(std::span<const char>(bytes));
  std::vector<analysis::TransferGroup> all;
  if (!communicator.is_root()) return all;
  for (int r = 0; r < communicator.size(); ++r) {
    const std::span<const char> part = gathered.of(r);
    auto groups = unpack<std::vector<analysis::TransferGroup>>(std::string_view(part.data(), part.size()));
    std::move(groups.begin(), groups.end(), std::back_inserter(all));
  }
  return analysis::merge_transfer_groups(std::move(all));
}

LinkAnalysis compare_groups(const std::vector<analysis::TransferGroup>& groups, const JobRanks& job,
                            const CrossRank& cross) {
  LinkAnalysis result;
  const Nodes nodes(job);
  std::vector<std::string> names;
  for (const collectives::PlannedCommunicator& planned : cross.communicators) names.push_back(planned.name);
  result.slow_groups = analysis::slow_groups(groups, names, nodes.node_of);
  result.slow_links = analysis::find_slow_links(groups, names, nodes.node_of, nodes.hosts);
  for (const SlowLink& link : result.slow_links)
    if (link.place == LinkPlace::rank || link.place == LinkPlace::node) result.slow_places.push_back(link.trace_ranks);
  result.tables = {analysis::bandwidth_table(groups, names, nodes.node_of),
                   analysis::slow_links_table(result.slow_links)};
  return result;
}

}  // namespace

LinkAnalysis analyse_links(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross) {
  const std::vector<analysis::TransferGroup> groups = gather_groups(communicator, cross);
  LinkAnalysis result;
  if (communicator.is_root()) result = compare_groups(groups, job, cross);
  const std::string slow = pack(std::pair(result.slow_groups, result.slow_places));
  const std::vector<char> everywhere = communicator.broadcast(std::span<const char>(slow));
  std::tie(result.slow_groups, result.slow_places) =
      unpack<decltype(std::pair(result.slow_groups, result.slow_places))>(
          std::string_view(everywhere.data(), everywhere.size()));
  return result;
}

}  // namespace nsys_explain::pipeline
