#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "ingest/file_names.hpp"
#include "ingest/rank_resolution.hpp"
#include "ingest/trace_content.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/intervals.hpp"
#include "nsys_explain/model/regex.hpp"

namespace nsys_explain::ingest {
namespace {

std::string file_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

/// Sum of durations: enough to tell a device that is worked on from one that is only touched.
Nanoseconds gpu_time_ns(const DeviceTrace& device) {
  Nanoseconds sum = 0;
  for (const auto& kernel : device.kernels) sum += kernel.end_ns - kernel.start_ns;
  for (const auto& launch : device.graph_launches) sum += launch.end_ns - launch.start_ns;
  return sum;
}

/// A call that tells its process' rank in a communicator: ranges around making and destroying one.
bool tells_rank(const NcclCall& call) {
  return call.rank >= 0 && call.rank < call.rank_count;
}

/// The devices of a process that are trace ranks (see identify_trace_ranks).
std::vector<const DeviceTrace*> working_devices(const ProcessTrace& process) {
  std::vector<Nanoseconds> times;
  Nanoseconds longest = 0;
  for (const auto& device : process.devices) {
    times.push_back(gpu_time_ns(device));
    longest = std::max(longest, times.back());
  }
  std::vector<const DeviceTrace*> result;
  for (std::size_t i = 0; i < process.devices.size(); ++i) {
    const DeviceTrace& device = process.devices[i];
    const bool named = std::any_of(process.nccl_calls.begin(), process.nccl_calls.end(), [&](const NcclCall& call) {
      return tells_rank(call) && call.device == device.device_id;
    });
    // Where no device ran a kernel, copies are all there is: then every device counts.
    const bool works = longest == 0 || (times[i] > 0 && times[i] >= longest / 100);
    if (named || works) result.push_back(&device);
  }
  return result;
}

/// Rank in the largest communicator this device is a member of; nothing where several of that size disagree.
std::optional<RankClaim> nccl_claim(const ProcessTrace& process, std::int32_t device_id, bool only_device) {
  std::int32_t size = 0, rank = -1;
  bool ambiguous = false;
  for (const auto& call : process.nccl_calls) {
    const bool of_device = call.device == device_id || (only_device && call.device < 0);
    if (!tells_rank(call) || !of_device || call.rank_count < size) continue;
    ambiguous = call.rank_count == size && (ambiguous || call.rank != rank);
    size = call.rank_count;
    rank = call.rank;
  }
  if (size == 0 || ambiguous) return std::nullopt;
  return RankClaim{RankSource::nccl_payload, rank, fmt::format("communicator of {} ranks", size)};
}

constexpr std::string_view process_entry = "rank map, by process";

std::optional<RankClaim> user_claim(const RankOverrides& overrides, const std::optional<Regex>& regex,
                                    const TraceRankIdentity& identity) {
  for (const auto& entry : overrides.entries) {
    if (entry_matches(entry, identity.key.path, identity.process_id, identity.key.device_id))
      return RankClaim{RankSource::user, entry.rank, std::string(entry.process_id ? process_entry : "rank map")};
  }
  if (const auto match = regex ? regex->find(identity.key.path) : std::nullopt) {
    const auto rank = parse_rank_number(match->first_group.value_or(""));
    if (rank) return RankClaim{RankSource::user, *rank, "rank regex"};
  }
  return std::nullopt;
}

TraceRankIdentity describe(const Trace& trace, const ProcessTrace& process, const DeviceTrace& device) {
  TraceRankIdentity identity;
  identity.key = {trace.session.path, process.global_pid, device.device_id};
  identity.process_id = process.process_id;
  identity.process_name = process.name;
  identity.host = trace.session.host;
  identity.gpu_name = device.gpu_name;
  identity.gpu_uuid = device.gpu_uuid;
  identity.is_gpu_presumed = device.is_gpu_presumed;
  identity.kernels = static_cast<std::int64_t>(device.kernels.size());
  identity.graph_launches = static_cast<std::int64_t>(device.graph_launches.size());
  return identity;
}

/// It is that of the process nsys launched, which of several is not known.
void forget_environment(std::vector<TraceRankIdentity>& identities) {
  for (TraceRankIdentity& identity : identities)
    std::erase_if(identity.claims, [](const RankClaim& claim) { return claim.source == RankSource::environment; });
}

bool has_host_events(const ProcessTrace& process) {
  return !process.api_calls.empty() || !process.nvtx_ranges.empty() || !process.os_calls.empty() ||
         !process.cpu_samples.empty();
}

std::optional<Regex> rank_regex(const RankOverrides& overrides) {
  check_rank_regex(overrides.regex);
  return overrides.regex.empty() ? std::nullopt : std::optional<Regex>(std::in_place, overrides.regex);
}

}  // namespace

bool entry_matches(const RankOverrides::Entry& entry, const std::string& path, std::int32_t process_id,
                   std::int32_t device_id) {
  if (entry.process_id && *entry.process_id != process_id) return false;
  if (entry.device_id && *entry.device_id != device_id) return false;
  const std::string name = file_name(path);
  return entry.pattern == path || entry.pattern == name || matches_pattern(entry.pattern, path) ||
         matches_pattern(entry.pattern, name);
}

std::vector<TraceRankIdentity> identify_trace_ranks(const Trace& trace, const RankOverrides& overrides) {
  const std::optional<Regex> regex = rank_regex(overrides);
  std::vector<TraceRankIdentity> identities;
  for (const auto& process : trace.processes) {
    const auto devices = working_devices(process);
    for (const DeviceTrace* device : devices) {
      TraceRankIdentity identity = describe(trace, process, *device);
      if (const auto claim = user_claim(overrides, regex, identity)) identity.claims.push_back(*claim);
      const bool only_device = devices.size() == 1;
      if (const auto claim = nccl_claim(process, device->device_id, only_device)) identity.claims.push_back(*claim);
      for (const auto& claim : process.claims) {
        // NCCL's calls were asked for this very device above.
        if (only_device && claim.source != RankSource::nccl_payload) identity.claims.push_back(claim);
      }
      identities.push_back(std::move(identity));
    }
  }
  return identities;
}

std::vector<TraceRankIdentity> identify_host_processes(const Trace& trace, const RankOverrides& overrides) {
  const std::optional<Regex> regex = rank_regex(overrides);
  const bool has_gpu_work = std::any_of(trace.processes.begin(), trace.processes.end(),
                                        [](const ProcessTrace& process) { return !process.devices.empty(); });
  DeviceTrace none;
  none.device_id = -1;
  std::vector<TraceRankIdentity> identities;
  for (const ProcessTrace& process : trace.processes) {
    if (!process.devices.empty() || (has_gpu_work ? !has_nccl_operations(process) : !has_host_events(process)))
      continue;
    TraceRankIdentity identity = describe(trace, process, none);
    if (const auto claim = user_claim(overrides, regex, identity)) identity.claims.push_back(*claim);
    identity.claims.insert(identity.claims.end(), process.claims.begin(), process.claims.end());
    identities.push_back(std::move(identity));
  }
  if (has_gpu_work || identities.size() > 1) forget_environment(identities);
  return identities;
}

std::vector<Warning> side_device_warnings(const Trace& trace) {
  std::int64_t count = 0;
  std::string first;
  for (const auto& process : trace.processes) {
    const auto working = working_devices(process);
    for (const auto& device : process.devices) {
      if (std::find(working.begin(), working.end(), &device) != working.end()) continue;
      if (++count == 1) first = fmt::format("device {} of process {}", device.device_id, process.process_id);
    }
  }
  if (count == 0) return {};
  return {
      {Severity::info, WarningSource::analysis, count,
       fmt::format(
           "{} in {} did less than 1 % of the GPU work of its process' main device{}: it is taken for a stray context, not for a rank, and left out; bind each process to its GPU (CUDA_VISIBLE_DEVICES, cudaSetDevice) before its first CUDA call",
           first, shell_quoted(trace.session.path),
           count == 1 ? "" : fmt::format(" (and {} more like this)", count - 1))}};
}

namespace {

using NameCounts = std::map<StringIndex, std::int64_t>;

/// How often a process runs kernels of each name.
NameCounts kernels_by_name(const ProcessTrace& process) {
  NameCounts counts;
  for (const DeviceTrace& device : process.devices) {
    std::vector<std::int64_t> of_kind(device.kernel_kinds.size());
    for (const Kernel kernel : device.kernels) ++of_kind[kernel.kind];
    for (std::size_t kind = 0; kind < of_kind.size(); ++kind)
      if (of_kind[kind] > 0) counts[device.kernel_kinds[kind].short_name] += of_kind[kind];
  }
  return counts;
}

bool is_mostly_in(const NameCounts& one, const NameCounts& other) {
  std::int64_t all = 0, common = 0;
  for (const auto& [name, count] : one) {
    all += count;
    common += other.contains(name) ? count : 0;
  }
  return 2 * common > all;
}

/// Each runs mostly what the other runs, too: a few fills and copies, which any program has, are not a rank's work.
bool do_the_same_work(const ProcessTrace& a, const ProcessTrace& b) {
  const NameCounts of_a = kernels_by_name(a), of_b = kernels_by_name(b);
  return is_mostly_in(of_a, of_b) && is_mostly_in(of_b, of_a);
}

bool claims_a_rank(const TraceRankIdentity& identity) {
  return std::any_of(identity.claims.begin(), identity.claims.end(), [](const RankClaim& claim) {
    const bool is_of_process = claim.source == RankSource::user && claim.detail == process_entry;
    return is_of_process || claim.source == RankSource::mpi_ranks || claim.source == RankSource::nccl_payload;
  });
}

Warning unsure_rank(const TraceRankIdentity& identity) {
  return {
      Severity::data_loss, WarningSource::analysis, 1,
      fmt::format(
          "whether process {} on device {} in {} is a rank is unsure: no collective of it was recorded, but it does the work of the ranks beside it, so it counts as one whose collectives are lost; record its NCCL kernels and ranges, or leave it out if it is a helper",
          identity.process_id, identity.key.device_id, shell_quoted(identity.key.path))};
}

bool is_one_gpu(const DeviceTrace& a, const DeviceTrace& b) {
  return a.gpu_uuid.empty() || b.gpu_uuid.empty() ? a.device_id == b.device_id : a.gpu_uuid == b.gpu_uuid;
}

/// What it uses of its GPU; `beside` is not filled.
HelperProcess helper_of(const Trace& trace, const ProcessTrace& process, const TraceRankIdentity& identity) {
  HelperProcess helper{
      identity.key, identity.process_id, identity.process_name, identity.host, identity.kernels, 0, 0, {}, {}};
  const DeviceTrace& own =
      *std::find_if(process.devices.begin(), process.devices.end(),
                    [&](const DeviceTrace& device) { return device.device_id == identity.key.device_id; });
  UnionLength busy;
  for (const Kernel kernel : own.kernels) busy.add({kernel.start_ns, kernel.end_ns});
  helper.busy_ns = busy.length_ns();
  Interval recorded{std::numeric_limits<Nanoseconds>::max(), std::numeric_limits<Nanoseconds>::min()};
  for (const ProcessTrace& any : trace.processes) {
    for (const DeviceTrace& device : any.devices) {
      if (!is_one_gpu(device, own)) continue;
      for (const Kernel kernel : device.kernels) {
        recorded.start_ns = std::min(recorded.start_ns, kernel.start_ns);
        recorded.end_ns = std::max(recorded.end_ns, kernel.end_ns);
      }
    }
  }
  helper.recorded_ns = recorded.end_ns > recorded.start_ns ? recorded.end_ns - recorded.start_ns : 0;
  return helper;
}

/// Fills `beside` of each helper.
void find_ranks_beside(const Trace& trace, RanksAndHelpers& told) {
  const auto device_of = [&](const TraceRankKey& key) -> const DeviceTrace* {
    for (const ProcessTrace& process : trace.processes) {
      for (const DeviceTrace& device : process.devices)
        if (process.global_pid == key.global_pid && device.device_id == key.device_id) return &device;
    }
    return nullptr;
  };
  for (HelperProcess& helper : told.helpers) {
    const DeviceTrace* const own = device_of(helper.key);
    for (const TraceRankIdentity& rank : told.ranks) {
      const DeviceTrace* const device = device_of(rank.key);
      if (device != nullptr && own != nullptr && !device->kernels.empty() && is_one_gpu(*device, *own))
        helper.beside.push_back(rank.key);
    }
  }
}

}  // namespace

RanksAndHelpers tell_helpers(const Trace& trace, std::vector<TraceRankIdentity> identities,
                             const std::vector<bool>& takes_part) {
  std::map<std::uint64_t, std::size_t> process_of;
  for (std::size_t p = 0; p < trace.processes.size(); ++p) process_of[trace.processes[p].global_pid] = p;
  const auto communicates = [&](const TraceRankIdentity& one) { return takes_part[process_of.at(one.key.global_pid)]; };
  const bool somebody_does = std::any_of(identities.begin(), identities.end(), communicates);
  RanksAndHelpers told;
  for (TraceRankIdentity& one : identities) {
    const ProcessTrace& process = trace.processes[process_of.at(one.key.global_pid)];
    if (!somebody_does || communicates(one) || claims_a_rank(one)) {
      told.ranks.push_back(std::move(one));
      continue;
    }
    // What a graph recorded as one interval holds, nobody knows.
    bool is_unsure = one.graph_launches > 0;
    for (std::size_t p = 0; p < trace.processes.size() && !is_unsure; ++p)
      is_unsure = takes_part[p] && do_the_same_work(process, trace.processes[p]);
    if (is_unsure) {
      told.warnings.push_back(unsure_rank(one));
      told.ranks.push_back(std::move(one));
    } else {
      told.helpers.push_back(helper_of(trace, process, one));
    }
  }
  if (told.ranks.size() > 1) forget_environment(told.ranks);
  find_ranks_beside(trace, told);
  return told;
}

std::vector<Warning> helper_warnings(const std::vector<HelperProcess>& helpers) {
  if (helpers.empty()) return {};
  const HelperProcess& most =
      *std::min_element(helpers.begin(), helpers.end(), [](const HelperProcess& a, const HelperProcess& b) {
        return std::tuple(-a.share(), a.key) < std::tuple(-b.share(), b.key);
      });
  return {
      {Severity::info, WarningSource::analysis, static_cast<std::int64_t>(helpers.size()),
       fmt::format(
           "process {} ({}) in {} takes part in no collective and nothing gives it a rank, so it is taken for a helper of the program and left out: its {} kernels keep device {} busy for {:.1f}% of the time that was recorded of it{}; name it in a rank map (PATTERN PID DEVICE RANK) if it is a rank",
           most.process_id, most.process_name.empty() ? "no name" : most.process_name, shell_quoted(most.key.path),
           most.kernels, most.key.device_id, 100 * most.share(),
           helpers.size() == 1 ? "" : fmt::format(" (and {} more like this)", helpers.size() - 1))}};
}

}  // namespace nsys_explain::ingest
