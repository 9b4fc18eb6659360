#pragma once

#include <string>
#include <vector>

#include "ingest/session_checks.hpp"
#include "nsys_explain/model/identity.hpp"

namespace nsys_explain::ingest {

/// Why the exports are not analysed together, and the commands that analyse each job by itself; empty where nothing
/// proves that they are of several jobs. It is proven where they fall into groups that were recorded one after the
/// other, or that tell world sizes of their own, and one rank is in several groups, but none twice in one. Ranks are
/// those that MPI or the environment tell, for all: NCCL counts them in groups, too. A user's rank map settles the
/// matter. `sessions`: analysed; `extents` are parallel to them. The order of `identities` does not matter.
std::string several_jobs_problem(const std::vector<Session>& sessions, const std::vector<SessionExtent>& extents,
                                 const std::vector<TraceRankIdentity>& identities);

}  // namespace nsys_explain::ingest
