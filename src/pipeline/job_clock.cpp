#include "job_clock.hpp"

#include "nsys_explain/clock/level_zero.hpp"

namespace nsys_explain::pipeline {

ClockReport estimate_clock(const exchange::Communicator&, const JobRanks& job, const CrossRank&) {
  ClockReport report;
  report.sessions = clock::level_zero(job.sessions).clocks;
  return report;
}

}  // namespace nsys_explain::pipeline
