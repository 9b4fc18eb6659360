#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "analysis/causes/causes.hpp"
#include "nsys_explain/model/job_report.hpp"

/// Waiting that comes from a few delays and not from one rank: a single delay of milliseconds convicts nobody, but
/// what happened before it can be told.
namespace nsys_explain::analysis {

/// The share of the elapsed time that is saved besides, if the work of this trace rank were as is usual once the
/// stragglers and slow links are mended; empty where no replay tells.
using SavedByRank = std::function<std::optional<double>(std::int32_t)>;

/// How many of the longest waits deserve an explanation of their own: as many as hold 80% of all waiting, where those
/// whose trace rank no finding tells as late hold at least 30% of all waiting, and 0.5% of all GPU time, or nearly all
/// is for one trace rank whose mending saves 1% of the elapsed time; else 0. `longest`: the cases with the most caused
/// wait of the run, most first. `saved` is asked alike on every tool rank.
std::size_t waits_to_explain(const JobReport& report, std::span<const StragglerCase> longest, const SavedByRank& saved);

/// The trace rank for which nearly all of these waits are (90% of the time), if there is one.
std::optional<std::int32_t> waited_for_alone(std::span<const LongWait> waits);

/// `divergence` and `compute`: of this case alone; nullptr where the traces were not read again.
LongWait explain_wait(const StragglerCase& one, const Divergence* divergence, const ComputeDifference* compute);

}  // namespace nsys_explain::analysis
