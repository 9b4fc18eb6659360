#include "ingest/trace_content.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace nsys_explain::ingest {
namespace {

bool asks_for_copy(std::string_view call) {
  constexpr std::array names = {std::string_view("cudaMemcpy"), std::string_view("cudaMemset"),
                                std::string_view("cuMemcpy"), std::string_view("cuMemset")};
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return call.starts_with(name); });
}

bool holds_half(std::span<const TraceContent> exports, std::int64_t TraceContent::*events) {
  std::size_t with_kernels = 0, holders = 0;
  for (const TraceContent& one : exports) {
    if (one.kernels == 0) continue;
    ++with_kernels;
    holders += one.*events > 0 ? 1U : 0U;
  }
  return holders > 0 && 2 * holders >= with_kernels;
}

}  // namespace

bool has_nccl_operations(const ProcessTrace& process) {
  return std::any_of(process.nccl_calls.begin(), process.nccl_calls.end(),
                     [](const NcclCall& call) { return call.function <= NcclFunction::recv; });
}

TraceContent content_of(const Trace& trace) {
  TraceContent content;
  std::vector<bool> is_copy(trace.strings.size());
  for (std::size_t s = 0; s < is_copy.size(); ++s) is_copy[s] = asks_for_copy(trace.strings[s]);
  for (const ProcessTrace& process : trace.processes) {
    for (const DeviceTrace& device : process.devices) {
      content.kernels += static_cast<std::int64_t>(device.kernels.size());
      content.copies += static_cast<std::int64_t>(device.memory_operations.size());
    }
    content.ranges += static_cast<std::int64_t>(process.nvtx_ranges.size() + process.nccl_calls.size());
    content.calls += static_cast<std::int64_t>(process.api_calls.size());
    for (const ApiCall call : process.api_calls) content.copy_calls += is_copy[call.name] ? 1 : 0;
    if (process.devices.empty() && has_nccl_operations(process))
      content.untraced_processes.push_back(process.process_id);
  }
  return content;
}

std::string untraced_text(const TraceContent& content) {
  constexpr std::size_t most_named = 8;
  const std::vector<std::int32_t>& all = content.untraced_processes;
  const std::size_t named = std::min(all.size(), most_named);
  std::string text = fmt::format("process{} {}", all.size() == 1 ? "" : "es",
                                 fmt::join(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  return named < all.size() ? text + fmt::format(" and {} more", all.size() - named) : text;
}

std::vector<std::string> what_is_lacking(std::span<const TraceContent> exports) {
  const bool with_ranges = holds_half(exports, &TraceContent::ranges);
  const bool with_calls = holds_half(exports, &TraceContent::calls);
  const bool with_copies = holds_half(exports, &TraceContent::copies);
  std::vector<std::string> lacking;
  for (const TraceContent& one : exports) {
    std::vector<std::string_view> kinds;
    if (one.kernels > 0) {
      if (with_ranges && one.ranges == 0) kinds.emplace_back("no NVTX ranges");
      if (with_calls && one.calls == 0) kinds.emplace_back("no CUDA calls");
      if (with_copies && one.copies == 0 && one.copy_calls > 0)
        kinds.emplace_back("no copies, though its calls ask for some");
    }
    lacking.push_back(fmt::format("{}", fmt::join(kinds, " and ")));
  }
  return lacking;
}

}  // namespace nsys_explain::ingest
