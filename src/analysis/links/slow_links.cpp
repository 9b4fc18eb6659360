#include "analysis/links/links.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/waits/waits.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr double slow_ratio = 1.25;
constexpr std::int64_t fewest_instances = 5;

/// Pairs of the ranks of larger groups are not looked at: their number grows with the square.
constexpr std::size_t most_paired = 32;
constexpr std::size_t shown_groups = 8;

/// All transfers of one set of trace ranks.
struct RankSet {
  std::vector<std::int32_t> trace_ranks;
  std::vector<std::int32_t> nodes;      ///< ascending
  std::int64_t compared = 0, slow = 0;  ///< classes
  Nanoseconds compared_ns = 0, slow_ns = 0;
  double lost_ns = 0, expected_ns = 0;  ///< of the slow classes, summed over instances
  std::int64_t instances = 0;           ///< of the slow classes
  std::string example;                  ///< the slow class with the most transfer time
  Nanoseconds example_ns = 0;
  Operation operation = Operation::unknown;  ///< of the example, as what follows
  std::int64_t bytes = 0;
  double measured_gbs = 0, expected_gbs = 0;

  /// Slow for most of the time that can be judged. Between fast and slow a set speaks neither for nor against anything.
  bool is_slow() const { return slow > 0 && 2 * slow_ns >= compared_ns; }
  bool is_fast() const { return compared > 0 && slow == 0; }
  bool crosses_nodes() const { return nodes.size() > 1; }
};

bool contains(const std::vector<std::int32_t>& sorted, std::int32_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

/// A place, as a predicate on sets.
struct CandidatePlace {
  LinkPlace place = LinkPlace::rank;
  LinkScope scope = LinkScope::any;
  std::int32_t first = 0, second = 0;  ///< ranks or nodes; equal for places with one
  auto operator<=>(const CandidatePlace&) const =
      default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees a 0 in it

  bool is_in(const RankSet& set) const {
    if (scope == LinkScope::within_node && set.crosses_nodes()) return false;
    if (scope == LinkScope::between_nodes && !set.crosses_nodes()) return false;
    const bool ranks = place == LinkPlace::rank || place == LinkPlace::rank_pair;
    const std::vector<std::int32_t>& members = ranks ? set.trace_ranks : set.nodes;
    return contains(members, first) && contains(members, second);
  }
};

using ClassKey = std::tuple<Operation, std::int32_t, GroupShape>;

/// Compares the groups of one class; `sets` is parallel to `members`.
void judge_class(std::span<const TransferGroup* const> members, std::span<RankSet* const> sets,
                 std::span<const std::string> names) {
  std::vector<double> medians;
  for (const TransferGroup* group : members) medians.push_back(group->bus_bandwidth.quantile(0.5));
  std::vector<double> sorted = medians;
  std::sort(sorted.begin(), sorted.end());
  // What a quarter of the groups reach; of two groups, the faster. A median would not do: in a short pipeline most
  // groups touch the node whose network is slow.
  const double reference = sorted[3 * sorted.size() / 4];
  for (std::size_t i = 0; i < members.size(); ++i) {
    const TransferGroup& group = *members[i];
    RankSet& set = *sets[i];
    const double typical_ns = static_cast<double>(group.transfer_ns) / static_cast<double>(group.instances);
    const double excess_ns = typical_ns * (1 - medians[i] / reference);
    // Members differ by so much on healthy links, too.
    const double bias_ns = end_model(group.operation).bias_ns(EndModel::spread_ns(typical_ns), typical_ns, 0);
    const double doubt_ns = resolution_factor * std::max(bias_ns, static_cast<double>(group.uncertainty_ns));
    const bool slow = medians[i] * slow_ratio < reference && group.bus_bandwidth.quantile(0.9) < reference;
    if (slow && excess_ns <= doubt_ns) continue;  // too short to tell: longer ones must
    ++set.compared;
    set.compared_ns += group.transfer_ns;
    if (!slow) continue;
    ++set.slow;
    set.slow_ns += group.transfer_ns;
    set.instances += group.instances;
    set.lost_ns += excess_ns * static_cast<double>(group.instances);
    set.expected_ns += (typical_ns - excess_ns) * static_cast<double>(group.instances);
    if (group.transfer_ns <= set.example_ns) continue;
    set.example_ns = group.transfer_ns;
    set.operation = group.operation;
    set.bytes = group.bytes / group.instances;
    set.measured_gbs = medians[i];
    set.expected_gbs = reference;
    set.example = fmt::format(
        "{} of {} bytes among ranks {} (communicator {}): median {:.3g} GB/s, of {} equal groups a quarter reaches {:.3g} GB/s",
        operation_name(group.operation), set.bytes, fmt::join(group.trace_ranks, ", "),
        names[static_cast<std::size_t>(group.communicator)], medians[i], members.size() - 1, reference);
  }
}

std::vector<RankSet> judge_groups(std::span<const TransferGroup> groups, std::span<const std::string> names,
                                  const NodeOfRank& node_of) {
  std::map<std::vector<std::int32_t>, RankSet> sets;
  std::map<ClassKey, std::vector<const TransferGroup*>> classes;
  for (const TransferGroup& group : groups) {
    if (group.instances < fewest_instances || group.trace_ranks.size() < 2) continue;
    RankSet& set = sets[group.trace_ranks];
    if (set.trace_ranks.empty()) {
      set.trace_ranks = group.trace_ranks;
      std::set<std::int32_t> nodes;
      for (const std::int32_t rank : group.trace_ranks) {
        const auto node = node_of.find(rank);
        nodes.insert(node == node_of.end() ? -1 - rank : node->second);
      }
      set.nodes.assign(nodes.begin(), nodes.end());
    }
    classes[{group.operation, group.size_class, shape_of(group.trace_ranks, node_of)}].push_back(&group);
  }
  for (const auto& [key, members] : classes) {
    std::vector<RankSet*> members_sets;
    for (const TransferGroup* group : members) members_sets.push_back(&sets[group->trace_ranks]);
    const bool comparable = std::any_of(members_sets.begin(), members_sets.end(),
                                        [&](const RankSet* set) { return set != members_sets.front(); });
    if (comparable) judge_class(members, members_sets, names);
  }
  std::vector<RankSet> result;
  for (auto& [ranks, set] : sets)
    if (set.compared > 0) result.push_back(std::move(set));
  return result;
}

std::set<CandidatePlace> candidates_of(const RankSet& set) {
  std::set<CandidatePlace> candidates;
  const LinkScope own = set.crosses_nodes() ? LinkScope::between_nodes : LinkScope::within_node;
  const auto add_all = [&](const std::vector<std::int32_t>& members, LinkPlace single, LinkPlace pair) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (const LinkScope scope : {LinkScope::any, own}) candidates.insert({single, scope, members[i], members[i]});
      for (std::size_t k = i + 1; members.size() <= most_paired && k < members.size(); ++k)
        candidates.insert({pair, LinkScope::any, members[i], members[k]});
    }
  };
  add_all(set.trace_ranks, LinkPlace::rank, LinkPlace::rank_pair);
  add_all(set.nodes, LinkPlace::node, LinkPlace::node_pair);
  return candidates;
}

