#include "nsys_explain/ingest/session_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "nsys_explain/ingest/export_advice.hpp"

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

template <class Event>
void widen(Interval& interval, bool& any, const std::vector<Event>& events) {
  for (const Event& event : events) {
    const Nanoseconds end = std::max(event.start_ns, event.end_ns);  // an open range counts with its start
    interval.start_ns = any ? std::min(interval.start_ns, event.start_ns) : event.start_ns;
    interval.end_ns = any ? std::max(interval.end_ns, end) : end;
    any = true;
  }
}

/// Sessions of one UUID: all but the one that covers most are duplicates. `sessions` are sorted by path.
std::vector<InputReport> find_duplicates(const std::vector<Covered>& sessions) {
  std::map<std::string, std::vector<const Covered*>> by_uuid;
  for (const auto& covered : sessions) {
    if (!covered.session->uuid.empty()) by_uuid[covered.session->uuid].push_back(&covered);
  }
  std::vector<InputReport> duplicates;
  for (const auto& [uuid, same] : by_uuid) {
    const Covered& kept = **std::max_element(same.begin(), same.end(), [](const Covered* a, const Covered* b) {
      return duration_ns(*a) < duration_ns(*b);  // the first of the longest
    });
    for (const Covered* other : same) {
      if (other == &kept) continue;
      const bool copy =
          other->extent.recorded == kept.extent.recorded && other->session->utc_start_ns == kept.session->utc_start_ns;
      duplicates.push_back(
          {other->session->path, InputStatus::failed,
           fmt::format("is {} profiling session in {}: its ranks would count twice, so only that one is analysed; {}",
                       copy ? "another copy of the" : "a different part of the", shell_quoted(kept.session->path),
                       copy ? "leave this one out" : "give one export of the whole session")});
    }
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
  return {{Severity::data_loss, WarningSource::analysis, static_cast<std::int64_t>(outside.size()),
           fmt::format("{} of {} traces (first: {}) were recorded more than an hour apart from the largest group: they "
                       "are probably of another job, and collectives between them mean nothing; analyse one job at a "
                       "time",
                       outside.size(), sessions.size(), shell_quoted(first))}};
}

/// How many traces saw a communicator of which size as their largest, and the size most agree on (then the larger).
std::optional<std::int32_t> common_world_size(const std::vector<Covered>& sessions) {
  std::map<std::int32_t, std::size_t> counts;
  for (const auto& covered : sessions) {
    if (covered.extent.largest_communicator > 0) ++counts[covered.extent.largest_communicator];
  }
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
       fmt::format("the largest NCCL communicator has {} ranks in most traces, but not in {} (first: {}, {} ranks): "
                   "they may be of another job, or recorded only after the job's communicator was made; check "
                   "that the traces belong together",
                   common, others, shell_quoted(first->session->path), first->extent.largest_communicator)}};
}

}  // namespace

SessionExtent session_extent(const Trace& trace) {
  SessionExtent extent;
  bool any = false;
  for (const auto& process : trace.processes) {
    for (const auto& device : process.devices) {
      widen(extent.recorded, any, device.kernels);
      widen(extent.recorded, any, device.memory_operations);
      widen(extent.recorded, any, device.graph_launches);
    }
    widen(extent.recorded, any, process.api_calls);
    widen(extent.recorded, any, process.nvtx_ranges);
    for (const auto& call : process.nccl_calls) {
      extent.largest_communicator = std::max(extent.largest_communicator, call.rank_count);
    }
  }
  return extent;
}

SessionChecks check_sessions(const std::vector<Session>& sessions, const std::vector<SessionExtent>& extents) {
  std::vector<Covered> all;
  all.reserve(sessions.size());
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    all.push_back({&sessions[i], i < extents.size() ? extents[i] : SessionExtent{}});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Covered& a, const Covered& b) { return a.session->path < b.session->path; });
  SessionChecks checks;
  checks.duplicates = find_duplicates(all);
  std::erase_if(all, [&](const Covered& covered) {
    return std::any_of(checks.duplicates.begin(), checks.duplicates.end(),
                       [&](const InputReport& duplicate) { return duplicate.path == covered.session->path; });
  });
  checks.warnings = far_apart_warnings(all);
  checks.world_size = common_world_size(all);
  if (checks.world_size) {
    for (auto& warning : world_size_warnings(all, *checks.world_size)) checks.warnings.push_back(std::move(warning));
  }
  return checks;
}

}  // namespace nsys_explain::ingest
