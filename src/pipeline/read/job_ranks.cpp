#include "pipeline/read/job_ranks.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "clock/level_zero.hpp"
#include "exchange/agree.hpp"
#include "ingest/rank_resolution.hpp"
#include "ingest/session_checks.hpp"
#include "ingest/trace_content.hpp"
#include "model/text.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

/// How many collectives each identity takes part in.
std::vector<std::int64_t> count_collectives(const LocalTrace& trace) {
  std::map<TraceRankKey, std::int64_t> of_key;
  for (const LocalRank& rank : trace.ranks) of_key[rank.key] = std::ssize(rank.arrivals);
  std::vector<std::int64_t> counts;
  for (const TraceRankIdentity& identity : trace.facts.identities) counts.push_back(of_key[identity.key]);
  return counts;
}

void mark_degraded(TraceFacts& trace, std::string message) {
  if (trace.input.status == InputStatus::ok) {
    trace.input.status = InputStatus::degraded;
    trace.input.message = message;
  }
  trace.warnings.push_back({Severity::data_loss, WarningSource::analysis, 1, std::move(message)});
}

/// An export that lacks what others hold, or the GPU work of some of its processes, is said to.
void mark_lacking(std::vector<TraceFacts>& facts) {
  std::vector<ingest::TraceContent> contents;
  for (const TraceFacts& trace : facts) contents.push_back(trace.content);
  const std::vector<std::string> lacking = ingest::what_is_lacking(contents);
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const std::string path = shell_quoted(facts[i].input.path);
    if (!lacking[i].empty()) {
      mark_degraded(
          facts[i],
          fmt::format(
              "{} holds {}, unlike the other exports: what rests on them cannot be told of its ranks; export all tables of every report, and capture every rank alike",
              path, lacking[i]));
    }
    if (!contents[i].untraced_processes.empty()) {
      mark_degraded(
          facts[i],
          fmt::format(
              "{} in {} called NCCL, and no GPU work of theirs is in it: their ranks are missing; let nsys trace the CUDA of all processes",
              ingest::untraced_text(contents[i]), path));
    }
  }
}

std::size_t session_of(const std::vector<Session>& sessions, const TraceRankKey& key) {
  const auto session = std::lower_bound(sessions.begin(), sessions.end(), key.path,
                                        [](const Session& s, const std::string& path) { return s.path < path; });
  return static_cast<std::size_t>(session - sessions.begin());
}

/// The local processes without GPU work get their numbers; those of inputs that are copies of others go.
void number_hosts(const JobRanks& job, std::vector<LocalRank>& hosts) {
  std::map<TraceRankKey, std::int32_t> numbers;
  for (const TraceRankIdentity& identity : job.hosts) numbers[identity.key] = identity.trace_rank;
  std::erase_if(hosts, [&](const LocalRank& host) { return !numbers.contains(host.key); });
  for (LocalRank& host : hosts) {
    host.trace_rank = numbers.at(host.key);
    host.session = session_of(job.sessions, host.key);
    host.clock = job.trace_clock(host.session, {});
  }
}

/// Of the traces of all tool ranks, by path.
std::vector<TraceFacts> gather_facts(const exchange::Communicator& communicator,
                                     const std::vector<LocalTrace>& local_traces) {
  std::vector<TraceFacts> mine;
  mine.reserve(local_traces.size());
  for (const LocalTrace& trace : local_traces) {
    mine.push_back(trace.facts);
    mine.back().collectives = count_collectives(trace);
  }
  std::vector<TraceFacts> facts;
  for (std::vector<TraceFacts>& part : all_gather_packed(communicator, mine)) {
    std::move(part.begin(), part.end(), std::back_inserter(facts));
  }
  std::sort(facts.begin(), facts.end(),
            [](const TraceFacts& a, const TraceFacts& b) { return a.input.path < b.input.path; });
  return facts;
}

