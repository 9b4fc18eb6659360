#pragma once

#include "nsys_explain/model/job_report.hpp"

/// Findings that rest on several tables, or on replays.
namespace nsys_explain::analysis {

/// The verdict on a report whose findings are known: what is missing, then the first high or medium finding, which
/// saves most time where that is known, else who is late at little cost, else that nobody is, or why that cannot be
/// told.
JobVerdict judge(const JobReport& report);

/// One finding per straggler of the report: what it costs, why it is late, the evidence, and what to do about that
/// cause. None for those whom a slow link makes late: the finding of the link tells.
void add_straggler_findings(const JobReport& report, std::vector<Finding>& findings);

/// One finding per suspect: what would prove it, or what it would cost. Likewise.
void add_suspect_findings(const JobReport& report, std::vector<Finding>& findings);

/// What the two leave out of those whom this link of the report makes late: stragglers, then suspects.
std::vector<Finding> findings_of_late_by(const SlowLink& link, const JobReport& report);

/// One finding where delays cost much, but now one trace rank has them, now another: what that jitter costs, without a
/// culprit.
void add_rotating_delay_finding(const JobReport& report, std::vector<Finding>& findings);

/// One finding where a few collectives hold much of the waiting without anybody being late as a rule.
void add_long_wait_finding(const JobReport& report, std::vector<Finding>& findings);

/// Finding late-without-cost: JobReport::late_without_cost. The replay infers part of who waits for whom, so it may be
/// wrong about the cost; that somebody takes longer is measured.
void add_late_without_cost(const JobReport& report, std::vector<Finding>& findings);

/// "trace rank 2 takes 12.4% of a step longer than its peers"; empty where nobody does without a cost.
std::string describe_late_without_cost(const JobReport& report);

/// The pipeline stage that computes clearly longer than the others, which then wait for it, unless a straggler is the
/// reason: from the table stage_balance. Whether that is how the model was divided or work too much no peer can tell.
void add_longest_stage_finding(const JobReport& report, std::vector<Finding>& findings);

/// What stages of a pipeline wait for each other, beyond what other findings tell (`told_ns`): not who is late, but how
/// the program is scheduled.
void add_pipeline_bubble_finding(const JobReport& report, Nanoseconds told_ns, std::vector<Finding>& findings);

/// Why transfers run without compute, and what to do about it.
struct OverlapAdvice {
  std::vector<std::string> evidence;
  std::string recommendation;
};

/// From what was recorded, in this order: communication on the streams of compute (table streams), one hardware queue
/// for all streams (CUDA_DEVICE_MAX_CONNECTIONS=1, table run_facts), CUDA_LAUNCH_BLOCKING, and hosts that launch late
/// (half of the exposed communication is launch-paced) with the synchronising calls that they are in (table barriers).
/// Without any of these: compute waits for what is transferred. Advice to use streams of their own is given only to
/// those whose streams are one.
OverlapAdvice explain_exposed_communication(const JobReport& report);

/// True where waiting can be told from transfers: most collectives have all their members, on clocks that can be
/// compared. Of others a member that nobody recorded may be the one that all wait for.
bool waiting_is_known(const JobReport& report);

/// Collective operations of a job of one trace rank of which nothing tells the group: its other members were not
/// recorded. 0 where there are several trace ranks.
std::int64_t collectives_alone(const JobReport& report);

/// What is missing of a job of which communicators have members without a trace: how many, which, and what cannot be
/// told without them; of processes whose GPU work nsys did not record; of trace ranks that nothing tells the group of.
/// `somebody_is_late`: a finding names somebody. Empty where nothing shows that any is missing.
std::optional<Finding> find_missing_ranks(const JobReport& report, bool somebody_is_late);

/// The compute kernel, by name, that takes most time over all trace ranks.
struct HeaviestKernel {
  std::string name;
  Nanoseconds total_ns = 0;
  std::int64_t count = 0;
  double share = 0;  ///< of the windows of all trace ranks
};

/// Empty where no compute kernel ran.
std::optional<HeaviestKernel> heaviest_kernel(const JobReport& report);

/// Where the capture holds hardly any GPU work: that it does, and all other findings become low ones. What takes long
/// in it is how the program starts, or the profiler.
void judge_short_capture(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
