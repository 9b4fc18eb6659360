#include "analysis/statistics/statistics.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "model/schema/declaration.hpp"

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

constexpr std::array<double, 4> told_fractions{0.5, 0.90, 0.95, 0.99};

/// What lies at a fraction of the way through ascending values: between two ranks.
struct RankedPlace {
  std::size_t below = 0, above = 0;
  double weight = 0;
};

RankedPlace place_at(double fraction, std::size_t count) {
  const double position = fraction * static_cast<double>(count - 1);
  const auto below = static_cast<std::size_t>(position);
  return {below, std::min(below + 1, count - 1), position - static_cast<double>(below)};
}

/// Classes of equal width over the range in which most of the values lie, as a sample of them tells; the first and the
/// last class take what lies beyond. The others hold one value each where the range is small, as that of durations on a
/// GPU's clock often is.
class ValueClasses {
 public:
  static constexpr std::size_t count = 2048;

  template <class Value>
  explicit ValueClasses(std::span<Value> values) {
    constexpr std::size_t sampled = 256;
    std::int64_t smallest = values.front(), largest = values.front();
    for (std::size_t i = 0; i < values.size(); i += std::max<std::size_t>(values.size() / sampled, 1)) {
      smallest = std::min<std::int64_t>(smallest, values[i]);
      largest = std::max<std::int64_t>(largest, values[i]);
    }
    below_ = smallest == std::numeric_limits<std::int64_t>::min() ? smallest : smallest - 1;
    const std::uint64_t range = static_cast<std::uint64_t>(largest) - static_cast<std::uint64_t>(below_);
    shift_ = std::max(static_cast<int>(std::bit_width(range / (count - 1))), 0);
  }
  std::size_t of(std::int64_t value) const {
    if (value <= below_) return 0;
    const std::uint64_t distance = static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(below_);
    return std::min<std::uint64_t>(distance >> shift_, count - 1);
  }
  /// The value of all members; empty where they may differ.
  std::optional<std::int64_t> only_value(std::size_t class_number) const {
    if (shift_ > 0 || class_number == 0 || class_number == count - 1) return std::nullopt;
    return below_ + static_cast<std::int64_t>(class_number);
  }

 private:
  std::int64_t below_ = 0;  ///< where the first class ends
  int shift_ = 0;
};

template <class Value>
void select_in_place(std::span<Value> values, std::span<const std::size_t> ranks) {
  auto from = values.begin();
  for (const std::size_t rank : ranks) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(from, at, values.end());
    from = at + 1;
  }
}

/// The values of these ranks, which are different and ascend. Changes the order of the values. To count classes first
/// and to select among those that matter is several times faster than to select among all.
template <class Value>
std::vector<std::int64_t> values_at(std::span<Value> values, std::span<const std::size_t> ranks) {
  constexpr std::size_t few = 4096;
  std::vector<std::int64_t> found;
  if (values.size() <= few) {
    select_in_place(values, ranks);
    for (const std::size_t rank : ranks) found.push_back(values[rank]);
    return found;
  }
  const ValueClasses classes(values);
  std::array<std::size_t, ValueClasses::count> counts{};
  for (const Value value : values) ++counts[classes.of(value)];
  std::array<bool, ValueClasses::count> matters{};
  std::vector<std::size_t> ranks_within, places;  // among the members of all classes that matter, and in `found`
  std::size_t class_number = 0, before = 0, left_out = 0;
  for (const std::size_t rank : ranks) {
    for (; before + counts[class_number] <= rank; ++class_number) {
      before += counts[class_number];
      if (!matters[class_number]) left_out += counts[class_number];
    }
    const std::optional<std::int64_t> value = classes.only_value(class_number);
    found.push_back(value.value_or(0));
    if (value) continue;
    matters[class_number] = true;
    ranks_within.push_back(rank - left_out);
    places.push_back(found.size() - 1);
  }
  if (places.empty()) return found;
  std::vector<Value> members;
  for (const Value value : values)
    if (matters[classes.of(value)]) members.push_back(value);
  select_in_place(std::span<Value>(members), ranks_within);
  for (std::size_t i = 0; i < places.size(); ++i) found[places[i]] = members[ranks_within[i]];
  return found;
}

