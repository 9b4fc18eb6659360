#include <iterator>

#include "analysis/statistics/statistics.hpp"
#include "analysis/tables/side_files.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::string_view nvml = "nvml", gpu_metrics = "gpu_metrics";
constexpr double slow_share = 0.9;  ///< of the highest clock

/// Samples of GPU metrics come every 100 us and jitter; the clock itself changes in milliseconds.
constexpr Nanoseconds bin_ns = 1'000'000;

/// Beyond this without samples of a GPU in use, nobody knows whether it stayed slow.
constexpr Nanoseconds longest_unseen_ns = 10 * bin_ns;

/// One look at the clock, whatever took it. Times are trace time.
struct ClockSample {
  Nanoseconds at_ns = 0;
  double clock_mhz = -1;  ///< -1: not sampled
  bool in_use = false;    ///< the clock should be high
  bool by_driver = false;
  bool is_slow(double highest_mhz) const {
    return by_driver || (in_use && clock_mhz >= 0 && clock_mhz < slow_share * highest_mhz);
  }
};

bool belongs(const GpuSample& sample, const RankEvents& events) {
  const DeviceTrace& device = events.device;
  if (!sample.uuid.empty() && !device.gpu_uuid.empty()) return sample.uuid == device.gpu_uuid;
  if (!sample.host.empty() && sample.host != events.trace.session.host) return false;
  if (!sample.bus_id.empty() && !device.gpu_bus_id.empty()) return sample.bus_id == plain_bus_id(device.gpu_bus_id);
  const std::int64_t index = device.gpu_bus_rank >= 0 ? device.gpu_bus_rank : device.device_id;
  return sample.index < 0 || sample.index == index;
}

/// Below 0 where there are none.
double median_where_known(std::vector<double> values) {
  return values.empty() ? -1 : median(std::move(values));
}

template <class Member>
double median_sample(const std::vector<GpuSample>& samples, Member member) {
  std::vector<double> values;
  for (const GpuSample& sample : samples)
    if (sample.*member >= 0) values.push_back(sample.*member);
  return median_where_known(std::move(values));
}

/// Of this rank's GPU during its GPU activity, by time.
std::vector<GpuSample> samples_of(const RankEvents& events, const std::vector<GpuSample>& all) {
  std::vector<GpuSample> samples;
  const Nanoseconds start_utc_ns = events.trace.session.utc_start_ns;
  if (start_utc_ns == no_time || events.device.kernels.empty()) return samples;
  Nanoseconds last_ns = events.device.kernels.front().end_ns;
  for (const Kernel& kernel : events.device.kernels) last_ns = std::max(last_ns, kernel.end_ns);
  for (const GpuSample& sample : all) {
    const Nanoseconds at_ns = sample.utc_ns - start_utc_ns;
    if (at_ns >= events.device.kernels.front().start_ns && at_ns <= last_ns && belongs(sample, events))
      samples.push_back(sample);
  }
  std::sort(samples.begin(), samples.end(), [](const GpuSample& a, const GpuSample& b) { return a.utc_ns < b.utc_ns; });
  return samples;
}

std::vector<Interval> busy_intervals(const DeviceTrace& device) {
  std::vector<Interval> busy;
  for (const Kernel& kernel : device.kernels) {
    if (busy.empty() || kernel.start_ns > busy.back().end_ns) {
      busy.push_back({kernel.start_ns, kernel.end_ns});
    } else {
      busy.back().end_ns = std::max(busy.back().end_ns, kernel.end_ns);
    }
  }
  return busy;
}

/// `merged` is ascending and disjoint.
bool is_within(const std::vector<Interval>& merged, Nanoseconds at_ns) {
  const auto after = std::upper_bound(merged.begin(), merged.end(), at_ns,
                                      [](Nanoseconds t, const Interval& interval) { return t < interval.start_ns; });
  return after != merged.begin() && at_ns < std::prev(after)->end_ns;
}

std::vector<ClockSample> clocks_of(const std::vector<GpuSample>& samples, const std::vector<Interval>& busy,
                                   Nanoseconds start_utc_ns) {
  std::vector<ClockSample> clocks;
  for (const GpuSample& s : samples) {
    const Nanoseconds at_ns = s.utc_ns - start_utc_ns;
    // An idle GPU may clock down.
    const bool in_use = s.utilization_percent >= 0 ? s.utilization_percent >= 50 : is_within(busy, at_ns);
    clocks.push_back({at_ns, s.sm_clock_mhz, in_use, s.is_throttled});
  }
  return clocks;
}

