#include "pipeline/read/unfinished_run.hpp"

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "exchange/agree.hpp"
#include "pipeline/tool_rank/own_files.hpp"
#include "pipeline/tool_rank/pack.hpp"
#include "pipeline/tool_rank/user_options.hpp"

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

/// Of another version of this program, a plan is as good as none.
constexpr std::string_view plan_key = "run plan 1 of nsys-explain-mpi " NSYS_EXPLAIN_VERSION;

}  // namespace

template <class Archive>
void serialize(Archive& archive, RunPlan& plan) {
  archive(plan.job, plan.directory, plan.discovery.traces, plan.discovery.failed, plan.discovery.warnings,
          plan.epoch_utc_ns);
}

namespace {

std::string load_plan(const std::vector<std::string>& directories) {
  std::optional<std::string> plan;
  for (const std::string& directory : directories) {
    std::optional<std::string> found = RecordDirectory(directory, RecordsOf::anybody).load(plan_key);
    if (!found) continue;
    if (plan && *plan != *found) {
      throw std::runtime_error(fmt::format(
          "{} is of another run than the directories before it: traces of two runs would be mixed; name the shards of one run",
          directory));
    }
    plan = std::move(found);
  }
  if (!plan) {
    throw std::runtime_error(fmt::format(
        "{} holds no shards of a run of this version ({}): there is nothing to finish; name the directory `shards` in the output directory of a run that was cut off, or repeat the run",
        directories.front(), NSYS_EXPLAIN_VERSION));
  }
  return *std::move(plan);
}

/// From here, a path that was relative there.
void make_absolute(RunPlan& plan) {
  std::error_code error;
  if (fs::current_path(error) == plan.directory) return;
  const auto moved = [&](std::string& path) {
    if (!path.empty()) path = (fs::path(plan.directory) / path).string();
  };
  for (ingest::AssignedTrace& trace : plan.discovery.traces) moved(trace.path);
  for (std::string* path : paths_to_read(plan.job)) moved(*path);
}

bool names_directory(const std::vector<std::string>& names, const fs::path& directory) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    std::error_code ignored;
    return fs::equivalent(name, directory, ignored);
  });
}

TraceRecords::Places places_of(const JobSpecification& job, const RecordDirectory& shards) {
  TraceRecords::Places places;
  for (const std::string& directory : job.shard_directories) places.sources.emplace_back(directory, RecordsOf::anybody);
  if (!job.cache_directory.empty()) places.cache.emplace(job.cache_directory);
  if (places.sources.empty()) places.shards = shards;
  return places;
}

}  // namespace

std::optional<RunPlan> recall_plan(const exchange::Communicator& communicator, const JobSpecification& job) {
  if (job.shard_directories.empty()) return std::nullopt;
  std::string packed;
  exchange::run_agreed(communicator, "reading the shards", [&] {
    if (communicator.is_root()) packed = load_plan(job.shard_directories);
  });
  const std::vector<char> shared = communicator.broadcast(std::span<const char>(packed));
  std::optional<RunPlan> plan;
  exchange::run_agreed(communicator, "reading the shards", [&] {
    plan = unpack<RunPlan>({shared.data(), shared.size()});
    make_absolute(*plan);
  });
  return plan;
}

JobSpecification continued(JobSpecification planned, const JobSpecification& request) {
  planned.output_directory = request.output_directory;
  planned.overwrite = request.overwrite;
  if (!request.title.empty()) planned.title = request.title;
  planned.write_csv = planned.write_csv || request.write_csv;
  planned.nsys_command = request.nsys_command;
  planned.quiet = request.quiet;
  planned.perfetto_path = request.perfetto_path;
  planned.perfetto_window = request.perfetto_window;
  planned.perfetto_events = request.perfetto_events;
  planned.threads = request.threads;
  planned.memory_limit_bytes = request.memory_limit_bytes;
  planned.timeout_s = request.timeout_s;
  planned.prometheus_path = request.prometheus_path;
  planned.show_timing = request.show_timing;
  planned.summary_line = request.summary_line;
  planned.shard_directories = request.shard_directories;
  planned.only_shards = request.only_shards;
  return planned;
}

fs::path shard_directory(const std::string& output_directory) {
  return fs::path(output_directory) / "shards";
}

std::string how_to_finish(const JobSpecification& job) {
  const std::string shards = shard_directory(job.output_directory).string();
  std::error_code ignored;
  if (!job.shard_directories.empty()) return "repeat the merge";
  if (!fs::is_directory(shards, ignored)) return "nothing had been read; repeat the run";
  return fmt::format("what was read lies in {}: nsys-explain-mpi merge {} --out {} --force finishes it", shards, shards,
                     job.output_directory);
}

UnfinishedRun::UnfinishedRun(const JobSpecification& job, const exchange::Communicator& communicator)
    : is_merge_(!job.shard_directories.empty()),
      is_root_(communicator.is_root()),
      takes_own_shards_(names_directory(job.shard_directories, shard_directory(job.output_directory))),
      output_(job.output_directory),
      had_output_(fs::exists(output_)),
      shards_(shard_directory(job.output_directory)),
      records_(places_of(job, shards_)) {}

void UnfinishedRun::complete(bool nothing_is_missing) {
  if (is_merge_ && !(is_root_ && takes_own_shards_ && nothing_is_missing)) return;
  std::error_code ignored;
  // What earlier runs left lies where the first tool rank writes.
  const std::vector<fs::path> all = is_root_ ? records_in(shards_.path()).ours : std::vector<fs::path>();
  for (auto path = all.rbegin(); path != all.rend(); ++path) fs::remove(*path, ignored);
  if (is_merge_) return;
  records_.discard_shards();
  fs::remove(shards_.file_of(plan_key), ignored);
  // On the disk of a host without results nothing remains. Directories that hold anything stay.
  fs::remove(shards_.path(), ignored);
  if (!had_output_) fs::remove(output_, ignored);
}

bool UnfinishedRun::keep(const RunPlan& plan) {
  if (is_merge_ || plan.discovery.traces.empty()) return false;
  try {
    shards_.save(plan_key, [&](std::streambuf& bytes) { write_packed(plan, bytes); });
  } catch (const std::exception& error) {
    plan_failure_ = error.what();
  }
  return plan_failure_.empty();
}

std::string UnfinishedRun::failure() const {
  if (!plan_failure_.empty()) return plan_failure_ + std::string(what_is_lost);
  return records_.failure();
}

}  // namespace nsys_explain::pipeline
