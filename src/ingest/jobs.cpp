#include "ingest/jobs.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "ingest/file_names.hpp"
#include "ingest/trace_content.hpp"
#include "model/text.hpp"

namespace nsys_explain::ingest {
namespace {

/// Clocks of hosts may be wrong by a time zone's worth of settings, but hardly ever by hours where they run a job.
constexpr Nanoseconds apart_between_hosts_ns = 3'600'000'000'000;
/// Sessions of one host relate their times to UTC one by one.
constexpr Nanoseconds apart_on_a_host_ns = 1'000'000'000;

bool has_time(const JobUnit& unit) {
  return unit.recorded_utc.end_ns > unit.recorded_utc.start_ns;
}

/// Groups by number, from 0 on. `joins(a, b)` for neighbours in time: `b` begins after all before it.
template <class Limit>
std::map<std::size_t, std::size_t> spells_of(std::vector<std::size_t> some, std::span<const JobUnit> units,
                                             const Limit& limit_ns) {
  std::erase_if(some, [&](std::size_t u) { return !has_time(units[u]); });
  std::stable_sort(some.begin(), some.end(), [&](std::size_t a, std::size_t b) {
    return units[a].recorded_utc.start_ns < units[b].recorded_utc.start_ns;
  });
  std::map<std::size_t, std::size_t> spells;
  std::size_t spell = 0, latest = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const JobUnit &unit = units[some[i]], &last = units[some[latest]];
    if (i > 0 && unit.recorded_utc.start_ns - last.recorded_utc.end_ns > limit_ns(last, unit)) ++spell;
    if (i == 0 || unit.recorded_utc.end_ns > last.recorded_utc.end_ns) latest = i;
    spells[some[i]] = spell;
  }
  return spells;
}

using ClaimedRank = std::tuple<RankSource, std::string, std::int32_t>;

/// What processes that belong together tell of their job.
struct Evidence {
  std::set<ClaimedRank> claims;
  std::map<std::string, std::set<std::uint64_t>> launchers;
  std::set<std::int32_t> world_sizes;
  std::map<std::string, std::set<std::size_t>> spells;  ///< by host
  std::set<std::size_t> eras;
  std::vector<std::size_t> units;  ///< ascending
  std::int32_t trace_ranks = 0;
  std::int64_t collectives = 0;
  Interval time{0, 0};

  void add(const Evidence& other) {
    claims.insert(other.claims.begin(), other.claims.end());
    for (const auto& [variable, ids] : other.launchers) launchers[variable].insert(ids.begin(), ids.end());
    world_sizes.insert(other.world_sizes.begin(), other.world_sizes.end());
    for (const auto& [host, of_host] : other.spells) spells[host].insert(of_host.begin(), of_host.end());
    eras.insert(other.eras.begin(), other.eras.end());
    units.insert(units.end(), other.units.begin(), other.units.end());
    std::sort(units.begin(), units.end());
    trace_ranks += other.trace_ranks;
    collectives += other.collectives;
    if (other.time.end_ns <= other.time.start_ns) return;
    const bool is_first = time.end_ns <= time.start_ns;
    time = is_first ? other.time
                    : Interval{std::min(time.start_ns, other.time.start_ns), std::max(time.end_ns, other.time.end_ns)};
  }
};

template <class Value>
bool have_one_in_common(const std::set<Value>& a, const std::set<Value>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Value& value) { return b.contains(value); });
}

template <class Value>
bool differ(const std::set<Value>& a, const std::set<Value>& b) {
  return !a.empty() && !b.empty() && !have_one_in_common(a, b);
}

/// What contradicts that they are of one job; empty: nothing does.
std::string contradiction(const Evidence& a, const Evidence& b) {
  for (const ClaimedRank& claim : a.claims)
    if (b.claims.contains(claim)) return fmt::format("rank {} is in both", std::get<2>(claim));
  bool is_one_launch = false;
  for (const auto& [variable, ids] : a.launchers) {
    const auto others = b.launchers.find(variable);
    if (others == b.launchers.end()) continue;
    if (differ(ids, others->second)) return fmt::format("their {} differ", variable);
    is_one_launch = is_one_launch || have_one_in_common(ids, others->second);
  }
  if (differ(a.world_sizes, b.world_sizes))
    return fmt::format("their world sizes are {} and {}", *a.world_sizes.begin(), *b.world_sizes.begin());
  for (const auto& [host, of_host] : a.spells) {
    const auto others = b.spells.find(host);
    if (others != b.spells.end() && differ(of_host, others->second)) return "they ran one after the other";
  }
  return !is_one_launch && differ(a.eras, b.eras) ? "they ran at different times" : "";
}

