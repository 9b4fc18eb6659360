#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "collectives/gather_assumptions.hpp"
#include "collectives/robust.hpp"
#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

/// Gives operations to the communicators of a kind, but for those that took another time than most, if they are few.
void claim_usual(std::vector<TurnLane>& lanes, std::uint64_t symbol, const Gathers& gathers,
                 const Assumption& assumed) {
  constexpr double least_usual = 0.8;
  constexpr Nanoseconds widths_before = 4, widths_after = 10;  // members leave late now and then, and never early
  const std::optional<Range> middle = transfers(gathers, assumed);
  if (!middle) return;
  const Range usual{middle->first_ns - widths_before * middle->width_ns(),
                    middle->last_ns + widths_after * middle->width_ns()};
  std::vector<std::pair<TurnOperation*, const LaneSet*>> claims;
  std::size_t asked = 0;
  for (const auto& [l, set] : *assumed.kind) {
    const auto of_lane = gathers.find(l);
    if (of_lane == gathers.end()) continue;
    asked += of_lane->second.size();
    for (const std::size_t i : of_lane->second) {
      const Met& met = assumed.met.at(l)[i];
      const Nanoseconds took_ns = met.first_exit_ns - met.last_enter_ns;
      if (usual.first_ns <= took_ns && took_ns <= usual.last_ns)
        claims.emplace_back(&lanes[l].operations.at(symbol)[i], set);
    }
  }
  if (static_cast<double>(claims.size()) < least_usual * static_cast<double>(asked)) return;
  for (const auto& [operation, set] : claims) operation->claimed = set;
}

/// The operations of a symbol by their place in the program; 0: not known.
std::map<std::uint64_t, Gathers> by_place(const std::vector<TurnLane>& lanes, std::uint64_t symbol) {
  std::map<std::uint64_t, Gathers> places;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const auto found = lanes[l].operations.find(symbol);
    if (found == lanes[l].operations.end()) continue;
    for (std::size_t i = 0; i < found->second.size(); ++i) places[found->second[i].place][l].push_back(i);
  }
  return places;
}

void add(Gathers& sum, const Gathers& gathers) {
  for (const auto& [l, operations] : gathers) {
    std::vector<std::size_t>& of_lane = sum[l];
    of_lane.insert(of_lane.end(), operations.begin(), operations.end());
  }
}

std::size_t count(const Gathers& gathers) {
  return std::accumulate(gathers.begin(), gathers.end(), std::size_t{0},
                         [](std::size_t sum, const auto& of_lane) { return sum + of_lane.second.size(); });
}

/// Operations of a symbol that one assumption explains; nullptr: none does.
struct Explained {
  const Gathers* gathers = nullptr;
  const Assumption* by = nullptr;
  double width_ns = 0;  ///< of what they take
};

/// Twice the log of the likelihood ratio.
constexpr double sure = 30, nearly_sure = 15, likely = 5;

Explained explained_by(const Gathers& gathers, const Assumption* assumed) {
  return {&gathers, assumed, static_cast<double>(transfers(gathers, *assumed)->width_ns())};
}

Explained explained(const Gathers& gathers, const std::vector<Assumption>& all, double least_evidence) {
  const Assumption* found = explaining(gathers, all, least_evidence);
  return found == nullptr ? Explained{&gathers, nullptr, 0} : explained_by(gathers, found);
}

std::size_t count_explained(std::span<const Explained> places) {
  return std::accumulate(places.begin(), places.end(), std::size_t{0}, [](std::size_t sum, const Explained& place) {
    return sum + (place.by == nullptr ? 0 : count(*place.gathers));
  });
}

/// The one that explains nearly all that is explained; nullptr: several do.
const Assumption* prevailing(std::span<const Explained> places) {
  constexpr double least_share = 0.9;
  std::map<const Assumption*, std::size_t> operations_of;
  for (const Explained& place : places) {
    if (place.by != nullptr) operations_of[place.by] += count(*place.gathers);
  }
  const auto explained = static_cast<double>(count_explained(places));
  for (const auto& [assumed, operations] : operations_of) {
    if (static_cast<double>(operations) >= least_share * explained) return assumed;
  }
  return nullptr;
}

