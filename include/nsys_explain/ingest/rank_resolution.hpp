#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// What the user says about ranks. Empty: nothing.
struct RankOverrides {
  /// Lines "PATTERN RANK" (pattern matches the file name or path; shell wildcards), optionally "PATTERN PID DEVICE
  /// RANK".
  struct Entry {
    std::string pattern;
    std::optional<std::int32_t> process_id, device_id;
    std::int32_t rank = 0;
  };
  std::vector<Entry> entries;
  std::string regex;  ///< first capture group is the rank; applied to the path
};

/// Parses a rank map file: one entry per line, '#' starts a comment. Throws std::invalid_argument with line number.
RankOverrides parse_rank_map(const std::string& text);

/// The trace ranks of one trace with every claim about their numbers, user overrides included.
/// trace_rank stays -1 until resolve_trace_ranks.
std::vector<TraceRankIdentity> identify_trace_ranks(const Trace& trace, const RankOverrides& overrides);

struct Resolution {
  std::vector<TraceRankIdentity> trace_ranks;  ///< unique numbers, sorted by trace_rank
  std::vector<Warning> warnings;               ///< conflicts between sources, ranks claimed twice, order of files used
};

/// Gives every trace rank of the run its number: each by its best claim; where two claim one number, or a claim is
/// missing, the whole run falls back to the next source that is complete and free of conflict, and says so.
/// A function of the set of identities: their order does not matter.
Resolution resolve_trace_ranks(std::vector<TraceRankIdentity> identities);

}  // namespace nsys_explain::ingest
