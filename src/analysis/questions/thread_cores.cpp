#include "analysis/questions/question.hpp"

#include "analysis/findings/finding_parts.hpp"
#include "analysis/statistics/statistics.hpp"
#include "analysis/tables/tables.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {
namespace {

struct Cores {
  bool by_samples = false;
  bool states_told = false;
  std::map<std::int16_t, std::int64_t> weights;  ///< by core: ns, or samples
  std::int16_t last = -1;
  std::int64_t migrations = 0, preemptions = 0;
  Nanoseconds preempted_ns = 0;

  void meet(std::int16_t core) {
    if (core < 0) return;
    if (last >= 0 && core != last) ++migrations;
    last = core;
  }
};

/// A thread that leaves a core in one of these states waits for nothing but a core (ENUM_SAMPLING_THREAD_STATE).
bool could_run(std::int8_t state) {
  constexpr std::int8_t running = 1, unscheduled = 6;
  return state == running || state == unscheduled;
}

using CoresByThread = std::map<std::uint32_t, Cores>;

CoresByThread by_scheduler(const std::vector<SchedulingEvent>& events) {
  CoresByThread threads;
  std::map<std::uint32_t, const SchedulingEvent*> before;
  for (const SchedulingEvent& event : events) {
    Cores& cores = threads[event.thread_id];
    const SchedulingEvent*& last = before[event.thread_id];
    if (event.on_cpu) {
      cores.meet(event.cpu);
      if (last != nullptr && !last->on_cpu && could_run(last->thread_state))
        cores.preempted_ns += event.time_ns - last->time_ns;
    } else {
      cores.states_told |= event.thread_state != 0;
      cores.preemptions += could_run(event.thread_state) ? 1 : 0;
      if (last != nullptr && last->on_cpu && last->cpu >= 0) cores.weights[last->cpu] += event.time_ns - last->time_ns;
    }
    last = &event;
  }
  return threads;
}

void add_sampled(const std::vector<CpuSample>& samples, CoresByThread& threads) {
  CoresByThread sampled;
  for (const CpuSample& sample : samples) {
    if (sample.cpu < 0) continue;
    Cores& cores = sampled[sample.thread_id];
    cores.by_samples = true;
    cores.meet(sample.cpu);
    ++cores.weights[sample.cpu];
  }
  threads.merge(sampled);
}

/// At the first trace rank of the process (tables.hpp): by the scheduler's record where there is one of the thread,
/// else by its CPU samples.
Table thread_cores_table(const RankEvents& events) {
  constexpr std::int64_t not_told = -1;
  Table table = make_table(schema::thread_cores);
  if (!speaks_for_process(events.process, events.device)) return table;
  CoresByThread threads = by_scheduler(events.process.scheduling_events);
  add_sampled(events.process.cpu_samples, threads);
  if (threads.empty()) return table;
  const std::set<std::uint32_t> launching = launching_threads(events);
  RowWriter row(table);
  for (const auto& [thread, cores] : threads) {
    if (cores.weights.empty()) continue;  // never seen to leave a core
    std::int64_t all = 0;
    for (const auto& [core, weight] : cores.weights) all += weight;
    const auto most = std::max_element(cores.weights.begin(), cores.weights.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    row << std::int64_t{thread} << std::int64_t{launching.contains(thread) ? 1 : 0}
        << std::string_view(cores.by_samples ? "samples" : "scheduler") << std::ssize(cores.weights)
        << std::int64_t{most->first} << percent(most->second, all) << (cores.by_samples ? not_told : all)
        << cores.migrations << (cores.states_told ? cores.preemptions : not_told)
        << (cores.states_told ? cores.preempted_ns : not_told);
  }
  return table;
}

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

/// Threads of several processes that launch work spend nine tenths of their time or more on one core: one waits while
/// another runs. What that costs, the verdict tells.
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
  std::vector<std::string> evidence;
  std::set<std::int32_t> all;
  for (const auto& [place, on_core] : by_core) {
    std::set<std::int32_t> ranks;
    for (const LaunchingThread* thread : on_core) ranks.insert(thread->trace_rank);
    if (ranks.size() < 2) continue;
    all.insert(ranks.begin(), ranks.end());
    for (const LaunchingThread* thread : on_core)
      if (evidence.size() < most_threads_told)
        evidence.push_back(fmt::format("core {} of {}: thread {} of rank {} for {:.0f}% of its time{}", place.second,
                                       place.first, thread->id, thread->trace_rank, thread->core_percent,
                                       preemption_text(*thread)));
  }
  if (all.empty()) return;
  evidence.emplace_back("rows with launches = 1 of table thread_cores");
  const std::vector<std::int32_t> ranks(all.begin(), all.end());
  findings.push_back(
      {.id = "shared-core",
       .severity = FindingSeverity::low,
       .title = fmt::format("the host threads of {} run on one core: while one runs, another cannot launch",
                            trace_ranks_text(ranks)),
       .evidence = std::move(evidence),
       .recommendation =
           "give each rank cores of its own: srun --cpus-per-task=N --cpu-bind=cores, mpirun --map-by slot:PE=N --bind-to core",
       .trace_ranks = ranks});
}

/// Threads that launch work are on no core for half of their time.
void add_unbound(const std::vector<LaunchingThread>& threads, std::vector<Finding>& findings) {
  std::vector<std::string> evidence;
  std::set<std::int32_t> all;
  for (const LaunchingThread& thread : threads) {
    if (thread.core_percent >= nowhere_percent) continue;
    all.insert(thread.trace_rank);
    if (evidence.size() < most_threads_told)
      evidence.push_back(fmt::format(
          "thread {} of rank {}: on {} cores, at most {:.0f}% of its time on one, "
          "moved {} times{}",
          thread.id, thread.trace_rank, thread.cores, thread.core_percent, thread.migrations, preemption_text(thread)));
  }
  if (all.empty()) return;
  evidence.emplace_back("rows with launches = 1 of table thread_cores");
  const std::vector<std::int32_t> ranks(all.begin(), all.end());
  findings.push_back(
      {.id = "unbound-host",
       .title = fmt::format("host threads of {} move between cores and stay on none", trace_ranks_text(ranks)),
       .evidence = std::move(evidence),
       .recommendation =
           "bind ranks to cores near their GPU: srun --cpu-bind=cores, mpirun --bind-to core; nvidia-smi topo -m tells which cores are near",
       .trace_ranks = ranks});
}

void find_core_problems(const JobReport& report, std::vector<Finding>& findings) {
  const Table* const table = find_table(report.tables, schema::thread_cores);
  if (table == nullptr) return;
  const std::vector<LaunchingThread> threads = threads_that_launch(*table);
  add_shared_cores(report, threads, findings);
  add_unbound(threads, findings);
}

}  // namespace

Question thread_cores() {
  return {.shown = {.table = schema::thread_cores.table_name(),
                    .findings = {"shared-core", "unbound-host"},
                    .view = "host"},
          .rows = thread_cores_table,
          .of_hosts = true,
          .find = find_core_problems};
}

}  // namespace nsys_explain::analysis::questions
