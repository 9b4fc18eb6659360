#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "../unit/clock/simulated_clocks.hpp"
#include "clock/fit.hpp"

/// The clock fit on one core: 64 sessions with 14,000 collectives each. Time is processor time.
namespace nsys_explain::clock {
namespace {

using testing::SimulatedClocks;

constexpr int sessions = 64;
constexpr int collectives = 14'000;

std::vector<int> some(int first, int count, int stride = 1) {
  std::vector<int> members;
  for (int i = 0; i < count; ++i) members.push_back(first + i * stride);
  return members;
}

/// All collectives of the world.
void add_world(SimulatedClocks& job) {
  job.add(Operation::all_reduce, job.everybody(), collectives);
}

/// A few of the world, the others of groups of 8 neighbours, of 8 that hold the same place in theirs, and of chains.
void add_grid(SimulatedClocks& job) {
  job.add(Operation::all_reduce, job.everybody(), collectives / 100);
  constexpr int group = 8;
  for (int g = 0; g < group; ++g) {
    job.add(Operation::all_reduce, some(g * group, group), collectives / 4);
    job.add(Operation::all_gather, some(g * group, group), collectives / 4);
    job.add(Operation::reduce_scatter, some(g, group, group), collectives / 4);
    for (int i = 0; i + 1 < group; ++i) {
      job.add(Operation::send_recv, {i * group + g, (i + 1) * group + g}, collectives / 8);
    }
  }
}

/// Chains of stages: only neighbours share anything that synchronises.
void add_chain(SimulatedClocks& job) {
  for (int s = 0; s + 1 < sessions; ++s) job.add(Operation::all_gather, {s, s + 1}, collectives / 2);
}

/// Only operations that do not synchronise.
void add_exchanges(SimulatedClocks& job) {
  job.add(Operation::all_to_all, job.everybody(), collectives / 2);
  job.add(Operation::broadcast, job.everybody(), collectives / 2);
}

using Add = void (*)(SimulatedClocks&);

/// Arguments: seconds of the run, up to how many ns clocks step every second, and how much drifts change (ns / s).
void clock_fit(benchmark::State& state, Add add) {
  SimulatedClocks job(1, sessions, static_cast<double>(state.range(0)));
  job.disturb(static_cast<double>(state.range(1)), static_cast<double>(state.range(2)));
  add(job);
  ClockFit fit;
  for (auto _ : state) fit = fit_clocks(job.sessions, job.observations, Reduction::serial());
  state.counters["knots"] = static_cast<double>(fit.report.sessions[1].bends.size());
  state.counters["held_out_p50_ns"] = static_cast<double>(fit.report.residual.held_out_p50_ns.value_or(-1));
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"seconds", "step_ns", "bend_ns"})->Unit(benchmark::kSecond)->Iterations(1);
  benchmark->Args({10, 0, 0})->Args({10, 20'000, 1'000});
  for (const int seconds : {400, 960}) {
    benchmark->Args({seconds, 0, 0})->Args({seconds, 0, 1'000})->Args({seconds, 20'000, 1'000});
    benchmark->Args({seconds, 300'000, 1'000});
  }
}

BENCHMARK_CAPTURE(clock_fit, world, add_world)->Apply(shapes);
BENCHMARK_CAPTURE(clock_fit, grid, add_grid)->Apply(shapes);
BENCHMARK_CAPTURE(clock_fit, chain, add_chain)->Apply(shapes);
BENCHMARK_CAPTURE(clock_fit, exchanges, add_exchanges)->Apply(shapes);

}  // namespace
}  // namespace nsys_explain::clock

BENCHMARK_MAIN();
