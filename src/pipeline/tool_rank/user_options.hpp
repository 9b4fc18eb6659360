#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/links/links.hpp"
#include "analysis/tables/side_files.hpp"
#include "ingest/rank_resolution.hpp"
#include "nsys_explain/model/regex.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/topology.hpp"

namespace nsys_explain::pipeline {

/// The job specification with its files read and its texts understood.
struct UserOptions {
  ingest::RankOverrides ranks;
  analysis::AnalysisOptions analysis;
  RackOfHost racks;
  analysis::RequestLog requests;
  analysis::NcclLog nccl_log;
  Table engine_layers;                         ///< without columns: not given
  std::vector<Table> allocator_tables;         ///< likewise
  std::vector<analysis::LinkPeak> link_peaks;  ///< come before the built-in ones
  std::string inspector_directory;             ///< empty: none
  std::vector<Regex> communication_kernels;    ///< names of kernels that communicate, beside the built-in table
  std::uint64_t reading_digest = 0;  ///< of all options and files of options that change what reading a trace gives
  std::string window_text;  ///< the options that choose a part of the run, as the reports state them; empty: none
};

/// Throws std::runtime_error: problem, why it matters, what to do.
UserOptions read_user_options(const JobSpecification& job);

/// The files and directories beside the traces that a run reads, as its options name them; empty: not given.
std::vector<std::string*> paths_to_read(JobSpecification& job);

/// What files beside the traces tell of the whole job; none of files that were not given.
std::vector<Table> side_file_tables(const UserOptions& options);

}  // namespace nsys_explain::pipeline
