#include "job_clock.hpp"

#include <fmt/format.h>

#include "nsys_explain/clock/fit.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Median difference of matched ends beyond which a fit is not believed.
constexpr Nanoseconds largest_credible_residual_ns = 100'000;

/// The matched instances of the blocks that this tool rank owns, as the clock wants to see them.
clock::Observations observe(const JobRanks& job, const CrossRank& cross) {
  clock::Observations observations;
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      observations.instances.push_back({.operation = instance.operation,
                                        .kernel_name_hash = instance.kernel_name_hash,
                                        .message_bytes = instance.message_bytes,
                                        .first_member = static_cast<std::int64_t>(observations.members.size()),
                                        .members = instance.arrivals});
      for (std::int64_t a = instance.first_arrival; a < instance.first_arrival + instance.arrivals; ++a) {
        const InstanceArrival& arrival = block.arrivals[static_cast<std::size_t>(a)];
        observations.members.push_back(
            {arrival.enter_ns, arrival.exit_ns,
             static_cast<std::int32_t>(job.session_of_rank[job.index_of(arrival.trace_rank)])});
      }
    }
  }
  return observations;
}

}  // namespace

clock::ClockFit estimate_clock(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross,
                               const clock::ClockOptions& options) {
  const clock::Reduction reduction{
      .sum = [&](std::span<const std::int64_t> mine) { return communicator.sum(mine); },
      .maximum = [&](std::span<const std::int64_t> mine) { return communicator.maximum(mine); }};
  clock::ClockFit fit = clock::fit_clocks(job.sessions, observe(job, cross), reduction, options);
  if (options.method || fit.report.residual.held_out_p50_ns.value_or(0) <= largest_credible_residual_ns) return fit;
  // Ends of one operation agree to tens of microseconds on real hardware: these instances are not what they seem.
  clock::ClockOptions without_collectives = options;
  without_collectives.method = ClockMethod::host_clock;
  const ClockResidual residual = fit.report.residual;
  fit = clock::fit_clocks(job.sessions, observe(job, cross), reduction, without_collectives);
  fit.report.residual = residual;
  fit.warnings.push_back(
      {Severity::error, WarningSource::analysis, 1,
       fmt::format(
           "the ends of matched collectives differ by {:.0f} us (median), so many matches must be wrong, and clocks "
           "are not fitted to them: sessions of different hosts stay unrelated; export with --include-blobs=true "
           "--include-json=true, so that communicators are known",
           static_cast<double>(*residual.held_out_p50_ns) * 1e-3)});
  return fit;
}

}  // namespace nsys_explain::pipeline
