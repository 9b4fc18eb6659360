#include "nsys_explain/analysis/gpu_samples.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "nsys_explain/analysis/delimited_text.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr auto integer = ColumnKind::integer;
constexpr auto real = ColumnKind::real;

/// "clocks.current.sm [MHz]" -> "sm"; "power.draw [W]" -> "power.draw".
std::string plain_name(std::string_view column) {
  std::string name;
  for (const char c : column.substr(0, column.find(" [")))
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string_view prefix : {"clocks.current.", "gpu_"}) {
    if (name.starts_with(prefix) && name.size() > prefix.size()) name.erase(0, prefix.size());
  }
  return name;
}

enum class Field {
  time,
  host,
  uuid,
  index,
  sm_clock,
  max_sm_clock,
  memory_clock,
  utilization,
  power,
  temperature,
  memory,
  throttle
};

std::optional<Field> field_of(const std::string& name) {
  static const std::map<std::string_view, Field> fields = {{"timestamp", Field::time},
                                                           {"time", Field::time},
                                                           {"utc_ns", Field::time},
                                                           {"host", Field::host},
                                                           {"hostname", Field::host},
                                                           {"uuid", Field::uuid},
                                                           {"index", Field::index},
                                                           {"gpu", Field::index},
                                                           {"sm", Field::sm_clock},
                                                           {"clocks.sm", Field::sm_clock},
                                                           {"sm_clock", Field::sm_clock},
                                                           {"sm_clock_mhz", Field::sm_clock},
                                                           {"clocks.max.sm", Field::max_sm_clock},
                                                           {"max_sm_clock", Field::max_sm_clock},
                                                           {"memory", Field::memory_clock},
                                                           {"clocks.mem", Field::memory_clock},
                                                           {"mem_clock", Field::memory_clock},
                                                           {"utilization.gpu", Field::utilization},
                                                           {"utilization", Field::utilization},
                                                           {"power.draw", Field::power},
                                                           {"power.draw.instant", Field::power},
                                                           {"power", Field::power},
                                                           {"power_w", Field::power},
                                                           {"temperature.gpu", Field::temperature},
                                                           {"temperature", Field::temperature},
                                                           {"memory.used", Field::memory},
                                                           {"memory_used", Field::memory},
                                                           {"clocks_throttle_reasons.active", Field::throttle},
                                                           {"clocks_event_reasons.active", Field::throttle},
                                                           {"throttle_reasons", Field::throttle}};
  const auto found = fields.find(name);
  return found == fields.end() ? std::nullopt : std::optional(found->second);
}

/// "2026/01/31 12:00:00.123" (also with dashes and T) without any time zone.
std::optional<Nanoseconds> calendar_time(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  char separator = 0, between = 0;
  if (std::sscanf(text.c_str(), "%4d%c%2d%*c%2d%c%2d:%2d:%2d%n", &year, &separator, &month, &day, &between, &hour,
                  &minute, &second, &used) != 8) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  Nanoseconds time = ((days * 24 + hour) * 60 + minute) * 60 + second;
  time *= 1'000'000'000;
  if (text[static_cast<std::size_t>(used)] == '.') {
    Nanoseconds digit_ns = 100'000'000;
    for (std::size_t i = static_cast<std::size_t>(used) + 1; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      time += (text[i] - '0') * digit_ns;
      digit_ns /= 10;
    }
  }
  return time;
}

/// Numbers are UTC in the unit that makes them a time between 2001 and 2286.
std::optional<Nanoseconds> sample_time(const std::string& text, std::int64_t utc_offset_s) {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && number >= 1'000'000'000) {
    while (number < 1'000'000'000'000'000'000) number *= 1000;
    return number;
  }
  if (const auto seconds = parse_number(text); seconds && text.find(' ') == std::string::npos && *seconds >= 1e9) {
    return static_cast<Nanoseconds>(*seconds * 1e6) * 1000;
  }
  const auto local = calendar_time(text);
  return local ? std::optional(*local - utc_offset_s * 1'000'000'000) : std::nullopt;
}

