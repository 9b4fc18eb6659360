#include "analysis/links/links.hpp"

#include <algorithm>

#include "model/schema/links.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

/// Above this, in percent, a link counts as fully utilised.
constexpr std::int64_t full_percent = 98;
/// What a direction carries at most, in percent; beyond lie sums that no link can carry. (Each of the two addends is
/// rounded.)
constexpr std::int64_t possible_percent = 101;

struct Direction {
  std::string_view metric;
  std::array<GpuCounter, 2> counters;
  std::size_t used;
};

/// Of a direction the counters that are there: user data on Hopper and later, else all bytes.
constexpr std::array directions{
    Direction{
        "NVLink receive, user data", {GpuCounter::nvlink_receive_requests, GpuCounter::nvlink_receive_responses}, 2},
    Direction{
        "NVLink transmit, user data", {GpuCounter::nvlink_transmit_requests, GpuCounter::nvlink_transmit_responses}, 2},
    Direction{"NVLink receive, all bytes", {GpuCounter::nvlink_receive_bytes, GpuCounter::nvlink_receive_bytes}, 1},
    Direction{"NVLink transmit, all bytes", {GpuCounter::nvlink_transmit_bytes, GpuCounter::nvlink_transmit_bytes}, 1},
};

constexpr std::array nvlink_counters{
    GpuCounter::nvlink_receive_bytes,  GpuCounter::nvlink_receive_requests,  GpuCounter::nvlink_receive_responses,
    GpuCounter::nvlink_transmit_bytes, GpuCounter::nvlink_transmit_requests, GpuCounter::nvlink_transmit_responses,
};

/// The rank's collectives as merged intervals: all of them, and by operation.
struct Activity {
  explicit Activity(std::span<const TraceArrival> arrivals) {
    std::vector<Interval> every;
    std::map<Operation, std::vector<Interval>> apart;
    for (const TraceArrival& arrival : arrivals) {
      every.push_back({arrival.enter.ns, arrival.exit.ns});
      apart[arrival.operation].push_back(every.back());
    }
    all = merge_intervals(std::move(every));
    for (auto& [operation, intervals] : apart) by_operation[operation] = merge_intervals(std::move(intervals));
  }
  std::vector<Interval> all;
  std::map<Operation, std::vector<Interval>> by_operation;
};

/// From the first start to the last end of GPU activity.
Interval activity_window(const DeviceTrace& device) {
  Interval window{std::numeric_limits<Nanoseconds>::max(), std::numeric_limits<Nanoseconds>::min()};
  const auto widen = [&](const auto& events) {
    for (const auto& event : events) {
      window.start_ns = std::min(window.start_ns, event.start_ns);
      window.end_ns = std::max(window.end_ns, event.end_ns);
    }
  };
  widen(device.kernels);
  widen(device.memory_operations);
  widen(device.graph_launches);
  return window;
}

/// True where every NVLink counter of the GPU reads as fully utilised though no collective ran: idle links may read so
/// (docs/input.md, Known artefacts).
bool is_idle_artefact(const GpuSamples& samples, std::size_t i, const Interval& period,
                      const CoveredTime& collectives) {
  bool counted = false;
  for (const GpuCounter counter : nvlink_counters) {
    const auto& values = samples.of(counter);
    if (values.empty() || values[i] == GpuSamples::missing) continue;
    if (values[i] < full_percent) return false;
    counted = true;
  }
  // Two periods of margin: traffic may show up late.
  const Nanoseconds margin_ns = 2 * (period.end_ns - period.start_ns);
  return counted && collectives.within(period.start_ns - margin_ns, period.end_ns + margin_ns) == 0;
}

struct DirectionSamples {
  SampledSeries series;
  std::int64_t artefacts = 0;  ///< samples left out because idle links read as fully utilised
};

DirectionSamples samples_of(const Direction& direction, const GpuSamples& samples, std::span<const Interval> periods,
                            const Interval& window, const CoveredTime& collectives) {
  DirectionSamples result;
  for (std::size_t i = 1; i < periods.size(); ++i) {
    if (periods[i].start_ns < window.start_ns || periods[i].end_ns > window.end_ns) continue;
    std::int64_t percent = 0;
    bool complete = true;
    for (std::size_t c = 0; c < direction.used; ++c) {
      const auto& values = samples.of(direction.counters[c]);
      if (values.empty()) continue;  // a capture of one kind of message alone
      const std::uint32_t value = values[i];
      complete = complete && value != GpuSamples::missing;
      percent += value;
    }
    if (!complete) continue;
    if (percent > possible_percent || is_idle_artefact(samples, i, periods[i], collectives)) {
      ++result.artefacts;
      continue;
    }
    result.series.periods.push_back(periods[i]);
    result.series.values.push_back(percent);
  }
  return result;
}

double real_or_nan(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

void add_correlation(RowWriter& rows, const std::optional<LagCorrelation>& correlation) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  rows << (correlation ? correlation->correlation : nan) << (correlation ? correlation->lag_ns : Nanoseconds{0})
       << (correlation ? correlation->p_value : nan);
}

/// Means are taken at the lag at which traffic follows the collectives, provided that it does.
Nanoseconds trusted_lag(const std::optional<LagCorrelation>& correlation) {
  return correlation && correlation->p_value <= significant_p ? correlation->lag_ns : 0;
}

