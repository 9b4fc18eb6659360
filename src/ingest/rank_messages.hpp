#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"

/// What resolve_trace_ranks says about its decisions. `identities` are in file order and `choices`, the claims their
/// numbers come from, are parallel to them.
namespace nsys_explain::ingest {

/// NCCL's payloads were set aside: `below` of their numbers are smaller than those of `reference`.
Warning subgroup_warning(std::int64_t below, RankSource reference);

/// Numbers that several trace ranks claim, communicators of different sizes, and trace ranks without a claim, as long
/// as there are claims at all.
std::vector<Warning> conflict_warnings(const std::vector<TraceRankIdentity>& identities,
                                       const std::vector<std::optional<RankClaim>>& best_claims);

/// One source numbered the run in place of the best claims.
Warning fallback_warning(const std::vector<std::optional<RankClaim>>& choices);

/// Most kept their claims, the rest was numbered after them.
Warning rest_warning(const std::vector<TraceRankIdentity>& identities,
                     const std::vector<std::optional<RankClaim>>& choices);

/// The run was numbered in file order.
Warning file_order_warning(const std::vector<TraceRankIdentity>& identities,
                           const std::vector<std::optional<RankClaim>>& choices);

/// Claims that say something else than the choice, one warning per pair of sources.
std::vector<Warning> disagreement_warnings(const std::vector<TraceRankIdentity>& identities,
                                           const std::vector<std::optional<RankClaim>>& choices);

/// Numbers that come from several sources.
std::vector<Warning> mixture_warnings(const std::vector<std::optional<RankClaim>>& choices);

/// Ranks of the job without a trace.
std::vector<Warning> coverage_warnings(const std::vector<std::optional<RankClaim>>& choices,
                                       std::optional<std::int32_t> world_size);

}  // namespace nsys_explain::ingest