/// Whether what most operations take at least is the same.
bool is_same(Nanoseconds one_ns, double other_ns) {
  constexpr double same = 0.01;
  return std::abs(static_cast<double>(one_ns) - other_ns) <= same * other_ns;
}

/// What operations of places take at least, if they are of some communicators; of those where it is known.
std::vector<Nanoseconds> least_times(std::span<const Explained> places, const Assumption& assumed) {
  std::vector<Nanoseconds> least_ns;
  for (const Explained& place : places) {
    if (const std::optional<Range> range = transfers(*place.gathers, assumed)) least_ns.push_back(range->first_ns);
  }
  return least_ns;
}

/// Whether operations took, if they are of the communicators that explain all places which tell, as long as those do.
bool takes_as_long(const Gathers& gathers, const Assumption& assumed, std::span<const Explained> places) {
  constexpr std::size_t fewest_places = 3;
  const std::optional<Range> its = transfers(gathers, assumed);
  std::vector<Explained> told;
  std::copy_if(places.begin(), places.end(), std::back_inserter(told),
               [](const Explained& place) { return place.by != nullptr; });
  const std::vector<Nanoseconds> told_ns = least_times(told, assumed);
  return its && told_ns.size() >= fewest_places && std::all_of(told_ns.begin(), told_ns.end(), [&](Nanoseconds one_ns) {
           return is_same(its->first_ns, static_cast<double>(one_ns));
         });
}

/// Whether what operations take varies more at every place if they are of communicators that are not known.
bool varies_more(std::span<const Explained> places, const Assumption& unknown, const Assumption& assumed) {
  return unknown.kind == nullptr && std::all_of(places.begin(), places.end(), [&](const Explained& place) {
           const std::optional<Range> its = transfers(*place.gathers, unknown),
                                      own = transfers(*place.gathers, assumed);
           return !its || !own || its->width_ns() > own->width_ns();
         });
}

/// Whether operations of all places take the same if they are of these communicators, and of no others nearly so.
bool take_the_same(std::span<const Explained> places, const Assumption& assumed, const std::vector<Assumption>& all) {
  constexpr std::size_t fewest_places = 5;
  const auto relative_width = [&](const Assumption& of) -> std::optional<double> {
    const std::vector<Nanoseconds> least_ns = least_times(places, of);
    if (least_ns.size() < fewest_places) return std::nullopt;
    const auto [least, most] = std::minmax_element(least_ns.begin(), least_ns.end());
    return static_cast<double>(*most - *least) / static_cast<double>(std::max<Nanoseconds>(1, *least));
  };
  constexpr double same = 0.01, exact = 0.001;
  const std::optional<double> own = relative_width(assumed);
  return own && *own <= same && std::all_of(all.begin(), all.end(), [&](const Assumption& other) {
           const std::optional<double> its = relative_width(other);
           return &other == &assumed || (its && *its >= far_worse * std::max(exact, *own)) ||
                  varies_more(places, other, assumed);
         });
}

/// Whose operations those of all places are that tell; nullptr: of several, or none tells.
const Assumption* only_told(std::span<const Explained> places) {
  std::set<const Assumption*> told;
  for (const Explained& place : places) {
    if (place.by != nullptr) told.insert(place.by);
  }
  return told.size() == 1 ? *told.begin() : nullptr;
}

