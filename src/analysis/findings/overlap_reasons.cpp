#include "analysis/findings/overlap_reasons.hpp"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/findings/finding_sizes.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
namespace {

/// Of all trace ranks.
struct StreamCounts {
  std::int64_t communication = 0;
  std::int64_t beside_compute = 0;  ///< of these, on a stream that holds more compute kernels than communication
};

StreamCounts count_streams(const JobReport& report) {
  StreamCounts counts;
  const Table* const table = find_table(report.tables, schema::streams);
  if (table == nullptr) return counts;
  const auto& kernels = column(*table, schema::streams.kernels);
  const auto& communication = column(*table, schema::streams.communication_kernels);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    counts.communication += communication[i];
    if (kernels[i] > 2 * communication[i]) counts.beside_compute += communication[i];
  }
  return counts;
}

/// How many trace ranks ran with this value of a fact.
std::size_t ranks_with(const JobReport& report, std::string_view fact, std::string_view value) {
  const Table* const table = find_table(report.tables, schema::run_facts);
  if (table == nullptr) return 0;
  const auto& ranks = column(*table, schema::trace_rank);
  const auto& facts = column(*table, schema::run_facts.fact);
  const auto& values = column(*table, schema::run_facts.value);
  std::set<std::int64_t> with;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (facts[i] == fact && values[i] == value) with.insert(ranks[i]);
  return with.size();
}

/// Of all exposed communication, what ran while the host had not launched what came next.
double launch_paced_share(const JobReport& report) {
  Nanoseconds paced_ns = 0, all_ns = 0;
  for (const ExposedTime& one : report.exposed) {
    for (const auto& by_reason : one.duration_ns) {
      for (const Nanoseconds time_ns : by_reason) all_ns += time_ns;
      paced_ns += by_reason[static_cast<std::size_t>(StandstillReason::launch_paced)];
    }
  }
  return share(paced_ns, all_ns);
}

/// The synchronising call that hosts spend most time in; empty where they make none.
std::string longest_synchronisation(const JobReport& report) {
  const Table* const table = find_table(report.tables, schema::barriers);
  if (table == nullptr) return {};
  const auto& kinds = column(*table, schema::barriers.kind);
  const auto& names = column(*table, schema::barriers.name);
  const auto& totals = column(*table, schema::barriers.total_ns);
  std::map<std::string_view, std::int64_t> by_name;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] == "sync_api") by_name[names[i]] += totals[i];
  std::pair<std::string_view, std::int64_t> longest;
  for (const auto& one : by_name)
    if (one.second > longest.second) longest = one;
  if (longest.first.empty()) return {};
  return fmt::format("; hosts spend {} in {} (table barriers)", gpu_time(longest.second), longest.first);
}

}  // namespace

OverlapAdvice explain_exposed_communication(const JobReport& report) {
  constexpr double most = 0.5;
  OverlapAdvice advice;
  std::vector<std::string> steps;
  const auto reason = [&](std::string evidence, std::string_view step) {
    advice.evidence.push_back(std::move(evidence));
    steps.emplace_back(step);
  };
  const StreamCounts counts = count_streams(report);
  const double beside = share(counts.beside_compute, counts.communication);
  if (beside > most)
    reason(
        fmt::format(
            "{:.0f}% of the communication kernels run on the stream of compute, so neither can run while the other does (table streams)",
            100 * beside),
        "give communication a separate stream");
  if (const std::size_t ranks = ranks_with(report, "CUDA_DEVICE_MAX_CONNECTIONS", "1"); ranks > 0 && beside <= most)
    reason(
        fmt::format(
            "CUDA_DEVICE_MAX_CONNECTIONS=1 on {} of {} ranks: all streams of a GPU share one hardware queue, so kernels start in the order of launches, and compute behind a collective waits for it",
            ranks, report.trace_ranks.size()),
        "unset CUDA_DEVICE_MAX_CONNECTIONS, or launch compute before the collective that it may overlap (tensor parallel layers rely on that order)");
  if (const std::size_t ranks = ranks_with(report, "CUDA_LAUNCH_BLOCKING", "1"); ranks > 0)
    reason(fmt::format("CUDA_LAUNCH_BLOCKING=1 on {} of {} ranks: each launch waits until its kernel is over", ranks,
                       report.trace_ranks.size()),
           "unset CUDA_LAUNCH_BLOCKING");
  if (const double paced = launch_paced_share(report); paced > most)
    reason(
        fmt::format(
            "for {:.0f}% of that time the host had not launched the compute that came next{} (table exposed_communication)",
            100 * paced, longest_synchronisation(report)),
        "launch ahead: no synchronisation between a collective and the compute that may run beside it");
  if (steps.empty()) steps.emplace_back("overlap them with compute (bucket sizes, prefetching), or move fewer bytes");
  advice.recommendation = fmt::format("{}", fmt::join(steps, "; "));
  return advice;
}

}  // namespace nsys_explain::analysis
