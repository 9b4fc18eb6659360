#pragma once

#include <algorithm>
#include <map>

#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/table.hpp"

/// Summaries of samples of integers (durations in nanoseconds, sizes in bytes), by the rules of `nsys stats`.
namespace nsys_explain::analysis {

struct Statistics {
  std::int64_t count = 0;
  std::int64_t total = 0;
  std::int64_t min = 0, max = 0;
  double mean = 0;
  double median = 0;  ///< interpolated; the same as the 50th percentile
  double p90 = 0, p95 = 0, p99 = 0;
  double deviation = 0;  ///< sample standard deviation (n - 1); 0 for a single value
};

/// Changes the order of the values; linear in their number. All zero for no values.
Statistics summarise(std::span<std::int64_t> values);
Statistics summarise(std::span<std::uint32_t> values);

/// Sets median, p90, p95 and p99 as summarise() does, and leaves the rest. Changes the order of the values.
void set_percentiles(Statistics& statistics, std::span<std::int64_t> values);

/// The value at `fraction` (0 to 1) of ascending values, interpolated linearly between neighbours; 0 for none.
double percentile(std::span<const std::int64_t> ascending, double fraction);

/// Of any values, which must not be empty.
double mean(const std::vector<double>& values);
/// The middle value, of an even number the mean of the two in the middle; 0 for none.
double median(std::vector<double> values);

inline double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// What stands for values that do not fit into 4 bytes, or are negative: these few are kept elsewhere, in their order.
inline constexpr std::uint32_t kept_elsewhere = 0xFFFFFFFF;
inline std::uint32_t in_four_bytes(std::int64_t value) {
  return value >= 0 && value < kept_elsewhere ? static_cast<std::uint32_t>(value) : kept_elsewhere;
}

/// Values in 4 bytes each, where they fit.
class CompactValues {
 public:
  void reserve(std::size_t count) { values_.reserve(count); }
  void push_back(std::int64_t value) {
    values_.push_back(in_four_bytes(value));
    if (values_.back() == kept_elsewhere) large_.push_back(value);
  }
  /// Changes the order of the values.
  Statistics summarise();

 private:
  std::vector<std::uint32_t> values_;
  std::vector<std::int64_t> large_;
};

/// Values that belong to groups numbered from 0, each group's values in one piece and in 4 bytes each, where they fit.
/// Time and memory are linear in the values, whatever the number of groups.
class GroupedValues {
 public:
  /// Room for `counts[g]` values in each group g, to be filled by put().
  explicit GroupedValues(std::span<const std::size_t> counts);
  /// `group_of[i]` is the group of `values[i]`.
  GroupedValues(std::span<const std::uint32_t> group_of, std::span<const std::int64_t> values, std::size_t groups)
      : GroupedValues(
            values.size(), groups, [&](std::size_t i) { return group_of[i]; },
            [&](std::size_t i) { return values[i]; }) {}
  /// Of `count` things: group and value of the i-th by functions, so that neither need be stored. What belongs to no
  /// group (a number from `groups` on) is left out. The group is asked for twice.
  template <class GroupOf, class ValueOf>
  GroupedValues(std::size_t count, std::size_t groups, const GroupOf& group_of, const ValueOf& value_of)
      : GroupedValues(count_groups(count, groups, group_of)) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t group = group_of(i);
      if (group < groups) put(group, value_of(i));
    }
  }

  void put(std::size_t group, std::int64_t value) {
    std::uint32_t& place = values_[next_[group]++];
    place = in_four_bytes(value);
    if (place == kept_elsewhere) [[unlikely]]
      keep_elsewhere(group, value);
  }
  /// All values of a group must have been put: those are appended in that order, unless they were summarised before.
  void append_to(std::vector<std::int64_t>& values, std::size_t group) const;
  /// Changes the order of the group's values.
  Statistics summarise(std::size_t group);
  std::size_t size() const { return next_.size(); }

 private:
  void keep_elsewhere(std::size_t group, std::int64_t value);
  template <class GroupOf>
  static std::vector<std::size_t> count_groups(std::size_t count, std::size_t groups, const GroupOf& group_of) {
    std::vector<std::size_t> counts(groups, 0);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t group = group_of(i);
      if (group < groups) ++counts[group];
    }
    return counts;
  }
  std::vector<std::size_t> begin_;  ///< one more than groups
  std::vector<std::size_t> next_;   ///< where the next value of each group goes
  std::unique_ptr<std::uint32_t[]> values_;
  std::map<std::size_t, std::vector<std::int64_t>> large_;  ///< by group
};

/// Summary of each group; changes the order of its values.
std::vector<Statistics> summarise_groups(GroupedValues& grouped);

/// The columns count, total, mean, median, p90, p95, p99, min, max, stddev of a Statistics; `unit` is "ns" or "bytes".
std::vector<ColumnSchema> statistics_columns(std::string_view unit);
void write_statistics(RowWriter& row, const Statistics& statistics);

/// Bucket of a histogram with four buckets per doubling: exact limits in integers, at most 248 buckets for all times.
struct Bucket {
  std::int64_t lower = 0;  ///< inclusive
  std::int64_t upper = 0;  ///< exclusive
};
inline constexpr std::size_t bucket_count = 248;
std::size_t bucket_index(std::int64_t value);  ///< negative values count as 0
Bucket bucket(std::size_t index);

/// Index of the first value of ascending `values` that is greater than `wanted`, as std::upper_bound; quick where it
/// lies near `near`, as the answer to the question before does when questions nearly ascend.
template <class Value, class Wanted, class Less>
std::size_t upper_bound_near(const std::vector<Value>& values, std::size_t near, const Wanted& wanted,
                             const Less& less) {
  constexpr int few = 8;
  if (near <= values.size() && (near == 0 || !less(wanted, values[near - 1]))) {
    for (int i = 0; i < few; ++i, ++near) {
      if (near == values.size() || less(wanted, values[near])) return near;
    }
  }
  return static_cast<std::size_t>(std::upper_bound(values.begin(), values.end(), wanted, less) - values.begin());
}

/// What is usual in each bin: the lower median over the ranks of which it is known, those with kernels; 0 where there
/// are none. Both by rank, then bin.
inline std::vector<std::int64_t> usual_in_bins(std::span<const std::int64_t> values,
                                               std::span<const std::int64_t> kernel_ns, std::size_t bins) {
  std::vector<std::int64_t> usual(bins, 0);
  for (std::size_t b = 0; b < bins; ++b) {
    std::vector<std::int64_t> known;
    for (std::size_t i = b; i < values.size(); i += bins)
      if (kernel_ns[i] > 0) known.push_back(values[i]);
    if (!known.empty()) usual[b] = lower_median(std::move(known));
  }
  return usual;
}

}  // namespace nsys_explain::analysis
