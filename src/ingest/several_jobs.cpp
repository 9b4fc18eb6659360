#include "ingest/several_jobs.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "model/shell_quoted.hpp"

namespace nsys_explain::ingest {
namespace {

/// By session, from 0 on in the order in which they come first.
using Groups = std::vector<std::size_t>;

std::size_t count_of(const Groups& groups) {
  return groups.empty() ? 0 : *std::max_element(groups.begin(), groups.end()) + 1;
}

Groups numbered_in_order(const Groups& groups) {
  std::map<std::size_t, std::size_t> numbers;
  Groups result;
  for (const std::size_t group : groups) result.push_back(numbers.try_emplace(group, numbers.size()).first->second);
  return result;
}

/// Those that overlap in time are together, by way of others, too. All together where some time is not known.
Groups by_time(const std::vector<Session>& sessions, const std::vector<SessionExtent>& extents) {
  std::vector<std::size_t> order(sessions.size());
  std::iota(order.begin(), order.end(), 0);
  const auto start_ns = [&](std::size_t s) { return sessions[s].utc_start_ns + extents[s].recorded.start_ns; };
  for (const std::size_t s : order)
    if (sessions[s].utc_start_ns == no_time || extents[s].recorded.end_ns <= extents[s].recorded.start_ns)
      return Groups(sessions.size(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return start_ns(a) < start_ns(b); });
  Groups groups(sessions.size());
  Nanoseconds until_ns = no_time;  // below all
  std::size_t group = 0;
  for (const std::size_t s : order) {
    if (until_ns != no_time && start_ns(s) > until_ns) ++group;
    groups[s] = group;
    until_ns = std::max(until_ns, sessions[s].utc_start_ns + extents[s].recorded.end_ns);
  }
  return numbered_in_order(groups);
}

/// All together where some do not tell it.
Groups by_world_size(const std::vector<SessionExtent>& extents) {
  Groups groups;
  for (const SessionExtent& extent : extents) {
    if (extent.world_size <= 0) return Groups(extents.size(), 0);
    groups.push_back(static_cast<std::size_t>(extent.world_size));
  }
  return numbered_in_order(groups);
}

/// -1: not told.
std::int32_t told_rank(const TraceRankIdentity& identity) {
  for (const RankSource source : {RankSource::mpi_ranks, RankSource::environment})
    for (const RankClaim& claim : identity.claims)
      if (claim.source == source) return claim.rank;
  return -1;
}

/// A rank that several groups hold, and no group a rank twice.
std::optional<std::int32_t> rank_in_several(const Groups& groups, const std::map<std::string, std::size_t>& session_of,
                                            const std::vector<TraceRankIdentity>& identities) {
  std::map<std::int32_t, std::set<std::size_t>> groups_of_rank;
  for (const TraceRankIdentity& identity : identities) {
    const auto session = session_of.find(identity.key.path);
    const std::int32_t rank = told_rank(identity);
    if (rank < 0 || session == session_of.end()) return std::nullopt;
    if (!groups_of_rank[rank].insert(groups[session->second]).second) return std::nullopt;
  }
  for (const auto& [rank, holders] : groups_of_rank)
    if (holders.size() > 1) return rank;
  return std::nullopt;
}

std::string command_for(std::size_t group, const Groups& groups, const std::vector<Session>& sessions) {
  constexpr std::size_t most = 32;
  std::string files;
  std::size_t count = 0;
  for (std::size_t s = 0; s < sessions.size(); ++s)
    if (groups[s] == group && count++ < most) files += " " + shell_quoted(sessions[s].path);
  if (count > most) files += fmt::format(" (and {} more)", count - most);
  return fmt::format("nsys-explain-mpi{} --out report-{}", files, group + 1);
}

}  // namespace

std::string several_jobs_problem(const std::vector<Session>& sessions, const std::vector<SessionExtent>& extents,
                                 const std::vector<TraceRankIdentity>& identities) {
  std::map<std::string, std::size_t> session_of;
  for (std::size_t s = 0; s < sessions.size(); ++s) session_of[sessions[s].path] = s;
  const bool by_user = std::any_of(identities.begin(), identities.end(), [](const TraceRankIdentity& identity) {
    return std::any_of(identity.claims.begin(), identity.claims.end(),
                       [](const RankClaim& claim) { return claim.source == RankSource::user; });
  });
  if (by_user) return {};
  using Division = std::pair<std::string_view, Groups>;
  for (const auto& [why, groups] : {Division{"were recorded one after the other", by_time(sessions, extents)},
                                    Division{"tell different world sizes", by_world_size(extents)}}) {
    const std::size_t jobs = count_of(groups);
    const std::optional<std::int32_t> rank = jobs < 2 ? std::nullopt : rank_in_several(groups, session_of, identities);
    if (!rank) continue;
    std::string commands;
    for (std::size_t group = 0; group < jobs; ++group)
      commands += (group == 0 ? "" : "; ") + command_for(group, groups, sessions);
    return fmt::format(
        "the exports are of {} jobs: they {}, and rank {} is in several of them; ranks of different jobs never meet, so that nothing could be told of either; analyse each by itself: {}",
        jobs, why, *rank, commands);
  }
  return {};
}

}  // namespace nsys_explain::ingest
