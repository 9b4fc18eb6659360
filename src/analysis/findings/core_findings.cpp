#include "analysis/findings/core_findings.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t most_threads_told = 8;
constexpr double at_home_percent = 90, nowhere_percent = 50;

/// One that launches work, by the scheduler's record: a few samples do not tell where a thread is not.
struct LaunchingThread {
  std::int32_t trace_rank = 0;
  std::int64_t id = 0, core = 0, cores = 0, migrations = 0, preemptions = 0;
  Nanoseconds preempted_ns = 0;
  double core_percent = 0;
};

std::vector<LaunchingThread> threads_that_launch(const Table& table) {
  const auto& t = schema::thread_cores;
  std::vector<LaunchingThread> threads;
  for (std::size_t i = 0; i < table.row_count(); ++i) {
    if (column(table, t.launches)[i] == 0 || column(table, t.source)[i] != "scheduler") continue;
    threads.push_back({static_cast<std::int32_t>(column(table, schema::trace_rank)[i]), column(table, t.thread)[i],
                       column(table, t.core)[i], column(table, t.cores)[i], column(table, t.migrations)[i],
                       column(table, t.preemptions)[i], column(table, t.preempted_ns)[i],
                       column(table, t.core_percent)[i]});
  }
  return threads;
}

std::string preemption_text(const LaunchingThread& thread) {
  if (thread.preemptions < 0) return {};
  return fmt::format(", sent away {} times for {:.3f} ms in all", thread.preemptions,
                     static_cast<double>(thread.preempted_ns) / 1e6);
}

void add_shared_cores(const JobReport& report, const std::vector<LaunchingThread>& threads,
                      std::vector<Finding>& findings) {
  std::map<std::int32_t, std::string> hosts;
  for (const TraceRankIdentity& rank : report.trace_ranks) hosts[rank.trace_rank] = rank.host;
  std::map<std::pair<std::string, std::int64_t>, std::vector<const LaunchingThread*>> by_core;
  for (const LaunchingThread& thread : threads) {
    const auto host = hosts.find(thread.trace_rank);
    if (host == hosts.end() || host->second.empty() || thread.core_percent < at_home_percent) continue;
    by_core[{host->second, thread.core}].push_back(&thread);
  }
  Finding finding;
  std::set<std::int32_t> all;
  for (const auto& [place, on_core] : by_core) {
    std::set<std::int32_t> ranks;
    for (const LaunchingThread* thread : on_core) ranks.insert(thread->trace_rank);
    if (ranks.size() < 2) continue;
    all.insert(ranks.begin(), ranks.end());
    for (const LaunchingThread* thread : on_core)
      if (finding.evidence.size() < most_threads_told)
        finding.evidence.push_back(fmt::format("core {} of {}: thread {} of rank {} for {:.0f}% of its time{}",
                                               place.second, place.first, thread->id, thread->trace_rank,
                                               thread->core_percent, preemption_text(*thread)));
  }
  if (all.empty()) return;
  finding.id = "shared-core";
  finding.severity = FindingSeverity::low;
  finding.trace_ranks = {all.begin(), all.end()};
  finding.title = fmt::format("the host threads of {} run on one core: while one runs, another cannot launch",
                              trace_ranks_text(finding.trace_ranks));
  finding.evidence.emplace_back("rows with launches = 1 of table thread_cores");
  finding.recommendation =
      "give each rank cores of its own: srun --cpus-per-task=N --cpu-bind=cores, mpirun --map-by slot:PE=N --bind-to core";
  findings.push_back(std::move(finding));
}

void add_unbound(const std::vector<LaunchingThread>& threads, std::vector<Finding>& findings) {
  Finding finding;
  std::set<std::int32_t> all;
  for (const LaunchingThread& thread : threads) {
    if (thread.core_percent >= nowhere_percent) continue;
    all.insert(thread.trace_rank);
    if (finding.evidence.size() < most_threads_told)
      finding.evidence.push_back(fmt::format(
          "thread {} of rank {}: on {} cores, at most {:.0f}% of its time on one, "
          "moved {} times{}",
          thread.id, thread.trace_rank, thread.cores, thread.core_percent, thread.migrations, preemption_text(thread)));
  }
  if (all.empty()) return;
  finding.id = "unbound-host";
  finding.trace_ranks = {all.begin(), all.end()};
  finding.title =
      fmt::format("host threads of {} move between cores and stay on none", trace_ranks_text(finding.trace_ranks));
  finding.evidence.emplace_back("rows with launches = 1 of table thread_cores");
  finding.recommendation =
      "bind ranks to cores near their GPU: srun --cpu-bind=cores, mpirun --bind-to core; nvidia-smi topo -m tells which cores are near";
  findings.push_back(std::move(finding));
}

}  // namespace

void add_core_findings(const JobReport& report, std::vector<Finding>& findings) {
  const Table* const table = find_table(report.tables, schema::thread_cores);
  if (table == nullptr) return;
  const std::vector<LaunchingThread> threads = threads_that_launch(*table);
  add_shared_cores(report, threads, findings);
  add_unbound(threads, findings);
}

}  // namespace nsys_explain::analysis
