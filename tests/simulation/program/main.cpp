// nsys-explain-synth: arguments into a JobPlan, then simulate and write.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "pipeline/read/record_maker.hpp"
#include "simulation/exports.hpp"
#include "simulation/job_plan.hpp"
#include "simulation/program/options.hpp"
#include "simulation/simulated_job.hpp"

namespace synth = nsys_explain::synth;

namespace {

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    throw std::runtime_error(
        fmt::format("{} cannot be written, so the job has no truth; check the disk and rerun", path.string()));
}

void check_directory(const std::filesystem::path& directory, bool force) {
  if (std::filesystem::exists(directory) && !force &&
      (!std::filesystem::is_directory(directory) || !std::filesystem::is_empty(directory)))
    throw synth::PlanError(fmt::format(
        "{} exists and is not an empty directory, so files of two jobs could mix; name another directory or add --force",
        directory.string()));
}

/// The same job and seed without a fault, or without all. No random number of the job depends on its faults.
synth::JobPlan twin_of(synth::JobPlan plan, const synth::Arguments& arguments) {
  if (arguments.twin == "all") {
    plan.faults.clear();
    return plan;
  }
  const auto left_out = std::find(arguments.faults.begin(), arguments.faults.end(), arguments.twin);
  if (left_out == arguments.faults.end())
    throw synth::PlanError(fmt::format(
        "--twin {} is none of the faults of the job, so the twin would be the job itself; repeat the text of one --fault, or write all",
        arguments.twin));
  plan.faults.erase(plan.faults.begin() + (left_out - arguments.faults.begin()));
  return plan;
}

/// Each export is there only until its record is.
std::vector<synth::WrittenExport> write_records(const synth::SimulatedJob& job, const synth::JobPlan& plan,
                                                const std::string& directory) {
  nsys_explain::pipeline::RecordMaker maker(directory);
  std::vector<synth::WrittenExport> files =
      synth::write_exports(job, plan, directory, [&](const synth::WrittenExport& file) {
        maker.add(file.path);
        std::filesystem::remove(file.path);
      });
  maker.finish();
  return files;
}

void write_job(const synth::JobPlan& plan, const std::filesystem::path& directory, const synth::Arguments& arguments) {
  const synth::SimulatedJob job = synth::simulate(plan);
  const std::vector<synth::WrittenExport> files = arguments.records
                                                      ? write_records(job, plan, directory.string())
                                                      : synth::write_exports(job, plan, directory.string());
  synth::write_inspector_logs(job, plan, (directory / "inspector").string());
  if (arguments.truth != synth::Truth::none) {
    const auto detail = arguments.truth == synth::Truth::full ? synth::TruthDetail::full : synth::TruthDetail::summary;
    write_text(directory / "truth.json", synth::truth_json(job, plan, detail));
  }
  std::int64_t kernels = 0, bytes = 0;
  for (const synth::WrittenExport& file : files) {
    kernels += file.kernels;
    bytes += file.bytes;
  }
  fmt::print("{}: {} ranks in {} {} ({:.1f} MB), {} kernels, {} collectives, {} faults, {:.2f} s of job time\n",
             directory.string(), plan.layout.ranks(), files.size(), arguments.records ? "records of exports" : "files",
             static_cast<double>(bytes) / 1e6, kernels, job.instances.size(), plan.faults.size(),
             static_cast<double>(job.end_ns) / 1e9);
}

void run(const synth::JobPlan& plan, const synth::Arguments& arguments) {
  check_directory(arguments.directory, arguments.force);
  if (arguments.twin.empty()) return write_job(plan, arguments.directory, arguments);
  const synth::JobPlan twin = twin_of(plan, arguments);
  std::filesystem::path beside = std::filesystem::path(arguments.directory) / "";  // "job/" and "job" are the same
  beside = beside.parent_path();
  beside += "-twin";
  check_directory(beside, arguments.force);
  write_job(plan, arguments.directory, arguments);
  write_job(twin, beside, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  synth::Arguments arguments;
  CLI::App app{
      "Writes Nsight Systems SQLite exports of a simulated multi-GPU training job with planted faults, and beside them\n"
      "truth.json: when every rank entered and left every collective, how each clock ran, which faults there are.\n"};
  app.set_version_flag("--version", NSYS_EXPLAIN_VERSION);
  app.get_formatter()->column_width(34);
  synth::Options options(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    run(options.plan(), arguments);
  } catch (const synth::PlanError& error) {
    fmt::print(stderr, "nsys-explain-synth: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "nsys-explain-synth: {}\n", error.what());
    return 5;
  }
  return 0;
}
