#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "nsys_explain/model/time.hpp"

/// What the end of the run waited for, from the last activity back to the first: a chain without gaps or overlaps.
namespace nsys_explain {

enum class CriticalKind : std::uint8_t {
  compute,   ///< kernels
  copy,      ///< copies and sets
  transfer,  ///< of a collective, once its last member had entered
  launch,    ///< from a launch to the start on the GPU, and the gaps between kernels
  host,      ///< what the host did by itself until it launched
  unknown    ///< nothing recorded tells
};
inline constexpr std::size_t critical_kind_count = 6;

std::string_view critical_kind_name(CriticalKind kind);

struct CriticalSegment {
  Nanoseconds start_ns = 0, end_ns = 0;  ///< job time
  std::int32_t trace_rank = -1;
  CriticalKind kind = CriticalKind::unknown;
};

/// Of one trace rank in one step.
struct CriticalShare {
  std::int64_t step = -1;  ///< -1: behind the last step, or no steps are known
  std::int32_t trace_rank = -1;
  std::array<Nanoseconds, critical_kind_count> duration_ns{};  ///< by CriticalKind

  Nanoseconds of(CriticalKind kind) const { return duration_ns[static_cast<std::size_t>(kind)]; }
};

/// Known on rank 0 only; empty where the job was not replayed.
struct CriticalPath {
  std::vector<CriticalSegment> segments;  ///< ascending
  std::vector<CriticalShare> by_step;     ///< by step, then trace rank
};

/// Sums over all steps, by trace rank.
std::vector<CriticalShare> critical_shares(const CriticalPath& path);

}  // namespace nsys_explain
