#include "analysis/verdict/kernel_speed.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t bins = 10;

GpuSpeed slow_by(double ratio) {
  GpuSpeed speed;
  speed.ratio = ratio;
  speed.slow = true;
  return speed;
}

/// Kernel time of two ranks by bin: `usual` of the first, of the second 1.25 times as much in the bins from `first` on.
std::vector<std::int64_t> two_ranks(const std::vector<std::int64_t>& usual, std::size_t first) {
  std::vector<std::int64_t> kernel_ns = usual;
  for (std::size_t b = 0; b < bins; ++b) kernel_ns.push_back(b < first ? usual[b] : usual[b] * 5 / 4);
  return kernel_ns;
}

TEST(SlowGpuSurplus, OfAGpuThatIsSlowAllAlongIsTheSameInEveryBin) {
  // Longer steps are everybody's.
  const std::vector<std::int64_t> usual{1000, 1000, 4000, 1000, 800, 1000, 1000, 2000, 1000, 1000};
  const std::vector<double> shares =
      slow_gpu_surplus(two_ranks(usual, 0), bins, std::vector{GpuSpeed{}, slow_by(1.25)});
  for (std::size_t b = 0; b < bins; ++b) {
    EXPECT_EQ(shares[b], 0);
    EXPECT_NEAR(shares[bins + b], 0.2, 1e-9) << b;
  }
}

TEST(SlowGpuSurplus, OfAGpuThatIsSlowNowAndThenLiesInTheBinsInWhichItIs) {
  const std::vector<std::int64_t> usual{1000, 1000, 4000, 1000, 800, 1000, 1000, 2000, 1000, 1000};
  const std::vector<double> shares =
      slow_gpu_surplus(two_ranks(usual, 4), bins, std::vector{GpuSpeed{}, slow_by(1.25)});
  for (std::size_t b = 0; b < bins; ++b) EXPECT_NEAR(shares[bins + b], b < 4 ? 0 : 0.2, 1e-9) << b;
}

TEST(SlowGpuSurplus, IsNoMoreThanTheGpuIsSlow) {
  // One step in which the rank computes three times as much is not the GPU's doing; bins without kernels have none.
  std::vector<std::int64_t> kernel_ns = two_ranks(std::vector<std::int64_t>(bins, 1000), 0);
  kernel_ns[bins + 3] *= 3;
  kernel_ns[bins + 5] = 0;
  const std::vector<double> shares = slow_gpu_surplus(kernel_ns, bins, std::vector{GpuSpeed{}, slow_by(1.25)});
  for (std::size_t b = 0; b < bins; ++b) EXPECT_NEAR(shares[bins + b], b == 5 ? 0 : 0.2, 1e-9) << b;
}

}  // namespace
}  // namespace nsys_explain::analysis
