#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "nsys_explain/ingest/discovery.hpp"
#include "pipeline/read/unfinished_run.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/user_options.hpp"

namespace nsys_explain::pipeline {

/// Leaves records of traces as a run that was cut off leaves them: `merge OUT/shards` finishes it. The traces need not
/// remain, so a job can be analysed whose exports fit no disk.
class RecordMaker {
 public:
  /// The records go into `output_directory`/shards.
  explicit RecordMaker(const std::string& output_directory);

  /// Reads a trace and keeps its record; from several threads, of a different trace each. Throws std::runtime_error
  /// where it cannot be read or kept.
  void add(const std::string& path);

  /// Keeps the plan of the run, once all traces are added. Throws std::runtime_error.
  void finish();

 private:
  void require_kept() const;

  const JobSpecification job_;
  const UserOptions options_;
  UnfinishedRun run_;
  std::mutex mutex_;  // guards the rest
  std::vector<ingest::AssignedTrace> traces_;
};

}  // namespace nsys_explain::pipeline
