#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/trace/rank_events.hpp"
#include "unit/add_kernel.hpp"

namespace nsys_explain::analysis::testing {

/// One process with one device, filled by hand. Thread 1 unless a test says otherwise; names are made up as they come.
/// Kernels whose short name begins with "nccl" communicate.
class RankFixture {
 public:
  RankFixture() { trace_.strings = {""}; }

  StringIndex name(const std::string& text) {
    for (std::size_t i = 0; i < trace_.strings.size(); ++i) {
      if (trace_.strings[i] == text) return static_cast<StringIndex>(i);
    }
    trace_.strings.push_back(text);
    return static_cast<StringIndex>(trace_.strings.size() - 1);
  }

  void call(const std::string& function, Nanoseconds start_ns, Nanoseconds end_ns, std::uint32_t correlation_id = 0,
            std::uint32_t thread_id = 1) {
    process_.api_calls.push_back({start_ns, end_ns, thread_id, correlation_id, name(function), 0, 0});
  }

  /// A kernel, launched by a call of [launch_ns, launch_ns + 10).
  void kernel(const std::string& text, Nanoseconds launch_ns, Nanoseconds start_ns, Nanoseconds end_ns,
              std::int32_t grid = 1, std::uint32_t thread_id = 1) {
    const std::uint32_t id = next_correlation_++;
    call("cudaLaunchKernel", launch_ns, launch_ns + 10, id, thread_id);
    KernelKind& k = nsys_explain::testing::add_kernel(device_, start_ns, end_ns, id);
    k.short_name = k.demangled_name = name(text);
    k.grid_x = grid;
    k.grid_y = k.grid_z = k.block_x = k.block_y = k.block_z = 1;
  }

  void copy(const std::string& function, Nanoseconds call_start_ns, Nanoseconds call_end_ns, Nanoseconds start_ns,
            Nanoseconds end_ns) {
    const std::uint32_t id = next_correlation_++;
    call(function, call_start_ns, call_end_ns, id);
    MemoryOperation operation;
    operation.start_ns = start_ns;
    operation.end_ns = end_ns;
    operation.correlation_id = id;
    operation.bytes = 1000;
    operation.copy_kind = 1;
    device_.memory_operations.push_back(operation);
  }

  void range(const std::string& text, Nanoseconds start_ns, Nanoseconds end_ns, std::uint32_t thread_id = 1) {
    NvtxRange range;
    range.start_ns = start_ns;
    range.end_ns = end_ns;
    range.thread_id = range.end_thread_id = thread_id;
    range.text = name(text);
    process_.nvtx_ranges.push_back(range);
  }

  ProcessTrace& process() { return process_; }

  /// Valid while the fixture stays as it is. Events must have been added in order of time.
  RankEvents events() {
    launches_.emplace(process_.api_calls);
    return {trace_, process_, device_, *launches_, nsys_explain::testing::nccl_kinds(trace_, device_)};
  }

 private:
  Trace trace_;
  ProcessTrace process_;
  DeviceTrace device_;
  std::optional<LaunchIndex> launches_;
  std::uint32_t next_correlation_ = 1;
};

}  // namespace nsys_explain::analysis::testing