/// Places that cannot tell, asked together: what is sure, or likely if that is what all others say that do as much, or
/// what they say if it takes as long here as there, or nearly sure if no place says anything.
Explained explained_together(const Gathers& left, const std::vector<Assumption>& all, std::span<const Explained> places,
                             std::span<const Explained> alike) {
  const bool is_any_told =
      std::any_of(places.begin(), places.end(), [](const Explained& place) { return place.by != nullptr; });
  if (!is_any_told) return explained(left, all, nearly_sure);
  const Explained result = explained(left, all, sure);
  const Assumption* only = only_told(places);
  if (result.by != nullptr || only == nullptr || only_told(alike) == nullptr) return result;
  const Explained weaker = explained(left, all, likely);
  if (weaker.by == only) return weaker;
  const bool is_theirs = takes_as_long(left, *only, alike) || take_the_same(alike, *only, all);
  return is_theirs && transfers(left, *only) ? explained_by(left, only) : result;
}

/// Places of which operations take about as long at least, if they are of these communicators. Where there are too few
/// to say how long, or it is not known where they lie, they belong to the others if those are alike, or else to all
/// that tell.
std::vector<std::vector<Explained>> by_size(std::span<const Explained> places, const Assumption& assumed,
                                            const Gathers* unknown) {
  constexpr double alike = 1.25;
  std::vector<std::pair<double, Explained>> sized;
  std::vector<Explained> unsized;
  for (const Explained& place : places) {
    const std::optional<Range> range = place.gathers == unknown ? std::nullopt : transfers(*place.gathers, assumed);
    if (range)
      sized.emplace_back(static_cast<double>(range->first_ns), place);
    else
      unsized.push_back(place);
  }
  std::stable_sort(sized.begin(), sized.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::vector<Explained>> sizes;
  double last_ns = 0;
  for (const auto& [took_ns, place] : sized) {
    if (sizes.empty() || took_ns > alike * last_ns) sizes.emplace_back();
    sizes.back().push_back(place);
    last_ns = took_ns;
  }
  if (sizes.size() != 1) {
    sizes.emplace_back();
    std::copy_if(places.begin(), places.end(), std::back_inserter(sizes.back()),
                 [](const Explained& place) { return place.by != nullptr; });
  }
  sizes.back().insert(sizes.back().end(), unsized.begin(), unsized.end());
  return sizes;
}

/// Of the places that cannot tell, those that are alike as one. Points into `lefts`.
std::vector<Explained> explained_by_size(std::span<const Explained> places, const std::vector<Assumption>& all,
                                         const Gathers* unknown, std::deque<Gathers>& lefts) {
  const auto nobody = std::find_if(all.begin(), all.end(), [](const Assumption& assumed) {
    return assumed.kind == nullptr && assumed.sets.begin()->second.size() == 1;
  });
  const Assumption* only = only_told(places);
  const Assumption& assumed = only != nullptr ? *only : nobody != all.end() ? *nobody : all.front();
  const std::vector<std::vector<Explained>> sizes = by_size(places, assumed, unknown);
  std::vector<Explained> result;
  for (const std::vector<Explained>& alike : sizes) {
    Gathers& left = lefts.emplace_back();
    for (const Explained& place : alike) {
      if (place.by == nullptr) add(left, *place.gathers);
    }
    result.push_back(explained_together(left, all, places, alike));
  }
  // Where no place tells by itself, what those of one size tell together may tell of the others.
  const Assumption* together = only_told(result);
  if (count_explained(places) > 0 || together == nullptr) return result;
  std::vector<Explained> told;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    if (result[s].by == nullptr) continue;
    for (const Explained& place : sizes[s]) told.push_back({place.gathers, together, 0});
  }
  for (Explained& left : result) {
    if (left.by == nullptr && takes_as_long(*left.gathers, *together, told))
      left = explained_by(*left.gathers, together);
  }
  return result;
}

/// How well a time is one that operations of these communicators take: what disturbs them makes them longer.
enum class Size : std::uint8_t { other, near, known };

