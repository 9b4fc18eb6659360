#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain::ingest {

/// Bytes of one copy, set, allocation or message: eight times the memory that a GPU can address today (GB200: 480 GB).
inline constexpr std::int64_t most_bytes_at_once = std::int64_t{1} << 42;

/// Takes the sizes of one table's rows and counts those that cannot be true. All that it lets through add up to a
/// number, however many rows there are.
class SizeFilter {
 public:
  explicit SizeFilter(std::string table) : table_(std::move(table)) {}

  /// The size, 0 for NULL, and 0 where it cannot be true.
  std::int64_t accept(std::int64_t bytes);
  /// Adds a warning where there were such.
  void report(std::vector<Warning>& warnings) const;

 private:
  std::string table_;
  std::int64_t sum_ = 0, implausible_ = 0;
};

}  // namespace nsys_explain::ingest
