#include "collectives/program_places.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <unordered_map>

#include "collectives/hash_mix.hpp"

namespace nsys_explain::collectives {
namespace {

/// How many operations before and after one make its place: more tell places apart that look alike, and more are lost.
constexpr std::size_t reach = 8;

/// Of what lies between two positions; never 0.
std::uint64_t hash_of(const std::vector<std::uint64_t>& symbols, std::size_t first, std::size_t end) {
  std::uint64_t hash = 1;
  for (std::size_t i = first; i < end; ++i) hash = mix(hash, symbols[i]);
  return hash | 1U;
}

/// Around which places some operations were seen.
class Places {
 public:
  void add(std::uint64_t place) {
    ++total_;
    std::size_t& times = times_[place];
    if (++times > most_) {
      most_ = times;
      usual_ = place;
    }
  }

  /// False for what is left of a place where a record was lost.
  bool is_whole(std::uint64_t place) const {
    constexpr std::size_t one_in = 10;
    const auto found = times_.find(place);
    return found != times_.end() && found->second >= fewest && one_in * found->second >= most_;
  }

  std::size_t most() const { return most_; }

  std::set<std::uint64_t> whole() const {
    std::set<std::uint64_t> places;
    for (const auto& [place, times] : times_) {
      if (is_whole(place)) places.insert(place);
    }
    return places;
  }

  /// Where nearly all of them lie, but for lost records; 0: at several, or too few to tell.
  std::uint64_t usual() const {
    constexpr double least_share = 0.8;
    return most_ >= fewest && static_cast<double>(most_) >= least_share * static_cast<double>(total_) ? usual_ : 0;
  }

 private:
  static constexpr std::size_t fewest = 4;

  std::unordered_map<std::uint64_t, std::size_t> times_;
  std::size_t total_ = 0, most_ = 0;
  std::uint64_t usual_ = 0;
};

/// What lies around operations, by those before or after them.
using PlacesAround = std::unordered_map<std::uint64_t, Places>;

/// An operation and what is around it; 0: not all was recorded, or all is of its own kind, which tells nothing.
struct Surroundings {
  std::uint64_t place = 0, before = 0, after = 0;

  Surroundings(const std::vector<std::uint64_t>& symbols, std::size_t i) {
    const std::size_t first = i < reach ? 0 : i - reach, end = std::min(symbols.size(), i + reach + 1);
    const auto is_own = [&](std::uint64_t symbol) { return symbol == symbols[i]; };
    if (std::all_of(symbols.begin() + static_cast<std::ptrdiff_t>(first),
                    symbols.begin() + static_cast<std::ptrdiff_t>(end), is_own))
      return;
    if (i >= reach) before = hash_of(symbols, i - reach, i + 1);
    if (i + reach < symbols.size()) after = hash_of(symbols, i, i + reach + 1);
    if (before != 0 && after != 0) place = hash_of(symbols, i - reach, i + reach + 1);
  }
};

const Places* find(const PlacesAround& places, std::uint64_t context) {
  const auto found = places.find(context);
  return found == places.end() ? nullptr : &found->second;
}

/// What was seen around an operation and recorded whole: far more often than the other side; nullptr: none was.
struct WholeSides {
  const Places* before = nullptr;
  const Places* after = nullptr;

  WholeSides(const Places* seen_before, const Places* seen_after) : before(seen_before), after(seen_after) {
    constexpr std::size_t far_more = 4;
    if (before == nullptr || after == nullptr) return;
    const std::size_t most_before = before->most(), most_after = after->most();
    if (most_before > far_more * most_after) after = nullptr;
    if (most_after > far_more * most_before) before = nullptr;
  }
};

/// If both sides were recorded whole, what was lost is one of two alike: which, is not known.
std::uint64_t usual_place(const WholeSides& sides) {
  if (sides.before == nullptr || sides.after == nullptr) {
    const Places* known = sides.before == nullptr ? sides.after : sides.before;
    return known == nullptr ? 0 : known->usual();
  }
  return sides.before->usual() == sides.after->usual() ? sides.before->usual() : 0;
}

/// Where an operation may be, as one side or the other tells.
std::vector<std::uint64_t> allowed_places(const WholeSides& sides) {
  std::set<std::uint64_t> allowed;
  for (const Places* side : {sides.before, sides.after}) {
    if (side != nullptr) allowed.merge(side->whole());
  }
  return {allowed.begin(), allowed.end()};
}

/// What lies around the operations of all sequences.
struct Program {
  PlacesAround by_before, by_after;

