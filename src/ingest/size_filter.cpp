#include "ingest/size_filter.hpp"

#include <fmt/format.h>

namespace nsys_explain::ingest {

std::int64_t SizeFilter::accept(std::int64_t bytes) {
  constexpr std::int64_t largest_sum = std::int64_t{1} << 60;  // of a few tables together it is still a number
  if (bytes == no_time) return 0;
  if (bytes < 0 || bytes > most_bytes_at_once || sum_ > largest_sum - bytes) {
    ++implausible_;
    return 0;
  }
  sum_ += bytes;
  return bytes;
}

void SizeFilter::report(std::vector<Warning>& warnings) const {
  if (implausible_ == 0) return;
  warnings.push_back(
      {Severity::data_loss, WarningSource::trace, implausible_,
       fmt::format(
           "rows of table {} have a size that cannot be true (negative, or terabytes at once): they count with 0 bytes, sums are short by them; export the report again",
           table_)});
}

}  // namespace nsys_explain::ingest
