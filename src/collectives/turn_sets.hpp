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

#include "collectives/exit_agreement.hpp"
#include "collectives/inference.hpp"

/// What the search for communicators that take turns on a stream works on (see share_out_turns).
namespace nsys_explain::collectives {

/// Lanes that an operation is compared with.
inline constexpr std::size_t most_neighbours = 128;

/// Members of a communicator: numbers of lanes, ascending.
using LaneSet = std::vector<std::size_t>;

/// Neighbours of a lane.
using Witnesses = std::bitset<most_neighbours>;

struct TurnOperation {
  Nanoseconds enter_ns = 0;  ///< on the common clock
  Nanoseconds exit_ns = 0;
  Nanoseconds transfer_ns = 0;        ///< from the entry of the last of those that leave together to their exits
  Nanoseconds usual_transfer_ns = 0;  ///< of those of its size; 0: not known
  std::int32_t index = -1;            ///< Arrival::index
  Operation operation = Operation::unknown;
  std::uint64_t place = 0;  ///< in the program (see program_places)
  bool is_placed_by_others = false;
  Witnesses witnesses;        ///< those that leave one of the kind together with it
  Witnesses close_witnesses;  ///< of these, the closest
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

  /// Whether it was captured at the time.
  bool covers(Nanoseconds exit_ns) const { return first_exit_ns <= exit_ns && exit_ns <= last_exit_ns; }
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

/// Gives operations that are not claimed, and whose place in the program is not known, the one where all others are
/// that do the like at the time, if it may be there. Lanes on one clock.
void place_by_others(std::vector<TurnLane>& lanes);

/// The symbols of an operation, on any lane.
std::set<std::uint64_t> symbols_of(const std::vector<TurnLane>& lanes, Operation operation);

/// Exits of one operation lie within this.
Nanoseconds exit_tolerance(Operation operation);

/// Operations of which this inference knows when members leave: all at once.
bool leaves_at_once(Operation operation);

/// Members of all-to-alls and exchanges leave early or late by habits of their own, each by up to this.
Nanoseconds largest_habit(Operation operation);

bool contains(const std::vector<LaneSet>& sets, const LaneSet& set);

bool is_subset(const LaneSet& part, const LaneSet& whole);

std::size_t shared_members(const LaneSet& a, const LaneSet& b);

/// Communicators of one kind are those of one size and distance between members: what a program does in one, it does in
/// all of a kind.
using Kind = std::pair<std::size_t, std::size_t>;  ///< size and distance
Kind kind_of(const LaneSet& set);
bool is_evenly_spaced(const LaneSet& set);

/// The communicator of a kind of each lane.
using SetOfLane = std::map<std::size_t, const LaneSet*>;
using Families = std::map<Kind, SetOfLane>;

/// Lanes that have two communicators of a kind are left out. Points to the sets.
Families families_of(const std::vector<std::vector<LaneSet>>& sets_of_lane);

/// Whether the communicators of one kind are parts of those of another one, where both are known.
bool are_parts(const SetOfLane& parts, const SetOfLane& wholes);

/// The kinds of which half of the lanes that do operations of a symbol have a communicator, or more: what a program
/// does, all do in theirs.
Families held_by_many(const Families& families, const std::vector<TurnLane>& lanes, std::uint64_t symbol);

/// Claims the all-gathers of lanes whose communicators are known, by the place in the program where they are done: for
/// the kind of communicators that explains when they could be left (see gather_assumptions), or none.
void claim_gathers(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane);

/// Looks again at what was claimed. Sets of lanes that something holds in step may be several communicators: those are
/// claimed instead, or none where it cannot be told; and operations that waited for a lane that is no member are of
/// none. `slices` holds the sets that claims then point to.
void review_claims(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane,
                   std::set<LaneSet>& slices);

/// What a program does at a place, in one size, is done in communicators of one kind, whoever does it: claims that
/// differ from nearly all others there are taken back, or all if they are at odds, and where nearly all are claimed, so
/// is the rest. Where sizes that tell a kind tell only one, what may be of it is claimed for no other, whatever its
/// size.
void agree_by_place(std::vector<TurnLane>& lanes);

/// Takes claims of all-gathers back where most members left something else at the time, or something that this lane
/// left another one with: the place in the program may be mistaken, and a size be one by chance.
void withdraw_unmet_gathers(std::vector<TurnLane>& lanes);

/// Claims the broadcasts of lanes whose communicators are known. A receiver that is there before the root waits and
/// leaves together with it; one that comes later waits for nobody. All broadcasts of a symbol go to the communicators
/// of one kind, the one whose members did so.
void claim_broadcasts(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane);

/// Claims the reductions of lanes whose communicators are known. Only a root waits, for the last one: all reductions of
/// a symbol go to the communicators of the one kind that explains how long roots waited, as far as that proves one.
void claim_reductions(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane);

}  // namespace nsys_explain::collectives