  explicit Program(std::span<const std::vector<std::uint64_t>> sequences) {
    for (const std::vector<std::uint64_t>& symbols : sequences) {
      for (std::size_t i = reach; i + reach < symbols.size(); ++i) {
        const Surroundings around(symbols, i);
        if (around.place == 0) continue;
        by_before[around.before].add(around.place);
        by_after[around.after].add(around.place);
      }
    }
  }

  bool is_whole(const Surroundings& around) const {
    return around.place != 0 && by_before.at(around.before).is_whole(around.place) &&
           by_after.at(around.after).is_whole(around.place);
  }

  WholeSides sides_of(const Surroundings& around) const {
    return {find(by_before, around.before), find(by_after, around.after)};
  }

  /// 0: not known.
  std::uint64_t place_of(const Surroundings& around) const {
    return is_whole(around) ? around.place : usual_place(sides_of(around));
  }

  /// Whether all around an operation was recorded but one like it, directly before or after.
  bool lacks_one_like_it(const std::vector<std::uint64_t>& symbols, std::size_t i) const {
    const Surroundings around(symbols, i);
    if (around.place == 0) return false;
    std::vector<std::uint64_t> completed(symbols.begin() + static_cast<std::ptrdiff_t>(i - reach),
                                         symbols.begin() + static_cast<std::ptrdiff_t>(i + reach + 1));
    completed.insert(completed.begin() + reach, symbols[i]);
    return by_before.at(around.before).is_whole(hash_of(completed, 0, 2 * reach + 1)) ||
           by_after.at(around.after).is_whole(hash_of(completed, 1, 2 * reach + 2));
  }
};

}  // namespace

std::vector<std::vector<std::uint64_t>> program_places(std::span<const std::vector<std::uint64_t>> sequences) {
  const Program program(sequences);
  std::vector<std::vector<std::uint64_t>> places;
  for (const std::vector<std::uint64_t>& symbols : sequences) {
    std::vector<std::uint64_t>& of_one = places.emplace_back();
    for (std::size_t i = 0; i < symbols.size(); ++i) of_one.push_back(program.place_of(Surroundings(symbols, i)));
  }
  return places;
}

std::vector<std::array<std::uint64_t, 2>> program_sides(const std::vector<std::uint64_t>& symbols) {
  std::vector<std::array<std::uint64_t, 2>> sides(symbols.size(), {0, 0});
  const auto side = [&](std::size_t i, std::size_t first, std::size_t end) -> std::uint64_t {
    const auto begin = symbols.begin();
    const bool tells = std::any_of(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(end),
                                   [&](std::uint64_t symbol) { return symbol != symbols[i]; });
    return tells ? hash_of(symbols, first, end) : 0;
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (i >= reach) sides[i][0] = side(i, i - reach, i + 1);
    if (i + reach < symbols.size()) sides[i][1] = side(i, i, i + reach + 1);
  }
  return sides;
}

std::vector<std::vector<std::vector<std::uint64_t>>> possible_places(
    std::span<const std::vector<std::uint64_t>> sequences) {
  const Program program(sequences);
  std::vector<std::vector<std::vector<std::uint64_t>>> possible;
  for (const std::vector<std::uint64_t>& symbols : sequences) {
    std::vector<std::vector<std::uint64_t>>& of_one = possible.emplace_back(symbols.size());
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const Surroundings around(symbols, i);
      if (program.place_of(around) == 0) of_one[i] = allowed_places(program.sides_of(around));
    }
  }
  return possible;
}

std::vector<std::vector<Recorded>> recorded_around(std::span<const std::vector<std::uint64_t>> sequences) {
  const Program program(sequences);
  std::vector<std::vector<Recorded>> result;
  for (const std::vector<std::uint64_t>& symbols : sequences) {
    std::vector<Recorded>& of_one = result.emplace_back();
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      of_one.push_back(program.is_whole(Surroundings(symbols, i)) ? Recorded::all
                       : program.lacks_one_like_it(symbols, i)    ? Recorded::all_but_one_like_it
                                                                  : Recorded::unknown);
    }
  }
  return result;
}

}  // namespace nsys_explain::collectives
