#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// Why a device had nothing to do (docs/method.md, Idle gaps). A gap is a time without any GPU activity between the
/// first and the last one; the gaps add up to idle_ns of the budget.
namespace nsys_explain::analysis {

/// `launch_starved`: the call that launched the next activity began after the gap did: the host was late.
/// `dependency_stalled`: it was launched in time, behind a wait for an event of another stream.
/// `other`: neither, or the launching call is not in the trace.
enum class IdleCause : std::uint8_t { launch_starved, dependency_stalled, other };
inline constexpr std::size_t idle_cause_count = 3;

std::string_view idle_cause_name(IdleCause cause);

/// Tables `idle_causes` (one row per cause: how many gaps, their lengths, share of the window) and `idle_gaps` (the
/// longest 200 gaps by start, with what ended them).
std::vector<Table> idle_tables(const RankEvents& events);

}  // namespace nsys_explain::analysis