/// The slow sets that a candidate explains.
struct Explanation {
  CandidatePlace candidate;
  std::vector<std::size_t> explained;  ///< indices, ascending
  double lost_ns = 0;
};

/// Candidates that are in no fast set, with the slow sets among `open` that they explain.
std::vector<Explanation> explanations_of(const std::vector<RankSet>& sets, const std::vector<std::size_t>& open) {
  std::set<CandidatePlace> candidates;
  for (const std::size_t s : open) candidates.merge(candidates_of(sets[s]));
  std::vector<Explanation> explanations;
  for (const CandidatePlace& candidate : candidates) {
    const bool refuted =
        std::any_of(sets.begin(), sets.end(), [&](const RankSet& s) { return s.is_fast() && candidate.is_in(s); });
    if (refuted) continue;
    Explanation explanation{candidate, {}, 0};
    for (const std::size_t s : open) {
      if (!candidate.is_in(sets[s])) continue;
      explanation.explained.push_back(s);
      explanation.lost_ns += sets[s].lost_ns;
    }
    explanations.push_back(std::move(explanation));
  }
  return explanations;
}

/// Of the explanations that explain the same sets, the one to name: a rank or node by itself before pairs, all of its
/// transfers before some. Two of one kind that nothing tells apart make neither.
const Explanation* most_telling(const std::vector<Explanation>& explanations,
                                const std::vector<std::size_t>& explained) {
  constexpr std::pair<LinkPlace, LinkScope> order[] = {
      {LinkPlace::rank, LinkScope::any},           {LinkPlace::node, LinkScope::any},
      {LinkPlace::rank_pair, LinkScope::any},      {LinkPlace::node_pair, LinkScope::any},
      {LinkPlace::rank, LinkScope::between_nodes}, {LinkPlace::rank, LinkScope::within_node},
      {LinkPlace::node, LinkScope::between_nodes}, {LinkPlace::node, LinkScope::within_node}};
  for (const auto& [place, scope] : order) {
    const Explanation* only = nullptr;
    int found = 0;
    for (const Explanation& explanation : explanations) {
      const CandidatePlace& candidate = explanation.candidate;
      if (candidate.place != place || candidate.scope != scope || explanation.explained != explained) continue;
      only = &explanation;
      ++found;
    }
    if (found == 1) return only;
  }
  return nullptr;
}

