#include "analysis/links/links.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/links.hpp"
#include "model/text.hpp"

namespace nsys_explain::analysis {

namespace {

/// `trace_ranks` is sorted.
const TraceRankIdentity* identity_of(const std::vector<TraceRankIdentity>& trace_ranks, std::int64_t trace_rank) {
  const auto found =
      std::lower_bound(trace_ranks.begin(), trace_ranks.end(), trace_rank,
                       [](const TraceRankIdentity& rank, std::int64_t wanted) { return rank.trace_rank < wanted; });
  return found == trace_ranks.end() || found->trace_rank != trace_rank ? nullptr : &*found;
}

std::string message_of(const Table& table) {
  std::set<std::int64_t> ranks, following, judged;
  std::int64_t samples = 0, artefacts = 0;
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    if (column(table, schema::nvlink.operation)[row] != "all") continue;
    const std::int64_t rank = column(table, schema::trace_rank)[row];
    const double p_value = column(table, schema::nvlink.p_value)[row];
    ranks.insert(rank);
    if (p_value <= significant_p) following.insert(rank);
    if (std::isfinite(p_value)) judged.insert(rank);
    samples += column(table, schema::nvlink.samples)[row];
    artefacts += column(table, schema::nvlink.artefacts)[row];
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
  double value() const { return sum / static_cast<double>(count); }  // nan of none
};

}  // namespace

NvlinkReport describe_nvlink(const std::vector<Table>& tables) {
  const Table* table = find_table(tables, schema::nvlink);
  if (table != nullptr && table->row_count() > 0) return {true, message_of(*table)};
  return {
      false,
      has_gpu_counters(tables)
          ? "GPU metrics were recorded, and there are no NVLink counters among them: the GPUs have no NVLink, or the set of metrics leaves it out (--gpu-metrics-set)"
          : "NVLink counters not found; capture with --gpu-metrics-devices=cuda-visible"};
}

void estimate_nvlink_gbs(const std::vector<TraceRankIdentity>& trace_ranks, const std::vector<LinkPeak>& own_peaks,
                         std::vector<Table>& tables) {
  const auto table = std::find_if(tables.begin(), tables.end(),
                                  [](const Table& one) { return one.schema.name == schema::nvlink.table_name(); });
  if (table == tables.end()) return;
  const auto& percents = column(*table, schema::nvlink.mean_during_percent);
  auto& estimates = column(*table, schema::nvlink.estimated_during_gbs);
  for (std::size_t row = 0; row < estimates.size(); ++row) {
    const TraceRankIdentity* rank = identity_of(trace_ranks, column(*table, schema::trace_rank)[row]);
    const auto peak = rank != nullptr ? nvlink_peak_gbs(own_peaks, rank->gpu_name) : std::nullopt;
    if (peak) estimates[row] = *peak * percents[row] / 100;
  }
}

Table network_metrics_table(const std::vector<Table>& tables, const std::vector<TraceRankIdentity>& trace_ranks) {
  Table result = make_table(schema::network_metrics);
  const Table* table = find_table(tables, schema::network);
  if (table == nullptr) return result;
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
  RowWriter rows(result);
  for (const auto& [key, ports] : metrics) {
    Mean during, outside;
    std::int64_t following = 0;
    for (const auto& [port_key, port] : ports) {
      during.add(port.during);
      outside.add(port.outside);
      following += port.follows ? 1 : 0;
    }
    rows << std::get<0>(key) << std::get<1>(key) << std::get<2>(key) << static_cast<std::int64_t>(ports.size())
         << during.value() << outside.value() << following;
  }
  return result;
}

namespace {}  // namespace

const std::vector<LinkPeak>& known_link_peaks() {
  static const std::vector<LinkPeak> peaks{
      {"GB300", 900},    {"GB200", 900},     {"B300", 900}, {"B200", 900},  // NVLink 5: 1.8 TB/s, product pages
      {"GH200", 450},    {"H200", 450},                                     // 900 GB/s, data sheets; also H200 NVL
      {"H100 NVL", 300}, {"H100 PCIe", 300},                                // 600 GB/s by bridges, data sheet of H100
      {"H100", 450},     {"H800", 200},      {"H20", 450},                  // 900; 400 by export rules; 900 GB/s
      {"A100", 300},     {"A800", 200},                                     // 600 GB/s, data sheet; 400, product page
      {"V100", 150},                                                        // 300 GB/s, data sheet of V100
      {"A6000", 56.25},  {"A40", 56.25},     {"A30", 100},  // 112.5 and 200 GB/s by a bridge, data sheets
  };
  return peaks;
}

std::vector<LinkPeak> parse_link_peaks(std::string_view text) {
  std::vector<LinkPeak> peaks;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = next_part(text);
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    double gbs = 0;
    const auto [rest, problem] = std::from_chars(line.data(), line.data() + line.size(), gbs);
    const std::string_view name = trimmed(line.substr(static_cast<std::size_t>(rest - line.data())));
    if (problem != std::errc() || !(gbs > 0 && gbs < 1e6) || name.empty()) {
      throw std::runtime_error(fmt::format(
          "line {} of the link peaks is not 'GBS NAME': '{}'; without it estimates would rest on the wrong peak; write for instance '450 NVIDIA H100'",
          number, line));
    }
    peaks.push_back({std::string(name), gbs});
  }
  return peaks;
}

std::optional<double> nvlink_peak_gbs(const std::vector<LinkPeak>& own, std::string_view gpu_name) {
  for (const auto* peaks : {&own, &known_link_peaks()}) {
    for (const LinkPeak& peak : *peaks)
      if (gpu_name.find(peak.gpu_name_part) != std::string_view::npos) return peak.nvlink_gbs;
  }
  return std::nullopt;
}

}  // namespace nsys_explain::analysis
