#include "analysis/trace/divergence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "work_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RankFixture;

constexpr Nanoseconds us = 1000;

WorkEvent kernel(const std::string& name, Nanoseconds duration_ns, const std::string& shape = "1") {
  return {WorkEventKind::kernel, name, shape, 0, duration_ns};
}

Nanoseconds difference_of(const Divergence& divergence, const std::string& name) {
  Nanoseconds sum_ns = 0;
  for (const WorkDifference& difference : divergence.differences)
    if (difference.name == name) sum_ns += difference.difference_ns();
  return sum_ns;
}

TEST(Diverge, EqualListsDoNot) {
  const std::vector<WorkEvent> list{kernel("a", 100 * us), kernel("b", 200 * us), kernel("a", 100 * us)};
  const Divergence result = diverge(list, list);
  EXPECT_EQ(result.first, "");
  for (const WorkDifference& difference : result.differences) EXPECT_EQ(difference.difference_ns(), 0);
}

TEST(Diverge, SameKernelsSlower) {
  const std::vector<WorkEvent> slow{kernel("a", 130 * us), kernel("b", 260 * us)};
  const std::vector<WorkEvent> peer{kernel("a", 100 * us), kernel("b", 200 * us)};
  const Divergence result = diverge(slow, peer);
  EXPECT_EQ(result.differences.front().name, "b");
  EXPECT_EQ(result.first, "kernel a: 0.130 ms here, 0.100 ms on the peer");
}

TEST(Diverge, AKernelInTheMiddleIsExtraAndTheRestStaysAligned) {
  const std::vector<WorkEvent> more{kernel("a", 100 * us), kernel("b", 50 * us), kernel("b", 50 * us),
                                    kernel("c", 100 * us)};
  const std::vector<WorkEvent> peer{kernel("a", 100 * us), kernel("b", 50 * us), kernel("c", 100 * us)};
  const Divergence result = diverge(more, peer);
  EXPECT_THAT(result.first, HasSubstr("the peer does not run there"));
  EXPECT_EQ(difference_of(diverge(peer, more), "b"), -50 * us);
}

TEST(Diverge, ALargerGridIsExtraWorkNotASlowerKernel) {
  const std::vector<WorkEvent> larger{kernel("a", 100 * us), kernel("gemm", 300 * us, "3")};
  const std::vector<WorkEvent> peer{kernel("a", 100 * us), kernel("gemm", 200 * us, "2")};
  const Divergence result = diverge(larger, peer);
  EXPECT_EQ(result.first, "kernel gemm: 3 here, 2 on the peer");
}

TEST(Diverge, NothingAgainstSomething) {
  const std::vector<WorkEvent> some{kernel("a", 100 * us)};
  EXPECT_EQ(difference_of(diverge(some, {}), "a"), 100 * us);
  EXPECT_EQ(difference_of(diverge({}, some), "a"), -100 * us);
  EXPECT_TRUE(diverge({}, {}).differences.empty());
}

TEST(Diverge, MergeAddsUpByNameAndKeepsTheFirstFirst) {
  const std::vector<WorkEvent> slow{kernel("a", 130 * us), kernel("b", 100 * us)};
  const std::vector<WorkEvent> peer{kernel("a", 100 * us), kernel("b", 100 * us)};
  Divergence sum = diverge(slow, peer);
  merge(sum, diverge(std::vector<WorkEvent>{kernel("b", 300 * us)}, std::vector<WorkEvent>{kernel("b", 100 * us)}));
  EXPECT_EQ(sum.cases, 2);
  ASSERT_EQ(sum.differences.size(), 2U);
  EXPECT_EQ(sum.differences[0].name, "b");
  EXPECT_EQ(sum.differences[0].straggler_count, 2);
  EXPECT_EQ(sum.differences[0].difference_ns(), 200 * us);
  EXPECT_THAT(sum.first, HasSubstr("kernel a"));
}