std::vector<std::string> hosts_of(std::span<const std::int32_t> trace_ranks, const NodeOfRank& node_of,
                                  std::span<const std::string> hosts) {
  std::set<std::int32_t> nodes;
  for (const std::int32_t rank : trace_ranks)
    if (const auto node = node_of.find(rank); node != node_of.end()) nodes.insert(node->second);
  std::vector<std::string> names;
  for (const std::int32_t node : nodes) names.push_back(hosts[static_cast<std::size_t>(node)]);
  return names;
}

std::vector<std::int32_t> common_ranks(const std::vector<RankSet>& sets, const std::vector<std::size_t>& explained) {
  std::vector<std::int32_t> common = sets[explained.front()].trace_ranks;
  for (const std::size_t s : explained) {
    std::vector<std::int32_t> both;
    std::set_intersection(common.begin(), common.end(), sets[s].trace_ranks.begin(), sets[s].trace_ranks.end(),
                          std::back_inserter(both));
    common = std::move(both);
  }
  return common;
}

SlowLink make_link(const std::vector<RankSet>& sets, const std::vector<std::size_t>& explained,
                   const Explanation* named, const NodeOfRank& node_of, std::span<const std::string> hosts) {
  SlowLink link;
  if (named == nullptr) {
    link.trace_ranks = common_ranks(sets, explained);
    link.place = link.trace_ranks.size() == 2 ? LinkPlace::rank_pair : LinkPlace::group;
  } else {
    const CandidatePlace& candidate = named->candidate;
    link.place = candidate.place;
    link.scope = candidate.scope;
    if (link.place == LinkPlace::node || link.place == LinkPlace::node_pair) {
      for (const auto& [rank, node] : node_of)
        if (node == candidate.first || node == candidate.second) link.trace_ranks.push_back(rank);
    } else {
      link.trace_ranks = {candidate.first};
      if (link.place == LinkPlace::rank_pair) link.trace_ranks.push_back(candidate.second);
    }
  }
  link.hosts = hosts_of(link.trace_ranks, node_of, hosts);
  double lost_gpu_ns = 0, lost_ns = 0, expected_ns = 0;
  std::vector<std::size_t> by_loss = explained;
  std::stable_sort(by_loss.begin(), by_loss.end(),
                   [&](std::size_t a, std::size_t b) { return sets[a].lost_ns > sets[b].lost_ns; });
  for (const std::size_t s : by_loss) {
    const RankSet& set = sets[s];
    lost_ns += set.lost_ns;
    expected_ns += set.expected_ns;
    lost_gpu_ns += set.lost_ns * static_cast<double>(set.trace_ranks.size());
    link.instances += set.instances;
    if (link.evidence.size() < shown_groups) link.evidence.push_back(set.example);
  }
  // The figures are those of a test: of one host it runs within (problems/find_problems.cpp), and what links between
  // nodes reach says nothing of those.
  const bool is_tested_within =
      link.scope == LinkScope::within_node || (link.hosts.size() <= 1 && link.scope == LinkScope::any);
  const auto tested = std::find_if(by_loss.begin(), by_loss.end(),
                                   [&](std::size_t s) { return sets[s].crosses_nodes() != is_tested_within; });
  const RankSet& worst = sets[tested == by_loss.end() ? by_loss.front() : *tested];
  link.operation = worst.operation;
  link.bytes = worst.bytes;
  if (tested != by_loss.end()) {
    link.measured_gbs = worst.measured_gbs;
    link.expected_gbs = worst.expected_gbs;
  }
  link.slow_groups = static_cast<std::int64_t>(explained.size());
  link.fast_groups = std::count_if(sets.begin(), sets.end(), [](const RankSet& set) { return set.is_fast(); });
  link.slowdown = expected_ns > 0 ? (expected_ns + lost_ns) / expected_ns : 1;
  link.lost_ns = std::llround(lost_gpu_ns);
  return link;
}

std::string_view place_name(LinkPlace place) {
  return name_in_order(place, {"rank", "rank_pair", "node", "node_pair", "group"});
}

std::string_view scope_name(LinkScope scope) {
  return name_in_order(scope, {"any", "within_node", "between_nodes"});
}

}  // namespace

