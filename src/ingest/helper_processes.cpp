#include "ingest/helper_processes.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "model/shell_quoted.hpp"
#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::ingest {
namespace {

/// As of a device that its process only touches (identify_trace_ranks).
constexpr std::int64_t at_least_one_in = 100;

Warning left_out(std::int64_t count, const TraceRankIdentity& first) {
  return {
      Severity::info, WarningSource::analysis, count,
      fmt::format(
          "process {} on device {} in {} takes part in no collective and runs less than 1 % of the kernels of the ranks beside it ({}){}: it is taken for a helper of the program, not for a rank, and left out; name it in a rank map if it is one",
          first.process_id, first.key.device_id, shell_quoted(first.key.path), first.kernels,
          count == 1 ? "" : fmt::format(" (and {} more like this)", count - 1))};
}

}  // namespace

RanksWithoutHelpers leave_out_helpers(std::vector<TraceRankIdentity> identities,
                                      std::span<const std::int64_t> collectives) {
  std::map<std::string, std::vector<std::int64_t>> kernels_of_export;  // of those with collectives
  for (std::size_t i = 0; i < identities.size(); ++i)
    if (collectives[i] > 0) kernels_of_export[identities[i].key.path].push_back(identities[i].kernels);
  RanksWithoutHelpers result;
  std::vector<TraceRankIdentity> helpers;
  for (std::size_t i = 0; i < identities.size(); ++i) {
    TraceRankIdentity& one = identities[i];
    const auto beside = kernels_of_export.find(one.key.path);
    const bool may_be_one = collectives[i] == 0 && one.graph_launches == 0 && one.claims.empty();
    const bool is_one =
        may_be_one && beside != kernels_of_export.end() && one.kernels * at_least_one_in < lower_median(beside->second);
    (is_one ? helpers : result.ranks).push_back(std::move(one));
  }
  if (!helpers.empty()) {
    const auto first =
        std::min_element(helpers.begin(), helpers.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    result.warnings.push_back(left_out(static_cast<std::int64_t>(helpers.size()), *first));
  }
  return result;
}

}  // namespace nsys_explain::ingest