TEST(WorkEvents, AreThoseBetweenTwoLaunchesOfCommunication) {
  RankFixture rank;
  rank.kernel("before", 0, 5 * us, 10 * us);
  rank.kernel("nccl1", 10 * us, 15 * us, 300 * us);
  rank.kernel("x", 20 * us, 40 * us, 60 * us, 4);
  rank.call("cudaStreamSynchronize", 30 * us, 31 * us);
  rank.call("cudaEventRecord", 32 * us, 33 * us);  // neither blocks nor takes long
  rank.range("gc.collect", 40 * us, 90 * us);
  rank.copy("cudaMemcpyAsync", 100 * us, 102 * us, 110 * us, 120 * us);
  rank.kernel("nccl2", 150 * us, 310 * us, 400 * us);
  rank.kernel("after", 160 * us, 420 * us, 500 * us);
  const RankEvents events = rank.events();
  std::vector<std::string> texts;
  for (const WorkEvent& event : work_events(events, TraceTime(310 * us))) {
    texts.push_back(std::string(work_event_kind_name(event.kind)) + " " + event.name + " " + event.shape + " " +
                    std::to_string(event.start_ns / us) + " " + std::to_string(event.duration_ns / us));
  }
  EXPECT_THAT(texts, ElementsAre("kernel x 4x1x1 of 1x1x1 10 20", "call cudaStreamSynchronize  20 1",
                                 "range gc.collect  30 50", "copy copy host to device 1000 bytes 90 10"));
  EXPECT_TRUE(work_events(events, TraceTime(311 * us)).empty());
}

TEST(WorkEvents, CallsTellWhoMadeThemWhereBacktracesWereRecorded) {
  RankFixture rank;
  rank.kernel("nccl1", 10 * us, 15 * us, 300 * us);
  rank.kernel("x", 20 * us, 40 * us, 60 * us);
  rank.call("cudaMalloc", 30 * us, 31 * us);
  rank.call("cudaFree", 50 * us, 90 * us);
  rank.process().traced_calls = {
      {30 * us, 31 * us, 2, rank.name("cudaMalloc"), rank.name("other")},
      {30 * us, 31 * us, 1, rank.name("cudaMalloc"), rank.name("libcuda.so.1 < cudaMalloc < grow < load < main")}};
  rank.kernel("nccl2", 150 * us, 310 * us, 400 * us);
  const RankEvents events = rank.events();
  std::vector<std::string> texts;
  for (const WorkEvent& event : work_events(events, TraceTime(310 * us)))
    if (event.kind == WorkEventKind::call) texts.push_back(event.name + " " + event.shape);
  EXPECT_THAT(texts, ElementsAre("cudaMalloc from grow < load", "cudaFree "));
}

TEST(WorkEvents, RangesThatLaunchCountWithoutThoseInsideAndNameTheirKernels) {
  RankFixture rank;
  rank.kernel("nccl1", 10 * us, 15 * us, 300 * us);
  rank.range("train", 0, 5000 * us);  // holds the collectives, too
  rank.range("evaluate 3", 20 * us, 900 * us);
  rank.range("load", 100 * us, 400 * us);   // launches nothing
  rank.range("small", 910 * us, 950 * us);  // launches, and takes less than 0.1 ms itself
  rank.kernel("x", 500 * us, 500 * us, 600 * us);
  rank.kernel("y", 920 * us, 920 * us, 930 * us);
  rank.kernel("nccl2", 1000 * us, 1100 * us, 1200 * us);
  const RankEvents events = rank.events();
  std::vector<std::string> texts;
  for (const WorkEvent& event : work_events(events, TraceTime(1100 * us)))
    texts.push_back(event.name + " " + std::to_string(event.duration_ns / us) + " " + event.range);
  EXPECT_THAT(texts, ElementsAre("evaluate 580 ", "load 300 ", "x 100 evaluate", "y 10 small"));
}

}  // namespace
}  // namespace nsys_explain::analysis