Size size_of(Nanoseconds took_ns, std::span<const Nanoseconds> usual_ns) {
  constexpr double longer = 0.1, shorter = 0.05, near = 0.25;
  Size best = Size::other;
  for (const Nanoseconds one_ns : usual_ns) {
    const double off = static_cast<double>(took_ns - one_ns) / static_cast<double>(one_ns);
    const bool is_known = -shorter <= off && off <= longer;
    best = std::max(best, is_known ? Size::known : std::abs(off) <= near ? Size::near : Size::other);
  }
  return best;
}

/// How long operations take of which it is known whose they are.
using UsualTimes = std::map<const Assumption*, std::vector<Nanoseconds>>;

UsualTimes usual_times(std::span<const Explained> told) {
  UsualTimes usual_ns;
  for (const Explained& place : told) {
    const Nanoseconds middle_ns = transfers(*place.gathers, *place.by)->middle_ns();
    if (middle_ns > 0) usual_ns[place.by].push_back(middle_ns);
  }
  return usual_ns;
}

/// Whether another one explains some places, more than chance makes, that what prevails explains far worse, or that
/// would be of no size of its own.
bool has_exceptions(std::span<const Explained> places, const Assumption& most) {
  constexpr double least_share = 0.03;
  std::vector<Explained> of_most;
  std::copy_if(places.begin(), places.end(), std::back_inserter(of_most),
               [&](const Explained& place) { return place.by == &most; });
  const std::vector<Nanoseconds> sizes_ns = usual_times(of_most)[&most];
  std::size_t exceptions = 0;
  for (const Explained& place : places) {
    if (place.by == nullptr || place.by == &most) continue;
    const std::optional<Range> its = transfers(*place.gathers, most);
    if (!its || far_worse * place.width_ns <= static_cast<double>(its->width_ns()) ||
        size_of(its->middle_ns(), sizes_ns) == Size::other)
      exceptions += count(*place.gathers);
  }
  return static_cast<double>(exceptions) >= least_share * static_cast<double>(count_explained(places));
}

/// What the same explains as a place leaves unexplained of most places of its lanes, as most of its operations have it:
/// members of some communicators leave late more often than those of others.
double usual_width_ns(const Explained& place, std::span<const Explained> places) {
  std::vector<double> of_operations_ns;
  for (const auto& [l, operations] : *place.gathers) {
    std::vector<double> widths_ns;
    for (const Explained& other : places) {
      if (other.by == place.by && other.gathers->contains(l)) widths_ns.push_back(other.width_ns);
    }
    of_operations_ns.insert(of_operations_ns.end(), operations.size(), median(std::move(widths_ns)));
  }
  return median(std::move(of_operations_ns));
}

/// Whether the operations of a place are about as well explained as usual, or take as long as those of most places that
/// the same explains: what some members leave late shows by its width only.
bool is_usual(const Explained& place, std::span<const Explained> places, double times) {
  std::vector<double> times_ns;
  for (const Explained& other : places) {
    if (other.by == place.by) times_ns.push_back(static_cast<double>(transfers(*other.gathers, *other.by)->first_ns));
  }
  return place.width_ns <= times * usual_width_ns(place, places) ||
         is_same(transfers(*place.gathers, *place.by)->first_ns, median(std::move(times_ns)));
}

/// Of these, what is to be believed. Where the program does operations in communicators of several kinds, places tell
/// by themselves, and well; else those that cannot, or not what all others do, are asked together: `lefts`.
std::vector<Explained> believed(std::vector<Explained> places, std::span<const Explained> lefts) {
  const std::size_t single = places.size();
  places.insert(places.end(), lefts.begin(), lefts.end());
  const Assumption* most = prevailing(places);
  const bool are_several = most == nullptr || has_exceptions(places, *most);
  std::vector<Explained> result;
  for (std::size_t p = 0; p < places.size(); ++p) {
    if (places[p].by == nullptr || !is_usual(places[p], places, are_several ? 2 : far_worse)) continue;
    if (are_several ? p < single : places[p].by == most) result.push_back(places[p]);
  }
  return result;
}

