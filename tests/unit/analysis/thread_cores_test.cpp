#include "analysis/questions/question.hpp"

#include <gmock/gmock.h>

#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace questions {
Question thread_cores();
}
namespace {

using testing::integers;
using testing::Integers;
using testing::OneRank;
using testing::reals;
using testing::texts;
using testing::Texts;

TEST(ThreadCores, BySchedulerWhereItTellsElseBySamples) {
  constexpr std::int8_t running = 1, interruptible = 2;
  OneRank rank;
  rank.kernel("k", 0, 1);
  rank.call("cudaLaunchKernel", 0, 1, 1, 1);
  // Thread 1: core 3 for 100, sent away for 30, core 4 for 50, waits for 820, core 4 for 50.
  rank.process().scheduling_events = {{0, 1, 3, 0, 0, true},    {100, 1, 3, running, 0, false},
                                      {130, 1, 4, 0, 0, true},  {180, 1, 4, interruptible, 0, false},
                                      {1000, 1, 4, 0, 0, true}, {1050, 1, 4, interruptible, 0, false}};
  // Thread 1 is known better already; thread 2 was met three times.
  rank.process().cpu_samples = {{10, 1, 0, 0, 9}, {10, 2, 0, 0, 5}, {20, 2, 0, 0, 6}, {30, 2, 0, 0, 5}};
  const Table table = questions::thread_cores().rows(rank.events());
  EXPECT_EQ(integers(table, "thread"), (Integers{1, 2}));
  EXPECT_EQ(integers(table, "launches"), (Integers{1, 0}));
  EXPECT_EQ(texts(table, "source"), (Texts{"scheduler", "samples"}));
  EXPECT_EQ(integers(table, "cores"), (Integers{2, 2}));
  EXPECT_EQ(integers(table, "core"), (Integers{3, 5}));
  EXPECT_THAT(reals(table, "core_percent"), ::testing::ElementsAre(50, ::testing::DoubleNear(66.667, 0.001)));
  EXPECT_EQ(integers(table, "on_cpu_ns"), (Integers{200, -1}));
  EXPECT_EQ(integers(table, "migrations"), (Integers{1, 2}));
  EXPECT_EQ(integers(table, "preemptions"), (Integers{1, -1}));
  EXPECT_EQ(integers(table, "preempted_ns"), (Integers{30, -1}));
}

TEST(ThreadCores, WithoutStatesNothingTellsOfPreemption) {
  OneRank rank;
  rank.kernel("k", 0, 1);
  rank.process().scheduling_events = {{0, 1, 3, 0, 0, true}, {100, 1, 3, 0, 0, false}, {130, 1, 3, 0, 0, true}};
  const Table table = questions::thread_cores().rows(rank.events());
  EXPECT_EQ(integers(table, "preemptions"), Integers{-1});
  EXPECT_EQ(integers(table, "preempted_ns"), Integers{-1});
  EXPECT_EQ(integers(table, "on_cpu_ns"), Integers{100});
}

}  // namespace
}  // namespace nsys_explain::analysis