/// Means of the clock over bins, of the samples taken while a kernel runs; nothing of bins without one.
std::vector<ClockSample> binned_clocks(const GpuSamples& samples, const std::vector<Interval>& busy) {
  std::vector<ClockSample> bins;
  const std::vector<std::uint32_t>& clock = samples.of(GpuCounter::gpc_clock_hz);
  if (clock.empty() || busy.empty()) return bins;
  std::size_t interval = 0;
  std::int64_t bin = 0, count = 0, sum_hz = 0;
  const auto end_bin = [&] {
    if (count > 0)
      bins.push_back({bin * bin_ns, static_cast<double>(sum_hz) / static_cast<double>(count) * 1e-6, true, false});
    count = sum_hz = 0;
  };
  for (std::size_t i = 0; i < clock.size(); ++i) {
    const Nanoseconds at_ns = samples.time_ns[i];
    while (interval < busy.size() && busy[interval].end_ns <= at_ns) ++interval;
    if (interval == busy.size()) break;
    // 0 Hz: the counters say nothing, as they do at the start of sampling.
    if (at_ns < busy[interval].start_ns || clock[i] == GpuSamples::missing || clock[i] == 0) continue;
    if (at_ns / bin_ns != bin) end_bin();
    bin = at_ns / bin_ns;
    ++count;
    sum_hz += clock[i];
  }
  end_bin();
  return bins;
}

double highest_clock(const std::vector<ClockSample>& clocks) {
  double highest = -1;
  for (const ClockSample& sample : clocks) highest = std::max(highest, sample.clock_mhz);
  return highest;
}

/// Rows of gpu_throttling; how many samples they hold.
std::int64_t add_spans(const std::vector<ClockSample>& clocks, double highest_mhz, std::string_view source,
                       Table& throttling) {
  std::int64_t slow = 0;
  RowWriter row(throttling);
  for (std::size_t first = 0; first < clocks.size();) {
    if (!clocks[first].is_slow(highest_mhz)) {
      ++first;
      continue;
    }
    std::size_t end = first;
    double lowest = -1;
    bool by_driver = false, seen_on = true;
    for (; end < clocks.size() && seen_on && clocks[end].is_slow(highest_mhz); ++end) {
      const double clock = clocks[end].clock_mhz;
      lowest = lowest < 0 ? clock : std::min(lowest, clock);
      by_driver = by_driver || clocks[end].by_driver;
      seen_on = source != gpu_metrics || end + 1 == clocks.size() ||
                clocks[end + 1].at_ns - clocks[end].at_ns <= longest_unseen_ns;
    }
    // A bin lasts by itself; a sample of NVML stands for the time until the next one.
    const Nanoseconds end_ns =
        source == gpu_metrics ? clocks[end - 1].at_ns + bin_ns : clocks[std::min(end, clocks.size() - 1)].at_ns;
    slow += static_cast<std::int64_t>(end - first);
    row << source << clocks[first].at_ns << end_ns << static_cast<std::int64_t>(end - first) << lowest << by_driver;
    first = end;
  }
  return slow;
}

double median_clock(const std::vector<ClockSample>& clocks) {
  std::vector<double> values;
  for (const ClockSample& sample : clocks)
    if (sample.clock_mhz >= 0) values.push_back(sample.clock_mhz);
  return median_where_known(std::move(values));
}

}  // namespace

std::vector<Table> gpu_sample_tables(const RankEvents& events, const std::vector<GpuSample>& all) {
  Table summary = make_table(schema::gpu_samples);
  Table throttling = make_table(schema::gpu_throttling);
  const std::vector<GpuSample> samples = samples_of(events, all);
  const bool sampled = !samples.empty() || !events.device.samples.time_ns.empty();
  const std::vector<Interval> busy = sampled ? busy_intervals(events.device) : std::vector<Interval>{};
  const std::vector<ClockSample> of_nvml = clocks_of(samples, busy, events.trace.session.utc_start_ns);
  const std::vector<ClockSample> of_metrics = binned_clocks(events.device.samples, busy);
  double highest = std::max(highest_clock(of_nvml), highest_clock(of_metrics));
  for (const GpuSample& sample : samples) highest = std::max(highest, sample.max_sm_clock_mhz);
  RowWriter row(summary);
  if (!of_nvml.empty()) {
    const std::int64_t slow = add_spans(of_nvml, highest, nvml, throttling);
    row << nvml << static_cast<std::int64_t>(of_nvml.size()) << slow << median_clock(of_nvml) << highest
        << median_sample(samples, &GpuSample::power_w) << median_sample(samples, &GpuSample::temperature_c)
        << median_sample(samples, &GpuSample::sm_active_percent)
        << median_sample(samples, &GpuSample::tensor_active_percent)
        << median_sample(samples, &GpuSample::dram_active_percent);
  }
  if (!of_metrics.empty()) {
    const std::int64_t slow = add_spans(of_metrics, highest, gpu_metrics, throttling);
    row << gpu_metrics << static_cast<std::int64_t>(of_metrics.size()) << slow << median_clock(of_metrics) << highest
        << -1.0 << -1.0 << -1.0 << -1.0 << -1.0;
  }
  return {std::move(summary), std::move(throttling)};
}

}  // namespace nsys_explain::analysis
