#pragma once

#include <optional>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// A process with work on a GPU: what tells on one host that two captures are of one run of a program.
struct CapturedProcess {
  std::int32_t process_id = 0;
  std::string gpu;  ///< UUID; the CUDA ordinal where the export does not tell

  friend bool operator==(const CapturedProcess&, const CapturedProcess&) = default;
  friend bool operator<(const CapturedProcess& a, const CapturedProcess& b) {
    return std::tie(a.process_id, a.gpu) < std::tie(b.process_id, b.gpu);
  }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(process_id, gpu);
  }
};

/// What one trace covers.
struct SessionExtent {
  Interval recorded;                       ///< first start to last end of its events, trace time; empty: no events
  std::int32_t largest_communicator = 0;   ///< ranks of the largest NCCL communicator made in it; 0: none seen
  std::int32_t world_size = 0;             ///< ranks of the job as its environment says; 0: it does not
  std::vector<CapturedProcess> processes;  ///< sorted
  std::uint64_t digest = 0;                ///< of processes, devices and what ran on them; 0: nothing did
  std::vector<LauncherId> launchers = {};  ///< by variable

  template <class Archive>
  void serialize(Archive& archive) {
    archive(recorded.start_ns, recorded.end_ns, largest_communicator, world_size, processes, digest, launchers);
  }
};

SessionExtent session_extent(const Trace& trace);

/// From the first start to the last end of its events on GPUs, calls and ranges; empty: there are none.
Interval recorded_interval(const ProcessTrace& process);

struct SessionChecks {
  std::vector<InputReport> duplicates;  ///< to be left out of the analysis as failed inputs; sorted by path
  std::vector<Warning> warnings;        ///< e.g. communicators of another size
  std::optional<std::int32_t>
      world_size;  ///< ranks of the largest communicator most traces agree on, else of their environments
};

/// Do these sessions belong together? `extents` is parallel to `sessions`, or empty where unknown.
///  - Two files of one host with the same events of the same processes at the same UTC are copies, in whatever format.
///    Two with one session UUID are one session exported twice, or two parts of it; parts with other processes each are
///    no such two. Two captures of one process (host, process and GPU agree) after each other are a capture that was
///    started again. Of such files one is analysed: two would be two trace ranks that never meet. Where they show
///    different times, the one that lies most in the longest of all such captures, so that all ranks show the same one;
///    then the one that covers more time, then the first by path.
///  - Largest communicators of different sizes are a sign of different jobs: a warning.
/// A function of the set of sessions: their order does not matter.
SessionChecks check_sessions(const std::vector<Session>& sessions, const std::vector<SessionExtent>& extents = {});

}  // namespace nsys_explain::ingest
