#include "analysis/tables/side_files.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"
#include "model/text.hpp"

namespace nsys_explain::analysis {
namespace {

/// "clocks.current.sm [MHz]" -> "sm"; "power.draw [W]" -> "power.draw".
std::string plain_name(std::string_view column) {
  std::string name;
  for (const char c : column.substr(0, column.find(" [")))
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string_view prefix : {"clocks.current.", "gpu_"})
    if (name.starts_with(prefix) && name.size() > prefix.size()) name.erase(0, prefix.size());
  return name;
}

enum class Field {
  time,
  host,
  uuid,
  index,
  bus_id,
  sm_clock,
  max_sm_clock,
  memory_clock,
  utilization,
  power,
  temperature,
  memory,
  throttle,
  sm_active,
  tensor_active,
  dram_active
};

/// A column of nvidia-smi about one reason, "Active" or "Not Active"; not those that are no slowdown.
bool is_throttle_reason(std::string_view name) {
  for (const std::string_view prefix : {"clocks_throttle_reasons.", "clocks_event_reasons."}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view reason = name.substr(prefix.size());
    return reason != "supported" && reason != "gpu_idle" && reason != "applications_clocks_setting";
  }
  return false;
}

std::optional<Field> field_of(const std::string& name) {
  static const std::map<std::string_view, Field> fields = {{"timestamp", Field::time},
                                                           {"ts", Field::time},
                                                           {"time", Field::time},
                                                           {"utc_ns", Field::time},
                                                           {"host", Field::host},
                                                           {"hostname", Field::host},
                                                           {"uuid", Field::uuid},
                                                           {"pci.bus_id", Field::bus_id},
                                                           {"gpu_bus_id", Field::bus_id},
                                                           {"bus_id", Field::bus_id},
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
                                                           {"throttle_reasons", Field::throttle},
                                                           // DCGM: its exporter's names, and those of dcgmi dmon
                                                           {"dcgm_fi_dev_sm_clock", Field::sm_clock},
                                                           {"smclk", Field::sm_clock},
                                                           {"dcgm_fi_dev_max_sm_clock", Field::max_sm_clock},
                                                           {"dcgm_fi_dev_mem_clock", Field::memory_clock},
                                                           {"mmclk", Field::memory_clock},
                                                           {"dcgm_fi_dev_gpu_util", Field::utilization},
                                                           {"gputl", Field::utilization},
                                                           {"dcgm_fi_dev_power_usage", Field::power},
                                                           {"dcgm_fi_dev_gpu_temp", Field::temperature},
                                                           {"tmptr", Field::temperature},
                                                           {"dcgm_fi_dev_fb_used", Field::memory},
                                                           {"fbusd", Field::memory},
                                                           {"dcgm_fi_dev_clock_throttle_reasons", Field::throttle},
                                                           {"dcgm_fi_dev_clocks_event_reasons", Field::throttle},
                                                           {"dcgm_fi_prof_sm_active", Field::sm_active},
                                                           {"smact", Field::sm_active},
                                                           {"dcgm_fi_prof_pipe_tensor_active", Field::tensor_active},
                                                           {"tenso", Field::tensor_active},
                                                           {"dcgm_fi_prof_dram_active", Field::dram_active},
                                                           {"drama", Field::dram_active}};
  if (const auto found = fields.find(name); found != fields.end()) return found->second;
  return is_throttle_reason(name) ? std::optional(Field::throttle) : std::nullopt;
}

/// "Z", "+01:00", "-0530": seconds ahead of UTC. Empty: there is no zone.
std::optional<std::int64_t> zone_offset_s(std::string_view zone) {
  if (zone == "Z") return 0;
  if (zone.size() < 5 || (zone.front() != '+' && zone.front() != '-')) return std::nullopt;
  int hours = 0, minutes = 0;
  const std::string digits(zone.substr(1));
  if (std::sscanf(digits.c_str(), digits.find(':') != std::string::npos ? "%2d:%2d" : "%2d%2d", &hours, &minutes) !=
      2) {
    return std::nullopt;
  }
  return (zone.front() == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
}

/// "2026/01/31 12:00:00.123" (also with dashes and T), of the time zone it names or else `utc_offset_s` ahead of UTC.
std::optional<Nanoseconds> calendar_time(const std::string& text, std::int64_t utc_offset_s) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  char separator = 0, between = 0;
  if (std::sscanf(text.c_str(), "%4d%c%2d%*c%2d%c%2d:%2d:%2d%n", &year, &separator, &month, &day, &between, &hour,
                  &minute, &second, &used) != 8) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (year < 1970 || year > 2200) return std::nullopt;  // nanoseconds of 64 bits end in 2262
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  Nanoseconds time = ((days * 24 + hour) * 60 + minute) * 60 + second;
  time *= 1'000'000'000;
  std::string_view rest = std::string_view(text).substr(static_cast<std::size_t>(used));
  if (rest.starts_with('.')) {
    Nanoseconds digit_ns = 100'000'000;
    for (rest.remove_prefix(1); !rest.empty() && rest.front() >= '0' && rest.front() <= '9'; rest.remove_prefix(1)) {
      time += (rest.front() - '0') * digit_ns;
      digit_ns /= 10;
    }
  }
  return time - zone_offset_s(rest).value_or(utc_offset_s) * 1'000'000'000;
}

/// Numbers are UTC in the unit that makes them a time between 2001 and 2286.
std::optional<Nanoseconds> sample_time(const std::string& text, std::int64_t utc_offset_s) {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && number >= 1'000'000'000) {
    while (number < 1'000'000'000'000'000'000) {
      if (number > std::numeric_limits<Nanoseconds>::max() / 1000) return std::nullopt;
      number *= 1000;
    }
    return number;
  }
  if (const auto seconds = parse_number(text);
      seconds && text.find(' ') == std::string::npos && *seconds >= 1e9 && *seconds < 9e9) {
    return static_cast<Nanoseconds>(*seconds * 1e6) * 1000;
  }
  return calendar_time(text, utc_offset_s);
}

