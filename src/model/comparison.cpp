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

double RunProfile::busy_ns() const {
  double sum = 0;
  for (const MeanTime& one : categories) sum += one.mean_ns;
  return sum;
}

std::optional<double> RunProfile::mean_ns(std::string_view figure) const {
  for (const MeanTime& one : rank_means_ns) {
    if (one.name == figure) return one.mean_ns;
  }
  return std::nullopt;
}

std::string_view trend_direction_name(TrendDirection direction) {
  switch (direction) {
    case TrendDirection::none:
      return "none";
    case TrendDirection::rising:
      return "rising";
    case TrendDirection::falling:
      return "falling";
    case TrendDirection::too_few_runs:
      return "too_few_runs";
  }
  return "";
}

std::string_view part_name(ChangedPart part) {
  switch (part) {
    case ChangedPart::kernel_speed:
      return "kernel_speed";
    case ChangedPart::kernel_work:
      return "kernel_work";
    case ChangedPart::copies:
      return "copies";
    case ChangedPart::idle:
      return "idle";
    case ChangedPart::graphs:
      break;
  }
  return "graphs";
}

std::string_view basis_name(ComparisonBasis basis) {
  switch (basis) {
    case ComparisonBasis::token:
      return "token";
    case ComparisonBasis::step:
      return "step";
    case ComparisonBasis::window:
      break;
  }
  return "window";
}

double Comparison::amount(const RunProfile& run) const {
  switch (basis) {
    case ComparisonBasis::token:
      return run.tokens.value_or(1);
    case ComparisonBasis::step:
      return static_cast<double>(run.steps);
    case ComparisonBasis::window:
      break;
  }
  return 1;
}

}  // namespace nsys_explain
