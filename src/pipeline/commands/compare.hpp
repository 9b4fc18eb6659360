#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "pipeline/commands/show.hpp"

/// `nsys-explain-mpi compare`: what changed from earlier runs to the last one.
namespace nsys_explain::pipeline {

/// Exit code of a comparison in which the last run is worse beyond the noise.
inline constexpr int regression_found = 10;

/// Where --require-judgement asks for one: of a comparison that cannot be judged.
inline constexpr int not_judged = 11;

struct CompareRequest {
  std::vector<std::string> store_paths;  ///< at least two; the last one is compared with those before
  std::string output_directory;          ///< compare.md, compare.json and compare.html; empty: print only
  bool overwrite = false;
  double tolerance_percent = 1;
  bool require_judgement = false;         ///< not_judged instead of all_analysed where the noise is not known
  bool side_by_side = false;              ///< different programs: nothing is judged
  std::vector<std::string> labels;        ///< what to call the runs; empty: by their paths
  std::vector<double> tokens;             ///< that each job processed in its trace: one for all, or one for each
  std::vector<double> tokens_per_second;  ///< measured without the profiler, likewise
};

/// Returns regression_found, not_judged or an ExitCode (job.hpp); problems go to `problems`. Throws nothing.
int compare(const CompareRequest& request, std::ostream& out, std::ostream& problems);

// `nsys-explain-mpi diff`: two tables of one name from two stores, row by row.

struct DiffRequest {
  std::string before_path, after_path;  ///< of stores
  std::string table;
  std::vector<std::string> by;       ///< columns that tell rows apart
  std::vector<std::string> columns;  ///< to compare
  std::vector<std::string> renames;  ///< PATTERN=REPLACEMENT
  ShowFormat format = ShowFormat::text;
  std::size_t limit = 50;  ///< rows; 0: all
  bool colour = false;
};

/// Returns an ExitCode (job.hpp); problems go to `problems`. Throws nothing.
int difference(const DiffRequest& request, std::ostream& out, std::ostream& problems);

}  // namespace nsys_explain::pipeline
