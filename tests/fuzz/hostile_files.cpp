#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "exchange/communicator.hpp"
#include "fuzz/hostile.hpp"
#include "ingest/side_files.hpp"
#include "pipeline/attribute/rank_comparison.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/user_options.hpp"
#include "simulation/exports.hpp"
#include "simulation/job_plan.hpp"
#include "simulation/simulated_job.hpp"

namespace nsys_explain::hostile {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t whole_run_every = 50;

/// A file that an option names, as a user would write it.
struct Example {
  std::string pipeline::JobSpecification::*option;
  std::string text;
};

const std::vector<Example>& examples() {
  using Job = pipeline::JobSpecification;
  static const std::vector<Example> all = {
      {&Job::rank_map_path, "# ranks\nrank_00000.sqlite 1\n*_00001.sqlite\t0\n/some/where/[ab]?.sqlite 3\n"},
      {&Job::rank_regex, R"(rank_0*(\d+)\.sqlite)"},
      {&Job::topology_path, "node000 rack0 # first\nnode001 rack1\n"},
      {&Job::link_peaks_path, "# peaks\n225.5 NVIDIA H100 80GB HBM3\n300 H100\n"},
      {&Job::phase_map_path,
       R"({"prefill": ["prefill", "re:^execute_context"], "de code": "token", "f": "Run (x+1) #2"})"},
      {&Job::phase_map_path, "forward forward\nbackward re:^back.*ward$\n# none\noptimizer Optimizer.*\n"},
      {&Job::category_map_path, R"({"mine": {"m": {"gemm": "gemm", "nccl.*|all_?reduce": "comm", "": "rest"}}})"},
      {&Job::weights_path, "# layer\n0.311M ^gemvx\n5 nothing\n12G (gemm|cutlass).*\n"},
      {&Job::gpu_peaks_path, "# ours\nfp16=900 bandwidth=3000 H100\nbandwidth=500.5 My GPU\n"},
      {&Job::nvml_path,
       "timestamp, uuid, index, clocks.current.sm [MHz], clocks.max.sm [MHz], clocks_event_reasons.active, utilization.gpu [%], power.draw [W], temperature.gpu\n"
       "2026/01/01 02:00:01.250, GPU-aaaa, 0, 1410 MHz, 1980 MHz, 0x0000000000000004, 98 %, 300.12 W, 65\n"
       "2026/01/01 02:00:02.000, GPU-aaaa, 0, 210 MHz, 1980 MHz, 0x0000000000000001, 0 %, [N/A], 40\n"},
      {&Job::nvml_path,
       "timestamp,pci.bus_id,sm_clock\n1767225600,00000000:3B:00.0,1000\n1767225601.5,00000000:3B:00.0,900\n"},
      {&Job::ncu_path,
       "==PROF== Connected to process 1\n\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
       "\"0\",\"1\",\"add(float *, int)\",\"dram__bytes.sum\",\"Mbyte\",\"1.50\"\n"
       "\"0\",\"1\",\"add(float *, int)\",\"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum\",\"inst\",\"1,000,000\"\n"},
      {&Job::ncu_path,
       "\"ID\",\"Kernel Name\",\"dram__bytes.sum\",\"sm__throughput.avg.pct_of_peak_sustained_elapsed\"\n\"\",\"\",\"Mbyte\",\"%\"\n"
       "\"0\",\"add(float *, int)\",\"1.234,50\",\"62.5\"\n"},
      {&Job::cublas_log_path,
       "I! cuBLAS (v12.3) function cublasStatus_t cublasGemmEx(cublasHandle_t, int) called:\n"
       "i!  transa: type=cublasOperation_t; val=CUBLAS_OP_T(1)\ni!  m: type=int; val=1000\ni!  n: type=int; val=200\n"
       "i!  k: type=int; val=50\ni!  Atype: type=cudaDataType_t; val=CUDA_R_16BF(14)\n"
       "i!Process=100; Thread=140220191823680; GPU=0\n"
       "[2026-01-01 07:13:36][cublasLt][100][Trace][cublasLtMatmul] A=0x1 Adesc=[type=R_16F rows=64 cols=100 ld=64] B=0x2 Bdesc=[type=R_16F rows=64 cols=300 ld=64] Cdesc=[type=R_16F rows=100 cols=300 ld=100] computeDesc=[transa=OP_T]\n"}};
  return all;
}

class Files {
 public:
  Files() {
    synth::JobPlan plan;
    plan.layout = {1, 2, 1, 1, 0};
    plan.workload.steps = 2;
    plan.workload.layers = 1;
    plan.export_style.inspector_logs = synth::InspectorLogs::verbose;
    plan = synth::complete_plan(plan);
    const auto job = synth::simulate(plan);
    for (const auto& written : synth::write_exports(job, plan, (scratch_.path() / "job").string()))
      exports_.push_back(written.path);
    synth::write_inspector_logs(job, plan, (scratch_.path() / "logs").string());
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path() / "logs")) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      std::ostringstream text;
      text << file.rdbuf();
      logs_.emplace_back(entry.path(), text.str().substr(0, 4'000));
    }
    std::sort(logs_.begin(), logs_.end());
  }

  Trial operator()(std::uint64_t seed) {
    Draw draw(seed);
    pipeline::JobSpecification job;
    const bool is_log = draw.percent(20);
    if (is_log) {
      for (const auto& [path, text] : logs_) write(path, damaged_bytes(text, draw));
      job.inspector_directory = (scratch_.path() / "logs").string();
    } else {
      change_option(job, draw);
    }
    return seed % whole_run_every == 0 ? whole_run(job, draw) : reading(job);
  }

 private:
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

  void change_option(pipeline::JobSpecification& job, Draw& draw) const {
    const Example& example = draw.one_of(examples());
    std::string text = damaged_bytes(example.text, draw);
    // Bytes alone seldom make a line that is well formed and says something strange.
    for (std::uint64_t round = draw.below(3); round > 0; --round) {
      const std::size_t digit = text.find_first_of("0123456789", text.empty() ? 0 : draw.below(text.size()));
      if (digit == std::string::npos) break;
      const std::size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
      text.replace(digit, end - digit, draw.percent(70) ? std::to_string(edge_integer(draw)) : edge_text(draw));
    }
    if (example.option == &pipeline::JobSpecification::rank_regex) {
      job.*example.option = text;
      return;
    }
    const fs::path path = scratch_.path() / "option";
    write(path, text);
    job.*example.option = path.string();
  }

  static Trial reading(const pipeline::JobSpecification& job) {
    Trial trial;
    try {
      pipeline::read_user_options(job);
      pipeline::CategoryPlan{job};
      if (!job.inspector_directory.empty()) ingest::read_inspector_log(job.inspector_directory, "node000", 1000);
    } catch (const std::exception& refusal) {
      trial.is_refused = true;
      if (std::string(refusal.what()).size() < 20) trial.problem = fmt::format("refused with '{}'", refusal.what());
    }
    return trial;
  }

  Trial whole_run(pipeline::JobSpecification& job, Draw& draw) const {
    job.inputs = exports_;
    job.output_directory = (scratch_.path() / "out").string();
    job.write_csv = draw.percent(50);
    job.threads = 1;
    fs::remove_all(job.output_directory);
    std::ostringstream told, problems;
    const int code = pipeline::run(job, exchange::Communicator::serial(), told, problems);
    Trial trial;
    trial.is_whole_run = true;
    trial.is_refused = code == pipeline::wrong_usage;
    if (code == pipeline::results_not_written) trial.problem = fmt::format("exit code {}: {}", code, problems.str());
    return trial;
  }

  Scratch scratch_;
  std::vector<std::string> exports_;
  std::vector<std::pair<fs::path, std::string>> logs_;
};

}  // namespace

MakeTrials hostile_files() {
  return [] { return [files = std::make_shared<Files>()](std::uint64_t seed) { return (*files)(seed); }; };
}

}  // namespace nsys_explain::hostile
