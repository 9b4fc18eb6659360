#include "analysis/tables/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace nsys_explain::analysis {
namespace {

Kernel kernel(Nanoseconds start, Nanoseconds end, bool communication = false) {
  return {start, end, 0, communication ? 1U : 0U};
}

const std::vector<bool> communication_kinds{false, true};

DeviceTrace device_of_two_kinds() {
  DeviceTrace device;
  device.kernel_kinds.resize(2);
  return device;
}

TEST(Budget, WorkedExample) {
  // time    0    10   20   30   40   50   60   70   80   90  100
  // compute |---------|         |----|
  // comm         |---------|                   |---------|
  // copy                   |----|    |----|         |---------|
  // graph                       |---------|                   |---| (to 105)
  DeviceTrace device = device_of_two_kinds();
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
  DeviceTrace device = device_of_two_kinds();
  device.kernels = {kernel(-100, 0), kernel(-100, 0), kernel(-50, 50)};
  const Budget budget = compute_budget(device, communication_kinds);
  EXPECT_EQ(budget.compute_ns, 150);
  EXPECT_EQ(budget.window_start_ns, -100);
}

/// Random activities within [0, length), sorted as those of a trace are.
template <class Event, class Events = std::vector<Event>, class Make>
Events random_events(std::mt19937_64& random, Nanoseconds length, const Make& make) {
  std::vector<Event> events;
  for (std::uint64_t left = random() % 30; left > 0; --left) {
    const auto start = static_cast<Nanoseconds>(random() % static_cast<std::uint64_t>(length));
    const auto end = std::min(length, start + static_cast<Nanoseconds>(random() % 40));
    events.push_back(make(start, end));
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
  });
  Events result;
  for (const Event& event : events) result.push_back(event);
  return result;
}

TEST(Budget, AgreesWithLookingAtEveryNanosecondOfRandomTraces) {
  constexpr Nanoseconds length = 600;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    DeviceTrace device = device_of_two_kinds();
    device.kernels = random_events<Kernel, Kernels>(
        random, length, [&](Nanoseconds start, Nanoseconds end) { return kernel(start, end, random() % 3 == 0); });
    device.memory_operations = random_events<MemoryOperation>(random, length, [](Nanoseconds start, Nanoseconds end) {
      return MemoryOperation{.start_ns = start, .end_ns = end};
    });
    device.graph_launches = random_events<GraphLaunch>(random, length, [](Nanoseconds start, Nanoseconds end) {
      return GraphLaunch{.start_ns = start, .end_ns = end};
    });
    Budget expected;
    Nanoseconds first = length, last = 0;
    for (Nanoseconds at = 0; at < length; ++at) {
      const auto runs = [&](const auto& event) { return event.start_ns <= at && at < event.end_ns; };
      const auto any = [&](const auto& events) { return std::any_of(events.begin(), events.end(), runs); };
      const auto any_kernel = [&](std::uint32_t kind) {
        return std::any_of(device.kernels.begin(), device.kernels.end(),
                           [&](const Kernel& k) { return k.kind == kind && runs(k); });
      };
      const bool compute = any_kernel(0), communication = any_kernel(1);
      expected.communication_ns += communication ? 1 : 0;
      expected.overlapped_ns += compute && communication ? 1 : 0;
      Nanoseconds nowhere = 0;
      ++(compute                         ? expected.compute_ns
         : communication                 ? expected.exposed_communication_ns
         : any(device.memory_operations) ? expected.copy_ns
         : any(device.graph_launches)    ? expected.opaque_graph_ns
                                         : nowhere);
    }
    const auto see = [&](const auto& events) {
      for (const auto& event : events) {
        first = std::min(first, event.start_ns);
        last = std::max(last, event.end_ns);
      }
    };
    see(device.kernels);
    see(device.memory_operations);
    see(device.graph_launches);
    const Budget b = compute_budget(device, communication_kinds);
    SCOPED_TRACE(seed);
    EXPECT_EQ(b.window_ns, std::max<Nanoseconds>(last - first, 0));
    EXPECT_EQ(b.compute_ns, expected.compute_ns);
    EXPECT_EQ(b.communication_ns, expected.communication_ns);
    EXPECT_EQ(b.overlapped_ns, expected.overlapped_ns);
    EXPECT_EQ(b.exposed_communication_ns, expected.exposed_communication_ns);
    EXPECT_EQ(b.copy_ns, expected.copy_ns);
    EXPECT_EQ(b.opaque_graph_ns, expected.opaque_graph_ns);
    EXPECT_EQ(b.idle_ns, b.window_ns - b.compute_ns - b.exposed_communication_ns - b.copy_ns - b.opaque_graph_ns);
  }
}

}  // namespace
}  // namespace nsys_explain::analysis
