#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "analysis/replay/replay.hpp"

/// Joining a job, and twenty scenarios of it: 64 trace ranks with 2,500 all-reduces each, on one core: a compute piece,
/// a collective, and in every tenth a wait of the host.
namespace nsys_explain::analysis {
namespace {

constexpr std::size_t trace_ranks = 64;
constexpr std::int32_t collectives = 2'500;
constexpr std::int32_t collectives_of_step = 50;
constexpr std::size_t scenarios = 20;
constexpr Nanoseconds round_ns = 400'000;
constexpr std::uint32_t transfer_ns = 60'000;  // or more
constexpr std::uint32_t slack_ns = 1'000;      // of launches

struct MadeRank {
  explicit MadeRank(std::size_t number) {
    std::int32_t last_compute = -1, last_collective = -1;
    for (std::int32_t i = 0; i < collectives; ++i) {
      const Nanoseconds start_ns = i * round_ns;
      const Nanoseconds work_ns =
          200'000 + static_cast<Nanoseconds>((number * 7919 + static_cast<std::size_t>(i)) % 1000);
      const JobTime enter(start_ns + work_ns), exit(start_ns + round_ns);
      JobPiece compute{{}, JobTime(start_ns), enter};
      if (i > 0) compute.waits = {{{last_compute, transfer_ns}, {last_collective, 0}, {}}};
      compute.after_host_ns = i > 0 ? slack_ns : 0;
      compute.after_last_launch_ns = slack_ns;
      compute.arrival = i;
      compute.gpu_ns = static_cast<std::uint32_t>(work_ns);
      last_compute = static_cast<std::int32_t>(pieces.size());
      JobPiece collective{{}, enter, exit};
      collective.waits[0] = {last_compute, 0};
      collective.after_host_ns = 50'000;
      collective.arrival = i;
      collective.kind = PieceKind::collective;
      pieces.push_back(compute);
      last_collective = static_cast<std::int32_t>(pieces.size());
      pieces.push_back(collective);
      if (i % 10 == 9) {
        JobPiece wait{{}, exit, exit};
        wait.kind = PieceKind::host_wait;
        wait.waits[1] = {last_collective, 0};
        wait.after_host_ns = 0;
        wait.arrival = i + 1;
        pieces.push_back(wait);
      }
      ReplayArrival met;
      met.enter = enter;
      met.exit = exit;
      met.instance = i;
      met.position = met.own_position = met.met_position = met.step_position = static_cast<std::uint64_t>(i) + 1;
      met.own_position = static_cast<std::uint64_t>(i % collectives_of_step) + 1;
      met.kind = 1;
      met.step = i / collectives_of_step;
      arrivals.push_back(met);
    }
  }

  std::vector<JobPiece> pieces;
  std::vector<ReplayArrival> arrivals;
};

const std::vector<ReplayRank>& made_ranks() {
  static const std::vector<MadeRank> made = [] {
    std::vector<MadeRank> all;
    for (std::size_t r = 0; r < trace_ranks; ++r) all.emplace_back(r);
    return all;
  }();
  static const std::vector<ReplayRank> ranks = [] {
    std::vector<ReplayRank> all;
    for (const MadeRank& rank : made) all.push_back({rank.pieces, rank.arrivals});
    return all;
  }();
  return ranks;
}

void join_job(benchmark::State& state) {
  for (auto _ : state) {
    const JobGraph graph(made_ranks());
    benchmark::DoNotOptimize(Replay(graph, collectives / collectives_of_step).excess().data());
  }
}

void replay_scenarios(benchmark::State& state) {
  const JobGraph graph(made_ranks());
  const Replay replay(graph, collectives / collectives_of_step);
  if (replay.measured().end_ns != graph.end_ns) state.SkipWithError("the replay with nothing changed is not the job");
  std::vector<Scenario> mended;
  for (std::size_t s = 0; s < scenarios; ++s) mended.push_back({.ranks = {s}});
  const auto together = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(replay.run(mended, together, one_after_another).data());
}

BENCHMARK(join_job)->Unit(benchmark::kMillisecond);
BENCHMARK(replay_scenarios)->ArgName("together")->Arg(1)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nsys_explain::analysis

BENCHMARK_MAIN();
