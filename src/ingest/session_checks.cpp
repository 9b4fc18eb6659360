#include "ingest/session_checks.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "model/hash.hpp"
#include "model/text.hpp"

namespace nsys_explain::ingest {
namespace {

/// A session with what it covers.
struct Covered {
  const Session* session = nullptr;
  SessionExtent extent;
};

Nanoseconds duration_ns(const Covered& covered) {
  return covered.extent.recorded.end_ns - covered.extent.recorded.start_ns;
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

/// The same events at the same time of one host, in whatever format. An equal recording of another host is no copy.
bool is_copy(const Covered& a, const Covered& b) {
  return a.session->host == b.session->host && a.session->utc_start_ns == b.session->utc_start_ns &&
         a.extent.recorded == b.extent.recorded && a.extent.digest == b.extent.digest;
}

/// Parts that show other processes each can be analysed together.
bool is_one_session(const Covered& a, const Covered& b) {
  if (a.session->host != b.session->host) return false;
  if (a.extent.digest != 0 && is_copy(a, b)) return true;
  const bool is_told = !a.extent.processes.empty() && !b.extent.processes.empty();
  return !a.session->uuid.empty() && a.session->uuid == b.session->uuid &&
         (!is_told || share_a_process(a.extent, b.extent));
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
    if (covered.extent.digest != 0) candidates[fmt::format("events {}", covered.extent.digest)].push_back(&covered);
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
  const bool copy = is_copy(other, kept);
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

template <class Events>
void widen(Interval& interval, bool& any, const Events& events) {
  for (const auto& event : events) {
    const Nanoseconds end = std::max(event.start_ns, event.end_ns);  // an open range counts with its start
    interval.start_ns = any ? std::min(interval.start_ns, event.start_ns) : event.start_ns;
    interval.end_ns = any ? std::max(interval.end_ns, end) : end;
    any = true;
  }
}

bool widen(Interval& interval, bool any, const ProcessTrace& process) {
  for (const DeviceTrace& device : process.devices) {
    widen(interval, any, device.kernels);
    widen(interval, any, device.memory_operations);
    widen(interval, any, device.graph_launches);
  }
  widen(interval, any, process.api_calls);
  widen(interval, any, process.nvtx_ranges);
  return any;
}

/// Of what ran where and when, in the order of the events; 0 where nothing did.
std::uint64_t digest_of(const Trace& trace) {
  std::uint64_t digest = 0;
  const auto add = [&](const auto& events) {
    for (const auto& event : events)
      digest = splitmix(splitmix(digest ^ static_cast<std::uint64_t>(event.start_ns)) ^
                        static_cast<std::uint64_t>(event.end_ns));
  };
  for (const ProcessTrace& process : trace.processes) {
    for (const DeviceTrace& device : process.devices) {
      digest = splitmix(digest ^ static_cast<std::uint64_t>(process.process_id) << 32U ^
                        static_cast<std::uint64_t>(device.device_id));
      add(device.kernels);
      add(device.memory_operations);
      add(device.graph_launches);
    }
  }
  return digest;
}

}  // namespace

SessionExtent session_extent(const Trace& trace) {
  SessionExtent extent;
  extent.world_size = trace.world_size;
  extent.launchers = trace.launchers;
  extent.digest = digest_of(trace);
  bool any = false;
  for (const auto& process : trace.processes) {
    for (const auto& device : process.devices)
      extent.processes.push_back(
          {process.process_id, device.gpu_uuid.empty() ? fmt::format("device {}", device.device_id) : device.gpu_uuid});
    any = widen(extent.recorded, any, process);
    for (const auto& call : process.nccl_calls)
      extent.largest_communicator = std::max(extent.largest_communicator, call.rank_count);
  }
  std::sort(extent.processes.begin(), extent.processes.end());
  return extent;
}

Interval recorded_interval(const ProcessTrace& process) {
  Interval recorded;
  widen(recorded, false, process);
  return recorded;
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
  checks.world_size = common_size(all, &SessionExtent::largest_communicator);
  if (checks.world_size) {
    for (auto& warning : world_size_warnings(all, *checks.world_size)) checks.warnings.push_back(std::move(warning));
  } else {
    checks.world_size = common_size(all, &SessionExtent::world_size);
  }
  return checks;
}

}  // namespace nsys_explain::ingest