bool has_user_ranks(std::span<const JobUnit> units) {
  return std::any_of(units.begin(), units.end(), [](const JobUnit& unit) {
    return std::any_of(unit.claims.begin(), unit.claims.end(),
                       [](const RankClaim& claim) { return claim.source == RankSource::user; });
  });
}

/// MPI's ranks, and those of variables that tell ranks apart: of one that is alike everywhere each process may have got
/// its own from elsewhere, unless a world size comes with it.
std::set<ClaimedRank> claims_of(const JobUnit& unit, const std::map<std::string, std::set<std::int32_t>>& numbers) {
  std::set<ClaimedRank> claims;
  for (const RankClaim& claim : unit.claims) {
    const bool is_of_mpi = claim.source == RankSource::mpi_ranks;
    const bool is_of_environment =
        claim.source == RankSource::environment && (numbers.at(claim.detail).size() > 1 || unit.world_size > 0);
    if (is_of_mpi || is_of_environment) claims.insert({claim.source, is_of_mpi ? "" : claim.detail, claim.rank});
  }
  return claims;
}

/// What each unit tells.
std::vector<Evidence> evidence_of(std::span<const JobUnit> units) {
  std::map<std::string, std::set<std::int32_t>> numbers;  // by variable
  std::map<std::string, std::vector<std::size_t>> of_host;
  std::vector<std::size_t> all(units.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const RankClaim& claim : units[u].claims)
      if (claim.source == RankSource::environment) numbers[claim.detail].insert(claim.rank);
    if (!units[u].host.empty()) of_host[units[u].host].push_back(u);
  }
  std::vector<Evidence> evidence(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    Evidence& one = evidence[u];
    one.claims = claims_of(units[u], numbers);
    for (const LauncherId& id : units[u].launchers) one.launchers[id.variable].insert(id.hash);
    if (units[u].world_size > 0) one.world_sizes.insert(units[u].world_size);
    one.units = {u};
    one.trace_ranks = units[u].trace_ranks;
    one.collectives = units[u].collectives;
    one.time = units[u].recorded_utc;
  }
  for (const auto& [u, era] :
       spells_of(all, units, [](const JobUnit&, const JobUnit&) { return apart_between_hosts_ns; }))
    evidence[u].eras.insert(era);
  const auto limit_ns = [](const JobUnit& a, const JobUnit& b) {
    return a.path == b.path ? Nanoseconds{0} : apart_on_a_host_ns;
  };
  for (const auto& [host, some] : of_host)
    for (const auto& [u, spell] : spells_of(some, units, limit_ns)) evidence[u].spells[host].insert(spell);
  return evidence;
}

/// Units that communicators join, in the order of their first ones.
std::vector<Evidence> joined_by_communicators(std::span<const JobUnit> units) {
  std::vector<std::size_t> parent(units.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto top = [&](std::size_t u) {
    while (parent[u] != u) u = parent[u] = parent[parent[u]];
    return u;
  };
  struct Members {
    std::vector<std::size_t> units;
    std::set<std::int32_t> ranks;
    bool is_one = true;  ///< no two members have one rank
  };
  std::map<std::uint64_t, Members> communicators;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const CommunicatorMember& member : units[u].communicators) {
      Members& members = communicators[member.communicator];
      members.units.push_back(u);
      members.is_one = members.is_one && (member.rank < 0 || members.ranks.insert(member.rank).second);
    }
  }
  for (const auto& [communicator, members] : communicators) {
    for (std::size_t m = 1; m < members.units.size() && members.is_one; ++m) {
      const std::size_t a = top(members.units.front()), b = top(members.units[m]);
      parent[std::max(a, b)] = std::min(a, b);
    }
  }
  const std::vector<Evidence> evidence = evidence_of(units);
  std::map<std::size_t, Evidence> groups;
  for (std::size_t u = 0; u < units.size(); ++u) groups[top(u)].add(evidence[u]);
  std::vector<Evidence> joined;
  for (auto& [lowest, group] : groups) joined.push_back(std::move(group));
  return joined;
}

