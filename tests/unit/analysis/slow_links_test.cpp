#include "analysis/links/links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "random.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::Random;

/// Groups of a job in Megatron's order (tensor, then data, then pipeline), four GPUs per node, with transfers of one
/// size per kind of group. `slow` tells by how much the transfers of a group take longer.
struct SimulatedGroups {
  std::int32_t tensor = 4, data = 2, pipeline = 2;
  std::int32_t gpus_per_node = 4;
  std::function<double(const std::vector<std::int32_t>&)> slow = [](const auto&) { return 1.0; };

  std::int32_t ranks() const { return tensor * data * pipeline; }
  std::int32_t rank_at(std::int32_t t, std::int32_t d, std::int32_t p) const { return t + tensor * (d + data * p); }

  NodeOfRank nodes() const {
    NodeOfRank node_of;
    for (std::int32_t rank = 0; rank < ranks(); ++rank) node_of[rank] = rank / gpus_per_node;
    return node_of;
  }
  std::vector<std::string> hosts() const {
    std::vector<std::string> names;
    for (std::int32_t node = 0; node * gpus_per_node < ranks(); ++node) names.push_back("n" + std::to_string(node));
    return names;
  }

  std::vector<TransferGroup> groups(std::uint64_t seed) const {
    std::vector<TransferGroup> all;
    const auto add = [&](std::vector<std::int32_t> members, Operation operation, std::int64_t bytes) {
      if (members.size() < 2) return;
      Random random(seed * 1000 + all.size());
      const bool crosses = members.front() / gpus_per_node != members.back() / gpus_per_node;
      TransferGroup group;
      group.communicator = static_cast<std::int32_t>(all.size());
      group.operation = operation;
      group.size_class = static_cast<std::int32_t>(8 * std::log2(static_cast<double>(bytes)));
      const double factor = bus_bandwidth_factor(operation, static_cast<std::int64_t>(members.size()));
      const double delay = slow(members);
      for (int i = 0; i < 40; ++i) {
        const double latency = crosses ? 25'000 : 8'000;
        const double time = (latency + static_cast<double>(bytes) * factor / (crosses ? 45 : 200)) * delay *
                                (1 + 0.02 * random.normal()) +
                            10'000 * random.uniform();
        ++group.instances;
        group.bytes += bytes;
        group.transfer_ns += static_cast<Nanoseconds>(time);
        group.bus_bandwidth.add(static_cast<double>(bytes) * factor / time);
      }
      group.uncertainty_ns = 1000;
      group.trace_ranks = std::move(members);
      all.push_back(std::move(group));
    };
    for (std::int32_t p = 0; p < pipeline; ++p) {
      for (std::int32_t d = 0; d < data; ++d) {
        std::vector<std::int32_t> members;
        for (std::int32_t t = 0; t < tensor; ++t) members.push_back(rank_at(t, d, p));
        add(members, Operation::all_reduce, 16 << 20);
      }
      for (std::int32_t t = 0; t < tensor; ++t) {
        std::vector<std::int32_t> members;
        for (std::int32_t d = 0; d < data; ++d) members.push_back(rank_at(t, d, p));
        add(members, Operation::reduce_scatter, 32 << 20);
      }
    }
    for (std::int32_t p = 0; p + 1 < pipeline; ++p) {
      for (std::int32_t d = 0; d < data; ++d) {
        for (std::int32_t t = 0; t < tensor; ++t) {
          add({rank_at(t, d, p), rank_at(t, d, p + 1)}, Operation::send_recv, 16 << 20);
        }
      }
    }
    std::vector<std::int32_t> world;
    for (std::int32_t rank = 0; rank < ranks(); ++rank) world.push_back(rank);
    add(world, Operation::all_reduce, 1 << 20);
    return all;
  }

  std::vector<SlowLink> find(std::uint64_t seed) const {
    const std::vector<TransferGroup> all = groups(seed);
    const std::vector<std::string> names(all.size(), "c");
    return find_slow_links(all, names, nodes(), hosts());
  }
};

bool has(const std::vector<std::int32_t>& members, std::int32_t rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

TEST(SlowLinks, OneSlowRankIsNamed) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedGroups job{4, 4, 2};
    const auto bad = static_cast<std::int32_t>(seed * 5 % 32);
    job.slow = [&](const auto& members) { return has(members, bad) ? 2.0 : 1.0; };
    const std::vector<SlowLink> links = job.find(seed);
    ASSERT_EQ(links.size(), 1u) << seed;
    EXPECT_EQ(links[0].place, LinkPlace::rank) << seed;
    EXPECT_EQ(links[0].scope, LinkScope::any) << seed;
    EXPECT_EQ(links[0].trace_ranks, std::vector<std::int32_t>{bad}) << seed;
    EXPECT_NEAR(links[0].slowdown, 2, 0.1) << seed;
    // Its test runs on the GPUs of its host: equal links within nodes reach some 180 GB/s, those between them 45.
    EXPECT_EQ(links[0].operation, Operation::all_reduce) << seed;
    EXPECT_NEAR(links[0].expected_gbs, 180, 20) << seed;
    EXPECT_NEAR(links[0].measured_gbs, 90, 15) << seed;
    EXPECT_EQ(links[0].slow_groups, 3) << seed;  // its tensor group, its data group, its pipeline neighbour
  }
}

