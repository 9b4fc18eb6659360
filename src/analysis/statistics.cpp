#include "nsys_explain/analysis/statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace nsys_explain::analysis {

double percentile(std::span<const std::int64_t> ascending, double fraction) {
  if (ascending.empty()) return 0;
  const double position = fraction * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  const double weight = position - static_cast<double>(below);
  // From the difference, so that equal neighbours give exactly their value.
  return static_cast<double>(ascending[below]) + weight * static_cast<double>(ascending[above] - ascending[below]);
}

namespace {

/// The same from values in any order, in linear time. Fractions must ascend from call to call: `from` is the place of
/// the last one, and what lies before it is not above it.
double select_percentile(std::span<std::int64_t> values, double fraction, std::size_t& from) {
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin() + static_cast<std::ptrdiff_t>(from), at, values.end());
  from = below;
  if (below + 1 == values.size()) return static_cast<double>(*at);
  const std::int64_t above = *std::min_element(at + 1, values.end());
  return static_cast<double>(*at) + (position - static_cast<double>(below)) * static_cast<double>(above - *at);
}

}  // namespace

Statistics summarise(std::span<std::int64_t> values) {
  Statistics result;
  if (values.empty()) return result;
  result.count = static_cast<std::int64_t>(values.size());
  result.min = result.max = values.front();
  for (const std::int64_t value : values) {
    result.total += value;
    result.min = std::min(result.min, value);
    result.max = std::max(result.max, value);
  }
  result.mean = static_cast<double>(result.total) / static_cast<double>(result.count);
  if (values.size() > 1) {
    double squares = 0;
    for (const std::int64_t value : values) {
      const double distance = static_cast<double>(value) - result.mean;
      squares += distance * distance;
    }
    result.deviation = std::sqrt(squares / static_cast<double>(result.count - 1));
  }
  std::size_t from = 0;
  result.median = select_percentile(values, 0.5, from);
  result.p90 = select_percentile(values, 0.90, from);
  result.p95 = select_percentile(values, 0.95, from);
  result.p99 = select_percentile(values, 0.99, from);
  return result;
}

GroupedValues::GroupedValues(std::span<const std::size_t> counts) : begin_(counts.size() + 1, 0) {
  for (std::size_t g = 0; g < counts.size(); ++g) begin_[g + 1] = begin_[g] + counts[g];
  next_.assign(begin_.begin(), begin_.end() - 1);
  values_.resize(begin_.back());
}

std::vector<Statistics> summarise_groups(GroupedValues& grouped) {
  std::vector<Statistics> result(grouped.size());
  for (std::size_t g = 0; g < result.size(); ++g) result[g] = summarise(grouped[g]);
  return result;
}

std::vector<ColumnSchema> statistics_columns(std::string_view unit) {
  const std::string u(unit);
  const auto named = [&](const char* name) { return std::string(name) + '_' + u; };
  return {{"count", ColumnKind::integer, "", "number of them"},
          {named("total"), ColumnKind::integer, u, "sum"},
          {named("mean"), ColumnKind::real, u, "average"},
          {named("median"), ColumnKind::real, u, "interpolated; the 50th percentile"},
          {named("p90"), ColumnKind::real, u, "90th percentile, interpolated"},
          {named("p95"), ColumnKind::real, u, "95th percentile, interpolated"},
          {named("p99"), ColumnKind::real, u, "99th percentile, interpolated"},
          {named("min"), ColumnKind::integer, u, "smallest"},
          {named("max"), ColumnKind::integer, u, "largest"},
          {named("stddev"), ColumnKind::real, u, "sample standard deviation (n - 1); 0 for a single one"}};
}

void write_statistics(RowWriter& row, const Statistics& s) {
  row << s.count << s.total << s.mean << s.median << s.p90 << s.p95 << s.p99 << s.min << s.max << s.deviation;
}

std::size_t bucket_index(std::int64_t value) {
  if (value < 4) return value < 0 ? 0 : static_cast<std::size_t>(value);
  const int exponent = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value))) - 1;
  const auto quarter = static_cast<std::size_t>(value >> (exponent - 2) & 3);
  return static_cast<std::size_t>(exponent - 1) * 4 + quarter;
}

Bucket bucket(std::size_t index) {
  if (index < 4) return {static_cast<std::int64_t>(index), static_cast<std::int64_t>(index) + 1};
  const std::size_t shift = index / 4 - 1;
  const std::int64_t quarters = 4 + static_cast<std::int64_t>(index % 4);
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const std::int64_t upper = index + 1 == bucket_count ? largest : (quarters + 1) << shift;
  return {quarters << shift, upper};
}

}  // namespace nsys_explain::analysis
