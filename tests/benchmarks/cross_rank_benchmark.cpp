#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "exchange/communicator.hpp"
#include "pipeline/attribute/attribution.hpp"
#include "pipeline/attribute/link_analysis.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/tool_rank/memory_budget.hpp"

/// The cross-rank phase on one core: matching, clock fit, clock correction and waits of a job of one node per 8 trace
/// ranks, half of whose collectives span the world and half the node. Arrivals per second, stage by stage.
namespace nsys_explain::pipeline {
namespace {

constexpr int collectives = 2'000;
constexpr int ranks_per_node = 8;
constexpr std::uint64_t world_key = 0x8000'0000'0000'0001;

struct SimulatedPhase {
  JobRanks job;
  std::vector<LocalTrace> traces;
};

struct SimulatedClock {
  double offset_ns = 0;
  double drift = 0;
};

std::vector<SimulatedClock> make_clocks(int ranks, std::mt19937_64& random) {
  std::uniform_real_distribution<double> offset(-20e6, 20e6), drift(-5e-6, 5e-6);
  std::vector<SimulatedClock> clocks;
  for (int rank = 0; rank < ranks; ++rank) clocks.push_back({offset(random), drift(random)});
  return clocks;
}

LocalTrace empty_trace(int rank) {
  LocalTrace trace;
  trace.facts.session.path = "rank_" + std::to_string(100'000 + rank);
  trace.facts.session.host = "node" + std::to_string(rank / ranks_per_node);
  trace.facts.session.utc_start_ns = 1'700'000'000'000'000'000;
  LocalRank& local = trace.ranks.emplace_back();
  local.trace_rank = rank;
  local.session = static_cast<std::size_t>(rank);
  local.arrivals.reserve(collectives);
  local.profiles = PackedRows(std::vector<WorkProfile>(collectives));
  return trace;
}

SimulatedPhase simulate(int ranks) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  const std::vector<SimulatedClock> clocks = make_clocks(ranks, random);
  SimulatedPhase phase;
  for (int rank = 0; rank < ranks; ++rank) {
    phase.traces.push_back(empty_trace(rank));
    phase.job.sessions.push_back(phase.traces.back().facts.session);
    phase.job.epoch_utc_ns = phase.job.sessions.back().utc_start_ns;
    phase.job.trace_ranks.emplace_back().trace_rank = rank;
    phase.job.trace_ranks.back().host = phase.job.sessions.back().host;
    phase.job.numbers.push_back(rank);
    phase.job.session_of_rank.push_back(static_cast<std::size_t>(rank));
    phase.job.ranks_of_session.push_back(1);
  }
  std::vector<double> ready(static_cast<std::size_t>(ranks), 1e9);
  for (int c = 0; c < collectives; ++c) {
    const bool world = c % 2 == 0;
    const int size = world ? ranks : ranks_per_node;
    for (int first = 0; first < ranks; first += size) {
      double last = 0;
      for (int rank = first; rank < first + size; ++rank) {
        ready[rank] += 2e6 + std::abs(normal(random)) * 1e5;
        last = std::max(last, ready[rank]);
      }
      for (int rank = first; rank < first + size; ++rank) {
        const double exit = last + 100e3 + std::abs(normal(random)) * 445;
        const auto shown = [&](double t) {
          return static_cast<Nanoseconds>(t + clocks[rank].offset_ns + clocks[rank].drift * t) / 32 * 32;
        };
        TraceArrival arrival;
        arrival.enter = TraceTime(shown(ready[rank]));
        arrival.exit = TraceTime(shown(exit));
        arrival.index = c;
        arrival.communicator = world ? world_key : world_key + 1 + static_cast<std::uint64_t>(first);
        arrival.call_bytes = 1 << 20;
        arrival.trace_rank = rank;
        arrival.position = c / 2;
        arrival.kernel_name_hash = 7;
        arrival.operation = Operation::all_reduce;
        arrival.evidence = Evidence::nccl_payload;
        phase.traces[rank].ranks[0].arrivals.push_back(arrival);
        ready[rank] = exit;
      }
    }
  }
  return phase;
}

/// Processor time, so that other work on the machine does not show.
class StageTimer {
 public:
  explicit StageTimer(double& seconds) : seconds_(seconds), begin_(std::clock()) {}
  ~StageTimer() { seconds_ += static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC; }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  double& seconds_;
  std::clock_t begin_;
};

void cross_rank_phase(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0));
  const exchange::Communicator communicator = exchange::Communicator::serial();
  keep_freed_memory(1);  // as a run does before this phase
  double matching = 0, fitting = 0, correcting = 0, waits = 0;
  for (auto _ : state) {
    state.PauseTiming();
    SimulatedPhase phase = simulate(ranks);
    state.ResumeTiming();
    CrossRank cross;
    clock::ClockFit fit;
    {
      const StageTimer timer(matching);
      cross = match_collectives(communicator, phase.job, {}, phase.traces);
    }
    {
      const StageTimer timer(fitting);
      fit = estimate_clock(communicator, phase.job, cross, {});
    }
    {
      const StageTimer timer(correcting);
      apply_clock(communicator, fit, phase.job, cross, phase.traces);
    }
    {
      const StageTimer timer(waits);
      std::vector<analysis::CommunicatorTotals> instances = count_instances(communicator, cross);
      const LinkAnalysis links = analyse_links(communicator, phase.job, cross);
      benchmark::DoNotOptimize(
          attribute_delays(communicator, fit.report, phase.job, cross, phase.traces, {}, {}, links));
      benchmark::DoNotOptimize(sum_waits(communicator, phase.job, cross, std::move(instances)));
    }
  }
  const double arrivals = static_cast<double>(ranks) * collectives * static_cast<double>(state.iterations());
  state.SetItemsProcessed(static_cast<std::int64_t>(arrivals));
  state.counters["matching/s"] = arrivals / matching;
  state.counters["clock_fit/s"] = arrivals / fitting;
  state.counters["correction/s"] = arrivals / correcting;
  state.counters["waits/s"] = arrivals / waits;
}

BENCHMARK(cross_rank_phase)->Arg(64)->Arg(1'024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nsys_explain::pipeline

BENCHMARK_MAIN();
