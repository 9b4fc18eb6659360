#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What changed from one run of a job to another, and whether more than chance would change.
namespace nsys_explain {

/// Ratio of two means of serially dependent samples with an interval that covers 99% under resampling.
struct RatioEstimate {
  double ratio = 1;
  double low = 1, high = 1;
};

/// One figure in both runs. Times are nanoseconds.
struct Change {
  std::string topic;                      ///< "step", "rank time", "operation", "kernel", "category", "phase"
  std::string name;                       ///< e.g. the kernel; empty for the job as a whole
  std::string figure;                     ///< e.g. "mean_ns", "wait_ns"
  std::optional<double> base, current;    ///< empty: this run has no such thing
  std::optional<RatioEstimate> estimate;  ///< empty: its noise is not known
  bool larger_is_worse = true;
  bool significant = false;  ///< beyond the noise and the tolerance

  /// current / base; empty where one is missing or base is 0.
  std::optional<double> ratio() const;
};

enum class ComparisonVerdict : std::uint8_t { same, better, worse, unknown };

std::string_view verdict_name(ComparisonVerdict verdict);

struct Comparison {
  std::string base_name, current_name;
  std::vector<std::string> history;  ///< names of earlier bases, oldest first
  ComparisonVerdict verdict = ComparisonVerdict::unknown;
  Change headline;              ///< time per step, or the GPU window where no steps are known
  std::vector<Change> changes;  ///< by topic, then by the time at stake, most first
  /// Headline figure of every run, oldest first, the compared one last.
  std::vector<std::pair<std::string, double>> trend;
  std::vector<std::string> notes;  ///< what could not be compared, and why
};

}  // namespace nsys_explain
