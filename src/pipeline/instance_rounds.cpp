#include "instance_rounds.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Units [first, end) whose arrivals travel to rank 0 together.
struct Round {
  std::size_t first = 0, end = 0;
};

std::vector<Round> plan_rounds(const CrossRank& cross) {
  std::vector<Round> rounds;
  std::int64_t rows = 0;
  for (std::size_t u = 0; u < cross.units.size(); ++u) {
    const collectives::MatchUnit& unit = cross.units[u];
    const auto members = cross.communicators[static_cast<std::size_t>(unit.communicator)].trace_ranks.size();
    if (rounds.empty() || rows > arrivals_per_round) {
      rounds.push_back({u, u});
      rows = 0;
    }
    rounds.back().end = u + 1;
    rows += (unit.end_position - unit.first_position) * static_cast<std::int64_t>(members);
  }
  return rounds;
}

}  // namespace

void gather_instances(const exchange::Communicator& communicator, const CrossRank& cross,
                      std::span<const std::int64_t> first_instance,
                      const std::function<void(const InstanceRound&)>& use) {
  std::size_t next_owned = 0;
  for (const Round& round : plan_rounds(cross)) {
    InstanceRound mine;
    for (; next_owned < cross.owned.size() && cross.owned[next_owned] < round.end; ++next_owned) {
      const MatchedBlock& block = cross.blocks[next_owned];
      for (const Instance& instance : block.instances) {
        mine.instances.push_back({block.communicator, 0, instance});
        const std::int64_t number = first_instance[static_cast<std::size_t>(block.communicator)] + instance.sequence;
        for (std::int64_t a = 0; a < instance.arrivals; ++a) {
          mine.arrivals.push_back({number, block.arrivals[static_cast<std::size_t>(instance.first_arrival + a)]});
        }
      }
    }
    // Owners hold consecutive units in rank order, so what arrives is in order already.
    use({communicator.gather(std::span<const InstanceRow>(mine.instances)).values,
         communicator.gather(std::span<const ArrivalRow>(mine.arrivals)).values});
  }
}

}  // namespace nsys_explain::pipeline
