#include "ingest/trace_content.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace nsys_explain::ingest {
namespace {

using ::testing::ElementsAre;

TraceContent content(std::int64_t ranges, std::int64_t calls, std::int64_t copies, std::int64_t copy_calls = 3) {
  return {500, ranges, calls, copies, copy_calls, {}};
}

TEST(TraceContent, WhatHalfOfTheExportsHoldTheOthersLack) {
  const TraceContent whole = content(80, 900, 3);
  EXPECT_THAT(what_is_lacking(std::vector{whole, content(0, 900, 3), whole}), ElementsAre("", "no NVTX ranges", ""));
  EXPECT_THAT(what_is_lacking(std::vector{content(0, 0, 3, 0), whole}),
              ElementsAre("no NVTX ranges and no CUDA calls", ""));
  // One of three annotates its steps: a choice.
  EXPECT_THAT(what_is_lacking(std::vector{content(0, 900, 3), whole, content(0, 900, 3)}), ElementsAre("", "", ""));
  EXPECT_THAT(what_is_lacking(std::vector{content(0, 0, 0, 0)}), ElementsAre(""));
}

TEST(TraceContent, CopiesAreMissedWhereCallsAskForThem) {
  const TraceContent whole = content(80, 900, 3);
  EXPECT_THAT(what_is_lacking(std::vector{whole, content(80, 900, 0)}),
              ElementsAre("", "no copies, though its calls ask for some"));
  EXPECT_THAT(what_is_lacking(std::vector{whole, content(80, 900, 0, 0)}), ElementsAre("", "")) << "it makes none";
}

TEST(TraceContent, ExportsWithoutKernelsDoNotCount) {
  TraceContent nothing;
  EXPECT_THAT(what_is_lacking(std::vector{content(80, 900, 3), nothing, nothing, content(0, 900, 3)}),
              ElementsAre("", "", "", "no NVTX ranges"));
}

TEST(TraceContent, ProcessesThatCallNcclWithoutGpuWorkAreCounted) {
  Trace trace;
  trace.strings = {"", "cudaMemcpyAsync", "cudaLaunchKernel"};
  trace.processes.resize(4);
  for (std::int32_t p = 0; p < 4; ++p) trace.processes[static_cast<std::size_t>(p)].process_id = 1000 + p;
  const auto call = [&](std::size_t process, NcclFunction function) {
    NcclCall one;
    one.function = function;
    trace.processes[process].nccl_calls.push_back(one);
  };
  trace.processes[0].devices.emplace_back().memory_operations.resize(2);
  call(0, NcclFunction::all_gather);
  call(1, NcclFunction::all_gather);
  call(2, NcclFunction::send);
  call(3, NcclFunction::comm_init);  // a launcher may do that
  for (const StringIndex name : {1U, 2U, 2U}) {
    ApiCall one;
    one.name = name;
    one.end_ns = 10;
    trace.processes[0].api_calls.push_back(one);
  }
  const TraceContent found = content_of(trace);
  EXPECT_THAT(found.untraced_processes, ElementsAre(1001, 1002));
  EXPECT_EQ(untraced_text(found), "processes 1001, 1002");
  EXPECT_EQ(found.ranges, 4);
  EXPECT_EQ(found.copies, 2);
  EXPECT_EQ(found.copy_calls, 1);
  EXPECT_EQ(found.calls, 3);
}

}  // namespace
}  // namespace nsys_explain::ingest
