#include "analysis/questions/question.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/links.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// True where a slow link tells why the trace rank's NVLinks carry less.
bool is_on_slow_link(const JobReport& report, std::int32_t trace_rank) {
  return std::any_of(report.slow_links.begin(), report.slow_links.end(), [&](const SlowLink& link) {
    return link.place != LinkPlace::node && link.place != LinkPlace::node_pair &&
           std::find(link.trace_ranks.begin(), link.trace_ranks.end(), trace_rank) != link.trace_ranks.end();
  });
}

/// GPUs that should carry equal traffic: same host, same model, same counter.
void add_asymmetry(const JobReport& report, std::vector<Finding>& findings) {
  constexpr std::size_t fewest_peers = 4;
  constexpr double least_share = 0.7, least_difference_percent = 5;
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const NvlinkUse*>> peers;
  for (const NvlinkUse& use : report.nvlink.gpus) {
    const auto rank = std::find_if(report.trace_ranks.begin(), report.trace_ranks.end(),
                                   [&](const TraceRankIdentity& r) { return r.trace_rank == use.trace_rank; });
    if (rank == report.trace_ranks.end() || !use.mean_during_percent) continue;
    peers[{rank->host, rank->gpu_name, use.metric}].push_back(&use);
  }
  for (const auto& [key, uses] : peers) {
    if (uses.size() < fewest_peers) continue;
    std::vector<double> means;
    for (const NvlinkUse* use : uses) means.push_back(*use->mean_during_percent);
    std::sort(means.begin(), means.end());
    const double median = means[means.size() / 2];
    for (const NvlinkUse* use : uses) {
      const double mean = *use->mean_during_percent;
      if (mean >= least_share * median || median - mean < least_difference_percent) continue;
      if (is_on_slow_link(report, use->trace_rank)) continue;
      findings.push_back(
          {.id = "nvlink-asymmetry",
           .severity = FindingSeverity::low,
           .title =
               fmt::format("the NVLinks of rank {} carry less during collectives than those of its host's other GPUs",
                           use->trace_rank),
           .evidence =
               {fmt::format("{}: {:.1f}% of their peak, the median of {} GPUs of host '{}' is {:.1f}%", use->metric,
                            mean, uses.size(), std::get<0>(key), median),
                "a rank that waits long for others shows less traffic per time in collectives, too: compare its waits",
                fmt::format("rows: nvlink where trace_rank = {}", use->trace_rank)},
           .recommendation =
               "if its waits are not longer than its peers', compare the state of its links: nvidia-smi nvlink -s",
           .trace_ranks = {use->trace_rank},
           .place = place_of(report, use->trace_rank)});
    }
  }
}

void add_idle_artefact(const JobReport& report, std::vector<Finding>& findings) {
  std::int64_t samples = 0, artefacts = 0;
  for (const NvlinkUse& use : report.nvlink.gpus) {
    samples += use.samples + use.artefacts;
    artefacts += use.artefacts;
  }
  if (artefacts * 20 < samples || artefacts == 0) return;
  findings.push_back(
      {.id = "nvlink-idle-artefact",
       .title = "NVLink counters read as fully utilised while links were idle",
       .evidence =
           {fmt::format(
                "{} of {} samples read as (nearly) 100% on every counter though no collective ran, or as more than a link can carry; they are left out of all means",
                artefacts, samples),
            "a documented limitation of nsys' GPU metrics for inactive links"},
       .recommendation = "trust means during collectives only; a newer driver and nsys may not show this"});
}

void find_nvlink_problems(const JobReport& report, std::vector<Finding>& findings) {
  add_asymmetry(report, findings);
  add_idle_artefact(report, findings);
}

}  // namespace

Question nvlink() {
  return {.shown = {.table = schema::nvlink.table_name(),
                    .findings = {"nvlink-asymmetry", "nvlink-idle-artefact"},
                    .view = "nvlink"},
          .find = find_nvlink_problems};
}

}  // namespace nsys_explain::analysis::questions
