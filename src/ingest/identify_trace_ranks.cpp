#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingest/file_names.hpp"
#include "ingest/rank_resolution.hpp"
#include "ingest/trace_content.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/algorithms.hpp"
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

std::optional<RankClaim> user_claim(const RankOverrides& overrides, const std::optional<Regex>& regex,
                                    const TraceRankIdentity& identity) {
  for (const auto& entry : overrides.entries) {
    if (entry_matches(entry, identity.key.path, identity.process_id, identity.key.device_id))
      return RankClaim{RankSource::user, entry.rank, "rank map"};
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
  if (identities.size() > 1) {
    for (auto& identity : identities)
      std::erase_if(identity.claims, [](const RankClaim& claim) { return claim.source == RankSource::environment; });
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

/// As of a device that its process only touches (identify_trace_ranks).
constexpr std::int64_t at_least_one_in = 100;

Warning left_out(std::int64_t count, const TraceRankIdentity& first) {
  return {
      Severity::info, WarningSource::analysis, count,
      fmt::format(
          "process {} on device {} in {} takes part in no collective and runs less than 1 % of the kernels of the ranks beside it ({}){}: it is taken for a helper of the program, not for a rank, and left out; name it in a rank map if it is one",
          first.process_id, first.key.device_id, shell_quoted(first.key.path), first.kernels,
          count == 1 ? "" : fmt::format(" (and {} more like this)", count - 1))};
}

}  // namespace

RanksWithoutHelpers leave_out_helpers(std::vector<TraceRankIdentity> identities,
                                      std::span<const std::int64_t> collectives) {
  std::map<std::string, std::vector<std::int64_t>> kernels_of_export;  // of those with collectives
  for (std::size_t i = 0; i < identities.size(); ++i)
    if (collectives[i] > 0) kernels_of_export[identities[i].key.path].push_back(identities[i].kernels);
  RanksWithoutHelpers result;
  std::vector<TraceRankIdentity> helpers;
  for (std::size_t i = 0; i < identities.size(); ++i) {
    TraceRankIdentity& one = identities[i];
    const auto beside = kernels_of_export.find(one.key.path);
    const bool may_be_one = collectives[i] == 0 && one.graph_launches == 0 && one.claims.empty();
    const bool is_one =
        may_be_one && beside != kernels_of_export.end() && one.kernels * at_least_one_in < lower_median(beside->second);
    (is_one ? helpers : result.ranks).push_back(std::move(one));
  }
  if (!helpers.empty()) {
    const auto first =
        std::min_element(helpers.begin(), helpers.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    result.warnings.push_back(left_out(static_cast<std::int64_t>(helpers.size()), *first));
  }
  return result;
}

}  // namespace nsys_explain::ingest
