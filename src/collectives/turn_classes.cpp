#include "collectives/turn_classes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "collectives/member_meetings.hpp"

namespace nsys_explain::collectives {
namespace {

/// How often operations at one place of the program met another lane.
struct MeetingsAtPlace {
  double covered = 0, met = 0;

  bool is_enough() const { return covered >= fewest_alike; }
};

MeetingsAtPlace sum_of(std::span<const MeetingsAtPlace> places) {
  MeetingsAtPlace sum;
  for (const MeetingsAtPlace& at : places) {
    if (!at.is_enough()) continue;
    sum.covered += at.covered;
    sum.met += at.met;
  }
  return sum;
}

/// By how many standard deviations these differ more than chance explains.
double differ_by(std::span<const MeetingsAtPlace> places) {
  const MeetingsAtPlace all = sum_of(places);
  const auto asked = std::count_if(places.begin(), places.end(), [](const auto& at) { return at.is_enough(); });
  if (asked < 2 || all.met == 0 || all.met == all.covered) return 0;
  const double rate = all.met / all.covered;
  double chi_square = 0;
  for (const MeetingsAtPlace& at : places) {
    if (!at.is_enough()) continue;
    const double more = at.met - at.covered * rate;
    chi_square += more * more / (at.covered * rate * (1 - rate));
  }
  const auto freedom = static_cast<double>(asked - 1);
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

/// The members of a class whose places are known, and those, numbered from 0.
struct PlacedMembers {
  std::vector<std::size_t> members, place_of;
  std::size_t places = 0;

  PlacedMembers(const std::vector<TurnOperation>& operations, const OperationClass& alike) {
    std::map<std::uint64_t, std::size_t> numbers;
    for (const std::size_t i : alike.members) {
      if (operations[i].place == 0) continue;
      members.push_back(i);
      place_of.push_back(numbers.try_emplace(operations[i].place, numbers.size()).first->second);
    }
    places = numbers.size();
  }
};

/// Of each place, with one neighbour of a lane.
std::vector<MeetingsAtPlace> meetings_at_places(const PlacedMembers& placed,
                                                const std::vector<TurnOperation>& operations, const TurnLane& other,
                                                std::size_t n) {
  std::vector<MeetingsAtPlace> meetings(placed.places);
  for (std::size_t m = 0; m < placed.members.size(); ++m) {
    const TurnOperation& operation = operations[placed.members[m]];
    if (!other.covers(operation.exit_ns)) continue;
    MeetingsAtPlace& at = meetings[placed.place_of[m]];
    ++at.covered;
    at.met += operation.witnesses.test(n) ? 1 : 0;
  }
  return meetings;
}

void note_usual_transfer(std::vector<TurnOperation>& operations, const OperationClass& alike) {
  std::vector<Nanoseconds> transfers;
  for (const std::size_t i : alike.members) transfers.push_back(operations[i].transfer_ns);
  const Nanoseconds usual_ns = middle_of(std::move(transfers));
  for (const std::size_t i : alike.members) operations[i].usual_transfer_ns = std::max<Nanoseconds>(1, usual_ns);
}

/// Where a run falls into two, since what lies between two heaps is but a small part of either; the size of the run if
/// it does not. Of long captures, some operations of no usual length lie between all classes.
std::size_t valley_of(std::span<const std::pair<int, std::size_t>> run) {
  constexpr std::size_t part_in = 10, fewest_in_heap = 50;
  const auto emptier = [](const auto& a, const auto& b) { return a.second < b.second; };
  std::size_t deepest = run.size();
  double depth = part_in;
  for (std::size_t v = 1; v + 1 < run.size(); ++v) {
    const std::size_t left =
        std::max_element(run.begin(), run.begin() + static_cast<std::ptrdiff_t>(v), emptier)->second;
    const std::size_t right =
        std::max_element(run.begin() + static_cast<std::ptrdiff_t>(v) + 1, run.end(), emptier)->second;
    const double its = static_cast<double>(std::min(left, right)) / static_cast<double>(run[v].second);
    if (its < depth || std::min(left, right) < fewest_in_heap) continue;
    depth = its;
    deepest = v + (run[v - 1].second > run[v + 1].second ? 1 : 0);
  }
  return deepest;
}

/// The class, named by its first bin, of each bin: neighbouring ones make one, but for valleys if these part them.
std::map<int, int> classes_of_bins(const std::map<int, std::size_t>& bins, bool has_valleys) {
  std::map<int, int> class_of;
  std::vector<std::vector<std::pair<int, std::size_t>>> runs;
  for (const auto& bin : bins) {
    if (runs.empty() || runs.back().back().first + 1 != bin.first) runs.emplace_back();
    runs.back().push_back(bin);
  }
  while (!runs.empty()) {
    std::vector<std::pair<int, std::size_t>> run = std::move(runs.back());
    runs.pop_back();
    const auto valley = has_valleys ? run.begin() + static_cast<std::ptrdiff_t>(valley_of(run)) : run.end();
    if (valley != run.end()) {
      runs.emplace_back(run.begin(), valley);
      runs.emplace_back(valley, run.end());
      continue;
    }
    for (const auto& [bin, count] : run) class_of[bin] = run.front().first;
  }
  return class_of;
}

}  // namespace

std::vector<OperationClass> classes_of(std::vector<TurnOperation>& operations) {
  constexpr double bins_per_e = 8;
  std::map<int, std::vector<std::size_t>> bins;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const double transfer_ns = std::max(1.0, static_cast<double>(operations[i].transfer_ns));
    bins[static_cast<int>(std::floor(bins_per_e * std::log(transfer_ns)))].push_back(i);
  }
  const auto count = [&](int bin) {
    const auto found = bins.find(bin);
    return found == bins.end() ? 0 : found->second.size();
  };
  // Stray ones belong to the fuller of their neighbours, and do not join two classes.
  std::map<int, std::size_t> full;
  for (const auto& [bin, members] : bins) {
    if (members.size() > 1) full[bin] = members.size();
  }
  // Lanes in step leave exchanges with others together, which then seem to take any time.
  const bool has_habits = !operations.empty() && largest_habit(operations.front().operation) > 0;
  const std::map<int, int> class_of_bin = classes_of_bins(full, !has_habits);
  std::map<int, std::vector<std::size_t>> members_of;
  OperationClass rest{{}, false, {}, {}};
  for (const auto& [bin, members] : bins) {
    const int near = members.size() > 1 ? bin : count(bin - 1) > count(bin + 1) ? bin - 1 : bin + 1;
    std::vector<std::size_t>& own = full.contains(near) ? members_of[class_of_bin.at(near)] : rest.members;
    own.insert(own.end(), members.begin(), members.end());
  }
  std::vector<OperationClass> classes;
  for (auto& [bin, members] : members_of) {
    if (members.size() < fewest_alike)
      rest.members.insert(rest.members.end(), members.begin(), members.end());
    else
      classes.push_back({std::move(members), true, {}, {}});
  }
  for (const OperationClass& alike : classes) note_usual_transfer(operations, alike);
  if (!rest.members.empty()) classes.push_back(std::move(rest));
  return classes;
}

std::vector<OperationClass> parted(const std::vector<TurnLane>& lanes, std::size_t l,
                                   const std::vector<TurnOperation>& operations, const OperationClass& whole) {
  constexpr double clearly = 10;
  const PlacedMembers placed(operations, whole);
  double most = clearly;
  std::vector<MeetingsAtPlace> differing;
  for (std::size_t n = 0; n < lanes[l].neighbours.size(); ++n) {
    std::vector<MeetingsAtPlace> meetings = meetings_at_places(placed, operations, lanes[lanes[l].neighbours[n]], n);
    const double by = differ_by(meetings);
    if (by <= most) continue;
    most = by;
    differing = std::move(meetings);
  }
  if (differing.empty()) return {};
  const MeetingsAtPlace all = sum_of(differing);
  std::vector<OperationClass> parts(2);
  for (std::size_t m = 0; m < placed.members.size(); ++m) {
    const MeetingsAtPlace& at = differing[placed.place_of[m]];
    if (!at.is_enough()) continue;
    const bool meets_often = at.met * all.covered > all.met * at.covered;
    parts[meets_often ? 0 : 1].members.push_back(placed.members[m]);
  }
  return parts;
}

}  // namespace nsys_explain::collectives
