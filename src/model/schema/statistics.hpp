#pragma once

#include <string_view>

#include "model/schema/declaration.hpp"

namespace nsys_explain::schema {

/// The columns that analysis::write_statistics fills, of values in "ns" or in "bytes".
struct Statistics {
  constexpr explicit Statistics(Declaration& table, std::string_view unit = "ns")
      : count{table, "count", "", "number of them"},
        total{table, of(unit, "total_ns", "total_bytes"), unit, "sum"},
        mean{table, of(unit, "mean_ns", "mean_bytes"), unit, "average"},
        median{table, of(unit, "median_ns", "median_bytes"), unit, "interpolated; the 50th percentile"},
        p90{table, of(unit, "p90_ns", "p90_bytes"), unit, "90th percentile, interpolated"},
        p95{table, of(unit, "p95_ns", "p95_bytes"), unit, "95th percentile, interpolated"},
        p99{table, of(unit, "p99_ns", "p99_bytes"), unit, "99th percentile, interpolated"},
        min{table, of(unit, "min_ns", "min_bytes"), unit, "smallest"},
        max{table, of(unit, "max_ns", "max_bytes"), unit, "largest"},
        deviation{table, of(unit, "stddev_ns", "stddev_bytes"), unit,
                  "sample standard deviation (n - 1); 0 for a single one"} {}

  Integer count, total;
  Real mean, median, p90, p95, p99;
  Integer min, max;
  Real deviation;

 private:
  static constexpr std::string_view of(std::string_view unit, std::string_view of_times, std::string_view of_sizes) {
    return unit == "ns" ? of_times : of_sizes;
  }
};

}  // namespace nsys_explain::schema
