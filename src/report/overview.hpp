#pragma once

#include "nsys_explain/model/job_report.hpp"

/// What every kind of report says first: who is late, what it costs, how good the data are. Sentences are plain text
/// without foreign names, so that each report can mark them up.
namespace nsys_explain::report {

/// Sums over the whole job.
struct Overview {
  Nanoseconds window_ns = 0;      ///< of all trace ranks: the GPU time of the job
  Nanoseconds wait_ns = 0;        ///< of all trace ranks in collectives
  Nanoseconds delay_cost_ns = 0;  ///< of stragglers
  std::int64_t resolved = 0;      ///< instances whose last arriver the clock can tell
  std::int64_t inputs_ok = 0, inputs_degraded = 0, inputs_failed = 0;
  std::array<std::int64_t, 3> warnings{};  ///< kinds of warnings by Severity
  std::array<std::int64_t, 4> findings{};  ///< by FindingSeverity
  std::vector<Straggler> stragglers;       ///< most caused wait first
};

Overview overview_of(const JobReport& report);

/// What comes after the verdict: how much waiting there is, and how much of it is attributed, or why it is not. One
/// sentence per element.
std::vector<std::string> explanation(const JobReport& report, const Overview& overview);

/// "8 inputs: 7 ok, 0 degraded, 1 failed."
std::string input_quality(const JobReport& report, const Overview& overview);

/// "1,200 collectives matched: 1,150 complete, 50 partial; 3 arrivals without counterpart."
std::string matching_quality(const JobReport& report);

/// How sessions were brought to one clock, how well, and which differences nobody can tell therefore.
std::string clock_quality(const JobReport& report);

/// Where the trace rank ran; nullptr where it is not known.
/// Whom the verdict names, or suspects; nullptr: nobody.
const Straggler* late_in_verdict(const JobReport& report);

const TraceRankIdentity* find_identity(const JobReport& report, std::int32_t trace_rank);

/// "12.3 GPU-seconds", "4.56 GPU-hours", three significant digits; below a second "7.890 ms of GPU time".
std::string format_gpu_time(Nanoseconds duration_ns);

/// A command that can be copied, and what it should show.
struct NextStep {
  std::string command, expect;
};

/// What to run next by the verdict, at most three: a check of what is named, the rows that show it, and the comparison
/// with a run without it. `directory`: of the results. Names from traces are in a command only where they need no
/// quoting.
std::vector<NextStep> next_steps(const JobReport& report, std::string_view directory);

/// Sentences about what people ask next: since when, whether it gets worse, whether it is the network. Each begins with
/// its question's word: "When: ...", "Over time: ...", "Network: ...". A question that the data do not answer has none.
std::vector<std::string> short_answers(const JobReport& report);

/// One thing that the traces do not hold, and the exact commands that record it next time. Plain text.
struct CaptureAdvice {
  std::string missing;  ///< what is not there, and what cannot be said without it
  std::vector<std::string> commands;
};

/// What to capture differently, most important first. Empty where nothing is missing.
std::vector<CaptureAdvice> capture_advice(const JobReport& report);

}  // namespace nsys_explain::report
