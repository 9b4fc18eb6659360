#pragma once

#include <optional>

#include "analysis/replay/replay.hpp"
#include "nsys_explain/model/slowdown.hpp"
#include "pipeline/attribute/gathered_job.hpp"

namespace nsys_explain::pipeline {

/// Empty where nothing took time.
std::optional<Slowdown> measure_slowdown(const analysis::JobGraph& graph, const analysis::Replay& replay,
                                         const analysis::ReplayedTime& measured, const ReplaySetting& setting);

}  // namespace nsys_explain::pipeline
