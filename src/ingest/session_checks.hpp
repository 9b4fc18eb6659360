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

  template <class Archive>
  void serialize(Archive& archive) {
    archive(recorded.start_ns, recorded.end_ns, largest_communicator, world_size, processes);
  }
};

SessionExtent session_extent(const Trace& trace);

struct SessionChecks {
  std::vector<InputReport> duplicates;  ///< to be left out of the analysis as failed inputs; sorted by path
  std::vector<Warning> warnings;        ///< e.g. traces that look like those of another job
  std::optional<std::int32_t>
      world_size;  ///< ranks of the largest communicator most traces agree on, else of their environments
};

/// Do these sessions belong together? `extents` is parallel to `sessions`, or empty where unknown.
///  - Two files with one session UUID are one session exported twice, or two parts of it. Two captures of one process
///    (host, process and GPU agree) after each other are a capture that was started again. Of such files one is
///    analysed: two would be two trace ranks that never meet. Where they show different times, the one that lies most
///    in the longest of all such captures, so that all ranks show the same one; then the one that covers more time,
///    then the first by path.
///  - A session apart from the others by more than an hour of UTC is probably another job's: a warning.
///  - Largest communicators of different sizes are a sign of different jobs, too: a warning.
/// A function of the set of sessions: their order does not matter.
SessionChecks check_sessions(const std::vector<Session>& sessions, const std::vector<SessionExtent>& extents = {});

/// Why the exports are not analysed together, and the commands that analyse each job by itself; empty where nothing
/// proves that they are of several jobs. It is proven where they fall into groups that were recorded one after the
/// other, or that tell world sizes of their own, and one rank is in several groups, but none twice in one. Ranks are
/// those that MPI or the environment tell, for all: NCCL counts them in groups, too. A user's rank map settles the
/// matter. `sessions`: analysed; `extents` are parallel to them. The order of `identities` does not matter.
std::string several_jobs_problem(const std::vector<Session>& sessions, const std::vector<SessionExtent>& extents,
                                 const std::vector<TraceRankIdentity>& identities);

}  // namespace nsys_explain::ingest
