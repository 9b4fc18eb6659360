#include "pipeline/read/job_ranks.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "clock/level_zero.hpp"
#include "ingest/rank_resolution.hpp"
#include "ingest/session_checks.hpp"
#include "ingest/trace_content.hpp"
#include "model/text.hpp"

namespace nsys_explain::pipeline {
namespace {

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

/// The largest communicator that processes of the job made.
void look_only_at(const JobChoice& choice, TraceFacts& trace) {
  std::erase_if(trace.identities, [&](const TraceRankIdentity& one) { return !choice.trace_ranks.contains(one.key); });
  trace.extent.largest_communicator = 0;
  for (const ingest::ProcessFacts& process : trace.processes) {
    const bool is_of_job = trace.identities.empty() ||
                           std::any_of(trace.identities.begin(), trace.identities.end(),
                                       [&](const auto& one) { return one.key.global_pid == process.global_pid; });
    if (is_of_job)
      trace.extent.largest_communicator = std::max(trace.extent.largest_communicator, process.largest_communicator);
  }
}

/// What the inputs that are analysed tell together, before ranks are resolved.
struct Gathered {
  std::vector<ingest::SessionExtent> extents;
  std::vector<TraceRankIdentity> identities;
};

Gathered gather_inputs(std::vector<TraceFacts> facts, const JobChoice& choice, JobRanks& job) {
  Gathered gathered;
  for (TraceFacts& trace : facts) {
    if (const InputReport* const left_out = choice.why_left_out(trace.input.path)) {
      job.inputs.push_back(*left_out);
      continue;
    }
    job.inputs.push_back(trace.input);
    if (!trace.analysed) continue;
    look_only_at(choice, trace);
    job.sessions.push_back(trace.session);
    gathered.extents.push_back(trace.extent);
    for (Warning& warning : trace.warnings) job.warnings.push_back(std::move(warning));
    for (TraceRankIdentity& identity : trace.identities) gathered.identities.push_back(std::move(identity));
    for (TraceRankIdentity& host : trace.hosts) job.hosts.push_back(std::move(host));
    for (HelperProcess& helper : trace.helpers) job.helpers.push_back(std::move(helper));
    job.untraced_processes += std::ssize(trace.content.untraced_processes);
    if (trace.input.status == InputStatus::degraded && trace.content.ranges == 0)
      job.without_ranges.insert(trace.input.path);
  }
  std::sort(job.inputs.begin(), job.inputs.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return gathered;
}

Warning other_job_warning(const OtherJob& job) {
  return {
      Severity::data_loss, WarningSource::analysis, 1,
      fmt::format(
          "the inputs hold another job of {} rank{} ({}): its ranks never meet those that are analysed, so nothing of it is told here; analyse it by itself: {}",
          job.trace_ranks, job.trace_ranks == 1 ? "" : "s", job.reason, job.command)};
}

/// Whom helpers stand beside, by number.
void number_helpers(JobRanks& job) {
  std::map<TraceRankKey, std::int32_t> numbers;
  for (const TraceRankIdentity& rank : job.trace_ranks) numbers[rank.key] = rank.trace_rank;
  for (HelperProcess& helper : job.helpers) {
    for (const TraceRankKey& key : helper.beside)
      if (const auto rank = numbers.find(key); rank != numbers.end()) helper.trace_ranks.push_back(rank->second);
    std::sort(helper.trace_ranks.begin(), helper.trace_ranks.end());
  }
  std::sort(job.helpers.begin(), job.helpers.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
}

}  // namespace

JobRanks resolve_job(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces,
                     const std::vector<InputReport>& failed_discoveries, const ingest::RankOverrides& overrides,
                     const JobChoice& choice) {
  std::vector<TraceFacts> facts = gather_facts(communicator, local_traces);
  mark_lacking(facts);
  JobRanks job;
  job.inputs = failed_discoveries;
  job.other_jobs = choice.others;
  for (const OtherJob& other : job.other_jobs) job.warnings.push_back(other_job_warning(other));
  Gathered gathered = gather_inputs(std::move(facts), choice, job);
  const ingest::SessionChecks checks = ingest::check_sessions(job.sessions, gathered.extents);
  for (const Warning& warning : checks.warnings) job.warnings.push_back(warning);
  job.world_size = checks.world_size.value_or(0);
  for (Warning& warning : ingest::unused_entry_warnings(overrides, gathered.identities))
    job.warnings.push_back(std::move(warning));
  for (Warning& warning : ingest::helper_warnings(job.helpers)) job.warnings.push_back(std::move(warning));
  ingest::Resolution resolution = ingest::resolve_trace_ranks(std::move(gathered.identities), checks.world_size);
  job.trace_ranks = std::move(resolution.trace_ranks);
  for (Warning& warning : resolution.warnings) job.warnings.push_back(std::move(warning));
  job.hosts = ingest::number_host_processes(std::move(job.hosts), job.trace_ranks);
  job.epoch_utc_ns = clock::job_epoch_utc_ns(job.sessions);
  number_helpers(job);
  number_ranks(job, local_traces);
  return job;
}

}  // namespace nsys_explain::pipeline
