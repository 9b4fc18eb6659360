#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/communicator.hpp"
#include "ingest/staging.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/attribute/attribution.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/tool_rank/job.hpp"

namespace nsys_explain::pipeline {

/// Throws std::runtime_error where the directory holds anything that the user did not allow to replace, but for what a
/// run leaves that was cut off before it had results.
void check_output_directory(const std::string& path, bool overwrite);

/// Throws std::runtime_error where no directory is and none can come: a file, a link that leads nowhere.
void require_place_for_directory(const std::filesystem::path& path);

/// Throws std::runtime_error where results or records would have to replace what is not of this program.
void check_own_places(const std::string& output_directory);

/// Where rank 0 writes. Results are made in a directory beside the final one and moved there when all are complete, so
/// nothing half-written replaces an older result. What was not published goes with this object, or, where
/// the process is killed, with the next run's into the same place.
class OutputDirectory {
 public:
  /// Creates the staging directory. Throws std::runtime_error: problem, why it matters, what to do.
  explicit OutputDirectory(const std::string& final_path);

  const std::filesystem::path& staging() const { return staging_->path(); }
  /// Writes a whole file in the staging directory; throws when the disk does not take it.
  void write_text(std::string_view name, const std::string& text) const;
  /// Removes the older results, of which none may stay beside the new ones, and moves every file to the final
  /// directory, each in one step.
  void publish(const std::vector<std::filesystem::path>& older = {});

 private:
  std::filesystem::path final_;
  std::optional<ingest::StagingDirectory> staging_;
};

/// Collective: writes the tables with a row per instance and per arrival from the blocks of all tool ranks, and that
/// with a row per step and trace rank, in bounded rounds, then the small ones, then (rank 0) publishes nothing yet.
/// `directory` is null on every tool rank but 0. Fails on all ranks alike (exchange::AgreedFailure) where rank 0 cannot
/// write.
void write_results(const exchange::Communicator& communicator, const JobSpecification& job, const JobReport& report,
                   const CrossRank& cross, const std::vector<StepRow>& step_rows, std::vector<LocalTrace>& local_traces,
                   OutputDirectory* directory);

}  // namespace nsys_explain::pipeline
