#include "analysis/waits/parallel_layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace nsys_explain::analysis {
namespace {

using Ranks = std::vector<std::size_t>;

/// Groups that together hold every trace rank once.
struct Family {
  std::vector<Ranks> groups;  ///< equally many ranks each, in the order of their numbers; by lowest rank
  std::int64_t instances = 0;
  std::int64_t blocking_instances = 0;
  std::int64_t all_to_alls = 0;
  std::size_t distance = 0;  ///< between the first two ranks of a group

  std::vector<std::size_t> group_of_rank(std::size_t ranks) const {
    std::vector<std::size_t> of_rank(ranks);
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const std::size_t r : groups[g]) of_rank[r] = g;
    return of_rank;
  }
};

/// Communicators of the same members count as one: a job may make them anew, or several at once.
std::vector<LayoutCommunicator> merge_equal_members(std::span<const LayoutCommunicator> communicators) {
  std::map<Ranks, LayoutCommunicator> by_members;
  for (const LayoutCommunicator& communicator : communicators) {
    if (communicator.instances == 0 || communicator.ranks.size() < 2) continue;
    const auto [entry, is_new] = by_members.try_emplace(communicator.ranks, communicator);
    if (is_new) continue;
    entry->second.instances += communicator.instances;
    entry->second.pair_exchanges += communicator.pair_exchanges;
    entry->second.blocking_instances += communicator.blocking_instances;
    entry->second.all_to_alls += communicator.all_to_alls;
    if (entry->second.numbers != communicator.numbers) entry->second.numbers.clear();
  }
  std::vector<LayoutCommunicator> merged;
  for (auto& [members, communicator] : by_members) merged.push_back(std::move(communicator));
  return merged;
}

bool only_exchanges_in_pairs(const LayoutCommunicator& communicator) {
  return communicator.pair_exchanges == communicator.instances;
}

/// Stages may share more than their exchanges: the first and the last sum up the gradients of tied embeddings.
bool mostly_exchanges_in_pairs(const LayoutCommunicator& communicator) {
  return 2 * communicator.pair_exchanges > communicator.instances;
}

/// A job that nothing but stages divides: they exchange on the one communicator that all share, beside a few
/// collectives. (Of two ranks, all-to-all would look the same.)
bool is_only_pipeline(std::size_t ranks, std::span<const LayoutCommunicator> communicators) {
  return communicators.size() == 1 && ranks > 2 && communicators.front().ranks.size() == ranks &&
         mostly_exchanges_in_pairs(communicators.front());
}

Ranks in_order_of_numbers(const LayoutCommunicator& communicator) {
  Ranks order(communicator.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  if (!communicator.numbers.empty()) {
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return communicator.numbers[a] < communicator.numbers[b]; });
  }
  for (std::size_t& entry : order) entry = communicator.ranks[entry];
  return order;
}

std::size_t root_of(std::vector<std::size_t>& parent, std::size_t rank) {
  while (parent[rank] != rank) rank = parent[rank] = parent[parent[rank]];
  return rank;
}

/// The family that communicators of one shape form, those that share a rank chained; empty where groups are not equal
/// or leave ranks out.
std::optional<Family> make_family(std::size_t ranks, std::span<const LayoutCommunicator* const> communicators,
                                  bool may_chain) {
  std::vector<std::size_t> parent(ranks);
  std::iota(parent.begin(), parent.end(), 0);
  std::vector<std::int32_t> memberships(ranks, 0);
  Family family;
  for (const LayoutCommunicator* communicator : communicators) {
    family.instances += communicator->instances;
    family.blocking_instances += communicator->blocking_instances;
    family.all_to_alls += communicator->all_to_alls;
    for (const std::size_t r : communicator->ranks) {
      ++memberships[r];
      parent[root_of(parent, r)] = root_of(parent, communicator->ranks.front());
    }
  }
  if (std::find(memberships.begin(), memberships.end(), 0) != memberships.end()) return std::nullopt;
  const bool chained = *std::max_element(memberships.begin(), memberships.end()) > 1;
  if (chained && !may_chain) return std::nullopt;
  if (chained) {
    std::map<std::size_t, Ranks> chains;
    for (std::size_t r = 0; r < ranks; ++r) chains[root_of(parent, r)].push_back(r);
    for (auto& [root, chain] : chains) family.groups.push_back(std::move(chain));
  } else {
    for (const LayoutCommunicator* communicator : communicators)
      family.groups.push_back(in_order_of_numbers(*communicator));
  }
  const auto lowest = [](const Ranks& group) { return *std::min_element(group.begin(), group.end()); };
  std::sort(family.groups.begin(), family.groups.end(),
            [&](const Ranks& a, const Ranks& b) { return lowest(a) < lowest(b); });
  for (const Ranks& group : family.groups)
    if (group.size() != family.groups.front().size()) return std::nullopt;
  const LayoutCommunicator& any = *communicators.front();
  family.distance = any.ranks[1] - any.ranks[0];
  return family;
}

