#include "analysis/statistics/statistics.hpp"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "random.hpp"

namespace nsys_explain::analysis {
namespace {

TEST(NearSearch, FindsWhatUpperBoundFindsFromAnywhere) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    testing::Random random(seed);
    std::vector<std::int64_t> values(static_cast<std::size_t>(random.integer(0, 60)));
    for (std::int64_t& value : values) value = random.integer(0, 40);
    std::sort(values.begin(), values.end());
    for (std::size_t near = 0; near <= values.size() + 1; ++near) {
      for (std::int64_t wanted = -1; wanted <= 41; ++wanted) {
        const auto expected = std::upper_bound(values.begin(), values.end(), wanted) - values.begin();
        ASSERT_EQ(upper_bound_near(values, near, wanted, std::less<>()), static_cast<std::size_t>(expected))
            << "seed " << seed << ", near " << near << ", wanted " << wanted;
      }
    }
  }
}

}  // namespace
}  // namespace nsys_explain::analysis
