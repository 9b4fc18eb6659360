#pragma once

#include <cstdint>

namespace nsys_explain {

/// KernelKind::stream_id of the kernels that stand for calls in which the host communicates: CUDA has no such stream.
inline constexpr std::uint32_t stream_of_calls = 0xFFFFFFFE;

}  // namespace nsys_explain
