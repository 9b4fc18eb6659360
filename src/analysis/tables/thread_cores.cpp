#include "analysis/tables/thread_cores.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>

#include "analysis/statistics/statistics.hpp"
#include "analysis/tables/host_calls.hpp"
#include "analysis/trace/gpu_activity.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
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

}  // namespace

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

}  // namespace nsys_explain::analysis
