#include "analysis/verdict/kernel_speed.hpp"

#include <cmath>
#include <numbers>
#include <numeric>

#include "analysis/statistics/statistics.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t shown_kernels = 100;
constexpr std::int64_t fewest_executions = 5;
constexpr std::int64_t fewest_kernels = 3;  ///< below, one that depends on the data passes for a slow GPU
constexpr double clock_step_ns = 32;
constexpr double robust_deviation = 1.4826;   ///< standard deviations per median absolute deviation
constexpr double median_efficiency = 1.2533;  ///< standard error of a median over that of a mean
constexpr double slow_worth_telling = 1.02, slow_worth_telling_of_two = 1.05, outlying = 3;

using Shape = std::array<std::int64_t, schema::kernels_by_launch.shape.sizes.size()>;
using KernelKey = std::pair<std::string_view, Shape>;

/// One kernel on one trace rank.
struct Execution {
  std::int64_t rank = 0, count = 0, total_ns = 0;
  double median_ns = 0, relative_error = 0, robust_spread = 0;
  double peers_median_ns = 0, ratio = 1, z = 0;
};

/// Robust standard deviation.
double robust_spread(const std::vector<double>& values) {
  const double centre = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - centre));
  return robust_deviation * median(std::move(distances));
}

std::map<KernelKey, std::vector<Execution>> compute_kernels(const Table& table) {
  const auto& ranks = column(table, schema::trace_rank);
  const auto& names = column(table, schema::kernels_by_launch.name);
  const auto& communication = column(table, schema::kernels_by_launch.communication);
  const auto& counts = column(table, schema::kernels_by_launch.durations.count);
  const auto& totals = column(table, schema::kernels_by_launch.durations.total);
  const auto& medians = column(table, schema::kernels_by_launch.durations.median);
  const auto& deviations = column(table, schema::kernels_by_launch.durations.deviation);
  const auto shape_columns = columns(table, schema::kernels_by_launch.shape.sizes);
  std::map<KernelKey, std::vector<Execution>> kernels;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (communication[i] != 0 || counts[i] < fewest_executions || medians[i] <= 0) continue;
    Shape shape{};
    for (std::size_t s = 0; s < shape.size(); ++s) shape[s] = (*shape_columns[s])[i];
    const double of_median = median_efficiency * deviations[i] / std::sqrt(static_cast<double>(counts[i]));
    kernels[{names[i], shape}].push_back({ranks[i], counts[i], totals[i], medians[i],
                                          std::hypot(of_median, clock_step_ns) / medians[i],
                                          deviations[i] / medians[i]});
  }
  // Rows come by trace rank: without another one there is nothing to compare with.
  std::erase_if(kernels, [](const auto& kernel) { return kernel.second.front().rank == kernel.second.back().rank; });
  return kernels;
}

/// Medians of all values but a few: of thousands of trace ranks each is held against all others.
class MediansOfOthers {
 public:
  explicit MediansOfOthers(const std::vector<double>& values) : sorted_(values.size()), place_(values.size()) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    for (std::size_t p = 0; p < order.size(); ++p) {
      sorted_[p] = values[order[p]];
      place_[order[p]] = p;
    }
  }
  double without(const std::vector<std::size_t>& left_out) const {
    std::vector<std::size_t> holes;
    for (const std::size_t i : left_out) holes.push_back(place_[i]);
    std::sort(holes.begin(), holes.end());
    const auto other = [&](std::size_t n) {
      for (const std::size_t hole : holes) n += hole <= n ? 1 : 0;
      return sorted_[n];
    };
    const std::size_t count = sorted_.size() - holes.size(), middle = count / 2;
    return count % 2 == 1 ? other(middle) : (other(middle - 1) + other(middle)) / 2;
  }

 private:
  std::vector<double> sorted_;
  std::vector<std::size_t> place_;  ///< of each value in the sorted ones
};

/// Fills what an execution is against its peers.
void compare(std::vector<Execution>& executions) {
  std::vector<double> medians, logarithms;
  std::map<std::int64_t, std::vector<std::size_t>> of_rank;
  double squared_errors = 0;
  for (const Execution& execution : executions) {
    of_rank[execution.rank].push_back(medians.size());
    medians.push_back(execution.median_ns);
    logarithms.push_back(std::log(execution.median_ns));
    squared_errors += execution.relative_error * execution.relative_error;
  }
  const MediansOfOthers of_medians(medians), of_logarithms(logarithms);
  std::map<double, MediansOfOthers> of_distances;  // by centre, of which there are few
  for (const auto& [rank, own_places] : of_rank) {
    const double centre = of_logarithms.without(own_places);
    auto distances = of_distances.find(centre);
    if (distances == of_distances.end()) {
      std::vector<double> values;
      for (const double value : logarithms) values.push_back(std::abs(value - centre));
      distances = of_distances.emplace(centre, values).first;
    }
    const double spread_of_peers = robust_deviation * distances->second.without(own_places);
    double peers_error = squared_errors;
    for (const std::size_t i : own_places) peers_error -= executions[i].relative_error * executions[i].relative_error;
    const auto peers = static_cast<double>(executions.size() - own_places.size());
    for (const std::size_t i : own_places) {
      Execution& own = executions[i];
      own.peers_median_ns = of_medians.without(own_places);
      own.ratio = own.median_ns / own.peers_median_ns;
      const double variance = own.relative_error * own.relative_error + std::max(0.0, peers_error) / (peers * peers) +
                              std::pow(spread_of_peers, 2);
      own.z = std::log(own.ratio) / std::sqrt(variance);
    }
  }
}

