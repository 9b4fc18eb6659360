#include "nsys_explain/model/comparison.hpp"

namespace nsys_explain {

std::optional<double> Change::ratio() const {
  if (!base || !current || *base == 0) return std::nullopt;
  return *current / *base;
}

std::string_view verdict_name(ComparisonVerdict verdict) {
  switch (verdict) {
    case ComparisonVerdict::same:
      return "same";
    case ComparisonVerdict::better:
      return "better";
    case ComparisonVerdict::worse:
      return "worse";
    case ComparisonVerdict::unknown:
      break;
  }
  return "unknown";
}

}  // namespace nsys_explain
