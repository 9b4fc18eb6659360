#pragma once

#include "analysis/causes/compute_difference.hpp"
#include "analysis/verdict/job_delays.hpp"
#include "nsys_explain/model/job_report.hpp"

/// What is known about a straggler beside its work before the collectives that it delayed.
namespace nsys_explain::analysis {

/// True where transfers over slow links are most of what a straggler took longer than its peers: its work is not what
/// makes it late, and no comparison of work can tell why it is.
bool late_by_transfers(const JobReport& report, const JobDelays& delays, const Straggler& straggler);

/// Completes the cause of a straggler (after decide_cause, whose verdict only gives way where it is `unknown`, where
/// late_by_transfers, or as told here):
/// - late by transfers: slow_link;
/// - a pipeline stage with more than its part of the layers (JobDelays::stages): extra_work;
/// - GPUs that are known to be slow by kernels that run elsewhere, too (table gpu_speed): slow_kernel; likewise instead
///   of any other cause, where at least half of what they took longer over the run, beyond what is usual for the
///   others, is lost by that speed;
/// And gives the evidence that bears on the cause: what it computes longer (`compute`, nullptr where that is not
/// known), for slow_kernel the clocks, power and temperature of its GPUs beside those of the other GPUs (table
/// gpu_samples), for slow_link the link (JobReport::slow_links). Tables and links are those of the report: on the tool
/// rank that holds none, nothing is added. Where its trace ranks are several places at once, the cause decides which of
/// them names it.
void complete_cause(const JobReport& report, const JobDelays& delays, const ComputeDifference* compute,
                    Straggler& straggler);

}  // namespace nsys_explain::analysis