/// The local trace ranks get their numbers and clocks; those that are none of it go.
void number_ranks(JobRanks& job, std::vector<LocalTrace>& local_traces) {
  job.ranks_of_session.assign(job.sessions.size(), 0);
  std::map<TraceRankKey, std::size_t> rank_of_key;
  for (std::size_t r = 0; r < job.trace_ranks.size(); ++r) {
    const TraceRankIdentity& identity = job.trace_ranks[r];
    job.numbers.push_back(identity.trace_rank);
    job.session_of_rank.push_back(session_of(job.sessions, identity.key));
    ++job.ranks_of_session[job.session_of_rank.back()];
    rank_of_key[identity.key] = r;
  }
  for (LocalTrace& trace : local_traces) {
    number_hosts(job, trace.hosts);
    std::erase_if(trace.ranks, [&](const LocalRank& rank) { return !rank_of_key.contains(rank.key); });
    for (LocalRank& rank : trace.ranks) {
      const std::size_t r = rank_of_key.at(rank.key);
      rank.trace_rank = job.numbers[r];
      rank.session = job.session_of_rank[r];
      for (TraceArrival& arrival : rank.arrivals) arrival.trace_rank = rank.trace_rank;
      rank.clock = job.trace_clock(rank.session, {});
    }
  }
}

}  // namespace

JobRanks resolve_job(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces,
                     const std::vector<InputReport>& failed_discoveries, const ingest::RankOverrides& overrides) {
  std::vector<TraceFacts> facts = gather_facts(communicator, local_traces);
  mark_lacking(facts);

  JobRanks job;
  job.inputs = failed_discoveries;
  std::vector<Session> analysed;
  std::vector<ingest::SessionExtent> extents;
  for (const TraceFacts& trace : facts) {
    if (!trace.analysed) continue;
    analysed.push_back(trace.session);
    extents.push_back(trace.extent);
  }
  const ingest::SessionChecks checks = ingest::check_sessions(analysed, extents);
  job.warnings = checks.warnings;
  job.world_size = checks.world_size.value_or(0);

  std::vector<TraceRankIdentity> identities;
  std::vector<std::int64_t> collectives;
  std::vector<ingest::SessionExtent> kept_extents;
  for (TraceFacts& trace : facts) {
    const auto copy = std::find_if(checks.duplicates.begin(), checks.duplicates.end(),
                                   [&](const InputReport& duplicate) { return duplicate.path == trace.input.path; });
    if (copy != checks.duplicates.end()) {
      job.inputs.push_back(*copy);
      continue;
    }
    job.inputs.push_back(trace.input);
    if (!trace.analysed) continue;
    job.sessions.push_back(trace.session);
    kept_extents.push_back(trace.extent);
    for (Warning& warning : trace.warnings) job.warnings.push_back(std::move(warning));
    for (TraceRankIdentity& identity : trace.identities) identities.push_back(std::move(identity));
    for (TraceRankIdentity& host : trace.hosts) job.hosts.push_back(std::move(host));
    collectives.insert(collectives.end(), trace.collectives.begin(), trace.collectives.end());
    job.untraced_processes += std::ssize(trace.content.untraced_processes);
    if (trace.input.status == InputStatus::degraded && trace.content.ranges == 0)
      job.without_ranges.insert(trace.input.path);
  }
  std::sort(job.inputs.begin(), job.inputs.end(), [](const auto& a, const auto& b) { return a.path < b.path; });

  for (Warning& warning : ingest::unused_entry_warnings(overrides, identities))
    job.warnings.push_back(std::move(warning));
  ingest::RanksWithoutHelpers without = ingest::leave_out_helpers(std::move(identities), collectives);
  for (Warning& warning : without.warnings) job.warnings.push_back(std::move(warning));
  exchange::run_agreed(communicator, "resolving ranks", [&] {
    const std::string problem = ingest::several_jobs_problem(job.sessions, kept_extents, without.ranks);
    if (!problem.empty()) throw std::runtime_error(problem);
  });
  ingest::Resolution resolution = ingest::resolve_trace_ranks(std::move(without.ranks), checks.world_size);
  job.trace_ranks = std::move(resolution.trace_ranks);
  for (Warning& warning : resolution.warnings) job.warnings.push_back(std::move(warning));
  job.hosts = ingest::number_host_processes(std::move(job.hosts), job.trace_ranks);
  job.epoch_utc_ns = clock::job_epoch_utc_ns(job.sessions);

  number_ranks(job, local_traces);
  return job;
}

}  // namespace nsys_explain::pipeline
