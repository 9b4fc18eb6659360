#pragma once

#include <optional>
#include <span>
#include <vector>

#include "nsys_explain/model/slowdown.hpp"
#include "pipeline/attribute/gathered_job.hpp"
#include "pipeline/attribute/job_replay.hpp"

namespace nsys_explain::pipeline {

/// What measure_slowdown needs, of a job that is replayed here.
std::vector<analysis::Scenario> slowdown_scenarios(const JobReplay& job);

/// `replayed`: the scenarios of slowdown_scenarios(). Empty where nothing took time.
std::optional<Slowdown> measure_slowdown(const JobReplay& job, const ReplaySetting& setting,
                                         std::span<const analysis::Scenario> scenarios,
                                         std::span<const analysis::ReplayedTime> replayed);

}  // namespace nsys_explain::pipeline
