#include "analysis/questions/question.hpp"

#include <algorithm>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {
namespace {

constexpr std::size_t growth_parts = 8;

struct InUse {
  Nanoseconds time_ns;
  std::int64_t bytes, peak_bytes;
};

/// How a rank's memory grew from the second part of its time to the last.
struct Growth {
  std::int64_t from_bytes = 0, to_bytes = 0;
  Nanoseconds duration_ns = 0;
};

std::optional<Growth> steady_growth(const std::vector<InUse>& rows) {
  const Nanoseconds part_ns =
      (rows.back().time_ns - rows.front().time_ns) / static_cast<std::int64_t>(growth_parts) + 1;
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::array<std::int64_t, growth_parts> least{};
  least.fill(none);
  std::int64_t peak = 0;
  for (const InUse& row : rows) {
    std::int64_t& of_part = least[static_cast<std::size_t>((row.time_ns - rows.front().time_ns) / part_ns)];
    of_part = std::min(of_part, row.bytes);
    peak = std::max(peak, row.peak_bytes);
  }
  for (std::size_t part = 1; part < growth_parts; ++part)
    if (least[part] == none || (part > 1 && least[part] <= least[part - 1])) return std::nullopt;
  if (100 * (least.back() - least[1]) < peak) return std::nullopt;
  return Growth{least[1], least.back(), rows.back().time_ns - rows.front().time_ns};
}

/// The least device memory in use rises from each eighth of the recorded time to the next, the first one left out, by a
/// hundredth of the peak or more in all. Seven values that know nothing of each other rise all the way once in
/// 7! = 5,040 times.
void find_memory_growth(const JobReport& report, std::vector<Finding>& findings) {
  constexpr std::size_t most_told = 8;
  const Table* const table = find_table(report.tables, schema::gpu_memory);
  if (table == nullptr) return;
  std::map<std::int32_t, std::vector<InUse>> by_rank;
  for (std::size_t i = 0; i < table->row_count(); ++i) {
    if (column(*table, schema::gpu_memory.memory)[i] != "Device") continue;
    by_rank[static_cast<std::int32_t>(column(*table, schema::trace_rank)[i])].push_back(
        {column(*table, schema::gpu_memory.start_ns)[i], column(*table, schema::gpu_memory.in_use_bytes)[i],
         column(*table, schema::gpu_memory.peak_bytes)[i]});
  }
  std::vector<std::int32_t> ranks;
  std::vector<std::string> evidence;
  for (const auto& [trace_rank, rows] : by_rank) {
    const auto growth = steady_growth(rows);
    if (!growth) continue;
    ranks.push_back(trace_rank);
    if (evidence.size() < most_told)
      evidence.push_back(fmt::format("rank {}: at least {:.1f} MiB in use, later {:.1f} MiB, in {:.3f} s", trace_rank,
                                     static_cast<double>(growth->from_bytes) / (1 << 20),
                                     static_cast<double>(growth->to_bytes) / (1 << 20),
                                     static_cast<double>(growth->duration_ns) / 1e9));
  }
  if (ranks.empty()) return;
  evidence.emplace_back("the least in use of each eighth of the time but the first: table gpu_memory");
  findings.push_back(
      {.id = "memory-growth",
       .severity = FindingSeverity::low,
       .title = fmt::format("device memory in use grows all the time on {}", trace_ranks_text(ranks)),
       .evidence = std::move(evidence),
       .recommendation =
           "look for what keeps tensors from step to step (lists of losses that still have their graph, caches without a limit); if it goes on, the run ends out of memory",
       .trace_ranks = ranks});
}

}  // namespace

Question gpu_memory() {
  return {.shown = {.table = schema::gpu_memory.table_name(), .findings = {"memory-growth"}, .view = "host"},
          .find = find_memory_growth};
}

}  // namespace nsys_explain::analysis::questions