template <class Value>
void set_percentiles_of(Statistics& statistics, std::span<Value> values) {
  if (values.empty()) return;
  std::vector<std::size_t> ranks;
  for (const double fraction : told_fractions) {
    const RankedPlace place = place_at(fraction, values.size());
    ranks.insert(ranks.end(), {place.below, place.above});
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const std::vector<std::int64_t> found = values_at(values, ranks);
  const auto value_at = [&](std::size_t rank) {
    return found[static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin())];
  };
  const auto told = [&](double fraction) {
    const RankedPlace place = place_at(fraction, values.size());
    const std::int64_t below = value_at(place.below), above = value_at(place.above);
    return static_cast<double>(below) + place.weight * static_cast<double>(above - below);
  };
  statistics.median = told(0.5);
  statistics.p90 = told(0.90);
  statistics.p95 = told(0.95);
  statistics.p99 = told(0.99);
}

template <class Value>
Statistics statistics_of(std::span<Value> values) {
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
  set_percentiles_of(result, values);
  return result;
}

/// Appends values, with those that were kept elsewhere in their places.
void append_all(std::vector<std::int64_t>& all, std::span<const std::uint32_t> values,
                std::span<const std::int64_t> large) {
  if (large.empty()) {
    all.insert(all.end(), values.begin(), values.end());
    return;
  }
  auto next_large = large.begin();
  for (const std::uint32_t value : values) all.push_back(value == kept_elsewhere ? *next_large++ : value);
}

}  // namespace

Statistics summarise(std::span<std::int64_t> values) {
  return statistics_of(values);
}

Statistics summarise(std::span<std::uint32_t> values) {
  return statistics_of(values);
}

void set_percentiles(Statistics& statistics, std::span<std::int64_t> values) {
  set_percentiles_of(statistics, values);
}

Statistics CompactValues::summarise() {
  if (large_.empty()) return analysis::summarise(values_);
  std::vector<std::int64_t> all;
  append_all(all, values_, large_);
  return analysis::summarise(all);
}

GroupedValues::GroupedValues(std::span<const std::size_t> counts) : begin_(counts.size() + 1, 0) {
  for (std::size_t g = 0; g < counts.size(); ++g) begin_[g + 1] = begin_[g] + counts[g];
  next_.assign(begin_.begin(), begin_.end() - 1);
  values_ = std::make_unique_for_overwrite<std::uint32_t[]>(begin_.back());
}

void GroupedValues::keep_elsewhere(std::size_t group, std::int64_t value) {
  large_[group].push_back(value);
}

void GroupedValues::append_to(std::vector<std::int64_t>& values, std::size_t group) const {
  const std::span<const std::uint32_t> of_group(values_.get() + begin_[group], next_[group] - begin_[group]);
  const auto large = large_.find(group);
  append_all(values, of_group, large == large_.end() ? std::span<const std::int64_t>() : large->second);
}

Statistics GroupedValues::summarise(std::size_t group) {
  if (!large_.contains(group))
    return analysis::summarise(std::span(values_.get() + begin_[group], next_[group] - begin_[group]));
  std::vector<std::int64_t> all;
  append_to(all, group);
  return analysis::summarise(all);
}

std::vector<Statistics> summarise_groups(GroupedValues& grouped) {
  std::vector<Statistics> result(grouped.size());
  for (std::size_t g = 0; g < result.size(); ++g) result[g] = grouped.summarise(g);
  return result;
}

std::vector<ColumnSchema> statistics_columns(std::string_view unit) {
  schema::Declaration table("", "");
  static_cast<void>(schema::Statistics(table, unit));
  return table.table_schema().columns.own();
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

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  return values.empty() ? 0 : mean_median(values);
}

}  // namespace nsys_explain::analysis
