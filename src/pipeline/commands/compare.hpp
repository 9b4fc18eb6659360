#pragma once

#include <iosfwd>
#include <string>
#include <vector>

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

}  // namespace nsys_explain::pipeline
