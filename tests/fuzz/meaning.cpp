#include "fuzz/meaning.hpp"

#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "exchange/communicator.hpp"
#include "pipeline/tool_rank/job.hpp"

namespace nsys_explain::meaning {
namespace {

namespace fs = std::filesystem;
using hostile::Trial;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(fs::file_size(path), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

/// Parsed once in a process.
const nlohmann::json& trace_of(const fs::path& path) {
  static std::map<fs::path, nlohmann::json> parsed;
  const auto [found, is_new] = parsed.try_emplace(path);
  if (is_new) found->second = nlohmann::json::parse(bytes_of(path));
  return found->second;
}

/// Inputs of one run: mostly a job's, or some of them, one of them twice, or those of two jobs.
std::vector<fs::path> some_inputs(const std::vector<Job>& jobs, Draw& draw) {
  std::vector<fs::path> inputs = draw.one_of(jobs).files;
  while (inputs.size() > 1 && draw.percent(50))
    inputs.erase(inputs.begin() + static_cast<long>(draw.below(inputs.size())));
  if (draw.percent(7)) inputs.push_back(draw.one_of(inputs));
  if (draw.percent(7)) {
    const std::vector<fs::path>& others = draw.one_of(jobs).files;
    inputs.insert(inputs.end(), others.begin(), others.begin() + static_cast<long>(1 + draw.below(others.size())));
  }
  return inputs;
}

/// Its name tells a rank: its own, another, the same as all others', or none.
std::string name_of_input(const fs::path& input, std::size_t place, std::uint64_t kind) {
  const std::string extension = input.extension() == ".json" ? ".pt.trace.json" : ".sqlite";
  switch (kind) {
    case 0:
      return fmt::format("rank_{}{}", 3 - static_cast<std::int64_t>(place), extension);
    case 1:
      return fmt::format("{}{}", std::string(place + 1, 'x'), extension);
    case 2:
      return fmt::format("rank_{}{}", place == 0 ? 20'260'131 : 2'147'483'648 - place, extension);
    case 3:
      return fmt::format("node{}_rank_0{}", place, extension);
    case 4:
      return fmt::format("profile.{}.{}{}", place / 2, place % 2, extension);
    default:
      return fmt::format("{}{}{}", input.stem().string(), place < 4 ? "" : fmt::format("_of_{}", place), extension);
  }
}

/// Edits of one input are a draw of their own, so that several inputs may be changed alike.
std::string write_edited(const fs::path& from, const fs::path& to, std::uint64_t edits, Draw draw) {
  std::string told;
  if (from.extension() == ".json") {
    nlohmann::json trace = trace_of(from);
    for (std::uint64_t edit = 0; edit < edits; ++edit) told += ", " + edit_trace(trace, draw);
    std::ofstream(to) << trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return told;
  }
  fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  fs::permissions(to, fs::perms::owner_write, fs::perm_options::add);
  ChangedDatabase database(to);
  for (std::uint64_t edit = 0; edit < edits; ++edit) told += ", " + edit_export(database, draw);
  return told;
}

/// Writes the inputs; returns their paths.
std::vector<std::string> write_inputs(const std::vector<Job>& jobs, const fs::path& directory, Draw& draw,
                                      std::ostream& told) {
  std::vector<std::string> paths;
  const std::vector<fs::path> inputs = some_inputs(jobs, draw);
  const std::uint64_t naming = draw.percent(70) ? 5 : draw.below(5), edits = 1 + draw.below(6);
  const std::uint64_t alike = draw.bits(), only = draw.below(inputs.size());
  const bool all_alike = draw.percent(40), only_one = draw.percent(40);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Draw own(all_alike ? alike : draw.bits());
    const fs::path path = directory / name_of_input(inputs[i], i, naming);
    const bool is_changed = all_alike || !only_one || i == only;
    told << path.filename().string() << " from " << inputs[i].string() << std::flush
         << write_edited(inputs[i], path, is_changed ? edits : 0, own) << '\n';
    paths.push_back(path.string());
  }
  return paths;
}

/// A part of the run, rarely.
void choose_part(pipeline::JobSpecification& job, Draw& draw) {
  switch (draw.below(24)) {
    case 0:
    case 1:
      job.whole_run = true;
      break;
    case 2:
      job.steps = draw.one_of<std::string>({"5:7", "0:2", "6:6", "8:", ":6", "7:5", "-1:3", "100:200"});
      break;
    case 3:
      job.filter_time =
          draw.one_of<std::string>({"10s/", "/1s", "0s/100s", "11s700ms/11s750ms", "5s/5s", "300000h/", "10us/20us"});
      break;
    case 4:
      job.filter_nvtx = draw.one_of<std::string>(
          {"step 6", "step 6/0", "forward/1", "ncclAllReduce@NCCL", "none", "ProfilerStep#6", "backward", "step 6@*"});
      break;
    case 5:
      job.warmup_steps = draw.one_of<std::int64_t>({1, 2, 5, 100});
      break;
    default:
      break;
  }
}

pipeline::JobSpecification some_options(const fs::path& directory, Draw& draw) {
  pipeline::JobSpecification job;
  job.output_directory = (directory / "out").string();
  job.overwrite = true;
  job.threads = draw.percent(10) ? 2 : 1;
  choose_part(job, draw);
  job.write_csv = draw.percent(15);
  job.gpu_trace = draw.percent(10);
  if (draw.percent(15)) job.perfetto_path = (directory / "timeline.json.gz").string();
  if (draw.percent(10)) job.prometheus_path = (directory / "metrics.prom").string();
  if (draw.percent(8)) {
    job.phase_map_path = (directory / "phases").string();
    std::ofstream(job.phase_map_path) << "forward step *\nsleep *batch*\noptimizer ncclAllReduce\n";
  }
  if (draw.percent(8)) job.reader = ingest::Reader::sqlite;
  if (draw.percent(8))
    job.clock_method = draw.one_of<ClockMethod>({ClockMethod::utc, ClockMethod::host_clock, ClockMethod::collectives});
  if (draw.percent(5)) job.require_ranks = draw.one_of<std::int32_t>({1, 2, 4, 9});
  if (draw.percent(5)) job.communication_kernels = {"*elementwise*"};
  if (draw.percent(5)) job.elapsed_unprofiled = draw.one_of<double>({1e-6, 1, 1e9});
  if (draw.percent(5)) job.memory_limit_bytes = std::int64_t{4} << 30;
  return job;
}

/// What must never be of a run that ended so; empty: nothing.
std::string wrong_end(const pipeline::JobSpecification& job, int code, const std::string& told,
                      const std::string& problems) {
  const fs::path report = fs::path(job.output_directory) / "report.json";
  const bool has_report = fs::exists(report);
  if (code != pipeline::all_analysed && code != pipeline::wrong_usage && code != pipeline::nothing_analysed &&
      code != pipeline::some_inputs_failed)
    return fmt::format("exit code {}: {}", code, problems);
  if (has_report && !nlohmann::json::accept(bytes_of(report))) return "report.json is no JSON";
  if (code == pipeline::wrong_usage && (has_report || problems.empty())) return "refused without a reason, or reported";
  const bool may_lack =
      code == pipeline::wrong_usage || job.require_ranks || problems.find("so there is no report") != std::string::npos;
  if (!has_report && !may_lack) return fmt::format("exit code {} without report.json: {}", code, problems);
  // What the library says of itself is no sentence for people.
  for (const char* word :
       {"std::", "vector::", "basic_string", "bad_alloc", "_M_", "map::at", "stoi", "[json.", "nan "})
    for (const std::string* text : {&told, &problems})
      if (text->find(word) != std::string::npos) return fmt::format("a message with {}: {}", word, *text);
  return {};
}

}  // namespace

Trial explain_edited_job(const std::vector<Job>& jobs, std::uint64_t seed, const fs::path& directory) {
  Draw draw(seed);
  fs::remove_all(directory);
  fs::create_directories(directory / "in");
  std::ofstream list(directory / "edits.txt");
  pipeline::JobSpecification job = some_options(directory, draw);
  job.inputs = write_inputs(jobs, directory / "in", draw, list);
  list << fmt::format("whole_run {}, steps '{}', filter_time '{}', filter_nvtx '{}', skip_warmup {}\n", job.whole_run,
                      job.steps, job.filter_time, job.filter_nvtx, job.warmup_steps)
       << std::flush;
  std::ostringstream told, problems;
  const int code = pipeline::run(job, exchange::Communicator::serial(), told, problems);
  list << fmt::format("exit code {}\n", code) << problems.str() << told.str();
  Trial trial;
  trial.is_refused = code != pipeline::all_analysed;
  trial.problem = wrong_end(job, code, told.str(), problems.str());
  return trial;
}

}  // namespace nsys_explain::meaning
