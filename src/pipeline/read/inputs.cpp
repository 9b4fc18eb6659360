#include "pipeline/read/inputs.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "clock/level_zero.hpp"
#include "exchange/agree.hpp"
#include "ingest/export_content.hpp"
#include "ingest/export_report.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

ingest::MergedDiscovery merge(const std::vector<std::string>& hosts, std::vector<ingest::Discovery> discoveries) {
  std::vector<ingest::HostDiscovery> by_tool_rank;
  for (std::size_t r = 0; r < hosts.size(); ++r) by_tool_rank.push_back({hosts[r], std::move(discoveries[r])});
  return ingest::merge_discoveries(by_tool_rank);
}

/// Collective: the job epoch, from the inputs' session starts alone: a window of time counts from it.
Nanoseconds find_epoch(const exchange::Communicator& communicator, const std::vector<ingest::AssignedTrace>& traces,
                       const std::string& nsys) {
  std::vector<Session> mine;
  for (const ingest::AssignedTrace& assigned : traces) {
    if (assigned.tool_rank == communicator.rank()) mine.push_back(read_local_session(assigned, nsys));
  }
  std::vector<Session> all;
  for (std::vector<Session>& sessions : all_gather_packed(communicator, mine)) {
    std::move(sessions.begin(), sessions.end(), std::back_inserter(all));
  }
  return clock::job_epoch_utc_ns(all);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown-host";
}

RunPlan find_inputs(Phases& phases, const exchange::Communicator& communicator, const JobSpecification& job,
                    const UserOptions& options, const std::vector<std::string>& hosts) {
  RunPlan plan;
  plan.job = job;
  std::error_code ignored;
  plan.directory = std::filesystem::current_path(ignored).string();
  ingest::Discovery found;
  phases.local("discovering traces", [&] { found = ingest::discover(job.inputs, job.export_reports); });
  plan.discovery = merge(hosts, all_gather_packed(communicator, found));
  if (options.analysis.window.time) {
    phases.collective("finding the window",
                      [&] { plan.epoch_utc_ns = find_epoch(communicator, plan.discovery.traces, job.nsys_command); });
  }
  return plan;
}

void require_ranks(Phases& phases, const exchange::Communicator& communicator, std::int32_t required,
                   const ingest::MergedDiscovery& discovery) {
  std::int64_t most = 0, untold = 0;
  phases.local("counting trace ranks", [&] {
    for (const ingest::AssignedTrace& assigned : discovery.traces) {
      if (assigned.tool_rank != communicator.rank()) continue;
      const auto ranks = ingest::needs_export(assigned.path) ? std::nullopt : ingest::most_trace_ranks(assigned.path);
      most += ranks.value_or(0);
      untold += ranks ? 0 : 1;
    }
  });
  most = communicator.sum(most);
  // Without any trace there is more to say than this.
  const bool may_suffice = communicator.sum(untold) > 0 || most >= required || discovery.traces.empty();
  exchange::run_agreed(communicator, "counting trace ranks", [&] {
    if (may_suffice || !communicator.is_root()) return;
    throw std::runtime_error(fmt::format(
        "--require-ranks {}, but the {} traces found hold at most {} ranks: traces are missing, so nothing was read; wait until they are written, name them (those on the nodes' own disks by a quoted pattern, with a tool rank on every node), or leave the option out to analyse what is there",
        required, discovery.traces.size(), most));
  });
}

void assign_inputs(const exchange::Communicator& communicator, const JobSpecification& job, RunPlan& plan) {
  std::vector<ingest::AssignedTrace>& traces = plan.discovery.traces;
  std::vector<char> sees(traces.size(), 0);
  for (std::size_t i = 0; i < traces.size() && !job.only_shards; ++i) sees[i] = ingest::is_as_found(traces[i]) ? 1 : 0;
  const exchange::Gathered<char> all = communicator.all_gather(std::span<const char>(sees));
  std::vector<std::int64_t> load(static_cast<std::size_t>(communicator.size()), 0);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    std::optional<std::pair<std::pair<bool, std::int64_t>, int>> best;  // not seen, load; tool rank
    for (int r = 0; r < communicator.size(); ++r) {
      const std::pair candidate(std::pair(all.of(r)[i] == 0, load[static_cast<std::size_t>(r)]), r);
      best = best ? std::min(*best, candidate) : candidate;
    }
    traces[i].tool_rank = best->second;
    load[static_cast<std::size_t>(best->second)] += traces[i].bytes;
  }
}

}  // namespace nsys_explain::pipeline
