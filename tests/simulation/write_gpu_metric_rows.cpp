#include <algorithm>
#include <cmath>

#include "simulation/export_context.hpp"
#include "simulation/random.hpp"

namespace nsys_explain::synth {
namespace {

/// Peak of all NVLinks of a GPU in one direction, as nsys' percentages are relative to it: H100 SXM, bytes per ns.
constexpr double nvlink_peak_gbs = 450;

/// Metrics of a Hopper GPU that carry user data (docs/input.md, GPU metrics). Remote stores travel as requests.
constexpr std::pair<std::int64_t, const char*> metrics[] = {
    {20, "NVLink RX Requests User Data [Throughput %]"},
    {21, "NVLink RX Responses User Data [Throughput %]"},
    {22, "NVLink TX Requests User Data [Throughput %]"},
    {23, "NVLink TX Responses User Data [Throughput %]"},
};

/// typeId = VM : source : type, with the GPU's number in the low 8 bits.
std::int64_t type_id(std::int32_t gpu) {
  return global_vm_id | (std::int64_t{1} << 32) | gpu;
}

/// Traffic during [start_ns, end_ns) at a constant rate.
struct Flow {
  Nanoseconds start_ns = 0, end_ns = 0;
  double bytes_per_ns = 0;
};

enum class Path : std::uint8_t { nvlink, nic };

bool stays_on_node(const SimulatedJob& job, const TrueInstance& instance) {
  const auto node_of = [&](std::uint32_t arrival) {
    return job.places[static_cast<std::size_t>(job.arrivals[instance.first_arrival + arrival].rank)].node;
  };
  for (std::uint32_t i = 1; i < instance.arrivals; ++i)
    if (node_of(i) != node_of(0)) return false;
  return true;
}

/// Data move between the last enter and the exit; while a rank waits its links are idle. A ring that crosses nodes
/// moves as many bytes over NVLink as over the network; one that does not leaves the NIC idle.
std::vector<Flow> flows_of(const ExportContext& context, std::int32_t rank, Path path) {
  std::vector<Flow> flows;
  const Network& network = context.plan.network;
  for (const DeviceActivity& activity : context.job.ranks[static_cast<std::size_t>(rank)].activities) {
    if (activity.arrival == no_index) continue;
    const TrueArrival& arrival = context.job.arrivals[activity.arrival];
    const bool local = stays_on_node(context.job, context.job.instances[arrival.instance]);
    if (local && path == Path::nic) continue;
    flows.push_back({arrival.enter_ns + arrival.wait_ns, arrival.exit_ns,
                     local ? network.bandwidth_intra_gbs : network.bandwidth_inter_gbs});
  }
  std::sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) { return a.start_ns < b.start_ns; });
  return flows;
}

/// Bytes of `flows` in [from_ns, to_ns); `first` moves past flows that can no longer contribute.
double bytes_between(const std::vector<Flow>& flows, std::size_t& first, Nanoseconds from_ns, Nanoseconds to_ns) {
  while (first < flows.size() && flows[first].end_ns <= from_ns) ++first;
  double bytes = 0;
  for (std::size_t i = first; i < flows.size() && flows[i].start_ns < to_ns; ++i) {
    const Nanoseconds overlap = std::min(to_ns, flows[i].end_ns) - std::max(from_ns, flows[i].start_ns);
    if (overlap > 0) bytes += static_cast<double>(overlap) * flows[i].bytes_per_ns;
  }
  return bytes;
}

/// Bursts of seven periods that come and go by chance.
double unrelated_percent(const ExportContext& context, std::int32_t rank, Nanoseconds at, Nanoseconds period) {
  Draw burst(context.plan.seed, Purpose::metrics, static_cast<std::uint64_t>(rank), 1,
             static_cast<std::uint64_t>(at / (7 * period)));
  return burst.uniform() < 0.3 ? 44 : 0;
}

/// Bytes sent and received, as the list of metrics of one kind of device.
void write_network_names(ExportContext& context, std::int64_t list) {
  Table names = context.table("TARGET_INFO_NETWORK_METRICS");
  for (const auto& [index, name] : {std::pair{0, "IB: Bytes sent"}, std::pair{1, "IB: Bytes received"}}) {
    names.set(names.column("metricsListId"), list);
    names.set(names.column("metricsIdx"), index);
    names.set_text(names.column("name"), name);
    names.set_text(names.column("description"), name);
    names.set_text(names.column("unit"), "bytes/ms");
    names.insert();
  }
}

/// One NIC per GPU: what collectives that cross nodes send and receive through it.
void write_nics(ExportContext& context) {
  Table nics = context.table("TARGET_INFO_NIC_INFO");
  Table ids = context.table("NIC_ID_MAP");
  for (const RankIdentity& identity : context.ranks) {
    const std::int32_t nic = context.job.places[static_cast<std::size_t>(identity.rank)].local_rank;
    nics.set(nics.column("GUID"), 1000 + nic);
    nics.set_text(nics.column("stateName"), "ACTIVE");
    nics.set(nics.column("nicId"), nic);
    nics.set_text(nics.column("name"), "mlx5_" + std::to_string(nic));
    nics.set(nics.column("deviceId"), 4129);
    nics.set(nics.column("vendorId"), 5555);
    nics.set(nics.column("linkLayer"), 2);
    nics.insert();
    ids.set(ids.column("nicId"), nic);
    ids.set(ids.column("globalId"), global_vm_id | nic);
    ids.insert();
  }
}

