// nsys-explain-synth: arguments into a JobPlan, then simulate and write.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "nsys_explain/synth/exports.hpp"
#include "nsys_explain/synth/job_plan.hpp"
#include "nsys_explain/synth/simulated_job.hpp"

namespace synth = nsys_explain::synth;

namespace {

struct Arguments {
  synth::JobPlan plan;
  std::string directory;
  std::vector<std::string> faults;
  double utc_offset_ms = 20, start_spread_ms = 500, pause_mean_ms = 1, metrics_lag_us = 0;
  synth::TruthDetail truth = synth::TruthDetail::full;
  bool force = false, no_nvtx = false, no_domain_row = false, no_device_tables = false;
};

template <typename T>
void add_choice(CLI::App& app, const std::string& name, T& value, const std::map<std::string, T>& choices,
                const std::string& help) {
  std::string names;
  for (const auto& [text, unused] : choices) names += (names.empty() ? "" : "|") + text;
  app.add_option(name, value, help)->transform(CLI::CheckedTransformer(choices, CLI::ignore_case))->type_name(names);
}

void add_layout_options(CLI::App& app, synth::JobPlan& plan) {
  const std::string group = "Job";
  app.add_option("--nodes", plan.layout.nodes, "Nodes")->capture_default_str()->group(group);
  app.add_option("--gpus-per-node", plan.layout.gpus_per_node, "GPUs, and ranks, per node")->capture_default_str()->group(group);
  app.add_option("--tp", plan.layout.tensor_parallel, "Tensor-parallel ranks")->capture_default_str()->group(group);
  app.add_option("--pp", plan.layout.pipeline_parallel, "Pipeline stages")->capture_default_str()->group(group);
  app.add_option("--dp", plan.layout.data_parallel, "Data-parallel ranks; 0: what is left")->capture_default_str()->group(group);
  app.add_option("--steps", plan.workload.steps, "Training steps")->capture_default_str()->group(group);
  app.add_option("--layers", plan.workload.layers, "Layers per pipeline stage")->capture_default_str()->group(group);
  app.add_option("--seed", plan.seed, "Same seed, same job")->capture_default_str()->group(group);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{
      "Writes Nsight Systems SQLite exports of a simulated multi-GPU training job with planted faults, and truth.json\n"
      "beside them: when every rank entered and left every collective, how each clock ran, and which faults there are."};
  app.set_version_flag("--version", NSYS_EXPLAIN_VERSION);
  app.add_option("--out", arguments.directory, "Directory to write into; created if missing")->required();
  app.add_flag("--force", arguments.force, "Write into a directory that is not empty");
  add_layout_options(app, arguments.plan);
  add_choice<synth::PayloadStyle>(app, "--payload", arguments.plan.export_style.payload,
                                  {{"none", synth::PayloadStyle::none},
                                   {"blob", synth::PayloadStyle::blob},
                                   {"hex", synth::PayloadStyle::hex_text},
                                   {"json", synth::PayloadStyle::json},
                                   {"dynamic", synth::PayloadStyle::dynamic_tables}},
                                  "How NCCL's payloads are exported");
  app.add_option("--fault", arguments.faults, "Plant KIND:key=value,...; may be repeated");
  app.footer("Faults:\n" + synth::fault_help());
  CLI11_PARSE(app, argc, argv);

  try {
    for (const std::string& text : arguments.faults) arguments.plan.faults.push_back(synth::parse_fault(text));
    const std::filesystem::path directory = arguments.directory;
    if (std::filesystem::exists(directory) && !std::filesystem::is_empty(directory) && !arguments.force)
      throw synth::PlanError(fmt::format("{} is not empty, so files could be mixed up; name another directory or add "
                                         "--force",
                                         arguments.directory));
    const synth::JobPlan plan = synth::complete_plan(arguments.plan);
    const synth::SimulatedJob job = synth::simulate(plan);
    const std::vector<synth::WrittenExport> files = synth::write_exports(job, plan, arguments.directory);
    std::ofstream(directory / "truth.json") << synth::truth_json(job, plan, arguments.truth);
    std::int64_t kernels = 0, bytes = 0;
    for (const synth::WrittenExport& file : files) kernels += file.kernels, bytes += file.bytes;
    fmt::print("{} ranks in {} files, {} kernels, {} collectives, {:.1f} MB, {:.2f} s simulated: {}\n", plan.layout.ranks(),
               files.size(), kernels, job.instances.size(), static_cast<double>(bytes) / 1e6,
               static_cast<double>(job.end_ns) / 1e9, arguments.directory);
  } catch (const synth::PlanError& error) {
    fmt::print(stderr, "nsys-explain-synth: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "nsys-explain-synth: {}\n", error.what());
    return 5;
  }
  return 0;
}