/// Bits of nvmlClocksEventReasons: 1 idle, 2 application clocks; all others slow the GPU down.
bool is_throttle(std::string_view text) {
  if (text.starts_with("0x")) {
    std::uint64_t bits = 0;
    std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    return (bits & ~std::uint64_t{3}) != 0;
  }
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos) {  // DCGM
    std::uint64_t bits = 0;
    std::from_chars(text.data(), text.data() + text.size(), bits);
    return (bits & ~std::uint64_t{3}) != 0;
  }
  // Brackets hold what nvidia-smi cannot tell: "[N/A]", "[Not Supported]".
  return !text.empty() && !text.starts_with('[') && text != "0" && text != "None" && text != "Not Active" &&
         text != "N/A";
}

/// DCGM writes shares from 0 to 1; below 0: not sampled.
double percent_of_ratio(double ratio) {
  return ratio >= 0 && ratio <= 1 ? 100 * ratio : -1;
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
    case Field::bus_id:
      sample.bus_id = plain_bus_id(text);
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
    case Field::sm_active:
      sample.sm_active_percent = percent_of_ratio(number);
      break;
    case Field::tensor_active:
      sample.tensor_active_percent = percent_of_ratio(number);
      break;
    case Field::dram_active:
      sample.dram_active_percent = percent_of_ratio(number);
      break;
    case Field::throttle:
      sample.is_throttled = sample.is_throttled || is_throttle(text);
      break;
  }
}

