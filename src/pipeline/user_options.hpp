#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsys_explain/analysis/link_peaks.hpp"
#include "nsys_explain/analysis/options.hpp"
#include "nsys_explain/ingest/rank_resolution.hpp"
#include "nsys_explain/pipeline/job.hpp"
#include "topology.hpp"

namespace nsys_explain::pipeline {

/// The job specification with its files read and its texts understood.
struct UserOptions {
  ingest::RankOverrides ranks;
  analysis::AnalysisOptions analysis;
  RackOfHost racks;
  std::vector<analysis::LinkPeak> link_peaks;  ///< come before the built-in ones
  std::string inspector_directory;             ///< empty: none
  std::uint64_t reading_digest = 0;  ///< of all options and files of options that change what reading a trace gives
  std::string window_text;  ///< the options that choose a part of the run, as the reports state them; empty: none
};

/// Throws std::runtime_error: problem, why it matters, what to do.
UserOptions read_user_options(const JobSpecification& job);

}  // namespace nsys_explain::pipeline
