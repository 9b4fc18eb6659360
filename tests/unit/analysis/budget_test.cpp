#include "nsys_explain/analysis/budget.hpp"

#include <gtest/gtest.h>

#include <random>

namespace nsys_explain::analysis {
namespace {

Kernel kernel(Nanoseconds start, Nanoseconds end, bool communication = false) {
  return {start, end, 0, communication ? 1U : 0U};
}

const std::vector<bool> communication_kinds{false, true};

TEST(Budget, WorkedExample) {
  // time    0    10   20   30   40   50   60   70   80   90  100
  // compute |---------|         |----|
  // comm         |---------|                   |---------|
  // copy                   |----|    |----|         |---------|
  // graph                       |---------|                   |---| (to 105)
  DeviceTrace device;
  device.kernels = {kernel(0, 20), kernel(10, 30, true), kernel(40, 50), kernel(70, 90, true)};
  device.memory_operations = {
      {.start_ns = 30, .end_ns = 40}, {.start_ns = 50, .end_ns = 60}, {.start_ns = 80, .end_ns = 100}};
  device.graph_launches = {{.start_ns = 40, .end_ns = 60}, {.start_ns = 100, .end_ns = 105}};
  const Budget budget = compute_budget(device, communication_kinds);
  EXPECT_EQ(budget.window_start_ns, 0);
  EXPECT_EQ(budget.window_ns, 105);
  EXPECT_EQ(budget.compute_ns, 30);
  EXPECT_EQ(budget.communication_ns, 40);
  EXPECT_EQ(budget.overlapped_ns, 10);
  EXPECT_EQ(budget.exposed_communication_ns, 30);
  EXPECT_EQ(budget.copy_ns, 30);         // 30-40, 50-60, 90-100
  EXPECT_EQ(budget.opaque_graph_ns, 5);  // 100-105: the rest lies under kernels and copies
  EXPECT_EQ(budget.idle_ns, 10);         // 60-70
}

TEST(Budget, NoActivityIsAllZero) {
  const Budget budget = compute_budget({}, communication_kinds);
  EXPECT_EQ(budget.window_ns, 0);
  EXPECT_EQ(budget.idle_ns, 0);
}

TEST(Budget, ConcurrentKernelsCountOnce) {
  DeviceTrace device;
  device.kernels = {kernel(-100, 0), kernel(-100, 0), kernel(-50, 50)};
  const Budget budget = compute_budget(device, communication_kinds);
  EXPECT_EQ(budget.compute_ns, 150);
  EXPECT_EQ(budget.window_start_ns, -100);
}

TEST(Budget, AddsUpForRandomTraces) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    const auto start = [&] { return static_cast<Nanoseconds>(random() % 100'000); };
    const auto length = [&] { return static_cast<Nanoseconds>(random() % 2'000); };
    DeviceTrace device;
    for (int i = 0; i < 60; ++i) {
      const Nanoseconds at = start();
      device.kernels.push_back(kernel(at, at + length(), random() % 3 == 0));
      const Nanoseconds copy_at = start();
      device.memory_operations.push_back({.start_ns = copy_at, .end_ns = copy_at + length()});
      const Nanoseconds graph_at = start();
      device.graph_launches.push_back({.start_ns = graph_at, .end_ns = graph_at + length()});
    }
    const Budget b = compute_budget(device, communication_kinds);
    EXPECT_EQ(b.compute_ns + b.exposed_communication_ns + b.copy_ns + b.opaque_graph_ns + b.idle_ns, b.window_ns);
    EXPECT_EQ(b.overlapped_ns + b.exposed_communication_ns, b.communication_ns);
    EXPECT_GE(b.idle_ns, 0);
  }
}

}  // namespace
}  // namespace nsys_explain::analysis
