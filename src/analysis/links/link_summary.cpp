#include "analysis/links/link_summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "analysis/statistics/lag_correlation.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/links.hpp"

namespace nsys_explain::analysis {
namespace {

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// `trace_ranks` is sorted.
const TraceRankIdentity* identity_of(const std::vector<TraceRankIdentity>& trace_ranks, std::int64_t trace_rank) {
  const auto found =
      std::lower_bound(trace_ranks.begin(), trace_ranks.end(), trace_rank,
                       [](const TraceRankIdentity& rank, std::int64_t wanted) { return rank.trace_rank < wanted; });
  return found == trace_ranks.end() || found->trace_rank != trace_rank ? nullptr : &*found;
}

NvlinkUse use_of_row(const Table& table, std::size_t row) {
  NvlinkUse use;
  use.trace_rank = static_cast<std::int32_t>(column(table, schema::trace_rank)[row]);
  use.metric = column(table, schema::nvlink.metric)[row];
  use.mean_during_percent = finite(column(table, schema::nvlink.mean_during_percent)[row]);
  use.mean_outside_percent = finite(column(table, schema::nvlink.mean_outside_percent)[row]);
  use.correlation = finite(column(table, schema::nvlink.correlation)[row]);
  use.lag_ns = column(table, schema::nvlink.lag_ns)[row];
  use.p_value = finite(column(table, schema::nvlink.p_value)[row]);
  use.samples = column(table, schema::nvlink.samples)[row];
  use.artefacts = column(table, schema::nvlink.artefacts)[row];
  return use;
}

std::string message_of(const std::vector<NvlinkUse>& gpus) {
  std::set<std::int32_t> ranks, following, judged;
  std::int64_t samples = 0, artefacts = 0;
  for (const NvlinkUse& use : gpus) {
    ranks.insert(use.trace_rank);
    if (use.p_value && *use.p_value <= significant_p) following.insert(use.trace_rank);
    if (use.p_value) judged.insert(use.trace_rank);
    samples += use.samples;
    artefacts += use.artefacts;
  }
  std::string message =
      fmt::format("NVLink counters of {} GPUs; on {} of them traffic follows the collectives (p at most {:.2f})",
                  ranks.size(), following.size(), significant_p);
  if (judged.size() < ranks.size())
    message += fmt::format(
        "; of {} that cannot be told: their samples within the GPU's activity are too few, or do not vary (nsys samples every 100 us unless told otherwise, --gpu-metrics-frequency)",
        ranks.size() - judged.size());
  if (artefacts > 0) {
    message += fmt::format(
        "; {} of {} samples were left out: they read as fully utilised though no collective ran, as idle links do",
        artefacts, samples + artefacts);
  }
  return message;
}

bool has_gpu_counters(const std::vector<Table>& tables) {
  const Table* const table = find_table(tables, schema::gpu_counters);
  return table != nullptr && table->row_count() > 0;
}

struct Mean {
  double sum = 0;
  std::int64_t count = 0;
  void add(double value) {
    if (!std::isfinite(value)) return;
    sum += value;
    ++count;
  }
  std::optional<double> value() const {
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }
};

}  // namespace

NvlinkReport summarise_nvlink(const std::vector<Table>& tables, const std::vector<TraceRankIdentity>& trace_ranks,
                              const std::vector<LinkPeak>& own_peaks) {
  NvlinkReport report;
  report.message =
      has_gpu_counters(tables)
          ? "GPU metrics were recorded, and there are no NVLink counters among them: the GPUs have no NVLink, or the set of metrics leaves it out (--gpu-metrics-set)"
          : "NVLink counters not found; capture with --gpu-metrics-devices=cuda-visible";
  const Table* table = find_table(tables, schema::nvlink);
  if (table == nullptr || table->row_count() == 0) return report;
  struct Weighted {
    double percent_ns = 0, time_ns = 0;
    std::int64_t gpus = 0;
  };
  std::map<std::pair<std::string, std::string>, Weighted> by_operation;
  const auto& operation = column(*table, schema::nvlink.operation);
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    NvlinkUse use = use_of_row(*table, row);
    if (operation[row] == "all") {
      const TraceRankIdentity* rank = identity_of(trace_ranks, use.trace_rank);
      const auto peak = rank != nullptr ? nvlink_peak_gbs(own_peaks, rank->gpu_name) : std::nullopt;
      if (peak && use.mean_during_percent) use.estimated_during_gbs = *peak * *use.mean_during_percent / 100;
      report.gpus.push_back(std::move(use));
    } else if (use.mean_during_percent) {
      const auto time_ns = static_cast<double>(column(*table, schema::nvlink.during_ns)[row]);
      Weighted& sum = by_operation[{use.metric, operation[row]}];
      sum.percent_ns += *use.mean_during_percent * time_ns;
      sum.time_ns += time_ns;
      ++sum.gpus;
    }
  }
  for (const auto& [key, sum] : by_operation) {
    report.by_operation.push_back({key.first, key.second, sum.gpus, sum.percent_ns / sum.time_ns});
  }
  report.available = true;
  report.message = message_of(report.gpus);
  return report;
}

std::vector<NetworkUse> summarise_network(const std::vector<Table>& tables,
                                          const std::vector<TraceRankIdentity>& trace_ranks) {
  const Table* table = find_table(tables, schema::network);
  if (table == nullptr) return {};
  // Every trace rank of a node sees the node's ports: a port counts once, by the rank that it follows best.
  struct Port {
    double during = 0, outside = 0, correlation = -2;
    bool follows = false;
  };
  using MetricKey = std::tuple<std::string, std::string, std::string>;  // source, metric, unit
  using PortKey = std::tuple<std::string, std::string, std::int64_t>;   // host, device, port
  std::map<MetricKey, std::map<PortKey, Port>> metrics;
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    const TraceRankIdentity* rank = identity_of(trace_ranks, column(*table, schema::trace_rank)[row]);
    const double correlation = column(*table, schema::network.correlation)[row];
    const double comparable = std::isfinite(correlation) ? correlation : -1;
    Port& port = metrics[{column(*table, schema::network.source)[row], column(*table, schema::network.metric)[row],
                          column(*table, schema::network.unit)[row]}]
                        [{rank != nullptr ? rank->host : "", column(*table, schema::network.device)[row],
                          column(*table, schema::network.port)[row]}];
    port.follows = port.follows || column(*table, schema::network.p_value)[row] <= significant_p;
    if (comparable <= port.correlation) continue;
    port.correlation = comparable;
    port.during = column(*table, schema::network.mean_during)[row];
    port.outside = column(*table, schema::network.mean_outside)[row];
  }
  std::vector<NetworkUse> uses;
  for (const auto& [key, ports] : metrics) {
    NetworkUse use{
        std::get<0>(key), std::get<1>(key), std::get<2>(key), static_cast<std::int64_t>(ports.size()), {}, {}, 0};
    Mean during, outside;
    for (const auto& [port_key, port] : ports) {
      during.add(port.during);
      outside.add(port.outside);
      use.correlated_ports += port.follows ? 1 : 0;
    }
    use.mean_during = during.value();
    use.mean_outside = outside.value();
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace nsys_explain::analysis
