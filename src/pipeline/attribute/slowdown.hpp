#pragma once

#include <optional>

#include "nsys_explain/model/slowdown.hpp"
#include "pipeline/attribute/gathered_job.hpp"
#include "pipeline/attribute/job_replay.hpp"

namespace nsys_explain::pipeline {

/// Of a job that is replayed here; empty where nothing took time.
std::optional<Slowdown> measure_slowdown(const JobReplay& job, const ReplaySetting& setting);

}  // namespace nsys_explain::pipeline
