#include "lane_pairs.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "exit_agreement.hpp"

namespace nsys_explain::collectives {
namespace {

/// Stands for all lanes of a trace rank together: where each lane is too regular or too short, their interplay may
/// tell.
constexpr std::uint64_t all_lanes = std::numeric_limits<std::uint64_t>::max();

}  // namespace

UnnamedLanes unnamed_lanes(std::span<const SampledOperation> by_exit) {
  UnnamedLanes sequences;
  for (const SampledOperation& operation : by_exit) {
    if (names_communicator(operation.lane) || !may_end_together(operation.operation)) continue;
    for (const std::uint64_t lane : {operation.lane, all_lanes})
      append_operation(sequences[lane], operation.symbol, operation.enter_ns, operation.exit_ns);
  }
  return sequences;
}

std::vector<LanePair> lane_pairs(const UnnamedLanes& members, const UnnamedLanes& references) {
  std::vector<std::tuple<bool, double, std::uint64_t, std::uint64_t>> ranked;
  for (const auto& [m, member] : members) {
    for (const auto& [r, reference] : references) {
      const bool together = m == all_lanes;
      if (together != (r == all_lanes)) continue;
      const std::size_t shorter = std::min(member.symbols.size(), reference.symbols.size());
      const std::size_t longer = std::max(member.symbols.size(), reference.symbols.size());
      const double alike = static_cast<double>(shorter) / static_cast<double>(longer);
      if (shorter < fewest_sharp || alike < agreeing_share) continue;
      ranked.emplace_back(together, -alike * static_cast<double>(member.exit_ns.back() - member.exit_ns.front()), m, r);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<LanePair> pairs;
  for (const auto& [together, rank, m, r] : ranked)
    pairs.push_back({&members.at(m), &references.at(r), together ? least_coupled_share : least_sharp_share});
  return pairs;
}

}  // namespace nsys_explain::collectives
