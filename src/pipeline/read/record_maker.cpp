#include "pipeline/read/record_maker.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "exchange/communicator.hpp"
#include "ingest/input_file.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/tool_rank/memory_budget.hpp"
#include "pipeline/tool_rank/phases.hpp"

namespace nsys_explain::pipeline {
namespace {

JobSpecification job_of(const std::string& output_directory) {
  JobSpecification job;
  job.inputs = {output_directory};
  job.output_directory = output_directory;
  return job;
}

std::runtime_error no_record(const std::string& path, const std::string& why) {
  return std::runtime_error(fmt::format(
      "{} leaves no record: {}; without it the job is not whole; remove what was written and repeat the command", path,
      why));
}

ingest::AssignedTrace found(const std::string& path) {
  ingest::Discovery discovery = ingest::discover({path});
  if (discovery.traces.size() != 1) throw no_record(path, "it is no export");
  const ingest::FoundTrace& trace = discovery.traces.front();
  return {trace.path, trace.path, trace.bytes, 0, trace.modified_ns, trace.sample_hash};
}

}  // namespace

RecordMaker::RecordMaker(const std::string& output_directory)
    : job_(job_of(output_directory)), options_(read_user_options(job_)), run_(job_, exchange::Communicator::serial()) {}

void RecordMaker::add(const std::string& path) {
  if (ingest::has_sidecar(path)) throw no_record(path, "a log of its changes lies beside it");
  const ingest::AssignedTrace trace = found(path);
  MemoryBudget no_limit(std::nullopt);
  KeptExports none(job_.nsys_command);
  Progress silent(1, trace.bytes, false);
  const std::vector<LocalTrace> read =
      read_local_traces({trace}, {options_, run_.records(), no_limit, none, 0, job_.reader, 1}, silent);
  if (!read.front().facts.analysed) throw no_record(path, read.front().facts.input.message);
  require_kept();
  const std::scoped_lock lock(mutex_);
  traces_.push_back(trace);
}

void RecordMaker::finish() {
  RunPlan plan;
  plan.job = job_;
  std::error_code ignored;
  plan.directory = std::filesystem::current_path(ignored).string();
  plan.discovery.traces = std::move(traces_);
  std::sort(plan.discovery.traces.begin(), plan.discovery.traces.end(),
            [](const ingest::AssignedTrace& a, const ingest::AssignedTrace& b) { return a.name < b.name; });
  run_.keep(plan);
  require_kept();
}

void RecordMaker::require_kept() const {
  if (const std::string failure = run_.failure(); !failure.empty()) throw no_record(job_.output_directory, failure);
}

}  // namespace nsys_explain::pipeline
