#pragma once

#include <optional>
#include <string>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"
#include "unit/add_kernel.hpp"

/// A trace of one process with one device, put together event by event.
namespace nsys_explain::analysis::testing {

class MadeTrace {
 public:
  MadeTrace() {
    trace.strings = {""};
    trace.processes.resize(1);
    process().devices.resize(1);
    process().process_id = 100;
  }

  ProcessTrace& process() { return trace.processes.front(); }
  DeviceTrace& device() { return process().devices.front(); }

  StringIndex string(const std::string& text) {
    for (std::size_t i = 0; i < trace.strings.size(); ++i) {
      if (trace.strings[i] == text) return static_cast<StringIndex>(i);
    }
    trace.strings.push_back(text);
    return static_cast<StringIndex>(trace.strings.size() - 1);
  }

  /// Ranges must come by start.
  void range(Nanoseconds start_ns, Nanoseconds end_ns, const std::string& label, std::uint32_t thread = 1,
             const std::string& domain = "") {
    process().nvtx_ranges.push_back(make_range(start_ns, end_ns, label, thread, domain));
  }
  NvtxRange make_range(Nanoseconds start_ns, Nanoseconds end_ns, const std::string& label, std::uint32_t thread = 1,
                       const std::string& domain = "") {
    NvtxRange range;
    range.start_ns = start_ns;
    range.end_ns = end_ns;
    range.thread_id = range.end_thread_id = thread;
    range.text = string(label);
    range.domain = string(domain);
    return range;
  }

  /// A kernel and the call that launches it. Calls and kernels must come by start.
  KernelKind& launch(Nanoseconds call_start_ns, Nanoseconds call_end_ns, Nanoseconds start_ns, Nanoseconds end_ns,
                     const std::string& name = "gemm", std::uint32_t thread = 1) {
    call(call_start_ns, call_end_ns, ++correlation_, thread);
    return kernel(start_ns, end_ns, name, correlation_);
  }

  /// A launching call by itself; the kernel with its correlation id comes separately.
  void call(Nanoseconds start_ns, Nanoseconds end_ns, std::uint32_t correlation, std::uint32_t thread = 1) {
    ApiCall call;
    call.start_ns = start_ns;
    call.end_ns = end_ns;
    call.thread_id = thread;
    call.correlation_id = correlation;
    call.name = string("cudaLaunchKernel");
    process().api_calls.push_back(call);
  }

  KernelKind& kernel(Nanoseconds start_ns, Nanoseconds end_ns, const std::string& name, std::uint32_t correlation = 0) {
    KernelKind& kernel = nsys_explain::testing::add_kernel(device(), start_ns, end_ns, correlation);
    kernel.short_name = kernel.demangled_name = string(name);
    return kernel;
  }

  /// What an analysis gets. Valid until the next change.
  RankEvents events() {
    launches_.emplace(process().api_calls);
    return {trace, process(), device(), *launches_, nsys_explain::testing::nccl_kinds(trace, device())};
  }

  Trace trace;

 private:
  std::uint32_t correlation_ = 0;
  std::optional<LaunchIndex> launches_;
};

/// The row of a table in which the text column has that value; fails with std::out_of_range where there is none.
inline std::size_t row_with(const Table& table, std::string_view text_column, std::string_view value) {
  const auto& values = column<std::string>(table, text_column);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == value) return i;
  }
  throw std::out_of_range(std::string(value));
}

inline std::int64_t integer_at(const Table& table, std::string_view name, std::size_t row) {
  return column<std::int64_t>(table, name).at(row);
}

}  // namespace nsys_explain::analysis::testing
