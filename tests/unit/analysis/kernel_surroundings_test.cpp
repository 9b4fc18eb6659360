#include "analysis/trace/kernel_surroundings.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

TEST(SmallNumbers, StayWhenALargeOneComes) {
  SmallNumbers numbers;
  const std::vector<std::uint32_t> expected{0, 7, 65'535, 65'536, 3, 4'294'967'295, 1};
  numbers.reserve(expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    numbers.push_back(expected[i]);
    ASSERT_EQ(numbers.size(), i + 1);
    for (std::size_t j = 0; j <= i; ++j) EXPECT_EQ(numbers[j], expected[j]);
  }
}

}  // namespace

}  // namespace nsys_explain::analysis
