#include "analysis/questions/question.hpp"

#include <algorithm>
#include <cmath>

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

/// A GPU's traffic in one direction.
struct NvlinkUse {
  std::int32_t trace_rank = -1;
  double mean_during_percent = 0;
};

/// GPUs that should carry equal traffic: same host, same model, same counter.
void add_asymmetry(const JobReport& report, const Table& table, std::vector<Finding>& findings) {
  constexpr std::size_t fewest_peers = 4;
  constexpr double least_share = 0.7, least_difference_percent = 5;
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<NvlinkUse>> peers;
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    const NvlinkUse use{static_cast<std::int32_t>(column(table, schema::trace_rank)[row]),
                        column(table, schema::nvlink.mean_during_percent)[row]};
    const auto rank = std::find_if(report.trace_ranks.begin(), report.trace_ranks.end(),
                                   [&](const TraceRankIdentity& r) { return r.trace_rank == use.trace_rank; });
    if (column(table, schema::nvlink.operation)[row] != "all" || rank == report.trace_ranks.end() ||
        !std::isfinite(use.mean_during_percent))
      continue;
    peers[{rank->host, rank->gpu_name, column(table, schema::nvlink.metric)[row]}].push_back(use);
  }
  for (const auto& [key, uses] : peers) {
    if (uses.size() < fewest_peers) continue;
    std::vector<double> means;
    for (const NvlinkUse& use : uses) means.push_back(use.mean_during_percent);
    std::sort(means.begin(), means.end());
    const double median = means[means.size() / 2];
    for (const NvlinkUse& use : uses) {
      const double mean = use.mean_during_percent;
      if (mean >= least_share * median || median - mean < least_difference_percent) continue;
      if (is_on_slow_link(report, use.trace_rank)) continue;
      findings.push_back(
          {.id = "nvlink-asymmetry",
           .severity = FindingSeverity::low,
           .title =
               fmt::format("the NVLinks of rank {} carry less during collectives than those of its host's other GPUs",
                           use.trace_rank),
           .evidence =
               {fmt::format("{}: {:.1f}% of their peak, the median of {} GPUs of host '{}' is {:.1f}%",
                            std::get<2>(key), mean, uses.size(), std::get<0>(key), median),
                "a rank that waits long for others shows less traffic per time in collectives, too: compare its waits",
                fmt::format("rows: nvlink where trace_rank = {}", use.trace_rank)},
           .recommendation =
               "if its waits are not longer than its peers', compare the state of its links: nvidia-smi nvlink -s",
           .trace_ranks = {use.trace_rank},
           .place = place_of(report, use.trace_rank)});
    }
  }
}

void add_idle_artefact(const Table& table, std::vector<Finding>& findings) {
  std::int64_t samples = 0, artefacts = 0;
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    if (column(table, schema::nvlink.operation)[row] != "all") continue;
    samples += column(table, schema::nvlink.samples)[row] + column(table, schema::nvlink.artefacts)[row];
    artefacts += column(table, schema::nvlink.artefacts)[row];
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
  const Table* const table = find_table(report.tables, schema::nvlink);
  if (table == nullptr) return;
  add_asymmetry(report, *table, findings);
  add_idle_artefact(*table, findings);
}

}  // namespace

Question nvlink() {
  const auto& table = schema::nvlink;
  using By = FoldedColumn::By;
  return {.shown = {.table = table.table_name(),
                    .findings = {"nvlink-asymmetry", "nvlink-idle-artefact"},
                    .view = "nvlink",
                    .list = "gpus",
                    .in = "nvlink",
                    .folding = {.columns = {{"trace_rank", schema::trace_rank, By::key},
                                            {"metric", table.metric, By::key},
                                            {"mean_during_percent", table.mean_during_percent},
                                            {"mean_outside_percent", table.mean_outside_percent},
                                            {"correlation", table.correlation},
                                            {"lag_ns", table.lag_ns},
                                            {"p_value", table.p_value},
                                            {"estimated_during_gbs", table.estimated_during_gbs},
                                            {"samples", table.samples},
                                            {"artefacts", table.artefacts}},
                                .most = every_row,
                                .only_where = table.operation,
                                .is = "all"},
                    .cells = {{"rank", "trace_rank"},
                              {"direction", "metric"},
                              {"during", "mean_during_percent"},
                              {"outside", "mean_outside_percent"},
                              {"estimated during", "estimated_during_gbs"},
                              {"correlation", "correlation"},
                              {"lag", "lag_ns"},
                              {"p", "p_value"}},
                    .rest = "`nvlink` in report.json"},
          .find = find_nvlink_problems};
}

}  // namespace nsys_explain::analysis::questions
