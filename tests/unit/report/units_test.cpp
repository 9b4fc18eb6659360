#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "report/report.hpp"

namespace nsys_explain::report {
namespace {

TEST(FormatDuration, ChoosesTheUnitAndFourDigits) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(1), "1 ns");
  EXPECT_EQ(format_duration(999), "999 ns");
  EXPECT_EQ(format_duration(1'000), "1.000 us");
  EXPECT_EQ(format_duration(12'345), "12.35 us");
  EXPECT_EQ(format_duration(123'449), "123.4 us");
  EXPECT_EQ(format_duration(1'234'567), "1.235 ms");
  EXPECT_EQ(format_duration(1'500'000'000), "1.500 s");
  EXPECT_EQ(format_duration(3'599'000'000'000), "3599 s");
  EXPECT_EQ(format_duration(3'600'000'000'000), "1.000 h");
}

TEST(FormatDuration, RoundsAcrossUnitsAndDecimals) {
  EXPECT_EQ(format_duration(9'999'499), "9.999 ms");
  EXPECT_EQ(format_duration(9'999'500), "10.00 ms");
  EXPECT_EQ(format_duration(99'995'000), "100.0 ms");
  EXPECT_EQ(format_duration(999'949), "999.9 us");
  EXPECT_EQ(format_duration(999'950), "1.000 ms");
  EXPECT_EQ(format_duration(999'999'999), "1.000 s");
  EXPECT_EQ(format_duration(3'599'999'999'999), "1.000 h");
  EXPECT_EQ(format_duration(1'234'500), "1.235 ms");  // half away from zero
}

TEST(FormatDuration, TakesEveryInteger) {
  EXPECT_EQ(format_duration(-1), "-1 ns");
  EXPECT_EQ(format_duration(-1'234'567), "-1.235 ms");
  EXPECT_EQ(format_duration(no_time), "-");
  EXPECT_EQ(format_duration(std::numeric_limits<std::int64_t>::min() + 1), "-2562048 h");
  EXPECT_EQ(format_duration(std::numeric_limits<std::int64_t>::max()), "2562048 h");  // 2562047.79
}

TEST(FormatBytes, UsesDecimalUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1'000), "1.000 kB");
  EXPECT_EQ(format_bytes(1LL << 26), "67.11 MB");  // 67,108,864
  EXPECT_EQ(format_bytes(999'999'999), "1.000 GB");
  EXPECT_EQ(format_bytes(-1'500), "-1.500 kB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::int64_t>::min()), "-");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::int64_t>::max()), "9.223 EB");
}

}  // namespace
}  // namespace nsys_explain::report
