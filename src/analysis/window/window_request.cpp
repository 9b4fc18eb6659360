#include <charconv>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/window/window.hpp"

namespace nsys_explain::analysis {
namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::optional<Nanoseconds> unit_length(std::string_view unit) {
  if (unit == "ns" || unit.empty()) return 1;
  if (unit == "us") return 1'000;
  if (unit == "ms") return 1'000'000;
  if (unit == "s" || unit == "sec") return 1'000'000'000;
  if (unit == "m" || unit == "min") return 60'000'000'000;
  if (unit == "h") return 3'600'000'000'000;
  return std::nullopt;
}

/// "1s500ms", "2.5s", "17".
std::optional<Nanoseconds> duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  Nanoseconds total = 0;
  while (!text.empty()) {
    const std::size_t number_end = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::size_t unit_end = std::min(text.find_first_of("0123456789.", number_end), text.size());
    const auto unit = unit_length(text.substr(number_end, unit_end - number_end));
    if (number_end == 0 || !unit) return std::nullopt;
    // In integers: "0.1s" is a hundred million nanoseconds, not one less.
    const std::string_view number = text.substr(0, number_end);
    const std::size_t point = std::min(number.find('.'), number.size());
    const auto whole = whole_number(number.substr(0, point));
    Nanoseconds part = 0;
    if (!whole || __builtin_mul_overflow(*whole, *unit, &part) || __builtin_add_overflow(total, part, &total)) {
      return std::nullopt;
    }
    Nanoseconds digit_ns = *unit;
    for (const char digit : number.substr(std::min(point + 1, number.size()))) {
      if (digit == '.') return std::nullopt;
      digit_ns /= 10;
      total += (digit - '0') * digit_ns;
    }
    text.remove_prefix(unit_end);
  }
  return total;
}

std::runtime_error refusal(std::string_view option, std::string_view text, std::string_view problem,
                           std::string_view example) {
  return std::runtime_error(fmt::format("{} '{}' {}, so it is not known which part of the run to look at; write {}",
                                        option, text, problem, example));
}

}  // namespace

Interval parse_filter_time(std::string_view text) {
  return parse_time_window("--filter-time", text);
}

Interval parse_time_window(std::string_view option, std::string_view text) {
  const auto refuse = [&](std::string_view problem) {
    return refusal(option, text, problem, "START/END, for example 5s/7s, 1s500ms/2s or 5s/");
  };
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos || text.size() == 1) throw refuse("is no span of time");
  Interval interval{std::numeric_limits<Nanoseconds>::min(), std::numeric_limits<Nanoseconds>::max()};
  const std::string_view start = text.substr(0, slash), end = text.substr(slash + 1);
  if (!start.empty()) {
    const auto value = duration(start);
    if (!value) throw refuse(fmt::format("has the start '{}', which is no time", start));
    interval.start_ns = *value;
  }
  if (!end.empty()) {
    const auto value = duration(end);
    if (!value) throw refuse(fmt::format("has the end '{}', which is no time", end));
    interval.end_ns = *value;
  }
  if (interval.start_ns >= interval.end_ns) throw refuse("ends before it starts");
  return interval;
}

RangeSelector parse_filter_nvtx(std::string_view text) {
  RangeSelector selector;
  std::string_view rest = text;
  // A slash in a label is no index unless a number follows it.
  if (const std::size_t slash = rest.rfind('/'); slash != std::string_view::npos) {
    if (const auto index = whole_number(rest.substr(slash + 1))) {
      selector.index = *index;
      rest = rest.substr(0, slash);
    }
  }
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    selector.domain = rest.substr(at + 1);
    rest = rest.substr(0, at);
  }
  if (rest.empty())
    throw refusal("--filter-nvtx", text, "names no range", "RANGE[@DOMAIN][/INDEX], for example 'step 5'");
  selector.label = rest;
  return selector;
}

StepSelector parse_steps(std::string_view text) {
  const auto refuse = [&](std::string_view problem) {
    return refusal("--steps", text, problem, "FIRST:LAST, for example 10:20, 10: or 12");
  };
  const auto number = [&](std::string_view part) -> std::optional<std::int64_t> {
    if (part.empty()) return std::nullopt;
    const auto value = whole_number(part);
    if (!value) throw refuse(fmt::format("has '{}', which is no number of a step", part));
    return value;
  };
  const std::size_t colon = text.find(':');
  StepSelector steps;
  if (colon == std::string_view::npos) {
    steps.first = steps.last = number(text);
  } else {
    steps = {number(text.substr(0, colon)), number(text.substr(colon + 1))};
  }
  if (!steps.first && !steps.last) throw refuse("names no step");
  if (steps.first && steps.last && *steps.first > *steps.last) throw refuse("ends before it starts");
  return steps;
}

}  // namespace nsys_explain::analysis