std::vector<SlowLink> find_slow_links(std::span<const TransferGroup> groups, std::span<const std::string> names,
                                      const NodeOfRank& node_of, std::span<const std::string> hosts) {
  const std::vector<RankSet> sets = judge_groups(groups, names, node_of);
  std::vector<std::size_t> open;
  for (std::size_t s = 0; s < sets.size(); ++s)
    if (sets[s].is_slow()) open.push_back(s);
  std::vector<SlowLink> links;
  while (!open.empty()) {
    const std::vector<Explanation> explanations = explanations_of(sets, open);
    // The most sets, then the most time lost; a set that nothing explains stands for itself.
    std::vector<std::size_t> explained{open.front()};
    double lost_ns = sets[open.front()].lost_ns;
    for (const Explanation& explanation : explanations) {
      if (std::tuple(explanation.explained.size(), explanation.lost_ns) <= std::tuple(explained.size(), lost_ns))
        continue;
      explained = explanation.explained;
      lost_ns = explanation.lost_ns;
    }
    // One set by itself cannot tell which of its members it is.
    const Explanation* named = explained.size() > 1 ? most_telling(explanations, explained) : nullptr;
    links.push_back(make_link(sets, explained, named, node_of, hosts));
    std::vector<std::size_t> rest;
    std::set_difference(open.begin(), open.end(), explained.begin(), explained.end(), std::back_inserter(rest));
    open = std::move(rest);
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const SlowLink& a, const SlowLink& b) { return a.lost_ns > b.lost_ns; });
  return links;
}

std::vector<std::vector<std::int32_t>> slow_groups(std::span<const TransferGroup> groups,
                                                   std::span<const std::string> names, const NodeOfRank& node_of) {
  std::vector<std::vector<std::int32_t>> slow;
  for (RankSet& set : judge_groups(groups, names, node_of))
    if (set.is_slow()) slow.push_back(std::move(set.trace_ranks));
  return slow;
}

Table slow_links_table(std::span<const SlowLink> links) {
  constexpr auto integer = ColumnKind::integer;
  constexpr auto text = ColumnKind::text;
  Table table = make_table(
      {"slow_links",
       "One row per place whose transfers are slower than those of equal groups elsewhere, most lost time first",
       {{"place", text, "", "rank, rank_pair, node, node_pair, or group: some of its trace ranks"},
        {"scope", text, "", "transfers that are slow: any, within_node or between_nodes"},
        {"trace_ranks", text, "", "of the place"},
        {"hosts", text, "", "of the place"},
        {"slow_groups", integer, "", "groups of trace ranks that are slow through it"},
        {"fast_groups", integer, "", "groups that were compared and are not slow"},
        {"instances", integer, "", "collectives of the slow groups"},
        {"slowdown", ColumnKind::real, "", "their transfer time / that of their peers"},
        {"lost_ns", integer, "ns", "GPU time: transfer time beyond the peers', times members"}}});
  RowWriter rows(table);
  for (const SlowLink& link : links) {
    rows << place_name(link.place) << scope_name(link.scope)
         << std::string_view(fmt::format("{}", fmt::join(link.trace_ranks, " ")))
         << std::string_view(fmt::format("{}", fmt::join(link.hosts, " "))) << link.slow_groups << link.fast_groups
         << link.instances << link.slowdown << link.lost_ns;
  }
  return table;
}

const SlowLink* link_of(const JobReport& report, const Straggler& straggler) {
  const auto link = std::find_if(report.slow_links.begin(), report.slow_links.end(), [&](const SlowLink& one) {
    return std::find_first_of(one.trace_ranks.begin(), one.trace_ranks.end(), straggler.trace_ranks.begin(),
                              straggler.trace_ranks.end()) != one.trace_ranks.end();
  });
  return link == report.slow_links.end() ? nullptr : &*link;
}

const SlowLink* link_behind(const JobReport& report, const Straggler& straggler) {
  return straggler.cause == Cause::slow_link ? link_of(report, straggler) : nullptr;
}

std::string describe(const SlowLink& link) {
  const std::string on =
      link.hosts.empty() ? ""
                         : fmt::format(" (host{} {})", link.hosts.size() > 1 ? "s" : "", fmt::join(link.hosts, ", "));
  std::string where;
  switch (link.place) {
    case LinkPlace::rank:
      where = fmt::format("rank {}{}", link.trace_ranks.front(), on);
      break;
    case LinkPlace::rank_pair:
      where = fmt::format("the link between ranks {}{}", fmt::join(link.trace_ranks, " and "), on);
      break;
    case LinkPlace::node:
      where = fmt::format("host {}", fmt::join(link.hosts, ", "));
      break;
    case LinkPlace::node_pair:
      where = fmt::format("the link between hosts {}", fmt::join(link.hosts, " and "));
      break;
    case LinkPlace::group:
      where = fmt::format("a link of ranks {}{}", fmt::join(link.trace_ranks, ", "), on);
      break;
  }
  if (link.scope == LinkScope::within_node) where += ", within its node";
  if (link.scope == LinkScope::between_nodes) where += ", between nodes";
  return where;
}

}  // namespace nsys_explain::analysis
