#include "analysis/trace/cpu_samples.hpp"

#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {

Nanoseconds sampling_period_ns(std::span<const CpuSample> samples) {
  std::unordered_map<std::uint32_t, Nanoseconds> last_ns;  // by thread
  std::vector<Nanoseconds> gaps;
  for (const CpuSample& sample : samples) {
    const auto [last, is_first] = last_ns.try_emplace(sample.thread_id, sample.time_ns);
    if (!is_first) gaps.push_back(sample.time_ns - std::exchange(last->second, sample.time_ns));
  }
  return gaps.empty() ? 0 : lower_median(std::move(gaps));
}

std::string function_name(const Trace& trace, const CpuSample& sample) {
  const std::string &function = trace.strings[sample.function], &module = trace.strings[sample.module];
  if (function.empty()) return module.empty() ? "not known" : module;
  return module.empty() ? function : fmt::format("{} ({})", function, module);
}

}  // namespace nsys_explain::analysis
