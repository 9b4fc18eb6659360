#pragma once

#include "analysis/causes/causes.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/attribute/job_replay.hpp"

namespace nsys_explain::pipeline {

/// What one trace rank more saves, once the stragglers and slow links of the report are mended. Collective when asked;
/// the replay must outlive it.
analysis::SavedByRank saved_besides_told(const JobReplay& replay, const JobRanks& job, const JobReport& report);

/// What mending somebody, or changing the whole job, would save. Sets what_if, slowdown, critical_path and step_time of
/// the report, whose stragglers are known, on rank 0; says so where the job has too many arrivals for that.
void replay_scenarios(const JobReplay& job, const ReplaySetting& setting, JobReport& report);

}  // namespace nsys_explain::pipeline