/// The communicator in which an operation, if it is its own, took as long as what is known to be, where it would have
/// been of no such size in all others; nullptr: none, or several.
const LaneSet* told_by_size(const UsualTimes& usual_ns, std::size_t l, std::size_t i) {
  const LaneSet* only = nullptr;
  std::size_t possible = 0;
  for (const auto& [assumed, sizes_ns] : usual_ns) {
    if (!assumed->sets.contains(l)) continue;
    const Met& met = assumed->met.at(l)[i];
    const Nanoseconds took_ns = met.first_exit_ns - met.last_enter_ns;
    const Size size = size_of(took_ns, sizes_ns);
    // Where a member lost a record, or what another one left at the time was not the same one, it is not known how long
    // this took.
    const bool is_unknown = assumed->is_complete(l, i) ? took_ns < 0 : 2 * met.members > assumed->sets.at(l).size();
    possible += size == Size::other && !is_unknown ? 0 : 1;
    if (size == Size::known && assumed->is_complete(l, i)) only = assumed->kind->at(l);
  }
  return possible == 1 ? only : nullptr;
}

/// Whether the operations of a place would be the only ones of their size in these communicators, and be of a usual one
/// in others: as these are held in step with those, chance has decided.
bool is_of_others_size(const Explained& place, const UsualTimes& usual_ns) {
  const auto count_alike = [&](const Assumption& assumed, Size least) {
    const auto sizes_ns = usual_ns.find(&assumed);
    const std::optional<Range> range = transfers(*place.gathers, assumed);
    if (sizes_ns == usual_ns.end() || !range) return std::ptrdiff_t{0};
    return std::count_if(sizes_ns->second.begin(), sizes_ns->second.end(), [&](const Nanoseconds& one_ns) {
      return size_of(range->middle_ns(), {&one_ns, 1}) >= least;
    });
  };
  constexpr std::ptrdiff_t itself = 1;
  if (count_alike(*place.by, Size::near) > itself) return false;
  return std::any_of(usual_ns.begin(), usual_ns.end(), [&](const auto& other) {
    return other.first != place.by && count_alike(*other.first, Size::known) > itself;
  });
}

/// Whose operations those of a place are that take, if they are theirs, as long as what is known to be, and would be of
/// no such size in any others of which some is known; nullptr: nobody's, or several may be meant.
const Assumption* told_by_size(const UsualTimes& usual_ns, const Gathers& gathers) {
  const Assumption* only = nullptr;
  std::size_t possible = 0;
  for (const auto& [assumed, sizes_ns] : usual_ns) {
    const std::optional<Range> range = transfers(gathers, *assumed);
    const Size size = range ? size_of(range->middle_ns(), sizes_ns) : Size::near;
    possible += size == Size::other ? 0 : 1;
    if (size == Size::known) only = assumed;
  }
  return possible == 1 ? only : nullptr;
}

/// Places that cannot tell by themselves, where their size does, of what places tell, or those that cannot `together`.
void add_told_by_size(std::span<const Explained> places, std::span<const Explained> together, const Gathers* unknown,
                      std::vector<Explained>& told) {
  std::vector<Explained> sized = told;
  std::copy_if(together.begin(), together.end(), std::back_inserter(sized),
               [](const Explained& alike) { return alike.by != nullptr; });
  const UsualTimes usual_ns = usual_times(sized);
  if (usual_ns.size() < 2) return;  // nothing to tell a size from
  for (const Explained& place : places) {
    if (place.by != nullptr || place.gathers == unknown) continue;
    if (const Assumption* by = told_by_size(usual_ns, *place.gathers)) told.push_back(explained_by(*place.gathers, by));
  }
}

/// Claims of operations of a symbol, by lane and operation; nullptr: none.
using Claims = std::map<std::size_t, std::vector<const LaneSet*>>;