/// A port of a network device.
struct Port {
  std::int64_t device = 0, number = 1;
};

/// What goes through the port of each trace rank, `port_of(local rank)`, every millisecond.
template <class PortOf>
void write_network_samples(ExportContext& context, const char* table, std::int64_t list, const PortOf& port_of) {
  constexpr Nanoseconds period = 1'000'000;
  Table samples = context.table(table);
  for (const RankIdentity& identity : context.ranks) {
    const Port port = port_of(context.job.places[static_cast<std::size_t>(identity.rank)].local_rank);
    const std::vector<Flow> flows = flows_of(context, identity.rank, Path::nic);
    std::size_t first = 0;
    for (Nanoseconds at = context.session.start_ns + period; at < context.job.end_ns; at += period) {
      const double bytes = bytes_between(flows, first, at - period, at);
      for (const int index : {0, 1}) {
        samples.set(samples.column("start"), context.host_time(at - period));
        samples.set(samples.column("end"), context.host_time(at));
        samples.set(samples.column("globalId"), global_vm_id | port.device);
        samples.set(samples.column("portId"), port.number);
        samples.set(samples.column("metricsListId"), list);
        samples.set(samples.column("metricsIdx"), index);
        samples.set(samples.column("value"), std::llround(bytes));
        samples.insert();
      }
    }
  }
}

}  // namespace

void write_nic_metric_rows(ExportContext& context) {
  constexpr std::int64_t list = 3;
  if (!context.has_table("NET_NIC_METRIC")) return;
  write_network_names(context, list);
  write_nics(context);
  write_network_samples(context, "NET_NIC_METRIC", list, [](std::int32_t nic) { return Port{nic, 1}; });
}

void write_switch_metric_rows(ExportContext& context) {
  constexpr std::int64_t list = 4, leaf = 900;  // no NIC has this number
  if (!context.has_table("NET_IB_SWITCH_METRIC")) return;
  write_network_names(context, list);
  write_network_samples(context, "NET_IB_SWITCH_METRIC", list, [](std::int32_t nic) { return Port{leaf, 1 + nic}; });
}

void write_gpu_metric_rows(ExportContext& context) {
  if (!context.has_table("GPU_METRICS")) return;
  Table info = context.table("TARGET_INFO_GPU_METRICS");
  Table samples = context.table("GPU_METRICS");
  const int raw = samples.column("rawTimestamp"), timestamp = samples.column("timestamp"),
            type = samples.column("typeId"), metric = samples.column("metricId"), value = samples.column("value");
  const Nanoseconds period = context.plan.export_style.gpu_metrics_period_ns;
  const Nanoseconds lag = context.plan.export_style.gpu_metrics_lag_ns;
  for (const RankIdentity& identity : context.ranks) {
    const std::int32_t gpu = context.job.places[static_cast<std::size_t>(identity.rank)].local_rank;
    for (const auto& [id, name] : metrics) {
      info.set(info.column("typeId"), type_id(gpu));
      info.set(info.column("sourceId"), 1);
      info.set_text(info.column("typeName"), "GPU Metrics");
      info.set(info.column("metricId"), id);
      info.set_text(info.column("metricName"), name);
      info.insert();
    }
    const std::vector<Flow> flows = flows_of(context, identity.rank, Path::nvlink);
    std::size_t first = 0;
    // A sample stands at the end of its period.
    for (Nanoseconds at = context.session.start_ns + period; at < context.job.end_ns; at += period) {
      const double bytes = bytes_between(flows, first, at - period - lag, at - lag);
      const LinkCounters counters = context.plan.export_style.link_counters;
      const double percent = counters == LinkCounters::unrelated
                                 ? unrelated_percent(context, identity.rank, at, period)
                                 : 100 * bytes / (nvlink_peak_gbs * static_cast<double>(period));
      const bool reads_full = counters == LinkCounters::idle_artefact && bytes <= 0;
      Draw draw(context.plan.seed, Purpose::metrics, static_cast<std::uint64_t>(identity.rank),
                static_cast<std::uint64_t>(at));
      const double noisy = percent * (1 + 0.02 * draw.normal());
      const std::int64_t data = std::clamp<std::int64_t>(std::llround(noisy), 0, 100);
      for (const auto& [id, name] : metrics) {
        const bool requests = id == 20 || id == 22;
        samples.set(raw, context.host_time(at));
        samples.set(timestamp, context.host_time(at));
        samples.set(type, type_id(gpu));
        samples.set(metric, id);
        samples.set(value, reads_full ? 100 : requests ? data : 0);
        samples.insert();
      }
    }
  }
}

}  // namespace nsys_explain::synth
