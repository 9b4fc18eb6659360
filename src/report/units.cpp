#include <fmt/format.h>

#include <array>

#include "report/report.hpp"

namespace nsys_explain::report {

namespace {

struct Unit {
  std::uint64_t size;  ///< in base units
  std::string_view name;
};

/// Four significant digits in the largest unit that is not larger than the value. In integers: the rounding (half away
/// from zero) that turns 999,999.5 ns into a millisecond is exact.
template <std::size_t count>
std::string format_quantity(std::int64_t value, const std::array<Unit, count>& units) {
  if (value == no_time) return "-";
  const std::string_view sign = value < 0 ? "-" : "";
  const std::uint64_t magnitude = value < 0 ? static_cast<std::uint64_t>(-value) : static_cast<std::uint64_t>(value);
  for (std::size_t u = 0; u < count; ++u) {
    const bool largest = u + 1 == count;
    const std::uint64_t size = units[u].size;
    if (size == 1) {
      if (largest || magnitude < units[u + 1].size) return fmt::format("{}{} {}", sign, magnitude, units[u].name);
      continue;
    }
    // 1.235, 12.35, 123.5: as many decimals as keep four digits, fewer beyond a thousand.
    for (const std::uint64_t decimals : {3, 2, 1, 0}) {
      const std::uint64_t scale = decimals == 3 ? 1000 : decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
      const std::uint64_t step = size / scale;
      const std::uint64_t rounded = magnitude / step + (magnitude % step >= step - step / 2 ? 1 : 0);
      if (rounded >= 10'000 && decimals > 0) continue;
      if (!largest && rounded * step >= units[u + 1].size) break;
      if (decimals == 0) return fmt::format("{}{} {}", sign, rounded, units[u].name);
      return fmt::format("{}{}.{:0{}} {}", sign, rounded / scale, rounded % scale, decimals, units[u].name);
    }
  }
  return {};  // not reached: the largest unit takes everything
}

}  // namespace

std::string format_duration(Nanoseconds duration_ns) {
  static constexpr std::array<Unit, 5> units{
      {{1, "ns"}, {1'000, "us"}, {1'000'000, "ms"}, {1'000'000'000, "s"}, {3'600'000'000'000, "h"}}};
  return format_quantity(duration_ns, units);
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<Unit, 7> units{{{1, "B"},
                                              {1'000, "kB"},
                                              {1'000'000, "MB"},
                                              {1'000'000'000, "GB"},
                                              {1'000'000'000'000, "TB"},
                                              {1'000'000'000'000'000, "PB"},
                                              {1'000'000'000'000'000'000, "EB"}}};
  return format_quantity(bytes, units);
}

}  // namespace nsys_explain::report