TEST(SlowLinks, GroupsThatAreSlowAreListed) {
  SimulatedGroups job{4, 4, 2};
  job.slow = [](const auto& members) { return has(members, 6) ? 2.0 : 1.0; };
  const std::vector<TransferGroup> all = job.groups(3);
  // Tensor index 2, data index 1, stage 0: its tensor group, its data group, its neighbour in the next stage.
  EXPECT_EQ(slow_groups(all, std::vector<std::string>(all.size(), "c"), job.nodes()),
            (std::vector<std::vector<std::int32_t>>{{2, 6, 10, 14}, {4, 5, 6, 7}, {6, 22}}));
}

TEST(SlowLinks, SlowLinkBetweenTwoNodesIsNamed) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedGroups job{4, 1, 6};  // six nodes in a pipeline
    const auto first = static_cast<std::int32_t>(seed % 5);
    job.slow = [&](const auto& members) {
      const bool both = members.front() / 4 <= first && members.back() / 4 >= first + 1;
      return both ? 1.8 : 1.0;
    };
    const std::vector<SlowLink> links = job.find(seed);
    ASSERT_EQ(links.size(), 1u) << seed;
    EXPECT_EQ(links[0].place, LinkPlace::node_pair) << seed;
    EXPECT_EQ(links[0].hosts, (std::vector<std::string>{"n" + std::to_string(first), "n" + std::to_string(first + 1)}))
        << seed;
    EXPECT_EQ(links[0].slow_groups, 4) << seed;
    EXPECT_EQ(links[0].fast_groups, 6 + 4 * 4) << seed;
  }
}

TEST(SlowLinks, NetworkCardOfOneRankIsToldFromItsGpu) {
  SimulatedGroups job{4, 4, 2};
  job.slow = [](const auto& members) {
    const bool crosses = members.front() / 4 != members.back() / 4;
    return crosses && has(members, 6) ? 3.0 : 1.0;
  };
  const std::vector<SlowLink> links = job.find(1);
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].place, LinkPlace::rank);
  EXPECT_EQ(links[0].scope, LinkScope::between_nodes);
  EXPECT_EQ(links[0].trace_ranks, std::vector<std::int32_t>{6});
  EXPECT_EQ(describe(links[0]), "rank 6 (host n1), between nodes");
}

TEST(SlowLinks, NodeWithSlowNetworkIsNamed) {
  // Of seven links between neighbouring stages two are slow, those of node 2, though not what stays within it.
  SimulatedGroups job{4, 1, 8};
  job.slow = [](const auto& members) {
    const bool crosses = members.front() / 4 != members.back() / 4;
    return crosses && (members.front() / 4 == 2 || members.back() / 4 == 2) ? 2.0 : 1.0;
  };
  const std::vector<SlowLink> links = job.find(2);
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].place, LinkPlace::node);
  EXPECT_EQ(links[0].scope, LinkScope::between_nodes);
  EXPECT_EQ(links[0].hosts, std::vector<std::string>{"n2"});
}

TEST(SlowLinks, TwoSlowLinksAreBothNamed) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SimulatedGroups job{4, 4, 2};
    job.slow = [](const auto& members) { return has(members, 3) ? 2.0 : has(members, 3 + 20) ? 1.6 : 1.0; };
    const std::vector<SlowLink> links = job.find(seed);
    ASSERT_EQ(links.size(), 2u) << seed;
    std::set<std::int32_t> named;
    for (const SlowLink& link : links) {
      EXPECT_EQ(link.place, LinkPlace::rank);
      named.insert(link.trace_ranks.begin(), link.trace_ranks.end());
    }
    EXPECT_EQ(named, (std::set<std::int32_t>{3, 23})) << seed;
    EXPECT_GE(links[0].lost_ns, links[1].lost_ns);
  }
}

