#pragma once

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::testing {

/// Adds a kernel with a kind of its own, which is returned for more to be said. (Read traces share kinds; analyses must
/// not rely on equal ones being one.)
inline KernelKind& add_kernel(DeviceTrace& device, Nanoseconds start_ns, Nanoseconds end_ns,
                              std::uint32_t correlation_id = 0) {
  device.kernels.push_back({start_ns, end_ns, correlation_id, static_cast<std::uint32_t>(device.kernel_kinds.size())});
  return device.kernel_kinds.emplace_back();
}

/// By kind: whether its short name begins with "nccl".
inline std::vector<bool> nccl_kinds(const Trace& trace, const DeviceTrace& device) {
  std::vector<bool> communication;
  for (const KernelKind& kind : device.kernel_kinds) {
    communication.push_back(trace.strings[kind.short_name].starts_with("nccl"));
  }
  return communication;
}

}  // namespace nsys_explain::testing
