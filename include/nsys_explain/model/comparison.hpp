#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
  std::string topic;                      ///< "step", "rank time", "rank", "operation", "category", "phase", "kernel"
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

/// Time of a category of GPU work, or of a figure of the table `ranks`: mean over trace ranks.
struct MeanTime {
  std::string name;
  double mean_ns = 0;
};

/// How far a kernel is from the peaks of its GPU, by the trace's own GPU metrics: mean over samples and trace ranks.
struct KernelUse {
  std::string name;               ///< base name
  double compute_percent = 0;     ///< of the busier of tensor cores and instruction issue
  double memory_percent = 0;      ///< reads and writes of DRAM
  std::string_view compute_unit;  ///< "tensor cores" or "instruction issue"
  /// Arithmetic intensity over that of the ridge of the roofline: below 1 memory is the nearer roof.
  double ratio() const { return compute_percent / memory_percent; }
};

/// What the report of a run found: a row of its table `findings`.
struct RunFinding {
  std::string id, severity, title;
};

/// What one run did, to be seen beside others. Times are means over its trace ranks, in its whole window.
struct RunProfile {
  std::string name;
  std::int64_t trace_ranks = 0;
  std::int64_t steps = 0;                   ///< 0: not recognised
  std::optional<double> step_ns;            ///< mean
  std::vector<MeanTime> rank_means_ns;      ///< by column of the table `ranks`, those that it has
  std::vector<MeanTime> categories;         ///< GPU time, no moment counted twice; most first
  std::vector<MeanTime> kernels;            ///< time by name, executions added up; most first
  std::vector<KernelUse> kernel_uses;       ///< by name; kernels whose compute and memory were both sampled
  std::vector<MeanTime> budget;             ///< parts of the table `step_budget`, most first
  std::vector<std::string> frameworks;      ///< of the table `run_facts`, each once
  std::optional<double> outside_gpu_ns;     ///< rest of the time without the profiler, where the user said it
  std::vector<RunFinding> findings;         ///< most severe first
  std::optional<double> tokens;             ///< that the job processed in the window, as the user says
  std::optional<double> tokens_per_second;  ///< measured without the profiler, as the user says

  /// Time in which at least one category kept the GPU busy: their sum.
  double busy_ns() const;
  std::optional<double> mean_ns(std::string_view figure) const;
};

/// What times of runs are divided by to be compared: the finest that every run has.
enum class ComparisonBasis : std::uint8_t { window, step, token };

std::string_view basis_name(ComparisonBasis basis);

enum class TrendDirection : std::uint8_t { none, rising, falling, too_few_runs };

std::string_view trend_direction_name(TrendDirection direction);

/// One figure over a history of runs, times per basis of the comparison.
struct Trend {
  std::string topic;                                ///< as in Change
  std::string figure;                               ///< e.g. "step_ns"; of a category its name
  std::vector<std::optional<double>> values_ns;     ///< by run, oldest first; empty: this run has no such thing
  std::optional<double> change_per_run;             ///< relative to the median value; empty: fewer than two values
  std::optional<double> p_value;                    ///< of a history without trend to look as ordered as this one
  TrendDirection direction = TrendDirection::none;  ///< beyond chance and the tolerance
};

/// What of a trace rank's own time changed most. Kernels of names that both runs have: how long each takes, or how many
/// there are.
enum class ChangedPart : std::uint8_t { kernel_speed, kernel_work, copies, idle, graphs };

std::string_view part_name(ChangedPart part);

/// Trace ranks whose own time (all but exposed communication) explains why steps take longer or less long. Times are
/// means over them, per basis of the comparison.
struct ChangedPlace {
  std::string place;  ///< "node node001", "trace rank 5 (node001)", "all trace ranks"
  std::vector<std::int64_t> trace_ranks;
  double base_ns = 0, current_ns = 0;
  ChangedPart part = ChangedPart::kernel_speed;
  double part_base_ns = 0, part_current_ns = 0;  ///< kernel_speed: what as many take at the speed of the base, and take
};

struct Comparison {
  bool side_by_side = false;     ///< different programs: nothing is judged, only `runs` is filled
  std::vector<RunProfile> runs;  ///< oldest first, the compared one last, its base before it
  ComparisonBasis basis = ComparisonBasis::window;
  ComparisonVerdict verdict = ComparisonVerdict::unknown;
  bool is_one_run = false;                   ///< both reports hold the same figures, to the nanosecond
  Change headline;                           ///< time per output token, else per step, else of the GPU window
  std::vector<ChangedPlace> changed_places;  ///< where the headline changed and somebody's own time explains it
  std::vector<Change> changes;               ///< by topic, then by the time at stake, most first
  /// Time of the current run's compute kernels over what as many of each name would have taken in the base: is it their
  /// speed that changed, or their number? Of kernels that both have; empty where there are none.
  std::optional<double> kernel_time_ratio;
  std::vector<Trend> trends;       ///< of at least three runs
  std::vector<std::string> notes;  ///< what could not be compared, and why

  const RunProfile& base() const { return runs[runs.size() - 2]; }
  const RunProfile& current() const { return runs.back(); }
  /// Windows, steps or tokens of a run: divides its times.
  double amount(const RunProfile& run) const;
};

}  // namespace nsys_explain