/// By size; of equal ones the first by path, as units are sorted.
bool is_larger(const Evidence& a, const Evidence& b) {
  const auto size = [](const Evidence& one) {
    return std::tuple(one.trace_ranks, one.collectives, one.time.end_ns - one.time.start_ns);
  };
  return size(a) != size(b) ? size(a) > size(b) : a.units.front() < b.units.front();
}

std::size_t common_start(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

/// How well a group fits a job that it does not contradict: less is better.
using Distance = std::tuple<Nanoseconds, std::ptrdiff_t, Nanoseconds>;

Distance distance(const Evidence& group, const Evidence& job, std::span<const JobUnit> units) {
  const bool have_times = group.time.end_ns > group.time.start_ns && job.time.end_ns > job.time.start_ns;
  const Nanoseconds apart_ns =
      have_times
          ? std::max({Nanoseconds{0}, group.time.start_ns - job.time.end_ns, job.time.start_ns - group.time.end_ns})
          : 0;
  std::size_t alike = 0;
  for (const std::size_t u : job.units)
    alike = std::max(alike, common_start(units[u].path, units[group.units.front()].path));
  const Nanoseconds starts_ns = have_times ? std::abs(group.time.start_ns - job.time.start_ns) : 0;
  return {apart_ns, -static_cast<std::ptrdiff_t>(alike), starts_ns};
}

/// Groups that contradict each other begin a job each; then every other one goes where it fits best.
std::vector<Evidence> put_together(std::vector<Evidence> groups, std::span<const JobUnit> units) {
  std::stable_sort(groups.begin(), groups.end(), [](const Evidence& a, const Evidence& b) {
    return a.trace_ranks != b.trace_ranks ? a.trace_ranks > b.trace_ranks : a.units.front() < b.units.front();
  });
  std::vector<Evidence> jobs;
  std::vector<const Evidence*> rest;
  for (const Evidence& group : groups) {
    const bool is_another =
        std::all_of(jobs.begin(), jobs.end(), [&](const Evidence& job) { return !contradiction(group, job).empty(); });
    if (is_another) {
      jobs.push_back(group);
    } else {
      rest.push_back(&group);
    }
  }
  for (const Evidence* group : rest) {
    Evidence* best = nullptr;
    for (Evidence& job : jobs) {
      if (!contradiction(*group, job).empty()) continue;
      if (best == nullptr || distance(*group, job, units) < distance(*group, *best, units)) best = &job;
    }
    if (best != nullptr) {
      best->add(*group);
    } else {
      jobs.push_back(*group);
    }
  }
  return jobs;
}

}  // namespace

std::vector<ProcessFacts> facts_of_processes(const Trace& trace, std::span<const std::int64_t> kernels) {
  std::vector<ProcessFacts> facts;
  for (std::size_t p = 0; p < trace.processes.size(); ++p) {
    const ProcessTrace& process = trace.processes[p];
    ProcessFacts& one = facts.emplace_back();
    one.global_pid = process.global_pid;
    one.process_id = process.process_id;
    one.recorded = recorded_interval(process);
    std::map<std::uint64_t, std::set<std::int32_t>> communicators;
    std::int64_t operations = 0;
    for (const NcclCall& call : process.nccl_calls) {
      one.largest_communicator = std::max(one.largest_communicator, call.rank_count);
      operations += call.function <= NcclFunction::recv ? 1 : 0;
      if (call.communicator == 0 || trace.is_of_pytorch) continue;
      std::set<std::int32_t>& ranks = communicators[call.communicator];
      if (call.rank >= 0) ranks.insert(call.rank);
    }
    for (const auto& [communicator, ranks] : communicators)
      one.communicators.push_back({communicator, ranks.size() == 1 ? *ranks.begin() : -1});
    if (!trace.is_of_pytorch) one.runs = runs_of(process);
    one.collectives = std::max({kernels[p], operations, std::ssize(process.mpi_calls)});
  }
  return facts;
}

