#pragma once

#include <optional>
#include <vector>

#include "analysis/trace/divergence.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/investigate/straggler_cases.hpp"

namespace nsys_explain::pipeline {

/// The evidence for the causes as tables of the store: `straggler_cases` (one row per collective that was looked at)
/// and `straggler_differences` (one row per straggler and name). They exist, without rows, where nobody is late.
class CaseTables {
 public:
  CaseTables();
  /// `compute`: analysis::compute_cause of them.
  void add_cases(const CasesOfStraggler& of, std::optional<Cause> compute);
  void add_long_wait(const CasesOfStraggler& of, std::optional<Cause> compute);
  void add_differences(std::int32_t straggler, const analysis::Divergence& divergence);
  std::vector<Table> release() { return {std::move(cases_), std::move(differences_), std::move(long_waits_)}; }

 private:
  Table cases_, differences_, long_waits_;
};

}  // namespace nsys_explain::pipeline
