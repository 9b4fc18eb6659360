#include "ingest/session_checks.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "model/text.hpp"

namespace nsys_explain::ingest {
namespace {

constexpr Nanoseconds far_apart_ns = 3'600'000'000'000;

/// A session with what it covers.
struct Covered {
  const Session* session = nullptr;
  SessionExtent extent;
};

Nanoseconds duration_ns(const Covered& covered) {
  return covered.extent.recorded.end_ns - covered.extent.recorded.start_ns;
}

template <class Events>
void widen(Interval& interval, bool& any, const Events& events) {
  for (const auto& event : events) {
    const Nanoseconds end = std::max(event.start_ns, event.end_ns);  // an open range counts with its start
    interval.start_ns = any ? std::min(interval.start_ns, event.start_ns) : event.start_ns;
    interval.end_ns = any ? std::max(interval.end_ns, end) : end;
    any = true;
  }
}

Interval in_utc(const Covered& covered) {
  const Nanoseconds start_ns = covered.session->utc_start_ns == no_time ? 0 : covered.session->utc_start_ns;
  return {start_ns + covered.extent.recorded.start_ns, start_ns + covered.extent.recorded.end_ns};
}

Nanoseconds overlap_ns(const Interval& a, const Interval& b) {
  return std::max<Nanoseconds>(0, std::min(a.end_ns, b.end_ns) - std::max(a.start_ns, b.start_ns));
}

/// What was running when a part ends may end in the next one.
bool shows_another_time(const Covered& a, const Covered& b) {
  return 2 * overlap_ns(in_utc(a), in_utc(b)) <= std::min(duration_ns(a), duration_ns(b));
}

bool share_a_process(const SessionExtent& a, const SessionExtent& b) {
  return std::any_of(a.processes.begin(), a.processes.end(), [&](const CapturedProcess& process) {
    return std::binary_search(b.processes.begin(), b.processes.end(), process);
  });
}

bool is_one_session(const Covered& a, const Covered& b) {
  return !a.session->uuid.empty() && a.session->uuid == b.session->uuid;
}

/// A capture of a process of the same, known host that was captured before. What overlaps in time are two processes
/// with one number, as in containers.
bool is_captured_again(const Covered& a, const Covered& b) {
  if (a.session->host != b.session->host) return false;
  if (a.session->utc_start_ns == no_time || b.session->utc_start_ns == no_time) return false;
  return share_a_process(a.extent, b.extent) && shows_another_time(a, b);
}

/// Sessions of which only one can be analysed, in groups of two and more.
std::vector<std::vector<const Covered*>> exclusive_sessions(const std::vector<Covered>& sessions) {
  std::map<std::string, std::vector<const Covered*>> candidates;  // those of other hosts have nothing in common
  for (const Covered& covered : sessions) {
    if (!covered.session->host.empty()) candidates["host " + covered.session->host].push_back(&covered);
    if (!covered.session->uuid.empty()) candidates["session " + covered.session->uuid].push_back(&covered);
  }
  std::map<const Covered*, std::size_t> group_of;
  std::map<std::size_t, std::vector<const Covered*>> groups;
  for (const Covered& covered : sessions) {
    const std::size_t own = groups.size();
    group_of[&covered] = own;
    groups[own] = {&covered};
  }
  const auto join = [&](const Covered* a, const Covered* b) {
    const std::size_t kept = group_of.at(a), given_up = group_of.at(b);
    if (kept == given_up) return;
    for (const Covered* member : groups.at(given_up)) {
      group_of[member] = kept;
      groups[kept].push_back(member);
    }
    groups[given_up].clear();
  };
  for (const auto& [key, same] : candidates) {
    for (std::size_t i = 0; i < same.size(); ++i) {
      for (std::size_t k = i + 1; k < same.size(); ++k)
        if (is_one_session(*same[i], *same[k]) || is_captured_again(*same[i], *same[k])) join(same[i], same[k]);
    }
  }
  std::vector<std::vector<const Covered*>> result;
  for (auto& [number, group] : groups) {
    if (group.size() < 2) continue;
    std::sort(group.begin(), group.end());  // as `sessions`: by path
    result.push_back(std::move(group));
  }
  return result;
}

/// The longest of the sessions that show another time than one they cannot be analysed with; empty where there is none.
Interval reference_time(const std::vector<std::vector<const Covered*>>& groups) {
  Interval longest{0, 0};
  for (const auto& group : groups) {
    for (const Covered* one : group) {
      const bool is_part = std::any_of(group.begin(), group.end(), [&](const Covered* other) {
        return other != one && shows_another_time(*one, *other);
      });
      const Interval time = in_utc(*one);
      const auto is_better = [&] {
        const Nanoseconds length_ns = time.end_ns - time.start_ns, best_ns = longest.end_ns - longest.start_ns;
        return length_ns != best_ns ? length_ns > best_ns : time.start_ns < longest.start_ns;
      };
      if (is_part && is_better()) longest = time;
    }
  }
  return longest;
}

std::string why_left_out(const Covered& other, const Covered& kept) {
  const std::string path = shell_quoted(kept.session->path);
  if (!is_one_session(other, kept)) {
    return fmt::format(
        "is a capture at another time of a process that {} shows: it would count as a rank of its own that meets no other, so only that one is analysed; analyse each capture by itself",
        path);
  }
  const bool copy =
      other.extent.recorded == kept.extent.recorded && other.session->utc_start_ns == kept.session->utc_start_ns;
  return fmt::format("is {} profiling session in {}: its ranks would count twice, so only that one is analysed; {}",
                     copy ? "another copy of the" : "a different part of the", path,
                     copy ? "leave this one out" : "give one export of the whole session");
}

/// Of sessions that exclude each other all but one. `sessions` are sorted by path.
std::vector<InputReport> find_duplicates(const std::vector<Covered>& sessions) {
  const auto groups = exclusive_sessions(sessions);
  const Interval reference = reference_time(groups);
  std::vector<InputReport> duplicates;
  for (const auto& group : groups) {
    const auto rank = [&](const Covered* covered) {
      return std::pair(overlap_ns(in_utc(*covered), reference), duration_ns(*covered));
    };
    const Covered& kept = **std::max_element(group.begin(), group.end(), [&](const Covered* a, const Covered* b) {
      return rank(a) < rank(b);  // the first of the best
    });
    for (const Covered* other : group)
      if (other != &kept) duplicates.push_back({other->session->path, InputStatus::failed, why_left_out(*other, kept)});
  }
  std::sort(duplicates.begin(), duplicates.end(),
            [](const InputReport& a, const InputReport& b) { return a.path < b.path; });
  return duplicates;
}

/// Sessions apart from the main group by more than an hour.
std::vector<Warning> far_apart_warnings(std::vector<Covered> sessions) {
  std::erase_if(sessions, [](const Covered& covered) { return covered.session->utc_start_ns == no_time; });
  const auto start = [](const Covered& covered) {
    return covered.session->utc_start_ns + covered.extent.recorded.start_ns;
  };
  const auto end = [](const Covered& covered) {
    return covered.session->utc_start_ns + covered.extent.recorded.end_ns;
  };
  std::stable_sort(sessions.begin(), sessions.end(),
                   [&](const Covered& a, const Covered& b) { return start(a) < start(b); });
  std::vector<std::vector<Covered>> groups;
  Nanoseconds latest = 0;
  for (const auto& covered : sessions) {
    if (groups.empty() || start(covered) - latest > far_apart_ns) {
      groups.emplace_back();
      latest = end(covered);
    }
    groups.back().push_back(covered);
    latest = std::max(latest, end(covered));
  }
  if (groups.size() < 2) return {};
  const auto main =
      std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<std::string> outside;
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    if (group == main) continue;
    for (const auto& covered : *group) outside.push_back(covered.session->path);
  }
  const std::string first = *std::min_element(outside.begin(), outside.end());
  return {
      {Severity::data_loss, WarningSource::analysis, static_cast<std::int64_t>(outside.size()),
       fmt::format(
           "{} of {} traces (first: {}) were recorded more than an hour apart from the largest group: they are probably of another job, and collectives between them mean nothing; analyse one job at a time",
           outside.size(), sessions.size(), shell_quoted(first))}};
}

/// The size most traces agree on (then the larger).
std::optional<std::int32_t> common_size(const std::vector<Covered>& sessions, std::int32_t SessionExtent::*size_of) {
  std::map<std::int32_t, std::size_t> counts;
  for (const auto& covered : sessions)
    if (covered.extent.*size_of > 0) ++counts[covered.extent.*size_of];
  std::optional<std::int32_t> common;
  std::size_t most = 0;
  for (const auto& [size, count] : counts) {
    if (count >= most) common = size;
    most = std::max(most, count);
  }
  return common;
}

std::vector<Warning> world_size_warnings(const std::vector<Covered>& sessions, std::int32_t common) {
  std::int64_t others = 0;
  const Covered* first = nullptr;
  for (const auto& covered : sessions) {
    const std::int32_t size = covered.extent.largest_communicator;
    if (size == 0 || size == common) continue;
    if (++others == 1) first = &covered;
  }
  if (others == 0) return {};
  return {
      {Severity::data_loss, WarningSource::analysis, others,
       fmt::format(
           "the largest NCCL communicator has {} ranks in most traces, but not in {} (first: {}, {} ranks): they may be of another job, or recorded only after the job's communicator was made; check that the traces belong together",
           common, others, shell_quoted(first->session->path), first->extent.largest_communicator)}};
}

}  // namespace

