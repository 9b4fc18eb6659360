#include "pipeline/match/owned_rounds.hpp"

#include "pipeline/tool_rank/outgoing.hpp"

namespace nsys_explain::pipeline {

OwnedRounds plan_owned_rounds(const CrossRank& cross) {
  OwnedRounds owned;
  std::size_t count = records_per_round;
  for (std::size_t b = 0; b < cross.blocks.size(); ++b) {
    const std::vector<Instance>& instances = cross.blocks[b].instances;
    if (cross.units[cross.owned[b]].at_reader) {
      owned.at_reader.push_back({b, 0, instances.size()});
      continue;
    }
    for (std::size_t i = 0; i < instances.size(); ++i) {
      if (count >= records_per_round) {
        owned.rounds.emplace_back();
        count = 0;
      }
      std::vector<Piece>& round = owned.rounds.back();
      if (round.empty() || round.back().block != b) round.push_back({b, i, i});
      ++round.back().end;
      count += static_cast<std::size_t>(instances[i].arrivals);
    }
  }
  return owned;
}

}  // namespace nsys_explain::pipeline
