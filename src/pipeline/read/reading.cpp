#include "pipeline/read/reading.hpp"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/window/window.hpp"
#include "clock/level_zero.hpp"
#include "exchange/agree.hpp"
#include "exchange/communicator.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/tool_rank/memory_budget.hpp"
#include "pipeline/tool_rank/pack.hpp"
#include "pipeline/tool_rank/phases.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Collective: which part of each process all tool ranks analyse (analysis::common_windows). Returns the inputs of this
/// tool rank that were read with another one; they must be read once more. Lets go of LocalTrace::recorded_steps.
AgreedWindows agree_on_windows(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces) {
  std::vector<analysis::ProcessSteps> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const auto& [process, steps] : trace.recorded_steps)
      mine.push_back(analysis::tell_steps(steps, clock::session_start(trace.facts.session, 0).ns));
  }
  const std::string bytes = pack(mine);
  const auto gathered = communicator.all_gather(std::span<const char>(bytes));
  std::vector<analysis::ProcessSteps> all;
  std::size_t first = 0;  // of this tool rank
  for (int r = 0; r < communicator.size(); ++r) {
    if (r == communicator.rank()) first = all.size();
    const std::span<const char> part = gathered.of(r);
    auto told = unpack<std::vector<analysis::ProcessSteps>>(std::string_view(part.data(), part.size()));
    std::move(told.begin(), told.end(), std::back_inserter(all));
  }
  const std::vector<analysis::CommonWindow> windows = analysis::common_windows(all);
  AgreedWindows differing;
  for (LocalTrace& trace : local_traces) {
    analysis::ProcessWindows agreed;
    bool differs = false;
    for (const auto& [process, steps] : trace.recorded_steps) {
      const Interval window =
          analysis::window_in_trace(windows[first++], steps, clock::session_start(trace.facts.session, 0).ns);
      const Interval& own = trace.windows.at(process);
      // Where nothing was recorded between both, they are the same.
      const bool begins_alike =
          window.start_ns == own.start_ns || (steps.source == analysis::StepSource::none &&
                                              window.start_ns > steps.cut_off_ns && window.start_ns < own.start_ns);
      const bool ends_alike = window.end_ns == own.end_ns;
      differs = differs || !begins_alike || !ends_alike;
      agreed[process] = window;
    }
    if (differs) differing[trace.facts.input.path] = std::move(agreed);
    trace.recorded_steps.clear();
  }
  return differing;
}

}  // namespace

std::vector<ingest::AssignedTrace> traces_of(int tool_rank, const RunPlan& plan) {
  std::vector<ingest::AssignedTrace> traces;
  for (const ingest::AssignedTrace& assigned : plan.discovery.traces) {
    if (assigned.tool_rank == tool_rank) traces.push_back(assigned);
  }
  return traces;
}

std::vector<LocalTrace> read_inputs(const exchange::Communicator& communicator, const JobSpecification& job,
                                    const std::vector<ingest::AssignedTrace>& mine, const ReadSettings& reading,
                                    Phases& phases) {
  std::vector<LocalTrace> local_traces;
  phases.local("reading traces", [&] {
    std::int64_t bytes = 0;
    for (const ingest::AssignedTrace& assigned : mine) bytes += assigned.bytes;
    const bool shows = communicator.is_root() && !job.quiet && stderr_is_terminal();
    Progress progress(static_cast<std::int64_t>(mine.size()), bytes, shows);
    if (!reading.memory.limit_bytes()) keep_freed_memory(reading.threads);
    local_traces = read_local_traces(mine, reading, progress);
    return_freed_memory();
    phases.count(progress.rows(), progress.bytes());
  });
  return local_traces;
}

void agree_on_steps(const exchange::Communicator& communicator, const std::vector<ingest::AssignedTrace>& mine,
                    const ReadSettings& reading, Phases& phases, std::vector<LocalTrace>& local_traces) {
  if (!reading.options.analysis.window.steady) return;
  AgreedWindows agreed;
  phases.collective("agreeing on steps", [&] { agreed = agree_on_windows(communicator, local_traces); });
  if (communicator.sum(std::ssize(agreed)) == 0) return;
  phases.local("reading traces once more", [&] {
    ReadSettings again = reading;
    again.agreed = &agreed;
    std::vector<ingest::AssignedTrace> differing;
    for (const ingest::AssignedTrace& assigned : mine)
      if (agreed.contains(assigned.name)) differing.push_back(assigned);
    Progress silent(std::ssize(differing), 0, false);
    for (LocalTrace& trace : read_local_traces(differing, again, silent)) {
      if (!trace.facts.analysed) continue;  // the file is gone: better what it proposed itself than nothing
      trace.recorded_steps.clear();
      const auto before = std::find_if(local_traces.begin(), local_traces.end(), [&](const LocalTrace& one) {
        return one.facts.input.path == trace.facts.input.path;
      });
      *before = std::move(trace);
    }
    return_freed_memory();
  });
}

void prepare_for_arrivals(const exchange::Communicator& communicator, const MemoryBudget& memory,
                          const std::vector<LocalTrace>& local_traces) {
  std::int64_t arrivals = 0;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) arrivals += static_cast<std::int64_t>(rank.arrivals.size());
  }
  arrivals = communicator.sum(arrivals);
  const std::int64_t replayed = communicator.is_root() ? std::min(arrivals, most_replayed_arrivals) : 0;
  const MemoryBudget::Arrivals planned{arrivals / communicator.size(), replayed, communicator.is_root()};
  const std::int64_t enough = communicator.maximum(memory.limit_bytes() ? memory.limit_for(planned) : 0);
  exchange::run_agreed(communicator, "planning memory", [&] { memory.require_for(planned, enough); });
}

std::optional<RunFacts::Memory> memory_facts(const exchange::Communicator& communicator, const MemoryBudget& memory) {
  if (!memory.limit_bytes()) return std::nullopt;
  return RunFacts::Memory{*memory.limit_bytes(), communicator.sum(memory.traces_in_files()),
                          communicator.maximum(memory.most_file_bytes())};
}

void report_unkept(const exchange::Communicator& communicator, const UnfinishedRun& unfinished,
                   std::ostream& problems) {
  const std::vector<std::string> failures = communicator.all_gather_text(unfinished.failure());
  const auto failure = std::find_if(failures.begin(), failures.end(), [](const std::string& f) { return !f.empty(); });
  if (failure == failures.end() || !communicator.is_root()) return;
  problems << fmt::format("nsys-explain-mpi: tool rank {} {}\n", failure - failures.begin(), *failure);
}

TraceAccess trace_access(const JobSpecification& job) {
  if (job.shard_directories.empty()) return TraceAccess::always;
  return job.only_shards ? TraceAccess::never : TraceAccess::when_unchanged;
}

}  // namespace nsys_explain::pipeline
