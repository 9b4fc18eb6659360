#pragma once

#include <bitset>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "exit_agreement.hpp"
#include "nsys_explain/collectives/inference.hpp"

/// What the search for communicators that take turns on a stream works on (see share_out_turns).
namespace nsys_explain::collectives {

/// Lanes that an operation is compared with.
inline constexpr std::size_t most_neighbours = 128;

/// Members of a communicator: numbers of lanes, ascending.
using LaneSet = std::vector<std::size_t>;

struct TurnOperation {
  Nanoseconds enter_ns = 0;  ///< on the common clock
  Nanoseconds exit_ns = 0;
  Nanoseconds transfer_ns = 0;  ///< from the entry of the last of those that leave together to their exits
  std::int32_t index = -1;      ///< Arrival::index
  Operation operation = Operation::unknown;
  std::bitset<most_neighbours> witnesses;        ///< neighbours of the lane that leave one of the kind together with it
  std::bitset<most_neighbours> close_witnesses;  ///< of these, the closest
  const LaneSet* claimed = nullptr;
};

/// A lane that carries several communicators in turns.
struct TurnLane {
  std::int32_t trace_rank = -1;
  std::int32_t component = 0;
  Nanoseconds first_exit_ns = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds last_exit_ns = std::numeric_limits<Nanoseconds>::min();
  std::map<std::uint64_t, std::vector<TurnOperation>> operations;  ///< by symbol; by exit
  std::vector<std::size_t> neighbours;  ///< lanes of other trace ranks whose clocks are related
};

/// Calls visit(i, j, difference) for each of `own` with the nearest of `others`; the difference of exits is beyond
/// `expected_ns`. Both by exit.
template <typename Visit>
void for_each_nearest(const std::vector<TurnOperation>& own, const std::vector<TurnOperation>& others,
                      Nanoseconds expected_ns, Visit visit) {
  std::size_t j = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto difference_ns = [&](std::size_t at) { return others[at].exit_ns - own[i].exit_ns - expected_ns; };
    while (j + 1 < others.size() && std::abs(difference_ns(j + 1)) <= std::abs(difference_ns(j))) ++j;
    visit(i, j, difference_ns(j));
  }
}

/// By trace rank, then lane.
std::vector<TurnLane> make_turn_lanes(std::span<const SampledOperation> operations, const RoughClocks& clocks);

/// What a lane's rough clock lacks.
struct FineClock {
  RoughLine correction;
  Nanoseconds centre_ns = 0;

  Nanoseconds corrected(Nanoseconds t_ns) const {
    return t_ns - std::llround(correction.offset_ns + correction.slope * static_cast<double>(t_ns - centre_ns));
  }
};

/// Puts lanes on one clock to a fraction of a microsecond, from one good to a few: the pairs of neighbours with most
/// exits of one symbol along one line relate all. In the order of the lanes.
std::vector<FineClock> fine_clocks(const std::vector<TurnLane>& lanes, Nanoseconds centre_ns);

/// Moves lanes to that clock.
void refine_clocks(std::vector<TurnLane>& lanes, Nanoseconds centre_ns);

/// The symbols of an operation, on any lane.
std::set<std::uint64_t> symbols_of(const std::vector<TurnLane>& lanes, Operation operation);

/// Exits of one operation lie within this.
Nanoseconds exit_tolerance(Operation operation);

/// Operations of which this inference knows when members leave: all at once.
bool leaves_at_once(Operation operation);

/// Members of all-to-alls and exchanges leave early or late by habits of their own, each by up to this.
Nanoseconds largest_habit(Operation operation);

bool is_subset(const LaneSet& part, const LaneSet& whole);

/// Communicators of one kind, that is, of one size and distance between members: the one of each lane. What a program
/// does in one, it does in all of a kind.
using SetOfLane = std::map<std::size_t, const LaneSet*>;
using Families = std::map<std::pair<std::size_t, std::size_t>, SetOfLane>;  ///< by size and distance

/// Lanes that have two communicators of a kind are left out. Points to the sets.
Families families_of(const std::vector<std::vector<LaneSet>>& sets_of_lane);

/// Claims the all-gathers of lanes whose communicators are known. Their members leave when they like, but not before
/// the last one is there, and the first soon after it could: what an all-gather takes from then on is much the same
/// every time in the right communicators, and differs by what others waited for in wrong ones. Those of a symbol go to
/// the communicators of one kind or to none.
void claim_gathers(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane);

/// Looks again at what was claimed. Sets of lanes that something holds in step may be several communicators: those are
/// claimed instead, or none where it cannot be told; and operations that waited for a lane that is no member are of
/// none. `slices` holds the sets that claims then point to.
void review_claims(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane,
                   std::set<LaneSet>& slices);

/// Claims the broadcasts of lanes whose communicators are known. A receiver that is there before the root waits and
/// leaves together with it; one that comes later waits for nobody. All broadcasts of a symbol go to the communicators
/// of one kind, the one whose members did so.
void claim_broadcasts(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane);

}  // namespace nsys_explain::collectives
