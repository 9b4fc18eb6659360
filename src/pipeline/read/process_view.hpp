#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "collectives/extraction.hpp"
#include "collectives/host_calls.hpp"
#include "nsys_explain/model/launch_index.hpp"

namespace nsys_explain::pipeline {

/// What analyses look at of a process, which must outlive it: what was recorded, and the same with the calls in which
/// its host communicates as kernels, where its kernels do not communicate. Else both are one.
class ProcessView {
 public:
  ProcessView(const Trace& trace, const ProcessTrace& process, const collectives::KernelClasses& classes)
      : trace_(trace),
        classes_(classes),
        process_(process),
        launches_(process.api_calls),
        with_calls_(collectives::with_kernels_of_calls(trace, process, classes)) {
    holes_ = analysis::recording_holes(trace, process);
    if (with_calls_) launches_with_calls_.emplace(with_calls_->api_calls);
  }

  std::vector<collectives::DeviceArrivals> arrivals() const {
    return with_calls_ ? collectives::arrivals_of_calls(trace_, *with_calls_)
                       : collectives::extract_arrivals(trace_, process_, classes_, launches_);
  }
  analysis::RankEvents recorded(std::size_t device, std::span<const TraceArrival> arrivals = {}) const {
    return events_of(process_, launches_, device, arrivals);
  }
  analysis::RankEvents with_calls(std::size_t device, std::span<const TraceArrival> arrivals = {}) const {
    return with_calls_ ? events_of(*with_calls_, *launches_with_calls_, device, arrivals) : recorded(device, arrivals);
  }

 private:
  analysis::RankEvents events_of(const ProcessTrace& process, const LaunchIndex& launches, std::size_t device,
                                 std::span<const TraceArrival> arrivals) const {
    const DeviceTrace& of_rank = process.devices[device];
    return {trace_, process, of_rank, launches, classes_.communication_kinds(of_rank), arrivals, holes_};
  }

  const Trace& trace_;
  const collectives::KernelClasses& classes_;
  const ProcessTrace& process_;
  const LaunchIndex launches_;
  const std::optional<ProcessTrace> with_calls_;
  std::optional<LaunchIndex> launches_with_calls_;
  std::vector<Interval> holes_;
};

}  // namespace nsys_explain::pipeline
