#include "nsys_explain/model/launch_index.hpp"

#include <random>

#include <gtest/gtest.h>

namespace nsys_explain {
namespace {

TEST(NearbyNumbers, HoldWhatWasSetHoweverFarApart) {
  std::mt19937 random(1);
  for (const std::uint32_t spread : {0U, 100U, 70'000U, 0xFFFFFFF0U}) {
    std::vector<std::uint32_t> expected(10'000, NearbyNumbers::none);
    NearbyNumbers numbers(expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (random() % 8 == 0) continue;  // some are not set
      const auto number = static_cast<std::uint32_t>(std::min<std::uint64_t>(
          i + std::uniform_int_distribution<std::uint32_t>(0, spread)(random), NearbyNumbers::none - 1));
      expected[i] = number;
      numbers.set(i, number);
    }
    ASSERT_EQ(numbers.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(numbers[i], expected[i]) << "spread " << spread;
  }
}

TEST(NearbyNumbers, CanBeSetAgain) {
  NearbyNumbers numbers(3);
  for (const std::uint32_t number : {5U, 4'000'000'000U, 6U}) {
    numbers.set(1, number);
    EXPECT_EQ(numbers[1], number);
    EXPECT_EQ(numbers[0], NearbyNumbers::none);
  }
}

}  // namespace

}  // namespace nsys_explain
