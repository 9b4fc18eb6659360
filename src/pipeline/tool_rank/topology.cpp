#include "pipeline/tool_rank/topology.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "model/schema/job.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::pipeline {
namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

RackOfHost parse_topology(const std::string& text) {
  RackOfHost racks;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host, rack, more;
    if (!(words >> host)) continue;
    if (!(words >> rack) || words >> more) {
      throw std::runtime_error(fmt::format(
          "line {} of the topology file is not 'HOST RACK', so racks would be wrong; write one host and its rack on each line",
          number));
    }
    if (const auto [entry, is_new] = racks.emplace(host, rack); !is_new && entry->second != rack) {
      throw std::runtime_error(fmt::format(
          "the topology file puts host '{}' into racks '{}' and '{}', and it can be in one only; remove one of them",
          host, entry->second, rack));
    }
  }
  return racks;
}

std::string rack_in_name(const std::string& host) {
  const std::string name = host.substr(0, host.find('.'));
  std::size_t end = name.size();
  while (end > 0 && !is_digit(name[end - 1])) --end;
  while (end > 0 && is_digit(name[end - 1])) --end;  // the node's number
  while (end > 0 && !is_digit(name[end - 1])) --end;
  return name.substr(0, end);
}

std::vector<analysis::Grouping> hardware_groupings(std::span<const TraceRankIdentity> trace_ranks,
                                                   const RackOfHost& racks) {
  analysis::Grouping nodes{Level::node, {}}, rails{Level::rail, {}}, racks_of_rank{Level::rack, {}};
  std::map<std::string, std::int32_t> ranks_of_host;
  for (const TraceRankIdentity& identity : trace_ranks) {
    nodes.place_of_rank.push_back(identity.host);
    rails.place_of_rank.push_back(fmt::format("GPU {} of every node", ranks_of_host[identity.host]++));
    const auto given = racks.find(identity.host);
    racks_of_rank.place_of_rank.push_back(!racks.empty() ? (given == racks.end() ? "" : given->second)
                                                         : rack_in_name(identity.host));
  }
  std::vector<analysis::Grouping> groupings{std::move(nodes)};
  const bool even = std::all_of(ranks_of_host.begin(), ranks_of_host.end(),
                                [&](const auto& host) { return host.second == ranks_of_host.begin()->second; });
  if (even) groupings.push_back(std::move(rails));
  groupings.push_back(std::move(racks_of_rank));
  return groupings;
}

std::vector<analysis::LayoutCommunicator> layout_communicators(
    std::span<const collectives::PlannedCommunicator> communicators,
    std::span<const analysis::CommunicatorTotals> totals, std::span<const std::int32_t> numbers) {
  std::vector<analysis::LayoutCommunicator> layout;
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    const collectives::PlannedCommunicator& planned = communicators[c];
    if (static_cast<std::size_t>(planned.size) != planned.trace_ranks.size()) continue;
    // Hosts that send to each other are neighbours that do the same, and no stages.
    if (planned.evidence == Evidence::mpi_call && totals[c].pair_exchanges > 0) continue;
    analysis::LayoutCommunicator& one = layout.emplace_back();
    for (const std::int32_t trace_rank : planned.trace_ranks) {
      const auto found = std::lower_bound(numbers.begin(), numbers.end(), trace_rank);
      one.ranks.push_back(static_cast<std::size_t>(found - numbers.begin()));
    }
    const bool numbered = std::find(planned.ranks.begin(), planned.ranks.end(), -1) == planned.ranks.end();
    if (numbered) one.numbers = planned.ranks;
    one.instances = totals[c].instances;
    one.pair_exchanges = totals[c].pair_exchanges;
    one.all_to_alls = totals[c].all_to_alls;
    one.blocking_instances = totals[c].blocking_instances;
  }
  return layout;
}

Table rank_places_table(std::span<const std::int32_t> numbers, std::span<const analysis::Grouping> groupings) {
  Table table = make_table(schema::rank_places);
  RowWriter row(table);
  for (const analysis::Grouping& grouping : groupings) {
    for (std::size_t r = 0; r < numbers.size(); ++r) {
      if (grouping.place_of_rank[r].empty()) continue;
      row << std::int64_t{numbers[r]} << level_name(grouping.level) << grouping.place_of_rank[r];
    }
  }
  return table;
}

}  // namespace nsys_explain::pipeline
