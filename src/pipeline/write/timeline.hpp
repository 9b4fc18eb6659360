#pragma once

#include <iosfwd>

#include "pipeline/investigate/investigation.hpp"
#include "pipeline/tool_rank/job.hpp"

namespace nsys_explain::pipeline {

/// Part of the run that the timeline shows (job time), and how much of it.
struct TimelineRequest {
  std::string path;
  Interval window;
  std::int64_t most_events = 0;
};

/// Nothing where no timeline was asked for. Throws std::runtime_error: problem, why it matters, what to do.
std::optional<TimelineRequest> read_timeline_request(const JobSpecification& job);

/// Collective: reads the traces again and writes the timeline of all trace ranks on the job clock, in rounds, so that
/// rank 0 holds a bounded part of it. Where it has more events than were asked for, it ends earlier, for all trace
/// ranks at the same time, and says so in the file and on `problems`. Fails on all ranks alike
/// (exchange::AgreedFailure).
void write_timeline(const exchange::Communicator& communicator, const TimelineRequest& request, const Inquiry& inquiry,
                    const JobReport& report, std::ostream& problems);

}  // namespace nsys_explain::pipeline
