#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "simulation/job_plan.hpp"
#include "unit/pipeline/matched_job.hpp"

/// Matching on jobs of shapes that a seed draws, which no test has looked at: where the next wrong pair is found.
namespace nsys_explain::pipeline::testing {
namespace {

using synth::JobPlan;

/// What the exports tell of communicators.
enum class Evidence : std::uint8_t { payload, categories, none };

/// How many communicators a stream carries.
enum class Streams : std::uint8_t { any, one_each, shared };

struct ScanOptions {
  Streams streams = Streams::any;
  bool one_communicator = false;  ///< a few ranks, all in one communicator, whose clocks nothing relates
  double end_noise = 1;           ///< of one operation in turn, with heavy tails and a bias of the members
  Evidence evidence = Evidence::none;
  bool short_captures = false;
  double ragged_share = 0.2;  ///< of short captures
  std::int32_t steps = 0;     ///< of every job; 0 draws them
};

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

void draw_layout(Draw& draw, synth::Layout& layout) {
  layout.nodes = draw.one_of<std::int32_t>({1, 2, 2, 4});
  layout.gpus_per_node = draw.one_of<std::int32_t>({2, 4, 4, 8});
  if (layout.ranks() > 16) layout.gpus_per_node = 4;
  do {
    layout.tensor_parallel = draw.one_of<std::int32_t>({1, 2, 2, 4});
    layout.pipeline_parallel = draw.one_of<std::int32_t>({1, 1, 2, 4});
  } while (layout.ranks() % (layout.tensor_parallel * layout.pipeline_parallel) != 0 ||
           layout.gpus_per_node % layout.tensor_parallel != 0);
}

/// Two to four processes that do the same, each with one stream, some of them late by seconds.
void draw_one_communicator(Draw& draw, JobPlan& plan) {
  plan.layout = {.nodes = 1, .gpus_per_node = draw.one_of<std::int32_t>({2, 3, 4})};
  plan.workload.steps = draw.one_of<std::int32_t>({3, 6, 12, 30});
  plan.workload.mixture_of_experts = false;
  plan.workload.tensor_parallel_style = synth::TensorParallelStyle::all_reduce;
  plan.capture.drop_share = plan.capture.ragged_share = 0;
  plan.export_style.nsys_version = "2025.5";
  plan.clocks.utc_offset_max_ns = draw.one_of<Nanoseconds>({20'000'000, 5'000'000'000});
  plan.faults.clear();
  for (std::int32_t rank = 0; rank < plan.layout.ranks(); ++rank)
    plan.faults.push_back(synth::parse_fault(
        fmt::format("late_host:rank={},pause={}ms,period={}", rank, draw.one_of<int>({1, 30, 2000}), 2 + rank)));
}

/// The ends of one operation scatter more, by a law with heavy tails and another bias than usual.
void draw_ends(std::uint64_t seed, double factor, JobPlan& plan) {
  const std::array operations{Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                              Operation::send_recv};
  plan.network.end_jitter_of[operations[seed % operations.size()]] = factor;
  plan.network.heavy_tails = true;
  plan.network.end_bias_max_ns = 3'000;
}

void draw_workload(Draw& draw, JobPlan& plan) {
  synth::Workload& workload = plan.workload;
  workload.steps = draw.one_of<std::int32_t>({6, 8, 12, 16, 24});
  workload.layers = draw.one_of<std::int32_t>({2, 3, 4});
  if (draw.percent(35)) workload.data_parallel_style = synth::DataParallelStyle::fully_sharded;
  if (plan.layout.tensor_parallel > 1 && draw.percent(30))
    workload.tensor_parallel_style = synth::TensorParallelStyle::sequence_parallel;
  workload.mixture_of_experts = draw.percent(25);
  const int stream = draw.one_of<int>({0, 1, 1, 2});
  workload.shared_nccl_stream = stream == 1;
  workload.nccl_on_compute_stream = stream == 2;
}

/// What is lost of a capture, and the last release whose exports relate no clocks of one host.
void lose_records(JobPlan& plan, double ragged_share) {
  plan.capture.drop_share = 0.01;
  plan.capture.ragged_share = ragged_share;
}
const std::string without_host_clocks = "2025.5";

/// Returns the fault, "" for none.
std::string draw_capture(Draw& draw, JobPlan& plan) {
  plan.clocks.drift_max_ppm = draw.one_of<double>({2, 20, 50});
  if (draw.percent(40)) lose_records(plan, 0.2);
  if (draw.percent(10)) plan.export_style.nsys_version = without_host_clocks;
  std::string fault = draw.one_of<std::string>({"", "", "slow_gpu:rank=1,factor=1.3", "late_host:rank=1,pause=3ms"});
  if (!fault.empty()) plan.faults.push_back(synth::parse_fault(fault));
  return fault;
}

/// What leaves least to go by.
void draw_short_capture(Draw& draw, JobPlan& plan, double ragged_share) {
  plan.workload.steps = draw.one_of<std::int32_t>({6, 8, 12});
  plan.export_style.nsys_version = without_host_clocks;
  lose_records(plan, ragged_share);
}

/// The plan as options of nsys-explain-synth.
std::string options_of(const JobPlan& plan, const std::string& fault) {
  const synth::Layout& layout = plan.layout;
  const synth::Workload& workload = plan.workload;
  std::string options = fmt::format("--nodes {} --gpus-per-node {} --tp {} --pp {} --steps {} --layers {}",
                                    layout.nodes, layout.gpus_per_node, layout.tensor_parallel,
                                    layout.pipeline_parallel, workload.steps, workload.layers);
  const auto add_if = [&](bool holds, const std::string& option) {
    if (holds) options += " " + option;
  };
  add_if(workload.data_parallel_style == synth::DataParallelStyle::fully_sharded, "--dp-style fully_sharded");
  add_if(workload.tensor_parallel_style == synth::TensorParallelStyle::sequence_parallel,
         "--tp-style sequence_parallel");
  add_if(workload.mixture_of_experts, "--moe");
  add_if(workload.shared_nccl_stream, "--shared-nccl-stream");
  add_if(workload.nccl_on_compute_stream, "--nccl-on-compute-stream");
  options += fmt::format(" --clocks drift_ppm={}", plan.clocks.drift_max_ppm);
  add_if(plan.capture.drop_share > 0,
         fmt::format("--capture drop={},ragged={}", plan.capture.drop_share, plan.capture.ragged_share));
  add_if(plan.export_style.nsys_version == without_host_clocks, "--export nsys=" + without_host_clocks);
  add_if(!fault.empty(), "--fault " + fault);
  options += fmt::format(" --seed {}", plan.seed);
  add_if(plan.export_style.payload == synth::PayloadStyle::none, "--export payload=none");
  add_if(plan.export_style.advanced_nccl_trace, "--export nccl_trace");
  for (const auto& [operation, factor] : plan.network.end_jitter_of)
    options += fmt::format(" --ends {}={},heavy_tails,bias_us=3", operation_name(operation), factor);
  return options;
}

struct ScannedJob {
  JobPlan plan;
  std::string shape;  ///< as options of nsys-explain-synth
};

ScannedJob draw_job(std::uint64_t seed, const ScanOptions& options) {
  Draw draw(seed);
  JobPlan plan;
  plan.seed = seed;
  draw_layout(draw, plan.layout);
  draw_workload(draw, plan);
  std::string fault = draw_capture(draw, plan);
  if (options.streams != Streams::any) {
    plan.workload.nccl_on_compute_stream = false;
    plan.workload.shared_nccl_stream = options.streams == Streams::shared;
  }
  if (options.one_communicator) {
    draw_one_communicator(draw, plan);
    fault = "late hosts";
  }
  if (options.end_noise != 1) draw_ends(seed, options.end_noise, plan);
  if (options.short_captures) draw_short_capture(draw, plan, options.ragged_share);
  if (options.steps > 0) plan.workload.steps = options.steps;
  if (options.evidence != Evidence::payload) plan.export_style.payload = synth::PayloadStyle::none;
  plan.export_style.advanced_nccl_trace = options.evidence == Evidence::categories;
  return {plan, options_of(plan, fault)};
}

/// "| none, 6 to 24 steps | 9000:80 | 2026-11-24 | 0 of 80 | 93.10% | 99.90% |" without the last four.
std::string row_key(std::uint64_t first, std::uint64_t count, const ScanOptions& options) {
  constexpr std::array<std::string_view, 3> evidence = {"payload", "categories", "none"};
  const std::string steps = options.steps > 0        ? fmt::format("{} steps", options.steps)
                            : options.short_captures ? "6 to 12 steps, captured worse"
                                                     : "6 to 24 steps";
  return fmt::format("| {}, {} | {}:{} |", evidence[static_cast<std::size_t>(options.evidence)], steps, first, count);
}

/// Puts a row into the table between the markers of a page, in the place of the one with the same key if there is one.
void write_markdown(const std::string& path, const std::string& key, const std::string& cells) {
  const std::string begin = "<!-- begin: scan_matching -->", end = "<!-- end: scan_matching -->";
  std::ifstream in(path);
  std::vector<std::string> before, rows, after;
  std::vector<std::string>* part = &before;
  bool ended = false;
  for (std::string line; std::getline(in, line);) {
    if (line == end) {
      ended = true;
      part = &after;
    }
    if (part != &rows || (line.starts_with("| ") && !line.starts_with("| evidence") && !line.starts_with(key)))
      part->push_back(line);
    if (line == begin) part = &rows;
  }
  if (!ended || part != &after || before.empty() || before.back() != begin)
    throw std::runtime_error(fmt::format("{} lacks the lines '{}' and '{}'", path, begin, end));
  rows.push_back(key + cells);
  std::sort(rows.begin(), rows.end());
  rows.insert(rows.begin(), {"", "| evidence | seeds | day | jobs with wrong pairs | matched: worst | median |",
                             "|---|---|---|---|---|---|"});
  rows.emplace_back();
  std::ofstream out(path);
  for (const auto* lines : {&before, &rows, &after})
    for (const std::string& line : *lines) out << line << '\n';
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

/// A line per job; what went wrong first in each. `markdown`: the page to write to; may be empty.
int scan(std::uint64_t first, std::uint64_t count, const ScanOptions& options, const std::string& markdown) {
  std::vector<double> shares;
  std::uint64_t wrong = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const ScannedJob job = draw_job(seed, options);
    const MatchScore score = match_simulated(synth::complete_plan(job.plan));
    shares.push_back(score.share());
    wrong += score.wrong_pairs > 0 ? 1 : 0;
    fmt::print("{:>8} wrong pairs {:7.2f}%  {}\n", score.wrong_pairs, 100 * score.share(), job.shape);
    for (const auto& [what, pairs] : score.mixed) fmt::print("{:>8} of them: {}\n", pairs, what);
    for (const auto& [kind, arrivals] : score.missed) fmt::print("{:>8} missed: {}\n", arrivals, kind);
    std::fflush(stdout);
  }
  std::sort(shares.begin(), shares.end());
  fmt::print("{} of {} jobs with wrong pairs; matched: worst {:.2f}%, median {:.2f}%\n", wrong, count,
             100 * shares.front(), 100 * shares[shares.size() / 2]);
  if (!markdown.empty()) {
    write_markdown(markdown, row_key(first, count, options),
                   fmt::format(" {} | {} of {} | {:.2f}% | {:.2f}% |", today(), wrong, count, 100 * shares.front(),
                               100 * shares[shares.size() / 2]));
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nsys_explain::pipeline::testing

int main(int argc, char** argv) {
  using nsys_explain::pipeline::testing::Evidence;
  using nsys_explain::pipeline::testing::ScanOptions;
  using nsys_explain::pipeline::testing::Streams;
  CLI::App app("Matches jobs of random shapes and compares with the truth; exit code 1 where pairs are wrong.");
  std::uint64_t first = 0, count = 20;
  ScanOptions options;
  app.add_option("--first", first, "first seed");
  app.add_option("--count", count, "how many seeds")->check(CLI::PositiveNumber);
  app.add_option("--evidence", options.evidence, "what the exports tell of communicators")
      ->transform(CLI::CheckedTransformer(
          std::vector<std::pair<std::string, Evidence>>{
              {"payload", Evidence::payload}, {"categories", Evidence::categories}, {"none", Evidence::none}},
          CLI::ignore_case));
  app.add_option("--streams", options.streams, "how many communicators a stream carries")
      ->transform(CLI::CheckedTransformer(
          std::vector<std::pair<std::string, Streams>>{
              {"any", Streams::any}, {"one-each", Streams::one_each}, {"shared", Streams::shared}},
          CLI::ignore_case));
  app.add_flag("--one-communicator", options.one_communicator,
               "two to four processes in one communicator, some late by seconds, clocks that nothing relates");
  app.add_option("--end-noise", options.end_noise,
                 "scale of the noise of ends, of one operation in turn, with heavy tails and another law of bias");
  app.add_flag("--short", options.short_captures,
               "6 to 12 steps, 1% of the records lost, ragged windows, no clocks of hosts");
  app.add_option("--ragged", options.ragged_share, "largest share that windows of short captures lack at either end")
      ->check(CLI::Range(0.0, 0.49));
  app.add_option("--steps", options.steps, "training steps of every job, some 70 ms each (default: 6 to 24, drawn)")
      ->check(CLI::PositiveNumber);
  std::string markdown;
  app.add_option("--markdown", markdown, "page whose table of matching gets a row (docs/accuracy.md)");
  CLI11_PARSE(app, argc, argv);
  try {
    return nsys_explain::pipeline::testing::scan(first, count, options, markdown);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