/// All kernels of one trace rank together.
struct Speed {
  std::vector<std::pair<double, double>> ratios, spreads, counts;  ///< with their weights
  std::int64_t compared_ns = 0, kernels = 0, slower = 0;
  double weighted_z = 0, squared_weights = 0;

  void add(const Execution& execution) {
    const auto weight = static_cast<double>(execution.total_ns);
    ratios.emplace_back(execution.ratio, weight);
    spreads.emplace_back(execution.robust_spread, weight);
    counts.emplace_back(static_cast<double>(execution.count), weight);
    compared_ns += execution.total_ns;
    ++kernels;
    slower += execution.ratio > 1 ? 1 : 0;
    weighted_z += weight * execution.z;
    squared_weights += weight * weight;
  }
  /// The value at which half of the compared time is reached.
  double median_over_time(std::vector<std::pair<double, double>> values) const {
    std::sort(values.begin(), values.end());
    double reached = 0;
    for (const auto& [value, weight] : values) {
      reached += weight;
      if (2 * reached >= static_cast<double>(compared_ns)) return value;
    }
    return 1;
  }
  double ratio() const { return median_over_time(ratios); }
  double p_value(std::size_t ranks) const {
    const double z = squared_weights > 0 ? weighted_z / std::sqrt(squared_weights) : 0;
    const double p = 0.5 * std::erfc(z / std::numbers::sqrt2) * static_cast<double>(ranks);
    return std::clamp(p, std::numeric_limits<double>::min(), 1.0);  // a double cannot hold less, and it is not 0
  }
};

bool stands_out(std::size_t r, const std::vector<double>& ratios) {
  if (ratios.size() == 2) return ratios[r] >= slow_worth_telling_of_two;
  std::vector<double> others = ratios;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(r));
  return ratios[r] - median(others) > outlying * robust_spread(others);
}

Table speed_table(const std::map<std::int64_t, Speed>& speeds) {
  Table table = make_table(schema::gpu_speed);
  std::vector<double> ratios;
  for (const auto& [rank, speed] : speeds) ratios.push_back(speed.ratio());
  RowWriter row(table);
  std::size_t r = 0;
  for (const auto& [rank, speed] : speeds) {
    const double p_value = speed.p_value(speeds.size());
    const bool slow = speed.kernels >= fewest_kernels && p_value < significantly_slow &&
                      ratios[r] >= slow_worth_telling && stands_out(r, ratios);
    row << rank << speed.kernels << speed.compared_ns << speed.slower << ratios[r] << p_value << slow
        << speed.median_over_time(speed.spreads) << static_cast<std::int64_t>(speed.median_over_time(speed.counts));
    ++r;
  }
  return table;
}

}  // namespace

std::vector<Table> kernel_peer_tables(const Table& kernels_by_launch) {
  std::map<KernelKey, std::vector<Execution>> kernels = compute_kernels(kernels_by_launch);
  std::map<std::int64_t, Speed> speeds;
  std::vector<std::pair<std::int64_t, const KernelKey*>> by_time;
  for (auto& [key, executions] : kernels) {
    compare(executions);
    std::int64_t total_ns = 0;
    for (const Execution& execution : executions) {
      speeds[execution.rank].add(execution);
      total_ns += execution.total_ns;
    }
    by_time.emplace_back(-total_ns, &key);
  }
  std::stable_sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (by_time.size() > shown_kernels) by_time.resize(shown_kernels);

  std::vector<Table> tables;
  tables.push_back(make_table(schema::kernel_peers));
  RowWriter row(tables.back());
  for (const auto& [time, key] : by_time) {
    for (const Execution& e : kernels.at(*key)) {
      row << key->first;
      for (const std::int64_t size : key->second) row << size;
      row << e.rank << e.count << e.median_ns << e.peers_median_ns << e.ratio << e.z;
    }
  }
  tables.push_back(speed_table(speeds));
  return tables;
}

Table kernel_imbalance_table(const Table& kernels) {
  struct Load {
    std::int64_t ranks = 0, total_ns = 0, largest_ns = 0, largest_rank = -1;
  };
  const auto& ranks = column(kernels, schema::trace_rank);
  const auto& names = column(kernels, schema::kernels.name);
  const auto& totals = column(kernels, schema::kernels.durations.total);
  std::map<std::string_view, Load> loads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Load& load = loads[names[i]];
    ++load.ranks;
    load.total_ns += totals[i];
    if (load.largest_rank < 0 || totals[i] > load.largest_ns) {
      load.largest_ns = totals[i];
      load.largest_rank = ranks[i];
    }
  }
  std::vector<std::pair<std::string_view, Load>> order;
  for (const auto& [name, load] : loads)
    if (load.ranks > 1) order.emplace_back(name, load);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.total_ns > b.second.total_ns; });
  Table table = make_table({"kernel_imbalance",
                            "How evenly the time of each kernel is spread over the trace ranks that ran it",
                            {{"name", ColumnKind::text, "", "kernel with its template and argument lists"},
                             {"trace_ranks", ColumnKind::integer, "", "that ran it"},
                             {"mean_ns", ColumnKind::real, "ns", "sum of durations, mean over these trace ranks"},
                             {"largest_ns", ColumnKind::integer, "ns", "of the trace rank with most"},
                             {"largest_trace_rank", ColumnKind::integer, "", "that one"},
                             {"imbalance", ColumnKind::real, "", "largest over mean"}}});
  RowWriter row(table);
  for (const auto& [name, load] : order) {
    const double mean_ns = static_cast<double>(load.total_ns) / static_cast<double>(load.ranks);
    row << name << load.ranks << mean_ns << load.largest_ns << load.largest_rank
        << (mean_ns > 0 ? static_cast<double>(load.largest_ns) / mean_ns : 1.0);
  }
  return table;
}

}  // namespace nsys_explain::analysis
