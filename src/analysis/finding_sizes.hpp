#pragma once

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/time.hpp"

/// How findings speak of sizes: the same words in all of them.
namespace nsys_explain::analysis {

inline double seconds(Nanoseconds duration_ns) {
  return static_cast<double>(duration_ns) * 1e-9;
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
