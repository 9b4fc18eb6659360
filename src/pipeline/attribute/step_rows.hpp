#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/attribute/reader_ranks.hpp"
#include "pipeline/attribute/step_sums.hpp"
#include "pipeline/read/job_ranks.hpp"

namespace nsys_explain::pipeline {

/// One step of one trace rank: a row of the table `steps`. Trivially copyable.
struct StepRow {
  std::int64_t step = 0;
  Nanoseconds start_ns = 0;  ///< job time
  Nanoseconds duration_ns = 0;
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds wait_ns = 0;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds excess_ns = 0;  ///< as JobDelays::excess_work_ns; not in the table
  std::int32_t trace_rank = -1;
  std::int32_t apart = 0;  ///< 1: of Attribution::steps_apart
  // Of its arrivals, not in the table: those whose work was compared, be it with other steps, and those with peers.
  std::int32_t compared = 0;
  std::int32_t with_peers = 0;
};

/// Once caused waits are in the sums: one row per local trace rank and step of the job that it has, by (step, trace
/// rank).
std::vector<StepRow> make_step_rows(const JobRanks& job, const ReaderRanks& readers, const analysis::Steps& steps,
                                    std::span<const std::int32_t> steps_apart, const SumsOfSteps& sums);

}  // namespace nsys_explain::pipeline