/// Whether most members, in what they left at the time, say the same of an operation, and none says anything else.
bool is_agreed(const std::vector<TurnLane>& lanes, std::uint64_t symbol, const Claims& claims, std::size_t l,
               std::size_t i) {
  const LaneSet& set = *claims.at(l)[i];
  const Nanoseconds exit_ns = lanes[l].operations.at(symbol)[i].exit_ns;
  std::size_t agreeing = 0;
  for (const std::size_t member : set) {
    const auto own = claims.find(member);
    if (own == claims.end()) continue;
    const std::vector<TurnOperation>& operations = lanes[member].operations.at(symbol);
    const auto nearest = static_cast<std::size_t>(&nearest_exit(operations, exit_ns) - operations.data());
    if (own->second[nearest] == nullptr) continue;
    if (*own->second[nearest] != set) return false;
    ++agreeing;
  }
  return 5 * agreeing > 3 * set.size();
}

/// Claims what is left by how long it took, where members agree.
void claim_by_size(std::vector<TurnLane>& lanes, std::uint64_t symbol, std::span<const Explained> told) {
  const UsualTimes usual_ns = usual_times(told);
  if (usual_ns.size() < 2) return;  // nothing to tell a size from
  Claims claims;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const auto operations = lanes[l].operations.find(symbol);
    if (operations == lanes[l].operations.end()) continue;
    for (std::size_t i = 0; i < operations->second.size(); ++i) {
      const LaneSet* claimed = operations->second[i].claimed;
      claims[l].push_back(claimed != nullptr ? claimed : told_by_size(usual_ns, l, i));
    }
  }
  for (const auto& [l, of_lane] : claims) {
    std::vector<TurnOperation>& operations = lanes[l].operations.at(symbol);
    for (std::size_t i = 0; i < of_lane.size(); ++i) {
      if (of_lane[i] != nullptr && operations[i].claimed == nullptr && is_agreed(lanes, symbol, claims, l, i))
        operations[i].claimed = of_lane[i];
    }
  }
}

}  // namespace

void claim_gathers(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane) {
  const Families families = families_of(sets_of_lane);
  for (const std::uint64_t symbol : symbols_of(lanes, Operation::all_gather)) {
    const std::vector<Assumption> all = assumptions_of(lanes, symbol, families);
    const std::map<std::uint64_t, Gathers> by_places = by_place(lanes, symbol);
    const auto found = by_places.find(0);
    const Gathers* unknown = found == by_places.end() ? nullptr : &found->second;
    std::vector<Explained> places;
    for (const auto& [place, gathers] : by_places)
      places.push_back(place == 0 ? Explained{&gathers, nullptr, 0} : explained(gathers, all, sure));
    std::deque<Gathers> lefts;
    const std::vector<Explained> together = explained_by_size(places, all, unknown, lefts);
    std::vector<Explained> told = believed(places, together);
    const UsualTimes usual_ns = usual_times(told);
    std::erase_if(told, [&](const Explained& place) { return is_of_others_size(place, usual_ns); });
    add_told_by_size(places, together, unknown, told);
    for (const Explained& place : told) claim_usual(lanes, symbol, *place.gathers, *place.by);
    claim_by_size(lanes, symbol, told);
  }
}

void withdraw_unmet_gathers(std::vector<TurnLane>& lanes) {
  std::vector<TurnOperation*> unmet;
  for (const std::uint64_t symbol : symbols_of(lanes, Operation::all_gather)) {
    const Nanoseconds together_ns = least_transfer(lanes, symbol);
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      const auto operations = lanes[l].operations.find(symbol);
      if (operations == lanes[l].operations.end()) continue;
      for (TurnOperation& operation : operations->second) {
        if (operation.claimed != nullptr && !is_met_by_most(lanes, l, symbol, operation, together_ns))
          unmet.push_back(&operation);
      }
    }
  }
  for (TurnOperation* operation : unmet) operation->claimed = nullptr;
}

}  // namespace nsys_explain::collectives
