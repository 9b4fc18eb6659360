#include "collectives/lane_pairs.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "collectives/exit_agreement.hpp"
#include "collectives/lanes.hpp"

namespace nsys_explain::collectives {

UnnamedLanes unnamed_lanes(std::span<const SampledOperation> by_exit,
                           std::span<const std::array<std::uint64_t, 2>> places,
                           std::span<const std::array<std::uint64_t, 2>> sides) {
  UnnamedLanes sequences;
  for (std::size_t i = 0; i < by_exit.size(); ++i) {
    const SampledOperation& operation = by_exit[i];
    if (names_communicator(operation.lane) || !may_end_together(operation.operation)) continue;
    for (const LanePart& part : {LanePart{LanePart::Kind::lane, operation.lane, 0},
                                 LanePart{LanePart::Kind::symbol, operation.lane, operation.symbol},
                                 LanePart{LanePart::Kind::all_lanes, 0, 0}})
      append_operation(sequences[part], operation.symbol, operation.enter_ns, operation.exit_ns);
    if (!ends_sharply(operation.operation)) continue;
    const auto append = [&](LanePart::Kind kind, std::uint64_t place) {
      if (place != 0)
        append_operation(sequences[{kind, operation.lane, place}], operation.symbol, operation.enter_ns,
                         operation.exit_ns);
    };
    for (const std::uint64_t place : std::set<std::uint64_t>(places[i].begin(), places[i].end()))
      append(LanePart::Kind::place, place);
    for (const std::uint64_t side : sides[i]) append(LanePart::Kind::side, side);
  }
  // What is too little to tell anything; and of a lane with one symbol that is the lane once more.
  std::erase_if(sequences, [&](const auto& entry) {
    const auto& [part, sequence] = entry;
    return sequence.symbols.size() < fewest_sharp ||
           (part.kind == LanePart::Kind::symbol &&
            sequence.symbols.size() == sequences.at({LanePart::Kind::lane, part.lane, 0}).symbols.size());
  });
  return sequences;
}

std::vector<LanePair> lane_pairs(const UnnamedLanes& members, const UnnamedLanes& references) {
  std::vector<std::tuple<LanePart::Kind, double, LanePart, LanePart>> ranked;
  for (const auto& [m, member] : members) {
    for (const auto& [r, reference] : references) {
      if (m.kind != r.kind || m.symbol != r.symbol) continue;
      const std::size_t shorter = std::min(member.symbols.size(), reference.symbols.size());
      const std::size_t longer = std::max(member.symbols.size(), reference.symbols.size());
      const double alike = static_cast<double>(shorter) / static_cast<double>(longer);
      if (shorter < fewest_sharp || alike < agreeing_share) continue;
      ranked.emplace_back(m.kind, -alike * static_cast<double>(member.exit_ns.back() - member.exit_ns.front()), m, r);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<LanePair> pairs;
  for (const auto& [kind, rank, m, r] : ranked) {
    const bool is_one_lane = kind != LanePart::Kind::all_lanes;
    pairs.push_back({kind, &members.at(m), &references.at(r), is_one_lane ? least_sharp_share : least_coupled_share});
  }
  return pairs;
}

}  // namespace nsys_explain::collectives
