#include "collectives/program_places.hpp"
#include "seeds.hpp"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace nsys_explain::collectives {
namespace {

using Symbols = std::vector<std::uint64_t>;
using Places = std::vector<std::uint64_t>;

constexpr std::size_t step_length = 60, steps = 10;

/// A step of three kinds of operations in a random order, done again and again.
Symbols program(unsigned seed) {
  std::mt19937 random(seed);
  Symbols step(step_length);
  for (std::uint64_t& symbol : step) symbol = 1 + random() % 3;
  Symbols symbols;
  for (std::size_t s = 0; s < steps; ++s) symbols.insert(symbols.end(), step.begin(), step.end());
  return symbols;
}

Places places_of(const Symbols& symbols) {
  return program_places(std::vector<Symbols>{symbols}).front();
}

TEST(ProgramPlaces, EveryStepGoesThroughTheSame) {
  for (const unsigned seed : nsys_explain::tiers::seeds(20)) {
    const Symbols symbols = program(seed);
    const Places places = places_of(symbols);
    std::set<std::uint64_t> of_first_step;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      EXPECT_NE(places[i], 0) << seed << ' ' << i;
      EXPECT_EQ(places[i], places[i % step_length]) << seed << ' ' << i;
      of_first_step.insert(places[i]);
    }
    // Seventeen of three kinds are alike by chance once in 130 million.
    EXPECT_EQ(of_first_step.size(), step_length) << seed;
  }
}

TEST(ProgramPlaces, OneSideIsTheSameWhereTheOtherDiffers) {
  const Symbols one{3, 3, 3, 3, 3, 3, 3, 2, 1, 3, 3, 3, 2, 3, 3, 3, 3};  // eight around a 1
  Symbols other = one;
  other[7] = 3;
  EXPECT_EQ(program_sides(one)[8][1], program_sides(other)[8][1]);
  EXPECT_NE(program_sides(one)[8][1], 0U);
  EXPECT_NE(program_sides(one)[8][0], program_sides(other)[8][0]);
  other[16] = 1;
  EXPECT_NE(program_sides(one)[8][1], program_sides(other)[8][1]);
  EXPECT_EQ(program_sides(one)[9][1], 0U) << "seven follow";
  EXPECT_EQ(program_sides(Symbols(17, 3))[8][0], 0U) << "all are alike";
}

TEST(ProgramPlaces, AreTheSameForAllWhoRunTheProgram) {
  const Symbols symbols = program(1);
  const Symbols from_the_middle(symbols.begin() + 100, symbols.end());
  const std::vector<Places> places = program_places(std::vector<Symbols>{symbols, from_the_middle});
  for (std::size_t i = 0; i < from_the_middle.size(); ++i) EXPECT_EQ(places[1][i], places[0][100 + i]) << i;
}

TEST(ProgramPlaces, SurviveLostRecords) {
  for (const unsigned seed : nsys_explain::tiers::seeds(20)) {
    const Symbols whole = program(seed);
    const Places expected = places_of(whole);
    std::mt19937 random(seed + 100);
    std::vector<bool> is_lost(whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) is_lost[i] = random() % 100 == 0;
    Symbols left;
    std::vector<std::size_t> position;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (is_lost[i]) continue;
      left.push_back(whole[i]);
      position.push_back(i);
    }
    const Places places = places_of(left);
    std::size_t known = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const auto around = is_lost.begin() + static_cast<std::ptrdiff_t>(position[i]);
      const bool is_near_end = around - is_lost.begin() < 9 || is_lost.end() - around < 10;
      // A loss is hidden by another one close by, or by the end of the capture.
      if (places[i] == 0 || is_near_end || std::count(around - 9, around + 10, true) > 1) continue;
      ++known;
      EXPECT_EQ(places[i], expected[position[i]]) << seed << ' ' << i;
    }
    EXPECT_GE(known, left.size() * 4 / 5) << seed;
  }
}

TEST(ProgramPlaces, WhichOfTwoAlikeWasLostIsNotKnown) {
  Symbols symbols = program(3);
  for (std::size_t i = 30; i < symbols.size(); i += step_length) symbols[i] = symbols[i + 1] = 9;
  const Places whole = places_of(symbols);
  symbols.erase(symbols.begin() + 5 * step_length + 30);
  const Places places = places_of(symbols);
  EXPECT_EQ(places[5 * step_length + 30], 0);
  EXPECT_EQ(places[5 * step_length + 29], whole[29]);
  EXPECT_EQ(places[5 * step_length + 31], whole[32]);
  const auto possible = possible_places(std::vector<Symbols>{symbols}).front();
  Places either{whole[30], whole[31]};
  std::sort(either.begin(), either.end());
  EXPECT_EQ(possible[5 * step_length + 30], either);
  EXPECT_TRUE(possible[5 * step_length + 29].empty());
}

TEST(ProgramPlaces, WhatIsAllAlikeTellsNothing) {
  EXPECT_EQ(places_of(Symbols(100, 7)), Places(100, 0));
  EXPECT_TRUE(places_of({}).empty());
  EXPECT_EQ(places_of({1, 2, 3}), Places(3, 0));
}

TEST(RecordedAround, OneOfARunIsMissed) {
  Symbols symbols;
  for (int step = 0; step < 40; ++step) symbols.insert(symbols.end(), {1, 1, 1, 2, 3, 2});
  Symbols lossy = symbols;
  lossy.erase(lossy.begin() + 121);  // of the run at 120
  const auto recorded = recorded_around(std::vector<Symbols>{symbols, lossy});
  for (std::size_t i = 8; i + 8 < symbols.size(); ++i) EXPECT_EQ(recorded[0][i], Recorded::all) << i;
  for (const std::size_t i : {120, 121}) EXPECT_EQ(recorded[1][i], Recorded::all_but_one_like_it) << i;
  for (const std::size_t i : {114, 118, 122, 126}) EXPECT_EQ(recorded[1][i], Recorded::unknown) << i;
  for (const std::size_t i : {0, 7, 238}) EXPECT_EQ(recorded[1][i], Recorded::unknown) << i;
  for (const std::size_t i : {100, 111, 130, 200}) EXPECT_EQ(recorded[1][i], Recorded::all) << i;
}

}  // namespace
}  // namespace nsys_explain::collectives
