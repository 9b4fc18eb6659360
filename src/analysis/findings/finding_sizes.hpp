#pragma once

#include <string>
#include <string_view>

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

struct TimeUnit {
  std::string_view name;
  double ns;
};

/// The largest in which the time is at least 1.
inline TimeUnit unit_of(Nanoseconds time_ns) {
  if (time_ns >= 1'000'000'000) return {"s", 1e9};
  return time_ns >= 1'000'000 ? TimeUnit{"ms", 1e6} : TimeUnit{"us", 1e3};
}

/// Three digits, all of what is above 1: "33.9", "8.14", "1250".
inline std::string in_unit(Nanoseconds time_ns, TimeUnit unit) {
  const double value = static_cast<double>(time_ns) / unit.ns;
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

inline std::string duration_text(Nanoseconds time_ns) {
  const TimeUnit unit = unit_of(time_ns);
  return fmt::format("{} {}", in_unit(time_ns, unit), unit.name);
}

/// 0 where there is no whole.
template <class Part>
double share(Part part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// Shares from which on a finding is high or medium; below it is low. docs/reading-the-report.md has them as a table.
struct SeverityScale {
  double high, medium;
};

/// Of the elapsed time, by replay. Less than 1% is within the error that replays have in tests (docs/accuracy.md).
inline constexpr SeverityScale saved_time{0.05, 0.01};
/// Of the job's GPU time that others wait or transfers lose: nearly all of it is elapsed time.
inline constexpr SeverityScale lost_time{0.05, 0.0125};
/// Of the job's GPU time that equal stages would save: a model is not divided anew for little.
inline constexpr SeverityScale stage_time{0.10, 0.025};
/// Of the job's GPU time, of which mending may save any part.
inline constexpr SeverityScale spent_time{0.20, 0.05};

inline FindingSeverity severity_of(double part, SeverityScale scale = spent_time) {
  if (part >= scale.high) return FindingSeverity::high;
  return part >= scale.medium ? FindingSeverity::medium : FindingSeverity::low;
}

}  // namespace nsys_explain::analysis
