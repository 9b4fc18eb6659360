#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "pipeline/read/trace_records.hpp"
#include "pipeline/tool_rank/job.hpp"

/// What a run leaves behind that is cut off (a signal, a lost host, a timeout), and how another one takes it up.
///
/// While a run goes on, OUT/shards holds the plan of the run and a record of every trace that was read, each written by
/// the tool rank that read it as soon as it has it. They outlive every failure: only a run that has done all it was
/// asked for removes them, once all of its tool ranks know that. `merge` is the same run once more, with the plan in
/// the place of arguments and records in the place of traces, so its results are equal.
namespace nsys_explain::pipeline {

/// Which traces a run reads, and how: what the arguments meant on the hosts of the run.
struct RunPlan {
  JobSpecification job;
  std::string directory;  ///< where relative paths begin
  ingest::MergedDiscovery discovery;
  Nanoseconds epoch_utc_ns = 0;  ///< where a window of time counts from
};

/// Collective: the plan that the shards hold; nothing where the job is not a merge. Fails on all ranks alike
/// (exchange::AgreedFailure) where the shards hold no plan, or different ones.
std::optional<RunPlan> recall_plan(const exchange::Communicator& communicator, const JobSpecification& job);

/// The job to be run: the plan's, with the outputs of the request.
JobSpecification continued(JobSpecification planned, const JobSpecification& request);

/// Where the shards of a run lie.
std::filesystem::path shard_directory(const std::string& output_directory);

/// What to do about a run that did not come to its end.
std::string how_to_finish(const JobSpecification& job);

/// The shards of this run from its first record to its end.
class UnfinishedRun {
 public:
  /// Before any tool rank writes.
  UnfinishedRun(const JobSpecification& job, const exchange::Communicator& communicator);

  /// Never throws: the run itself does not need it. Returns whether it is kept: not in a merge, whose plan lies in its
  /// shards.
  bool keep(const RunPlan& plan);

  TraceRecords& records() { return records_; }

  /// Removes what nobody needs any more: the run has done all it was asked for, on all tool ranks. Of a merge, only the
  /// shards in its own output directory, and only where nothing is missing.
  void complete(bool nothing_is_missing);

  /// Why nothing, or not everything, could be kept; empty where it could.
  std::string failure() const;

 private:
  const bool is_merge_, is_root_;
  const bool takes_own_shards_;  ///< a merge of the shards in its output directory
  const std::filesystem::path output_;
  const bool had_output_;
  const RecordDirectory shards_;
  TraceRecords records_;
  std::string plan_failure_;
};

}  // namespace nsys_explain::pipeline
