#include "pipeline/read/job_choice.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "clock/level_zero.hpp"
#include "exchange/agree.hpp"
#include "ingest/jobs.hpp"
#include "ingest/session_checks.hpp"
#include "model/text.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

std::vector<InputReport> copies_among(const std::vector<TraceFacts>& facts) {
  std::vector<Session> sessions;
  std::vector<ingest::SessionExtent> extents;
  for (const TraceFacts& trace : facts) {
    if (!trace.analysed) continue;
    sessions.push_back(trace.session);
    extents.push_back(trace.extent);
  }
  return ingest::check_sessions(sessions, extents).duplicates;
}

std::set<std::string> paths_of(const ingest::Job& job, const std::vector<ingest::JobUnit>& units) {
  std::set<std::string> paths;
  for (const std::size_t u : job.units) paths.insert(units[u].path);
  return paths;
}

std::vector<OtherJob> other_jobs(std::size_t chosen, const std::vector<ingest::Job>& jobs,
                                 const std::vector<ingest::JobUnit>& units) {
  std::vector<OtherJob> others;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (j == chosen) continue;
    const std::set<std::string> paths = paths_of(jobs[j], units);
    // Reasons are told against the first.
    const std::string& reason = jobs[j].reason.empty() ? jobs[chosen].reason : jobs[j].reason;
    others.push_back({jobs[j].trace_ranks, {paths.begin(), paths.end()}, reason, command_for(j, jobs, units)});
  }
  return others;
}

/// Further runs of the processes that are analysed, by the first that tells of some.
std::vector<OtherJob> other_runs(const std::vector<TraceFacts>& facts, const JobChoice& choice) {
  std::set<std::string> paths;
  std::vector<Session> sessions;
  for (const TraceRankKey& rank : choice.trace_ranks) paths.insert(rank.path);
  for (const TraceFacts& trace : facts)
    if (paths.contains(trace.input.path)) sessions.push_back(trace.session);
  const Nanoseconds epoch_utc_ns = clock::job_epoch_utc_ns(sessions);
  std::string files;
  for (const std::string& path : paths) files += ' ' + shell_quoted(path);
  std::vector<OtherJob> others;
  for (const TraceFacts& trace : facts) {
    if (!paths.contains(trace.input.path)) continue;
    for (const ingest::ProcessFacts& process : trace.processes) {
      const auto& [pauses, analysed] = process.runs;
      for (std::size_t r = 0; r <= pauses.size() && !pauses.empty(); ++r) {
        if (r == analysed) continue;
        const auto moment = [&](std::size_t pause) {
          const Nanoseconds time_ns = clock::session_start(trace.session, epoch_utc_ns).ns + pauses[pause];
          return fmt::format("{}ms", time_ns / 1'000'000);
        };
        others.push_back(
            {static_cast<std::int32_t>(choice.trace_ranks.size()),
             {paths.begin(), paths.end()},
             "the same processes ran it at another time, with other communicators",
             fmt::format("nsys-explain-mpi{} --filter-time {}/{} --out report-{}", files, r == 0 ? "" : moment(r - 1),
                         r == pauses.size() ? "" : moment(r), others.size() + 2)});
      }
      if (!others.empty()) return others;
    }
  }
  return others;
}

void leave_out_exports_of(const std::vector<OtherJob>& others, const std::set<std::string>& analysed,
                          std::vector<InputReport>& left_out) {
  std::set<std::string> told;
  for (const OtherJob& job : others) {
    for (const std::string& path : job.paths) {
      if (analysed.contains(path) || !told.insert(path).second) continue;
      left_out.push_back(
          {path, InputStatus::failed,
           fmt::format(
               "is of another job ({}), whose ranks never meet those that are analysed: it is left out; analyse it by itself: {}",
               job.reason, job.command)});
    }
  }
}

}  // namespace

std::vector<TraceFacts> gather_facts(const exchange::Communicator& communicator,
                                     const std::vector<LocalTrace>& local_traces) {
  std::vector<TraceFacts> mine;
  mine.reserve(local_traces.size());
  for (const LocalTrace& trace : local_traces) mine.push_back(trace.facts);
  std::vector<TraceFacts> facts;
  for (std::vector<TraceFacts>& part : all_gather_packed(communicator, mine)) {
    std::move(part.begin(), part.end(), std::back_inserter(facts));
  }
  std::sort(facts.begin(), facts.end(),
            [](const TraceFacts& a, const TraceFacts& b) { return a.input.path < b.input.path; });
  return facts;
}

const InputReport* JobChoice::why_left_out(const std::string& path) const {
  const auto found = std::lower_bound(left_out.begin(), left_out.end(), path,
                                      [](const InputReport& input, const std::string& p) { return input.path < p; });
  return found == left_out.end() || found->path != path ? nullptr : &*found;
}

JobChoice choose_job(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces,
                     const UserOptions& options, const std::string& wanted) {
  const std::vector<TraceFacts> facts = gather_facts(communicator, local_traces);
  JobChoice choice;
  choice.left_out = copies_among(facts);
  std::vector<ingest::JobUnit> units;
  for (const TraceFacts& trace : facts) {
    if (!trace.analysed || choice.why_left_out(trace.input.path) != nullptr) continue;
    std::vector<ingest::JobUnit> some =
        ingest::units_of(trace.identities, trace.session, trace.extent, trace.processes);
    std::move(some.begin(), some.end(), std::back_inserter(units));
  }
  const std::vector<ingest::Job> jobs = ingest::divide_into_jobs(units);
  std::ptrdiff_t chosen = 0;
  exchange::run_agreed(communicator, "choosing the job", [&] {
    if (wanted.empty()) return;
    chosen = ingest::job_of(wanted, jobs, units);
    if (chosen < 0) {
      throw std::runtime_error(fmt::format(
          "--job-of {}: no input of that name holds a rank, so the job that is meant is not known; give a file as it is named in the report, or FILE:PID",
          shell_quoted(wanted)));
    }
  });
  if (!jobs.empty()) {
    const ingest::Job& job = jobs[static_cast<std::size_t>(chosen)];
    choice.others = other_jobs(static_cast<std::size_t>(chosen), jobs, units);
    leave_out_exports_of(choice.others, paths_of(job, units), choice.left_out);
    std::sort(choice.left_out.begin(), choice.left_out.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
    std::set<std::pair<std::string, std::uint64_t>> processes;
    for (const std::size_t u : job.units) processes.insert({units[u].path, units[u].global_pid});
    for (const TraceFacts& trace : facts) {
      for (const TraceRankIdentity& rank : trace.identities)
        if (processes.contains({rank.key.path, rank.key.global_pid})) choice.trace_ranks.insert(rank.key);
    }
  }
  if (options.analysis.window.steady) {
    for (OtherJob& run : other_runs(facts, choice)) choice.others.push_back(std::move(run));
  }
  keep_chosen(choice, local_traces);
  return choice;
}

void keep_chosen(const JobChoice& choice, std::vector<LocalTrace>& local_traces) {
  for (LocalTrace& trace : local_traces) {
    std::erase_if(trace.ranks, [&](const LocalRank& rank) { return !choice.trace_ranks.contains(rank.key); });
    std::erase_if(trace.recorded_steps, [&](const auto& steps) {
      return std::none_of(trace.ranks.begin(), trace.ranks.end(),
                          [&](const LocalRank& rank) { return rank.key.global_pid == steps.first; });
    });
  }
}

}  // namespace nsys_explain::pipeline