std::vector<JobUnit> units_of(const std::vector<TraceRankIdentity>& ranks, const Session& session,
                              const SessionExtent& extent, const std::vector<ProcessFacts>& processes) {
  std::map<std::uint64_t, JobUnit> units;
  for (const TraceRankIdentity& rank : ranks) {
    const auto [known, is_new] = units.try_emplace(rank.key.global_pid);
    JobUnit& unit = known->second;
    unit.claims.insert(unit.claims.end(), rank.claims.begin(), rank.claims.end());
    if (!is_new) {
      ++unit.trace_ranks;
      continue;
    }
    unit.path = rank.key.path;
    unit.global_pid = rank.key.global_pid;
    unit.process_id = rank.process_id;
    unit.host = session.host;
    unit.world_size = extent.world_size;
    unit.launchers = extent.launchers;
    const auto facts = std::find_if(processes.begin(), processes.end(), [&](const ProcessFacts& process) {
      return process.global_pid == rank.key.global_pid;
    });
    if (facts == processes.end()) continue;
    unit.communicators = facts->communicators;
    unit.collectives = facts->collectives;
    if (session.utc_start_ns != no_time)
      unit.recorded_utc = {session.utc_start_ns + facts->recorded.start_ns,
                           session.utc_start_ns + facts->recorded.end_ns};
  }
  std::vector<JobUnit> sorted;
  for (auto& [process, unit] : units) sorted.push_back(std::move(unit));
  return sorted;
}

std::vector<Job> divide_into_jobs(std::span<const JobUnit> units) {
  if (units.empty()) return {};
  std::vector<Evidence> jobs = joined_by_communicators(units);
  if (has_user_ranks(units)) {
    for (std::size_t g = 1; g < jobs.size(); ++g) jobs.front().add(jobs[g]);
    jobs.resize(1);
  } else {
    jobs = put_together(std::move(jobs), units);
  }
  std::stable_sort(jobs.begin(), jobs.end(), is_larger);
  std::vector<Job> result;
  for (const Evidence& job : jobs)
    result.push_back({job.units, job.trace_ranks, result.empty() ? "" : contradiction(jobs.front(), job)});
  return result;
}

namespace {

std::set<std::string> paths_of(const Job& job, std::span<const JobUnit> units) {
  std::set<std::string> paths;
  for (const std::size_t u : job.units) paths.insert(units[u].path);
  return paths;
}

std::string name_in_folder(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

std::string command_for(std::size_t job, std::span<const Job> jobs, std::span<const JobUnit> units) {
  constexpr std::size_t most = 32;
  const std::set<std::string> paths = paths_of(jobs[job], units);
  std::string command = "nsys-explain-mpi";
  std::size_t count = 0;
  for (const std::string& path : paths)
    if (count++ < most) command += ' ' + shell_quoted(path);
  if (count > most) command += fmt::format(" (and {} more)", count - most);
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    if (other == job || !have_one_in_common(paths, paths_of(jobs[other], units))) continue;
    const JobUnit& first = units[jobs[job].units.front()];
    command += " --job-of " + shell_quoted(fmt::format("{}:{}", first.path, first.process_id));
    break;
  }
  return fmt::format("{} --out report-{}", command, job + 1);
}

std::ptrdiff_t job_of(const std::string& name, std::span<const Job> jobs, std::span<const JobUnit> units) {
  const auto is_meant = [&](const JobUnit& unit, const auto& path_as) {
    const std::string path = path_as(unit.path);
    return name == path || name == fmt::format("{}:{}", path, unit.process_id);
  };
  for (const auto& path_as :
       {+[](const std::string& path) { return path; }, +[](const std::string& path) { return name_in_folder(path); }}) {
    std::set<std::string> meant;
    std::ptrdiff_t found = -1;
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      for (const std::size_t u : jobs[job].units) {
        if (!is_meant(units[u], path_as)) continue;
        meant.insert(units[u].path);
        if (found < 0) found = static_cast<std::ptrdiff_t>(job);
      }
    }
    if (meant.size() == 1) return found;
  }
  return -1;
}

}  // namespace nsys_explain::ingest
