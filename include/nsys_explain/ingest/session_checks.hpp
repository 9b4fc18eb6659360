#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// What one trace covers.
struct SessionExtent {
  Interval recorded;                      ///< first start to last end of its events, trace time; empty: no events
  std::int32_t largest_communicator = 0;  ///< ranks of the largest NCCL communicator made in it; 0: none seen

  template <class Archive>
  void serialize(Archive& archive) {
    archive(recorded.start_ns, recorded.end_ns, largest_communicator);
  }
};

SessionExtent session_extent(const Trace& trace);

struct SessionChecks {
  std::vector<InputReport> duplicates;     ///< to be left out of the analysis as failed inputs; sorted by path
  std::vector<Warning> warnings;           ///< e.g. traces that look like those of another job
  std::optional<std::int32_t> world_size;  ///< ranks of the largest communicator most traces agree on, where seen
};

/// Do these sessions belong together? `extents` is parallel to `sessions`, or empty where unknown.
///  - Two files with one session UUID are the same session exported twice. The one that covers more time is analysed,
///    then the first by path.
///  - A session apart from the others by more than an hour of UTC is probably another job's: a warning.
///  - Largest communicators of different sizes are a sign of different jobs, too: a warning.
/// A function of the set of sessions: their order does not matter.
SessionChecks check_sessions(const std::vector<Session>& sessions, const std::vector<SessionExtent>& extents = {});

}  // namespace nsys_explain::ingest