TEST(SlowLinks, AGroupByItselfIsNamedAsSuch) {
  // Ranks 4 to 7 are slow among themselves and nowhere else: which link it is, nothing tells.
  SimulatedGroups job{4, 2, 2};
  job.slow = [](const auto& members) { return members == std::vector<std::int32_t>{4, 5, 6, 7} ? 2.0 : 1.0; };
  const std::vector<SlowLink> links = job.find(3);
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].place, LinkPlace::group);
  EXPECT_EQ(links[0].trace_ranks, (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(links[0].hosts, std::vector<std::string>{"n1"});
}

TEST(SlowLinks, CleanJobsNameNothing) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (const SimulatedGroups& job :
         {SimulatedGroups{4, 4, 2}, SimulatedGroups{2, 2, 4}, SimulatedGroups{8, 2, 1}, SimulatedGroups{1, 8, 2}}) {
      EXPECT_TRUE(job.find(seed).empty()) << seed;
    }
  }
}

TEST(SlowLinks, TransfersTooShortToTellSpeakNeitherForNorAgainst) {
  // The slow rank's tensor group exchanges mostly in all-gathers of 20 us, of which 20 more are within what ends of
  // all-gathers differ by anyway. Its few all-reduces, and its data group, tell.
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SimulatedGroups job{4, 2, 1};
    job.slow = [](const auto& members) { return has(members, 5) ? 2.0 : 1.0; };
    std::vector<TransferGroup> all = job.groups(seed);
    Random random(seed);
    for (const std::int32_t first : {0, 4}) {
      TransferGroup gathers;
      for (std::int32_t rank = first; rank < first + 4; ++rank) gathers.trace_ranks.push_back(rank);
      gathers.operation = Operation::all_gather;
      gathers.size_class = 160;
      gathers.uncertainty_ns = 1000;
      for (int i = 0; i < 4000; ++i) {
        const double time = 20'000 * job.slow(gathers.trace_ranks) * (1 + 0.02 * random.normal());
        ++gathers.instances;
        gathers.bytes += 1 << 20;
        gathers.transfer_ns += static_cast<Nanoseconds>(time);
        gathers.bus_bandwidth.add(static_cast<double>(1 << 20) / time);
      }
      all.push_back(std::move(gathers));
    }
    const std::vector<SlowLink> links =
        find_slow_links(all, std::vector<std::string>(all.size(), "c"), job.nodes(), job.hosts());
    ASSERT_EQ(links.size(), 1u) << seed;
    EXPECT_EQ(links[0].place, LinkPlace::rank) << seed;
    EXPECT_EQ(links[0].trace_ranks, std::vector<std::int32_t>{5}) << seed;
  }
}

TEST(SlowLinks, SlowGroupsOfAnotherKindAreNotCompared) {
  // Groups between nodes are four times slower than groups within, and no fault.
  SimulatedGroups job{2, 4, 2};
  job.gpus_per_node = 2;
  EXPECT_TRUE(job.find(1).empty());
}

TEST(SlowLinks, DifferencesBelowWhatClocksLeaveOpenAreNone) {
  SimulatedGroups job{4, 4, 2};
  job.slow = [](const auto& members) { return has(members, 5) ? 1.5 : 1.0; };
  std::vector<TransferGroup> all = job.groups(1);
  const std::vector<std::string> names(all.size(), "c");
  EXPECT_FALSE(find_slow_links(all, names, job.nodes(), job.hosts()).empty());
  for (TransferGroup& group : all) group.uncertainty_ns = 5'000'000;
  EXPECT_TRUE(find_slow_links(all, names, job.nodes(), job.hosts()).empty());
}

TEST(SlowLinks, WithoutHostsRanksAreStillNamed) {
  SimulatedGroups job{4, 4, 2};
  job.slow = [](const auto& members) { return has(members, 9) ? 2.0 : 1.0; };
  const std::vector<TransferGroup> all = job.groups(4);
  const std::vector<std::string> names(all.size(), "c");
  const std::vector<SlowLink> links = find_slow_links(all, names, {}, {});
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].trace_ranks, std::vector<std::int32_t>{9});
  EXPECT_TRUE(links[0].hosts.empty());
}

TEST(SlowLinks, OrderOfGroupsDoesNotMatter) {
  SimulatedGroups job{4, 4, 2};
  job.slow = [](const auto& members) { return has(members, 9) ? 2.0 : 1.0; };
  std::vector<TransferGroup> all = job.groups(4);
  const std::vector<std::string> names(all.size(), "c");
  const Table forward = slow_links_table(find_slow_links(all, names, job.nodes(), job.hosts()));
  std::reverse(all.begin(), all.end());
  const Table backward = slow_links_table(find_slow_links(merge_transfer_groups(all), names, job.nodes(), job.hosts()));
  EXPECT_EQ(forward.columns, backward.columns);
}

}  // namespace
}  // namespace nsys_explain::analysis
