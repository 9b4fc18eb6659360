#include "report/phase_summary.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/schema/host.hpp"
#include "report/markdown_table.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

using Json = nlohmann::ordered_json;
using Integers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

/// One phase over all trace ranks that have it.
struct PhaseSummary {
  std::string phase;
  std::int64_t trace_ranks = 0;
  std::int64_t ranges = 0;
  Nanoseconds host_ns = 0, kernel_ns = 0, other_thread_kernel_ns = 0;  ///< sums over trace ranks
  Nanoseconds median_kernel_ns = 0, most_kernel_ns = 0;                ///< by trace rank; median: the lower one of two
  std::int64_t slowest_trace_rank = -1;
};

/// In the order of the first trace rank's phases, others by name after them.
std::vector<PhaseSummary> summarise_phases(const JobReport& report) {
  std::vector<PhaseSummary> summaries;
  const Table* table = find_table(report.tables, schema::phases);
  if (table == nullptr) return summaries;
  const auto& phase = column(*table, schema::phases.phase);
  const auto& rank = column(*table, schema::trace_rank);
  const auto& kernel_ns = column(*table, schema::phases.kernel_ns);
  std::map<std::string, std::size_t> position;
  std::vector<Integers> by_rank;
  for (std::size_t i = 0; i < phase.size(); ++i) {
    const auto [entry, is_new] = position.try_emplace(phase[i], summaries.size());
    if (is_new) {
      summaries.push_back({});
      summaries.back().phase = phase[i];
      by_rank.emplace_back();
    }
    PhaseSummary& summary = summaries[entry->second];
    ++summary.trace_ranks;
    summary.ranges += column(*table, schema::phases.ranges)[i];
    summary.host_ns += column(*table, schema::phases.host_ns)[i];
    summary.kernel_ns += kernel_ns[i];
    summary.other_thread_kernel_ns += column(*table, schema::phases.other_thread_kernel_ns)[i];
    if (summary.slowest_trace_rank < 0 || kernel_ns[i] > summary.most_kernel_ns) {
      summary.most_kernel_ns = kernel_ns[i];
      summary.slowest_trace_rank = rank[i];
    }
    by_rank[entry->second].push_back(kernel_ns[i]);
  }
  for (std::size_t p = 0; p < summaries.size(); ++p) {
    std::sort(by_rank[p].begin(), by_rank[p].end());
    summaries[p].median_kernel_ns = by_rank[p][(by_rank[p].size() - 1) / 2];
  }
  return summaries;
}

Json percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? Json(100 * static_cast<double>(part) / static_cast<double>(whole)) : Json(nullptr);
}

std::int64_t total(const Table& table, const schema::Integer& of) {
  std::int64_t sum = 0;
  for (const std::int64_t value : column(table, of)) sum += value;
  return sum;
}

}  // namespace

nlohmann::ordered_json attribution_json(const JobReport& report) {
  const Table* coverage = find_table(report.tables, schema::nvtx_coverage);
  if (coverage == nullptr) return nullptr;
  const std::int64_t kernel_ns = total(*coverage, schema::nvtx_coverage.kernel_ns);
  return {{"kernel_ns", kernel_ns},
          {"launched_percent", percent(total(*coverage, schema::nvtx_coverage.launched_ns), kernel_ns)},
          {"nvtx_ranges", total(*coverage, schema::nvtx_coverage.ranges)},
          {"nvtx_covered_percent", percent(total(*coverage, schema::nvtx_coverage.covered_ns), kernel_ns)}};
}

nlohmann::ordered_json phases_json(const JobReport& report) {
  Json phases = Json::array();
  for (const PhaseSummary& p : summarise_phases(report)) {
    phases.push_back({{"phase", p.phase},
                      {"trace_ranks", p.trace_ranks},
                      {"ranges", p.ranges},
                      {"host_ns", p.host_ns},
                      {"kernel_ns", p.kernel_ns},
                      {"other_thread_kernel_ns", p.other_thread_kernel_ns},
                      {"median_kernel_ns", p.median_kernel_ns},
                      {"most_kernel_ns", p.most_kernel_ns},
                      {"slowest_trace_rank", p.slowest_trace_rank}});
  }
  return phases;
}

nlohmann::ordered_json serving_json(const JobReport& report) {
  Json serving = Json::array();
  const Table* table = find_table(report.tables, schema::serving);
  if (table == nullptr) return serving;
  for (std::size_t i = 0; i < table->row_count(); ++i) {
    serving.push_back({{"trace_rank", column(*table, schema::trace_rank)[i]},
                       {"latency", column(*table, schema::serving.latency)[i]},
                       {"count", column(*table, schema::serving.latencies.count)[i]},
                       {"median_ns", column(*table, schema::serving.latencies.median)[i]},
                       {"p99_ns", column(*table, schema::serving.latencies.p99)[i]}});
  }
  return serving;
}

std::string phases_section(const JobReport& report) {
  const std::vector<PhaseSummary> phases = summarise_phases(report);
  if (phases.empty()) return {};
  std::string out =
      "\n## Phases of the program\n\n" +
      wrap(
          "From NVTX ranges: a kernel belongs to the innermost phase around its launch, and to its step besides. Kernel time of all ranks, then of the median one and of the one with the most. Single steps are in table `steps` of store.h5.",
          "", "") +
      '\n';
  MarkdownTable table;
  table.columns = {{"phase", MarkdownTable::Align::left},
                   {"ranks"},
                   {"ranges"},
                   {"kernel time"},
                   {"median rank"},
                   {"slowest rank"},
                   {"it is"}};
  for (const PhaseSummary& p : phases) {
    table.rows.push_back({markdown_code(p.phase, 24), fmt::format("{}", p.trace_ranks), format_count(p.ranges),
                          format_duration(p.kernel_ns), format_duration(p.median_kernel_ns),
                          format_duration(p.most_kernel_ns), fmt::format("{}", p.slowest_trace_rank)});
  }
  out += table.to_string();
  if (const Table* serving = find_table(report.tables, schema::serving);
      serving != nullptr && serving->row_count() > 0) {
    out += '\n';
    constexpr std::size_t shown = 20;
    for (std::size_t i = 0; i < std::min(serving->row_count(), shown); ++i) {
      const bool first = column(*serving, schema::serving.latency)[i] == "time_to_first_token";
      out += wrap(
          fmt::format("rank {}: {} {} (median), {} (99%), over {}", column(*serving, schema::trace_rank)[i],
                      first ? "time to first token" : "time per output token",
                      format_duration(static_cast<Nanoseconds>(column(*serving, schema::serving.latencies.median)[i])),
                      format_duration(static_cast<Nanoseconds>(column(*serving, schema::serving.latencies.p99)[i])),
                      counted(column(*serving, schema::serving.latencies.count)[i], first ? "prefill" : "token")),
          "- ", "  ");
    }
  }
  return out;
}

}  // namespace nsys_explain::report
