#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/job_graph.hpp"

/// A part of a job that is too large to be replayed: some of its steps, spread evenly.
namespace nsys_explain::analysis {

/// Which steps are replayed, so that they hold `most` arrivals or fewer; `arrivals` by step. All, where they do; none,
/// where fewer than eleven fit: too few to tell how much the replay errs. Runs of five steps or more, since the first
/// of a run tells nothing: how the ranks stood to each other before it is not known.
///
///     1,000 steps of 100,000 arrivals, `most` 2,000,000:  20 steps in four runs, the first of them 151 to 155
std::vector<bool> sampled_steps(std::span<const std::int64_t> arrivals, std::int64_t most);

/// Leaves of one trace rank the arrivals of these steps, and the pieces before each of them.
void keep_steps(const std::vector<bool>& steps, std::vector<ReplayArrival>& arrivals, std::vector<JobPiece>& pieces);

}  // namespace nsys_explain::analysis
