#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/attribute/attribution.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/run/job.hpp"

namespace nsys_explain::pipeline {

/// Throws std::runtime_error where the directory holds older results that the user did not allow to replace.
void check_output_directory(const std::string& path, bool overwrite);

/// Where rank 0 writes. Results are made in a directory beside the final one and moved there when all are complete, so
/// nothing half-written replaces an older result. The destructor removes what was not published.
class OutputDirectory {
 public:
  /// Creates the staging directory. Throws std::runtime_error: problem, why it matters, what to do.
  explicit OutputDirectory(const std::string& final_path);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::filesystem::path& staging() const { return staging_; }
  /// Writes a whole file in the staging directory; throws when the disk does not take it.
  void write_text(const std::string& name, const std::string& text) const;
  /// Removes what was not published.
  void remove() const;
  /// Moves every file to the final directory, each in one step.
  void publish();

 private:
  std::filesystem::path final_, staging_;
};

/// Collective: writes the tables with a row per instance and per arrival from the blocks of all tool ranks, and that
/// with a row per step and trace rank, in bounded rounds, then the small ones, then (rank 0) publishes nothing yet.
/// `directory` is null on every tool rank but 0. Fails on all ranks alike (exchange::AgreedFailure) where rank 0 cannot
/// write.
void write_results(const exchange::Communicator& communicator, const JobSpecification& job, const JobReport& report,
                   const CrossRank& cross, const std::vector<StepRow>& step_rows, std::vector<LocalTrace>& local_traces,
                   OutputDirectory* directory);

}  // namespace nsys_explain::pipeline
