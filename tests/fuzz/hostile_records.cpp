#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "exchange/communicator.hpp"
#include "fuzz/hostile.hpp"
#include "model/hash.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "simulation/exports.hpp"
#include "simulation/job_plan.hpp"
#include "simulation/simulated_job.hpp"

namespace nsys_explain::hostile {
namespace {

namespace fs = std::filesystem;

/// As src/pipeline/tool_rank/record_directory.cpp lays out a record; written down a second time, since a forger does
/// so, too.
struct Header {
  std::array<char, 16> magic;
  std::uint64_t key_size, bytes_size, digest;
};

std::uint64_t digest(std::string_view bytes, std::uint64_t seen) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(8, bytes.size()))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min<std::size_t>(8, bytes.size()));
    seen = std::rotl((seen ^ word) * golden_ratio, 29);
  }
  return seen;
}

/// The record with other bytes in it, as its writer would have sealed them.
std::string sealed(const std::string& record, const std::string& bytes) {
  Header header;
  std::memcpy(&header, record.data(), sizeof header);
  const std::string key = record.substr(sizeof header, header.key_size);
  header.bytes_size = bytes.size();
  header.digest = digest(bytes, fnv1a(key));
  std::string forged(sizeof header, '\0');
  std::memcpy(forged.data(), &header, sizeof header);
  return forged + key + bytes;
}

std::string bytes_of(const std::string& record) {
  Header header;
  std::memcpy(&header, record.data(), sizeof header);
  return record.substr(sizeof header + header.key_size);
}

class Records {
 public:
  Records() {
    synth::JobPlan plan;
    plan.layout = {1, 2, 1, 1, 0};
    plan.workload.steps = 2;
    plan.workload.layers = 1;
    plan = synth::complete_plan(plan);
    const fs::path job = scratch_.path() / "job";
    synth::write_exports(synth::simulate(plan), plan, job.string());
    pipeline::JobSpecification request;
    request.inputs = {job.string()};
    request.output_directory = (scratch_.path() / "first").string();
    request.prometheus_path = "/nowhere/metrics";  // a run that fails at its end leaves its shards
    run(request);
    for (const auto& entry : fs::directory_iterator(scratch_.path() / "first" / "shards")) {
      std::ifstream file(entry.path(), std::ios::binary);
      records_.push_back({entry.path().filename(), {std::istreambuf_iterator<char>(file), {}}});
      if (sealed(records_.back().bytes, bytes_of(records_.back().bytes)) != records_.back().bytes)
        throw std::runtime_error("records are sealed in another way: change hostile_records.cpp, too");
    }
    if (records_.size() < 3) throw std::runtime_error("a run that is not complete left no shards");
  }

  Trial operator()(std::uint64_t seed) {
    Draw draw(seed);
    const fs::path shards = scratch_.path() / "shards";
    fs::remove_all(shards);
    fs::create_directory(shards);
    const std::size_t forged = draw.below(records_.size());
    for (std::size_t i = 0; i < records_.size(); ++i) {
      std::string record = records_[i].bytes;
      if (i == forged) {
        record = draw.percent(5) ? damaged_bytes(record, draw) : sealed(record, damaged_bytes(bytes_of(record), draw));
      }
      std::ofstream(shards / records_[i].name, std::ios::binary) << record;
    }
    pipeline::JobSpecification request;
    request.shard_directories = {shards.string()};
    request.only_shards = draw.percent(80);
    request.output_directory = (scratch_.path() / "out").string();
    request.write_csv = draw.percent(30);
    fs::remove_all(request.output_directory);
    const auto [code, problems] = run(request);
    Trial trial;
    trial.is_whole_run = true;
    trial.is_refused = code != pipeline::all_analysed;
    // 5 is the answer to a plan that holds nothing that could be run.
    if (code == pipeline::results_not_written && problems.size() < 40)
      trial.problem = fmt::format("exit code {}: {}", code, problems);
    return trial;
  }

 private:
  struct Record {
    fs::path name;
    std::string bytes;
  };

  static std::pair<int, std::string> run(pipeline::JobSpecification job) {
    job.threads = 1;
    std::ostringstream told, problems;
    const int code = pipeline::run(job, exchange::Communicator::serial(), told, problems);
    return {code, problems.str()};
  }

  Scratch scratch_;
  std::vector<Record> records_;
};

}  // namespace

MakeTrials hostile_records() {
  return [] { return [records = std::make_shared<Records>()](std::uint64_t seed) { return (*records)(seed); }; };
}

}  // namespace nsys_explain::hostile
