#include "pipeline/read/agreed_windows.hpp"

#include <iterator>
#include <string>
#include <utility>

#include "analysis/window/common_steps.hpp"
#include "clock/level_zero.hpp"
#include "pipeline/run/pack.hpp"

namespace nsys_explain::pipeline {

AgreedWindows agree_on_windows(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces) {
  std::vector<analysis::ProcessSteps> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const auto& [process, steps] : trace.recorded_steps)
      mine.push_back(analysis::tell_steps(steps, clock::session_start_ns(trace.facts.session, 0)));
  }
  const std::string bytes = pack(mine);
  const auto gathered = communicator.all_gather(std::span<const char>(bytes));
  std::vector<analysis::ProcessSteps> all;
  std::size_t first = 0;  // of this tool rank
  for (int r = 0; r < communicator.size(); ++r) {
    if (r == communicator.rank()) first = all.size();
    const std::span<const char> part = gathered.of(r);
    auto told = unpack<std::vector<analysis::ProcessSteps>>(std::string_view(part.data(), part.size()));
    std::move(told.begin(), told.end(), std::back_inserter(all));
  }
  const std::vector<analysis::CommonWindow> windows = analysis::common_windows(all);
  AgreedWindows differing;
  for (LocalTrace& trace : local_traces) {
    analysis::ProcessWindows agreed;
    bool differs = false;
    for (const auto& [process, steps] : trace.recorded_steps) {
      const Interval window =
          analysis::window_in_trace(windows[first++], steps, clock::session_start_ns(trace.facts.session, 0));
      const Interval& own = trace.windows.at(process);
      // Where nothing was recorded between both, they are the same.
      const bool begins_alike =
          window.start_ns == own.start_ns || (steps.source == analysis::StepSource::none &&
                                              window.start_ns > steps.cut_off_ns && window.start_ns < own.start_ns);
      const bool ends_alike = window.end_ns == own.end_ns;
      differs = differs || !begins_alike || !ends_alike;
      agreed[process] = window;
    }
    if (differs) differing[trace.facts.input.path] = std::move(agreed);
    trace.recorded_steps.clear();
  }
  return differing;
}

}  // namespace nsys_explain::pipeline