std::vector<std::string> columns_of(std::string_view line) {
  std::vector<std::string> columns;
  for (std::size_t begin = 0; (begin = line.find_first_not_of(" \t\r", begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    columns.emplace_back(line.substr(begin, end - begin));
    begin = end;
  }
  return columns;
}

/// What `dcgmi dmon` prints, as rows of a CSV: "#Entity SMCLK POWER", "ID", "GPU 0 1980 690.1", each after a time that
/// another program wrote. Empty: it is something else.
std::vector<std::vector<std::string>> rows_of_dmon(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  if (text.find("#Entity") == std::string_view::npos) return rows;
  while (!text.empty()) {
    std::vector<std::string> words = columns_of(next_part(text));
    const auto head = std::find(words.begin(), words.end(), "#Entity");
    if (rows.empty() && head != words.end()) {
      rows.push_back({"time", "index"});
      rows.front().insert(rows.front().end(), head + 1, words.end());
    }
    const auto gpu = std::find(words.begin(), words.end(), "GPU");
    if (rows.empty() || gpu == words.end()) continue;
    std::vector<std::string>& row = rows.emplace_back(1);
    for (auto word = words.begin(); word != gpu; ++word) row.front() += (word == words.begin() ? "" : " ") + *word;
    row.insert(row.end(), gpu + 1, words.end());
  }
  return rows;
}

}  // namespace

std::string plain_bus_id(std::string_view bus_id) {
  constexpr std::size_t domain_digits = 4;
  const std::size_t colon = bus_id.find(':');
  if (colon == std::string_view::npos) return {};
  if (colon > domain_digits && bus_id.find_first_not_of('0') >= colon - domain_digits)
    bus_id.remove_prefix(colon - domain_digits);
  std::string plain(bus_id);
  for (char& c : plain) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return plain;
}

std::vector<GpuSample> parse_gpu_samples(std::string_view text, std::int64_t utc_offset_s) {
  std::vector<std::vector<std::string>> rows = rows_of_dmon(text);
  const bool is_dmon = !rows.empty();
  if (!is_dmon) rows = rows_of_exporter(text);
  const bool is_exporter = !is_dmon && !rows.empty();
  if (rows.empty()) rows = parse_csv(text);
  std::vector<std::optional<Field>> fields;
  if (!rows.empty())
    for (const std::string& name : rows.front()) fields.push_back(field_of(plain_name(name)));
  const auto has = [&](Field field) { return std::find(fields.begin(), fields.end(), field) != fields.end(); };
  if (!has(Field::time) || !(has(Field::sm_clock) || has(Field::throttle) || has(Field::sm_active))) {
    throw std::runtime_error(
        "its first line does not name a time and SM clocks or throttle reasons, so nothing can be said about throttling; record it with: nvidia-smi --query-gpu=timestamp,uuid,index,clocks.current.sm,clocks.max.sm,clocks_event_reasons.active,utilization.gpu,power.draw,temperature.gpu --format=csv -lms 100");
  }
  std::vector<GpuSample> samples;
  std::size_t without_time = 0;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    GpuSample sample;
    bool has_time = false;
    for (std::size_t c = 0; c < std::min(fields.size(), rows[r].size()); ++c)
      if (fields[c]) set(sample, *fields[c], rows[r][c], utc_offset_s, has_time);
    if (has_time) {
      samples.push_back(std::move(sample));
    } else {
      ++without_time;
    }
  }
  if (without_time > samples.size()) {
    throw std::runtime_error(fmt::format(
        "{} of its {} lines have no time that can be read, so they cannot be placed in the run; times are UTC in ns, us, ms or s, or 2026/01/31 12:00:00.123{}",
        without_time, rows.size() - 1,
        is_dmon ? "; dcgmi dmon writes none: dcgmi dmon -e 100,155,150,1002,1004,1005 -d 100 | ts '%.s'"
        : is_exporter
            ? "; the exporter writes none: while sleep 1; do curl -s localhost:9400/metrics | sed \"s/^DCGM/$(date +%s.%3N) DCGM/\"; done"
            : ""));
  }
  return samples;
}

}  // namespace nsys_explain::analysis
