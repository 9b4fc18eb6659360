#include "pipeline/read/ranks_without_ranges.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/schema/host.hpp"

namespace nsys_explain::pipeline {

std::vector<Warning> ranks_without_ranges(const std::vector<Table>& tables, const JobRanks& job) {
  constexpr std::size_t most_named = 8;
  const Table* const coverage = find_table(tables, schema::nvtx_coverage);
  if (coverage == nullptr) return {};
  const auto& ranks = column(*coverage, schema::trace_rank);
  const auto& ranges = column(*coverage, schema::nvtx_coverage.ranges);
  const auto& launched = column(*coverage, schema::nvtx_coverage.launched_kernels);
  const auto& covered = column(*coverage, schema::nvtx_coverage.covered_kernels);
  const auto with = std::count_if(covered.begin(), covered.end(), [](std::int64_t kernels) { return kernels > 0; });
  std::vector<std::string> named;
  std::int64_t without = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const TraceRankIdentity& identity = job.trace_ranks[job.index_of(static_cast<std::int32_t>(ranks[i]))];
    if (ranges[i] > 0 || launched[i] == 0 || job.without_ranges.contains(identity.key.path)) continue;
    if (++without <= std::int64_t{most_named})
      named.push_back(fmt::format("rank {} (process {})", ranks[i], identity.process_id));
  }
  if (with == 0 || without == 0) return {};
  const std::string more = without > std::ssize(named) ? fmt::format(" and {} more", without - std::ssize(named)) : "";
  return {Warning{
      Severity::info, WarningSource::analysis, without,
      fmt::format(
          "{}{} launched kernels and recorded no NVTX range but NCCL's, while kernels of {} other {} lie in ranges: phases, layers, steps and sums by range leave this part of the job out; annotate these processes as the others, and capture every rank alike (nsys profile -t cuda,nvtx)",
          fmt::join(named, ", "), more, with, with == 1 ? "rank" : "ranks")}};
}

}  // namespace nsys_explain::pipeline
