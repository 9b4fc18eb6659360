#pragma once

#include <span>
#include <string>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

/// The time that one sample stands for: the median from one of a thread to its next; 0: no thread has two. A thread is
/// sampled only while it runs, so longer gaps are time off a core.
Nanoseconds sampling_period_ns(std::span<const CpuSample> samples);

/// "read_csv (libarrow.so)", "libcuda.so.1"; "not known" where the call chain tells nothing.
std::string function_name(const Trace& trace, const CpuSample& sample);

}  // namespace nsys_explain::analysis
