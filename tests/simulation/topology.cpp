#include "simulation/topology.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "simulation/random.hpp"

namespace nsys_explain::synth {

std::int32_t rank_at(const Layout& layout, const Coordinates& at) {
  return at.tensor + layout.tensor_parallel * (at.data + layout.data_parallel * at.pipeline);
}

Coordinates coordinates_of(const Layout& layout, std::int32_t rank) {
  const std::int32_t outer = rank / layout.tensor_parallel;
  return {rank % layout.tensor_parallel, outer % layout.data_parallel, outer / layout.data_parallel};
}

namespace {

std::uint8_t stream_of(Role role, const Workload& workload) {
  if (workload.nccl_on_compute_stream) return 0;
  if (workload.shared_nccl_stream) return 1;
  return static_cast<std::uint8_t>(1 + static_cast<int>(role));
}

/// Ranks that share `rank`'s group of this role, in the order of NCCL's rank numbers.
std::vector<std::int32_t> group_of(const Topology& topology, Role role, std::int32_t rank) {
  const Layout& layout = topology.layout;
  Coordinates at = topology.coordinates(rank);
  std::vector<std::int32_t> ranks;
  switch (role) {
    case Role::world:
      for (std::int32_t r = 0; r < layout.ranks(); ++r) ranks.push_back(r);
      break;
    case Role::tensor:
      for (at.tensor = 0; at.tensor < layout.tensor_parallel; ++at.tensor) ranks.push_back(rank_at(layout, at));
      break;
    case Role::data:
      for (at.data = 0; at.data < layout.data_parallel; ++at.data) ranks.push_back(rank_at(layout, at));
      break;
    case Role::pipeline:
      for (at.pipeline = 0; at.pipeline < layout.pipeline_parallel; ++at.pipeline) ranks.push_back(rank_at(layout, at));
      break;
  }
  return ranks;
}

/// First member of `rank`'s group; never after `rank`.
std::int32_t leader_of(const Topology& topology, Role role, std::int32_t rank) {
  Coordinates at = topology.coordinates(rank);
  switch (role) {
    case Role::world:
      return 0;
    case Role::tensor:
      at.tensor = 0;
      break;
    case Role::data:
      at.data = 0;
      break;
    case Role::pipeline:
      at.pipeline = 0;
      break;
  }
  return rank_at(topology.layout, at);
}

bool crosses_nodes(const std::vector<std::int32_t>& ranks, const Layout& layout) {
  return std::any_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
    return rank / layout.gpus_per_node != ranks.front() / layout.gpus_per_node;
  });
}

void add_communicators(Topology& topology, const JobPlan& plan, std::int32_t generation) {
  static constexpr std::array<const char*, role_count> names{"world", "tensor", "data", "pipeline"};
  auto& member_of = topology.member_of.emplace_back(static_cast<std::size_t>(plan.layout.ranks()));
  std::map<std::vector<std::int32_t>, std::int32_t> known;  // a data group that is the whole world is the world
  for (std::size_t r = 0; r < role_count; ++r) {
    const Role role = static_cast<Role>(r);
    std::int32_t number = 0;
    for (std::int32_t rank = 0; rank < plan.layout.ranks(); ++rank) {
      auto& slot = member_of[static_cast<std::size_t>(rank)][r];
      const std::int32_t leader = leader_of(topology, role, rank);
      slot = leader == rank ? -1 : member_of[static_cast<std::size_t>(leader)][r];
      if (leader != rank) continue;
      std::vector<std::int32_t> ranks = group_of(topology, role, rank);
      if (ranks.size() < 2) continue;
      const auto [entry, is_new] = known.emplace(ranks, static_cast<std::int32_t>(topology.communicators.size()));
      slot = entry->second;
      if (!is_new) continue;
      TrueCommunicator communicator;
      communicator.name = role == Role::world ? "world" : fmt::format("{} {}", names[r], number++);
      if (generation > 0) communicator.name += "'";
      communicator.hash = Draw(plan.seed, Purpose::identity, 1, topology.communicators.size()).bits() | 1;
      communicator.stream = stream_of(role, plan.workload);
      communicator.ranks = std::move(ranks);
      topology.communicators.push_back(std::move(communicator));
    }
  }
}

}  // namespace

Topology make_topology(const JobPlan& plan) {
  Topology topology;
  topology.layout = plan.layout;
  const std::int32_t generations = plan.workload.restart_at_step >= 0 ? 2 : 1;
  for (std::int32_t generation = 0; generation < generations; ++generation)
    add_communicators(topology, plan, generation);

  for (std::uint32_t i = 0; i < topology.communicators.size(); ++i) {
    Channel channel{i, topology.communicators[i].ranks, false,
                    crosses_nodes(topology.communicators[i].ranks, plan.layout)};
    std::sort(channel.ranks.begin(), channel.ranks.end());
    topology.channels.push_back(std::move(channel));
  }
  for (std::int32_t generation = 0; generation < generations; ++generation) {
    auto& next = topology.next_stage.emplace_back(static_cast<std::size_t>(plan.layout.ranks()), -1);
    for (std::int32_t rank = 0; rank < plan.layout.ranks(); ++rank) {
      Coordinates at = topology.coordinates(rank);
      if (++at.pipeline >= plan.layout.pipeline_parallel) continue;
      next[static_cast<std::size_t>(rank)] = static_cast<std::int32_t>(topology.channels.size());
      const std::vector<std::int32_t> pair{rank, rank_at(plan.layout, at)};
      topology.channels.push_back({static_cast<std::uint32_t>(topology.communicator(Role::pipeline, rank, generation)),
                                   pair, true, crosses_nodes(pair, plan.layout)});
    }
  }
  return topology;
}

}  // namespace nsys_explain::synth