/// Bits of nvmlClocksEventReasons: 1 idle, 2 application clocks; all others slow the GPU down.
bool is_throttle(std::string_view text) {
  if (text.starts_with("0x")) {
    std::uint64_t bits = 0;
    std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    return (bits & ~std::uint64_t{3}) != 0;
  }
  return !text.empty() && text != "0" && text != "None" && text != "Not Active" && text != "[N/A]" && text != "N/A";
}

void set(GpuSample& sample, Field field, const std::string& text, std::int64_t utc_offset_s, bool& has_time) {
  const double number = parse_number(text).value_or(-1);
  switch (field) {
    case Field::time:
      if (const auto time = sample_time(text, utc_offset_s)) {
        sample.utc_ns = *time;
        has_time = true;
      }
      break;
    case Field::host:
      sample.host = text;
      break;
    case Field::uuid:
      sample.uuid = text.starts_with("GPU-") ? text.substr(4) : text;
      break;
    case Field::index:
      sample.index = static_cast<std::int64_t>(number);
      break;
    case Field::sm_clock:
      sample.sm_clock_mhz = number;
      break;
    case Field::max_sm_clock:
      sample.max_sm_clock_mhz = number;
      break;
    case Field::memory_clock:
      sample.memory_clock_mhz = number;
      break;
    case Field::utilization:
      sample.utilization_percent = number;
      break;
    case Field::power:
      sample.power_w = number;
      break;
    case Field::temperature:
      sample.temperature_c = number;
      break;
    case Field::memory:
      sample.memory_used_mib = number;
      break;
    case Field::throttle:
      sample.is_throttled = is_throttle(text);
      break;
  }
}

bool belongs(const GpuSample& sample, const RankEvents& events) {
  if (!sample.uuid.empty() && !events.device.gpu_uuid.empty()) return sample.uuid == events.device.gpu_uuid;
  if (!sample.host.empty() && sample.host != events.trace.session.host) return false;
  return sample.index < 0 || sample.index == events.device.device_id;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return -1;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Member>
double median(const std::vector<GpuSample>& samples, Member member) {
  std::vector<double> values;
  for (const GpuSample& sample : samples) {
    if (sample.*member >= 0) values.push_back(sample.*member);
  }
  return median_of(std::move(values));
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
    if (at_ns >= events.device.kernels.front().start_ns && at_ns <= last_ns && belongs(sample, events)) {
      samples.push_back(sample);
    }
  }
  std::sort(samples.begin(), samples.end(), [](const GpuSample& a, const GpuSample& b) { return a.utc_ns < b.utc_ns; });
  return samples;
}

/// `merged` is ascending and disjoint.
bool is_within(const std::vector<Interval>& merged, Nanoseconds at_ns) {
  const auto after = std::upper_bound(merged.begin(), merged.end(), at_ns,
                                      [](Nanoseconds t, const Interval& interval) { return t < interval.start_ns; });
  return after != merged.begin() && at_ns < std::prev(after)->end_ns;
}

}  // namespace

std::vector<GpuSample> parse_gpu_samples(std::string_view text, std::int64_t utc_offset_s) {
  const auto rows = parse_csv(text);
  std::vector<std::optional<Field>> fields;
  if (!rows.empty()) {
    for (const std::string& name : rows.front()) fields.push_back(field_of(plain_name(name)));
  }
  const auto has = [&](Field field) { return std::find(fields.begin(), fields.end(), field) != fields.end(); };
  if (!has(Field::time) || !(has(Field::sm_clock) || has(Field::throttle))) {
    throw std::runtime_error(
        "its first line does not name a time and SM clocks or throttle reasons, so nothing can be said about "
        "throttling; "
        "record it with: nvidia-smi --query-gpu=timestamp,uuid,index,clocks.current.sm,clocks.max.sm,"
        "clocks_event_reasons.active,utilization.gpu,power.draw,temperature.gpu --format=csv -lms 100");
  }
  std::vector<GpuSample> samples;
  std::size_t without_time = 0;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    GpuSample sample;
    bool has_time = false;
    for (std::size_t c = 0; c < std::min(fields.size(), rows[r].size()); ++c) {
      if (fields[c]) set(sample, *fields[c], rows[r][c], utc_offset_s, has_time);
    }
    if (has_time) {
      samples.push_back(std::move(sample));
    } else {
      ++without_time;
    }
  }
  if (without_time > samples.size()) {
    throw std::runtime_error(
        fmt::format("{} of its {} lines have no time that can be read, so they cannot be placed in the run; times are "
                    "UTC in ns, us, "
                    "ms or s, or 2026/01/31 12:00:00.123",
                    without_time, rows.size() - 1));
  }
  return samples;
}