void add_direction(RowWriter& rows, std::string_view metric, const DirectionSamples& samples, const Activity& activity,
                   const CoveredTime& all) {
  const std::optional<LagCorrelation> overall = correlate_with_lag(samples.series, all);
  const Nanoseconds lag_ns = trusted_lag(overall);
  const auto add_row = [&](std::string_view operation, const CoveredTime& active,
                           const std::optional<LagCorrelation>& correlation) {
    const ActivityMeans means = activity_means(samples.series, active, all, lag_ns);
    // With idle samples left out, what remains outside are the edges of collectives.
    const bool outside_known = 2 * samples.artefacts < static_cast<std::int64_t>(samples.series.values.size());
    rows << metric << operation << real_or_nan(means.during)
         << real_or_nan(outside_known ? means.outside : std::nullopt);
    add_correlation(rows, correlation);
    rows << means.during_ns << means.outside_ns << static_cast<std::int64_t>(samples.series.values.size())
         << typical_period_ns(samples.series) << samples.artefacts << real_or_nan({});  // estimate_nvlink_gbs knows
  };
  add_row("all", all, overall);
  for (const auto& [operation, intervals] : activity.by_operation) {
    const CoveredTime active(intervals);
    add_row(operation_name(operation), active, correlate_at_lag(samples.series, active, lag_ns));
  }
}

/// Calls use(direction, samples that count) for every direction that was captured.
template <class Use>
void for_each_direction(const RankEvents& events, const CoveredTime& collectives, const Use& use) {
  const GpuSamples& samples = events.device.samples;
  if (samples.time_ns.size() < 2) return;
  const Interval window = activity_window(events.device);
  const std::vector<Interval> periods = sample_periods(samples.time_ns);
  for (const Direction& direction : directions) {
    const bool captured = std::any_of(direction.counters.begin(), direction.counters.end(),
                                      [&](GpuCounter counter) { return !samples.of(counter).empty(); });
    if (captured) use(direction, samples_of(direction, samples, periods, window, collectives));
  }
}

}  // namespace

Table nvlink_table(const RankEvents& events) {
  Table table = make_table(schema::nvlink);
  const Activity activity(events.arrivals);
  const CoveredTime all(activity.all);
  RowWriter rows(table);
  for_each_direction(events, all, [&](const Direction& direction, const DirectionSamples& samples) {
    add_direction(rows, direction.metric, samples, activity, all);
  });
  return table;
}

std::vector<LinkSeries> nvlink_series(const RankEvents& events) {
  std::vector<LinkSeries> all;
  const Activity activity(events.arrivals);
  for_each_direction(events, CoveredTime(activity.all), [&](const Direction& direction, DirectionSamples samples) {
    all.push_back({direction.metric, std::move(samples.series)});
  });
  return all;
}

Table nvlink_over_time_table(const RankEvents& events) {
  Table table = make_table(schema::nvlink_over_time);
  constexpr Nanoseconds spans = 240;
  const Interval window = activity_window(events.device);
  if (window.end_ns <= window.start_ns) return table;
  const Nanoseconds span_ns = (window.end_ns - window.start_ns) / spans + 1;
  const CoveredTime collectives(Activity(events.arrivals).all);
  RowWriter rows(table);
  for (const LinkSeries& link : nvlink_series(events)) {
    std::vector<double> weighted(spans, 0), sampled(spans, 0);
    for (std::size_t i = 0; i < link.series.periods.size(); ++i) {
      // A sample belongs to the span in which it ends: samples are much shorter than spans, or spans have none.
      const Interval& period = link.series.periods[i];
      const auto span = static_cast<std::size_t>((period.end_ns - 1 - window.start_ns) / span_ns);
      const auto length = static_cast<double>(period.end_ns - period.start_ns);
      weighted[span] += static_cast<double>(link.series.values[i]) * length;
      sampled[span] += length;
    }
    for (std::size_t s = 0; s < weighted.size(); ++s) {
      const Nanoseconds start_ns = window.start_ns + static_cast<Nanoseconds>(s) * span_ns;
      rows << link.metric << start_ns << span_ns
           << (sampled[s] > 0 ? weighted[s] / sampled[s] : std::numeric_limits<double>::quiet_NaN())
           << 100.0 * static_cast<double>(collectives.within(start_ns, start_ns + span_ns)) /
                  static_cast<double>(span_ns);
    }
  }
  return table;
}

Table network_table(const RankEvents& events) {
  Table table = make_table(schema::network);
  if (events.trace.network.empty()) return table;
  const Activity activity(events.arrivals);
  const CoveredTime all(activity.all);
  const Interval window = activity_window(events.device);
  RowWriter rows(table);
  for (const NetworkSeries& port : events.trace.network) {
    SampledSeries series;
    for (std::size_t i = 0; i < port.values.size(); ++i) {
      const Interval& interval = port.intervals[i];
      if (interval.start_ns < window.start_ns || interval.end_ns > window.end_ns) continue;
      if (interval.end_ns <= interval.start_ns) continue;
      series.periods.push_back(interval);
      series.values.push_back(port.values[i]);
    }
    const std::optional<LagCorrelation> correlation = correlate_with_lag(series, all);
    const ActivityMeans means = activity_means(series, all, all, trusted_lag(correlation));
    rows << std::string_view(port.source == NetworkSource::nic ? "nic" : "infiniband_switch")
         << std::string_view(port.device) << port.port << std::string_view(port.metric) << std::string_view(port.unit)
         << real_or_nan(means.during) << real_or_nan(means.outside);
    add_correlation(rows, correlation);
    rows << static_cast<std::int64_t>(series.values.size()) << typical_period_ns(series);
  }
  return table;
}

}  // namespace nsys_explain::analysis
