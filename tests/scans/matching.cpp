#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "nsys_explain/synth/job_plan.hpp"
#include "unit/pipeline/matched_job.hpp"

/// Matching on jobs of shapes that a seed draws, which no test has looked at: where the next wrong pair is found.
namespace nsys_explain::pipeline::testing {
namespace {

using synth::JobPlan;

/// What the exports tell of communicators.
enum class Evidence : std::uint8_t { payload, categories, none };

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  template <typename T>
  T one_of(const std::vector<T>& choices) {
    return choices[engine_() % choices.size()];
  }
  /// True in so many of a hundred.
  bool percent(std::uint64_t share) { return engine_() % 100 < share; }

 private:
  std::mt19937_64 engine_;  // the standard fixes its numbers, but not those of its distributions
};

struct ScannedJob {
  JobPlan plan;
  std::string shape;  ///< as options of nsys-explain-synth
};

void draw_layout(Draw& draw, ScannedJob& job) {
  synth::Layout& layout = job.plan.layout;
  layout.nodes = draw.one_of<std::int32_t>({1, 2, 2, 4});
  layout.gpus_per_node = draw.one_of<std::int32_t>({2, 4, 4, 8});
  if (layout.ranks() > 16) layout.gpus_per_node = 4;
  do {
    layout.tensor_parallel = draw.one_of<std::int32_t>({1, 2, 2, 4});
    layout.pipeline_parallel = draw.one_of<std::int32_t>({1, 1, 2, 4});
  } while (layout.ranks() % (layout.tensor_parallel * layout.pipeline_parallel) != 0 ||
           layout.gpus_per_node % layout.tensor_parallel != 0);
  job.shape += fmt::format("--nodes {} --gpus-per-node {} --tp {} --pp {}", layout.nodes, layout.gpus_per_node,
                           layout.tensor_parallel, layout.pipeline_parallel);
}

void draw_workload(Draw& draw, ScannedJob& job) {
  synth::Workload& workload = job.plan.workload;
  workload.steps = draw.one_of<std::int32_t>({6, 8, 12, 16, 24});
  workload.layers = draw.one_of<std::int32_t>({2, 3, 4});
  job.shape += fmt::format(" --steps {} --layers {}", workload.steps, workload.layers);
  if (draw.percent(35)) {
    workload.data_parallel_style = synth::DataParallelStyle::fully_sharded;
    job.shape += " --dp-style fully_sharded";
  }
  if (job.plan.layout.tensor_parallel > 1 && draw.percent(30)) {
    workload.tensor_parallel_style = synth::TensorParallelStyle::sequence_parallel;
    job.shape += " --tp-style sequence_parallel";
  }
  if (draw.percent(25)) {
    workload.mixture_of_experts = true;
    job.shape += " --moe";
  }
  switch (draw.one_of<int>({0, 1, 1, 2})) {
    case 1:
      workload.shared_nccl_stream = true;
      job.shape += " --shared-nccl-stream";
      break;
    case 2:
      workload.nccl_on_compute_stream = true;
      job.shape += " --nccl-on-compute-stream";
      break;
    default:
      break;
  }
}

void draw_capture(Draw& draw, ScannedJob& job) {
  job.plan.clocks.drift_max_ppm = draw.one_of<double>({2, 20, 50});
  job.shape += fmt::format(" --drift-ppm {}", job.plan.clocks.drift_max_ppm);
  if (draw.percent(40)) {
    job.plan.capture.drop_share = 0.01;
    job.plan.capture.ragged_share = 0.2;
    job.shape += " --drop 0.01 --ragged 0.2";
  }
  if (draw.percent(10)) {
    job.plan.export_style.nsys_version = "2025.5";
    job.shape += " --nsys 2025.5";
  }
  const std::string fault =
      draw.one_of<std::string>({"", "", "slow_gpu:rank=1,factor=1.3", "late_host:rank=1,pause=3ms"});
  if (!fault.empty()) {
    job.plan.faults.push_back(synth::parse_fault(fault));
    job.shape += " --fault " + fault;
  }
}

ScannedJob draw_job(std::uint64_t seed, Evidence evidence) {
  Draw draw(seed);
  ScannedJob job;
  job.plan.seed = seed;
  draw_layout(draw, job);
  draw_workload(draw, job);
  draw_capture(draw, job);
  job.shape += fmt::format(" --seed {}", seed);
  if (evidence == Evidence::payload) return job;
  job.plan.export_style.payload = synth::PayloadStyle::none;
  job.shape += " --payload none";
  if (evidence == Evidence::categories) {
    job.plan.export_style.advanced_nccl_trace = true;
    job.shape += " --nccl-trace";
  }
  return job;
}

/// A line per job; what went wrong first in each.
int scan(std::uint64_t first, std::uint64_t count, Evidence evidence) {
  std::vector<double> shares;
  std::uint64_t wrong = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const ScannedJob job = draw_job(seed, evidence);
    const MatchScore score = match_simulated(synth::complete_plan(job.plan));
    shares.push_back(score.share());
    wrong += score.wrong_pairs > 0 ? 1 : 0;
    fmt::print("{:>8} wrong pairs {:7.2f}%  {}\n", score.wrong_pairs, 100 * score.share(), job.shape);
    for (const auto& [what, pairs] : score.mixed) fmt::print("{:>8} of them: {}\n", pairs, what);
    std::fflush(stdout);
  }
  std::sort(shares.begin(), shares.end());
  fmt::print("{} of {} jobs with wrong pairs; matched: worst {:.2f}%, median {:.2f}%\n", wrong, count,
             100 * shares.front(), 100 * shares[shares.size() / 2]);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nsys_explain::pipeline::testing

int main(int argc, char** argv) {
  using nsys_explain::pipeline::testing::Evidence;
  CLI::App app("Matches jobs of random shapes and compares with the truth; exit code 1 where pairs are wrong.");
  std::uint64_t first = 0, count = 20;
  Evidence evidence = Evidence::none;
  app.add_option("--first", first, "first seed");
  app.add_option("--count", count, "how many seeds")->check(CLI::PositiveNumber);
  app.add_option("--evidence", evidence, "what the exports tell of communicators")
      ->transform(CLI::CheckedTransformer(
          std::vector<std::pair<std::string, Evidence>>{
              {"payload", Evidence::payload}, {"categories", Evidence::categories}, {"none", Evidence::none}},
          CLI::ignore_case));
  CLI11_PARSE(app, argc, argv);
  try {
    return nsys_explain::pipeline::testing::scan(first, count, evidence);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
