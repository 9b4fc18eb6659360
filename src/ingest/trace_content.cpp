#include "ingest/trace_content.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingest/table_scan.hpp"
#include "model/text.hpp"

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

namespace {

struct HeldEvents {
  std::int64_t cuda_calls = 0, launches = 0, system_calls = 0, ranges = 0;
  std::int64_t memory_operations = 0, graph_launches = 0, cpu_samples = 0;
  std::map<StringIndex, std::int64_t> ranges_by_name;
};

/// cudaLaunchKernel, cuLaunchKernelEx, cudaGraphLaunch, ...
bool launches_work(std::string_view call) {
  for (const std::string_view start : {"cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch"})
    if (call.starts_with(start)) return true;
  return false;
}

HeldEvents count_held(const Trace& trace, const StringTable& strings) {
  HeldEvents held;
  std::map<StringIndex, std::int64_t> calls_by_name;
  for (const ProcessTrace& process : trace.processes) {
    held.cuda_calls += static_cast<std::int64_t>(process.api_calls.size());
    held.system_calls += static_cast<std::int64_t>(process.os_calls.size());
    held.ranges += static_cast<std::int64_t>(process.nvtx_ranges.size());
    held.cpu_samples += static_cast<std::int64_t>(process.cpu_samples.size());
    for (const ApiCall call : process.api_calls) ++calls_by_name[call.name];
    for (const NvtxRange range : process.nvtx_ranges) ++held.ranges_by_name[range.text];
    for (const DeviceTrace& device : process.devices) {
      held.memory_operations += static_cast<std::int64_t>(device.memory_operations.size());
      held.graph_launches += static_cast<std::int64_t>(device.graph_launches.size());
    }
  }
  for (const auto& [name, count] : calls_by_name)
    if (launches_work(strings.kept(name))) held.launches += count;
  return held;
}

/// "only 3 CUDA calls, 21998 NVTX ranges (most often ...)".
std::string describe(const HeldEvents& held, const StringTable& strings) {
  std::vector<std::string> parts;
  if (held.cuda_calls > 0) parts.push_back(fmt::format("{} CUDA calls", held.cuda_calls));
  if (held.system_calls > 0) parts.push_back(fmt::format("{} calls into the operating system", held.system_calls));
  if (held.ranges > 0) {
    const auto most = std::max_element(held.ranges_by_name.begin(), held.ranges_by_name.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    parts.push_back(fmt::format("{} NVTX ranges ({} '{}': {})", held.ranges,
                                2 * most->second > held.ranges ? "most of them" : "most often",
                                strings.kept(most->first), most->second));
  }
  if (held.cpu_samples > 0) parts.push_back(fmt::format("{} CPU samples", held.cpu_samples));
  return parts.empty() ? "nor calls or ranges of the program" : fmt::format("only {}", fmt::join(parts, ", "));
}

/// What nsys says of the CUDA events that it collected.
struct CollectedEvents {
  std::int64_t count = 0;  ///< 0 where it does not tell
  bool may_be_lost = false;
};

CollectedEvents collected_cuda_events(const Database& database) {
  constexpr std::string_view start = "Number of CUDA events collected:";
  CollectedEvents collected;
  TableScan scan(database, "DIAGNOSTIC_EVENT");
  const auto text = scan.text("text");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      if (text[row].starts_with("Not all CUDA events")) collected.may_be_lost = true;
      if (!text[row].starts_with(start)) continue;
      std::string digits;
      std::copy_if(text[row].begin() + start.size(), text[row].end(), std::back_inserter(digits),
                   [](char c) { return c >= '0' && c <= '9'; });
      collected.count = std::max(collected.count, integer_of(digits).value_or(0));
    }
  });
  return collected;
}

/// Why there are none, and after a semicolon what to do.
std::string reason(const Database& database, const Metadata& metadata, const HeldEvents& held) {
  if (held.graph_launches > 0)
    return "what ran lies in CUDA graphs recorded as one interval each; capture with nsys profile -t cuda,nvtx --cuda-graph-trace=node";
  if (metadata.partial_export)
    return "only some tables or a span of time were exported; export without --tables and --times";
  if (held.memory_operations > 0)
    return "the GPU only copied while the capture was open; open it when kernels run, later or for longer";
  if (held.launches > 0) {
    return fmt::format(
        "{} of the CUDA calls launch work, and nothing of it was recorded, as where another profiler holds the GPU or the program is killed before nsys has written what it collected; stop the capture before the program ends",
        held.launches);
  }
  const CollectedEvents collected = collected_cuda_events(database);
  if (collected.may_be_lost)
    return "nsys warns that it may not have collected all CUDA events, so work of the GPU may be lost; stop the capture before the program ends, and see what nsys reports besides";
  if (held.cuda_calls > 0)
    return "none of the CUDA calls launches work, so the program gave the GPU nothing to do while the capture was open; open it when work runs, later or for longer (nsys profile --delay, or --capture-range)";
  if (collected.count > 0) {
    return fmt::format("nsys collected {} CUDA events, of which the export holds none; export the report again",
                       collected.count);
  }
  if (metadata.cuda_traced == true)
    return "CUDA was traced, but no CUDA call was made while the capture was open; open it when work runs, and start nsys on the process that uses the GPU";
  if (metadata.cuda_traced == false) return "CUDA was not traced; capture with nsys profile -t cuda,nvtx";
  return "there is nothing to analyse on the GPU; capture with nsys profile -t cuda,nvtx";
}

}  // namespace

std::optional<Warning> no_kernels_warning(const Database& database, const Metadata& metadata,
                                          const StringTable& strings, const Trace& trace) {
  for (const ProcessTrace& process : trace.processes) {
    for (const DeviceTrace& device : process.devices)
      if (!device.kernels.empty()) return std::nullopt;
  }
  const HeldEvents held = count_held(trace, strings);
  return Warning{Severity::data_loss, WarningSource::trace, 1,
                 fmt::format("the export holds no GPU kernels ({}), {}: {}",
                             trace.has_kernel_table ? "its kernel table is empty" : "it has no kernel table",
                             describe(held, strings), reason(database, metadata, held))};
}

}  // namespace nsys_explain::ingest