SessionExtent session_extent(const Trace& trace) {
  SessionExtent extent;
  extent.world_size = trace.world_size;
  bool any = false;
  for (const auto& process : trace.processes) {
    for (const auto& device : process.devices) {
      extent.processes.push_back(
          {process.process_id, device.gpu_uuid.empty() ? fmt::format("device {}", device.device_id) : device.gpu_uuid});
      widen(extent.recorded, any, device.kernels);
      widen(extent.recorded, any, device.memory_operations);
      widen(extent.recorded, any, device.graph_launches);
    }
    widen(extent.recorded, any, process.api_calls);
    widen(extent.recorded, any, process.nvtx_ranges);
    for (const auto& call : process.nccl_calls)
      extent.largest_communicator = std::max(extent.largest_communicator, call.rank_count);
  }
  std::sort(extent.processes.begin(), extent.processes.end());
  return extent;
}

SessionChecks check_sessions(const std::vector<Session>& sessions, const std::vector<SessionExtent>& extents) {
  std::vector<Covered> all;
  all.reserve(sessions.size());
  for (std::size_t i = 0; i < sessions.size(); ++i)
    all.push_back({&sessions[i], i < extents.size() ? extents[i] : SessionExtent{}});
  std::stable_sort(all.begin(), all.end(),
                   [](const Covered& a, const Covered& b) { return a.session->path < b.session->path; });
  SessionChecks checks;
  checks.duplicates = find_duplicates(all);
  std::erase_if(all, [&](const Covered& covered) {
    return std::any_of(checks.duplicates.begin(), checks.duplicates.end(),
                       [&](const InputReport& duplicate) { return duplicate.path == covered.session->path; });
  });
  checks.warnings = far_apart_warnings(all);
  checks.world_size = common_size(all, &SessionExtent::largest_communicator);
  if (checks.world_size) {
    for (auto& warning : world_size_warnings(all, *checks.world_size)) checks.warnings.push_back(std::move(warning));
  } else {
    checks.world_size = common_size(all, &SessionExtent::world_size);
  }
  return checks;
}

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