std::vector<Table> gpu_sample_tables(const RankEvents& events, const std::vector<GpuSample>& all) {
  Table summary =
      make_table({"gpu_samples",
                  "Samples of this trace rank's GPU (--nvml) during its GPU activity; -1: not sampled",
                  {{"samples", integer, "", ""},
                   {"throttled_samples", integer, "", "see gpu_throttling"},
                   {"median_sm_clock_mhz", real, "MHz", ""},
                   {"highest_sm_clock_mhz", real, "MHz", "the GPU's limit where sampled, else the highest seen"},
                   {"median_power_w", real, "W", ""},
                   {"median_temperature_c", real, "C", ""}}});
  Table throttling =
      make_table({"gpu_throttling",
                  "Spans in which a GPU in use ran below 90% of its clock, or the driver throttled it",
                  {{"start_ns", ColumnKind::time, "ns", "first sample of the span"},
                   {"end_ns", ColumnKind::time, "ns", "next sample that is not throttled, or the last one"},
                   {"samples", integer, "", ""},
                   {"lowest_sm_clock_mhz", real, "MHz", "-1: not sampled"},
                   {"by_driver", integer, "", "1: the driver gives a reason"}}});
  const std::vector<GpuSample> samples = samples_of(events, all);
  if (samples.empty()) return {std::move(summary), std::move(throttling)};
  double highest = -1;
  for (const GpuSample& s : samples) highest = std::max({highest, s.sm_clock_mhz, s.max_sm_clock_mhz});
  std::vector<Interval> busy;
  for (const Kernel& kernel : events.device.kernels) busy.push_back({kernel.start_ns, kernel.end_ns});
  busy = merge_intervals(std::move(busy));
  const auto trace_time = [&](const GpuSample& s) { return s.utc_ns - events.trace.session.utc_start_ns; };
  const auto is_slow = [&](const GpuSample& s) {
    // An idle GPU may clock down.
    const bool in_use = s.utilization_percent >= 0 ? s.utilization_percent >= 50 : is_within(busy, trace_time(s));
    return s.is_throttled || (in_use && s.sm_clock_mhz >= 0 && s.sm_clock_mhz < 0.9 * highest);
  };
  std::int64_t slow = 0;
  RowWriter spans(throttling);
  for (std::size_t i = 0; i < samples.size();) {
    if (!is_slow(samples[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    double lowest = samples[i].sm_clock_mhz;
    bool by_driver = false;
    for (; end < samples.size() && is_slow(samples[end]); ++end) {
      lowest = std::min(lowest, samples[end].sm_clock_mhz);
      by_driver = by_driver || samples[end].is_throttled;
    }
    slow += static_cast<std::int64_t>(end - i);
    spans << trace_time(samples[i]) << trace_time(samples[std::min(end, samples.size() - 1)])
          << static_cast<std::int64_t>(end - i) << lowest << by_driver;
    i = end;
  }
  RowWriter(summary) << static_cast<std::int64_t>(samples.size()) << slow << median(samples, &GpuSample::sm_clock_mhz)
                     << highest << median(samples, &GpuSample::power_w) << median(samples, &GpuSample::temperature_c);
  return {std::move(summary), std::move(throttling)};
}

}  // namespace nsys_explain::analysis