std::vector<Family> find_families(std::size_t ranks, std::span<const LayoutCommunicator> communicators,
                                  bool of_pair_exchanges) {
  std::map<Ranks, std::vector<const LayoutCommunicator*>> by_shape;
  for (const LayoutCommunicator& communicator : communicators) {
    const bool is_whole_job = communicator.ranks.size() == ranks;
    const bool exchanges =
        is_whole_job ? only_exchanges_in_pairs(communicator) : mostly_exchanges_in_pairs(communicator);
    if (exchanges != of_pair_exchanges || (is_whole_job && !exchanges)) continue;
    Ranks shape = communicator.ranks;
    for (std::size_t& offset : shape) offset -= communicator.ranks.front();
    by_shape[std::move(shape)].push_back(&communicator);
  }
  std::vector<Family> families;
  for (const auto& [shape, alike] : by_shape)
    if (auto family = make_family(ranks, alike, of_pair_exchanges)) families.push_back(std::move(*family));
  return families;
}

/// True where no group of one has two ranks of a group of the other.
bool belong_together(std::size_t ranks, const Family& a, const Family& b) {
  const std::vector<std::size_t> of_rank = b.group_of_rank(ranks);
  return std::all_of(a.groups.begin(), a.groups.end(), [&](const Ranks& group) {
    Ranks met;
    for (const std::size_t r : group) met.push_back(of_rank[r]);
    std::sort(met.begin(), met.end());
    return std::adjacent_find(met.begin(), met.end()) == met.end();
  });
}

/// Of at least one: the family whose ranks took part in most operations, each in those of its own group.
const Family& busiest(std::span<const Family> families) {
  return *std::max_element(families.begin(), families.end(), [](const Family& a, const Family& b) {
    return a.instances * static_cast<std::int64_t>(b.groups.size()) <
           b.instances * static_cast<std::int64_t>(a.groups.size());
  });
}

/// Whether compute waits for most of its operations.
bool is_waited_for(const Family& family) {
  return 2 * family.blocking_instances > family.instances;
}

/// Tokens go to their experts and back.
bool mostly_all_to_all(const Family& family) {
  return 2 * family.all_to_alls > family.instances;
}

Grouping make_grouping(Level level, std::size_t ranks, const Family& family) {
  Grouping grouping{level, std::vector<std::string>(ranks)};
  for (const Ranks& group : family.groups)
    for (std::size_t place = 0; place < group.size(); ++place)
      grouping.place_of_rank[group[place]] = std::to_string(place);
  return grouping;
}

}  // namespace

std::vector<Grouping> layout_groupings(std::size_t ranks, std::span<const LayoutCommunicator> communicators) {
  std::vector<LayoutCommunicator> merged = merge_equal_members(communicators);
  if (is_only_pipeline(ranks, merged)) merged.front().instances = merged.front().pair_exchanges;
  std::vector<Grouping> groupings;
  std::vector<Family> collective = find_families(ranks, merged, false);
  std::vector<Family> exchanging = find_families(ranks, merged, true);
  if (!collective.empty()) {
    // A chain of stages with two ranks of a tensor group is several, which the group holds in step.
    const Family most = busiest(collective);
    std::erase_if(exchanging,
                  [&](const Family& family) { return is_waited_for(most) && !belong_together(ranks, family, most); });
  }
  const auto pipeline = std::max_element(exchanging.begin(), exchanging.end(),
                                         [](const Family& a, const Family& b) { return a.distance < b.distance; });
  const bool has_pipeline = pipeline != exchanging.end();
  if (has_pipeline) groupings.push_back(make_grouping(Level::pipeline_stage, ranks, *pipeline));

  if (has_pipeline)
    std::erase_if(collective, [&](const Family& family) { return !belong_together(ranks, family, *pipeline); });
  if (const auto experts = std::stable_partition(collective.begin(), collective.end(),
                                                 [](const Family& family) { return !mostly_all_to_all(family); });
      experts != collective.end()) {
    groupings.push_back(make_grouping(Level::expert_index, ranks, busiest(std::span(experts, collective.end()))));
    collective.erase(experts, collective.end());
  }
  if (collective.empty()) return groupings;
  const Family first = busiest(collective);
  const bool busier_than_pipeline =
      !has_pipeline || first.instances * static_cast<std::int64_t>(pipeline->groups.size()) >=
                           pipeline->instances * static_cast<std::int64_t>(first.groups.size());
  if (!is_waited_for(first) || !busier_than_pipeline) {
    groupings.push_back(make_grouping(Level::data_index, ranks, first));
    return groupings;
  }
  groupings.push_back(make_grouping(Level::tensor_index, ranks, first));
  std::erase_if(collective, [&](const Family& family) { return !belong_together(ranks, family, first); });
  if (!collective.empty()) groupings.push_back(make_grouping(Level::data_index, ranks, busiest(collective)));
  return groupings;
}

}  // namespace nsys_explain::analysis
