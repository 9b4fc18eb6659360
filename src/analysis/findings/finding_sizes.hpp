#pragma once

#include <string>

#include <fmt/format.h>

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/time.hpp"

/// How findings speak of sizes: the same words in all of them.
namespace nsys_explain::analysis {

inline double seconds(Nanoseconds duration_ns) {
  return static_cast<double>(duration_ns) * 1e-9;
}

/// Time summed over GPUs, in a unit in which it is not all zeros: "2.558 GPU-seconds", "31.250 ms of GPU time".
inline std::string gpu_time(Nanoseconds duration_ns) {
  const auto ns = static_cast<double>(duration_ns);
  if (duration_ns >= 100'000'000) return fmt::format("{:.3f} GPU-seconds", ns * 1e-9);
  return duration_ns >= 100'000 ? fmt::format("{:.3f} ms of GPU time", ns * 1e-6)
                                : fmt::format("{:.3f} us of GPU time", ns * 1e-3);
}

/// A part of it beside the whole, in one unit: "0.049 of 0.599 GPU-seconds", "0.012 of 6.123 ms of GPU time".
inline std::string gpu_time_of(Nanoseconds part_ns, Nanoseconds whole_ns) {
  const bool in_seconds = part_ns >= 10'000'000;
  const double scale = in_seconds ? 1e-9 : 1e-6;
  return fmt::format("{:.3f} of {:.3f} {}", static_cast<double>(part_ns) * scale, static_cast<double>(whole_ns) * scale,
                     in_seconds ? "GPU-seconds" : "ms of GPU time");
}

/// 0 where there is no whole.
template <class Part>
double share(Part part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// A share of the job's time from which on a finding is severe, unless it says otherwise.
inline constexpr double severe_share = 0.20;

/// High from `severe` on, medium from a quarter of it on, low below.
inline FindingSeverity severity_of(double part, double severe = severe_share) {
  if (part >= severe) return FindingSeverity::high;
  return part >= severe / 4 ? FindingSeverity::medium : FindingSeverity::low;
}

}  // namespace nsys_explain::analysis
