#include "unit/pipeline/matched_job.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include "nsys_explain/ingest/discovery.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/read/trace_records.hpp"
#include "pipeline/tool_rank/memory_budget.hpp"
#include "simulation/exports.hpp"

namespace nsys_explain::pipeline::testing {
namespace {

namespace fs = std::filesystem;

class ExportDirectory {
 public:
  ExportDirectory() {
    std::string name = (fs::temp_directory_path() / "nsys-explain-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  ~ExportDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ExportDirectory(const ExportDirectory&) = delete;
  ExportDirectory& operator=(const ExportDirectory&) = delete;
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

/// Where and how the traces were matched.
struct MatchedJob {
  std::map<std::int32_t, std::size_t> arrivals;  ///< that were read, by trace rank
  CrossRank cross;
};

/// The phases of a run up to the last matching.
MatchedJob match_exports(const std::string& directory) {
  const auto communicator = exchange::Communicator::serial();
  const UserOptions options;
  TraceRecords records({});
  MemoryBudget memory(std::nullopt);
  KeptExports exports("nsys");
  const auto discovery = ingest::merge_discoveries({{"here", ingest::discover({directory})}});
  std::vector<LocalTrace> traces;
  for (const ingest::AssignedTrace& assigned : discovery.traces) {
    Progress progress(1, assigned.bytes, false);
    for (LocalTrace& trace : read_local_traces({assigned}, {options, records, memory, exports}, progress)) {
      if (!trace.facts.analysed) throw std::runtime_error(trace.facts.input.message);
      traces.push_back(std::move(trace));
    }
  }
  MatchedJob job;
  const JobChoice choice = choose_job(communicator, traces, options, "");
  const JobRanks ranks = resolve_job(communicator, traces, {}, options.ranks, choice);
  for (const LocalTrace& trace : traces) {
    for (const LocalRank& rank : trace.ranks) job.arrivals[rank.trace_rank] = rank.arrivals.size();
  }
  const clock::ClockOptions clock_options;
  job.cross = match_collectives(communicator, ranks, clock_options, traces);
  const clock::ClockFit clock = estimate_clock(communicator, ranks, job.cross, clock_options);
  apply_clock(communicator, clock, ranks, job.cross, traces);
  return job;
}

/// True instances of a rank's exported arrivals in the order in which Arrival::index counts them: of several that begin
/// and end at one tick, by communicator, as far as calls tell it, and stream.
std::vector<std::uint32_t> exported_instances(const synth::SimulatedJob& job, const synth::JobPlan& plan,
                                              std::int32_t rank) {
  const auto& session = job.sessions[job.places[static_cast<std::size_t>(rank)].session];
  const auto trace_time = [&](Nanoseconds true_ns) {
    const Nanoseconds exact_ns = synth::trace_time_ns(session, true_ns);
    return exact_ns - exact_ns % plan.clocks.gpu_tick_ns;
  };
  const auto& activities = job.ranks[static_cast<std::size_t>(rank)].activities;
  const bool is_told = plan.export_style.payload != synth::PayloadStyle::none;
  std::vector<std::tuple<Nanoseconds, Nanoseconds, std::uint64_t, std::uint8_t, std::uint32_t>> order;
  for (const synth::TrueArrival& arrival : job.arrivals) {
    if (arrival.rank != rank || !synth::is_exported(job, plan, rank, arrival.activity)) continue;
    const std::uint64_t told = is_told ? job.communicators[job.instances[arrival.instance].communicator].hash : 0;
    order.emplace_back(trace_time(arrival.enter_ns), trace_time(arrival.exit_ns), told,
                       activities[arrival.activity].stream, arrival.instance);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> instances;
  for (const auto& exported : order) instances.push_back(std::get<std::uint32_t>(exported));
  return instances;
}

/// How many records of which true instances each found instance holds.
std::vector<std::map<std::uint32_t, std::int64_t>> true_parts(const MatchedJob& matched,
                                                              const std::vector<std::vector<std::uint32_t>>& truth) {
  std::vector<std::map<std::uint32_t, std::int64_t>> parts;
  for (const MatchedBlock& block : matched.cross.blocks) {
    for (const Instance& instance : block.instances) {
      auto& counts = parts.emplace_back();
      for (std::int64_t a = 0; a < instance.arrivals; ++a) {
        const InstanceArrival& arrival = block.arrivals[static_cast<std::size_t>(instance.first_arrival + a)];
        ++counts[truth.at(static_cast<std::size_t>(arrival.trace_rank)).at(static_cast<std::size_t>(arrival.index))];
      }
    }
  }
  return parts;
}

/// All that was read is what was exported, or instances would be compared with others.
void check_counts(const MatchedJob& matched, const std::vector<std::vector<std::uint32_t>>& truth) {
  for (std::size_t r = 0; r < truth.size(); ++r) {
    const auto found = matched.arrivals.find(static_cast<std::int32_t>(r));
    const std::size_t read = found == matched.arrivals.end() ? 0 : found->second;
    if (read != truth[r].size())
      throw std::runtime_error(fmt::format("rank {}: {} arrivals exported, {} read", r, truth[r].size(), read));
  }
}

/// "all_reduce of 0 1 (2 kB)".
std::string describe(const synth::SimulatedJob& job, std::uint32_t instance) {
  const synth::TrueInstance& found = job.instances[instance];
  return fmt::format("{} {} kB of {}", operation_name(found.operation), found.call_bytes / 1'000,
                     fmt::join(job.communicators[found.communicator].ranks, " "));
}

/// "all_reduce 2 kB of 4".
std::string describe_kind(const synth::SimulatedJob& job, std::uint32_t instance) {
  const synth::TrueInstance& kind = job.instances[instance];
  return fmt::format("{} {} kB of {}", operation_name(kind.operation), kind.call_bytes / 1'000,
                     job.communicators[kind.communicator].ranks.size());
}

/// Wrong pairs of a found instance, by what is mixed up.
void add_mixed(MatchScore& score, const synth::SimulatedJob& job, const std::map<std::uint32_t, std::int64_t>& parts) {
  for (auto a = parts.begin(); a != parts.end(); ++a) {
    for (auto b = std::next(a); b != parts.end(); ++b) {
      score.wrong_pairs += a->second * b->second;
      const std::string one = describe(job, a->first), other = describe(job, b->first);
      score.mixed[one == other ? "others of " + one : fmt::format("{} and {}", one, other)] += a->second * b->second;
    }
  }
}

}  // namespace

synth::JobPlan make_plan(std::uint64_t seed, std::initializer_list<Change> changes) {
  synth::JobPlan plan;
  plan.seed = seed;
  plan.workload.layers = 4;
  plan.clocks.drift_max_ppm = 20;
  for (const Change& change : changes) change(plan);
  return synth::complete_plan(plan);
}

MatchScore match_simulated(const synth::JobPlan& plan) {
  const synth::SimulatedJob job = synth::simulate(plan);
  const ExportDirectory directory;
  synth::write_exports(job, plan, directory.path());
  const MatchedJob matched = match_exports(directory.path());
  std::vector<std::vector<std::uint32_t>> truth;
  for (std::int32_t rank = 0; rank < plan.layout.ranks(); ++rank) truth.push_back(exported_instances(job, plan, rank));
  check_counts(matched, truth);

  MatchScore score;
  std::vector<std::int64_t> exported(job.instances.size(), 0), largest(job.instances.size(), 0);
  for (const auto& of_rank : truth) {
    for (const std::uint32_t instance : of_rank) ++exported[instance];
  }
  for (const auto& parts : true_parts(matched, truth)) {
    for (const auto& [instance, count] : parts) largest[instance] = std::max(largest[instance], count);
    add_mixed(score, job, parts);
  }
  for (std::size_t i = 0; i < exported.size(); ++i) {
    if (exported[i] < 2) continue;
    const std::int64_t together = largest[i] > 1 ? largest[i] : 0;
    score.present += exported[i];
    score.matched += together;
    if (together < exported[i])
      score.missed[describe_kind(job, static_cast<std::uint32_t>(i))] += exported[i] - together;
  }
  for (const auto& communicator : matched.cross.communicators) ++score.given_names[communicator.given_name];
  return score;
}

std::ostream& operator<<(std::ostream& out, const MatchScore& score) {
  out << fmt::format("{} of {} matched ({:.2f}%), {} wrong pairs, missed", score.matched, score.present,
                     100 * score.share(), score.wrong_pairs);
  for (const auto& [kind, count] : score.missed) out << fmt::format("\n  {} of {}", count, kind);
  for (const auto& [what, pairs] : score.mixed) out << fmt::format("\n  {} wrong pairs: {}", pairs, what);
  return out;
}

}  // namespace nsys_explain::pipeline::testing
