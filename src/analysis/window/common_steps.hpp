#pragma once

#include <cstdint>
#include <vector>

#include "analysis/window/run_parts.hpp"

/// Which steps the whole job analyses: every process tells its own, and all must mean the same ones, before anything is
/// matched. Numbers in ranges tell; else the ends of their last collectives, which differ alike in each step by the
/// clocks alone; else equal counts, else UTC.
namespace nsys_explain::analysis {

/// What all tool ranks hear of the steps of one process. Times are UTC.
struct ProcessSteps {
  StepSource source = StepSource::none;
  bool numbered = false;
  std::int64_t first_number = 0;
  std::vector<Nanoseconds> begin_ns;  ///< of the first 300 steps at most
  std::int64_t steps = 0;
  Nanoseconds end_ns = 0;  ///< as RecordedSteps::end_ns; likewise the others
  std::vector<float> own_length;
  Nanoseconds usual_ns = 0, lead_ns = 0, tail_ns = 0;  ///< as in RecordedSteps
  std::uint64_t communication_hash = 0;
  std::vector<std::int64_t> communications;  ///< launched before each of these steps began, and before the end
  std::vector<Nanoseconds> last_exit_ns;     ///< of each of these steps, as in RecordedSteps

  template <class Archive>
  void serialize(Archive& archive) {
    archive(source, numbered, first_number, begin_ns, steps, end_ns, own_length, usual_ns, lead_ns, tail_ns,
            communication_hash, communications, last_exit_ns);
  }
};

/// `start_ns`: UTC of trace time 0.
ProcessSteps tell_steps(const RecordedSteps& recorded, Nanoseconds start_ns);

/// What is to be analysed of a process.
struct CommonWindow {
  Interval time;  ///< UTC; open ends are the limits of Nanoseconds
  /// Where it begins and ends is told by what others did: after so many communication kernels were launched, and before
  /// the next; -1: by `time`.
  std::int64_t after_communications = -1, until_communications = -1;
  /// The step of the process that nothing of is analysed any more, since another process did not record it; -1: none.
  std::int64_t until_step = -1;
};

/// One for each process, in their order. Slow first steps of a job are those in which all are slow. A process without
/// steps among others is analysed while these are. Where the recording of no process goes on for longer than a step
/// before its first one, or after its last one, what lies there is a part of a step and belongs to them. Steps that
/// some processes did not record are left out where their recordings look alike and are not. Does not depend on the
/// order of the processes.
std::vector<CommonWindow> common_windows(const std::vector<ProcessSteps>& processes);

/// The same in trace time.
Interval window_in_trace(const CommonWindow& window, const RecordedSteps& recorded, Nanoseconds start_ns);

}  // namespace nsys_explain::analysis
